//! The input of a restore plan, and the plan itself.

use std::path::PathBuf;

use refloat_host::StartOption;
use serde::{Deserialize, Serialize};

use super::rates::Rates;
use crate::advise::{Advice, Shown};

/// 16 MiB. Less text loads in less time than servers take to restart, so no rate is needed.
const TEXT_LEAST: u64 = 16 << 20;

/// How the rows reach all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum RestoreWay {
    /// Load into one standalone node, then full copies to the others.
    Rebuild,
    /// Load into one node of the running cluster.
    Replicate,
}

/// What the user requested.
#[derive(Debug, Clone)]
pub struct RestoreWish {
    /// The node to load into. `None`: the best one.
    pub node: Option<String>,
    /// The way. `None`: the faster one.
    pub way: Option<RestoreWay>,
    /// Rates for the estimate.
    pub rates: Rates,
    /// Whether to measure unknown rates on the cluster if the choice of the way depends on them.
    /// That writes rows to the cluster.
    pub measure: bool,
    /// Whether nodes may lose old data that cannot be set aside.
    pub discard_old: bool,
    /// Positions of nodes, by name, before an earlier restore had one of them discard its position:
    /// history and last write-set.
    pub known: Vec<(String, (String, u64))>,
}

/// The estimated duration of both ways, in seconds. The final comparison takes the same time for
/// both and is left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    /// One node standalone, then full copies of it. `None`: a rate or the size is unknown.
    pub rebuild: Option<f64>,
    /// Through replication. `None`: the rate or the size is unknown.
    pub replicate: Option<f64>,
}

/// What happens to a node's old data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum OldData {
    /// It stays: the dump is loaded beside it.
    Stay,
    /// It is set aside on the node's machine.
    Aside {
        /// The directory that it is moved to.
        path: PathBuf,
    },
    /// The full copy wipes it.
    Wiped {
        /// Why it cannot be set aside.
        reason: String,
    },
}

/// One node of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// As the list of nodes names it.
    pub name: String,
    /// Whether the node runs.
    pub runs: bool,
    /// The node's history, if it has one, and its last write-set there.
    pub history: Option<(String, Option<u64>)>,
    /// Its data directory.
    pub datadir: PathBuf,
    /// What happens to its old data.
    pub old: OldData,
    /// What the server revealed while it ran. The checks use these facts while it is down.
    pub shown: Shown,
}

/// What a restore would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestorePlan {
    /// The dump, as the user named it.
    pub source: String,
    /// Bytes of text in the dump, as far as known.
    pub text_bytes: Option<u64>,
    /// How the rows reach all nodes.
    pub way: RestoreWay,
    /// Why that way was chosen.
    pub why: String,
    /// The estimated duration of both ways.
    pub estimates: Estimates,
    /// The rates behind the estimates.
    pub rates: Rates,
    /// Index of the node to load into.
    pub at: usize,
    /// All nodes, in the order of the list.
    pub nodes: Vec<PlannedNode>,
    /// Options for the start of the chosen node as a standalone server.
    pub options: Vec<StartOption>,
    /// The port of the standalone server.
    pub port: u16,
    /// The socket of the standalone server. `None`: the path would be unusable.
    pub socket: Option<PathBuf>,
    /// What the user should know before the restore begins.
    pub warnings: Vec<String>,
}

impl RestorePlan {
    /// Records what the running servers reveal about themselves.
    pub fn add_advice(&mut self, advice: &Advice) {
        for node in &mut self.nodes {
            node.shown = advice.shown(&node.name);
        }
    }

    /// Whether the choice of the way depends on unknown rates.
    pub(super) fn is_undecided(&self, wish: &RestoreWish) -> bool {
        let large = self.text_bytes.is_some_and(|text| text >= TEXT_LEAST);
        let both = self.estimates.rebuild.zip(self.estimates.replicate);
        wish.way.is_none() && self.way == RestoreWay::Replicate && large && both.is_none()
    }

    /// Name of the chosen node.
    pub fn chosen(&self) -> &str {
        &self.nodes[self.at].name
    }
}
