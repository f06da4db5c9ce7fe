//! Removes what no backup needs.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use crate::error::RepositoryError;
use crate::pack::{PREFIX, begun, name_of};
use crate::repository::Repository;

/// Removes packs that no backup has blocks in and that were begun at least this long ago, and what
/// writers left behind that ended without finishing. Returns the bytes of the packs.
///
/// A younger pack may belong to a backup that is being written, so `age` must be longer than a
/// backup takes.
///
/// # Errors
/// The storage fails, or a manifest cannot be read: then nothing was removed, because nobody knows
/// what it needs.
pub fn sweep(repository: &Repository, age: Duration) -> Result<u64, RepositoryError> {
    let storage = repository.storage();
    // Packs first: one that is named by a manifest written meanwhile was begun too short ago.
    let packs = storage.list(PREFIX)?;
    let needed: HashSet<String> = repository
        .backups()?
        .into_iter()
        .flat_map(|backup| backup.packs)
        .map(|pack| name_of(&pack.id))
        .collect();
    let now = SystemTime::now();
    let mut removed = 0;
    for pack in packs {
        let is_old = begun(&pack.name)
            .and_then(|begun| now.duration_since(begun).ok())
            .is_some_and(|since| since >= age);
        if is_old && !needed.contains(&pack.name) {
            storage.delete(&pack.name)?;
            removed += pack.size;
        }
    }
    storage.sweep()?;
    Ok(removed)
}
