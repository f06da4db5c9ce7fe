//! Reads backups back: every block of every file, checked by its hash; and starts servers on them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use refloat_repository::{FileEntry, Manifest, Repository, RepositoryError, Sink, fetch};
use refloat_run::Run;
use refloat_run::progress::Phase;

use crate::about::KIND;
use crate::check::check;
use crate::error::PhysicalError;
use crate::outcome::VerifyOutcome;
use crate::private::{Candidate, PrivateOptions};

/// Where a block is: a pack, and a byte in it.
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
/// no other from being read: the outcome names all that are damaged. With `restored`, those of
/// files are restored into private servers as well, one after the other, which check all tables.
///
/// # Errors
/// It was cancelled, or a backup cannot be restored here: nothing was read then.
pub fn verify(
    repository: &Repository,
    backups: &[Manifest],
    restored: Option<&PrivateOptions>,
    threads: usize,
    run: &Run,
) -> Result<VerifyOutcome, PhysicalError> {
    let begun = Instant::now();
    if let Some(options) = restored {
        let mut against = Vec::new();
        for backup in backups.iter().filter(|backup| backup.kind() == KIND) {
            match Candidate::look(options, repository, backup.clone()) {
                Ok(candidate) => against.extend(candidate.objections(&options.folder)),
                Err(PhysicalError::Refused(more)) => against.extend(more),
                // It is damaged, as reading it will show.
                Err(_) => {}
            }
        }
        if !against.is_empty() {
            against.dedup();
            return Err(PhysicalError::Refused(against));
        }
    }
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
                // Blocks that it shares with other backups are read again with each of them.
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
    if let Some(options) = restored {
        restore_all(repository, backups, options, &mut outcome, run)?;
    }
    run.progress.set_phase(Phase::Done);
    outcome.seconds = begun.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Restores those that can be read into private servers, which check all tables.
fn restore_all(
    repository: &Repository,
    backups: &[Manifest],
    options: &PrivateOptions,
    outcome: &mut VerifyOutcome,
    run: &Run,
) -> Result<(), PhysicalError> {
    for backup in backups {
        let label = &backup.label;
        if outcome.damaged.contains_key(label) {
            continue;
        }
        if backup.kind() != KIND {
            run.events.note(format!(
                "backup {label} is a dump: it was read, and not restored"
            ));
            continue;
        }
        let checked = Candidate::look(options, repository, backup.clone())
            .and_then(|candidate| check(&candidate, options, repository, run));
        let wrong = match checked {
            Ok(checked) => {
                let wrong = checked.wrong();
                outcome.checked.push(checked);
                wrong
            }
            Err(PhysicalError::Repository(RepositoryError::Cancelled(reason))) => {
                return Err(PhysicalError::Cancelled(reason));
            }
            // That is not the backup's fault.
            Err(
                error @ (PhysicalError::Cancelled(_)
                | PhysicalError::Refused(_)
                | PhysicalError::File { .. }
                | PhysicalError::Repository(
                    RepositoryError::Storage(_) | RepositoryError::Sink { .. },
                )),
            ) => {
                return Err(error);
            }
            Err(error) => {
                let reason = refloat_host::chain(&error);
                run.events
                    .warn(format!("no server runs on backup {label}: {reason}"));
                outcome.labels.retain(|one| one != label);
                outcome.untried.insert(label.clone(), reason);
                continue;
            }
        };
        match wrong {
            None => run.events.note(format!(
                "a server runs on backup {label}, and its tables are whole"
            )),
            Some(wrong) => {
                run.events.warn(format!("backup {label}: {wrong}"));
                outcome.labels.retain(|one| one != label);
                outcome.damaged.insert(label.clone(), wrong);
            }
        }
    }
    Ok(())
}

/// Reads the blocks of a backup that are not in `seen`, and adds them to `seen` and `added`.
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
