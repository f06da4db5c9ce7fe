//! The list of files of a backup.

use std::sync::{Mutex, PoisonError};

use refloat_run::Cancel;

use crate::error::RepositoryError;
use crate::fetch::{Sink, fetch_entries};
use crate::manifest::{FileEntry, Manifest};
use crate::repository::Repository;

/// Receives the text of a list.
struct Text(Mutex<Vec<u8>>);

impl Sink for Text {
    fn write(&self, _: usize, begins: u64, bytes: &[u8]) -> std::io::Result<()> {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = begins as usize;
        if let Some(part) = text.get_mut(begins..begins + bytes.len()) {
            part.copy_from_slice(bytes);
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
        let text = Text(Mutex::new(vec![0; manifest.list_bytes as usize]));
        fetch_entries(
            self,
            &manifest.packs,
            &[&list],
            1,
            &text,
            &Cancel::default(),
        )?;
        let text = text.0.into_inner().unwrap_or_else(PoisonError::into_inner);
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
