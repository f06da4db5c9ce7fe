//! Databases, tables, views, routines, triggers, events: creating and dropping them.

use std::sync::Arc;

use refloat_sqltext::{Item, ObjectName};
use refloat_wire::Connection;

use super::registry::{TableKey, Touch};
use super::{Conductor, Postponed};
use crate::load::definition::{differences, passed_over};
use crate::load::error::{LoadError, Refusal};
use crate::load::options::ExistingPolicy;
use crate::load::outcome::head;
use crate::load::programs::{Created, Kind, TriggerFor, literal};

impl Conductor<'_> {
    /// The database that a statement creates or drops, looked at; `None` when it is left out.
    fn own_database(&mut self, database: &[u8], item: &Item) -> Result<Option<String>, LoadError> {
        let name = String::from_utf8_lossy(database).into_owned();
        self.refuse_other_database(&name, item)?;
        if self.leaves_out(&name)? {
            return Ok(None);
        }
        self.touch(&name, Touch::Define)?;
        Ok(Some(name))
    }

    pub(super) fn create_database(
        &mut self,
        database: &[u8],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let Some(name) = self.own_database(database, item)? else {
            return Ok(());
        };
        let keeps = self.place.keeps_databases || self.resumes();
        let kept = keeps && default_collation(&mut self.catalog, &name)?.is_some();
        let created = kept || self.execute(text, item, None)?.is_some();
        if created && self.place.enters {
            self.session = None;
            self.control
                .exec(format!("USE {}", refloat_sqltext::quote_ident(&name)))
                .map_err(|error| LoadError::server(format!("going into database {name}"), error))?;
        }
        Ok(())
    }

    /// `ALTER DATABASE`, which dump tools write around programs whose database had another character set; without a name it is
    /// about the current one.
    pub(super) fn alter_database(
        &mut self,
        database: Option<&[u8]>,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let name = match (database, &self.session()?.database) {
            (Some(name), _) => name.to_vec(),
            (None, Some(current)) => current.clone().into_bytes(),
            // The server says that there is none.
            (None, None) => return self.execute(text, item, None).map(drop),
        };
        let Some(name) = self.own_database(&name, item)? else {
            return Ok(());
        };
        if self.ctx.options.existing == ExistingPolicy::Append && self.held_anything(&name) {
            self.leave_out(text, item);
            return Ok(());
        }
        self.note_collation(&name)?;
        self.altered.insert(name);
        self.execute(text, item, None).map(drop)
    }

    /// Notes a statement that is not run, on purpose.
    fn leave_out(&mut self, text: &[u8], item: &Item) {
        self.skipped
            .push(format!("line {}: {}", item.line, head(text)));
    }

    pub(super) fn drop_database(
        &mut self,
        database: &[u8],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let Some(name) = self.own_database(database, item)? else {
            return Ok(());
        };
        // With --append nothing goes, with --replace only what the dump brings anew.
        let keeps = match self.ctx.options.existing {
            ExistingPolicy::Append => true,
            ExistingPolicy::Replace => self.held_anything(&name),
            ExistingPolicy::Refuse => false,
        };
        if keeps {
            self.leave_out(text, item);
            return Ok(());
        }
        self.settle()?;
        self.databases.remove(&name);
        self.created.retain(|one| one.database != name);
        let gone: Vec<TableKey> = self
            .entries
            .iter()
            .filter(|entry| !entry.dropped && entry.table.db == name)
            .map(|entry| (entry.table.db.clone(), entry.table.name.clone()))
            .collect();
        for key in &gone {
            self.forget(key);
        }
        if self.database_begun_behind(&name, item) {
            return Ok(());
        }
        self.session = None;
        self.execute(text, item, None).map(drop)
    }

    pub(super) fn create_table(
        &mut self,
        table: &ObjectName,
        if_not_exists: bool,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let key = self.resolve(table)?;
        if !self.wanted(&key) || self.leaves_out(&key.0)? {
            return Ok(());
        }
        self.finish_current()?;
        self.touch(&key.0, Touch::Define)?;
        if self.keeps(Kind::View, &key) {
            // Older dumps hold the place of a view with a table.
            self.leave_out(text, item);
            return Ok(());
        }
        let appends = self.existed(&key) && self.ctx.options.existing == ExistingPolicy::Append;
        if self.resumes() && !appends && !Self::is_system(&key.0) && self.stays(&key, item)? {
            if if_not_exists && self.known(&key).is_some() {
                return Ok(());
            }
            return self.take_up(&key, text);
        }
        if self.existed(&key) {
            match self.ctx.options.existing {
                ExistingPolicy::Append => return self.check_same_definition(&key, text, item),
                ExistingPolicy::Replace if !Self::is_system(&key.0) => self.drop_existing(&key)?,
                _ => {}
            }
        }
        let known = self.known(&key);
        if if_not_exists && known.is_none() && self.is_there(&key)? {
            // It came by a statement that is not followed, and stays what it is.
            return self.execute(text, item, Some(&key)).map(drop);
        }
        if let Some(index) = known.filter(|_| !if_not_exists) {
            // OR REPLACE takes its rows away: none of them may come after that.
            self.queue.wait_key(index)?;
        }
        if self.execute(text, item, Some(&key))?.is_none() || Self::is_system(&key.0) {
            return Ok(());
        }
        if known.is_some() {
            if if_not_exists {
                // A table of this name stays what it is.
                return Ok(());
            }
            self.forget(&key);
        }
        let index = self.register(key, true, 0);
        let shown = Arc::clone(&self.entries[index].table);
        let (create, print) = self.show_create(&shown)?;
        let text = self.map_collations(text)?;
        let mode = self.session()?.lex_mode();
        let entry = &mut self.entries[index];
        entry.definition = Some(print);
        entry.engine = super::registry::engine_of(&create);
        entry.versioned = super::registry::is_versioned(&create);
        let server = self.catalog.server().into();
        for comment in passed_over(&text, mode, server) {
            self.skipped.push(format!(
                "line {}: table {}: {comment}: this server passes over what is meant for others",
                item.line,
                shown.label()
            ));
        }
        for difference in differences(server, &shown.label(), &text, mode, &create) {
            self.ctx.differ(difference);
        }
        Ok(())
    }

    /// With `--append` the dump's definition is not run, but it must be the one that is there.
    fn check_same_definition(
        &mut self,
        key: &TableKey,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let mode = self.session()?.lex_mode();
        let probe =
            crate::load::table::Table::new(usize::MAX, key.0.clone(), key.1.clone(), false, 0);
        let (create, _) = self.show_create(&probe)?;
        let text = self.map_collations(text)?;
        let server = self.catalog.server().into();
        let found = differences(server, &probe.label(), &text, mode, &create);
        match found.into_iter().next() {
            None => {
                self.skipped.push(format!("line {}: CREATE TABLE {}.{}, which is there with the same definition", item.line, key.0, key.1));
                Ok(())
            }
            Some(difference) => Err(LoadError::Refused(vec![Refusal {
                reason: format!(
                    "{} is there with another definition: the dump has {}, the server {}",
                    difference.about, difference.expected, difference.found
                ),
                hint: "Rows can only be added to a table of the same definition; use --replace, or another --database.".to_owned(),
            }])),
        }
    }

    fn drop_existing(&mut self, key: &TableKey) -> Result<(), LoadError> {
        let quoted = format!(
            "{}.{}",
            refloat_sqltext::quote_ident(&key.0),
            refloat_sqltext::quote_ident(&key.1)
        );
        let server =
            |error| LoadError::server(format!("dropping table {}.{}", key.0, key.1), error);
        self.control
            .exec(format!("DROP TABLE IF EXISTS {quoted}"))
            .map_err(server)?;
        self.touched = true;
        self.forget(key);
        Ok(())
    }

    pub(super) fn drop_tables(
        &mut self,
        tables: &[ObjectName],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        self.finish_current()?;
        let temporary = memchr::memmem::find(&text.to_ascii_uppercase(), b"TEMPORARY").is_some();
        let mut temporaries = Vec::new();
        for table in tables {
            let key = self.resolve(table)?;
            if self.temporary.contains(&key) {
                temporaries.push(key);
            }
        }
        if temporary || !temporaries.is_empty() {
            // The permanent table of that name, if there is one, stays.
            self.barrier(text, item)?;
            for key in temporaries {
                self.temporary.remove(&key);
            }
            return self.look_again(None);
        }
        let mut skip = false;
        let mut keys = Vec::new();
        for table in tables {
            let key = self.resolve(table)?;
            skip |= !self.wanted(&key) || self.leaves_out(&key.0)?;
            if skip {
                continue;
            }
            self.touch(&key.0, Touch::Define)?;
            if self.existed(&key) && self.ctx.options.existing == ExistingPolicy::Append {
                self.leave_out(text, item);
                return Ok(());
            }
            if let Some(index) = self.known(&key) {
                self.queue.wait_key(index)?;
            }
            keys.push(key);
        }
        if skip {
            return Ok(());
        }
        if self.drop_unbegun(&keys, text, item)? {
            for key in &keys {
                self.forget(key);
                self.forget_created(Kind::Sequence, key);
            }
        }
        Ok(())
    }

    /// Runs a `DROP TABLE`, but for the tables whose rows behind it are in: those were dropped by an earlier process, and created again.
    fn drop_unbegun(
        &mut self,
        keys: &[TableKey],
        text: &[u8],
        item: &Item,
    ) -> Result<bool, LoadError> {
        let begun = |conductor: &Self, key: &TableKey| conductor.begun_behind(key, item);
        if !keys.iter().any(|key| begun(self, key)) {
            return Ok(self.execute(text, item, keys.first())?.is_some());
        }
        for key in keys {
            if !begun(self, key) {
                let quoted = format!(
                    "{}.{}",
                    refloat_sqltext::quote_ident(&key.0),
                    refloat_sqltext::quote_ident(&key.1)
                );
                let statement = format!("DROP TABLE IF EXISTS {quoted}");
                self.execute(statement.as_bytes(), item, Some(key))?;
            }
        }
        Ok(true)
    }

    pub(super) fn alter_keys(
        &mut self,
        table: &ObjectName,
        enable: bool,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let key = self.resolve(table)?;
        if !self.wanted(&key) || self.leaves_out(&key.0)? {
            return Ok(());
        }
        self.finish_current()?;
        let Some(index) = self.known(&key) else {
            return Ok(());
        };
        // InnoDB has nothing to disable; other engines sort their keys at once instead of row by row.
        if self.entries[index].engine.eq_ignore_ascii_case("innodb") {
            return Ok(());
        }
        self.queue.wait_key(index)?;
        self.entries[index].keys_disabled = !enable;
        self.execute(text, item, Some(&key)).map(drop)
    }

    /// Whether a program stays as it is, because it was there before and `--append` adds and changes nothing else.
    fn keeps(&self, kind: Kind, key: &TableKey) -> bool {
        self.ctx.options.existing == ExistingPolicy::Append && self.existed_program(kind, key)
    }

    /// A view, routine or sequence: it needs the definitions before it, not the rows. Whether the statement was run.
    fn define(
        &mut self,
        kind: Option<Kind>,
        creates: bool,
        key: &TableKey,
        text: &[u8],
        item: &Item,
    ) -> Result<bool, LoadError> {
        if self.leaves_out(&key.0)? {
            return Ok(false);
        }
        if !self.ctx.options.tables.is_empty() {
            self.leave_out(text, item);
            return Ok(false);
        }
        self.touch(&key.0, Touch::Define)?;
        if kind.is_some_and(|kind| self.keeps(kind, key)) {
            self.leave_out(text, item);
            return Ok(false);
        }
        if let Some(kind) = kind.filter(|_| creates && !self.in_past()) {
            self.replace_program(kind, key)?;
            self.remove_leftover(kind, key)?;
        }
        let ok = self.execute(text, item, Some(key))?;
        Ok(ok.is_some())
    }

    /// With `--replace` the dump's view or routine takes the place of the one of its name.
    fn replace_program(&mut self, kind: Kind, key: &TableKey) -> Result<(), LoadError> {
        let replaces = self.ctx.options.existing == ExistingPolicy::Replace
            && kind != Kind::Sequence
            && !Self::is_system(&key.0);
        if !replaces || !self.existed_program(kind, key) {
            return Ok(());
        }
        let quoted = format!(
            "{}.{}",
            refloat_sqltext::quote_ident(&key.0),
            refloat_sqltext::quote_ident(&key.1)
        );
        // On the catalogue's connection: the names of a dump's session may be read in another character set.
        self.catalog
            .exec(format!("DROP {kind} IF EXISTS {quoted}"))
            .map_err(|error| {
                LoadError::server(format!("dropping {kind} {}.{}", key.0, key.1), error)
            })?;
        self.touched = true;
        if kind == Kind::View {
            self.forget(key);
        }
        self.forget_program(kind, key);
        Ok(())
    }

    /// Creates what needs no rows; `kind` is `None` for what the catalogue does not list.
    pub(super) fn create(
        &mut self,
        kind: Option<Kind>,
        name: &ObjectName,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let key = self.resolve(name)?;
        if self.define(kind, true, &key, text, item)?
            && let Some(kind) = kind
        {
            self.created.push(created(kind, &key));
        }
        Ok(())
    }

    pub(super) fn drop_routine(
        &mut self,
        kind: Option<Kind>,
        name: &ObjectName,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let key = self.resolve(name)?;
        if self.define(kind, false, &key, text, item)?
            && let Some(kind) = kind
        {
            self.forget_program(kind, &key);
            self.forget_created(kind, &key);
        }
        Ok(())
    }

    pub(super) fn drop_views(
        &mut self,
        views: &[ObjectName],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let mut keys = Vec::with_capacity(views.len());
        for view in views {
            let key = self.resolve(view)?;
            if !self.ctx.options.tables.is_empty() || self.leaves_out(&key.0)? {
                return Ok(());
            }
            self.touch(&key.0, Touch::Define)?;
            if self.keeps(Kind::View, &key) {
                self.leave_out(text, item);
                return Ok(());
            }
            keys.push(key);
        }
        if self.execute(text, item, keys.first())?.is_none() {
            return Ok(());
        }
        for key in &keys {
            self.forget_created(Kind::View, key);
            // A table of this name is no view, and is there still.
            if self.known(key).is_none() {
                self.forget(key);
            }
        }
        Ok(())
    }

    /// A table that only the control connection sees.
    pub(super) fn create_temporary(
        &mut self,
        table: &ObjectName,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let key = self.resolve(table)?;
        if self.is_passed(item) {
            return Err(LoadError::Stopped(vec![Refusal {
                reason: format!(
                    "{}: line {}: the dump keeps something in a temporary table, which ended with the connection that the load had",
                    self.place.name, item.line
                ),
                hint: "Begin anew with --restart (and --replace for the tables that are there)."
                    .to_owned(),
            }]));
        }
        self.barrier(text, item)?;
        self.temporary.insert(key);
        Ok(())
    }

    /// Takes a program off the list of those that must be there at the end.
    pub(super) fn forget_created(&mut self, kind: Kind, key: &TableKey) {
        self.created.retain(|one| {
            one.kind != kind || one.database != key.0 || !one.name.eq_ignore_ascii_case(&key.1)
        });
    }

    /// Keeps a trigger or event until the rows are in: it must not see them coming.
    pub(super) fn postpone(
        &mut self,
        (kind, name): (Kind, &ObjectName),
        table: Option<&ObjectName>,
        creates: bool,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let table = table.map(|table| self.resolve(table)).transpose()?;
        let wanted = match &table {
            Some(key) => self.wanted(key) && !self.leaves_out(&key.0)?,
            None => self.ctx.options.tables.is_empty(),
        };
        let session = self.session()?;
        if let Some(database) = &session.database {
            if self.leaves_out(database)? {
                return Ok(());
            }
            self.touch(database, Touch::Define)?;
        }
        let key = self.resolve(name)?;
        if !wanted {
            // A trigger goes with its table, which was not asked for either.
            if table.is_none() && creates {
                self.leave_out(text, item);
            }
        } else if self.keeps(kind, &key) {
            self.leave_out(text, item);
        } else {
            let collation = self.altered_collation(session.database.as_deref())?;
            let mut object = created(kind, &key);
            if creates && kind == Kind::Trigger {
                object.trigger = TriggerFor::parse(text, session.lex_mode());
            }
            let text = self.map_collations(text)?;
            self.postponed.push(Postponed {
                file: Arc::clone(&self.place.name),
                session,
                text: text.into_owned(),
                line: item.line,
                offset: item.offset,
                table,
                creates,
                object,
                collation,
            });
        }
        Ok(())
    }

    /// The collation of a database at this place of the dump, if the dump changes it.
    fn altered_collation(&mut self, database: Option<&str>) -> Result<Option<String>, LoadError> {
        match database.filter(|database| self.altered.contains(*database)) {
            Some(database) => default_collation(&mut self.catalog, database),
            None => Ok(None),
        }
    }
}

/// The collation that a database gives to what is created in it.
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

fn created(kind: Kind, key: &TableKey) -> Created {
    Created {
        kind,
        database: key.0.clone(),
        name: key.1.clone(),
        trigger: None,
    }
}
