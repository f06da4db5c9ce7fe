//! Rows as the dump's own `INSERT` text.

use std::time::Instant;

use refloat_sqltext::InsertVerb;

use super::{Attempt, Worker, Written};
use crate::load::chunk::{Chunk, Piece};

impl Worker {
    /// Sends every piece as a statement.
    pub(super) fn write_text(&mut self, chunk: &Chunk) -> Result<Written, Attempt> {
        let mut total = Written::default();
        for piece in &chunk.pieces {
            total.add(self.insert_rest(chunk, piece, 0, piece.rows)?);
        }
        Ok(total)
    }

    /// Sends the rows of a piece from byte `at` on.
    pub(super) fn insert_rest(&mut self, chunk: &Chunk, piece: &Piece, at: usize, rows: u64) -> Result<Written, Attempt> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = Self::read_piece(piece, &mut buffer).and_then(|text| self.insert_text(chunk, piece, &text[at..], rows));
        self.buffer = buffer;
        written
    }

    /// Sends `rows` (tuples of `piece`) as one statement.
    pub(super) fn insert_text(&mut self, chunk: &Chunk, piece: &Piece, rows: &[u8], row_count: u64) -> Result<Written, Attempt> {
        let head = &chunk.header.text;
        let size = head.len() + rows.len() + 1;
        if size > self.conn.max_allowed_packet() {
            if row_count > 1 {
                return self.insert_halves(chunk, piece, rows);
            }
            return Err(Attempt::RowTooLarge { offset: piece.offset, line: piece.line, size });
        }
        self.text.clear();
        self.text.extend_from_slice(head);
        self.text.extend_from_slice(rows);
        let waiting = Instant::now();
        let ok = self.conn.exec(&self.text)?;
        self.ctx.note_server_wait(waiting);
        self.ctx.judge(&mut self.conn, &chunk.table, chunk.header.verb, &ok)?;
        Ok(match chunk.header.verb {
            InsertVerb::Insert => Written { rows: ok.affected_rows, ignored: 0 },
            InsertVerb::InsertIgnore => {
                Written { rows: ok.affected_rows, ignored: row_count.saturating_sub(ok.affected_rows) }
            }
            // A replaced row counts twice in affected_rows; how many are left is counted at the end.
            InsertVerb::Replace => Written { rows: row_count, ignored: 0 },
        })
    }

    fn insert_halves(&mut self, chunk: &Chunk, piece: &Piece, rows: &[u8]) -> Result<Written, Attempt> {
        let mut total = Written::default();
        for (range, count) in super::diagnose::halves(rows, chunk.session.lex_mode()) {
            let written = self.insert_text(chunk, piece, &rows[range], count)?;
            total.add(written);
        }
        Ok(total)
    }
}
