//! Sources of several files: statements in their order, rows of several tables at once.
//!
//! Rows of different tables are free in order. As many tables are open as there are workers, the largest first, and the next block is
//! read from the one whose lane is emptiest: where one writer per table is the fastest, reading table after table would leave
//! all workers but one without work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use refloat_sqltext::{
    CharsetFamily, InsertHeader, InsertVerb, Item, ItemKind, RowVisitor, StatementKind, quote_ident,
};
use refloat_store::Input;

use super::place::{Place, SqlReader};
use super::registry::{TableKey, Touch};
use super::{BLOCK_BYTES, Conductor};
use crate::load::chunk::{Block, BlockPool, Head, PlainFile};
use crate::load::error::{LoadError, Refusal};
use crate::load::form::{DelimitedRows, Form};
use crate::load::options::SystemSchemaMode;
use crate::load::rows::leaves_to_server;
use crate::load::session::Session;
use crate::load::table::Layout as Columns;
use crate::source::cutter::Ends;
use crate::source::delimited::Decode;
use crate::source::folder::plain_name;
use crate::source::layout::{DelimitedFile, Layout, RowForm, Segment, SqlFile, TableRows};

/// Bytes of rows in one piece.
const PIECE_BYTES: usize = 1 << 20;
/// Largest single row: the server takes no larger one either.
const ROW_MAX: usize = 1 << 30;
/// What some programs begin a file of UTF-8 with.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Text per byte of a compressed file, when it is to be told whether a table is large.
const COMPRESSION_GUESS: u64 = 4;

/// A table whose files are being read.
struct TableReader<'l> {
    rows: &'l TableRows,
    key: TableKey,
    /// The next file to open.
    next: usize,
    place: Place,
    file: Option<FileReader<'l>>,
}

enum FileReader<'l> {
    Sql(SqlReader),
    Delimited(DelimitedReader<'l>),
}

/// A file of delimited text, and how far it was read.
struct DelimitedReader<'l> {
    input: Input,
    file: &'l DelimitedFile,
    rest: Vec<u8>,
    eof: bool,
    /// Place of the next byte.
    offset: u64,
    line: u64,
    /// Lines in front of the rows that are still to come.
    skip: u64,
    /// Names in the first line.
    names: Option<Vec<String>>,
    /// What its rows are for, once the first one was seen.
    target: Option<Target>,
}

/// What the rows of a delimited file are for.
#[derive(Clone)]
struct Target {
    index: usize,
    head: Head,
    /// Place of an `AUTO_INCREMENT` column among the values.
    numbered: Option<usize>,
}

impl FileReader<'_> {
    fn position(&self) -> u64 {
        match self {
            Self::Sql(reader) => reader.position(),
            Self::Delimited(reader) => reader.input.raw_position().load(Ordering::Relaxed),
        }
    }
}

/// The fields of one row.
struct Fields(Vec<String>);

impl RowVisitor for Fields {
    type Error = std::convert::Infallible;

    fn value(&mut self) -> Result<(), Self::Error> {
        self.0.push(String::new());
        Ok(())
    }
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0.push(String::from_utf8_lossy(bytes).into_owned());
        Ok(())
    }
}

/// A statement of ours, that stands nowhere in the source.
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
    /// Reads all files of a source, and finishes everything that they ask for. `position` counts the bytes that are read, as they are
    /// stored; `open_max` tables of rows are open at the same time.
    pub fn run_layout(
        &mut self,
        layout: &Layout,
        position: &AtomicU64,
        open_max: usize,
    ) -> Result<(), LoadError> {
        for text in &layout.session {
            self.set(text.as_bytes(), &own_item(text))?;
        }
        let start = self.session()?;
        let pool = Arc::new(BlockPool::default());
        for segment in &layout.segments {
            match segment {
                Segment::Database(name) => self.own_create_database(name)?,
                Segment::Sql(file) => self.statements_of(file, &start, &pool, position)?,
                Segment::Rows(tables) => {
                    self.rows_of(tables, &start, &pool, position, open_max)?;
                }
            }
        }
        self.place = Place::new(&self.ctx.source);
        self.end()
    }

    /// Creates a database that no file creates.
    fn own_create_database(&mut self, name: &str) -> Result<(), LoadError> {
        let text = format!("CREATE DATABASE IF NOT EXISTS {}", quote_ident(name));
        self.create_database(name.as_bytes(), text.as_bytes(), &own_item(&text))
    }

    /// Gives the control connection the session that a file begins with.
    fn begin_file(
        &mut self,
        start: &Arc<Session>,
        database: Option<&str>,
    ) -> Result<(), LoadError> {
        self.control_only = false;
        self.ensure_database()?;
        let mut wanted = (**start).clone();
        wanted.database = database
            .map(str::to_owned)
            .or_else(|| self.ctx.options.database.clone())
            .or_else(|| start.database.clone());
        if wanted.database.is_none() {
            // A session cannot leave its database: what stands here names its own.
            wanted.database.clone_from(&self.session()?.database);
        }
        self.resume(&Arc::new(wanted))
    }

    /// Gives the control connection this state.
    fn resume(&mut self, wanted: &Arc<Session>) -> Result<(), LoadError> {
        if self
            .session
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, wanted) || **now == **wanted)
        {
            return Ok(());
        }
        let failed = |error| LoadError::server("preparing the session of a file", error);
        if let Some(reset) = self.tracker.reset(wanted) {
            // Some variables have no default; then they stay.
            let _ = self.control.exec(reset);
        }
        self.control.exec(wanted.exact_set()).map_err(failed)?;
        if let Some(database) = &wanted.database
            && !self.skips_database(database)
        {
            self.control
                .exec(format!("USE {}", quote_ident(database)))
                .map_err(failed)?;
        }
        self.session = None;
        self.session().map(drop)
    }

    /// Whether everything about a database is left out.
    fn skips_database(&self, database: &str) -> bool {
        Self::is_system(database) && self.ctx.options.system_schema == SystemSchemaMode::Skip
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
            && self.leaves_out(database)?
        {
            return Ok(());
        }
        if is_empty(&file.path) {
            return Ok(());
        }
        self.place = Place::new(&name);
        self.place.enters = file.enters;
        self.place.keeps_databases = true;
        self.begin_file(start, file.database.as_deref())?;
        for text in &file.session {
            self.set(text.as_bytes(), &own_item(text))?;
        }
        let mut input = Input::open(&file.path)?;
        input.cancel_flag(self.ctx.cancel.flag());
        let mut reader = SqlReader::new(input, file.ends, pool);
        self.marks = super::Marks::default();
        while self.read_statements(&mut reader)? {}
        // A dump tool's `--tab` writes triggers behind its closing comment.
        if self.marks.header && !self.marks.closed && !self.ctx.options.accept_missing_trailer {
            return Err(LoadError::MissingTrailer {
                file: name,
                offset: reader.read,
            });
        }
        position.fetch_add(reader.position(), Ordering::Relaxed);
        self.finish_current()
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
        if !self.wanted(&key) || self.leaves_out(&key.0)? {
            return Ok(None);
        }
        let mut place = Place::new(&rows.label());
        let text = |file: &crate::source::layout::RowFile| {
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
            file: None,
        }))
    }

    /// Reads a block of a table; `false` when all of it was read.
    fn step(
        &mut self,
        reader: &mut TableReader<'_>,
        start: &Arc<Session>,
        pool: &Arc<BlockPool>,
        position: &AtomicU64,
    ) -> Result<bool, LoadError> {
        std::mem::swap(&mut self.place, &mut reader.place);
        let result = self.step_here(reader, start, pool, position);
        self.place.session.clone_from(&self.session);
        std::mem::swap(&mut self.place, &mut reader.place);
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
            if is_empty(&next.path) {
                return Ok(true);
            }
            self.place.name = Arc::from(next.path.display().to_string());
            self.begin_file(start, reader.rows.database.as_deref())?;
            reader.file = Some(self.open(&next.path, &next.form, pool)?);
            return Ok(true);
        };
        if let Some(session) = self.place.session.clone() {
            self.resume(&session)?;
        }
        let before = file.position();
        let more = match &mut file {
            FileReader::Sql(sql) => self.read_statements(sql)?,
            FileReader::Delimited(text) => self.read_delimited(text, &reader.key, pool)?,
        };
        position.fetch_add(file.position() - before, Ordering::Relaxed);
        if more {
            reader.file = Some(file);
        }
        Ok(true)
    }

    /// All files of a table were read.
    fn end_table(&mut self, reader: &TableReader<'_>) -> Result<(), LoadError> {
        let named = reader
            .rows
            .rows
            .or_else(|| reader.rows.files.iter().map(|file| file.rows).sum());
        if let Some(expected) = named
            && expected != self.place.rows
        {
            return Err(LoadError::RowsMissing {
                table: reader.rows.label(),
                expected,
                found: self.place.rows,
            });
        }
        self.finish_current()
    }

    fn open<'l>(
        &mut self,
        path: &std::path::Path,
        form: &'l RowForm,
        pool: &Arc<BlockPool>,
    ) -> Result<FileReader<'l>, LoadError> {
        let mut input = Input::open(path)?;
        input.cancel_flag(self.ctx.cancel.flag());
        self.place.file = None;
        // Small files are read at once: a piece in memory costs less than opening the file again.
        let worth = input
            .total_bytes()
            .is_some_and(|bytes| bytes > PIECE_BYTES as u64);
        if worth && input.plain_file()?.is_some() {
            let name = self.place.name.to_string();
            let file = PlainFile::on_demand(path).map_err(|source| {
                LoadError::Input(refloat_store::InputError::Read {
                    name,
                    at: 0,
                    source,
                })
            })?;
            self.place.file = Some(Arc::new(file));
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
                    self.set(text.as_bytes(), &own_item(text))?;
                }
                FileReader::Delimited(DelimitedReader {
                    input,
                    file: file.as_ref(),
                    rest: Vec::new(),
                    eof: false,
                    offset: 0,
                    line: 1,
                    skip: file.skip_lines,
                    names: None,
                    target: None,
                })
            }
        })
    }

    /// Reads a block of delimited text; `false` at its end.
    fn read_delimited(
        &mut self,
        reader: &mut DelimitedReader<'_>,
        key: &TableKey,
        pool: &Arc<BlockPool>,
    ) -> Result<bool, LoadError> {
        self.check_cancel()?;
        let mut rest = std::mem::take(&mut reader.rest);
        let want = BLOCK_BYTES.max(rest.len() * 2);
        while !reader.eof && rest.len() < want {
            let before = rest.len();
            reader.eof = reader.input.read_block(&mut rest, want - before)? == 0;
            self.bytes += (rest.len() - before) as u64;
        }
        let block = Arc::new(Block::new(rest, Arc::clone(pool)));
        let format = &reader.file.format;
        let mut at = 0;
        if reader.offset == 0 && !reader.file.closed && block.starts_with(BYTE_ORDER_MARK) {
            at = BYTE_ORDER_MARK.len();
            reader.offset = at as u64;
        }
        while at < block.len() {
            self.check_cancel()?;
            let text = &block[at..];
            let head = reader.skip > 0 || (reader.file.header && reader.names.is_none());
            let target = if head { 1 } else { PIECE_BYTES };
            let Some(run) = format.cut(text, target, reader.eof) else {
                break;
            };
            let text = &text[..run.len];
            if reader.eof
                && at + run.len == block.len()
                && reader.file.closed
                && format.is_open(text)
            {
                return Err(self.cut_short(reader, text));
            }
            let (offset, line) = (reader.offset, reader.line);
            reader.offset += run.len as u64;
            reader.line += memchr::memchr_iter(b'\n', text).count() as u64;
            if head {
                if reader.skip > 0 {
                    reader.skip -= 1;
                } else {
                    let mut fields = Fields(Vec::new());
                    // What cannot be read as a row has no names.
                    let _ = format.visit(text, &[], &mut fields);
                    reader.names = Some(fields.0);
                }
            } else {
                let place = (offset, line);
                let target = if let Some(target) = &reader.target {
                    target.clone()
                } else {
                    let target = self.target(reader, key, text, place)?;
                    reader.target.insert(target).clone()
                };
                self.delimited_rows(&target, &block, at..at + run.len, run.rows, place)?;
            }
            at += run.len;
        }
        if block.len() - at > ROW_MAX {
            return Err(LoadError::Text {
                file: self.place.name.to_string(),
                line: reader.line,
                offset: reader.offset,
                message: format!("no row ends within {ROW_MAX} bytes from here on"),
            });
        }
        if reader.eof {
            return Ok(false);
        }
        let mut rest = pool.take();
        rest.extend_from_slice(&block[at..]);
        reader.rest = rest;
        Ok(true)
    }

    /// The error of a file that ends in the middle of a row.
    fn cut_short(&self, reader: &DelimitedReader<'_>, text: &[u8]) -> LoadError {
        let last = memchr::memrchr(b'\n', text).map_or(0, |at| at + 1);
        LoadError::Text {
            file: self.place.name.to_string(),
            line: reader.line + memchr::memchr_iter(b'\n', text).count() as u64,
            offset: reader.offset + last as u64,
            message: "the file ends in the middle of a row: nothing ends it".to_owned(),
        }
    }

    /// Decides what the fields of a file are for, by its first row.
    fn target(
        &mut self,
        reader: &DelimitedReader<'_>,
        key: &TableKey,
        text: &[u8],
        (offset, line): (u64, u64),
    ) -> Result<Target, LoadError> {
        let key = match &reader.file.table {
            Some(table) => (key.0.clone(), table.clone()),
            None => key.clone(),
        };
        if Self::is_system(&key.0) {
            self.touch(&key.0, Touch::Rows)?;
        }
        let index = self.table_for_rows(&key)?;
        if self.place.current != Some(index) {
            self.finish_current()?;
            if self.entries[index].build_begun {
                self.queue.wait_key(index)?;
            }
            self.place.current = Some(index);
        }
        let table = Arc::clone(&self.entries[index].table);
        let wrong = |message: String| LoadError::Fields {
            file: self.place.name.to_string(),
            line,
            offset,
            table: table.label(),
            message,
        };
        let format = &reader.file.format;
        let found = format
            .cut(text, 1, true)
            .and_then(|run| {
                let mut fields = Fields(Vec::new());
                format.visit(&text[..run.len], &[], &mut fields).ok()?;
                Some(fields.0.len())
            })
            .unwrap_or(0);
        let Some(columns) = table.layout() else {
            return Err(wrong("its columns are not known".to_owned()));
        };
        let given = reader.file.fields.clone().or_else(|| {
            let names = reader.names.clone()?;
            Some(
                names
                    .into_iter()
                    .map(|name| (name, Decode::Plain))
                    .collect(),
            )
        });
        let fields = fields_of(&columns, given, found).map_err(wrong)?;
        if reader.file.by_character
            && let Some(words) = ambiguous(&columns, &fields, &reader.file.charset)
        {
            return Err(wrong(words));
        }
        let session = self.session()?;
        let names: Vec<&str> = fields
            .iter()
            .filter(|field| field.1 != Decode::Skip)
            .map(|field| field.0.as_str())
            .collect();
        let quoted: Vec<String> = names.iter().map(|name| quote_ident(name)).collect();
        let header = InsertHeader {
            verb: InsertVerb::Insert,
            database: Some(table.db.clone().into_bytes()),
            table: table.name.clone().into_bytes(),
            columns: Some(names.iter().map(|name| name.as_bytes().to_vec()).collect()),
            text: format!(
                "INSERT INTO {} ({}) VALUES ",
                table.quoted(),
                quoted.join(",")
            )
            .into_bytes(),
        };
        let is_numbered =
            |column: &&crate::load::table::Column| column.auto_increment || column.from_sequence;
        let numbered_column = columns.columns.iter().find(is_numbered);
        let numbered = numbered_column.and_then(|column| {
            names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(&column.name))
        });
        if numbered_column.is_some() && numbered.is_none() {
            // The server gives the numbers: in the order of the rows.
            self.entries[index].ordered = true;
        }
        let decode = fields.iter().map(|field| field.1).collect();
        Ok(Target {
            index,
            numbered,
            head: Head {
                table,
                session,
                header: Arc::new(header),
                form: Form::Delimited(Arc::new(DelimitedRows {
                    format: format.clone(),
                    decode,
                    charset: reader.file.charset.clone(),
                })),
            },
        })
    }

    fn delimited_rows(
        &mut self,
        target: &Target,
        block: &Arc<Block>,
        range: std::ops::Range<usize>,
        rows: u64,
        (offset, line): (u64, u64),
    ) -> Result<(), LoadError> {
        let index = target.index;
        let text = &block[range.clone()];
        if let Some(position) = target.numbered
            && !self.entries[index].ordered
        {
            let session = &target.head.session;
            let zero = !session.has_mode("NO_AUTO_VALUE_ON_ZERO");
            let maybe = zero || memchr::memmem::find(text, b"\\N").is_some();
            if maybe
                && leaves_to_server(&target.head.form, text, position, zero, session.lex_mode())
            {
                // Numbers of the server come in the order of the rows, behind those that are there.
                self.queue.flush(index, None)?;
                self.queue.wait_key(index)?;
                self.entries[index].ordered = true;
            }
        }
        self.touched = true;
        self.place.rows += rows;
        let entry = &mut self.entries[index];
        entry.session = Some(Arc::clone(&target.head.session));
        entry.text_bytes += text.len() as u64;
        let piece = self.piece(block, range.clone(), rows, offset, line);
        match self.ctx.options.chunk_rows {
            Some(limit) => self.add_exactly(index, &target.head, &piece, text, limit),
            None => self.add(index, &target.head, piece),
        }
    }
}

/// Whether there is nothing in a file: no table has rows then, and no compressor would have written it.
fn is_empty(path: &std::path::Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.len() == 0)
}

/// The column of each of `found` fields, and how it is decoded. What the server computes itself is left out.
fn fields_of(
    columns: &Columns,
    given: Option<Vec<(String, Decode)>>,
    found: usize,
) -> Result<Vec<(String, Decode)>, String> {
    let fields = given.unwrap_or_else(|| {
        let visible = columns.columns.iter().filter(|column| !column.invisible);
        let all: Vec<_> = visible.clone().map(|column| column.name.clone()).collect();
        let own: Vec<_> = visible
            .filter(|column| !column.generated)
            .map(|column| column.name.clone())
            .collect();
        let names = if own.len() == found { own } else { all };
        names
            .into_iter()
            .map(|name| (name, Decode::Plain))
            .collect()
    });
    if fields.len() != found {
        return Err(format!(
            "the row has {found} fields where {} are expected",
            fields.len()
        ));
    }
    fields
        .into_iter()
        .map(|(name, decode)| {
            if decode == Decode::Skip {
                return Ok((name, decode));
            }
            let column = columns
                .columns
                .iter()
                .find(|column| column.name.eq_ignore_ascii_case(&name))
                .ok_or_else(|| format!("it has no column {name}"))?;
            let decode = if column.generated {
                Decode::Skip
            } else {
                decode
            };
            Ok((column.name.clone(), decode))
        })
        .collect()
}

/// Why bytes of characters may be taken for terminators, when they may.
fn ambiguous(columns: &Columns, fields: &[(String, Decode)], charset: &str) -> Option<String> {
    let unsafe_charset = |name: &str| {
        let wide = ["ucs2", "utf16", "utf32"];
        wide.iter().any(|one| name.starts_with(one))
            || CharsetFamily::from_charset_name(name.as_bytes()) != CharsetFamily::Plain
    };
    if charset != "binary" {
        return unsafe_charset(charset).then(|| {
            format!("the file is in {charset}, where a part of a character may look like the end of a field")
        });
    }
    let named = |column: &&crate::load::table::Column| {
        fields
            .iter()
            .any(|(name, decode)| *decode != Decode::Skip && *name == column.name)
    };
    let column = columns.columns.iter().filter(named).find_map(|column| {
        let own = column.charset.as_deref()?;
        unsafe_charset(own).then_some((column, own))
    });
    column.map(|(column, own)| {
        format!(
            "column {} is in {own}, and the file has its bytes as they are, where a part of a character may look like the end of a \
             field: dump this table as SQL",
            column.name
        )
    })
}

/// The refusal of a source that is not whole.
pub fn not_whole(layout: &Layout) -> Vec<Refusal> {
    let hint = format!(
        "Make the dump again, or see all of it with `refloat inspect {}`.",
        layout.path.display()
    );
    layout
        .faults
        .iter()
        .map(|fault| Refusal {
            reason: format!(
                "{}: the source is not whole: {fault}",
                layout.path.display()
            ),
            hint: hint.clone(),
        })
        .collect()
}
