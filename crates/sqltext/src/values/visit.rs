//! The loop over the tuples of an insert statement and their values.

use super::{RowVisitor, StrLit};
use crate::mode::{CharsetFamily, LexMode, Quoted, find_end, is_blank, is_word, skip_quoted};
use crate::token::{is_conditional, is_dash_comment};

/// Why a visit ended early. Positions are bytes from the start of the rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VisitError<E> {
    /// The visitor refused a value or a row.
    #[error("{error}, at byte {at} of the rows")]
    Visitor {
        /// Start of the value or row.
        at: usize,
        /// The visitor's error.
        error: E,
    },
    /// The text is not a list of tuples.
    #[error("expected {expected} at byte {at} of the rows")]
    Syntax {
        /// Where the syntax is wrong.
        at: usize,
        /// What was expected there.
        expected: &'static str,
    },
}

/// Visits the tuples of `rows`, `(…),(…)`, and returns their number.
pub fn visit_rows<V: RowVisitor>(
    rows: &[u8],
    mode: LexMode,
    visitor: &mut V,
) -> Result<u64, VisitError<V::Error>> {
    let mut cursor = Cursor {
        text: rows,
        pos: 0,
        mode,
    };
    let mut count = 0;
    loop {
        cursor.blanks();
        cursor.expect(b'(', "an opening parenthesis")?;
        let at = cursor.pos - 1;
        visitor
            .begin_row(at)
            .map_err(|error| VisitError::Visitor { at, error })?;
        cursor.values(visitor)?;
        visitor
            .end_row(cursor.pos)
            .map_err(|error| VisitError::Visitor { at, error })?;
        count += 1;
        cursor.blanks();
        if cursor.pos == rows.len() {
            return Ok(count);
        }
        cursor.expect(b',', "a comma between rows")?;
    }
}

struct Cursor<'a> {
    text: &'a [u8],
    pos: usize,
    mode: LexMode,
}

enum Literal<'a> {
    Null,
    Default,
    Number(&'a [u8]),
    String(StrLit<'a>),
    Hex(&'a [u8]),
    Bit(&'a [u8]),
}

impl<'a> Cursor<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    #[inline]
    fn expect<E>(&mut self, byte: u8, expected: &'static str) -> Result<(), VisitError<E>> {
        if self.peek() == Some(byte) {
            self.pos += 1;
            return Ok(());
        }
        Err(VisitError::Syntax {
            at: self.pos,
            expected,
        })
    }

    /// Skips blanks and plain comments.
    #[inline]
    fn blanks(&mut self) {
        if let Some(b) = self.peek()
            && (is_blank(b) || matches!(b, b'#' | b'-' | b'/'))
        {
            self.pos = skip_blanks(self.text, self.pos);
        }
    }

    /// Visits all values of one tuple and consumes its closing parenthesis.
    #[inline]
    fn values<V: RowVisitor>(&mut self, visitor: &mut V) -> Result<(), VisitError<V::Error>> {
        self.blanks();
        if self.peek() == Some(b')') {
            self.pos += 1;
            return Ok(());
        }
        loop {
            let at = self.pos;
            let result = match self.common_literal() {
                Some(Literal::String(text)) => visitor.string(text),
                Some(Literal::Number(text)) => visitor.number(text),
                Some(_) => visitor.null(),
                None => {
                    self.pos = at;
                    self.rare_value(visitor)?
                }
            };
            result.map_err(|error| VisitError::Visitor { at, error })?;
            let end = self.peek();
            self.pos += 1;
            if end == Some(b')') {
                return Ok(());
            }
            self.blanks();
        }
    }

    /// A number without an exponent, a string without an introducer, or `NULL`, directly followed
    /// by its comma or closing parenthesis: nearly all values of nearly all dumps. After `None`,
    /// the position is meaningless.
    #[inline]
    fn common_literal(&mut self) -> Option<Literal<'a>> {
        let start = self.pos;
        let literal = match self.peek()? {
            b'\'' => Literal::String(self.string(b'\'')?),
            b'0'..=b'9' | b'-' => {
                self.pos += 1;
                self.digits();
                if self.peek() == Some(b'.') {
                    self.pos += 1;
                    self.digits();
                }
                let text = &self.text[start..self.pos];
                if !text[text.len() - 1].is_ascii_digit() {
                    return None;
                }
                Literal::Number(text)
            }
            b'N' if self.text[start..].starts_with(b"NULL") => {
                self.pos += 4;
                Literal::Null
            }
            _ => return None,
        };
        matches!(self.peek(), Some(b',' | b')')).then_some(literal)
    }

    /// Visits any value; stops at the comma or parenthesis after it.
    #[inline(never)]
    fn rare_value<V: RowVisitor>(
        &mut self,
        visitor: &mut V,
    ) -> Result<Result<(), V::Error>, VisitError<V::Error>> {
        let at = self.pos;
        let literal = self.literal();
        self.blanks();
        Ok(match (literal, self.peek()) {
            (Some(literal), Some(b',' | b')')) => match literal {
                Literal::String(text) => visitor.string(text),
                Literal::Number(text) => visitor.number(text),
                Literal::Null => visitor.null(),
                Literal::Default => visitor.default(),
                Literal::Hex(digits) => visitor.hex(digits),
                Literal::Bit(digits) => visitor.bit(digits),
            },
            _ => visitor.expression(self.expression(at)?),
        })
    }

    /// One literal at `pos`. After `None`, the position is meaningless.
    #[inline]
    fn literal(&mut self) -> Option<Literal<'a>> {
        match self.peek()? {
            b'\'' => self.string(b'\'').map(Literal::String),
            b'0' if matches!(self.text.get(self.pos + 1), Some(b'x' | b'b')) => {
                self.prefixed_digits()
            }
            b'0'..=b'9' | b'-' | b'+' | b'.' => self.number().map(Literal::Number),
            b'"' if !self.mode.ansi_quotes => self.string(b'"').map(Literal::String),
            b'\\' if self.text.get(self.pos + 1) == Some(&b'N') => {
                self.pos += 2;
                Some(Literal::Null)
            }
            b if is_word(b) => self.word_literal(),
            _ => None,
        }
    }

    #[inline]
    fn number(&mut self) -> Option<&'a [u8]> {
        let start = self.pos;
        if matches!(self.peek(), Some(b'-' | b'+')) {
            self.pos += 1;
        }
        let mut digits = self.digits();
        if self.peek() == Some(b'.') {
            self.pos += 1;
            digits += self.digits();
        }
        if digits == 0 {
            return None;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.pos += 1;
            if matches!(self.peek(), Some(b'-' | b'+')) {
                self.pos += 1;
            }
            if self.digits() == 0 {
                return None;
            }
        }
        Some(&self.text[start..self.pos])
    }

    #[inline]
    fn digits(&mut self) -> usize {
        let start = self.pos;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.pos += 1;
        }
        self.pos - start
    }

    /// The string that opens with `quote` at `pos`.
    #[inline]
    fn string(&mut self, quote: u8) -> Option<StrLit<'a>> {
        let start = self.pos + 1;
        if self.mode.charset_family != CharsetFamily::Plain {
            return self.string_multibyte(quote);
        }
        let mut literal = StrLit {
            raw: &[],
            introducer: None,
            has_backslash: false,
            has_doubled_quote: false,
            quote,
            family: CharsetFamily::Plain,
        };
        let escapes = self.mode.escapes_in(quote);
        let mut pos = start;
        loop {
            pos += find_end(self.text.get(pos..)?, quote, escapes)?;
            if self.text[pos] == b'\\' && escapes {
                literal.has_backslash = true;
                pos += 2;
            } else if self.text.get(pos + 1) == Some(&quote) {
                literal.has_doubled_quote = true;
                pos += 2;
            } else {
                literal.raw = &self.text[start..pos];
                self.pos = pos + 1;
                return Some(literal);
            }
        }
    }

    #[cold]
    fn string_multibyte(&mut self, quote: u8) -> Option<StrLit<'a>> {
        let start = self.pos + 1;
        let mut pos = start;
        while let Quoted::Closed(end) = skip_quoted(self.text, pos, quote, self.mode, true) {
            if self.text.get(end) == Some(&quote) {
                pos = end + 1;
                continue;
            }
            self.pos = end;
            return Some(StrLit::new(&self.text[start..end - 1], quote, self.mode));
        }
        None
    }

    /// `0x…` and `0b…`.
    fn prefixed_digits(&mut self) -> Option<Literal<'a>> {
        let hex = self.text[self.pos + 1] == b'x';
        let start = self.pos + 2;
        let body = &self.text[start..];
        let len = body.iter().position(|&b| !is_word(b)).unwrap_or(body.len());
        self.pos = start + len;
        digits_literal(&body[..len], hex).filter(|_| len > 0)
    }

    /// `NULL`, `DEFAULT`, `x'…'`, `b'…'`, `N'…'`, `_charset'…'`.
    fn word_literal(&mut self) -> Option<Literal<'a>> {
        let start = self.pos;
        let rest = &self.text[start..];
        let len = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
        let word = &rest[..len];
        self.pos = start + len;
        if word.eq_ignore_ascii_case(b"NULL") {
            return Some(Literal::Null);
        }
        if word.eq_ignore_ascii_case(b"DEFAULT") {
            return Some(Literal::Default);
        }
        if let [letter] = word
            && self.peek() == Some(b'\'')
        {
            return match letter {
                b'x' | b'X' => self.quoted_digits(true),
                b'b' | b'B' => self.quoted_digits(false),
                b'n' | b'N' => self.introduced(word),
                _ => None,
            };
        }
        if word[0] == b'_' {
            self.blanks();
            return match self.peek()? {
                b'\'' | b'"' => self.introduced(word),
                _ if word.eq_ignore_ascii_case(b"_binary") => {
                    self.literal().filter(|l| matches!(l, Literal::Hex(_)))
                }
                _ => None,
            };
        }
        None
    }

    fn introduced(&mut self, introducer: &'a [u8]) -> Option<Literal<'a>> {
        let quote = self.peek()?;
        if quote == b'"' && self.mode.ansi_quotes {
            return None;
        }
        let mut literal = self.string(quote)?;
        literal.introducer = Some(introducer);
        Some(Literal::String(literal))
    }

    fn quoted_digits(&mut self, hex: bool) -> Option<Literal<'a>> {
        let start = self.pos + 1;
        let len = memchr::memchr(b'\'', &self.text[start..])?;
        self.pos = start + len + 1;
        let digits = &self.text[start..start + len];
        digits_literal(digits, hex).filter(|_| !hex || len % 2 == 0)
    }

    /// The expression from `at` to the comma or parenthesis that ends it; stops there.
    #[cold]
    fn expression<E>(&mut self, at: usize) -> Result<&'a [u8], VisitError<E>> {
        let end = expression_end(self.text, at, self.mode).ok_or(VisitError::Syntax {
            at,
            expected: "a value and a comma or closing parenthesis behind it",
        })?;
        self.pos = end;
        let text = self.text[at..end].trim_ascii_end();
        if text.is_empty() {
            return Err(VisitError::Syntax {
                at,
                expected: "a value",
            });
        }
        Ok(text)
    }
}

fn digits_literal(digits: &[u8], hex: bool) -> Option<Literal<'_>> {
    if hex {
        digits
            .iter()
            .all(u8::is_ascii_hexdigit)
            .then_some(Literal::Hex(digits))
    } else {
        digits
            .iter()
            .all(|b| matches!(b, b'0' | b'1'))
            .then_some(Literal::Bit(digits))
    }
}

#[cold]
fn skip_blanks(text: &[u8], mut pos: usize) -> usize {
    loop {
        let rest = &text[pos..];
        match rest.first() {
            Some(&b) if is_blank(b) => pos += 1,
            Some(b'#') => pos = line_end(text, pos),
            Some(b'-') if is_dash_comment(rest) => pos = line_end(text, pos),
            Some(b'/') if rest.starts_with(b"/*") && !is_conditional(rest) => {
                match memchr::memmem::find(&rest[2..], b"*/") {
                    Some(i) => pos += i + 4,
                    None => return pos,
                }
            }
            _ => return pos,
        }
    }
}

fn line_end(text: &[u8], pos: usize) -> usize {
    memchr::memchr(b'\n', &text[pos..]).map_or(text.len(), |i| pos + i + 1)
}

#[expect(clippy::match_same_arms, reason = "brackets and commas apart")]
/// Where the value at `pos` ends: at a comma or closing parenthesis of its own level.
fn expression_end(text: &[u8], mut pos: usize, mode: LexMode) -> Option<usize> {
    let mut depth = 0_u32;
    while let Some(&b) = text.get(pos) {
        let skipped = skip_blanks(text, pos);
        if skipped > pos {
            pos = skipped;
            continue;
        }
        match b {
            b'\'' | b'"' | b'`' => match skip_quoted(text, pos + 1, b, mode, true) {
                Quoted::Closed(end) => {
                    pos = end;
                    continue;
                }
                Quoted::Open(_) => return None,
            },
            b'(' => depth += 1,
            b')' if depth == 0 => return Some(pos),
            b')' => depth -= 1,
            b',' if depth == 0 => return Some(pos),
            _ => {}
        }
        pos += mode
            .charset_family
            .char_len(&text[pos..], true)
            .unwrap_or(1)
            .max(1);
    }
    None
}
