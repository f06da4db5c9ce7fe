//! Puts a prepared folder in the place of a data directory. What was there is kept beside it.
//!
//! What a killed run leaves, and what the next one does with it. `D` is the data directory, `B` the
//! folder in which the new files are made ([`Place::building`]), and the step is that of `B`'s
//! state file.
//!
//! | Killed | `D` holds | `B` holds | The next run |
//! |---|---|---|---|
//! | in `Fetching`, `Preparing`, `Prepared` | the old files | the new ones, or a part | [`Building::begin`] resumes |
//! | after the exchange | the new files, with the state file | the old ones | [`Place::is_filled`], then [`Place::tidy`] |
//! | between the two renames where a file system cannot exchange | nothing: it is in [`between`] | the new files | [`Place::fill`] renames, and `tidy` finds the old ones |
//! | mount point, in `Clearing` | some of the old files; the others are in [`Place::aside`] | the new files | `fill` moves the others, too |
//! | mount point, in `Filling` | some of the new files | the others | `fill` moves the others |
//! | mount point, after `B` was removed | the new files | nothing | there is nothing left to do |
//!
//! A mount point, and the directory of a server that waits for its files, cannot be renamed: there
//! `B` and what is kept are inside `D`, and the files move one by one. Meanwhile an empty folder
//! with the name of InnoDB's system tablespace ([`SYSTEM`]) stands in a mount point, so that no
//! server starts there. It changes places with the old system tablespace first and with the new
//! one last. Killed in between, `B` or the folder with the old data may end with that empty folder
//! in it.
//!
//! The same folder stands in every `D` that is empty, from the beginning ([`Place::guard`]): there,
//! packages and images would create a new server. If `D` does not exist, it is made for this. A
//! killed run leaves it, and for the next one such a `D` counts as empty.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use refloat_host::{Host, datadir};
use refloat_run::Refusal;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::process::{FlockType, fcntl_getlk};

use crate::error::PhysicalError;
use crate::files::{FOLDER_MODE, is_mount_root, label_of, lacks_room, names, sync};
use crate::folder::{Building, STATE, Step};
use crate::held::{Held, Recipient};

/// A folder that a file system may have at its root, and that no server minds.
const LOST_FOUND: &str = "lost+found";
/// Prefix of the folders inside a data directory that cannot be renamed: for building the new files
/// and keeping the old ones.
pub const INSIDE: &str = ".refloat-";
/// What a running server and its provider keep in the data directory while its files are exchanged,
/// as the servers' own scripts leave it: names, and how others begin and end.
const KEPT: [&str; 4] = [
    "galera.cache",
    "grastate.dat",
    "gvwstate.dat",
    "sst_in_progress",
];
const KEPT_BEGINS: [&str; 2] = ["gcache.page.", "RPM_UPGRADE_"];
const KEPT_ENDS: [&str; 5] = [".pem", ".err", ".log", ".pid", ".sock"];
/// The file in which a server keeps its own settings (`SET PERSIST`).
const PERSISTED: &str = "mysqld-auto.cnf";
/// InnoDB's system tablespace. No server starts where a folder has this name, nor creates a new
/// database there: MariaDB 10.11 ("is not a regular file") and MySQL 9.7 ("is not a regular InnoDB
/// data file") were tried.
const SYSTEM: &str = "ibdata1";
/// The account that packages run servers as.
pub const ACCOUNT: &str = "mysql";

/// The directory that is to hold the restored data.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that was seen of it"
)]
#[derive(Debug)]
pub struct Place {
    /// Its path, with symbolic links resolved.
    path: PathBuf,
    exists: bool,
    is_empty: bool,
    /// Whether it is a mount point, or its parent cannot be written to.
    is_fixed: bool,
    /// Whether a server runs in it and waits for its files.
    is_served: bool,
    owner: Option<(u32, u32)>,
    mode: u32,
    /// What keeps others from creating a server in it, once something does.
    guard: Option<Guard>,
}

/// The empty folder in an empty data directory. It is removed when this is dropped.
#[derive(Debug)]
struct Guard {
    /// The directory.
    here: Held,
    /// Its path, if it was made for this.
    made: Option<PathBuf>,
    /// Whether the folder stays, because the files move one by one.
    stays: AtomicBool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.stays.load(Ordering::Relaxed) {
            return;
        }
        // Neither is done to anything that is not empty.
        let _ = self.here.remove_folder(OsStr::new(SYSTEM));
        if let Some(path) = &self.made {
            let _ = fs::remove_dir(path);
        }
    }
}

/// Whether another process holds a lock on the system tablespace, as servers do while they run
/// (`os_file_lock` in their `os0file.cc`): perhaps one that this machine does not show.
fn is_locked(folder: &Path) -> bool {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(folder.join(SYSTEM));
    let held = |file| fcntl_getlk(&file, &FlockType::WriteLock.into());
    file.is_ok_and(|file| matches!(held(file), Ok(Some(_))))
}

impl Place {
    pub fn look(path: &Path) -> Result<Self, PhysicalError> {
        let absolute = std::path::absolute(path)
            .map_err(PhysicalError::file(path, "finding the directory"))?;
        let real = match fs::canonicalize(&absolute) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = absolute.parent().unwrap_or(Path::new("/"));
                let parent = fs::canonicalize(parent)
                    .map_err(PhysicalError::file(parent, "finding the directory"))?;
                return Ok(Self {
                    path: parent.join(absolute.file_name().unwrap_or_default()),
                    exists: false,
                    is_empty: true,
                    is_fixed: false,
                    is_served: false,
                    owner: account(),
                    mode: FOLDER_MODE,
                    guard: None,
                });
            }
            Err(error) => return Err(PhysicalError::file(path, "finding the directory")(error)),
        };
        let look = || -> io::Result<Self> {
            let metadata = fs::metadata(&real)?;
            if !metadata.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            let mut is_empty = true;
            for entry in fs::read_dir(&real)? {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let is_guard = name == SYSTEM && is_guarded(&Held::open(&real)?);
                is_empty &= name == LOST_FOUND || name.starts_with(INSIDE) || is_guard;
            }
            let parent = real.parent().unwrap_or(Path::new("/"));
            let is_mount = real.parent().is_none()
                || fs::metadata(parent)?.dev() != metadata.dev()
                || is_mount_root(&real)?;
            let writable = rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_ok();
            // A directory that was just made, or mounted, is root's; a server's is not.
            let owner = Some((metadata.uid(), metadata.gid())).filter(|(uid, _)| *uid != 0);
            Ok(Self {
                path: real.clone(),
                exists: true,
                is_empty,
                is_fixed: is_mount || !writable,
                is_served: false,
                owner: owner.or_else(account),
                mode: metadata.mode() & 0o777,
                guard: None,
            })
        };
        look().map_err(PhysicalError::file(path, "looking at the directory"))
    }

    /// Examines the directory of a running server that has not opened its files yet and waits for
    /// new ones. It is the server's working directory, so it cannot be renamed.
    pub fn under_server(path: &Path) -> Result<Self, PhysicalError> {
        let mut place = Self {
            is_fixed: true,
            is_served: true,
            ..Self::look(path)?
        };
        place.is_empty = names(&place.path, |name| place.is_data(name))
            .map_err(PhysicalError::file(path, "listing the directory"))?
            .is_empty();
        Ok(place)
    }

    /// Whether an entry of the directory is data, to be exchanged.
    fn is_data(&self, name: &str) -> bool {
        let is_kept = KEPT.contains(&name)
            || KEPT_BEGINS.iter().any(|begin| name.starts_with(begin))
            || KEPT_ENDS.iter().any(|end| name.ends_with(end));
        name != LOST_FOUND && !name.starts_with(INSIDE) && !(self.is_served && is_kept)
    }

    /// Its path, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The account that its files belong to, if this process may give files away.
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.owner.filter(|_| rustix::process::geteuid().is_root())
    }

    /// Where its new files are built: on the same file system, so that they move by rename.
    pub fn building(&self) -> PathBuf {
        if self.is_fixed {
            return self.path.join(format!("{INSIDE}new"));
        }
        let mut name = self.path.as_os_str().to_owned();
        name.push(".refloat-building");
        PathBuf::from(name)
    }

    /// Where its contents will go. `None`: it is empty.
    pub fn aside(&self, run: &str) -> Option<PathBuf> {
        if self.is_empty {
            None
        } else if self.is_fixed {
            Some(self.path.join(format!("{INSIDE}{run}")))
        } else {
            Some(datadir::aside_of(&self.path, run))
        }
    }

    /// Keeps others from creating a server in the directory while its files are made in `building`,
    /// if it is empty or does not exist. If the files do not take its place, it is as before when
    /// this is dropped. What a killed run has left for this is taken over.
    pub fn guard(&mut self, building: &Building) -> Result<(), PhysicalError> {
        // Between the two steps of an exchange, the old data have another name.
        let is_moving = building.step() >= Step::Clearing || between(&self.path).exists();
        if !self.is_empty || self.is_served || is_moving {
            return Ok(());
        }
        let failed = || PhysicalError::file(&self.path, "keeping servers from starting there");
        let mut made = None;
        if !self.exists {
            DirBuilder::new()
                .mode(FOLDER_MODE)
                .create(&self.path)
                .map_err(failed())?;
            self.exists = true;
            made = Some(self.path.clone());
        }
        let guard = Guard {
            here: Held::open(&self.path).map_err(failed())?,
            made,
            stays: AtomicBool::new(false),
        };
        if !is_guarded(&guard.here) {
            (guard.here.make_folder(OsStr::new(SYSTEM))).map_err(failed())?;
        }
        self.guard = Some(guard);
        Ok(())
    }

    /// The objections to putting data there.
    pub fn objections(&self, replace: bool) -> Result<Vec<Refusal>, PhysicalError> {
        let mut against = Vec::new();
        let path = self.path.display();
        if self.is_served {
            // It is stopped later.
        } else if let Some(pid) = datadir::server_in(&Host::Local, &self.path)? {
            let reason = format!("a server is running in {path} (process {pid})");
            against.push(Refusal::new(reason).hint("Stop it first."));
        } else if is_locked(&self.path) {
            against.push(
                Refusal::new(format!(
                    "another process holds a lock on {path}/{SYSTEM}, as a server does while it runs"
                ))
                .hint("It may run in a container that also mounts this directory. Stop it first."),
            );
        }
        // The files in it are the new ones if an earlier run was killed while it put them in place.
        let is_ours = self.is_fixed && Building::is_filling(&self.building())?;
        if !self.is_empty && !replace && !is_ours {
            against.push(
                Refusal::new(format!("{} is not empty", self.path.display())).hint(
                    "With --replace, the backup takes its place; what is there now is kept beside it.",
                ),
            );
        }
        Ok(against)
    }

    /// Whether there is too little room for this many bytes. What an unfinished run has fetched
    /// already occupies its space.
    pub fn lacks_room(&self, bytes: u64) -> Option<Refusal> {
        let building = self.building();
        let folder = building.parent().filter(|_| !building.exists())?;
        lacks_room(folder, bytes)
    }

    /// Gives the files of a folder the owner and the permissions that a server needs. Messages call
    /// the folder `path`.
    pub fn give_to_server(&self, folder: &Held, path: &Path) -> Result<(), PhysicalError> {
        if !self.is_empty && !self.is_served {
            self.keep_own(folder)?;
        }
        let to = Recipient {
            owner: self.owner(),
            // The label of the old data. New files inherit that of the folder above.
            label: label_of(&self.path).filter(|_| !self.is_served),
        };
        folder.give(self.mode, &to).map_err(PhysicalError::file(
            path,
            "giving it to the server's account",
        ))
    }

    /// Keeps this server's own files, which no backup has: many data directories hold certificates
    /// and keys, and each of MySQL's holds what was set by `SET PERSIST`. A link stays a link,
    /// because this program may be able to read what the server's account may not.
    fn keep_own(&self, folder: &Held) -> Result<(), PhysicalError> {
        let wanted = |name: &str| {
            name == PERSISTED || Path::new(name).extension().is_some_and(|end| end == "pem")
        };
        let failed = |doing| PhysicalError::file(&self.path, doing);
        let all = names(&self.path, wanted).map_err(failed("listing the directory"))?;
        let held = Held::open(&self.path).map_err(failed("opening the directory"))?;
        for name in all {
            folder.copy_from(&held, &name).map_err(PhysicalError::file(
                self.path.join(&name),
                "keeping this server's own file",
            ))?;
        }
        Ok(())
    }

    /// Puts the prepared files in place. After an interruption, calling it again resumes. Returns
    /// where the old data are.
    pub fn fill(
        &self,
        mut building: Building,
        run: &str,
    ) -> Result<Option<PathBuf>, PhysicalError> {
        // A server that was started meanwhile would lose its writes.
        if let Some(refusal) = self.objections(true)?.pop() {
            return Err(PhysicalError::refused(refusal));
        }
        let look = if self.is_served {
            Self::under_server
        } else {
            Self::look
        };
        if self.is_empty && building.step() < Step::Filling && !look(&self.path)?.is_empty {
            return Err(PhysicalError::refused(
                Refusal::new(format!(
                    "something has been put into {} meanwhile",
                    self.path.display()
                ))
                .hint("Check what it is: with --replace, it is kept beside the restored data."),
            ));
        }
        if self.is_fixed {
            return self.move_files(&mut building, run);
        }
        let new = building.path();
        let failed = |doing| PhysicalError::file(&self.path, doing);
        if self.exists {
            exchange(new, &self.path).map_err(failed("putting the restored data in its place"))?;
        } else {
            renameat_with(CWD, new, CWD, &self.path, RenameFlags::NOREPLACE)
                .map_err(io::Error::from)
                .map_err(failed("putting the restored data in its place"))?;
        }
        self.tidy(run)
    }

    /// Whether a restore of this backup ended right after it had put its files in place.
    pub fn is_filled(&self, repository: &str, label: &str) -> Result<bool, PhysicalError> {
        Ok(!self.is_fixed && Building::is_prepared(&self.path, repository, label)?)
    }

    /// After the exchange: keeps the old data, which are now where the new ones were built, and
    /// removes the state of the restore from the new ones. Returns where the old data are.
    pub fn tidy(&self, run: &str) -> Result<Option<PathBuf>, PhysicalError> {
        let failed = |doing| PhysicalError::file(&self.path, doing);
        let old = self.building();
        let mut aside = None;
        // An exchange was interrupted halfway.
        let between = between(&self.path);
        if between.exists() && !old.exists() {
            fs::rename(&between, &old)
                .map_err(PhysicalError::file(&between, "keeping the old data"))?;
        }
        if old.exists() {
            // It may have an empty `lost+found`, and the folder that kept servers away. Whatever
            // else is in it is kept.
            for empty in [LOST_FOUND, SYSTEM] {
                let _ = fs::remove_dir(old.join(empty));
            }
            if fs::remove_dir(&old).is_err() {
                let name = datadir::aside_of(&self.path, run);
                fs::rename(&old, &name)
                    .map_err(PhysicalError::file(&old, "keeping the old data"))?;
                aside = Some(name);
            }
        }
        sync(self.path.parent().unwrap_or(Path::new("/")))
            .map_err(failed("bringing the new directory to the disk"))?;
        let state = self.path.join(STATE);
        fs::remove_file(&state).map_err(PhysicalError::file(&state, "removing it"))?;
        // Otherwise, after a power failure, it could be taken for a restore that has just ended.
        sync(&self.path).map_err(failed("bringing the new directory to the disk"))?;
        Ok(aside)
    }

    /// Refuses entries of the directory that could not be moved out of it.
    fn can_move(&self, names: &[OsString]) -> Result<(), PhysicalError> {
        let mut against = Vec::new();
        for name in names {
            let path = self.path.join(name);
            let found =
                fs::symlink_metadata(&path).map_err(PhysicalError::file(&path, "looking at it"))?;
            if !found.is_dir() {
                continue;
            }
            let why = if is_mount_root(&path).unwrap_or(false) {
                "is a mount point"
            } else if rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).is_err() {
                "cannot be written to by this account"
            } else {
                continue;
            };
            against.push(
                Refusal::new(format!("{} {why}, so it cannot be moved", path.display())).hint(
                    "Nothing was moved. Make it like the other folders there, or move it away.",
                ),
            );
        }
        if against.is_empty() {
            return Ok(());
        }
        Err(PhysicalError::Refused(against))
    }

    /// For a directory that cannot be renamed: its files move out, and the new ones in.
    fn move_files(
        &self,
        building: &mut Building,
        run: &str,
    ) -> Result<Option<PathBuf>, PhysicalError> {
        let failed = |doing| PhysicalError::file(&self.path, doing);
        let here = Held::open(&self.path).map_err(failed("opening the directory"))?;
        let mut aside = None;
        if building.step() < Step::Filling {
            let mut old = names(&self.path, |name| self.is_data(name))
                .map_err(failed("listing the directory"))?;
            old.retain(|name| name != SYSTEM || !is_guarded(&here));
            old.sort_by_key(|name| !is_of_system(name));
            self.can_move(&old)?;
            building.reach(Step::Clearing)?;
            if let Some(guard) = &self.guard {
                guard.stays.store(true, Ordering::Relaxed);
            }
            aside = self.aside(run);
            if let Some(aside) = &aside {
                let name = aside.file_name().unwrap_or_default();
                let kept = here
                    .make_folder(name)
                    .map_err(PhysicalError::file(aside, "making the folder"))?;
                if let Err(error) = self.move_out(old, &here, &kept) {
                    let _ = fs::remove_dir(aside);
                    return Err(failed("keeping the old data")(error));
                }
            } else if !self.is_served && !is_guarded(&here) {
                here.make_folder(OsStr::new(SYSTEM))
                    .map_err(failed("keeping servers from starting there"))?;
            }
            building.reach(Step::Filling)?;
        }
        let made = building.held();
        let entries = made.entries();
        let mut new: Vec<OsString> = entries
            .map_err(failed("listing the restored data"))?
            .into_iter()
            .map(|(name, _)| name)
            // A folder of the name of the system tablespace has given its place to it already.
            .filter(|name| name != STATE && (name != SYSTEM || !is_guarded(made)))
            .collect();
        new.sort_by_key(|name| (is_of_system(name), name == SYSTEM));
        for name in new {
            let moved = if name == SYSTEM && is_guarded(&here) {
                made.change_places(&name, &here)
            } else {
                made.move_to(&name, &here)
            };
            moved.map_err(failed("putting the restored data in its place"))?;
        }
        if is_guarded(&here) {
            // Its system tablespace has another name.
            here.remove_folder(OsStr::new(SYSTEM))
                .map_err(failed("letting servers start there"))?;
        }
        sync(&self.path).map_err(failed("bringing the new files to the disk"))?;
        if is_guarded(made) {
            // The state of the restore must be what is removed last.
            made.remove_folder(OsStr::new(SYSTEM))
                .map_err(failed("removing the folder in which they were made"))?;
        }
        fs::remove_dir_all(building.path())
            .map_err(failed("removing the folder in which they were made"))?;
        sync(&self.path).map_err(failed("bringing the new files to the disk"))?;
        Ok(aside)
    }

    /// Moves the old data out, or nothing of them. An empty folder stays in the place of the system
    /// tablespace, unless a server runs there.
    fn move_out(&self, mut old: Vec<OsString>, here: &Held, kept: &Held) -> io::Result<()> {
        let system = OsStr::new(SYSTEM);
        let has_one = old.iter().any(|name| name == system);
        let guards = !self.is_served && !is_guarded(here);
        if guards && has_one {
            old.retain(|name| name != system);
            kept.make_folder(system)?;
            here.change_places(system, kept)
                .inspect_err(|_| drop(kept.remove_folder(system)))?;
        } else if guards {
            here.make_folder(system)?;
        }
        let Err(error) = move_all(&old, here, kept) else {
            return Ok(());
        };
        // Where not all of them are back, no server may start either.
        let is_back = kept
            .entries()
            .is_ok_and(|left| left.len() <= usize::from(guards && has_one));
        if guards && is_back {
            if has_one {
                kept.change_places(system, here)?;
                kept.remove_folder(system)?;
            } else {
                here.remove_folder(system)?;
            }
        }
        Err(error)
    }
}

/// Whether an empty folder stands in the place of the system tablespace.
fn is_guarded(folder: &Held) -> bool {
    folder.has_empty_folder(OsStr::new(SYSTEM))
}

/// Moves entries from one folder into another one, or none of them.
fn move_all(names: &[OsString], from: &Held, to: &Held) -> io::Result<()> {
    for (at, name) in names.iter().enumerate() {
        if let Err(error) = from.move_to(name, to) {
            for name in names[..at].iter().rev() {
                // If this fails too, the entry stays in `to`.
                let _ = to.move_to(name, from);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Whether a file is a system file: InnoDB's system tablespace, redo log and undo tablespaces, and
/// Aria's log, with which MariaDB begins before it opens InnoDB. These are moved out first and
/// moved in last. Where the system tablespace has another name than [`SYSTEM`], a server that is
/// started in between creates new ones, rather than working with files that do not belong
/// together.
fn is_of_system(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    let begins = ["ib", "undo", "#innodb_redo", "aria_log"];
    begins.iter().any(|begin| name.starts_with(begin))
}

/// Exchanges two directories atomically, or in two steps where the file system cannot do that.
fn exchange(new: &Path, old: &Path) -> io::Result<()> {
    match renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            let between = between(old);
            fs::rename(old, &between)?;
            if let Err(error) = fs::rename(new, old) {
                fs::rename(&between, old)?;
                return Err(error);
            }
            fs::rename(&between, new)
        }
        Err(error) => Err(error.into()),
    }
}

/// Where the old data directory is for a moment, while two are exchanged in two steps.
fn between(old: &Path) -> PathBuf {
    let mut between = old.as_os_str().to_owned();
    between.push(".refloat-between");
    PathBuf::from(between)
}

/// User and group of the account that servers run under. `None`: there is none.
pub fn account() -> Option<(u32, u32)> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(ACCOUNT)).then_some(())?;
        let (uid, gid) = (fields.nth(1)?, fields.next()?);
        Some((uid.parse().ok()?, gid.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use refloat_sandbox::ServerKind;
    use refloat_testkit::servers;

    use super::*;
    use crate::files::LABEL;

    #[test]
    fn every_server_locks_its_data_while_it_runs() {
        for kind in ServerKind::ALL {
            let mut server = servers::start(&servers::quick(kind));
            assert!(is_locked(&server.datadir()), "{kind}");
            server.stop().unwrap();
            assert!(!is_locked(&server.datadir()), "{kind}");
        }
    }

    #[test]
    fn a_prepared_folder_takes_the_place_of_the_old_one() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("ibdata1"), "old").unwrap();
        let place = Place::look(&data).unwrap();
        let against = place.objections(false).unwrap();
        assert!(against[0].reason.ends_with("is not empty"), "{against:?}");
        assert_eq!(place.objections(true).unwrap(), []);
        let building = Building::begin(&place.building(), "r", "l", false).unwrap();
        fs::write(building.path().join("ibdata1"), "new").unwrap();
        let aside = place.fill(building, "r1").unwrap().unwrap();
        let read = |folder: &Path| fs::read_to_string(folder.join("ibdata1")).unwrap();
        assert_eq!((read(&data), read(&aside)), ("new".into(), "old".into()));
        assert_eq!(aside, above.path().join("data.refloat-r1"));
        assert!(!data.join(STATE).exists() && !place.building().exists());
    }

    // Hazard of files: P-15 the SELinux label of the old data
    #[test]
    fn new_files_have_the_label_of_the_old_ones() {
        let above = tempfile::tempdir().unwrap();
        let (data, new) = (above.path().join("data"), above.path().join("new"));
        for folder in [&data, &new] {
            fs::create_dir_all(folder.join("shop")).unwrap();
        }
        fs::write(new.join("shop/t.ibd"), "new").unwrap();
        let label = b"system_u:object_r:mysqld_db_t:s0";
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&data, LABEL, label, flags).unwrap();
        let held = Held::open(&new).unwrap();
        let place = Place::look(&data).unwrap();
        place.give_to_server(&held, &new).unwrap();
        for path in ["", "shop", "shop/t.ibd"] {
            assert_eq!(label_of(&new.join(path)).unwrap(), label, "{path}");
        }
    }

    #[test]
    fn what_the_servers_account_links_to_is_not_read() {
        let above = tempfile::tempdir().unwrap();
        let (data, new) = (above.path().join("data"), above.path().join("new"));
        for folder in [&data, &new] {
            fs::create_dir(folder).unwrap();
        }
        let secret = above.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        fs::write(data.join("ca.pem"), "certificate").unwrap();
        symlink(&secret, data.join("key.pem")).unwrap();
        symlink(&secret, data.join(PERSISTED)).unwrap();
        fs::create_dir(data.join("certs")).unwrap();
        fs::write(data.join("certs/inside"), "inside").unwrap();
        symlink("certs/inside", data.join("server-key.pem")).unwrap();
        symlink("../secret", data.join("out.pem")).unwrap();
        symlink(&secret, new.join("ibdata1")).unwrap();
        let mode = || fs::metadata(&secret).unwrap().mode();
        let before = mode();
        let held = Held::open(&new).unwrap();
        let place = Place::look(&data).unwrap();
        place.give_to_server(&held, &new).unwrap();
        assert_eq!(fs::read(new.join("ca.pem")).unwrap(), b"certificate");
        // The target of the link moves away with the old data, so the file itself is kept.
        assert_eq!(fs::read(new.join("server-key.pem")).unwrap(), b"inside");
        assert!(
            fs::symlink_metadata(new.join("server-key.pem"))
                .unwrap()
                .is_file()
        );
        assert_eq!(
            fs::read_link(new.join("out.pem")).unwrap(),
            Path::new("../secret")
        );
        for name in ["key.pem", PERSISTED] {
            assert_eq!(fs::read_link(new.join(name)).unwrap(), secret, "{name}");
        }
        assert_eq!(mode(), before);
        assert_eq!(
            fs::metadata(&secret).unwrap().uid(),
            rustix::process::geteuid().as_raw()
        );
    }

    #[test]
    fn an_exchange_is_completed_by_the_next_restore() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("ibdata1"), "old").unwrap();
        let place = Place::look(&data).unwrap();
        let mut building = Building::begin(&place.building(), "r", "l", false).unwrap();
        let error = Building::begin(&place.building(), "r", "l", false).unwrap_err();
        assert!(
            error.to_string().contains("another run is working"),
            "{error}"
        );
        fs::write(building.path().join("ibdata1"), "new").unwrap();
        building.reach(Step::Prepared).unwrap();
        assert!(!place.is_filled("r", "l").unwrap());
        exchange(building.path(), &data).unwrap();
        drop(building);
        let place = Place::look(&data).unwrap();
        assert!(place.is_filled("r", "l").unwrap());
        assert!(!place.is_filled("r", "another").unwrap());
        let aside = place.tidy("r1").unwrap().unwrap();
        assert!(aside.join("ibdata1").exists() && !data.join(STATE).exists());
    }

    #[test]
    fn an_exchange_in_two_steps_that_was_ended_between_them_loses_nothing() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("ibdata1"), "old").unwrap();
        let place = Place::look(&data).unwrap();
        let mut building = Building::begin(&place.building(), "r", "l", false).unwrap();
        fs::write(building.path().join("ibdata1"), "new").unwrap();
        building.reach(Step::Prepared).unwrap();
        fs::rename(&data, between(&data)).unwrap();
        let place = Place::look(&data).unwrap();
        let aside = place.fill(building, "r1").unwrap().unwrap();
        let read = |folder: &Path| fs::read_to_string(folder.join("ibdata1")).unwrap();
        assert_eq!((read(&data), read(&aside)), ("new".into(), "old".into()));
        assert!(!between(&data).exists() && !place.building().exists());
    }

    #[test]
    fn what_a_server_has_used_is_no_restore_any_more() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        let place = Place::look(&data).unwrap();
        let mut building = Building::begin(&data, "r", "l", false).unwrap();
        building.reach(Step::Prepared).unwrap();
        drop(building);
        assert!(place.is_filled("r", "l").unwrap());
        // Long after the state was written.
        let file = fs::File::create(data.join("ibdata1")).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        file.set_modified(later).unwrap();
        assert!(!place.is_filled("r", "l").unwrap());
        let error = Building::begin(&data, "r", "l", true).unwrap_err();
        assert!(
            error.to_string().contains("does not come from a restore"),
            "{error}"
        );
        assert!(data.join("ibdata1").exists());
    }

    #[test]
    fn what_came_meanwhile_is_not_written_over() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        fs::create_dir(&data).unwrap();
        let place = Place::look(&data).unwrap();
        let building = Building::begin(&place.building(), "r", "l", false).unwrap();
        fs::write(data.join("ibdata1"), "somebody's").unwrap();
        let error = place.fill(building, "r1").unwrap_err();
        assert!(error.to_string().contains("meanwhile"), "{error}");
        assert!(data.join("ibdata1").exists());
    }

    #[test]
    fn a_directory_that_is_not_there_or_empty_is_filled() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        for is_there in [false, true] {
            if is_there {
                fs::remove_dir_all(&data).unwrap();
                fs::create_dir_all(data.join(LOST_FOUND)).unwrap();
            }
            let place = Place::look(&data).unwrap();
            assert_eq!(place.objections(false).unwrap(), []);
            let building = Building::begin(&place.building(), "r", "l", false).unwrap();
            fs::write(building.path().join("ibdata1"), "new").unwrap();
            assert_eq!(place.fill(building, "r1").unwrap(), None);
            assert!(data.join("ibdata1").exists());
            assert_eq!(fs::read_dir(above.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_cannot_be_moved_leaves_everything_where_it_was() {
        let above = tempfile::tempdir().unwrap();
        let (data, aside) = (above.path().join("data"), above.path().join("aside"));
        fs::create_dir(&data).unwrap();
        fs::create_dir(&aside).unwrap();
        for name in ["a", "b"] {
            fs::write(data.join(name), name).unwrap();
        }
        let entries = ["a", "b", "none"].map(OsString::from);
        let held = |path: &Path| Held::open(path).unwrap();
        move_all(&entries, &held(&data), &held(&aside)).unwrap_err();
        assert!(data.join("a").exists() && data.join("b").exists());
        assert_eq!(fs::read_dir(&aside).unwrap().count(), 0);
        let place = Place::look(&data).unwrap();
        place.can_move(&entries[..2]).unwrap();
        assert!(is_mount_root(Path::new("/proc")).unwrap());
        assert!(!is_mount_root(&data).unwrap());
        // A directory of the kernel's.
        let place = Place::look(Path::new("/")).unwrap();
        let error = place.can_move(&[OsString::from("proc")]).unwrap_err();
        assert!(error.to_string().contains("is a mount point"), "{error}");
    }

    /// What the system tablespace of a data directory holds, or that a folder stands in its place.
    fn system_of(folder: &Path) -> String {
        let path = folder.join(SYSTEM);
        if path.is_dir() {
            return "guarded".to_owned();
        }
        fs::read_to_string(path).unwrap_or_else(|_| "none".to_owned())
    }

    fn names_in(folder: &Path) -> Vec<OsString> {
        let mut found = names(folder, |_| true).unwrap();
        found.sort();
        found
    }

    // Hazard of files: P-14 a package or an image that would create a server in an empty data
    //   directory, or in none, before a restore is done, also after one was killed | ,
    //   `physical/physical/faults.rs`: `nobody_creates_a_server_before_a_restore_is_done`
    #[test]
    fn an_empty_directory_is_guarded_until_its_files_are_in_place() {
        for (is_there, is_fixed) in [(false, false), (true, false), (true, true)] {
            let above = tempfile::tempdir().unwrap();
            let data = above.path().join("data");
            if is_there {
                fs::create_dir_all(data.join(LOST_FOUND)).unwrap();
            }
            let look = || Place {
                is_fixed,
                ..Place::look(&data).unwrap()
            };
            let begin = || Building::begin(&look().building(), "r", "l", false).unwrap();
            // It fails, or is stopped.
            let mut building = begin();
            fs::write(building.path().join(SYSTEM), "new").unwrap();
            let mut place = look();
            place.guard(&building).unwrap();
            assert_eq!(system_of(&data), "guarded");
            drop(place);
            assert_eq!(data.exists(), is_there);
            assert_eq!(system_of(&data), "none");
            // It is killed.
            let mut place = look();
            place.guard(&building).unwrap();
            building.reach(Step::Prepared).unwrap();
            std::mem::forget(place.guard.take());
            drop(building);
            assert_eq!(system_of(&data), "guarded");
            assert!(look().is_empty);
            // The next one takes that over.
            let mut place = look();
            let building = begin();
            place.guard(&building).unwrap();
            assert_eq!(place.fill(building, "r1").unwrap(), None);
            drop(place);
            assert_eq!(system_of(&data), "new");
            assert_eq!(names_in(above.path()), ["data"]);
            let expected: &[&str] = if is_fixed {
                &[SYSTEM, LOST_FOUND]
            } else {
                &[SYSTEM]
            };
            assert_eq!(names_in(&data), expected);
        }
    }

    #[test]
    fn a_guard_stands_only_where_nothing_is() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        fs::create_dir(&data).unwrap();
        let look = || Place::look(&data).unwrap();
        let begin = || Building::begin(&look().building(), "r", "l", false).unwrap();
        let mut place = look();
        let building = begin();
        place.guard(&building).unwrap();
        // What somebody makes there all the same stays, and the guard goes.
        fs::write(data.join("theirs"), "").unwrap();
        let error = place.fill(building, "r1").unwrap_err();
        assert!(error.to_string().contains("meanwhile"), "{error}");
        drop(place);
        assert_eq!(names_in(&data), ["theirs"]);
        let building = begin();
        let mut place = look();
        place.guard(&building).unwrap();
        assert!(place.guard.is_none());
        // Between the two steps of an exchange, the directory is not empty, but elsewhere.
        fs::rename(&data, between(&data)).unwrap();
        let mut place = look();
        place.guard(&building).unwrap();
        assert!(place.guard.is_none() && !data.exists());
    }

    // Hazard of files: P-13, P-14 a server that is started while the files of a mount point move
    //   | , `physical/physical/faults.rs`: `no_server_starts_where_files_are_moved`
    #[test]
    fn nobody_starts_a_server_while_files_move() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        fs::create_dir_all(data.join(LOST_FOUND)).unwrap();
        fs::create_dir(data.join("shop")).unwrap();
        fs::write(data.join(SYSTEM), "old").unwrap();
        let look = || Place {
            is_fixed: true,
            ..Place::look(&data).unwrap()
        };
        // What cannot be moved out: everything stays.
        let kept = above.path().join("kept");
        fs::create_dir(&kept).unwrap();
        let (here, out) = (Held::open(&data).unwrap(), Held::open(&kept).unwrap());
        let old = [SYSTEM, "shop", "none"].map(OsString::from).to_vec();
        look().move_out(old, &here, &out).unwrap_err();
        assert_eq!(
            (system_of(&data), system_of(&kept)),
            ("old".into(), "none".into())
        );
        assert!(data.join("shop").exists());
        // What cannot be moved in: the system tablespace comes last.
        let building = Building::begin(&look().building(), "r", "l", false).unwrap();
        let stuck = building.path().join(LOST_FOUND);
        for name in [SYSTEM, "undo001", "ib_logfile0", "a"] {
            fs::write(building.path().join(name), "new").unwrap();
        }
        fs::write(&stuck, "a file, which takes no folder's place").unwrap();
        let aside = look().aside("r0").unwrap();
        look().fill(building, "r0").unwrap_err();
        assert_eq!(
            (system_of(&data), system_of(&aside)),
            ("guarded".into(), "old".into())
        );
        assert!(!data.join("undo001").exists());
        fs::remove_file(&stuck).unwrap();
        assert_eq!(look().objections(false).unwrap(), []);
        assert_eq!(crate::outside_files::redo(&data), None);
        let building = Building::begin(&look().building(), "r", "l", false).unwrap();
        look().fill(building, "r1").unwrap();
        assert_eq!(
            (system_of(&data), system_of(&aside)),
            ("new".into(), "old".into())
        );
        assert!(data.join("undo001").exists() && !look().building().exists());
        // It was killed after the old files had moved, and before the new ones did. This server
        // calls its system tablespace something else.
        let aside = look().aside("r2").unwrap();
        let mut building = Building::begin(&look().building(), "r", "l", false).unwrap();
        fs::write(building.path().join("other1"), "new").unwrap();
        building.reach(Step::Clearing).unwrap();
        fs::create_dir(&aside).unwrap();
        let out = Held::open(&aside).unwrap();
        let old = names(&data, |name| look().is_data(name)).unwrap();
        look().move_out(old, &here, &out).unwrap();
        drop(building);
        assert_eq!(
            (system_of(&data), system_of(&aside)),
            ("guarded".into(), "new".into())
        );
        assert!(look().is_empty);
        let building = Building::begin(&look().building(), "r", "l", false).unwrap();
        look().fill(building, "r3").unwrap();
        assert_eq!(system_of(&data), "none");
        assert!(data.join("other1").exists());
    }

    #[test]
    fn the_files_of_a_mount_point_move() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("data");
        fs::create_dir_all(data.join(LOST_FOUND)).unwrap();
        fs::write(data.join("old"), "old").unwrap();
        let mut place = Place::look(&data).unwrap();
        place.is_fixed = true;
        let begin = || Building::begin(&place.building(), "r", "l", false).unwrap();
        let mut building = begin();
        fs::write(building.path().join("a"), "new").unwrap();
        fs::write(building.path().join("b"), "new").unwrap();
        // It was killed between two files.
        building.reach(Step::Filling).unwrap();
        let aside = place.aside("r0").unwrap();
        fs::create_dir(&aside).unwrap();
        fs::rename(data.join("old"), aside.join("old")).unwrap();
        fs::rename(building.path().join("a"), data.join("a")).unwrap();
        drop(building);
        place.fill(begin(), "r1").unwrap();
        assert!(data.join("a").exists() && data.join("b").exists());
        assert!(aside.join("old").exists() && data.join(LOST_FOUND).exists());
        assert!(!place.building().exists());
    }
}
