//! Adds secondary indexes and foreign keys after the rows.
//!
//! A table's writer drops and builds its indexes ([`crate::table_writer`]). This module handles
//! what concerns several tables: when indexes are built, and the foreign keys between tables.

use std::sync::Arc;

use refloat_run::progress::{Phase, TableState};
use refloat_sqltext::{InsertVerb, literal};

use super::Conductor;
use super::catalog::Catalog;
use super::deferred::Deferred;
use super::dialogue::Dialogue;
use super::entry::Entry;
use super::ledger::Ledger;
use crate::error::LoadError;
use crate::options::WritePath;
use crate::patience::alter;
use crate::table::Table;
use crate::table_writer::Rows;
use crate::tablespace::TablespaceWriter;
use crate::task::Task;

/// Share of the free space in the server's temporary directory that all index builds may use
/// together.
const TMPDIR_SHARE: f64 = 0.8;

impl Conductor<'_> {
    /// Waits for the index builds, adds foreign keys once all tables have their indexes, and looks
    /// for the parents of rows whose session asks for that.
    pub(super) fn finish_builds(&mut self) -> Result<(), LoadError> {
        if self.ledger.entries.iter().any(|entry| entry.build_begun) {
            self.ctx.phases.enter(Phase::Indexes);
            self.resume.note_defined();
        }
        self.queue.wait_all()?;
        self.deferred
            .add_foreign_keys(&self.ledger, &mut self.catalog, &mut self.dialogue)?;
        for entry in &mut self.ledger.entries {
            entry.build_begun = false;
            entry.complete = true;
        }
        self.look_for_parents()
    }
}

impl Deferred<'_> {
    /// Opens the writer of a table that is still empty and turned out to be large.
    pub fn open_writer(
        &self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        entry: &mut Entry,
    ) -> Result<(), LoadError> {
        let table = Arc::clone(&entry.table);
        if !entry.engine.eq_ignore_ascii_case("innodb") || !table.created || table.rows() > 0 {
            return Ok(());
        }
        if self.ctx.options.write_path == WritePath::Tablespace {
            entry.writer = Arc::new(TablespaceWriter::default());
        }
        let writer = Arc::clone(&entry.writer);
        let (create, _) = catalog.show_create(&table)?;
        catalog.enter(&dialogue.session()?)?;
        writer.open(&self.ctx, &mut catalog.conn, &table, &create)
    }

    /// Finishes one table as far as its rows have come, before rows arrive that need that.
    pub fn finish_now(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        entry: &mut Entry,
    ) -> Result<(), LoadError> {
        let task = self.finish_task(catalog, entry)?;
        self.queue.flush(entry.table.id, task)?;
        self.queue.wait_key(entry.table.id)?;
        entry.build_begun = false;
        self.add_foreign_keys_of(catalog, dialogue, &entry.table)
    }

    /// The task that follows the rows of a table, if its writer has one.
    pub fn finish_task(
        &mut self,
        catalog: &mut Catalog,
        entry: &mut Entry,
    ) -> Result<Option<Task>, LoadError> {
        let rows = Rows {
            session: entry.session.clone(),
            bytes: entry.text_bytes,
        };
        let Some(task) = entry.writer.finish(&self.ctx, &entry.table, rows) else {
            return Ok(None);
        };
        entry.build_begun = true;
        if !std::mem::replace(&mut self.sort_budget_set, true) {
            let budget = catalog.tmpdir_budget()?;
            self.queue.set_sort_budget(budget);
        }
        Ok(Some(task))
    }

    /// Adds foreign keys one table at a time: parents and children lock each other's definitions.
    pub fn add_foreign_keys(
        &self,
        ledger: &Ledger,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
    ) -> Result<(), LoadError> {
        for entry in &ledger.entries {
            if entry.waits_for_foreign_keys() {
                self.ctx.phases.enter(Phase::ForeignKeys);
                self.add_foreign_keys_of(catalog, dialogue, &entry.table)?;
            }
        }
        Ok(())
    }

    /// Adds the deferred foreign keys of one table, if any.
    fn add_foreign_keys_of(
        &self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        table: &Table,
    ) -> Result<(), LoadError> {
        let deferral = table.deferral().clone();
        if deferral.foreign_keys.is_empty() {
            return Ok(());
        }
        self.ctx.check_cancel()?;
        let _shown = self
            .ctx
            .progress
            .table(&table.label(), TableState::ForeignKeys);
        catalog.enter(&dialogue.session()?)?;
        let what = deferral.foreign_keys.join(", ");
        let statement = format!("ALTER TABLE {} {what}", table.quoted());
        if let Err(source) = alter(&mut catalog.conn, &self.ctx, &statement) {
            if self.ctx.cancel.is_cancelled() {
                return Err(self.ctx.interrupted());
            }
            return Err(LoadError::Index {
                table: table.label(),
                what,
                source,
            });
        }
        let built = std::mem::take(&mut table.deferral().foreign_keys);
        table.note_built(built.len() as u64);
        Ok(())
    }
}

impl Catalog {
    /// Whether `REPLACE` may affect rows of other tables. It deletes the row that it replaces, and
    /// foreign keys that refer to that row either follow (`ON DELETE CASCADE`, `SET NULL`) or
    /// prevent the delete. While any foreign keys are deferred, assume that it may.
    pub fn takes_children_away(
        &mut self,
        ledger: &mut Ledger,
        dialogue: &mut Dialogue,
        index: usize,
        verb: InsertVerb,
    ) -> Result<bool, LoadError> {
        if verb != InsertVerb::Replace || !dialogue.session()?.foreign_key_checks() {
            return Ok(false);
        }
        if ledger.entries.iter().any(Entry::waits_for_foreign_keys) {
            return Ok(true);
        }
        let tables = ledger.entries.len();
        if let Some((then, is)) = ledger.entries[index].is_referred_to
            && then == tables
        {
            return Ok(is);
        }
        let table = Arc::clone(&ledger.entries[index].table);
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE UNIQUE_CONSTRAINT_SCHEMA = {} AND REFERENCED_TABLE_NAME = {}",
            literal(&table.db),
            literal(&table.name)
        );
        let found = self.conn.query(sql).map_err(|error| {
            LoadError::server(
                format!("looking for what refers to {}", table.label()),
                error,
            )
        })?;
        let is = found.u64(0, 0).unwrap_or(0) > 0;
        ledger.entries[index].is_referred_to = Some((tables, is));
        Ok(is)
    }

    /// Bytes that sorting may use in the server's temporary directory. `None` if the server is not
    /// on this machine or the free space is unknown.
    pub fn tmpdir_budget(&mut self) -> Result<Option<u64>, LoadError> {
        if !self.ctx.server_is_local {
            return Ok(None);
        }
        let folder = self
            .conn
            .query_value("SELECT COALESCE(NULLIF(@@innodb_tmpdir, ''), @@tmpdir)")
            .map_err(|error| LoadError::server("asking for the temporary folder", error))?;
        let free = folder.and_then(|folder| {
            refloat_run::machine::disk_available(std::path::Path::new(folder.split(':').next()?))
        });
        Ok(free.map(|free| (free as f64 * TMPDIR_SHARE) as u64))
    }
}
