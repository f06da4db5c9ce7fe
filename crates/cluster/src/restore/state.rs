//! How far a restore has come, what it has done, and why it stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use refloat_host::{ControlError, HostError};
use refloat_load::{LeftMarks, LoadError};
use refloat_run::{Refusal, RunDir, RunDirError};
use refloat_verify::VerifyError;
use serde::{Deserialize, Serialize};

use super::planned::{RestorePlan, RestoreWay};
use crate::rejoin::{RejoinError, Rejoined};

/// The file in a run's folder that records how far a restore has come.
pub const STATE: &str = "restore.json";
/// Version of that file's format.
pub(super) const FORMAT: u32 = 1;

/// The next step of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum RestoreStep {
    /// Stop the other nodes, one by one.
    #[cfg_attr(feature = "clap", value(help = "Before anything is stopped"))]
    Stop,
    /// Stop the chosen node, discard its position in the cluster, and start it standalone.
    #[cfg_attr(feature = "clap", value(help = "Before the chosen node is stopped"))]
    Standalone,
    /// Load the dump into it.
    #[cfg_attr(feature = "clap", value(help = "Before anything is loaded"))]
    Load,
    /// Stop it and bootstrap the cluster from it, with a new history.
    #[cfg_attr(feature = "clap", value(help = "Before the cluster is bootstrapped"))]
    Bootstrap,
    /// Have the other nodes take a full copy, one at a time.
    #[cfg_attr(feature = "clap", value(help = "Before the others take full copies"))]
    Rejoin,
    /// Compare every node with the chosen one.
    #[cfg_attr(feature = "clap", value(help = "Before the nodes are compared"))]
    Verify,
    /// Nothing is left to do.
    #[cfg_attr(feature = "clap", value(skip))]
    Ended,
}

impl RestoreStep {
    /// All steps before which a restore can stop.
    pub const ALL: [Self; 6] = [
        Self::Stop,
        Self::Standalone,
        Self::Load,
        Self::Bootstrap,
        Self::Rejoin,
        Self::Verify,
    ];

    /// The step's name in commands and messages.
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

    /// The step that follows this one.
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

/// What has happened to one node so far, from its history to its proof.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeProgress {
    /// The node's history before the restore, and its last write-set there.
    pub left: Option<(String, u64)>,
    /// Whether `left` was recovered from the tables because `grastate.dat` did not have it.
    pub recovered: bool,
    /// Where its old data is.
    pub aside: Option<PathBuf>,
    /// Its old data is lost: something started the node before the data was set aside, and the
    /// resulting full copy wiped it.
    pub overtaken: bool,
    /// How it rejoined.
    pub joined: Option<Rejoined>,
    /// Whether it was found to hold the same data as the chosen node.
    pub same: bool,
}

/// The result of the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Id of the run that loaded.
    pub run: String,
    /// Committed rows.
    pub rows: u64,
    /// Bytes of dump text.
    pub bytes: u64,
    /// Loaded tables.
    pub tables: u64,
    /// Duration of the load in seconds, without the part before an interruption.
    pub seconds: f64,
    /// Whether part of it had been loaded before an interruption.
    pub resumed: bool,
}

/// The recorded state of a restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestoreState {
    /// Version of the file's format.
    pub format: u32,
    /// The cluster that is restored.
    pub cluster: String,
    /// The request: the source, and the options that decide what is loaded.
    pub asked: String,
    /// The shell command that resumes the restore.
    pub command: String,
    /// The plan that is being carried out.
    pub plan: RestorePlan,
    /// The next step.
    pub step: RestoreStep,
    /// Progress of each node, in the order of the list.
    pub nodes: Vec<NodeProgress>,
    /// The chosen node's values of the standalone options before they were changed, by variable.
    pub before: BTreeMap<String, String>,
    /// The chosen node was seen as the last member, and is being stopped.
    pub was_last: bool,
    /// What was loaded. `None`: the load is not complete.
    pub loaded: Option<Loaded>,
    /// Progress marks of the load that still exist. They may be deleted only after the complete
    /// load is recorded, or the same load would start over.
    pub marks: Option<LeftMarks>,
    /// UUID of the restored cluster's new history.
    pub uuid: Option<String>,
    /// The restore was given up before its end. What it records about stopped nodes still applies.
    pub given_up: bool,
}

/// Why a restore stopped.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It must not begin now.
    #[error("{}", Refusal::reasons(.0))]
    Refused(Vec<Refusal>),
    /// The dump cannot be loaded. Found while the cluster still serves.
    #[error("the dump cannot be loaded into {node}")]
    Unloadable {
        /// Name of the node, or of the cluster if no node is chosen yet.
        node: String,
        /// Why not.
        source: Box<LoadError>,
    },
    /// A node is not in the state that the step needs.
    #[error("{} {node}: {wrong}", step.word())]
    Node {
        /// The step that failed.
        step: RestoreStep,
        /// The node that is in another state.
        node: String,
        /// What is wrong with it, and what to do before the step can continue.
        wrong: Refusal,
    },
    /// The load stopped.
    #[error("loading into {node}")]
    Load {
        /// The node that is loaded into.
        node: String,
        /// Why.
        source: Box<LoadError>,
    },
    /// The load finished, but a check of its result failed.
    #[error("what was loaded into {node} is not proven: {reason}")]
    NotProven {
        /// The node that was loaded into.
        node: String,
        /// What was found.
        reason: String,
        /// The way of the restore: it tells whether the node runs standalone, or all nodes serve
        /// what was loaded.
        way: RestoreWay,
    },
    /// A node did not rejoin.
    #[error(transparent)]
    Rejoin(#[from] RejoinError),
    /// Nodes could not be compared.
    #[error("comparing {node}")]
    Verify {
        /// The node that was to be compared.
        node: String,
        /// Why not.
        source: Box<VerifyError>,
    },
    /// Nodes differ.
    #[error("{node} differs from {from}: {reason}")]
    Differs {
        /// Name of the node that differs.
        node: String,
        /// Name of the node that was loaded into.
        from: String,
        /// UUID of the cluster's history.
        uuid: String,
        /// The source that was loaded.
        dump: String,
        /// What differs.
        reason: String,
    },
    /// Nodes may differ: each comparison found differing rows, but never with both nodes at the
    /// same write-set.
    #[error(
        "whether {node} holds the same as {from} is not known: each comparison found differences in {reason}, and none was of the same write-set on both"
    )]
    Unsettled {
        /// Name of the node that may differ.
        node: String,
        /// Name of the node that was loaded into.
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
    /// A node's machine could not be reached.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The user stopped the restore.
    #[error("stopped on request before the step {}", step.word())]
    Interrupted {
        /// The step that is next.
        step: RestoreStep,
    },
}

impl RestoreState {
    /// Whether steps remain.
    pub fn is_open(&self) -> bool {
        self.step != RestoreStep::Ended
    }
}

/// The state of the restore in this run's folder. `None`: there is none that this version can read.
///
/// # Errors
/// The folder cannot be read.
pub fn recorded_restore(dir: &RunDir) -> Result<Option<RestoreState>, RunDirError> {
    dir.state(STATE, FORMAT)
}
