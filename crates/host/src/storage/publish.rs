//! How an object appears and disappears in a folder on a server.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, ErrorKind, Read, Write};

use refloat_store::storage::{Existing, UNFINISHED};

use super::packet::kind;
use super::session::{LINK, RENAME, SYNC, Session, flags};
use super::transfer::Put;
use super::url::{Root, above};

/// How often to create a folder that others keep removing.
const FOLDER_ATTEMPTS: u32 = 5;

/// An object that is being written.
pub struct Begun {
    pub put: Put,
    /// Temporary path of its file.
    unfinished: String,
    /// Final path of its file.
    path: String,
}

/// Begins an object: creates an empty file with a temporary name in the same folder.
///
/// # Errors
/// The object exists and must be kept; the server lacks what it takes to publish an object
/// atomically; the server refuses.
pub fn begin<S: Read + Write>(
    session: &mut Session<S>,
    root: &Root,
    name: &str,
    existing: Existing,
) -> io::Result<Begun> {
    let missing: Vec<&str> = [SYNC, LINK, RENAME]
        .into_iter()
        .filter(|extension| !session.offers(extension))
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(io::Error::new(
            ErrorKind::Unsupported,
            format!("its SFTP server lacks {missing}: no object would be whole or not at all"),
        ));
    }
    let path = root.path(name);
    if existing == Existing::Keep {
        match session.look(kind::STAT, &path) {
            Ok(_) => return Err(is_there()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let folder = above(&path).unwrap_or(".");
    let unfinished = format!(
        "{}/{UNFINISHED}{:016x}",
        folder.trim_end_matches('/'),
        random()
    );
    let mut attempts = 0;
    let handle = loop {
        match session.open(&unfinished, flags::WRITE | flags::CREATE | flags::NEW) {
            // A deletion removes the folder that it leaves empty, even one that was created just
            // now.
            Err(error) if error.kind() == ErrorKind::NotFound && attempts < FOLDER_ATTEMPTS => {
                attempts += 1;
                match make_folders(session, folder) {
                    Err(error) if error.kind() == ErrorKind::NotFound && !session.is_lost() => {}
                    made => made?,
                }
            }
            answer => break answer.map_err(|error| explained(session, folder, error))?,
        }
    };
    Ok(Begun {
        put: Put::new(handle),
        unfinished,
        path,
    })
}

fn is_there() -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, "it is there already")
}

/// A random number, to make a name unique.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Begun {
    /// Writes some of these bytes, and returns how many.
    pub fn write<S: Read + Write>(
        &mut self,
        session: &mut Session<S>,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let written = self.put.write(session, bytes);
        written.map_err(|error| explained(session, self.folder(), error))
    }

    /// Publishes the object once all of it is on disk.
    pub fn publish<S: Read + Write>(
        &mut self,
        session: &mut Session<S>,
        existing: Existing,
    ) -> io::Result<()> {
        let completed = self.put.complete(session);
        completed.map_err(|error| explained(session, self.folder(), error))?;
        let place = Place::open(session, self.folder())?;
        match existing {
            Existing::Replace => session.name(RENAME, &self.unfinished, &self.path)?,
            Existing::Keep => self.link(session)?,
        }
        place.sync(session, self.put.handle())?;
        self.put.close(session);
        Ok(())
    }

    /// Links the file to its final name, which fails if that is taken, and removes the temporary
    /// name.
    fn link<S: Read + Write>(&self, session: &mut Session<S>) -> io::Result<()> {
        if let Err(error) = session.name(LINK, &self.unfinished, &self.path) {
            // The protocol has no status for a name that is taken.
            let is_taken = !session.is_lost() && session.look(kind::STAT, &self.path).is_ok();
            return Err(if is_taken {
                is_there()
            } else if error.kind() == ErrorKind::Other {
                io::Error::other(format!("no hard link can be made there: {error}"))
            } else {
                error
            });
        }
        // The object is published. If its temporary name stays, a sweep removes it.
        let removed = session.act(kind::REMOVE, &self.unfinished);
        removed.or_else(|error| {
            if session.is_lost() {
                Err(error)
            } else {
                Ok(())
            }
        })
    }

    /// Removes all traces of it.
    pub fn abandon<S: Read + Write>(&mut self, session: &mut Session<S>) {
        self.put.close(session);
        // A sweep removes what stays.
        let _ = session.act(kind::REMOVE, &self.unfinished);
    }

    fn folder(&self) -> &str {
        above(&self.path).unwrap_or(".")
    }
}

/// A folder whose entries are synced to disk.
struct Place {
    /// `None`: the server cannot sync folders.
    handle: Option<Vec<u8>>,
}

impl Place {
    /// Opens a folder, and tries to sync it.
    fn open<S: Read + Write>(session: &mut Session<S>, folder: &str) -> io::Result<Self> {
        // The protocol opens only files, but OpenSSH passes the call on to the system.
        let answer = session.open(folder, flags::READ);
        let tried = answer.and_then(|handle| {
            let id = session.sync(&handle)?;
            if let Err(error) = session.done(id) {
                session.close(&handle)?;
                return Err(error);
            }
            Ok(handle)
        });
        match tried {
            Err(error) if session.is_lost() => Err(error),
            tried => Ok(Self { handle: tried.ok() }),
        }
    }

    /// Syncs the folder, in which this open file has a new name. If the server cannot, syncs the
    /// file again: a journal that writes its new link count writes the names as well.
    fn sync<S: Read + Write>(self, session: &mut Session<S>, file: &[u8]) -> io::Result<()> {
        let id = session.sync(self.handle.as_deref().unwrap_or(file))?;
        let synced = session.done(id);
        if let Some(handle) = self.handle {
            session.close(&handle)?;
        }
        synced
    }
}

/// Syncs a folder if the server can.
fn sync_folder<S: Read + Write>(session: &mut Session<S>, folder: &str) -> io::Result<()> {
    if !session.offers(SYNC) {
        return Ok(());
    }
    if let Some(handle) = Place::open(session, folder)?.handle {
        session.close(&handle)?;
    }
    Ok(())
}

/// Creates a folder and its parents.
fn make_folders<S: Read + Write>(session: &mut Session<S>, folder: &str) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut at = folder;
    while let Err(error) = make_folder(session, at) {
        match above(at) {
            Some(next) if error.kind() == ErrorKind::NotFound => {
                missing.push(at);
                at = next;
            }
            _ => return Err(error),
        }
    }
    for folder in missing.into_iter().rev() {
        make_folder(session, folder)?;
    }
    Ok(())
}

/// Creates a folder unless it exists.
fn make_folder<S: Read + Write>(session: &mut Session<S>, folder: &str) -> io::Result<()> {
    let Err(error) = session.make_folder(folder) else {
        return sync_folder(session, above(folder).unwrap_or(folder));
    };
    if session.is_lost() || error.kind() == ErrorKind::NotFound {
        return Err(error);
    }
    match session.look(kind::STAT, folder) {
        Ok(found) if found.is_folder() != Some(false) => Ok(()),
        looked => {
            let is_gone = looked.is_err_and(|error| error.kind() == ErrorKind::NotFound);
            let error = explained(session, above(folder).unwrap_or(folder), error);
            // It existed and was removed in between. The protocol has no status for that.
            if is_gone && error.kind() == ErrorKind::Other {
                return Err(io::Error::new(ErrorKind::NotFound, error));
            }
            Err(error)
        }
    }
}

/// The protocol has no status for a full disk either.
fn explained<S: Read + Write>(
    session: &mut Session<S>,
    folder: &str,
    error: io::Error,
) -> io::Error {
    if error.kind() == ErrorKind::Other && session.is_full(folder) == Some(true) {
        return io::Error::new(ErrorKind::StorageFull, "no space is left there");
    }
    error
}

/// Removes an object if it exists, and the folders below the root that are then empty.
pub fn delete<S: Read + Write>(
    session: &mut Session<S>,
    root: &Root,
    name: &str,
) -> io::Result<()> {
    match session.act(kind::REMOVE, &root.path(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    }
    let mut folder = name;
    loop {
        folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        // The root stays, and so does a folder that is not empty.
        if folder.is_empty() || session.act(kind::RMDIR, &root.path(folder)).is_err() {
            break;
        }
    }
    sync_folder(session, &root.path(folder))
}

/// The server's clock, in seconds since 1970: the modification time of a file that is created for
/// this.
pub fn clock<S: Read + Write>(session: &mut Session<S>, root: &Root) -> io::Result<u32> {
    let path = root.path(&format!("{UNFINISHED}{:016x}", random()));
    let handle = session.open(&path, flags::WRITE | flags::CREATE | flags::NEW)?;
    let made = session.look_at_open(&handle);
    session.close(&handle)?;
    session.act(kind::REMOVE, &path)?;
    Ok(made?.modified.unwrap_or_default())
}
