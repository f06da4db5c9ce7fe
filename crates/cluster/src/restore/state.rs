//! How far a restore has come, what came of it, and why it stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use refloat_load::{LeftMarks, LoadError};
use refloat_run::{RunDir, RunDirError};
use refloat_verify::VerifyError;
use serde::{Deserialize, Serialize};

use super::planned::{RestorePlan, RestoreWay};
use crate::error::{ControlError, HostError};
use crate::rejoin::{RejoinError, Rejoined};

/// The file of a run in which it stands how far a restore has come.
pub const STATE: &str = "restore.json";
/// Its format.
pub(super) const FORMAT: u32 = 1;

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreStep {
    /// The other nodes are stopped, one by one.
    Stop,
    /// The chosen node is stopped, gives its place in the cluster up, and is started as a server of its own.
    Standalone,
    /// The dump is loaded into it.
    Load,
    /// It is stopped, and begins the cluster anew, with a history of its own.
    Bootstrap,
    /// The others take a full copy, one at a time.
    Rejoin,
    /// Every node is compared with the chosen one.
    Verify,
    /// Nothing is left to do.
    Ended,
}

impl RestoreStep {
    /// All steps that can be stopped before.
    pub const ALL: [Self; 6] = [
        Self::Stop,
        Self::Standalone,
        Self::Load,
        Self::Bootstrap,
        Self::Rejoin,
        Self::Verify,
    ];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Standalone => "standalone",
            Self::Load => "load",
            Self::Bootstrap => "bootstrap",
            Self::Rejoin => "rejoin",
            Self::Verify => "verify",
            Self::Ended => "ended",
        }
    }

    /// The one behind it.
    pub(super) const fn next(self, way: RestoreWay) -> Self {
        match (way, self) {
            (RestoreWay::Rebuild, Self::Stop) => Self::Standalone,
            (RestoreWay::Rebuild, Self::Standalone) => Self::Load,
            (RestoreWay::Rebuild, Self::Load) => Self::Bootstrap,
            (RestoreWay::Rebuild, Self::Bootstrap) => Self::Rejoin,
            (RestoreWay::Rebuild, Self::Rejoin)
            | (RestoreWay::Replicate, Self::Stop | Self::Standalone | Self::Load) => Self::Verify,
            _ => Self::Ended,
        }
    }
}

/// What is known of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeProgress {
    /// The history that it had before, and the last write-set of it.
    pub left: Option<(String, u64)>,
    /// Whether that was recovered from its tables, because it had not written it down.
    #[serde(default)]
    pub recovered: bool,
    /// Where its old data are.
    pub aside: Option<PathBuf>,
    /// Its old data are lost: something had started it before they were set aside, and the full copy that it took has wiped them.
    #[serde(default)]
    pub overtaken: bool,
    /// How it came back.
    pub joined: Option<Rejoined>,
    /// Whether it was found to hold the same as the chosen node.
    pub same: bool,
}

/// What the load has brought.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// The run of the load.
    pub run: String,
    /// Rows that were committed.
    pub rows: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// Tables.
    pub tables: u64,
    /// How long it took, in seconds; what was loaded before an interruption is not in it.
    pub seconds: f64,
    /// Whether something had been loaded before an interruption.
    #[serde(default)]
    pub resumed: bool,
}

/// What is written down of a restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestoreState {
    /// Number of this format.
    pub format: u32,
    /// What people call the cluster.
    pub cluster: String,
    /// What was asked for: the source, and what decides on its content.
    pub asked: String,
    /// The command that goes on with it, as it is given to a shell.
    #[serde(default)]
    pub command: Option<String>,
    /// What was planned.
    pub plan: RestorePlan,
    /// What is to be done next.
    pub step: RestoreStep,
    /// What is known of each node, in the order of the list.
    pub nodes: Vec<NodeProgress>,
    /// The chosen node's values of the options that it was started with while it stood alone.
    pub before: BTreeMap<String, String>,
    /// The chosen node was seen to be the last member, and is told to stop.
    #[serde(default)]
    pub was_last: bool,
    /// What was loaded.
    pub loaded: Option<Loaded>,
    /// Marks of the load that are there still: not before it is written down that all is loaded may they go, or the same load would begin
    /// anew.
    #[serde(default)]
    pub marks: Option<LeftMarks>,
    /// The history that the cluster has begun.
    pub uuid: Option<String>,
    /// It has ended before its time: what it says of nodes that are down still holds.
    #[serde(default)]
    pub given_up: bool,
}

/// Why a restore stopped.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It must not be begun as things are.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    /// The dump would not be loaded: found while the cluster serves.
    #[error("the dump cannot be loaded into {node}")]
    Unloadable {
        /// The node, or the cluster where none was chosen yet.
        node: String,
        /// Why.
        source: Box<LoadError>,
    },
    /// A node is not as it has to be.
    #[error("{} {node}: {reason}", step.word())]
    Node {
        /// The step.
        step: RestoreStep,
        /// The node.
        node: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The load stopped.
    #[error("loading into {node}")]
    Load {
        /// The node.
        node: String,
        /// Why.
        source: Box<LoadError>,
    },
    /// The load came to its end, and something is not as it should be.
    #[error("what was loaded into {node} is not proven: {reason}")]
    NotProven {
        /// The node.
        node: String,
        /// What was found.
        reason: String,
        /// The way: whether the node stands alone, or all nodes serve what was loaded.
        way: RestoreWay,
    },
    /// A node did not come back.
    #[error(transparent)]
    Rejoin(#[from] RejoinError),
    /// Nodes could not be compared.
    #[error("comparing {node}")]
    Verify {
        /// The node.
        node: String,
        /// Why.
        source: Box<VerifyError>,
    },
    /// Nodes differ.
    #[error("{node} differs from {from}: {reason}")]
    Differs {
        /// The node.
        node: String,
        /// The one that was loaded into.
        from: String,
        /// The cluster's history.
        uuid: String,
        /// What was loaded.
        dump: String,
        /// What was found.
        reason: String,
    },
    /// Nodes may differ: each comparison found rows that do, and none was of one write-set.
    #[error(
        "whether {node} holds the same as {from} is not known: each comparison found differences in {reason}, and none was of the same write-set on both"
    )]
    Unsettled {
        /// The node.
        node: String,
        /// The one that was loaded into.
        from: String,
        /// What was found.
        reason: String,
    },
    /// The run's own folder cannot be used.
    #[error(transparent)]
    Folder(#[from] RunDirError),
    /// A node could not be stopped or started.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A machine could not be asked.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Somebody stopped it.
    #[error("stopped on request before the step {}", step.word())]
    Interrupted {
        /// The step that is next.
        step: RestoreStep,
    },
}

/// What stands in a run's folder of a restore, if it is one that has not ended.
///
/// # Errors
/// The folder cannot be read.
pub fn open_restore(dir: &RunDir) -> Result<Option<RestoreState>, RunDirError> {
    Ok(read(dir)?.filter(|state| state.step != RestoreStep::Ended))
}

/// The same of one that was given up.
///
/// # Errors
/// The folder cannot be read.
pub fn given_up_restore(dir: &RunDir) -> Result<Option<RestoreState>, RunDirError> {
    Ok(read(dir)?.filter(|state| state.given_up))
}

fn read(dir: &RunDir) -> Result<Option<RestoreState>, RunDirError> {
    if !dir.has(STATE) {
        return Ok(None);
    }
    let state: RestoreState = dir.read(STATE)?;
    Ok((state.format == FORMAT).then_some(state))
}
