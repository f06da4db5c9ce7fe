//! The state file of a cluster: one JSON file in its directory.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::network::Network;
use super::{HaproxyOptions, SstMethod};
use crate::process::ProcessId;
use crate::{Error, Result, ServerKind, files};

const RECORD: &str = "cluster.json";
const TOML: &str = "cluster.toml";
const PROGRAMS: &str = "base/bin";
const HAPROXY_CONFIG: &str = "haproxy.cfg";
const HAPROXY_SOCKET: &str = "haproxy.sock";
const HAPROXY_LOG: &str = "haproxy.log";
const LOCK: &str = "lock";

/// The layout of the state file. Files with another number are rejected.
pub const FORMAT: u32 = 1;

/// The state file of a cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// [`FORMAT`] of the version that wrote it.
    pub format: u32,
    pub name: String,
    /// Which server its nodes run.
    pub kind: ServerKind,
    pub nodes: u32,
    /// How joining nodes get a full copy of the data.
    pub sst: SstMethod,
    /// The nodes' own network. `None` if they share this machine's network.
    pub network: Option<Network>,
    /// The proxy in front of the cluster. `None` if there never was one.
    pub haproxy: Option<HaproxyRecord>,
}

/// The part of the state file about the proxy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HaproxyRecord {
    /// Its TCP port on 127.0.0.1.
    pub port: u16,
    /// How it checks the nodes.
    pub options: HaproxyOptions,
    /// Its process. `None` until it has accepted connections.
    pub process: Option<ProcessId>,
}

impl ClusterRecord {
    /// The name of a node. Numbers start at 1.
    pub fn node_name(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// The address of a node. Numbers start at 1.
    pub fn host(&self, number: u32) -> Ipv4Addr {
        self.network
            .as_ref()
            .map_or(Ipv4Addr::LOCALHOST, |network| network.host(number))
    }
}

/// The directory of one cluster.
#[derive(Debug, Clone)]
pub struct ClusterFolder(pub(crate) PathBuf);

impl ClusterFolder {
    pub(crate) fn record_file(&self) -> PathBuf {
        self.0.join(RECORD)
    }

    /// The path of the cluster description that `refloat cluster` reads.
    pub fn toml(&self) -> PathBuf {
        self.0.join(TOML)
    }

    pub(crate) fn programs(&self) -> PathBuf {
        self.0.join(PROGRAMS)
    }

    /// The path of the proxy's configuration.
    pub fn haproxy_config(&self) -> PathBuf {
        self.0.join(HAPROXY_CONFIG)
    }

    /// The unix socket where the proxy takes commands such as `show stat`.
    pub fn haproxy_socket(&self) -> PathBuf {
        self.0.join(HAPROXY_SOCKET)
    }

    /// The file that collects the proxy's output.
    pub fn haproxy_log(&self) -> PathBuf {
        self.0.join(HAPROXY_LOG)
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join(LOCK)
    }

    /// The path of the directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `None` if there is no state file (yet).
    pub(crate) fn read(&self) -> Result<Option<ClusterRecord>> {
        let path = self.record_file();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        let fail = |source| Error::State {
            path: path.clone(),
            source,
        };
        let record: ClusterRecord = serde_json::from_slice(&bytes).map_err(fail)?;
        if record.format != FORMAT {
            let text = format!(
                "layout {} is not the one known here, {FORMAT}",
                record.format
            );
            return Err(fail(serde::de::Error::custom(text)));
        }
        Ok(Some(record))
    }

    pub(crate) fn write(&self, record: &ClusterRecord) -> Result<()> {
        let path = self.record_file();
        let mut bytes = serde_json::to_vec_pretty(record).map_err(|source| Error::State {
            path: path.clone(),
            source,
        })?;
        bytes.push(b'\n');
        files::write_whole(&path, &bytes)
    }
}
