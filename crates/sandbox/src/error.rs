//! Everything that can go wrong in a sandbox.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ServerKind;

/// Why a sandbox could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's programs are not on this machine.
    #[error("{kind} is not installed: {missing} not found; install it with: scripts/install-servers {kind}", missing = .missing.display())]
    NotInstalled {
        /// The server asked for.
        kind: ServerKind,
        /// The file or folder that should be there.
        missing: PathBuf,
    },
    /// A server program is there, but of another series.
    #[error("{program} is version {found}, which is not {kind}; install it with: scripts/install-servers {kind}", program = .program.display())]
    WrongVersion {
        /// The server asked for.
        kind: ServerKind,
        /// The program that was asked for its version.
        program: PathBuf,
        /// What it answered.
        found: String,
    },
    /// A name that cannot be the name of an instance.
    #[error(
        "{name:?} is not a name for a server: letters, digits, '.', '_' and '-', at most 64, the first a letter or digit"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// An instance of that name exists, running or not.
    #[error("a server named {name:?} exists already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// No instance of that name exists.
    #[error("there is no server named {name:?}")]
    NoSuchInstance {
        /// The name.
        name: String,
    },
    /// The instance exists, but was never started completely.
    #[error("the server {name:?} was never started completely; remove it and start it again")]
    HalfStarted {
        /// The name.
        name: String,
    },
    /// Another process starts, stops or removes the same instance, and does not finish.
    #[error("another process is at work on the server {name:?}")]
    Busy {
        /// The name.
        name: String,
    },
    /// The text is not of the form `key=value` or `key`.
    #[error("{text:?} is not a server option: expected key=value, or key")]
    BadOption {
        /// The text.
        text: String,
    },
    /// An option that the sandbox sets itself, to keep instances apart.
    #[error("the server option {key:?} is set by the sandbox and cannot be given")]
    ReservedOption {
        /// The option's name.
        key: String,
    },
    /// The account that the server runs as cannot get to the folder where its files are to be.
    #[error("the user {user} cannot enter {folder}, so a server cannot keep its files in {wanted}", folder = .folder.display(), wanted = .wanted.display())]
    Unreachable {
        /// The account.
        user: String,
        /// The folder that stops it.
        folder: PathBuf,
        /// Where the files were to be.
        wanted: PathBuf,
    },
    /// The account that servers run as when root starts them does not exist.
    #[error("there is no user {user} to run the server as; scripts/install-servers makes it")]
    NoUser {
        /// The account.
        user: String,
    },
    /// The path of the socket is longer than the kernel allows.
    #[error("the socket path {path} has more than {limit} bytes; choose a shorter state folder or name", path = .path.display())]
    SocketPathTooLong {
        /// The path.
        path: PathBuf,
        /// The most that is possible, in bytes.
        limit: usize,
    },
    /// A fresh data directory could not be made.
    #[error("cannot initialise a data directory for {kind}: {reason}\n{log}")]
    Initialise {
        /// The server.
        kind: ServerKind,
        /// What happened.
        reason: String,
        /// The end of what the server wrote.
        log: String,
    },
    /// The server ended, or never answered, while it was being started.
    #[error("the server {name:?} did not start: {reason}\n{log}")]
    Start {
        /// The instance.
        name: String,
        /// What happened.
        reason: String,
        /// The end of its error log.
        log: String,
    },
    /// The instance's port is in use by another program.
    #[error("port {port} of the server {name:?} is in use by another program")]
    PortTaken {
        /// The instance.
        name: String,
        /// The port.
        port: u16,
    },
    /// No free port was found.
    #[error("found no free port between {low} and {high} on 127.0.0.1")]
    NoFreePort {
        /// First port tried.
        low: u16,
        /// Last port tried.
        high: u16,
    },
    /// The server was asked to shut down and is still there.
    #[error("the server {name:?} (pid {pid}) still runs {seconds} s after it was asked to stop", seconds = .waited.as_secs())]
    StillRunning {
        /// The instance.
        name: String,
        /// Its process.
        pid: u32,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The instance runs, and should not for what was asked.
    #[error("the server {name:?} is running")]
    Running {
        /// The instance.
        name: String,
    },
    /// The process is stopped by SIGSTOP, so it can do nothing of what was asked.
    #[error("the server {name:?} is frozen")]
    Frozen {
        /// The instance.
        name: String,
    },
    /// The instance does not run, and should for what was asked.
    #[error("the server {name:?} is not running")]
    NotRunning {
        /// The instance.
        name: String,
    },
    /// No cluster of that name exists.
    #[error("there is no cluster named {name:?}")]
    NoSuchCluster {
        /// The name.
        name: String,
    },
    /// The instance is a server of its own, and no node of a cluster.
    #[error("the server {name:?} is no node of a cluster")]
    NotANode {
        /// The instance.
        name: String,
    },
    /// A node goes only with its cluster.
    #[error("the server {name:?} is a node of the cluster {cluster:?}, and goes only with it")]
    NodeOfCluster {
        /// The instance.
        name: String,
        /// Its cluster.
        cluster: String,
    },
    /// Galera is part of `MariaDB`, not of this server.
    #[error("{kind} has no Galera: a cluster takes mariadb-10.11 or mariadb-11.8")]
    NoGalera {
        /// The server asked for.
        kind: ServerKind,
    },
    /// The options of a cluster contradict each other, or ask for what there is not.
    #[error("{reason}")]
    BadCluster {
        /// What is wrong.
        reason: String,
    },
    /// A program that clusters need is not on this machine.
    #[error("{program} is not installed; install it with: scripts/install-servers galera")]
    MissingProgram {
        /// The program.
        program: String,
    },
    /// Network namespaces can be made by root alone.
    #[error("only root can give every node a network of its own")]
    NeedsRoot,
    /// The nodes share this machine's own network, which cannot be cut.
    #[error(
        "the nodes of the cluster {cluster:?} have no network of their own, so none can be cut off"
    )]
    NotIsolated {
        /// The cluster.
        cluster: String,
    },
    /// All nodes are down, and none of them was the last to be stopped cleanly.
    #[error("no node of the cluster {cluster:?} is known to be the one that was stopped last")]
    NoSafeNode {
        /// The cluster.
        cluster: String,
    },
    /// The log of a server that was started to find out its position says none.
    #[error("the server {name:?} did not tell its position\n{log}")]
    NoPosition {
        /// The instance.
        name: String,
        /// The end of what it wrote.
        log: String,
    },
    /// A helper program failed.
    #[error("{program} failed: {reason}")]
    Helper {
        /// The program.
        program: String,
        /// Its exit status and what it wrote to standard error.
        reason: String,
    },
    /// A state file cannot be understood.
    #[error("cannot read the state file {path}: {source}", path = .path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// What was being done: `create`, `read`, …
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the operating system said.
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
