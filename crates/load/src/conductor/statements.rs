//! Runs, postpones, leaves out or refuses the statements that are not rows.

use refloat_run::own_tables::is_own_table;
use refloat_schema::pattern::is_system_database;
use refloat_sqltext::{InsertVerb, ItemKind, ObjectName, StatementKind, head};
use refloat_wire::codes::DUPLICATE_ENTRY;
use refloat_wire::{Connection, OkInfo};

use super::Conductor;
use super::here::{Here, at_line};
use super::name::TableKey;
use super::place::Place;
use super::registry::Touch;
use crate::choice::table_of_index;
use crate::context::{Context, NOT_ABOUT_VALUES};
use crate::error::LoadError;
use crate::options::ExistingPolicy;
use crate::outcome::{LoadWarning, StatementFailure};
use crate::programs::Kind;
use crate::transaction::changes;
use crate::verdict::{Facts, Fate, database_of, is_about_database, verdict};

/// `ER_NO_DEFAULT_FOR_FIELD`.
const NO_DEFAULT: u16 = 1364;
/// Warnings about definitions that say nothing about the result: deprecated syntax, names and
/// modes; objects that a `DROP … IF EXISTS` did not find (or found only by name, 1932) or that a
/// `CREATE … IF NOT EXISTS` found; a spatial index that queries will not use; an account created
/// when programs that run as it exist already; a name for a primary key (1280); words for an old
/// character set (3720, `NVARCHAR`, is in [`NOT_ABOUT_VALUES`]); a table rebuilt for a full-text
/// index (124).
const HARMLESS_WARNINGS: &[u16] = &[
    124, 1007, 1008, 1050, 1051, 1105, 1280, 1305, 1360, 1681, 1831, 1932, 3090, 3135, 3674, 3778,
    4005, 4079, 4092, 6016,
];

impl Conductor<'_> {
    pub(super) fn statement(
        &mut self,
        place: &mut Place,
        kind: &StatementKind,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        if self
            .dialogue
            .is_for_others(here.text, self.catalog.server().into())?
        {
            return Ok(());
        }
        if needs_database(kind) {
            self.dialogue
                .ensure_database(&mut self.catalog.conn, &mut self.findings)?;
        }
        match kind {
            _ if place.rows_only => {}
            StatementKind::CreateTable {
                table,
                temporary,
                if_not_exists,
                ..
            } => self.meet_table(table, (*temporary, *if_not_exists), here)?,
            StatementKind::CreateView { view: name } => self.meet_writer(name, here)?,
            StatementKind::CreateTrigger { table, .. } => self.meet_writer(table, here)?,
            StatementKind::CreateSequence { sequence } => {
                let key = self.dialogue.resolve(sequence)?;
                self.wanted(&key);
            }
            _ => {}
        }
        let fate = self.fate(place, kind, here.text)?;
        if fate == Fate::Runs || !changes(kind) {
            let transaction = &mut place.transaction;
            transaction.statement(kind, here.text, here.item.line, here.item.offset);
        }
        match fate {
            Fate::Runs => {}
            Fate::Silent => return Ok(()),
            Fate::LeftOut => {
                self.findings.leave_out(here);
                return Ok(());
            }
            Fate::Kept => {
                self.findings.keep(here);
                return Ok(());
            }
            Fate::Refused(reason) => return self.ctx.fail(here.refused(reason)),
        }
        if is_about_database(kind) {
            let named =
                database_of(kind).or_else(|| self.dialogue.session.as_ref()?.database.clone());
            named.map_or(Ok(false), |database| self.ctx.options.skips(&database))?;
        }
        if defines_unchanged(kind) {
            self.dialogue
                .warn_of_unread_clauses(here, self.catalog.server().into())?;
        }
        if may_define(kind) && !runs_alone(kind) {
            self.resume.note_defined();
        }
        self.by_kind(place, kind, here)
    }

    /// Notes a view, or a table that gets a trigger: its rows may end up in what `here` names.
    fn meet_writer(&mut self, name: &ObjectName, here: Here<'_>) -> Result<(), LoadError> {
        let key = self.dialogue.resolve(name)?;
        self.wanted(&key);
        let session = self.dialogue.session()?;
        let at = session.database.as_deref().unwrap_or(&key.0);
        let name = (key.0.as_str(), key.1.as_str());
        self.choice
            .meet_writer(name, here.text, session.lex_mode(), at);
        Ok(())
    }

    /// Decides what happens to a statement.
    fn fate(
        &mut self,
        place: &mut Place,
        kind: &StatementKind,
        text: &[u8],
    ) -> Result<Fate, LoadError> {
        if *kind == StatementKind::Account
            && self
                .findings
                .alters_left_account(text, &mut self.dialogue)?
        {
            return Ok(Fate::LeftOut);
        }
        let session = self.dialogue.session()?;
        let facts = Facts {
            options: &self.ctx.options,
            choice: &self.choice,
            database: session.database.as_deref(),
            origin: place.script.origin(),
            mode: session.lex_mode(),
            rows_only: place.rows_only,
        };
        Ok(verdict(kind, text, &facts))
    }

    /// Runs a statement as its kind requires.
    fn by_kind(
        &mut self,
        place: &mut Place,
        kind: &StatementKind,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        match kind {
            StatementKind::Empty => Ok(()),
            StatementKind::Set => self.set_of_dump(place, here),
            StatementKind::Use { database } => self.use_database(place, database, here),
            StatementKind::CreateDatabase { database, .. } => {
                self.create_database(place, database, here)
            }
            StatementKind::AlterDatabase { database } => {
                self.alter_database(database.as_deref(), here)
            }
            StatementKind::DropDatabase { database } => self.drop_database(place, database, here),
            StatementKind::CreateTable {
                table,
                if_not_exists,
                temporary,
                like,
                select,
            } => {
                if *temporary {
                    self.create_temporary(place, table, here)
                } else if *like || *select {
                    self.change(place, Some(table), here)
                } else {
                    self.create_table(place, table, *if_not_exists, here)
                }
            }
            StatementKind::DropTable { tables } => self.drop_tables(place, tables, here),
            // Workers lock rows in their own transactions. A lock held here would only keep them
            // out.
            StatementKind::LockTables | StatementKind::StartTransaction | StatementKind::Commit => {
                Ok(())
            }
            StatementKind::UnlockTables => self.finish_current(place),
            StatementKind::AlterTableKeys { table, enable } => {
                self.alter_keys(place, table, *enable, here)
            }
            StatementKind::CreateView { view } => self.create(place, Some(Kind::View), view, here),
            StatementKind::DropView { views } => self.drop_views(views, here),
            StatementKind::CreateRoutine { what, routine } => {
                self.create(place, Kind::of_routine(what), routine, here)
            }
            StatementKind::DropRoutine { what, routine } => {
                self.drop_routine(Kind::of_routine(what), routine, here)
            }
            StatementKind::CreateSequence { sequence } => {
                self.create(place, Some(Kind::Sequence), sequence, here)
            }
            StatementKind::DropSequence { sequences } => self.drop_tables(place, sequences, here),
            StatementKind::CreateTrigger { trigger, table } => {
                let table = self.dialogue.resolve(table)?;
                self.postpone((Kind::Trigger, trigger), Some(table), true, here)
            }
            StatementKind::DropTrigger { trigger } => self.drop_trigger(place, trigger, here),
            StatementKind::CreateEvent { event } => {
                self.postpone((Kind::Event, event), None, true, here)
            }
            StatementKind::DropEvent { event } => {
                self.postpone((Kind::Event, event), None, false, here)
            }
            // Of the dangerous ones only this kind can be allowed. It may do anything: change rows,
            // definitions or the session.
            StatementKind::Dangerous(_) => {
                self.change(place, None, here)?;
                self.dialogue.session = None;
                Ok(())
            }
            StatementKind::Account
            | StatementKind::Replication
            | StatementKind::SetGlobal
            | StatementKind::SetGtidPurged
            | StatementKind::Select
            | StatementKind::Maintenance => self.barrier(place, here),
            StatementKind::AlterTable { table, .. } => self.alter_table(place, table, here),
            StatementKind::Index => self.change_index(place, here),
            StatementKind::Truncate { table } => self.change(place, Some(table), here),
            _ => self.change(place, None, here),
        }
    }

    fn alter_table(
        &mut self,
        place: &mut Place,
        table: &ObjectName,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        // The table may have a new name afterwards, or another table's old one. A column with a new
        // name has it in the foreign keys of other tables, too.
        let text = here.text.to_ascii_uppercase();
        let renames = |word: &[u8]| memchr::memmem::find(&text, word).is_some();
        if renames(b"RENAME") || renames(b"CHANGE") {
            return self.change(place, Some(table), here);
        }
        self.change_only(place, table, here)
    }

    /// Runs a statement that creates or drops an index.
    fn change_index(&mut self, place: &mut Place, here: Here<'_>) -> Result<(), LoadError> {
        let mode = self.dialogue.session()?.lex_mode();
        match table_of_index(here.text, mode) {
            Some(table) => self.change_only(place, &table, here),
            None => self.change(place, None, here),
        }
    }

    /// Runs a statement that changes rows or the definition of one table.
    fn change_only(
        &mut self,
        place: &mut Place,
        table: &ObjectName,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        if !self.may_change(Some(table), here)? {
            return Ok(());
        }
        let key = self.dialogue.resolve(table)?;
        self.wanted(&key);
        self.barrier_counted(place, Some(&key), here)
    }

    /// Runs a statement that may change rows and definitions of any table. It names one table or
    /// none.
    fn change(
        &mut self,
        place: &mut Place,
        table: Option<&ObjectName>,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        if !self.may_change(table, here)? {
            return Ok(());
        }
        self.barrier_counted(place, None, here)
    }

    /// Whether a statement that changes tables may run. It may not if it would affect what existed
    /// before the load.
    fn may_change(
        &mut self,
        table: Option<&ObjectName>,
        here: Here<'_>,
    ) -> Result<bool, LoadError> {
        let database = match table {
            Some(table) => Some(self.dialogue.resolve(table)?.0),
            None => self.dialogue.session()?.database.clone(),
        };
        let Some(database) = database else {
            return Ok(true);
        };
        if is_system_database(&database) {
            return Ok(true);
        }
        self.touch(&database, Touch::Define)?;
        if self.ctx.options.existing == ExistingPolicy::Append && self.ledger.held_tables(&database)
        {
            let message = "refused with --append: it may change or remove rows that were there before the load";
            self.ctx.fail(here.failure(message.to_owned()))?;
            return Ok(false);
        }
        Ok(true)
    }

    /// [`Conductor::run_statement`] for a statement that may change the server, with its collations
    /// replaced as the user asked. In the past it does nothing.
    pub(super) fn execute(
        &mut self,
        here: Here<'_>,
        table: Option<&TableKey>,
    ) -> Result<Option<OkInfo>, LoadError> {
        if self.resume.in_past() {
            return Ok(Some(OkInfo::default()));
        }
        let text = self.dialogue.map_collations(here.text)?;
        let ok = self.run_statement(here.with(&text), table, &[])?;
        self.findings.touched |= ok.is_some();
        Ok(ok)
    }

    /// [`Conductor::execute`] for rows. Duplicates that `INSERT IGNORE` skips are expected, and so
    /// are the values that the dump's session gives to columns without a default.
    pub(super) fn execute_rows(
        &mut self,
        here: Here<'_>,
        verb: InsertVerb,
    ) -> Result<Option<OkInfo>, LoadError> {
        let expected: &[u16] = match verb {
            InsertVerb::InsertIgnore => &[DUPLICATE_ENTRY, NO_DEFAULT],
            _ => &[NO_DEFAULT],
        };
        let ok = self.run_statement(here, None, expected)?;
        self.findings.touched |= ok.is_some();
        Ok(ok)
    }

    /// Runs a statement on the control connection. `None`: the server refused it and the load
    /// continues.
    pub(super) fn run_statement(
        &mut self,
        here: Here<'_>,
        table: Option<&TableKey>,
        expected: &[u16],
    ) -> Result<Option<OkInfo>, LoadError> {
        self.findings.statements += 1;
        let ctx = std::sync::Arc::clone(&self.ctx);
        let changes = matches!(
            &here.item.kind,
            ItemKind::Statement(StatementKind::AlterTable { .. } | StatementKind::Index)
        );
        let words = if changes {
            head(here.text)
        } else {
            String::new()
        };
        let _stall = ctx
            .cluster
            .as_ref()
            .filter(|_| changes)
            .map(|cluster| cluster.stall(&words));
        let met = self.catalog.meets_account(here, &mut self.dialogue)?;
        match self.dialogue.control.exec(here.text) {
            Ok(ok) => {
                let (ctx, conn) = (&self.ctx, &mut self.dialogue.control);
                let notes =
                    judge_definition(ctx, conn, &ok, (here.item.line, here.text), expected)?;
                if let Some(met) = met {
                    self.findings.warn_of_existing_account(
                        &self.catalog,
                        &met,
                        &notes,
                        here.item.line,
                    );
                }
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
                self.ctx.fail(StatementFailure {
                    code: error.server_code().unwrap_or(0),
                    table: table.map(|key| format!("{}.{}", key.0, key.1)),
                    ..here.failure(error.to_string())
                })?;
                Ok(None)
            }
            Err(_) if self.ctx.cancel.is_cancelled() => Err(self.ctx.interrupted()),
            Err(error) => Err(LoadError::server(
                format!("{}running {}", at_line(here.item.line), head(here.text)),
                error,
            )),
        }
    }

    /// Notes that the dump names this table, and returns whether `--tables` selects it. Refloat's
    /// own tables are never loaded: on the target they record what was changed there.
    pub(super) fn wanted(&mut self, key: &TableKey) -> bool {
        if is_own_table(&key.0, &key.1) {
            if self.findings.own_left_out.insert(key.clone()) {
                self.findings
                    .kept
                    .push(format!("table {}.{}: it is Refloat's own", key.0, key.1));
            }
            return false;
        }
        self.choice.meet(&key.0, &key.1)
    }
}

/// Whether a statement runs in the target database, if the dump has chosen none itself.
fn needs_database(kind: &StatementKind) -> bool {
    !matches!(
        kind,
        StatementKind::Empty
            | StatementKind::Set
            | StatementKind::Use { .. }
            | StatementKind::CreateDatabase { .. }
            | StatementKind::DropDatabase { .. }
            | StatementKind::Dangerous(_)
    )
}

/// Whether a statement changes a definition and runs unchanged.
fn defines_unchanged(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::CreateDatabase { .. }
            | StatementKind::AlterDatabase { .. }
            | StatementKind::AlterTable { .. }
            | StatementKind::Index
    )
}

/// Whether a statement may create, change or remove definitions.
pub(super) fn may_define(kind: &StatementKind) -> bool {
    !matches!(
        kind,
        StatementKind::Empty
            | StatementKind::Set
            | StatementKind::SetGlobal
            | StatementKind::SetGtidPurged
            | StatementKind::Use { .. }
            | StatementKind::LockTables
            | StatementKind::UnlockTables
            | StatementKind::StartTransaction
            | StatementKind::Commit
            | StatementKind::Rollback
            | StatementKind::Insert
            | StatementKind::Delete
            | StatementKind::Update
            | StatementKind::Select
            | StatementKind::Do
    )
}

/// Whether a statement that may define something runs alone: after everything before it is
/// finished, and with a mark before and after it.
fn runs_alone(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::AlterTable { .. }
            | StatementKind::Index
            | StatementKind::RenameTable { .. }
            | StatementKind::Truncate { .. }
            | StatementKind::Call
            | StatementKind::Other
    )
}

/// Records a statement's warnings, except `expected` ones and those that say nothing about its
/// result. Returns the codes of all of them.
pub(super) fn judge_definition(
    ctx: &Context,
    conn: &mut Connection,
    ok: &OkInfo,
    (line, text): (u64, &[u8]),
    expected: &[u16],
) -> Result<Vec<u16>, LoadError> {
    if ok.warnings == 0 {
        return Ok(Vec::new());
    }
    let warnings = conn
        .warnings()
        .map_err(|error| LoadError::server("reading warnings", error))?;
    let codes = warnings.iter().map(|warning| warning.code).collect();
    for warning in warnings {
        let harmless =
            HARMLESS_WARNINGS.contains(&warning.code) || NOT_ABOUT_VALUES.contains(&warning.code);
        if warning.level == "Note" || expected.contains(&warning.code) {
            continue;
        }
        if harmless {
            if ctx.is_first_of_its_kind(warning.code) {
                ctx.events.note(format!(
                    "{}{}: {} (this changes nothing; further warnings with code {} are not shown)",
                    at_line(line),
                    head(text),
                    warning.message,
                    warning.code
                ));
            }
            continue;
        }
        // The resulting value is read back from the server. A value that the server adjusts says
        // nothing about any row.
        if text
            .trim_ascii_start()
            .get(..3)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"SET"))
        {
            ctx.events.note(format!(
                "{}{}: {}",
                at_line(line),
                head(text),
                warning.message
            ));
        } else {
            ctx.warn(LoadWarning {
                about: format!("{}{}", at_line(line), head(text)),
                code: warning.code,
                message: warning.message,
            });
        }
    }
    Ok(codes)
}
