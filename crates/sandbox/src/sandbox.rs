//! The state directory that instances live in: its names, its ports, and removals.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache::Cache;
use crate::galera::ClusterFolder;
use crate::neighbours::Neighbours;
use crate::record::{Folder, NodeRecord, SOCKET_PATH_LIMIT};
use crate::user::ServerUser;
use crate::{DEFAULT_SERVERS_DIR, Error, Installation, Result, ServerKind, files, ports, stop};

/// How long another process may hold the sandbox's own lock, which is only ever held briefly.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(30);

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

    /// Kills the server with this name, without a clean shutdown, and deletes everything that
    /// belongs to it. Also works for instances whose start was interrupted.
    ///
    /// # Errors
    /// [`Error::NoSuchInstance`]; [`Error::NodeOfCluster`], because nodes are removed with their
    /// cluster, see [`Self::remove_cluster`].
    pub fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        if let Some(cluster) = self.folder(name).owner() {
            return Err(Error::NodeOfCluster {
                name: name.to_owned(),
                cluster,
            });
        }
        self.remove_instance(name)
    }

    pub(crate) fn remove_instance(&self, name: &str) -> Result<()> {
        let folder = self.folder(name);
        let _lock = folder.lock(name, REMOVE_PATIENCE)?;
        stop::end_all(&folder, name)?;
        self.delete_folder_of(&folder.0, name)
    }

    fn instances_dir(&self) -> PathBuf {
        self.state.join("instances")
    }

    pub(crate) fn folder(&self, name: &str) -> Folder {
        Folder(self.instances_dir().join(name))
    }

    pub(crate) fn clusters_dir(&self) -> PathBuf {
        self.state_dir().join("clusters")
    }

    pub(crate) fn cluster_folder(&self, name: &str) -> ClusterFolder {
        ClusterFolder(self.clusters_dir().join(name))
    }

    pub(crate) fn make_folders(&self, user: Option<&ServerUser>) -> Result<()> {
        // Root's servers run as another account, which must be able to reach their files.
        files::make_state(&self.state, user.is_some())?;
        for folder in [&self.instances_dir(), &self.cache] {
            files::make_folder(folder)?;
            if let Some(user) = user {
                user.can_reach(folder)?;
            }
        }
        Ok(())
    }

    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let folder = self.instances_dir();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read", &folder)(error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| check_name(name).is_ok()).collect())
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

    /// Locks the choice of ports, and returns the ports that are taken. While the locks are held,
    /// nobody else chooses ports in this sandbox, or in another sandbox of this user on this
    /// machine. The ports of stopped servers count as taken too.
    pub(crate) fn lock_ports(&self) -> Result<(PortLocks, HashSet<u16>)> {
        let path = self.state.join("ports.lock");
        let Some(lock) = files::Lock::take(&path, LOCK_PATIENCE)? else {
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
            _own: lock,
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
