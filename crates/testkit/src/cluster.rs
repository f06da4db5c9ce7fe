//! Galera clusters on the local machine, for tests.

use std::ops::Deref;
use std::time::{Duration, Instant};

use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, ServerKind};
use refloat_wire::{ConnectOptions, Connection};

use crate::servers;

/// Nodes take seconds to agree on the membership, and longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A read that waits for everything committed before it.
const CAUSAL: &str = "SET SESSION wsrep_sync_wait = 1; SELECT 1";

/// A Galera cluster that ends with this value, and with the process however it ends.
///
/// Nodes are numbered from 0: node 0 is named `<cluster>-1`. Other operations, such as those of the
/// proxy, are on [`EphemeralCluster`], which this type dereferences to.
#[derive(Debug)]
pub struct Cluster {
    cluster: EphemeralCluster,
}

impl Deref for Cluster {
    type Target = EphemeralCluster;

    fn deref(&self) -> &EphemeralCluster {
        &self.cluster
    }
}

impl Cluster {
    /// Starts a cluster of `nodes` nodes. The first bootstraps it, and the others join by SST.
    ///
    /// # Panics
    /// If a node does not start: a missing server is a failure, not a skip.
    pub fn start(kind: ServerKind, nodes: u32) -> Self {
        Self::start_with(&GaleraOptions::new(kind, nodes))
    }

    /// Like [`Cluster::start`], with options.
    ///
    /// # Panics
    /// If a node does not start.
    pub fn start_with(options: &GaleraOptions) -> Self {
        match servers::sandbox().start_cluster_ephemeral(options) {
            Ok(cluster) => Self { cluster },
            Err(error) => panic!(
                "a cluster of {} does not start; scripts/install-servers installs it: {error}",
                options.kind
            ),
        }
    }

    /// The node with this index.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn node(&self, index: usize) -> &GaleraNode {
        &self.nodes()[index]
    }

    /// The TCP URL of a node.
    pub fn url(&self, index: usize) -> String {
        self.node(index).url()
    }

    /// Connects to a node as root over the Unix socket, which works even when its network is cut
    /// off.
    ///
    /// # Panics
    /// If the node does not answer.
    pub fn connect(&self, index: usize) -> Connection {
        servers::connect(self.node(index))
    }

    /// Connection options for a node, as root over TCP.
    ///
    /// # Panics
    /// If the sandbox returns an invalid URL.
    pub fn target(&self, index: usize) -> ConnectOptions {
        let url = self.url(index);
        ConnectOptions::from_url(&url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    /// Runs a small query on a node with the stock client. Returns rows as lines with tab-separated
    /// columns.
    ///
    /// # Panics
    /// If the node refuses.
    #[track_caller]
    pub fn ask(&self, index: usize, sql: &str) -> String {
        let node = self.node(index);
        node.query(sql)
            .unwrap_or_else(|error| panic!("{}: {sql}: {error}", node.name()))
    }

    /// The value of a node's status variable, named without its `wsrep_` prefix (such as
    /// `cluster_size` or `local_state_comment`). Empty if there is none.
    pub fn status_of(&self, index: usize, name: &str) -> String {
        let sql = format!("SHOW STATUS LIKE 'wsrep_{name}'");
        let answer = self.node(index).query(&sql).unwrap_or_default();
        answer.split('\t').nth(1).unwrap_or_default().to_owned()
    }

    /// Waits until a node is synced with a cluster of `size` nodes.
    ///
    /// # Panics
    /// If that takes longer than two minutes.
    #[track_caller]
    pub fn wait_synced(&self, index: usize, size: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = (
                self.status_of(index, "cluster_size"),
                self.status_of(index, "local_state_comment"),
            );
            // A node that was frozen or cut off does not notice at once. A read that waits for
            // earlier commits reveals it.
            let causal = || self.node(index).query(CAUSAL).is_ok();
            if now == (size.to_string(), "Synced".to_owned()) && causal() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{} is not in step with {size} nodes: {now:?}",
                self.node(index).name()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
