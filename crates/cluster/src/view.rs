//! What all nodes say together.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::grastate::GraState;
use crate::member::Member;
use crate::node::{NodeState, Role};
use crate::work::OpenWork;

/// What all nodes of a cluster say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterView {
    /// What people call the cluster.
    pub name: String,
    /// Whether there is one primary component, and how large it is.
    pub quorum: Quorum,
    /// Every node that was asked, in the order of the file.
    pub nodes: Vec<NodeView>,
    /// Tables that Galera has trouble with; `None`: nobody could be asked, or nobody wanted to know.
    pub tables: Option<Tables>,
    /// Why they were not looked for although somebody wanted to know.
    pub tables_unread: Option<String>,
    /// What Refloat does to it and has not ended, as far as anybody has said so.
    pub work: Vec<OpenWork>,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
}

/// Whether there is one primary component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Quorum {
    /// The cluster's history, when all primary nodes name the same.
    pub uuid: Option<String>,
    /// Nodes that were asked.
    pub listed: usize,
    /// Of these, those that answer.
    pub answering: usize,
    /// Of these, those that belong to a primary component.
    pub primary: usize,
    /// Of these, those that take statements and keep pace.
    pub synced: usize,
    /// The number of members that the primary nodes see, when all say the same.
    pub size: Option<u64>,
    /// The number of their view, when all say the same.
    pub view: Option<u64>,
    /// The newest write-set that any primary node has applied.
    pub seqno: Option<u64>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeView {
    /// What people call it.
    pub name: String,
    /// `user@host:port` or `user@socket`.
    pub address: String,
    /// What it says; `None`: it does not answer.
    pub state: Option<NodeState>,
    /// The process of the script that receives a full copy into it, of a node that does not answer because of that.
    pub receives: Option<u32>,
    /// Why it does not answer.
    pub unreachable: Option<String>,
    /// What it has written down, of a node that does not answer or is not in a primary component.
    pub grastate: Option<GraState>,
    /// Why that could not be read.
    pub files_unreadable: Option<String>,
    /// Write-sets that it has not applied and another one has; `None`: it does not answer, or follows another history.
    pub behind: Option<u64>,
    /// What it would cost to bring it back; `None`: it is there.
    pub rejoin: Option<Rejoin>,
}

/// Tables that Galera has trouble with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tables {
    /// The node that was asked.
    pub node: String,
    /// How many tables there are.
    pub all: u64,
    /// Whether they were looked through: with very many that is done when it is asked for.
    pub looked_through: bool,
    /// Tables without a primary key.
    pub without_key: u64,
    /// Names of the first of them.
    pub without_key_names: Vec<String>,
    /// Tables of engines that are not replicated.
    pub other_engine: u64,
    /// Names of the first of them.
    pub other_engine_names: Vec<String>,
}

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It will hurt some day.
    Warning,
    /// It hurts now, or data are in danger.
    Critical,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The nodes that it is about, by name; empty: the cluster.
    pub nodes: Vec<String>,
    /// What it is, and what it means.
    pub text: String,
}

/// What it would cost to bring a node back now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rejoin {
    /// By which way it would come.
    #[serde(flatten)]
    pub kind: RejoinKind,
    /// Why, in words.
    pub reason: String,
}

/// The way by which a node comes back.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum RejoinKind {
    /// The write-sets that it has missed are kept by others.
    Ist {
        /// How many write-sets it has missed.
        write_sets: u64,
        /// Bytes of them, by their average size.
        bytes: Option<u64>,
        /// Who keeps them, the one that keeps the most first.
        donors: Vec<Donor>,
    },
    /// It needs a full copy.
    Sst {
        /// Bytes of a copy.
        bytes: Option<u64>,
        /// How long that takes at the rate that was given, in seconds.
        seconds: Option<f64>,
    },
    /// Nobody can tell.
    Unknown,
}

/// A node that keeps what another one has missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Donor {
    /// Its name.
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
            unreachable: None,
            grastate: None,
            files_unreadable: None,
            behind: None,
            rejoin: None,
        }
    }

    /// Its state, when it belongs to a primary component.
    pub fn primary(&self) -> Option<&NodeState> {
        self.state.as_ref().filter(|state| state.primary)
    }
}

impl ClusterView {
    /// Nodes of the primary component that keep pace, with their places.
    pub fn serving(&self) -> impl Iterator<Item = (usize, &NodeState)> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter_map(|(at, node)| Some((at, node.primary()?)))
            .filter(|(_, state)| state.role == Role::Synced && state.ready)
    }

    /// Nodes that are listed under several names, which is one of them.
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
        // One that is listed twice is one node.
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

/// The value that all have.
fn same<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
