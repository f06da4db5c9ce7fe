//! Test support: real servers, and an oracle that decides whether two of them hold the same data.
//! Not published.
//!
//! The oracle must share no code with what it judges. It reads a server with plain `SELECT` and
//! `SHOW` statements, never through the loader's own readers, encoders or counters.
//!
//! Start with [`servers::server`], [`oracle::Snapshot`] and [`oracle::differences`].

use std::fmt::Write as _;
use std::time::{Duration, Instant};

pub mod cluster;
pub mod corpus;
pub mod disk;
pub mod memory;
pub mod oracle;
pub mod random;
pub mod s3;
pub mod servers;
pub mod ssh;
pub mod stop;
pub mod storages;
pub mod systemd;

/// How long a test waits for an expected event: a slow machine is no failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a condition holds, and panics if it does not within two minutes.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Formats an error and its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let _ = write!(text, ": {source}");
        next = source.source();
    }
    text
}
