//! Writes rows as the dump's own `INSERT` text.

use std::time::Instant;

use refloat_source::tuples;
use refloat_sqltext::InsertVerb;
use refloat_wire::{OkInfo, Vendor};

use super::{Attempt, ChunkWriter, Link, WARNINGS_MAX, Written};
use crate::chunk::{Chunk, Piece};

/// `ER_WARNING_NON_DEFAULT_VALUE_FOR_GENERATED_COLUMN`: the server computes the column and ignores
/// the dump's value.
const GENERATED_VALUE_IGNORED: u16 = 1906;

/// Bytes of a command before its text.
const COMMAND: usize = 1;

/// Sends every piece as a statement.
#[derive(Default)]
pub struct TextWriter;

impl ChunkWriter for TextWriter {
    fn write(&mut self, link: &mut Link, chunk: &Chunk) -> Result<Written, Attempt> {
        let mut total = Written::default();
        for piece in &chunk.pieces {
            total.add(link.insert_rest(chunk, piece, 0, piece.rows)?);
        }
        Ok(total)
    }
}

impl Link {
    /// Sends the rows of a piece from byte `at` on.
    pub(super) fn insert_rest(
        &mut self,
        chunk: &Chunk,
        piece: &Piece,
        at: usize,
        rows: u64,
    ) -> Result<Written, Attempt> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = Self::read_piece(piece, &mut buffer)
            .and_then(|text| self.insert_text(chunk, &text[at..], rows));
        self.buffer = buffer;
        written
    }

    /// Sends `rows`, in as many statements as the server's limits require.
    pub fn insert_text(
        &mut self,
        chunk: &Chunk,
        rows: &[u8],
        row_count: u64,
    ) -> Result<Written, Attempt> {
        let size = match self.insert_whole(chunk, rows, row_count) {
            Err(Attempt::RowTooLarge { size }) if row_count > 1 => size,
            done => return done,
        };
        let halves = chunk.form.halves(rows, chunk.session.lex_mode());
        if halves.len() < 2 {
            return Err(Attempt::RowTooLarge { size });
        }
        let mut total = Written::default();
        for (range, count) in halves {
            total.add(self.insert_text(chunk, &rows[range], count)?);
        }
        Ok(total)
    }

    /// Sends `rows` as one statement, so that either all of them are written or none. Returns
    /// [`Attempt::RowTooLarge`] if they do not fit into one, whether they are one row or several.
    pub fn insert_whole(
        &mut self,
        chunk: &Chunk,
        rows: &[u8],
        row_count: u64,
    ) -> Result<Written, Attempt> {
        let Some(delimited) = chunk.form.delimited() else {
            return self.insert_tuples(chunk, rows, row_count);
        };
        let layout = chunk.table.layout();
        let targets = layout
            .as_ref()
            .and_then(|layout| layout.targets(chunk.header.columns.as_deref()));
        let (Some(layout), Some(targets)) = (layout, targets) else {
            return Err(Attempt::NotExact(
                "the table does not have the columns of these rows".to_owned(),
            ));
        };
        let mut tuples = std::mem::take(&mut self.tuples);
        tuples.clear();
        let written = tuples::append(delimited, rows, &layout, &targets, &mut tuples)
            .map_err(Attempt::NotExact)
            .and_then(|()| self.insert_tuples(chunk, &tuples, row_count));
        self.tuples = tuples;
        written
    }

    fn insert_tuples(
        &mut self,
        chunk: &Chunk,
        rows: &[u8],
        row_count: u64,
    ) -> Result<Written, Attempt> {
        let computed = self.given_computed(chunk);
        let prefix = if computed > 0 {
            let mode = chunk.session.lenient_mode();
            format!("SET STATEMENT sql_mode = {mode}, max_error_count = {WARNINGS_MAX} FOR ")
        } else {
            String::new()
        };
        let head = &chunk.header.text;
        let size = COMMAND + prefix.len() + head.len() + rows.len();
        // The server may note a rounded value in every row.
        let notes = chunk.table.computed_columns() * row_count;
        let many_warnings = row_count > 1 && notes > 0 && notes > self.warnings_kept()? / 2;
        if many_warnings || size >= self.conn.max_allowed_packet() {
            return Err(Attempt::RowTooLarge { size });
        }
        self.text.clear();
        self.text.extend_from_slice(prefix.as_bytes());
        self.text.extend_from_slice(head);
        self.text.extend_from_slice(rows);
        // An engine without transactions has nothing to roll back to, and some refuse the
        // statement.
        let layout = chunk.table.layout();
        let undoable = match layout {
            Some(layout) => layout.transactional && layout.computes(),
            None => computed > 0,
        };
        if undoable {
            self.conn.exec("SAVEPOINT refloat_rows")?;
        }
        let waiting = Instant::now();
        let ok = self.conn.exec(&self.text)?;
        self.ctx.note_server_wait(waiting);
        if computed > 0 {
            if let Err(failed) = self.judge_computed(chunk, rows, row_count, &ok) {
                // They are stored, but not exactly.
                if undoable {
                    self.conn.exec("ROLLBACK TO SAVEPOINT refloat_rows")?;
                }
                return Err(failed);
            }
        } else {
            let (table, verb) = (&chunk.table, chunk.header.verb);
            let Some(mut warnings) = self.ctx.warnings_of(&mut self.conn, table, &ok)? else {
                if undoable {
                    self.conn.exec("ROLLBACK TO SAVEPOINT refloat_rows")?;
                }
                return Err(Attempt::many_notes());
            };
            if verb == InsertVerb::InsertIgnore {
                let stored = ok.affected_rows;
                self.remove_expected(chunk, rows, row_count, stored, &mut warnings)?;
            }
            self.ctx.warn_of(table, verb, warnings);
        }
        Ok(Written::by(chunk.header.verb, row_count, ok.affected_rows))
    }

    /// Counts the columns that the rows have values for and that the server generates. MariaDB's
    /// dump tool writes such values, and the server ignores them with a warning unless it is
    /// strict; a dump whose own session is strict is refused, as with the stock client.
    fn given_computed(&self, chunk: &Chunk) -> u64 {
        if self.conn.server().vendor != Vendor::MariaDb || chunk.session.is_strict() {
            return 0;
        }
        let Some(layout) = chunk.table.layout() else {
            return 0;
        };
        let targets = layout
            .targets(chunk.header.columns.as_deref())
            .unwrap_or_default();
        targets
            .iter()
            .filter(|&&index| layout.columns[index].generated)
            .count() as u64
    }

    /// Without strict mode, every warning except those about generated columns means a value that
    /// is not stored as the dump has it.
    fn judge_computed(
        &mut self,
        chunk: &Chunk,
        rows: &[u8],
        row_count: u64,
        ok: &OkInfo,
    ) -> Result<(), Attempt> {
        if ok.warnings == 0 {
            return Ok(());
        }
        let mut warnings = self.conn.warnings()?;
        if warnings.len() < usize::from(ok.warnings) {
            return Err(Attempt::NotExact(format!(
                "of {} warnings the server kept {}",
                ok.warnings,
                warnings.len()
            )));
        }
        chunk.table.remove_notes_about_computed(&mut warnings);
        warnings.retain(|one| one.code != GENERATED_VALUE_IGNORED);
        let verb = chunk.header.verb;
        if verb == InsertVerb::InsertIgnore {
            if !chunk.table.is_trial() {
                self.remove_expected(chunk, rows, row_count, ok.affected_rows, &mut warnings)?;
                self.ctx.warn_of(&chunk.table, verb, warnings);
            }
            return Ok(());
        }
        match warnings.first() {
            Some(warning) => Err(Attempt::NotExact(format!(
                "server error {} (as a warning): {}",
                warning.code, warning.message
            ))),
            None => Ok(()),
        }
    }
}
