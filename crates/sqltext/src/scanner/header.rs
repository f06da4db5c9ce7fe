//! Parses the head of an insert statement, up to its first tuple.

use std::ops::Range;

use super::{InsertHeader, InsertVerb};
use crate::mode::LexMode;
use crate::token::{Token, TokenKind, tokens};

/// A statement with a longer head is not cut into rows. 4096 columns of 64 characters of 4 bytes,
/// with quotes, fit.
const HEADER_MAX: usize = 2 << 20;

/// Outcome of [`scan_header`].
#[derive(Debug)]
pub(super) enum HeaderScan {
    /// The text ends too early to tell.
    Incomplete,
    /// A different form of statement.
    NotRows,
    /// Rows follow the header's text.
    Rows(InsertHeader),
}

/// Parses `INSERT [IGNORE] [INTO] [db.]table [(columns)] VALUES` and checks that `(` follows.
pub(super) fn scan_header(rest: &[u8], mode: LexMode, delimiter: &[u8], eof: bool) -> HeaderScan {
    let window = &rest[..rest.len().min(HEADER_MAX)];
    let whole = eof || rest.len() >= HEADER_MAX;
    let mut stream = tokens(window, mode);
    // A token that touches the end of the text may continue past it.
    let mut cut = false;
    let mut names = Vec::new();
    let mut next = || match stream.next() {
        Some(token) if token.range.end < window.len() || whole => {
            if token.kind == TokenKind::QuotedName {
                names.push(token.range.clone());
            }
            Some(token)
        }
        _ => {
            cut = true;
            None
        }
    };
    let header = parse(window, &mut next);
    match header {
        Some(header) if ends_before(&header.text, &names, delimiter) => HeaderScan::NotRows,
        Some(header) => HeaderScan::Rows(header),
        None if cut && !whole => HeaderScan::Incomplete,
        None => HeaderScan::NotRows,
    }
}

/// Whether the delimiter occurs in the head outside quoted names.
fn ends_before(head: &[u8], names: &[Range<usize>], delimiter: &[u8]) -> bool {
    if memchr::memmem::find(head, delimiter).is_none() {
        return false;
    }
    let mut bare = head.to_vec();
    for name in names {
        if let Some(name) = bare.get_mut(name.clone()) {
            name.fill(b'`');
        }
    }
    memchr::memmem::find(&bare, delimiter).is_some()
}

fn parse(text: &[u8], next: &mut impl FnMut() -> Option<Token>) -> Option<InsertHeader> {
    let word = next()?;
    let insert = word.is(text, "INSERT");
    let mut verb = if insert {
        InsertVerb::Insert
    } else {
        InsertVerb::Replace
    };
    let mut token = next()?;
    for other in ["LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED"] {
        if token.is(text, other) {
            return None;
        }
    }
    if insert && token.is(text, "IGNORE") {
        verb = InsertVerb::InsertIgnore;
        token = next()?;
    }
    if token.is(text, "INTO") {
        token = next()?;
    }
    let mut database = None;
    let mut table = token.name(text)?;
    token = next()?;
    if token.is_punct(b'.') {
        database = Some(std::mem::replace(&mut table, next()?.name(text)?));
        token = next()?;
    }
    let mut columns = None;
    if token.is_punct(b'(') {
        columns = Some(parse_columns(text, next)?);
        token = next()?;
    }
    if !token.is(text, "VALUES") && !token.is(text, "VALUE") {
        return None;
    }
    let open = next()?;
    open.is_punct(b'(').then(|| InsertHeader {
        verb,
        database,
        table,
        columns,
        text: text[..open.range.start].to_vec(),
    })
}

fn parse_columns(text: &[u8], next: &mut impl FnMut() -> Option<Token>) -> Option<Vec<Vec<u8>>> {
    let mut columns = Vec::new();
    let mut token = next()?;
    if token.is_punct(b')') {
        return Some(columns);
    }
    loop {
        if !matches!(
            token.kind,
            TokenKind::Word | TokenKind::QuotedName | TokenKind::Number
        ) {
            return None;
        }
        columns.push(token.name(text)?);
        token = next()?;
        if token.is_punct(b')') {
            return Some(columns);
        }
        if !token.is_punct(b',') {
            return None;
        }
        token = next()?;
    }
}
