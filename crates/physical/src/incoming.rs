//! Files that arrive in a folder before their names are known: each has a number until everything
//! is complete, because files are renamed, removed and recreated while they are copied.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use refloat_repository::BLOCK;

use crate::error::PhysicalError;
use crate::files::make_folders;
use crate::folder::confined;
use crate::sparse;
use crate::stream::{Blocks, Files};

/// The folder for files without a name yet.
const INCOMING: &str = ".refloat-incoming";

/// Files that arrive in a folder. Threads share it.
pub struct Incoming {
    folder: PathBuf,
    numbered: PathBuf,
    files: AtomicU32,
}

impl Incoming {
    /// Prepares a folder for them.
    ///
    /// # Errors
    /// Nothing can be created in it.
    pub fn begin(folder: &Path) -> Result<Self, PhysicalError> {
        let numbered = folder.join(INCOMING);
        make_folders(&numbered).map_err(PhysicalError::file(&numbered, "making the folder"))?;
        Ok(Self {
            folder: folder.to_owned(),
            numbered,
            files: AtomicU32::new(0),
        })
    }

    /// Writes bytes of a file.
    ///
    /// # Errors
    /// The file cannot be written to.
    // Opened for each block: there may be more files than a process may have open, and handling a
    // block takes a hundred times as long as opening a file.
    pub fn write(&self, number: u32, begins: u64, bytes: &[u8]) -> Result<(), PhysicalError> {
        let path = self.numbered.join(number.to_string());
        open(&path)
            .and_then(|file| sparse::write(&file, begins, bytes))
            .map_err(PhysicalError::file(&path, "writing a block"))
    }

    /// Gives the files their names and sizes, and removes what has none.
    ///
    /// # Errors
    /// A name leads out of the folder, or a file cannot be put in its place.
    pub fn finish(&self, files: &Files<u32>) -> Result<(), PhysicalError> {
        for (number, path, size) in files {
            let path = self.folder.join(confined(path)?);
            let from = self.numbered.join(number.to_string());
            let put = || -> io::Result<()> {
                if let Some(folder) = path.parent() {
                    make_folders(folder)?;
                }
                open(&from)?.set_len(*size)?;
                fs::rename(&from, &path)
            };
            put().map_err(PhysicalError::file(&path, "putting the file in its place"))?;
        }
        // Files that were removed or sent again meanwhile.
        fs::remove_dir_all(&self.numbered).map_err(PhysicalError::file(
            &self.numbered,
            "removing what was sent and is not needed",
        ))
    }
}

impl Blocks for Incoming {
    type File = u32;

    fn begin(&self, _: &Path) -> u32 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    fn buffer(&self) -> Vec<u8> {
        Vec::with_capacity(BLOCK)
    }

    fn put(&self, file: u32, begins: u64, bytes: Vec<u8>) -> Result<(), PhysicalError> {
        // Files get their size at the end, so zeros need no room.
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        self.write(file, begins, &bytes)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}
