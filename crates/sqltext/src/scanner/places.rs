//! Positions in the input, for errors and other messages.

use super::{Here, Phase, ScanError, Scanner};
use crate::mode::{Quoted, skip_quoted};

impl Scanner {
    /// Offset and line of a position in the buffer.
    pub(super) fn place(&self, buf: &[u8], pos: usize) -> (u64, u64) {
        (
            self.offset + pos as u64,
            self.line + count_lines(&buf[..pos]),
        )
    }

    pub(super) fn nul(&self, buf: &[u8]) -> ScanError {
        let (offset, line) = self.place(buf, self.pos);
        ScanError::Nul { offset, line }
    }

    pub(super) fn too_long(&self, buf: &[u8]) -> ScanError {
        let (offset, line) = self.place(buf, self.text_start);
        let limit = self.options.max_item;
        ScanError::TooLong {
            limit,
            offset,
            line,
        }
    }

    /// Searches for the opening quote: the hot loops do not remember it.
    pub(super) fn unterminated_quote(&self, buf: &[u8], quote: u8) -> ScanError {
        let from = match &self.phase {
            Phase::Rows(rows) => rows.start(),
            _ => self.text_start,
        };
        let start = self.last_openings(buf, from).0;
        let (offset, line) = self.place(buf, start);
        let quote = char::from(quote);
        ScanError::UnterminatedQuote {
            quote,
            offset,
            line,
        }
    }

    /// Start of the last quote and of the last outer parenthesis, from `from` to the end. Only for
    /// errors.
    pub(super) fn last_openings(&self, buf: &[u8], from: usize) -> (usize, usize) {
        let (mut quote_start, mut paren_start, mut depth, mut pos) = (from, from, 0u64, from);
        let mut last_close = usize::MAX;
        while pos < buf.len() {
            match self.here(buf, pos, true) {
                Here::Quote(quote) => {
                    if last_close != pos || buf[quote_start] != quote {
                        quote_start = pos;
                    }
                    pos = match skip_quoted(buf, pos + 1, quote, self.mode, true) {
                        Quoted::Closed(end) => end,
                        Quoted::Open(_) => buf.len(),
                    };
                    last_close = pos;
                }
                Here::LineComment => {
                    pos = memchr::memchr(b'\n', &buf[pos..]).map_or(buf.len(), |i| pos + i + 1);
                }
                Here::BlockComment => {
                    let body = pos + 2;
                    pos = memchr::memmem::find(&buf[body..], b"*/")
                        .map_or(buf.len(), |i| body + i + 2);
                }
                Here::Backslash(_) => pos += 2,
                Here::Bytes(n) => {
                    match buf[pos] {
                        b'(' => {
                            if depth == 0 {
                                paren_start = pos;
                            }
                            depth += 1;
                        }
                        b')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    pos += n;
                }
                Here::Delimiter | Here::Nul | Here::More => pos += 1,
            }
        }
        (quote_start, paren_start)
    }
}

pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
