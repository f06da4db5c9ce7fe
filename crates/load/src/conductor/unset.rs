//! What follows from statements that the server refused, when the load goes on: what a `SET` was for is not created in another session, and
//! rows of a table that is not there are left out.

use std::collections::BTreeSet;

use refloat_sqltext::{CharsetFamily, Item, LexMode, SetAssignment, SetScope, head};

use super::Conductor;
use super::registry::TableKey;
use crate::error::LoadError;
use crate::outcome::StatementFailure;

/// Variables that a program or view keeps, or that decide what its text means.
const OF_PROGRAMS: &[&str] = &[
    "sql_mode",
    "character_set_client",
    "collation_connection",
    "time_zone",
    "names",
];

/// What the dump's session should have and does not.
#[derive(Default)]
pub struct Unset {
    names: BTreeSet<String>,
    /// How the dump's text is to be read, where a refused statement has said it.
    mode: Option<LexMode>,
}

impl Unset {
    fn names(assignments: &[SetAssignment]) -> impl Iterator<Item = String> {
        let name = |one: &SetAssignment| match one.scope {
            SetScope::User => None,
            SetScope::Names | SetScope::CharacterSet => Some("names".to_owned()),
            _ => Some(String::from_utf8_lossy(&one.name).into_owned()),
        };
        assignments
            .iter()
            .filter_map(name)
            .filter(|name| OF_PROGRAMS.contains(&name.as_str()))
    }

    /// The server has refused these; `mode` is how the text was read until now.
    pub fn refused(&mut self, assignments: &[SetAssignment], mode: LexMode) {
        let mut mode = self.mode.unwrap_or(mode);
        for one in assignments {
            let Some(literal) = &one.literal else {
                continue;
            };
            match one.name.as_slice() {
                b"sql_mode" => mode = mode.with_sql_mode(literal),
                b"character_set_client" => {
                    mode.charset_family = CharsetFamily::from_charset_name(literal);
                }
                _ => {}
            }
        }
        self.names.extend(Self::names(assignments));
        if !self.names.is_empty() {
            self.mode = Some(mode);
        }
    }

    /// The server has taken these.
    pub fn taken(&mut self, assignments: &[SetAssignment]) {
        for name in Self::names(assignments) {
            self.names.remove(&name);
        }
        if self.names.is_empty() {
            self.mode = None;
        }
    }

    /// How the text is to be read: as the dump says, whatever the server has made of it.
    pub fn mode_or(&self, mode: LexMode) -> LexMode {
        self.mode.unwrap_or(mode)
    }
}

impl Conductor<'_> {
    /// Lists that rows are left out because their table was refused, and the load went on.
    pub(super) fn list_rows_of_refused(
        &mut self,
        key: &TableKey,
        file: String,
    ) -> Result<(), LoadError> {
        let table = format!("{}.{}", key.0, key.1);
        self.fail(StatementFailure {
            file,
            line: 1,
            offset: 0,
            head: format!("rows of table {table}"),
            code: 0,
            message: "no row of this table is loaded, because it was not created".to_owned(),
            table: Some(table),
        })
    }

    /// Whether a program or view is not created, because the session that it belongs to was refused; it is listed then.
    pub(super) fn lacks_session(&mut self, text: &[u8], item: &Item) -> Result<bool, LoadError> {
        if self.unset.names.is_empty() {
            return Ok(false);
        }
        let names: Vec<&str> = self.unset.names.iter().map(String::as_str).collect();
        self.fail(StatementFailure {
            file: self.place.name.to_string(),
            line: item.line,
            offset: item.offset,
            head: head(text),
            code: 0,
            message: format!(
                "not created: the server refused the {} that it was made with",
                names.join(", ")
            ),
            table: None,
        })?;
        Ok(true)
    }
}
