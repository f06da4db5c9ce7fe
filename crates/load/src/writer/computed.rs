//! Handles generated columns whose expression gives warnings.
//!
//! A source whose `sql_mode` was not strict may hold rows for which the expression of a generated
//! column gives a warning: a truncated text, a division by zero. A strict writer refuses such a
//! row; the dump's own session computes the value as the source did. So refused rows of a table
//! with generated columns are first given to a *judge*: a temporary table with the same columns
//! that computes nothing. Rows that it takes without a warning in strict mode are written under the
//! dump's own mode, where only the expressions can still give warnings.

use std::fmt::Write as _;

use refloat_schema::columns::Layout;
use refloat_sqltext::quote_ident;
use refloat_wire::{Error, RetryStatus};

use super::{Attempt, Link, Written};
use crate::chunk::Chunk;
use crate::context::NOT_ABOUT_VALUES;

/// The temporary table; no table of a dump can have this name.
const JUDGE: &str = "refloat_judge_of_rows";

impl Link {
    /// Writes refused rows under the dump's own mode if only the expressions of generated columns
    /// stand in the way; otherwise returns `None` and writes nothing. For engines with
    /// transactions.
    pub fn keep_computed(
        &mut self,
        chunk: &Chunk,
        text: &[u8],
        rows: u64,
    ) -> Result<Option<Written>, Error> {
        let mut converted = Vec::new();
        let Some(tuples) = self.judged(chunk, (text, rows), &mut converted)? else {
            return Ok(None);
        };
        self.conn.exec("SAVEPOINT refloat_piece")?;
        let written = refusable(self.insert_computed(chunk, tuples, rows))?;
        // Why rows were ignored is not known here.
        let written = written.filter(|written| written.rows == rows && written.ignored == 0);
        if written.is_none() {
            self.conn.exec("ROLLBACK TO SAVEPOINT refloat_piece")?;
        }
        self.strict_again(&chunk.session)?;
        Ok(written)
    }

    /// Writes rows for an engine without transactions. Rows before a refused one stay in the table,
    /// so there is no second attempt.
    pub(super) fn write_computing(
        &mut self,
        chunk: &Chunk,
        text: &[u8],
        rows: u64,
    ) -> Result<Written, Attempt> {
        let mut converted = Vec::new();
        let Some(tuples) = self.judged(chunk, (text, rows), &mut converted)? else {
            return self.insert_text(chunk, text, rows);
        };
        let written = self.insert_computed(chunk, tuples, rows);
        self.strict_again(&chunk.session)?;
        Ok(written?)
    }

    /// The rows as `(…),(…)`, if a table that computes nothing takes them unchanged.
    pub(super) fn judged<'a>(
        &mut self,
        chunk: &Chunk,
        (text, rows): (&'a [u8], u64),
        converted: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, Error> {
        let layout = chunk.table.layout();
        let Some(layout) = layout.filter(|layout| layout.computes()) else {
            return Ok(None);
        };
        let targets = layout.targets(chunk.header.columns.as_deref());
        let Some(targets) = targets.filter(|targets| !targets.is_empty()) else {
            return Ok(None);
        };
        // The judge does not have the columns that the rows do not name.
        if layout.lacks_value(&targets) {
            return Ok(None);
        }
        let Ok(tuples) = chunk.tuples(&layout, text, converted) else {
            return Ok(None);
        };
        let size = chunk.header.text.len().max(1 << 10) + tuples.len();
        if size >= self.conn.max_allowed_packet()
            || !self.judged_exact(chunk, (&layout, &targets), (tuples, rows))?
        {
            return Ok(None);
        }
        Ok(Some(tuples))
    }

    /// Whether a table that computes nothing takes the rows unchanged.
    fn judged_exact(
        &mut self,
        chunk: &Chunk,
        (layout, targets): (&Layout, &[usize]),
        (tuples, rows): (&[u8], u64),
    ) -> Result<bool, Error> {
        let judge = format!("{}.{JUDGE}", quote_ident(&chunk.table.db));
        let mut definition = format!("CREATE TEMPORARY TABLE {judge} AS SELECT ");
        for (at, &index) in targets.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let name = quote_ident(&layout.columns[index].name);
            // An alias, because the column's own name does not matter here.
            let _ = write!(definition, "{comma}{name} AS c{at}");
        }
        let _ = write!(definition, " FROM {} LIMIT 0", chunk.table.quoted());
        // An account that may not create temporary tables keeps its rows refused.
        if refusable(self.conn.exec(definition))?.is_none() {
            return Ok(false);
        }
        self.text.clear();
        self.text
            .extend_from_slice(format!("INSERT INTO {judge} VALUES ").as_bytes());
        self.text.extend_from_slice(tuples);
        let verdict = match refusable(self.conn.exec(&self.text)) {
            Ok(Some(ok)) if ok.warnings == 0 => Ok(ok.affected_rows == rows),
            Ok(Some(ok)) => self.conn.warnings().map(|warnings| {
                ok.affected_rows == rows
                    && warnings.len() == usize::from(ok.warnings)
                    && warnings
                        .iter()
                        .all(|warning| NOT_ABOUT_VALUES.contains(&warning.code))
            }),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        self.conn.exec(format!("DROP TEMPORARY TABLE {judge}"))?;
        verdict
    }

    /// Writes the rows under the dump's own mode. Afterwards the session is not a writer's.
    fn insert_computed(
        &mut self,
        chunk: &Chunk,
        tuples: &[u8],
        rows: u64,
    ) -> Result<Written, Error> {
        self.lenient(&chunk.session)?;
        self.text.clear();
        self.text.extend_from_slice(&chunk.header.text);
        self.text.extend_from_slice(tuples);
        let ok = self.conn.exec(&self.text)?;
        Ok(Written::by(chunk.header.verb, rows, ok.affected_rows))
    }
}

/// A refusal by the server becomes `None`. A deadlock, which rolls back more than the statement,
/// and a lost connection stay errors.
fn refusable<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(ok) => Ok(Some(ok)),
        Err(error)
            if error.server_code().is_some()
                && !error.is_lost_connection()
                && !error.is_disk_full()
                && !matches!(error.retry(), RetryStatus::SameConnection) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
