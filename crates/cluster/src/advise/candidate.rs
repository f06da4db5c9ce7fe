//! A node to examine.

use serde::{Deserialize, Serialize};

use crate::member::Member;

/// A node to examine.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// How to reach its server and its machine. If the server runs, its option file is known from
    /// its process.
    pub member: Member,
    /// The systemd unit that starts it, if given. If the server runs, the unit is known from its
    /// process.
    pub unit: Option<String>,
    /// What its server revealed while it ran, if it is down now.
    pub shown: Shown,
}

/// What a server reveals only while it runs: how its process was started. A machine may have more
/// than one server, and programs of another version in the packages' usual place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// `--defaults-file` of its command line.
    pub defaults_file: Option<String>,
    /// `@@basedir`: the directory of its programs.
    pub basedir: Option<String>,
    /// The `PATH` of its process.
    pub path: Option<String>,
}
