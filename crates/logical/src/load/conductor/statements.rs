//! Statements that are not rows.

use std::sync::Arc;

use refloat_sqltext::{
    ClientCommand, Danger, Item, ObjectName, SetAssignment, SetScope, StatementKind, parse_set,
};
use refloat_wire::OkInfo;

use super::registry::{TableKey, Touch};
use super::{Conductor, Postponed};
use crate::load::error::{LoadError, Refusal};
use crate::load::options::{ExistingPolicy, OnError, StatementClass};
use crate::load::outcome::{LoadWarning, StatementFailure};
use crate::load::pattern::matches_any;
use crate::load::session::VariableEffect;
use crate::load::worker::head;

/// Warnings about definitions that say nothing about the result: deprecated syntax, names and modes, objects that a
/// `DROP … IF EXISTS` did not find or a `CREATE … IF NOT EXISTS` did.
const HARMLESS_WARNINGS: &[u16] = &[
    1007, 1008, 1050, 1051, 1105, 1287, 1305, 1360, 1681, 1831, 3135, 3719, 3778, 4079, 4092,
];

impl Conductor<'_> {
    pub(super) fn statement(
        &mut self,
        kind: &StatementKind,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        match kind {
            StatementKind::Empty => Ok(()),
            StatementKind::Set => self.set(text, item),
            StatementKind::Use { database } => self.use_database(database, text, item),
            StatementKind::CreateDatabase { database, .. } => {
                self.create_database(database, text, item)
            }
            StatementKind::AlterDatabase { .. } => self.execute(text, item, None).map(drop),
            StatementKind::DropDatabase { database } => self.drop_database(database, text, item),
            StatementKind::CreateTable {
                table,
                temporary,
                like,
                select,
                ..
            } => {
                if *temporary || *like || *select {
                    return self.barrier(text, item);
                }
                self.create_table(table, text, item)
            }
            StatementKind::DropTable { tables } => self.drop_tables(tables, text, item),
            // Rows are locked by the workers' own transactions; a lock held here would only keep them out.
            StatementKind::LockTables | StatementKind::StartTransaction | StatementKind::Commit => {
                Ok(())
            }
            // Rows are committed chunk by chunk: they cannot be taken back here.
            StatementKind::Rollback => self.refuse_statement(
                "refused: rows before it are committed already, in transactions of their own",
                text,
                item,
            ),
            StatementKind::UnlockTables => self.finish_current(),
            StatementKind::AlterTableKeys { table, enable } => {
                self.alter_keys(table, *enable, text, item)
            }
            StatementKind::CreateView { view } => self.define(view, text, item),
            StatementKind::DropView { views } => match views.first() {
                Some(view) => self.drop_view(view, text, item),
                None => Ok(()),
            },
            StatementKind::CreateRoutine { routine, .. }
            | StatementKind::DropRoutine { routine, .. } => self.define(routine, text, item),
            StatementKind::CreateSequence { sequence } => {
                self.create_sequence(sequence, text, item)
            }
            StatementKind::DropSequence { sequences } => self.drop_tables(sequences, text, item),
            StatementKind::CreateTrigger { table, .. } => {
                self.postpone(Some(table), true, text, item)
            }
            StatementKind::DropTrigger { .. } | StatementKind::DropEvent { .. } => {
                self.postpone(None, false, text, item)
            }
            StatementKind::CreateEvent { .. } => self.postpone(None, true, text, item),
            StatementKind::Account => self.class(StatementClass::Accounts, text, item),
            StatementKind::Replication => self.class(StatementClass::Replication, text, item),
            StatementKind::SetGlobal => self.class(StatementClass::Global, text, item),
            StatementKind::SetGtidPurged => self.class(StatementClass::GtidPurged, text, item),
            StatementKind::Dangerous(danger) => {
                self.refuse_statement(danger_reason(*danger), text, item)
            }
            StatementKind::Select | StatementKind::Maintenance => self.barrier(text, item),
            StatementKind::AlterTable { .. } | StatementKind::RenameTable => {
                self.barrier(text, item)?;
                self.look_again()
            }
            _ => {
                self.barrier(text, item)?;
                // It may have added or removed rows of any table, and nobody has counted them.
                for entry in &self.entries {
                    entry.table.note_uncounted();
                }
                Ok(())
            }
        }
    }

    /// A line for the stock client: nothing that it does beyond reading statements is done for a dump.
    pub(super) fn client_command(
        &mut self,
        command: &ClientCommand,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let what = match command {
            ClientCommand::Delimiter(_) => return Ok(()),
            ClientCommand::System | ClientCommand::Pager => "runs a program on this machine",
            ClientCommand::Source => "reads another file",
            ClientCommand::Tee => "writes a file",
            ClientCommand::Charset => "changes how the client reads the rest of the dump",
            ClientCommand::Other(_) => "is for the stock client, not for the server",
        };
        self.refuse_statement(&format!("refused: this client command {what}"), text, item)
    }

    fn refuse_statement(
        &mut self,
        reason: &str,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        self.fail(StatementFailure {
            line: item.line,
            offset: item.offset,
            head: head(text),
            code: 0,
            message: reason.to_owned(),
            table: None,
        })
    }

    /// Stops, or goes on and keeps the failure, as asked.
    pub(super) fn fail(&mut self, failure: StatementFailure) -> Result<(), LoadError> {
        if self.ctx.options.on_error == OnError::Continue {
            self.ctx.note_failure(failure);
            return Ok(());
        }
        Err(LoadError::Statement {
            file: self.ctx.source.clone(),
            failure: Box::new(failure),
        })
    }

    /// A statement that reaches beyond the dump's databases runs only when its class is allowed.
    fn class(&mut self, class: StatementClass, text: &[u8], item: &Item) -> Result<(), LoadError> {
        if self.ctx.options.allow.contains(&class) {
            return self.barrier(text, item);
        }
        if self.ctx.options.skip.contains(&class) {
            self.skipped
                .push(format!("line {}: {}", item.line, head(text)));
            return Ok(());
        }
        let word = class.word();
        self.refuse_statement(
            &format!("refused: it changes the server beyond the dump's databases (--allow {word} runs it, --skip {word} leaves it out)"),
            text,
            item,
        )
    }

    /// Runs a statement on the control connection. `None` means that it was refused and the load goes on.
    pub(super) fn execute(
        &mut self,
        text: &[u8],
        item: &Item,
        table: Option<&TableKey>,
    ) -> Result<Option<OkInfo>, LoadError> {
        self.statements += 1;
        match self.control.exec(text) {
            Ok(ok) => {
                self.judge(&ok, text, item)?;
                Ok(Some(ok))
            }
            Err(error)
                if error.server_code().is_some()
                    && !error.is_lost_connection()
                    && !error.is_disk_full() =>
            {
                if self.ctx.cancel.is_cancelled() {
                    return Err(self.ctx.interrupted());
                }
                self.fail(StatementFailure {
                    line: item.line,
                    offset: item.offset,
                    head: head(text),
                    code: error.server_code().unwrap_or(0),
                    message: error.to_string(),
                    table: table.map(|key| format!("{}.{}", key.0, key.1)),
                })?;
                Ok(None)
            }
            Err(_) if self.ctx.cancel.is_cancelled() => Err(self.ctx.interrupted()),
            Err(error) => Err(LoadError::server(
                format!("line {}: running {}", item.line, head(text)),
                error,
            )),
        }
    }

    /// Keeps the warnings that a statement gave, except those that say nothing about its result.
    fn judge(&mut self, ok: &OkInfo, text: &[u8], item: &Item) -> Result<(), LoadError> {
        if ok.warnings == 0 {
            return Ok(());
        }
        let warnings = self
            .control
            .warnings()
            .map_err(|error| LoadError::server("reading warnings", error))?;
        for warning in warnings {
            if warning.level != "Note" && !HARMLESS_WARNINGS.contains(&warning.code) {
                self.ctx.warn(LoadWarning {
                    about: format!("line {}: {}", item.line, head(text)),
                    code: warning.code,
                    message: warning.message,
                });
            }
        }
        Ok(())
    }

    fn set(&mut self, text: &[u8], item: &Item) -> Result<(), LoadError> {
        let mode = self.session()?.lex_mode();
        let Some(assignments) = parse_set(text, mode) else {
            // SET ROLE, SET TRANSACTION, SET STATEMENT … FOR: more than variables.
            return self.barrier(text, item);
        };
        let mapped = self.map_sql_mode(text, &assignments);
        if self
            .execute(mapped.as_deref().unwrap_or(text), item, None)?
            .is_none()
        {
            return Ok(());
        }
        let mut autocommit = false;
        for assignment in &assignments {
            match assignment.scope {
                SetScope::User => {}
                SetScope::Names | SetScope::CharacterSet => self.session = None,
                _ => {
                    let name = String::from_utf8_lossy(&assignment.name).into_owned();
                    autocommit |= name == "autocommit";
                    match self.tracker.note_set(&name) {
                        VariableEffect::Tracked => self.session = None,
                        VariableEffect::ControlOnly => self.control_only = true,
                        VariableEffect::None => {}
                    }
                }
            }
        }
        if autocommit {
            // A transaction left open here would lock the tables that workers write and indexes are built on.
            self.control
                .exec("SET SESSION autocommit = 1")
                .map_err(|error| LoadError::server("setting autocommit", error))?;
        }
        // What follows may have to be read another way.
        self.session().map(drop)
    }

    /// The statement with the words of `sql_mode` replaced that the caller has another word for.
    fn map_sql_mode(&self, text: &[u8], assignments: &[SetAssignment]) -> Option<Vec<u8>> {
        let map = &self.ctx.options.map_sql_mode;
        if map.is_empty() {
            return None;
        }
        let mut out = text.to_vec();
        let mut changed = false;
        for assignment in assignments
            .iter()
            .filter(|one| one.name.eq_ignore_ascii_case(b"sql_mode"))
        {
            let Some(literal) = &assignment.literal else {
                continue;
            };
            let literal = String::from_utf8_lossy(literal).into_owned();
            let words: Vec<&str> = literal
                .split(',')
                .filter_map(|word| {
                    match map.iter().find(|(from, _)| from.eq_ignore_ascii_case(word)) {
                        Some((_, to)) => (!to.is_empty()).then_some(to.as_str()),
                        None => Some(word),
                    }
                })
                .collect();
            let new = format!("'{}'", words.join(",").replace('\'', "''"));
            if let Some(at) = memchr::memmem::find(&out, &assignment.value) {
                out.splice(at..at + assignment.value.len(), new.into_bytes());
                changed = true;
            }
        }
        changed.then_some(out)
    }

    fn use_database(&mut self, database: &[u8], text: &[u8], item: &Item) -> Result<(), LoadError> {
        let name = String::from_utf8_lossy(database).into_owned();
        self.refuse_other_database(&name, item)?;
        self.finish_current()?;
        if self.leaves_out(&name)? {
            self.skipped.push(format!(
                "line {}: everything about schema {name}",
                item.line
            ));
        }
        self.session = None;
        self.execute(text, item, None).map(drop)
    }

    /// `--database` says where a dump goes that names no database; one that does would silently go elsewhere.
    fn refuse_other_database(&self, name: &str, item: &Item) -> Result<(), LoadError> {
        match &self.ctx.options.database {
            Some(wanted) if wanted != name => Err(LoadError::Refused(vec![Refusal {
                reason: format!("the dump names its own database {name} (line {}), but --database says {wanted}", item.line),
                hint: "Leave --database away to load into the dump's own databases; renaming a database is not done.".to_owned(),
            }])),
            _ => Ok(()),
        }
    }

    fn create_database(
        &mut self,
        database: &[u8],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let name = String::from_utf8_lossy(database).into_owned();
        self.refuse_other_database(&name, item)?;
        if self.leaves_out(&name)? {
            return Ok(());
        }
        self.touch(&name, Touch::Define)?;
        let text = self.map_collations(text)?;
        self.execute(&text, item, None).map(drop)
    }

    fn drop_database(
        &mut self,
        database: &[u8],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let name = String::from_utf8_lossy(database).into_owned();
        self.refuse_other_database(&name, item)?;
        if self.leaves_out(&name)? {
            return Ok(());
        }
        self.touch(&name, Touch::Define)?;
        if self.ctx.options.existing == ExistingPolicy::Append {
            self.skipped
                .push(format!("line {}: {}", item.line, head(text)));
            return Ok(());
        }
        self.settle()?;
        self.databases.remove(&name);
        self.session = None;
        self.execute(text, item, None).map(drop)
    }

    fn create_table(
        &mut self,
        table: &ObjectName,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        let key = self.resolve(table)?;
        if !self.wanted(&key) || self.leaves_out(&key.0)? {
            return Ok(());
        }
        self.finish_current()?;
        self.touch(&key.0, Touch::Define)?;
        if self.existed(&key) {
            match self.ctx.options.existing {
                ExistingPolicy::Append => return self.check_same_definition(&key, text, item),
                ExistingPolicy::Replace if !Self::is_system(&key.0) => self.drop_existing(&key)?,
                _ => {}
            }
        }
        let text = self.map_collations(text)?;
        if self.execute(&text, item, Some(&key))?.is_none() || Self::is_system(&key.0) {
            return Ok(());
        }
        let index = self.register(key, true, 0);
        let shown = Arc::clone(&self.entries[index].table);
        let (create, print) = self.show_create(&shown)?;
        let mode = self.session()?.lex_mode();
        let entry = &mut self.entries[index];
        entry.definition = Some(print);
        entry.engine = super::registry::engine_of(&create);
        if let Some(difference) =
            crate::load::definition::difference(&shown.label(), &text, mode, &create)
        {
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
        match crate::load::definition::difference(&probe.label(), text, mode, &create) {
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
        self.forget(key);
        Ok(())
    }

    fn drop_tables(
        &mut self,
        tables: &[ObjectName],
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        self.finish_current()?;
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
                self.skipped
                    .push(format!("line {}: {}", item.line, head(text)));
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
        if self.execute(text, item, keys.first())?.is_some() {
            for key in &keys {
                self.forget(key);
            }
        }
        Ok(())
    }

    fn alter_keys(
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

    /// A view or routine: it needs the definitions before it, not the rows.
    fn define(&mut self, name: &ObjectName, text: &[u8], item: &Item) -> Result<(), LoadError> {
        if !self.ctx.options.tables.is_empty() {
            return Ok(());
        }
        let key = self.resolve(name)?;
        if self.leaves_out(&key.0)? {
            return Ok(());
        }
        self.touch(&key.0, Touch::Define)?;
        let text = self.map_collations(text)?;
        self.execute(&text, item, Some(&key)).map(drop)
    }

    fn drop_view(&mut self, view: &ObjectName, text: &[u8], item: &Item) -> Result<(), LoadError> {
        let key = self.resolve(view)?;
        self.define(view, text, item)?;
        self.forget(&key);
        Ok(())
    }

    fn create_sequence(
        &mut self,
        sequence: &ObjectName,
        text: &[u8],
        item: &Item,
    ) -> Result<(), LoadError> {
        self.define(sequence, text, item)
    }

    /// Keeps a trigger or event until the rows are in: it must not see them coming.
    fn postpone(
        &mut self,
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
        if wanted {
            let text = self.map_collations(text)?;
            self.postponed.push(Postponed {
                session,
                text: text.into_owned(),
                line: item.line,
                offset: item.offset,
                table,
                creates,
            });
        }
        Ok(())
    }

    /// Whether `--tables` asks for this table.
    pub(super) fn wanted(&self, key: &TableKey) -> bool {
        self.ctx.options.tables.is_empty() || matches_any(&self.ctx.options.tables, &key.0, &key.1)
    }

    /// The statement with collations replaced that the caller has another name for.
    fn map_collations<'t>(
        &mut self,
        text: &'t [u8],
    ) -> Result<std::borrow::Cow<'t, [u8]>, LoadError> {
        if self.ctx.options.map_collation.is_empty() {
            return Ok(std::borrow::Cow::Borrowed(text));
        }
        let mode = self.session()?.lex_mode();
        let map = &self.ctx.options.map_collation;
        let mapped = refloat_sqltext::ddl::replace_collations(text, mode, |name| {
            let name = String::from_utf8_lossy(name);
            map.iter()
                .find(|(from, _)| from.eq_ignore_ascii_case(&name))
                .map(|(_, to)| to.clone().into_bytes())
        });
        Ok(mapped.map_or(std::borrow::Cow::Borrowed(text), std::borrow::Cow::Owned))
    }
}

/// Why a dangerous statement is not run.
fn danger_reason(danger: Danger) -> &'static str {
    match danger {
        Danger::LoadData => "refused: it reads a file of this machine or of the server",
        Danger::OutFile => "refused: it writes a file on the server",
        Danger::Plugin => "refused: it installs or removes a plugin or component",
        Danger::LoadableFunction => "refused: it runs a shared library in the server",
        Danger::Instance => {
            "refused: it stops or locks the server, or ends other people's connections"
        }
        Danger::LowLevel => "refused: it goes around the tables' definitions",
        Danger::DynamicSql => "refused: what it runs cannot be seen",
        Danger::Ambiguous => "refused: different servers would run different statements",
    }
}
