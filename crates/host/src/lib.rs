//! Machines that servers run on, whether this one or one reached by `ssh`.
//!
//! A machine runs scripts within a time limit, and shows and changes files and data directories.
//! The crate must not print, read the environment, connect to a server, or know what a cluster is
//! asked to do.
//!
//! Read first: [`Host`] (a machine), [`datadir`] (what is done to a data directory) and
//! [`GraState`] (what a data directory says about its place in a Galera cluster).

pub mod datadir;
mod error;
mod files;
mod grastate;
mod host;
pub mod place;

pub use error::{HostError, chain, plain};
pub use grastate::GraState;
pub use host::{Host, last_line, listening};
