//! Writes rows into blocks of a stream.

use refloat_source::stream::{BLOCK_BYTES, RowStream};
use refloat_source::tsv;
use refloat_wire::Row;

use super::chunk::TELL_BYTES;
use super::error::DumpError;

/// Hands the rows of one range to the stream's consumer.
pub struct BlockWriter<'a> {
    stream: &'a RowStream,
    table: usize,
    text: Vec<u8>,
    rows: u64,
    /// Bytes of text not reported yet.
    untold: u64,
    /// Rows in the blocks sent so far.
    sent: u64,
}

impl<'a> BlockWriter<'a> {
    /// A writer for rows of the table at this index.
    pub fn new(stream: &'a RowStream, table: usize) -> Self {
        Self {
            stream,
            table,
            text: stream.pool.take(),
            rows: 0,
            untold: 0,
            sent: 0,
        }
    }

    /// Appends a row. Returns the bytes of text since the last report once they reach
    /// [`TELL_BYTES`], otherwise 0.
    pub fn row(&mut self, row: Row<'_>) -> Result<u64, DumpError> {
        let before = self.text.len();
        tsv::write_row(row.iter(), &mut self.text);
        self.rows += 1;
        self.untold += (self.text.len() - before) as u64;
        if self.text.len() >= BLOCK_BYTES {
            let next = self.stream.pool.take();
            self.send(next)?;
        }
        Ok(if self.untold >= TELL_BYTES {
            std::mem::take(&mut self.untold)
        } else {
            0
        })
    }

    /// Sends the rest. Returns the rows of all blocks, and the bytes of text not reported yet.
    pub fn finish(mut self) -> Result<(u64, u64), DumpError> {
        if self.rows > 0 {
            self.send(Vec::new())?;
        }
        Ok((self.sent, self.untold))
    }

    fn send(&mut self, next: Vec<u8>) -> Result<(), DumpError> {
        let text = std::mem::replace(&mut self.text, next);
        let rows = std::mem::take(&mut self.rows);
        self.stream
            .rows(self.table, text, rows)
            .map_err(|_closed| DumpError::NotWanted)?;
        self.sent += rows;
        Ok(())
    }
}
