//! Servers that read names in any case (`lower_case_table_names` 1 or 2): two names of a dump may be one there.

use std::collections::HashMap;

use refloat_wire::Connection;

use super::Conductor;
use super::registry::TableKey;
use crate::error::{LoadError, Refusal};

/// What a dump has created, on a server that reads names in any case.
#[derive(Debug, Default)]
pub struct Folded {
    /// Whether the server does so.
    pub on: bool,
    /// The name as the dump has it by the name as the server compares it; that of a database is without a table.
    spelled: HashMap<TableKey, TableKey>,
}

impl Folded {
    /// Asks the server how it reads names.
    pub fn ask(conn: &mut Connection) -> Result<Self, LoadError> {
        let value = conn
            .query_value("SELECT @@global.lower_case_table_names")
            .map_err(|error| LoadError::server("asking how the server reads names", error))?;
        Ok(Self {
            on: value.is_some_and(|value| value != "0"),
            spelled: HashMap::new(),
        })
    }

    /// Whether two names are one to the server.
    pub fn same(&self, a: &str, b: &str) -> bool {
        a == b || self.on && a.to_lowercase() == b.to_lowercase()
    }

    /// Another name that the dump has created, and that means the same here.
    fn other(&self, key: &TableKey) -> Option<&TableKey> {
        let found = self.spelled.get(&folded(key));
        found.filter(|spelled| *spelled != key)
    }
}

/// A name as a server that reads names in any case compares it.
fn folded(key: &TableKey) -> TableKey {
    (key.0.to_lowercase(), key.1.to_lowercase())
}

impl Conductor<'_> {
    /// Refuses a name that means what the dump has created by another one: the second would take the first one's place and rows.
    pub(super) fn refuse_same_name(&self, key: &TableKey) -> Result<(), LoadError> {
        match self.folded.other(key) {
            Some(first) => Err(LoadError::Refused(vec![Refusal::same_name(
                &shown(first),
                &shown(key),
            )])),
            None => Ok(()),
        }
    }

    /// [`Conductor::refuse_same_name`] of what is about to be created, which is known from now on.
    pub(super) fn note_name(&mut self, key: &TableKey) -> Result<(), LoadError> {
        self.refuse_same_name(key)?;
        if self.folded.on {
            self.folded.spelled.insert(folded(key), key.clone());
        }
        Ok(())
    }
}

fn shown(key: &TableKey) -> String {
    if key.1.is_empty() {
        format!("database {}", key.0)
    } else {
        format!("{}.{}", key.0, key.1)
    }
}
