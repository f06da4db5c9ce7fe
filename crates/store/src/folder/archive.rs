//! Writes a tar archive: whole files one after the other, then an end mark.
//!
//! The tar crate's own writer ends an archive even when it is dropped after a failure; an archive
//! that was not sealed must look truncated.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use tar::{EntryType, Header};

use super::FolderError;

/// Block size of tar, in bytes.
const BLOCK: usize = 512;
/// Longest name that fits into a header, in bytes.
const NAME_MAX: usize = 100;
/// Name of the entry that holds a longer name.
const LONG_NAME: &str = "././@LongLink";

/// Writes an archive; several threads may append files.
pub struct ArchiveWriter {
    name: PathBuf,
    out: Mutex<File>,
}

impl ArchiveWriter {
    /// An empty archive; messages refer to it by `name`.
    pub fn new(name: &Path, out: File) -> Self {
        Self {
            name: name.to_owned(),
            out: Mutex::new(out),
        }
    }

    /// Appends a whole file.
    pub fn append(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let written = if name.len() > NAME_MAX {
            let long = [name.as_bytes(), b"\0"].concat();
            entry(&mut out, EntryType::GNULongName, LONG_NAME, &long)
        } else {
            Ok(())
        };
        written
            .and_then(|()| entry(&mut out, EntryType::Regular, name, bytes))
            .map_err(FolderError::io(&self.name, "writing the archive"))
    }

    /// Writes the end mark, and syncs a regular file to disk.
    pub fn finish(self) -> Result<(), FolderError> {
        let mut out = self
            .out
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        out.write_all(&[0; 2 * BLOCK])
            .and_then(|()| match out.sync_all() {
                // A pipe cannot be synced.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                other => other,
            })
            .map_err(FolderError::io(&self.name, "writing the archive"))
    }
}

fn entry(out: &mut File, kind: EntryType, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    header.set_mtime(now.map_or(0, |time| time.as_secs()));
    let place = &mut header.as_old_mut().name;
    let len = name.len().min(place.len());
    place[..len].copy_from_slice(&name.as_bytes()[..len]);
    header.set_cksum();
    out.write_all(header.as_bytes())?;
    out.write_all(bytes)?;
    let rest = bytes.len().next_multiple_of(BLOCK) - bytes.len();
    out.write_all(&[0; BLOCK][..rest])
}
