//! Writes a backup: several threads hash, compress and encrypt the blocks, and write them into
//! packs.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use crate::block::{BLOCK, Encoder, Hash, is_hole};
use crate::error::RepositoryError;
use crate::known::{Known, Place};
use crate::manifest::{Extent, FileEntry, Manifest, PackInfo};
use crate::pack::{PackWriter, name_of, new_id};
use crate::presence::Presence;
use crate::repository::Repository;
use crate::seal::Key;
use crate::sweep::{doomed, sizes, spared};

/// Blocks that may wait for each thread.
const WAITING: usize = 4;

/// A file of the backup that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

impl FileId {
    pub(crate) fn of(number: u32) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// What a writer has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of files, uncompressed.
    pub bytes: u64,
    /// Of these, bytes that the repository had already, and zeros.
    pub known: u64,
    /// Bytes that were added to the repository.
    pub added: u64,
}

struct Block {
    file: FileId,
    begins: u64,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct State {
    /// Packs that blocks may be in: those of earlier backups, followed by those of this one.
    packs: Vec<PackInfo>,
    /// Ids of the packs that were begun here.
    written: Vec<String>,
    extents: HashMap<FileId, Vec<Extent>>,
    /// The first error of a thread.
    error: Option<RepositoryError>,
    /// Buffers to reuse.
    spare: Vec<Vec<u8>>,
}

struct Shared {
    repository: Repository,
    /// How hard blocks are compressed.
    level: i32,
    /// Protects what it needs from sweeps.
    presence: Presence,
    naming: Option<[u8; 32]>,
    known: Known,
    state: Mutex<State>,
    files: AtomicU32,
    failed: AtomicBool,
    bytes: AtomicU64,
    known_bytes: AtomicU64,
    added: AtomicU64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes one backup. Threads share it.
///
/// If it is dropped before it is finished, it removes what it has written.
pub struct BackupWriter {
    shared: Arc<Shared>,
    queue: Option<SyncSender<Block>>,
    threads: Vec<JoinHandle<()>>,
    label: String,
    /// Since 1970.
    began: Duration,
    unshared: Vec<String>,
}

impl BackupWriter {
    /// Begins a backup of this label. Blocks that one of the `parents` has are shared with it.
    /// `level` is that of zstd; negative ones are faster.
    ///
    /// # Errors
    /// The label is taken, or the storage fails.
    pub fn begin(
        repository: &Repository,
        label: &str,
        parents: &[Manifest],
        (threads, level): (usize, i32),
    ) -> Result<Self, RepositoryError> {
        match repository.backup(label) {
            Err(RepositoryError::NoBackup { .. }) => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return Err(RepositoryError::LabelTaken {
                    url: repository.url().to_owned(),
                    label: label.to_owned(),
                });
            }
        }
        let known = Known::default();
        let mut state = State::default();
        let shared = parents.iter().flat_map(|parent| &parent.packs);
        // The announcement comes before the look for sweeps, so that whoever comes second sees the
        // other.
        let presence = Presence::begin(repository.storage(), shared.map(|pack| name_of(&pack.id)))?;
        let doomed = doomed(repository.storage())?;
        let there = sizes(repository.storage())?;
        let mut unshared = Vec::new();
        for parent in parents {
            // Backups that cannot be read have no blocks to share, but must not prevent new
            // backups.
            let mut files = match repository.files(parent) {
                Ok(files) => files,
                Err(error) if error.is_loss() => {
                    unshared.push(format!("{}: {error}", parent.label));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for file in &mut files {
                let stays = |pack: &PackInfo| {
                    let name = name_of(&pack.id);
                    !doomed.contains(&name) && there.get(&name) == Some(&pack.size)
                };
                file.extents
                    .retain(|extent| parent.packs.get(extent.pack as usize).is_some_and(stays));
            }
            known.add_files(&files, state.packs.len() as u32);
            state.packs.extend(parent.packs.iter().cloned());
        }
        let shared = Arc::new(Shared {
            naming: repository.key().map(Key::naming),
            repository: repository.clone(),
            level,
            presence,
            known,
            state: Mutex::new(state),
            files: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            known_bytes: AtomicU64::new(0),
            added: AtomicU64::new(0),
        });
        let threads = threads.max(1);
        let (queue, blocks) = sync_channel(threads * WAITING);
        let blocks = Arc::new(Mutex::new(blocks));
        let threads = (0..threads)
            .map(|_| {
                let (shared, blocks) = (Arc::clone(&shared), Arc::clone(&blocks));
                std::thread::spawn(move || {
                    if let Err(error) = work(&shared, &blocks) {
                        shared.failed.store(true, Ordering::Relaxed);
                        shared.state().error.get_or_insert(error);
                        // A caller that waits with a block must not wait forever.
                        while next(&blocks).is_some() {}
                    }
                })
            })
            .collect();
        Ok(Self {
            shared,
            queue: Some(queue),
            threads,
            label: label.to_owned(),
            began: now(),
            unshared,
        })
    }

    /// Earlier backups whose blocks cannot be shared because they cannot be read, and why.
    pub fn unshared(&self) -> &[String] {
        &self.unshared
    }

    /// Waits until all blocks are written. The totals are final then.
    ///
    /// # Errors
    /// One of them could not be written.
    pub fn wait(&mut self) -> Result<(), RepositoryError> {
        self.end()
    }

    /// Begins a file. It becomes part of the backup only if [`BackupWriter::finish`] names it.
    pub fn file(&self) -> FileId {
        FileId(self.shared.files.fetch_add(1, Ordering::Relaxed))
    }

    /// An empty buffer for a block.
    pub fn buffer(&self) -> Vec<u8> {
        let spare = self.shared.state().spare.pop();
        spare.unwrap_or_else(|| Vec::with_capacity(BLOCK))
    }

    /// Adds the bytes of a file from `begins` on: at most [`BLOCK`], and ideally all bytes up to
    /// the next multiple of it. Waits while the threads have enough to do.
    ///
    /// # Errors
    /// An earlier block could not be written.
    ///
    /// # Panics
    /// If there are more bytes than a block has.
    pub fn put(&self, file: FileId, begins: u64, bytes: Vec<u8>) -> Result<(), RepositoryError> {
        assert!(bytes.len() <= BLOCK, "a block has {BLOCK} bytes at most");
        if self.shared.failed.load(Ordering::Relaxed)
            && let Some(error) = self.shared.state().error.take()
        {
            return Err(error);
        }
        let block = Block {
            file,
            begins,
            bytes,
        };
        if let Some(queue) = &self.queue {
            // It fails only when all threads have panicked, which `finish` reports.
            let _ = queue.send(block);
        }
        Ok(())
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        Totals {
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            known: self.shared.known_bytes.load(Ordering::Relaxed),
            added: self.shared.added.load(Ordering::Relaxed),
        }
    }

    /// Completes the backup, which holds these files: their paths and sizes.
    ///
    /// # Errors
    /// A block could not be written, bytes of a file were given twice or lie beyond its end, the
    /// pack of a shared block is gone, or the label was taken meanwhile.
    pub fn finish(
        mut self,
        files: Vec<(FileId, String, u64)>,
        about: BTreeMap<String, serde_json::Value>,
    ) -> Result<Manifest, RepositoryError> {
        self.end()?;
        let bytes = files.iter().map(|(_, _, size)| size).sum();
        let count = files.len() as u64;
        let list = self.list(files)?;
        let mut writer = Writer::new(&self.shared)?;
        let mut blocks = Vec::new();
        for (number, part) in list.chunks(BLOCK).enumerate() {
            let hash = Hash::of(part, self.shared.naming.as_ref());
            let place = writer.store(part)?;
            blocks.push(place.extent((number * BLOCK) as u64, hash));
        }
        writer.finish()?;
        let packs = self.shared.state().packs.clone();
        let manifest = Manifest {
            label: self.label.clone(),
            began: self.began.as_secs(),
            began_nanos: self.began.subsec_nanos(),
            ended: now().as_secs(),
            about,
            files: count,
            bytes,
            added: self.shared.added.load(Ordering::Relaxed),
            packs,
            list_bytes: list.len() as u64,
            list: blocks,
        };
        let storage = Arc::clone(self.shared.repository.storage());
        spared(&storage, &manifest)?;
        // From here on nothing is removed: the manifest may exist even if writing it has failed,
        // because the connection was lost at the wrong moment. What nobody needs is swept later.
        let written = std::mem::take(&mut self.shared.state().written);
        match self.shared.repository.publish(&manifest) {
            Err(error @ RepositoryError::LabelTaken { .. }) => {
                self.shared.state().written = written;
                return Err(error);
            }
            published => published?,
        }
        // A sweep that looked for manifests before this one existed has first announced what it
        // removes, and may have removed it already.
        if let Err(error) = spared(&storage, &manifest) {
            // Only if the loss is certain: otherwise the backup exists, and is complete as far as
            // is known.
            if !matches!(
                error,
                RepositoryError::Swept { .. } | RepositoryError::Damaged { .. }
            ) {
                return Ok(manifest);
            }
            if let Err(left) = self.shared.repository.forget(&manifest.label) {
                return Err(RepositoryError::LeftBehind {
                    label: manifest.label,
                    why: error.to_string(),
                    source: Box::new(left),
                });
            }
            self.shared.state().written = written;
            return Err(error);
        }
        Ok(manifest)
    }

    /// Waits for all blocks to be written.
    fn end(&mut self) -> Result<(), RepositoryError> {
        drop(self.queue.take());
        let mut panicked = false;
        for thread in self.threads.drain(..) {
            panicked |= thread.join().is_err();
        }
        if let Some(error) = self.shared.state().error.take() {
            return Err(error);
        }
        if panicked || self.shared.failed.load(Ordering::Relaxed) {
            let url = self.shared.repository.url();
            let detail = "a thread that writes blocks ended early";
            return Err(RepositoryError::damaged(url, &self.label, detail));
        }
        Ok(())
    }

    /// The list of files, a line of JSON for each. From here on, only the packs with blocks of
    /// these files belong to the backup, under new numbers.
    fn list(&self, files: Vec<(FileId, String, u64)>) -> Result<Vec<u8>, RepositoryError> {
        let mut state = self.shared.state();
        let mut packs = Vec::new();
        let mut numbers = HashMap::new();
        let mut list = Vec::new();
        for (id, path, size) in files {
            let mut extents = state.extents.remove(&id).unwrap_or_default();
            extents.sort_unstable_by_key(|extent| extent.begins);
            for extent in &mut extents {
                extent.pack = *numbers.entry(extent.pack).or_insert_with(|| {
                    packs.push(state.packs[extent.pack as usize].clone());
                    packs.len() as u32 - 1
                });
            }
            let entry = FileEntry {
                path,
                size,
                extents,
            };
            let check = entry.check(&packs);
            check.map_err(|detail| {
                RepositoryError::damaged(self.shared.repository.url(), &self.label, detail)
            })?;
            #[expect(clippy::expect_used, reason = "texts and numbers are JSON")]
            serde_json::to_writer(&mut list, &entry).expect("it is JSON");
            list.push(b'\n');
        }
        state.packs = packs;
        Ok(list)
    }
}

impl Drop for BackupWriter {
    fn drop(&mut self) {
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let written = std::mem::take(&mut self.shared.state().written);
        for id in written {
            let _ = self.shared.repository.storage().delete(&name_of(&id));
        }
    }
}

fn next(blocks: &Mutex<Receiver<Block>>) -> Option<Block> {
    let blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
    blocks.recv().ok()
}

/// Writes blocks until there are no more.
fn work(shared: &Arc<Shared>, blocks: &Mutex<Receiver<Block>>) -> Result<(), RepositoryError> {
    let mut writer = Writer::new(shared)?;
    while let Some(mut block) = next(blocks) {
        if shared.failed.load(Ordering::Relaxed) {
            continue;
        }
        writer.write(block.file, block.begins, &block.bytes)?;
        block.bytes.clear();
        shared.state().spare.push(block.bytes);
    }
    if shared.failed.load(Ordering::Relaxed) {
        return Ok(());
    }
    writer.finish()
}

/// Writes blocks into packs of its own.
struct Writer<'s> {
    shared: &'s Arc<Shared>,
    encoder: Encoder,
    pack: Option<PackWriter>,
    stored: Vec<u8>,
}

impl<'s> Writer<'s> {
    fn new(shared: &'s Arc<Shared>) -> Result<Self, RepositoryError> {
        Ok(Self {
            shared,
            encoder: Encoder::new(shared.level).map_err(RepositoryError::Compress)?,
            pack: None,
            stored: Vec::new(),
        })
    }

    fn write(&mut self, file: FileId, begins: u64, bytes: &[u8]) -> Result<(), RepositoryError> {
        self.shared.presence.renew();
        let count = bytes.len() as u64;
        self.shared.bytes.fetch_add(count, Ordering::Relaxed);
        if bytes.is_empty() || is_hole(bytes) {
            self.shared.known_bytes.fetch_add(count, Ordering::Relaxed);
            return Ok(());
        }
        let hash = Hash::of(bytes, self.shared.naming.as_ref());
        let place = if let Some(place) = self.shared.known.find(&hash, bytes.len()) {
            self.shared.known_bytes.fetch_add(count, Ordering::Relaxed);
            place
        } else {
            let place = self.store(bytes)?;
            self.shared.known.add(hash, place);
            place
        };
        let extent = place.extent(begins, hash);
        let mut state = self.shared.state();
        state.extents.entry(file).or_default().push(extent);
        Ok(())
    }

    fn store(&mut self, bytes: &[u8]) -> Result<Place, RepositoryError> {
        self.encoder
            .compress(bytes, &mut self.stored)
            .map_err(RepositoryError::Compress)?;
        if self.pack.as_ref().is_some_and(PackWriter::is_full) {
            self.finish_pack()?;
        }
        let pack = match &mut self.pack {
            Some(pack) => pack,
            none => {
                let repository = &self.shared.repository;
                let id = new_id();
                let mut state = self.shared.state();
                let index = state.packs.len() as u32;
                state.written.push(id.clone());
                state.packs.push(PackInfo {
                    id: id.clone(),
                    size: 0,
                });
                drop(state);
                let storage = &**repository.storage();
                none.insert(PackWriter::create(storage, id, index, repository.key())?)
            }
        };
        let (at, stored) = pack.add(&mut self.stored)?;
        self.shared
            .added
            .fetch_add(u64::from(stored), Ordering::Relaxed);
        Ok(Place {
            pack: pack.index,
            at,
            stored,
            length: bytes.len() as u32,
        })
    }

    fn finish_pack(&mut self) -> Result<(), RepositoryError> {
        if let Some(pack) = self.pack.take() {
            let index = pack.index as usize;
            let info = pack.finish()?;
            self.shared.state().packs[index] = info;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), RepositoryError> {
        self.finish_pack()
    }
}

/// The time since 1970.
fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}
