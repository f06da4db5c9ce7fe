//! Keeps a file that is written out of order until it is complete.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// A file without a name.
#[derive(Debug)]
pub struct Spool {
    file: File,
    length: u64,
}

impl Spool {
    pub fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile_in(folder)?,
            length: 0,
        })
    }

    /// Overwrites what was there.
    pub fn write(&mut self, begins: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, begins)?;
        self.length = self.length.max(begins + bytes.len() as u64);
        Ok(())
    }

    pub fn read(&self, begins: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, begins)
    }

    /// Its length, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}
