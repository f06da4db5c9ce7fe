//! An existing cluster, and the operations on it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use super::network::Network;
use super::node::join;
use super::record::{ClusterRecord, HaproxyRecord};
use super::{
    ClusterFolder, GaleraNode, HaproxyOptions, NodeStart, SstMethod, haproxy, list, programs,
};
use crate::sandbox::check_name;
use crate::user::ServerUser;
use crate::{Error, Result, Sandbox, ServerKind, files};

/// How long to wait while another process works on the same cluster.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

/// One line of a list of clusters.
#[derive(Debug, Clone)]
pub struct ClusterEntry {
    /// The name of the cluster.
    pub name: String,
    /// The cluster. `None` if its start was interrupted; it can then only be removed.
    pub cluster: Option<GaleraCluster>,
}

/// A Galera cluster of a sandbox: its nodes, its network and the proxy in front of it.
///
/// Dropping it does not affect the cluster (see [`crate::EphemeralCluster`] for that).
#[derive(Debug, Clone)]
pub struct GaleraCluster {
    sandbox: Sandbox,
    folder: ClusterFolder,
    record: ClusterRecord,
    nodes: Vec<GaleraNode>,
}

impl GaleraCluster {
    pub(super) fn new(sandbox: &Sandbox, record: ClusterRecord) -> Result<Self> {
        let names = (1..=record.nodes).map(|number| record.node_name(number));
        Ok(Self {
            nodes: names
                .map(|name| sandbox.node(&name))
                .collect::<Result<_>>()?,
            sandbox: sandbox.clone(),
            folder: sandbox.cluster_folder(&record.name),
            record,
        })
    }

    /// The name, unique within its sandbox.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Which server its nodes run.
    pub const fn kind(&self) -> ServerKind {
        self.record.kind
    }

    /// How joining nodes get a full copy of the data.
    pub const fn sst(&self) -> SstMethod {
        self.record.sst
    }

    /// Does every node have a network of its own?
    pub const fn is_isolated(&self) -> bool {
        self.record.network.is_some()
    }

    /// This machine's own address in the nodes' network. `None` if the cluster is not isolated.
    pub fn gateway(&self) -> Option<Ipv4Addr> {
        self.record.network.as_ref().map(Network::gateway)
    }

    /// All nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[GaleraNode] {
        &self.nodes
    }

    /// The node with this number, from 1.
    ///
    /// # Errors
    /// [`Error::NoSuchInstance`].
    pub fn node(&self, number: u32) -> Result<&GaleraNode> {
        let index = number.checked_sub(1).map(|index| index as usize);
        index
            .and_then(|index| self.nodes.get(index))
            .ok_or_else(|| Error::NoSuchInstance {
                name: self.record.node_name(number),
            })
    }

    /// The directory of the files that the nodes share.
    pub const fn folder(&self) -> &ClusterFolder {
        &self.folder
    }

    /// The path of the cluster description that `refloat cluster` reads.
    pub fn toml(&self) -> PathBuf {
        self.folder.toml()
    }

    /// Shuts all nodes down cleanly, the last one first. The cluster must then be bootstrapped from
    /// the first node.
    pub fn stop(&self) -> Result<()> {
        self.nodes.iter().rev().try_for_each(GaleraNode::stop)
    }

    /// Starts all nodes that are not running. If none is, the one that was stopped last bootstraps
    /// the cluster.
    ///
    /// # Errors
    /// [`Error::NoSafeNode`] if all nodes crashed; those of [`GaleraNode::start`].
    pub fn start(&self) -> Result<()> {
        let mut alive = false;
        for node in &self.nodes {
            alive |= node.status()?.is_alive();
        }
        if !alive {
            let safe = |node: &&GaleraNode| {
                node.state().and_then(|state| state.safe_to_bootstrap) == Some(true)
            };
            let first = self.nodes.iter().find(safe);
            let first = first.ok_or_else(|| Error::NoSafeNode {
                cluster: self.name().to_owned(),
            })?;
            first.start_with(&NodeStart::bootstrap())?;
        }
        join(&self.nodes)
    }

    /// Ends all nodes with SIGKILL, as if the power of the whole room failed.
    pub fn crash(&self) -> Result<()> {
        self.nodes.iter().try_for_each(GaleraNode::crash)
    }

    /// The proxy's address over TCP: `mysql://root@127.0.0.1:PORT/`. `None` if there is no proxy.
    pub fn haproxy_url(&self) -> Option<String> {
        let port = self.haproxy()?.port;
        Some(format!("mysql://root@{}:{port}/", Ipv4Addr::LOCALHOST))
    }

    /// The proxy's port on 127.0.0.1. `None` if there is no proxy.
    pub fn haproxy_port(&self) -> Option<u16> {
        Some(self.haproxy()?.port)
    }

    /// The socket where the proxy takes commands such as `show stat`.
    pub fn haproxy_socket(&self) -> PathBuf {
        self.folder.haproxy_socket()
    }

    /// The proxy's process ID. `None` if it is not running.
    pub fn haproxy_pid(&self) -> Option<u32> {
        let haproxy = self.haproxy()?;
        let process = haproxy
            .process
            .filter(|_| haproxy::runs(&self.folder, &haproxy))?;
        Some(process.pid)
    }

    /// Starts the proxy, or restarts it with other options on the same port.
    pub fn start_haproxy(&self, options: &HaproxyOptions) -> Result<()> {
        options.check(self.record.nodes)?;
        programs::find_on_host(haproxy::PROGRAM)?;
        let user = ServerUser::for_this_process()?;
        let _lock = self.lock()?;
        self.end_haproxy()?;
        let port = match self.haproxy() {
            Some(haproxy) => haproxy.port,
            None => self.sandbox.free_port()?,
        };
        let mut haproxy = HaproxyRecord {
            port,
            options: options.clone(),
            process: None,
        };
        self.write_haproxy(&haproxy)?;
        haproxy.process = Some(haproxy::start(
            &self.folder,
            &haproxy,
            &self.nodes,
            user.as_ref(),
        )?);
        self.write_haproxy(&haproxy)
    }

    /// Kills the proxy. Its port stays reserved.
    pub fn stop_haproxy(&self) -> Result<()> {
        let _lock = self.lock()?;
        self.end_haproxy()
    }

    /// Kills all nodes, without a clean shutdown, and deletes everything that belongs to the
    /// cluster.
    pub fn remove(self) -> Result<()> {
        self.sandbox.remove_cluster(self.name())
    }

    /// Writes the cluster description that `refloat cluster` reads.
    pub(super) fn write_toml(&self) -> Result<()> {
        let command = self.sandbox.node_command.as_deref();
        let mut text = list::head(self.name());
        for node in &self.nodes {
            let files = [
                ("datadir", node.datadir()),
                ("log", node.error_log()),
                ("defaults_file", node.config()),
            ];
            text.push_str(&list::entry(node.name(), &node.url(), files, command));
        }
        files::write_whole(&self.toml(), text.as_bytes())
    }

    fn haproxy(&self) -> Option<HaproxyRecord> {
        self.folder.read().ok()??.haproxy
    }

    fn write_haproxy(&self, haproxy: &HaproxyRecord) -> Result<()> {
        let mut record = self.record.clone();
        record.haproxy = Some(haproxy.clone());
        self.folder.write(&record)
    }

    fn end_haproxy(&self) -> Result<()> {
        end_haproxy(&self.folder, self.name())
    }

    fn lock(&self) -> Result<files::Lock> {
        let lock = files::Lock::take(&self.folder.lock(), LOCK_PATIENCE)?;
        lock.ok_or_else(|| Error::Busy {
            name: self.name().to_owned(),
        })
    }
}

fn end_haproxy(folder: &ClusterFolder, name: &str) -> Result<()> {
    if !haproxy::end(folder) {
        return Err(Error::Busy {
            name: format!("{name} (its proxy)"),
        });
    }
    haproxy::forget(folder);
    Ok(())
}

impl Sandbox {
    /// All clusters, sorted by name.
    pub fn clusters(&self) -> Result<Vec<ClusterEntry>> {
        let folder = self.clusters_dir();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read", &folder)(error)),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| check_name(name).is_ok())
            .collect();
        names.sort();
        let entry = |name: String| {
            let cluster = match self.cluster(&name) {
                Ok(cluster) => Some(cluster),
                Err(Error::HalfStarted { .. } | Error::NoSuchInstance { .. }) => None,
                // Removed since we read the directory.
                Err(Error::NoSuchCluster { .. }) => return None,
                Err(error) => return Some(Err(error)),
            };
            Some(Ok(ClusterEntry { name, cluster }))
        };
        names.into_iter().filter_map(entry).collect()
    }

    /// The cluster with this name.
    ///
    /// # Errors
    /// [`Error::NoSuchCluster`], [`Error::HalfStarted`].
    pub fn cluster(&self, name: &str) -> Result<GaleraCluster> {
        check_name(name)?;
        let folder = self.cluster_folder(name);
        if !folder.0.is_dir() {
            return Err(Error::NoSuchCluster {
                name: name.to_owned(),
            });
        }
        match folder.read()? {
            Some(record) => GaleraCluster::new(self, record),
            None => Err(Error::HalfStarted {
                name: name.to_owned(),
            }),
        }
    }

    /// The node with this name, such as `c-2`.
    ///
    /// # Errors
    /// [`Error::NoSuchInstance`], [`Error::NotANode`].
    pub fn node(&self, name: &str) -> Result<GaleraNode> {
        GaleraNode::new(self.get(name)?)
    }

    /// Kills all nodes of a cluster and its proxy, without a clean shutdown, and deletes everything
    /// that belongs to it. Also works for clusters whose start was interrupted.
    ///
    /// # Errors
    /// [`Error::NoSuchCluster`].
    pub fn remove_cluster(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let folder = self.cluster_folder(name);
        if !folder.0.is_dir() {
            return Err(Error::NoSuchCluster {
                name: name.to_owned(),
            });
        }
        end_haproxy(&folder, name)?;
        let record = folder.read()?;
        let nodes = record.as_ref().map_or(0, |record| record.nodes);
        for number in 1..=nodes {
            let node = format!("{name}-{number}");
            if self.folder(&node).owner().as_deref() != Some(name) {
                continue;
            }
            match self.remove_instance(&node) {
                Ok(()) | Err(Error::NoSuchInstance { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(network) = record.and_then(|record| record.network) {
            network.remove()?;
        }
        self.delete_folder_of(&folder.0, name)
    }
}
