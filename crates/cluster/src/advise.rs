//! Checks state transfers (SST) before they are needed: what would make one fail or be unsafe, and
//! which settings make it faster.
//!
//! There are two halves. `inspect` examines the nodes and their machines the way MariaDB's own
//! scripts (`wsrep_sst_mariabackup`, `wsrep_sst_rsync`, `wsrep_sst_common`) do, and changes
//! nothing. `judge` draws the conclusions, and accesses nothing.

mod candidate;
mod encryption;
mod facts;
mod fragment;
mod inspect;
mod mistake;
mod mistakes;
mod pairs;
mod reach;
mod script;
mod settings;
mod sides;
mod streams;
mod suggestion;
mod transfer;
mod unit;

pub(crate) use script::lines;

use std::time::Duration;

use serde::Serialize;

pub use candidate::{Candidate, Shown};
pub(crate) use facts::receives_at;
pub use facts::{
    Account, AccountFrom, Ending, Listener, MachineFacts, Memory, NodeFacts, Options, Space, Unit,
};
pub use fragment::fragment;
use inspect::Facts;
pub use mistake::{Effect, Mistake, MistakeKind};
pub use suggestion::{Gain, GainSource, Suggestion};

/// What [`advise`] assumes, and how long it may measure.
#[derive(Debug, Clone)]
pub struct AdviseOptions {
    /// The joiner of the copy. `None`: any node.
    pub joiner: Option<String>,
    /// How long a node should be able to stay away and still rejoin without a copy.
    pub window: Option<Duration>,
    /// How long to measure rates.
    pub sample: Duration,
}

impl Default for AdviseOptions {
    fn default() -> Self {
        Self {
            joiner: None,
            window: None,
            sample: Duration::from_secs(1),
        }
    }
}

/// Advice on the state transfers of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Name of the cluster, chosen by the user.
    pub cluster: String,
    /// The joiner of the copy. `None`: any node.
    pub joiner: Option<String>,
    /// The facts about each node, in the order of the list.
    pub nodes: Vec<NodeFacts>,
    /// What would make a copy fail or be unsafe, worst first.
    pub mistakes: Vec<Mistake>,
    /// Settings that would make copies faster or safer.
    pub suggestions: Vec<Suggestion>,
}

impl Advice {
    /// The segment of a node (`gmcast.segment`). Also known for a stopped node, if its option files
    /// can be read.
    pub fn segment(&self, node: &str) -> Option<u64> {
        let mut nodes = self.nodes.iter();
        nodes.find(|one| one.name == node)?.segment()
    }

    /// What the server of a node reveals about itself only while it runs.
    pub fn shown(&self, node: &str) -> Shown {
        let mut nodes = self.nodes.iter();
        let node = nodes.find(|one| one.name == node);
        node.map(NodeFacts::shown).unwrap_or_default()
    }

    /// The mistakes that would make a copy fail.
    pub fn failing(&self) -> impl Iterator<Item = &Mistake> {
        let mistakes = self.mistakes.iter();
        mistakes.filter(|mistake| mistake.effect == Effect::Fails)
    }

    /// What would keep a rejoining node out even if it came by IST: its own mistakes, and those
    /// between it and the donors if every donor has one.
    pub fn keeps_away(&self, joiner: &str) -> Vec<&Mistake> {
        let between = || self.failing().filter(|mistake| mistake.is_between(joiner));
        let mut donors = self
            .nodes
            .iter()
            .filter(|node| node.name != joiner && node.can_give());
        let all = donors.all(|donor| between().any(|mistake| mistake.nodes.contains(&donor.name)));
        let of_joiner = self.failing().filter(|mistake| mistake.is_own(joiner));
        of_joiner.chain(between().filter(|_| all)).collect()
    }

    /// Whether anything was found that makes a copy fail.
    pub fn fails(&self) -> bool {
        self.failing().next().is_some()
    }
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// No node has this name.
    #[error("the cluster has no node {name:?}: its nodes are {nodes}")]
    UnknownNode {
        /// The name that was given.
        name: String,
        /// The names of the nodes.
        nodes: String,
    },
}

/// Examines the nodes of a cluster and judges its state transfers. Changes nothing.
///
/// # Errors
/// [`AdviseError::UnknownNode`].
pub fn advise(
    cluster: &str,
    candidates: &[Candidate],
    options: &AdviseOptions,
) -> Result<Advice, AdviseError> {
    let mut names = candidates
        .iter()
        .map(|candidate| candidate.member.name.as_str());
    if let Some(name) = &options.joiner
        && !names.clone().any(|one| one == name)
    {
        return Err(AdviseError::UnknownNode {
            name: name.clone(),
            nodes: names.by_ref().collect::<Vec<_>>().join(", "),
        });
    }
    let facts = inspect::inspect(
        cluster,
        candidates,
        options.joiner.as_deref(),
        options.sample,
    );
    Ok(judge(cluster, facts, options))
}

/// Draws conclusions from the facts.
fn judge(cluster: &str, facts: Facts, options: &AdviseOptions) -> Advice {
    let joiner = options.joiner.as_deref();
    Advice {
        cluster: cluster.to_owned(),
        joiner: options.joiner.clone(),
        mistakes: mistakes::find(&facts, joiner),
        suggestions: settings::suggest(&facts, joiner, options.window),
        nodes: facts.nodes,
    }
}

#[cfg(test)]
mod tests;
