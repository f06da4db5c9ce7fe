//! A prepared statement.

use crate::result::Column;

/// A prepared statement. It lives as long as its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The server's id of the statement.
    pub id: u32,
    /// Number of `?` placeholders.
    pub params: usize,
    /// The columns of its result; empty for INSERT and similar statements.
    pub columns: Vec<Column>,
}
