//! Creates, alters and drops databases.

use refloat_schema::definition::as_seen_by;
use refloat_sqltext::{Item, TokenKind, literal, quote_ident, tokens};
use refloat_wire::Connection;

use super::Conductor;
use super::catalog::Catalog;
use super::here::Here;
use super::ledger::Ledger;
use super::place::Place;
use super::registry::Touch;
use crate::error::LoadError;
use crate::options::{ExistingPolicy, LoadOptions};
use crate::refusals;

impl Conductor<'_> {
    /// Checks the database that a statement creates, alters or drops.
    fn own_database(&mut self, database: &[u8], item: &Item) -> Result<String, LoadError> {
        let name = String::from_utf8_lossy(database).into_owned();
        refuse_other_database(&self.ctx.options, &name, item.line)?;
        // With `--tables`, the tables' own definitions are checked against what exists.
        if self.ctx.options.tables.is_empty() {
            self.touch(&name, Touch::Define)?;
        }
        Ok(name)
    }

    pub(super) fn create_database(
        &mut self,
        place: &mut Place,
        database: &[u8],
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let name = self.own_database(database, here.item)?;
        self.ledger
            .case_folding
            .note_name(&(name.clone(), String::new()))?;
        // An existing database stays, whether or not the dump says IF NOT EXISTS.
        let keeps = place.keeps_databases
            || self.resume.resumes()
            || self.ctx.options.existing != ExistingPolicy::Refuse
            || !self.ctx.options.tables.is_empty();
        let kept = keeps && default_collation(&mut self.catalog.conn, &name)?.is_some();
        if kept && self.ledger.undropped.remove(&name) {
            self.alter_undropped(&name, database, here)?;
        }
        let created = kept || self.execute(here, None)?.is_some();
        if created && place.enters {
            self.dialogue.session = None;
            self.dialogue
                .control
                .exec(format!("USE {}", refloat_sqltext::quote_ident(&name)))
                .map_err(|error| LoadError::server(format!("going into database {name}"), error))?;
        }
        Ok(())
    }

    /// Runs an `ALTER DATABASE`. Dump tools write it around stored programs whose database had
    /// another character set. Without a name it applies to the current database.
    pub(super) fn alter_database(
        &mut self,
        database: Option<&[u8]>,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let name = match (database, &self.dialogue.session()?.database) {
            (Some(name), _) => name.to_vec(),
            (None, Some(current)) => current.clone().into_bytes(),
            // Let the server report that no database is selected.
            (None, None) => return self.execute(here, None).map(drop),
        };
        let name = self.own_database(&name, here.item)?;
        if self.ctx.options.existing == ExistingPolicy::Append && self.ledger.held_anything(&name) {
            self.findings.keep(here);
            return Ok(());
        }
        self.resume
            .note_collation(&self.ledger, &mut self.catalog, &mut self.dialogue, &name)?;
        self.ledger.altered.insert(name);
        self.execute(here, None).map(drop)
    }

    /// Gives a database that the dump drops and recreates, but that was kept for the other things
    /// in it, the character set of the dump's `CREATE DATABASE`.
    fn alter_undropped(
        &mut self,
        name: &str,
        database: &[u8],
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        if self.resume.in_past() || !self.ctx.options.tables.is_empty() {
            return Ok(());
        }
        let text = self.dialogue.map_collations(here.text)?.into_owned();
        let mode = self.dialogue.session()?.lex_mode();
        let named = tokens(&text, mode).code().find(|token| {
            matches!(token.kind, TokenKind::Word | TokenKind::QuotedName)
                && token.name(&text).is_some_and(|name| name == database)
        });
        let options = named.map_or(&[][..], |token| text[token.range.end..].trim_ascii());
        let seen = as_seen_by(options, mode, Some(self.catalog.server().into()));
        if tokens(&seen, mode).code().next().is_none() {
            return Ok(());
        }
        let mut alter = format!("ALTER DATABASE {} ", quote_ident(name)).into_bytes();
        alter.extend_from_slice(options);
        self.execute(here.with(&alter), None).map(drop)
    }

    pub(super) fn drop_database(
        &mut self,
        place: &mut Place,
        database: &[u8],
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let name = self.own_database(database, here.item)?;
        self.ledger
            .case_folding
            .refuse_same_name(&(name.clone(), String::new()))?;
        // With --replace, only what the dump recreates is dropped.
        if self.ctx.options.existing == ExistingPolicy::Replace && self.ledger.held_anything(&name)
        {
            self.ledger.undropped.insert(name);
            self.findings.keep(here);
            return Ok(());
        }
        self.settle(place)?;
        self.ledger.databases.remove(&name);
        self.ledger.created.retain(|one| one.database != name);
        let gone = self.ledger.tables_in(&name);
        for key in &gone {
            self.forget(key);
        }
        if self.resume.database_has_later_rows(&name, here) {
            return Ok(());
        }
        self.dialogue.session = None;
        self.execute(here, None).map(drop)
    }
}

impl Catalog {
    /// The collation of a database at this place of the dump, if the dump changes it.
    pub fn altered_collation(
        &mut self,
        ledger: &Ledger,
        database: Option<&str>,
    ) -> Result<Option<String>, LoadError> {
        match database.filter(|database| ledger.altered.contains(*database)) {
            Some(database) => default_collation(&mut self.conn, database),
            None => Ok(None),
        }
    }
}

/// The collation that a database gives to what is created in it. `None` if it does not exist.
pub(super) fn default_collation(
    conn: &mut Connection,
    database: &str,
) -> Result<Option<String>, LoadError> {
    let sql = format!(
        "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {}",
        literal(database)
    );
    conn.query_value(sql).map_err(|error| {
        LoadError::server(
            format!("reading the collation of database {database}"),
            error,
        )
    })
}

/// `--database` is for dumps that name no database. A dump that names one would silently go
/// elsewhere.
pub(super) fn refuse_other_database(
    options: &LoadOptions,
    name: &str,
    line: u64,
) -> Result<(), LoadError> {
    match &options.database {
        Some(wanted) if wanted != name => {
            let refusal = refusals::other_database(name, Some(line), wanted);
            Err(LoadError::Refused(vec![refusal]))
        }
        _ => Ok(()),
    }
}
