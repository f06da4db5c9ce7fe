//! A folder of files that is written into a backup.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::block::BLOCK;
use crate::error::RepositoryError;
use crate::manifest::Manifest;
use crate::writer::{BackupWriter, FileId, Totals};

/// Takes the files of a [`Folder`](refloat_store::Folder) into a backup. Threads share it.
pub struct FolderWriter {
    writer: BackupWriter,
    files: Mutex<Vec<(FileId, String, u64)>>,
}

impl FolderWriter {
    /// All files become part of the backup that this one writes.
    pub fn new(writer: BackupWriter) -> Self {
        Self {
            writer,
            files: Mutex::default(),
        }
    }

    /// Earlier backups whose blocks cannot be shared because they cannot be read, and why.
    pub fn unshared(&self) -> &[String] {
        self.writer.unshared()
    }

    /// Waits until all blocks are written. The totals are final then.
    ///
    /// # Errors
    /// One of them could not be written.
    pub fn wait(&mut self) -> Result<(), RepositoryError> {
        self.writer.wait()
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        self.writer.totals()
    }

    /// Completes the backup.
    ///
    /// # Errors
    /// Those of [`BackupWriter::finish`].
    pub fn finish(
        self,
        about: BTreeMap<String, serde_json::Value>,
    ) -> Result<Manifest, RepositoryError> {
        let files = self.files.into_inner();
        let mut files = files.unwrap_or_else(PoisonError::into_inner);
        files.sort_by(|a, b| a.1.cmp(&b.1));
        self.writer.finish(files, about)
    }
}

impl refloat_store::FolderSink for FolderWriter {
    fn block(&self) -> usize {
        BLOCK
    }

    fn begin(&self) -> u32 {
        self.writer.file().number()
    }

    fn buffer(&self) -> Vec<u8> {
        self.writer.buffer()
    }

    fn put(&self, file: u32, begins: u64, bytes: Vec<u8>) -> io::Result<()> {
        let put = self.writer.put(FileId::of(file), begins, bytes);
        put.map_err(RepositoryError::into_io)
    }

    fn end(&self, file: u32, name: &str, bytes: u64) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push((FileId::of(file), name.to_owned(), bytes));
    }
}
