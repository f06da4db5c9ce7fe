//! Galera clusters on this machine: real nodes that replicate to each other.
//!
//! A cluster is a folder with what its nodes share; the nodes themselves are instances of the sandbox, named
//! `<cluster>-1` and so on. What a node needs to join the others stands in an option file of its own (`my.cnf`), which
//! always names all members: a node that is started again joins, and only the first start, or one that is asked to,
//! begins a new group by an argument that is given once.

mod cluster;
mod ephemeral;
mod haproxy;
pub mod network;
mod node;
mod options;
mod position;
pub mod programs;
mod record;
mod settings;
mod start;

pub use cluster::{ClusterEntry, GaleraCluster};
pub(crate) use cluster::{check_removable, owner};
pub use ephemeral::EphemeralCluster;
pub use node::{GaleraNode, NodeStart};
pub use options::{GaleraOptions, HaproxyOptions, SstMethod};
pub use position::{GaleraState, Position};
pub use record::ClusterFolder;
