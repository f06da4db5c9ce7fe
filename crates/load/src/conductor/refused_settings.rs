//! Consequences of refused statements in a load that continues: what needs a refused `SET` is not
//! created in a different session, and rows of a missing table are left out.

use std::collections::BTreeSet;

use refloat_sqltext::{CharsetFamily, LexMode, SetAssignment, SetScope};

use super::here::Here;
use super::name::TableKey;
use crate::context::Context;
use crate::error::LoadError;
use crate::outcome::StatementFailure;

/// Variables that a stored program or view keeps, or that decide what its text means.
const OF_PROGRAMS: &[&str] = &[
    "sql_mode",
    "character_set_client",
    "collation_connection",
    "time_zone",
    "names",
];

/// What the dump's session should have but does not.
#[derive(Default)]
pub struct RefusedSettings {
    names: BTreeSet<String>,
    /// How to read the dump's text, if a refused statement set that.
    mode: Option<LexMode>,
}

impl RefusedSettings {
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

    /// The server refused these assignments. `mode` is how the text was read until now.
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

    /// The server accepted these assignments.
    pub fn taken(&mut self, assignments: &[SetAssignment]) {
        for name in Self::names(assignments) {
            self.names.remove(&name);
        }
        if self.names.is_empty() {
            self.mode = None;
        }
    }

    /// How to read the text: as the dump says, even if the server refused that setting.
    pub fn mode_or(&self, mode: LexMode) -> LexMode {
        self.mode.unwrap_or(mode)
    }

    /// Whether a program or view is not created because the server refused the session that it
    /// belongs to. If so, it is reported.
    pub fn keep_out(&self, here: Here<'_>, ctx: &Context) -> Result<bool, LoadError> {
        if self.names.is_empty() {
            return Ok(false);
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let message = format!(
            "not created: the server refused the {} that it was made with",
            names.join(", ")
        );
        ctx.fail(here.failure(message))?;
        Ok(true)
    }
}

/// Reports that rows are left out because their table was refused in a load that continues.
pub(super) fn list_rows_of_refused(
    ctx: &Context,
    key: &TableKey,
    file: String,
) -> Result<(), LoadError> {
    let table = format!("{}.{}", key.0, key.1);
    ctx.fail(StatementFailure {
        file,
        line: 1,
        offset: 0,
        head: format!("rows of table {table}"),
        code: 0,
        message: "no row of this table is loaded, because it was not created".to_owned(),
        table: Some(table),
        ..StatementFailure::default()
    })
}
