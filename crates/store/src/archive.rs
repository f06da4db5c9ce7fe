//! Unpacks tar archives and mydumper streams into a scratch folder, which goes away with its owner.
//!
//! Archives are untrusted input. Names cannot leave the folder, only files and folders are created,
//! sizes are checked against the free space before anything is written, and an archive that ends
//! before its end mark is rejected.

mod stream;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tar::{Archive, Entry, EntryType, PaxExtensions};
use tempfile::TempDir;

use crate::{Input, InputError, LooksLike};

/// Block size of tar, in bytes.
const BLOCK: u64 = 512;
/// Zero bytes that end a tar archive.
const END_MARK: u64 = 2 * BLOCK;
/// Largest description of an entry, in bytes: long names, and attributes such as times and owners,
/// which are ignored.
const DESCRIPTION_MAX: u64 = 1 << 20;
/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// Bytes left free on the disk of the scratch folder, for others.
const ROOM_LEFT: u64 = 64 << 20;

/// Why an archive cannot be unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The archive cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// It ends before its end mark.
    #[error("{archive}: the archive is cut: it ends at byte {at}, before its end")]
    Cut {
        /// Its path as given, or `standard input`.
        archive: String,
        /// Length of the archive, decompressed, in bytes.
        at: u64,
    },
    /// An entry is not acceptable.
    #[error("{archive}: {entry:?} in the archive: {reason}")]
    Entry {
        /// Its path as given, or `standard input`.
        archive: String,
        /// The entry's name in the archive.
        entry: String,
        /// The reason, in words.
        reason: String,
    },
    /// The archive is malformed.
    #[error("{archive}: the archive is damaged at byte {at}: {reason}")]
    Damaged {
        /// Its path as given, or `standard input`.
        archive: String,
        /// Position of the damage in the decompressed archive.
        at: u64,
        /// The reason, in words.
        reason: String,
    },
    /// The content does not fit into the scratch folder.
    #[error(
        "{archive}: {} has {} MiB free, and the archive needs {} MiB there",
        folder.display(), free >> 20, (needed >> 20) + 1
    )]
    NoRoom {
        /// Its path as given, or `standard input`.
        archive: String,
        /// The scratch folder.
        folder: PathBuf,
        /// Free bytes, without those left for others.
        free: u64,
        /// Bytes needed, as far as known.
        needed: u64,
    },
    /// The scratch folder cannot be written.
    #[error("{}: {doing} failed", path.display())]
    Scratch {
        /// The file or folder.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// An unpacked archive. Dropping it removes the unpacked files.
#[derive(Debug)]
pub struct Unpacked {
    folder: TempDir,
    root: PathBuf,
}

impl Unpacked {
    /// The folder with the files: the archive's only top-level folder if there is just one, else
    /// the scratch folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Removes the files and, unlike a drop, reports failure.
    pub fn remove(self) -> Result<(), ArchiveError> {
        let path = self.folder.path().to_owned();
        self.folder.close().map_err(scratch(&path, "removing"))
    }
}

/// Unpacks an archive into a new folder in `scratch_folder`.
///
/// # Errors
/// The archive is truncated or damaged, does not fit, or contains something other than files and
/// folders or a name that leads out of the folder. Nothing stays behind in these cases.
pub fn unpack(mut input: Input, scratch_folder: &Path) -> Result<Unpacked, ArchiveError> {
    let kind = input.content()?;
    let folder = tempfile::Builder::new()
        .prefix("refloat-archive.")
        .tempdir_in(scratch_folder)
        .map_err(scratch(scratch_folder, "making a scratch folder"))?;
    let mut work = Work {
        archive: input.name().to_owned(),
        root: folder.path().to_owned(),
        scratch: scratch_folder.to_owned(),
        top: Top::default(),
        buffer: vec![0; COPY_BYTES],
    };
    // The content is at least about as large as the archive, compressed or not.
    work.room_for(input.total_bytes().unwrap_or(0))?;
    let mut source = Source {
        input,
        read: 0,
        zeros_from: 0,
        ended: false,
        error: None,
    };
    let done = match kind {
        LooksLike::MydumperStream => work.files(&mut source),
        _ => work.entries(&mut source),
    };
    if let Some(error) = source.error.take() {
        return Err(error.into());
    }
    done?;
    let root = match work.top {
        Top::One(name) if folder.path().join(&name).is_dir() => folder.path().join(name),
        _ => folder.path().to_owned(),
    };
    Ok(Unpacked { folder, root })
}

/// The decompressed archive and the read position in it.
struct Source {
    input: Input,
    read: u64,
    /// Everything since this byte was zeros.
    zeros_from: u64,
    /// The archive has been read to its end.
    ended: bool,
    error: Option<InputError>,
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut block = Vec::with_capacity(out.len());
        match self.input.read_block(&mut block, out.len()) {
            Ok(count) => {
                self.ended |= count == 0 && !out.is_empty();
                out[..count].copy_from_slice(&block);
                if let Some(last) = block.iter().rposition(|byte| *byte != 0) {
                    self.zeros_from = self.read + last as u64 + 1;
                }
                self.read += count as u64;
                Ok(count)
            }
            Err(error) => {
                self.error = Some(error);
                Err(io::Error::other("the archive cannot be read"))
            }
        }
    }
}

/// What the top level of the archive contains.
#[derive(Default)]
enum Top {
    #[default]
    Nothing,
    /// A single name, with which every entry begins.
    One(String),
    /// Several names, or the folder itself.
    Many,
}

struct Work {
    archive: String,
    root: PathBuf,
    scratch: PathBuf,
    top: Top,
    buffer: Vec<u8>,
}

impl Work {
    fn entries(&mut self, source: &mut Source) -> Result<(), ArchiveError> {
        let mut end = 0;
        let mut long_name: Option<Vec<u8>> = None;
        let result = {
            let mut archive = Archive::new(&mut *source);
            let entries = archive.entries().map(|entries| entries.raw(true));
            let mut result = Ok(());
            match entries {
                Err(error) => result = Err((0, error)),
                Ok(entries) => {
                    for entry in entries {
                        let mut entry = match entry {
                            Ok(entry) => entry,
                            Err(error) => {
                                result = Err((end, error));
                                break;
                            }
                        };
                        let size = entry.size();
                        end = entry
                            .raw_file_position()
                            .saturating_add(size)
                            .div_ceil(BLOCK)
                            .saturating_mul(BLOCK);
                        self.entry(&mut entry, size, &mut long_name)?;
                    }
                }
            }
            result
        };
        if source.error.is_some() {
            return Ok(());
        }
        // Reads the rest, to its proven end.
        let read_on = result.is_ok();
        while read_on
            && source
                .read(&mut self.buffer)
                .map_err(|_said| ())
                .unwrap_or(0)
                > 0
        {}
        let archive = self.archive.clone();
        match result {
            Err(_) if source.ended => {
                let at = source.read;
                Err(ArchiveError::Cut { archive, at })
            }
            Err((at, error)) => Err(ArchiveError::Damaged {
                archive,
                at,
                reason: error.to_string(),
            }),
            Ok(()) if source.error.is_some() => Ok(()),
            Ok(()) if source.zeros_from > end => Err(ArchiveError::Damaged {
                archive,
                at: end,
                reason: "something follows its end mark".to_owned(),
            }),
            Ok(()) if source.read < end + END_MARK => {
                let at = source.read;
                Err(ArchiveError::Cut { archive, at })
            }
            Ok(()) => Ok(()),
        }
    }

    fn entry(
        &mut self,
        entry: &mut Entry<'_, &mut Source>,
        size: u64,
        long_name: &mut Option<Vec<u8>>,
    ) -> Result<(), ArchiveError> {
        let kind = entry.header().entry_type();
        let short_name = entry.header().path_bytes().into_owned();
        match kind {
            EntryType::GNULongName => {
                let mut name = self.description(entry, size)?;
                while name.last() == Some(&0) {
                    name.pop();
                }
                *long_name = Some(name);
                return Ok(());
            }
            EntryType::XHeader => {
                let text = self.description(entry, size)?;
                for pair in PaxExtensions::new(&text) {
                    let pair =
                        pair.map_err(|error| self.refused(&short_name, &error.to_string()))?;
                    match pair.key_bytes() {
                        b"path" => *long_name = Some(pair.value_bytes().to_vec()),
                        b"size" => {
                            return Err(self.refused(
                                &short_name,
                                "its size stands in an extended header: make the archive in the GNU format",
                            ));
                        }
                        _ => {}
                    }
                }
                return Ok(());
            }
            EntryType::XGlobalHeader => return self.description(entry, size).map(drop),
            EntryType::Regular | EntryType::Directory => {}
            _ => {
                return Err(self.refused(
                    &long_name.take().unwrap_or(short_name),
                    "it is neither a file nor a folder",
                ));
            }
        }
        let name = long_name.take().unwrap_or(short_name);
        let parts = parts(&name).map_err(|reason| self.refused(&name, reason))?;
        // `tar -cf x.tar folder` has one folder at the top; `tar -C folder -cf x.tar .` has its
        // contents there.
        let whole = name.starts_with(b"./");
        match (&self.top, parts.first()) {
            (Top::Nothing, Some(first)) if !whole => self.top = Top::One((*first).to_owned()),
            (Top::One(one), Some(first)) if one == first && !whole => {}
            _ => self.top = Top::Many,
        }
        let path = parts
            .iter()
            .fold(self.root.clone(), |path, part| path.join(part));
        if kind == EntryType::Directory {
            return make(&path);
        }
        if parts.is_empty() {
            return Err(self.refused(&name, "a file without a name"));
        }
        if let Some(above) = path.parent() {
            make(above)?;
        }
        let at = entry.raw_file_position();
        match self.file(&name, &path, size, entry)? {
            Some(written) if written < size => Err(ArchiveError::Cut {
                archive: self.archive.clone(),
                at: at + written,
            }),
            _ => Ok(()),
        }
    }

    /// Writes one file and returns the number of bytes written, or `None` if the archive could not
    /// be read; `source` keeps that error.
    fn file(
        &mut self,
        name: &[u8],
        path: &Path,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<Option<u64>, ArchiveError> {
        self.room_for(size)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => self.refused(name, "it is there twice"),
                _ => scratch(path, "making the file")(error),
            })?;
        let mut written = 0;
        loop {
            let count = match content.read(&mut self.buffer) {
                Ok(0) => return Ok(Some(written)),
                Ok(count) => count,
                Err(_) => return Ok(None),
            };
            file.write_all(&self.buffer[..count])
                .map_err(scratch(path, "writing the file"))?;
            written += count as u64;
        }
    }

    /// The text of an entry that only describes another one.
    fn description(
        &self,
        entry: &mut Entry<'_, &mut Source>,
        size: u64,
    ) -> Result<Vec<u8>, ArchiveError> {
        let name = entry.header().path_bytes().into_owned();
        if size > DESCRIPTION_MAX {
            return Err(self.refused(&name, "a description of more than a MiB"));
        }
        let mut text = Vec::new();
        let read = entry.take(DESCRIPTION_MAX).read_to_end(&mut text);
        match read {
            Ok(count) if (count as u64) < size => Err(ArchiveError::Cut {
                archive: self.archive.clone(),
                at: entry.raw_file_position() + count as u64,
            }),
            // On a read error, `source` keeps the reason.
            _ => Ok(text),
        }
    }

    fn refused(&self, name: &[u8], reason: &str) -> ArchiveError {
        ArchiveError::Entry {
            archive: self.archive.clone(),
            entry: String::from_utf8_lossy(name).into_owned(),
            reason: reason.to_owned(),
        }
    }

    fn room_for(&self, needed: u64) -> Result<(), ArchiveError> {
        let Some(free) = crate::files::free(&self.root) else {
            return Ok(());
        };
        let free = free.saturating_sub(ROOM_LEFT);
        if needed <= free {
            return Ok(());
        }
        Err(ArchiveError::NoRoom {
            archive: self.archive.clone(),
            folder: self.scratch.clone(),
            free,
            needed,
        })
    }
}

/// The parts of a name; none for the folder itself.
fn parts(name: &[u8]) -> Result<Vec<&str>, &'static str> {
    let name = std::str::from_utf8(name).map_err(|_no_text| "its name is not UTF-8")?;
    if name.starts_with('/') {
        return Err("its name is absolute");
    }
    if name.contains('\0') {
        return Err("its name holds a zero byte");
    }
    let mut parts = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err("its name leads out of the archive"),
            part => parts.push(part),
        }
    }
    Ok(parts)
}

fn make(path: &Path) -> Result<(), ArchiveError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(scratch(path, "making the folder"))
}

fn scratch(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> ArchiveError {
    let path = path.to_owned();
    move |source| ArchiveError::Scratch {
        path,
        doing,
        source,
    }
}

#[cfg(test)]
mod tests;
