//! Ways of writing the rows of a chunk to the server.
//!
//! A [`ChunkWriter`] encodes a chunk in a form that the server takes and sends it within its
//! caller's transaction. It returns how many rows the server took, or why it took none; it commits
//! nothing. Rows that cannot be expressed in its form go as the dump's own text, so every writer
//! can write every chunk.

mod attempt;
mod bulk;
mod computed;
mod empty_enum;
mod ignored;
mod load_data;
mod text;

use attempt::MORE_WARNINGS;
pub use attempt::{Attempt, Written};
pub use bulk::{BulkWriter, PACKET_TARGET};
pub use load_data::LoadDataWriter;
pub use text::TextWriter;

use super::chunk::Chunk;
use super::link::Link;
use super::options::WritePath;

/// Most warnings that a session can keep and a statement can count.
const WARNINGS_MAX: u64 = 65_535;

/// One way of writing rows.
pub trait ChunkWriter {
    /// Writes all rows of `chunk` in the current transaction of `link`.
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
    /// The writer for a path.
    pub fn by(&mut self, path: WritePath) -> &mut dyn ChunkWriter {
        match path {
            WritePath::Bulk => &mut self.bulk,
            WritePath::LoadData => &mut self.load_data,
            WritePath::Insert | WritePath::Auto | WritePath::Tablespace => &mut self.text,
        }
    }
}
