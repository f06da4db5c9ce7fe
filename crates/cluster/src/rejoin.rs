//! A node that is down comes back: by what it missed where anybody keeps that, and by a full copy only when somebody has said so.

mod donors;
mod hold;
mod place;
mod plan;
mod start;

use std::path::Path;
use std::time::Duration;

use refloat_run::Run;
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::error::ControlError;
use crate::history::{History, Parting};
use crate::hold::HoldPlan;
use crate::member::Member;
use crate::proof::Proof;
use crate::view::{Rejoin, RejoinKind};
pub use hold::plan_hold_for_start;
pub(crate) use place::give_back_forgotten;
pub(crate) use plan::holds_data;
pub use plan::plan_rejoin;
pub(crate) use start::Giver;

/// A node that is brought back.
#[derive(Debug)]
pub struct Rejoining<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// How the node is started and stopped.
    pub control: &'a Control,
    /// Where runs have their folders.
    pub state_dir: &'a Path,
    /// This run.
    pub run: &'a Run,
    /// So long the node may take from its start until it is in step; `None`: as long as it takes.
    pub start_limit: Option<Duration>,
}

/// How a node comes back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RejoinPlan {
    /// The node.
    pub node: String,
    /// Its place among the nodes.
    pub at: usize,
    /// By which way, and why.
    pub forecast: Rejoin,
    /// The last write-set that it has; `None`: nobody can tell.
    pub seqno: Option<u64>,
    /// The cluster's history.
    pub uuid: String,
    /// Who is asked first for what it needs, the best first.
    pub donors: Vec<DonorChoice>,
    /// Whether its process runs already: then it is only waited for.
    pub runs: bool,
    /// What a full copy would wipe that may be nowhere else, and by which name that is given up; `None`: nothing.
    pub only_copy: Option<OnlyCopy>,
    /// What would keep it from coming back by that way, as far as somebody has looked for it.
    pub fails: Vec<String>,
    /// What the others are told to keep until it is there; `None`: nothing.
    pub hold: Option<HoldPlan>,
    /// Whether its place is one in the history that the cluster goes on with; `None`: it has none, or runs already.
    pub history: Option<History>,
    /// The seqno that is written into its `grastate.dat` before it starts: it has forgotten it since its last start, and done nothing else.
    pub place: Option<u64>,
    /// Whether its place is taken away before it starts, so that it takes a full copy.
    pub gives_up: bool,
}

/// Data that a full copy would wipe and that may be nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OnlyCopy {
    /// What it is.
    pub what: String,
    /// The history that it belongs to, which whoever gives it up has to name.
    pub history: String,
}

/// A node that may be asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DonorChoice {
    /// What people call it.
    pub name: String,
    /// `wsrep_node_name`.
    pub node_name: String,
    /// What speaks for it, and what against.
    pub why: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejoined {
    /// The node.
    pub node: String,
    /// By which way it came back.
    pub proof: Proof,
    /// The last write-set that it had before; `None`: nobody knew.
    pub left: Option<u64>,
    /// The last one that the cluster had when it was back.
    pub back: u64,
    /// From its start until it was in step with the others, in seconds.
    pub join_seconds: f64,
    /// Bytes of InnoDB's files that came by a full copy; `None`: no copy was made, or nobody can tell.
    #[serde(default)]
    pub copied: Option<u64>,
    /// Nodes that could not be told that they need not keep write-sets any more, and why.
    #[serde(default)]
    pub not_released: Vec<(String, String)>,
    /// Whether what it held before was the cluster's; `None`: it has got a full copy.
    #[serde(default)]
    pub history: Option<History>,
}

/// Why a node is not back.
#[derive(Debug, thiserror::Error)]
pub enum RejoinError {
    /// It must not be started as things are.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    /// It would take a full copy, and nobody has allowed that.
    #[error("{node} needs a full copy (SST): {reason}")]
    NeedsCopy {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// It would be given what it has missed, and what it lacks besides, or has besides, would stay so.
    #[error("{node} and the cluster have parted: {}", .parting.told())]
    Parted {
        /// The node.
        node: String,
        /// The cluster's history.
        history: String,
        /// Both sides.
        parting: Box<Parting>,
    },
    /// It would wipe what may be nowhere else.
    #[error("a full copy would wipe what may be nowhere else: {}", .0.what)]
    OnlyCopy(OnlyCopy),
    /// The full copy that it needs would wipe what it has, and then fail.
    #[error("a full copy would wipe what {node} has, and then fail: {}", .reasons.join("; "))]
    CopyFails {
        /// The node.
        node: String,
        /// Why.
        reasons: Vec<String>,
    },
    /// It would not come back.
    #[error("{node} would not come back: {}", .reasons.join("; "))]
    WouldFail {
        /// The node.
        node: String,
        /// Why.
        reasons: Vec<String>,
    },
    /// It could not be started or looked at.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Somebody stopped it before it had begun.
    #[error("{node} was not started: stopped on request")]
    NotStarted {
        /// The node.
        node: String,
    },
    /// Somebody stopped the waiting.
    #[error("{node} was still on its way, and goes on by itself")]
    Interrupted {
        /// The node.
        node: String,
    },
    /// It does not come back.
    #[error("{node} is not back: {reason}")]
    NotBack {
        /// The node.
        node: String,
        /// What is known.
        reason: String,
    },
}

/// What somebody has allowed.
#[derive(Debug, Clone, Default)]
pub struct Leave {
    /// The node may take a full copy.
    pub sst: bool,
    /// The history whose data on the node may be lost.
    pub discard: Option<String>,
    /// It may be started although something was found that keeps it from coming back.
    pub failing: bool,
}

impl RejoinPlan {
    /// Whether to start the node begins a full copy, as far as can be told.
    pub const fn begins_copy(&self) -> bool {
        !self.runs && !matches!(self.forecast.kind, RejoinKind::Ist { .. })
    }

    /// Whether the node may be started.
    ///
    /// # Errors
    /// [`RejoinError::NeedsCopy`], [`RejoinError::OnlyCopy`], [`RejoinError::CopyFails`], [`RejoinError::WouldFail`].
    pub fn check(&self, leave: &Leave) -> Result<(), RejoinError> {
        let fails = !self.fails.is_empty() && !leave.failing;
        if !self.begins_copy() {
            return if fails {
                Err(RejoinError::WouldFail {
                    node: self.node.clone(),
                    reasons: self.fails.clone(),
                })
            } else {
                Ok(())
            };
        }
        if let (Some(History::Parted(parting)), false) = (&self.history, leave.sst) {
            return Err(RejoinError::Parted {
                node: self.node.clone(),
                history: self.uuid.clone(),
                parting: parting.clone(),
            });
        }
        if !leave.sst {
            return Err(RejoinError::NeedsCopy {
                node: self.node.clone(),
                reason: self.forecast.reason.clone(),
            });
        }
        match &self.only_copy {
            Some(lost) if leave.discard.as_ref() != Some(&lost.history) => {
                Err(RejoinError::OnlyCopy(lost.clone()))
            }
            _ if fails => Err(RejoinError::CopyFails {
                node: self.node.clone(),
                reasons: self.fails.clone(),
            }),
            _ => Ok(()),
        }
    }
}
