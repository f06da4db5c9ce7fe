//! Brings a stopped node back: by IST if another node still has the write-sets that it missed, and
//! by a full copy (SST) only if the user allows it.

mod donors;
mod hold;
mod place;
mod plan;
mod start;

use std::path::Path;
use std::time::Duration;

use refloat_host::{Control, ControlError};
use refloat_run::{Refusal, Run};
use serde::{Deserialize, Serialize};

use crate::history::{History, Parting};
use crate::hold::HoldPlan;
use crate::member::Member;
use crate::proof::Proof;
use crate::view::{Rejoin, RejoinKind};
pub use donors::copy_donors;
pub use hold::plan_hold_for_start;
pub(crate) use place::give_back_forgotten;
pub(crate) use plan::holds_data;
pub use plan::plan_rejoin;
pub(crate) use start::Giver;

/// The rejoin of one node.
#[derive(Debug)]
pub struct Rejoining<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// How the node is started and stopped.
    pub control: &'a Control,
    /// The state directory.
    pub state_dir: &'a Path,
    /// This run: its folder, events and cancellation.
    pub run: &'a Run,
    /// Limit on the time from the start of the node until it is synced. `None`: no limit.
    pub start_limit: Option<Duration>,
}

/// How a node rejoins.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RejoinPlan {
    /// The node that is to rejoin.
    pub node: String,
    /// Its index among the nodes.
    pub at: usize,
    /// How it would rejoin, and why.
    pub forecast: Rejoin,
    /// The last write-set that the node has; `None`: unknown.
    pub seqno: Option<u64>,
    /// UUID of the cluster's history.
    pub uuid: String,
    /// The donors to request, best first.
    pub donors: Vec<DonorChoice>,
    /// Whether its process already runs. Then refloat only waits for it.
    pub runs: bool,
    /// What a full copy would wipe that may be nowhere else, and the history to name in order to
    /// Data that a full copy would wipe and that may exist nowhere else, with the history that the
    /// user must name to give them up. `None`: there are none.
    pub only_copy: Option<OnlyCopy>,
    /// What would make the rejoin fail, as far as that was checked.
    pub fails: Vec<String>,
    /// What the other nodes are told to keep until the node is back. `None`: nothing.
    pub hold: Option<HoldPlan>,
    /// Whether the cluster's history contains the node's position. `None`: the node has no
    /// position, or already runs.
    pub history: Option<History>,
    /// The seqno to write into its `grastate.dat` before it starts. Set if the file has lost the
    /// seqno since the node's last start and nothing else happened to the node.
    pub place: Option<u64>,
    /// Whether refloat removes the node's position before it starts, so that it takes a full copy.
    pub gives_up: bool,
}

/// Data that a full copy would wipe and that may exist nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OnlyCopy {
    /// What the data is.
    pub what: String,
    /// The history that they belong to, which the user must name to give them up.
    pub history: String,
}

/// A possible donor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DonorChoice {
    /// Its name in the cluster file.
    pub name: String,
    /// Its `wsrep_node_name`.
    pub node_name: String,
    /// What speaks for and against it.
    pub why: String,
}

/// How a node rejoined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejoined {
    /// The node that rejoined.
    pub node: String,
    /// How it rejoined, and the evidence.
    pub proof: Proof,
    /// The last write-set that it had before. `None`: unknown.
    pub left: Option<u64>,
    /// The cluster's last write-set when the node was back.
    pub back: u64,
    /// Seconds from its start until it was synced with the others.
    pub join_seconds: f64,
    /// Bytes of InnoDB files in the full copy. `None`: there was no copy, or the size is unknown.
    pub copied: Option<u64>,
    /// Nodes that could not be told to stop keeping write-sets, and why.
    pub not_released: Vec<(String, String)>,
    /// Whether the cluster's history contains what the node held before. `None`: it took a full
    /// copy.
    pub history: Option<History>,
}

/// Why a node did not rejoin.
#[derive(Debug, thiserror::Error)]
pub enum RejoinError {
    /// The node must not be started now.
    #[error("{}", Refusal::reasons(.0))]
    Refused(Vec<Refusal>),
    /// It would take a full copy, which the user has not allowed.
    #[error("{node} needs a full copy (SST): {reason}")]
    NeedsCopy {
        /// The node that was to rejoin.
        node: String,
        /// Why it needs one.
        reason: String,
    },
    /// The node and the cluster have diverged. IST would send later write-sets and leave the
    /// differences in place.
    #[error("{node} and the cluster have diverged: {}", .parting.describe())]
    Parted {
        /// The node that was to rejoin.
        node: String,
        /// UUID of the cluster's history.
        history: String,
        /// What each side holds alone.
        parting: Box<Parting>,
    },
    /// A full copy would wipe data that may exist nowhere else.
    #[error("a full copy would wipe what may be nowhere else: {}", .0.what)]
    OnlyCopy(OnlyCopy),
    /// The node needs a full copy, which would wipe its data and then fail.
    #[error("a full copy would wipe what {node} has, and then fail: {}", .reasons.join("; "))]
    CopyFails {
        /// The node that was to rejoin.
        node: String,
        /// Why the copy would fail.
        reasons: Vec<String>,
    },
    /// The node would fail to rejoin.
    #[error("{node} would not come back: {}", .reasons.join("; "))]
    WouldFail {
        /// The node that was to rejoin.
        node: String,
        /// Why not.
        reasons: Vec<String>,
    },
    /// The node could not be started or checked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The user stopped the run before the node was started.
    #[error("{node} was not started: stopped on request")]
    NotStarted {
        /// The node that was to rejoin.
        node: String,
    },
    /// The user stopped the wait.
    #[error("{node} was still starting, and continues by itself")]
    Interrupted {
        /// The node that was to rejoin.
        node: String,
    },
    /// The node started but did not rejoin.
    #[error("{node} is not back: {wrong}")]
    NotBack {
        /// The node that was to rejoin.
        node: String,
        /// What is known about it, and what to do.
        wrong: Refusal,
    },
}

/// What the user has allowed.
#[derive(Debug, Clone, Default)]
pub struct Leave {
    /// The node may take a full copy.
    pub sst: bool,
    /// The history whose data on the node may be lost; `None`: none.
    pub discard: Option<String>,
    /// The node may be started although a check predicts that the rejoin fails.
    pub failing: bool,
}

impl RejoinPlan {
    /// Whether starting the node triggers a full copy, as far as that is known.
    pub const fn begins_copy(&self) -> bool {
        !self.runs && !matches!(self.forecast.kind, RejoinKind::Ist { .. })
    }

    /// Checks whether the node may be started.
    ///
    /// # Errors
    /// [`RejoinError::NeedsCopy`], [`RejoinError::Parted`], [`RejoinError::OnlyCopy`],
    /// [`RejoinError::CopyFails`], [`RejoinError::WouldFail`].
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
