//! Chunks, as they stand in a stream, each by itself.

use std::io::{BufReader, ErrorKind, Read};

use crc32fast::Hasher;

use crate::path::{self, PATH_LIMIT};
use crate::{BadPath, Dialect, Error, Problem, Run};

pub(crate) const MAGIC: &[u8; 8] = b"XBSTCK01";
/// Magic, flags, type, length of the path.
const HEAD: usize = 14;

/// The chunk may be ignored by who does not know its type.
const IGNORABLE: u8 = 0x01;
/// The file replaces an older copy (`MariaDB`), or is to be one object (Percona).
pub(crate) const REWRITE: u8 = 0x02;

pub(crate) const DATA: u8 = b'P';
pub(crate) const END: u8 = b'E';
/// `Seek` of `MariaDB`, `Sparse` of Percona.
pub(crate) const SEEK_OR_SPARSE: u8 = b'S';
pub(crate) const RENAME: u8 = b'R';
pub(crate) const REMOVE: u8 = b'D';

/// Longest piece with its map of holes, in bytes. The tools write 10 MiB at most, and read any.
pub const CHUNK_LIMIT: u64 = 64 << 20;

/// What is read and hashed at a time, in bytes: it stays in the processor's cache between the two.
const PIECE: usize = 128 << 10;

/// Small reads are made of this, in bytes. Larger ones go past it.
const BUFFER: usize = 64 << 10;

/// What a chunk says. Its path, bytes, map and new name are kept by [`Chunks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Data { offset: u64, rewrite: bool },
    Sparse { offset: u64 },
    Seek { offset: u64 },
    End,
    Rename,
    Remove,
    Unknown { kind: u8 },
}

#[derive(Debug)]
pub(crate) struct Chunks<R> {
    input: BufReader<R>,
    dialect: Dialect,
    /// Where the input is, in bytes.
    here: u64,
    /// Where the current chunk begins.
    pub at: u64,
    pub path: Vec<u8>,
    /// New name, of `Rename`.
    pub to: Vec<u8>,
    pub map: Vec<Run>,
    data: Vec<u8>,
    length: usize,
}

impl<R: Read> Chunks<R> {
    pub fn new(input: R, dialect: Dialect) -> Self {
        Self {
            input: BufReader::with_capacity(BUFFER, input),
            dialect,
            here: 0,
            at: 0,
            path: Vec::new(),
            to: Vec::new(),
            map: Vec::new(),
            data: Vec::new(),
            length: 0,
        }
    }

    /// The bytes of the current chunk.
    pub fn bytes(&self) -> &[u8] {
        &self.data[..self.length]
    }

    /// The error of the current chunk.
    pub fn error(&self, problem: Problem) -> Error {
        Error::new(self.at, &self.path, problem)
    }

    /// Reads the next chunk. None at the end of the input.
    pub fn next(&mut self) -> Result<Option<Body>, Error> {
        self.at = self.here;
        self.length = 0;
        let mut head = [0; HEAD];
        if !self.first(&mut head[..1])? {
            return Ok(None);
        }
        self.fill(&mut head[1..], false)?;
        let plain = |problem| Error::without_path(self.at, problem);
        if head[..8] != *MAGIC {
            return Err(plain(Problem::Magic));
        }
        let (flags, kind) = (head[8], head[9]);
        let length = u32::from_le_bytes([head[10], head[11], head[12], head[13]]);
        if length as usize >= PATH_LIMIT {
            return Err(plain(Problem::Path(BadPath::TooLong)));
        }
        let mut name = std::mem::take(&mut self.path);
        name.resize(length as usize, 0);
        self.fill(&mut name, false)?;
        self.path = name;
        path::check(&self.path).map_err(|bad| self.error(Problem::Path(bad)))?;
        if flags & !(IGNORABLE | REWRITE) != 0 {
            return Err(self.error(Problem::UnknownFlags { flags }));
        }
        self.body(flags, kind).map(Some)
    }

    fn body(&mut self, flags: u8, kind: u8) -> Result<Body, Error> {
        let mariadb = self.dialect == Dialect::MariaDb;
        let rewrite = mariadb && flags & REWRITE != 0;
        match kind {
            DATA => {
                let offset = self.data()?;
                Ok(Body::Data { offset, rewrite })
            }
            END => Ok(Body::End),
            SEEK_OR_SPARSE if mariadb => {
                let offset = self.number()?;
                Ok(Body::Seek { offset })
            }
            SEEK_OR_SPARSE => {
                let offset = self.sparse()?;
                Ok(Body::Sparse { offset })
            }
            RENAME if mariadb => self.new_name(),
            REMOVE if mariadb => Ok(Body::Remove),
            kind if flags & IGNORABLE != 0 => {
                self.data()?;
                Ok(Body::Unknown { kind })
            }
            kind => Err(self.error(Problem::UnknownType { kind })),
        }
    }

    /// Length, offset, checksum, bytes.
    fn data(&mut self) -> Result<u64, Error> {
        let (length, offset) = (self.number()?, self.number()?);
        let expected = self.small_number()?;
        self.limit(length)?;
        let mut hasher = Hasher::new();
        self.payload(length, &mut hasher)?;
        self.verify(expected, hasher)?;
        Ok(offset)
    }

    /// Pairs, length, offset, checksum, map, bytes.
    fn sparse(&mut self) -> Result<u64, Error> {
        let pairs = u64::from(self.small_number()?);
        let (length, offset) = (self.number()?, self.number()?);
        let expected = self.small_number()?;
        self.limit(length.saturating_add(pairs * 8))?;
        let mut hasher = Hasher::new();
        self.payload(pairs * 8, &mut hasher)?;
        self.map.clear();
        let (pairs, _) = self.data[..self.length].as_chunks::<8>();
        self.map.extend(pairs.iter().map(|pair| {
            let pair = u64::from_le_bytes(*pair);
            let (skip, length) = (pair as u32, (pair >> 32) as u32);
            Run { skip, length }
        }));
        self.payload(length, &mut hasher)?;
        self.verify(expected, hasher)?;
        let mapped = self.map.iter().map(|run| u64::from(run.length)).sum();
        if mapped != length {
            return Err(self.error(Problem::Map { mapped, length }));
        }
        Ok(offset)
    }

    fn new_name(&mut self) -> Result<Body, Error> {
        let length = self.small_number()? as usize;
        if length >= PATH_LIMIT {
            return Err(self.error(Problem::Path(BadPath::TooLong)));
        }
        let mut name = std::mem::take(&mut self.to);
        name.resize(length, 0);
        self.fill(&mut name, true)?;
        self.to = name;
        path::check(&self.to).map_err(|bad| Error::new(self.at, &self.to, Problem::Path(bad)))?;
        Ok(Body::Rename)
    }

    fn limit(&self, length: u64) -> Result<(), Error> {
        if length > CHUNK_LIMIT {
            return Err(self.error(Problem::TooLong { length }));
        }
        Ok(())
    }

    /// Reads so many bytes into the buffer, which grows as they arrive, not as they are announced.
    fn payload(&mut self, length: u64, hasher: &mut Hasher) -> Result<(), Error> {
        let length = length as usize;
        let mut data = std::mem::take(&mut self.data);
        let mut done = 0;
        while done < length {
            let until = length.min(done + PIECE);
            if data.len() < until {
                data.resize(until, 0);
            }
            self.fill(&mut data[done..until], true)?;
            hasher.update(&data[done..until]);
            done = until;
        }
        self.data = data;
        self.length = length;
        Ok(())
    }

    fn verify(&self, expected: u32, hasher: Hasher) -> Result<(), Error> {
        let found = hasher.finalize();
        if found != expected {
            return Err(self.error(Problem::Checksum { expected, found }));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes, true)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn small_number(&mut self) -> Result<u32, Error> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes, true)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Is there another byte?
    fn first(&mut self, byte: &mut [u8]) -> Result<bool, Error> {
        loop {
            match self.input.read(byte) {
                Ok(0) => return Ok(false),
                Ok(_) => {
                    self.here += 1;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::without_path(self.here, Problem::Io(error))),
            }
        }
    }

    /// Reads exactly this much. `named`: the path of the chunk is known.
    fn fill(&mut self, buffer: &mut [u8], named: bool) -> Result<(), Error> {
        match self.input.read_exact(buffer) {
            Ok(()) => {
                self.here += buffer.len() as u64;
                Ok(())
            }
            Err(error) => {
                let problem = match error.kind() {
                    ErrorKind::UnexpectedEof => Problem::Cut,
                    _ => Problem::Io(error),
                };
                let path = named.then(|| self.path.escape_ascii().to_string());
                Err(Error {
                    at: self.at,
                    path,
                    problem,
                })
            }
        }
    }
}
