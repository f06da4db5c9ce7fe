//! What the mark of a table's first rows keeps of the table.

use serde::{Deserialize, Serialize};

use crate::deferral::Deferral;

/// What the mark of a table's first rows says of the table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TableDetail {
    /// Whether the load created it.
    pub created: bool,
    /// Rows that were there before.
    pub rows_before: u64,
    /// Whether its engine takes rows back.
    pub transactional: bool,
    /// Its definition before anything of it was put off.
    pub definition: Option<String>,
    /// What was put off.
    pub deferral: Option<Deferral>,
}
