//! Runs real, throw-away database servers on this machine: for people, for the demo and for every
//! test.
//!
//! A sandbox is a directory of server instances. Each instance has its own data directory, port,
//! socket and error log. It keeps running after the program that started it ends, and leaves no
//! trace once it is removed.
//!
//! The crate only starts and stops programs. It talks to a server only through the server's own
//! client. It prints nothing, except the logs of an [`EphemeralCluster`] whose owner panics. From
//! the environment it takes only the temporary directory. It never signals a process before
//! checking that this is the one it started. It does not install anything either:
//! `scripts/install-servers` does that.
//!
//! A Galera cluster is a set of instances that know each other. Each node can have a network of its
//! own, and the cluster can have a proxy in front of it: [`GaleraOptions`], [`GaleraCluster`],
//! [`GaleraNode`].
//!
//! Start with [`Sandbox`] (where instances live and how they start), [`StartOptions`] (what to
//! start) and [`Instance`] (one server: its address, its client, its life cycle).
//!
//! Accounts: `root` without a password, over the socket and from 127.0.0.1. Servers listen on
//! 127.0.0.1 only; nodes of an isolated cluster listen on the cluster's own network instead, and
//! accept `root` from there. Anyone with an account on this machine can connect, so keep no secrets
//! in a sandbox.

mod cache;
mod ephemeral;
mod error;
mod files;
mod galera;
mod installation;
mod instance;
mod kind;
mod launch;
mod neighbours;
mod options;
mod ports;
mod process;
mod record;
mod sandbox;
mod start;
mod stop;
mod tls;
mod user;

pub use ephemeral::Ephemeral;
pub use error::Error;
pub use galera::{
    ClusterEntry, ClusterFolder, EphemeralCluster, GaleraCluster, GaleraNode, GaleraOptions,
    HaproxyOptions, NodeStart, SstMethod,
};
pub use installation::{DEFAULT_SERVERS_DIR, Installation};
pub use instance::{Entry, Instance, Status};
pub use kind::{ServerKind, UnknownServerKind};
pub use options::{StartOptions, Tls, parse_server_option, parse_start_option};
pub use ports::free_port;
pub use sandbox::Sandbox;

/// The result type of every function in this crate.
pub type Result<T> = std::result::Result<T, Error>;
