//! What has arrived of the files of a server.
//!
//! Files come first, while the server changes them; their bytes become blocks as they arrive. What
//! comes later, changed pages and the redo log, would have to overwrite blocks that are already in
//! packs. It goes into an additional file of the backup instead, and the restore writes it over the
//! files.
//!
//! The donor sends files as they lie on its disk and looks at no checksum. A page may arrive half
//! old and half new, because the server writes it at that moment; then it comes once more, among
//! the changed pages. One whose checksum is wrong at the end is damaged there. Blocks of the redo
//! log come once, and are whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use refloat_repository::BLOCK;
use refloat_run::{CancelReason, Refusal};

use crate::clone::changes::{self, CHANGES, NAMES, target_of};
use crate::clone::page::{self, Pages};
use crate::clone::protocol::{DataInfo, FileInfo, Progress, Stage, StageInfo};
use crate::clone::redo::{self, LogFile, Named};
use crate::error::PhysicalError;
use crate::folder::confined;
use crate::stream::{Blocks, Files};

/// How long one connection waits for others while nothing arrives.
const STANDSTILL: Duration = Duration::from_secs(600);
/// More pages than a server writes at the same moments as they are sent. So many wrong checksums
/// are damage, whatever comes later.
const DAMAGED_MAX: usize = 1_000_000;
/// Files that an error names.
const NAMED: usize = 5;
/// Offset of the checkpoint in the first file of a redo log.
const CHECKPOINT_AT: usize = redo::BLOCK + 8;

/// Where bytes belong.
#[derive(Debug, PartialEq, Eq)]
pub struct Target<F> {
    pub file: F,
    /// Number of the file in the list of changes.
    pub number: u32,
    /// How its pages are; `None`: it has none.
    pages: Option<Pages>,
}

/// A file of the donor.
struct Arrived<F> {
    id: F,
    path: String,
    size: u64,
    space: u32,
    flags: u32,
    is_removed: bool,
}

struct State<F> {
    stage: Stage,
    chunks: u32,
    /// Number of files that the donor announces when the first stage begins.
    expected: u32,
    progress: Progress,
    /// The current chunk of each connection, and its last block.
    at: BTreeMap<usize, (u32, u32)>,
    files: BTreeMap<u32, Arrived<F>>,
    redo: BTreeMap<u32, Arrived<F>>,
    /// What has arrived of the files of the redo log.
    logs: BTreeMap<u32, LogFile>,
    /// The head and the tail of the redo log, which overwrite what arrived of it before.
    last: Vec<(u32, u64, Vec<u8>)>,
    checkpoint: u64,
    /// The last stage that each connection other than the master has received completely.
    workers: BTreeMap<usize, Option<Stage>>,
    /// Number of pieces that have arrived.
    pieces: u64,
    /// Whether a connection has failed, so that nobody must wait any longer.
    is_over: bool,
}

/// What has arrived of the files of a server. Connections share it.
pub struct Arrivals<'w, W: Blocks> {
    pub writer: &'w W,
    /// The server's version, as in 90700.
    version: u32,
    changes: W::File,
    /// Blocks of changes so far.
    blocks: AtomicU64,
    /// Pages whose checksum is wrong, by the index of their file.
    damaged: Mutex<BTreeMap<u32, BTreeSet<u64>>>,
    state: Mutex<State<W::File>>,
    changed: Condvar,
}

/// The donor violates the protocol.
pub fn broken(reason: impl Into<String>) -> PhysicalError {
    PhysicalError::Incomplete {
        tool: "the clone plugin".to_owned(),
        reason: reason.into(),
    }
}

impl<'w, W: Blocks> Arrivals<'w, W> {
    pub fn new(writer: &'w W, version: (u16, u16, u16)) -> Self {
        let (major, minor, patch) = version;
        Self {
            writer,
            version: u32::from(major) * 10_000 + u32::from(minor) * 100 + u32::from(patch),
            changes: writer.begin(Path::new(CHANGES)),
            blocks: AtomicU64::new(0),
            damaged: Mutex::default(),
            state: Mutex::new(State {
                stage: Stage::Init,
                chunks: 0,
                expected: 0,
                progress: Progress::default(),
                at: BTreeMap::new(),
                files: BTreeMap::new(),
                redo: BTreeMap::new(),
                logs: BTreeMap::new(),
                last: Vec::new(),
                checkpoint: 0,
                workers: BTreeMap::new(),
                pieces: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<W::File>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a condition holds.
    fn wait(
        &self,
        holds: impl Fn(&State<W::File>) -> bool,
    ) -> Result<MutexGuard<'_, State<W::File>>, PhysicalError> {
        let mut state = self.state();
        loop {
            // Checked first: without the connection that failed, the condition may seem to hold.
            if state.is_over {
                let words = "another connection has failed".to_owned();
                return Err(PhysicalError::Cancelled(CancelReason::Failed(words)));
            }
            if holds(&state) {
                return Ok(state);
            }
            let before = state.pieces;
            let waited = self.changed.wait_timeout(state, STANDSTILL);
            let timeout;
            (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && state.pieces == before {
                return Err(broken("it waits, and nothing arrives"));
            }
        }
    }

    /// Ends all waiting.
    pub fn give_up(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Prepares to resume with new connections. Returns how far the copy has come.
    pub fn resume(&self) -> (Stage, bool, Progress) {
        let mut state = self.state();
        let state = &mut *state;
        state.is_over = false;
        state.workers.clear();
        let at = std::mem::take(&mut state.at);
        state.progress.incomplete.extend(at.into_values());
        let knows = state.knows_files();
        (state.stage, knows, state.progress.clone())
    }

    pub fn has_begun(&self) -> bool {
        self.state().stage > Stage::Init
    }

    /// Registers a connection that takes part from now on.
    pub fn add_worker(&self, number: usize) {
        self.state().workers.insert(number, None);
    }

    /// Removes a connection that no longer takes part.
    pub fn remove_worker(&self, number: usize) {
        self.state().workers.remove(&number);
        self.changed.notify_all();
    }

    /// The master begins a stage. Changes of definitions came before.
    pub fn begin_stage(&self, info: &StageInfo) {
        let mut state = self.state();
        // After a resumption it may be announced once more.
        state.stage = info.stage;
        state.chunks = info.chunks;
        state.progress = Progress::of(info.chunks);
        state.at.clear();
        if info.stage == Stage::Files {
            state.expected = info.files;
        }
        self.changed.notify_all();
    }

    /// Waits until the master has reached the stage that a worker is in already.
    pub fn reach_stage(&self, stage: Stage) -> Result<(), PhysicalError> {
        self.wait(|state| state.stage >= stage).map(drop)
    }

    /// Notes that a connection has received all of its part of a stage.
    pub fn end_stage(&self, number: usize, stage: Stage) {
        let mut all = self.state();
        all.at.remove(&number);
        if let Some(ended) = all.workers.get_mut(&number) {
            *ended = Some(stage);
        }
        self.changed.notify_all();
    }

    /// Waits until all connections have received a stage. The first stage has nothing to receive.
    pub fn complete_stage(&self, stage: Stage) -> Result<(), PhysicalError> {
        let is_whole = |state: &State<W::File>| {
            let mut ended = state.workers.values();
            stage == Stage::Init || ended.all(|ended| ended.is_some_and(|ended| ended >= stage))
        };
        self.wait(is_whole).map(drop)
    }

    /// Registers a file. For one that was created during the copy, returns its first page, with its
    /// target.
    pub fn file(&self, info: &FileInfo) -> Result<Option<(u32, Vec<u8>)>, PhysicalError> {
        let mut state = self.state();
        let state = &mut *state;
        let is_redo = info.stage == Stage::Redo && state.stage == Stage::Redo;
        if info.is_encrypted {
            let what = if is_redo {
                "the redo log"
            } else {
                info.name.as_str()
            };
            return Err(encrypted(what));
        }
        let path = if is_redo {
            format!("#innodb_redo/#ib_redo{}", info.index)
        } else {
            path_of(&info.name)?
        };
        let files = if is_redo {
            &mut state.redo
        } else {
            &mut state.files
        };
        if let Some(file) = files.get_mut(&info.index) {
            file.is_removed |= info.is_removed;
            if info.is_renamed {
                file.path = path;
            }
            return Ok(None);
        }
        let is_new = !is_redo && info.stage > state.stage && !info.is_removed;
        let first = is_new.then(|| page::first(info.space, info.flags, self.version));
        files.insert(
            info.index,
            Arrived {
                id: self.writer.begin(Path::new(&path)),
                path,
                size: info.size,
                space: info.space,
                flags: info.flags,
                is_removed: info.is_removed,
            },
        );
        self.changed.notify_all();
        Ok(first.map(|page| (target_of(info.index, false), page)))
    }

    /// Where bytes belong. `None`: nowhere, because the file is gone.
    pub fn place(&self, info: &DataInfo) -> Result<Option<Target<W::File>>, PhysicalError> {
        // A worker may be ahead of the master.
        let mut state = self.wait(|state| state.stage >= info.stage && state.knows_files())?;
        if info.stage != state.stage {
            return Err(broken(format!(
                "bytes of {:?} come in {:?}",
                info.stage, state.stage
            )));
        }
        let is_redo = info.stage == Stage::Redo;
        if info.stage == Stage::Pages && info.begins == 0 {
            state.grow(info.file, info.size);
        }
        let files = if is_redo {
            &mut state.redo
        } else {
            &mut state.files
        };
        let Some(file) = files.get_mut(&info.file) else {
            return Err(broken(format!("bytes of an unknown file {}", info.file)));
        };
        if file.is_removed {
            return Ok(None);
        }
        let end = info.begins.checked_add(u64::from(info.length));
        let end = end.ok_or_else(|| broken("bytes lie beyond the end of all files"))?;
        file.size = file.size.max(end);
        Ok(Some(Target {
            file: file.id,
            number: target_of(info.file, is_redo),
            pages: (!is_redo && file.flags != page::NO_SPACE).then(|| Pages::of(file.flags)),
        }))
    }

    /// Looks at the checksums of pages, and at blocks of the redo log. What arrives later of a page
    /// decides.
    pub fn look(
        &self,
        info: &DataInfo,
        target: &Target<W::File>,
        bytes: &[u8],
    ) -> Result<(), PhysicalError> {
        if info.stage == Stage::Redo {
            return self.look_at_log(info, bytes);
        }
        let Some(pages) = target.pages else {
            return Ok(());
        };
        if !info.begins.is_multiple_of(pages.size as u64) {
            return Ok(());
        }
        let first = info.begins / pages.size as u64;
        let arrived = first..first + (bytes.len() / pages.size) as u64;
        let damaged: Vec<u64> = arrived
            .clone()
            .zip(bytes.chunks_exact(pages.size))
            .filter(|(_, page)| !page::is_sound(page, pages.is_compressed))
            .map(|(number, _)| number)
            .collect();
        let mut all = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.is_empty() && all.is_empty() {
            return Ok(());
        }
        let of_file = all.entry(info.file).or_default();
        for number in arrived {
            of_file.remove(&number);
        }
        of_file.extend(damaged);
        let is_too_much = all.values().map(BTreeSet::len).sum::<usize>() > DAMAGED_MAX;
        drop(all);
        if is_too_much {
            self.all_sound(&self.state().files)?;
        }
        Ok(())
    }

    fn look_at_log(&self, info: &DataInfo, bytes: &[u8]) -> Result<(), PhysicalError> {
        let looked = redo::look(info.begins, bytes);
        let mut state = self.state();
        let log = state.logs.entry(info.file).or_default();
        let added = looked.and_then(|piece| log.add(piece));
        added.map_err(|why| {
            let file = state.redo.get(&info.file);
            let path = file.map_or("the redo log", |file| file.path.as_str());
            broken(format!("{path}: {why}"))
        })
    }

    /// Fails if a page is damaged at the donor's.
    fn all_sound(&self, files: &BTreeMap<u32, Arrived<W::File>>) -> Result<(), PhysicalError> {
        let all = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        let mut words = Vec::new();
        for (index, pages) in all.iter() {
            let Some(file) = files.get(index).filter(|file| !file.is_removed) else {
                continue;
            };
            // Pages of the system tablespace in which older servers keep copies of pages that they
            // are about to write, and newer ones nothing (`TRX_SYS_DOUBLEWRITE`). What a crash has
            // left there is no damage.
            let extent = Pages::of(file.flags).in_extent() as u64;
            let before = index.checked_sub(1).and_then(|index| files.get(&index));
            let is_first = file.space == 0 && before.is_none_or(|before| before.space != 0);
            let copies = if is_first { extent..3 * extent } else { 0..0 };
            let mut pages = pages.iter().filter(|page| !copies.contains(page));
            if let Some(first) = pages.next() {
                let more = match pages.count() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                words.push(format!("{} (page {first}{more})", file.path));
            }
        }
        if words.is_empty() {
            return Ok(());
        }
        let others = words.len().saturating_sub(NAMED);
        if others > 0 {
            words.truncate(NAMED);
            words.push(format!("and {others} more files"));
        }
        Err(PhysicalError::DamagedPages(words.join(", ")))
    }

    /// Whether bytes are the head or the tail of the redo log. These are kept until the end.
    pub fn keeps(&self, info: &DataInfo, target: u32, bytes: &[u8]) -> bool {
        let mut state = self.state();
        if info.stage != Stage::Redo || info.chunk + 1 < state.chunks {
            return false;
        }
        let checkpoint = bytes.get(CHECKPOINT_AT..CHECKPOINT_AT + 8);
        if let Some(checkpoint) = checkpoint.filter(|_| info.begins == 0) {
            let number = <[u8; 8]>::try_from(checkpoint).unwrap_or_default();
            state.checkpoint = u64::from_be_bytes(number);
        }
        state.last.push((target, info.begins, bytes.to_vec()));
        true
    }

    /// Notes that bytes have been put where they belong.
    pub fn arrived(&self, number: usize, info: &DataInfo) -> Result<(), PhysicalError> {
        let mut state = self.state();
        let state = &mut *state;
        state.pieces += 1;
        let before = state.at.insert(number, (info.chunk, info.block));
        if before.is_none_or(|(chunk, _)| chunk != info.chunk) {
            if info.chunk > state.chunks || !state.progress.begin(info.chunk) {
                return Err(broken(format!("there is no chunk {}", info.chunk)));
            }
            state.progress.incomplete.remove(&info.chunk);
        }
        Ok(())
    }

    /// Adds a block of changes, in the order in which they come.
    pub fn put_changes(&self, block: Vec<u8>) -> Result<(), PhysicalError> {
        let number = self.blocks.fetch_add(1, Ordering::SeqCst);
        self.writer.put(self.changes, number * BLOCK as u64, block)
    }

    /// The head and the tail of the redo log.
    pub fn take_last(&self) -> Vec<(u32, u64, Vec<u8>)> {
        std::mem::take(&mut self.state().last)
    }

    /// Completes the list of files. Returns it with the checkpoint.
    pub fn finish(&self) -> Result<(Files<W::File>, u64), PhysicalError> {
        let state = self.state();
        self.all_sound(&state.files)?;
        let mut names = BTreeMap::new();
        let mut list = Vec::new();
        let data = state.files.iter().map(|(index, file)| (index, file, false));
        let redo = state.redo.iter().map(|(index, file)| (index, file, true));
        for (index, file, is_redo) in data.chain(redo) {
            if !file.is_removed {
                let size = page::aligned(file.size, file.flags);
                names.insert(target_of(*index, is_redo), file.path.clone());
                list.push((file.id, file.path.clone(), size));
            }
        }
        if state.stage != Stage::Done || state.redo.is_empty() || state.checkpoint == 0 {
            return Err(broken("it ended before the redo log"));
        }
        let nothing = LogFile::default();
        let logs: Vec<Named<'_>> = (state.redo.iter())
            .map(|(index, file)| {
                let log = state.logs.get(index).unwrap_or(&nothing);
                (file.path.as_str(), file.size, log)
            })
            .collect();
        redo::whole(&logs, state.checkpoint).map_err(broken)?;
        let id = self.writer.begin(Path::new(NAMES));
        let names = changes::names(&names);
        for (number, block) in names.chunks(BLOCK).enumerate() {
            self.writer
                .put(id, (number * BLOCK) as u64, block.to_vec())?;
        }
        list.push((id, NAMES.to_owned(), names.len() as u64));
        let size = self.blocks.load(Ordering::SeqCst) * BLOCK as u64;
        list.push((self.changes, CHANGES.to_owned(), size));
        Ok((list, state.checkpoint))
    }
}

impl<F> State<F> {
    /// Whether the list of files has arrived.
    fn knows_files(&self) -> bool {
        self.stage > Stage::Files || self.files.len() >= self.expected as usize
    }

    /// Notes that a tablespace has grown to this many bytes. All but its last file have a fixed
    /// size.
    fn grow(&mut self, index: u32, size: u64) {
        let (mut index, mut size) = (index, size);
        loop {
            let space = self.files.get(&(index + 1)).map(|next| next.space);
            let Some(file) = self.files.get_mut(&index) else {
                return;
            };
            if size <= file.size {
                return;
            }
            if space != Some(file.space) {
                file.size = size;
                return;
            }
            size -= file.size;
            index += 1;
        }
    }
}

/// The path of a file within the data directory.
fn path_of(name: &str) -> Result<String, PhysicalError> {
    let path = name.strip_prefix("./").unwrap_or(name);
    if path.starts_with('/') {
        return Err(outside(path));
    }
    confined(path).map(|_| path.to_owned())
}

/// The error for a tablespace that a restore could not put back in its place.
pub fn outside(path: &str) -> PhysicalError {
    PhysicalError::refused(
        Refusal::new(format!(
            "{path} is outside of the server's data directory, and a backup is one directory"
        ))
        .hint("Move it into the data directory, or copy the server with Percona XtraBackup: name it with --tool."),
    )
}

/// The error for a tablespace whose keys only the donor can read.
pub fn encrypted(what: &str) -> PhysicalError {
    PhysicalError::refused(
        Refusal::new(format!(
            "{what} is encrypted, and its key would be in the backup"
        ))
        .hint("Copy the server with Percona XtraBackup: name it with --tool."),
    )
}

#[cfg(test)]
mod tests;
