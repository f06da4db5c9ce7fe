//! Delimited text: rows as `LOAD DATA` reads them and `SELECT … INTO OUTFILE` writes them.
//!
//! The rules are the server's (`sql_load.cc`, `READ_INFO::read_field`): a field may be enclosed, a backslash escapes, `\N` is
//! `NULL`, and where fields are enclosed the bare word `NULL` is too. [`Delimited::cut`] finds runs of whole rows without
//! looking at values; [`Delimited::visit`] hands the values of rows to a visitor, each as the bytes that its column holds.

mod decode;
mod fuzzing;

use memchr::memmem;
use refloat_sqltext::{RowVisitor, VisitError};

use decode::{from_base64, from_hex};
#[doc(hidden)]
pub use fuzzing::{check_walks, fuzz};

/// How a row is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delimited {
    /// What ends a field (`FIELDS TERMINATED BY`).
    pub field_end: Vec<u8>,
    /// What may stand around a field (`ENCLOSED BY`).
    pub enclosed: Option<u8>,
    /// What escapes (`ESCAPED BY`).
    pub escaped: Option<u8>,
    /// What a row begins with (`LINES STARTING BY`); anything before it is passed over.
    pub line_start: Vec<u8>,
    /// What ends a row (`LINES TERMINATED BY`).
    pub line_end: Vec<u8>,
    /// A bare field that means `NULL`, besides `\N`.
    pub null_word: Option<Vec<u8>>,
}

impl Default for Delimited {
    /// What `LOAD DATA` reads without any option: tabs, newlines, backslashes.
    fn default() -> Self {
        Self {
            field_end: b"\t".to_vec(),
            enclosed: None,
            escaped: Some(b'\\'),
            line_start: Vec::new(),
            line_end: b"\n".to_vec(),
            null_word: None,
        }
    }
}

/// What has to be done to a field to get the bytes of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decode {
    /// Nothing.
    #[default]
    Plain,
    /// They are written in hexadecimal digits (`UNHEX`).
    Hex,
    /// They are written in base 64 (`FROM_BASE64`).
    Base64,
    /// They are the number of an `ENUM` member.
    Number,
    /// One value stands for another one on this server.
    Instead {
        /// What is written.
        of: &'static [u8],
        /// What it is here.
        with: &'static [u8],
    },
    /// The field is for no column.
    Skip,
}

/// A run of whole rows at the front of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Bytes.
    pub len: usize,
    /// Rows.
    pub rows: u64,
}

/// What follows a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Field,
    Row,
}

/// What stands at a place.
enum Mark {
    /// More bytes are needed to tell.
    More,
    /// The end of a field, and what follows where.
    End(After, usize),
    /// Nothing of note.
    Nothing,
}

/// One field as it stands in the text.
struct Field {
    start: usize,
    end: usize,
    /// Something in it is escaped or doubled.
    special: bool,
    enclosed: bool,
    after: After,
    /// Where the next field or row begins.
    next: usize,
}

/// Why no field could be read.
enum Stop {
    /// The text ends in the middle of it.
    Short,
    /// The text ends within an enclosed field, and nothing follows.
    Open(usize),
}

impl Delimited {
    /// Whether `LOAD DATA` reads this without any option.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Why nothing can be read by these rules, if so.
    pub fn fault(&self) -> Option<&'static str> {
        if self.field_end.is_empty() || self.line_end.is_empty() {
            return Some("fields and lines have to end with something");
        }
        let marks = [self.enclosed, self.escaped];
        let ends = [self.field_end[0], self.line_end[0]];
        if marks.into_iter().flatten().any(|mark| ends.contains(&mark)) {
            return Some("what encloses or escapes fields cannot end them too");
        }
        if self.field_end == self.line_end {
            return Some("fields and lines have to end differently");
        }
        None
    }

    /// The byte that escapes; one that also encloses only doubles itself.
    fn escape(&self) -> Option<u8> {
        self.escaped.filter(|&byte| Some(byte) != self.enclosed)
    }

    /// Whether the end of a row can be told by the bytes in front of it.
    fn is_simple(&self) -> bool {
        self.enclosed.is_none() && self.line_start.is_empty() && self.line_end.len() == 1
    }

    /// The rows at the front of `text` that are whole: as many as fit into `target` bytes, one at least. `None` when not one
    /// is. With `last` nothing follows `text`, and what is left at its end is a row too.
    pub fn cut(&self, text: &[u8], target: usize, last: bool) -> Option<Run> {
        let run = if self.is_simple() {
            self.cut_simple(text, target)
        } else {
            self.cut_fields(text, target, last)
        };
        if run.rows > 0 {
            return Some(run);
        }
        (last && !text.is_empty()).then_some(Run {
            len: text.len(),
            rows: 1,
        })
    }

    fn cut_simple(&self, text: &[u8], target: usize) -> Run {
        let end = self.line_end[0];
        let mut run = Run::default();
        for at in memchr::memchr_iter(end, text) {
            if self
                .escape()
                .is_some_and(|byte| is_escaped(&text[run.len..at], byte))
            {
                continue;
            }
            if run.rows > 0 && at + 1 > target {
                break;
            }
            run.len = at + 1;
            run.rows += 1;
            if run.len >= target {
                break;
            }
        }
        run
    }

    fn cut_fields(&self, text: &[u8], target: usize, last: bool) -> Run {
        let mut run = Run::default();
        while run.len < target {
            let Some(end) = self.row_end(text, run.len, last) else {
                break;
            };
            if run.rows > 0 && end > target {
                break;
            }
            run.len = end;
            run.rows += 1;
        }
        run
    }

    /// Where the row that begins at `at` ends, behind its terminator.
    fn row_end(&self, text: &[u8], at: usize, last: bool) -> Option<usize> {
        if at >= text.len() {
            return None;
        }
        let mut at = self.begin(text, at)?;
        loop {
            let field = self.field(text, at, last).ok()?;
            at = field.next;
            if field.after == After::Row {
                return Some(at);
            }
        }
    }

    /// Where the first field of a row begins.
    fn begin(&self, text: &[u8], at: usize) -> Option<usize> {
        if self.line_start.is_empty() {
            return Some(at);
        }
        memmem::find(&text[at..], &self.line_start).map(|found| at + found + self.line_start.len())
    }

    /// Which of the terminators stands at `at`, and where what follows begins.
    #[inline]
    fn terminator(&self, text: &[u8], at: usize, last: bool) -> Mark {
        let rest = &text[at..];
        if rest.starts_with(&self.line_end) {
            return Mark::End(After::Row, at + self.line_end.len());
        }
        if rest.starts_with(&self.field_end) {
            return Mark::End(After::Field, at + self.field_end.len());
        }
        if rest.is_empty() && last {
            return Mark::End(After::Row, at);
        }
        let more = |end: &[u8]| rest.len() < end.len() && end.starts_with(rest);
        if !last && (more(&self.line_end) || more(&self.field_end)) {
            return Mark::More;
        }
        Mark::Nothing
    }

    #[inline]
    fn field(&self, text: &[u8], at: usize, last: bool) -> Result<Field, Stop> {
        if let Some(quote) = self.enclosed
            && text.get(at) == Some(&quote)
        {
            return self.enclosed_field(text, at + 1, quote, last);
        }
        let (line, field) = (self.line_end[0], self.field_end[0]);
        let escape = self.escape();
        let mut special = false;
        let mut pos = at;
        loop {
            let rest = &text[pos..];
            let found = match escape {
                Some(escape) => memchr::memchr3(field, line, escape, rest),
                None => memchr::memchr2(field, line, rest),
            };
            let Some(found) = found else {
                if !last {
                    return Err(Stop::Short);
                }
                return Ok(Field {
                    start: at,
                    end: text.len(),
                    special,
                    enclosed: false,
                    after: After::Row,
                    next: text.len(),
                });
            };
            pos += found;
            if escape == Some(text[pos]) {
                if pos + 1 >= text.len() && !last {
                    return Err(Stop::Short);
                }
                special = true;
                pos = (pos + 2).min(text.len());
                continue;
            }
            match self.terminator(text, pos, last) {
                Mark::More => return Err(Stop::Short),
                Mark::End(after, next) => {
                    return Ok(Field {
                        start: at,
                        end: pos,
                        special,
                        enclosed: false,
                        after,
                        next,
                    });
                }
                Mark::Nothing => pos += 1,
            }
        }
    }

    fn enclosed_field(
        &self,
        text: &[u8],
        start: usize,
        quote: u8,
        last: bool,
    ) -> Result<Field, Stop> {
        let escape = self.escape();
        let mut special = false;
        let mut pos = start;
        loop {
            let rest = &text[pos..];
            let found = match escape {
                Some(escape) => memchr::memchr2(quote, escape, rest),
                None => memchr::memchr(quote, rest),
            };
            let Some(found) = found else {
                return Err(if last { Stop::Open(start) } else { Stop::Short });
            };
            pos += found;
            if escape == Some(text[pos]) {
                special = true;
                pos += 2;
                if pos > text.len() {
                    return Err(if last { Stop::Open(start) } else { Stop::Short });
                }
                continue;
            }
            if pos + 1 == text.len() && !last {
                return Err(Stop::Short);
            }
            if text.get(pos + 1) == Some(&quote) {
                special = true;
                pos += 2;
                continue;
            }
            match self.terminator(text, pos + 1, last) {
                Mark::More => return Err(Stop::Short),
                Mark::End(after, next) => {
                    return Ok(Field {
                        start,
                        end: pos,
                        special,
                        enclosed: true,
                        after,
                        next,
                    });
                }
                // A quote that neither ends the field nor is doubled is a part of it.
                Mark::Nothing => pos += 1,
            }
        }
    }

    /// Whether the last row of `text` has no terminator behind it.
    pub fn is_open(&self, text: &[u8]) -> bool {
        if text.is_empty() {
            return false;
        }
        let Some(before) = text.strip_suffix(self.line_end.as_slice()) else {
            return true;
        };
        self.escape()
            .is_some_and(|escape| is_escaped(before, escape))
    }

    /// Hands the rows of `text`, all of them whole, to `visitor`; field `n` is decoded as `decode[n]` says, or not at all. Returns how many
    /// rows there are.
    ///
    /// # Errors
    /// What the visitor refuses; text that ends within an enclosed field; digits that are none.
    pub fn visit<V: RowVisitor>(
        &self,
        text: &[u8],
        decode: &[Decode],
        visitor: &mut V,
    ) -> Result<u64, VisitError<V::Error>> {
        let mut scratch = Vec::new();
        let mut rows = 0;
        let mut at = 0;
        while at < text.len() {
            let Some(first) = self.begin(text, at) else {
                return Err(VisitError::Syntax {
                    at,
                    expected: "what a line begins with",
                });
            };
            visitor
                .begin_row(at)
                .map_err(|error| VisitError::Visitor { at, error })?;
            at = first;
            let mut index = 0;
            loop {
                let field = match self.field(text, at, true) {
                    Ok(field) => field,
                    Err(Stop::Open(at)) => {
                        return Err(VisitError::Syntax {
                            at,
                            expected: "the end of an enclosed field",
                        });
                    }
                    Err(Stop::Short) => {
                        return Err(VisitError::Syntax {
                            at,
                            expected: "the end of a field",
                        });
                    }
                };
                let how = decode.get(index).copied().unwrap_or_default();
                if how != Decode::Skip {
                    self.value(text, &field, how, &mut scratch, visitor)?;
                }
                index += 1;
                at = field.next;
                if field.after == After::Row {
                    break;
                }
            }
            visitor
                .end_row(at)
                .map_err(|error| VisitError::Visitor { at, error })?;
            rows += 1;
        }
        Ok(rows)
    }

    #[inline]
    fn value<V: RowVisitor>(
        &self,
        text: &[u8],
        field: &Field,
        how: Decode,
        scratch: &mut Vec<u8>,
        visitor: &mut V,
    ) -> Result<(), VisitError<V::Error>> {
        let raw = &text[field.start..field.end];
        let at = field.start;
        let refused = |error| VisitError::Visitor { at, error };
        let how = match how {
            Decode::Instead { of, with } if raw == of => {
                return visitor.raw(with).map_err(refused);
            }
            Decode::Instead { .. } => Decode::Plain,
            how => how,
        };
        if !field.special {
            if how == Decode::Plain {
                if !field.enclosed && self.null_word.as_deref() == Some(raw) {
                    return visitor.null().map_err(refused);
                }
                return visitor.raw(raw).map_err(refused);
            }
            if !field.enclosed && self.null_word.as_deref() == Some(raw) {
                return visitor.null().map_err(refused);
            }
        }
        if let (Some(escape), [first, b'N']) = (self.escape(), raw)
            && *first == escape
        {
            return visitor.null().map_err(refused);
        }
        scratch.clear();
        self.unescape(raw, field.enclosed, scratch);
        match how {
            Decode::Plain | Decode::Instead { .. } | Decode::Skip => {}
            Decode::Number => return visitor.number(scratch).map_err(refused),
            Decode::Hex => {
                if !from_hex(scratch) {
                    return Err(VisitError::Syntax {
                        at,
                        expected: "hexadecimal digits",
                    });
                }
            }
            Decode::Base64 => {
                if !from_base64(scratch) {
                    return Err(VisitError::Syntax {
                        at,
                        expected: "base 64",
                    });
                }
            }
        }
        visitor.raw(scratch).map_err(refused)
    }

    /// Appends the value of a field: escapes by the server's rules, doubled quotes once.
    fn unescape(&self, raw: &[u8], enclosed: bool, out: &mut Vec<u8>) {
        let escape = self.escape();
        let quote = self.enclosed.filter(|_| enclosed);
        let mut rest = raw;
        loop {
            let found = match (escape, quote) {
                (Some(escape), Some(quote)) => memchr::memchr2(escape, quote, rest),
                (Some(one), None) | (None, Some(one)) => memchr::memchr(one, rest),
                (None, None) => None,
            };
            let Some(at) = found else {
                out.extend_from_slice(rest);
                return;
            };
            out.extend_from_slice(&rest[..at]);
            let byte = rest[at];
            let next = rest.get(at + 1).copied();
            rest = if escape == Some(byte) {
                let Some(next) = next else {
                    out.push(byte);
                    return;
                };
                out.push(match next {
                    b'0' => 0,
                    b'b' => 8,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'Z' => 0x1A,
                    other => other,
                });
                &rest[at + 2..]
            } else {
                out.push(byte);
                let doubled = usize::from(next == Some(byte));
                &rest[at + 1 + doubled..]
            };
        }
    }
}

/// Whether what follows `before` is escaped: an odd number of escapes stands in front of it.
#[inline]
fn is_escaped(before: &[u8], escape: u8) -> bool {
    let run = before
        .iter()
        .rev()
        .take_while(|&&byte| byte == escape)
        .count();
    run % 2 == 1
}

/// How the rows of a delimited file are written, and what their fields are for.
#[derive(Debug)]
pub struct DelimitedRows {
    /// Terminators and escapes.
    pub format: Delimited,
    /// What is done with each field, in their order in the file.
    pub decode: Vec<Decode>,
    /// Character set of text; `binary` when each value is in the one of its column.
    pub charset: String,
}

#[cfg(test)]
mod tests;
