//! Writes a folder into something other than a disk: a backup.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::FolderError;

/// Takes the files of a folder. Threads share it.
///
/// The folder hands over whole blocks, except for the last one of each file, so no more than a
/// block of each open file is held in memory.
pub trait FolderSink: Send + Sync {
    /// Bytes of a block.
    fn block(&self) -> usize;

    /// Begins a file, which is known by the returned number.
    fn begin(&self) -> u32;

    /// An empty buffer with room for a block.
    fn buffer(&self) -> Vec<u8>;

    /// Takes the bytes of a file from `begins` on.
    ///
    /// # Errors
    /// These or earlier ones could not be written.
    fn put(&self, file: u32, begins: u64, bytes: Vec<u8>) -> io::Result<()>;

    /// Ends a file: tells its name within the folder, and its size in bytes.
    fn end(&self, file: u32, name: &str, bytes: u64);
}

/// A file on its way into a sink.
pub struct SinkFile {
    sink: Arc<dyn FolderSink>,
    number: u32,
    /// Bytes that were handed over.
    given: u64,
    buffer: Vec<u8>,
}

impl SinkFile {
    pub fn begin(sink: &Arc<dyn FolderSink>) -> Self {
        Self {
            sink: Arc::clone(sink),
            number: sink.begin(),
            given: 0,
            buffer: sink.buffer(),
        }
    }

    pub fn write(&mut self, path: &Path, mut bytes: &[u8]) -> Result<(), FolderError> {
        while !bytes.is_empty() {
            let room = self.sink.block() - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == self.sink.block() {
                self.give(path)?;
            }
        }
        Ok(())
    }

    fn give(&mut self, path: &Path) -> Result<(), FolderError> {
        let bytes = std::mem::replace(&mut self.buffer, self.sink.buffer());
        let begins = self.given;
        self.given += bytes.len() as u64;
        let put = self.sink.put(self.number, begins, bytes);
        put.map_err(FolderError::io(path, "writing the file"))
    }

    pub fn finish(mut self, path: &Path, name: &str) -> Result<(), FolderError> {
        if !self.buffer.is_empty() {
            self.give(path)?;
        }
        self.sink.end(self.number, name, self.given);
        Ok(())
    }
}
