//! Reads the raw bytes of a source and counts exactly how many were consumed.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

use twox_hash::XxHash3_128;

use crate::files::OpenFile;

/// Size of one read from the operating system.
const RAW_BUFFER: usize = 256 << 10;

/// A buffered reader that counts consumed bytes and separates read errors from decoder errors.
pub struct RawReader {
    file: OpenFile,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    consumed: u64,
    /// Hashes every consumed byte, if a checksum was requested.
    hash: Option<Arc<Mutex<XxHash3_128>>>,
    /// The system's error, kept here because decoders wrap or swallow it.
    pub failure: Option<io::Error>,
}

impl RawReader {
    /// The file itself, for readers that choose their own offsets; `None` if it is not one of this
    /// machine.
    pub fn file(&self) -> Option<&File> {
        match &self.file {
            OpenFile::Here(file) => Some(file),
            OpenFile::Mounted(..) => None,
        }
    }

    pub fn new(file: OpenFile) -> Self {
        Self {
            file,
            buffer: vec![0; RAW_BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            consumed: 0,
            hash: None,
            failure: None,
        }
    }

    /// Hashes all bytes consumed from now on.
    pub fn hash_into(&mut self, hash: Arc<Mutex<XxHash3_128>>) {
        self.hash = Some(hash);
    }

    fn note(hash: Option<&Arc<Mutex<XxHash3_128>>>, bytes: &[u8]) {
        if let Some(hash) = hash {
            hash.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write(bytes);
        }
    }

    /// Bytes consumed so far.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Reads ahead until `want` bytes are buffered or the source ends; returns them without
    /// consuming.
    pub fn peek(&mut self, want: usize) -> io::Result<&[u8]> {
        let want = want.min(self.buffer.len());
        if self.start > 0 && self.buffer.len() - self.start < want {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < want {
            match self.file.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Bypasses the buffer when it is empty, so that large plain reads need no copy.
    pub fn read_direct(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start < self.end {
            let n = out.len().min(self.end - self.start);
            out[..n].copy_from_slice(&self.buffer[self.start..self.start + n]);
            self.consume(n);
            return Ok(n);
        }
        loop {
            match self.file.read(out) {
                Ok(n) => {
                    Self::note(self.hash.as_ref(), &out[..n]);
                    self.consumed += n as u64;
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Read for RawReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let input = self.fill_buf()?;
        let n = out.len().min(input.len());
        out[..n].copy_from_slice(&input[..n]);
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for RawReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.start = 0;
            self.end = loop {
                match self.file.read(&mut self.buffer) {
                    Ok(n) => break n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => {
                        self.end = 0;
                        let copy = e
                            .raw_os_error()
                            .map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
                        self.failure = Some(e);
                        return Err(copy);
                    }
                }
            };
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, amount: usize) {
        let amount = amount.min(self.end - self.start);
        Self::note(
            self.hash.as_ref(),
            &self.buffer[self.start..self.start + amount],
        );
        self.start += amount;
        self.consumed += amount as u64;
    }
}
