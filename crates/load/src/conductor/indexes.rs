//! Adds secondary indexes and foreign keys after the rows.
//!
//! A table is created by the dump's own statement, whole. Once it turns out to be large, its
//! secondary indexes and the foreign keys that hold them are dropped while it is still empty. They
//! are added again when its rows are in, because sorting once is cheaper than placing each row. The
//! clauses are the server's own, from `SHOW CREATE TABLE`, so the table ends exactly as it began.
//! Some keys stay: the clustering key, the key of an `AUTO_INCREMENT` column, and keys whose
//! position would change.

use std::sync::Arc;

use refloat_run::Event;
use refloat_run::progress::{Phase, TableState};
use refloat_sqltext::{InsertVerb, literal};
use refloat_wire::Vendor;

use super::Conductor;
use super::entry::Entry;
use crate::deferral::{Deferral, split};
use crate::error::LoadError;
use crate::link::Link;
use crate::options::OnError;
use crate::patience::alter;
use crate::queue::Task;
use crate::session::Session;
use crate::table::{Table, TableDetail};

/// Share of the free space in the server's temporary directory that all index builds may use
/// together.
const TMPDIR_SHARE: f64 = 0.8;

impl Conductor<'_> {
    /// Drops what can be deferred from a table that is still empty: secondary indexes and foreign
    /// keys.
    pub(super) fn defer(&mut self, index: usize) -> Result<(), LoadError> {
        let table = Arc::clone(&self.ledger.entries[index].table);
        if !self.ledger.entries[index]
            .engine
            .eq_ignore_ascii_case("innodb")
            || !table.created
            || table.rows() > 0
        {
            return Ok(());
        }
        let (create, _) = self.show_create(&table)?;
        let keep_unique = self.ctx.options.on_error == OnError::Continue;
        let Some((drops, deferral)) = split(&create, keep_unique) else {
            return Ok(());
        };
        self.enter_catalog()?;
        match self.catalog.exec(format!(
            "ALTER TABLE {} {}",
            table.quoted(),
            drops.join(", ")
        )) {
            Ok(_) => {
                if let Some(detail) = table.detail() {
                    table.describe(TableDetail {
                        definition: Some(create),
                        deferral: Some(deferral.clone()),
                        ..(*detail).clone()
                    });
                }
                *table.deferral() = deferral;
                Ok(())
            }
            Err(_) if self.ctx.cancel.is_cancelled() => Err(self.ctx.interrupted()),
            Err(error) if error.server_code().is_some() && !error.is_lost_connection() => {
                self.ctx.events.note(format!("table {}: indexes are built with the rows, because the server keeps them: {error}", table.label()));
                Ok(())
            }
            Err(error) => Err(LoadError::server(
                format!("putting off the indexes of table {}", table.label()),
                error,
            )),
        }
    }

    /// Gives the catalogue connection the parts of the dump's session that matter to definitions.
    pub(super) fn enter_catalog(&mut self) -> Result<(), LoadError> {
        let session = self.session()?;
        if self
            .catalog_session
            .as_ref()
            .is_none_or(|current| !Arc::ptr_eq(current, &session))
        {
            let failed = |error| LoadError::server("preparing the session for definitions", error);
            self.catalog.exec(session.altering_set()).map_err(failed)?;
            self.catalog_session = Some(session);
        }
        Ok(())
    }

    /// Adds what was deferred for one table, before rows arrive that need it.
    pub(super) fn build_now(&mut self, index: usize) -> Result<(), LoadError> {
        let table = Arc::clone(&self.ledger.entries[index].table);
        let deferral = table.deferral().clone();
        if deferral.clauses().is_empty() {
            return Ok(());
        }
        self.queue.flush(index, None)?;
        self.queue.wait_key(index)?;
        self.enter_catalog()?;
        for clause in deferral.keys.into_iter().chain(deferral.fulltext) {
            let statement = format!("ALTER TABLE {} {clause}", table.quoted());
            alter(&mut self.catalog, &self.ctx, &statement).map_err(|source| LoadError::Index {
                table: table.label(),
                what: clause,
                source,
            })?;
        }
        let mut left = table.deferral();
        let built = left.keys.len() + left.fulltext.len();
        (left.keys, left.fulltext) = (Vec::new(), Vec::new());
        drop(left);
        table.note_built(built as u64);
        self.add_foreign_keys_of(index)
    }

    /// The task that follows the rows of a table: building its indexes, if they were deferred.
    pub(super) fn build_task(&mut self, index: usize) -> Result<Option<Task>, LoadError> {
        let entry = &mut self.ledger.entries[index];
        let deferral = entry.table.deferral().clone();
        let builds = (deferral.keys.len() + deferral.fulltext.len()) as u64;
        if builds == 0 {
            return Ok(None);
        }
        entry.build_begun = true;
        let (table, session) = (Arc::clone(&entry.table), entry.session.clone());
        let bytes = entry.text_bytes;
        if !std::mem::replace(&mut self.sort_budget_set, true) {
            let budget = self.tmpdir_budget()?;
            self.queue.set_sort_budget(budget);
        }
        self.ctx.progress.plan_builds(builds, bytes * builds);
        let job = Box::new(move |link: &mut Link| {
            build(link, &table, session.as_deref(), &deferral, bytes)
        });
        Ok(Some(Task {
            key: index,
            sorts: bytes,
            job,
        }))
    }

    /// Waits for the index builds, adds foreign keys once all tables have their indexes, and looks
    /// for the parents of rows whose session asks for that.
    pub(super) fn finish_builds(&mut self) -> Result<(), LoadError> {
        if self.ledger.entries.iter().any(|entry| entry.build_begun) {
            self.ctx.phases.enter(Phase::Indexes);
            self.note_defined();
        }
        self.queue.wait_all()?;
        self.add_foreign_keys()?;
        for entry in &mut self.ledger.entries {
            entry.build_begun = false;
            entry.complete = true;
        }
        self.look_for_parents()
    }

    /// Bytes that sorting may use in the server's temporary directory. `None` if the server is not
    /// on this machine or the free space is unknown.
    fn tmpdir_budget(&mut self) -> Result<Option<u64>, LoadError> {
        if !self.ctx.server_is_local {
            return Ok(None);
        }
        let folder = self
            .catalog
            .query_value("SELECT COALESCE(NULLIF(@@innodb_tmpdir, ''), @@tmpdir)")
            .map_err(|error| LoadError::server("asking for the temporary folder", error))?;
        let free = folder.and_then(|folder| {
            refloat_run::machine::disk_available(std::path::Path::new(folder.split(':').next()?))
        });
        Ok(free.map(|free| (free as f64 * TMPDIR_SHARE) as u64))
    }

    /// Adds foreign keys one table at a time: parents and children lock each other's definitions.
    fn add_foreign_keys(&mut self) -> Result<(), LoadError> {
        for index in 0..self.ledger.entries.len() {
            if self.ledger.entries[index].waits_for_foreign_keys() {
                self.ctx.phases.enter(Phase::ForeignKeys);
                self.add_foreign_keys_of(index)?;
            }
        }
        Ok(())
    }

    /// Adds the deferred foreign keys of one table, if any.
    fn add_foreign_keys_of(&mut self, index: usize) -> Result<(), LoadError> {
        let table = Arc::clone(&self.ledger.entries[index].table);
        let deferral = table.deferral().clone();
        if deferral.foreign_keys.is_empty() {
            return Ok(());
        }
        self.check_cancel()?;
        let _shown = self
            .ctx
            .progress
            .table(&table.label(), TableState::ForeignKeys);
        self.enter_catalog()?;
        let what = deferral.foreign_keys.join(", ");
        let statement = format!("ALTER TABLE {} {what}", table.quoted());
        if let Err(source) = alter(&mut self.catalog, &self.ctx, &statement) {
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

    /// Whether `REPLACE` may affect rows of other tables. It deletes the row that it replaces, and
    /// foreign keys that refer to that row either follow (`ON DELETE CASCADE`, `SET NULL`) or
    /// prevent the delete. While any foreign keys are deferred, assume that it may.
    pub(super) fn takes_children_away(
        &mut self,
        index: usize,
        verb: InsertVerb,
    ) -> Result<bool, LoadError> {
        if verb != InsertVerb::Replace || !self.session()?.foreign_key_checks() {
            return Ok(false);
        }
        if self
            .ledger
            .entries
            .iter()
            .any(Entry::waits_for_foreign_keys)
        {
            return Ok(true);
        }
        let tables = self.ledger.entries.len();
        if let Some((then, is)) = self.ledger.entries[index].is_referred_to
            && then == tables
        {
            return Ok(is);
        }
        let table = Arc::clone(&self.ledger.entries[index].table);
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE UNIQUE_CONSTRAINT_SCHEMA = {} AND REFERENCED_TABLE_NAME = {}",
            literal(&table.db),
            literal(&table.name)
        );
        let found = self.catalog.query(sql).map_err(|error| {
            LoadError::server(
                format!("looking for what refers to {}", table.label()),
                error,
            )
        })?;
        let is = found.u64(0, 0).unwrap_or(0) > 0;
        self.ledger.entries[index].is_referred_to = Some((tables, is));
        Ok(is)
    }
}

/// Adds the keys of one table: all in one pass over the rows, then `FULLTEXT` keys one by one.
fn build(
    link: &mut Link,
    table: &Table,
    session: Option<&Session>,
    deferral: &Deferral,
    bytes: u64,
) -> Result<(), LoadError> {
    let ctx = Arc::clone(&link.ctx);
    let failed = |error| {
        LoadError::server(
            format!(
                "preparing the session for the indexes of table {}",
                table.label()
            ),
            error,
        )
    };
    link.leave_session();
    let set = session.map_or_else(
        || "SET SESSION foreign_key_checks = 0".to_owned(),
        Session::altering_set,
    );
    link.conn.exec(set).map_err(failed)?;
    if link.conn.server().vendor == Vendor::MySql {
        // Not every version has these; without them the build is only slower. The server allocates
        // and clears the whole buffer regardless of the table's size (1.2 GiB: 0.14 s).
        let memory = (ctx.index_memory / ctx.options.threads.max(1) as u64).min(bytes * 2);
        let threads = ctx.options.threads.clamp(1, 16);
        for set in [
            format!(
                "SET SESSION innodb_ddl_buffer_size = {}",
                memory.clamp(64 << 10, 4 << 30)
            ),
            format!("SET SESSION innodb_ddl_threads = {threads}"),
            format!("SET SESSION innodb_parallel_read_threads = {threads}"),
        ] {
            let _ = link.conn.exec(set);
        }
    }
    let _shown = ctx.progress.table(&table.label(), TableState::Indexing);
    let mut steps: Vec<(Vec<String>, u64)> = Vec::new();
    if !deferral.keys.is_empty() {
        steps.push((deferral.keys.clone(), deferral.keys.len() as u64));
    }
    steps.extend(
        deferral
            .fulltext
            .iter()
            .map(|clause| (vec![clause.clone()], 1)),
    );
    for (clauses, builds) in steps {
        let what = clauses.join(", ");
        let started = std::time::Instant::now();
        ctx.events.emit(Event::BuildStarted {
            table: table.label(),
            what: what.clone(),
        });
        let progress = ctx.progress.build(builds, bytes * builds);
        let statement = format!("ALTER TABLE {} {what}", table.quoted());
        alter(&mut link.conn, &ctx, &statement).map_err(|source| LoadError::Index {
            table: table.label(),
            what: what.clone(),
            source,
        })?;
        progress.finish();
        // What is built is no longer missing, even if a later step fails.
        let mut left = table.deferral();
        left.keys.retain(|key| !clauses.contains(key));
        left.fulltext.retain(|key| !clauses.contains(key));
        drop(left);
        table.note_built(builds);
        ctx.events.emit(Event::BuildFinished {
            table: table.label(),
            what,
            seconds: started.elapsed().as_secs_f64(),
        });
    }
    Ok(())
}
