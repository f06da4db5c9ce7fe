//! Tables, databases and programs that an earlier process left behind.

use std::sync::Arc;

use refloat_run::Refusal;
use refloat_schema::definition::{differences, written_for};
use refloat_wire::codes::NO_SUCH_TABLE;

use super::super::Conductor;
use super::super::catalog::Catalog;
use super::super::databases::default_collation;
use super::super::dialogue::Dialogue;
use super::super::entry::Print;
use super::super::here::Here;
use super::super::ledger::Ledger;
use super::super::name::{TableKey, quoted_name};
use super::super::postponed::alter;
use super::super::registry::{engine_of, is_versioned};
use super::super::tables::warn_of_unread;
use super::{DatabaseStep, Resume};
use crate::error::{LoadError, START_OVER};
use crate::marks::{Found, TableFound};
use crate::options::ExistingPolicy;
use crate::programs::Kind;
use crate::table::TableDetail;
use crate::tablespace::remove_files;

impl Conductor<'_> {
    /// Registers a table whose definition has run and some of whose rows may be loaded: it stays as
    /// it is.
    pub(in crate::conductor) fn take_up(
        &mut self,
        key: &TableKey,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let found = self.resume.found.tables.get(key);
        if found.is_none() && self.resume.found.imports.contains(key) {
            return Err(LoadError::Stopped(vec![Refusal {
                reason: format!(
                    "{}: line {}: the tablespace of table {}.{} was being built when the load was \
                    interrupted, and statements after this one have changed the table since",
                    here.file, here.item.line, key.0, key.1
                ),
                hint: START_OVER.to_owned(),
            }]));
        }
        let detail = found.map_or_else(
            || TableDetail {
                created: true,
                ..TableDetail::default()
            },
            |table| table.detail.clone(),
        );
        let described = found.is_some();
        if self.ledger.known(key).is_some() {
            self.forget(key);
        }
        let index = self
            .ledger
            .register(key.clone(), detail.created, detail.rows_before);
        let table = Arc::clone(&self.ledger.entries[index].table);
        let (create, _) = match self.catalog.show_create(&table) {
            Ok(shown) => shown,
            // ER_NO_SUCH_TABLE.
            Err(LoadError::Server { source, .. })
                if source.server_code() == Some(NO_SUCH_TABLE) =>
            {
                if self.resume.in_past() {
                    // A later statement has renamed or dropped it.
                    return Ok(());
                }
                return Err(LoadError::Stopped(vec![Refusal {
                    reason: format!(
                        "table {} is gone, although the load had written {} rows into it",
                        table.label(),
                        found_rows(&self.resume.found, key)
                    ),
                    hint: START_OVER.to_owned(),
                }]));
            }
            Err(error) => return Err(error),
        };
        let original = detail.definition.clone().unwrap_or_else(|| create.clone());
        let entry = &mut self.ledger.entries[index];
        entry.definition = Some(Print::corrected(&original));
        entry.engine = engine_of(&create);
        entry.versioned = is_versioned(&create);
        entry.indexes_decided = described;
        if let Some(deferral) = detail.deferral.clone() {
            *table.deferral() = deferral.lacking(&create);
        }
        if described {
            table.describe(detail);
            table.note_described();
        }
        if self.resume.in_past() {
            return Ok(());
        }
        let mode = self.dialogue.session()?.lex_mode();
        let server = self.catalog.server().into();
        let written = written_for(here.text, mode, server);
        warn_of_unread(
            &self.ctx,
            &format!("table {}", table.label()),
            &written.lost,
            here.item.line,
        );
        let text = self.dialogue.map_collations(&written.text)?.into_owned();
        for difference in differences(server, &table.label(), &text, mode, &original) {
            self.ctx.differ(difference);
        }
        Ok(())
    }

    /// Whether a table stays as an earlier process left it. If not, what that process left is
    /// removed, and the table is created again.
    pub(in crate::conductor) fn stays(
        &mut self,
        key: &TableKey,
        here: Here<'_>,
    ) -> Result<bool, LoadError> {
        if self.resume.in_past() {
            return Ok(true);
        }
        let begun = self.resume.has_later_rows(key, here);
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
            // Its engine cannot roll back, so no row is known to be there exactly once.
            self.resume.on_marks(
                &mut self.catalog,
                &mut self.dialogue,
                "removing progress marks",
                |marks, conn| marks.forget_table(conn, (&key.0, &key.1)),
            )?;
            self.resume.found.tables.remove(key);
        }
        if self.resume.found.imports.contains(key) {
            self.drop_unimported(key)?;
            return Ok(false);
        }
        if self.ledger.existed(key) {
            return Ok(false);
        }
        // The view that this table is a placeholder for may exist already.
        self.remove_leftover(Kind::View, key)?;
        if !self.catalog.is_there(key)? {
            return Ok(false);
        }
        let quoted = quoted_name(key);
        let any = self
            .catalog
            .conn
            .query_value(format!("SELECT 1 FROM {quoted} LIMIT 1"))
            .map_err(failed)?;
        if any.is_some() && !redone {
            return Err(LoadError::Stopped(vec![Refusal {
                reason: format!(
                    "table {}.{} holds rows that this load did not write: no progress mark covers \
                    them",
                    key.0, key.1
                ),
                hint: "Drop the table if its rows are not needed, and run the same command again."
                    .to_owned(),
            }]));
        }
        self.catalog.enter(&self.dialogue.session()?)?;
        self.catalog
            .conn
            .exec(format!("DROP TABLE IF EXISTS {quoted}"))
            .map_err(failed)?;
        Ok(false)
    }

    /// Removes a table whose tablespace was being built or imported.
    fn drop_unimported(&mut self, key: &TableKey) -> Result<(), LoadError> {
        let table = format!("{}.{}", key.0, key.1);
        let conn = &mut self.catalog.conn;
        let dropped = conn
            .exec("SET SESSION foreign_key_checks = 0")
            .and_then(|_| conn.exec(format!("DROP TABLE IF EXISTS {}", quoted_name(key))));
        dropped.map_err(|error| {
            LoadError::server(
                format!("removing what an earlier run has left of table {table}"),
                error,
            )
        })?;
        // Elsewhere, the same path is another server's.
        let removed = if self.ctx.server_is_local {
            remove_files(conn, &key.0, &key.1)
        } else {
            Ok(())
        };
        self.catalog.leave_session();
        removed.map_err(|source| LoadError::Tablespace {
            table,
            doing: "removing what an earlier run has left of its file",
            source: source.into(),
        })
    }

    /// Removes a view or program that an earlier process created, before it is created again.
    pub(in crate::conductor) fn remove_leftover(
        &mut self,
        kind: Kind,
        key: &TableKey,
    ) -> Result<(), LoadError> {
        if !self.resume.resumes() || self.resume.in_past() || self.ledger.existed_program(kind, key)
        {
            return Ok(());
        }
        self.catalog.enter(&self.dialogue.session()?)?;
        // The dump's session may read names in another character set.
        self.catalog.leave_session();
        let quoted = quoted_name(key);
        // Ignore errors: if something is in the way, the statement that follows will say so.
        let _ = self.catalog.conn.exec("SET NAMES utf8mb4");
        let _ = self
            .catalog
            .conn
            .exec(format!("DROP {kind} IF EXISTS {quoted}"));
        Ok(())
    }
}

impl Resume {
    /// What the marks say about a table that the dump does not create. `None`: look at it as if it
    /// were met for the first time.
    pub fn appended_to(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        key: &TableKey,
    ) -> Result<Option<TableDetail>, LoadError> {
        let Some(found) = self.found.tables.get(key) else {
            return Ok(None);
        };
        if self.in_past() {
            return Ok(Some(found.detail.clone()));
        }
        if !found.detail.transactional {
            let (rows_before, sent) = (found.detail.rows_before, found.stored());
            self.empty_again(catalog, dialogue, key, rows_before, sent)?;
            return Ok(None);
        }
        Ok(Some(found.detail.clone()))
    }

    /// Empties a table that was empty before an earlier process marked `sent` rows in it. Its
    /// engine cannot roll back, so no row is known to be there exactly once.
    fn empty_again(
        &mut self,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        key: &TableKey,
        rows_before: u64,
        sent: u64,
    ) -> Result<(), LoadError> {
        let about = format!(
            "table {}.{} has an engine without transactions",
            key.0, key.1
        );
        let stopped =
            |reason: String, hint: String| LoadError::Stopped(vec![Refusal { reason, hint }]);
        if rows_before > 0 {
            return Err(stopped(
                format!(
                    "{about}, and rows were added to those that it had: it is not known which of \
                    them are loaded"
                ),
                "Remove the added rows, and start over with --restart.".to_owned(),
            ));
        }
        let quoted = quoted_name(key);
        let rows = catalog.count(&quoted)?;
        // Marks are committed before their rows, so there cannot be more rows than marks.
        if rows > sent || (rows > 0 && self.ctx.options.existing == ExistingPolicy::Append) {
            return Err(stopped(
                format!(
                    "{about}: it is not known which of its {rows} rows come from this load, which \
                    sent {sent}"
                ),
                format!(
                    "It was empty before. TRUNCATE TABLE {quoted} if none of its rows is needed, and run the same command again."
                ),
            ));
        }
        if rows > 0 {
            catalog.enter(&dialogue.session()?)?;
            catalog
                .conn
                .exec(format!("TRUNCATE TABLE {quoted}"))
                .map_err(|error| {
                    LoadError::server(
                        format!("emptying {quoted}, whose rows are loaded again"),
                        error,
                    )
                })?;
        }
        self.on_marks(
            catalog,
            dialogue,
            "removing progress marks",
            |marks, conn| marks.forget_table(conn, (&key.0, &key.1)),
        )?;
        self.found.tables.remove(key);
        Ok(())
    }

    /// Records the collation of a database before the dump changes it.
    pub fn note_collation(
        &mut self,
        ledger: &Ledger,
        catalog: &mut Catalog,
        dialogue: &mut Dialogue,
        database: &str,
    ) -> Result<(), LoadError> {
        if self.ctx.marks.is_none() || self.in_past() || ledger.altered.contains(database) {
            return Ok(());
        }
        let Some(found) = ledger.databases.get(database) else {
            return Ok(());
        };
        let contents = found.contents.clone();
        let collation = default_collation(&mut catalog.conn, database)?;
        let step = DatabaseStep {
            contents,
            collation,
        };
        self.note_database(catalog, dialogue, database, &step)
    }

    /// Whether rows of a table that come after this statement are loaded: then it has run, and must
    /// not run again.
    pub fn has_later_rows(&self, key: &TableKey, here: Here<'_>) -> bool {
        let file = self.file(here.file);
        let found = self.found.tables.get(key);
        found.is_some_and(|table| table.has_rows_after(file, here.item.offset))
    }

    /// Whether rows of any table of a database that come after this statement are loaded.
    pub fn database_has_later_rows(&self, database: &str, here: Here<'_>) -> bool {
        let file = self.file(here.file);
        let mut tables = self.found.tables.iter();
        tables.any(|(key, table)| key.0 == database && table.has_rows_after(file, here.item.offset))
    }
}

impl Catalog {
    /// Restores the collation that a database had before the dump changed it for a while.
    pub fn restore_collation(&mut self, database: &str, wanted: &str) -> Result<(), LoadError> {
        let now = default_collation(&mut self.conn, database)?;
        if now.as_deref().is_none_or(|now| now == wanted) {
            return Ok(());
        }
        alter(&mut self.conn, database, wanted)
    }
}

fn found_rows(found: &Found, key: &TableKey) -> u64 {
    found.tables.get(key).map_or(0, TableFound::stored)
}
