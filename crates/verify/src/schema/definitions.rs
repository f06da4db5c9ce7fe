//! The definitions of one side, by kind and name.

use std::collections::{BTreeMap, BTreeSet};

use refloat_read::catalog::Database;
use refloat_run::own_tables::is_own_schema;

/// Kind and name of an object, such as `table` and `d.t`.
pub(super) type Name = (&'static str, String);

/// How one object is defined, for comparing it with its counterpart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) text: Vec<u8>,
    /// The session settings it was created under, and other values that belong to it, by name.
    pub(super) besides: BTreeMap<&'static str, String>,
}

/// All definitions of a side.
#[derive(Debug, Default)]
pub struct Definitions {
    pub(super) all: BTreeMap<Name, Definition>,
    /// Triggers in firing order.
    pub(super) triggers: Vec<String>,
    /// Tables that exist, but whose definition is unknown.
    pub undefined: BTreeSet<String>,
}

impl Definitions {
    /// Whether there are no definitions at all.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether there is a definition of this kind and name.
    pub fn has(&self, kind: &'static str, name: &str) -> bool {
        self.all.contains_key(&(kind, name.to_owned()))
    }

    /// Forgets the definition of a table.
    pub fn forget_table(&mut self, name: &str) {
        self.all.remove(&("table", name.to_owned()));
    }

    /// Whether a database has routines or events.
    pub fn has_programs(&self, database: &str) -> bool {
        let within = |name: &str| {
            let rest = name.strip_prefix(database);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let objects = ["database", "table", "view", "sequence", "trigger"];
        self.names()
            .any(|(kind, name)| !objects.contains(&kind) && within(name))
    }

    /// Removes the definitions of Refloat's own databases, except those listed.
    pub fn forget_own_beside(&mut self, databases: &[Database]) {
        self.all.retain(|(kind, name), _| {
            *kind != "database"
                || !is_own_schema(name)
                || databases.iter().any(|database| database.name == *name)
        });
    }

    /// Kind and name of each definition.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all.keys().map(|(kind, name)| (*kind, name.as_str()))
    }
}

/// The kind of a program, as this comparison names it.
pub(super) fn kind(word: &str) -> &'static str {
    match word {
        "FUNCTION" => "function",
        "PROCEDURE" => "procedure",
        "PACKAGE" => "package",
        "PACKAGE BODY" => "package body",
        "LIBRARY" => "library",
        "TRIGGER" => "trigger",
        "EVENT" => "event",
        _ => "routine",
    }
}
