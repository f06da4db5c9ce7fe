//! How far a maintenance has come, what it has done, and why it failed.

use refloat_host::{ControlError, LogMark};
use refloat_run::settings::SettingsError;
use refloat_run::{Refusal, RunDir, RunDirError, RunId};
use serde::{Deserialize, Serialize};

use crate::hold::HoldPlan;
use crate::keep::KeepError;
use crate::proof::Proof;

/// The file in a run's folder that records how far a maintenance has come.
pub const STATE: &str = "maintain.json";
/// Version of that file's format.
pub(super) const FORMAT: u32 = 1;

/// How far a maintenance has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaintainPhase {
    /// The other nodes are being told to keep write-sets.
    Holding,
    /// The node is being stopped.
    Stopping,
    /// The node is down.
    Away,
    /// The node is being started.
    Starting,
    /// The node is back, and the others are being told to stop keeping write-sets.
    Releasing,
    /// Nothing is left to do.
    Ended,
}

/// The recorded state of a maintenance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaintainState {
    /// Version of the file's format.
    pub format: u32,
    /// The cluster that the node belongs to.
    pub cluster: String,
    /// The plan that is being carried out.
    pub plan: HoldPlan,
    /// How far the maintenance has come.
    pub phase: MaintainPhase,
    /// The runs whose journals record what other nodes were told, with the indexes of those nodes.
    pub holds: Vec<(usize, RunId)>,
    /// The last write-set that the node had when it left. `None`: it has not left, or did not
    /// report it.
    pub left: Option<u64>,
    /// The end of its log at that time.
    pub(super) log: Option<LogMark>,
}

/// The result of a maintenance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Maintained {
    /// The node that was maintained.
    pub node: String,
    /// How it rejoined, and the evidence.
    pub proof: Proof,
    /// The last write-set that the node had when it left.
    pub left: u64,
    /// The cluster's last write-set when the node was back.
    pub back: u64,
    /// Bytes of write-sets written meanwhile, as counted by the nodes that kept them. `None`: not
    /// counted.
    pub bytes: Option<u64>,
    /// How long the node was down, in seconds. `None`: another process began the maintenance.
    pub away_seconds: Option<f64>,
    /// Seconds from its start until it was synced with the others.
    pub join_seconds: f64,
    /// Why the hold was given up before the node was back. `None`: it was not.
    pub given_up: Option<String>,
    /// Nodes that could not be told to stop keeping write-sets, and why.
    pub not_released: Vec<(String, String)>,
    /// What went wrong with the work for which the node was down. `None`: nothing.
    pub work_failed: Option<String>,
}

/// Why a maintenance failed.
#[derive(Debug, thiserror::Error)]
pub enum MaintainError {
    /// The node could not rejoin by IST.
    #[error("{node} would need a full copy: {reason}")]
    Short {
        /// The node to be maintained.
        node: String,
        /// Why not.
        reason: String,
    },
    /// A node does not keep the write-sets that it was told to keep.
    #[error("{node} does not keep write-sets: {reason}")]
    NotHeld {
        /// The node that should keep them.
        node: String,
        /// Why not.
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
    /// The node did not rejoin.
    #[error("{node} is not back: {wrong}")]
    NotBack {
        /// The node that was maintained.
        node: String,
        /// What is known about it, and what to do.
        wrong: Refusal,
    },
    /// The node must not leave now.
    #[error("{node} must not be stopped now: {}", Refusal::reasons(against))]
    MustStay {
        /// The node to be maintained.
        node: String,
        /// Why not.
        against: Vec<Refusal>,
    },
    /// The node was told to stop and still runs.
    #[error(
        "{node} was told to stop and still answers: when it stops after all, what it misses is not kept, and `refloat cluster rejoin {node}` brings it back"
    )]
    StillUp {
        /// The node to be maintained.
        node: String,
    },
    /// The node was told to stop, and it is unknown whether it has.
    #[error(
        "{node} was told to stop, and whether it has is not known ({reason}): what it misses is not kept, and `refloat cluster rejoin {node}` brings it back"
    )]
    Unseen {
        /// The node to be maintained.
        node: String,
        /// Why that is unknown.
        reason: String,
    },
    /// The user stopped the maintenance.
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

/// The state of the maintenance in this run's folder. `None`: there is none, or the maintenance has
/// ended.
///
/// # Errors
/// The folder cannot be read.
pub fn open_maintenance(dir: &RunDir) -> Result<Option<MaintainState>, RunDirError> {
    let state: Option<MaintainState> = dir.state(STATE, FORMAT)?;
    Ok(state.filter(|state| state.phase != MaintainPhase::Ended))
}
