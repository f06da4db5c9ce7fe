//! The start of an item: blanks, comments, client commands, and which kind of statement follows.

use std::sync::Arc;

use super::header::{HeaderScan, scan_header};
use super::item::DUMP_COMPLETED;
use super::rows::RowsState;
use super::{
    ClientCommand, CommentKind, Here, InsertHeader, Inside, ItemKind, Phase, ScanError, Scanner,
    Step,
};
use crate::mode::{is_blank, is_word};
use crate::token::is_conditional;

/// A run of blanks is emitted at this length, in bytes, so that it needs no memory.
const BLANK_RUN: usize = 64 * 1024;
/// Longest word that matters at the start of a statement.
const WORD_MAX: usize = 24;
/// Some programs start a UTF-8 file with this.
pub const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Long commands of the stock clients that take no argument.
const PLAIN_COMMANDS: &[&str] = &[
    "?",
    "clear",
    "connect",
    "edit",
    "ego",
    "exit",
    "go",
    "help",
    "nopager",
    "notee",
    "nowarning",
    "pager",
    "print",
    "prompt",
    "quit",
    "rehash",
    "resetconnection",
    "sandbox",
    "status",
    "tee",
    "warnings",
];
/// Long commands that take or may take arguments.
const ARGUMENT_COMMANDS: &[&str] = &[
    "?",
    "charset",
    "connect",
    "help",
    "pager",
    "prompt",
    "query_attributes",
    "source",
    "ssl_session_data_print",
    "system",
    "tee",
];

impl Scanner {
    pub(super) fn start(&mut self, buf: &[u8], eof: bool) -> Result<Option<Step>, ScanError> {
        if self.pos == 0 {
            self.take_next_mode();
            if self.offset == 0 && !buf.is_empty() {
                if buf.starts_with(BYTE_ORDER_MARK) {
                    return self
                        .emit(
                            buf,
                            ItemKind::Blank,
                            BYTE_ORDER_MARK.len(),
                            BYTE_ORDER_MARK.len()..BYTE_ORDER_MARK.len(),
                            true,
                        )
                        .map(Some);
                }
                if !eof && BYTE_ORDER_MARK.starts_with(buf) {
                    return Ok(Some(Step::NeedMore));
                }
            }
        }
        while self.pos < buf.len() && is_blank(buf[self.pos]) {
            self.pos += 1;
            if self.pos == BLANK_RUN {
                return self.emit_blank(buf, self.pos).map(Some);
            }
        }
        self.text_start = self.pos;
        if self.pos == buf.len() {
            return match (eof, self.pos) {
                (false, _) => Ok(Some(Step::NeedMore)),
                (true, 0) => Ok(Some(Step::End)),
                (true, _) => self.emit_blank(buf, self.pos).map(Some),
            };
        }
        let rest = &buf[self.pos..];
        // At the start of a statement the stock client takes `--` for a comment even without a
        // blank.
        if rest.starts_with(b"--") && !self.delimiter.starts_with(b"--") {
            self.phase = Phase::Comment;
            self.enter(Here::LineComment);
            return Ok(None);
        }
        match self.here(buf, self.pos, eof) {
            Here::More => Ok(Some(Step::NeedMore)),
            here @ (Here::LineComment | Here::BlockComment) => {
                self.phase = Phase::Comment;
                self.enter(here);
                Ok(None)
            }
            Here::Delimiter => self
                .emit_blank(buf, self.pos + self.delimiter.len())
                .map(Some),
            Here::Backslash(b'g' | b'G') => self.emit_blank(buf, self.pos + 2).map(Some),
            Here::Backslash(b'N') => Ok(self.go(Phase::Statement)),
            Here::Backslash(letter) => self.letter_command(buf, eof, letter).map(Some),
            Here::Nul => Err(self.nul(buf)),
            Here::Bytes(3) if is_conditional(rest) => Ok(self.conditional(rest, eof)),
            Here::Bytes(_) if is_word(rest[0]) || rest[0] == b'?' => self.word(buf, eof),
            Here::Bytes(_) | Here::Quote(_) => Ok(self.go(Phase::Statement)),
        }
    }

    fn take_next_mode(&mut self) {
        if self.mode != self.next_mode {
            self.mode = self.next_mode;
            self.last_header = None;
            self.rebuild_tables();
        }
    }

    fn go(&mut self, phase: Phase) -> Option<Step> {
        self.phase = phase;
        None
    }

    fn emit_blank(&mut self, buf: &[u8], len: usize) -> Result<Step, ScanError> {
        self.emit(buf, ItemKind::Blank, len, self.pos..self.pos, true)
    }

    /// A conditional comment at the start: MariaDB's sandbox line, or a statement.
    fn conditional(&mut self, rest: &[u8], eof: bool) -> Option<Step> {
        let digits = if rest[2] == b'!' { 3 } else { 4 };
        let mark = digits
            + rest[digits..]
                .iter()
                .take(7)
                .take_while(|b| b.is_ascii_digit())
                .count();
        let next = &rest[mark..];
        if !eof && (next.is_empty() || next == b"\\") {
            return Some(Step::NeedMore);
        }
        if next.starts_with(b"\\-") {
            self.phase = Phase::Comment;
            self.enter(Here::BlockComment);
        } else {
            self.phase = Phase::Statement;
        }
        None
    }

    /// A word at the start: a client command, an insert, or any other statement.
    fn word(&mut self, buf: &[u8], eof: bool) -> Result<Option<Step>, ScanError> {
        let rest = &buf[self.pos..];
        if self.known_header(rest).is_some() {
            return Ok(self.insert(buf, eof));
        }
        let len = match rest[0] {
            b'?' => 1,
            _ => rest
                .iter()
                .take(WORD_MAX)
                .take_while(|&&b| is_word(b))
                .count(),
        };
        if !eof && len < WORD_MAX && len == rest.len() {
            return Ok(Some(Step::NeedMore));
        }
        let word = rest[..len].to_ascii_lowercase();
        match word.as_slice() {
            b"insert" | b"replace" => Ok(self.insert(buf, eof)),
            b"delimiter" if rest.get(len).is_none_or(|&b| is_blank(b)) => {
                self.delimiter_command(buf, eof, len)
            }
            b"use" => self.use_line(buf, eof, len),
            _ => self.word_command(buf, eof, &word),
        }
    }

    /// The header of the last insert, if the same text comes again.
    fn known_header(&self, rest: &[u8]) -> Option<&Arc<InsertHeader>> {
        let header = self.last_header.as_ref()?;
        let again = rest.get(header.text.len()) == Some(&b'(') && rest.starts_with(&header.text);
        again.then_some(header)
    }

    fn insert(&mut self, buf: &[u8], eof: bool) -> Option<Step> {
        let rest = &buf[self.pos..];
        let header = if let Some(header) = self.known_header(rest) {
            header.clone()
        } else {
            match scan_header(rest, self.mode, &self.delimiter, eof) {
                HeaderScan::Incomplete => return Some(self.look_further(buf)),
                HeaderScan::NotRows => return self.go(Phase::Statement),
                HeaderScan::Rows(header) => {
                    let header = Arc::new(header);
                    self.last_header = Some(header.clone());
                    header
                }
            }
        };
        self.pos += header.text.len();
        self.phase = Phase::Rows(RowsState::new(header, self.pos));
        None
    }

    /// The line from `pos` on, without its line ending, and its length including it.
    fn line_at<'a>(&self, buf: &'a [u8], eof: bool) -> Option<(&'a [u8], usize)> {
        let rest = &buf[self.pos..];
        match memchr::memchr(b'\n', rest) {
            Some(i) => Some((&rest[..i], i + 1)),
            None if eof => Some((rest, rest.len())),
            None => None,
        }
    }

    fn delimiter_command(
        &mut self,
        buf: &[u8],
        eof: bool,
        word: usize,
    ) -> Result<Option<Step>, ScanError> {
        let Some((line, len)) = self.line_at(buf, eof) else {
            return Ok(Some(self.look_further(buf)));
        };
        let argument = first_argument(&line[word..]);
        if argument.is_empty() || argument.contains(&b'\\') || argument.contains(&0) {
            let (offset, line) = self.place(buf, self.pos);
            return Err(ScanError::BadDelimiter { offset, line });
        }
        self.delimiter = argument.to_vec();
        self.rebuild_tables();
        let kind = ItemKind::ClientCommand(ClientCommand::Delimiter(self.delimiter.clone()));
        self.emit_line(buf, kind, line.len(), len).map(Some)
    }

    /// The stock client needs no delimiter after `USE x`: the end of the line will do.
    fn use_line(&mut self, buf: &[u8], eof: bool, word: usize) -> Result<Option<Step>, ScanError> {
        let Some((line, len)) = self.line_at(buf, eof) else {
            return Ok(Some(self.look_further(buf)));
        };
        let separate = line.get(word).is_some_and(|&b| b == b' ' || b == b'\t');
        let argument = &line[word..];
        // A name that continues on the next line is not an argument of a client command: it goes to
        // the server.
        if !separate
            || first_argument(argument).is_empty()
            || is_open(argument)
            || self.ends_in_line(line)
        {
            return Ok(self.go(Phase::Statement));
        }
        if line.contains(&0) {
            return Err(self.nul(buf));
        }
        let text = Self::trimmed(buf, self.pos..self.pos + line.len());
        let kind = ItemKind::Statement(crate::classify::classify(&buf[text.clone()], self.mode));
        self.emit(buf, kind, self.pos + len, text, true).map(Some)
    }

    fn word_command(
        &mut self,
        buf: &[u8],
        eof: bool,
        word: &[u8],
    ) -> Result<Option<Step>, ScanError> {
        let listed = |list: &[&str]| list.iter().any(|c| c.as_bytes() == word);
        let (plain, with_argument) = (listed(PLAIN_COMMANDS), listed(ARGUMENT_COMMANDS));
        if !plain && !with_argument {
            return Ok(self.go(Phase::Statement));
        }
        let Some((line, line_len)) = self.line_at(buf, eof) else {
            return Ok(Some(self.look_further(buf)));
        };
        // A command ends at a delimiter on its line.
        let (text, len) = match memchr::memmem::find(line, &self.delimiter) {
            Some(i) => (i, i + self.delimiter.len()),
            None => (line.len(), line_len),
        };
        let argument = &line[word.len().min(text)..text];
        let bare = argument.iter().all(|&b| is_blank(b));
        let separate = argument.first().is_some_and(|&b| b == b' ' || b == b'\t');
        if (bare && plain) || (!bare && separate && with_argument) {
            let command = match word {
                b"system" => ClientCommand::System,
                b"source" => ClientCommand::Source,
                b"tee" => ClientCommand::Tee,
                b"pager" => ClientCommand::Pager,
                b"charset" => ClientCommand::Charset,
                _ => ClientCommand::Other(word.to_vec()),
            };
            return self
                .emit_line(buf, ItemKind::ClientCommand(command), text, len)
                .map(Some);
        }
        Ok(self.go(Phase::Statement))
    }

    /// A one-letter command (`\!`), up to the delimiter or the end of the line.
    fn letter_command(&mut self, buf: &[u8], eof: bool, letter: u8) -> Result<Step, ScanError> {
        let Some((line, line_len)) = self.line_at(buf, eof) else {
            return Ok(self.look_further(buf));
        };
        let (text, len) = match memchr::memmem::find(line, &self.delimiter) {
            Some(i) => (i, i + self.delimiter.len()),
            None => (line.len(), line_len),
        };
        let command = match letter {
            b'!' => ClientCommand::System,
            b'.' => ClientCommand::Source,
            b'T' => ClientCommand::Tee,
            b'P' => ClientCommand::Pager,
            b'C' => ClientCommand::Charset,
            _ => ClientCommand::Other(vec![letter]),
        };
        self.emit_line(buf, ItemKind::ClientCommand(command), text, len)
    }

    fn emit_line(
        &mut self,
        buf: &[u8],
        kind: ItemKind,
        text: usize,
        len: usize,
    ) -> Result<Step, ScanError> {
        let range = Self::trimmed(buf, self.pos..self.pos + text);
        self.emit(buf, kind, self.pos + len, range, true)
    }

    fn ends_in_line(&self, line: &[u8]) -> bool {
        let has = |what: &[u8]| memchr::memmem::find(line, what).is_some();
        has(&self.delimiter) || has(b"\\g") || has(b"\\G")
    }
}

/// Whether the first argument opens a quote that this line does not close.
fn is_open(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.first().is_some_and(|&quote| {
        matches!(quote, b'\'' | b'"' | b'`') && memchr::memchr_iter(quote, line).count() % 2 == 1
    })
}

/// The first argument of a client command: up to a blank, or between quotes.
fn first_argument(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    match line.first() {
        Some(&quote @ (b'\'' | b'"' | b'`')) => {
            let body = &line[1..];
            &body[..memchr::memchr(quote, body).unwrap_or(body.len())]
        }
        _ => line.split(|&b| is_blank(b)).next().unwrap_or_default(),
    }
}

/// Classifies a comment by its text.
pub(super) fn comment_kind(text: &[u8]) -> CommentKind {
    if is_conditional(text) {
        return CommentKind::SandboxMode;
    }
    if text.starts_with(DUMP_COMPLETED) {
        return CommentKind::DumpCompleted;
    }
    if super::item::is_dump_header(text) {
        return CommentKind::DumpHeader;
    }
    CommentKind::Plain
}

impl Inside {
    pub(super) fn is_code(self) -> bool {
        self == Self::Code
    }
}
