//! `SET` and `USE`: the state of the dump's own session.

use refloat_run::Refusal;
use refloat_schema::pattern::may_choose_in;
use refloat_sqltext::{SetAssignment, SetScope, parse_set, quote_ident};
use refloat_wire::{Connection, Vendor};

use super::Conductor;
use super::databases::{default_collation, refuse_other_database};
use super::dialogue::Dialogue;
use super::findings::Findings;
use super::here::Here;
use super::place::Place;
use crate::error::{LoadError, START_OVER};
use crate::options::LoadOptions;
use crate::session::VariableEffect;
use crate::transaction::Begun;

impl Conductor<'_> {
    pub(super) fn set(&mut self, place: &mut Place, here: Here<'_>) -> Result<(), LoadError> {
        let session = self.dialogue.session()?;
        let mode = self.dialogue.refused_settings.mode_or(session.lex_mode());
        let Some(assignments) = parse_set(here.text, mode) else {
            // SET ROLE, SET TRANSACTION, SET STATEMENT … FOR do more than set variables.
            return self.barrier(place, here);
        };
        if memchr::memmem::find(&here.text.to_ascii_uppercase(), b"SELECT").is_some() {
            // A subquery reads rows.
            if self.resume.resumes() {
                return Err(LoadError::Stopped(vec![Refusal {
                    reason: format!(
                        "{}: line {}: a variable takes its value from rows, which have changed \
                        since the load first came here",
                        here.file, here.item.line
                    ),
                    hint: START_OVER.to_owned(),
                }]));
            }
            self.finish_current(place)?;
            self.queue.wait_rows()?;
        }
        if of_database(&assignments) {
            self.dialogue
                .ensure_database(&mut self.catalog.conn, &mut self.findings)?;
        }
        let mapped = map_sql_mode(&self.ctx.options, here.text, &assignments);
        let text = self
            .dialogue
            .map_collations(mapped.as_deref().unwrap_or(here.text))?;
        if self.run_statement(here.with(&text), None, &[])?.is_none() {
            self.dialogue.refused_settings.refused(&assignments, mode);
            return Ok(());
        }
        self.dialogue.refused_settings.taken(&assignments);
        let mut autocommit = false;
        for assignment in &assignments {
            match assignment.scope {
                SetScope::User => {}
                SetScope::Names | SetScope::CharacterSet => {
                    self.dialogue.session = None;
                    self.dialogue.keep_own("names")?;
                }
                _ => {
                    let name = String::from_utf8_lossy(&assignment.name).into_owned();
                    autocommit |= name == "autocommit";
                    self.dialogue.keep_own(&name)?;
                    let effect = self
                        .dialogue
                        .tracker
                        .note_set(&mut self.dialogue.control, &name)
                        .map_err(|error| LoadError::server("reading a variable", error))?;
                    match effect {
                        VariableEffect::Tracked => self.dialogue.session = None,
                        VariableEffect::ControlOnly => self.dialogue.control_only = true,
                        VariableEffect::None => {}
                    }
                }
            }
        }
        if autocommit {
            let value = self
                .dialogue
                .control
                .query_value("SELECT @@SESSION.autocommit")
                .map_err(|error| LoadError::server("reading a variable", error))?;
            let begun = Begun::new(&text, here.item.line, here.item.offset);
            let on = value.as_deref() != Some("0");
            place.transaction.autocommit(on, begun);
            // A transaction left open here would lock the tables that workers write to and build
            // indexes on.
            self.dialogue
                .control
                .exec("SET SESSION autocommit = 1")
                .map_err(|error| LoadError::server("setting autocommit", error))?;
        }
        // The new state may change how the following text must be read.
        self.dialogue.session().map(drop)
    }

    pub(super) fn use_database(
        &mut self,
        place: &mut Place,
        database: &[u8],
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let name = String::from_utf8_lossy(database).into_owned();
        refuse_other_database(&self.ctx.options, &name, here.item.line)?;
        self.dialogue
            .ensure_database(&mut self.catalog.conn, &mut self.findings)?;
        self.finish_current(place)?;
        if self.ctx.options.skips(&name)? {
            self.findings.skipped.push(format!(
                "line {}: everything about schema {name}",
                here.item.line
            ));
        }
        self.dialogue.session = None;
        let gone = !may_choose_in(&self.ctx.options.tables, &name)
            && default_collation(&mut self.catalog.conn, &name)?.is_none();
        if gone {
            // Nothing in this database is loaded, so it was not created. The statements that follow
            // must not go into the previous database.
            self.dialogue.unchosen = Some(name);
            return Ok(());
        }
        self.dialogue.unchosen = None;
        let plain =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"_$".contains(byte) || !byte.is_ascii();
        if self.dialogue.control.server().vendor == Vendor::MariaDb && !database.iter().all(plain) {
            // MariaDB's client accepts the name unquoted, too.
            let text = format!("USE {}", quote_ident(&name));
            return self
                .run_statement(here.with(text.as_bytes()), None, &[])
                .map(drop);
        }
        self.run_statement(here, None, &[]).map(drop)
    }
}

impl Dialogue {
    /// Creates the database of `--database` when something is about to go into it, and not earlier:
    /// a dump that names its own databases is refused and must not leave an empty database behind.
    pub fn ensure_database(
        &mut self,
        catalog: &mut Connection,
        findings: &mut Findings,
    ) -> Result<(), LoadError> {
        let Some(database) = self.pending_database.take() else {
            return Ok(());
        };
        let name = refloat_sqltext::quote_ident(&database);
        let failed = |error| LoadError::server(format!("creating database {database}"), error);
        if default_collation(catalog, &database)?.is_none() {
            self.control
                .exec(format!("CREATE DATABASE IF NOT EXISTS {name}"))
                .map_err(failed)?;
            findings.touched = true;
        }
        self.control.exec(format!("USE {name}")).map_err(failed)?;
        self.session = None;
        Ok(())
    }
}

/// Whether an assignment reads a setting of the current database, or changes one, as
/// `character_set_database`, which `USE` sets again. That database must be the one of `--database`
/// by then.
fn of_database(assignments: &[SetAssignment]) -> bool {
    let names_one = |text: &[u8]| {
        let text = text.to_ascii_lowercase();
        memchr::memmem::find(&text, b"database").is_some()
    };
    assignments.iter().any(|one| {
        one.scope == SetScope::CharacterSet
            || one.scope != SetScope::User && names_one(&one.name)
            || names_one(&one.value)
    })
}

/// The statement with words of `sql_mode` replaced as the user asked. `None` if nothing
/// changes.
fn map_sql_mode(
    options: &LoadOptions,
    text: &[u8],
    assignments: &[SetAssignment],
) -> Option<Vec<u8>> {
    if options.map_sql_mode.is_empty() {
        return None;
    }
    let mut out = text.to_vec();
    let mut changed = false;
    // From the last one on, so that the places of the others stay.
    for one in assignments.iter().rev() {
        let Some(literal) = one.literal.as_deref() else {
            continue;
        };
        if one.scope == SetScope::User || one.name != b"sql_mode" {
            continue;
        }
        let literal = String::from_utf8_lossy(literal);
        let words = options.mapped_sql_modes(&literal);
        // `DEFAULT` and numbers are no text.
        if words == literal {
            continue;
        }
        let new = format!("'{}'", words.replace('\'', "''"));
        out.splice(
            one.value_at..one.value_at + one.value.len(),
            new.into_bytes(),
        );
        changed = true;
    }
    changed.then_some(out)
}
