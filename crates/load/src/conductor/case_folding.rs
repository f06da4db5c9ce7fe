//! Servers with case-insensitive names (`lower_case_table_names` 1 or 2), where two names of a dump
//! may be one.

use std::collections::HashMap;

use refloat_wire::{Connection, Vendor};

use super::name::TableKey;
use crate::error::LoadError;
use crate::refusals;

/// What a dump has created, for servers with case-insensitive names.
#[derive(Debug, Default)]
pub struct CaseFolding {
    /// Whether the server's names are case-insensitive.
    pub on: bool,
    /// Whether names of triggers are compared letter by letter: MariaDB keeps each trigger in a
    /// file of its name.
    pub exact_triggers: bool,
    /// From a name as the server compares it to the name in the dump. A database has an empty table
    /// name.
    spelled: HashMap<TableKey, TableKey>,
}

impl CaseFolding {
    /// Asks the server how it compares names.
    pub fn ask(conn: &mut Connection) -> Result<Self, LoadError> {
        let value = conn
            .query_value("SELECT @@global.lower_case_table_names")
            .map_err(|error| LoadError::server("asking how the server reads names", error))?;
        Ok(Self {
            on: value.is_some_and(|value| value != "0"),
            exact_triggers: conn.server().vendor == Vendor::MariaDb,
            spelled: HashMap::new(),
        })
    }

    /// Whether the server treats two names as one.
    pub fn same(&self, a: &str, b: &str) -> bool {
        a == b || self.on && a.to_lowercase() == b.to_lowercase()
    }

    /// A different name that the dump created and that means the same here.
    fn other(&self, key: &TableKey) -> Option<&TableKey> {
        let found = self.spelled.get(&folded(key));
        found.filter(|spelled| *spelled != key)
    }

    /// Refuses a name that means something the dump created under another name: the second would
    /// take the first one's place and rows.
    pub fn refuse_same_name(&self, key: &TableKey) -> Result<(), LoadError> {
        match self.other(key) {
            Some(first) => Err(LoadError::Refused(vec![refusals::same_name(
                &shown(first),
                &shown(key),
            )])),
            None => Ok(()),
        }
    }

    /// [`CaseFolding::refuse_same_name`] for what is about to be created, whose name is known from
    /// now on.
    pub fn note_name(&mut self, key: &TableKey) -> Result<(), LoadError> {
        self.refuse_same_name(key)?;
        if self.on {
            self.spelled.insert(folded(key), key.clone());
        }
        Ok(())
    }
}

/// A name as a server with case-insensitive names compares it.
fn folded(key: &TableKey) -> TableKey {
    (key.0.to_lowercase(), key.1.to_lowercase())
}

fn shown(key: &TableKey) -> String {
    if key.1.is_empty() {
        format!("database {}", key.0)
    } else {
        format!("{}.{}", key.0, key.1)
    }
}
