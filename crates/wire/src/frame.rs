//! Reads and writes packets on a byte stream.
//!
//! A packet is a three-byte length, a sequence byte, and the payload. A payload of 16 MiB - 1 bytes
//! continues in the next packet; if it ends exactly there, an empty packet follows. See "MySQL
//! Packets" in the vendors' protocol documentation.

use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::time::Duration;

/// Longest payload of one packet: all three length bytes set.
pub(crate) const MAX_PAYLOAD: usize = 0xff_ff_ff;
/// Bytes before each payload.
const HEADER: usize = 4;
/// Initial size of the read buffer: large enough for few read calls, small enough for the L2 cache.
const READ_BUFFER: usize = 256 << 10;
/// A buffer that a long packet has grown beyond this is shrunk once it is empty.
const KEEP_BUFFER: usize = 4 << 20;

/// An answer longer than this is a large result, so a delay before the next row does no harm.
const LONG_ANSWER: usize = 1 << 20;
/// Delay before the next read call within a long answer. Servers send 16 KiB at a time. A thread
/// that reads faster than the server sends wakes up for each of these writes, which costs both
/// sides a tenth of their CPU time. Sockets buffer some 200 KiB meanwhile, so nothing stalls.
const GATHER: Duration = Duration::from_micros(300);
/// After a read call that returned this much there is no delay: the server is the faster side.
const GATHERED: usize = READ_BUFFER / 2;

/// Why a packet could not be read.
#[derive(Debug)]
pub(crate) enum FrameError {
    Io(io::Error),
    Sequence { expected: u8, found: u8 },
    TooLong { limit: usize },
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Location of the last packet's payload.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Buffer(Range<usize>),
    Joined,
}

/// A byte stream that carries packets.
#[derive(Debug)]
pub(crate) struct Framed<S> {
    pub(crate) io: S,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// A payload reassembled from several packets.
    joined: Vec<u8>,
    sequence: u8,
    /// Bytes read since the last send.
    answer: usize,
    /// Bytes returned by the last read call.
    brought: usize,
    /// Longest payload accepted from the server.
    pub(crate) limit: usize,
}

impl<S> Framed<S> {
    pub(crate) fn new(io: S, limit: usize) -> Self {
        Self {
            io,
            buffer: vec![0; READ_BUFFER],
            start: 0,
            end: 0,
            joined: Vec::new(),
            sequence: 0,
            answer: 0,
            brought: 0,
            limit,
        }
    }

    /// Number of bytes read but not yet used.
    pub(crate) fn buffered(&self) -> usize {
        self.end - self.start
    }

    /// Sequence number of the next packet, in either direction.
    pub(crate) fn sequence(&self) -> u8 {
        self.sequence
    }

    pub(crate) fn set_sequence(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// The payload that [`Framed::read`] located.
    pub(crate) fn payload(&self, place: &Place) -> &[u8] {
        match place {
            Place::Buffer(range) => &self.buffer[range.clone()],
            Place::Joined => &self.joined,
        }
    }
}

impl<S: Read> Framed<S> {
    /// Reads one payload, however many packets it spans. It stays valid until the next read.
    pub(crate) fn read(&mut self) -> Result<Place, FrameError> {
        let first = self.read_one()?;
        if first.len() < MAX_PAYLOAD {
            return Ok(Place::Buffer(first));
        }
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        joined.extend_from_slice(&self.buffer[first]);
        loop {
            let part = self.read_one()?;
            if joined.len() + part.len() > self.limit {
                return Err(FrameError::TooLong { limit: self.limit });
            }
            joined.extend_from_slice(&self.buffer[part.clone()]);
            if part.len() < MAX_PAYLOAD {
                break;
            }
        }
        self.joined = joined;
        Ok(Place::Joined)
    }

    fn read_one(&mut self) -> Result<Range<usize>, FrameError> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.buffer.len() > KEEP_BUFFER {
                self.buffer = vec![0; READ_BUFFER];
            }
            if self.joined.capacity() > KEEP_BUFFER {
                self.joined = Vec::new();
            }
        }
        self.fill(HEADER)?;
        let head = &self.buffer[self.start..self.start + HEADER];
        let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
        let found = head[3];
        if found != self.sequence {
            return Err(FrameError::Sequence {
                expected: self.sequence,
                found,
            });
        }
        if length > self.limit {
            return Err(FrameError::TooLong { limit: self.limit });
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.fill(HEADER + length)?;
        let from = self.start + HEADER;
        self.start = from + length;
        Ok(from..from + length)
    }

    /// Makes at least `need` bytes available at `start`.
    fn fill(&mut self, need: usize) -> io::Result<()> {
        if self.end - self.start >= need {
            return Ok(());
        }
        if self.start + need > self.buffer.len() || self.buffer.len() - self.end < GATHERED {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if need > self.buffer.len() {
                self.buffer.resize(need.next_multiple_of(READ_BUFFER), 0);
            }
        }
        while self.end - self.start < need {
            if self.answer > LONG_ANSWER && self.brought < GATHERED {
                std::thread::sleep(GATHER);
            }
            match self.io.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.end += n;
                    self.answer += n;
                    self.brought = n;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl<S: Write> Framed<S> {
    /// Sends `prefix` and `payload` as one payload, split into as many packets as needed. Copies
    /// neither.
    pub(crate) fn write(&mut self, prefix: &[u8], payload: &[u8]) -> io::Result<()> {
        self.answer = 0;
        let mut prefix = prefix;
        let mut payload = payload;
        loop {
            let length = (prefix.len() + payload.len()).min(MAX_PAYLOAD);
            let (now_prefix, later_prefix) = prefix.split_at(length.min(prefix.len()));
            let (now, later) = payload.split_at(length - now_prefix.len());
            let size = (length as u32).to_le_bytes();
            let head = [size[0], size[1], size[2], self.sequence];
            self.sequence = self.sequence.wrapping_add(1);
            let mut slices = [
                IoSlice::new(&head),
                IoSlice::new(now_prefix),
                IoSlice::new(now),
            ];
            write_all(&mut self.io, &mut slices)?;
            (prefix, payload) = (later_prefix, later);
            if length < MAX_PAYLOAD {
                break;
            }
        }
        self.io.flush()
    }
}

fn write_all<S: Write>(io: &mut S, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match io.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
