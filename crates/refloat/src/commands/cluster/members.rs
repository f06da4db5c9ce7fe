//! Which nodes a command is about: those of a `cluster.toml`, or those that one node names.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use refloat_cluster::advise::Candidate;
use refloat_cluster::{ClusterFile, Host, Member, NodeConfig, discover};
use refloat_sandbox::Sandbox;
use refloat_wire::{ConnectOptions, Target};

use crate::connect::ConnectArgs;
use crate::context::Context;

/// `--cluster` and everything about the connections.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ClusterOf {
    /// The cluster: a file that lists its nodes (cluster.toml), or the URL of one node
    ///
    /// A node names the others, as far as they tell their addresses, and nothing is known of nodes that are down. A file
    /// knows them all; `refloat cluster --help` shows one. Passwords stand in neither: they come from option files, from
    /// `MYSQL_PWD` or from --ask-password, and are the same for all nodes.
    #[arg(long = "cluster", value_name = "FILE|URL")]
    pub cluster: String,

    #[command(flatten)]
    pub options: ConnectArgs,
}

/// The nodes of a cluster, and how many there are besides.
#[derive(Debug)]
pub struct Nodes {
    /// What people call the cluster.
    pub name: String,
    /// The nodes.
    pub members: Vec<Member>,
    /// Members whose addresses nobody tells.
    pub unnamed: usize,
}

impl ClusterOf {
    /// Reads the file, or asks the node.
    ///
    /// # Errors
    /// The file cannot be used, or the node cannot be asked.
    pub fn nodes(&self, context: &Context) -> anyhow::Result<Nodes> {
        if self.cluster.contains("://") {
            let seed = self
                .options
                .resolve_flag("--cluster", &self.cluster, context)?;
            let found = discover(&seed)?;
            return Ok(Nodes {
                name: found.name,
                members: found.members,
                unnamed: found.unnamed,
            });
        }
        let file = ClusterFile::read(Path::new(&self.cluster))?;
        let nodes = file.nodes.iter();
        Ok(Nodes {
            members: nodes
                .map(|node| self.member(node, context))
                .collect::<anyhow::Result<_>>()?,
            name: file.name,
            unnamed: 0,
        })
    }

    /// The same, with what is known of the nodes' machines: their option files where the sandbox has written them, and that a
    /// node on this machine's own address is here.
    ///
    /// # Errors
    /// As [`Self::nodes`].
    pub fn candidates(&self, context: &Context) -> anyhow::Result<(Nodes, Vec<Candidate>)> {
        let nodes = self.nodes(context)?;
        let mut files: Vec<Option<PathBuf>> = vec![None; nodes.members.len()];
        if !self.cluster.contains("://") {
            let listed = ClusterFile::read(Path::new(&self.cluster))?;
            for (file, node) in files.iter_mut().zip(&listed.nodes) {
                *file = sandbox_config(node, context);
            }
        }
        let members = nodes.members.iter().zip(files);
        let candidates = members.map(|(member, defaults_file)| {
            let mut member = member.clone();
            if member.host.is_none() && is_here(&member.connect) {
                member.host = Some(Host::Local);
            }
            Candidate {
                member,
                defaults_file,
            }
        });
        let candidates = candidates.collect();
        Ok((nodes, candidates))
    }

    fn member(&self, node: &NodeConfig, context: &Context) -> anyhow::Result<Member> {
        let flag = format!("{}: node {}", self.cluster, node.name);
        let connect = self.options.resolve_flag(&flag, &node.url, context)?;
        let is_here = node
            .control
            .as_ref()
            .is_some_and(|control| control.sandbox.is_some())
            || is_here(&connect);
        Ok(Member {
            name: node.name.clone(),
            host: match &node.ssh {
                Some(machine) => Some(Host::Ssh(machine.clone())),
                // The files of this machine say nothing of another one's node.
                None => is_here.then_some(Host::Local),
            },
            connect,
            datadir: node
                .datadir
                .clone()
                .or_else(|| sandbox_datadir(node, context)),
        })
    }
}

/// Whether a server is on this machine, by its address.
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

/// The data directory of a node that the sandbox has started: the sandbox knows it also when the node is down.
fn sandbox_datadir(node: &NodeConfig, context: &Context) -> Option<PathBuf> {
    let name = node.control.as_ref()?.sandbox.as_ref()?;
    let instance = Sandbox::new(context.state_dir().join("sandbox"))
        .get(name)
        .ok()?;
    Some(instance.datadir())
}

/// The option file of a node that the sandbox has started.
fn sandbox_config(node: &NodeConfig, context: &Context) -> Option<PathBuf> {
    let name = node.control.as_ref()?.sandbox.as_ref()?;
    let sandbox = Sandbox::new(context.state_dir().join("sandbox"));
    Some(sandbox.node(name).ok()?.config())
}
