//! Ways of writing the rows of a chunk into the server.
//!
//! A [`ChunkWriter`] turns a chunk into the server's own form and sends it, within the transaction that its caller has begun. It
//! says how many rows the server took, or why it did not; it commits nothing. Rows that it has no form for it sends as the
//! dump's own text, so every writer can write every chunk.

mod attempt;
mod bulk;
mod computed;
mod empty_enum;
mod load_data;
mod text;

pub use attempt::{Attempt, Written};
pub use bulk::{BulkWriter, PACKET_TARGET};
pub use load_data::LoadDataWriter;
pub use text::TextWriter;

use super::chunk::Chunk;
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
