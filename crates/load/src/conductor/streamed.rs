//! Rows that arrive from another server while they are read, a block at a time from any table.
//!
//! The conductor takes each block as it arrives, so no sender waits for a table that is not being
//! read. The bounds of the stream and of the queue keep a fast source from filling the memory in
//! front of a slow target.

use std::sync::Arc;
use std::time::Duration;

use refloat_source::blocks::Block;
use refloat_source::stream::{Arrival, RowStream, StreamedTable};

use super::Conductor;
use super::delimited::{Lines, Target};
use super::name::TableKey;
use super::place::Place;
use super::refused_settings::list_rows_of_refused;
use crate::error::LoadError;
use crate::session::Session;

/// How long to wait for rows before checking for a failed worker or a cancelled run.
const PATIENCE: Duration = Duration::from_millis(100);

/// A table of a stream, and how much of it has arrived.
struct Turn<'s> {
    of: &'s StreamedTable,
    key: TableKey,
    place: Place,
    target: Option<Target>,
    /// Bytes of text that have arrived.
    bytes: u64,
    ended: bool,
    /// Whether it was reported that its rows are left out.
    reported: bool,
}

impl Conductor<'_> {
    /// Passes the rows of a stream on to the workers, until the stream ends.
    pub(super) fn rows_of_stream(
        &mut self,
        stream: &RowStream,
        start: &Arc<Session>,
    ) -> Result<(), LoadError> {
        let mut turns: Vec<Turn<'_>> = stream.tables.iter().map(Turn::new).collect();
        loop {
            self.ctx.check_cancel()?;
            let Some(arrival) = stream.next(PATIENCE) else {
                self.queue.look()?;
                continue;
            };
            match arrival {
                Arrival::Rows { table, text, rows } => {
                    let turn = turn_of(&mut turns, table)?;
                    if self.ledger.refused.contains(&turn.key) {
                        if !std::mem::replace(&mut turn.reported, true) {
                            list_rows_of_refused(&self.ctx, &turn.key, stream_name(turn.of))?;
                        }
                        continue;
                    }
                    let block = Arc::new(Block::new(text, Arc::clone(&stream.pool)));
                    self.streamed_rows(turn, start, &block, rows)?;
                }
                Arrival::TableEnd { table, rows } => {
                    let turn = turn_of(&mut turns, table)?;
                    turn.ended = true;
                    if self.ledger.refused.contains(&turn.key) {
                        continue;
                    }
                    self.end_streamed(turn, rows)?;
                }
                Arrival::Broken => return Err(LoadError::SourceEnded),
                Arrival::End => break,
            }
        }
        match turns.iter().find(|turn| turn.of.data && !turn.ended) {
            None => Ok(()),
            Some(turn) => Err(LoadError::Defect(format!(
                "the source ended before the end of table {}",
                turn.of.label()
            ))),
        }
    }

    fn streamed_rows(
        &mut self,
        turn: &mut Turn<'_>,
        start: &Arc<Session>,
        block: &Arc<Block>,
        rows: u64,
    ) -> Result<(), LoadError> {
        // The reader's count must match, and the last row must be complete.
        if rows_in(block) != rows || block.last() != Some(&b'\n') {
            let what = format!(
                "a block of table {} does not hold its rows",
                turn.of.label()
            );
            return Err(LoadError::Defect(what));
        }
        self.findings.bytes += block.len() as u64;
        let lines = Lines {
            block,
            range: 0..block.len(),
            rows,
            offset: turn.bytes,
            line: turn.place.rows + 1,
        };
        let target = if let Some(target) = &turn.target {
            target.clone()
        } else {
            self.begin_file(&mut turn.place, start, Some(&turn.of.database))?;
            for text in &turn.of.form.session {
                self.own_set(&mut turn.place, text)?;
            }
            let target = self.target(&mut turn.place, &turn.of.form, None, &turn.key, &lines)?;
            turn.place.session.clone_from(&self.dialogue.session);
            turn.target.insert(target).clone()
        };
        turn.bytes += block.len() as u64;
        self.delimited_rows(&mut turn.place, &target, &lines)
    }

    /// Ends a table whose rows have all arrived, if they are as many as were read.
    fn end_streamed(&mut self, turn: &mut Turn<'_>, rows: u64) -> Result<(), LoadError> {
        if rows != turn.place.rows {
            return Err(LoadError::RowsMissing {
                table: turn.of.label(),
                expected: rows,
                found: turn.place.rows,
            });
        }
        if let Some(session) = turn.place.session.clone() {
            self.dialogue.resume(&session)?;
        }
        self.finish_current(&mut turn.place)
    }
}

impl<'s> Turn<'s> {
    fn new(of: &'s StreamedTable) -> Self {
        let mut place = Place::new(&stream_name(of));
        place.size_known = Some(of.bytes);
        place.rows_only = true;
        Self {
            of,
            key: (of.database.clone(), of.table.clone()),
            place,
            target: None,
            bytes: 0,
            ended: false,
            reported: false,
        }
    }
}

/// The table's name in messages, in place of a file name.
fn stream_name(of: &StreamedTable) -> String {
    format!("table {}", of.label())
}

fn rows_in(block: &Block) -> u64 {
    memchr::memchr_iter(b'\n', block).count() as u64
}

fn turn_of<'t, 's>(turns: &'t mut [Turn<'s>], table: usize) -> Result<&'t mut Turn<'s>, LoadError> {
    turns
        .get_mut(table)
        .filter(|turn| !turn.ended)
        .ok_or_else(|| LoadError::Defect("rows of a table that has ended".to_owned()))
}
