//! Compares all nodes of a cluster. Galera promises that they hold the same data, but does not
//! check.

mod quick;

use std::time::Instant;

use refloat_run::{Refusal, Run};
use refloat_verify::VerifyError;
use serde::Serialize;

use crate::compare::{Apart, Comparison, brief};
use crate::hold::{SEE_STATUS, comes_back};
use crate::join::brief as brief_look;
use crate::member::Member;
use crate::observe::observe;

/// A comparison of all nodes of a cluster.
#[derive(Debug)]
pub struct Verifying<'a> {
    /// All nodes of the cluster.
    pub members: &'a [Member],
    /// Names of nodes that the user left out. They need not be synced.
    pub without: &'a [String],
    /// Whether to count rows, and compute checksums only of tables that have changed. Tables that
    /// differ are then compared row by row.
    pub quick: bool,
    /// Connections to each node. `None`: the default.
    pub threads: Option<usize>,
    /// The run that the comparison belongs to.
    pub run: &'a Run,
}

/// The result of a comparison of all nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verified {
    /// The cluster whose nodes were compared.
    pub cluster: String,
    /// UUID of its history. `None`: its nodes report several.
    pub uuid: Option<String>,
    /// The node that the others were compared with.
    pub with: String,
    /// Whether it was the quick comparison.
    pub quick: bool,
    /// The verdicts on the others.
    pub nodes: Vec<NodeVerdict>,
    /// How long the comparison took, in seconds.
    pub seconds: f64,
}

/// The verdict on one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeVerdict {
    /// As the list of nodes names it.
    pub name: String,
    /// Whether it holds the same data. `None`: unknown.
    pub same: Option<bool>,
    /// Number of compared tables.
    pub tables: u64,
    /// Number of tables compared by checksum. Only the quick comparison does that.
    pub checksums: u64,
    /// Tables and definitions that differ, or may differ.
    pub differ: Vec<String>,
    /// Why `same` is unknown.
    pub reason: Option<String>,
}

/// Why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum VerifyNodesError {
    /// Fewer than two nodes are synced.
    #[error("there is nothing to compare: {}", Refusal::reasons(.0))]
    Alone(Vec<Refusal>),
    /// Two nodes could not be compared.
    #[error("comparing {node} with {with}")]
    Verify {
        /// One of the two.
        node: String,
        /// The other one.
        with: String,
        /// The cause.
        source: Box<VerifyError>,
    },
    /// A node could not be queried.
    #[error("asking {node}")]
    Server {
        /// The node that did not answer as expected.
        node: String,
        /// The cause.
        source: Box<refloat_wire::Error>,
    },
    /// Stopped on request.
    #[error("stopped on request before all nodes were compared")]
    Interrupted,
}

impl Verified {
    /// Whether all nodes are known to hold the same data.
    pub fn is_same(&self) -> bool {
        self.nodes.iter().all(|node| node.same == Some(true))
    }

    /// Whether this node is known to hold the same data as another synced node, and no node is
    /// known to differ.
    pub fn knows(&self, node: &str) -> bool {
        let differ = self.nodes.iter().any(|one| one.same == Some(false));
        let same =
            |one: &NodeVerdict| one.same == Some(true) && (one.name == node || self.with == node);
        !differ && self.nodes.iter().any(same)
    }
}

impl Verifying<'_> {
    /// Compares all synced nodes with one of them.
    ///
    /// # Errors
    /// [`VerifyNodesError`]. Nodes that differ are not an error.
    pub fn verify(&self, cluster: &str) -> Result<Verified, VerifyNodesError> {
        let begun = Instant::now();
        let view = observe(cluster, self.members, &brief_look());
        let serving: Vec<usize> = view.serving().map(|(at, _)| at).collect();
        let apart = |at: usize| match (&view.nodes[at].state, &view.nodes[at].unreachable) {
            (Some(state), _) => format!("it is {} and not in sync", state.state),
            (None, why) => format!("no answer: {}", why.clone().unwrap_or_default()),
        };
        let Some((&from, _)) = serving
            .split_first()
            .filter(|(_, others)| !others.is_empty())
        else {
            let all = (0..self.members.len()).filter(|at| !serving.contains(at));
            let left_out = |at: usize| {
                let name = &self.members[at].name;
                let answers = view.nodes[at].state.is_some();
                Refusal::new(format!("{name}: {}", apart(at))).hint(if answers {
                    SEE_STATUS.to_owned()
                } else {
                    comes_back(name)
                })
            };
            let mut why: Vec<Refusal> = all.map(left_out).collect();
            if let Some(at) = serving.first() {
                let alone = format!("{} alone is in sync", self.members[*at].name);
                why.insert(0, alone.into());
            }
            return Err(VerifyNodesError::Alone(why));
        };
        let mut nodes = Vec::new();
        let missed =
            |at: &usize| serving.contains(at) || !self.without.contains(&self.members[*at].name);
        for at in (0..self.members.len()).filter(|at| *at != from && missed(at)) {
            nodes.push(if serving.contains(&at) {
                self.node(from, at)?
            } else {
                self.unknown(at, apart(at))
            });
        }
        Ok(Verified {
            cluster: cluster.to_owned(),
            uuid: view.quorum.uuid.clone(),
            with: self.members[from].name.clone(),
            quick: self.quick,
            nodes,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn unknown(&self, at: usize, reason: String) -> NodeVerdict {
        NodeVerdict {
            name: self.members[at].name.clone(),
            same: None,
            tables: 0,
            checksums: 0,
            differ: Vec::new(),
            reason: Some(reason),
        }
    }

    /// Compares one node with another.
    fn node(&self, from: usize, at: usize) -> Result<NodeVerdict, VerifyNodesError> {
        let (node, with) = (&self.members[at].name, &self.members[from].name);
        self.run
            .events
            .note(format!("comparing {node} with {with}"));
        let mut verdict = self.unknown(at, String::new());
        let tables = if self.quick {
            let looked = self.look(from, at)?;
            (verdict.tables, verdict.checksums) = (looked.tables, looked.checksums);
            if looked.suspects.is_empty() && !looked.reads_all {
                verdict.reason = Some(format!(
                    "the account has no SELECT on all databases: only {} tables that it may read were compared",
                    looked.tables
                ));
                return Ok(verdict);
            }
            if looked.suspects.is_empty() {
                (verdict.same, verdict.reason) = (Some(true), None);
                return Ok(verdict);
            }
            self.run.events.note(format!(
                "{node} and {with}: {} to be compared row by row",
                brief(&looked.suspects)
            ));
            looked.to_compare()
        } else {
            Vec::new()
        };
        let comparison = Comparison {
            members: self.members,
            threads: self.threads,
            run: self.run,
        };
        match comparison.compare(from, at, tables) {
            Ok(tables) => {
                verdict.tables = verdict.tables.max(tables);
                (verdict.same, verdict.reason) = (Some(true), None);
            }
            Err(Apart::Differs(names)) => {
                (verdict.same, verdict.reason) = (Some(false), None);
                verdict.differ = names;
            }
            Err(Apart::Unsettled(names)) => {
                verdict.reason = Some(
                    "applications write there all the time: each comparison found differences, and none was of the same write-set on both"
                        .to_owned(),
                );
                verdict.differ = names;
            }
            Err(Apart::Failed(source)) => {
                return Err(VerifyNodesError::Verify {
                    node: node.clone(),
                    with: with.clone(),
                    source,
                });
            }
            Err(Apart::Stopped) => return Err(VerifyNodesError::Interrupted),
        }
        Ok(verdict)
    }
}
