//! Where a tablespace is written to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file, here or on another machine.
pub trait Sink: Send + Sync {
    /// Writes bytes at a place of the file.
    ///
    /// # Errors
    /// The file cannot be written.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Gives the file its size. What was not written is zero.
    ///
    /// # Errors
    /// The file cannot be written.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
}

impl Sink for File {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }
}
