//! Reads files of delimited text as rows of a table.

use std::ops::Range;
use std::sync::Arc;

use refloat_schema::columns::Layout as Columns;
use refloat_schema::pattern::is_system_database;
use refloat_source::blocks::{Block, BlockPool};
use refloat_source::cutter::{ITEM_MAX, fill_target};
use refloat_source::delimited::{Decode, DelimitedFile, DelimitedRows};
use refloat_source::items;
use refloat_sqltext::{BYTE_ORDER_MARK, CharsetFamily, InsertHeader, InsertVerb, quote_ident};
use refloat_store::Input;

use super::name::TableKey;
use super::place::Place;
use super::registry::Touch;
use super::{BLOCK_BYTES, Conductor, PIECE_BYTES};
use crate::chunk::Head;
use crate::error::LoadError;
use crate::form::Form;
use crate::rows::leaves_to_server;

/// A file of delimited text, and how far it was read.
pub struct DelimitedReader<'l> {
    pub input: Input,
    file: &'l DelimitedFile,
    rest: Vec<u8>,
    eof: bool,
    /// Position of the next byte.
    offset: u64,
    line: u64,
    /// Lines before the rows that are still to be skipped.
    skip: u64,
    /// Column names from the first line.
    names: Option<Vec<String>>,
    /// Where its rows go, once the first one was seen.
    target: Option<Target>,
}

impl<'l> DelimitedReader<'l> {
    /// Checks that a file that was read to its end has the length that another file (`by`) states.
    pub fn check_bytes(&self, expected: u64, by: &str, name: &str) -> Result<(), LoadError> {
        if self.offset == expected {
            return Ok(());
        }
        Err(LoadError::Text {
            file: name.to_owned(),
            line: self.line,
            offset: self.offset,
            message: format!("the text ends here, but {by} says that it has {expected} bytes"),
        })
    }

    /// The error for a file that ends in the middle of a row.
    fn cut_short(&self, text: &[u8], name: &str) -> LoadError {
        let last = memchr::memrchr(b'\n', text).map_or(0, |at| at + 1);
        LoadError::Text {
            file: name.to_owned(),
            line: self.line + memchr::memchr_iter(b'\n', text).count() as u64,
            offset: self.offset + last as u64,
            message: "the file ends in the middle of a row: nothing ends it".to_owned(),
        }
    }

    pub fn new(input: Input, file: &'l DelimitedFile) -> Self {
        Self {
            input,
            file,
            rest: Vec::new(),
            eof: false,
            offset: 0,
            line: 1,
            skip: file.skip_lines,
            names: None,
            target: None,
        }
    }
}

/// Where the rows of a delimited file go.
#[derive(Clone)]
pub struct Target {
    index: usize,
    head: Head,
    /// Position of an `AUTO_INCREMENT` or sequence column among the values.
    numbered: Option<usize>,
}

/// Rows of a block of delimited text, and where they are in it.
pub struct Lines<'b> {
    pub block: &'b Arc<Block>,
    pub range: Range<usize>,
    pub rows: u64,
    pub offset: u64,
    pub line: u64,
}

impl Lines<'_> {
    fn text(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }
}

impl Conductor<'_> {
    /// Reads a block of delimited text. `false` at the end of the file.
    pub(super) fn read_delimited(
        &mut self,
        place: &mut Place,
        reader: &mut DelimitedReader<'_>,
        key: &TableKey,
        pool: &Arc<BlockPool>,
    ) -> Result<bool, LoadError> {
        self.ctx.check_cancel()?;
        let mut rest = std::mem::take(&mut reader.rest);
        let want = fill_target(rest.len(), BLOCK_BYTES);
        while !reader.eof && rest.len() < want {
            let before = rest.len();
            reader.eof = reader.input.read_block(&mut rest, want - before)? == 0;
            self.findings.bytes += (rest.len() - before) as u64;
        }
        let block = Arc::new(Block::new(rest, Arc::clone(pool)));
        let format = &reader.file.format;
        let mut at = 0;
        if reader.offset == 0 && !reader.file.closed && block.starts_with(BYTE_ORDER_MARK) {
            at = BYTE_ORDER_MARK.len();
            reader.offset = at as u64;
        }
        while at < block.len() {
            self.ctx.check_cancel()?;
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
                return Err(reader.cut_short(text, &place.name));
            }
            let (offset, line) = (reader.offset, reader.line);
            reader.offset += run.len as u64;
            reader.line += memchr::memchr_iter(b'\n', text).count() as u64;
            if head {
                if reader.skip > 0 {
                    reader.skip -= 1;
                } else {
                    reader.names = Some(items::fields_of(format, text));
                }
            } else {
                let lines = Lines {
                    block: &block,
                    range: at..at + run.len,
                    rows: run.rows,
                    offset,
                    line,
                };
                let target = if let Some(target) = &reader.target {
                    target.clone()
                } else {
                    let names = reader.names.as_deref();
                    let target = self.target(place, reader.file, names, key, &lines)?;
                    reader.target.insert(target).clone()
                };
                self.delimited_rows(place, &target, &lines)?;
            }
            at += run.len;
        }
        if block.len() - at > ITEM_MAX {
            let file = place.name.to_string();
            return Err(LoadError::row_without_end(file, reader.line, reader.offset));
        }
        if reader.eof {
            return Ok(false);
        }
        reader.rest = Block::rest(block, at, pool);
        Ok(true)
    }

    /// Decides where the fields of a file go, from its first row. `header` holds the names from its
    /// first line.
    pub(super) fn target(
        &mut self,
        place: &mut Place,
        file: &DelimitedFile,
        header: Option<&[String]>,
        key: &TableKey,
        first: &Lines<'_>,
    ) -> Result<Target, LoadError> {
        let key = match &file.table {
            Some(table) => (key.0.clone(), table.clone()),
            None => key.clone(),
        };
        if is_system_database(&key.0) {
            self.touch(&key.0, Touch::Rows)?;
        }
        let index = self.table_for_rows(&key)?;
        if place.current != Some(index) {
            self.finish_current(place)?;
            if self.ledger.entries[index].build_begun {
                self.queue.wait_key(index)?;
            }
            place.current = Some(index);
        }
        let table = Arc::clone(&self.ledger.entries[index].table);
        let wrong = |message: String| LoadError::Fields {
            file: place.name.to_string(),
            line: first.line,
            offset: first.offset,
            table: table.label(),
            message,
        };
        let (format, text) = (&file.format, first.text());
        let found = format
            .cut(text, 1, true)
            .map_or(0, |run| items::fields_of(format, &text[..run.len]).len());
        let Some(columns) = table.layout() else {
            return Err(wrong("its columns are not known".to_owned()));
        };
        let given = file.fields.clone().or_else(|| {
            let plain = |name: &String| (name.clone(), Decode::Plain);
            Some(header?.iter().map(plain).collect())
        });
        let fields = fields_of(&columns, given, found).map_err(wrong)?;
        if file.by_character
            && let Some(words) = ambiguous(&columns, &fields, &file.charset)
        {
            return Err(wrong(words));
        }
        let session = self.dialogue.session()?;
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
        let is_numbered = |column: &&refloat_schema::columns::Column| {
            column.auto_increment || column.from_sequence
        };
        let numbered_column = columns.columns.iter().find(is_numbered);
        let numbered = numbered_column.and_then(|column| {
            names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(&column.name))
        });
        if numbered_column.is_some() && numbered.is_none() {
            // The server assigns the numbers, in the order of the rows.
            self.ledger.entries[index].ordered = true;
        }
        // A row that has not ended carries its server's end of time, which is different before
        // MariaDB 11.5.
        let decode = |(name, decode): &(String, Decode)| match &columns.period_end {
            Some(end) if *decode == Decode::Plain && name.eq_ignore_ascii_case(&end.column) => {
                Decode::Instead {
                    of: end.never_elsewhere,
                    with: end.never,
                }
            }
            _ => *decode,
        };
        let decode = fields.iter().map(decode).collect();
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
                    charset: file.charset.clone(),
                })),
            },
        })
    }

    pub(super) fn delimited_rows(
        &mut self,
        place: &mut Place,
        target: &Target,
        lines: &Lines<'_>,
    ) -> Result<(), LoadError> {
        let index = target.index;
        let text = lines.text();
        if let Some(position) = target.numbered
            && !self.ledger.entries[index].ordered
        {
            let session = &target.head.session;
            let zero = !session.has_mode("NO_AUTO_VALUE_ON_ZERO");
            let maybe = zero || memchr::memmem::find(text, b"\\N").is_some();
            if maybe
                && leaves_to_server(&target.head.form, text, position, zero, session.lex_mode())
            {
                // The server assigns numbers in the order of the rows, after the existing ones.
                self.queue.flush(index, None)?;
                self.queue.wait_key(index)?;
                self.ledger.entries[index].ordered = true;
            }
        }
        self.findings.touched = true;
        place.rows += lines.rows;
        let entry = &mut self.ledger.entries[index];
        entry.session = Some(Arc::clone(&target.head.session));
        entry.note_session(&target.head.session, false);
        entry.text_bytes += text.len() as u64;
        entry.complete = false;
        let range = lines.range.clone();
        let piece = place.piece(lines.block, range, lines.rows, lines.offset, lines.line);
        self.resume
            .prepare_marks(&mut self.catalog, &mut self.dialogue)?;
        let missing = self.resume.missing_rows(&target.head, piece, text)?;
        self.add_missing(place, &target.head, missing, text)
    }
}

/// The column of each of `found` fields, and how to decode it. Columns that the server computes are
/// skipped.
fn fields_of(
    columns: &Columns,
    given: Option<Vec<(String, Decode)>>,
    found: usize,
) -> Result<Vec<(String, Decode)>, String> {
    let fields = given.unwrap_or_else(|| {
        let visible = columns.columns.iter().filter(|column| !column.invisible);
        let all: Vec<_> = visible.clone().map(|column| column.name.clone()).collect();
        let stored: Vec<_> = visible
            .filter(|column| !column.generated)
            .map(|column| column.name.clone())
            .collect();
        let names = if stored.len() == found { stored } else { all };
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

/// Why bytes of characters may be mistaken for terminators, if they may.
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
    let named = |column: &&refloat_schema::columns::Column| {
        fields
            .iter()
            .any(|(name, decode)| *decode != Decode::Skip && *name == column.name)
    };
    let column = columns.columns.iter().filter(named).find_map(|column| {
        let column_charset = column.charset.as_deref()?;
        unsafe_charset(column_charset).then_some((column, column_charset))
    });
    column.map(|(column, column_charset)| {
        format!(
            "column {} is in {column_charset}, and the file holds its raw bytes, in which part of a \
            character may look like the end of a field: dump this table as SQL",
            column.name
        )
    })
}
