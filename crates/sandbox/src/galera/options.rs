//! Which cluster to start.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::{check_option, plain_name};
use crate::{Error, Result, ServerKind, Tls};

/// The most nodes in one cluster: enough for every experiment, and every node gets an address in a
/// network of 254.
pub const MOST_NODES: u32 = 9;

/// The server option that is split up and merged with the sandbox's own provider options.
const PROVIDER_OPTIONS: &str = "wsrep-provider-options";

/// Provider options that keep nodes apart.
const RESERVED_PROVIDER_OPTIONS: [&str; 5] = [
    "base_dir",
    "base_host",
    "base_port",
    "gmcast.listen_addr",
    "ist.recv_addr",
];

/// Options for the server's command line, in order: name without dashes, and value.
pub type ServerOptions = Vec<(String, Option<String>)>;

/// How a node gets a full copy of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum SstMethod {
    /// By rsync; the donor takes no writes meanwhile.
    #[default]
    Rsync,
    /// By mariadb-backup; the donor keeps serving.
    Mariabackup,
}

impl SstMethod {
    /// The value of the server option `wsrep_sst_method`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rsync => "rsync",
            Self::Mariabackup => "mariabackup",
        }
    }
}

impl fmt::Display for SstMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SstMethod {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "rsync" => Ok(Self::Rsync),
            "mariabackup" => Ok(Self::Mariabackup),
            _ => Err(Error::BadCluster {
                reason: format!(
                    "unknown way of state transfer {text:?}: known are rsync and mariabackup"
                ),
            }),
        }
    }
}

/// How the proxy in front of a cluster decides which nodes to send connections to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaproxyOptions {
    /// Ports of HTTP health checks, one per node in their order: a node is up if it answers `GET /`
    /// with 200. Empty: a node is up if its client port accepts TCP connections.
    pub http_check_ports: Vec<u16>,
    /// Ports of agent checks, one per node in their order. The agent decides whether a node that is
    /// up should be drained. With agents, the HTTP checks request `/alive`, which leaves that
    /// decision to them.
    pub agent_check_ports: Vec<u16>,
}

/// Describes the cluster to start.
#[derive(Debug, Clone)]
pub struct GaleraOptions {
    /// Which server the nodes run; only `MariaDB` has Galera.
    pub kind: ServerKind,
    /// The number of nodes, 1 to 9.
    pub nodes: u32,
    /// The cluster's name. `None`: `galera`, with a number appended if it is taken.
    pub name: Option<String>,
    /// How joining nodes get a full copy of the data.
    pub sst: SstMethod,
    /// Options for the command lines of all nodes. Kept for restarts.
    pub options: ServerOptions,
    /// Options for the command line of one node, by its number from 1. They follow the ones for all
    /// nodes.
    pub node_options: BTreeMap<u32, ServerOptions>,
    /// Provider options for all nodes, such as `gcache.size`.
    pub provider_options: Vec<(String, String)>,
    /// Provider options for one node, by its number from 1.
    pub node_provider_options: BTreeMap<u32, Vec<(String, String)>>,
    /// Which certificates the nodes have.
    pub tls: Tls,
    /// Gives every node a network of its own, which can be cut and healed. Requires root.
    pub isolated: bool,
    /// Puts a proxy in front of the nodes. `None`: no proxy.
    pub haproxy: Option<HaproxyOptions>,
}

impl GaleraOptions {
    /// A cluster with this many nodes on 127.0.0.1, with state transfers by rsync and no TLS.
    pub const fn new(kind: ServerKind, nodes: u32) -> Self {
        Self {
            kind,
            nodes,
            name: None,
            sst: SstMethod::Rsync,
            options: Vec::new(),
            node_options: BTreeMap::new(),
            provider_options: Vec::new(),
            node_provider_options: BTreeMap::new(),
            tls: Tls::Off,
            isolated: false,
            haproxy: None,
        }
    }

    /// Sets the cluster's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how joining nodes get a full copy of the data.
    #[must_use]
    pub const fn sst(mut self, method: SstMethod) -> Self {
        self.sst = method;
        self
    }

    /// Adds an option with a value to the command lines of all nodes. `wsrep_provider_options` is
    /// merged with the options that the sandbox needs itself.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), Some(value.into())));
        self
    }

    /// Adds an option with a value to the command line of one node, by its number from 1.
    #[must_use]
    pub fn node_option(
        mut self,
        number: u32,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        let options = self.node_options.entry(number).or_default();
        options.push((key.into(), Some(value.into())));
        self
    }

    /// Adds a provider option for all nodes.
    #[must_use]
    pub fn provider_option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.provider_options.push((key.into(), value.into()));
        self
    }

    /// Adds a provider option for one node, by its number from 1.
    #[must_use]
    pub fn node_provider_option(
        mut self,
        number: u32,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        let options = self.node_provider_options.entry(number).or_default();
        options.push((key.into(), value.into()));
        self
    }

    /// Sets which certificates the nodes have.
    #[must_use]
    pub const fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Gives every node a network of its own. Requires root.
    #[must_use]
    pub const fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Puts a proxy in front of the nodes.
    #[must_use]
    pub fn haproxy(mut self, options: HaproxyOptions) -> Self {
        self.haproxy = Some(options);
        self
    }

    /// Checks everything that can be checked without starting anything, and splits
    /// `wsrep_provider_options`.
    pub(crate) fn checked(mut self) -> Result<Self> {
        if !self.kind.is_mariadb() {
            return Err(Error::NoGalera { kind: self.kind });
        }
        let bad = |reason: String| Err(Error::BadCluster { reason });
        if !(1..=MOST_NODES).contains(&self.nodes) {
            return bad(format!(
                "a cluster of {} nodes: 1 to {MOST_NODES} are possible",
                self.nodes
            ));
        }
        let numbers = self.node_options.keys();
        for number in numbers.chain(self.node_provider_options.keys()) {
            if !(1..=self.nodes).contains(number) {
                return bad(format!(
                    "an option for node {number}, but the nodes are 1 to {}",
                    self.nodes
                ));
            }
        }
        take_provider_options(&mut self.options, &mut self.provider_options)?;
        for (number, options) in &mut self.node_options {
            let target = self.node_provider_options.entry(*number).or_default();
            take_provider_options(options, target)?;
        }
        let all = self.node_provider_options.values().flatten();
        for (key, value) in self.provider_options.iter().chain(all) {
            check_provider_option(key, value)?;
        }
        for (key, value) in self.all_options() {
            check_option(key)?;
            if value.as_deref().is_some_and(|value| value.contains('\n')) {
                return bad(format!("the value of {key:?} has more than one line"));
            }
        }
        if let Some(haproxy) = &self.haproxy {
            haproxy.check(self.nodes)?;
        }
        Ok(self)
    }

    fn all_options(&self) -> impl Iterator<Item = &(String, Option<String>)> {
        self.options
            .iter()
            .chain(self.node_options.values().flatten())
    }

    /// The options for the command line of one node.
    pub(crate) fn of_node(&self, number: u32) -> ServerOptions {
        let of_this = self.node_options.get(&number).into_iter().flatten();
        self.options.iter().chain(of_this).cloned().collect()
    }

    /// The provider options for one node.
    pub(crate) fn provider_options_of(
        &self,
        number: u32,
    ) -> impl Iterator<Item = &(String, String)> {
        let of_this = self.node_provider_options.get(&number);
        self.provider_options
            .iter()
            .chain(of_this.into_iter().flatten())
    }
}

impl HaproxyOptions {
    pub(crate) fn check(&self, nodes: u32) -> Result<()> {
        for (ports, what) in [
            (&self.http_check_ports, "health checks"),
            (&self.agent_check_ports, "agent checks"),
        ] {
            if !ports.is_empty() && ports.len() != nodes as usize {
                return Err(Error::BadCluster {
                    reason: format!("{} ports of {what} for {nodes} nodes", ports.len()),
                });
            }
        }
        Ok(())
    }
}

/// Moves `wsrep_provider_options=a=b;c=d` over to the provider options.
fn take_provider_options(from: &mut ServerOptions, to: &mut Vec<(String, String)>) -> Result<()> {
    for (_, value) in from.extract_if(.., |(key, _)| plain_name(key) == PROVIDER_OPTIONS) {
        let text = value.unwrap_or_default();
        for part in text
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let Some((key, value)) = part.split_once('=') else {
                return Err(Error::BadOption {
                    text: part.to_owned(),
                });
            };
            to.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Ok(())
}

/// Provider options end up in one quoted line of an option file.
fn check_provider_option(key: &str, value: &str) -> Result<()> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let odd = |c: char| c.is_control() || matches!(c, '"' | '\'' | ';' | '\\');
    if key.is_empty() || !key.chars().all(word) || value.contains(odd) {
        return Err(Error::BadOption {
            text: format!("{key}={value}"),
        });
    }
    if RESERVED_PROVIDER_OPTIONS.contains(&key) {
        return Err(Error::ReservedOption {
            key: key.to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_options_are_taken_out_of_the_command_line() {
        let options = GaleraOptions::new(ServerKind::MariaDb1011, 3)
            .option(
                "wsrep_provider_options",
                "gcache.size=16M; gcs.fc_limit = 5",
            )
            .node_option(2, "WSREP-provider-options", "pc.weight=2")
            .node_option(2, "server_id", "2")
            .checked()
            .unwrap();
        let of_second: Vec<_> = options.provider_options_of(2).cloned().collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            of_second,
            [
                pair("gcache.size", "16M"),
                pair("gcs.fc_limit", "5"),
                pair("pc.weight", "2")
            ]
        );
        assert_eq!(
            options.of_node(2),
            [("server_id".to_owned(), Some("2".to_owned()))]
        );
        assert!(options.of_node(1).is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_made() {
        let three = || GaleraOptions::new(ServerKind::MariaDb1011, 3);
        let no_galera = GaleraOptions::new(ServerKind::MySql97, 3).checked();
        assert!(matches!(no_galera, Err(Error::NoGalera { .. })));
        for bad in [
            GaleraOptions::new(ServerKind::MariaDb1011, 0),
            three().node_option(4, "server_id", "4"),
            three().node_provider_option(0, "pc.weight", "1"),
            three().haproxy(HaproxyOptions {
                http_check_ports: vec![1],
                ..HaproxyOptions::default()
            }),
            three().haproxy(HaproxyOptions {
                agent_check_ports: vec![1, 2],
                ..HaproxyOptions::default()
            }),
        ] {
            assert!(matches!(bad.checked(), Err(Error::BadCluster { .. })));
        }
        for bad in [
            three().provider_option("ist.recv_addr", "x"),
            three().option("datadir", "x"),
        ] {
            assert!(matches!(bad.checked(), Err(Error::ReservedOption { .. })));
        }
        for bad in [
            three().provider_option("gcache.name", "a\"b"),
            three().option("wsrep_provider_options", "gcache.size"),
        ] {
            assert!(matches!(bad.checked(), Err(Error::BadOption { .. })));
        }
    }
}
