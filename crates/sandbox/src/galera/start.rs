//! Starts a whole cluster.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use super::network::{self, Network};
use super::node::join;
use super::record::{ClusterRecord, FORMAT};
use super::{
    ClusterFolder, GaleraCluster, GaleraNode, GaleraOptions, NodeStart, SstMethod, haproxy,
    programs, settings,
};
use crate::record::{self, Folder, NodeRecord, Record};
use crate::sandbox::{check_name, take_name};
use crate::start::{certificates, fill};
use crate::user::ServerUser;
use crate::{Error, Installation, Result, Sandbox, files, ports};

/// The name of a cluster that was not given one.
const USUAL_NAME: &str = "galera";

/// In a network of its own, a node uses the standard ports.
const CLIENT_PORT: u16 = 3306;
const GROUP_PORT: u16 = 4567;
const IST_PORT: u16 = 4568;
const SST_PORT: u16 = 4444;

/// The privileges that mariadb-backup needs on the donor.
const SST_PRIVILEGES: &str = "RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR, SLAVE MONITOR";

/// A cluster whose names are taken, and nothing more.
pub struct Reserved {
    options: GaleraOptions,
    server: Installation,
    provider: PathBuf,
    user: Option<ServerUser>,
    pub record: ClusterRecord,
    pub folder: ClusterFolder,
    pub nodes: Vec<Folder>,
}

/// Ports that we hold until just before their server starts.
type Held = Vec<TcpListener>;

impl Sandbox {
    /// Starts a cluster, and returns once all its nodes are synced. If that fails, nothing is left
    /// behind.
    ///
    /// # Errors
    /// [`Error::NoGalera`], [`Error::BadCluster`], [`Error::NotInstalled`],
    /// [`Error::MissingProgram`], [`Error::NameTaken`], [`Error::NeedsRoot`], [`Error::Start`] with
    /// the end of a node's log, and others.
    pub fn start_cluster(&self, options: &GaleraOptions) -> Result<GaleraCluster> {
        let reserved = self.reserve_cluster(options)?;
        self.start_reserved(reserved)
    }

    /// Checks everything that can be checked in advance, then takes the names.
    pub(super) fn reserve_cluster(&self, options: &GaleraOptions) -> Result<Reserved> {
        let options = options.clone().checked()?;
        let server = self.installation(options.kind)?;
        let provider = programs::provider(&server)?;
        if options.haproxy.is_some() {
            programs::find_on_host(haproxy::PROGRAM)?;
        }
        let network = if options.isolated {
            network::check_programs()?;
            Some(Network::new(options.nodes)?)
        } else {
            None
        };
        let user = ServerUser::for_this_process()?;
        self.make_folders(user.as_ref())?;
        files::make_folder(&self.clusters_dir())?;
        let (folder, name) = self.take_cluster_name(options.name.as_deref())?;
        let record = ClusterRecord {
            format: FORMAT,
            name,
            kind: options.kind,
            nodes: options.nodes,
            sst: options.sst,
            network,
            haproxy: None,
        };
        let mut reserved = Reserved {
            options,
            server,
            provider,
            user,
            record,
            folder,
            nodes: Vec::new(),
        };
        if let Err(error) = self.take_node_names(&mut reserved) {
            let _ = self.remove_cluster(&reserved.record.name);
            return Err(error);
        }
        Ok(reserved)
    }

    fn take_cluster_name(&self, wanted: Option<&str>) -> Result<(ClusterFolder, String)> {
        let take = |name: &str| {
            let folder = self.cluster_folder(name);
            if self.folder(name).0.exists() {
                return Err(Error::NameTaken {
                    name: name.to_owned(),
                });
            }
            take_name(folder.path(), name).map(|()| (folder, name.to_owned()))
        };
        if let Some(name) = wanted {
            check_name(name)?;
            return take(name);
        }
        let mut name = USUAL_NAME.to_owned();
        for number in 2.. {
            match take(&name) {
                // No dash: `galera-2` would be a node.
                Err(Error::NameTaken { .. }) => name = format!("{USUAL_NAME}{number}"),
                other => return other,
            }
        }
        Err(Error::NameTaken { name })
    }

    fn take_node_names(&self, reserved: &mut Reserved) -> Result<()> {
        reserved.folder.write(&reserved.record)?;
        for number in 1..=reserved.record.nodes {
            let name = reserved.record.node_name(number);
            check_name(&name)?;
            if self.cluster_folder(&name).path().exists() {
                return Err(Error::NameTaken { name });
            }
            let folder = self.make_instance_folder(&name)?;
            let owner = folder.owner_file();
            fs::write(&owner, &reserved.record.name).map_err(Error::io("write", &owner))?;
            reserved.nodes.push(folder);
        }
        Ok(())
    }

    pub(super) fn start_reserved(&self, reserved: Reserved) -> Result<GaleraCluster> {
        let name = reserved.record.name.clone();
        let started = self.fill_and_start(reserved);
        if started.is_err() {
            // The cause matters more than an error of the clean-up, which `remove` can complete.
            let _ = self.remove_cluster(&name);
        }
        started
    }

    fn fill_and_start(&self, mut reserved: Reserved) -> Result<GaleraCluster> {
        if let Some(mut network) = reserved.record.network.take() {
            let record = &mut reserved.record;
            network.make(|network| {
                record.network = Some(network.clone());
                reserved.folder.write(record)
            })?;
        }
        programs::install(&reserved.server, &reserved.folder.programs())?;
        let held = self.take_cluster_ports(&reserved)?;
        let password = settings::password();
        self.fill_nodes(&reserved, &password)?;
        let cluster = GaleraCluster::new(self, reserved.record.clone())?;
        cluster.write_toml()?;
        drop(held);
        if let Some((first, others)) = cluster.nodes().split_first() {
            first.start_with(&NodeStart::bootstrap())?;
            make_accounts(first, &reserved, &password)?;
            join(others)?;
        }
        if let Some(options) = &reserved.options.haproxy {
            cluster.start_haproxy(options)?;
        }
        self.cluster(cluster.name())
    }

    /// Chooses the ports of all nodes and writes their state files.
    fn take_cluster_ports(&self, reserved: &Reserved) -> Result<Vec<Held>> {
        let (_lock, mut taken) = self.lock_ports()?;
        let mut all = Vec::new();
        for (number, folder) in (1..).zip(&reserved.nodes) {
            let mut held = Held::new();
            let mut take = |usual: u16| -> Result<u16> {
                if reserved.record.network.is_some() {
                    return Ok(usual);
                }
                let (port, listener) = ports::hold_port(&taken)?;
                taken.insert(port);
                held.push(listener);
                Ok(port)
            };
            let port = take(CLIENT_PORT)?;
            let node = NodeRecord {
                cluster: reserved.record.name.clone(),
                number,
                host: reserved.record.host(number),
                group_port: take(GROUP_PORT)?,
                sst_port: take(SST_PORT)?,
                ist_port: take(IST_PORT)?,
                namespace: reserved
                    .record
                    .network
                    .as_ref()
                    .map(|network| network.namespace(number)),
                programs: reserved.folder.programs(),
                starting: false,
                cut: false,
                log_start: 0,
            };
            folder.write(&Record {
                format: record::FORMAT,
                name: reserved.record.node_name(number),
                kind: reserved.options.kind,
                version: reserved.server.version().to_owned(),
                port,
                options: reserved.options.of_node(number),
                tls: reserved.options.tls,
                ca_file: None,
                process: None,
                ready_once: false,
                node: Some(node),
            })?;
            all.push(held);
        }
        Ok(all)
    }

    /// Gives every node an option file, certificates and a fresh data directory.
    fn fill_nodes(&self, reserved: &Reserved, password: &str) -> Result<()> {
        let user = reserved.user.as_ref();
        let cache = self.cache(user);
        let nodes = node_records(reserved)?;
        let members: Vec<String> = nodes
            .iter()
            .map(|(_, node)| format!("{}:{}", node.host, node.group_port))
            .collect();
        for ((mut record, node), folder) in nodes.into_iter().zip(&reserved.nodes) {
            let data = cache.data_directory(&reserved.server, &record.options)?;
            fill(folder, &data, user)?;
            record.ca_file = certificates(&cache, record.kind, folder, record.tls, user)?;
            folder.write(&record)?;
            settings::write(
                folder,
                &reserved.options,
                &node,
                &members,
                &reserved.provider,
                password,
                user,
            )?;
        }
        Ok(())
    }
}

fn node_records(reserved: &Reserved) -> Result<Vec<(Record, NodeRecord)>> {
    let read = |folder: &Folder| {
        let record = folder.read()?;
        let node = record.as_ref().and_then(|record| record.node.clone());
        record.zip(node).ok_or_else(|| Error::HalfStarted {
            name: reserved.record.name.clone(),
        })
    };
    reserved.nodes.iter().map(read).collect()
}

/// Creates the accounts that reach the other nodes with the data.
fn make_accounts(first: &GaleraNode, reserved: &Reserved, password: &str) -> Result<()> {
    let mut sql = String::new();
    if reserved.options.sst == SstMethod::Mariabackup {
        let account = format!("'{}'@'localhost'", settings::SST_ACCOUNT);
        let _ = write!(
            sql,
            "CREATE USER {account} IDENTIFIED BY '{password}';\nGRANT {SST_PRIVILEGES} ON *.* TO {account};\n"
        );
    }
    if let Some(network) = &reserved.record.network {
        // This machine connects from its own address in that network.
        let account = format!("'root'@'{}'", network.account_host());
        let _ = write!(
            sql,
            "CREATE USER {account};\nGRANT ALL ON *.* TO {account} WITH GRANT OPTION;\n"
        );
    }
    if sql.is_empty() {
        return Ok(());
    }
    // Through standard input: anyone can read a password on a command line.
    let failed = |reason: String| Error::Helper {
        program: "the stock client".to_owned(),
        reason,
    };
    let mut child = first
        .client_command()?
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let written = child
        .stdin
        .take()
        .map_or(Ok(()), |mut input| input.write_all(sql.as_bytes()));
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {}", output.status, words.trim())));
    }
    written.map_err(|error| failed(error.to_string()))
}
