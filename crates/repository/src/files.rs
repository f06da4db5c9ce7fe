//! The list of files of a backup.

use std::sync::{Mutex, PoisonError};

use refloat_run::Cancel;

use crate::error::RepositoryError;
use crate::fetch::{Sink, fetch_entries};
use crate::manifest::{FileEntry, Manifest};
use crate::repository::Repository;

/// Receives a run of bytes of one file.
pub(crate) struct Window {
    begins: u64,
    bytes: Mutex<Vec<u8>>,
}

impl Window {
    /// Takes `length` bytes of a file from `begins` on. What no block covers is zeros.
    pub fn new(begins: u64, length: usize) -> Self {
        let bytes = Mutex::new(vec![0; length]);
        Self { begins, bytes }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        let bytes = self.bytes.into_inner();
        bytes.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Window {
    fn write(&self, _: usize, begins: u64, bytes: &[u8]) -> std::io::Result<()> {
        let mut window = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        // A block may begin before the window, and end after it.
        let first = self.begins.max(begins);
        let end = (self.begins + window.len() as u64).min(begins + bytes.len() as u64);
        if first < end {
            let length = (end - first) as usize;
            let (from, to) = ((first - begins) as usize, (first - self.begins) as usize);
            window[to..to + length].copy_from_slice(&bytes[from..from + length]);
        }
        Ok(())
    }
}

impl Repository {
    /// The files of a backup.
    ///
    /// # Errors
    /// The storage fails, or the list is damaged.
    pub fn files(&self, manifest: &Manifest) -> Result<Vec<FileEntry>, RepositoryError> {
        let object = || format!("the list of files of backup {}", manifest.label);
        let damaged = |detail: String| RepositoryError::damaged(self.url(), object(), detail);
        let list = FileEntry {
            path: "list of files".to_owned(),
            size: manifest.list_bytes,
            extents: manifest.list.clone(),
        };
        list.check(&manifest.packs).map_err(damaged)?;
        let text = Window::new(0, manifest.list_bytes as usize);
        fetch_entries(
            self,
            &manifest.packs,
            &[&list],
            1,
            &text,
            &Cancel::default(),
        )?;
        let text = text.into_bytes();
        let mut files = Vec::new();
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let file: FileEntry =
                serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
            file.check(&manifest.packs).map_err(damaged)?;
            files.push(file);
        }
        if files.len() as u64 != manifest.files {
            let words = format!("{} files instead of {}", files.len(), manifest.files);
            return Err(damaged(words));
        }
        Ok(files)
    }
}
