//! The way into a cluster: whether an address belongs to a node or to a load balancer, and how to
//! reach the nodes.

use std::collections::BTreeMap;

use refloat_wire::options::DEFAULT_PORT;
use refloat_wire::{ConnectOptions, Connection, Error, Target};

use crate::DiscoverError;
use crate::address::host_and_port;
use crate::member::impatient;
use crate::observe::values;

/// How many connections are held open at once to see on which nodes they land. Balancers that use
/// the least connections or round robin spread them.
const LOOKS: usize = 6;

/// A node that a connection landed on.
#[derive(Debug, Clone)]
pub struct Landed {
    /// `wsrep_node_name`.
    pub name: String,
    /// Its own address, if the cluster reports it.
    pub address: Option<ConnectOptions>,
}

/// How an address leads into a cluster.
#[derive(Debug, Clone)]
pub struct Entrance {
    /// `wsrep_cluster_name`.
    pub cluster: String,
    /// The node that the first connection landed on.
    pub node: Landed,
    /// Address that reaches that node directly. `None`: no address that the cluster reports does.
    pub direct: Option<ConnectOptions>,
    /// The other nodes, by the addresses that the cluster reports.
    pub others: Vec<ConnectOptions>,
    /// Names of all nodes that connections landed on.
    pub seen: Vec<String>,
    /// Whether the address belongs to something in front of the node.
    pub is_behind: bool,
}

impl Entrance {
    /// Whether connections land on different nodes.
    pub fn is_balanced(&self) -> bool {
        self.seen.len() > 1
    }

    /// Finds out where connections to this address land. `None`: the server is not a node of a
    /// running cluster.
    ///
    /// # Errors
    /// The server cannot be queried.
    pub fn look(address: &ConnectOptions) -> Result<Option<Self>, DiscoverError> {
        let failed = |source| DiscoverError::Server {
            node: address.describe(),
            source,
        };
        let mut first = Connection::connect(&impatient(address)).map_err(failed)?;
        let Some(identity) = Identity::of(&mut first).map_err(failed)? else {
            return Ok(None);
        };
        let mut nodes = BTreeMap::from([(identity.id.clone(), identity.clone())]);
        let mut held = vec![first];
        // A socket leads to one server.
        let looks = match address.target() {
            Target::Tcp(..) => LOOKS,
            Target::Unix(_) => 1,
        };
        while held.len() < looks {
            // A balancer or server may refuse more connections; what was seen so far counts.
            let Ok(mut next) = Connection::connect(&impatient(address)) else {
                break;
            };
            if let Ok(Some(other)) = Identity::of(&mut next) {
                nodes.entry(other.id.clone()).or_insert(other);
            }
            held.push(next);
        }
        drop(held);
        let named = identity.own_address(address);
        let is_behind = nodes.len() > 1 || !leads_to_itself(address, &identity);
        let direct = if is_behind {
            named.clone().filter(|named| leads_to(named, &identity.id))
        } else {
            Some(address.clone())
        };
        let others = identity.others(address);
        Ok(Some(Self {
            cluster: identity.cluster.clone(),
            seen: nodes.values().map(|one| one.name.clone()).collect(),
            node: Landed {
                name: identity.name.clone(),
                address: named,
            },
            direct,
            others,
            is_behind,
        }))
    }
}

/// What a node reports about itself.
#[derive(Debug, Clone)]
struct Identity {
    /// `wsrep_gcomm_uuid`, unique to each member; if that is empty, `wsrep_node_name`.
    id: String,
    name: String,
    cluster: String,
    index: Option<usize>,
    addresses: Vec<String>,
    port: u16,
}

impl Identity {
    fn of(server: &mut Connection) -> Result<Option<Self>, Error> {
        let variables = values(
            server,
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_provider', 'wsrep_cluster_name', 'wsrep_node_name', 'port')",
        )?;
        let text = |values: &crate::node::Values, name: &str| {
            values.get(name).cloned().unwrap_or_default()
        };
        let provider = text(&variables, "wsrep_provider");
        if provider.is_empty() || provider.eq_ignore_ascii_case("none") {
            return Ok(None);
        }
        let status = values(
            server,
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_gcomm_uuid', 'wsrep_local_index', 'wsrep_incoming_addresses', 'wsrep_connected')",
        )?;
        if !text(&status, "wsrep_connected").eq_ignore_ascii_case("on") {
            return Ok(None);
        }
        let name = text(&variables, "wsrep_node_name");
        let id = text(&status, "wsrep_gcomm_uuid");
        Ok(Some(Self {
            id: if id.is_empty() { name.clone() } else { id },
            name,
            cluster: text(&variables, "wsrep_cluster_name"),
            index: text(&status, "wsrep_local_index").parse().ok(),
            addresses: text(&status, "wsrep_incoming_addresses")
                .split(',')
                .map(|address| address.trim().to_owned())
                .collect(),
            port: text(&variables, "port").parse().unwrap_or(DEFAULT_PORT),
        }))
    }

    fn own_address(&self, like: &ConnectOptions) -> Option<ConnectOptions> {
        let address = self.addresses.get(self.index?)?;
        host_and_port(address).map(|place| at(like, place))
    }

    fn others(&self, like: &ConnectOptions) -> Vec<ConnectOptions> {
        let others = self.addresses.iter().enumerate();
        others
            .filter(|(at, _)| Some(*at) != self.index)
            .filter_map(|(_, address)| host_and_port(address))
            .map(|place| at(like, place))
            .collect()
    }
}

/// The same account and options at another address.
fn at(like: &ConnectOptions, (host, port): (String, u16)) -> ConnectOptions {
    ConnectOptions {
        host: Some(host),
        port: Some(port),
        socket: None,
        ..like.clone()
    }
}

/// Whether an address can be the node's own. A balancer, a tunnel or a mapped port listens on
/// another port. A balancer with the same port on a separate machine is detected when connections
/// land on different nodes.
fn leads_to_itself(address: &ConnectOptions, identity: &Identity) -> bool {
    match address.target() {
        Target::Tcp(_, port) => port == identity.port,
        Target::Unix(_) => true,
    }
}

fn leads_to(address: &ConnectOptions, id: &str) -> bool {
    Connection::connect(&impatient(address))
        .and_then(|mut server| Identity::of(&mut server))
        .is_ok_and(|identity| identity.is_some_and(|identity| identity.id == id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            id: "a".to_owned(),
            name: "one".to_owned(),
            cluster: "c".to_owned(),
            index: Some(1),
            addresses: vec![
                "10.0.0.3:3307".to_owned(),
                "10.0.0.1:3307".to_owned(),
                String::new(),
            ],
            port: 3307,
        }
    }

    #[test]
    fn addresses_of_the_cluster() {
        let like = ConnectOptions {
            host: Some("vip".to_owned()),
            port: Some(3306),
            user: "app".to_owned(),
            ..ConnectOptions::default()
        };
        let of_node = identity().own_address(&like).unwrap();
        assert_eq!(of_node.describe(), "app@10.0.0.1:3307");
        let others = identity().others(&like);
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].describe(), "app@10.0.0.3:3307");
        assert!(!leads_to_itself(&like, &identity()));
        assert!(leads_to_itself(&of_node, &identity()));
    }
}
