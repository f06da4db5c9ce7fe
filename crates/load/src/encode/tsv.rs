//! Encodes rows as the text that `LOAD DATA` reads with its default options: fields end with a tab,
//! lines with a newline, a backslash escapes, `\N` is `NULL`.

use memchr::{memchr, memchr2};
use refloat_sqltext::{LexMode, StrLit};

use super::{FlushError, ValueSink};

/// Sends finished text.
pub trait TsvSend {
    /// Sends whole rows and empties `text`.
    fn send(&mut self, text: &mut Vec<u8>) -> Result<(), FlushError>;
}

pub struct TsvSink<'a, T> {
    text: &'a mut Vec<u8>,
    target: usize,
    send: T,
    first: bool,
    row_at: usize,
    /// The piece has no raw tab or newline, so strings need not be searched for them.
    clean: bool,
    /// A backslash in the dump's strings is an ordinary byte, which would be an escape here.
    raw_backslash: bool,
    scratch: Vec<u8>,
}

impl<'a, T: TsvSend> TsvSink<'a, T> {
    /// A sink that sends about `target` bytes at a time; `piece` is the text that the rows come
    /// from.
    pub fn new(text: &'a mut Vec<u8>, target: usize, piece: &[u8], mode: LexMode, send: T) -> Self {
        let row_at = text.len();
        let clean = memchr2(b'\t', b'\n', piece).is_none();
        Self {
            text,
            target,
            send,
            first: true,
            row_at,
            clean,
            raw_backslash: mode.no_backslash_escapes,
            scratch: Vec::new(),
        }
    }

    /// A sink for values that are not literals: a backslash is an ordinary byte, and tabs and
    /// newlines may be anywhere.
    pub fn of_bytes(text: &'a mut Vec<u8>, target: usize, send: T) -> Self {
        let row_at = text.len();
        Self {
            text,
            target,
            send,
            first: true,
            row_at,
            clean: false,
            raw_backslash: true,
            scratch: Vec::new(),
        }
    }

    #[inline]
    fn separate(&mut self) {
        if self.first {
            self.first = false;
        } else {
            self.text.push(b'\t');
        }
    }

    /// Drops what the current row has written so far.
    pub fn forget_row(&mut self) {
        self.text.truncate(self.row_at);
    }
}

/// Whether a string with SQL escapes means the same to `LOAD DATA`: `\N`, `\%` and `\_` do not.
fn same_escapes(raw: &[u8]) -> bool {
    let mut rest = raw;
    while let Some(at) = memchr(b'\\', rest) {
        match rest.get(at + 1) {
            None | Some(b'N' | b'%' | b'_') => return false,
            Some(_) => rest = &rest[at + 2..],
        }
    }
    true
}

/// Appends bytes, escaped for `LOAD DATA`.
fn escape_into(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len());
    for &byte in bytes {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0 => out.extend_from_slice(b"\\0"),
            byte => out.push(byte),
        }
    }
}

impl<T: TsvSend> ValueSink for TsvSink<'_, T> {
    #[inline]
    fn row_start(&mut self) {
        self.first = true;
        self.row_at = self.text.len();
    }

    #[inline]
    fn row_end(&mut self) -> Result<bool, FlushError> {
        self.text.push(b'\n');
        if self.text.len() >= self.target {
            self.send.send(self.text)?;
        }
        self.row_at = self.text.len();
        Ok(true)
    }

    #[inline]
    fn null(&mut self) {
        self.separate();
        self.text.extend_from_slice(b"\\N");
    }

    fn default(&mut self) -> bool {
        false
    }

    #[inline]
    fn integer(&mut self, digits: &[u8], _unsigned: bool) -> bool {
        self.plain(digits);
        true
    }

    #[inline]
    fn plain(&mut self, text: &[u8]) {
        self.separate();
        self.text.extend_from_slice(text);
    }

    #[inline]
    fn string(&mut self, literal: &StrLit<'_>) {
        self.separate();
        let verbatim = if literal.is_plain() {
            !self.raw_backslash || memchr(b'\\', literal.raw).is_none()
        } else {
            !literal.has_doubled_quote && same_escapes(literal.raw)
        };
        if verbatim && (self.clean || memchr2(b'\t', b'\n', literal.raw).is_none()) {
            self.text.extend_from_slice(literal.raw);
        } else {
            self.scratch.clear();
            literal.unescape_into(&mut self.scratch);
            escape_into(&self.scratch, self.text);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.separate();
        escape_into(bytes, self.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_that_mean_something_else_to_load_data_are_seen() {
        assert!(same_escapes(br"a\'b\\c\n"));
        assert!(!same_escapes(br"\N"));
        assert!(!same_escapes(br"10\%"));
        assert!(!same_escapes(br"\\\_"));
        assert!(same_escapes(br"\\N"));
    }

    #[test]
    fn separators_and_escapes_inside_values_are_escaped() {
        let mut out = Vec::new();
        escape_into(b"a\tb\nc\\d\0e", &mut out);
        assert_eq!(out, br"a\tb\nc\\d\0e");
    }
}
