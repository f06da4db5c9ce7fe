//! Splits one statement into tokens, for classification and DDL. Rows have faster loops.

use std::ops::Range;

use crate::ident::fold_doubled;
use crate::mode::{LexMode, Quoted, is_blank, is_word, skip_quoted};

/// What a [`Token`] is, as far as its bytes alone tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An unquoted word: keyword, name or charset introducer. It may begin with digits (`1st`).
    Word,
    /// A name in backticks, or in double quotes under `ANSI_QUOTES`. The range includes the quotes.
    QuotedName,
    /// A string in single or double quotes. The range includes the quotes.
    Text,
    /// Digits only; signs, points and exponents are separate tokens.
    Number,
    /// `/*!` or `/*M!` with its version digits: some servers execute the text that follows.
    OpenConditional,
    /// The `*/` that ends a conditional comment.
    CloseConditional,
    /// Any other byte.
    Punct(u8),
    /// A quoted string or name, or a comment, that the text ends within.
    Unterminated,
}

/// One token: kind and byte range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is in the given [`LexMode`].
    pub kind: TokenKind,
    /// Its bytes in the text given to [`tokens`].
    pub range: Range<usize>,
}

impl Token {
    /// Is it this keyword? It must be unquoted, in any case; give `keyword` in upper case.
    pub fn is(&self, text: &[u8], keyword: &str) -> bool {
        self.kind == TokenKind::Word
            && text[self.range.clone()].eq_ignore_ascii_case(keyword.as_bytes())
    }

    /// Is it this punctuation byte?
    pub fn is_punct(&self, byte: u8) -> bool {
        self.kind == TokenKind::Punct(byte)
    }

    /// The name that it spells, unquoted; `None` when it cannot be a name.
    pub fn name(&self, text: &[u8]) -> Option<Vec<u8>> {
        let raw = &text[self.range.clone()];
        match self.kind {
            TokenKind::Word | TokenKind::Number => Some(raw.to_vec()),
            TokenKind::QuotedName => Some(fold_doubled(&raw[1..raw.len() - 1], raw[0])),
            _ => None,
        }
    }
}

/// Iterates over the tokens of a statement, skipping blanks and plain comments (also
/// `/*+ hints */`). The content of conditional comments comes as ordinary tokens, between tokens
/// for their borders.
pub fn tokens(text: &[u8], mode: LexMode) -> Tokens<'_> {
    Tokens {
        text,
        mode,
        pos: 0,
        conditional: 0,
    }
}

/// See [`tokens`].
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    text: &'a [u8],
    mode: LexMode,
    pos: usize,
    conditional: u32,
}

impl<'a> Tokens<'a> {
    /// The text being split.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Only the tokens that carry meaning: drops the borders of conditional comments.
    pub fn code(self) -> impl Iterator<Item = Token> + Clone + 'a {
        self.filter(|t| {
            !matches!(
                t.kind,
                TokenKind::OpenConditional | TokenKind::CloseConditional
            )
        })
    }

    fn skip_blanks_and_comments(&mut self) -> Option<Token> {
        let text = self.text;
        loop {
            while self.pos < text.len() && is_blank(text[self.pos]) {
                self.pos += 1;
            }
            let rest = &text[self.pos..];
            if rest.first() == Some(&b'#') || is_dash_comment(rest) {
                self.pos = memchr::memchr(b'\n', rest).map_or(text.len(), |i| self.pos + i + 1);
            } else if rest.starts_with(b"/*") && !is_conditional(rest) {
                match memchr::memmem::find(&rest[2..], b"*/") {
                    Some(i) => self.pos += 2 + i + 2,
                    None => return Some(self.take(TokenKind::Unterminated, rest.len())),
                }
            } else {
                return None;
            }
        }
    }

    fn take(&mut self, kind: TokenKind, len: usize) -> Token {
        let range = self.pos..self.pos + len;
        self.pos = range.end;
        Token { kind, range }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        if let Some(token) = self.skip_blanks_and_comments() {
            return Some(token);
        }
        let rest = &self.text[self.pos..];
        let &first = rest.first()?;
        if matches!(first, b'\'' | b'"' | b'`') {
            return Some(self.quoted(first));
        }
        if is_word(first) {
            let len = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
            let digits = rest[..len].iter().all(u8::is_ascii_digit);
            return Some(self.take(
                if digits {
                    TokenKind::Number
                } else {
                    TokenKind::Word
                },
                len,
            ));
        }
        if is_conditional(rest) {
            self.conditional += 1;
            let mark = if rest[2] == b'!' { 3 } else { 4 };
            let digits = rest[mark..]
                .iter()
                .take(6)
                .take_while(|b| b.is_ascii_digit())
                .count();
            return Some(self.take(TokenKind::OpenConditional, mark + digits));
        }
        if self.conditional > 0 && rest.starts_with(b"*/") {
            self.conditional -= 1;
            return Some(self.take(TokenKind::CloseConditional, 2));
        }
        Some(self.take(TokenKind::Punct(first), 1))
    }
}

impl Tokens<'_> {
    fn quoted(&mut self, quote: u8) -> Token {
        let mut pos = self.pos + 1;
        loop {
            match skip_quoted(self.text, pos, quote, self.mode, true) {
                Quoted::Open(_) => {
                    let len = self.text.len() - self.pos;
                    return self.take(TokenKind::Unterminated, len);
                }
                Quoted::Closed(end) if self.text.get(end) == Some(&quote) => pos = end + 1,
                Quoted::Closed(end) => {
                    let is_name = quote == b'`' || (quote == b'"' && self.mode.ansi_quotes);
                    let kind = if is_name {
                        TokenKind::QuotedName
                    } else {
                        TokenKind::Text
                    };
                    return self.take(kind, end - self.pos);
                }
            }
        }
    }
}

/// `--` begins a comment only before a blank, a control byte or the end.
pub(crate) fn is_dash_comment(rest: &[u8]) -> bool {
    rest.starts_with(b"--") && rest.get(2).is_none_or(|&b| b <= b' ' || b == 0x7F)
}

/// Versions in conditional comments that MariaDB ignores: those of MySQL that it does not follow.
pub const ONLY_MYSQL: std::ops::RangeInclusive<u32> = 50_700..=99_999;

/// Does a conditional comment (`/*!` or `/*M!`) begin here?
pub(crate) fn is_conditional(rest: &[u8]) -> bool {
    rest.starts_with(b"/*!") || rest.starts_with(b"/*M!")
}
