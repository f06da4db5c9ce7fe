//! Options for a load into a node of a Galera cluster.

use refloat_wire::ConnectOptions;
use serde::Serialize;

/// Default share of the time that flow control may stop a cluster because of a load.
pub const MAX_PAUSED_DEFAULT: f64 = 0.05;

/// Where the rows of a load into a cluster node go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GaleraMode {
    /// To all nodes, by replication.
    Replicate,
    /// To this node alone, which has left its cluster: the others have to be built from it
    /// afterwards.
    Local,
}

/// Options for a load into a node of a Galera cluster. On other servers they have no effect, except
/// that [`GaleraMode::Replicate`] is refused.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GaleraOptions {
    /// Where the rows go. `None`: to all nodes of a cluster, or into a server that is not a node.
    pub mode: Option<GaleraMode>,
    /// The other nodes, to watch and to wait for.
    pub others: Vec<ConnectOptions>,
    /// Whether connections may land on different nodes of the cluster.
    pub through_proxy: bool,
    /// Whether to write rows of engines that do not replicate, although they stay on the target
    /// node.
    pub local_engines: bool,
    /// Share of the time, from 0 to 1, that flow control may stop any node. With 1 the load is
    /// never held back, and indexes are built after the rows as on other servers. `None`:
    /// [`MAX_PAUSED_DEFAULT`] while others write, else 1.
    pub max_paused: Option<f64>,
}

impl GaleraOptions {
    /// Whether the addresses of all other nodes are known, in a cluster of `size` nodes.
    pub fn watches_all(&self, size: u64) -> bool {
        self.others.len() as u64 + 1 >= size
    }

    /// Share of the time, from 0 to 1, that flow control may stop a node.
    pub fn share(&self) -> f64 {
        self.max_paused.unwrap_or(MAX_PAUSED_DEFAULT)
    }
}
