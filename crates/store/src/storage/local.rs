//! A folder of this machine as a storage.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::{Advice, CWD, RenameFlags, fadvise, renameat_with};

use super::{
    Existing, Object, Stamp, Storage, StorageError, StorageErrorKind, UNFINISHED, UNFINISHED_FOR,
    Upload, check_name, check_readable,
};
use crate::files;

/// Several writers make a disk seek; two keep it busy while one of them syncs.
const TRANSFERS: usize = 2;

/// How many bytes of an object wait in memory before they go to the disk. If a large one went there
/// at its end, its writer would wait for the disk, as the disk has waited for the writer before.
const WRITE_OUT: u64 = 8 << 20;

/// How often a folder is made that others remove.
const ATTEMPTS: u32 = 100;

/// Objects as files of a folder. The folder is made with the first object; it and the files in it
/// are accessible to their owner only.
pub struct LocalFolder {
    root: PathBuf,
    url: String,
}

impl LocalFolder {
    /// The storage in this folder, which need not exist yet.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            url: root.display().to_string(),
        }
    }

    fn failed(&self, name: &str, doing: &'static str) -> impl FnOnce(io::Error) -> StorageError {
        move |source| StorageError::from_io(&self.url, name, doing, source)
    }

    fn path(&self, name: &str) -> Result<PathBuf, StorageError> {
        check_name(&self.url, name)?;
        Ok(self.root.join(name))
    }

    fn readable(&self, name: &str) -> Result<PathBuf, StorageError> {
        check_readable(&self.url, name)?;
        Ok(self.root.join(name))
    }

    /// All files, unfinished ones too, with their paths below the root.
    fn files(&self) -> io::Result<Vec<(String, fs::Metadata)>> {
        let mut found = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.root.join(&folder)) {
                Ok(entries) => entries,
                // Another process may have removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                let Ok(part) = entry.file_name().into_string() else {
                    continue;
                };
                let path = if folder.is_empty() {
                    part
                } else {
                    format!("{folder}/{part}")
                };
                match entry.metadata() {
                    Ok(meta) if meta.is_dir() => folders.push(path),
                    Ok(meta) if meta.is_file() => found.push((path, meta)),
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(found)
    }
}

impl Storage for LocalFolder {
    fn url(&self) -> &str {
        &self.url
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError> {
        let mut objects: Vec<Object> = self
            .files()
            .map_err(self.failed(prefix, "listing"))?
            .into_iter()
            .filter(|(name, _)| name.starts_with(prefix) && check_readable(&self.url, name).is_ok())
            .map(|(name, meta)| Object {
                name,
                size: meta.len(),
                mark: mark(&meta),
            })
            .collect();
        objects.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(objects)
    }

    fn stamp(&self, name: &str) -> Result<Stamp, StorageError> {
        let path = self.readable(name)?;
        let meta = fs::metadata(path).map_err(self.failed(name, "looking at"))?;
        if meta.is_file() {
            Ok(Stamp {
                size: meta.len(),
                mark: mark(&meta),
            })
        } else {
            Err(StorageError::new(
                &self.url,
                name,
                "looking at",
                StorageErrorKind::NotFound,
            ))
        }
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError> {
        let path = self.readable(name)?;
        let open = || {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(range.start))?;
            Ok(file)
        };
        let file = open().map_err(self.failed(name, "reading"))?;
        Ok(Box::new(file.take(range.end.saturating_sub(range.start))))
    }

    fn create(&self, name: &str, existing: Existing) -> Result<Box<dyn Upload>, StorageError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = self.path(name)?;
        if existing == Existing::Keep && path.exists() {
            return Err(StorageError::new(
                &self.url,
                name,
                "creating",
                StorageErrorKind::Exists,
            ));
        }
        let folder = path.parent().unwrap_or(&self.root).to_owned();
        let begin = || {
            let mut attempts = 0;
            loop {
                let count = COUNT.fetch_add(1, Ordering::Relaxed);
                let unfinished = folder.join(format!("{UNFINISHED}{}-{count}", std::process::id()));
                let created = make_folders(&folder).and_then(|()| {
                    let mut options = OpenOptions::new();
                    let options = options.write(true).create_new(true).mode(0o600);
                    options.open(&unfinished)
                });
                match created {
                    Ok(file) => return Ok((unfinished, file)),
                    // A process of the same number, on another machine or earlier.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    // Who deletes an object removes its empty folder, also one that was made just
                    // now. The next one has a file in it at once, or this happens again.
                    Err(error)
                        if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS =>
                    {
                        attempts += 1;
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let (unfinished, file) = begin().map_err(self.failed(name, "creating"))?;
        Ok(Box::new(LocalUpload {
            file,
            written: 0,
            unfinished: Some(unfinished),
            folder,
            path,
            existing,
            url: self.url.clone(),
            name: name.to_owned(),
        }))
    }

    fn delete(&self, name: &str) -> Result<(), StorageError> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.failed(name, "deleting")(error)),
            Ok(()) => {}
        }
        let folder = path.parent().unwrap_or(&self.root);
        match sync_folder(folder) {
            // Who has deleted the last object in it has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            synced => synced.map_err(self.failed(name, "deleting"))?,
        }
        // Folders exist for the sake of objects. One that holds others stays.
        let empty = folder
            .ancestors()
            .take_while(|&above| above != self.root && above.starts_with(&self.root));
        for folder in empty {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn sweep(&self) -> Result<u64, StorageError> {
        let mut removed = 0;
        let now = SystemTime::now();
        for (name, meta) in self.files().map_err(self.failed("", "listing"))? {
            let last = name.rsplit('/').next().unwrap_or_default();
            let is_old = meta
                .modified()
                .is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > UNFINISHED_FOR));
            if last.starts_with(UNFINISHED) && is_old {
                fs::remove_file(self.root.join(&name)).map_err(self.failed(&name, "removing"))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn room(&self) -> Option<u64> {
        // The folder is made with the first object.
        let root = std::path::absolute(&self.root).ok()?;
        root.ancestors().find_map(files::free)
    }

    fn transfers(&self) -> usize {
        TRANSFERS
    }
}

fn mark(meta: &fs::Metadata) -> String {
    format!("{}.{:09} {}", meta.mtime(), meta.mtime_nsec(), meta.ino())
}

/// A file under another name, until it is complete.
struct LocalUpload {
    file: File,
    written: u64,
    /// `None` once it has its own name.
    unfinished: Option<PathBuf>,
    folder: PathBuf,
    path: PathBuf,
    existing: Existing,
    url: String,
    name: String,
}

impl Write for LocalUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.written / WRITE_OUT;
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        if self.written / WRITE_OUT > before {
            // The system begins to write all of it, and forgets what is on the disk already.
            let all = NonZeroU64::new(self.written);
            let _ = fadvise(&self.file, 0, all, Advice::DontNeed);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for LocalUpload {
    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        let mut publish = || {
            self.file.sync_all()?;
            let Some(unfinished) = &self.unfinished else {
                return Ok(());
            };
            let flags = match self.existing {
                Existing::Keep => RenameFlags::NOREPLACE,
                Existing::Replace => RenameFlags::empty(),
            };
            match renameat_with(CWD, unfinished, CWD, &self.path, flags) {
                // Network file systems do not know the flag; a second name is as good.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP)
                    if self.existing == Existing::Keep =>
                {
                    fs::hard_link(unfinished, &self.path)?;
                    fs::remove_file(unfinished)?;
                }
                other => other?,
            }
            self.unfinished = None;
            sync_folder(&self.folder)
        };
        let done = publish();
        done.map_err(|source| StorageError::from_io(&self.url, &self.name, "completing", source))
    }
}

impl Drop for LocalUpload {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            let _ = fs::remove_file(unfinished);
        }
    }
}

/// Makes a folder and those above it, and syncs each folder that got a new one.
fn make_folders(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => sync_folder(folder.parent().unwrap_or(Path::new("/"))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = folder.parent().filter(|above| *above != Path::new(""));
            make_folders(above.ok_or(error)?)?;
            make_folders(folder)
        }
        Err(error) => Err(error),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder == Path::new("") {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)?.sync_all()
}
