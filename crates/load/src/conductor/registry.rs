//! Examines databases and tables of the target before the dump changes them, and records them in
//! the ledger.

use std::sync::Arc;

use refloat_read::columns;
use refloat_run::Event;
use refloat_run::progress::TableState;
use refloat_schema::columns::{Layout, columns as columns_of};
use refloat_schema::pattern::is_system_database;

use super::Conductor;
use super::ledger::Database;
use super::name::{TableKey, quoted_name};
use super::resume::DatabaseStep;
use crate::error::LoadError;
use crate::options::{ExistingPolicy, LoadOptions, SystemSchemaMode};
use crate::preflight;
use crate::refusals;
use crate::table::{TableDetail, is_transactional};

/// What a statement does in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Create or drop objects.
    Define,
    /// Only add rows.
    Rows,
}

impl Conductor<'_> {
    /// Examines a database before the first change to it, and refuses a load that would destroy
    /// something.
    pub(super) fn touch(&mut self, database: &str, touch: Touch) -> Result<(), LoadError> {
        if let Some(wanted) = &self.ctx.options.database
            && !self.ledger.case_folding.same(wanted, database)
            && !is_system_database(database)
        {
            let refusal = refusals::other_database(database, None, wanted);
            return Err(LoadError::Refused(vec![refusal]));
        }
        if !self.ledger.databases.contains_key(database) {
            let found = self.first_look(database)?;
            self.ledger.databases.insert(database.to_owned(), found);
        }
        let policy = self.ctx.options.existing;
        let Some(found) = self.ledger.databases.get_mut(database) else {
            return Ok(());
        };
        if touch == Touch::Rows
            || found.judged
            || policy != ExistingPolicy::Refuse
            || is_system_database(database)
        {
            return Ok(());
        }
        found.judged = true;
        let names = found.contents.names();
        if names.is_empty() {
            return Ok(());
        }
        Err(LoadError::Refused(vec![refusals::not_empty(
            database, &names,
        )]))
    }

    /// A database as it was before the load: as an earlier process found it, or as it is now.
    fn first_look(&mut self, database: &str) -> Result<Database, LoadError> {
        if let Some(step) = self.resume.database_found(database) {
            if let Some(collation) = step.collation.filter(|_| !self.resume.in_past()) {
                self.catalog.restore_collation(database, &collation)?;
            }
            return Ok(Database {
                contents: step.contents,
                judged: true,
            });
        }
        let found = self.catalog.look(database)?;
        let policy = self.ctx.options.existing;
        if policy == ExistingPolicy::Refuse && !found.contents.names().is_empty() {
            // The load will be refused, or will only add rows.
            return Ok(found);
        }
        let contents = found.contents.clone();
        let step = DatabaseStep {
            contents,
            collation: None,
        };
        self.resume
            .note_database(&mut self.catalog, &mut self.dialogue, database, &step)?;
        Ok(found)
    }

    /// Forgets whatever had this name, after the dump dropped it, and its postponed triggers.
    pub(super) fn forget(&mut self, key: &TableKey) {
        self.ledger.forget(key);
        self.deferred.forget(key);
    }

    /// The table that rows are for. It is examined before its first rows.
    pub(super) fn table_for_rows(&mut self, key: &TableKey) -> Result<usize, LoadError> {
        if let Some(index) = self.ledger.known(key) {
            if self.ledger.entries[index].table.layout().is_none() {
                self.read_layout(index)?;
            }
            return Ok(index);
        }
        self.touch(&key.0, Touch::Rows)?;
        if self.catalog.is_view(key)? {
            let index = self.register_view(key)?;
            self.read_layout(index)?;
            return Ok(index);
        }
        if let Some(detail) = self
            .resume
            .appended_to(&mut self.catalog, &mut self.dialogue, key)?
        {
            let index = self.ledger.register(key.clone(), false, detail.rows_before);
            self.read_layout(index)?;
            let table = &self.ledger.entries[index].table;
            table.describe(detail);
            table.note_described();
            return Ok(index);
        }
        let quoted = quoted_name(key);
        let before = self
            .catalog
            .conn
            .query_value(format!(
                "SELECT COUNT(*) FROM (SELECT 1 FROM {quoted} LIMIT 1) AS probe"
            ))
            .map_err(|error| {
                LoadError::server(format!("looking at table {}.{}", key.0, key.1), error)
            })?;
        let mut rows_before = 0;
        if before.as_deref() != Some("0") {
            // Rows in a table that did not exist before are the dump's own, from a statement that
            // is not tracked in detail.
            if self.ctx.options.existing != ExistingPolicy::Append && self.ledger.existed(key) {
                let refusal = refusals::holds_rows(&key.0, &key.1);
                return Err(LoadError::Refused(vec![refusal]));
            }
            rows_before = self.catalog.count(&quoted)?;
        }
        let fired = preflight::triggers_of(&mut self.catalog.conn, &key.0, &key.1);
        let fired = fired.map_err(|error| {
            LoadError::server(
                format!("listing the triggers of table {}.{}", key.0, key.1),
                error,
            )
        })?;
        if let Some(refusal) = fired {
            return Err(LoadError::Refused(vec![refusal]));
        }
        let index = self.ledger.register(key.clone(), false, rows_before);
        self.read_layout(index)?;
        Ok(index)
    }

    /// Reads the columns of a table and shows it as being loaded.
    fn read_layout(&mut self, index: usize) -> Result<(), LoadError> {
        let table = Arc::clone(&self.ledger.entries[index].table);
        let server = |error| {
            LoadError::server(
                format!("reading the columns of table {}", table.label()),
                error,
            )
        };
        let mut shown = self.ledger.entries[index].shown.take();
        if shown.is_none() && !table.is_view() {
            // An `ALTER` may have changed any of this.
            let create = self.catalog.show_as_is(&table)?;
            shown = columns_of(&create);
            let entry = &mut self.ledger.entries[index];
            entry.versioned = is_versioned(&create);
            entry.engine = engine_of(&create);
        }
        let ctx = Arc::clone(&self.ctx);
        if let Some(cluster) = &ctx.cluster
            && !table.is_view()
        {
            let keyless = !has_primary_key(&self.catalog.show_as_is(&table)?)
                && !self.catalog.has_key_in_its_place(&table).map_err(server)?;
            let engine = &self.ledger.entries[index].engine;
            cluster.admit(&ctx.options, &ctx.events, &table.label(), engine, keyless)?;
        }
        let transactional = is_transactional(&self.ledger.entries[index].engine);
        let versioned = self.ledger.entries[index].versioned;
        let history = versioned && self.dialogue.session()?.writes_history();
        let catalog = &mut self.catalog.conn;
        let mut layout = match shown {
            Some(columns) => Layout::of(columns, transactional, versioned),
            None => columns::read(catalog, &table.db, &table.name, transactional, versioned)
                .map_err(server)?,
        };
        if history {
            columns::with_period(&mut layout, catalog, &table.db, &table.name).map_err(server)?;
        }
        // Full-text indexes refuse a document number below one they have seen.
        let numbered = layout
            .columns
            .iter()
            .any(|column| column.name.eq_ignore_ascii_case("FTS_DOC_ID"));
        table.set_layout(Some(layout));
        if table.detail().is_none() {
            table.describe(TableDetail {
                created: table.created,
                rows_before: table.rows_before,
                transactional,
                definition: None,
                deferral: None,
            });
        }
        table.show(self.ctx.progress.table(&table.label(), TableState::Loading));
        self.ctx.events.emit(Event::TableStarted {
            table: table.label(),
        });
        if numbered {
            self.ledger.entries[index].ordered = true;
        }
        if !transactional {
            // Rows cannot be rolled back, so they must not be written twice: write them one after
            // another, in dump order.
            self.ledger.entries[index].ordered = true;
            self.ledger.entries[index].indexes_decided = true;
        }
        Ok(())
    }
}

impl LoadOptions {
    /// Whether statements about this database are left out (`--system-schema skip`). Refuses the
    /// server's own schema if the user has not decided.
    pub fn skips(&self, database: &str) -> Result<bool, LoadError> {
        if !is_system_database(database) {
            return Ok(false);
        }
        match self.system_schema {
            SystemSchemaMode::Load => Ok(false),
            SystemSchemaMode::Skip => Ok(true),
            SystemSchemaMode::Refuse => {
                Err(LoadError::Refused(vec![refusals::system_schema(database)]))
            }
        }
    }
}

/// Whether a `SHOW CREATE TABLE` text is of a system-versioned table.
pub fn is_versioned(create: &str) -> bool {
    create.contains("WITH SYSTEM VERSIONING") || create.contains("GENERATED ALWAYS AS ROW START")
}

/// Whether a `SHOW CREATE TABLE` text has a primary key.
fn has_primary_key(create: &str) -> bool {
    create
        .lines()
        .any(|line| line.trim_start().starts_with("PRIMARY KEY"))
}

/// The engine in a `SHOW CREATE TABLE` text.
pub fn engine_of(create: &str) -> String {
    // The options follow the last line that begins with a parenthesis.
    let options = create.rfind("\n)").map_or(create, |at| &create[at..]);
    options
        .split_once("ENGINE=")
        .map(|(_, rest)| {
            rest.chars()
                .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
                .collect()
        })
        .unwrap_or_default()
}
