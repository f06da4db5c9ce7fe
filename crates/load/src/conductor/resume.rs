//! Resumes a load that an earlier process began.
//!
//! The source is read from its beginning, because its session state and definitions are needed.
//! Rows that the marks show as loaded are skipped. A table without a loaded row is created again. A
//! statement that ran only after everything before it was finished is a *frontier*. As long as a
//! later frontier is known to be done, the conductor is *in the past*, and runs only what sets up
//! the session.

mod definitions;
mod steps;

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use refloat_run::Refusal;

use crate::chunk::{Head, Piece};
use crate::context::Context;
use crate::error::{LoadError, START_OVER};
use crate::marks::{Counted, Cover, Found, Met, parsed};
use crate::table::Table;
use steps::MarkTables;
pub use steps::{DatabaseStep, Step, is_change_of_table, may_bring_rows, may_stay_unsettled};

/// What an earlier process did, as far as the source has not reached it yet.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one load, each read by itself"
)]
pub struct Resume {
    ctx: Arc<Context>,
    /// Whether there was an earlier process.
    active: bool,
    found: Found,
    steps: BTreeMap<String, Step>,
    /// Number of statements further on in the source that are done.
    frontiers: usize,
    /// Tables whose next rows follow rows that are already loaded.
    gaps: HashSet<usize>,
    /// Rows that were already loaded, as far as the source has reached them.
    pub counted: Counted,
    tables: MarkTables,
    /// Whether definitions may have changed since they were last flushed to disk.
    unsynced: bool,
    /// Whether the server flushed them the last time.
    syncs: bool,
    /// Whether statements were marked done since the last flush.
    unsettled: bool,
    /// When this process began.
    begun: Instant,
}

impl Resume {
    /// From the marks that were found; `None` for a new load.
    pub fn of(ctx: &Arc<Context>, found: Option<Found>) -> Self {
        let active = found.is_some();
        let mut found = found.unwrap_or_default();
        let unsettled = found.unsettled.is_some();
        let steps: BTreeMap<String, Step> = std::mem::take(&mut found.statements)
            .into_iter()
            // A step that cannot be read may have been done or not: treat it as about to run.
            .map(|(name, detail)| (name, parsed(&detail).unwrap_or_default()))
            .collect();
        Self {
            ctx: Arc::clone(ctx),
            active,
            frontiers: steps.values().filter(|step| step.done).count(),
            found,
            steps,
            gaps: HashSet::new(),
            counted: Counted::default(),
            tables: MarkTables::default(),
            unsynced: true,
            // The earlier process may have left unflushed definitions on a server that is still
            // running.
            unsettled,
            syncs: false,
            begun: Instant::now(),
        }
    }

    /// Whether the load has changed anything already.
    pub fn has_begun(&self) -> bool {
        self.active && (!self.found.tables.is_empty() || !self.steps.is_empty())
    }

    /// Whether an earlier process began this load.
    pub fn resumes(&self) -> bool {
        self.active
    }

    /// Notes that definitions were made or changed, or may have been, and are not on disk yet.
    pub fn note_defined(&mut self) {
        self.unsynced = true;
    }

    /// Whether a later statement is done, and therefore everything here.
    pub fn in_past(&self) -> bool {
        self.frontiers > 0
    }

    /// Whether an earlier process marked rows of this table.
    pub fn has_marks_of(&self, key: &(String, String)) -> bool {
        self.found.tables.contains_key(key)
    }

    fn file(&self, name: &str) -> u64 {
        let marks = self.ctx.marks.as_ref();
        marks.map_or(0, |marks| marks.file(name))
    }

    /// The rows of a piece that are not loaded yet. The others are counted.
    pub fn missing_rows(
        &mut self,
        head: &Head,
        mut piece: Piece,
        text: &[u8],
    ) -> Result<Vec<(Piece, Range<usize>)>, LoadError> {
        if self.ctx.marks.is_none() {
            return Ok(vec![(piece, 0..text.len())]);
        }
        piece = piece.hashed(text);
        if self.found.tables.is_empty() {
            return Ok(vec![(piece, 0..text.len())]);
        }
        let table = &head.table;
        let key = (table.db.clone(), table.name.clone());
        let file = self.file(&piece.source);
        let place = piece.offset..piece.offset + text.len() as u64;
        let bounds = LazyCell::new(|| {
            let bounds = head.form.bounds(text, head.session.lex_mode());
            (bounds.len() as u64 == piece.rows).then_some(bounds)
        });
        let met = Met {
            place: place.clone(),
            text,
            bounds: &|| bounds.as_deref(),
        };
        let cover = match self.found.tables.get_mut(&key) {
            Some(found) => found.cover(file, &met),
            None => Cover::None,
        };
        let (counted, parts) = match cover {
            Cover::None => {
                piece.after_gap = self.gaps.remove(&table.id);
                return Ok(vec![(piece, 0..text.len())]);
            }
            Cover::Whole(counted) => (counted, vec![place]),
            Cover::Parts(counted, parts) => (counted, parts),
            Cover::Unknown(bytes) => {
                let message = format!(
                    "rows of table {} from byte {} to byte {} are already loaded, but it is not \
                    certain that they are the rows that stand here now; start over with --restart \
                    (and --replace for existing tables)",
                    table.label(),
                    bytes.start,
                    bytes.end
                );
                return Err(unusable_text(&piece, message));
            }
            Cover::Differs => {
                let (line, offset) = (piece.line, piece.offset);
                return Err(LoadError::source_differs(
                    &piece.source,
                    line,
                    offset,
                    table.label(),
                ));
            }
        };
        self.refuse_rows_changed_since(&head.table, &piece)?;
        self.count_found(table, counted);
        let covered: u64 = parts.iter().map(|part| part.end - part.start).sum();
        self.ctx.note_passed(covered);
        if covered == text.len() as u64 {
            self.gaps.insert(table.id);
            return Ok(Vec::new());
        }
        let Some(bounds) = bounds.as_deref() else {
            let message = "some of the rows here are already loaded, but the text does not show \
                which; start over with --restart";
            return Err(unusable_text(&piece, message.to_owned()));
        };
        let (missing, gap) = rows_outside(&parts, piece.offset, bounds);
        if gap {
            self.gaps.insert(table.id);
        }
        let pieces = missing.into_iter().map(|rows| {
            let (mut part, range) = piece.part(text, bounds, rows);
            part.after_gap = true;
            (part, range)
        });
        Ok(pieces.collect())
    }

    /// Refuses loaded rows of a table without transactions, unless a later statement is done.
    fn refuse_rows_changed_since(&self, table: &Table, piece: &Piece) -> Result<(), LoadError> {
        if self.in_past() || table.is_transactional() {
            return Ok(());
        }
        // A resumed load empties such a table and loads it again, unless the table had rows before
        // a statement that is done. This one did.
        Err(LoadError::Stopped(vec![Refusal {
            reason: format!(
                "{}: line {}: table {} has an engine without transactions: it is not known \
                which of its rows from here on are loaded, and the rows before were changed since",
                piece.source,
                piece.line,
                table.label()
            ),
            hint: START_OVER.to_owned(),
        }]))
    }

    /// Adds rows of an earlier process to the counts of their table.
    fn count_found(&mut self, table: &Table, counted: Counted) {
        table.note_sent(counted.sent);
        table.taken_over(counted.stored, counted.ignored);
        table.note_refused(counted.refused);
        let all = &mut self.counted;
        all.sent += counted.sent;
        all.stored += counted.stored;
        all.ignored += counted.ignored;
        all.refused += counted.refused;
    }

    /// Checks, at the end of the source, that it contained every marked row.
    pub fn check_met(&self) -> Result<(), LoadError> {
        let unmet = self.found.tables.iter().find(|(_, table)| table.unmet());
        match unmet {
            Some((key, _)) => Err(LoadError::SourceLacks {
                table: format!("{}.{}", key.0, key.1),
            }),
            None => Ok(()),
        }
    }
}

/// The error for a piece whose text does not tell what an earlier process did with it.
fn unusable_text(piece: &Piece, message: String) -> LoadError {
    LoadError::Text {
        file: piece.source.to_string(),
        line: piece.line,
        offset: piece.offset,
        message,
    }
}

/// The runs of rows that start outside the loaded `parts`, and whether the last row is a loaded
/// one. The text that `bounds` cuts starts at byte `start` of the source.
fn rows_outside(
    parts: &[Range<u64>],
    start: u64,
    bounds: &[Range<usize>],
) -> (Vec<Range<usize>>, bool) {
    let inside = |at: u64| parts.iter().any(|part| part.contains(&at));
    let mut missing: Vec<Range<usize>> = Vec::new();
    let mut gap = true;
    for (at, row) in bounds.iter().enumerate() {
        if inside(start + row.start as u64) {
            gap = true;
            continue;
        }
        match missing.last_mut().filter(|_| !gap) {
            Some(rows) => rows.end = at + 1,
            None => missing.push(at..at + 1),
        }
        gap = false;
    }
    (missing, gap)
}
