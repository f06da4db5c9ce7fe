//! Finds all nodes of a cluster from one of them.

use std::collections::HashSet;
use std::thread;

use refloat_wire::{ConnectOptions, Connection, Error, Target};

use crate::DiscoverError;
use crate::address::host_and_port;
use crate::entrance::Entrance;
use crate::member::{Member, impatient};
use crate::observe::values;

/// Maximum number of members to query, whatever a node reports.
const MEMBERS_MOST: usize = 64;

/// The members of a cluster, as its nodes report them.
#[derive(Debug, Clone)]
pub struct Discovered {
    /// `wsrep_cluster_name`.
    pub name: String,
    /// The members with known addresses, including the node that was queried.
    pub members: Vec<Member>,
    /// Number of members without a known address: nodes without `wsrep_node_incoming_address`, and
    /// arbitrators.
    pub unnamed: usize,
    /// Whether the address belongs to a load balancer. Each node is then queried at the address
    /// that it reports.
    pub is_balanced: bool,
}

/// Asks a node for the addresses of the others. They are reached with the account and options of
/// the first.
///
/// # Errors
/// The node cannot be queried, or is not a Galera node.
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
    let member_list = MemberList::of(&mut server).map_err(failed)?;
    // Each connection through a load balancer may land on another node, so its address identifies
    // none of them.
    let balancer = Entrance::look(seed)?.filter(|way| way.is_behind);
    // A tunnel or a mapped port leads to one node, and may be the only way to it.
    let is_balanced = balancer.is_some_and(|way| way.is_balanced() || way.direct.is_some());
    let mut found = Found::default();
    found.take(&member_list, seed, !is_balanced);
    found.ask_all(&member_list, seed);
    let mut unnamed = found.unnamed();
    let mut members = found.members;
    if members.is_empty() {
        // Outside a component, a node reports no members.
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

/// What a node reports about the members of its component.
#[derive(Debug, Default)]
struct MemberList {
    /// `wsrep_cluster_state_uuid`, which tells clusters apart.
    uuid: String,
    addresses: Vec<String>,
    /// Its own index in `addresses`.
    local_index: Option<usize>,
}

impl MemberList {
    fn of(server: &mut Connection) -> Result<Self, Error> {
        let status = values(
            server,
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_incoming_addresses', 'wsrep_local_index', 'wsrep_cluster_state_uuid')",
        )?;
        let text = |name: &str| status.get(name).map_or("", String::as_str);
        let addresses = text("wsrep_incoming_addresses").split(',');
        Ok(Self {
            uuid: text("wsrep_cluster_state_uuid").to_owned(),
            addresses: addresses.map(|one| one.trim().to_owned()).collect(),
            local_index: text("wsrep_local_index").parse().ok(),
        })
    }
}

/// The members that nodes reported. One node's list may lack a member for as long as both run,
/// while another's has it.
#[derive(Debug, Default)]
struct Found {
    members: Vec<Member>,
    named: HashSet<(String, u16)>,
    /// Length of the longest list.
    most: usize,
}

impl Found {
    fn unnamed(&self) -> usize {
        self.most.saturating_sub(self.members.len())
    }

    /// Adds a node's answer. `is_own`: the queried address is the node's own, and known to work.
    fn take(&mut self, list: &MemberList, seed: &ConnectOptions, is_own: bool) {
        self.most = self.most.max(list.addresses.len());
        for (at, address) in list.addresses.iter().enumerate() {
            let known = host_and_port(address);
            if is_own && list.local_index == Some(at) {
                self.named.extend(known);
                self.members.push(member(seed.clone()));
                continue;
            }
            match known {
                Some(known) if self.named.contains(&known) => {}
                Some((host, port)) if self.members.len() < MEMBERS_MOST => {
                    self.named.insert((host.clone(), port));
                    self.members.push(member(ConnectOptions {
                        host: Some(host),
                        port: Some(port),
                        socket: None,
                        ..seed.clone()
                    }));
                }
                _ => {}
            }
        }
    }

    /// Asks every reported node for its list, until no list has a new name. A node that does not
    /// answer, or is in another cluster, adds nothing.
    fn ask_all(&mut self, first: &MemberList, seed: &ConnectOptions) {
        let mut asked = 0;
        while asked < self.members.len() {
            let next: Vec<ConnectOptions> = self.members[asked..]
                .iter()
                .map(|member| impatient(&member.connect))
                .collect();
            asked = self.members.len();
            let ask = |connect: &ConnectOptions| MemberList::of(&mut Connection::connect(connect)?);
            let answers: Vec<Result<MemberList, Error>> = thread::scope(|scope| {
                let threads: Vec<_> = next
                    .iter()
                    .map(|one| scope.spawn(move || ask(one)))
                    .collect();
                let ended = threads.into_iter().filter_map(|thread| thread.join().ok());
                ended.collect()
            });
            for list in answers.into_iter().flatten() {
                if list.uuid == first.uuid {
                    self.take(&list, seed, false);
                }
            }
        }
    }
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
        defaults_file: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_one_node_does_not_name_is_found_by_another() {
        let list = |addresses: &[&str], local_index| MemberList {
            addresses: addresses.iter().map(|one| (*one).to_owned()).collect(),
            local_index,
            ..MemberList::default()
        };
        let seed = ConnectOptions {
            host: Some("balancer".to_owned()),
            ..ConnectOptions::default()
        };
        let names = |found: &Found| -> Vec<String> {
            let members = found.members.iter();
            members.map(|member| member.name.clone()).collect()
        };
        let mut found = Found::default();
        found.take(&list(&["", "a:1", "b:2"], Some(1)), &seed, false);
        assert_eq!(
            (names(&found), found.unnamed()),
            (vec!["a:1".to_owned(), "b:2".to_owned()], 1)
        );
        found.take(&list(&["c:3", "a:1", "b:2"], Some(0)), &seed, false);
        assert_eq!(
            (names(&found).join(" "), found.unnamed()),
            ("a:1 b:2 c:3".to_owned(), 0)
        );
        // The queried address replaces the node's own.
        let mut found = Found::default();
        found.take(&list(&["a:1", "b:2"], Some(0)), &seed, true);
        found.take(&list(&["a:1", "b:2"], Some(1)), &seed, false);
        assert_eq!(names(&found), ["balancer:3306", "b:2"]);
    }
}
