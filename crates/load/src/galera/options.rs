//! What can be asked of a load into a node of a Galera cluster.

use refloat_wire::ConnectOptions;
use serde::Serialize;

/// Share of the time that flow control may stop a cluster because of a load, when nobody says.
pub const MAX_PAUSED_DEFAULT: f64 = 0.05;

/// Where the rows of a load into a node of a cluster go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GaleraMode {
    /// To all nodes, by replication.
    Replicate,
    /// To this node alone, which has left its cluster; the others are to be built from it.
    Local,
}

/// What is asked of a load into a node of a Galera cluster. On other servers it says nothing.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GaleraOptions {
    /// Where the rows go; `None`: to all nodes, and into a server that is no node of a cluster.
    pub mode: Option<GaleraMode>,
    /// The other nodes: they are watched, and waited for.
    pub others: Vec<ConnectOptions>,
    /// Connections may land on different nodes of the cluster.
    pub through_proxy: bool,
    /// Rows of engines that do not replicate are written, although they stay on the node of the load.
    pub local_engines: bool,
    /// Share of the time, from 0 to 1, that flow control may stop any node for. With 1 nothing is held back, and indexes are built after
    /// the rows as on other servers. `None`: [`MAX_PAUSED_DEFAULT`] while others write, else 1.
    pub max_paused: Option<f64>,
}

impl GaleraOptions {
    /// Whether the addresses of all other nodes of a cluster of `size` are known.
    pub fn watches_all(&self, size: u64) -> bool {
        self.others.len() as u64 + 1 >= size
    }

    /// Share of the time that flow control may stop a node for.
    pub fn share(&self) -> f64 {
        self.max_paused.unwrap_or(MAX_PAUSED_DEFAULT)
    }
}
