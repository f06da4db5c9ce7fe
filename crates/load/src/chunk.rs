//! Chunks: runs of rows of one table that are written in one transaction.
//!
//! Rows are not copied between the input and a writer's encoder. A [`Piece`] of a stream points
//! into a shared [`Block`], which returns to its [`BlockPool`] with the last piece. A piece of a
//! plain file is only a range of that file, read by the worker that writes it, so the conductor can
//! run ahead of the workers through a dump of any size.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use refloat_schema::columns::Layout;
use refloat_source::blocks::Block;
use refloat_source::tuples;
use refloat_sqltext::InsertHeader;

use super::form::Form;
use super::marks::Digest;
use super::session::Session;
use super::table::Table;

/// Memory that a queued piece takes besides its text, including the unused capacity of the queue.
const PIECE_COST: usize = 256;
/// Where the text of a piece is.
#[derive(Debug, Clone)]
enum Place {
    Block(Arc<Block>, Range<usize>),
    /// A range of the dump's file that starts at the piece's offset; the number is its length.
    File(Arc<PlainFile>, usize),
}

/// A file that workers read themselves.
#[derive(Debug)]
pub struct PlainFile {
    path: PathBuf,
    /// The open file of a single-file dump; the files of a folder are opened for each read.
    file: Option<File>,
    /// Size and modification time when the load began.
    stamp: Stamp,
}

/// Size and modification time of a file.
pub type Stamp = (u64, Option<SystemTime>);

impl PlainFile {
    /// A file that stays open.
    pub fn open(file: File, path: &Path) -> io::Result<Self> {
        let stamp = stamp(&file)?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
            stamp,
        })
    }

    /// A file that is opened for each read.
    pub fn on_demand(path: &Path) -> io::Result<Self> {
        let stamp = stamp(&File::open(path)?)?;
        Ok(Self {
            path: path.to_owned(),
            file: None,
            stamp,
        })
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if let Some(file) = &self.file {
            return file.read_exact_at(buffer, offset);
        }
        let file = File::open(&self.path)?;
        if stamp(&file)? != self.stamp {
            return Err(io::Error::other("the file was changed while it was loaded"));
        }
        file.read_exact_at(buffer, offset)
    }

    /// How the file differs from what it was at first; `None` when it is unchanged.
    pub fn change(&self) -> io::Result<Option<String>> {
        let now = match &self.file {
            Some(file) => stamp(file)?,
            None => stamp(&File::open(&self.path)?)?,
        };
        Ok(if self.stamp.0 != now.0 {
            Some(format!("it had {} bytes and has {}", self.stamp.0, now.0))
        } else if self.stamp.1 != now.1 {
            Some("it was written to".to_owned())
        } else {
            None
        })
    }
}

fn stamp(file: &File) -> io::Result<Stamp> {
    let meta = file.metadata()?;
    Ok((meta.len(), meta.modified().ok()))
}

/// A run of complete rows: tuples `(…),(…)` of one `INSERT` or `REPLACE`, or lines of delimited
/// text.
#[derive(Debug, Clone)]
pub struct Piece {
    place: Place,
    /// The file it comes from, for messages.
    pub source: Arc<str>,
    /// Number of rows.
    pub rows: u64,
    /// Byte of the decompressed dump where its first row begins.
    pub offset: u64,
    /// Line of the dump where its first row begins, from 1.
    pub line: u64,
    /// Identifies its rows when the load is resumed.
    pub digest: Digest,
    /// Whether rows of the table between the previous piece and this one are skipped, because they
    /// are already in the table.
    pub after_gap: bool,
}

impl Piece {
    /// A piece of a block in memory.
    pub fn in_memory(
        source: &Arc<str>,
        block: Arc<Block>,
        range: Range<usize>,
        rows: u64,
        offset: u64,
        line: u64,
    ) -> Self {
        Self {
            place: Place::Block(block, range),
            source: Arc::clone(source),
            rows,
            offset,
            line,
            digest: Digest::None,
            after_gap: false,
        }
    }

    /// A piece of a plain file, `len` bytes from `offset`.
    pub fn in_file(
        source: &Arc<str>,
        file: Arc<PlainFile>,
        len: usize,
        rows: u64,
        offset: u64,
        line: u64,
    ) -> Self {
        Self {
            place: Place::File(file, len),
            source: Arc::clone(source),
            rows,
            offset,
            line,
            digest: Digest::None,
            after_gap: false,
        }
    }

    /// The piece, with the hash of its `text`.
    pub fn hashed(mut self, text: &[u8]) -> Self {
        self.digest = Digest::Whole(super::marks::whole(text));
        self
    }

    /// A piece of only some of its rows, and their range in `text`. `bounds` are all its rows in
    /// `text`, `which` are the indexes of the ones to take.
    pub fn part(
        &self,
        text: &[u8],
        bounds: &[Range<usize>],
        which: Range<usize>,
    ) -> (Self, Range<usize>) {
        let rows = which.len() as u64;
        let after_gap = self.after_gap && which.start == 0;
        let range = bounds[which.start].start..bounds[which.end - 1].end;
        let digest = self.digest.of_rows(text, bounds, which, self.offset);
        let line = self.line + memchr::memchr_iter(b'\n', &text[..range.start]).count() as u64;
        let offset = self.offset + range.start as u64;
        let place = match &self.place {
            Place::Block(block, whole) => Place::Block(
                Arc::clone(block),
                whole.start + range.start..whole.start + range.end,
            ),
            Place::File(file, _) => Place::File(Arc::clone(file), range.len()),
        };
        let part = Self {
            place,
            source: Arc::clone(&self.source),
            rows,
            offset,
            line,
            digest,
            after_gap,
        };
        (part, range)
    }

    /// The rows without the comma or delimiter that follows; read into `buffer` unless they are in
    /// memory.
    pub fn text<'a>(&'a self, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        match &self.place {
            Place::Block(block, range) => Ok(&block[range.clone()]),
            Place::File(file, len) => {
                if buffer.len() < *len {
                    buffer.resize(*len, 0);
                }
                file.read_exact_at(&mut buffer[..*len], self.offset)?;
                Ok(&buffer[..*len])
            }
        }
    }

    /// Whether its text can be read again at any time.
    pub fn is_in_file(&self) -> bool {
        matches!(self.place, Place::File(..))
    }

    /// Bytes of dump text.
    pub fn len(&self) -> usize {
        match &self.place {
            Place::Block(_, range) => range.len(),
            Place::File(_, len) => *len,
        }
    }

    /// Bytes of memory that it holds: a dump of many small statements has many pieces.
    pub fn held(&self) -> usize {
        PIECE_COST
            + match &self.place {
                Place::Block(..) => self.len(),
                Place::File(..) => 0,
            }
    }
}

/// What writing rows takes besides their text.
#[derive(Debug, Clone)]
pub struct Head {
    pub table: Arc<Table>,
    /// The dump's session state at these rows.
    pub session: Arc<Session>,
    /// Verb, columns and verbatim head of the statements.
    pub header: Arc<InsertHeader>,
    /// The form that the rows come in.
    pub form: Form,
}

impl Head {
    /// Whether rows with the other head can go into the same statements.
    pub fn joins(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
            && Arc::ptr_eq(&self.session, &other.session)
            && (Arc::ptr_eq(&self.header, &other.header) || self.header.text == other.header.text)
            && self.form.joins(&other.form)
    }

    /// Character set of the rows' text; `binary` when each value is in its column's character set.
    pub fn charset(&self) -> &str {
        self.form
            .delimited()
            .map_or_else(|| self.session.charset(), |rows| &rows.charset)
    }
}

/// What one transaction writes: pieces of one table with one head.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// What all its rows have in common.
    pub head: Head,
    pub pieces: Vec<Piece>,
    /// Bytes of dump text in all pieces.
    pub bytes: usize,
    /// Bytes of memory that the pieces hold.
    pub held: usize,
    /// Rows in all pieces.
    pub rows: u64,
    /// Its number among the chunks of its table, from 0, in the order of the dump.
    pub number: usize,
    /// Rows in the chunks of its table before it.
    pub before: u64,
}

impl Chunk {
    /// The rows in `text` as `(…),(…)`; `converted` is the buffer for rows that must be converted.
    ///
    /// # Errors
    /// As [`tuples::append`].
    pub fn tuples<'a>(
        &self,
        layout: &Layout,
        text: &'a [u8],
        converted: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], String> {
        let Some(rows) = self.form.delimited() else {
            return Ok(text);
        };
        let targets = layout
            .targets(self.header.columns.as_deref())
            .unwrap_or_default();
        tuples::append(rows, text, layout, &targets, converted)?;
        Ok(converted)
    }

    pub fn new(head: Head) -> Self {
        Self {
            head,
            pieces: Vec::new(),
            bytes: 0,
            held: 0,
            rows: 0,
            number: 0,
            before: 0,
        }
    }

    pub fn push(&mut self, piece: Piece) {
        self.bytes += piece.len();
        self.held += piece.held();
        self.rows += piece.rows;
        self.pieces.push(piece);
    }
}

impl std::ops::Deref for Chunk {
    type Target = Head;
    fn deref(&self) -> &Head {
        &self.head
    }
}
