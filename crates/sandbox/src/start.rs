//! Starts, finds and lists the instances of a sandbox.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache::{Cache, copy_folder};
use crate::galera::GaleraNode;
use crate::instance::{Entry, Instance, Status};
use crate::options::check_option;
use crate::record::{FORMAT, Folder, Record};
use crate::sandbox::{LOCK_PATIENCE, check_name};
use crate::user::ServerUser;
use crate::{
    Ephemeral, Error, Installation, Result, Sandbox, ServerKind, StartOptions, Tls, files, launch,
    ports, stop, tls,
};

/// How many ports to try if other programs take the chosen one first.
const PORT_ATTEMPTS: u32 = 5;

impl Sandbox {
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
            let _ = stop::end_all(&folder, &name);
            let _ = self.delete_folder_of(&folder.0, &name);
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
                match folder.lock(&name, Duration::ZERO) {
                    Err(Error::Busy { .. }) => Status::Busy,
                    _ => status,
                }
            }
            status => status,
        };
        Ok(Entry {
            cluster: folder.owner(),
            name,
            status,
            instance,
        })
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
        let _lock = folder.lock(name, LOCK_PATIENCE)?;
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
}

impl Instance {
    /// Stops the server if it runs, and starts it again with the same port, socket, data and
    /// options. A cluster node joins the others; the call returns once it is synced.
    ///
    /// # Errors
    /// [`Error::PortTaken`] if another program has taken the port; those of [`Sandbox::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        if let Ok(node) = GaleraNode::new(self.clone()) {
            node.start()?;
            return self.refresh();
        }
        let _lock = self.lock()?;
        self.refresh()?;
        if self.status() == Status::Running {
            return Err(Error::Running {
                name: self.name().to_owned(),
            });
        }
        if !self.record.ready_once {
            return Err(Error::HalfStarted {
                name: self.name().to_owned(),
            });
        }
        let taken = || Error::PortTaken {
            name: self.record.name.clone(),
            port: self.record.port,
        };
        if !ports::becomes_free(self.port(), ports::PATIENCE) {
            return Err(taken());
        }
        let server = self.sandbox.installation(self.kind())?;
        let user = ServerUser::for_this_process()?;
        match launch::launch(&server, &self.folder, &self.record, user.as_ref()) {
            Ok((process, version)) => self.started(process, version),
            Err(launch::Failure::PortTaken) => Err(taken()),
            Err(launch::Failure::Other(error)) => Err(error),
        }
    }
}

/// Creates the directories that a server needs, with a copy of a data directory.
pub(crate) fn fill(folder: &Folder, data: &Path, user: Option<&ServerUser>) -> Result<()> {
    for part in [folder.data(), folder.run(), folder.temporary()] {
        files::make_new_folder(&part)?;
        if let Some(user) = user {
            user.make_owner_of(&part)?;
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
    let authority = folder.data().join(tls::CA);
    Ok((wanted == Tls::Usual && authority.is_file()).then_some(authority))
}
