//! Galera clusters on this machine.

use std::ops::Deref;
use std::time::{Duration, Instant};

use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, ServerKind};
use refloat_wire::{ConnectOptions, Connection};

use crate::servers;

/// A cluster needs seconds to agree on who is a member; on a busy machine more.
const PATIENCE: Duration = Duration::from_secs(120);

/// A read that waits for all that was committed before.
const CAUSAL: &str = "SET SESSION wsrep_sync_wait = 1; SELECT 1";

/// Nodes that replicate to each other. They go away with this, and with this process however it ends.
///
/// Nodes are counted from 0 here: node 0 is the one named `<cluster>-1`. Everything else that can be done to a cluster, such
/// as asking its proxy, is in the sandbox's own type, which this dereferences to.
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
    /// Starts a cluster of so many nodes: the first one begins it, and the others join it by a full state transfer.
    ///
    /// # Panics
    /// When one does not start: a missing server is a failure, not a skip.
    pub fn start(kind: ServerKind, nodes: u32) -> Self {
        Self::start_with(&GaleraOptions::new(kind, nodes))
    }

    /// The same with options.
    ///
    /// # Panics
    /// When one does not start.
    pub fn start_with(options: &GaleraOptions) -> Self {
        match servers::sandbox().start_cluster_ephemeral(options) {
            Ok(cluster) => Self { cluster },
            Err(error) => panic!(
                "a cluster of {} does not start; scripts/install-servers installs it: {error}",
                options.kind
            ),
        }
    }

    /// A node, from 0.
    ///
    /// # Panics
    /// When there is none of this number.
    pub fn node(&self, index: usize) -> &GaleraNode {
        &self.nodes()[index]
    }

    /// The URL of a node, from 0, over TCP.
    pub fn url(&self, index: usize) -> String {
        self.node(index).url()
    }

    /// A connection to a node, from 0, as root over the unix socket, which works also when its network is cut off.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn connect(&self, index: usize) -> Connection {
        servers::connect(self.node(index))
    }

    /// How to connect to a node, from 0, as root over TCP.
    ///
    /// # Panics
    /// When the sandbox gives a URL that is none.
    pub fn target(&self, index: usize) -> ConnectOptions {
        let url = self.url(index);
        ConnectOptions::from_url(&url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    /// The answer of a node, from 0, to a small query, by the stock client: rows as lines, columns parted by tabs.
    ///
    /// # Panics
    /// When it refuses.
    #[track_caller]
    pub fn ask(&self, index: usize, sql: &str) -> String {
        let node = self.node(index);
        node.query(sql)
            .unwrap_or_else(|error| panic!("{}: {sql}: {error}", node.name()))
    }

    /// The value of a status of a node, from 0, without its prefix: `cluster_size`, `local_state_comment`. Empty: none.
    pub fn status_of(&self, index: usize, name: &str) -> String {
        let sql = format!("SHOW STATUS LIKE 'wsrep_{name}'");
        let answer = self.node(index).query(&sql).unwrap_or_default();
        answer.split('\t').nth(1).unwrap_or_default().to_owned()
    }

    /// Waits until a node, from 0, is in step with a cluster of so many nodes.
    ///
    /// # Panics
    /// When that takes longer than two minutes.
    #[track_caller]
    pub fn wait_synced(&self, index: usize, size: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = (
                self.status_of(index, "cluster_size"),
                self.status_of(index, "local_state_comment"),
            );
            // One that was frozen or cut off believes for a moment that nothing has happened; a read that waits for what
            // was committed before tells.
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
