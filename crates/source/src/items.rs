//! Reads files statement by statement, or in runs of rows, without a server.

use refloat_sqltext::{BYTE_ORDER_MARK, Item, ItemKind, RowVisitor, ScanError, Step};
use refloat_store::{Input, InputError};

use super::cutter::{Cutter, Ends, ITEM_MAX, fill_target};
use super::delimited::Delimited;
use super::script::Script;
use crate::delimited::DelimitedFile;

/// Bytes read at a time.
const BLOCK: usize = 4 << 20;

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ItemsError {
    /// It could not be read or decompressed.
    #[error(transparent)]
    Input(#[from] InputError),
    /// It is not text that can be split into statements.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The text is truncated, or a row is too long.
    #[error("line {line}, byte {offset}: {message}")]
    Text {
        /// Line number, from 1.
        line: u64,
        /// Byte offset, from 0.
        offset: u64,
        /// What is wrong.
        message: String,
    },
}

/// The part of a file's text that is in memory.
struct Text<'i> {
    input: &'i mut Input,
    buffer: Vec<u8>,
    /// Offset of the first byte that was not handed out yet.
    at: usize,
    eof: bool,
    /// Bytes of text read so far.
    bytes: u64,
}

impl<'i> Text<'i> {
    fn new(input: &'i mut Input) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            at: 0,
            eof: false,
            bytes: 0,
        }
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Reads one more block, or as much again as is already buffered.
    fn fill(&mut self) -> Result<(), InputError> {
        self.buffer.drain(..std::mem::take(&mut self.at));
        let want = fill_target(self.buffer.len(), BLOCK);
        while !self.eof && self.buffer.len() < want {
            let before = self.buffer.len();
            self.eof = self.input.read_block(&mut self.buffer, want - before)? == 0;
            self.bytes += (self.buffer.len() - before) as u64;
        }
        Ok(())
    }
}

/// Walks over the statements and pieces of rows of a file, in order.
pub struct Items<'i> {
    text: Text<'i>,
    cutter: Cutter,
    script: Script,
    /// Length of the current item in bytes.
    len: usize,
    /// Whether a final statement without a delimiter is returned.
    takes_unterminated: bool,
}

impl<'i> Items<'i> {
    /// Starts at the beginning of a file.
    pub fn new(input: &'i mut Input, ends: Ends) -> Self {
        Self {
            text: Text::new(input),
            cutter: Cutter::new(ends),
            script: Script::default(),
            len: 0,
            takes_unterminated: false,
        }
    }

    /// Also returns a final statement without a delimiter, which is otherwise an error.
    pub fn take_unterminated(&mut self) {
        self.takes_unterminated = true;
    }

    /// Bytes of text read so far.
    pub fn bytes(&self) -> u64 {
        self.text.bytes
    }

    /// Applies a `SET` that the file starts with, although its text is elsewhere in the source.
    pub fn start_with(&mut self, text: &[u8]) {
        self.script.set(text);
    }

    /// What the file has said about itself.
    pub fn into_script(self) -> Script {
        self.script
    }

    /// What the file has said about itself so far, the current item included.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The next item. Its text is available from [`Items::text`] until the next call.
    ///
    /// # Errors
    /// The file cannot be read, or ends in the middle of a statement.
    pub fn next_item(&mut self) -> Result<Option<Item>, ItemsError> {
        self.text.at += std::mem::take(&mut self.len);
        self.cutter.set_mode(self.script.mode());
        loop {
            let item = match self.cutter.next(self.text.rest(), self.text.eof)? {
                Step::Item(item) => item,
                Step::End => return Ok(None),
                Step::NeedMore => {
                    self.text.fill()?;
                    continue;
                }
            };
            let whole = match &item.kind {
                ItemKind::Rows(rows) => item.terminated || !rows.last,
                ItemKind::Statement(_) => item.terminated,
                _ => true,
            };
            if !whole && !self.takes_unterminated {
                return Err(ItemsError::Text {
                    line: item.line,
                    offset: item.offset,
                    message: "the dump ends in the middle of a statement: no delimiter follows it"
                        .to_owned(),
                });
            }
            self.len = item.len;
            self.script
                .item(&item, &self.text.rest()[item.text.clone()]);
            return Ok(Some(item));
        }
    }

    /// The text of the current item.
    pub fn text(&self, item: &Item) -> &[u8] {
        &self.text.rest()[item.text.clone()]
    }

    /// The rows of the current item, if it is a piece of rows.
    pub fn rows(&self, rows: &std::ops::Range<usize>) -> &[u8] {
        &self.text.rest()[rows.clone()]
    }
}

/// Splits a delimited file into runs of whole rows.
pub struct Runs<'i> {
    text: Text<'i>,
    file: &'i DelimitedFile,
    offset: u64,
    line: u64,
    skip: u64,
    /// The column names from the first line, if the file has a header.
    pub names: Option<Vec<String>>,
}

/// A run of whole rows.
pub struct RunOfRows<'a> {
    /// The text of the rows.
    pub text: &'a [u8],
    /// How many rows the text has.
    pub rows: u64,
    /// Line number of the first row.
    pub line: u64,
}

/// The fields of the first row of `text`, as names; empty if the text is not a valid row.
pub fn fields_of(format: &Delimited, text: &[u8]) -> Vec<String> {
    struct Names(Vec<String>);

    impl RowVisitor for Names {
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

    let mut names = Names(Vec::new());
    match format.visit(text, &[], &mut names) {
        Ok(_) => names.0,
        Err(_) => Vec::new(),
    }
}

impl<'i> Runs<'i> {
    /// Starts at the beginning of a file.
    pub fn new(input: &'i mut Input, file: &'i DelimitedFile) -> Self {
        Self {
            text: Text::new(input),
            file,
            offset: 0,
            line: 1,
            skip: file.skip_lines,
            names: None,
        }
    }

    /// Bytes of text read so far.
    pub fn bytes(&self) -> u64 {
        self.text.bytes
    }

    /// The next run of about `target` bytes.
    ///
    /// # Errors
    /// The file cannot be read, or ends in the middle of a row.
    pub fn next(&mut self, target: usize) -> Result<Option<RunOfRows<'_>>, ItemsError> {
        let format = &self.file.format;
        loop {
            let text = self.text.rest();
            if self.offset == 0 && !self.file.closed && text.starts_with(BYTE_ORDER_MARK) {
                self.offset = BYTE_ORDER_MARK.len() as u64;
                self.text.at += BYTE_ORDER_MARK.len();
                continue;
            }
            let head = self.skip > 0 || (self.file.header && self.names.is_none());
            let aim = if head { 1 } else { target };
            let eof = self.text.eof;
            let Some(run) = format.cut(text, aim, eof).filter(|_| !text.is_empty()) else {
                if eof {
                    return Ok(None);
                }
                if text.len() > ITEM_MAX {
                    return Err(ItemsError::Text {
                        line: self.line,
                        offset: self.offset,
                        message: format!("no row ends within {ITEM_MAX} bytes from here on"),
                    });
                }
                self.text.fill()?;
                continue;
            };
            let open = eof && run.len == text.len() && self.file.closed;
            let text = &text[..run.len];
            let (line, offset) = (self.line, self.offset);
            let lines = memchr::memchr_iter(b'\n', text).count() as u64;
            if open && format.is_open(text) {
                return Err(ItemsError::Text {
                    line: line + lines,
                    offset: offset + memchr::memrchr(b'\n', text).map_or(0, |at| at as u64 + 1),
                    message: "the file ends in the middle of a row: nothing ends it".to_owned(),
                });
            }
            self.line += lines;
            self.offset += run.len as u64;
            let range = self.text.at..self.text.at + run.len;
            if self.skip > 0 {
                self.skip -= 1;
            } else if head {
                self.names = Some(fields_of(format, text));
            } else {
                self.text.at = range.end;
                return Ok(Some(RunOfRows {
                    text: &self.text.buffer[range],
                    rows: run.rows,
                    line,
                }));
            }
            self.text.at = range.end;
        }
    }
}
