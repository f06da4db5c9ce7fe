//! A stream as a sequence of operations.

use std::io::Read;

use crate::catalogue::{Catalogue, Effect, Gone};
use crate::chunk::{Body, Chunks};
use crate::operation::Ignored;
use crate::path::as_path;
use crate::{Dialect, Error, Operation, Problem};

/// Reads a stream from anything that yields bytes, such as a pipe.
///
/// Memory: one piece, which is [`crate::CHUNK_LIMIT`] at most and 10 MiB in streams of the tools,
/// and an entry for each file. The reader buffers by itself.
#[derive(Debug)]
pub struct Reader<R> {
    chunks: Chunks<R>,
    catalogue: Catalogue,
    pending: Pending,
    /// Path of the file or folder that goes, of several.
    removed: Box<[u8]>,
}

/// What comes before the next chunk is read.
#[derive(Debug)]
enum Pending {
    Nothing,
    /// The chunk was read, and began a file.
    Chunk(Body),
    /// The chunk was read, and removes these, the last one first.
    Removals(Vec<Gone>),
    Finished,
    Failed,
}

impl<R: Read> Reader<R> {
    /// A reader of a stream that tools of `dialect` wrote.
    pub fn new(input: R, dialect: Dialect) -> Self {
        Self {
            chunks: Chunks::new(input, dialect),
            catalogue: Catalogue::new(),
            pending: Pending::Nothing,
            removed: Box::default(),
        }
    }

    /// The files that were sent so far; after the end, the files of the backup.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Reads the next operation. None when the stream has ended and is whole.
    ///
    /// # Errors
    /// [`Error`] where the stream is damaged, incomplete or hostile. What was read before stands,
    /// but the stream is of no use: all further calls fail.
    pub fn read(&mut self) -> Result<Option<Operation<'_>>, Error> {
        match std::mem::replace(&mut self.pending, Pending::Failed) {
            Pending::Chunk(body) => {
                self.pending = Pending::Nothing;
                Ok(Some(self.operation(body)))
            }
            Pending::Removals(gone) => Ok(self.removal(gone)),
            Pending::Finished => {
                self.pending = Pending::Finished;
                Ok(None)
            }
            Pending::Failed => Err(self.chunks.error(Problem::Failed)),
            Pending::Nothing => self.chunk(),
        }
    }

    fn chunk(&mut self) -> Result<Option<Operation<'_>>, Error> {
        let Some(body) = self.chunks.next()? else {
            self.catalogue.finish(self.chunks.at)?;
            self.pending = Pending::Finished;
            return Ok(None);
        };
        let chunks = &self.chunks;
        let length = chunks.bytes().len() as u64;
        let effect = self
            .catalogue
            .take(&chunks.path, body, length, &chunks.map, &chunks.to)
            .map_err(|problem| chunks.error(problem))?;
        self.pending = Pending::Nothing;
        if let Effect::Removes(gone) = effect {
            return Ok(self.removal(gone));
        }
        let path = as_path(&self.chunks.path);
        Ok(Some(match effect {
            Effect::Continues | Effect::Removes(_) => self.operation(body),
            Effect::Opens => {
                self.pending = Pending::Chunk(body);
                Operation::Open { path }
            }
            Effect::Rewrites => {
                self.pending = Pending::Chunk(body);
                Operation::Rewrite { path }
            }
            Effect::Ignored(why) => Operation::Ignored { path, why },
        }))
    }

    fn operation(&self, body: Body) -> Operation<'_> {
        let path = as_path(&self.chunks.path);
        let bytes = self.chunks.bytes();
        match body {
            Body::Data { offset, .. } => Operation::Data {
                path,
                offset,
                bytes,
            },
            Body::Sparse { offset } => {
                let map = &self.chunks.map;
                Operation::Sparse {
                    path,
                    offset,
                    map,
                    bytes,
                }
            }
            Body::Seek { offset } => Operation::Seek { path, offset },
            Body::End => Operation::End { path },
            Body::Rename => {
                let to = as_path(&self.chunks.to);
                Operation::Rename { from: path, to }
            }
            Body::Remove => Operation::Remove { path },
            Body::Unknown { kind } => {
                let length = bytes.len() as u64;
                Operation::Ignored {
                    path,
                    why: Ignored::UnknownType { kind, length },
                }
            }
        }
    }

    fn removal(&mut self, mut gone: Vec<Gone>) -> Option<Operation<'_>> {
        let next = gone.pop()?;
        self.pending = if gone.is_empty() {
            Pending::Nothing
        } else {
            Pending::Removals(gone)
        };
        Some(match next {
            Gone::File(path) => {
                self.removed = path;
                let path = as_path(&self.removed);
                Operation::Remove { path }
            }
            Gone::Folder(path) => {
                self.removed = path;
                let path = as_path(&self.removed);
                Operation::RemoveFolder { path }
            }
        })
    }
}
