//! The state directory that instances live in: starts, lists and removes them.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache::{Cache, copy_folder};
use crate::galera::{check_removable, owner};
use crate::instance::{self, Entry, Instance, Status};
use crate::neighbours::Neighbours;
use crate::options::check_option;
use crate::record::{FORMAT, Folder, NodeRecord, Record, SOCKET_PATH_LIMIT};
use crate::user::ServerUser;
use crate::{
    DEFAULT_SERVERS_DIR, Ephemeral, Error, Installation, Result, ServerKind, StartOptions, Tls,
    files, launch, ports, tls,
};

/// How many ports to try if other programs take the chosen one first.
const PORT_ATTEMPTS: u32 = 5;

/// How long another process may hold the sandbox's own lock, which is only ever held briefly.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// How long a removal waits for a start or stop of the same instance.
const REMOVE_PATIENCE: Duration = Duration::from_secs(200);

/// The longest name of an instance, in bytes.
const NAME_LIMIT: usize = 64;

/// While these are held, nobody else chooses ports: see [`Sandbox::lock_ports`].
#[derive(Debug)]
pub struct PortLocks {
    _own: files::Lock,
    _neighbours: Option<Neighbours>,
}

/// Where instances live and how they start.
///
/// Several processes may use the same directory at once.
#[derive(Debug, Clone)]
pub struct Sandbox {
    state: PathBuf,
    cache: PathBuf,
    pub(crate) servers: PathBuf,
    pub(crate) node_command: Option<String>,
}

impl Sandbox {
    /// A sandbox in this directory, which is created when the first server starts.
    ///
    /// A relative path is resolved against the current directory now. When root starts servers,
    /// they run as the user `mysql`, who must be able to enter the directory.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        let state = absolute(state_dir.into());
        Self {
            cache: state.join("cache"),
            servers: PathBuf::from(DEFAULT_SERVERS_DIR),
            node_command: None,
            state,
        }
    }

    /// Keeps initialised data directories in another directory, which several sandboxes can share.
    #[must_use]
    pub fn with_cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = absolute(folder.into());
        self
    }

    /// Looks for servers in another directory than [`DEFAULT_SERVERS_DIR`].
    #[must_use]
    pub fn with_servers_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.servers = absolute(folder.into());
        self
    }

    /// The command line of `refloat sandbox node` for this sandbox, as a shell takes it. With it,
    /// the lists of clusters say how their nodes are started and stopped.
    #[must_use]
    pub fn with_node_command(mut self, command: impl Into<String>) -> Self {
        self.node_command = Some(command.into());
        self
    }

    /// The state directory, as an absolute path.
    pub fn state_dir(&self) -> &Path {
        &self.state
    }

    /// The programs of a server kind, found in the sandbox's server directory.
    pub fn installation(&self, kind: ServerKind) -> Result<Installation> {
        Installation::find(kind, &self.servers)
    }

    /// Starts a server, and returns once it answers queries. If that fails, nothing is left behind.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], [`Error::NameTaken`], [`Error::Unreachable`], [`Error::Start`] with
    /// the end of the server's log, and others.
    pub fn start(&self, options: &StartOptions) -> Result<Instance> {
        for (key, _) in &options.options {
            check_option(key)?;
        }
        let server = self.installation(options.kind)?;
        let user = ServerUser::for_this_process()?;
        self.make_folders(user.as_ref())?;
        let (folder, name) = self.reserve(options)?;
        let started = self.fill_and_launch(&server, &folder, &name, options, user.as_ref());
        if started.is_err() {
            // The cause matters more than an error of the clean-up, which `remove` can complete.
            let _ = instance::end_all(&folder, &name);
            let _ = self.delete(&folder, &name);
        }
        started
    }

    /// Starts a server that is removed when the value is dropped or this process ends, however it
    /// ends.
    pub fn start_ephemeral(&self, options: &StartOptions) -> Result<Ephemeral> {
        Ephemeral::guard(self.start(options)?)
    }

    /// All instances, sorted by name.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let mut names = self.names()?;
        names.sort();
        names.into_iter().map(|name| self.entry(name)).collect()
    }

    /// The instance with this name.
    ///
    /// # Errors
    /// [`Error::NoSuchInstance`], [`Error::HalfStarted`].
    pub fn get(&self, name: &str) -> Result<Instance> {
        check_name(name)?;
        let folder = self.folder(name);
        if !folder.0.is_dir() {
            return Err(Error::NoSuchInstance {
                name: name.to_owned(),
            });
        }
        match folder.read()? {
            Some(record) => Ok(Instance {
                sandbox: self.clone(),
                folder,
                record,
            }),
            None => Err(Error::HalfStarted {
                name: name.to_owned(),
            }),
        }
    }

    /// Kills the server with this name, without a clean shutdown, and deletes everything that
    /// belongs to it. Also works for instances whose start was interrupted.
    ///
    /// # Errors
    /// [`Error::NoSuchInstance`]; [`Error::NodeOfCluster`], because nodes are removed with their
    /// cluster, see [`Self::remove_cluster`].
    pub fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        check_removable(&self.folder(name).0, name)?;
        self.remove_instance(name)
    }

    pub(crate) fn remove_instance(&self, name: &str) -> Result<()> {
        let folder = self.folder(name);
        let _lock = instance::lock(&folder, name, REMOVE_PATIENCE)?;
        instance::end_all(&folder, name)?;
        self.delete(&folder, name)
    }

    fn instances_dir(&self) -> PathBuf {
        self.state.join("instances")
    }

    pub(crate) fn folder(&self, name: &str) -> Folder {
        Folder(self.instances_dir().join(name))
    }

    pub(crate) fn make_folders(&self, user: Option<&ServerUser>) -> Result<()> {
        // Root's servers run as another account, which must get through to their files.
        files::make_state(&self.state, user.is_some())?;
        for folder in [&self.instances_dir(), &self.cache] {
            files::make_folder(folder)?;
            if let Some(user) = user {
                user.can_reach(folder)?;
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        let folder = self.instances_dir();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read", &folder)(error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| check_name(name).is_ok()).collect())
    }

    fn entry(&self, name: String) -> Result<Entry> {
        let folder = self.folder(&name);
        let instance = folder.read()?.map(|record| Instance {
            sandbox: self.clone(),
            folder: folder.clone(),
            record,
        });
        let status = match instance.as_ref().map_or(Status::Broken, Instance::status) {
            // It is not running: see whether another process is working on it.
            status @ (Status::Stopped | Status::Broken) => {
                match instance::lock(&folder, &name, Duration::ZERO) {
                    Err(Error::Busy { .. }) => Status::Busy,
                    _ => status,
                }
            }
            status => status,
        };
        Ok(Entry {
            cluster: owner(&folder.0),
            name,
            status,
            instance,
        })
    }

    /// Creates the directory of a new instance. Whoever creates it owns the name.
    pub(crate) fn make_instance_folder(&self, name: &str) -> Result<Folder> {
        let folder = self.folder(name);
        if folder.socket().as_os_str().len() > SOCKET_PATH_LIMIT {
            return Err(Error::SocketPathTooLong {
                path: folder.socket(),
                limit: SOCKET_PATH_LIMIT,
            });
        }
        take_name(&folder.0, name)?;
        Ok(folder)
    }

    fn reserve(&self, options: &StartOptions) -> Result<(Folder, String)> {
        let make = |name: &str| -> Result<Folder> {
            if self.cluster_folder(name).path().exists() {
                return Err(Error::NameTaken {
                    name: name.to_owned(),
                });
            }
            self.make_instance_folder(name)
        };
        if let Some(name) = &options.name {
            check_name(name)?;
            return Ok((make(name)?, name.clone()));
        }
        let mut name = options.kind.to_string();
        for number in 2.. {
            match make(&name) {
                Err(Error::NameTaken { .. }) => name = format!("{}-{number}", options.kind),
                other => return Ok((other?, name)),
            }
        }
        Err(Error::NameTaken { name })
    }

    fn fill_and_launch(
        &self,
        server: &Installation,
        folder: &Folder,
        name: &str,
        options: &StartOptions,
        user: Option<&ServerUser>,
    ) -> Result<Instance> {
        let _lock = instance::lock(folder, name, LOCK_PATIENCE)?;
        let cache = self.cache(user);
        let data = cache.data_directory(server, &options.options)?;
        fill(folder, &data, user)?;
        let ca_file = certificates(&cache, server.kind(), folder, options.tls, user)?;
        let mut instance = Instance {
            sandbox: self.clone(),
            folder: folder.clone(),
            record: Record {
                format: FORMAT,
                name: name.to_owned(),
                kind: options.kind,
                version: server.version().to_owned(),
                port: 0,
                options: options.options.clone(),
                tls: options.tls,
                ca_file,
                process: None,
                ready_once: false,
                node: None,
            },
        };
        let mut attempt = 1;
        loop {
            self.take_port(&mut instance)?;
            match launch::launch(server, folder, &instance.record, user) {
                Ok((process, version)) => {
                    instance.started(process, version)?;
                    return Ok(instance);
                }
                Err(launch::Failure::PortTaken) if attempt < PORT_ATTEMPTS => attempt += 1,
                Err(launch::Failure::PortTaken) => {
                    return Err(Error::PortTaken {
                        name: name.to_owned(),
                        port: instance.port(),
                    });
                }
                Err(launch::Failure::Other(error)) => return Err(error),
            }
        }
    }

    /// Chooses a port that no other instance has, running or not, and records it.
    fn take_port(&self, instance: &mut Instance) -> Result<()> {
        let (_lock, taken) = self.lock_ports()?;
        instance.record.port = ports::free_port(&taken)?;
        instance.folder.write(&instance.record)
    }

    /// Locks the choice of ports, and returns the ports that are taken. While the locks are held,
    /// nobody else chooses ports in this sandbox, or in another sandbox of this user on this
    /// machine. The ports of stopped servers count as taken too.
    pub(crate) fn lock_ports(&self) -> Result<(PortLocks, HashSet<u16>)> {
        let path = self.state.join("ports.lock");
        let Some(own) = files::Lock::take(&path, LOCK_PATIENCE)? else {
            return Err(Error::Busy {
                name: "ports".to_owned(),
            });
        };
        let neighbours = Neighbours::meet();
        let mut taken = self.ports()?;
        for state in neighbours
            .iter()
            .flat_map(|meeting| meeting.others(&self.state))
        {
            // Errors of another sandbox are for its own users to see.
            taken.extend(Self::new(state).ports().unwrap_or_default());
        }
        let locks = PortLocks {
            _own: own,
            _neighbours: neighbours,
        };
        Ok((locks, taken))
    }

    /// The ports of this sandbox's servers and proxies, running or stopped.
    fn ports(&self) -> Result<HashSet<u16>> {
        let mut taken = HashSet::new();
        for name in self.names()? {
            // An unreadable state file takes no port; `list` reports it.
            if let Ok(Some(record)) = self.folder(&name).read() {
                taken.insert(record.port);
                taken.extend(record.node.iter().flat_map(NodeRecord::ports));
            }
        }
        for entry in fs::read_dir(self.clusters_dir())
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Ok(Some(record)) = self.cluster_folder(&name).read() {
                taken.extend(record.haproxy.map(|haproxy| haproxy.port));
            }
        }
        Ok(taken)
    }

    /// A port that nothing in this sandbox uses. It is reserved only once the caller has recorded
    /// it.
    pub(crate) fn free_port(&self) -> Result<u16> {
        let (_lock, taken) = self.lock_ports()?;
        ports::free_port(&taken)
    }

    pub(crate) fn cache<'a>(&'a self, user: Option<&'a ServerUser>) -> Cache<'a> {
        Cache {
            folder: &self.cache,
            user,
        }
    }

    fn delete(&self, folder: &Folder, name: &str) -> Result<()> {
        self.delete_folder_of(&folder.0, name)
    }

    /// Renames the directory, which frees the name in one step, and then deletes it. Also deletes
    /// what earlier removals left behind.
    pub(crate) fn delete_folder_of(&self, folder: &Path, name: &str) -> Result<()> {
        let all = folder.parent().unwrap_or(&self.state);
        let removed = all.join(format!(".removed-{}-{name}", std::process::id()));
        files::delete_folder(&removed)?;
        fs::rename(folder, &removed).map_err(Error::io("rename", folder))?;
        files::delete_folder(&removed)?;
        for entry in fs::read_dir(all).map_err(Error::io("read", all))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(".removed-") {
                // Another process may be deleting it right now.
                let _ = files::delete_folder(&entry.path());
            }
        }
        Ok(())
    }
}

/// Creates the directory for this name. Whoever creates it owns the name.
pub(crate) fn take_name(folder: &Path, name: &str) -> Result<()> {
    match files::make_new_folder(folder) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Error::NameTaken {
                name: name.to_owned(),
            })
        }
        other => other,
    }
}

/// Creates the directories that a server needs, with a copy of a data directory.
pub(crate) fn fill(folder: &Folder, data: &Path, user: Option<&ServerUser>) -> Result<()> {
    for part in [folder.data(), folder.run(), folder.temporary()] {
        files::make_new_folder(&part)?;
        if let Some(user) = user {
            user.own(&part)?;
        }
    }
    copy_folder(data, &folder.data())
}

/// Installs the server's certificates. Returns the CA file, if there is one.
pub(crate) fn certificates(
    cache: &Cache<'_>,
    kind: ServerKind,
    folder: &Folder,
    wanted: Tls,
    user: Option<&ServerUser>,
) -> Result<Option<PathBuf>> {
    let generated =
        wanted == Tls::Generated || (wanted == Tls::Usual && kind == ServerKind::MariaDb1011);
    if generated {
        let target = folder.certificates();
        files::make_new_folder(&target)?;
        tls::install(&cache.certificates()?, &target, user)?;
        return Ok(Some(target.join(tls::CA)));
    }
    let own = folder.data().join(tls::CA);
    Ok((wanted == Tls::Usual && own.is_file()).then_some(own))
}

/// Servers are identified by the path of their data directory, so it must mean the same to every
/// process.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Names serve as directory names, and appear in URLs, shell commands and logs.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= NAME_LIMIT
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if good {
        Ok(())
    } else {
        Err(Error::BadName {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_their_folder() {
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "-x",
            "a b",
            "ä",
            &"x".repeat(65),
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        for good in ["mysql-9.7", "a", "A_b.c-2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
    }
}
