//! Steps other than rows, and the tables that hold all marks.

use std::time::Duration;

use refloat_run::Refusal;
use refloat_sqltext::{ItemKind, StatementKind, head};
use refloat_wire::{Connection, Vendor};
use serde::{Deserialize, Serialize};

use super::super::Conductor;
use super::super::here::Here;
use crate::error::LoadError;
use crate::marks::{LeftMarks, Marks, StepKind, parsed};
use crate::programs::Contents;

/// A load this young may as well start over if a power cut takes away definitions of statements
/// that it has marked done.
const YOUNG: Duration = Duration::from_secs(5);
/// Keywords of changes that move rows or tables and may leave a name without rows.
const MOVES: [&[u8]; 4] = [b"RENAME", b"PARTITION", b"CONVERT", b"TABLESPACE"];

/// What is known about a statement that runs alone.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Step {
    /// Whether it ran to its end. If not, it was about to run.
    pub done: bool,
    pub line: u64,
    /// Its first bytes.
    pub head: String,
    /// Rows of tables after it ran: database, table, count.
    pub counts: Vec<(String, String, u64)>,
    /// The account that it would have created, but that existed and was left unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_account: Option<String>,
}

/// A database before the load changed anything in it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DatabaseStep {
    /// What it held.
    pub contents: Contents,
    /// Its collation, if the load is about to change it.
    pub collation: Option<String>,
}

/// Where the tables of marks were created.
#[derive(Default)]
pub struct MarkTables {
    /// On the server, by statements that its replicas run too.
    logged: bool,
    /// On the server only.
    unlogged: bool,
}

/// Whether a statement changes one table and nothing in the session.
pub fn is_change_of_table(kind: &ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::Statement(StatementKind::AlterTable { .. } | StatementKind::Index)
    )
}

/// Whether a change of a table may bring it rows that are there already: in a partition, a
/// tablespace, another server or a file.
pub fn may_bring_rows(text: &[u8]) -> bool {
    has_any(text, &MOVES) || has_any(text, &[b"ENGINE", b"UNION"])
}

fn has_any(text: &[u8], words: &[&[u8]]) -> bool {
    let text = text.to_ascii_uppercase();
    let has = |word: &&[u8]| memchr::memmem::find(&text, word).is_some();
    words.iter().any(has)
}

/// Whether definitions may stay unflushed while this runs: it concerns only the session, or it is
/// the next change of a table.
pub fn may_stay_unsettled(kind: &ItemKind) -> bool {
    is_change_of_table(kind)
        || matches!(
            kind,
            ItemKind::Blank
                | ItemKind::Comment(_)
                | ItemKind::Statement(
                    StatementKind::Empty | StatementKind::Set | StatementKind::Use { .. }
                )
        )
}

impl Conductor<'_> {
    fn step_name(&self, here: Here<'_>) -> String {
        format!("{:016x}:{}", self.file(here.file), here.item.offset)
    }

    /// What an earlier process found in a database.
    pub(in crate::conductor) fn database_found(&self, database: &str) -> Option<DatabaseStep> {
        self.resume
            .found
            .databases
            .get(database)
            .and_then(|detail| parsed(detail))
    }

    /// Records what a database holds before it is changed.
    pub(in crate::conductor) fn note_database(
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

    /// Creates the tables of marks where they are missing: on the server, and on its replicas once
    /// rows go there.
    pub(in crate::conductor) fn prepare_marks(&mut self) -> Result<(), LoadError> {
        if self.ctx.marks.is_none() {
            return Ok(());
        }
        let logs = self.dialogue.session()?.logs() && !self.ctx.binlog_off;
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
            .begin(&mut self.catalog.conn)
            .map_err(|error| LoadError::server("preparing progress marks", error))
    }

    /// Runs `work` on the marks, on the catalogue connection. Once rows are kept out of the binary
    /// log, so are these changes.
    pub(super) fn on_marks(
        &mut self,
        what: &str,
        work: impl FnOnce(&Marks, &mut Connection) -> Result<(), refloat_wire::Error>,
    ) -> Result<(), LoadError> {
        if self.ctx.marks.is_none() {
            return Ok(());
        }
        let tables = &self.resume.tables;
        // Replicas need the tables only for rows.
        if !tables.logged && !tables.unlogged {
            self.prepare_marks()?;
        }
        self.log_catalog(!self.resume.tables.unlogged)?;
        match &self.ctx.marks {
            Some(marks) => {
                work(marks, &mut self.catalog.conn).map_err(|error| LoadError::server(what, error))
            }
            None => Ok(()),
        }
    }

    /// Switches the binary log of the catalogue connection on or off, unless it has never been off.
    fn log_catalog(&mut self, logs: bool) -> Result<(), LoadError> {
        if logs && !self.resume.tables.unlogged {
            return Ok(());
        }
        self.catalog.leave_session();
        self.catalog
            .conn
            .exec(format!("SET SESSION sql_log_bin = {}", u8::from(logs)))
            .map(drop)
            .map_err(|error| LoadError::server("preparing progress marks", error))
    }

    /// What an earlier process noted about a statement that runs alone, if that process ran it.
    pub(in crate::conductor) fn passed(
        &mut self,
        here: Here<'_>,
    ) -> Result<Option<Step>, LoadError> {
        let name = self.step_name(here);
        match self.resume.steps.remove(&name) {
            Some(step) if step.done => {
                self.resume.frontiers -= 1;
                Ok(Some(step))
            }
            Some(_) => {
                let Some(done) = self.ctx.options.uncertain else {
                    return Err(LoadError::Stopped(vec![Refusal {
                        reason: format!(
                            "{}: line {}: this statement was running when the load was \
                            interrupted, and it is not known whether it took effect: {}",
                            here.file,
                            here.item.line,
                            head(here.text)
                        ),
                        hint: "Check whether its change is there; then run the same command with \
                            --uncertain-statement done (it took effect) or --uncertain-statement \
                            again (it did not)."
                            .to_owned(),
                    }]));
                };
                if done {
                    let step = Step::default();
                    self.finished(here, step.clone())?;
                    return Ok(Some(step));
                }
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Whether an earlier process ran this statement.
    pub(in crate::conductor) fn is_passed(&self, here: Here<'_>) -> bool {
        let step = self.resume.steps.get(&self.step_name(here));
        step.is_some_and(|step| step.done)
    }

    /// Marks a statement as about to run alone.
    pub(in crate::conductor) fn about_to_run(&mut self, here: Here<'_>) -> Result<(), LoadError> {
        let step = Step {
            done: false,
            line: here.item.line,
            head: head(here.text),
            ..Step::default()
        };
        self.note_statement(here, &step)
    }

    /// Marks a statement as done.
    pub(in crate::conductor) fn finished(
        &mut self,
        here: Here<'_>,
        mut step: Step,
    ) -> Result<(), LoadError> {
        (step.done, step.line, step.head) = (true, here.item.line, head(here.text));
        self.note_statement(here, &step)
    }

    /// Notes a statement that runs alone. What comes before it is never made again, so that must be
    /// on disk first. If the load is [`YOUNG`], several changes of tables in a row are flushed only
    /// after the last of them.
    fn note_statement(&mut self, here: Here<'_>, step: &Step) -> Result<(), LoadError> {
        let name = self.step_name(here);
        let unsettled = self.resume.unsettled;
        let waits = self.may_leave_unsettled(here);
        match waits.filter(|_| step.done || unsettled) {
            None => self.bring_definitions_to_disk()?,
            Some(_) if unsettled => {}
            Some(started) => {
                self.resume.unsettled = true;
                return self.on_marks("writing a progress mark", |marks, conn| {
                    marks.note_unsettled(conn, (&name, step), started)
                });
            }
        }
        self.note_step(StepKind::Statement, &name, step)
    }

    /// When the server was started, if what this statement defines need not be on disk at once.
    fn may_leave_unsettled(&self, here: Here<'_>) -> Option<i64> {
        // If the server refuses to flush, the mark would stay.
        let young = !self.resume.active && self.resume.syncs && self.resume.begun.elapsed() < YOUNG;
        // Behind a proxy, the server that answers may not be the one that is written to.
        let direct = self.ctx.first_connection != 0;
        let of_files = self.catalog.server().vendor == Vendor::MariaDb;
        if !(young && direct && of_files && is_change_of_table(&here.item.kind)) {
            return None;
        }
        self.ctx
            .server_started
            .filter(|_| !has_any(here.text, &MOVES))
    }

    /// Flushes the definitions of statements that are marked done.
    pub(in crate::conductor) fn settle_definitions(&mut self) -> Result<(), LoadError> {
        if self.resume.unsettled {
            self.bring_definitions_to_disk()?;
        }
        Ok(())
    }

    fn bring_definitions_to_disk(&mut self) -> Result<(), LoadError> {
        if self.resume.unsynced || self.resume.unsettled {
            let mut synced = false;
            self.on_marks("bringing definitions to the disk", |_, conn| {
                synced = Marks::sync_definitions(conn)?;
                Ok(())
            })?;
            self.resume.unsynced = false;
            self.resume.syncs = synced;
            if synced && std::mem::take(&mut self.resume.unsettled) {
                self.on_marks("writing a progress mark", |marks, conn| {
                    marks.note_settled(conn)
                })?;
            }
        }
        Ok(())
    }

    /// The marks that the load has written, if any.
    pub(crate) fn made_marks(&self) -> Option<LeftMarks> {
        let tables = &self.resume.tables;
        let (rows_logged, tables_logged) = (!tables.unlogged, tables.logged);
        let marks = self.ctx.marks.as_ref();
        let marks = marks.filter(|_| tables_logged || !rows_logged)?;
        Some(marks.left(rows_logged, tables_logged))
    }

    /// Removes the marks of a load that has ended.
    pub(crate) fn forget_marks(&mut self) -> Result<(), LoadError> {
        let Some(marks) = self.made_marks() else {
            return Ok(());
        };
        self.catalog.leave_session();
        marks
            .remove(&mut self.catalog.conn)
            .map_err(|error| LoadError::server("removing the progress marks", error))
    }

    /// After an error: whether the same load can be resumed. The marks of a load that changed
    /// nothing are removed.
    pub(crate) fn keeps_marks(&mut self) -> bool {
        if self.ctx.marks.is_none() {
            return false;
        }
        if self.findings.touched {
            // If the connection is lost, the next load finds out.
            let _ = self.settle_definitions();
            return true;
        }
        // If the connection is lost, the marks stay, and the next load removes them.
        let _ = self.forget_marks();
        false
    }
}
