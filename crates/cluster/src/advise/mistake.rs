//! A problem that makes a state transfer fail or unsafe.

use serde::Serialize;

use super::facts::{TEXT_MOST, clean};

/// A mistake in the setup of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// What kind of mistake it is.
    pub kind: MistakeKind,
    /// What it does to a copy.
    pub effect: Effect,
    /// Names of the nodes concerned.
    pub nodes: Vec<String>,
    /// The mistake, and what it means.
    pub text: String,
    /// How to fix it.
    pub remedy: String,
}

/// What a mistake does to a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A copy works, but something is at risk.
    Unsafe,
    /// A copy fails.
    Fails,
}

impl Mistake {
    /// The mistake in one line, with the nodes concerned.
    pub fn describe(&self) -> String {
        format!("{}: {}", self.nodes.join(", "), self.text)
    }

    /// Whether it concerns the joiner alone and keeps the joiner out even if it would rejoin by
    /// IST: the server starts the script for copies in any case.
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

    /// Whether it concerns both the joiner and donors and keeps the joiner out even if it would
    /// rejoin by IST: the donor's script tells the joiner's over the copy's path that there will be
    /// no copy.
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

/// Which part of a full copy a mistake would make fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MistakeKind {
    /// No node can be the donor.
    NoDonor,
    /// `wsrep_sst_donor` names a node that does not exist.
    DonorName,
    /// Nodes have different methods.
    Method,
    /// A program is missing.
    MissingTool,
    /// One side cannot decompress what the other compresses.
    Compressor,
    /// The sides use different container formats or transfer programs.
    Format,
    /// One side does not encrypt, encrypts differently, or lacks files for it.
    Encryption,
    /// A certificate has expired, or soon will.
    Certificate,
    /// Anybody on the network can read the copy or send a forged one.
    NoTls,
    /// There is no account for copies, or it cannot log in.
    Account,
    /// The account lacks privileges.
    Privileges,
    /// The server runs as a system account with which the method does not work.
    SystemAccount,
    /// Another program uses the port.
    PortTaken,
    /// The port cannot be reached.
    PortClosed,
    /// A donor is already giving a copy.
    Busy,
    /// An earlier copy still runs, or left something behind.
    Leftover,
    /// There is too little space.
    Space,
    /// Settings that affect the data files differ.
    Setting,
    /// Versions differ.
    Version,
    /// The rate limit has no effect.
    RateLimit,
    /// systemd does not wait as long as a copy takes.
    StartTimeout,
}

/// The mistakes found so far.
#[derive(Default)]
pub(super) struct Found(Vec<Mistake>);

impl Found {
    /// Adds a mistake unless it is already there: one between two nodes is found from both sides.
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
