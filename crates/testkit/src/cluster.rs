//! Galera clusters on this machine.

use std::collections::HashSet;

use refloat_sandbox::{Ephemeral, Instance, ServerKind, StartOptions, free_port};

use crate::servers;

/// Where Debian's package galera-4 puts the library that the server loads.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// Nodes that replicate to each other. They go away with this, the last one first.
pub struct Cluster {
    nodes: Vec<Ephemeral>,
}

impl Cluster {
    /// Starts a cluster of so many nodes: the first one begins it, and the others join it by a full state transfer.
    ///
    /// # Panics
    /// When one does not start: a missing server is a failure, not a skip.
    pub fn start(kind: ServerKind, nodes: usize) -> Self {
        let mut cluster = Self { nodes: Vec::new() };
        let mut first = None;
        for _ in 0..nodes {
            let [group, transfer, increments] = free_ports();
            let members = first.map_or(String::new(), |port| format!("127.0.0.1:{port}"));
            first.get_or_insert(group);
            let provider = format!(
                "base_host=127.0.0.1;base_port={group};gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{increments}"
            );
            let options = StartOptions::new(kind)
                .option("wsrep_on", "ON")
                .option("wsrep_provider", PROVIDER)
                .option("wsrep_cluster_address", format!("gcomm://{members}"))
                .option("wsrep_node_address", "127.0.0.1")
                .option("wsrep_sst_method", "rsync")
                .option("wsrep_sst_receive_address", format!("127.0.0.1:{transfer}"))
                .option("wsrep_provider_options", provider)
                .option("binlog_format", "ROW")
                .option("innodb_autoinc_lock_mode", "2");
            cluster.nodes.push(servers::start(&options));
        }
        cluster
    }

    /// A node, from 0.
    ///
    /// # Panics
    /// When there is none of this number.
    pub fn node(&self, index: usize) -> &Instance {
        &self.nodes[index]
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The node that began the cluster has no other to wait for.
        while self.nodes.pop().is_some() {}
    }
}

/// Ports that nobody uses now; the sandbox gives the server its own.
fn free_ports<const N: usize>() -> [u16; N] {
    let mut taken = HashSet::new();
    [(); N].map(|()| {
        let port = free_port(&taken).unwrap_or_else(|error| panic!("{error}"));
        taken.insert(port);
        port
    })
}
