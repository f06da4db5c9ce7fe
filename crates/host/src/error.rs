//! Errors of machines, and of starting and stopping servers, with text for messages.

use std::path::PathBuf;

/// How many characters of a log line are shown.
const LINE_MOST: usize = 400;

/// Why an operation on a machine failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program could not be started on this machine.
    #[error("cannot run {program}")]
    Spawn {
        /// Name of the program: `ssh`, or the local shell.
        program: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The machine did not answer in time.
    #[error("a command on {host} did not finish within {seconds} s")]
    Slow {
        /// Name of the machine in messages.
        host: String,
        /// The time limit, in seconds.
        seconds: u64,
    },
    /// A file could not be read.
    #[error("cannot read {path} on {host}: {reason}")]
    Read {
        /// Path on that machine.
        path: PathBuf,
        /// Name of the machine in messages.
        host: String,
        /// The system's error text.
        reason: String,
    },
    /// A file or folder could not be changed.
    #[error("cannot change {path} on {host}: {reason}")]
    Change {
        /// Path on that machine.
        path: PathBuf,
        /// Name of the machine in messages.
        host: String,
        /// The system's error text.
        reason: String,
    },
    /// A data directory was left unchanged because a server uses it.
    #[error("a server is running in {folder} on {host} (process {process})")]
    ServerRuns {
        /// Path of the data directory on that machine.
        folder: PathBuf,
        /// Name of the machine in messages.
        host: String,
        /// Process ID of the server.
        process: String,
    },
}

/// Why a node could not be started, stopped or checked.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {what}: {reason}")]
pub struct ControlError {
    what: String,
    doing: &'static str,
    reason: String,
}

impl ControlError {
    /// The reason why `doing` something with `what` failed.
    pub fn new(what: &str, doing: &'static str, reason: String) -> Self {
        Self {
            what: what.to_owned(),
            doing,
            reason,
        }
    }
}

/// An error and its causes, as one fragment of text.
pub fn chain(error: &dyn std::error::Error) -> String {
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

/// Foreign text, as one line that is safe to show.
pub fn plain(line: &str) -> String {
    let line = line.trim().chars().take(LINE_MOST);
    line.map(|c| if c.is_control() { ' ' } else { c }).collect()
}
