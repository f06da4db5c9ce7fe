//! How far a maintenance has come, what came of it, and why a node is not back.

use refloat_run::settings::SettingsError;
use refloat_run::{RunDir, RunDirError, RunId};
use serde::{Deserialize, Serialize};

use crate::error::ControlError;
use crate::hold::HoldPlan;
use crate::journal::LogMark;
use crate::keep::KeepError;
use crate::proof::Proof;

/// The file of a run in which it stands how far a maintenance has come.
pub const STATE: &str = "maintain.json";
/// Its format.
pub(super) const FORMAT: u32 = 1;

/// How far a maintenance has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaintainPhase {
    /// The others are being told to keep write-sets.
    Holding,
    /// The node is being stopped.
    Stopping,
    /// It is down.
    Away,
    /// It is being started.
    Starting,
    /// It is back, and the others are being told that they need not keep anything.
    Releasing,
    /// Nothing is left to do.
    Ended,
}

/// What is written down of a maintenance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaintainState {
    /// Number of this format.
    pub format: u32,
    /// What people call the cluster.
    pub cluster: String,
    /// What was planned.
    pub plan: HoldPlan,
    /// How far it has come.
    pub phase: MaintainPhase,
    /// The runs in whose folders it stands what the others were told, with their places among the nodes.
    pub holds: Vec<(usize, RunId)>,
    /// The last write-set that the node had when it left.
    pub left: Option<u64>,
    /// Where its log ended then.
    pub(super) log: Option<LogMark>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Maintained {
    /// The node.
    pub node: String,
    /// By which way it came back.
    pub proof: Proof,
    /// The last write-set that it had when it left.
    pub left: u64,
    /// The last one that the cluster had when it was back.
    pub back: u64,
    /// Bytes of write-sets that the cluster wrote meanwhile, by those that kept them; `None`: nobody had counted them.
    pub bytes: Option<u64>,
    /// How long it was down, in seconds; `None`: another process had begun it.
    pub away_seconds: Option<f64>,
    /// From its start until it was in step with the others, in seconds.
    pub join_seconds: f64,
    /// Why the hold was given up before the node was back.
    pub given_up: Option<String>,
    /// Nodes that could not be told that they need not keep anything any more, and why.
    pub not_released: Vec<(String, String)>,
    /// What went wrong with the work, which the node was down for.
    pub work_failed: Option<String>,
}

/// Why a node is not back.
#[derive(Debug, thiserror::Error)]
pub enum MaintainError {
    /// It would not come back by what it has missed.
    #[error("{node} would need a full copy: {reason}")]
    Short {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// A node does not keep what it was told to keep.
    #[error("{node} does not keep write-sets: {reason}")]
    NotHeld {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// The run's own folder cannot be used.
    #[error(transparent)]
    Folder(#[from] RunDirError),
    /// Settings could not be changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The node could not be stopped or started.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// It does not come back.
    #[error("{node} is not back: {reason}")]
    NotBack {
        /// The node.
        node: String,
        /// What is known.
        reason: String,
    },
    /// It must not go away as things are.
    #[error("{node} must not be stopped now: {reason}")]
    MustStay {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// It was told to stop, and goes on.
    #[error(
        "{node} was told to stop and still answers: when it stops after all, what it misses is not kept, and `refloat cluster rejoin {node}` brings it back"
    )]
    StillUp {
        /// The node.
        node: String,
    },
    /// It was told to stop, and nobody can tell whether it has.
    #[error(
        "{node} was told to stop, and whether it has is not known ({reason}): what it misses is not kept, and `refloat cluster rejoin {node}` brings it back"
    )]
    Unseen {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// Somebody stopped it.
    #[error("stopped on request")]
    Interrupted,
}

impl From<KeepError> for MaintainError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::NotHeld { node, reason } | KeepError::Taken { node, reason } => {
                Self::NotHeld { node, reason }
            }
            KeepError::Folder(error) => Self::Folder(error),
            KeepError::Settings(error) => Self::Settings(error),
        }
    }
}

/// What stands in a run's folder of a maintenance, if it is one that has not ended.
///
/// # Errors
/// The folder cannot be read.
pub fn open_maintenance(dir: &RunDir) -> Result<Option<MaintainState>, RunDirError> {
    if !dir.has(STATE) {
        return Ok(None);
    }
    let state: MaintainState = dir.read(STATE)?;
    Ok((state.phase != MaintainPhase::Ended && state.format == FORMAT).then_some(state))
}
