//! A node that is to be looked at.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::member::Member;

/// A node to be looked at.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// How its server is asked, and where its machine is.
    pub member: Member,
    /// Its option file, where somebody knows it: of a server that runs it is seen.
    pub defaults_file: Option<PathBuf>,
    /// The unit of systemd that starts it, where somebody has said it: of a server that runs it is seen.
    pub unit: Option<String>,
    /// What its server has shown while it ran, of one that is down by now.
    pub shown: Shown,
}

/// What only a server that runs shows of itself: with what its process was started. A machine may have more than one server, and programs of
/// another version where packages put them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Its option file.
    pub defaults_file: Option<String>,
    /// `@@basedir`: where its programs are.
    pub basedir: Option<String>,
    /// Its search path.
    pub path: Option<String>,
}
