//! Removes what no backup needs, beside backups that are being written.
//!
//! A backup may share blocks of a pack just as the last backup that needed it is forgotten. So a
//! sweep says first which packs it is going to remove, in an object of its own, and then looks for
//! backups that need them; and a backup looks for such objects after its manifest is there. Whoever
//! comes later sees the other one: the sweep spares the packs, or the backup takes its manifest
//! back.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use refloat_store::storage::{Existing, Storage, StorageErrorKind, read_whole, write_whole};

use crate::error::RepositoryError;
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
