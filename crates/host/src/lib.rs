//! Machines that servers run on, whether this one or one reached by `ssh`.
//!
//! A machine runs scripts within a time limit, shows and changes files and data directories, and
//! starts and stops servers; a folder on it can store objects. The crate must not print, read the
//! environment, connect to a server, or know about operations on clusters.
//!
//! Read first: [`Host`] (a machine), [`Control`] (how a server on it is started and stopped) and
//! [`datadir`] (operations on a data directory).

mod control;
mod copying;
pub mod datadir;
mod error;
mod files;
#[cfg(test)]
mod fixtures;
pub mod fuzzing;
mod grastate;
mod host;
mod log;
pub mod place;
mod position;
pub mod scripts;
pub mod storage;
mod texts;

pub use control::{Control, ControlConfig, StartAs, StartOption};
pub use copying::Copying;
pub use error::{ControlError, HostError, chain, plain};
pub use grastate::GraState;
pub use host::{Host, forwarded_port, last_line};
pub use log::LogMark;
pub use position::Position;
