//! What is asked of a restore, and what it would do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::rates::Rates;
use crate::advise::{Advice, Shown};
use crate::control::StartOption;

/// Less text is loaded in the time in which servers stop and start, so that no rate has to be known: 16 MiB.
const TEXT_LEAST: u64 = 16 << 20;

/// By which way the rows come to all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreWay {
    /// They are loaded into one node that stands alone, and the others take a full copy of it.
    Rebuild,
    /// They are loaded into one node of the cluster that goes on, which replicates them.
    Replicate,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct RestoreWish {
    /// The node that is loaded into; `None`: whichever is best.
    pub node: Option<String>,
    /// The way; `None`: the faster one.
    pub way: Option<RestoreWay>,
    /// Rates for the estimate.
    pub rates: Rates,
    /// Whether those that nobody knows are measured on the cluster where the way depends on them: rows are written to it for that.
    pub measure: bool,
    /// Whether nodes may lose their old data where those cannot be set aside.
    pub discard_old: bool,
    /// Where nodes stood, by name, before an earlier restore had one of them give its place up: history and last write-set.
    pub known: Vec<(String, (String, u64))>,
}

/// How long both ways would take, in seconds; the comparison at the end is the same for both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    /// One node alone, then full copies of it.
    pub rebuild: Option<f64>,
    /// Through replication.
    pub replicate: Option<f64>,
}

/// What becomes of a node's old data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum OldData {
    /// They stay: the dump is loaded beside them.
    Stay,
    /// They are set aside, under this name on the node's machine.
    Aside {
        /// The folder.
        path: PathBuf,
    },
    /// The full copy wipes them.
    Wiped {
        /// Why they cannot be set aside.
        reason: String,
    },
}

/// A node of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub runs: bool,
    /// The history that it holds, if it belongs to any, and its last write-set of it.
    pub history: Option<(String, Option<u64>)>,
    /// Its data directory.
    pub datadir: PathBuf,
    /// What becomes of its old data.
    pub old: OldData,
    /// With what its server ran: what is looked at when it is down is looked at by that.
    #[serde(default)]
    pub shown: Shown,
}

/// What a restore would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestorePlan {
    /// The dump.
    pub source: String,
    /// Bytes of text in it, as far as that can be told.
    pub text_bytes: Option<u64>,
    /// The way.
    pub way: RestoreWay,
    /// Why that one.
    pub why: String,
    /// How long both would take.
    pub estimates: Estimates,
    /// By which rates.
    #[serde(default)]
    pub rates: Rates,
    /// The place of the node that is loaded into.
    pub at: usize,
    /// All nodes, in the order of the list.
    pub nodes: Vec<PlannedNode>,
    /// With what the chosen node is started while it stands alone.
    pub options: Vec<StartOption>,
    /// The port that it has then.
    pub port: u16,
    /// The socket that it has then.
    pub socket: Option<PathBuf>,
    /// What a person should know before it begins.
    pub warnings: Vec<String>,
}

impl RestorePlan {
    /// Takes down what servers that run show of themselves.
    pub fn know(&mut self, advice: &Advice) {
        for node in &mut self.nodes {
            node.shown = advice.shown(&node.name);
        }
    }

    /// Whether it takes rates that nobody knows to choose the way.
    pub(super) fn is_undecided(&self, wish: &RestoreWish) -> bool {
        let large = self.text_bytes.is_some_and(|text| text >= TEXT_LEAST);
        let both = self.estimates.rebuild.zip(self.estimates.replicate);
        wish.way.is_none() && self.way == RestoreWay::Replicate && large && both.is_none()
    }

    /// The chosen node's name.
    pub fn chosen(&self) -> &str {
        &self.nodes[self.at].name
    }
}
