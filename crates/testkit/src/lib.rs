//! The testkit room: real servers for tests, and the oracle that says whether two of them hold the same. Not published.
//!
//! It must not share code with what it judges: it reads a server through plain `SELECT` and `SHOW`, never through the
//! loader's own readers, encoders or counters.
//!
//! Read first: [`servers::server`], [`oracle::Snapshot`], [`oracle::differences`].

pub mod oracle;
pub mod servers;
