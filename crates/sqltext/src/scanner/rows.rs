//! Scans the rows of an insert statement: finds, counts and cuts tuples.

use std::ops::Range;
use std::sync::Arc;

use super::blocks::{Blocks, is_literal_byte};
use super::{Here, InsertHeader, Inside, ItemKind, Phase, RowsPiece, ScanError, Scanner, Step};
use crate::mode::{Quoted, is_blank, skip_quoted};

/// Progress within the rows of one statement.
#[derive(Clone, Debug)]
pub(super) struct RowsState {
    header: Arc<InsertHeader>,
    /// Start of the rows of this piece.
    start: usize,
    /// After the last complete tuple of this piece.
    end: usize,
    count: u64,
    /// Number of open parentheses.
    depth: u32,
    /// Between tuples: a comma was seen, or the piece begins, so a tuple must follow.
    want_tuple: bool,
    complex: bool,
    first: bool,
    /// End of a rejected block: scan byte by byte up to here.
    slow_until: usize,
}

/// Why the byte loop stopped.
enum Stop {
    /// The byte loop has passed the rejected block or entered a quote; try blocks again.
    Again,
    More,
    /// A complete statement, with a delimiter of this many bytes.
    End(usize),
    Cut,
    /// Something other than rows follows.
    Tail,
    Nul,
    Enter(Here),
}

/// Bytes inside a tuple that need a closer look: anything that may not belong to a literal.
static TUPLE_SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        // `(` and `)` change the depth; `-` may begin a comment.
        table[b] = !is_literal_byte(b as u8) || matches!(b as u8, b'(' | b')' | b'-');
        b += 1;
    }
    table
};

impl RowsState {
    /// `start` is the position of the first `(`.
    pub(super) fn new(header: Arc<InsertHeader>, start: usize) -> Self {
        Self {
            header,
            start,
            end: start,
            count: 0,
            depth: 0,
            want_tuple: true,
            complex: false,
            first: true,
            slow_until: 0,
        }
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }
}

impl Scanner {
    pub(super) fn rows(&mut self, buf: &[u8], eof: bool) -> Result<Option<Step>, ScanError> {
        let Phase::Rows(rows) = std::mem::replace(&mut self.phase, Phase::Start) else {
            return Ok(None);
        };
        let mut rows = rows;
        loop {
            self.rows_by_blocks(buf, &mut rows);
            if !self.inside.is_code() {
                self.phase = Phase::Rows(rows);
                return Ok(None);
            }
            match self.rows_by_bytes(buf, eof, &mut rows) {
                Stop::Again => {}
                Stop::More if eof => return self.rows_at_eof(buf, rows).map(Some),
                Stop::More => {
                    self.phase = Phase::Rows(rows);
                    return Ok(Some(Step::NeedMore));
                }
                Stop::End(delimiter) => {
                    let len = self.pos + delimiter;
                    return self.emit_rows(buf, rows, len, true, true).map(Some);
                }
                Stop::Cut => {
                    let len = self.pos;
                    return self.emit_rows(buf, rows, len, false, true).map(Some);
                }
                Stop::Tail if rows.first => {
                    self.phase = Phase::Statement;
                    return Ok(None);
                }
                Stop::Tail => {
                    let (offset, line) = self.place(buf, self.pos);
                    return Err(ScanError::TailAfterCut { offset, line });
                }
                Stop::Nul => return Err(self.nul(buf)),
                Stop::Enter(here) => {
                    self.enter(here);
                    self.phase = Phase::Rows(rows);
                    return Ok(None);
                }
            }
        }
    }

    /// Consumes as many whole blocks of plain literals as there are.
    fn rows_by_blocks(&mut self, buf: &[u8], rows: &mut RowsState) {
        let in_string = match self.inside {
            Inside::Code => false,
            Inside::Quote(b'\'') => true,
            _ => return,
        };
        if !self.blocks || rows.depth > 1 || self.pos < rows.slow_until {
            return;
        }
        // A block in which a tuple could reach the target is left to the byte loop, which makes the
        // cut.
        let limit = buf.len().min(
            rows.start
                .saturating_add(self.options.piece_target)
                .saturating_sub(1),
        );
        if limit < self.pos + Blocks::LEN {
            return;
        }
        let mut blocks = Blocks::new(!self.mode.no_backslash_escapes);
        blocks.set(in_string, rows.depth == 1, rows.want_tuple);
        let window = &buf[self.pos..limit];
        let taken = blocks.run(window);
        rows.count += blocks.rows();
        if let Some(end) = blocks.last_close() {
            rows.end = self.pos + end;
        }
        rows.depth = u32::from(blocks.in_tuple());
        rows.want_tuple = blocks.want_tuple();
        let refused = self.pos + taken;
        rows.slow_until = refused + Blocks::LEN;
        self.inside = if blocks.in_string() {
            Inside::Quote(b'\'')
        } else {
            Inside::Code
        };
        // A backslash at the end of the last block escapes the next byte: back up to it.
        self.pos = refused - usize::from(blocks.escape_pending());
    }

    fn rows_by_bytes(&mut self, buf: &[u8], eof: bool, rows: &mut RowsState) -> Stop {
        loop {
            if self.pos >= buf.len() {
                return Stop::More;
            }
            if rows.slow_until != 0 && self.pos >= rows.slow_until {
                rows.slow_until = 0;
                return Stop::Again;
            }
            let stop = if rows.depth == 0 {
                self.between_tuples(buf, eof, rows)
            } else {
                self.in_tuple(buf, eof, rows)
            };
            if let Some(stop) = stop {
                return stop;
            }
        }
    }

    fn between_tuples(&mut self, buf: &[u8], eof: bool, rows: &mut RowsState) -> Option<Stop> {
        let b = buf[self.pos];
        if is_blank(b) {
            self.pos += 1;
            return None;
        }
        let here = self.here(buf, self.pos, eof);
        match here {
            Here::More => return Some(Stop::More),
            Here::Nul => return Some(Stop::Nul),
            Here::LineComment | Here::BlockComment => {
                rows.complex = true;
                return Some(Stop::Enter(here));
            }
            Here::Delimiter if !rows.want_tuple => return Some(Stop::End(self.delimiter.len())),
            Here::Backslash(b'g' | b'G') if !rows.want_tuple => return Some(Stop::End(2)),
            // Under another delimiter, the server still ends each of several statements at its own
            // `;`.
            Here::Bytes(1) if b == b';' && !rows.want_tuple => return Some(Stop::End(1)),
            Here::Bytes(1) if b == b'(' && rows.want_tuple => {
                rows.depth = 1;
                rows.want_tuple = false;
            }
            Here::Bytes(1) if b == b',' && !rows.want_tuple => {
                rows.want_tuple = true;
                self.pos += 1;
                let full = rows.end - rows.start >= self.options.piece_target;
                return full.then_some(Stop::Cut);
            }
            _ => return Some(Stop::Tail),
        }
        self.pos += 1;
        None
    }

    #[expect(
        clippy::match_same_arms,
        reason = "one arm per thing that may stand here"
    )]
    fn in_tuple(&mut self, buf: &[u8], eof: bool, rows: &mut RowsState) -> Option<Stop> {
        let b = buf[self.pos];
        if !TUPLE_SPECIAL[usize::from(b)] && !self.special[usize::from(b)] {
            self.pos += 1;
            return None;
        }
        let here = self.here(buf, self.pos, eof);
        match here {
            Here::More => return Some(Stop::More),
            Here::Nul => return Some(Stop::Nul),
            Here::Delimiter => return Some(Stop::Tail),
            Here::Quote(quote) => {
                rows.complex |= quote == b'`';
                match skip_quoted(buf, self.pos + 1, quote, self.mode, eof) {
                    Quoted::Closed(end) => self.pos = end,
                    Quoted::Open(end) => {
                        self.pos = end;
                        self.inside = Inside::Quote(quote);
                        return Some(Stop::Again);
                    }
                }
            }
            Here::LineComment | Here::BlockComment => {
                rows.complex = true;
                return Some(Stop::Enter(here));
            }
            Here::Backslash(b'N') => self.pos += 2,
            Here::Backslash(_) => return Some(Stop::Tail),
            Here::Bytes(n) => {
                match b {
                    b'(' => {
                        rows.depth += 1;
                        rows.complex = true;
                    }
                    b')' => {
                        rows.depth -= 1;
                        if rows.depth == 0 {
                            rows.count += 1;
                            rows.end = self.pos + 1;
                        }
                    }
                    _ => rows.complex |= !is_literal_byte(b),
                }
                self.pos += n;
            }
        }
        None
    }

    fn rows_at_eof(&mut self, buf: &[u8], rows: RowsState) -> Result<Step, ScanError> {
        if rows.depth == 0 && !rows.want_tuple {
            return self.emit_rows(buf, rows, buf.len(), true, false);
        }
        let start = if rows.depth == 0 {
            self.pos
        } else {
            self.last_openings(buf, rows.start).1
        };
        let (offset, line) = self.place(buf, start);
        Err(ScanError::UnterminatedRows { offset, line })
    }

    fn emit_rows(
        &mut self,
        buf: &[u8],
        rows: RowsState,
        len: usize,
        last: bool,
        terminated: bool,
    ) -> Result<Step, ScanError> {
        // Blanks after the comma of the previous cut.
        let blanks = buf[rows.start..rows.end]
            .iter()
            .take_while(|&&b| is_blank(b))
            .count();
        let range = rows.start + blanks..rows.end;
        let text: Range<usize> = if rows.first {
            self.text_start..rows.end
        } else {
            range.clone()
        };
        let piece = RowsPiece {
            header: rows.header.clone(),
            rows: range,
            row_count: rows.count,
            complex: rows.complex,
            first: rows.first,
            last,
        };
        let step = self.emit(buf, ItemKind::Rows(piece), len, text, terminated)?;
        if !last {
            self.phase = Phase::Rows(RowsState {
                first: false,
                ..RowsState::new(rows.header, 0)
            });
        }
        Ok(step)
    }
}
