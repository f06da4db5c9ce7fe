//! Ways of writing the rows of a chunk into the server.
//!
//! A [`ChunkWriter`] turns a chunk into the server's own form and sends it, within the transaction that its caller has begun. It
//! says how many rows the server took, or why it did not; it commits nothing. Rows that it has no form for it sends as the
//! dump's own text, so every writer can write every chunk.

mod bulk;
mod computed;
mod empty_enum;
mod load_data;
mod text;

pub use bulk::{BulkWriter, PACKET_TARGET};
pub use load_data::LoadDataWriter;
pub use text::TextWriter;

use refloat_sqltext::InsertVerb;

use super::chunk::Chunk;
use super::error::LoadError;
use super::link::Link;
use super::options::WritePath;

/// Warnings that a session can keep and a statement can count.
const WARNINGS_MAX: u64 = 65_535;

/// One way of writing rows.
pub trait ChunkWriter {
    /// Writes all rows of `chunk`, in the transaction that `link` is in.
    ///
    /// # Errors
    /// [`Attempt`] says why; the caller rolls back.
    fn write(&mut self, link: &mut Link, chunk: &Chunk) -> Result<Written, Attempt>;
}

/// The writers of one connection.
#[derive(Default)]
pub struct Writers {
    bulk: BulkWriter,
    load_data: LoadDataWriter,
    text: TextWriter,
}

impl Writers {
    /// The writer of a path.
    pub fn by(&mut self, path: WritePath) -> &mut dyn ChunkWriter {
        match path {
            WritePath::Bulk => &mut self.bulk,
            WritePath::LoadData => &mut self.load_data,
            WritePath::Insert | WritePath::Auto => &mut self.text,
        }
    }
}

/// Rows that an attempt has written.
#[derive(Debug, Default, Clone, Copy)]
pub struct Written {
    /// Rows stored.
    pub rows: u64,
    /// Rows that `INSERT IGNORE` left out.
    pub ignored: u64,
    /// Of the rows stored, those whose text was sent as it stands in the source.
    pub as_it_stands: u64,
}

impl Written {
    /// What a statement with `rows` rows has written that says `affected`.
    pub fn by(verb: InsertVerb, rows: u64, affected: u64) -> Self {
        match verb {
            InsertVerb::Insert => Self {
                rows: affected,
                ..Self::default()
            },
            InsertVerb::InsertIgnore => Self {
                rows: affected,
                ignored: rows.saturating_sub(affected),
                ..Self::default()
            },
            // A replaced row counts twice in affected_rows; how many are left is counted at the end.
            InsertVerb::Replace => Self {
                rows,
                ..Self::default()
            },
        }
    }

    /// Adds what another statement has written.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.ignored += other.ignored;
        self.as_it_stands += other.as_it_stands;
    }
}

/// Why an attempt failed.
pub enum Attempt {
    /// The server or the connection failed.
    Wire(refloat_wire::Error),
    /// The server took the rows but not as they were: rows skipped or warnings given. Nothing is committed.
    NotExact(String),
    /// The dump's file could not be read again.
    Source {
        /// The file.
        file: String,
        /// Byte of it.
        offset: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// A row is larger than a packet may be.
    RowTooLarge {
        /// Bytes needed.
        size: usize,
    },
    /// The first rows would not be stored as the dump has them.
    Otherwise(Box<LoadError>),
}

impl From<refloat_wire::Error> for Attempt {
    fn from(error: refloat_wire::Error) -> Self {
        Self::Wire(error)
    }
}
