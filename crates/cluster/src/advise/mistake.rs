//! Something that makes a state transfer fail, or unsafe.

use serde::Serialize;

use super::facts::{TEXT_MOST, clean};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// What it is about.
    pub kind: MistakeKind,
    /// What it does to a copy.
    pub effect: Effect,
    /// The nodes that it is about, by name.
    pub nodes: Vec<String>,
    /// What it is, and what it means.
    pub text: String,
    /// What to do.
    pub remedy: String,
}

/// What a mistake does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A copy works with it, but something is in danger.
    Unsafe,
    /// A copy fails.
    Fails,
}

impl Mistake {
    /// It in one line, with the nodes that it is about.
    pub fn told(&self) -> String {
        format!("{}: {}", self.nodes.join(", "), self.text)
    }

    /// Whether it is the joiner's alone, and keeps it away when it would come by IST too: the script for copies is started in any case.
    pub(super) fn is_own(&self, joiner: &str) -> bool {
        let kind = matches!(
            self.kind,
            MistakeKind::Leftover
                | MistakeKind::PortTaken
                | MistakeKind::MissingTool
                | MistakeKind::Encryption
                | MistakeKind::Certificate
        );
        kind && self.nodes.len() == 1 && self.nodes[0] == joiner
    }

    /// Whether it is one of the joiner and donors, and keeps it away when it would come by IST too: a donor's script tells the joiner's that
    /// there will be no copy by the way that one would take.
    pub(super) fn is_between(&self, joiner: &str) -> bool {
        let kind = matches!(
            self.kind,
            MistakeKind::Compressor
                | MistakeKind::Format
                | MistakeKind::Encryption
                | MistakeKind::PortClosed
        );
        kind && self.nodes.len() > 1 && self.nodes.iter().any(|node| node == joiner)
    }
}

/// What a mistake is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MistakeKind {
    /// No node can give a copy.
    NoDonor,
    /// `wsrep_sst_donor` names a node that there is not.
    DonorName,
    /// Nodes have different methods.
    Method,
    /// A program is not there.
    MissingTool,
    /// What one side compresses the other does not take apart.
    Compressor,
    /// The sides use different containers or programs for the transfer.
    Format,
    /// One side encrypts, or in another way, or its files are missing.
    Encryption,
    /// A certificate is over, or soon will be.
    Certificate,
    /// Everybody on the way can read the copy, or send another one.
    NoTls,
    /// There is no account for copies, or it may not log in.
    Account,
    /// The account may do too little.
    Privileges,
    /// The server runs under an account with which the method does not work.
    SystemAccount,
    /// The port is taken.
    PortTaken,
    /// The port cannot be reached.
    PortClosed,
    /// A donor gives a copy already.
    Busy,
    /// An earlier copy still runs, or has left something.
    Leftover,
    /// There is too little space.
    Space,
    /// Settings differ that the files depend on.
    Setting,
    /// Versions differ.
    Version,
    /// The limit of the rate has no effect.
    RateLimit,
    /// Systemd does not wait as long as a copy takes.
    StartTimeout,
}

/// What has been found so far.
#[derive(Default)]
pub(super) struct Found(Vec<Mistake>);

impl Found {
    /// Adds one, unless it is there already: what two nodes have against each other is met from both sides.
    pub fn add(
        &mut self,
        kind: MistakeKind,
        effect: Effect,
        nodes: &[&str],
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let mistake = Mistake {
            kind,
            effect,
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
            text: clean(&text.into(), TEXT_MOST),
            remedy: clean(&remedy.into(), TEXT_MOST),
        };
        if !self.0.contains(&mistake) {
            self.0.push(mistake);
        }
    }

    pub fn fails(
        &mut self,
        kind: MistakeKind,
        nodes: &[&str],
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(kind, Effect::Fails, nodes, text, remedy);
    }

    pub fn worst_first(mut self) -> Vec<Mistake> {
        self.0
            .sort_by_key(|mistake| std::cmp::Reverse(mistake.effect));
        self.0
    }
}
