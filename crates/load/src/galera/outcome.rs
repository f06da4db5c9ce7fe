//! The report on what a load did to a cluster.

use refloat_run::outcome::Bounded;
use serde::Serialize;

use super::pace::PacedNode;

/// What a load did to the nodes of a cluster.
#[derive(Debug, Clone, Serialize)]
pub struct GaleraOutcome {
    /// `wsrep_cluster_name`.
    pub cluster: String,
    /// Number of nodes when the load began.
    pub size: u64,
    /// Whether the load was held back when nodes could not keep up.
    pub paced: bool,
    /// Seconds that writers were held back, summed over all writers.
    pub held_seconds: f64,
    /// The nodes that were watched.
    pub nodes: Vec<PacedNode>,
    /// Statements that changed definitions of tables with rows in them. Each stopped the writes of
    /// the whole cluster.
    pub stalls: u64,
    /// Seconds that these statements took in total.
    pub stalled_seconds: f64,
    /// The longest of them, in seconds, and its text. `None` if there was none.
    pub longest_stall: Option<(f64, String)>,
    /// Tables without a primary key.
    pub without_primary_key: Bounded<String>,
    /// Tables and views whose rows are on the target node alone, or may be.
    pub not_replicated: Bounded<String>,
}
