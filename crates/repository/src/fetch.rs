//! Fetches the blocks of files, on all cores.
//!
//! Blocks are fetched in the order of the packs, not of the files: a run of adjacent blocks is one
//! request, and a block that several files share is fetched once.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use refloat_run::Cancel;
use refloat_store::storage::{Patience, reader};

use crate::block::Decoder;
use crate::error::RepositoryError;
use crate::manifest::{Extent, FileEntry, Manifest, PackInfo};
use crate::pack::name_of;
use crate::repository::Repository;

/// A gap between two blocks of up to this many bytes is read and discarded, rather than avoided by
/// another request.
const GAP_MAX: u64 = 64 << 10;
/// Bytes of one request: enough that its latency does not matter, and few enough that all threads
/// have work to the end.
const RUN_MAX: u64 = 16 << 20;

/// Takes the bytes of files. Threads share it.
pub trait Sink: Sync {
    /// Takes bytes of a file, in any order. `file` is its index among the requested ones.
    ///
    /// # Errors
    /// The bytes could not be taken; the fetch ends.
    fn write(&self, file: usize, begins: u64, bytes: &[u8]) -> std::io::Result<()>;
}

/// Fetches these files of a backup. What no block covers is zeros, and is not passed to the sink.
///
/// # Errors
/// A block is missing or damaged, the sink failed, or it was cancelled.
pub fn fetch(
    repository: &Repository,
    manifest: &Manifest,
    files: &[&FileEntry],
    threads: usize,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<(), RepositoryError> {
    fetch_entries(repository, &manifest.packs, files, threads, sink, cancel)
}

/// A block, and the file that needs it.
struct Wanted<'a> {
    extent: &'a Extent,
    file: usize,
}

pub fn fetch_entries(
    repository: &Repository,
    packs: &[PackInfo],
    files: &[&FileEntry],
    threads: usize,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<(), RepositoryError> {
    let mut wanted: Vec<Wanted<'_>> = files
        .iter()
        .enumerate()
        .flat_map(|(file, entry)| {
            entry
                .extents
                .iter()
                .map(move |extent| Wanted { extent, file })
        })
        .collect();
    wanted.sort_unstable_by_key(|wanted| (wanted.extent.pack, wanted.extent.at));
    let runs = runs(&wanted);
    let next = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, runs.len().max(1)) {
            scope.spawn(|| {
                let work = || {
                    let mut fetcher = Fetcher::new(repository, files, sink)?;
                    while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        if let Some(reason) = cancel.reason() {
                            return Err(RepositoryError::Cancelled(reason));
                        }
                        let pack = &packs[run[0].extent.pack as usize];
                        fetcher.run(pack, run)?;
                    }
                    Ok(())
                };
                if let Err(error) = work() {
                    over.store(true, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(error);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), Err)
}

/// Splits sorted blocks into runs of one request each.
fn runs<'w, 'a>(wanted: &'w [Wanted<'a>]) -> Vec<&'w [Wanted<'a>]> {
    let mut runs = Vec::new();
    let mut first = 0;
    for at in 1..=wanted.len() {
        let joins = wanted.get(at).is_some_and(|next| {
            let (begin, last, next) = (wanted[first].extent, wanted[at - 1].extent, next.extent);
            let end = last.at + u64::from(last.stored);
            next.pack == last.pack
                && next.at.saturating_sub(end) <= GAP_MAX
                && next.at + u64::from(next.stored) - begin.at <= RUN_MAX
        });
        if !joins {
            runs.push(&wanted[first..at]);
            first = at;
        }
    }
    runs
}

struct Fetcher<'r> {
    repository: &'r Repository,
    files: &'r [&'r FileEntry],
    sink: &'r dyn Sink,
    decoder: Decoder,
    stored: Vec<u8>,
    block: Vec<u8>,
}

impl<'r> Fetcher<'r> {
    fn new(
        repository: &'r Repository,
        files: &'r [&'r FileEntry],
        sink: &'r dyn Sink,
    ) -> Result<Self, RepositoryError> {
        Ok(Self {
            repository,
            files,
            sink,
            decoder: Decoder::new(repository.key()).map_err(RepositoryError::Compress)?,
            stored: Vec::new(),
            block: Vec::new(),
        })
    }

    fn run(&mut self, pack: &PackInfo, run: &[Wanted<'_>]) -> Result<(), RepositoryError> {
        let (url, name) = (self.repository.url(), name_of(&pack.id));
        let seal = self.repository.key().map(|key| key.seal(&pack.id));
        let begin = run[0].extent.at;
        let end = run
            .iter()
            .map(|one| one.extent.at + u64::from(one.extent.stored));
        let end = end.max().unwrap_or(begin);
        let mut source = reader(
            self.repository.storage(),
            &name,
            begin..end,
            Patience::default(),
        );
        let failed =
            |source| refloat_store::storage::StorageError::from_io(url, &name, "reading", source);
        let mut at = begin;
        let mut rest = run;
        while let Some(Wanted { extent, .. }) = rest.first() {
            let same = rest
                .iter()
                .take_while(|one| one.extent.at == extent.at)
                .count();
            let (takers, others) = rest.split_at(same);
            rest = others;
            let damaged = |detail: String| {
                let file = &self.files[takers[0].file].path;
                let object = format!("{name} at byte {} (file {file:?})", extent.at);
                RepositoryError::damaged(url, object, detail)
            };
            let gap = extent
                .at
                .checked_sub(at)
                .ok_or_else(|| damaged("it lies within another block".to_owned()))?;
            std::io::copy(&mut (&mut source).take(gap), &mut std::io::sink()).map_err(failed)?;
            self.stored.resize(extent.stored as usize, 0);
            source.read_exact(&mut self.stored).map_err(failed)?;
            at = extent.at + u64::from(extent.stored);
            self.decoder
                .decode(
                    &mut self.stored,
                    (seal.as_ref(), extent.at),
                    (extent.length as usize, extent.hash),
                    &mut self.block,
                )
                .map_err(damaged)?;
            for taker in takers {
                self.sink
                    .write(taker.file, taker.extent.begins, &self.block)
                    .map_err(|source| RepositoryError::Sink {
                        file: self.files[taker.file].path.clone(),
                        source,
                    })?;
            }
        }
        Ok(())
    }
}
