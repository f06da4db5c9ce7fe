//! Cuts the text of a dump into statements and runs of rows, without I/O.
//!
//! It cuts where the stock clients cut (`client/mysql.cc` of both vendors). The delimiter counts
//! outside quotes and plain comments, and also inside conditional comments, whose content is code
//! to the client. One difference is deliberate: a plain comment inside a conditional one ends at
//! its own `*/`, as in the server; the client swallows everything up to the second `*/` of the
//! line.

use std::ops::Range;
use std::sync::Arc;

use crate::classify::{StatementKind, classify};
use crate::mode::{CharsetFamily, LexMode, Quoted, is_blank, skip_quoted};
use crate::token::{TokenKind, is_conditional, tokens};

mod blocks;
mod error;
mod header;
mod item;
mod places;
mod rows;
mod start;

use places::count_lines;

pub use error::ScanError;
pub use item::{
    ClientCommand, CommentKind, DUMP_COMPLETED, InsertHeader, InsertVerb, Item, ItemKind,
    REFLOAT_DUMP, RowsPiece, Step, is_dump_header,
};
pub use start::BYTE_ORDER_MARK;

/// Limits of a [`Scanner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// A piece of rows ends after the first row that brings it to this length, in bytes.
    pub piece_target: usize,
    /// Longest statement, comment or single row, in bytes. Anything longer is an error, which
    /// bounds memory.
    pub max_item: usize,
}

impl Default for ScanOptions {
    /// 1 MiB, the statement length of mysqldump, and 1 GiB, the largest `max_allowed_packet`.
    fn default() -> Self {
        Self {
            piece_target: 1 << 20,
            max_item: 1 << 30,
        }
    }
}

/// What surrounds the byte at `pos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Code,
    Quote(u8),
    LineComment,
    BlockComment { start: usize },
}

/// The kind of item being cut.
#[derive(Clone, Debug)]
enum Phase {
    /// Between items.
    Start,
    /// A comment outside any statement.
    Comment,
    /// A statement, up to its delimiter.
    Statement,
    /// Rows of an insert.
    Rows(rows::RowsState),
}

/// What begins at a position outside quotes and comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Here {
    /// More bytes are needed to tell.
    More,
    Quote(u8),
    Delimiter,
    LineComment,
    BlockComment,
    /// A backslash followed by this byte.
    Backslash(u8),
    Nul,
    /// This many ordinary bytes.
    Bytes(usize),
}

/// Incremental scanner over a buffer that the caller owns. See the module documentation.
///
/// Call [`next`](Self::next) with everything not yet consumed. On [`Step::NeedMore`], append to the
/// buffer; on [`Step::Item`], drop [`Item::len`] bytes from its front. More input never causes a
/// rescan, short look-aheads excepted, so a value of 1 GB takes linear time.
#[derive(Clone, Debug)]
pub struct Scanner {
    options: ScanOptions,
    mode: LexMode,
    next_mode: LexMode,
    delimiter: Vec<u8>,
    /// Bytes that may be special outside quotes and comments.
    special: Box<[bool; 256]>,
    /// Rows may be read in blocks: no multi-byte tails, and the delimiter does not look like a
    /// literal.
    blocks: bool,
    offset: u64,
    line: u64,
    phase: Phase,
    inside: Inside,
    /// Scanned up to here; relative to the front of the buffer, like all positions below.
    pos: usize,
    text_start: usize,
    /// A look-ahead ran out of bytes: do not retry before the buffer is this long.
    retry_len: usize,
    /// Where the delimiter is when several statements precede it and the first of them are already
    /// emitted. Searching for it again after each would take quadratic time.
    block_end: Option<usize>,
    last_header: Option<Arc<InsertHeader>>,
}

/// Whether this kind of statement may contain others, each ended by `;`.
fn may_have_body(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::CreateRoutine { .. }
            | StatementKind::CreateTrigger { .. }
            | StatementKind::CreateEvent { .. }
            | StatementKind::Dangerous(_)
            | StatementKind::Other
    )
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new(ScanOptions::default())
    }
}

impl Scanner {
    /// A scanner at the start of the input, with the delimiter `;` and the default mode.
    pub fn new(options: ScanOptions) -> Self {
        let mut scanner = Self {
            options,
            mode: LexMode::default(),
            next_mode: LexMode::default(),
            delimiter: b";".to_vec(),
            special: Box::new([false; 256]),
            blocks: true,
            offset: 0,
            line: 1,
            phase: Phase::Start,
            inside: Inside::Code,
            pos: 0,
            text_start: 0,
            retry_len: 0,
            block_end: None,
            last_header: None,
        };
        scanner.rebuild_tables();
        scanner
    }

    /// Offset of the front of the buffer in the whole input. Everything before it has been emitted.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Line number at the front of the buffer, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The statement delimiter in effect.
    pub fn delimiter(&self) -> &[u8] {
        &self.delimiter
    }

    /// The mode for reading the next item.
    #[expect(
        clippy::misnamed_getters,
        reason = "the mode in effect now is of no use outside"
    )]
    pub fn mode(&self) -> LexMode {
        self.next_mode
    }

    /// Sets where the rows of one statement are cut ([`ScanOptions::piece_target`]), from the next
    /// row on.
    pub fn set_piece_target(&mut self, bytes: usize) {
        self.options.piece_target = bytes;
    }

    /// Sets the mode for the following items. While the pieces of a statement are being emitted,
    /// the change waits for the end of that statement.
    pub fn set_mode(&mut self, mode: LexMode) {
        if self.next_mode != mode {
            self.block_end = None;
        }
        self.next_mode = mode;
    }

    /// Cuts the next item from the front of `buf`, the unconsumed input from
    /// [`offset`](Self::offset) on. `eof` means that no more bytes will come. After an error, the
    /// scanner can no longer be used.
    pub fn next(&mut self, buf: &[u8], eof: bool) -> Result<Step, ScanError> {
        if buf.len() < self.pos {
            return Err(ScanError::ShortBuffer {
                given: buf.len(),
                scanned: self.pos,
            });
        }
        if !eof && buf.len() < self.retry_len {
            return Ok(Step::NeedMore);
        }
        self.retry_len = 0;
        self.advance(buf, eof).map_err(|error| {
            // Which error wins, the length or the other fault, must not depend on the block size.
            if self.pos > self.options.max_item {
                self.too_long(buf)
            } else {
                error
            }
        })
    }

    fn advance(&mut self, buf: &[u8], eof: bool) -> Result<Step, ScanError> {
        loop {
            if self.inside != Inside::Code && !self.leave_inside(buf, eof)? {
                return self.need_more(buf);
            }
            let step = match self.phase {
                Phase::Start => self.start(buf, eof)?,
                Phase::Comment => Some(self.emit_comment(buf)?),
                Phase::Statement => self.statement(buf, eof)?,
                Phase::Rows(_) => self.rows(buf, eof)?,
            };
            match step {
                Some(Step::NeedMore) => return self.need_more(buf),
                Some(step) => return Ok(step),
                None => {}
            }
        }
    }

    fn need_more(&self, buf: &[u8]) -> Result<Step, ScanError> {
        if self.pos > self.options.max_item {
            return Err(self.too_long(buf));
        }
        Ok(Step::NeedMore)
    }

    /// A look-ahead reached the end of the buffer: wait until it has grown a lot, so that retrying
    /// from the same place stays linear overall.
    fn look_further(&mut self, buf: &[u8]) -> Step {
        /// Buffers up to this size are retried at once.
        const SHORT: usize = 4096;
        if buf.len() > SHORT {
            self.retry_len = buf.len() * 2;
        }
        Step::NeedMore
    }

    /// Continues inside a quote or comment. `false` means that it does not end in this buffer.
    fn leave_inside(&mut self, buf: &[u8], eof: bool) -> Result<bool, ScanError> {
        match self.inside {
            Inside::Code => return Ok(true),
            Inside::Quote(quote) => match skip_quoted(buf, self.pos, quote, self.mode, eof) {
                Quoted::Closed(pos) => self.pos = pos,
                Quoted::Open(pos) => {
                    self.pos = pos;
                    if eof {
                        return Err(self.unterminated_quote(buf, quote));
                    }
                    return Ok(false);
                }
            },
            Inside::LineComment => {
                if let Some(i) = memchr::memchr(b'\n', &buf[self.pos..]) {
                    self.pos += i + 1;
                } else {
                    self.pos = buf.len();
                    if !eof {
                        return Ok(false);
                    }
                }
            }
            Inside::BlockComment { start } => {
                if let Some(i) = memchr::memmem::find(&buf[self.pos..], b"*/") {
                    self.pos += i + 2;
                } else if eof {
                    self.pos = buf.len();
                    let (offset, line) = self.place(buf, start);
                    return Err(ScanError::UnterminatedComment { offset, line });
                } else {
                    let star = usize::from(buf.last() == Some(&b'*'));
                    self.pos = self.pos.max(buf.len() - star);
                    return Ok(false);
                }
            }
        }
        self.inside = Inside::Code;
        Ok(true)
    }

    /// Scans a statement up to its delimiter.
    fn statement(&mut self, buf: &[u8], eof: bool) -> Result<Option<Step>, ScanError> {
        if let Some(end) = self.block_end.filter(|&end| end >= self.pos) {
            self.pos = end;
            let end = end + self.delimiter.len();
            return self.emit_statement(buf, end, true).map(Some);
        }
        loop {
            let special = |&b: &u8| self.special[usize::from(b)];
            if let Some(i) = buf[self.pos..].iter().position(special) {
                self.pos += i;
            } else {
                self.pos = buf.len();
                if !eof {
                    return Ok(Some(Step::NeedMore));
                }
                return self.emit_statement(buf, self.pos, false).map(Some);
            }
            match self.here(buf, self.pos, eof) {
                Here::More => return Ok(Some(Step::NeedMore)),
                Here::Bytes(n) => self.pos += n,
                Here::Delimiter => {
                    let end = self.pos + self.delimiter.len();
                    return self.emit_statement(buf, end, true).map(Some);
                }
                Here::Backslash(b'N') => self.pos += 2,
                Here::Backslash(b'g' | b'G') => {
                    return self.emit_statement(buf, self.pos + 2, true).map(Some);
                }
                Here::Backslash(command) => {
                    let (offset, line) = self.place(buf, self.pos);
                    let command = command.escape_ascii().to_string();
                    return Err(ScanError::CommandInStatement {
                        command,
                        offset,
                        line,
                    });
                }
                Here::Nul => return Err(self.nul(buf)),
                here => {
                    self.enter(here);
                    return Ok(None);
                }
            }
        }
    }

    /// Enters the quote or comment that begins at `pos`.
    fn enter(&mut self, here: Here) {
        let start = self.pos;
        match here {
            Here::Quote(quote) => {
                self.pos += 1;
                self.inside = Inside::Quote(quote);
            }
            Here::LineComment => {
                self.pos += 1;
                self.inside = Inside::LineComment;
            }
            Here::BlockComment => {
                self.pos += 2;
                self.inside = Inside::BlockComment { start };
            }
            _ => {}
        }
    }

    #[expect(clippy::match_same_arms, reason = "one arm per opening, in order")]
    /// What begins at `pos`, tested in the order of the stock client.
    fn here(&self, buf: &[u8], pos: usize, eof: bool) -> Here {
        let rest = &buf[pos..];
        let Some(&first) = rest.first() else {
            return Here::More;
        };
        if first >= 0x80 && self.mode.charset_family != CharsetFamily::Plain {
            match self.mode.charset_family.char_len(rest, eof) {
                None => return Here::More,
                Some(n) if n > 1 => return Here::Bytes(n),
                Some(_) => {}
            }
        }
        if first == b'\\' {
            return match rest.get(1) {
                Some(&command) => Here::Backslash(command),
                None if eof => Here::Bytes(1),
                None => Here::More,
            };
        }
        if first == self.delimiter[0] {
            if rest.starts_with(&self.delimiter) {
                return Here::Delimiter;
            }
            if !eof && self.delimiter.starts_with(rest) {
                return Here::More;
            }
        }
        // Are there enough bytes to recognise any opening? At the end of the input, missing bytes
        // count as absent.
        let known = |n: usize| eof || rest.len() >= n;
        match first {
            0 => Here::Nul,
            b'\'' | b'"' | b'`' => Here::Quote(first),
            b'#' => Here::LineComment,
            b'-' if !known(2) => Here::More,
            b'-' if rest.get(1) == Some(&b'-') && !known(3) => Here::More,
            b'-' if crate::token::is_dash_comment(rest) => Here::LineComment,
            b'/' if !known(2) => Here::More,
            b'/' if rest.get(1) == Some(&b'*') => {
                if !known(3) || (rest.get(2) == Some(&b'M') && !known(4)) {
                    Here::More
                } else if is_conditional(rest) {
                    Here::Bytes(3)
                } else {
                    Here::BlockComment
                }
            }
            _ => Here::Bytes(1),
        }
    }

    fn emit_statement(
        &mut self,
        buf: &[u8],
        len: usize,
        terminated: bool,
    ) -> Result<Step, ScanError> {
        let mut text = Self::trimmed(buf, self.text_start..self.pos);
        let (mut len, mut terminated) = (len, terminated);
        if !terminated && buf[text.clone()].iter().all(u8::is_ascii_control) {
            // Trailing control bytes left by Windows editors and tools (Ctrl-Z); the stock clients
            // treat them as blanks.
            return self.emit(buf, ItemKind::Blank, len, text.start..text.start, true);
        }
        if let Some(end) = self.first_of_several(&buf[text.clone()]) {
            self.block_end = buf[self.pos..]
                .starts_with(&self.delimiter)
                .then_some(self.pos);
            (len, terminated) = (text.start + end + 1, true);
            text = Self::trimmed(buf, text.start..text.start + end);
        }
        let kind = ItemKind::Statement(classify(&buf[text.clone()], self.mode));
        self.emit(buf, kind, len, text, terminated)
    }

    /// End of the first of several statements that the stock client sends as one text because their
    /// delimiter is not `;`; the server splits them. A stored program counts as one statement, body
    /// included, together with anything after it.
    fn first_of_several(&self, text: &[u8]) -> Option<usize> {
        if self.delimiter == b";" || memchr::memchr(b';', text).is_none() {
            return None;
        }
        let mut depth = 0_u32;
        for token in tokens(text, self.mode) {
            match token.kind {
                TokenKind::OpenConditional => depth += 1,
                TokenKind::CloseConditional => depth = depth.saturating_sub(1),
                TokenKind::Punct(b';') if depth == 0 => {
                    let end = token.range.start;
                    let kind = classify(&text[..end], self.mode);
                    return (!may_have_body(&kind)).then_some(end);
                }
                _ => {}
            }
        }
        None
    }

    fn emit_comment(&mut self, buf: &[u8]) -> Result<Step, ScanError> {
        let text = Self::trimmed(buf, self.text_start..self.pos);
        let kind = ItemKind::Comment(start::comment_kind(&buf[text.clone()]));
        self.emit(buf, kind, self.pos, text, true)
    }

    fn trimmed(buf: &[u8], mut range: Range<usize>) -> Range<usize> {
        while range.end > range.start && is_blank(buf[range.end - 1]) {
            range.end -= 1;
        }
        range
    }

    /// Emits `len` bytes and moves to the start of the next item.
    fn emit(
        &mut self,
        buf: &[u8],
        kind: ItemKind,
        len: usize,
        text: Range<usize>,
        terminated: bool,
    ) -> Result<Step, ScanError> {
        if len > self.options.max_item {
            return Err(self.too_long(buf));
        }
        let (offset, line) = self.place(buf, text.start);
        self.line = line + count_lines(&buf[text.start..len]);
        self.offset += len as u64;
        self.block_end = self.block_end.and_then(|end| end.checked_sub(len));
        self.pos = 0;
        self.text_start = 0;
        self.phase = Phase::Start;
        Ok(Step::Item(Item {
            kind,
            len,
            text,
            offset,
            line,
            terminated,
        }))
    }

    fn rebuild_tables(&mut self) {
        let mut special = [false; 256];
        for b in *b"\0'\"`#-/\\" {
            special[usize::from(b)] = true;
        }
        special[usize::from(self.delimiter[0])] = true;
        let multibyte = self.mode.charset_family != CharsetFamily::Plain;
        if multibyte {
            special[0x80..].fill(true);
        }
        *self.special = special;
        self.blocks = !multibyte && !blocks::is_literal_byte(self.delimiter[0]);
    }
}
