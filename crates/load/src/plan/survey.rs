//! Walks a whole dump: what it contains of what the options ask for, and what a load would stop at.

use std::collections::{BTreeMap, HashMap};

use refloat_run::outcome::Bounded;
use refloat_run::{Cancel, Refusal};
use refloat_schema::definition::{ServerVersion, is_ignored_by};
use refloat_source::cutter::Ends;
use refloat_source::delimited::DelimitedFile;
use refloat_source::items::{Items, Runs};
use refloat_source::layout::{Layout, RowFile, RowForm};
use refloat_sqltext::{Item, ItemKind, LexMode, SqlMode, StatementKind, head, parse_set, shown};
use refloat_store::Input;

use super::PlannedTable;
use crate::choice::Whose;
use crate::error::LoadError;
use crate::options::{LoadOptions, OnError, StatementClass};
use crate::outline::{Gather, Outline, Part, parts};
use crate::table::is_transactional;
use crate::transaction::{Begun, OPEN_HINT, Transaction, autocommit_by, changes};
use crate::verdict::{Fate, Reason};

/// Bytes of rows that are cut at a time.
const BLOCK: usize = 4 << 20;
/// Most statements kept that a load would stop at: there may be one on every line.
const STOPS_MAX: usize = 100;
/// Bytes of definitions that are kept: those of some 50,000 tables.
const DEFINITIONS_MAX: usize = 64 << 20;

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
    /// The target.
    server: ServerVersion,
    cancel: &'a Cancel,
    source: String,
    gather: Gather<'a>,
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

impl<'a> Survey<'a> {
    pub fn new(
        options: &'a LoadOptions,
        source: &str,
        server: ServerVersion,
        cancel: &'a Cancel,
    ) -> Self {
        Self {
            options,
            server,
            cancel,
            source: source.to_owned(),
            gather: Gather::new(options),
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

    /// The result.
    pub fn end(mut self) -> Found {
        for pattern in self.gather.unmatched() {
            self.found.stops.push(Refusal {
                reason: format!("no table of the dump is called {pattern}"),
                hint: "--tables takes names of tables, as table or database.table; * matches any \
                    text and ? any one character."
                    .to_owned(),
            });
        }
        let outline = self.gather.end();
        for (stop, more) in self.classes.into_values().filter(|(_, more)| *more > 0) {
            let words = format!(" (and {more} more of this class)");
            self.found.stops[stop].reason.push_str(&words);
        }
        self.found.outline = outline;
        self.found
    }

    /// Reads all files of a layout to their ends.
    pub fn layout(&mut self, layout: &Layout) -> Result<(), LoadError> {
        self.several = true;
        self.gather.session(&layout.session);
        for part in parts(layout) {
            self.gather.begin(&part);
            match part {
                Part::Statements(file) => {
                    self.source = file.path.display().to_string();
                    if !file.bytes().is_ok_and(|bytes| bytes == 0) {
                        let session = [&layout.session[..], &file.session].concat();
                        self.read(&mut file.open()?, file.ends, &session)?;
                    }
                }
                Part::Rows(table, file) => {
                    self.source = file.path.display().to_string();
                    if !file.is_empty() {
                        self.row_file(&table.table, file, &layout.session)?;
                    }
                }
                Part::Streamed(table) => {
                    self.found.bytes += table.bytes;
                    self.rows(None, table.table.as_bytes(), table.rows, table.bytes);
                }
                Part::Table(_) | Part::Database(_) => {}
            }
        }
        Ok(())
    }

    /// Reads a file of rows to its end.
    fn row_file(
        &mut self,
        table: &str,
        file: &RowFile,
        session: &[String],
    ) -> Result<(), LoadError> {
        let mut input = Input::open(&file.path)?;
        match &file.form {
            RowForm::Sql => self.read(&mut input, Ends::Client, session),
            RowForm::Delimited(form) => {
                let name = form.table.as_deref().unwrap_or(table);
                let (rows, bytes) = self.lines(&mut input, form)?;
                self.rows(None, name.as_bytes(), rows, bytes);
                Ok(())
            }
        }
    }

    /// Fails once the run is cancelled.
    fn check_cancelled(&self) -> Result<(), LoadError> {
        if self.cancel.is_cancelled() {
            return Err(LoadError::interrupted(self.cancel));
        }
        Ok(())
    }

    /// Rows and bytes of a delimited file.
    fn lines(&mut self, input: &mut Input, form: &DelimitedFile) -> Result<(u64, u64), LoadError> {
        let mut runs = Runs::new(input, form);
        let mut rows = 0;
        while let Some(run) = runs
            .next(BLOCK)
            .map_err(|error| LoadError::of_items(&self.source, error))?
        {
            self.check_cancelled()?;
            rows += run.rows;
        }
        self.found.bytes += runs.bytes();
        Ok((rows, runs.bytes()))
    }

    /// Reads a single file to its end.
    pub fn file(&mut self, input: &mut Input) -> Result<(), LoadError> {
        self.read(input, Ends::Client, &[])
    }

    /// Reads a file, which starts with this session, to its end.
    fn read(&mut self, input: &mut Input, ends: Ends, session: &[String]) -> Result<(), LoadError> {
        let before = self.found.bytes;
        let mut items = Items::new(input, ends);
        for text in session {
            items.start_with(text.as_bytes());
        }
        if self.options.accept_missing_trailer {
            items.take_unterminated();
        }
        loop {
            let mode = items.script().mode();
            let Some(item) = items
                .next_item()
                .map_err(|error| LoadError::of_items(&self.source, error))?
            else {
                break;
            };
            self.check_cancelled()?;
            self.found.bytes = before + items.bytes();
            let text = items.text(&item);
            match &item.kind {
                ItemKind::Rows(rows) => {
                    let header = &rows.header;
                    let database = header.database.as_deref();
                    let bytes = rows.rows.len() as u64;
                    let whose = self.rows(database, &header.table, rows.row_count, bytes);
                    if rows.first && whose == Whose::Unclear {
                        self.refuse(Reason::PassedOn, text, item.line);
                    }
                }
                ItemKind::Statement(StatementKind::Empty) | ItemKind::Blank => {}
                ItemKind::Statement(_) if is_ignored_by(self.server, text, mode) => {}
                ItemKind::Statement(kind) => {
                    let sql_mode = items.script().sql_mode();
                    let runs = self.statement(kind, text, item.line, (mode, sql_mode));
                    if runs || !changes(kind) {
                        self.follow(kind, text, mode, &item);
                    }
                }
                ItemKind::ClientCommand(command) => {
                    if let Some(reason) = Reason::of_command(command) {
                        self.refuse(reason, text, item.line);
                    }
                }
                ItemKind::Comment(_) => self.gather.comment(text),
            }
        }
        self.found.bytes = before + items.bytes();
        let script = items.into_script();
        let cut = if self.several {
            script.is_cut_part()
        } else {
            script.is_cut()
        };
        let end = self.found.bytes - before;
        LoadError::refuse_cut(self.options, cut, (&self.source, end))?;
        if !cut {
            self.refuse_open();
        }
        self.transaction = Transaction::default();
        Ok(())
    }

    /// Tracks the transaction that the file's session would be in.
    fn follow(&mut self, kind: &StatementKind, text: &[u8], mode: LexMode, item: &Item) {
        if !matches!(kind, StatementKind::Set) {
            let transaction = &mut self.transaction;
            return transaction.statement(kind, text, item.line, item.offset);
        }
        let set = parse_set(text, mode).unwrap_or_default();
        if let Some(on) = set.iter().rev().find_map(autocommit_by) {
            let begun = Begun::new(text, item.line, item.offset);
            self.transaction.autocommit(on, begun);
        }
    }

    /// Refuses a file that ends in an open transaction, as a load does.
    fn refuse_open(&mut self) {
        let transaction = std::mem::take(&mut self.transaction);
        if let Some(open) = transaction.open() {
            let head = open.begun.head.as_bytes();
            self.stop(&open.reason(), OPEN_HINT.to_owned(), head, open.begun.line);
        }
    }

    /// Counts rows, and says which tables they end up in.
    fn rows(&mut self, database: Option<&[u8]>, table: &[u8], rows: u64, bytes: u64) -> Whose {
        let place = database
            .map(shown)
            .or_else(|| self.gather.database().map(str::to_owned));
        let whose = self.gather.rows(database, table);
        if whose != Whose::Chosen || self.gather.leaves_out(place.as_deref()) {
            return whose;
        }
        if self.rolls_back(place.as_deref(), table) {
            self.transaction.rows(rows);
        }
        self.count(place, shown(table), rows, bytes);
        whose
    }

    /// Whether the rows of a table can be rolled back, as far as the dump names its engine.
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

    /// Counts a statement, and says whether a load would run it.
    fn statement(
        &mut self,
        kind: &StatementKind,
        text: &[u8],
        line: u64,
        (mode, sql_mode): (LexMode, &SqlMode),
    ) -> bool {
        let listed = || format!("line {line}: {}", head(text));
        let fate = self.gather.statement(kind, text, mode, line);
        let runs = fate == Fate::Runs;
        let word = match fate {
            Fate::Silent => return false,
            Fate::Runs => {
                let Some(word) = counted_as(kind) else {
                    return true;
                };
                if word == ALONE {
                    self.found.alone.push(listed());
                } else if let StatementKind::CreateTable { table, .. } = kind {
                    let database = table.database.as_deref().map(shown);
                    let database = database.or_else(|| self.gather.database().map(str::to_owned));
                    self.count(database, shown(&table.name), 0, 0);
                    self.define(text, line, (mode, sql_mode));
                }
                word
            }
            Fate::LeftOut | Fate::Kept => {
                self.found.left_out.push(listed());
                "left out"
            }
            Fate::Refused(reason) => {
                self.refuse(reason, text, line);
                "refused"
            }
        };
        *self.found.statements.entry(word.to_owned()).or_insert(0) += 1;
        runs
    }

    /// Keeps the definition of a table.
    fn define(&mut self, text: &[u8], line: u64, (mode, sql_mode): (LexMode, &SqlMode)) {
        self.definition_bytes += text.len();
        if self.definition_bytes <= DEFINITIONS_MAX {
            self.found.definitions.push(Definition {
                line,
                text: text.to_vec(),
                mode,
                sql_mode: sql_mode.clone(),
            });
        }
    }

    /// Adds a refusal. All statements of a class share one: a dump of accounts has hundreds.
    fn refuse(&mut self, reason: Reason, text: &[u8], line: u64) {
        let class = match reason {
            // Definitions that name the old database are listed one by one, because each must be
            // checked.
            Reason::Class(class) if class != StatementClass::OldDatabase => class,
            _ => {
                self.stop(&reason.to_string(), reason.hint(), text, line);
                return;
            }
        };
        if let Some((_, more)) = self.classes.get_mut(&class) {
            *more += 1;
        } else if self.stop(class.reason(), class.hint(), text, line) {
            self.classes.insert(class, (self.found.stops.len() - 1, 0));
        }
    }

    /// Lists a refusal. Returns whether the load would stop at it and the list had room for it.
    fn stop(&mut self, reason: &str, hint: String, text: &[u8], line: u64) -> bool {
        let reason = format!("line {line}: {reason}: {}", head(text));
        if self.options.on_error == OnError::Continue {
            self.found.refused.push(reason);
            return false;
        }
        let room = self.found.stops.len() < STOPS_MAX;
        if room {
            self.found.stops.push(Refusal { reason, hint });
        }
        room
    }
}

/// The word for statements that run alone.
const ALONE: &str = "other, run alone";

/// The word under which a statement that runs is counted; `None` if it is not counted.
fn counted_as(kind: &StatementKind) -> Option<&'static str> {
    Some(match kind {
        StatementKind::Set
        | StatementKind::LockTables
        | StatementKind::UnlockTables
        | StatementKind::StartTransaction
        | StatementKind::Commit
        | StatementKind::AlterTableKeys { .. }
        | StatementKind::Use { .. }
        | StatementKind::Empty => return None,
        StatementKind::CreateDatabase { .. } => "create database",
        StatementKind::AlterDatabase { .. } => "alter database",
        StatementKind::DropDatabase { .. } => "drop database",
        StatementKind::CreateTable {
            temporary: false,
            like: false,
            select: false,
            ..
        } => "create table",
        StatementKind::DropTable { .. } | StatementKind::DropSequence { .. } => "drop table",
        StatementKind::CreateTrigger { .. } => "create trigger (after the rows)",
        StatementKind::DropView { .. }
        | StatementKind::DropTrigger { .. }
        | StatementKind::DropEvent { .. }
        | StatementKind::DropRoutine { .. } => "drop view, routine, trigger or event",
        StatementKind::CreateView { .. } => "create view",
        StatementKind::CreateSequence { .. } => "create sequence",
        StatementKind::CreateRoutine { .. } => "create routine",
        StatementKind::CreateEvent { .. } => "create event (after the rows)",
        _ => ALONE,
    })
}
