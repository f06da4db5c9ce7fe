//! Files of a backup that are read in place.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use refloat_run::Cancel;
use refloat_store::files::{self, Files};

use crate::block::BLOCK;
use crate::error::RepositoryError;
use crate::fetch::fetch_entries;
use crate::files::Window;
use crate::manifest::{FileEntry, Manifest, PackInfo};
use crate::repository::Repository;

/// Bytes of a file that are fetched at a time. Its blocks are in as many packs as threads have
/// written, so they take several requests, which are made at the same time. If only the beginning
/// of a file is needed, a single block is fetched.
const WINDOW: u64 = 8 * BLOCK as u64;

/// Mounts the files of a backup at `root`. Everything that is read is checked by its hash; a
/// mismatch is an error.
///
/// # Errors
/// The list of files is damaged, or the storage fails.
pub fn mount(
    repository: &Repository,
    manifest: &Manifest,
    root: &Path,
) -> Result<(), RepositoryError> {
    let entries = repository.files(manifest)?.into_iter();
    let files: BTreeMap<String, Arc<FileEntry>> = entries
        .map(|entry| (entry.path.clone(), Arc::new(entry)))
        .collect();
    let sizes = files.iter().map(|(name, entry)| (name.clone(), entry.size));
    let sizes = sizes.collect();
    let backup = Backup {
        repository: repository.clone(),
        packs: manifest.packs.clone().into(),
        files,
    };
    files::mount(root, sizes, Arc::new(backup));
    Ok(())
}

struct Backup {
    repository: Repository,
    packs: Arc<[PackInfo]>,
    files: BTreeMap<String, Arc<FileEntry>>,
}

impl Files for Backup {
    fn open(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
        let entry = self.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(BackupFile {
            repository: self.repository.clone(),
            packs: Arc::clone(&self.packs),
            entry: Arc::clone(entry),
            at: from,
            window: Vec::new(),
            read: 0,
        }))
    }
}

/// A file that is read from its blocks.
struct BackupFile {
    repository: Repository,
    packs: Arc<[PackInfo]>,
    entry: Arc<FileEntry>,
    /// First byte that is not in the window.
    at: u64,
    window: Vec<u8>,
    /// Bytes of the window that were read.
    read: usize,
}

impl BackupFile {
    /// Fetches the next bytes, up to the beginning of a block.
    fn fetch(&mut self) -> Result<(), RepositoryError> {
        let (begin, size) = (self.at, self.entry.size);
        // Drops the old window before fetching the next, so that only one takes memory.
        let step = if std::mem::take(&mut self.window).is_empty() {
            BLOCK as u64
        } else {
            WINDOW
        };
        self.read = 0;
        let end = ((begin / step + 1) * step).min(size);
        let is_in = |begins: u64, length: u32| begins < end && begins + u64::from(length) > begin;
        let extents = self.entry.extents.iter().copied();
        let part = FileEntry {
            path: self.entry.path.clone(),
            size,
            extents: extents
                .filter(|extent| is_in(extent.begins, extent.length))
                .collect(),
        };
        let window = Window::new(begin, (end - begin) as usize);
        let threads = self.repository.storage().transfers();
        let never = Cancel::default();
        fetch_entries(
            &self.repository,
            &self.packs,
            &[&part],
            threads,
            &window,
            &never,
        )?;
        (self.window, self.read, self.at) = (window.into_bytes(), 0, end);
        Ok(())
    }
}

impl Read for BackupFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.window.len() {
            if self.at >= self.entry.size {
                return Ok(0);
            }
            self.fetch().map_err(RepositoryError::into_io)?;
        }
        let left = &self.window[self.read..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.read += count;
        Ok(count)
    }
}
