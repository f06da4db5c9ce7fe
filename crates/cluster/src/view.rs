//! What all nodes of a cluster say, put together.

use std::collections::BTreeMap;

use refloat_host::{Copying, GraState};
use serde::Serialize;

use crate::member::Member;
use crate::node::{NodeState, Role};
use crate::work::OpenWork;

/// What all nodes of a cluster say, put together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterView {
    /// Name of the cluster, chosen by the user.
    pub name: String,
    /// Whether there is one primary component, and how large it is.
    pub quorum: Quorum,
    /// Every node that was asked, in the order of the list.
    pub nodes: Vec<NodeView>,
    /// Tables that Galera has trouble with. `None`: no node could be asked, or they were not
    /// wanted.
    pub tables: Option<Tables>,
    /// Why they were not looked for although they were wanted.
    pub tables_unread: Option<String>,
    /// Refloat's own unfinished work on the cluster, as far as it is known.
    pub work: Vec<OpenWork>,
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
}

/// Whether there is one primary component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Quorum {
    /// UUID of the history, if all primary nodes name the same one.
    pub uuid: Option<String>,
    /// Number of nodes that were asked.
    pub listed: usize,
    /// Number of these that answer.
    pub answering: usize,
    /// Number of these that belong to a primary component.
    pub primary: usize,
    /// Number of these that take statements and keep pace.
    pub synced: usize,
    /// Number of members that the primary nodes see, if all agree.
    pub size: Option<u64>,
    /// Number of their view, if all agree.
    pub view: Option<u64>,
    /// The newest write-set that any primary node has applied.
    pub seqno: Option<u64>,
}

/// What is known about one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeView {
    /// Its name, chosen by the user.
    pub name: String,
    /// `user@host:port` or `user@socket`.
    pub address: String,
    /// What it says. `None`: it does not answer.
    pub state: Option<NodeState>,
    /// Process of the script that receives a full copy into it. Set if the node does not answer
    /// because of that.
    pub receives: Option<u32>,
    /// How far a full copy into it or out of it is, if refloat makes it.
    pub copying: Option<Copying>,
    /// Why it does not answer. `None`: it does.
    pub unreachable: Option<String>,
    /// What it has written down, if it does not answer or is not in a primary component.
    pub grastate: Option<GraState>,
    /// Why that could not be read.
    pub files_unreadable: Option<String>,
    /// Number of write-sets that it has not applied but another node has. `None`: it does not
    /// answer, or follows another history.
    pub behind: Option<u64>,
    /// What it would cost to bring it back. `None`: it is there.
    pub rejoin: Option<Rejoin>,
}

/// Tables that Galera has trouble with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tables {
    /// The node that was asked.
    pub node: String,
    /// How many tables there are.
    pub all: u64,
    /// Whether they were looked through. If there are very many, that is done only on request.
    pub looked_through: bool,
    /// How many tables have neither a primary key nor a unique key that can replace it.
    pub without_key: u64,
    /// Names of the first of them.
    pub without_key_names: Vec<String>,
    /// How many tables have an engine that is not replicated.
    pub other_engine: u64,
    /// Names of the first of them.
    pub other_engine_names: Vec<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It will cause trouble some day.
    Warning,
    /// It causes trouble now, or data are in danger.
    Critical,
}

/// Something that is wrong with a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Names of the nodes that it is about. Empty: the whole cluster.
    pub nodes: Vec<String>,
    /// What it is, and what it means.
    pub text: String,
}

/// What it would cost to bring a node back now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rejoin {
    /// How it would come back.
    #[serde(flatten)]
    pub kind: RejoinKind,
    /// The reason, in words.
    pub reason: String,
}

/// How a node comes back.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum RejoinKind {
    /// By IST: other nodes keep the write-sets that it has missed.
    Ist {
        /// How many write-sets it has missed.
        write_sets: u64,
        /// Bytes of these, by their average size. `None`: not known.
        bytes: Option<u64>,
        /// The nodes that keep them, the one that keeps the most first.
        donors: Vec<Donor>,
    },
    /// By a full copy (SST).
    Sst {
        /// Bytes of a copy. `None`: not known.
        bytes: Option<u64>,
        /// How long that takes at the given rate, in seconds.
        seconds: Option<f64>,
    },
    /// Not known.
    Unknown,
}

/// A node that keeps what another one has missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Donor {
    /// Name of the node.
    pub name: String,
    /// The oldest write-set that it keeps.
    pub oldest: u64,
}

impl NodeView {
    /// A node that has not said anything yet.
    pub(crate) fn silent(member: &Member) -> Self {
        Self {
            name: member.name.clone(),
            address: member.connect.describe(),
            state: None,
            receives: None,
            copying: None,
            unreachable: None,
            grastate: None,
            files_unreadable: None,
            behind: None,
            rejoin: None,
        }
    }

    /// Its state, if it belongs to a primary component.
    pub fn primary(&self) -> Option<&NodeState> {
        self.state.as_ref().filter(|state| state.primary)
    }
}

impl ClusterView {
    /// Synced nodes of the primary component, with their indexes.
    pub fn serving(&self) -> impl Iterator<Item = (usize, &NodeState)> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter_map(|(at, node)| Some((at, node.primary()?)))
            .filter(|(_, state)| state.role == Role::Synced && state.ready)
    }

    /// Groups of names that all stand for one and the same node.
    pub(crate) fn same_nodes(&self) -> Vec<Vec<&str>> {
        let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(state) = node.state.as_ref().filter(|state| !state.member.is_empty()) {
                of.entry(&state.member).or_default().push(&node.name);
            }
        }
        of.into_values().filter(|names| names.len() > 1).collect()
    }

    /// Counts the nodes of the primary component.
    pub(crate) fn count(&self) -> Quorum {
        // A node that is listed twice is one node.
        let twice: usize = self.same_nodes().iter().map(|names| names.len() - 1).sum();
        let primary: Vec<&NodeState> = self.nodes.iter().filter_map(NodeView::primary).collect();
        Quorum {
            uuid: same(primary.iter().map(|state| state.cluster_uuid.clone())),
            listed: self.nodes.len(),
            answering: self
                .nodes
                .iter()
                .filter(|node| node.state.is_some())
                .count(),
            primary: primary.len().saturating_sub(twice),
            synced: self.serving().count().saturating_sub(twice),
            size: same(primary.iter().map(|state| state.size)),
            view: same(primary.iter().filter_map(|state| state.view)),
            seqno: primary.iter().filter_map(|state| state.seqno).max(),
        }
    }
}

/// The value that all share, if there is one.
fn same<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
