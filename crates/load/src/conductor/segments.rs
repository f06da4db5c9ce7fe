//! Sources of several files: statements in order, rows of several tables at once.
//!
//! Rows of different tables need no order among themselves. As many tables are open as there are
//! workers and memory for them, the largest first, and the next block is read for the table with
//! the emptiest lane. Where one writer per table is fastest, reading one table after another would
//! leave all workers but one idle.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use refloat_run::cancel::abandonable;
use refloat_schema::pattern::may_choose_in;
use refloat_source::blocks::BlockPool;
use refloat_source::cutter::Ends;
use refloat_source::folder::plain_name;
use refloat_source::layout::{Layout, RowFile, RowForm, Segment, SqlFile, TableRows};
use refloat_source::script::Script;
use refloat_sqltext::{Item, ItemKind, StatementKind, quote_ident};
use refloat_store::{Input, OpenOptions};

use super::delimited::DelimitedReader;
use super::file_check::FileCheck;
use super::here::Here;
use super::name::TableKey;
use super::place::{Place, SqlReader};
use super::refused_settings::list_rows_of_refused;
use super::{Conductor, PIECE_BYTES};
use crate::chunk::PlainFile;
use crate::error::LoadError;
use crate::open_source::COMPRESSION_GUESS;
use crate::session::Session;
use crate::transaction::Transaction;

/// A table whose files are being read.
struct TableReader<'l> {
    rows: &'l TableRows,
    key: TableKey,
    /// The next file to open.
    next: usize,
    place: Place,
    file_check: FileCheck,
    file: Option<FileReader<'l>>,
}

enum FileReader<'l> {
    Sql(SqlReader),
    Delimited(DelimitedReader<'l>),
}

impl FileReader<'_> {
    fn position(&self) -> u64 {
        match self {
            Self::Sql(reader) => reader.position(),
            Self::Delimited(reader) => reader.input.raw_position().load(Ordering::Relaxed),
        }
    }
}

/// A statement of our own, which has no place in the source.
fn own_item(text: &str) -> Item {
    Item {
        kind: ItemKind::Statement(StatementKind::Set),
        len: text.len(),
        text: 0..text.len(),
        offset: 0,
        line: 0,
        terminated: true,
    }
}

impl Conductor<'_> {
    /// Reads all files of a source and finishes everything they asked for. `position` counts the
    /// bytes read, as stored. At most `open_max` tables of rows are open at the same time.
    pub fn run_layout(
        &mut self,
        layout: &Layout,
        position: &AtomicU64,
        open_max: usize,
    ) -> Result<(), LoadError> {
        let mut place = Place::new(&self.ctx.source);
        for text in &layout.session {
            self.own_set(&mut place, text)?;
        }
        let start = self.dialogue.session()?;
        let pool = Arc::new(BlockPool::default());
        for segment in &layout.segments {
            if !matches!(segment, Segment::Sql(_)) {
                self.resume
                    .settle_definitions(&mut self.catalog, &mut self.dialogue)?;
            }
            match segment {
                Segment::Database(name) => self.own_create_database(name)?,
                Segment::Sql(file) => self.statements_of(file, &start, &pool, position)?,
                Segment::Rows(tables) => {
                    self.rows_of(tables, &start, &pool, position, open_max)?;
                }
                Segment::Stream(stream) => self.rows_of_stream(stream, &start)?,
            }
        }
        self.end(&mut Place::new(&self.ctx.source))
    }

    /// Runs a `SET` of our own, which has no place in the source.
    pub(super) fn own_set(&mut self, place: &mut Place, text: &str) -> Result<(), LoadError> {
        let file = Arc::clone(&place.name);
        let here = Here {
            file: &file,
            text: text.as_bytes(),
            item: &own_item(text),
        };
        self.set(place, here)
    }

    /// Creates a database that no file of the source creates, unless it exists.
    fn own_create_database(&mut self, name: &str) -> Result<(), LoadError> {
        if self.ctx.options.skips(name)? || !may_choose_in(&self.ctx.options.tables, name) {
            return Ok(());
        }
        let mut place = Place::new(&self.ctx.source);
        // An account that may fill a database may lack the right to create it.
        place.keeps_databases = true;
        let text = format!("CREATE DATABASE IF NOT EXISTS {}", quote_ident(name));
        let file = Arc::clone(&place.name);
        let here = Here {
            file: &file,
            text: text.as_bytes(),
            item: &own_item(&text),
        };
        self.create_database(&mut place, name.as_bytes(), here)
    }

    /// Gives the control connection the session state that a file starts with.
    pub(super) fn begin_file(
        &mut self,
        place: &mut Place,
        start: &Arc<Session>,
        database: Option<&str>,
    ) -> Result<(), LoadError> {
        self.dialogue.control_only = false;
        place.transaction = Transaction::default();
        self.dialogue.refused_settings = super::refused_settings::RefusedSettings::default();
        self.dialogue
            .ensure_database(&mut self.catalog.conn, &mut self.findings)?;
        let mut wanted = (**start).clone();
        wanted.database = database
            .map(str::to_owned)
            .or_else(|| self.ctx.options.database.clone())
            .or_else(|| start.database.clone());
        if wanted.database.is_none() {
            // A session cannot leave its database, and the statements that follow name their own.
            wanted
                .database
                .clone_from(&self.dialogue.session()?.database);
        }
        self.dialogue.resume(&Arc::new(wanted))
    }

    fn statements_of(
        &mut self,
        file: &SqlFile,
        start: &Arc<Session>,
        pool: &Arc<BlockPool>,
        position: &AtomicU64,
    ) -> Result<(), LoadError> {
        let name = file.path.display().to_string();
        if let Some(database) = &file.database
            && self.ctx.options.skips(database)?
        {
            return Ok(());
        }
        if file.bytes().is_ok_and(|bytes| bytes == 0) {
            return Ok(());
        }
        let mut place = Place::new(&name);
        place.enters = file.enters;
        place.keeps_databases = true;
        self.begin_file(&mut place, start, file.database.as_deref())?;
        for text in &file.session {
            self.own_set(&mut place, text)?;
        }
        let mut input = file.open()?;
        input.cancel_flag(self.ctx.cancel.flag());
        let mut reader = SqlReader::new(input, file.ends, pool);
        while self.read_statements(&mut place, &mut reader)? {}
        check(&reader.input, file.checksum.as_deref())?;
        let is_cut = place.script.is_cut_part();
        LoadError::refuse_cut(&self.ctx.options, is_cut, (&place.name, reader.read))?;
        position.fetch_add(reader.position(), Ordering::Relaxed);
        self.finish_current(&mut place)?;
        place.check_committed(&self.ctx)
    }

    fn rows_of(
        &mut self,
        tables: &[TableRows],
        start: &Arc<Session>,
        pool: &Arc<BlockPool>,
        position: &AtomicU64,
        open_max: usize,
    ) -> Result<(), LoadError> {
        let mut waiting: Vec<&TableRows> = tables.iter().collect();
        waiting.sort_by_key(|table| std::cmp::Reverse(table.bytes()));
        let mut waiting: VecDeque<&TableRows> = waiting.into();
        let mut open: Vec<TableReader<'_>> = Vec::new();
        loop {
            while open.len() < open_max.max(1)
                && let Some(rows) = waiting.pop_front()
            {
                open.extend(self.table_reader(rows)?);
            }
            let emptiest = open
                .iter()
                .enumerate()
                .min_by_key(|(_, reader)| {
                    reader
                        .place
                        .current
                        .map_or(0, |index| self.queue.waiting(index))
                })
                .map(|(at, _)| at);
            let Some(at) = emptiest else { return Ok(()) };
            if !self.step(&mut open[at], start, pool, position)? {
                open.swap_remove(at);
            }
        }
    }

    /// A reader for a table, if its rows are wanted.
    fn table_reader<'l>(
        &mut self,
        rows: &'l TableRows,
    ) -> Result<Option<TableReader<'l>>, LoadError> {
        let database = rows
            .database
            .clone()
            .or_else(|| self.ctx.options.database.clone())
            .unwrap_or_default();
        let key = (database, rows.table.clone());
        if !self.wanted(&key) || self.ctx.options.skips(&key.0)? {
            return Ok(None);
        }
        if self.ledger.refused.contains(&key) {
            let file = rows.files.first();
            let file = file.map_or_else(|| rows.label(), |file| file.path.display().to_string());
            list_rows_of_refused(&self.ctx, &key, file)?;
            return Ok(None);
        }
        let mut place = Place::new(&rows.label());
        let text = |file: &refloat_source::layout::RowFile| {
            let name = file.path.to_string_lossy();
            let factor = if plain_name(&name).len() == name.len() {
                1
            } else {
                COMPRESSION_GUESS
            };
            file.bytes * factor
        };
        place.size_known = Some(rows.files.iter().map(text).sum());
        place.rows_only = true;
        Ok(Some(TableReader {
            rows,
            key,
            next: 0,
            place,
            file_check: FileCheck::default(),
            file: None,
        }))
    }

    /// Reads one block of a table. `false` once all of it was read.
    fn step(
        &mut self,
        reader: &mut TableReader<'_>,
        start: &Arc<Session>,
        pool: &Arc<BlockPool>,
        position: &AtomicU64,
    ) -> Result<bool, LoadError> {
        let result = self.step_here(reader, start, pool, position);
        reader.place.session.clone_from(&self.dialogue.session);
        result
    }

    fn step_here(
        &mut self,
        reader: &mut TableReader<'_>,
        start: &Arc<Session>,
        pool: &Arc<BlockPool>,
        position: &AtomicU64,
    ) -> Result<bool, LoadError> {
        let Some(mut file) = reader.file.take() else {
            let Some(next) = reader.rows.files.get(reader.next) else {
                return self.end_table(reader).map(|()| false);
            };
            reader.next += 1;
            if next.is_empty() {
                // The file may have been truncated since the source was examined.
                return next.why_not_empty().map_or(Ok(true), |message| {
                    Err(LoadError::Text {
                        file: next.path.display().to_string(),
                        line: 1,
                        offset: 0,
                        message,
                    })
                });
            }
            reader.place.name = Arc::from(next.path.display().to_string());
            reader.place.script = Script::default();
            let after = reader.rows.files.get(reader.next);
            let stop = self.ctx.cancel.flag();
            reader.file_check.check(next, after, &stop)?;
            let database = reader.rows.database.as_deref();
            self.begin_file(&mut reader.place, start, database)?;
            reader.file = Some(self.open(&mut reader.place, next, pool)?);
            return Ok(true);
        };
        let place = &mut reader.place;
        if let Some(session) = place.session.clone() {
            self.dialogue.resume(&session)?;
        }
        let before = file.position();
        let more = match &mut file {
            FileReader::Sql(sql) => self.read_statements(place, sql)?,
            FileReader::Delimited(text) => self.read_delimited(place, text, &reader.key, pool)?,
        };
        position.fetch_add(file.position() - before, Ordering::Relaxed);
        if more {
            reader.file = Some(file);
        } else if let Some(read) = reader.rows.files.get(reader.next - 1) {
            let input = match &file {
                FileReader::Sql(sql) => &sql.input,
                FileReader::Delimited(text) => &text.input,
            };
            check(input, read.checksum.as_deref())?;
            if let FileReader::Sql(sql) = &file {
                let is_cut = place.script.is_cut_part();
                LoadError::refuse_cut(&self.ctx.options, is_cut, (&place.name, sql.read))?;
            }
            place.check_committed(&self.ctx)?;
            if let (FileReader::Delimited(found), Some((expected, by))) = (&file, &read.text) {
                found.check_bytes(*expected, by, &place.name)?;
            }
        }
        Ok(true)
    }

    /// Checks the row count of a table whose files were all read.
    fn end_table(&mut self, reader: &mut TableReader<'_>) -> Result<(), LoadError> {
        let named = reader
            .rows
            .rows
            .or_else(|| reader.rows.files.iter().map(|file| file.rows).sum());
        if let Some(expected) = named
            && expected != reader.place.rows
        {
            return Err(LoadError::RowsMissing {
                table: reader.rows.label(),
                expected,
                found: reader.place.rows,
            });
        }
        self.finish_current(&mut reader.place)
    }

    fn open<'l>(
        &mut self,
        place: &mut Place,
        file: &'l RowFile,
        pool: &Arc<BlockPool>,
    ) -> Result<FileReader<'l>, LoadError> {
        let (path, form) = (file.path.as_path(), &file.form);
        let mut input = if path.as_os_str() == "-" {
            // The first bytes may arrive late or never.
            let stdin = abandonable(&self.ctx.cancel, Input::stdin);
            stdin.ok_or_else(|| self.ctx.interrupted())??
        } else {
            open_input(path, file.checksum.is_some())?
        };
        input.cancel_flag(self.ctx.cancel.flag());
        place.file = None;
        // Small files are read at once: a piece in memory costs less than opening the file again.
        let worth = input
            .total_bytes()
            .is_some_and(|bytes| bytes > PIECE_BYTES as u64);
        if worth && input.plain_file()?.is_some() {
            let name = place.name.to_string();
            let file = PlainFile::on_demand(path).map_err(|source| {
                LoadError::Input(refloat_store::InputError::Read {
                    name,
                    at: 0,
                    source,
                })
            })?;
            place.file = Some(Arc::new(file));
        }
        Ok(match form {
            RowForm::Sql => FileReader::Sql(SqlReader::new(input, Ends::Client, pool)),
            RowForm::Delimited(file) => {
                let charset = match file.charset.as_str() {
                    "binary" => "utf8mb4",
                    named => named,
                };
                let names = format!("SET NAMES {charset}");
                for text in file.session.iter().chain([&names]) {
                    self.own_set(place, text)?;
                }
                FileReader::Delimited(DelimitedReader::new(input, file))
            }
        })
    }
}

fn open_input(path: &std::path::Path, checksum: bool) -> Result<Input, LoadError> {
    let mut options = OpenOptions::default();
    options.checksum = checksum;
    Ok(Input::open_with(path, &options)?)
}

/// Whether a file that was read to its end is the one that was written.
fn check(input: &Input, expected: Option<&str>) -> Result<(), LoadError> {
    match (input.checksum(), expected) {
        (Some(found), Some(expected)) if found != expected => {
            Err(LoadError::Input(refloat_store::InputError::Checksum {
                name: input.name().to_owned(),
            }))
        }
        _ => Ok(()),
    }
}
