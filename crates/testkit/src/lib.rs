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
/// Between two looks at something that changes within milliseconds. Looking without a pause takes
/// a core, which what is waited for may need.
pub const SOON: Duration = Duration::from_millis(1);

/// A certificate that expired in 2021. Nobody uses it.
pub const EXPIRED_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBFjCBvAIBATAKBggqhkjOPQQDAjAXMRUwEwYDVQQDDAxyZWZsb2F0LXRlc3Qw\n\
    HhcNMjAwMTAxMDAwMDAwWhcNMjEwMTAxMDAwMDAwWjAXMRUwEwYDVQQDDAxyZWZs\n\
    b2F0LXRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQnlO2E4eNbffyECfxd\n\
    4HDhhofnuATDKHkyUtj56eJQYeq92pfe84OPGDdwJ2Wu9RpcMGMouqx1NRJtjiAz\n\
    +X2WMAoGCCqGSM49BAMCA0kAMEYCIQD2Pvap8WSuMpaCJnD7lX27Cc88w5tGe5fx\n\
    qWjdyqo9XgIhAL6TZkosysm8xzso92agNJZYMDl7ySzCAkd3DpFg5ln6\n\
    -----END CERTIFICATE-----\n";

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
