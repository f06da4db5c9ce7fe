//! Rows as the dump's own `INSERT` text.

use std::time::Instant;

use refloat_sqltext::InsertVerb;
use refloat_wire::{OkInfo, Vendor};

use super::{Attempt, ChunkWriter, Link, WARNINGS_MAX, Written};
use crate::load::chunk::{Chunk, Piece};
use crate::load::outcome::LoadWarning;

/// `ER_WARNING_NON_DEFAULT_VALUE_FOR_GENERATED_COLUMN`: the server computes the column and leaves the dump's value out.
const GENERATED_VALUE_IGNORED: u16 = 1906;

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
            .and_then(|text| self.insert_text(chunk, piece, &text[at..], rows));
        self.buffer = buffer;
        written
    }

    /// Sends `rows` (tuples of `piece`) as one statement.
    pub fn insert_text(
        &mut self,
        chunk: &Chunk,
        piece: &Piece,
        rows: &[u8],
        row_count: u64,
    ) -> Result<Written, Attempt> {
        let head = &chunk.header.text;
        let size = head.len() + rows.len() + 1;
        if size > self.conn.max_allowed_packet() {
            if row_count > 1 {
                return self.insert_halves(chunk, piece, rows);
            }
            return Err(Attempt::RowTooLarge {
                offset: piece.offset,
                line: piece.line,
                size,
            });
        }
        let computed = self.computed_columns(chunk);
        if row_count > 1 && computed * row_count > WARNINGS_MAX / 2 {
            return self.insert_halves(chunk, piece, rows);
        }
        self.text.clear();
        if computed > 0 {
            let mode = chunk.session.lenient_mode().replace('\'', "''");
            self.text.extend_from_slice(
                format!("SET STATEMENT sql_mode = '{mode}', max_error_count = {WARNINGS_MAX} FOR ")
                    .as_bytes(),
            );
        }
        self.text.extend_from_slice(head);
        self.text.extend_from_slice(rows);
        let waiting = Instant::now();
        let ok = self.conn.exec(&self.text)?;
        self.ctx.note_server_wait(waiting);
        if computed > 0 {
            self.judge_computed(chunk, &ok)?;
        } else {
            self.ctx
                .judge(&mut self.conn, &chunk.table, chunk.header.verb, &ok)?;
        }
        Ok(match chunk.header.verb {
            InsertVerb::Insert => Written {
                rows: ok.affected_rows,
                ignored: 0,
            },
            InsertVerb::InsertIgnore => Written {
                rows: ok.affected_rows,
                ignored: row_count.saturating_sub(ok.affected_rows),
            },
            // A replaced row counts twice in affected_rows; how many are left is counted at the end.
            InsertVerb::Replace => Written {
                rows: row_count,
                ignored: 0,
            },
        })
    }

    /// Columns that the rows have values for and the server computes itself. MariaDB's dump tool writes them, and the
    /// server leaves them out with a warning, unless it is strict; a dump whose own session is strict is refused, as
    /// everywhere.
    fn computed_columns(&self, chunk: &Chunk) -> u64 {
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

    /// Without strictness every warning but those about computed columns is a value that is not as the dump has it.
    fn judge_computed(&mut self, chunk: &Chunk, ok: &OkInfo) -> Result<(), Attempt> {
        if ok.warnings == 0 {
            return Ok(());
        }
        let warnings = self.conn.warnings()?;
        if warnings.len() < usize::from(ok.warnings) {
            return Err(Attempt::NotExact(format!(
                "of {} warnings the server kept {}",
                ok.warnings,
                warnings.len()
            )));
        }
        for warning in warnings
            .into_iter()
            .filter(|warning| warning.code != GENERATED_VALUE_IGNORED)
        {
            match chunk.header.verb {
                InsertVerb::InsertIgnore if warning.code == 1062 => {}
                InsertVerb::InsertIgnore => self.ctx.warn(LoadWarning {
                    about: chunk.table.label(),
                    code: warning.code,
                    message: warning.message,
                }),
                _ => return Err(Attempt::NotExact(warning.message)),
            }
        }
        Ok(())
    }

    fn insert_halves(
        &mut self,
        chunk: &Chunk,
        piece: &Piece,
        rows: &[u8],
    ) -> Result<Written, Attempt> {
        let mut total = Written::default();
        let halves = crate::load::rows::halves(rows, chunk.session.lex_mode());
        if halves.len() < 2 {
            return Err(Attempt::RowTooLarge {
                offset: piece.offset,
                line: piece.line,
                size: chunk.header.text.len() + rows.len() + 1,
            });
        }
        for (range, count) in halves {
            let written = self.insert_text(chunk, piece, &rows[range], count)?;
            total.add(written);
        }
        Ok(total)
    }
}
