//! Galera clusters on this machine: real nodes that replicate to each other.
//!
//! A cluster is a directory with the files that its nodes share. The nodes themselves are instances
//! of the sandbox, named `<cluster>-1` and so on. Everything that a node needs to join the others
//! is in its own option file (`my.cnf`), which always lists all members, so a restarted node joins.
//! Only the first start, or a start that is asked to, bootstraps a new group, by an argument for
//! that one start.

mod cluster;
mod ephemeral;
mod haproxy;
mod list;
pub mod network;
mod node;
mod options;
pub mod programs;
mod record;
mod settings;
mod start;

pub use cluster::{ClusterEntry, GaleraCluster};
pub use ephemeral::EphemeralCluster;
pub use node::{GaleraNode, NodeStart};
pub use options::{GaleraOptions, HaproxyOptions, SstMethod};
pub use record::ClusterFolder;
