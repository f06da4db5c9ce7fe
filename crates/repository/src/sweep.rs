//! Removes what no backup needs, while other backups may be written.
//!
//! A writer names the packs that it may need in an object of its own, and a sweep names those that
//! it is going to remove; each then looks for the other's object. Whoever comes second sees the
//! other: either the sweep spares the packs, or the writer does not share their blocks. A writer
//! looks again once its manifest is written, and removes the manifest again if packs are gone or
//! about to be removed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use refloat_store::storage::{
    Existing, Object, Storage, StorageErrorKind, read_whole, write_whole,
};

use crate::error::RepositoryError;
use crate::manifest::Manifest;
use crate::pack::{PREFIX, begun, is_id, is_pack, name_of, new_id};
use crate::presence::present;
use crate::repository::Repository;

/// Folder of the objects that name what is being removed.
const SWEEPS: &str = "sweeps/";
/// Such an object has a line of some 50 bytes for each pack of a gigabyte.
const SWEEP_MAX: u64 = 64 << 20;

/// What a sweep has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Bytes of the packs that were removed.
    pub bytes: u64,
    /// Packs that no backup needs, but that were left because a backup that is being written may
    /// need them.
    pub spared: u64,
    /// Objects among the packs that are not packs. They were left alone.
    pub strangers: Vec<String>,
}

/// Removes packs that no backup has blocks in and that were begun at least this long ago, and what
/// writers that did not finish have left behind.
///
/// A younger pack may belong to a backup that is being written. A writer that takes longer than
/// `age` announces itself, and its packs are spared.
///
/// # Errors
/// The storage fails, or a manifest cannot be read: then nothing was removed, because nobody knows
/// what it needs.
pub fn sweep(repository: &Repository, age: Duration) -> Result<Swept, RepositoryError> {
    let storage = repository.storage();
    let is_old = |name: &str| {
        let since = begun(name).and_then(|begun| SystemTime::now().duration_since(begun).ok());
        since.is_some_and(|since| since >= age)
    };
    for sweep in storage.list(SWEEPS)? {
        // Of a sweep that was interrupted. Its packs are found again.
        let is_own = sweep.name.strip_prefix(SWEEPS).is_some_and(is_id);
        if is_own && is_old(&sweep.name) {
            storage.delete(&sweep.name)?;
        }
    }
    let mut swept = Swept::default();
    let (mut packs, strangers): (Vec<_>, Vec<_>) =
        (storage.list(PREFIX)?.into_iter()).partition(|object| is_pack(&object.name));
    swept.strangers = strangers.into_iter().map(|object| object.name).collect();
    let of_backups = needed(repository)?;
    packs.retain(|pack| is_old(&pack.name) && !of_backups.contains(&pack.name));
    if !packs.is_empty() {
        let names: Vec<&str> = packs.iter().map(|pack| pack.name.as_str()).collect();
        let mark = format!("{SWEEPS}{}", new_id());
        write_whole(
            &**storage,
            &mark,
            names.join("\n").as_bytes(),
            Existing::Keep,
        )?;
        let done = remove(repository, packs, &mut swept);
        // Even after an error: what was removed is visibly gone, and needs no mark.
        storage.delete(&mark)?;
        done?;
    }
    storage.sweep()?;
    Ok(swept)
}

/// Removes packs that a mark names, as far as nobody needs them.
fn remove(
    repository: &Repository,
    mut packs: Vec<Object>,
    swept: &mut Swept,
) -> Result<(), RepositoryError> {
    let storage = repository.storage();
    // The writers are read first: one that ends meanwhile has published its backup before.
    let writers = present(storage)?;
    let of_backups = needed(repository)?;
    packs.retain(|pack| !of_backups.contains(&pack.name));
    for pack in packs {
        if writers.iter().any(|writer| writer.needs(&pack.name)) {
            swept.spared += 1;
        } else {
            storage.delete(&pack.name)?;
            swept.bytes += pack.size;
        }
    }
    Ok(())
}

/// The objects of the packs that backups have blocks in.
fn needed(repository: &Repository) -> Result<HashSet<String>, RepositoryError> {
    let backups = repository.backups()?;
    let packs = backups.iter().flat_map(|backup| &backup.packs);
    Ok(packs.map(|pack| name_of(&pack.id)).collect())
}

/// The objects of packs that sweeps are removing, or were when they were interrupted.
pub fn doomed(storage: &Arc<dyn Storage>) -> Result<HashSet<String>, RepositoryError> {
    let mut doomed = HashSet::new();
    for sweep in storage.list(SWEEPS)? {
        match read_whole(storage, &sweep.name, SWEEP_MAX) {
            Ok(text) => doomed.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned)),
            // It has ended: what it removed is gone.
            Err(error) if error.kind() == StorageErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(doomed)
}

/// The existing packs, by the names of their objects, with their sizes.
pub fn sizes(storage: &Arc<dyn Storage>) -> Result<HashMap<String, u64>, RepositoryError> {
    let objects = storage.list(PREFIX)?;
    let sizes = objects.into_iter().map(|object| (object.name, object.size));
    Ok(sizes.collect())
}

/// Checks that all packs of a backup exist, and that no sweep is removing them: a shared one may
/// have been removed meanwhile.
pub fn spared(storage: &Arc<dyn Storage>, manifest: &Manifest) -> Result<(), RepositoryError> {
    let doomed = doomed(storage)?;
    let mut names = manifest.packs.iter().map(|pack| name_of(&pack.id));
    if let Some(name) = names.find(|name| doomed.contains(name)) {
        let url = storage.url().to_owned();
        return Err(RepositoryError::Swept { url, pack: name });
    }
    let sizes = sizes(storage)?;
    for pack in &manifest.packs {
        let name = name_of(&pack.id);
        let detail = match sizes.get(&name) {
            Some(size) if *size == pack.size => continue,
            Some(size) => format!("it has {size} bytes instead of {}", pack.size),
            None => "it is gone, although the backup has blocks in it".to_owned(),
        };
        return Err(RepositoryError::damaged(storage.url(), name, detail));
    }
    Ok(())
}
