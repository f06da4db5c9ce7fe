//! What a load did to the nodes of a cluster.

use refloat_run::outcome::Bounded;
use serde::Serialize;

use super::pace::PacedNode;

/// What a load did to the nodes of a cluster.
#[derive(Debug, Clone, Serialize)]
pub struct GaleraOutcome {
    /// `wsrep_cluster_name`.
    pub cluster: String,
    /// Nodes in it when the load began.
    pub size: u64,
    /// Whether the load was held back when nodes could not follow.
    pub paced: bool,
    /// Seconds that writers were held back, all together.
    pub held_seconds: f64,
    /// The nodes that were watched.
    pub nodes: Vec<PacedNode>,
    /// Statements that changed definitions of tables with rows in them, each of which stopped the writes of the whole cluster.
    pub stalls: u64,
    /// Seconds that they took together.
    pub stalled_seconds: f64,
    /// The longest of them in seconds, and the statement.
    pub longest_stall: Option<(f64, String)>,
    /// Tables without a primary key.
    pub without_primary_key: Bounded<String>,
    /// Tables whose rows are on the node of the load alone.
    pub not_replicated: Bounded<String>,
}
