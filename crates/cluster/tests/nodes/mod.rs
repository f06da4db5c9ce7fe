//! The nodes of a sandbox's cluster, as what looks at them takes them.

use refloat_cluster::{ClusterFile, Host, Member};
use refloat_sandbox::{EphemeralCluster, GaleraNode};
use refloat_wire::{ConnectOptions, Connection};

/// A connection to a node over TCP.
pub fn connect(node: &GaleraNode) -> Connection {
    Connection::connect(&ConnectOptions::from_url(&node.url()).unwrap()).unwrap()
}

/// The nodes as the sandbox's own `cluster.toml` lists them.
pub fn members(cluster: &EphemeralCluster) -> Vec<Member> {
    let file = ClusterFile::read(&cluster.toml()).unwrap();
    let nodes = file.nodes.iter().zip(cluster.nodes());
    nodes
        .map(|(config, node)| Member {
            name: config.name.clone(),
            connect: ConnectOptions::from_url(&config.url).unwrap(),
            host: Some(Host::Local),
            datadir: Some(node.datadir()),
            log: None,
        })
        .collect()
}
