//! The state file of an instance: one JSON file in its directory.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::{Error, Result, ServerKind, Tls, files};

const RECORD: &str = "instance.json";
const DATA: &str = "data";
const RUN: &str = "run";
const SOCKET: &str = "server.sock";
const PID_FILE: &str = "server.pid";
const ERROR_LOG: &str = "error.log";
const GRASTATE: &str = "grastate.dat";
const TEMPORARY: &str = "tmp";
const CERTIFICATES: &str = "tls";
const LOCK: &str = "lock";
const CONFIG: &str = "my.cnf";
const OWNER: &str = "cluster";

/// This variable, in the environment of every process of an instance, holds the path of the
/// instance's directory. Helpers that a server starts, such as the state transfer scripts, inherit
/// it.
const ENVIRONMENT: &str = "REFLOAT_SANDBOX_INSTANCE";

/// The layout of the state file. Files with another number are rejected.
pub const FORMAT: u32 = 1;

/// The longest path that a unix socket can have, in bytes: `sun_path` less its terminating NUL, see
/// unix(7).
pub const SOCKET_PATH_LIMIT: usize = 107;

/// The state file of an instance. It holds none of the paths that follow from the directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`] of the version that wrote it.
    pub format: u32,
    pub name: String,
    /// The kind that was requested.
    pub kind: ServerKind,
    /// The answer to `SELECT @@version`. Before the first answer, the version that the program
    /// reports.
    pub version: String,
    /// The TCP port on [`Self::host`].
    pub port: u16,
    /// Options for the server's command line, as given at the first start.
    pub options: Vec<(String, Option<String>)>,
    pub tls: Tls,
    /// The CA that signed the server's certificate. `None` if the CA is not in a file, or without
    /// TLS.
    pub ca_file: Option<PathBuf>,
    /// The server's process: set once it answers, or for a node as soon as it is spawned. `None` if
    /// it was stopped, or never got that far.
    pub process: Option<ProcessId>,
    /// Has it ever answered a query?
    pub ready_once: bool,
    /// Its place in a cluster. `None` for a standalone server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeRecord>,
}

/// The part of the state file that only nodes of a Galera cluster have.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeRecord {
    pub cluster: String,
    /// Its number in the cluster, from 1.
    pub number: u32,
    /// The address that it listens on: 127.0.0.1, or its address in the cluster's own network.
    pub host: Ipv4Addr,
    /// For group communication between the members.
    pub group_port: u16,
    /// Where it receives full state transfers (SST).
    pub sst_port: u16,
    /// Where it receives incremental state transfers (IST).
    pub ist_port: u16,
    /// The network namespace that it runs in. `None` if it uses the machine's network.
    pub namespace: Option<String>,
    /// The directory of the programs that a state transfer calls. Filled for servers of a package
    /// tree only.
    pub programs: PathBuf,
    /// It was started, and has not been seen ready yet.
    pub starting: bool,
    /// Is its network cut off?
    pub cut: bool,
    /// The length of the error log at the last start, in bytes.
    pub log_start: u64,
}

impl NodeRecord {
    /// All the ports that it uses besides the client port.
    pub const fn ports(&self) -> [u16; 3] {
        [self.group_port, self.sst_port, self.ist_port]
    }
}

impl Record {
    /// The address that the server listens on.
    pub fn host(&self) -> Ipv4Addr {
        self.node
            .as_ref()
            .map_or(Ipv4Addr::LOCALHOST, |node| node.host)
    }
}

/// The directory of one instance.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn record_file(&self) -> PathBuf {
        self.0.join(RECORD)
    }

    pub fn data(&self) -> PathBuf {
        self.0.join(DATA)
    }

    pub fn run(&self) -> PathBuf {
        self.0.join(RUN)
    }

    pub fn socket(&self) -> PathBuf {
        self.run().join(SOCKET)
    }

    /// Where `MySQL` records which process owns the socket.
    pub fn socket_lock(&self) -> PathBuf {
        self.run().join(format!("{SOCKET}.lock"))
    }

    pub fn pid_file(&self) -> PathBuf {
        self.run().join(PID_FILE)
    }

    pub fn error_log(&self) -> PathBuf {
        self.0.join(ERROR_LOG)
    }

    /// The file in which a node's wsrep provider keeps its position.
    pub fn grastate(&self) -> PathBuf {
        self.data().join(GRASTATE)
    }

    pub fn temporary(&self) -> PathBuf {
        self.0.join(TEMPORARY)
    }

    pub fn certificates(&self) -> PathBuf {
        self.0.join(CERTIFICATES)
    }

    /// The file that names the node's cluster. It is written as soon as the directory exists.
    pub fn owner_file(&self) -> PathBuf {
        self.0.join(OWNER)
    }

    /// The cluster that the directory was created for. `None` for a standalone server.
    pub fn owner(&self) -> Option<String> {
        fs::read_to_string(self.owner_file()).ok()
    }

    fn lock_file(&self) -> PathBuf {
        self.0.join(LOCK)
    }

    /// Takes the lock of an existing instance.
    ///
    /// # Errors
    /// [`Error::NoSuchInstance`]; [`Error::Busy`] if it is not free within `patience`.
    pub fn lock(&self, name: &str, patience: Duration) -> Result<files::Lock> {
        let gone = || Error::NoSuchInstance {
            name: name.to_owned(),
        };
        if !self.0.is_dir() {
            return Err(gone());
        }
        let lock = files::Lock::take(&self.lock_file(), patience)?.ok_or_else(|| Error::Busy {
            name: name.to_owned(),
        })?;
        // The previous holder may have removed the instance, and the lock file with it.
        if self.lock_file().exists() {
            Ok(lock)
        } else {
            Err(gone())
        }
    }

    /// The argument that identifies this instance's server: no other server is started with it.
    pub fn mark(&self) -> String {
        format!("--datadir={}", self.data().display())
    }

    /// The environment setting that identifies the server's helpers.
    pub fn setting(&self) -> String {
        format!("{ENVIRONMENT}={}", self.0.display())
    }

    /// The same, as name and value.
    pub fn environment(&self) -> (&'static str, &Path) {
        (ENVIRONMENT, &self.0)
    }

    /// The option file of a cluster node.
    pub fn config(&self) -> PathBuf {
        self.0.join(CONFIG)
    }

    /// `None` if there is no state file (yet).
    pub fn read(&self) -> Result<Option<Record>> {
        let path = self.record_file();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        parse(&path, &bytes).map(Some)
    }

    pub fn write(&self, record: &Record) -> Result<()> {
        let path = self.record_file();
        let mut bytes = serde_json::to_vec_pretty(record).map_err(|source| Error::State {
            path: path.clone(),
            source,
        })?;
        bytes.push(b'\n');
        files::write_whole(&path, &bytes)
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Record> {
    let fail = |source| Error::State {
        path: path.to_path_buf(),
        source,
    };
    let record: Record = serde_json::from_slice(bytes).map_err(fail)?;
    if record.format != FORMAT {
        let text = format!(
            "layout {} is not the one known here, {FORMAT}",
            record.format
        );
        return Err(fail(serde::de::Error::custom(text)));
    }
    Ok(record)
}
