//! Steps other than rows, and the tables that hold all marks.

use std::time::Duration;

use refloat_run::Refusal;
use refloat_sqltext::{ItemKind, StatementKind, head};
use refloat_wire::{Connection, Vendor};
use serde::{Deserialize, Serialize};

use super::super::Conductor;
use super::super::catalog::Catalog;
use super::super::dialogue::Dialogue;
use super::super::here::Here;
use super::Resume;
use crate::error::LoadError;
use crate::marks::{LeftMarks, Marks, StepKind, parsed};
use crate::programs::Contents;

/// In a load this young, starting over costs little if a power cut loses definitions of statements
/// that are marked done.
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
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// Where the tables of marks are needed so far.
#[derive(Default)]
pub struct MarkTables {
    /// On the server and on its replicas: they are created by statements in the binary log.
    logged: bool,
    /// On the server only: the load has rows that are kept out of the binary log.
    unlogged: bool,
}

/// Whether a statement changes one table and nothing in the session.
pub fn is_change_of_table(kind: &ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::Statement(StatementKind::AlterTable { .. } | StatementKind::Index)
    )
}

/// Whether a change of a table may give it rows that already exist: in a partition, a tablespace,
/// another server or a file.
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
    /// After an error: whether the same load can be resumed. The marks of a load that changed
    /// nothing are removed.
    pub(crate) fn keeps_marks(&mut self) -> bool {
        if self.ctx.marks.is_none() {
            return false;
        }
        if self.findings.touched {
            // If the connection is lost, the next load finds out.
            let _ = self
                .resume
                .settle_definitions(&mut self.catalog, &mut self.dialogue);
            return true;
        }
        // If the connection is lost, the marks stay, and the next load removes them.
        let _ = self.resume.forget_marks(&mut self.catalog);
        false
    }
}

impl Resume {
    fn step_name(&self, here: Here<'_>) -> String {
        format!("{:016x}:{}", self.file(here.file), here.item.offset)
    }

    /// What an earlier process found in a database.
    pub fn database_found(&self, database: &str) -> Option<DatabaseStep> {
        self.found
            .databases
            .get(database)
            .and_then(|detail| parsed(detail))
    }

    /// Records what a database holds before it is changed.
    pub fn note_database(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        database: &str,
        step: &DatabaseStep,
    ) -> Result<(), LoadError> {
        self.note_step(catalog, dialogue, StepKind::Database, database, step)
    }

    fn note_step(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        kind: StepKind,
        name: &str,
        detail: &impl Serialize,
    ) -> Result<(), LoadError> {
        self.on_marks(
            catalog,
            dialogue,
            "writing a progress mark",
            |marks, conn| marks.note_step(conn, kind, name, detail),
        )
    }

    /// Creates the tables of marks where they are missing: on the server, and on its replicas once
    /// rows go there.
    pub fn prepare_marks(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
    ) -> Result<(), LoadError> {
        if self.ctx.marks.is_none() {
            return Ok(());
        }
        let logs = dialogue.session()?.logs() && !self.ctx.binlog_off;
        let tables = &mut self.tables;
        if tables.logged && logs || tables.unlogged && !logs {
            return Ok(());
        }
        let made = tables.logged;
        (tables.logged, tables.unlogged) = (tables.logged || logs, tables.unlogged || !logs);
        if made {
            return Ok(());
        }
        self.log_catalog(catalog, logs)?;
        let Some(marks) = &self.ctx.marks else {
            return Ok(());
        };
        marks
            .begin(&mut catalog.conn)
            .map_err(|error| LoadError::server("preparing progress marks", error))
    }

    /// Runs `work` on the marks, on the catalogue connection. Once rows are kept out of the binary
    /// log, so are these changes.
    pub fn on_marks(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        what: &str,
        work: impl FnOnce(&Marks, &mut Connection) -> Result<(), refloat_wire::Error>,
    ) -> Result<(), LoadError> {
        if self.ctx.marks.is_none() {
            return Ok(());
        }
        let tables = &self.tables;
        // Replicas need the tables only for rows.
        if !tables.logged && !tables.unlogged {
            self.prepare_marks(catalog, dialogue)?;
        }
        self.log_catalog(catalog, !self.tables.unlogged)?;
        match &self.ctx.marks {
            Some(marks) => {
                work(marks, &mut catalog.conn).map_err(|error| LoadError::server(what, error))
            }
            None => Ok(()),
        }
    }

    /// Switches the binary log of the catalogue connection on or off. Switching it on does nothing
    /// if it was never off.
    fn log_catalog(&self, catalog: &mut Catalog, logs: bool) -> Result<(), LoadError> {
        if logs && !self.tables.unlogged {
            return Ok(());
        }
        catalog.leave_session();
        catalog
            .conn
            .exec(format!("SET SESSION sql_log_bin = {}", u8::from(logs)))
            .map(drop)
            .map_err(|error| LoadError::server("preparing progress marks", error))
    }

    /// What an earlier process noted about a statement that runs alone, if that process ran it.
    pub fn passed(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        here: Here<'_>,
    ) -> Result<Option<Step>, LoadError> {
        let name = self.step_name(here);
        match self.steps.remove(&name) {
            Some(step) if step.done => {
                self.frontiers -= 1;
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
                    self.finished(catalog, dialogue, here, step.clone())?;
                    return Ok(Some(step));
                }
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Whether an earlier process ran this statement.
    pub fn is_passed(&self, here: Here<'_>) -> bool {
        let step = self.steps.get(&self.step_name(here));
        step.is_some_and(|step| step.done)
    }

    /// Marks a statement as about to run alone.
    pub fn about_to_run(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let step = Step {
            done: false,
            line: here.item.line,
            head: head(here.text),
            ..Step::default()
        };
        self.note_statement(catalog, dialogue, here, &step)
    }

    /// Marks a statement as done.
    pub fn finished(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        here: Here<'_>,
        mut step: Step,
    ) -> Result<(), LoadError> {
        (step.done, step.line, step.head) = (true, here.item.line, head(here.text));
        self.note_statement(catalog, dialogue, here, &step)
    }

    /// Records a statement that runs alone. What comes before it is never created again, so that
    /// must be on disk first. In a load that is still [`YOUNG`], consecutive changes of tables are
    /// flushed only after the last one.
    fn note_statement(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        here: Here<'_>,
        step: &Step,
    ) -> Result<(), LoadError> {
        let name = self.step_name(here);
        let unsettled = self.unsettled;
        let waits = self.may_leave_unsettled(catalog, here);
        match waits.filter(|_| step.done || unsettled) {
            None => self.bring_definitions_to_disk(catalog, dialogue)?,
            Some(_) if unsettled => {}
            Some(started) => {
                self.unsettled = true;
                return self.on_marks(
                    catalog,
                    dialogue,
                    "writing a progress mark",
                    |marks, conn| marks.note_unsettled(conn, (&name, step), started),
                );
            }
        }
        self.note_step(catalog, dialogue, StepKind::Statement, &name, step)
    }

    /// When the server started, if what this statement defines need not be on disk at once.
    fn may_leave_unsettled(&self, catalog: &Catalog, here: Here<'_>) -> Option<i64> {
        // If the server refuses to flush, the mark would stay.
        let young = !self.active && self.syncs && self.begun.elapsed() < YOUNG;
        // Behind a proxy, the server that answers may not be the one that is written to.
        let direct = self.ctx.first_connection != 0;
        let of_files = catalog.server().vendor == Vendor::MariaDb;
        if !(young && direct && of_files && is_change_of_table(&here.item.kind)) {
            return None;
        }
        self.ctx
            .server_started
            .filter(|_| !has_any(here.text, &MOVES))
    }

    /// Flushes the definitions of statements that are marked done.
    pub fn settle_definitions(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
    ) -> Result<(), LoadError> {
        if self.unsettled {
            self.bring_definitions_to_disk(catalog, dialogue)?;
        }
        Ok(())
    }

    fn bring_definitions_to_disk(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
    ) -> Result<(), LoadError> {
        if self.unsynced || self.unsettled {
            let mut synced = false;
            self.on_marks(
                catalog,
                dialogue,
                "bringing definitions to the disk",
                |_, conn| {
                    synced = Marks::sync_definitions(conn)?;
                    Ok(())
                },
            )?;
            self.unsynced = false;
            self.syncs = synced;
            if synced && std::mem::take(&mut self.unsettled) {
                self.on_marks(
                    catalog,
                    dialogue,
                    "writing a progress mark",
                    Marks::note_settled,
                )?;
            }
        }
        Ok(())
    }

    /// The marks that the load has written, if any.
    pub fn made_marks(&self) -> Option<LeftMarks> {
        let tables = &self.tables;
        let (rows_logged, tables_logged) = (!tables.unlogged, tables.logged);
        let marks = self.ctx.marks.as_ref();
        let marks = marks.filter(|_| tables_logged || !rows_logged)?;
        Some(marks.left(rows_logged, tables_logged))
    }

    /// Removes the marks of a load that has ended.
    pub fn forget_marks(&mut self, catalog: &mut Catalog) -> Result<(), LoadError> {
        let Some(marks) = self.made_marks() else {
            return Ok(());
        };
        catalog.leave_session();
        marks
            .remove(&mut catalog.conn)
            .map_err(|error| LoadError::server("removing the progress marks", error))
    }
}
