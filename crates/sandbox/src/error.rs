//! Everything that can go wrong in a sandbox.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ServerKind;

/// Why a sandbox operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's programs are not on this machine.
    #[error("{kind} is not installed: {missing} not found; install it with: scripts/install-servers {kind}", missing = .missing.display())]
    NotInstalled {
        /// The server that was requested.
        kind: ServerKind,
        /// The file or directory that should exist.
        missing: PathBuf,
    },
    /// A server program exists, but is of another series.
    #[error("{program} is version {found}, which is not {kind}; install it with: scripts/install-servers {kind}", program = .program.display())]
    WrongVersion {
        /// The server that was requested.
        kind: ServerKind,
        /// The program that was asked for its version.
        program: PathBuf,
        /// The version that it reported.
        found: String,
    },
    /// This cannot be the name of an instance.
    #[error(
        "{name:?} is not a name for a server: letters, digits, '.', '_' and '-', at most 64, the first a letter or digit"
    )]
    BadName {
        /// The rejected name.
        name: String,
    },
    /// An instance with this name exists, running or not.
    #[error("a server named {name:?} exists already")]
    NameTaken {
        /// The name that is taken.
        name: String,
    },
    /// No instance has this name.
    #[error("there is no server named {name:?}")]
    NoSuchInstance {
        /// The name that was looked up.
        name: String,
    },
    /// The instance exists, but its first start was never completed.
    #[error("the server {name:?} was never started completely; remove it and start it again")]
    HalfStarted {
        /// The name of the instance.
        name: String,
    },
    /// Another process is starting, stopping or removing the same instance, and did not finish in
    /// time.
    #[error("another process is working on the server {name:?}")]
    Busy {
        /// The name of the instance, or of the resource that is locked.
        name: String,
    },
    /// The text is not of the form `key=value` or `key`.
    #[error("{text:?} is not a server option: expected key=value, or key")]
    BadOption {
        /// The text as given.
        text: String,
    },
    /// The sandbox sets this option itself, to keep instances apart.
    #[error("the server option {key:?} is set by the sandbox and cannot be given")]
    ReservedOption {
        /// The option's name, as given.
        key: String,
    },
    /// The account that the server runs as cannot enter the directory that its files belong in.
    #[error("the user {user} cannot enter {folder}, so a server cannot keep its files in {wanted}", folder = .folder.display(), wanted = .wanted.display())]
    Unreachable {
        /// The account that the server runs as.
        user: String,
        /// The directory that it may not enter.
        folder: PathBuf,
        /// The directory that the files belong in.
        wanted: PathBuf,
    },
    /// The account for servers started by root does not exist.
    #[error("there is no user {user} to run the server as; scripts/install-servers makes it")]
    NoUser {
        /// The name of the missing account.
        user: String,
    },
    /// The socket's path is longer than the kernel allows.
    #[error("the socket path {path} has more than {limit} bytes; choose a shorter state folder or name", path = .path.display())]
    SocketPathTooLong {
        /// The path that is too long.
        path: PathBuf,
        /// The longest path allowed, in bytes.
        limit: usize,
    },
    /// A fresh data directory could not be initialised.
    #[error("cannot initialise a data directory for {kind}: {reason}\n{log}")]
    Initialise {
        /// The server whose data directory it is.
        kind: ServerKind,
        /// What happened, such as the exit status.
        reason: String,
        /// The last lines that the server wrote.
        log: String,
    },
    /// The server ended during its start, or never answered.
    #[error("the server {name:?} did not start: {reason}\n{log}")]
    Start {
        /// The name of the instance.
        name: String,
        /// What happened, such as the exit status.
        reason: String,
        /// The end of its error log.
        log: String,
    },
    /// Another program uses the instance's port.
    #[error("port {port} of the server {name:?} is in use by another program")]
    PortTaken {
        /// The name of the instance.
        name: String,
        /// The port that is in use.
        port: u16,
    },
    /// Found no free port.
    #[error("found no free port between {low} and {high} on 127.0.0.1")]
    NoFreePort {
        /// Lowest port of the range.
        low: u16,
        /// Highest port of the range.
        high: u16,
    },
    /// The server was told to shut down and is still running.
    #[error("the server {name:?} (pid {pid}) is still running {seconds} s after it was asked to stop", seconds = .waited.as_secs())]
    StillRunning {
        /// The name of the instance.
        name: String,
        /// Its process ID.
        pid: u32,
        /// How long we waited for it.
        waited: Duration,
    },
    /// The operation needs a stopped server, and this one is running.
    #[error("the server {name:?} is running")]
    Running {
        /// The name of the instance.
        name: String,
    },
    /// The process is stopped by SIGSTOP, so it cannot react to the request.
    #[error("the server {name:?} is frozen")]
    Frozen {
        /// The name of the instance.
        name: String,
    },
    /// The operation needs a running server, and this one is stopped.
    #[error("the server {name:?} is not running")]
    NotRunning {
        /// The name of the instance.
        name: String,
    },
    /// No cluster has this name.
    #[error("there is no cluster named {name:?}")]
    NoSuchCluster {
        /// The name that was looked up.
        name: String,
    },
    /// The instance is a standalone server, not a cluster node.
    #[error("the server {name:?} is not a node of a cluster")]
    NotANode {
        /// The name of the instance.
        name: String,
    },
    /// A node can only be removed together with its cluster.
    #[error("the server {name:?} is a node of the cluster {cluster:?}, and goes only with it")]
    NodeOfCluster {
        /// The name of the instance.
        name: String,
        /// The name of its cluster.
        cluster: String,
    },
    /// Galera is part of `MariaDB`; this server does not have it.
    #[error("{kind} has no Galera: a cluster takes mariadb-10.11 or mariadb-11.8")]
    NoGalera {
        /// The server that was requested.
        kind: ServerKind,
    },
    /// The cluster options contradict each other, or ask for something that does not exist.
    #[error("{reason}")]
    BadCluster {
        /// What is wrong with them.
        reason: String,
    },
    /// A program that clusters need is not on this machine.
    #[error("{program} is not installed; install it with: scripts/install-servers galera")]
    MissingProgram {
        /// The name of the program.
        program: String,
    },
    /// Only root can create network namespaces.
    #[error("only root can give every node a network of its own")]
    NeedsRoot,
    /// The nodes share this machine's network, which cannot be cut.
    #[error(
        "the nodes of the cluster {cluster:?} have no network of their own, so none can be cut off"
    )]
    NotIsolated {
        /// The name of the cluster.
        cluster: String,
    },
    /// All nodes are down, and none is known to have been the last to stop cleanly.
    #[error("no node of the cluster {cluster:?} is known to be the one that was stopped last")]
    NoSafeNode {
        /// The name of the cluster.
        cluster: String,
    },
    /// A server that was started to find its position did not log one.
    #[error("the server {name:?} did not report its position\n{log}")]
    NoPosition {
        /// The name of the instance.
        name: String,
        /// The end of its output.
        log: String,
    },
    /// A helper program failed.
    #[error("{program} failed: {reason}")]
    Helper {
        /// The program, or a phrase for what it was run for.
        program: String,
        /// Its exit status and what it wrote to standard error.
        reason: String,
    },
    /// A state file cannot be parsed, or has an unknown layout.
    #[error("cannot read the state file {path}: {source}", path = .path.display())]
    State {
        /// The path of the state file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// The operation as a verb: `create`, `read`, …
        action: &'static str,
        /// The file or directory that it was applied to.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: an [`Error::Io`] with its context.
    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
