//! Walks a whole dump: what it contains of what the options ask for, and what a load would stop at.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use refloat_run::Cancel;
use refloat_run::outcome::Bounded;
use refloat_run::own::{is_own_schema, is_own_table};
use refloat_schema::pattern::matches_any;
use refloat_source::cutter::Ends;
use refloat_source::delimited::DelimitedFile;
use refloat_source::items::{Items, ItemsError, Runs};
use refloat_source::layout::{Layout, RowForm};
use refloat_source::stray::stray;
use refloat_sqltext::{
    ClientCommand, CommentKind, Danger, Frame, ItemKind, LexMode, Modes, SqlMode, StatementKind,
    head, parse_set,
};
use refloat_store::Input;

use super::PlannedTable;
use crate::choice::{UNCLEAR, Whose};
use crate::error::{LoadError, Refusal};
use crate::options::{ExistingPolicy, LoadOptions, OnError, StatementClass, SystemSchemaMode};
use crate::outline::{Gather, Outline};
use crate::table::is_transactional;
use crate::transaction::{Begun, OPEN_HINT, Transaction, autocommit_by};

/// Bytes of rows that are cut at a time.
const BLOCK: usize = 4 << 20;
/// Most statements kept that a load would stop at: there may be one on every line.
const STOPS_MAX: usize = 100;
/// Bytes of definitions that are kept: those of some 50,000 tables.
const DEFINITIONS_MAX: usize = 64 << 20;
/// The global variable that a dump of MySQL's own schema changes temporarily; it counts as part of
/// that schema.
const STATS_AUTO_RECALC: &[u8] = b"SET GLOBAL INNODB_STATS_AUTO_RECALC";

/// The result of the walk.
pub struct Found {
    pub outline: Outline,
    pub bytes: u64,
    pub tables: Vec<PlannedTable>,
    pub statements: BTreeMap<String, u64>,
    pub alone: Bounded<String>,
    pub refused: Bounded<String>,
    pub left_out: Bounded<String>,
    /// What the load would stop at.
    pub stops: Vec<Refusal>,
    /// Definitions of tables, for the server to check.
    pub definitions: Vec<Definition>,
}

pub struct Definition {
    pub line: u64,
    pub text: Vec<u8>,
    pub mode: LexMode,
    /// The `sql_mode` that the dump sets for it.
    pub sql_mode: SqlMode,
}

pub struct Survey<'a> {
    options: &'a LoadOptions,
    cancel: &'a Cancel,
    source: String,
    gather: Gather<'a>,
    modes: Modes,
    matched: Vec<bool>,
    items: u64,
    /// The transaction that the file's session would be in.
    transaction: Transaction,
    /// Whether the source has several files, which are not expected to end in a closing comment.
    several: bool,
    /// Index of each table in the list: a folder has definitions in one file and rows in others.
    places: HashMap<(Option<String>, String), usize>,
    /// For each class that was not allowed: the index of its first statement in the stops, and how
    /// many more there are.
    classes: BTreeMap<StatementClass, (usize, u64)>,
    found: Found,
    /// Bytes of the definitions that are kept.
    definition_bytes: usize,
}

/// What a load does with a statement.
enum Fate {
    /// It runs, and is counted under this word.
    Runs(&'static str),
    /// It runs after everything before it is done.
    Alone,
    /// It is left out and listed.
    LeftOut,
    /// It is left out with the table or schema that it belongs to, or there is nothing to do.
    Silent,
    /// It is refused because its class is not allowed.
    Class(StatementClass),
    /// It is refused, with reason and hint.
    Refused(String, String),
}

impl Fate {
    fn runs_or_left_out(wanted: bool, word: &'static str) -> Self {
        if wanted {
            Self::Runs(word)
        } else {
            Self::LeftOut
        }
    }

    fn runs_or_silent(wanted: bool, word: &'static str) -> Self {
        if wanted {
            Self::Runs(word)
        } else {
            Self::Silent
        }
    }
}

impl<'a> Survey<'a> {
    pub fn new(options: &'a LoadOptions, source: &str, cancel: &'a Cancel) -> Self {
        Self {
            options,
            cancel,
            source: source.to_owned(),
            gather: Gather::new(options),
            modes: Modes::default(),
            matched: vec![false; options.tables.len()],
            items: 0,
            transaction: Transaction::default(),
            several: false,
            places: HashMap::new(),
            classes: BTreeMap::new(),
            found: Found {
                outline: Outline::default(),
                bytes: 0,
                tables: Vec::new(),
                statements: BTreeMap::new(),
                alone: Bounded::default(),
                refused: Bounded::default(),
                left_out: Bounded::default(),
                stops: Vec::new(),
                definitions: Vec::new(),
            },
            definition_bytes: 0,
        }
    }

    /// The result, or an error if the dump is incomplete.
    pub fn end(mut self) -> Result<Found, LoadError> {
        let outline = self.gather.end();
        // A text without a single statement may have been cut in its first line.
        let nothing = self.items == 0 && !outline.frame.completed;
        if (outline.frame.is_cut() || nothing)
            && !self.several
            && !self.options.accept_missing_trailer
        {
            return Err(LoadError::MissingTrailer {
                file: self.source,
                offset: self.found.bytes,
            });
        }
        let unmatched = self.options.tables.iter().zip(&self.matched);
        for (pattern, _) in unmatched.filter(|(_, matched)| !**matched) {
            self.found.stops.push(Refusal {
                reason: format!("no table of the dump is called {pattern}"),
                hint: "--tables takes names of tables, as table or database.table; * and ? stand for other characters.".to_owned(),
            });
        }
        for (stop, more) in self.classes.into_values().filter(|(_, more)| *more > 0) {
            let words = format!(" (and {more} more of this class)");
            self.found.stops[stop].reason.push_str(&words);
        }
        self.found.outline = outline;
        Ok(self.found)
    }

    /// Reads all files of a layout to their ends.
    pub fn layout(&mut self, layout: &Layout) -> Result<(), LoadError> {
        self.several = true;
        for file in layout.statements() {
            self.enter(&file.path, file.database.as_deref());
            if !file.bytes().is_ok_and(|bytes| bytes == 0) {
                self.read(&mut file.open()?, file.ends)?;
            }
        }
        for table in layout.tables() {
            for file in &table.files {
                self.enter(&file.path, table.database.as_deref());
                if file.is_empty() {
                    continue;
                }
                let mut input = Input::open(&file.path)?;
                match &file.form {
                    RowForm::Sql => self.read(&mut input, Ends::Client)?,
                    RowForm::Delimited(form) => {
                        let name = form.table.as_ref().unwrap_or(&table.table);
                        let (rows, bytes) = self.lines(&mut input, form)?;
                        self.items += 1;
                        self.rows(None, name.as_bytes(), rows, bytes);
                    }
                }
            }
        }
        for table in layout.stream().iter().flat_map(|stream| &stream.tables) {
            self.gather.enter(Some(&table.database));
            self.found.bytes += table.bytes;
            self.rows(None, table.table.as_bytes(), table.rows, table.bytes);
        }
        Ok(())
    }

    /// Starts a file of several.
    fn enter(&mut self, path: &Path, database: Option<&str>) {
        self.source = path.display().to_string();
        self.modes = Modes::default();
        self.gather.enter(database);
        self.gather.outline().frame = Frame::default();
    }

    /// Fails once the run is cancelled.
    fn goes_on(&self) -> Result<(), LoadError> {
        if self.cancel.is_cancelled() {
            return Err(LoadError::interrupted(self.cancel));
        }
        Ok(())
    }

    /// Rows and bytes of a delimited file.
    fn lines(&mut self, input: &mut Input, form: &DelimitedFile) -> Result<(u64, u64), LoadError> {
        let mut runs = Runs::new(input, form);
        let mut rows = 0;
        while let Some(run) = runs.next(BLOCK).map_err(|error| self.unreadable(error))? {
            self.goes_on()?;
            rows += run.rows;
        }
        self.found.bytes += runs.bytes();
        Ok((rows, runs.bytes()))
    }

    /// Reads the dump to its end.
    pub fn read(&mut self, input: &mut Input, ends: Ends) -> Result<(), LoadError> {
        let before = self.found.bytes;
        let mut items = Items::new(input, ends);
        if self.options.accept_missing_trailer {
            items.take_unterminated();
        }
        while let Some(item) = items.next_item().map_err(|error| self.unreadable(error))? {
            self.goes_on()?;
            self.found.bytes = before + items.bytes();
            let text = items.text(&item);
            match &item.kind {
                ItemKind::Rows(rows) => {
                    let header = &rows.header;
                    self.gather.outline().frame.completed = false;
                    self.items += 1;
                    self.rows(
                        header.database.as_deref(),
                        &header.table,
                        rows.row_count,
                        rows.rows.len() as u64,
                    );
                }
                ItemKind::Statement(kind) => {
                    self.gather.outline().frame.completed = false;
                    self.follow(kind, text, item.line, item.offset);
                    let mode = matches!(kind, StatementKind::Set).then(|| self.modes.set(text));
                    if !matches!(kind, StatementKind::Empty) {
                        self.items += 1;
                        self.statement(kind, text, item.line);
                    }
                    if let Some(mode) = mode {
                        items.set_mode(mode);
                    }
                }
                ItemKind::ClientCommand(command) => self.command(command, text, item.line),
                ItemKind::Comment(CommentKind::DumpHeader) => {
                    self.gather.outline().frame.header = true;
                }
                ItemKind::Comment(CommentKind::DumpCompleted) => {
                    self.gather.outline().frame.completed = true;
                }
                ItemKind::Comment(_) => self.gather.comment(text),
                ItemKind::Blank => {}
            }
        }
        self.found.bytes = before + items.bytes();
        self.refuse_open();
        Ok(())
    }

    /// Tracks the transaction that the file's session would be in.
    fn follow(&mut self, kind: &StatementKind, text: &[u8], line: u64, offset: u64) {
        if !matches!(kind, StatementKind::Set) {
            return self.transaction.statement(kind, text, line, offset);
        }
        let set = parse_set(text, self.modes.now()).unwrap_or_default();
        if let Some(on) = set.iter().rev().find_map(autocommit_by) {
            let begun = Begun::new(text, line, offset);
            self.transaction.autocommit(on, begun);
        }
    }

    /// Refuses a file that ends in an open transaction, as a load does.
    fn refuse_open(&mut self) {
        let transaction = std::mem::take(&mut self.transaction);
        let outline = self.gather.outline();
        let cut = outline.frame.is_cut();
        if let Some(open) = transaction.open().filter(|_| !cut) {
            let head = open.begun.head.as_bytes();
            self.refuse(&open.reason(), OPEN_HINT.to_owned(), head, open.begun.line);
        }
    }

    /// The error of a file that cannot be read to its end.
    fn unreadable(&self, error: ItemsError) -> LoadError {
        let file = self.source.clone();
        match error {
            ItemsError::Input(error) => error.into(),
            ItemsError::Scan(source) => LoadError::Scan { file, source },
            ItemsError::Text {
                line,
                offset,
                message,
            } => LoadError::Text {
                file,
                line,
                offset,
                message,
            },
        }
    }

    /// Whether `--tables` includes a table; records which pattern matched.
    fn wants(&mut self, database: Option<&[u8]>, table: &[u8]) -> bool {
        let database = database.map(shown);
        let database = database
            .as_deref()
            .or(self.gather.database())
            .unwrap_or_default();
        let table = shown(table);
        for (pattern, matched) in self.options.tables.iter().zip(&mut self.matched) {
            *matched |= matches_any(std::slice::from_ref(pattern), database, &table);
        }
        let asked =
            self.options.tables.is_empty() || matches_any(&self.options.tables, database, &table);
        asked && !is_own_table(database, &table)
    }

    fn rows(&mut self, database: Option<&[u8]>, table: &[u8], rows: u64, bytes: u64) {
        let place = database
            .map(shown)
            .or_else(|| self.gather.database().map(str::to_owned));
        if !self.wants(database, table) || self.gather.leaves_out(place.as_deref()) {
            return;
        }
        self.gather.rows(database, table);
        if self.rolls_back(place.as_deref(), table) {
            self.transaction.rows(rows);
        }
        self.count(place, shown(table), rows, bytes);
    }

    /// Whether the rows of a table can be rolled back, as far as the dump tells its engine.
    fn rolls_back(&mut self, database: Option<&str>, table: &[u8]) -> bool {
        let table = shown(table);
        let engines = &self.gather.outline().engines;
        let found = engines.iter().rev().find(|(db, name, ..)| {
            *name == table && db.as_deref().is_none_or(|db| Some(db) == database)
        });
        found.is_none_or(|(_, _, engine, _)| is_transactional(engine))
    }

    fn count(&mut self, database: Option<String>, table: String, rows: u64, bytes: u64) {
        let tables = &mut self.found.tables;
        let key = (database, table);
        if let Some(at) = self.places.get(&key) {
            tables[*at].rows += rows;
            tables[*at].bytes += bytes;
            return;
        }
        tables.push(PlannedTable {
            database: key.0.clone(),
            table: key.1.clone(),
            rows,
            bytes,
        });
        self.places.insert(key, tables.len() - 1);
    }

    fn statement(&mut self, kind: &StatementKind, text: &[u8], line: u64) {
        let fate = self.fate(kind, text);
        if let StatementKind::CreateTable { table, .. } = kind
            && matches!(fate, Fate::Runs(_))
        {
            let database = table.database.as_deref().map(shown);
            let database = database.or_else(|| self.gather.database().map(str::to_owned));
            self.count(database, shown(&table.name), 0, 0);
            self.define(text, line);
        }
        let mode = self.modes.now();
        self.gather.statement(kind, text, mode, line);
        let listed = || format!("line {line}: {}", head(text));
        let word = match fate {
            Fate::Silent => return,
            Fate::Runs(word) => word,
            Fate::Alone => {
                self.found.alone.push(listed());
                "other, run alone"
            }
            Fate::LeftOut => {
                self.found.left_out.push(listed());
                "left out"
            }
            Fate::Class(class) => {
                self.refuse_class(class, text, line);
                "refused"
            }
            Fate::Refused(reason, hint) => {
                self.refuse(&reason, hint, text, line);
                "refused"
            }
        };
        *self.found.statements.entry(word.to_owned()).or_insert(0) += 1;
    }

    /// Keeps the definition of a table.
    fn define(&mut self, text: &[u8], line: u64) {
        self.definition_bytes += text.len();
        if self.definition_bytes <= DEFINITIONS_MAX {
            self.found.definitions.push(Definition {
                line,
                text: text.to_vec(),
                mode: self.modes.now(),
                sql_mode: self.modes.sql_mode().clone(),
            });
        }
    }

    /// Adds one refusal for all statements of a class: a dump of accounts has hundreds.
    fn refuse_class(&mut self, class: StatementClass, text: &[u8], line: u64) {
        if self.options.on_error == OnError::Continue {
            return self.refuse(class.reason(), class.hint(), text, line);
        }
        let stops = &mut self.found.stops;
        let known = self.classes.entry(class);
        known.and_modify(|(_, more)| *more += 1).or_insert_with(|| {
            stops.push(Refusal {
                reason: format!("line {line}: {}: {}", class.reason(), head(text)),
                hint: class.hint(),
            });
            (stops.len() - 1, 0)
        });
    }

    fn refuse(&mut self, reason: &str, hint: String, text: &[u8], line: u64) {
        let reason = format!("line {line}: {reason}: {}", head(text));
        if self.options.on_error == OnError::Continue {
            self.found.refused.push(reason);
        } else if self.found.stops.len() < STOPS_MAX {
            self.found.stops.push(Refusal { reason, hint });
        }
    }

    fn command(&mut self, command: &ClientCommand, text: &[u8], line: u64) {
        let what = match command {
            ClientCommand::Delimiter(_) => return,
            ClientCommand::System | ClientCommand::Pager => "runs a program on this machine",
            ClientCommand::Source => "reads another file",
            ClientCommand::Tee => "writes a file",
            ClientCommand::Charset => "changes how the client reads the rest of the dump",
            ClientCommand::Other(_) => "is for the stock client, not for the server",
        };
        let hint = "Commands of the stock client are never run: take the line out of the dump, or list it with --on-error continue.";
        self.refuse(
            &format!("this client command {what}"),
            hint.to_owned(),
            text,
            line,
        );
    }

    /// What a load does with a statement.
    fn fate(&mut self, kind: &StatementKind, text: &[u8]) -> Fate {
        let place = database_of(kind).or_else(|| self.gather.database().map(str::to_owned));
        let beyond = matches!(
            kind,
            StatementKind::Account
                | StatementKind::Replication
                | StatementKind::SetGlobal
                | StatementKind::SetGtidPurged
                | StatementKind::Dangerous(_)
        );
        if !beyond && self.gather.leaves_out(place.as_deref()) {
            return Fate::Silent;
        }
        let class = StatementClass::OldDatabase;
        if self.options.tables.is_empty()
            && !self.options.allow.contains(&class)
            && self.gather.names_origin(kind, text, self.modes.now())
        {
            return self.class(class, text);
        }
        if let Some(class) = StatementClass::of(kind) {
            return self.class(class, text);
        }
        if let Some(stray) = stray(kind, text) {
            return Fate::Refused(stray.reason().to_owned(), stray.hint().to_owned());
        }
        self.fate_by_kind(kind, text)
    }

    /// What a load does with a statement that is in no class.
    fn fate_by_kind(&mut self, kind: &StatementKind, text: &[u8]) -> Fate {
        let chosen = !self.options.tables.is_empty();
        let append = self.options.existing == ExistingPolicy::Append;
        match kind {
            StatementKind::Set
            | StatementKind::LockTables
            | StatementKind::UnlockTables
            | StatementKind::StartTransaction
            | StatementKind::Commit
            | StatementKind::AlterTableKeys { .. }
            | StatementKind::Use { .. }
            | StatementKind::Empty => Fate::Silent,
            StatementKind::CreateDatabase { .. } => Fate::Runs("create database"),
            StatementKind::AlterDatabase { .. } => Fate::Runs("alter database"),
            StatementKind::DropDatabase { database }
                if append || is_own_schema(&shown(database)) =>
            {
                Fate::LeftOut
            }
            StatementKind::DropDatabase { .. } => Fate::Runs("drop database"),
            StatementKind::CreateTable {
                table,
                temporary,
                like,
                select,
                ..
            } => {
                let wanted = self.wants(table.database.as_deref(), &table.name);
                if *temporary || *like || *select {
                    return self.alone(kind, text);
                }
                Fate::runs_or_silent(wanted, "create table")
            }
            StatementKind::DropTable { tables }
            | StatementKind::DropSequence { sequences: tables } => {
                let wanted = tables
                    .iter()
                    .any(|table| self.gather.wants(table.database.as_deref(), &table.name));
                Fate::runs_or_silent(wanted, "drop table")
            }
            StatementKind::CreateTrigger { table, .. } => {
                let wanted = self.gather.wants(table.database.as_deref(), &table.name);
                Fate::runs_or_silent(wanted, "create trigger (after the rows)")
            }
            StatementKind::DropView { .. }
            | StatementKind::DropTrigger { .. }
            | StatementKind::DropEvent { .. }
            | StatementKind::DropRoutine { .. } => {
                Fate::runs_or_silent(!chosen, "drop view, routine, trigger or event")
            }
            StatementKind::CreateView { view: name } => {
                let wanted = self.wants(name.database.as_deref(), &name.name);
                Fate::runs_or_left_out(wanted, "create view")
            }
            StatementKind::CreateSequence { sequence: name } => {
                let wanted = self.wants(name.database.as_deref(), &name.name);
                Fate::runs_or_left_out(wanted, "create sequence")
            }
            StatementKind::CreateRoutine { routine: name, .. } => {
                Fate::runs_or_left_out(self.gather.wants_program(name), "create routine")
            }
            StatementKind::CreateEvent { event: name } => {
                let wanted = self.gather.wants_program(name);
                Fate::runs_or_left_out(wanted, "create event (after the rows)")
            }
            StatementKind::Rollback => Fate::Refused(
                "rows before it are committed already, in transactions of their own".to_owned(),
                String::new(),
            ),
            StatementKind::Dangerous(danger) => Fate::Refused(
                format!("it is never run ({})", danger_word(*danger)),
                "Take the statement out of the dump, or list it with --on-error continue."
                    .to_owned(),
            ),
            _ => self.alone(kind, text),
        }
    }

    /// A statement that runs alone, if it concerns nothing but chosen tables.
    fn alone(&self, kind: &StatementKind, text: &[u8]) -> Fate {
        match self.gather.whose(kind, text, self.modes.now()) {
            Whose::Chosen => Fate::Alone,
            Whose::Others => Fate::LeftOut,
            Whose::Unclear => Fate::Refused(
                UNCLEAR.trim_start_matches("refused: ").to_owned(),
                "Choose all tables that it names, or the whole database, as --tables 'db.*'."
                    .to_owned(),
            ),
        }
    }

    fn class(&self, class: StatementClass, text: &[u8]) -> Fate {
        let schema = memchr::memmem::find(text, STATS_AUTO_RECALC)
            .is_some()
            .then_some(self.options.system_schema);
        if self.options.allow.contains(&class) || schema == Some(SystemSchemaMode::Load) {
            return Fate::Alone;
        }
        if self.options.skip.contains(&class) || schema == Some(SystemSchemaMode::Skip) {
            return Fate::LeftOut;
        }
        Fate::Class(class)
    }
}

/// The database of what a statement creates, changes or drops, if it names one.
fn database_of(kind: &StatementKind) -> Option<String> {
    let named = |database: &Option<Vec<u8>>| database.as_deref().map(shown);
    match kind {
        StatementKind::CreateTable { table: name, .. }
        | StatementKind::CreateTrigger { table: name, .. }
        | StatementKind::CreateView { view: name }
        | StatementKind::CreateRoutine { routine: name, .. }
        | StatementKind::CreateEvent { event: name } => named(&name.database),
        StatementKind::CreateDatabase { database, .. }
        | StatementKind::DropDatabase { database } => Some(shown(database)),
        StatementKind::AlterDatabase { database } => named(database),
        _ => None,
    }
}

/// What a dangerous statement would do.
fn danger_word(danger: Danger) -> &'static str {
    match danger {
        Danger::LoadData => "it reads a file of this machine or of the server",
        Danger::OutFile => "it writes a file on the server",
        Danger::Plugin => "it installs or removes a plugin or component",
        Danger::LoadableFunction => "it runs a shared library in the server",
        Danger::Instance => "it stops or locks the server, or ends other people's connections",
        Danger::LowLevel => "it goes around the tables' definitions",
        Danger::DynamicSql => "what it runs cannot be seen",
        Danger::Ambiguous => "different servers would run different statements",
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
