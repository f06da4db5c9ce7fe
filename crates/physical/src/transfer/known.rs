//! What the receiver already has: the hashes of the blocks of older files.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use refloat_repository::BLOCK;

use super::PULSE;
use super::channel::{Channel, ChannelError, FRAME_MAX};
use super::frame::{Frame, SHORT};
use crate::held::open_file;
use crate::swap::INSIDE;

/// Prefixes of entries of an older folder that no copy includes: refloat's own, the redo log and
/// those of Galera's provider.
const NEVER_SENT: [&str; 5] = [INSIDE, "ib_logfile", "galera.cache", "gcache.", "gvwstate"];

/// Blocks that are available, wherever they belong.
#[derive(Default)]
pub struct Anywhere {
    files: Vec<PathBuf>,
    /// Where the block with each hash is: which file, and which block of it.
    blocks: HashMap<[u8; SHORT], (u32, u32)>,
}

impl Anywhere {
    fn add(&mut self, file: PathBuf, hashes: &[[u8; SHORT]]) {
        let index = self.files.len() as u32;
        self.files.push(file);
        let blocks = hashes.iter().zip(0_u32..);
        self.blocks
            .extend(blocks.map(|(hash, block)| (*hash, (index, block))));
    }

    /// The file that has a block with this hash, and where it begins there.
    pub fn find(&self, hash: &[u8; SHORT]) -> Option<(PathBuf, u64)> {
        let (file, block) = self.blocks.get(hash)?;
        let begins = u64::from(*block) * BLOCK as u64;
        Some((self.files.get(*file as usize)?.clone(), begins))
    }
}

/// What the receiver has.
pub struct Known<'k> {
    /// A data directory. Its blocks can be used at the same place in a file with the same path.
    pub old: Option<&'k Path>,
    /// What an earlier transfer has brought: files without names, whose blocks can be used
    /// anywhere.
    pub earlier: Option<PathBuf>,
    /// Where those blocks are, once they have been reported.
    pub anywhere: Mutex<Anywhere>,
}

/// A file that is hashed.
struct Older<'o> {
    folder: &'o Path,
    path: String,
    is_earlier: bool,
}

impl Known<'_> {
    /// Reads the files, and reports the hashes of their blocks. Meanwhile, the other end gets a
    /// heartbeat every second.
    pub fn tell(
        &self,
        channel: &mut Channel,
        is_over: impl Fn() -> bool + Sync,
    ) -> Result<(), ChannelError> {
        let folders = [(self.old, false), (self.earlier.as_deref(), true)];
        let older = folders.into_iter().filter_map(|(folder, is_earlier)| {
            folder.map(|folder| files_in(folder).map(move |path| (folder, path, is_earlier)))
        });
        let older = older.flatten().map(|(folder, path, is_earlier)| Older {
            folder,
            path,
            is_earlier,
        });
        let older: Vec<Older<'_>> = older.collect();
        let (next, lost) = (AtomicU64::new(0), AtomicBool::new(false));
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let (found, hashed) = sync_channel(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let found = found.clone();
                let is_over = || lost.load(Ordering::Relaxed) || is_over();
                let (older, next) = (older.as_slice(), &next);
                scope.spawn(move || self.hash_all(older, next, &found, is_over));
            }
            drop(found);
            let result = pass_on(channel, || hashed.recv_timeout(PULSE));
            lost.store(true, Ordering::Relaxed);
            drop(hashed);
            result
        })
    }

    fn hash_all(
        &self,
        older: &[Older<'_>],
        next: &AtomicU64,
        found: &SyncSender<(String, Vec<u8>)>,
        is_over: impl Fn() -> bool,
    ) {
        let mut block = vec![0; BLOCK];
        while let Some(file) = older.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let path = file.folder.join(&file.path);
            let hashes = hashes_of(&path, &mut block, &is_over);
            if is_over() {
                return;
            }
            // The sender has to send a file that cannot be read.
            let Ok(hashes) = hashes else {
                continue;
            };
            let mut name = file.path.clone();
            if file.is_earlier {
                name.clear();
                let mut anywhere = self.anywhere.lock().unwrap_or_else(PoisonError::into_inner);
                anywhere.add(path, hashes.as_chunks().0);
            }
            if found.send((name, hashes)).is_err() {
                return;
            }
        }
    }
}

/// Passes on what the threads find, until they have ended.
fn pass_on(
    channel: &mut Channel,
    mut next: impl FnMut() -> Result<(String, Vec<u8>), RecvTimeoutError>,
) -> Result<(), ChannelError> {
    let mut frame = Vec::new();
    loop {
        match next() {
            Ok((path, hashes)) => {
                let most = (FRAME_MAX / 2) / SHORT * SHORT;
                for (number, part) in hashes.chunks(most).enumerate() {
                    let known = Frame::Known {
                        path: &path,
                        first: (number * most / SHORT) as u32,
                        hashes: part,
                    };
                    known.write(&mut frame);
                    channel.send(&frame)?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                Frame::Has(0).write(&mut frame);
                channel.send(&frame)?;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// All files of a folder that a copy may have. What cannot be read is sent again.
fn files_in(top: &Path) -> impl Iterator<Item = String> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let listing = fs::read_dir(top.join(&folder)).into_iter().flatten();
        for entry in listing.flatten() {
            let name = folder.join(entry.file_name());
            let (Ok(kind), Some(text)) = (entry.file_type(), name.to_str()) else {
                continue;
            };
            if NEVER_SENT.iter().any(|begin| text.starts_with(begin)) {
                continue;
            }
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file() {
                paths.push(text.to_owned());
            }
        }
    }
    paths.into_iter()
}

fn hashes_of(
    path: &Path,
    block: &mut [u8],
    is_over: impl Fn() -> bool,
) -> std::io::Result<Vec<u8>> {
    let file = open_file(path)?;
    let size = file.metadata()?.len();
    let mut hashes = Vec::new();
    let mut begins = 0;
    while begins < size && !is_over() {
        let count = (size - begins).min(BLOCK as u64) as usize;
        file.read_exact_at(&mut block[..count], begins)?;
        hashes.extend_from_slice(&blake3::hash(&block[..count]).as_bytes()[..SHORT]);
        begins += count as u64;
    }
    Ok(hashes)
}
