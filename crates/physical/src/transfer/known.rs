//! What the receiver has already: the hashes of the blocks of older files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};

use refloat_repository::BLOCK;

use super::PULSE;
use super::channel::{Channel, ChannelError, FRAME_MAX};
use super::frame::{Frame, SHORT};
use crate::swap::INSIDE;

/// What begins the names, at the top of an older folder, of what no copy has: what refloat keeps
/// there, the redo log and what Galera's provider keeps.
const NEVER_SENT: [&str; 5] = [INSIDE, "ib_logfile", "galera.cache", "gcache.", "gvwstate"];

/// Reads the files of a folder, and tells the hashes of their blocks. The other end hears every
/// second that this is going on.
pub fn tell(
    old: &Path,
    channel: &mut Channel,
    is_over: impl Fn() -> bool + Sync,
) -> Result<(), ChannelError> {
    let paths = older_files(old);
    let (next, lost) = (AtomicU64::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (found, hashed) = sync_channel(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let found = found.clone();
            let is_over = || lost.load(Ordering::Relaxed) || is_over();
            let (paths, next) = (paths.as_slice(), &next);
            scope.spawn(move || hash_all((old, paths), next, &found, is_over));
        }
        drop(found);
        let told = pass_on(channel, || hashed.recv_timeout(PULSE));
        lost.store(true, Ordering::Relaxed);
        drop(hashed);
        told
    })
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

/// All files of a data directory that a copy may have. What cannot be read is sent again.
fn older_files(old: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let listing = fs::read_dir(old.join(&folder)).into_iter().flatten();
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
    paths
}

fn hash_all(
    (old, paths): (&Path, &[String]),
    next: &AtomicU64,
    found: &SyncSender<(String, Vec<u8>)>,
    is_over: impl Fn() -> bool,
) {
    let mut block = vec![0; BLOCK];
    while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
        let hashes = hashes_of(&old.join(path), &mut block, &is_over);
        if is_over() {
            return;
        }
        // A file that cannot be read is one that the sender has to send.
        if let Ok(hashes) = hashes
            && found.send((path.clone(), hashes)).is_err()
        {
            return;
        }
    }
}

fn hashes_of(
    path: &Path,
    block: &mut [u8],
    is_over: impl Fn() -> bool,
) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
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
