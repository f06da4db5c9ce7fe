//! Parses `SET` statements into assignments.

use crate::mode::LexMode;
use crate::token::{Token, TokenKind, tokens};
use crate::values::{StrLit, unescape_text};

/// What a `SET` assignment applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetScope {
    /// `@name = …`: a user variable.
    User,
    /// `name`, `SESSION name`, `LOCAL name`, `@@name`, `@@session.name`.
    Session,
    /// `GLOBAL name`, `@@global.name`.
    Global,
    /// `PERSIST`, `PERSIST_ONLY` and their `@@` forms (MySQL).
    Persist,
    /// `SET NAMES x [COLLATE y]`: assigns to `names` and `collate`.
    Names,
    /// `SET CHARACTER SET x`, `SET CHARSET x`: assigns to `character_set`.
    CharacterSet,
}

/// One assignment of a `SET` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAssignment {
    /// What the assignment applies to.
    pub scope: SetScope,
    /// Variable name without `@`, scope and quotes; system variables in lower case.
    pub name: Vec<u8>,
    /// Verbatim text of the value.
    pub value: Vec<u8>,
    /// Where the value begins in the statement, in bytes.
    pub value_at: usize,
    /// The value when it is a single literal or word, unescaped and without quotes. `None` for an
    /// expression or another variable.
    pub literal: Option<Vec<u8>>,
}

/// Parses a `SET` statement, also inside conditional comments. `None` if the text is no `SET`, or
/// one of another kind (`SET PASSWORD`, `SET ROLE`, `SET TRANSACTION`, `SET STATEMENT … FOR`).
pub fn parse_set(text: &[u8], mode: LexMode) -> Option<Vec<SetAssignment>> {
    let list: Vec<Token> = tokens(text, mode).code().collect();
    let mut reader = Reader {
        text,
        mode,
        list,
        at: 0,
    };
    if !reader.word("SET") {
        return None;
    }
    let mut found = Vec::new();
    loop {
        reader.assignment(&mut found)?;
        if reader.at == reader.list.len() {
            return Some(found);
        }
        if !reader.punct(b',') {
            return None;
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    mode: LexMode,
    list: Vec<Token>,
    at: usize,
}

impl Reader<'_> {
    fn word(&mut self, keyword: &str) -> bool {
        let hit = self
            .list
            .get(self.at)
            .is_some_and(|t| t.is(self.text, keyword));
        self.at += usize::from(hit);
        hit
    }

    fn punct(&mut self, byte: u8) -> bool {
        let hit = self.list.get(self.at).is_some_and(|t| t.is_punct(byte));
        self.at += usize::from(hit);
        hit
    }

    fn assignment(&mut self, found: &mut Vec<SetAssignment>) -> Option<()> {
        let names = self.at;
        if self.word("PASSWORD") {
            return None;
        }
        if self.word("NAMES") && !self.comes_assign() {
            let charset = self.names_value()?;
            found.push(self.make(SetScope::Names, b"names", charset));
            if self.word("COLLATE") {
                let collation = self.names_value()?;
                found.push(self.make(SetScope::Names, b"collate", collation));
            }
            return Some(());
        }
        self.at = names;
        if self.word("CHARSET") || (self.word("CHARACTER") && self.word("SET")) {
            let charset = self.names_value()?;
            found.push(self.make(SetScope::CharacterSet, b"character_set", charset));
            return Some(());
        }
        self.at = names;
        let (scope, name) = self.target()?;
        self.punct(b':');
        if !self.punct(b'=') {
            return None;
        }
        let value = self.value()?;
        found.push(self.make(scope, &name, value));
        Some(())
    }

    fn comes_assign(&self) -> bool {
        self.list
            .get(self.at)
            .is_some_and(|t| t.is_punct(b'=') || t.is_punct(b':'))
    }

    /// The variable on the left-hand side.
    fn target(&mut self) -> Option<(SetScope, Vec<u8>)> {
        if self.punct(b'@') {
            if !self.punct(b'@') {
                let token = self.list.get(self.at)?;
                let name = match token.kind {
                    TokenKind::Text => unquote(self.text, token, self.mode),
                    _ => token.name(self.text)?,
                };
                self.at += 1;
                let name = self.dotted(name)?;
                return Some((SetScope::User, name));
            }
            let scope = match self.scope_word() {
                Some(scope) if self.punct(b'.') => scope,
                Some(_) => return None,
                None => SetScope::Session,
            };
            return Some((scope, self.variable()?));
        }
        let before = self.at;
        let mut scope = self.scope_word().unwrap_or(SetScope::Session);
        if self.comes_assign() {
            // A variable named like a scope.
            self.at = before;
            scope = SetScope::Session;
        }
        Some((scope, self.variable()?))
    }

    fn scope_word(&mut self) -> Option<SetScope> {
        let scopes = [
            ("GLOBAL", SetScope::Global),
            ("SESSION", SetScope::Session),
            ("LOCAL", SetScope::Session),
            ("PERSIST", SetScope::Persist),
            ("PERSIST_ONLY", SetScope::Persist),
        ];
        scopes
            .into_iter()
            .find(|(word, _)| self.word(word))
            .map(|(_, scope)| scope)
    }

    fn variable(&mut self) -> Option<Vec<u8>> {
        let name = self.list.get(self.at)?.name(self.text)?;
        self.at += 1;
        Some(self.dotted(name)?.to_ascii_lowercase())
    }

    /// Appends the rest of a dotted name such as `hot_cache.key_buffer_size`.
    fn dotted(&mut self, mut name: Vec<u8>) -> Option<Vec<u8>> {
        while self.punct(b'.') {
            name.push(b'.');
            name.extend(self.list.get(self.at)?.name(self.text)?);
            self.at += 1;
        }
        Some(name)
    }

    fn names_value(&mut self) -> Option<(usize, usize)> {
        let start = self.at;
        let token = self.list.get(start)?;
        let fits = matches!(
            token.kind,
            TokenKind::Word | TokenKind::Text | TokenKind::QuotedName
        );
        self.at += 1;
        fits.then_some((start, start + 1))
    }

    /// Token indexes of a value: up to a comma outside parentheses.
    fn value(&mut self) -> Option<(usize, usize)> {
        let start = self.at;
        let mut depth = 0_u32;
        while let Some(token) = self.list.get(self.at) {
            match token.kind {
                TokenKind::Punct(b'(') => depth += 1,
                TokenKind::Punct(b')') => depth = depth.checked_sub(1)?,
                TokenKind::Punct(b',') if depth == 0 => break,
                TokenKind::Unterminated => return None,
                _ => {}
            }
            self.at += 1;
        }
        (self.at > start && depth == 0).then_some((start, self.at))
    }

    fn make(&self, scope: SetScope, name: &[u8], (start, end): (usize, usize)) -> SetAssignment {
        let part = &self.list[start..end];
        let range = part[0].range.start..part[part.len() - 1].range.end;
        let literal = match part {
            [one] if one.kind == TokenKind::Text => Some(unquote(self.text, one, self.mode)),
            [one] => one.name(self.text),
            [sign, one] if sign.is_punct(b'-') && one.kind == TokenKind::Number => {
                Some(self.text[range.clone()].to_vec())
            }
            _ => None,
        };
        SetAssignment {
            scope,
            name: name.to_vec(),
            value_at: range.start,
            value: self.text[range].to_vec(),
            literal,
        }
    }
}

/// The value of a string token: its text, unquoted and unescaped.
pub(crate) fn unquote(text: &[u8], token: &Token, mode: LexMode) -> Vec<u8> {
    let raw = &text[token.range.clone()];
    let mut out = Vec::with_capacity(raw.len());
    unescape_text(&StrLit::new(&raw[1..raw.len() - 1], raw[0], mode), &mut out);
    out
}
