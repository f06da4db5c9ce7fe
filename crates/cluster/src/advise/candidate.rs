//! A node to be looked at.

use serde::{Deserialize, Serialize};

use crate::member::Member;

/// A node to be looked at.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// How to ask its server, and where its machine is. If the server runs, its process shows its
    /// option file.
    pub member: Member,
    /// The systemd unit that starts it, if given. If the server runs, its process shows it.
    pub unit: Option<String>,
    /// What its server showed while it ran, if it is down by now.
    pub shown: Shown,
}

/// What a server shows only while it runs: what its process was started with. A machine may have
/// more than one server, and programs of another version where packages put them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Its option file.
    pub defaults_file: Option<String>,
    /// `@@basedir`: the directory of its programs.
    pub basedir: Option<String>,
    /// The `PATH` of its process.
    pub path: Option<String>,
}
