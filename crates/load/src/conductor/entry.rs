//! One table of the dump, as the conductor sees it.

use std::sync::Arc;

use refloat_schema::columns::Column;
use refloat_schema::definition::fingerprint;
use refloat_sqltext::LexMode;
use refloat_sqltext::ddl::{ForeignKey, parse_create_table};

use crate::session::Session;
use crate::table::Table;
use crate::table_writer::{SqlWriter, TableWriter};

/// Fingerprint of a definition, without the next `AUTO_INCREMENT` value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// Of the definition as the server shows it.
    Shown(u128),
    /// Of the same text with its foreign keys quoted correctly, which takes a query
    /// (`refloat_read::foreign`). The marks of an earlier process hold the corrected text.
    Corrected(u128),
}

impl Print {
    /// The fingerprint of a definition as the server shows it.
    pub fn shown(text: &str) -> Self {
        Self::Shown(fingerprint(text))
    }

    /// The fingerprint of a corrected definition.
    pub fn corrected(text: &str) -> Self {
        Self::Corrected(fingerprint(text))
    }
}

/// A table of the dump, and how far it is loaded.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one table, each read by itself"
)]
pub struct Entry {
    /// Shared with the workers.
    pub table: Arc<Table>,
    /// Writes its rows.
    pub writer: Arc<dyn TableWriter>,
    /// Session state of its latest rows.
    pub session: Option<Arc<Session>>,
    /// Whether its rows must be written in dump order, by one worker at a time.
    pub ordered: bool,
    /// Whether it is decided which of its indexes wait for the rows.
    pub indexes_decided: bool,
    /// Whether the index build after its rows has started.
    pub build_begun: bool,
    /// Bytes of row text seen so far.
    pub text_bytes: u64,
    /// Rows cut so far into chunks of a fixed number of rows.
    pub cut_rows: u64,
    /// Its definition before its rows.
    pub definition: Option<Print>,
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
    /// Whether it has rows of a session with checks whose parents have not been looked for yet.
    pub wants_parents: bool,
    /// Whether foreign keys refer to it, with the number of known tables when that was looked up.
    /// Reset when the dump may have changed the table.
    pub is_referred_to: Option<(usize, bool)>,
    /// Whether all of its rows so far are in, and its indexes and foreign keys are in place.
    pub complete: bool,
    /// Whether the dump dropped it again.
    pub dropped: bool,
}

impl Entry {
    /// A table that the load has done nothing with yet.
    pub fn new(table: Table) -> Self {
        Self {
            indexes_decided: !table.created,
            table: Arc::new(table),
            writer: Arc::new(SqlWriter),
            session: None,
            ordered: false,
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
        }
    }

    /// Notes that rows of this session follow. `compared` says that the server itself checks their
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
