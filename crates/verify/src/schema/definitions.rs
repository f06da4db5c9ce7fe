//! Definitions of one side, by kind and name.

use std::collections::{BTreeMap, BTreeSet};

use refloat_read::catalog::Database;
use refloat_run::own::is_own_schema;

/// Kind and name of an object: `table`, `d.t`.
pub(super) type Name = (&'static str, String);

/// A definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) text: Vec<u8>,
    /// What it was created under, and what else belongs to it: name and value.
    pub(super) besides: BTreeMap<&'static str, String>,
}

/// All definitions of a side.
#[derive(Debug, Default)]
pub struct Definitions {
    pub(super) all: BTreeMap<Name, Definition>,
    /// Triggers in the order in which they fire.
    pub(super) triggers: Vec<String>,
    /// Tables that are there, but nothing says how they are defined.
    pub undefined: BTreeSet<String>,
}

impl Definitions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether there is one of this kind and name.
    pub fn has(&self, kind: &'static str, name: &str) -> bool {
        self.all.contains_key(&(kind, name.to_owned()))
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

    /// Forgets what is said of databases of Refloat's own that are not among these.
    pub fn forget_own_beside(&mut self, databases: &[Database]) {
        self.all.retain(|(kind, name), _| {
            *kind != "database"
                || !is_own_schema(name)
                || databases.iter().any(|database| database.name == *name)
        });
    }

    /// Kind and name of each.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all.keys().map(|(kind, name)| (*kind, name.as_str()))
    }
}

/// A kind of program in the words of this comparison.
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
