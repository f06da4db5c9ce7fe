//! Removes what no backup needs, beside backups that are being written.
//!
//! A backup may share blocks of a pack just as the last backup that needed it is forgotten. So a
//! sweep says first which packs it is going to remove, in an object of its own, and then looks for
//! backups that need them; and a backup looks for such objects after its manifest is there. Whoever
//! comes later sees the other one: the sweep spares the packs, or the backup takes its manifest
//! back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use refloat_store::storage::{Existing, Storage, StorageErrorKind, read_whole, write_whole};

use crate::error::RepositoryError;
use crate::manifest::Manifest;
use crate::pack::{PREFIX, begun, name_of, new_id};
use crate::repository::Repository;

/// Folder of the objects that name what is being removed.
const SWEEPS: &str = "sweeps/";
/// Such an object has a line of some 50 bytes for each pack of a gigabyte.
const SWEEP_MAX: u64 = 64 << 20;

/// Removes packs that no backup has blocks in and that were begun at least this long ago, and what
/// writers left behind that ended without finishing. Returns the bytes of the packs.
///
/// A younger pack may belong to a backup that is being written. One that takes longer than `age`
/// fails at its end, because its packs are gone.
///
/// # Errors
/// The storage fails, or a manifest cannot be read: then nothing was removed, because nobody knows
/// what it needs.
pub fn sweep(repository: &Repository, age: Duration) -> Result<u64, RepositoryError> {
    let storage = repository.storage();
    let is_old = |name: &str| {
        let since = begun(name).and_then(|begun| SystemTime::now().duration_since(begun).ok());
        since.is_some_and(|since| since >= age)
    };
    for sweep in storage.list(SWEEPS)? {
        // Of a sweep that was interrupted. Its packs are found again.
        if is_old(&sweep.name) {
            storage.delete(&sweep.name)?;
        }
    }
    let mut packs = storage.list(PREFIX)?;
    let of_backups = needed(repository)?;
    packs.retain(|pack| is_old(&pack.name) && !of_backups.contains(&pack.name));
    let mut removed = 0;
    if !packs.is_empty() {
        let names: Vec<&str> = packs.iter().map(|pack| pack.name.as_str()).collect();
        let mark = format!("{SWEEPS}{}", new_id());
        write_whole(
            &**storage,
            &mark,
            names.join("\n").as_bytes(),
            Existing::Keep,
        )?;
        let swept = needed(repository).and_then(|of_backups| {
            packs.retain(|pack| !of_backups.contains(&pack.name));
            for pack in packs {
                storage.delete(&pack.name)?;
                removed += pack.size;
            }
            Ok(())
        });
        // Even after an error: what is gone is seen to be gone.
        storage.delete(&mark)?;
        swept?;
    }
    storage.sweep()?;
    Ok(removed)
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

/// The packs that are there, by the names of their objects, with their sizes.
pub fn sizes(storage: &Arc<dyn Storage>) -> Result<HashMap<String, u64>, RepositoryError> {
    let objects = storage.list(PREFIX)?;
    let sizes = objects.into_iter().map(|object| (object.name, object.size));
    Ok(sizes.collect())
}

/// Whether the packs of a backup are there, and no sweep removes them: one that it shares may have
/// been removed meanwhile.
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
