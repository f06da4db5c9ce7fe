//! Creates and drops tables, and disables and enables their keys.

use std::sync::Arc;

use refloat_run::{Events, Refusal};
use refloat_schema::columns;
use refloat_schema::definition::{
    Lost, OtherDefault, ServerVersion, differences, other_defaults, written_for,
};
use refloat_schema::pattern::is_system_database;
use refloat_source::namesake::is_namesake;
use refloat_sqltext::{ObjectName, head};

use super::Conductor;
use super::catalog::Catalog;
use super::dialogue::Dialogue;
use super::entry::{Entry, ForeignKeys};
use super::findings::Findings;
use super::here::Here;
use super::name::{TableKey, quoted_name};
use super::objects::chosen_only;
use super::place::Place;
use super::registry::Touch;
use crate::context::Context;
use crate::error::{LoadError, START_OVER};
use crate::options::ExistingPolicy;
use crate::outcome::LoadWarning;
use crate::own_tables::refused_in_dump;
use crate::programs::Kind;
use crate::session::Session;

/// `ER_WRONG_MRG_TABLE`: a table of engine MERGE comes before the tables that it is made of.
pub const MERGE_OF_NONE: u16 = 1168;
/// The engine of such a table.
const MERGE: &str = "MRG_MyISAM";
/// Engines that show rows of other tables or servers: their row counts say nothing about the load.
const ELSEWHERE: &[&str] = &[MERGE, "MERGE", "FEDERATED", "CONNECT", "SPIDER"];
/// How many changed default collations to name in one load: a dump of thousands of tables has the
/// same in each.
const OTHER_DEFAULTS_TOLD: u32 = 20;

impl Conductor<'_> {
    pub(super) fn create_table(
        &mut self,
        place: &mut Place,
        table: &ObjectName,
        if_not_exists: bool,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let key = self.dialogue.resolve(table)?;
        self.finish_current(place)?;
        self.ledger.case_folding.note_name(&key)?;
        self.touch(&key.0, Touch::Define)?;
        if self.ledger.keeps(Kind::View, &key) {
            // Older dumps use a table as placeholder for a view.
            self.findings.keep(here);
            return Ok(());
        }
        let appends =
            self.ledger.existed(&key) && self.ctx.options.existing == ExistingPolicy::Append;
        if self.resume.resumes()
            && !appends
            && !is_system_database(&key.0)
            && self.stays(&key, here)?
        {
            if if_not_exists && self.ledger.known(&key).is_some() {
                return Ok(());
            }
            return self.take_up(&key, here);
        }
        // A table may be the placeholder for a view that existed.
        self.replace_program(Kind::View, &key)?;
        if self.ledger.existed(&key) {
            match self.ctx.options.existing {
                ExistingPolicy::Append => return self.check_same_definition(&key, here),
                ExistingPolicy::Replace if !is_system_database(&key.0) => {
                    self.drop_existing(&key)?;
                }
                _ => {}
            }
        }
        let known = self.ledger.known(&key);
        if if_not_exists && known.is_none() && self.catalog.is_there(&key)? {
            // A statement whose effects are not tracked created it, and it stays as it is.
            return self.execute(here, Some(&key)).map(drop);
        }
        if let Some(index) = known.filter(|_| !if_not_exists) {
            // OR REPLACE deletes its rows: none of them may be written after that.
            self.queue.wait_key(index)?;
        }
        self.deferred
            .wait_for_parents(&self.ledger, here.text, &mut self.dialogue)?;
        let session = self.dialogue.session()?;
        let written = written_for(here.text, session.lex_mode(), self.catalog.server().into());
        if self
            .execute(here.with(&written.text), Some(&key))?
            .is_none()
        {
            self.ledger.refused.insert(key);
            return Ok(());
        }
        if is_system_database(&key.0) {
            return Ok(());
        }
        if known.is_some() {
            if if_not_exists {
                // The existing table of this name stays as it is.
                return Ok(());
            }
            self.forget(&key);
        }
        let index = self.ledger.register(key, true, 0);
        let Some(create) = self.catalog.read_back(&mut self.ledger.entries[index])? else {
            return Ok(());
        };
        let label = self.ledger.entries[index].table.label();
        warn_of_unread(
            &self.ctx,
            &format!("table {label}"),
            &written.lost,
            here.item.line,
        );
        self.compare_definition(&label, &written.text, &session, &create)
    }

    /// Notes that the dump has this table, and refuses one that has the name of one of Refloat's
    /// own but is not one.
    pub(super) fn meet_table(
        &mut self,
        table: &ObjectName,
        (temporary, if_not_exists): (bool, bool),
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let key = self.dialogue.resolve(table)?;
        self.wanted(&key);
        if !temporary && !if_not_exists {
            self.choice.meet_new(&key.0, &key.1);
        }
        let mode = self.dialogue.session()?.lex_mode();
        if !temporary
            && self.choice.has(&key.0, &key.1)
            && is_namesake(&key.0, &key.1, here.text, mode)
        {
            let label = format!("{}.{}", key.0, key.1);
            return Err(LoadError::Refused(vec![refused_in_dump(
                &label,
                here.item.line,
            )]));
        }
        Ok(())
    }

    /// Compares the definition that was run with the one that the server shows.
    fn compare_definition(
        &mut self,
        label: &str,
        written: &[u8],
        session: &Session,
        create: &str,
    ) -> Result<(), LoadError> {
        let mode = session.lex_mode();
        // In this mode of MariaDB, `TIMESTAMP` means DATETIME.
        let timestamp_is_datetime = session.has_mode("MAXDB");
        let server = self.catalog.server().into();
        let text = self.dialogue.map_collations(written)?;
        for difference in differences(server, label, &text, mode, create) {
            let (wanted, found) = (&difference.expected, &difference.found);
            let rest = wanted.strip_prefix("timestamp");
            let meant = timestamp_is_datetime
                && rest.is_some_and(|rest| found.strip_prefix("datetime") == Some(rest));
            if !meant {
                self.ctx.differ(difference);
            }
        }
        for other in other_defaults(server, &text, mode, create) {
            self.findings
                .note_other_collation(&self.ctx.events, label, &other);
        }
        Ok(())
    }

    /// With `--append` the dump's definition is not run, but it must match the existing one.
    fn check_same_definition(&mut self, key: &TableKey, here: Here<'_>) -> Result<(), LoadError> {
        let mode = self.dialogue.session()?.lex_mode();
        let probe = crate::table::Table::new(usize::MAX, key.0.clone(), key.1.clone(), false, 0);
        let (create, _) = self.catalog.show_create(&probe)?;
        let text = self.dialogue.map_collations(here.text)?;
        let server = self.catalog.server().into();
        let text = written_for(&text, mode, server).text;
        let found = differences(server, &probe.label(), &text, mode, &create);
        match found.into_iter().next() {
            None => {
                self.findings.kept.push(format!("line {}: CREATE TABLE {}.{}, which exists with \
                    the same definition", here.item.line, key.0, key.1));
                Ok(())
            }
            Some(difference) => Err(LoadError::Refused(vec![Refusal {
                reason: format!(
                    "{}: the existing table differs: the dump has {}, the server {}",
                    difference.about, difference.expected, difference.found
                ),
                hint: "Rows can only be added to a table of the same definition; use --replace, or another --database.".to_owned(),
            }])),
        }
    }

    fn drop_existing(&mut self, key: &TableKey) -> Result<(), LoadError> {
        self.end_own_transactions(std::slice::from_ref(key))?;
        let quoted = quoted_name(key);
        let server =
            |error| LoadError::server(format!("dropping table {}.{}", key.0, key.1), error);
        // Child tables that will be replaced too may still exist, and the dump's session may check
        // foreign keys.
        let checks = self.dialogue.session()?.foreign_key_checks();
        let set = |on: bool| format!("SET SESSION foreign_key_checks = {}", u8::from(on));
        if checks {
            self.dialogue.control.exec(set(false)).map_err(server)?;
        }
        let dropped = self
            .dialogue
            .control
            .exec(format!("DROP TABLE IF EXISTS {quoted}"));
        if checks {
            self.dialogue.control.exec(set(true)).map_err(server)?;
        }
        dropped.map_err(server)?;
        self.findings.touched = true;
        self.forget(key);
        Ok(())
    }

    /// In a cluster, the `DROP` of an old table aborts every transaction that it conflicts with.
    /// Foreign keys lead from the old table to others, and from others to it: if rows of any such
    /// table may be in flight, all rows are committed first. So are rows that could not be written
    /// again.
    fn end_own_transactions(&mut self, old: &[TableKey]) -> Result<(), LoadError> {
        if self.ctx.cluster.is_none() {
            return Ok(());
        }
        let in_flight = self.queue.open_lanes();
        if in_flight.is_empty() {
            return Ok(());
        }
        let mut old = old.iter().filter(|key| self.ledger.existed(key));
        let mut related = old.any(|key| self.catalog.may_have_foreign_keys(key));
        for index in in_flight {
            if related {
                break;
            }
            let entry = &mut self.ledger.entries[index];
            // What cannot be read may have some.
            related = !entry.table.is_transactional()
                || !self.catalog.has_no_foreign_keys(entry).unwrap_or(false);
        }
        if related {
            self.queue.wait_rows()?;
        }
        Ok(())
    }

    pub(super) fn drop_tables(
        &mut self,
        place: &mut Place,
        tables: &[ObjectName],
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        self.finish_current(place)?;
        let temporary =
            memchr::memmem::find(&here.text.to_ascii_uppercase(), b"TEMPORARY").is_some();
        let mut temporaries = Vec::new();
        for table in tables {
            let key = self.dialogue.resolve(table)?;
            if self.ledger.temporary.contains(&key) {
                temporaries.push(key);
            }
        }
        if temporary || !temporaries.is_empty() {
            // A permanent table of that name stays.
            self.barrier(place, here)?;
            for key in temporaries {
                self.ledger.temporary.remove(&key);
            }
            return self.look_again(None);
        }
        let mut keys = Vec::new();
        for table in tables {
            let key = self.dialogue.resolve(table)?;
            if !self.wanted(&key) || self.ctx.options.skips(&key.0)? {
                continue;
            }
            self.ledger.case_folding.refuse_same_name(&key)?;
            self.touch(&key.0, Touch::Define)?;
            if self.ledger.existed(&key) && self.ctx.options.existing == ExistingPolicy::Append {
                self.findings.keep(here);
                return Ok(());
            }
            if let Some(index) = self.ledger.known(&key) {
                self.queue.wait_key(index)?;
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Ok(());
        }
        if keys.iter().any(|key| self.ledger.existed(key)) {
            self.end_own_transactions(&keys)?;
        }
        let chosen = chosen_only("TABLE", tables, &keys);
        if self.drop_unbegun(&keys, here.with(chosen.as_deref().unwrap_or(here.text)))? {
            for key in &keys {
                self.forget(key);
                self.ledger.forget_created(Kind::Sequence, key);
            }
        }
        Ok(())
    }

    /// Runs a `DROP TABLE`, except for tables with loaded rows that come after it: an earlier
    /// process dropped these and created them again.
    fn drop_unbegun(&mut self, keys: &[TableKey], here: Here<'_>) -> Result<bool, LoadError> {
        let begun = |conductor: &Self, key: &TableKey| conductor.resume.has_later_rows(key, here);
        if !keys.iter().any(|key| begun(self, key)) {
            return Ok(self.execute(here, keys.first())?.is_some());
        }
        for key in keys {
            if !begun(self, key) {
                let quoted = quoted_name(key);
                let statement = format!("DROP TABLE IF EXISTS {quoted}");
                self.execute(here.with(statement.as_bytes()), Some(key))?;
            }
        }
        Ok(true)
    }

    pub(super) fn alter_keys(
        &mut self,
        place: &mut Place,
        table: &ObjectName,
        enable: bool,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let key = self.dialogue.resolve(table)?;
        self.wanted(&key);
        self.finish_current(place)?;
        let Some(index) = self.ledger.known(&key) else {
            return Ok(());
        };
        // InnoDB has nothing to disable. Other engines sort their keys at once instead of row by
        // row.
        if self.ledger.entries[index]
            .engine
            .eq_ignore_ascii_case("innodb")
        {
            return Ok(());
        }
        self.queue.wait_key(index)?;
        self.ledger.entries[index].keys_disabled = !enable;
        self.execute(here, Some(&key)).map(drop)
    }

    /// Creates a temporary table, which only the control connection sees.
    pub(super) fn create_temporary(
        &mut self,
        place: &mut Place,
        table: &ObjectName,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let key = self.dialogue.resolve(table)?;
        if self.resume.is_passed(here) {
            return Err(LoadError::Stopped(vec![Refusal {
                reason: format!(
                    "{}: line {}: the dump uses a temporary table, which was lost with the \
                    connection of the interrupted load",
                    here.file, here.item.line
                ),
                hint: START_OVER.to_owned(),
            }]));
        }
        self.barrier(place, here)?;
        self.ledger.temporary.insert(key);
        Ok(())
    }
}

impl Findings {
    /// Reports a collation that the dump leaves to the server and that differs here. Text compares
    /// and sorts differently, and a unique key may treat other values as equal. Nothing is lost by
    /// it, so the load still counts as proven.
    pub fn note_other_collation(&mut self, events: &Events, table: &str, other: &OtherDefault) {
        self.other_defaults += 1;
        let column = other.column.as_ref();
        let column = column.map_or(String::new(), |name| format!(" column {name}"));
        let (old, new) = (&other.old, &other.new);
        match self.other_defaults.cmp(&OTHER_DEFAULTS_TOLD) {
            std::cmp::Ordering::Less => events.note(format!(
                "table {table}:{column} gets collation {new}; on the source server it was probably {old}"
            )),
            std::cmp::Ordering::Equal => events.note(format!(
                "table {table}:{column} gets collation {new}; on the source server it was probably \
                {old}. Further columns are counted, not listed"
            )),
            std::cmp::Ordering::Greater => {}
        }
    }
}

impl Catalog {
    /// Asks how the server understood the definition of a new table. `None` if it does not show
    /// that yet.
    pub fn read_back(&mut self, entry: &mut Entry) -> Result<Option<String>, LoadError> {
        let shown = Arc::clone(&entry.table);
        let (create, print) = match self.show_create(&shown) {
            // The definition is accepted. It can be shown once its underlying tables exist too.
            Err(LoadError::Server { source, .. })
                if source.server_code() == Some(MERGE_OF_NONE) =>
            {
                MERGE.clone_into(&mut entry.engine);
                shown.note_elsewhere();
                return Ok(None);
            }
            other => other?,
        };
        entry.definition = Some(print);
        entry.shown = columns::columns(&create);
        entry.engine = super::registry::engine_of(&create);
        entry.versioned = super::registry::is_versioned(&create);
        entry.foreign_keys = Some(ForeignKeys::of(&create));
        if ELSEWHERE
            .iter()
            .any(|engine| entry.engine.eq_ignore_ascii_case(engine))
        {
            shown.note_elsewhere();
        }
        Ok(Some(create))
    }
}

impl Dialogue {
    /// [`warn_of_unread`] for a statement that changes a definition and runs unchanged.
    pub fn warn_of_unread_clauses(
        &mut self,
        here: Here<'_>,
        server: ServerVersion,
    ) -> Result<(), LoadError> {
        let mode = self.session()?.lex_mode();
        let written = written_for(here.text, mode, server);
        warn_of_unread(&self.ctx, &head(here.text), &written.lost, here.item.line);
        Ok(())
    }
}

/// Warns about what the dump specifies and this server does not read.
pub(super) fn warn_of_unread(ctx: &Context, about: &str, lost: &[Lost], line: u64) {
    for one in lost {
        ctx.warn(LoadWarning {
            about: about.to_owned(),
            code: 0,
            message: format!("line {line}: {one}"),
        });
    }
}
