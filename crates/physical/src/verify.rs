//! Reads backups back: every block of every file, checked by its hash.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use refloat_repository::{FileEntry, Manifest, Repository, Sink, fetch};
use refloat_run::Run;
use refloat_run::progress::Phase;

use crate::error::PhysicalError;
use crate::outcome::VerifyOutcome;

/// Takes blocks, and counts them.
struct Counter(Arc<AtomicU64>);

impl Sink for Counter {
    fn write(&self, _: usize, _: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Reads these backups. A block that several of them have is read once.
///
/// # Errors
/// The first block that is missing or damaged, with the file that it is of.
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
    let mut seen: BTreeSet<(String, u64)> = BTreeSet::new();
    for backup in backups {
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
                let is_new = seen.insert((pack.clone(), extent.at));
                if !is_new {
                    skipped += u64::from(extent.length);
                }
                is_new
            });
        }
        let wanted: Vec<&FileEntry> = files.iter().collect();
        let counter = Counter(Arc::clone(&passed));
        fetch(repository, backup, &wanted, threads, &counter, &run.cancel)?;
        passed.fetch_add(skipped, Ordering::Relaxed);
        outcome.labels.push(backup.label.clone());
        outcome.bytes += backup.bytes;
        run.events
            .note(format!("backup {} can be read", backup.label));
    }
    run.progress.set_phase(Phase::Done);
    outcome.seconds = begun.elapsed().as_secs_f64();
    Ok(outcome)
}
