//! Going on where an earlier process of the same load has ended.
//!
//! The source is read from its beginning: its session state is needed, and its definitions. Rows that are in are passed over by
//! their marks. A table without a row that is in is created anew. A statement that everything before it was finished for is a
//! frontier: as long as one further on is known to be done, the conductor is *in the past*, and nothing is run but what makes the session.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use refloat_sqltext::{Item, quote_ident};
use serde::{Deserialize, Serialize};

use super::Conductor;
use super::objects::default_collation;
use super::registry::TableKey;
use crate::load::chunk::{Head, Piece};
use crate::load::definition::{differences, fingerprint};
use crate::load::error::{LoadError, Refusal};
use refloat_wire::Connection;

use crate::load::marks::{Counted, Cover, Found, Marks, StepKind, TableDetail, TableFound, parsed};
use crate::load::outcome::head;
use crate::load::programs::{Contents, Kind};

/// A statement that is run alone: what is known of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Step {
    /// Whether it was run to its end. Otherwise it was about to be run.
    pub done: bool,
    /// Its line.
    pub line: u64,
    /// Its first bytes.
    pub head: String,
    /// Rows of tables after it.
    pub counts: Vec<(String, String, u64)>,
}

/// A database before the load changed anything in it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DatabaseStep {
    /// What it held.
    pub contents: Contents,
    /// Its collation, if the load is about to change it.
    pub collation: Option<String>,
}

/// What an earlier process has done, as far as it was not met yet.
#[derive(Default)]
pub struct Resume {
    /// Whether there was one.
    active: bool,
    found: Found,
    steps: BTreeMap<String, Step>,
    /// Statements further on that are done.
    frontiers: usize,
    /// Tables whose next rows come behind some that are in.
    gaps: HashSet<usize>,
    /// Rows that are in, as far as they were met.
    pub counted: Counted,
    tables: MarkTables,
}

/// Where the tables of marks were made.
#[derive(Default)]
struct MarkTables {
    /// On the server, and by statements that its replicas run as well.
    logged: bool,
    /// On the server only.
    unlogged: bool,
}

impl Resume {
    /// Of what was found; `None` for a load that begins.
    pub fn of(found: Option<Found>) -> Self {
        let active = found.is_some();
        let mut found = found.unwrap_or_default();
        let steps: BTreeMap<String, Step> = std::mem::take(&mut found.statements)
            .into_iter()
            // What cannot be read may have been done or not: as if it had been about to be run.
            .map(|(name, detail)| (name, parsed(&detail).unwrap_or_default()))
            .collect();
        Self {
            active,
            frontiers: steps.values().filter(|step| step.done).count(),
            found,
            steps,
            gaps: HashSet::new(),
            counted: Counted::default(),
            tables: MarkTables::default(),
        }
    }
}

impl Resume {
    /// Whether the load has changed anything already.
    pub fn has_begun(&self) -> bool {
        self.active && (!self.found.tables.is_empty() || !self.steps.is_empty())
    }
}

impl Conductor<'_> {
    /// Whether an earlier process has begun this load.
    pub(super) fn resumes(&self) -> bool {
        self.resume.active
    }

    /// Whether a statement further on is done, so that everything here is.
    pub(super) fn in_past(&self) -> bool {
        self.resume.frontiers > 0
    }

    fn file(&self) -> u64 {
        self.ctx
            .marks
            .as_ref()
            .map_or(0, |marks| marks.file(&self.place.name))
    }

    fn step_name(&self, item: &Item) -> String {
        format!("{:016x}:{}", self.file(), item.offset)
    }

    /// Whether rows of a table are in that come behind this statement: then it was run, and must not be run again.
    pub(super) fn begun_behind(&self, key: &TableKey, item: &Item) -> bool {
        let file = self.file();
        let found = self.resume.found.tables.get(key);
        found.is_some_and(|table| table.goes_beyond(file, item.offset))
    }

    /// Whether rows of any table of a database are in that come behind this statement.
    pub(super) fn database_begun_behind(&self, database: &str, item: &Item) -> bool {
        let file = self.file();
        let mut tables = self.resume.found.tables.iter();
        tables.any(|(key, table)| key.0 == database && table.goes_beyond(file, item.offset))
    }

    /// What an earlier process has found in a database.
    pub(super) fn database_found(&self, database: &str) -> Option<DatabaseStep> {
        self.resume
            .found
            .databases
            .get(database)
            .and_then(|detail| parsed(detail))
    }

    /// Keeps what a database holds before it is changed.
    pub(super) fn note_database(
        &mut self,
        database: &str,
        step: &DatabaseStep,
    ) -> Result<(), LoadError> {
        self.note_step(StepKind::Database, database, step)
    }

    fn note_step(
        &mut self,
        kind: StepKind,
        name: &str,
        detail: &impl Serialize,
    ) -> Result<(), LoadError> {
        self.on_marks("writing a progress mark", |marks, conn| {
            marks.note_step(conn, kind, name, detail)
        })
    }

    /// Makes the tables of marks where they are missing: on the server, and on its replicas once rows go there.
    pub(super) fn prepare_marks(&mut self) -> Result<(), LoadError> {
        if self.ctx.marks.is_none() {
            return Ok(());
        }
        let logs = self.session()?.logs() && !self.ctx.binlog_off;
        let tables = &mut self.resume.tables;
        if tables.logged && logs || tables.unlogged && !logs {
            return Ok(());
        }
        let made = tables.logged;
        (tables.logged, tables.unlogged) = (tables.logged || logs, tables.unlogged || !logs);
        if made {
            return Ok(());
        }
        self.log_catalog(logs)?;
        let Some(marks) = &self.ctx.marks else {
            return Ok(());
        };
        marks
            .begin(&mut self.catalog)
            .map_err(|error| LoadError::server("preparing progress marks", error))
    }

    /// Something about marks, on the catalogue's connection. Once rows are kept out of the binary log, so is all of this.
    fn on_marks(
        &mut self,
        what: &str,
        work: impl FnOnce(&Marks, &mut Connection) -> Result<(), refloat_wire::Error>,
    ) -> Result<(), LoadError> {
        if self.ctx.marks.is_none() {
            return Ok(());
        }
        let tables = &self.resume.tables;
        // Replicas need them only for rows.
        if !tables.logged && !tables.unlogged {
            self.prepare_marks()?;
        }
        self.log_catalog(!self.resume.tables.unlogged)?;
        match &self.ctx.marks {
            Some(marks) => {
                work(marks, &mut self.catalog).map_err(|error| LoadError::server(what, error))
            }
            None => Ok(()),
        }
    }

    /// Lets the catalogue's connection write to the binary log or not, where it may be otherwise.
    fn log_catalog(&mut self, logs: bool) -> Result<(), LoadError> {
        if logs && !self.resume.tables.unlogged {
            return Ok(());
        }
        self.catalog_session = None;
        self.catalog
            .exec(format!("SET SESSION sql_log_bin = {}", u8::from(logs)))
            .map(drop)
            .map_err(|error| LoadError::server("preparing progress marks", error))
    }

    /// The rows of a piece that are not in yet; those that are are counted.
    pub(super) fn missing_rows(
        &mut self,
        index: usize,
        head: &Head,
        mut piece: Piece,
        text: &[u8],
    ) -> Result<Vec<(Piece, Range<usize>)>, LoadError> {
        if self.ctx.marks.is_none() {
            return Ok(vec![(piece, 0..text.len())]);
        }
        self.prepare_marks()?;
        piece = piece.hashed(text);
        let table = Arc::clone(&self.entries[index].table);
        let file = self.file();
        let place = piece.offset..piece.offset + text.len() as u64;
        let key = (table.db.clone(), table.name.clone());
        let cover = match self.resume.found.tables.get_mut(&key) {
            Some(found) => found.cover(file, place.clone(), piece.digest),
            None => Cover::None,
        };
        let (counted, parts) = match cover {
            Cover::None => {
                piece.after_gap = self.resume.gaps.remove(&index);
                return Ok(vec![(piece, 0..text.len())]);
            }
            Cover::Whole(counted) => (counted, vec![place]),
            Cover::Parts(counted, parts) => (counted, parts),
            Cover::Differs => {
                return Err(LoadError::SourceDiffers {
                    file: self.place.name.to_string(),
                    line: piece.line,
                    offset: piece.offset,
                    table: table.label(),
                });
            }
        };
        self.count_found(index, counted);
        let start = piece.offset;
        let inside = |at: u64| parts.iter().any(|part| part.contains(&at));
        let covered: u64 = parts.iter().map(|part| part.end - part.start).sum();
        self.ctx.note_passed(covered);
        if covered == text.len() as u64 {
            self.resume.gaps.insert(index);
            return Ok(Vec::new());
        }
        let bounds = head.form.bounds(text, head.session.lex_mode());
        if bounds.len() as u64 != piece.rows {
            return Err(LoadError::Text {
                file: self.place.name.to_string(),
                line: piece.line,
                offset: piece.offset,
                message: "some of the rows here are in already, and which of them cannot be told from the text; begin anew with --restart".to_owned(),
            });
        }
        let mut missing: Vec<(Range<usize>, u64)> = Vec::new();
        let mut gap = true;
        for row in bounds {
            if inside(start + row.start as u64) {
                gap = true;
                continue;
            }
            match missing.last_mut().filter(|_| !gap) {
                Some((range, rows)) => {
                    range.end = row.end;
                    *rows += 1;
                }
                None => missing.push((row, 1)),
            }
            gap = false;
        }
        if gap {
            self.resume.gaps.insert(index);
        }
        let pieces = missing.into_iter().map(|(range, rows)| {
            let mut part = piece
                .part(text, range.clone(), rows)
                .hashed(&text[range.clone()]);
            part.after_gap = true;
            (part, range)
        });
        Ok(pieces.collect())
    }

    /// Counts rows of an earlier process for its table.
    fn count_found(&mut self, index: usize, counted: Counted) {
        let table = &self.entries[index].table;
        table.note_sent(counted.sent);
        table.taken_over(counted.stored, counted.ignored);
        table.note_refused(counted.refused);
        let all = &mut self.resume.counted;
        all.sent += counted.sent;
        all.stored += counted.stored;
        all.ignored += counted.ignored;
        all.refused += counted.refused;
    }

    /// A table whose definition was run, and some of whose rows may be in: it stays as it is.
    pub(super) fn take_up(&mut self, key: &TableKey, text: &[u8]) -> Result<(), LoadError> {
        let found = self.resume.found.tables.get(key);
        let detail = found.map_or_else(
            || TableDetail {
                created: true,
                ..TableDetail::default()
            },
            |table| table.detail.clone(),
        );
        let described = found.is_some();
        if self.known(key).is_some() {
            self.forget(key);
        }
        let index = self.register(key.clone(), detail.created, detail.rows_before);
        let table = Arc::clone(&self.entries[index].table);
        let (create, _) = match self.show_create(&table) {
            Ok(shown) => shown,
            // ER_NO_SUCH_TABLE.
            Err(LoadError::Server { source, .. }) if source.server_code() == Some(1146) => {
                if self.in_past() {
                    // A statement further on has given it another name, or dropped it.
                    return Ok(());
                }
                return Err(LoadError::Stopped(vec![Refusal {
                    reason: format!(
                        "table {} is gone, of which the load had written {} rows",
                        table.label(),
                        found_rows(&self.resume.found, key)
                    ),
                    hint:
                        "Begin anew with --restart (and --replace for the tables that are there)."
                            .to_owned(),
                }]));
            }
            Err(error) => return Err(error),
        };
        let original = detail.definition.clone().unwrap_or_else(|| create.clone());
        let entry = &mut self.entries[index];
        entry.definition = Some(fingerprint(&original));
        entry.engine = super::registry::engine_of(&create);
        entry.versioned = super::registry::is_versioned(&create);
        entry.decided = described;
        if let Some(deferral) = detail.deferral.clone() {
            *table.deferral() = deferral.lacking(&create);
        }
        if described {
            table.describe(detail);
            table.note_described();
        }
        if self.in_past() {
            return Ok(());
        }
        let text = self.map_collations(text)?.into_owned();
        let mode = self.session()?.lex_mode();
        let server = self.catalog.server().into();
        for difference in differences(server, &table.label(), &text, mode, &original) {
            self.ctx.differ(difference);
        }
        Ok(())
    }

    /// Whether a table stays as an earlier process has left it; otherwise what it has left is removed, and the table is created anew.
    pub(super) fn stays(&mut self, key: &TableKey, item: &Item) -> Result<bool, LoadError> {
        if self.in_past() {
            return Ok(true);
        }
        let begun = self.begun_behind(key, item);
        let detail = self.resume.found.tables.get(key).map(|table| &table.detail);
        let redone = detail.is_some_and(|detail| !detail.transactional);
        if begun && !redone {
            return Ok(true);
        }
        let failed = |error| {
            LoadError::server(
                format!(
                    "removing what an earlier run has left of table {}.{}",
                    key.0, key.1
                ),
                error,
            )
        };
        if redone {
            // Its engine takes no rows back, so none of them is known to be in just once.
            self.on_marks("removing progress marks", |marks, conn| {
                marks.forget_table(conn, (&key.0, &key.1))
            })?;
            self.resume.found.tables.remove(key);
        }
        if self.existed(key) || !self.is_there(key)? {
            return Ok(false);
        }
        let quoted = format!("{}.{}", quote_ident(&key.0), quote_ident(&key.1));
        let any = self
            .catalog
            .query_value(format!("SELECT 1 FROM {quoted} LIMIT 1"))
            .map_err(failed)?;
        if any.is_some() && !redone {
            return Err(LoadError::Stopped(vec![Refusal {
                reason: format!(
                    "table {}.{} holds rows that are not of this load: no progress mark knows them",
                    key.0, key.1
                ),
                hint: "Drop the table if its rows are not needed, and run the same command again."
                    .to_owned(),
            }]));
        }
        self.enter_catalog()?;
        self.catalog
            .exec(format!("DROP TABLE IF EXISTS {quoted}"))
            .map_err(failed)?;
        Ok(false)
    }

    /// What was said of a table that the dump does not create.
    pub(super) fn appended_to(&self, key: &TableKey) -> Result<Option<TableDetail>, LoadError> {
        let Some(found) = self.resume.found.tables.get(key) else {
            return Ok(None);
        };
        if self.in_past() {
            return Ok(Some(found.detail.clone()));
        }
        if !found.detail.transactional {
            return Err(LoadError::Stopped(vec![Refusal {
                reason: format!(
                    "table {}.{} has an engine without transactions, and rows were added to those that it had: which of them are in cannot be told",
                    key.0, key.1
                ),
                hint: "Take the added rows away, and begin anew with --restart.".to_owned(),
            }]));
        }
        Ok(Some(found.detail.clone()))
    }

    /// A statement that is run alone: what an earlier process has said of it, if that one has run it.
    pub(super) fn passed(&mut self, text: &[u8], item: &Item) -> Result<Option<Step>, LoadError> {
        let name = self.step_name(item);
        match self.resume.steps.remove(&name) {
            Some(step) if step.done => {
                self.resume.frontiers -= 1;
                Ok(Some(step))
            }
            Some(_) => {
                let Some(done) = self.ctx.options.uncertain else {
                    return Err(LoadError::Stopped(vec![Refusal {
                        reason: format!(
                            "{}: line {}: this statement was running when the load ended, and nobody can tell whether it took effect: {}",
                            self.place.name,
                            item.line,
                            head(text)
                        ),
                        hint: "Look at what it changes; then run the same command with --uncertain-statement done (it is not run again) or --uncertain-statement again."
                            .to_owned(),
                    }]));
                };
                if done {
                    let step = Step::default();
                    self.finished(text, item, step.clone())?;
                    return Ok(Some(step));
                }
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Whether an earlier process has run this statement.
    pub(super) fn is_passed(&self, item: &Item) -> bool {
        let step = self.resume.steps.get(&self.step_name(item));
        step.is_some_and(|step| step.done)
    }

    /// Says that a statement is about to be run alone.
    pub(super) fn about_to_run(&mut self, text: &[u8], item: &Item) -> Result<(), LoadError> {
        let step = Step {
            done: false,
            line: item.line,
            head: head(text),
            counts: Vec::new(),
        };
        let name = self.step_name(item);
        self.note_step(StepKind::Statement, &name, &step)
    }

    /// Says that it was run.
    pub(super) fn finished(
        &mut self,
        text: &[u8],
        item: &Item,
        mut step: Step,
    ) -> Result<(), LoadError> {
        (step.done, step.line, step.head) = (true, item.line, head(text));
        let name = self.step_name(item);
        self.note_step(StepKind::Statement, &name, &step)
    }

    /// Gives a database the collation again that it had before the dump changed it for a while.
    pub(super) fn restore_collation(
        &mut self,
        database: &str,
        collation: Option<&str>,
    ) -> Result<(), LoadError> {
        let Some(wanted) = collation.filter(|_| !self.in_past()) else {
            return Ok(());
        };
        let now = default_collation(&mut self.catalog, database)?;
        if now.as_deref().is_none_or(|now| now == wanted) {
            return Ok(());
        }
        super::barrier::alter(&mut self.catalog, database, wanted)
    }

    /// Keeps the collation that a database has before the dump changes it.
    pub(super) fn note_collation(&mut self, database: &str) -> Result<(), LoadError> {
        if self.ctx.marks.is_none() || self.in_past() || self.altered.contains(database) {
            return Ok(());
        }
        let Some(found) = self.databases.get(database) else {
            return Ok(());
        };
        let contents = found.contents.clone();
        let collation = default_collation(&mut self.catalog, database)?;
        let step = DatabaseStep {
            contents,
            collation,
        };
        self.note_database(database, &step)
    }

    /// Removes a program that an earlier process has created, before it is created again.
    pub(super) fn remove_leftover(&mut self, kind: Kind, key: &TableKey) -> Result<(), LoadError> {
        if !self.resumes() || self.in_past() || self.existed_program(kind, key) {
            return Ok(());
        }
        self.enter_catalog()?;
        // The names of a dump's session may be read in another character set.
        self.catalog_session = None;
        let quoted = format!("{}.{}", quote_ident(&key.0), quote_ident(&key.1));
        // Whatever this says: if something is in the way, the statement that follows tells.
        let _ = self.catalog.exec("SET NAMES utf8mb4");
        let _ = self.catalog.exec(format!("DROP {kind} IF EXISTS {quoted}"));
        Ok(())
    }

    /// Removes the marks of a load that has come to its end.
    pub(in crate::load) fn forget_marks(&mut self) -> Result<(), LoadError> {
        let tables = &self.resume.tables;
        let (rows, made) = (!tables.unlogged, tables.logged);
        let Some(marks) = self.ctx.marks.as_ref().filter(|_| made || !rows) else {
            return Ok(());
        };
        self.catalog_session = None;
        marks
            .end(&mut self.catalog, rows, made)
            .map_err(|error| LoadError::server("removing the progress marks", error))
    }

    /// After an error: whether the same load can go on. Marks of one that had not changed anything are removed.
    pub(in crate::load) fn keeps_marks(&mut self) -> bool {
        if self.ctx.marks.is_none() {
            return false;
        }
        if self.touched {
            return true;
        }
        // Without its connection it leaves them, and the next load takes them away.
        let _ = self.forget_marks();
        false
    }

    /// At the end of the source: all rows that are in must have been met in it.
    pub(super) fn check_met(&self) -> Result<(), LoadError> {
        let unmet = self
            .resume
            .found
            .tables
            .iter()
            .find(|(_, table)| table.unmet());
        match unmet {
            Some((key, _)) => Err(LoadError::SourceLacks {
                table: format!("{}.{}", key.0, key.1),
            }),
            None => Ok(()),
        }
    }
}

fn found_rows(found: &Found, key: &TableKey) -> u64 {
    found.tables.get(key).map_or(0, TableFound::stored)
}
