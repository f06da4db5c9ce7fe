//! Judges first rows of a table that are not in it as the dump has them.
//!
//! A literal may be stored in another spelling: a member of an `ENUM` in another case, a time
//! rounded to the seconds of its column. So rows that were not found are written to temporary
//! tables as a sample is, and once more to the table itself as the dump's own `INSERT`, and only a
//! row that is then stored otherwise ends the load.

use std::collections::HashMap;

use refloat_digest::rows::cells;
use refloat_sqltext::literal;
use refloat_wire::Error;

use super::read_back::ReadBack;
use super::sample::{Rows, Sample};
use super::{Halt, Worker};
use crate::chunk::{Chunk, Piece};
use crate::error::{LoadError, RowNotFound};
use crate::options::WritePath;
use crate::writer::Attempt;

/// Rows to judge.
const ROWS_MAX: usize = 200;

/// Rows in a table, by their hash.
#[derive(Default)]
struct Multiset(HashMap<u128, u64>);

impl Multiset {
    fn add(&mut self, row: u128) {
        *self.0.entry(row).or_default() += 1;
    }

    /// Removes one row; returns whether it was there.
    fn take(&mut self, row: u128) -> bool {
        match self.0.get_mut(&row) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

impl Worker {
    /// Whether the table holds the first rows of a chunk as the dump has them. If not, the
    /// transaction is rolled back; an error if the dump's own `INSERT` stores other rows.
    pub fn is_found(
        &mut self,
        chunk: &Chunk,
        path: WritePath,
        back: &ReadBack,
    ) -> Result<bool, Attempt> {
        if back.is_found(&mut self.link.conn)? {
            return Ok(true);
        }
        let rows = match self.not_found(back) {
            Err(Halt::Fatal(failed)) => return Err(failed),
            rows => rows,
        };
        self.link.conn.exec("ROLLBACK")?;
        let judged = rows.and_then(|(rows, others)| {
            let Some(rows) = rows else { return Ok(()) };
            let sample = Sample {
                chunk,
                path,
                shape: back.shape.clone(),
                rows,
            };
            self.judge(&sample, back, others)
        });
        match judged {
            Ok(()) => {}
            Err(Halt::Fatal(failed)) => return Err(failed),
            Err(Halt::Impossible(reason) | Halt::Refused(reason)) => {
                self.link.ctx.note_not_compared(&chunk.table, reason);
            }
        }
        Ok(false)
    }

    /// The first rows that are not in the table, and the rows that are there instead.
    fn not_found(&mut self, back: &ReadBack) -> Result<(Option<Rows>, Multiset), Halt> {
        let chunk = &back.first;
        let (mut others, mut count) = (Multiset::default(), 0);
        back.read(&mut self.link.conn, &chunk.table.quoted(), &mut |row| {
            others.add(row);
            count += 1;
        })?;
        if count == back.limit() {
            let reason = "the engine shows rows that others write meanwhile";
            return Err(Halt::Impossible(reason.to_owned()));
        }
        for row in &back.before {
            others.take(*row);
        }
        let stamped = self.stamped(chunk)?;
        let mut replaced = Vec::new();
        back.each_row(&mut self.link.buffer, &mut |row| {
            replaced.push(is_replaced(row, back, &stamped));
        })
        .map_err(Halt::Fatal)?;
        let rows = back.rows.iter().zip(replaced);
        let lacks: Vec<bool> = rows
            .map(|(row, replaced)| !others.take(*row) && !replaced)
            .collect();
        if !lacks.contains(&true) {
            return Ok((None, others));
        }
        let mode = chunk.session.lex_mode();
        let (mut at, mut chosen) = (0, 0);
        let rows = Rows::pick(chunk, &mut self.link.buffer, |text| {
            let mut rows = Vec::new();
            for row in chunk.form.bounds(text, mode) {
                if chosen < ROWS_MAX && lacks.get(at) == Some(&true) {
                    rows.push(row);
                    chosen += 1;
                }
                at += 1;
            }
            (rows, chosen == ROWS_MAX)
        })?;
        Ok((Some(rows), others))
    }

    /// An error if the dump's own `INSERT` stores one of the rows otherwise than their write path
    /// does, or than as a row that was in the table.
    fn judge(
        &mut self,
        sample: &Sample<'_>,
        back: &ReadBack,
        mut others: Multiset,
    ) -> Result<(), Halt> {
        self.try_both(sample)?;
        let mut wrong = self.as_text(&sample.rows.all, back)?;
        wrong.retain(|row| !others.take(*row));
        if wrong.is_empty() {
            return Ok(());
        }
        for row in &sample.rows.each {
            let stored = self.as_text(row, back)?;
            if stored.iter().any(|row| wrong.contains(row)) {
                let error = LoadError::RowNotFound(Box::new(RowNotFound {
                    file: row.source.to_string(),
                    line: row.line,
                    offset: row.offset,
                    table: sample.chunk.table.label(),
                    path: sample.path,
                }));
                return Err(Halt::Fatal(Attempt::Otherwise(Box::new(error))));
            }
        }
        let reason = "the same text is stored as something else each time";
        Err(Halt::Impossible(reason.to_owned()))
    }

    /// What the table holds after the dump's own `INSERT` of some rows and did not hold before. The
    /// rows are rolled back: unlike a temporary table, it may have triggers.
    fn as_text(&mut self, rows: &Piece, back: &ReadBack) -> Result<Vec<u128>, Halt> {
        let table = back.first.table.quoted();
        let mut chunk = Chunk::new(back.first.head.clone());
        chunk.push(rows.clone());
        let (mut before, mut stored) = (Multiset::default(), Vec::new());
        self.link.conn.exec(ReadBack::ISOLATION)?;
        self.link.conn.exec("START TRANSACTION")?;
        back.read(&mut self.link.conn, &table, &mut |row| before.add(row))?;
        let written = self.write_as(&chunk, WritePath::Insert);
        if matches!(written, Err(Halt::Fatal(_))) {
            return written.map(|()| stored);
        }
        back.read(&mut self.link.conn, &table, &mut |row| stored.push(row))?;
        self.link.conn.exec("ROLLBACK")?;
        written?;
        stored.retain(|row| !before.take(*row));
        Ok(stored)
    }

    /// Columns in which a NULL may become the time (`explicit_defaults_for_timestamp=0`).
    fn stamped(&mut self, chunk: &Chunk) -> Result<Vec<String>, Error> {
        let (database, table) = (literal(&chunk.table.db), literal(&chunk.table.name));
        let found = self.link.conn.query(format!(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {database} \
             AND TABLE_NAME = {table} AND DATA_TYPE = 'timestamp' AND IS_NULLABLE = 'NO'"
        ))?;
        Ok(found.texts(0).map(str::to_owned).collect())
    }
}

/// Whether the server may put the time in place of a NULL in a column of `stamped`.
fn is_replaced(row: &[u8], back: &ReadBack, stamped: &[String]) -> bool {
    let mut values = back.columns().zip(cells(row));
    values.any(|(column, value)| value.is_none() && stamped.contains(&column.name))
}
