//! The nodes of a sandbox cluster, as members and connections.

use std::time::Duration;

use refloat_cluster::{ClusterFile, Member};
use refloat_host::Host;
use refloat_sandbox::{EphemeralCluster, GaleraNode};
use refloat_wire::{ConnectOptions, Connection};

/// Limit for every statement. A node that hangs fails the test instead of blocking it.
const LIMIT: Duration = Duration::from_secs(120);

/// Connects to a node over TCP.
pub fn connect(node: &GaleraNode) -> Connection {
    let mut options = ConnectOptions::from_url(&node.url()).unwrap();
    options.read_timeout = Some(LIMIT);
    Connection::connect(&options).unwrap()
}

/// The nodes as listed in the sandbox's own `cluster.toml`.
pub fn members(cluster: &EphemeralCluster) -> Vec<Member> {
    let file = ClusterFile::read(&cluster.toml()).unwrap();
    let nodes = file.nodes.iter();
    nodes
        .map(|config| Member {
            name: config.name.clone(),
            connect: ConnectOptions::from_url(&config.url).unwrap(),
            host: Some(Host::Local),
            datadir: config.datadir.clone(),
            log: config.log.clone(),
            defaults_file: config.defaults_file.clone(),
        })
        .collect()
}
