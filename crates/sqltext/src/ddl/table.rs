//! Parses a `CREATE TABLE` statement as a whole: head, body, options, partitions.

use std::ops::Range;

use super::element::{element, value};
use super::stream::Stream;
use super::{CreateTable, DdlError, Element, TableOption};
use crate::mode::LexMode;
use crate::token::{Token, TokenKind, tokens};

/// Splits a `CREATE TABLE` statement, whether `SHOW CREATE TABLE` or a person wrote it.
pub fn parse_create_table(text: &[u8], mode: LexMode) -> Result<CreateTable, DdlError> {
    let all: Vec<Token> = tokens(text, mode).collect();
    if let Some(open) = all.iter().find(|t| t.kind == TokenKind::Unterminated) {
        return Err(DdlError::Unbalanced {
            at: open.range.start,
        });
    }
    let code: Vec<Token> = all.iter().filter(|t| !is_border(t)).cloned().collect();
    let mut stream = Stream::new(text, &code);
    let mut create = head(&mut stream).ok_or(DdlError::NotCreateTable)?;
    let mut lookahead = stream.clone();
    lookahead.punct(b'(');
    if lookahead.is("LIKE") {
        create.like = true;
        return Ok(create);
    }
    create.select = stream.list.iter().any(|t| t.is(text, "SELECT"));
    if stream.is_punct(b'(') && !lookahead.is("SELECT") {
        let at = stream.peek().map_or(0, |t| t.range.start);
        body(text, &all, at, mode, &mut create)?;
        stream.list = &code[code.partition_point(|t| t.range.start <= create.body.end)..];
    }
    tail(text, &all, &mut stream, mode, &mut create);
    Ok(create)
}

fn is_border(token: &Token) -> bool {
    matches!(
        token.kind,
        TokenKind::OpenConditional | TokenKind::CloseConditional
    )
}

/// `CREATE [OR REPLACE] [TEMPORARY] TABLE [IF NOT EXISTS] name`.
fn head(stream: &mut Stream<'_>) -> Option<CreateTable> {
    if !stream.word("CREATE") {
        return None;
    }
    let or_replace = stream.word("OR") && stream.word("REPLACE");
    let temporary = stream.word("TEMPORARY");
    if !stream.word("TABLE") {
        return None;
    }
    let if_not_exists = stream.if_not_exists();
    Some(CreateTable {
        table: stream.object()?,
        if_not_exists,
        temporary,
        or_replace,
        like: false,
        select: false,
        body: 0..0,
        elements: Vec::new(),
        options: Vec::new(),
        options_range: 0..0,
        partition: None,
    })
}

/// Parses the elements between the parenthesis at `at` and its partner.
fn body(
    text: &[u8],
    all: &[Token],
    at: usize,
    mode: LexMode,
    create: &mut CreateTable,
) -> Result<(), DdlError> {
    let first = all.partition_point(|t| t.range.start <= at);
    let (mut depth, mut conditional, mut start) = (1_usize, 0_usize, first);
    // A comma that only some servers see, or a comment that ends outside the body: the element can
    // be neither parsed nor removed.
    let mut unclear = false;
    for (i, token) in all.iter().enumerate().skip(first) {
        let mut ends = false;
        match token.kind {
            TokenKind::OpenConditional => conditional += 1,
            TokenKind::CloseConditional => conditional = conditional.saturating_sub(1),
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => {
                depth -= 1;
                ends = depth == 0;
            }
            TokenKind::Punct(b',') if depth == 1 && conditional == 0 => ends = true,
            TokenKind::Punct(b',') if depth == 1 => unclear = true,
            _ => {}
        }
        if !ends {
            continue;
        }
        let part = &all[start..i];
        if let (Some(begin), Some(end)) = (part.first(), part.last()) {
            let range = begin.range.start..end.range.end;
            let unclear = unclear || conditional > 0 || begin.kind == TokenKind::OpenConditional;
            create.elements.push(if unclear {
                Element::Other(range)
            } else {
                let code: Vec<Token> = part.iter().filter(|t| !is_border(t)).cloned().collect();
                element(Stream::new(text, &code), range, mode)
            });
        }
        unclear = false;
        start = i + 1;
        if depth == 0 {
            create.body = at + 1..token.range.start;
            return Ok(());
        }
    }
    Err(DdlError::Unbalanced { at })
}

/// Parses the options and partitions.
fn tail(
    text: &[u8],
    all: &[Token],
    stream: &mut Stream<'_>,
    mode: LexMode,
    create: &mut CreateTable,
) {
    let Some(first) = stream.peek() else {
        return;
    };
    let end = text.trim_ascii_end().len();
    // From the first token, or from the conditional comment that opens right before it.
    let begin = border_before(all, first.range.start);
    create.options_range = begin..end;
    while let Some(token) = stream.peek() {
        let start = token.range.start;
        let mut lookahead = stream.clone();
        if lookahead.word("PARTITION") && lookahead.word("BY") {
            let start = border_before(all, start);
            create.partition = Some(start..end);
            create.options_range = begin..text[..start].trim_ascii_end().len().max(begin);
            return;
        }
        if ["SELECT", "AS", "IGNORE", "REPLACE", "WITH"]
            .iter()
            .any(|w| stream.is(w))
            && !is_versioning(stream)
        {
            return;
        }
        if stream.punct(b',') {
            continue;
        }
        match option(stream, mode) {
            Some((name, value, end)) => {
                let range = start..end;
                create.options.push(TableOption { name, value, range });
            }
            None => return,
        }
    }
}

fn is_versioning(stream: &Stream<'_>) -> bool {
    let mut lookahead = stream.clone();
    lookahead.word("WITH") && lookahead.word("SYSTEM")
}

/// Start of the conditional comment that opens right before the token at `start`; else `start`.
fn border_before(all: &[Token], start: usize) -> usize {
    let i = all.partition_point(|t| t.range.start < start);
    match i.checked_sub(1).map(|i| &all[i]) {
        Some(token) if token.kind == TokenKind::OpenConditional => token.range.start,
        _ => start,
    }
}

/// Name, value and end of one option.
fn option(stream: &mut Stream<'_>, mode: LexMode) -> Option<(String, Vec<u8>, usize)> {
    for (first, second, third) in [
        ("WITH", "SYSTEM", "VERSIONING"),
        ("START", "TRANSACTION", ""),
    ] {
        let mut lookahead = stream.clone();
        if lookahead.word(first)
            && lookahead.word(second)
            && (third.is_empty() || lookahead.word(third))
        {
            let end = last_taken(stream.list, lookahead.list).end;
            *stream = lookahead;
            return Some((
                format!("{first} {second} {third}").trim_end().to_owned(),
                Vec::new(),
                end,
            ));
        }
    }
    let before = stream.list;
    stream.word("DEFAULT");
    let mut name = option_word(stream)?;
    match name.as_str() {
        "CHARACTER" if stream.word("SET") => "CHARSET".clone_into(&mut name),
        "DATA" | "INDEX" if stream.word("DIRECTORY") => name.push_str(" DIRECTORY"),
        _ => {}
    }
    let mut lookahead = stream.clone();
    lookahead.punct(b'=');
    let value = match lookahead.parenthesised() {
        Some(_) => {
            let start = stream.peek()?.range.start;
            *stream = lookahead;
            stream.text[start..last_taken(before, stream.list).end].to_vec()
        }
        None => value(stream, mode)?,
    };
    Some((name, value, last_taken(before, stream.list).end))
}

/// An option's name: a word, or in MariaDB a quoted, engine-specific name.
fn option_word(stream: &mut Stream<'_>) -> Option<String> {
    let name = stream.name()?;
    Some(String::from_utf8_lossy(&name).to_ascii_uppercase())
}

fn last_taken(before: &[Token], after: &[Token]) -> Range<usize> {
    let taken = before.len() - after.len();
    before
        .get(taken.wrapping_sub(1))
        .map_or(0..0, |t| t.range.clone())
}
