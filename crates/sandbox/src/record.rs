//! What is written down about an instance, one JSON file each.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::{Error, Result, ServerKind, Tls, files};

/// Names of the files in an instance's folder.
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

/// The variable that every process of an instance has in its environment: the path of the instance's folder. Helpers that
/// a server starts, such as the scripts of a state transfer, inherit it.
const ENVIRONMENT: &str = "REFLOAT_SANDBOX_INSTANCE";

/// The layout of the state file. A file with another number is not understood.
pub const FORMAT: u32 = 1;

/// The most bytes that the path of a unix socket can have: `sun_path` less the zero at its end, see unix(7).
pub const SOCKET_PATH_LIMIT: usize = 107;

/// The state file of an instance. Paths are not in it: they follow from the folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// The name of the instance.
    pub name: String,
    /// What was asked for.
    pub kind: ServerKind,
    /// What the server answers to `SELECT @@version`; before it ever answered, what its program says.
    pub version: String,
    /// The TCP port on 127.0.0.1.
    pub port: u16,
    /// Options given at the start.
    pub options: Vec<(String, Option<String>)>,
    /// Which certificates it has.
    pub tls: Tls,
    /// The file with the CA that signed the server's certificate.
    pub ca_file: Option<PathBuf>,
    /// Its process, from the moment that it answered. `None`: it was stopped, or never answered.
    pub process: Option<ProcessId>,
    /// Has it ever answered a query?
    pub ready_once: bool,
    /// Where it stands in a cluster. `None`: it is a server of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeRecord>,
}

/// What is written down about a server that is a node of a Galera cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The name of the cluster.
    pub cluster: String,
    /// Its number in the cluster, from 1.
    pub number: u32,
    /// The address that it listens on: 127.0.0.1, or the one of its own network.
    pub host: Ipv4Addr,
    /// Where the members of the group speak to each other.
    pub group_port: u16,
    /// Where it takes a full state transfer.
    pub sst_port: u16,
    /// Where it takes an incremental state transfer.
    pub ist_port: u16,
    /// The network namespace that it runs in.
    pub namespace: Option<String>,
    /// The folder with the programs that a state transfer calls, for a server of a tree.
    pub programs: PathBuf,
    /// It was started and did not answer yet.
    pub starting: bool,
    /// Is it cut off from its network?
    pub cut: bool,
    /// The length of the error log when it was started last, in bytes.
    pub log_start: u64,
}

impl NodeRecord {
    /// All ports that it takes besides the client port.
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

/// The folder of one instance.
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

    /// Where `MySQL` notes which process has the socket.
    pub fn socket_lock(&self) -> PathBuf {
        self.run().join(format!("{SOCKET}.lock"))
    }

    pub fn pid_file(&self) -> PathBuf {
        self.run().join(PID_FILE)
    }

    pub fn error_log(&self) -> PathBuf {
        self.0.join(ERROR_LOG)
    }

    /// The file in which the provider of a node of a cluster keeps its position.
    pub fn grastate(&self) -> PathBuf {
        self.data().join(GRASTATE)
    }

    pub fn temporary(&self) -> PathBuf {
        self.0.join(TEMPORARY)
    }

    pub fn certificates(&self) -> PathBuf {
        self.0.join(CERTIFICATES)
    }

    pub fn lock(&self) -> PathBuf {
        self.0.join(LOCK)
    }

    /// The argument that only this instance's server was started with: what it is known by.
    pub fn mark(&self) -> String {
        format!("--datadir={}", self.data().display())
    }

    /// The same for its helpers: what they have in their environment.
    pub fn setting(&self) -> String {
        format!("{ENVIRONMENT}={}", self.0.display())
    }

    /// The same as name and value.
    pub fn environment(&self) -> (&'static str, &Path) {
        (ENVIRONMENT, &self.0)
    }

    /// The option file of a node of a cluster.
    pub fn config(&self) -> PathBuf {
        self.0.join(CONFIG)
    }

    /// `None`: there is no state file (yet).
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
