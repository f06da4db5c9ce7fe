//! Determines the nodes a command works on: those listed in a `cluster.toml`, or those that one
//! node reports.

use std::net::IpAddr;
use std::path::Path;

use clap::Args;
use refloat_cluster::advise::{Candidate, Shown};
use refloat_cluster::{ClusterFile, ClusterView, Member, NodeConfig, discover};
use refloat_host::{Control, ControlError, Host};
use refloat_run::settings::{GCACHE_MEMORY, GCACHE_PURGE, list_on_server};
use refloat_wire::{ConnectOptions, Connection, Target};

use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::shell::word;

/// `--cluster` and everything about the connections. It stands behind the options that are a
/// command's own: its heading goes on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ClusterOf {
    /// The cluster: a file that lists its nodes (cluster.toml), or the URL of one node
    ///
    /// A node knows the others only if they announce their addresses, and knows nothing of nodes
    /// that are down. A file lists them all; `refloat cluster --help` shows one. Neither contains
    /// passwords: they come from option files, `MYSQL_PWD` or --ask-password, and are the same for
    /// all nodes.
    #[arg(long = "cluster", value_name = "FILE|URL")]
    pub cluster: String,

    #[command(flatten)]
    pub options: ConnectArgs,
}

/// The nodes of a cluster.
#[derive(Debug)]
pub struct Nodes {
    /// From `cluster.toml`, or `wsrep_cluster_name` of the node that was asked.
    pub name: String,
    /// The nodes that can be addressed.
    pub members: Vec<Member>,
    /// How each node is started and stopped; `None` if the list does not say. An error is reported
    /// only to commands that need the control.
    pub controls: Vec<Result<Option<Control>, ControlError>>,
    /// Number of members whose addresses are unknown.
    pub unnamed: usize,
    /// Whether `--cluster` names a load balancer.
    pub is_balanced: bool,
}

impl ClusterOf {
    /// `--cluster` and the related options as they were given, for commands that are suggested to
    /// the user.
    pub fn flags(&self) -> String {
        let mut flags = format!("--cluster {}", word(&self.cluster));
        for (flag, value) in self.options.given() {
            flags.push_str(" --");
            flags.push_str(flag);
            if let Some(value) = value {
                flags.push(' ');
                flags.push_str(&word(&value));
            }
        }
        flags
    }

    /// Reads the file, or queries the node.
    ///
    /// # Errors
    /// The file cannot be used, or the node cannot be queried.
    pub fn nodes(&self, context: &Context) -> anyhow::Result<Nodes> {
        context.set_cluster_flags(self.flags());
        if self.cluster.contains("://") {
            let seed = self
                .options
                .resolve_flag("--cluster", &self.cluster, context)?;
            let found = discover(&seed)?;
            return Ok(Nodes {
                name: found.name,
                controls: found.members.iter().map(|_| Ok(None)).collect(),
                members: found.members,
                unnamed: found.unnamed,
                is_balanced: found.is_balanced,
            });
        }
        let file = ClusterFile::read(Path::new(&self.cluster))?;
        let nodes = file.nodes.iter();
        let members = nodes
            .map(|node| self.member(node, context))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let controls = file.nodes.iter().zip(&members);
        Ok(Nodes {
            controls: controls
                .map(|(node, member)| control(node, member))
                .collect(),
            members,
            name: file.name,
            unnamed: 0,
            is_balanced: false,
        })
    }

    /// Like [`Self::nodes`], with what is known of the nodes' machines: the units that the list
    /// gives, and that a node at an address of this machine is local.
    ///
    /// # Errors
    /// As for [`Self::nodes`].
    pub fn candidates(&self, context: &Context) -> anyhow::Result<(Nodes, Vec<Candidate>)> {
        let nodes = self.nodes(context)?;
        let members = nodes.members.iter().zip(&nodes.controls);
        let candidates = members.map(|(member, control)| {
            let mut member = member.clone();
            if member.host.is_none() && is_here(&member.connect) {
                member.host = Some(Host::Local);
            }
            let unit = match control {
                Ok(Some(Control::Systemd { unit, .. })) => Some(unit.clone()),
                _ => None,
            };
            Candidate {
                member,
                unit,
                shown: Shown::default(),
            }
        });
        let candidates = candidates.collect();
        Ok((nodes, candidates))
    }

    fn member(&self, node: &NodeConfig, context: &Context) -> anyhow::Result<Member> {
        let flag = format!("{}: node {}", self.cluster, node.name);
        let connect = self.options.resolve_flag(&flag, &node.url, context)?;
        let is_here = node.local || is_here(&connect);
        Ok(Member {
            name: node.name.clone(),
            host: match &node.ssh {
                Some(machine) => Some(Host::Ssh(machine.clone())),
                // This machine's files say nothing about a node elsewhere.
                None => is_here.then_some(Host::Local),
            },
            connect,
            datadir: node.datadir.clone(),
            log: node.log.clone(),
            defaults_file: node.defaults_file.clone(),
        })
    }
}

impl Nodes {
    /// Index of a node.
    ///
    /// # Errors
    /// There is no node of that name.
    pub fn at(&self, node: &str) -> anyhow::Result<usize> {
        let is_it = |member: &Member| member.name == node;
        self.members.iter().position(is_it).ok_or_else(|| {
            let names: Vec<&str> = self.members.iter().map(|node| node.name.as_str()).collect();
            ProgramError::usage(format!(
                "no node is called {node}; the nodes are {}",
                names.join(", ")
            ))
            .into()
        })
    }

    /// For each node, the memory available to its server and the free space next to its data, in
    /// bytes. `None` if it cannot be determined.
    pub fn room(&self, view: &ClusterView) -> (Vec<Option<u64>>, Vec<Option<u64>>) {
        let nodes = self.members.iter().zip(&view.nodes);
        let memory = nodes.map(|(member, node)| member.memory_available(node.state.as_ref()));
        let disk = self.members.iter().zip(&view.nodes).map(|(member, node)| {
            let datadir = node.state.as_ref().map(|state| state.datadir.as_str());
            member.host.as_ref()?.disk_free(Path::new(datadir?))
        });
        (memory.collect(), disk.collect())
    }

    /// Nodes that hold write-sets for an unfinished run: the space they have been given is not
    /// free, and shrinks when that run ends.
    pub fn kept_for_others(&self) -> Vec<String> {
        let held = self.members.iter().filter_map(|member| {
            let mut conn = Connection::connect(&member.connect).ok()?;
            let open = list_on_server(&mut conn).ok()?;
            let of = open.into_iter().find(|open| {
                let mut changes = open.journal.changes.iter();
                changes.any(|change| [GCACHE_MEMORY, GCACHE_PURGE].contains(&change.name.as_str()))
            })?;
            let owner = &of.journal.owner;
            Some(format!(
                "{} keeps write-sets for another run ({}, process {} on {})",
                member.name, of.journal.run, owner.pid, owner.host
            ))
        });
        held.collect()
    }

    /// How a node is started and stopped.
    ///
    /// # Errors
    /// It is not configured, or cannot be found.
    pub fn control(&self, node: &str) -> anyhow::Result<&Control> {
        match &self.controls[self.at(node)?] {
            Ok(Some(control)) => Ok(control),
            Ok(None) => Err(ProgramError::usage(format!(
                "the list does not say how {node} is started and stopped"
            ))
            .hint("Give it a line `control = { systemd = \"mariadb\" }` in a cluster.toml; `refloat cluster --help` shows one.")
            .into()),
            Err(error) => Err(ProgramError::new(Exit::Refused, error.to_string()).into()),
        }
    }
}

/// Resolves how a node is started and stopped.
fn control(node: &NodeConfig, member: &Member) -> Result<Option<Control>, ControlError> {
    let Some(config) = &node.control else {
        return Ok(None);
    };
    // A command may reach any machine by itself, but a systemd unit of this machine is not a server
    // elsewhere.
    let host = match &member.host {
        Some(host) => host.clone(),
        None if config.systemd.is_some() => {
            return Err(ControlError::new(
                &node.name,
                "finding the unit of",
                "its url leads to another machine, and the list does not say which (ssh)"
                    .to_owned(),
            ));
        }
        None => Host::Local,
    };
    Ok(Control::of(config, &host))
}

/// Whether a server is on this machine, judged by its address.
fn is_here(connect: &ConnectOptions) -> bool {
    match connect.target() {
        Target::Unix(_) => true,
        Target::Tcp(host, _) => {
            host.eq_ignore_ascii_case("localhost")
                || host
                    .parse::<IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
    }
}
