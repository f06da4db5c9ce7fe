//! What all nodes say together.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::findings::{Finding, find};
use crate::forecast::{Rejoin, rejoin};
use crate::grastate::GraState;
use crate::node::{NodeState, Role};
use crate::observe::{Member, Observation};
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
    pub(crate) fn new(name: &str, nodes: Vec<NodeView>, how: &Observation) -> Self {
        let mut view = Self {
            name: name.to_owned(),
            quorum: Quorum::default(),
            nodes,
            tables: None,
            tables_unread: None,
            work: Vec::new(),
            findings: Vec::new(),
        };
        view.quorum = view.count();
        for at in 0..view.nodes.len() {
            let node = &view.nodes[at];
            let behind = node.primary().and_then(|state| {
                let same = view.quorum.uuid.as_ref() == Some(&state.cluster_uuid);
                view.quorum
                    .seqno
                    .filter(|_| same)?
                    .checked_sub(state.seqno?)
            });
            let rejoin = node.primary().is_none().then(|| rejoin(&view, node, how));
            view.nodes[at].behind = behind;
            view.nodes[at].rejoin = rejoin;
        }
        view
    }

    pub(crate) fn look_for_trouble(&mut self) {
        self.findings = find(self);
    }

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

    /// What is open for this cluster; what is wrong is looked for again with that in mind.
    pub fn note_work(&mut self, work: Vec<OpenWork>) {
        for one in work {
            let known = self.work.iter_mut().find(|known| known.run == one.run);
            match known {
                None => self.work.push(one),
                // Another process has gone on with it than the one that began it.
                Some(known) if known.running != Some(true) => {
                    (known.process, known.running) = (one.process, one.running);
                }
                Some(_) => {}
            }
        }
        self.look_for_trouble();
    }

    fn count(&self) -> Quorum {
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
