//! A cursor over a list of tokens.

use crate::classify::ObjectName;
use crate::token::{Token, TokenKind};

/// Tokens of one part of a statement, without the borders of conditional comments.
#[derive(Clone, Debug)]
pub(super) struct Stream<'a> {
    pub(super) text: &'a [u8],
    pub(super) list: &'a [Token],
}

impl<'a> Stream<'a> {
    pub(super) fn new(text: &'a [u8], list: &'a [Token]) -> Self {
        Self { text, list }
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.list.first()
    }

    pub(super) fn next(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.list.split_first()?;
        self.list = rest;
        Some(first)
    }

    pub(super) fn is(&self, keyword: &str) -> bool {
        self.peek().is_some_and(|t| t.is(self.text, keyword))
    }

    /// Consumes the word if it comes next.
    pub(super) fn word(&mut self, keyword: &str) -> bool {
        let hit = self.is(keyword);
        if hit {
            self.next();
        }
        hit
    }

    pub(super) fn any(&mut self, keywords: &[&str]) -> bool {
        keywords.iter().any(|k| self.word(k))
    }

    pub(super) fn is_punct(&self, byte: u8) -> bool {
        self.peek().is_some_and(|t| t.is_punct(byte))
    }

    pub(super) fn punct(&mut self, byte: u8) -> bool {
        let hit = self.is_punct(byte);
        if hit {
            self.next();
        }
        hit
    }

    pub(super) fn name(&mut self) -> Option<Vec<u8>> {
        self.next()?.name(self.text)
    }

    pub(super) fn object(&mut self) -> Option<ObjectName> {
        let name = self.name()?;
        if self.punct(b'.') {
            return Some(ObjectName {
                database: Some(name),
                name: self.name()?,
            });
        }
        Some(ObjectName {
            database: None,
            name,
        })
    }

    pub(super) fn if_not_exists(&mut self) -> bool {
        self.word("IF") && self.word("NOT") && self.word("EXISTS")
    }

    /// Consumes a parenthesised part, if one comes next, and returns what is between the
    /// parentheses.
    pub(super) fn parenthesised(&mut self) -> Option<Stream<'a>> {
        if !self.is_punct(b'(') {
            return None;
        }
        let mut depth = 0_usize;
        for (i, token) in self.list.iter().enumerate() {
            match token.kind {
                TokenKind::Punct(b'(') => depth += 1,
                TokenKind::Punct(b')') => {
                    depth -= 1;
                    if depth == 0 {
                        let inner = &self.list[1..i];
                        self.list = &self.list[i + 1..];
                        return Some(Stream::new(self.text, inner));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Splits at the commas of this level.
    pub(super) fn split_commas(&self) -> Vec<Stream<'a>> {
        let mut parts = Vec::new();
        let (mut depth, mut start) = (0_usize, 0);
        for (i, token) in self.list.iter().enumerate() {
            match token.kind {
                TokenKind::Punct(b'(') => depth += 1,
                TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
                TokenKind::Punct(b',') if depth == 0 => {
                    parts.push(Stream::new(self.text, &self.list[start..i]));
                    start = i + 1;
                }
                _ => {}
            }
        }
        parts.push(Stream::new(self.text, &self.list[start..]));
        parts
    }
}
