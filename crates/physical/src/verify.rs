//! Reads backups back: every block of every file, checked by its hash.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use refloat_repository::{FileEntry, Manifest, Repository, RepositoryError, Sink, fetch};
use refloat_run::Run;
use refloat_run::progress::Phase;

use crate::error::PhysicalError;
use crate::outcome::VerifyOutcome;

/// A pack, and a byte in it: where a block lies.
type Place = (String, u64);

/// Takes blocks, and counts them.
struct Counter(Arc<AtomicU64>);

impl Sink for Counter {
    fn write(&self, _: usize, _: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Reads these backups. A block that several of them have is read once. Damage to one of them keeps
/// no other from being read: the outcome names all that are damaged.
///
/// # Errors
/// It was cancelled.
pub fn verify(
    repository: &Repository,
    backups: &[Manifest],
    threads: usize,
    run: &Run,
) -> Result<VerifyOutcome, PhysicalError> {
    let begun = Instant::now();
    run.progress.set_phase(Phase::Proof);
    let mut outcome = VerifyOutcome {
        repository: repository.storage().url().to_owned(),
        ..VerifyOutcome::default()
    };
    let total: u64 = backups.iter().map(|backup| backup.bytes).sum();
    let passed = Arc::new(AtomicU64::new(0));
    run.progress.set_source(Some(total), Arc::clone(&passed));
    let mut seen = BTreeSet::new();
    for backup in backups {
        let mut added = Vec::new();
        let places = (&mut seen, &mut added);
        match read(repository, backup, places, (threads, &passed), run) {
            Ok(()) => {
                outcome.labels.push(backup.label.clone());
                outcome.bytes += backup.bytes;
                run.events
                    .note(format!("backup {} can be read", backup.label));
            }
            Err(RepositoryError::Cancelled(reason)) => {
                return Err(PhysicalError::Cancelled(reason));
            }
            Err(error) => {
                // What it has in common with others is read again with each of them.
                for place in &added {
                    seen.remove(place);
                }
                let reason = refloat_host::chain(&error);
                run.events
                    .warn(format!("backup {} cannot be read: {reason}", backup.label));
                outcome.damaged.insert(backup.label.clone(), reason);
            }
        }
    }
    run.progress.set_phase(Phase::Done);
    outcome.seconds = begun.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Reads the blocks of a backup that are not among the `seen` ones. They are seen then, and
/// `added`.
fn read(
    repository: &Repository,
    backup: &Manifest,
    (seen, added): (&mut BTreeSet<Place>, &mut Vec<Place>),
    (threads, passed): (usize, &Arc<AtomicU64>),
    run: &Run,
) -> Result<(), RepositoryError> {
    let mut files = repository.files(backup)?;
    let mut skipped = 0;
    for file in &mut files {
        let covered: u64 = file
            .extents
            .iter()
            .map(|extent| u64::from(extent.length))
            .sum();
        skipped += file.size - covered;
        file.extents.retain(|extent| {
            let pack = &backup.packs[extent.pack as usize].id;
            let place = (pack.clone(), extent.at);
            let is_new = seen.insert(place.clone());
            if is_new {
                added.push(place);
            } else {
                skipped += u64::from(extent.length);
            }
            is_new
        });
    }
    let wanted: Vec<&FileEntry> = files.iter().collect();
    let counter = Counter(Arc::clone(passed));
    fetch(repository, backup, &wanted, threads, &counter, &run.cancel)?;
    passed.fetch_add(skipped, Ordering::Relaxed);
    Ok(())
}
