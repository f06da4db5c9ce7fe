//! Writes streams that the tools extract.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use crc32fast::Hasher;

use crate::catalogue::{Catalogue, Effect};
use crate::chunk::{self, Body, MAGIC};
use crate::path::{self, as_bytes};
use crate::{CHUNK_LIMIT, Dialect, Error, Problem, Run};

/// Pieces have at most so many bytes, as those of the tools (`XB_STREAM_MIN_CHUNK_SIZE`).
const PIECE: usize = 10 << 20;

/// Writes a stream.
///
/// Small writes to a file are gathered into pieces as the tools gather them: a write that does not
/// leave room sends what was gathered, and then goes by itself. So mbstream that reads the same
/// files in the same blocks writes the same bytes. Memory: 10 MiB for each open file that has
/// that much. The output gets each chunk in one or two writes, small ones too: a
/// [`std::io::BufWriter`] helps where there are many small files.
///
/// What a [`crate::Reader`] would refuse is refused here already. After an error the stream is of
/// no use.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    dialect: Dialect,
    /// Bytes written so far.
    at: u64,
    open: HashMap<Box<[u8]>, Gathered>,
    catalogue: Catalogue,
}

#[derive(Debug, Default)]
struct Gathered {
    bytes: Vec<u8>,
    offset: u64,
    rewrite: bool,
    /// Has a chunk told that the file replaces another?
    marked: bool,
}

impl<W: Write> Writer<W> {
    /// A writer of a stream for tools of `dialect`.
    pub fn new(output: W, dialect: Dialect) -> Self {
        Self {
            output,
            dialect,
            at: 0,
            open: HashMap::new(),
            catalogue: Catalogue::new(),
        }
    }

    /// The files that were written so far.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Begins a new file. No file that is there already may have its path.
    pub fn create(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.begin(as_bytes(path.as_ref()), false)
    }

    /// Begins a file that replaces an older copy of it. `MariaDB`'s dialect only.
    pub fn rewrite(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = as_bytes(path.as_ref());
        self.only(Dialect::MariaDb, path)?;
        self.begin(path, true)
    }

    /// Adds bytes to a file that has begun.
    pub fn write(&mut self, path: impl AsRef<Path>, mut bytes: &[u8]) -> Result<(), Error> {
        let path = as_bytes(path.as_ref());
        let (name, mut file) = self.take(path)?;
        while file.bytes.len() + bytes.len() >= PIECE {
            self.send(path, &mut file)?;
            let (piece, rest) = bytes.split_at(bytes.len().min(PIECE));
            self.piece(path, &mut file, piece)?;
            bytes = rest;
        }
        file.bytes.extend_from_slice(bytes);
        self.open.insert(name, file);
        Ok(())
    }

    /// Adds pieces with holes to a file that has begun. Percona's dialect only.
    pub fn sparse(
        &mut self,
        path: impl AsRef<Path>,
        map: &[Run],
        bytes: &[u8],
    ) -> Result<(), Error> {
        let path = as_bytes(path.as_ref());
        self.only(Dialect::Percona, path)?;
        let length = bytes.len() as u64;
        let mapped = map.iter().map(|run| u64::from(run.length)).sum();
        if mapped != length {
            return Err(self.error(path, Problem::Map { mapped, length }));
        }
        let whole = length.saturating_add(map.len() as u64 * 8);
        if whole > CHUNK_LIMIT {
            return Err(self.error(path, Problem::TooLong { length: whole }));
        }
        let (name, mut file) = self.take(path)?;
        self.send(path, &mut file)?;
        let offset = file.offset;
        self.check(path, Body::Sparse { offset }, length, map, &[])?;
        let pairs: Vec<u8> = map
            .iter()
            .flat_map(|run| [run.skip.to_le_bytes(), run.length.to_le_bytes()])
            .flatten()
            .collect();
        let mut hasher = Hasher::new();
        hasher.update(&pairs);
        hasher.update(bytes);
        let mut head = head(0, chunk::SEEK_OR_SPARSE, path);
        head.extend_from_slice(&(map.len() as u32).to_le_bytes());
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(&offset.to_le_bytes());
        head.extend_from_slice(&hasher.finalize().to_le_bytes());
        head.extend_from_slice(&pairs);
        self.out(path, &head)?;
        self.out(path, bytes)?;
        let holes: u64 = map.iter().map(|run| u64::from(run.skip)).sum();
        file.offset += holes + length;
        self.open.insert(name, file);
        Ok(())
    }

    /// Goes to another offset in a file that has begun. `MariaDB`'s dialect only.
    pub fn seek(&mut self, path: impl AsRef<Path>, offset: u64) -> Result<(), Error> {
        let path = as_bytes(path.as_ref());
        self.only(Dialect::MariaDb, path)?;
        let (name, mut file) = self.take(path)?;
        self.send(path, &mut file)?;
        self.mark_replacement(path, &mut file)?;
        self.check(path, Body::Seek { offset }, 0, &[], &[])?;
        let mut head = head(0, chunk::SEEK_OR_SPARSE, path);
        head.extend_from_slice(&offset.to_le_bytes());
        self.out(path, &head)?;
        file.offset = offset;
        self.open.insert(name, file);
        Ok(())
    }

    /// Ends a file that has begun.
    pub fn end(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = as_bytes(path.as_ref());
        let (_, mut file) = self.take(path)?;
        self.send(path, &mut file)?;
        self.mark_replacement(path, &mut file)?;
        self.check(path, Body::End, 0, &[], &[])?;
        self.out(path, &head(0, chunk::END, path))
    }

    /// Gives another name to a file that has ended. `MariaDB`'s dialect only.
    pub fn rename(&mut self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), Error> {
        let (from, to) = (as_bytes(from.as_ref()), as_bytes(to.as_ref()));
        self.only(Dialect::MariaDb, from)?;
        path::check(to).map_err(|bad| self.error(to, Problem::Path(bad)))?;
        self.check(from, Body::Rename, 0, &[], to)?;
        let mut head = head(0, chunk::RENAME, from);
        head.extend_from_slice(&(to.len() as u32).to_le_bytes());
        head.extend_from_slice(to);
        self.out(from, &head)
    }

    /// Removes a file that has ended, or a folder. `MariaDB`'s dialect only.
    pub fn remove(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = as_bytes(path.as_ref());
        self.only(Dialect::MariaDb, path)?;
        self.check(path, Body::Remove, 0, &[], &[])?;
        self.out(path, &head(0, chunk::REMOVE, path))
    }

    /// Ends the stream: all is given to the output, which is returned.
    ///
    /// # Errors
    /// Also if a file has not ended, or there was none.
    pub fn finish(mut self) -> Result<W, Error> {
        self.catalogue.finish(self.at)?;
        let flushed = self.output.flush();
        flushed.map_err(|error| Error::without_path(self.at, Problem::Io(error)))?;
        Ok(self.output)
    }

    fn begin(&mut self, path: &[u8], rewrite: bool) -> Result<(), Error> {
        path::check(path).map_err(|bad| self.error(path, Problem::Path(bad)))?;
        let begun = match self.catalogue.begin(path, rewrite) {
            Ok(Effect::Continues) => Err(Problem::Twice),
            begun => begun,
        };
        begun.map_err(|problem| self.error(path, problem))?;
        let file = Gathered {
            rewrite,
            ..Gathered::default()
        };
        self.open.insert(path.into(), file);
        Ok(())
    }

    fn take(&mut self, path: &[u8]) -> Result<(Box<[u8]>, Gathered), Error> {
        let file = self.open.remove_entry(path);
        file.ok_or_else(|| self.error(path, Problem::NotBegun))
    }

    /// Sends what was gathered.
    fn send(&mut self, path: &[u8], file: &mut Gathered) -> Result<(), Error> {
        if file.bytes.is_empty() {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut file.bytes);
        self.piece(path, file, &bytes)?;
        bytes.clear();
        file.bytes = bytes;
        Ok(())
    }

    /// Only pieces tell that a file replaces another: where there was none, sends one of no bytes.
    ///
    /// mbstream takes an end alone for a new file, finds the old one and stops, with success.
    fn mark_replacement(&mut self, path: &[u8], file: &mut Gathered) -> Result<(), Error> {
        if file.rewrite && !file.marked {
            self.piece(path, file, &[])?;
        }
        Ok(())
    }

    fn piece(&mut self, path: &[u8], file: &mut Gathered, bytes: &[u8]) -> Result<(), Error> {
        let Gathered {
            offset, rewrite, ..
        } = *file;
        let length = bytes.len() as u64;
        self.check(path, Body::Data { offset, rewrite }, length, &[], &[])?;
        let flags = if rewrite { chunk::REWRITE } else { 0 };
        let mut head = head(flags, chunk::DATA, path);
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(&offset.to_le_bytes());
        head.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
        self.out(path, &head)?;
        self.out(path, bytes)?;
        file.offset += length;
        file.marked = true;
        Ok(())
    }

    fn only(&self, dialect: Dialect, path: &[u8]) -> Result<(), Error> {
        if self.dialect == dialect {
            return Ok(());
        }
        Err(self.error(path, Problem::Dialect(self.dialect)))
    }

    fn check(
        &mut self,
        path: &[u8],
        body: Body,
        length: u64,
        map: &[Run],
        to: &[u8],
    ) -> Result<(), Error> {
        path::check(path).map_err(|bad| self.error(path, Problem::Path(bad)))?;
        let taken = self.catalogue.take(path, body, length, map, to);
        taken
            .map(|_| ())
            .map_err(|problem| self.error(path, problem))
    }

    fn out(&mut self, path: &[u8], bytes: &[u8]) -> Result<(), Error> {
        self.output
            .write_all(bytes)
            .map_err(|error| self.error(path, Problem::Io(error)))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn error(&self, path: &[u8], problem: Problem) -> Error {
        Error::new(self.at, path, problem)
    }
}

fn head(flags: u8, kind: u8, path: &[u8]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&[flags, kind]);
    head.extend_from_slice(&(path.len() as u32).to_le_bytes());
    head.extend_from_slice(path);
    head
}
