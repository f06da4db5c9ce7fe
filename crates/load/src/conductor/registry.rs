//! What is known about the target: databases as they were found, and tables as the dump brings
//! them.

use std::collections::HashSet;
use std::sync::Arc;

use refloat_read::{columns, foreign};
use refloat_run::Event;
use refloat_run::progress::TableState;
use refloat_schema::columns::{Column, Layout};
use refloat_schema::pattern::is_system_database;
use refloat_sqltext::ddl::{ForeignKey, parse_create_table};
use refloat_sqltext::{LexMode, ObjectName, literal, quote_ident};

use super::Conductor;
use super::resume::DatabaseStep;
use crate::error::{LoadError, Refusal};
use crate::options::{ExistingPolicy, SystemSchemaMode};
use crate::programs::{Contents, Kind};
use crate::session::Session;
use crate::table::{Table, TableDetail, is_transactional};

/// Run before reading a definition to compare it. The server shows `TIMESTAMP` defaults in the
/// session's time zone and names in the quotes of its `sql_mode`, and some modes leave options out.
pub const SHOW_SESSION: &str = "SET SESSION time_zone = _utf8mb4'+00:00', SESSION sql_mode = ''";

/// Database and name.
pub type TableKey = (String, String);

/// Quotes a table, view or routine: `` `database`.`name` ``.
pub fn quoted_name(key: &TableKey) -> String {
    format!("{}.{}", quote_ident(&key.0), quote_ident(&key.1))
}

/// A table of the dump, and how far its load has got.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one table, each read by itself"
)]
pub struct Entry {
    /// Shared with the workers.
    pub table: Arc<Table>,
    /// Session state of its latest rows.
    pub session: Option<Arc<Session>>,
    /// Whether its rows must be written in dump order, by one worker at a time.
    pub ordered: bool,
    /// Whether it was decided to defer its indexes or not.
    pub decided: bool,
    /// Whether the index build after its rows has started.
    pub build_begun: bool,
    /// Bytes of row text seen so far.
    pub text_bytes: u64,
    /// Rows cut so far into chunks of a fixed number of rows.
    pub cut_rows: u64,
    /// Fingerprint of `SHOW CREATE TABLE` before its rows, without the next `AUTO_INCREMENT` value.
    pub definition: Option<u128>,
    /// Its columns, if the definition just shown could be parsed.
    pub shown: Option<Vec<Column>>,
    /// Storage engine.
    pub engine: String,
    /// Whether the table is system-versioned.
    pub versioned: bool,
    /// Whether `DISABLE KEYS` was run for it.
    pub keys_disabled: bool,
    /// Its foreign keys, once they were read. Reset when the dump may have changed the table.
    pub foreign_keys: Option<ForeignKeys>,
    /// Whether it may hold rows that no foreign key was checked for: rows of a session without
    /// checks, or rows older than the key.
    pub unchecked: bool,
    /// Whether it has rows of a session with checks whose parents were not looked for yet.
    pub wants_parents: bool,
    /// Whether foreign keys refer to it, with the number of known tables when that was looked up.
    /// Reset when the dump may have changed the table.
    pub is_referred_to: Option<(usize, bool)>,
    /// Whether its indexes and foreign keys are all in place.
    pub complete: bool,
    /// Whether the dump dropped it again.
    pub dropped: bool,
}

impl Entry {
    /// Notes that rows of this session follow. `compared`: the server itself looks for their
    /// parents.
    pub fn note_session(&mut self, session: &Session, compared: bool) {
        let checks = session.foreign_key_checks();
        self.unchecked |= !checks;
        self.wants_parents |= checks && !compared && !self.table.is_view();
    }

    /// Whether it has deferred foreign keys to add.
    pub fn waits_for_foreign_keys(&self) -> bool {
        !self.dropped && !self.table.deferral().foreign_keys.is_empty()
    }
}

/// Foreign keys of a table.
pub enum ForeignKeys {
    /// All of them.
    Read(Vec<ForeignKey>),
    /// The definition that the server shows cannot be parsed.
    Unreadable,
}

impl ForeignKeys {
    /// The keys in a `SHOW CREATE TABLE` text.
    pub fn of(create: &str) -> Self {
        if !create.contains(" FOREIGN KEY (") {
            return Self::Read(Vec::new());
        }
        let Ok(parsed) = parse_create_table(create.as_bytes(), LexMode::default()) else {
            return Self::Unreadable;
        };
        Self::Read(parsed.foreign_keys().cloned().collect())
    }

    /// Adds deferred keys, given as the clauses that add them.
    pub fn and(self, put_off: &[String]) -> Self {
        let elements: Vec<&str> = put_off
            .iter()
            .map(|clause| clause.strip_prefix("ADD ").unwrap_or(clause))
            .collect();
        let others = match elements.as_slice() {
            [] => return self,
            elements => Self::of(&format!("CREATE TABLE t ({})", elements.join(", "))),
        };
        match (self, others) {
            (Self::Read(shown), Self::Read(others)) => Self::Read([shown, others].concat()),
            _ => Self::Unreadable,
        }
    }
}

/// A database as it was found.
pub struct Database {
    /// What it held then and still holds.
    pub contents: Contents,
    /// Whether its contents were checked against the policy for existing objects.
    judged: bool,
}

/// What a statement does in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Create or drop objects.
    Define,
    /// Only add rows.
    Rows,
}

impl Conductor<'_> {
    /// The database and name that `name` refers to at this place of the dump.
    pub(super) fn resolve(&mut self, name: &ObjectName) -> Result<TableKey, LoadError> {
        let table = String::from_utf8_lossy(&name.name).into_owned();
        if let Some(database) = &name.database {
            return Ok((String::from_utf8_lossy(database).into_owned(), table));
        }
        match &self.session()?.database {
            Some(database) => Ok((database.clone(), table)),
            None => Err(LoadError::Refused(vec![Refusal {
                reason: format!("the dump names no database for table {table}"),
                hint: "Say where it goes with --database, or put the database into the URL."
                    .to_owned(),
            }])),
        }
    }

    /// Whether statements about this database are left out (`--system-schema skip`). Refuses the
    /// server's own schema if the user has not decided.
    pub(super) fn leaves_out(&mut self, database: &str) -> Result<bool, LoadError> {
        if !is_system_database(database) {
            return Ok(false);
        }
        match self.ctx.options.system_schema {
            SystemSchemaMode::Load => Ok(false),
            SystemSchemaMode::Skip => Ok(true),
            SystemSchemaMode::Refuse => {
                Err(LoadError::Refused(vec![Refusal::system_schema(database)]))
            }
        }
    }

    /// Whether this is the server's own schema, of which nothing is changed or deferred.
    pub(super) fn is_system(database: &str) -> bool {
        is_system_database(database)
    }

    /// Looks at a database before the first change to it, and refuses a load that would destroy
    /// something.
    pub(super) fn touch(&mut self, database: &str, touch: Touch) -> Result<(), LoadError> {
        if let Some(wanted) = &self.ctx.options.database
            && !self.folded.same(wanted, database)
            && !Self::is_system(database)
        {
            let refusal = Refusal::other_database(database, None, wanted);
            return Err(LoadError::Refused(vec![refusal]));
        }
        if !self.databases.contains_key(database) {
            let found = self.first_look(database)?;
            self.databases.insert(database.to_owned(), found);
        }
        let policy = self.ctx.options.existing;
        let Some(found) = self.databases.get_mut(database) else {
            return Ok(());
        };
        if touch == Touch::Rows
            || found.judged
            || policy != ExistingPolicy::Refuse
            || Self::is_system(database)
        {
            return Ok(());
        }
        found.judged = true;
        let names = found.contents.names();
        if names.is_empty() {
            return Ok(());
        }
        Err(LoadError::Refused(vec![Refusal::not_empty(
            database, &names,
        )]))
    }

    /// A database as it was before the load: as an earlier process found it, or as it is now.
    fn first_look(&mut self, database: &str) -> Result<Database, LoadError> {
        if let Some(step) = self.database_found(database) {
            self.restore_collation(database, step.collation.as_deref())?;
            return Ok(Database {
                contents: step.contents,
                judged: true,
            });
        }
        let found = self.look(database)?;
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
        self.note_database(database, &step)?;
        Ok(found)
    }

    /// Lists what a database holds. One that does not exist holds nothing, and is about to be
    /// created.
    fn look(&mut self, database: &str) -> Result<Database, LoadError> {
        let triggers = self.ctx.options.existing == ExistingPolicy::Append;
        let contents = Contents::read(&mut self.catalog, database, triggers).map_err(|error| {
            LoadError::server(format!("listing what database {database} holds"), error)
        })?;
        Ok(Database {
            contents: contents.unwrap_or_default(),
            judged: false,
        })
    }

    /// Whether a database had tables before the run and still has some of them.
    pub(super) fn held_tables(&self, database: &str) -> bool {
        self.databases
            .get(database)
            .is_some_and(|found| !found.contents.tables.is_empty())
    }

    /// Whether a base table of this name existed before the run and still does.
    pub(super) fn existed(&self, key: &TableKey) -> bool {
        self.databases
            .get(&key.0)
            .is_some_and(|database| self.holds(&database.contents.tables, &key.1))
    }

    /// Whether a list of the server's names contains this one, compared as the server does.
    fn holds(&self, names: &HashSet<String>, name: &str) -> bool {
        names.contains(name)
            || self.folded.on && names.iter().any(|one| self.folded.same(one, name))
    }

    /// Whether a database held anything before the run and still holds some of it.
    pub(super) fn held_anything(&self, database: &str) -> bool {
        self.databases
            .get(database)
            .is_some_and(|found| !found.contents.names().is_empty())
    }

    /// Whether a view or program of this name existed before the run and still does.
    pub(super) fn existed_program(&self, kind: Kind, key: &TableKey) -> bool {
        self.databases
            .get(&key.0)
            .is_some_and(|database| match kind {
                Kind::View => self.holds(&database.contents.views, &key.1),
                Kind::Sequence => self.holds(&database.contents.tables, &key.1),
                _ => database
                    .contents
                    .programs
                    .contains(&(kind, key.1.to_lowercase())),
            })
    }

    /// Forgets a program that existed before, after it was dropped.
    pub(super) fn forget_program(&mut self, kind: Kind, key: &TableKey) {
        if let Some(database) = self.databases.get_mut(&key.0) {
            database
                .contents
                .programs
                .remove(&(kind, key.1.to_lowercase()));
        }
    }

    /// Whether a table of this name exists now.
    pub(super) fn is_there(&mut self, key: &TableKey) -> Result<bool, LoadError> {
        match self
            .catalog
            .query(format!("SHOW COLUMNS FROM {}", quoted_name(key)))
        {
            Ok(_) => Ok(true),
            // ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR.
            Err(error) if matches!(error.server_code(), Some(1146 | 1049)) => Ok(false),
            Err(error) => Err(LoadError::server(
                format!("looking for table {}.{}", key.0, key.1),
                error,
            )),
        }
    }

    /// Forgets what existed before, after the dump dropped it.
    pub(super) fn forget(&mut self, key: &TableKey) {
        if let Some(database) = self.databases.get_mut(&key.0) {
            let contents = &mut database.contents;
            contents.tables.remove(&key.1);
            contents.views.remove(&key.1);
            if self.folded.on {
                let other = |name: &String| !self.folded.same(name, &key.1);
                contents.tables.retain(other);
                contents.views.retain(other);
            }
        }
        if let Some(index) = self.by_name.remove(key) {
            self.entries[index].dropped = true;
        }
        // Its triggers go with it, including postponed ones.
        self.triggered.remove(key);
        self.postponed.retain(|one| one.table.as_ref() != Some(key));
        self.created.retain(|one| {
            one.database != key.0
                || one
                    .trigger
                    .as_ref()
                    .is_none_or(|trigger| trigger.table != key.1)
        });
    }

    /// Adds a table, which is the one of this name from now on.
    pub(super) fn register(&mut self, key: TableKey, created: bool, rows_before: u64) -> usize {
        let index = self.entries.len();
        let table = Table::new(index, key.0.clone(), key.1.clone(), created, rows_before);
        self.entries.push(Entry {
            table: Arc::new(table),
            session: None,
            ordered: false,
            decided: !created,
            build_begun: false,
            text_bytes: 0,
            cut_rows: 0,
            definition: None,
            shown: None,
            engine: String::new(),
            versioned: false,
            keys_disabled: false,
            foreign_keys: None,
            unchecked: false,
            wants_parents: false,
            is_referred_to: None,
            complete: false,
            dropped: false,
        });
        self.by_name.insert(key, index);
        index
    }

    /// The table of this name, if the run has seen it.
    pub(super) fn known(&self, key: &TableKey) -> Option<usize> {
        self.by_name.get(key).copied()
    }

    /// The table that rows are for. It is examined before its first rows.
    pub(super) fn table_for_rows(&mut self, key: &TableKey) -> Result<usize, LoadError> {
        if let Some(index) = self.known(key) {
            if self.entries[index].table.layout().is_none() {
                self.read_layout(index)?;
            }
            return Ok(index);
        }
        self.touch(&key.0, Touch::Rows)?;
        if self.is_view(key)? {
            let index = self.register_view(key)?;
            self.read_layout(index)?;
            return Ok(index);
        }
        if let Some(detail) = self.appended_to(key)? {
            let index = self.register(key.clone(), false, detail.rows_before);
            self.read_layout(index)?;
            let table = &self.entries[index].table;
            table.describe(detail);
            table.note_described();
            return Ok(index);
        }
        let quoted = quoted_name(key);
        let before = self
            .catalog
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
            if self.ctx.options.existing != ExistingPolicy::Append && self.existed(key) {
                return Err(LoadError::Refused(vec![Refusal {
                    reason: format!(
                        "table {}.{} already holds rows, and the dump would add to them",
                        key.0, key.1
                    ),
                    hint: "Use --append to add the dump's rows to those that are there.".to_owned(),
                }]));
            }
            rows_before = self.count(&quoted)?;
        }
        self.refuse_triggers(key)?;
        let index = self.register(key.clone(), false, rows_before);
        self.read_layout(index)?;
        Ok(index)
    }

    pub(super) fn count(&mut self, quoted: &str) -> Result<u64, LoadError> {
        let value = self
            .catalog
            .query_value(format!("SELECT COUNT(*) FROM {quoted}"))
            .map_err(|error| LoadError::server(format!("counting the rows of {quoted}"), error))?;
        Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0))
    }

    /// Rows must not fire existing triggers: what these would do is already in the dump, or never
    /// happened.
    fn refuse_triggers(&mut self, key: &TableKey) -> Result<(), LoadError> {
        let name = key.1.replace('\\', "\\\\").replace('\'', "''");
        let result = self
            .catalog
            .query(format!(
                "SHOW TRIGGERS FROM {} WHERE `Table` = '{name}' AND `Event` <> 'UPDATE'",
                quote_ident(&key.0)
            ))
            .map_err(|error| {
                LoadError::server(
                    format!("listing the triggers of table {}.{}", key.0, key.1),
                    error,
                )
            })?;
        if result.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = result.texts(0).collect();
        Err(LoadError::Refused(vec![Refusal {
            reason: format!(
                "table {}.{} has triggers that the dump's rows would fire: {}",
                key.0,
                key.1,
                names.join(", ")
            ),
            hint: "Drop them before the load and create them again after it.".to_owned(),
        }]))
    }

    /// Whether the server uses a unique key in place of the missing primary key.
    fn has_key_in_its_place(&mut self, table: &Table) -> Result<bool, refloat_wire::Error> {
        let keys = self.catalog.query(format!(
            "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} AND NON_UNIQUE = 0 \
             AND INDEX_TYPE <> 'HASH' GROUP BY INDEX_NAME HAVING SUM(NULLABLE = 'YES' OR SUB_PART IS NOT NULL) = 0 LIMIT 1",
            literal(&table.db),
            literal(&table.name)
        ))?;
        Ok(!keys.is_empty())
    }

    /// Reads the columns of a table and shows it as being loaded.
    fn read_layout(&mut self, index: usize) -> Result<(), LoadError> {
        let table = Arc::clone(&self.entries[index].table);
        let server = |error| {
            LoadError::server(
                format!("reading the columns of table {}", table.label()),
                error,
            )
        };
        if self.entries[index].engine.is_empty() {
            let (create, _) = self.show_create(&table)?;
            self.entries[index].versioned = is_versioned(&create);
            self.entries[index].engine = engine_of(&create);
        }
        let ctx = Arc::clone(&self.ctx);
        if let Some(cluster) = &ctx.cluster
            && !table.is_view()
        {
            let keyless = !has_primary_key(&self.show_create(&table)?.0)
                && !self.has_key_in_its_place(&table).map_err(server)?;
            let engine = &self.entries[index].engine;
            cluster.admit(&ctx.options, &ctx.events, &table.label(), engine, keyless)?;
        }
        let transactional = is_transactional(&self.entries[index].engine);
        let versioned = self.entries[index].versioned;
        let history = versioned && self.session()?.writes_history();
        let catalog = &mut self.catalog;
        let mut layout = match self.entries[index].shown.take() {
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
            self.entries[index].ordered = true;
        }
        if !transactional {
            // Rows cannot be rolled back, so they must not be written twice: write them one after
            // another, in dump order.
            self.entries[index].ordered = true;
            self.entries[index].decided = true;
        }
        Ok(())
    }

    /// `SHOW CREATE TABLE`, as text and as a fingerprint without the next `AUTO_INCREMENT` value.
    pub(crate) fn show_create(&mut self, table: &Table) -> Result<(String, u128), LoadError> {
        let name = (table.db.as_str(), table.name.as_str());
        let text = self
            .catalog
            .exec(SHOW_SESSION)
            .and_then(|_| {
                self.catalog
                    .query(format!("SHOW CREATE TABLE {}", table.quoted()))
            })
            .and_then(|result| {
                // The server shows defaults of binary columns as raw bytes.
                let text = String::from_utf8_lossy(result.bytes(0, 1).unwrap_or_default());
                foreign::corrected(&mut self.catalog, name, text.into_owned())
            })
            .map_err(|error| {
                LoadError::server(
                    format!("reading the definition of table {}", table.label()),
                    error,
                )
            })?;
        self.catalog_session = None;
        let print = refloat_schema::definition::fingerprint(&text);
        Ok((text, print))
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
                .take_while(char::is_ascii_alphanumeric)
                .collect()
        })
        .unwrap_or_default()
}
