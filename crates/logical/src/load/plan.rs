//! What a load would do, without doing it.

use std::collections::{BTreeMap, BTreeSet};

use refloat_run::Cancel;
use refloat_run::settings::{Durability, Facts, SettingsPlan};
use refloat_sqltext::{
    CommentKind, ItemKind, LexMode, ScanOptions, Scanner, StatementKind, Step, parse_set,
};
use refloat_store::Input;
use serde::Serialize;

use super::error::LoadError;
use super::options::{LoadOptions, WritePath};
use super::outcome::Bounded;
use super::outcome::head;
use super::preflight;

/// Bytes read at a time.
const BLOCK: usize = 4 << 20;

/// What a load would do.
#[derive(Debug, Clone, Serialize)]
pub struct LoadPlan {
    /// The dump.
    pub source: String,
    /// How it is compressed.
    pub compression: String,
    /// Bytes of text in it.
    pub bytes: u64,
    /// The server.
    pub target: String,
    /// Vendor and version of the server.
    pub server: String,
    /// The path that rows will take.
    pub write_path: WritePath,
    /// Connections that write.
    pub threads: usize,
    /// Databases that the dump creates or uses.
    pub databases: Vec<String>,
    /// Tables in the order of the dump.
    pub tables: Vec<PlannedTable>,
    /// Statements by kind, those that are rows not counted.
    pub statements: BTreeMap<String, u64>,
    /// Statements that will be refused or run alone, with their line.
    pub alone: Bounded<String>,
    /// How far settings may be changed.
    pub durability: Durability,
    /// Settings that will be changed, and advice.
    pub settings: SettingsPlan,
    /// Why a slower path than the best one is taken.
    pub advice: Vec<String>,
}

/// A table of the dump.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedTable {
    /// Database, when the dump names one.
    pub database: Option<String>,
    /// Table.
    pub table: String,
    /// Rows.
    pub rows: u64,
    /// Bytes of row text.
    pub bytes: u64,
}

/// Reads the whole dump and looks at the server; changes nothing.
pub fn plan(options: &LoadOptions) -> Result<LoadPlan, LoadError> {
    let mut input = if options.source.as_os_str() == "-" {
        Input::stdin()?
    } else {
        Input::open(&options.source)?
    };
    let outline = preflight::look_at_source(options, &mut input)?;
    let mut conn = super::connect(options, &Cancel::new())?;
    let facts = Facts::read(&mut conn)?;
    let preflight = preflight::look_at_server(options, &mut conn, &facts, outline)?;
    let mut survey = Survey {
        source: input.name().to_owned(),
        database: options
            .database
            .clone()
            .or_else(|| options.target.database.clone()),
        ..Survey::default()
    };
    survey.read(&mut input)?;
    if survey.header && !survey.completed && !options.accept_missing_trailer {
        return Err(LoadError::MissingTrailer {
            file: survey.source,
            offset: survey.bytes,
        });
    }
    let settings = super::plan_settings(options, &facts, &preflight, Some(survey.bytes));
    let opens_infile = settings
        .changes
        .iter()
        .any(|change| change.name == "local_infile");
    let write_path = match preflight.write_path {
        WritePath::Insert if options.write_path == WritePath::Auto && opens_infile => {
            WritePath::LoadData
        }
        other => other,
    };
    Ok(LoadPlan {
        source: survey.source,
        compression: input.compression().to_string(),
        bytes: survey.bytes,
        target: options.target.describe(),
        server: format!("{} {}", conn.server().vendor, conn.server().version_string),
        write_path,
        threads: options.threads,
        databases: survey.databases.into_iter().collect(),
        tables: survey.tables,
        statements: survey.statements,
        alone: survey.alone,
        durability: super::durability(options, &preflight),
        advice: if write_path == preflight.write_path {
            preflight.advice
        } else {
            Vec::new()
        },
        settings,
    })
}

/// What a walk over the dump counts.
#[derive(Default)]
struct Survey {
    source: String,
    bytes: u64,
    database: Option<String>,
    databases: BTreeSet<String>,
    tables: Vec<PlannedTable>,
    statements: BTreeMap<String, u64>,
    alone: Bounded<String>,
    header: bool,
    completed: bool,
}

impl Survey {
    fn read(&mut self, input: &mut Input) -> Result<(), LoadError> {
        let mut scanner = Scanner::new(ScanOptions::default());
        let mut mode = LexMode::default();
        let mut buffer: Vec<u8> = Vec::new();
        let mut eof = false;
        loop {
            let want = BLOCK.max(buffer.len() * 2);
            while !eof && buffer.len() < want {
                let before = buffer.len();
                eof = input.read_block(&mut buffer, want - before)? == 0;
                self.bytes += (buffer.len() - before) as u64;
            }
            let mut at = 0;
            loop {
                let step = scanner
                    .next(&buffer[at..], eof)
                    .map_err(|source| LoadError::Scan {
                        file: self.source.clone(),
                        source,
                    })?;
                let item = match step {
                    Step::Item(item) => item,
                    Step::NeedMore => break,
                    Step::End => return Ok(()),
                };
                let text = &buffer[at + item.text.start..at + item.text.end];
                match &item.kind {
                    ItemKind::Rows(rows) => {
                        let database = rows
                            .header
                            .database
                            .as_deref()
                            .map(shown)
                            .or_else(|| self.database.clone());
                        self.count(
                            database,
                            shown(&rows.header.table),
                            rows.row_count,
                            rows.rows.len() as u64,
                        );
                    }
                    ItemKind::Statement(kind) => {
                        if matches!(kind, StatementKind::Set) {
                            mode = follow(mode, text);
                            scanner.set_mode(mode);
                        }
                        self.statement(kind, text, item.line);
                    }
                    ItemKind::Comment(CommentKind::DumpHeader) => self.header = true,
                    ItemKind::Comment(CommentKind::DumpCompleted) => self.completed = true,
                    ItemKind::ClientCommand(_) | ItemKind::Comment(_) | ItemKind::Blank => {}
                }
                at += item.len;
            }
            buffer.drain(..at);
        }
    }

    fn count(&mut self, database: Option<String>, table: String, rows: u64, bytes: u64) {
        match self
            .tables
            .last_mut()
            .filter(|last| last.table == table && last.database == database)
        {
            Some(last) => {
                last.rows += rows;
                last.bytes += bytes;
            }
            None => self.tables.push(PlannedTable {
                database,
                table,
                rows,
                bytes,
            }),
        }
    }

    fn statement(&mut self, kind: &StatementKind, text: &[u8], line: u64) {
        let word = match kind {
            StatementKind::Set
            | StatementKind::LockTables
            | StatementKind::UnlockTables
            | StatementKind::AlterTableKeys { .. }
            | StatementKind::Empty => return,
            StatementKind::Use { database } | StatementKind::CreateDatabase { database, .. } => {
                let name = shown(database);
                self.databases.insert(name.clone());
                if matches!(kind, StatementKind::Use { .. }) {
                    self.database = Some(name);
                    return;
                }
                "create database"
            }
            StatementKind::CreateTable { table, .. } => {
                let database = table
                    .database
                    .as_deref()
                    .map(shown)
                    .or_else(|| self.database.clone());
                self.count(database, shown(&table.name), 0, 0);
                "create table"
            }
            StatementKind::DropTable { .. } => "drop table",
            StatementKind::CreateView { .. } => "create view",
            StatementKind::DropView { .. } => "drop view",
            StatementKind::CreateTrigger { .. } => "create trigger (after the rows)",
            StatementKind::CreateRoutine { .. } => "create routine",
            StatementKind::CreateEvent { .. } => "create event (after the rows)",
            StatementKind::CreateSequence { .. } => "create sequence",
            _ => {
                self.alone.push(format!("line {line}: {}", head(text)));
                "other, run alone or refused"
            }
        };
        *self.statements.entry(word.to_owned()).or_insert(0) += 1;
    }
}

/// Follows `sql_mode` and the character set, which decide how the text behind them is read.
fn follow(mut mode: LexMode, text: &[u8]) -> LexMode {
    for assignment in parse_set(text, mode).unwrap_or_default() {
        let Some(literal) = assignment.literal else {
            continue;
        };
        if assignment.name == b"sql_mode" {
            mode = mode.with_sql_mode(&literal);
        } else if assignment.name == b"names" || assignment.name == b"character_set_client" {
            mode.charset_family = refloat_sqltext::CharsetFamily::from_charset_name(&literal);
        }
    }
    mode
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
