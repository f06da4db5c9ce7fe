//! Rows: into chunks and to the workers, or onto the control connection where only it can know their values.

use std::sync::Arc;

use refloat_sqltext::{InsertHeader, InsertVerb, Item, ObjectName, RowsPiece};

use super::Conductor;
use super::registry::Touch;
use crate::load::chunk::{Block, Chunk, Piece};
use crate::load::error::LoadError;
use crate::load::options::{CHUNK_BYTES_MIN, IndexMode};
use crate::load::outcome::StatementFailure;
use crate::load::rows::{leaves_to_server, row_bounds};
use crate::load::session::Session;
use crate::load::worker::head;

/// Near the end of the dump chunks shrink, so that all workers end together: this many chunks per worker remain.
const TAIL_CHUNKS: u64 = 3;

impl Conductor<'_> {
    pub(super) fn rows(&mut self, block: &Arc<Block>, at: usize, item: &Item, rows: &RowsPiece) -> Result<(), LoadError> {
        let header = &rows.header;
        let name = ObjectName { database: header.database.clone(), name: header.table.clone() };
        let key = self.resolve(&name)?;
        if !self.wanted(&key) || self.leaves_out(&key.0)? {
            return Ok(());
        }
        let session = self.session()?;
        let range = at + rows.rows.start..at + rows.rows.end;
        let text = &block[range.clone()];
        if Self::is_system(&key.0) {
            self.touch(&key.0, Touch::Rows)?;
            return self.rows_on_control(None, header, text, item);
        }
        let index = match self.table_for_rows(&key) {
            Ok(index) => index,
            Err(LoadError::Server { source, .. }) if source.server_code().is_some() && !source.is_lost_connection() && !self.ctx.cancel.is_cancelled() => {
                // Above all: the table is not there, because its definition was refused and the load went on.
                return self.fail(StatementFailure {
                    line: item.line,
                    offset: Self::offset_of(item, rows),
                    head: head(&header.text),
                    code: source.server_code().unwrap_or(0),
                    message: source.to_string(),
                    table: Some(format!("{}.{}", key.0, key.1)),
                });
            }
            Err(error) => return Err(error),
        };
        if self.current != Some(index) {
            self.finish_current()?;
            self.current = Some(index);
            self.begin_rows(index, &session, header, text)?;
        }
        self.entries[index].session = Some(Arc::clone(&session));
        if rows.complex || self.control_only || self.has_postponed_trigger(&key) {
            self.finish_current()?;
            self.queue.wait_key(index)?;
            self.run_postponed_triggers(&key)?;
            return self.rows_on_control(Some(index), header, text, item);
        }
        let piece = Piece::new(Arc::clone(block), range, rows.row_count, Self::offset_of(item, rows), item.line);
        match self.ctx.options.chunk_rows {
            Some(limit) => self.add_exactly(index, &session, header, &piece, limit),
            None => self.add(index, &session, header, piece),
        }
    }

    /// Where the rows of this piece begin in the dump.
    fn offset_of(item: &Item, rows: &RowsPiece) -> u64 {
        item.offset + rows.rows.start.saturating_sub(item.text.start) as u64
    }

    /// Decides, by the first rows of a table, whether their order matters.
    fn begin_rows(&mut self, index: usize, session: &Session, header: &InsertHeader, text: &[u8]) -> Result<(), LoadError> {
        let entry = &mut self.entries[index];
        if header.verb == InsertVerb::Replace {
            entry.table.note_replaced();
        }
        let auto = entry.table.layout().and_then(|layout| {
            let column = layout.columns.iter().position(|column| column.auto_increment)?;
            let targets = layout.targets(header.columns.as_deref())?;
            Some(targets.iter().position(|&target| target == column))
        });
        let generates = match auto {
            None => false,
            Some(None) => true,
            Some(Some(position)) => {
                let zero_generates = !session.has_mode("NO_AUTO_VALUE_ON_ZERO");
                leaves_to_server(text, position, zero_generates, session.lex_mode())
            }
        };
        if generates {
            // The server's own numbers must not depend on how packets are cut: rows go as they stand.
            entry.ordered = true;
            entry.table.set_plain();
        }
        if header.verb != InsertVerb::Insert {
            entry.ordered = true;
            // Which rows are duplicates is decided by every unique key, so none of them may be missing.
            self.build_now(index)?;
            self.entries[index].decided = true;
        }
        Ok(())
    }

    /// Adds a piece to the open chunk, and hands the chunk to the workers when it is large enough.
    fn add(&mut self, index: usize, session: &Arc<Session>, header: &Arc<InsertHeader>, piece: Piece) -> Result<(), LoadError> {
        let table = Arc::clone(&self.entries[index].table);
        let joins = self.chunk.as_ref().is_none_or(|chunk| chunk.takes(&table, session, header));
        if !joins {
            self.decide(index)?;
            self.submit()?;
        }
        let chunk = self.chunk.get_or_insert_with(|| Chunk::new(table, Arc::clone(session), Arc::clone(header)));
        chunk.push(piece);
        let bytes = chunk.bytes;
        if !self.entries[index].decided {
            if bytes < self.ctx.options.defer_min_bytes {
                return Ok(());
            }
            self.decide(index)?;
        }
        if bytes >= self.chunk_target() {
            self.submit()?;
        }
        Ok(())
    }

    /// [`Conductor::add`] with exactly `limit` rows in every chunk.
    fn add_exactly(&mut self, index: usize, session: &Arc<Session>, header: &Arc<InsertHeader>, piece: &Piece, limit: u64) -> Result<(), LoadError> {
        let bounds = row_bounds(piece.text(), session.lex_mode());
        let mut from = 0;
        while from < bounds.len() {
            let filled = self.chunk.as_ref().map_or(0, |chunk| chunk.rows);
            let take = usize::try_from(limit.saturating_sub(filled)).unwrap_or(usize::MAX).clamp(1, bounds.len() - from);
            let part = piece.part(bounds[from].start..bounds[from + take - 1].end, take as u64);
            from += take;
            self.add(index, session, header, part)?;
            if self.chunk.as_ref().is_some_and(|chunk| chunk.rows >= limit) {
                self.decide(index)?;
                self.submit()?;
            }
        }
        Ok(())
    }

    /// Bytes that a chunk should have now.
    fn chunk_target(&self) -> usize {
        if self.ctx.options.chunk_rows.is_some() {
            return usize::MAX;
        }
        let size = self.ctx.chunk_size.current();
        match self.source_bytes {
            Some(total) if self.ctx.options.chunk_bytes.is_none() => {
                let left = total.saturating_sub(self.bytes);
                let share = left / (self.ctx.options.threads as u64 * TAIL_CHUNKS).max(1);
                size.min(usize::try_from(share).unwrap_or(usize::MAX).max(2 * CHUNK_BYTES_MIN))
            }
            _ => size,
        }
    }

    /// Decides whether the table's indexes are put off, once it is known to be large.
    fn decide(&mut self, index: usize) -> Result<(), LoadError> {
        if self.entries[index].decided {
            return Ok(());
        }
        self.entries[index].decided = true;
        let checked = self.session()?.foreign_key_checks();
        if self.ctx.options.indexes == IndexMode::Deferred || checked {
            self.defer(index)?;
        }
        Ok(())
    }

    /// Hands the open chunk to the workers.
    pub(super) fn submit(&mut self) -> Result<(), LoadError> {
        let Some(chunk) = self.chunk.take() else { return Ok(()) };
        if self.entries[chunk.table.id].ordered {
            self.queue.wait_key(chunk.table.id)?;
        }
        self.queue.submit(chunk)
    }

    /// No more rows of the current table are expected.
    pub(super) fn finish_current(&mut self) -> Result<(), LoadError> {
        if let Some(index) = self.current.take() {
            // A small child table whose foreign keys the dump's session checks: its parents may still be on their way.
            if !self.entries[index].decided && self.session()?.foreign_key_checks() {
                self.decide(index)?;
            }
        }
        self.submit()
    }

    /// Runs rows as they stand, on the control connection.
    fn rows_on_control(&mut self, index: Option<usize>, header: &InsertHeader, text: &[u8], item: &Item) -> Result<(), LoadError> {
        let mut statement = header.text.clone();
        statement.extend_from_slice(text);
        let Some(ok) = self.execute(&statement, item, None)? else { return Ok(()) };
        if let Some(index) = index {
            let rows = if header.verb == InsertVerb::Replace { 0 } else { ok.affected_rows };
            self.entries[index].table.committed(rows, text.len() as u64, 0);
            if header.verb == InsertVerb::Replace {
                self.entries[index].table.note_replaced();
            }
            self.ctx.note_chunk(crate::load::options::WritePath::Insert, rows, text.len() as u64);
        }
        Ok(())
    }
}
