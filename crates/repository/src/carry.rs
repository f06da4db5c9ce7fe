//! Backups that leave a repository as a stream, and enter one.
//!
//! A stream holds what a repository with this one backup would hold: the description and the
//! wrapped keys, the packs that the backup has blocks in, and its manifest. They are copied
//! unchanged: so both ends must be encrypted alike, and packs that already exist are not written
//! again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Write};
use std::sync::Arc;

use refloat_run::Cancel;
use refloat_store::storage::{
    Existing, Patience, Storage, StorageError, StorageErrorKind, Upload, read_whole, reader,
    write_whole,
};

use crate::error::RepositoryError;
use crate::keys;
use crate::manifest::Manifest;
use crate::pack::{PREFIX, is_pack, name_of};
use crate::presence::Presence;
use crate::repository::{
    BACKUPS, DESCRIPTION, MANIFEST_MAX, Repository, described, key_check, unproven,
};
use crate::stream::{Piece, StreamReader, StreamStorage};
use crate::sweep::{sizes, spared};

const BUFFER: usize = 1 << 20;

/// Writes a backup as a stream. Returns the bytes of its packs, which may hold blocks of other
/// backups, too.
///
/// # Errors
/// The storage fails, or the stream cannot be written.
pub fn export(
    repository: &Repository,
    manifest: &Manifest,
    out: Box<dyn Write + Send>,
) -> Result<u64, RepositoryError> {
    let storage = repository.storage();
    let stream = StreamStorage::begin(out)?;
    let copy = |name: &str, size: u64| copy(storage, name, size, &stream);
    for recipient in keys::all(&**storage)? {
        let name = keys::name_of(&recipient);
        copy(&name, storage.size(&name)?)?;
    }
    copy(DESCRIPTION, storage.size(DESCRIPTION)?)?;
    for pack in &manifest.packs {
        copy(&name_of(&pack.id), pack.size)?;
    }
    let name = format!("{BACKUPS}{}.json", manifest.label);
    copy(&name, storage.size(&name)?)?;
    stream.finish()?;
    Ok(manifest.packs.iter().map(|pack| pack.size).sum())
}

fn copy(
    from: &Arc<dyn Storage>,
    name: &str,
    size: u64,
    to: &StreamStorage,
) -> Result<(), RepositoryError> {
    let mut upload = to.create(name, Existing::Keep)?;
    let mut object = reader(from, name, 0..size, Patience::default());
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = object.read(&mut buffer);
        let count =
            read.map_err(|source| StorageError::from_io(from.url(), name, "reading", source))?;
        if count == 0 {
            return Ok(upload.finish()?);
        }
        upload
            .write_all(&buffer[..count])
            .map_err(|source| StorageError::from_io(to.url(), name, "writing", source))?;
    }
}

/// What an import has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The manifest of the imported backup.
    pub manifest: Manifest,
    /// Bytes that were written to the storage.
    pub added: u64,
    /// Bytes of packs that the storage already had.
    pub known: u64,
    /// Whether the storage was empty before.
    pub is_new: bool,
}

/// Reads a stream into the repository of a storage, or makes one in an empty place: then it has the
/// key of the stream. `passed` is called with the number of bytes as they arrive.
///
/// # Errors
/// The stream was cut or is damaged, the repository is encrypted otherwise, it has a backup of that
/// label, or the storage fails. Then the backup is not added. Packs that arrived whole stay: the
/// same import resumes after them, and otherwise [`sweep`](crate::sweep) removes them.
pub fn import(
    input: impl Read,
    storage: &Arc<dyn Storage>,
    cancel: &Cancel,
    passed: impl Fn(u64),
) -> Result<Imported, RepositoryError> {
    let description = described(storage)?;
    let mut there = storage.list("")?.into_iter();
    // An import that was killed before it made the repository leaves only wrapped keys.
    let foreign = there.find(|object| !object.name.starts_with(keys::PREFIX));
    if let (None, Some(object)) = (&description, foreign) {
        return Err(RepositoryError::Occupied {
            url: storage.url().to_owned(),
            found: object.name,
        });
    }
    // Its packs were begun elsewhere, perhaps long ago.
    let presence = Presence::of_all(storage)?;
    let mut import = Import {
        presence,
        storage,
        there: sizes(storage)?,
        is_new: description.is_none(),
        description,
        small: BTreeMap::new(),
        small_bytes: 0,
        open: HashMap::new(),
        written: Vec::new(),
        added: 0,
        known: 0,
    };
    import.read(input, cancel, passed)?;
    import.publish()
}

/// An object that is arriving.
enum Open {
    /// A small object that is held back until the stream is known to be whole.
    Small(String, Vec<u8>),
    Pack(String, u64, Box<dyn Upload>),
    /// A pack that the storage already has, and its size in the stream so far.
    There(String, u64),
}

struct Import<'a> {
    /// Keeps sweeps from its packs.
    presence: Presence,
    storage: &'a Arc<dyn Storage>,
    /// The description of the repository. `None`: the repository has yet to be created.
    description: Option<Vec<u8>>,
    is_new: bool,
    /// Packs that the storage has, with their sizes.
    there: HashMap<String, u64>,
    /// Small objects that have arrived and are not written yet.
    small: BTreeMap<String, Vec<u8>>,
    small_bytes: u64,
    open: HashMap<u32, Open>,
    /// Packs that were written here.
    written: Vec<String>,
    added: u64,
    known: u64,
}

fn damaged(detail: &str) -> RepositoryError {
    RepositoryError::Stream {
        detail: detail.to_owned(),
    }
}

impl Import<'_> {
    fn read(
        &mut self,
        input: impl Read,
        cancel: &Cancel,
        passed: impl Fn(u64),
    ) -> Result<(), RepositoryError> {
        let mut stream = StreamReader::begin(input)?;
        while let Some(piece) = stream.next()? {
            if let Some(reason) = cancel.reason() {
                return Err(RepositoryError::Cancelled(reason));
            }
            self.presence.renew();
            match piece {
                Piece::Begin { number, name } => {
                    let open = self.begin(name)?;
                    self.open.insert(number, open);
                }
                Piece::Data { number, bytes } => {
                    passed(bytes.len() as u64);
                    self.data(number, bytes)?;
                }
                Piece::End { number } => self.end(number)?,
            }
        }
        Ok(())
    }

    fn begin(&self, name: &str) -> Result<Open, RepositoryError> {
        let name = name.to_owned();
        if !name.starts_with(PREFIX) {
            let is_known = name == DESCRIPTION
                || name.starts_with(BACKUPS)
                || keys::recipient_of(&name).is_some();
            if !is_known {
                return Err(damaged("it holds what belongs to no backup"));
            }
            return Ok(Open::Small(name, Vec::new()));
        }
        if !self.small.contains_key(DESCRIPTION) {
            return Err(damaged("it does not say first what it is"));
        }
        if !is_pack(&name) {
            return Err(damaged("it holds a pack whose name is none"));
        }
        if self.there.contains_key(&name) {
            return Ok(Open::There(name, 0));
        }
        let upload = self.storage.create(&name, Existing::Keep)?;
        Ok(Open::Pack(name, 0, upload))
    }

    fn data(&mut self, number: u32, bytes: &[u8]) -> Result<(), RepositoryError> {
        let count = bytes.len() as u64;
        match self.open.get_mut(&number) {
            Some(Open::Small(_, content)) => {
                self.small_bytes += count;
                if self.small_bytes > MANIFEST_MAX {
                    return Err(damaged("what is known of the backup is too large"));
                }
                content.extend_from_slice(bytes);
            }
            Some(Open::Pack(name, size, upload)) => {
                *size += count;
                upload.write_all(bytes).map_err(|source| {
                    StorageError::from_io(self.storage.url(), name, "writing", source)
                })?;
            }
            Some(Open::There(_, size)) => *size += count,
            None => {}
        }
        Ok(())
    }

    fn end(&mut self, number: u32) -> Result<(), RepositoryError> {
        match self.open.remove(&number) {
            Some(Open::Small(name, content)) => {
                self.small_bytes += name.len() as u64;
                if name.starts_with(keys::PREFIX) && self.small.contains_key(DESCRIPTION) {
                    return Err(damaged("a wrapped key comes too late"));
                }
                if name == DESCRIPTION {
                    self.fits(&content)?;
                    self.make(&content)?;
                }
                self.small.insert(name, content);
            }
            Some(Open::Pack(name, size, upload)) => {
                upload.finish()?;
                self.added += size;
                self.written.push(name);
            }
            Some(Open::There(name, size)) => {
                if self.there.get(&name) != Some(&size) {
                    let detail = "it is another one than that of the stream";
                    return Err(RepositoryError::damaged(self.storage.url(), name, detail));
                }
                self.known += size;
            }
            None => {}
        }
        Ok(())
    }

    /// Refuses a stream that could not be read here: blocks are copied unchanged.
    fn fits(&self, description: &[u8]) -> Result<(), RepositoryError> {
        let theirs = key_check("the stream", description)?;
        let Some(standing) = &self.description else {
            return Ok(());
        };
        let url = self.storage.url();
        let detail = match (key_check(url, standing)?, theirs) {
            (ours, theirs) if ours == theirs => return Ok(()),
            (None, Some(_)) => "is not encrypted, but what comes is",
            (Some(_), None) => "is encrypted, but what comes is not",
            _ => "is encrypted with another key than what comes",
        };
        Err(RepositoryError::Foreign {
            url: url.to_owned(),
            detail,
        })
    }

    /// Creates the repository, unless there is one. This comes before all packs, so an import that
    /// is killed leaves a repository in which the next one resumes.
    fn make(&mut self, description: &[u8]) -> Result<(), RepositoryError> {
        if self.description.is_some() {
            return Ok(());
        }
        let keys = self.small.iter();
        for (name, key) in keys.filter(|(name, _)| name.starts_with(keys::PREFIX)) {
            match write_whole(&**self.storage, name, key, Existing::Keep) {
                Err(error) if error.kind() == StorageErrorKind::Exists => {
                    if read_whole(self.storage, name, keys::WRAPPED_MAX)? != *key {
                        return Err(RepositoryError::Occupied {
                            url: self.storage.url().to_owned(),
                            found: name.clone(),
                        });
                    }
                }
                other => other?,
            }
        }
        write_whole(&**self.storage, DESCRIPTION, description, Existing::Keep)?;
        self.description = Some(description.to_vec());
        Ok(())
    }

    /// Makes the backup appear.
    fn publish(&self) -> Result<Imported, RepositoryError> {
        let manifests = self.small.range(BACKUPS.to_owned()..);
        let mut manifests = manifests.filter(|(name, _)| name.starts_with(BACKUPS));
        let (Some((name, text)), None) = (manifests.next(), manifests.next()) else {
            return Err(damaged("it does not hold one backup"));
        };
        if !self.small.contains_key(DESCRIPTION) {
            return Err(damaged("it does not say what it is"));
        }
        let manifest = unproven("the stream", name, text)?;
        spared(self.storage, &manifest)?;
        let needed: HashSet<String> = manifest.packs.iter().map(|p| name_of(&p.id)).collect();
        if self.written.iter().any(|name| !needed.contains(name)) {
            return Err(damaged("it holds packs that the backup does not need"));
        }
        match write_whole(&**self.storage, name, text, Existing::Keep) {
            Err(error) if error.kind() == StorageErrorKind::Exists => {
                return Err(RepositoryError::LabelTaken {
                    url: self.storage.url().to_owned(),
                    label: manifest.label,
                });
            }
            written => written?,
        }
        // As with a backup: a sweep may have been at work meanwhile.
        if let Err(error) = spared(self.storage, &manifest) {
            self.storage.delete(name)?;
            return Err(error);
        }
        Ok(Imported {
            manifest,
            added: self.added,
            known: self.known,
            is_new: self.is_new,
        })
    }
}
