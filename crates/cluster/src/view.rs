//! The combined view of all nodes of a cluster.

use std::collections::BTreeMap;

use refloat_host::{Copying, GraState};
use serde::Serialize;

use crate::member::Member;
use crate::node::{NodeState, Role};
use crate::work::OpenWork;

/// The combined view of all nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterView {
    /// Name of the cluster, chosen by the user.
    pub name: String,
    /// Whether there is one primary component, and its size.
    pub quorum: Quorum,
    /// Every node that was asked, in the order of the list.
    pub nodes: Vec<NodeView>,
    /// Tables that do not work well with Galera. `None`: no node could be asked, or the caller did
    /// not want them.
    pub tables: Option<Tables>,
    /// Why the tables could not be read although the caller wanted them.
    pub tables_unread: Option<String>,
    /// Refloat's own unfinished work on the cluster, as far as known.
    pub work: Vec<OpenWork>,
    /// Problems, worst first.
    pub findings: Vec<Finding>,
}

/// Whether there is one primary component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Quorum {
    /// UUID of the history, if all primary nodes name the same one.
    pub uuid: Option<String>,
    /// Number of nodes that were asked.
    pub listed: usize,
    /// Number of these that answered.
    pub answering: usize,
    /// Number of these that belong to a primary component.
    pub primary: usize,
    /// Number of these that are synced and accept statements.
    pub synced: usize,
    /// Number of members that the primary nodes see, if all agree.
    pub size: Option<u64>,
    /// Number of their view, if all agree.
    pub view: Option<u64>,
    /// The newest write-set that any primary node applied.
    pub seqno: Option<u64>,
}

/// What is known about one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeView {
    /// Its name, chosen by the user.
    pub name: String,
    /// `user@host:port` or `user@socket`.
    pub address: String,
    /// What it reports. `None`: it does not answer.
    pub state: Option<NodeState>,
    /// Process of the script that receives a full copy on it. Set if the copy is the reason why the
    /// node does not answer.
    pub receives: Option<u32>,
    /// Progress of a full copy into or out of it, if refloat makes the copy.
    pub copying: Option<Copying>,
    /// Why it does not answer. `None`: it does.
    pub unreachable: Option<String>,
    /// Its `grastate.dat`, if it does not answer or is not in a primary component.
    pub grastate: Option<GraState>,
    /// Why that could not be read.
    pub files_unreadable: Option<String>,
    /// Number of write-sets that another node has applied and it has not. `None`: it does not
    /// answer, or follows another history.
    pub behind: Option<u64>,
    /// How it would rejoin. `None`: it is in the cluster.
    pub rejoin: Option<Rejoin>,
}

/// Tables that do not work well with Galera.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tables {
    /// The node that was asked.
    pub node: String,
    /// Number of tables.
    pub all: u64,
    /// Whether the tables were examined. If there are very many, that happens only on request.
    pub looked_through: bool,
    /// Number of tables with neither a primary key nor a unique key that can replace it.
    pub without_key: u64,
    /// Names of the first of these.
    pub without_key_names: Vec<String>,
    /// Number of tables with an engine that Galera does not replicate.
    pub other_engine: u64,
    /// Names of the first of these.
    pub other_engine_names: Vec<String>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It will cause trouble sooner or later.
    Warning,
    /// It causes trouble now, or data is at risk.
    Critical,
}

/// A problem of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Names of the nodes concerned. Empty: the whole cluster.
    pub nodes: Vec<String>,
    /// The problem, and what it means.
    pub text: String,
}

/// How a node would rejoin now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rejoin {
    /// How it would come back.
    #[serde(flatten)]
    pub kind: RejoinKind,
    /// The reason, in words.
    pub reason: String,
}

/// How a node rejoins.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum RejoinKind {
    /// By IST: other nodes still have the write-sets that it missed.
    Ist {
        /// Number of write-sets that it missed.
        write_sets: u64,
        /// Their bytes, estimated from the average size. `None`: unknown.
        bytes: Option<u64>,
        /// The nodes that have them, those with the oldest write-set first.
        donors: Vec<Donor>,
    },
    /// By a full copy (SST).
    Sst {
        /// Bytes of a copy. `None`: unknown.
        bytes: Option<u64>,
        /// How long the copy takes at the given rate, in seconds.
        seconds: Option<f64>,
    },
    /// What is known does not tell.
    Unknown,
}

/// A node that has the write-sets that another node missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Donor {
    /// As the list of nodes names it.
    pub name: String,
    /// The oldest write-set that it has.
    pub oldest: u64,
}

impl NodeView {
    /// A node that has not answered yet.
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

    /// Groups of names that refer to the same node.
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
        // A node that is listed twice counts once.
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

/// The value that all share, if they do.
fn same<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
