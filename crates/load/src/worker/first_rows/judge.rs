//! Judges first rows of a table that are not in it as the dump has them.
//!
//! A literal may be stored in another spelling: a member of an `ENUM` in another case, a time
//! rounded to the seconds of its column. And a table may have triggers. So the rows are written to
//! the table once more, as the dump's own `INSERT`, and rolled back. Only if the table then holds
//! other rows than before is the write path to blame.

use std::collections::HashMap;
use std::time::Duration;

use super::read_back::ReadBack;
use super::sample::{Rows, Sample};
use super::{Halt, NEVER_THE_SAME, Worker, sent};
use crate::chunk::{Chunk, Head, Piece};
use crate::error::LoadError;
use crate::options::WritePath;
use crate::table::Table;
use crate::writer::Attempt;

/// Rows that are tried one by one.
const ROWS_MAX: usize = 200;
/// After this, a time that the server takes from its clock is another one.
const CLOCK_TICK: Duration = Duration::from_millis(1100);

/// Rows in a table, by their hash.
#[derive(Default, PartialEq)]
struct Multiset(HashMap<u128, u64>);

impl Multiset {
    fn add(&mut self, row: u128) {
        *self.0.entry(row).or_default() += 1;
    }

    /// Removes one row; returns whether it was there.
    fn take(&mut self, row: u128) -> bool {
        let Some(count) = self.0.get_mut(&row) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&row);
        }
        true
    }
}

impl Worker {
    /// Whether the table holds the rows of a first chunk as the dump has them. If not, the
    /// transaction is rolled back; an error if the dump's own `INSERT` stores other rows.
    pub fn is_found(&mut self, path: WritePath, back: &ReadBack<'_>) -> Result<bool, Attempt> {
        if back.is_found(&mut self.link.conn)? {
            return Ok(true);
        }
        let held = match self.held(back, &back.before) {
            Err(Halt::Fatal(failed)) => return Err(failed),
            held => held,
        };
        self.link.conn.exec("ROLLBACK")?;
        match held.and_then(|held| self.judge(path, back, &held)) {
            Ok(()) => {}
            Err(Halt::Fatal(failed)) => return Err(failed),
            Err(Halt::Impossible(reason) | Halt::Refused(reason)) => {
                self.link.ctx.note_not_compared(&back.chunk.table, reason);
            }
        }
        Ok(false)
    }

    /// The rows that the table holds, other than those of `before`.
    fn held(&mut self, back: &ReadBack<'_>, before: &[u128]) -> Result<Multiset, Halt> {
        let (mut held, mut count) = (Multiset::default(), 0);
        back.read(&mut self.link.conn, &mut |row| {
            held.add(row);
            count += 1;
        })?;
        if count == back.limit() {
            let reason = "the engine shows rows that others write meanwhile";
            return Err(Halt::Impossible(reason.to_owned()));
        }
        for row in before {
            held.take(*row);
        }
        Ok(held)
    }

    /// An error if the dump's own `INSERT` stores other rows than the table `held`.
    fn judge(&mut self, path: WritePath, back: &ReadBack<'_>, held: &Multiset) -> Result<(), Halt> {
        let chunk = back.chunk;
        let as_text = self.as_text(&chunk.pieces, back)?;
        if as_text == *held {
            return Ok(());
        }
        let sample = Sample {
            chunk,
            path,
            shape: back.shape.clone(),
            rows: self.not_held(back, held)?,
        };
        // This may tell the column and both values.
        self.try_both(&sample)?;
        self.link.ctx.cancel.sleep(CLOCK_TICK);
        if self.as_text(&chunk.pieces, back)? != as_text {
            return Err(Halt::Impossible(NEVER_THE_SAME.to_owned()));
        }
        let mut wrong = &sample.rows.all;
        for row in &sample.rows.each {
            let stored = self.as_text(std::slice::from_ref(row), back)?;
            if stored.0.keys().any(|row| !held.0.contains_key(row)) {
                wrong = row;
                break;
            }
        }
        let error = LoadError::RowNotFound(Box::new(sent(wrong, &chunk.table, path)));
        Err(Halt::Fatal(Attempt::Otherwise(Box::new(error))))
    }

    /// Some of the first rows that the table did not hold, as the dump has them.
    fn not_held(&mut self, back: &ReadBack<'_>, held: &Multiset) -> Result<Rows, Halt> {
        let chunk = back.chunk;
        let mode = chunk.session.lex_mode();
        let (mut rows, mut chosen) = (back.rows.iter(), 0);
        Rows::pick(chunk, &mut self.link.buffer, |text| {
            let mut lacking = chunk.form.bounds(text, mode);
            lacking.retain(|_| {
                let lacks = rows.next().is_some_and(|row| !held.0.contains_key(row));
                let choose = lacks && chosen < ROWS_MAX;
                chosen += usize::from(choose);
                choose
            });
            (lacking, chosen == ROWS_MAX)
        })
    }

    /// What the table holds after the dump's own `INSERT` of some rows, and did not hold before.
    /// They are rolled back.
    fn as_text(&mut self, rows: &[Piece], back: &ReadBack<'_>) -> Result<Multiset, Halt> {
        self.link.conn.exec(ReadBack::ISOLATION)?;
        self.link.conn.exec("START TRANSACTION")?;
        let stored = self.insert_and_look(rows, back);
        // After a fatal error the connection may be in the middle of rows, and is given up.
        if !matches!(stored, Err(Halt::Fatal(_))) {
            let undone = self.link.conn.exec("ROLLBACK");
            undone.map_err(|error| Halt::Fatal(Attempt::Wire(error)))?;
        }
        stored
    }

    fn insert_and_look(&mut self, rows: &[Piece], back: &ReadBack<'_>) -> Result<Multiset, Halt> {
        let (head, layout) = (&back.chunk.head, &back.shape.layout);
        let mut before = Vec::new();
        back.read(&mut self.link.conn, &mut |row| before.push(row))?;
        // What the server warns of here is not in the table afterwards.
        let trial = Table::trial(&head.table.db, &head.table.name, layout.clone());
        let mut chunk = Chunk::new(Head {
            table: trial.into(),
            ..head.clone()
        });
        for row in rows {
            chunk.push(row.clone());
        }
        self.write_as(&chunk, WritePath::Insert)?;
        self.held(back, &before)
    }
}
