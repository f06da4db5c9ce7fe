//! Reads an object to its last byte, over as many connections as that takes.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{Storage, StorageError};

/// How often a transfer is tried again, and how long it waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Attempts in a row that bring nothing.
    pub attempts: u32,
    /// Wait before the second attempt; it doubles with each.
    pub wait: Duration,
}

impl Default for Patience {
    /// Six attempts within some six seconds.
    fn default() -> Self {
        Self {
            attempts: 6,
            wait: Duration::from_millis(200),
        }
    }
}

/// Reads these bytes of an object, in order.
///
/// A connection that fails or ends early is made again at the byte that is missing. So a reader
/// that reports its end has returned every byte of the range.
pub fn reader(
    storage: &Arc<dyn Storage>,
    name: &str,
    range: Range<u64>,
    patience: Patience,
) -> impl Read + Send + use<> {
    Resumed {
        storage: Arc::clone(storage),
        name: name.to_owned(),
        range,
        patience,
        current: None,
        failed: 0,
    }
}

/// Reads a small object.
///
/// # Errors
/// See [`Storage::read`]; also an object of more than `limit` bytes.
pub fn read_whole(
    storage: &Arc<dyn Storage>,
    name: &str,
    limit: u64,
) -> Result<Vec<u8>, StorageError> {
    let size = storage.size(name)?;
    if size > limit {
        let source = io::Error::other(format!("it has {size} bytes, more than {limit}"));
        return Err(StorageError::from_io(
            storage.url(),
            name,
            "reading",
            source,
        ));
    }
    let mut content = Vec::with_capacity(size as usize);
    reader(storage, name, 0..size, Patience::default())
        .read_to_end(&mut content)
        .map_err(|source| StorageError::from_io(storage.url(), name, "reading", source))?;
    Ok(content)
}

struct Resumed {
    storage: Arc<dyn Storage>,
    name: String,
    /// What is still to be read.
    range: Range<u64>,
    patience: Patience,
    current: Option<Box<dyn Read + Send>>,
    /// Attempts in a row that brought nothing.
    failed: u32,
}

impl Resumed {
    /// Tells a connection that ended early from an object that is too short.
    fn ended_early(&self) -> StorageError {
        let size = match self.storage.size(&self.name) {
            Ok(size) => size,
            Err(error) => return error,
        };
        let (kind, words) = if size < self.range.end {
            let end = self.range.end;
            let words = format!("it has {size} bytes, and bytes up to {end} are needed");
            (io::ErrorKind::UnexpectedEof, words)
        } else {
            let words = format!("the connection ended early, at byte {}", self.range.start);
            (io::ErrorKind::ConnectionAborted, words)
        };
        let end = io::Error::new(kind, words);
        StorageError::from_io(self.storage.url(), &self.name, "reading", end)
    }

    fn attempt(&mut self, buffer: &mut [u8]) -> Result<usize, StorageError> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.storage.read(&self.name, self.range.clone())?,
        };
        let failed =
            |source| StorageError::from_io(self.storage.url(), &self.name, "reading", source);
        let count = loop {
            match current.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(failed)?,
            }
        };
        if count == 0 {
            return Err(self.ended_early());
        }
        self.current = Some(current);
        Ok(count)
    }
}

impl Read for Resumed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.range.end.saturating_sub(self.range.start);
        let length = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        loop {
            match self.attempt(&mut buffer[..length]) {
                Ok(count) => {
                    self.failed = 0;
                    self.range.start += count as u64;
                    return Ok(count);
                }
                Err(error) => {
                    self.failed += 1;
                    if !error.may_pass() || self.failed >= self.patience.attempts {
                        return Err(error.into_io());
                    }
                    std::thread::sleep(self.patience.wait * (1 << (self.failed - 1).min(10)));
                }
            }
        }
    }
}
