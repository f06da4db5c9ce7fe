//! One server of a sandbox.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde::Serialize;

use crate::process::{ProcessId, find_server};
use crate::record::{Folder, Record};
use crate::{Error, Installation, Result, Sandbox, ServerKind, files, launch, stop};

/// How long to wait while another process works on the same instance.
const LOCK_PATIENCE: Duration = Duration::from_secs(200);

/// How long a clean shutdown may take: the dirty pages of a big buffer pool are written first.
const STOP_PATIENCE: Duration = Duration::from_secs(120);

/// What an instance is doing now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Its process is running.
    Running,
    /// Its process is running, but does not answer yet: a node that recovers, or waits for a state
    /// transfer.
    Starting,
    /// Its process is stopped by SIGSTOP and answers nothing.
    Frozen,
    /// Its process is running, but its network is cut off.
    Cut,
    /// It has no process; its data is still there.
    Stopped,
    /// Another process is starting, stopping or removing it right now.
    Busy,
    /// Its first start was interrupted before it ever answered. It can only be removed.
    Broken,
}

impl Status {
    /// Does it have a process, in whatever state?
    pub const fn is_alive(self) -> bool {
        matches!(
            self,
            Self::Running | Self::Starting | Self::Frozen | Self::Cut
        )
    }

    /// The word that lists show, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::Frozen => "frozen",
            Self::Cut => "cut",
            Self::Stopped => "stopped",
            Self::Busy => "busy",
            Self::Broken => "broken",
        }
    }
}

/// One line of a list of instances.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name of the instance.
    pub name: String,
    /// Its status at the time of listing.
    pub status: Status,
    /// The instance. `None` if its start has not written a state file, or never did.
    pub instance: Option<Instance>,
    /// The cluster that it is a node of. `None` for a standalone server.
    pub cluster: Option<String>,
}

/// One server of a sandbox: its address, its programs, its life cycle.
///
/// A value of this type holds the state file as it was last read. It does not own the server, which
/// keeps running when the value is dropped (see [`crate::Ephemeral`] for that).
#[derive(Debug, Clone)]
pub struct Instance {
    pub(crate) sandbox: Sandbox,
    pub(crate) folder: Folder,
    pub(crate) record: Record,
}

impl Instance {
    /// The name, unique within its sandbox.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Which server it is.
    pub const fn kind(&self) -> ServerKind {
        self.record.kind
    }

    /// The server's answer to `SELECT @@version` after its last start.
    pub fn version(&self) -> &str {
        &self.record.version
    }

    /// The address that it listens on: 127.0.0.1, or its address in the cluster's own network if it
    /// is a node of an isolated cluster.
    pub fn host(&self) -> Ipv4Addr {
        self.record.host()
    }

    /// The name of the cluster that it is a node of. `None` for a standalone server.
    pub fn cluster(&self) -> Option<&str> {
        self.record.node.as_ref().map(|node| node.cluster.as_str())
    }

    /// Its TCP port on [`Self::host`]; it stays the same across restarts.
    pub const fn port(&self) -> u16 {
        self.record.port
    }

    /// Its process ID at the last start. `None` if it has been stopped since.
    pub fn pid(&self) -> Option<u32> {
        self.record.process.map(|process| process.pid)
    }

    /// The path of its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.socket()
    }

    /// The path of its data directory.
    pub fn datadir(&self) -> PathBuf {
        self.folder.data()
    }

    /// The directory that holds everything that belongs to this instance.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The path of the server's error log.
    pub fn error_log(&self) -> PathBuf {
        self.folder.error_log()
    }

    /// The end of the error log, and for a cluster node the contents of `grastate.dat`. For someone
    /// who investigates a failure: removing the server removes its log too.
    pub fn last_words(&self) -> String {
        let place = std::fs::read_to_string(self.folder.grastate()).unwrap_or_default();
        let log = files::long_tail(&self.error_log());
        format!("== {}\n{place}{log}\n", self.folder().display())
    }

    /// The CA that signed its certificate. `None` if the CA is not in a file (`MariaDB` 11.8 makes
    /// a certificate in memory), or without TLS.
    pub fn ca_file(&self) -> Option<&Path> {
        self.record.ca_file.as_deref()
    }

    /// The command-line options that it was first started with, and keeps across restarts.
    pub fn options(&self) -> &[(String, Option<String>)] {
        &self.record.options
    }

    /// Its address over TCP: `mysql://root@HOST:PORT/`.
    pub fn url(&self) -> String {
        format!("mysql://root@{}:{}/", self.host(), self.port())
    }

    /// Its address over the unix socket: `mysql://root@localhost/?socket=PATH`, with the path
    /// percent-encoded.
    pub fn socket_url(&self) -> String {
        format!(
            "mysql://root@localhost/?socket={}",
            percent_encode(&self.socket().to_string_lossy())
        )
    }

    /// What it is doing now, as far as can be told without waiting.
    pub fn status(&self) -> Status {
        let mark = self.folder.mark();
        let alive = |process: &ProcessId| process.runs_with(&mark);
        let node = self.record.node.as_ref();
        match self.record.process.filter(alive) {
            Some(process) if process.is_frozen() => Status::Frozen,
            Some(_) if node.is_some_and(|node| node.cut) => Status::Cut,
            // `starting` is out of date if nothing has waited for the node to become ready.
            Some(_) if node.is_some_and(|node| node.starting) && !self.listens() => {
                Status::Starting
            }
            Some(_) => Status::Running,
            None if self.record.ready_once || node.is_some() => Status::Stopped,
            None => Status::Broken,
        }
    }

    fn listens(&self) -> bool {
        UnixStream::connect(self.socket()).is_ok()
    }

    /// The programs of its kind, labelled with the version that this server last reported.
    pub fn installation(&self) -> Result<Installation> {
        let found = Installation::locate(self.kind(), &self.sandbox.servers)?;
        Ok(found.with_version(self.version()))
    }

    /// The stock client, connected to this server as root over the socket. It reads no option
    /// files.
    pub fn client_command(&self) -> Result<Command> {
        let server = self.installation()?;
        Ok(launch::client(&server, server.client(), &self.folder))
    }

    /// The stock dump tool, connected to this server as root over the socket. It reads no option
    /// files.
    pub fn dump_command(&self) -> Result<Command> {
        let server = self.installation()?;
        Ok(launch::client(&server, server.dump(), &self.folder))
    }

    /// The stock administration tool, connected to this server as root over the socket. It reads no
    /// option files.
    pub fn admin_command(&self) -> Result<Command> {
        let server = self.installation()?;
        Ok(launch::client(&server, server.admin(), &self.folder))
    }

    /// Runs a query through the stock client. Rows are lines, and tabs separate the columns.
    ///
    /// Meant for small answers in tests and checks: the client escapes some bytes in values.
    ///
    /// # Errors
    /// [`Error::Helper`] with the client's message if the server rejects the query.
    pub fn query(&self, sql: &str) -> Result<String> {
        launch::ask(&self.installation()?, &self.folder, sql)
    }

    /// Shuts the server down cleanly and waits until it is gone. Does nothing if it is not running.
    ///
    /// # Errors
    /// [`Error::Frozen`]; [`Error::StillRunning`] if it takes longer than two minutes.
    pub fn stop(&mut self) -> Result<()> {
        self.stop_by(Signal::TERM, STOP_PATIENCE)
    }

    /// Ends the server with SIGKILL, like a crash, and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.stop_by(Signal::KILL, STOP_PATIENCE)
    }

    fn stop_by(&mut self, signal: Signal, patience: Duration) -> Result<()> {
        let _lock = self.lock()?;
        self.refresh()?;
        let Some(process) = self.record.process else {
            return Ok(());
        };
        if signal != Signal::KILL && process.is_frozen() {
            return Err(Error::Frozen {
                name: self.name().to_owned(),
            });
        }
        if !stop::signal_and_wait(process, &self.folder, signal, patience) {
            return Err(Error::StillRunning {
                name: self.name().to_owned(),
                pid: process.pid,
                waited: patience,
            });
        }
        self.record.process = None;
        if let Some(node) = &mut self.record.node {
            node.starting = false;
        }
        self.folder.write(&self.record)
    }

    /// Kills the server, without a clean shutdown, and deletes everything that belongs to the
    /// instance.
    pub fn remove(self) -> Result<()> {
        self.sandbox.remove(&self.record.name)
    }

    /// Records in the state file that the server answers.
    pub(crate) fn started(&mut self, process: ProcessId, version: String) -> Result<()> {
        self.record.process = Some(process);
        self.record.version = version;
        self.record.ready_once = true;
        self.folder.write(&self.record)
    }

    pub(crate) fn lock(&self) -> Result<files::Lock> {
        self.folder.lock(self.name(), LOCK_PATIENCE)
    }

    /// Reads the state file again, and looks for a server that it does not mention: another process
    /// may have restarted the server and been killed before it could record that. A second server
    /// on the same data directory would corrupt it.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let gone = || Error::NoSuchInstance {
            name: self.record.name.clone(),
        };
        self.record = self.folder.read()?.ok_or_else(gone)?;
        let mark = self.folder.mark();
        if !self.record.process.is_some_and(|it| it.runs_with(&mark))
            && let Some(process) = find_server(&mark)
        {
            self.record.process = Some(process);
        }
        Ok(())
    }
}

/// Encodes everything that could end or change a value in the query part of a URL (RFC 3986,
/// section 2).
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::percent_encode;

    #[test]
    fn a_path_in_a_url_is_encoded() {
        assert_eq!(percent_encode("/tmp/a b&c%.sock"), "/tmp/a%20b%26c%25.sock");
    }
}
