//! Real throw-away database servers on this machine, for people, for the demo and for every test.
//!
//! A sandbox is a folder with server instances in it. Each instance has its own data directory, port, socket
//! and error log, keeps running when the program that started it ends, and goes away without a trace when it is
//! removed. The room starts and stops programs and nothing else: it never talks to a server except through the
//! server's own client, prints nothing but the last words of a cluster that was started for something that panics,
//! never reads the environment, and never signals a process before it has proven that the process is the server
//! that it started. It installs nothing either: `scripts/install-servers` does.
//!
//! A Galera cluster is a set of instances that know each other, with an optional network of their own for each and an
//! optional proxy in front: [`GaleraOptions`], [`GaleraCluster`], [`GaleraNode`].
//!
//! Read first: [`Sandbox`] (where instances live, and how they start), [`StartOptions`] (what to start) and
//! [`Instance`] (one server: its address, its client, its life).
//!
//! Accounts: `root` without a password, over the socket and from 127.0.0.1. Every server listens on 127.0.0.1
//! only. Anybody with an account on this machine can reach it, so keep no secrets in one.

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
mod tls;
mod user;

pub use ephemeral::Ephemeral;
pub use error::Error;
pub use galera::{
    ClusterEntry, ClusterFolder, EphemeralCluster, GaleraCluster, GaleraNode, GaleraOptions,
    GaleraState, HaproxyOptions, NodeStart, Position, SstMethod,
};
pub use installation::{DEFAULT_SERVERS_DIR, Installation};
pub use instance::{Entry, Instance, Status};
pub use kind::{ServerKind, UnknownServerKind};
pub use options::{StartOptions, Tls, parse_server_option};
pub use ports::free_port;
pub use sandbox::Sandbox;

/// What every function of this room gives back.
pub type Result<T> = std::result::Result<T, Error>;
