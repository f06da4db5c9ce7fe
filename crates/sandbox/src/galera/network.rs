//! Gives every node of a cluster its own network, using the kernel's network namespaces.
//!
//! One namespace holds a bridge. Each node has a namespace with one interface, a cable to the
//! bridge. One more cable connects the bridge to the machine itself. To cut a node off, we set the
//! bridge's end of its cable down. The bridge has its own namespace so that the machine's packet
//! filters do not affect it.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::installation::run;
use crate::{Error, Result, files};

/// Where `ip netns` keeps named namespaces, see ip-netns(8).
const NAMESPACES: &str = "/run/netns";

/// Held while looking for a free network: networks belong to the machine, not to a sandbox.
const LOCK: &str = "/run/refloat-sandbox-networks.lock";
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

/// 198.18.0.0/15 is reserved for test networks (RFC 2544): 512 networks with 254 addresses each.
const NETWORKS: u64 = 512;

/// Added to a node's number, it gives the last octet of the node's address: node 1 is .11.
const FIRST_NODE: u8 = 10;

/// The network of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Part of the name of every namespace and interface of this network.
    token: String,
    /// Which of the [`NETWORKS`] it is, from 0.
    number: u16,
    nodes: u32,
}

/// The argument that makes nsenter(1) enter a namespace.
pub fn enter(namespace: &str) -> String {
    format!("--net={NAMESPACES}/{namespace}")
}

impl Network {
    /// Picks a token for names that nothing else on this machine uses. Creates nothing yet.
    pub fn new(nodes: u32) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NeedsRoot);
        }
        // An interface name is at most 15 bytes long, so the token is eight digits.
        let token = RandomState::new().hash_one(std::process::id()) & 0xffff_ffff;
        Ok(Self {
            token: format!("{token:08x}"),
            number: 0,
            nodes,
        })
    }

    /// The namespace of a node. Numbers start at 1.
    pub fn namespace(&self, node: u32) -> String {
        format!("refloat-{}-{node}", self.token)
    }

    /// The address of a node. Numbers start at 1.
    pub fn host(&self, node: u32) -> Ipv4Addr {
        self.address(FIRST_NODE.saturating_add(node.min(200) as u8))
    }

    /// This machine's own address in the network.
    pub fn gateway(&self) -> Ipv4Addr {
        self.address(1)
    }

    /// This machine's own interface in the network.
    pub fn interface(&self) -> String {
        format!("rfl{}", self.token)
    }

    /// The network's addresses, in the form that the server's accounts use.
    pub fn account_host(&self) -> String {
        let [a, b, c, _] = self.gateway().octets();
        format!("{a}.{b}.{c}.%")
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        let [high, low] = self.number.to_be_bytes();
        Ipv4Addr::new(198, 18 + high, low, last)
    }

    fn hub(&self) -> String {
        format!("refloat-{}-hub", self.token)
    }

    /// Claims a free network and creates its parts. `write_down` is called in between, so that the
    /// parts can be removed whatever happens.
    pub fn make(&mut self, write_down: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let Some(_lock) = files::Lock::take(Path::new(LOCK), LOCK_PATIENCE)? else {
            return Err(Error::Busy {
                name: "network".to_owned(),
            });
        };
        self.number = free_number()?;
        write_down(self)?;
        self.make_parts()
    }

    /// Creates the parts again if any are gone, as after a reboot.
    pub fn ensure(&self) -> Result<()> {
        if parts(self)
            .iter()
            .all(|name| Path::new(NAMESPACES).join(name).exists())
        {
            return Ok(());
        }
        self.remove()?;
        self.make_parts()
    }

    fn make_parts(&self) -> Result<()> {
        let hub = self.hub();
        let outside = self.interface();
        let gateway = format!("{}/24", self.gateway());
        ip(&["netns", "add", &hub])?;
        ip(&[
            "-n",
            &hub,
            "link",
            "add",
            "br0",
            "type",
            "bridge",
            "forward_delay",
            "0",
        ])?;
        ip(&["-n", &hub, "link", "set", "br0", "up"])?;
        ip(&[
            "link", "add", &outside, "type", "veth", "peer", "name", "root", "netns", &hub,
        ])?;
        ip(&["-n", &hub, "link", "set", "root", "master", "br0", "up"])?;
        ip(&["addr", "add", &gateway, "dev", &outside])?;
        ip(&["link", "set", &outside, "up"])?;
        for node in 1..=self.nodes {
            let inside = self.namespace(node);
            let port = port(node);
            let address = format!("{}/24", self.host(node));
            ip(&["netns", "add", &inside])?;
            ip(&[
                "-n", &hub, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns",
                &inside,
            ])?;
            ip(&["-n", &hub, "link", "set", &port, "master", "br0", "up"])?;
            ip(&["-n", &inside, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &inside, "link", "set", "eth0", "up"])?;
            ip(&["-n", &inside, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    /// Unplugs a node's cable, or plugs it in again.
    pub fn set_cable(&self, node: u32, plugged: bool) -> Result<()> {
        let state = if plugged { "up" } else { "down" };
        ip(&["-n", &self.hub(), "link", "set", &port(node), state])
    }

    /// Removes all parts. Parts that are already gone are not an error.
    pub fn remove(&self) -> Result<()> {
        let outside = self.interface();
        if Path::new("/sys/class/net").join(&outside).exists() {
            ip(&["link", "del", &outside])?;
        }
        for name in (1..=self.nodes)
            .map(|node| self.namespace(node))
            .chain([self.hub()])
        {
            if Path::new(NAMESPACES).join(&name).exists() {
                ip(&["netns", "del", &name])?;
            }
        }
        Ok(())
    }
}

/// The bridge's end of a node's cable.
fn port(node: u32) -> String {
    format!("n{node}")
}

/// A network in which this machine has no address and to which it has no route.
fn free_number() -> Result<u16> {
    let addresses = ip_output(&["-o", "-4", "addr", "show"])?;
    let routes = ip_output(&["-4", "route", "show", "table", "all"])?;
    let known = format!("{addresses}\n{routes}");
    let first = RandomState::new().hash_one("network");
    for attempt in 0..NETWORKS {
        let number = ((first % NETWORKS + attempt) % NETWORKS) as u16;
        let [high, low] = number.to_be_bytes();
        if !known.contains(&format!("198.{}.{low}.", 18 + high)) {
            return Ok(number);
        }
    }
    Err(Error::BadCluster {
        reason: "no network of 198.18.0.0/15 is free on this machine".to_owned(),
    })
}

fn ip(arguments: &[&str]) -> Result<()> {
    ip_output(arguments).map(drop)
}

fn ip_output(arguments: &[&str]) -> Result<String> {
    let what = format!("ip {}", arguments.join(" "));
    run(Command::new("ip").args(arguments), &what)
}

/// All namespaces of a network, for the guard process that cleans up after this one.
pub fn parts(network: &Network) -> Vec<String> {
    let nodes = (1..=network.nodes).map(|node| network.namespace(node));
    nodes.chain([network.hub()]).collect()
}

/// Checks that the programs that set up a network are installed.
pub fn check_programs() -> Result<()> {
    for program in ["ip", "nsenter"] {
        super::programs::find_on_host(program)?;
    }
    if fs::metadata(NAMESPACES).is_err() {
        // The first `ip netns add` would create it, but the check above needs nothing else.
        files::make_folder(Path::new(NAMESPACES))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_in_the_test_networks() {
        let network = |number| Network {
            token: "00c0ffee".to_owned(),
            number,
            nodes: 3,
        };
        assert_eq!(network(0).gateway(), Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(network(7).host(1), Ipv4Addr::new(198, 18, 7, 11));
        assert_eq!(network(511).host(3), Ipv4Addr::new(198, 19, 255, 13));
        assert_eq!(network(7).account_host(), "198.18.7.%");
        assert!(network(7).interface().len() <= 15);
    }
}
