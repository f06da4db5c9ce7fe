//! The statements of one file, and the rows of a delimited one, in pieces, without a server.

use refloat_sqltext::{Item, ItemKind, LexMode, RowVisitor, ScanError, Step};
use refloat_store::{Input, InputError};

use super::cutter::{Cutter, Ends, ITEM_MAX, fill_target};
use super::delimited::Delimited;
use super::layout::DelimitedFile;

/// Bytes read at a time.
const BLOCK: usize = 4 << 20;
/// What some programs begin a file of UTF-8 with.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ItemsError {
    /// It could not be read or decompressed.
    #[error(transparent)]
    Input(#[from] InputError),
    /// It is no text that can be cut into statements.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// Bytes are missing, or too many.
    #[error("line {line}, byte {offset}: {message}")]
    Text {
        /// Line, from 1.
        line: u64,
        /// Byte, from 0.
        offset: u64,
        /// What is wrong.
        message: String,
    },
}

/// The text of a file, as far as it is in memory.
struct Text<'i> {
    input: &'i mut Input,
    buffer: Vec<u8>,
    /// Where what was not handed out yet begins.
    at: usize,
    eof: bool,
    /// Bytes of text that were read.
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

    /// Reads on: a block, or as much again as is there already.
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

/// Cuts a file into statements and pieces of rows.
pub struct Items<'i> {
    text: Text<'i>,
    cutter: Cutter,
    /// Bytes of the item that was handed out last.
    len: usize,
    /// Whether a last statement without a delimiter is handed out.
    takes_unterminated: bool,
}

impl<'i> Items<'i> {
    /// At the beginning of a file.
    pub fn new(input: &'i mut Input, ends: Ends) -> Self {
        Self {
            text: Text::new(input),
            cutter: Cutter::new(ends),
            len: 0,
            takes_unterminated: false,
        }
    }

    /// Hands out a last statement without a delimiter, too, which is an error otherwise.
    pub fn take_unterminated(&mut self) {
        self.takes_unterminated = true;
    }

    /// Bytes of text that were read.
    pub fn bytes(&self) -> u64 {
        self.text.bytes
    }

    /// Reads on in this mode.
    pub fn set_mode(&mut self, mode: LexMode) {
        self.cutter.set_mode(mode);
    }

    /// The next item; [`Items::text`] has its text until then.
    ///
    /// # Errors
    /// When the file cannot be read, or ends in the middle of a statement.
    pub fn next(&mut self) -> Result<Option<Item>, ItemsError> {
        self.text.at += std::mem::take(&mut self.len);
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
            return Ok(Some(item));
        }
    }

    /// The text of the item that was handed out last.
    pub fn text(&self, item: &Item) -> &[u8] {
        &self.text.rest()[item.text.clone()]
    }

    /// The rows of the item that was handed out last, where it is one of rows.
    pub fn rows(&self, rows: &std::ops::Range<usize>) -> &[u8] {
        &self.text.rest()[rows.clone()]
    }
}

/// Cuts a delimited file into runs of whole rows.
pub struct Runs<'i> {
    text: Text<'i>,
    file: &'i DelimitedFile,
    offset: u64,
    line: u64,
    skip: u64,
    /// The names in the first line, where the file has them there.
    pub names: Option<Vec<String>>,
}

/// A run of whole rows.
pub struct RunOfRows<'a> {
    /// Their text.
    pub text: &'a [u8],
    /// How many.
    pub rows: u64,
    /// The line of the first.
    pub line: u64,
}

/// The fields of the first row of a text, as names; none where it cannot be read as a row.
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
    /// At the beginning of a file.
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

    /// Bytes of text that were read.
    pub fn bytes(&self) -> u64 {
        self.text.bytes
    }

    /// The next run of about `target` bytes.
    ///
    /// # Errors
    /// When the file cannot be read, or ends in the middle of a row.
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
