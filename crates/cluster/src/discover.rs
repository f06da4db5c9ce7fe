//! From one node to all of its cluster.

use std::collections::HashSet;

use refloat_wire::{ConnectOptions, Connection, Target};

use crate::DiscoverError;
use crate::entrance::Entrance;
use crate::observe::{Member, impatient, values};

/// So many members are asked at the most, whatever a node says.
const MEMBERS_MOST: usize = 64;

/// The port of a server that names none.
pub(crate) const DEFAULT_PORT: u16 = 3306;

/// The members of a cluster, as one of them names them.
#[derive(Debug, Clone)]
pub struct Discovered {
    /// `wsrep_cluster_name`.
    pub name: String,
    /// The members that could be told from their addresses, the node that was asked among them.
    pub members: Vec<Member>,
    /// How many members there are besides, whose addresses are not told: nodes without `wsrep_node_incoming_address`, arbitrators.
    pub unnamed: usize,
    /// Whether the address that was asked is a load balancer's. Each node is then asked at the address that it tells.
    pub is_balanced: bool,
}

/// Asks a node for the addresses of the others. They are reached with the same account and options as the first.
///
/// # Errors
/// The node cannot be asked, or is none.
pub fn discover(seed: &ConnectOptions) -> Result<Discovered, DiscoverError> {
    let node = seed.describe();
    let failed = |source| DiscoverError::Server {
        node: node.clone(),
        source,
    };
    let mut server = Connection::connect(&impatient(seed)).map_err(failed)?;
    let variables = values(
        &mut server,
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_cluster_name', 'wsrep_node_incoming_address', 'wsrep_node_address', 'wsrep_provider')",
    )
    .map_err(failed)?;
    let provider = variables.get("wsrep_provider").map_or("", String::as_str);
    if provider.is_empty() || provider.eq_ignore_ascii_case("none") {
        return Err(DiscoverError::NoGalera {
            node,
            reason: "it has no wsrep_provider".to_owned(),
        });
    }
    let status = values(&mut server, "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_incoming_addresses', 'wsrep_local_index')").map_err(failed)?;
    let addresses = status
        .get("wsrep_incoming_addresses")
        .map_or("", String::as_str);
    let own = status
        .get("wsrep_local_index")
        .and_then(|index| index.parse::<usize>().ok());
    // Through a load balancer each connection may land on another node: none of them is reached by that address.
    let balancer = Entrance::look(seed)?.filter(|way| way.is_behind);
    // A tunnel, or a mapped port, leads to one node, and may be the only way to it.
    let is_balanced = balancer.is_some_and(|way| way.is_balanced() || way.direct.is_some());
    let (mut members, mut unnamed) = (Vec::new(), 0);
    let mut named = HashSet::new();
    for (at, address) in addresses.split(',').map(str::trim).enumerate() {
        if own == Some(at) && !is_balanced {
            // The way that is known to work.
            members.push(member(seed.clone()));
            continue;
        }
        match host_and_port(address) {
            Some((host, port))
                if members.len() < MEMBERS_MOST && named.insert((host.clone(), port)) =>
            {
                members.push(member(ConnectOptions {
                    host: Some(host),
                    port: Some(port),
                    socket: None,
                    ..seed.clone()
                }));
            }
            _ => unnamed += 1,
        }
    }
    if members.is_empty() {
        // Outside of a component a node names nobody.
        members.push(member(seed.clone()));
        unnamed = 0;
    }
    Ok(Discovered {
        name: variables
            .get("wsrep_cluster_name")
            .cloned()
            .unwrap_or_default(),
        members,
        unnamed,
        is_balanced,
    })
}

fn member(connect: ConnectOptions) -> Member {
    let name = match connect.target() {
        Target::Tcp(host, port) => format!("{host}:{port}"),
        Target::Unix(path) => path.display().to_string(),
    };
    Member {
        name,
        connect,
        host: None,
        datadir: None,
        log: None,
    }
}

/// `10.0.0.1:3306`, `[::1]:3306`, `db1`; `AUTO` and nothing are no addresses.
pub(crate) fn host_and_port(address: &str) -> Option<(String, u16)> {
    if address.is_empty()
        || address.eq_ignore_ascii_case("AUTO")
        || address.eq_ignore_ascii_case("unspecified")
    {
        return None;
    }
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().ok()?)
        }
        _ => (address, DEFAULT_PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    // A port of 0 is what an arbitrator names.
    (port != 0 && !host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let some = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(host_and_port("10.0.0.1:3307"), some("10.0.0.1", 3307));
        assert_eq!(host_and_port("[fe80::1]:3307"), some("fe80::1", 3307));
        assert_eq!(host_and_port("fe80::1"), some("fe80::1", 3306));
        assert_eq!(host_and_port("db1"), some("db1", 3306));
        for none in ["", "AUTO", "db1:0", "db1:x", ":3306"] {
            assert_eq!(host_and_port(none), None, "{none}");
        }
    }
}
