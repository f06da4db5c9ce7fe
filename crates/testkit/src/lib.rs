//! The testkit room: real servers for tests, and the oracle that says whether two of them hold the same. Not published.
//!
//! It must not share code with what it judges: it reads a server through plain `SELECT` and `SHOW`, never through the
//! loader's own readers, encoders or counters.
//!
//! Read first: [`servers::server`], [`oracle::Snapshot`], [`oracle::differences`].

use std::fmt::Write as _;

pub mod cluster;
pub mod corpus;
pub mod disk;
pub mod oracle;
pub mod random;
pub mod servers;
pub mod ssh;
pub mod systemd;

/// An error and its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let _ = write!(text, ": {source}");
        next = source.source();
    }
    text
}
