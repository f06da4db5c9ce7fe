//! What the mark of a table's first rows records about the table.

use serde::{Deserialize, Serialize};

use crate::deferral::Deferral;

/// What the mark of a table's first rows records about the table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TableDetail {
    /// Whether the load created it.
    pub created: bool,
    /// Rows that were there before.
    pub rows_before: u64,
    /// Whether its engine has transactions.
    pub transactional: bool,
    /// Its definition before anything in it was deferred.
    pub definition: Option<String>,
    /// The deferred indexes and foreign keys.
    pub deferral: Option<Deferral>,
}
