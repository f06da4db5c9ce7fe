//! Finding the row that the server refuses.
//!
//! A refused chunk is rolled back and written once more as the dump's own text, piece by piece; a refused piece is halved
//! until the row is found. So a failure names the row's line and byte and carries the words the server has for that row.

use std::ops::Range;
use std::time::Instant;

use refloat_sqltext::LexMode;

use super::{Attempt, Worker, Written};
use crate::load::chunk::{Chunk, Piece};
use crate::load::error::LoadError;
use crate::load::options::WritePath;
use crate::load::outcome::StatementFailure;
use crate::load::rows::row_bounds;

/// Bytes of a refused row that a failure quotes.
const HEAD_MAX: usize = 120;
/// Refused rows after which `--on-error continue` gives up.
const FAILURES_MAX: u64 = 10_000;

/// `text` in two runs of rows, each with its count; one run when it has fewer than two rows.
pub(super) fn halves(text: &[u8], mode: LexMode) -> Vec<(Range<usize>, u64)> {
    let rows = row_bounds(text, mode);
    let (left, right) = rows.split_at(rows.len() / 2);
    [left, right]
        .into_iter()
        .filter_map(|half| Some((half.first()?.start..half.last()?.end, half.len() as u64)))
        .collect()
}

impl Worker {
    /// Writes a refused chunk row by row where needed, and reports what stays refused.
    pub(super) fn diagnose(
        &mut self,
        chunk: &Chunk,
        failed: &Attempt,
        started: Instant,
    ) -> Result<(), LoadError> {
        let label = chunk.table.label();
        if chunk
            .table
            .layout()
            .is_some_and(|layout| !layout.transactional)
        {
            // What was written cannot be taken back, so it cannot be tried again either.
            let piece = &chunk.pieces[0];
            let text = piece
                .text(&mut self.buffer)
                .map(<[u8]>::to_vec)
                .unwrap_or_default();
            return Err(LoadError::Statement {
                file: self.ctx.source.clone(),
                failure: Box::new(failure(chunk, piece.offset, piece.line, &text, failed)),
            });
        }
        let server = |error| {
            LoadError::server(
                format!("looking for the refused row of table {label}"),
                error,
            )
        };
        self.conn.exec("START TRANSACTION").map_err(server)?;
        let mut total = Written::default();
        for piece in &chunk.pieces {
            let mut buffer = std::mem::take(&mut self.buffer);
            let found = match piece.text(&mut buffer) {
                Ok(text) => match self.keep_empty_enums(chunk, piece, text) {
                    Ok(Some(written)) => {
                        total.add(written);
                        Ok(())
                    }
                    Ok(None) => {
                        self.search(chunk, piece, text, 0..text.len(), piece.rows, &mut total)
                    }
                    Err(error) => Err(LoadError::server(
                        format!("writing rows of table {label}"),
                        error,
                    )),
                },
                Err(source) => Err(self.source_error(piece.offset, source)),
            };
            self.buffer = buffer;
            found?;
        }
        let server = |error| LoadError::server(format!("committing rows of table {label}"), error);
        self.conn.exec("COMMIT").map_err(server)?;
        self.account(chunk, WritePath::Insert, total, started);
        Ok(())
    }

    fn search(
        &mut self,
        chunk: &Chunk,
        piece: &Piece,
        whole: &[u8],
        range: Range<usize>,
        rows: u64,
        total: &mut Written,
    ) -> Result<(), LoadError> {
        if self.ctx.cancel.is_cancelled() {
            return Err(self.ctx.interrupted());
        }
        let text = &whole[range.clone()];
        let failed = match self.insert_text(chunk, piece, text, rows) {
            Ok(written) => {
                total.add(written);
                return Ok(());
            }
            Err(Attempt::Wire(error))
                if error.server_code().is_none()
                    || error.is_lost_connection()
                    || error.is_disk_full() =>
            {
                return Err(LoadError::server(
                    format!("writing rows of table {}", chunk.table.label()),
                    error,
                ));
            }
            Err(failed) => failed,
        };
        let parts = halves(text, chunk.session.lex_mode());
        if parts.len() == 2 {
            for (part, count) in parts {
                self.search(
                    chunk,
                    piece,
                    whole,
                    range.start + part.start..range.start + part.end,
                    count,
                    total,
                )?;
            }
            return Ok(());
        }
        let before = &whole[..range.start];
        let line = piece.line + memchr::memchr_iter(b'\n', before).count() as u64;
        let found = failure(
            chunk,
            piece.offset + range.start as u64,
            line,
            text,
            &failed,
        );
        if self.goes_on() && self.ctx.note_failure(found.clone()) < FAILURES_MAX {
            chunk.table.note_refused(rows);
            return Ok(());
        }
        self.rollback(chunk)?;
        Err(LoadError::Statement {
            file: self.ctx.source.clone(),
            failure: Box::new(found),
        })
    }
}

/// The report of a refused row.
fn failure(
    chunk: &Chunk,
    offset: u64,
    line: u64,
    text: &[u8],
    failed: &Attempt,
) -> StatementFailure {
    let (code, message) = match failed {
        Attempt::Wire(error) => (error.server_code().unwrap_or(0), error.to_string()),
        Attempt::NotExact(message) => (0, message.clone()),
        Attempt::Source { source, .. } => (0, source.to_string()),
        Attempt::RowTooLarge { size, .. } => (
            0,
            format!("the row needs a packet of {size} bytes, more than the server takes"),
        ),
    };
    StatementFailure {
        line,
        offset,
        head: head(text),
        code,
        message,
        table: Some(chunk.table.label()),
    }
}

/// The first bytes of `text` as something that can be shown.
pub fn head(text: &[u8]) -> String {
    let cut = &text[..text.len().min(HEAD_MAX)];
    let mut shown: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.len() > HEAD_MAX {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_keeps_every_row_whole() {
        let text = b"(1,'a),(b'),(2,'c'),(3,NULL)";
        let parts = halves(text, LexMode::default());
        let texts: Vec<&[u8]> = parts
            .iter()
            .map(|(range, _)| &text[range.clone()])
            .collect();
        assert_eq!(
            texts,
            [b"(1,'a),(b')".as_slice(), b"(2,'c'),(3,NULL)".as_slice()]
        );
        assert_eq!(parts.iter().map(|(_, rows)| rows).sum::<u64>(), 3);
        assert_eq!(halves(b"(1)", LexMode::default()).len(), 1);
    }

    #[test]
    fn heads_are_short_and_printable() {
        assert_eq!(head(b"a\nb"), "a b");
        assert_eq!(head(&[b'x'; 500]).chars().count(), HEAD_MAX + 1);
    }
}
