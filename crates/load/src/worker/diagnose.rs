//! Finds the row that the server refuses.
//!
//! A refused chunk is rolled back and written again as the dump's own text, piece by piece; a
//! refused piece is halved until the row is found. So a failure names the row's line and byte, and
//! has the server's message for that row.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Instant;

use refloat_sqltext::head;
use refloat_wire::RetryStatus;

use super::commit::Uncommitted;
use super::{Patience, Worker, source_error};
use crate::chunk::{Chunk, Piece};
use crate::error::LoadError;
use crate::options::WritePath;
use crate::outcome::StatementFailure;
use crate::writer::{Attempt, Written};

/// Refused rows after which `--on-error continue` gives up.
const FAILURES_MAX: u64 = 10_000;

/// Why a search for refused rows ended.
enum Halt {
    /// A conflict with another transaction rolled everything back: start again.
    Again(refloat_wire::Error),
    /// The server reported all of it as committed, and nothing is there: start again.
    Vanished,
    /// The search cannot continue.
    Fatal(LoadError),
}

impl From<LoadError> for Halt {
    fn from(error: LoadError) -> Self {
        Self::Fatal(error)
    }
}

/// What a search has found so far; valid once the other rows are committed.
#[derive(Default)]
struct Findings {
    written: Written,
    /// The failures, and the number of rows that they cover.
    failures: Vec<StatementFailure>,
    refused: u64,
}

impl Worker {
    /// Writes a refused chunk row by row where necessary, and reports the rows that stay refused.
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
            // What was written cannot be rolled back, so it cannot be retried either.
            let piece = &chunk.pieces[0];
            let text = piece
                .text(&mut self.link.buffer)
                .map(<[u8]>::to_vec)
                .unwrap_or_default();
            let mut error = self.refused(chunk, (piece, piece.offset, piece.line), &text, failed);
            if chunk.rows == 1 && self.skips_refused_rows() {
                return self.leave_row_out(chunk, error);
            }
            if let LoadError::Statement { failure, .. } = &mut error {
                let _ = write!(
                    failure.message,
                    "; it is one of the {} rows from here on, and some of them may be stored: its engine has no transactions",
                    chunk.rows
                );
            }
            return Err(error);
        }
        let mut patience = Patience::default();
        let findings = loop {
            match self.search_chunk(chunk) {
                Ok(findings) => break findings,
                Err(Halt::Again(error)) if patience.may_retry(&error) => {
                    self.link.rollback(chunk)?;
                    self.link.ctx.note_retry();
                    patience.wait(&self.link.ctx);
                }
                Err(Halt::Vanished) => self.vanished(chunk, &mut patience)?,
                Err(Halt::Again(error)) => {
                    return Err(LoadError::server(
                        format!("looking for the refused row of table {label}"),
                        error,
                    ));
                }
                Err(Halt::Fatal(error)) => return Err(error),
            }
        };
        for failure in findings.failures {
            self.link.ctx.note_failure(failure);
        }
        chunk.table.note_refused(findings.refused);
        self.account(chunk, WritePath::Insert, findings.written, started);
        Ok(())
    }

    /// Lists the only row of a chunk as refused, for a table whose engine has no transactions: its
    /// statement stored nothing, and its mark was written before it.
    fn leave_row_out(&mut self, chunk: &Chunk, error: LoadError) -> Result<(), LoadError> {
        let LoadError::Statement { failure, .. } = error else {
            return Err(error);
        };
        let marks = self.link.ctx.marks.as_ref();
        let stretches = marks.map_or_else(Vec::new, |marks| marks.stretches(&chunk.pieces));
        self.correct(&stretches, Written::default(), chunk.rows)
            .map_err(|error| {
                let doing = format!("noting a refused row of table {}", chunk.table.label());
                LoadError::server(doing, error)
            })?;
        self.link.ctx.note_failure(*failure);
        chunk.table.note_refused(chunk.rows);
        chunk.table.note_described();
        Ok(())
    }

    /// Writes the chunk in one transaction, except for the rows that are refused.
    fn search_chunk(&mut self, chunk: &Chunk) -> Result<Findings, Halt> {
        let label = chunk.table.label();
        let server =
            |what: &str, error| LoadError::server(format!("{what} of table {label}"), error);
        self.link
            .enter(&chunk.session)
            .map_err(|error| server("preparing the session for the rows", error))?;
        let stretches = self
            .begin(chunk)
            .map_err(|error| server("looking for the refused row", error))?;
        let mut findings = Findings::default();
        for piece in &chunk.pieces {
            let mut buffer = std::mem::take(&mut self.link.buffer);
            let found = match piece.text(&mut buffer) {
                Ok(text) => match self.link.keep_empty_enums(chunk, piece, text) {
                    Ok(Some(written)) => {
                        findings.written.add(written);
                        Ok(())
                    }
                    Ok(None) => {
                        let all = 0..text.len();
                        self.search(chunk, piece, text, all, piece.rows, &mut findings)
                    }
                    Err(error) => Err(halted(chunk, error)),
                },
                Err(source) => {
                    Err(source_error(piece.source.to_string(), piece.offset, source).into())
                }
            };
            self.link.buffer = buffer;
            found?;
        }
        self.correct(&stretches, findings.written, findings.refused)
            .map_err(|error| server("looking for the refused row", error))?;
        match self.commit(chunk, &stretches) {
            Ok(()) => {
                chunk.table.note_described();
                Ok(findings)
            }
            Err(Uncommitted::Attempt(Attempt::Wire(error)))
                if matches!(error.retry(), RetryStatus::SameConnection) =>
            {
                Err(Halt::Again(error))
            }
            Err(Uncommitted::Attempt(Attempt::Wire(error))) => {
                Err(server("committing rows", error).into())
            }
            Err(Uncommitted::Vanished) => Err(Halt::Vanished),
            Err(_) => Err(self.link.ctx.interrupted().into()),
        }
    }

    fn search(
        &mut self,
        chunk: &Chunk,
        piece: &Piece,
        whole: &[u8],
        range: Range<usize>,
        rows: u64,
        findings: &mut Findings,
    ) -> Result<(), Halt> {
        if self.link.ctx.cancel.is_cancelled() {
            return Err(self.link.ctx.interrupted().into());
        }
        let text = &whole[range.clone()];
        let failed = match self.link.insert_whole(chunk, text, rows) {
            Ok(written) => {
                findings.written.add(written);
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
                )
                .into());
            }
            // A deadlock has rolled back what this transaction wrote before; no row is to blame.
            Err(Attempt::Wire(error)) if matches!(error.retry(), RetryStatus::SameConnection) => {
                return Err(Halt::Again(error));
            }
            Err(failed) => failed,
        };
        match self.link.keep_computed(chunk, text, rows) {
            Ok(Some(written)) => {
                findings.written.add(written);
                return Ok(());
            }
            Ok(None) => {}
            Err(error) => return Err(halted(chunk, error)),
        }
        let parts = chunk.form.halves(text, chunk.session.lex_mode());
        if parts.len() == 2 {
            for (part, count) in parts {
                let part = range.start + part.start..range.start + part.end;
                self.search(chunk, piece, whole, part, count, findings)?;
            }
            return Ok(());
        }
        let before = &whole[..range.start];
        let line = piece.line + memchr::memchr_iter(b'\n', before).count() as u64;
        let offset = piece.offset + range.start as u64;
        let known = self.link.ctx.failures() + findings.failures.len() as u64;
        if self.skips_refused_rows() && known + 1 < FAILURES_MAX {
            let found = failure(chunk, (piece, offset, line), text, &failed);
            findings.failures.push(found);
            findings.refused += rows;
            return Ok(());
        }
        self.link.rollback(chunk)?;
        Err(self
            .refused(chunk, (piece, offset, line), text, &failed)
            .into())
    }

    /// The error that ends the load at a refused row.
    fn refused(
        &self,
        chunk: &Chunk,
        (piece, offset, line): (&Piece, u64, u64),
        text: &[u8],
        failed: &Attempt,
    ) -> LoadError {
        let file = piece.source.to_string();
        match failed {
            Attempt::RowTooLarge { size } => LoadError::RowTooLarge {
                file,
                line,
                offset,
                table: chunk.table.label(),
                size: *size,
                limit: self.link.conn.max_allowed_packet(),
            },
            _ => LoadError::Statement {
                file,
                failure: Box::new(failure(chunk, (piece, offset, line), text, failed)),
            },
        }
    }
}

/// Why a search ends because of a server error that no row caused.
fn halted(chunk: &Chunk, error: refloat_wire::Error) -> Halt {
    // A deadlock has rolled back what this transaction wrote before.
    if matches!(error.retry(), RetryStatus::SameConnection) {
        return Halt::Again(error);
    }
    LoadError::server(
        format!("writing rows of table {}", chunk.table.label()),
        error,
    )
    .into()
}

/// The report of a refused row.
fn failure(
    chunk: &Chunk,
    (piece, offset, line): (&Piece, u64, u64),
    text: &[u8],
    failed: &Attempt,
) -> StatementFailure {
    let (code, message) = match failed {
        Attempt::Wire(error) => (error.server_code().unwrap_or(0), error.to_string()),
        Attempt::NotExact(message) => (0, message.clone()),
        Attempt::Source { source, .. } => (0, source.to_string()),
        Attempt::Otherwise(error) => (0, error.to_string()),
        Attempt::RowTooLarge { size } => (
            0,
            format!("the row needs a packet of {size} bytes, more than the server takes"),
        ),
    };
    StatementFailure {
        file: piece.source.to_string(),
        line,
        offset,
        head: head(text),
        code,
        message,
        table: Some(chunk.table.label()),
        ..StatementFailure::default()
    }
}
