//! The ledger: databases as they were found, and the tables and programs that the dump brings.
//!
//! It only records facts and answers questions about them. It never talks to the server.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use refloat_run::Events;

use super::case_folding::CaseFolding;
use super::entry::Entry;
use super::name::TableKey;
use crate::options::ExistingPolicy;
use crate::programs::{Contents, Created, Kind};
use crate::table::Table;

/// A database as it was found.
pub struct Database {
    /// What it held then and still holds.
    pub contents: Contents,
    /// Whether its contents were checked against the policy for existing objects.
    pub judged: bool,
}

/// What is known about the target, and about what the dump has brought so far.
pub struct Ledger {
    /// The policy for what existed before.
    pub existing: ExistingPolicy,
    /// Tables, in the order of the dump.
    pub entries: Vec<Entry>,
    /// The table that has each name now.
    by_name: HashMap<TableKey, usize>,
    /// Databases that something was done in.
    pub databases: HashMap<String, Database>,
    /// How the server compares names.
    pub case_folding: CaseFolding,
    /// Tables with triggers that the dump created, and the names of these triggers. Later rows must
    /// fire them, one row after another.
    triggered: HashMap<TableKey, HashSet<String>>,
    /// Temporary tables, which only the dump's own session sees.
    pub temporary: HashSet<TableKey>,
    /// Tables whose definition was refused in a load that continued.
    pub refused: HashSet<TableKey>,
    /// Views and stored programs that the dump has created and not dropped since.
    pub created: Vec<Created>,
    /// Databases whose character set the dump changes for a while, as dump tools do around stored
    /// programs.
    pub altered: HashSet<String>,
    /// Databases that the dump drops but that were kept.
    pub undropped: HashSet<String>,
    /// Number of tables counted so far because of statements that may change any rows.
    pub recounted: usize,
}

impl Ledger {
    /// An empty ledger for a server that compares names like this.
    pub fn new(case_folding: CaseFolding, existing: ExistingPolicy) -> Self {
        Self {
            existing,
            entries: Vec::new(),
            by_name: HashMap::new(),
            databases: HashMap::new(),
            case_folding,
            triggered: HashMap::new(),
            temporary: HashSet::new(),
            refused: HashSet::new(),
            created: Vec::new(),
            altered: HashSet::new(),
            undropped: HashSet::new(),
            recounted: 0,
        }
    }

    /// Adds a table, which has this name from now on.
    pub fn register(&mut self, key: TableKey, created: bool, rows_before: u64) -> usize {
        let index = self.entries.len();
        let table = Table::new(index, key.0.clone(), key.1.clone(), created, rows_before);
        self.entries.push(Entry::new(table));
        self.by_name.insert(key, index);
        index
    }

    /// The table of this name, if the run has seen it.
    pub fn known(&self, key: &TableKey) -> Option<usize> {
        self.by_name.get(key).copied()
    }

    /// Whether the run knows this name as a view.
    pub fn is_known_view(&self, key: &TableKey) -> bool {
        self.known(key)
            .is_some_and(|index| self.entries[index].table.is_view())
    }

    /// `only`, or all tables that hold rows of their own.
    pub fn tables_of(&self, only: Option<&TableKey>) -> Vec<Arc<Table>> {
        match only {
            Some(key) => self
                .known(key)
                .map(|index| Arc::clone(&self.entries[index].table))
                .into_iter()
                .collect(),
            None => self
                .entries
                .iter()
                .filter(|entry| !entry.dropped && !entry.table.is_view())
                .map(|entry| Arc::clone(&entry.table))
                .collect(),
        }
    }

    /// Forgets whatever had this name, after the dump dropped it. Its triggers go with it.
    pub fn forget(&mut self, key: &TableKey) {
        if let Some(database) = self.databases.get_mut(&key.0) {
            let contents = &mut database.contents;
            contents.tables.remove(&key.1);
            contents.views.remove(&key.1);
            if self.case_folding.on {
                let other = |name: &String| !self.case_folding.same(name, &key.1);
                contents.tables.retain(other);
                contents.views.retain(other);
            }
        }
        if let Some(index) = self.by_name.remove(key) {
            self.entries[index].dropped = true;
        }
        self.triggered.remove(key);
        self.created.retain(|one| {
            one.database != key.0
                || one
                    .trigger
                    .as_ref()
                    .is_none_or(|trigger| trigger.table != key.1)
        });
    }

    /// Tables of a database that exist now.
    pub fn tables_in(&self, database: &str) -> Vec<TableKey> {
        let there = self.entries.iter().filter(|entry| !entry.dropped);
        there
            .filter(|entry| entry.table.db == database)
            .map(|entry| (entry.table.db.clone(), entry.table.name.clone()))
            .collect()
    }

    /// Whether a database had tables before the run and still has some of them.
    pub fn held_tables(&self, database: &str) -> bool {
        self.databases
            .get(database)
            .is_some_and(|found| !found.contents.tables.is_empty())
    }

    /// Whether a database held anything before the run and still holds some of it.
    pub fn held_anything(&self, database: &str) -> bool {
        self.databases
            .get(database)
            .is_some_and(|found| !found.contents.names().is_empty())
    }

    /// Whether a base table of this name existed before the run and still does.
    pub fn existed(&self, key: &TableKey) -> bool {
        self.databases
            .get(&key.0)
            .is_some_and(|database| self.holds(&database.contents.tables, &key.1))
    }

    /// Whether a view or program of this name existed before the run and still does.
    pub fn existed_program(&self, kind: Kind, key: &TableKey) -> bool {
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

    /// Whether a list of the server's names contains this one, compared as the server does.
    fn holds(&self, names: &HashSet<String>, name: &str) -> bool {
        names.contains(name)
            || self.case_folding.on && names.iter().any(|one| self.case_folding.same(one, name))
    }

    /// Forgets a program that existed before, after it was dropped.
    pub fn forget_program(&mut self, kind: Kind, key: &TableKey) {
        if let Some(database) = self.databases.get_mut(&key.0) {
            database
                .contents
                .programs
                .remove(&(kind, key.1.to_lowercase()));
        }
    }

    /// Takes a program off the list of those that must exist at the end.
    pub fn forget_created(&mut self, kind: Kind, key: &TableKey) {
        self.created.retain(|one| {
            one.kind != kind || one.database != key.0 || !one.name.eq_ignore_ascii_case(&key.1)
        });
    }

    /// Notes that rows of `table` fire a trigger from now on.
    pub fn note_trigger(&mut self, table: TableKey, name: String) {
        self.triggered.entry(table).or_default().insert(name);
    }

    /// Whether rows of this table fire triggers of the dump.
    pub fn has_triggers(&self, key: &TableKey) -> bool {
        self.triggered.contains_key(key)
    }

    /// The table of a trigger that the dump created. Names may be case-insensitive.
    pub fn table_of_trigger(&self, key: &TableKey) -> Option<&TableKey> {
        let same = |name: &String| name.eq_ignore_ascii_case(&key.1);
        let mut triggered = self.triggered.iter();
        let found = triggered.find(|(table, names)| table.0 == key.0 && names.iter().any(same));
        found.map(|(table, _)| table)
    }

    /// Notes that a trigger was dropped, if it existed: rows of its table no longer fire it.
    pub fn forget_trigger(&mut self, key: &TableKey) {
        let exact = self.case_folding.exact_triggers;
        let other = |name: &String| {
            if exact {
                *name != key.1
            } else {
                !name.eq_ignore_ascii_case(&key.1)
            }
        };
        self.triggered.retain(|table, names| {
            if table.0 == key.0 {
                names.retain(other);
            }
            !names.is_empty()
        });
    }

    /// Notes that `only`, or any table, may hold rows that no foreign key was checked for.
    pub fn note_unchecked(&mut self, only: Option<&TableKey>) {
        for table in self.tables_of(only) {
            let entry = &mut self.entries[table.id];
            entry.unchecked |= entry.text_bytes > 0 || table.expected() > 0 || table.is_uncounted();
        }
    }

    /// Reports loaded tables as finished.
    pub fn show_loaded(&self, events: &Events) {
        for entry in &self.entries {
            if let Some(seconds) = entry.table.shown_loaded() {
                events.emit(refloat_run::Event::TableFinished {
                    table: entry.table.label(),
                    rows: entry.table.rows(),
                    bytes: entry.table.bytes(),
                    seconds,
                });
            }
        }
    }

    /// Whether a program stays as it is, because it existed before and `--append` only adds.
    pub fn keeps(&self, kind: Kind, key: &TableKey) -> bool {
        self.existing == ExistingPolicy::Append && self.existed_program(kind, key)
    }
}
