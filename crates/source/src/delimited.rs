//! Delimited text: rows as `LOAD DATA` reads them and `SELECT … INTO OUTFILE` writes them.
//!
//! The rules are the server's (`sql_load.cc`, `READ_INFO::read_field`): fields may be enclosed, a
//! backslash escapes, and `\N` is `NULL`; where fields are enclosed, so is the unenclosed word
//! `NULL`. [`Delimited::cut`] finds runs of whole rows without looking at values.
//! [`Delimited::visit`] passes the values of rows to a visitor, each as the bytes that its column
//! holds.

mod decode;
mod fuzzing;

use memchr::memmem;
use refloat_sqltext::{RowVisitor, VisitError};

use decode::{from_base64, from_hex};
#[doc(hidden)]
pub use fuzzing::{check_walks, fuzz};

/// The format of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delimited {
    /// Field terminator (`FIELDS TERMINATED BY`).
    pub field_end: Vec<u8>,
    /// Optional field enclosure (`ENCLOSED BY`).
    pub enclosed: Option<u8>,
    /// Escape character (`ESCAPED BY`).
    pub escaped: Option<u8>,
    /// Line prefix (`LINES STARTING BY`); anything before it is skipped.
    pub line_start: Vec<u8>,
    /// Line terminator (`LINES TERMINATED BY`).
    pub line_end: Vec<u8>,
    /// An unenclosed field that means `NULL`, in addition to `\N`.
    pub null_word: Option<Vec<u8>>,
}

impl Default for Delimited {
    /// The default of `LOAD DATA`: tabs, newlines, backslashes.
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

/// How to decode a field into the bytes of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decode {
    /// The field is the value.
    #[default]
    Plain,
    /// Hexadecimal digits (`UNHEX`).
    Hex,
    /// Base64 (`FROM_BASE64`).
    Base64,
    /// The number of an `ENUM` or `SET` value.
    Number,
    /// Replace one particular value by the one that stands for it on this server.
    Instead {
        /// The field as written.
        of: &'static [u8],
        /// The value to store.
        with: &'static [u8],
    },
    /// The field belongs to no column.
    Skip,
}

/// A run of whole rows at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Length in bytes.
    pub len: usize,
    /// How many rows it has.
    pub rows: u64,
}

/// What follows a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Field,
    Row,
}

/// What is found at an offset.
enum Mark {
    /// More bytes are needed to tell.
    More,
    /// The end of a field: what follows, and at which offset.
    End(After, usize),
    /// Neither terminator.
    Nothing,
}

/// A field within the text.
struct Field {
    start: usize,
    end: usize,
    /// Whether it contains an escape or a doubled quote.
    special: bool,
    enclosed: bool,
    after: After,
    /// Offset of the next field or row.
    next: usize,
}

/// Why no field could be read.
enum Stop {
    /// The text ends in the middle of a field.
    Short,
    /// The text ends within an enclosed field, and no more text follows.
    Open(usize),
}

impl Delimited {
    /// Whether `LOAD DATA` reads this format without any options.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Why this format is invalid; `None` if it is valid.
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

    /// The escape character, unless it is also the enclosure, which escapes only by doubling.
    fn escape(&self) -> Option<u8> {
        self.escaped.filter(|&byte| Some(byte) != self.enclosed)
    }

    /// Whether the bytes before a line terminator suffice to tell that it ends a row.
    fn is_simple(&self) -> bool {
        self.enclosed.is_none() && self.line_start.is_empty() && self.line_end.len() == 1
    }

    /// The whole rows at the start of `text`: as many as fit into `target` bytes, but at least one.
    /// `None` if there is no whole row. `last` means that nothing follows `text`, so that the rest
    /// at its end is a row too.
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

    /// The end of the row that starts at `at`, after its terminator.
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

    /// The offset of a row's first field.
    fn begin(&self, text: &[u8], at: usize) -> Option<usize> {
        if self.line_start.is_empty() {
            return Some(at);
        }
        memmem::find(&text[at..], &self.line_start).map(|found| at + found + self.line_start.len())
    }

    /// The terminator at `at`, if there is one, and the offset after it.
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
                // A quote that neither ends the field nor is doubled belongs to the value.
                Mark::Nothing => pos += 1,
            }
        }
    }

    /// Whether the last row of `text` lacks a terminator.
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

    /// Passes the rows of `text`, all of them whole, to `visitor`. Field `n` is decoded according
    /// to `decode[n]`, or taken as it is if there is no such entry. Returns the number of rows.
    ///
    /// # Errors
    /// The visitor's errors, text that ends within an enclosed field, and invalid hexadecimal or
    /// base64.
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

    /// Appends a field's value: resolves escapes by the server's rules, and doubled quotes.
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

/// Whether the byte after `before` is escaped: an odd number of escape characters precedes it.
#[inline]
fn is_escaped(before: &[u8], escape: u8) -> bool {
    let run = before
        .iter()
        .rev()
        .take_while(|&&byte| byte == escape)
        .count();
    run % 2 == 1
}

/// How to read a delimited file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelimitedFile {
    /// Terminators, enclosure and escapes.
    pub format: Delimited,
    /// Character set; `binary` if each value is in its column's own character set.
    pub charset: String,
    /// Number of lines to skip before the header and the rows.
    pub skip_lines: u64,
    /// Whether the first line names the columns.
    pub header: bool,
    /// The column of each field and how to decode it; `None` for all columns of the table in order.
    pub fields: Option<Vec<(String, Decode)>>,
    /// The table, if it is not the one in the file name.
    pub table: Option<String>,
    /// Whether every row ends with a terminator: a file that does not end with one is truncated.
    pub closed: bool,
    /// Whether the writer escaped characters rather than bytes: `SELECT … INTO OUTFILE` leaves the
    /// bytes of a multibyte character as they are, even those that look like a terminator.
    pub by_character: bool,
    /// Statements that start the session of its rows, after those of the layout.
    pub session: Vec<String>,
}

/// The format of a file's rows, and how their fields are decoded.
#[derive(Debug)]
pub struct DelimitedRows {
    /// Terminators, enclosure and escapes.
    pub format: Delimited,
    /// How to decode each field, in file order.
    pub decode: Vec<Decode>,
    /// Character set of the text; `binary` if each value is in its column's own character set.
    pub charset: String,
}

#[cfg(test)]
mod tests;
