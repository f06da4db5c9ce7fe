//! What can go wrong before anything is asked.

use std::path::PathBuf;

use refloat_wire::Error;

/// So many characters are shown of a line of a log.
const LINE_MOST: usize = 400;

/// Why a `cluster.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or has keys that nobody knows.
    #[error("{path}: {reason}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and what is wrong there, as the parser says it.
        reason: String,
    },
    /// It says something that cannot be.
    #[error("{path}: {reason}")]
    Meaning {
        /// The file.
        path: PathBuf,
        /// What, and of which node.
        reason: String,
    },
}

/// Why the nodes of a cluster could not be found from one of them.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The server could not be asked.
    #[error("cannot ask {node} for the nodes of its cluster")]
    Server {
        /// The node that was given.
        node: String,
        /// Why.
        source: Error,
    },
    /// It is no node of a Galera cluster.
    #[error("{node} is no node of a Galera cluster: {reason}")]
    NoGalera {
        /// The server that was given.
        node: String,
        /// What it says of itself.
        reason: String,
    },
}

/// Why a machine could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program could not be started here.
    #[error("cannot run {program}")]
    Spawn {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It did not answer in time.
    #[error("what was asked of {host} did not end within {seconds} s")]
    Slow {
        /// The machine.
        host: String,
        /// The limit.
        seconds: u64,
    },
    /// A file could not be read.
    #[error("cannot read {path} on {host}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The machine.
        host: String,
        /// The system's words.
        reason: String,
    },
}

/// Why a node could not be started, stopped or looked at.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {what}: {reason}")]
pub struct ControlError {
    what: String,
    doing: &'static str,
    reason: String,
}

impl ControlError {
    /// What was tried with what, and why it failed.
    pub fn new(what: &str, doing: &'static str, reason: String) -> Self {
        Self {
            what: what.to_owned(),
            doing,
            reason,
        }
    }
}

/// An error and its causes, as one fragment.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

/// A text of somebody else's, as one line that may be shown.
pub(crate) fn plain(line: &str) -> String {
    let line = line.trim().chars().take(LINE_MOST);
    line.map(|c| if c.is_control() { ' ' } else { c }).collect()
}
