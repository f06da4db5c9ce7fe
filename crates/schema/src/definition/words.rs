//! Reads the parts of a definition, and tells whether two texts say the same.

use std::ops::Range;

use refloat_sqltext::ddl::CreateTable;
use refloat_sqltext::values::unescape_text;
use refloat_sqltext::{CharsetFamily, LexMode, StrLit, Token, TokenKind, tokens};

/// One of the two definitions being compared.
pub struct Side<'a> {
    /// The text, with conditional comments resolved.
    pub text: &'a [u8],
    /// How to read the text.
    pub mode: LexMode,
    /// The parsed definition.
    pub table: &'a CreateTable,
}

impl<'a> Side<'a> {
    /// A reader over a part of the text.
    pub fn words(&self, range: &Range<usize>) -> Words<'a> {
        Words::new(&self.text[range.clone()], self.mode)
    }

    /// A part of the text, for display.
    pub fn shown(&self, range: &Range<usize>) -> String {
        String::from_utf8_lossy(&self.text[range.clone()]).into_owned()
    }
}

/// A reader over the tokens of a part.
#[derive(Clone)]
pub struct Words<'a> {
    text: &'a [u8],
    mode: LexMode,
    list: Vec<Token>,
    at: usize,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a [u8], mode: LexMode) -> Self {
        let list = tokens(text, mode).code().collect();
        Self {
            text,
            mode,
            list,
            at: 0,
        }
    }

    /// The next token, without taking it.
    pub fn peek(&self) -> Option<&Token> {
        self.list.get(self.at)
    }

    /// Takes the next token.
    pub fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// Whether this keyword comes next.
    pub fn is(&self, keyword: &str) -> bool {
        self.peek()
            .is_some_and(|token| token.is(self.text, keyword))
    }

    /// Whether one of these keywords comes next.
    pub fn is_any(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    /// Takes the keyword if it comes next.
    pub fn word(&mut self, keyword: &str) -> bool {
        let hit = self.is(keyword);
        self.at += usize::from(hit);
        hit
    }

    /// Takes these keywords if they come next, in this order.
    pub fn words(&mut self, keywords: &[&str]) -> bool {
        let before = self.at;
        let all = keywords.iter().all(|keyword| self.word(keyword));
        if !all {
            self.at = before;
        }
        all
    }

    /// Whether this byte of punctuation comes next.
    pub fn is_punct(&self, byte: u8) -> bool {
        self.peek().is_some_and(|token| token.is_punct(byte))
    }

    /// Takes a name.
    pub fn name(&mut self) -> Option<Vec<u8>> {
        let name = self.peek()?.name(self.text)?;
        self.at += 1;
        Some(name)
    }

    /// Takes a value, with or without an equals sign before it: a string without its quotes, or a
    /// word.
    pub fn value(&mut self) -> Option<Vec<u8>> {
        if self.is_punct(b'=') {
            self.at += 1;
        }
        let token = self.next()?;
        match token.kind {
            TokenKind::Text => Some(self.unquoted(&token)),
            _ => token.name(self.text),
        }
    }

    /// Takes a part in parentheses if one comes next; returns what is inside.
    pub fn parenthesised(&mut self) -> Option<&'a [u8]> {
        if !self.is_punct(b'(') {
            return None;
        }
        let start = self.peek()?.range.end;
        let mut depth = 0_usize;
        for (index, token) in self.list.iter().enumerate().skip(self.at) {
            match token.kind {
                TokenKind::Punct(b'(') => depth += 1,
                TokenKind::Punct(b')') => {
                    depth -= 1;
                    if depth == 0 {
                        self.at = index + 1;
                        return Some(&self.text[start..token.range.start]);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Takes everything before the first of these keywords outside parentheses, but at least one
    /// token.
    pub fn until(&mut self, keywords: &[&str]) -> &'a [u8] {
        let Some(first) = self.peek() else {
            return &[];
        };
        let start = first.range.start;
        let mut end = start;
        let from = self.at;
        while self.peek().is_some() && (self.at == from || !self.is_any(keywords)) {
            if self.parenthesised().is_none() {
                self.at += 1;
            }
            end = self.list[self.at - 1].range.end;
        }
        &self.text[start..end]
    }

    /// The remaining tokens.
    pub fn rest(&self) -> &[Token] {
        self.list.get(self.at..).unwrap_or_default()
    }

    /// The bytes of a token.
    pub fn bytes(&self, token: &Token) -> &'a [u8] {
        &self.text[token.range.clone()]
    }

    /// The value of a string token.
    pub fn unquoted(&self, token: &Token) -> Vec<u8> {
        let raw = self.bytes(token);
        let mut out = Vec::with_capacity(raw.len());
        let inner = &raw[1..raw.len() - 1];
        unescape_text(&StrLit::new(inner, raw[0], self.mode), &mut out);
        out
    }
}

/// Splits a text at the commas outside parentheses.
pub fn split_commas(text: &[u8], mode: LexMode) -> Vec<&[u8]> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for token in tokens(text, mode).code() {
        match token.kind {
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
            TokenKind::Punct(b',') if depth == 0 => {
                parts.push(&text[start..token.range.start]);
                start = token.range.end;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// An expression without what servers write differently: blanks, quotes around names, parentheses,
/// character sets before strings, and the case of words. Equal results mean the same expression;
/// different results may, too.
pub fn plain(text: &[u8], mode: LexMode) -> Vec<u8> {
    let words = Words::new(text, mode);
    let mut out = Vec::with_capacity(text.len());
    for (index, token) in words.list.iter().enumerate() {
        let before_text = words
            .list
            .get(index + 1)
            .is_some_and(|next| next.kind == TokenKind::Text);
        let bytes = words.bytes(token);
        match token.kind {
            TokenKind::Word if bytes[0] == b'_' && before_text => {}
            TokenKind::Text => {
                out.push(b'\'');
                out.extend(words.unquoted(token));
                out.push(b'\'');
            }
            TokenKind::QuotedName => {
                out.extend(token.name(text).unwrap_or_default().to_ascii_lowercase());
            }
            TokenKind::Punct(b'(' | b')') => {}
            _ => out.extend(bytes.to_ascii_lowercase()),
        }
    }
    out
}

/// Whether two texts can be the same. The dump's text is in its client's character set, the
/// server's in that of the connection, so beyond ASCII only the positions are compared. Backslashes
/// are ignored, because they depend on the mode too.
pub fn agree(dump: &[u8], mode: LexMode, server: &[u8]) -> bool {
    if !dump.is_ascii() && mode.charset_family != CharsetFamily::Plain {
        return true;
    }
    outline(dump) == outline(server)
}

/// Same as [`agree`] but regardless of case, for names.
pub fn names_agree(dump: &[u8], mode: LexMode, server: &[u8]) -> bool {
    agree(&lower(dump), mode, &lower(server))
}

fn lower(text: &[u8]) -> Vec<u8> {
    text.to_ascii_lowercase()
}

/// The text with each run of non-ASCII bytes reduced to one byte, and without backslashes.
fn outline(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    for &byte in text.iter().filter(|byte| **byte != b'\\') {
        if byte.is_ascii() {
            out.push(byte);
        } else if out.last() != Some(&0x80) {
            out.push(0x80);
        }
    }
    out
}
