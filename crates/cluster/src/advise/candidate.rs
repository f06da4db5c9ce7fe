//! A node that is to be looked at.

use std::path::PathBuf;

use crate::observe::Member;

/// A node to be looked at.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// How its server is asked, and where its machine is.
    pub member: Member,
    /// Its option file, where somebody knows it: of a server that runs it is seen.
    pub defaults_file: Option<PathBuf>,
    /// The unit of systemd that starts it, where somebody has said it: of a server that runs it is seen.
    pub unit: Option<String>,
}
