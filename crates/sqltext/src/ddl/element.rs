//! Parses one element of the body of `CREATE TABLE`.

use std::ops::Range;

use super::stream::Stream;
use super::{Check, Column, Element, ForeignKey, Generated, Key, KeyKind, KeyPart};
use crate::mode::LexMode;
use crate::set::unquote;
use crate::token::TokenKind;

/// Parses an element; anything it does not recognise becomes [`Element::Other`].
pub(super) fn element(stream: Stream<'_>, range: Range<usize>, mode: LexMode) -> Element {
    let quoted = stream
        .peek()
        .is_some_and(|t| t.kind == TokenKind::QuotedName);
    let found = if quoted {
        None
    } else {
        not_column(stream.clone(), &range)
    };
    match found {
        Some(element) => element,
        None => column(stream, range.clone(), mode).map_or(Element::Other(range), Element::Column),
    }
}

/// Parses anything but a column; `None` means that it is a column.
fn not_column(mut stream: Stream<'_>, range: &Range<usize>) -> Option<Element> {
    let other = || Element::Other(range.clone());
    let mut symbol = None;
    let constraint = stream.word("CONSTRAINT");
    let kinds = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"];
    if constraint && !kinds.iter().any(|k| stream.is(k)) {
        symbol = stream.name();
    }
    if stream.word("FOREIGN") {
        return Some(foreign_key(stream, symbol, range).map_or_else(other, Element::ForeignKey));
    }
    if stream.word("CHECK") {
        let range = range.clone();
        return Some(Element::Check(Check {
            name: symbol,
            range,
        }));
    }
    if let Some(kind) = key_kind(&mut stream) {
        return Some(key(stream, kind, symbol, range).map_or_else(other, Element::Key));
    }
    let mut lookahead = stream.clone();
    let known =
        constraint || lookahead.word("LIKE") || (lookahead.word("PERIOD") && lookahead.word("FOR"));
    known.then(other)
}

fn key_kind(stream: &mut Stream<'_>) -> Option<KeyKind> {
    if stream.word("PRIMARY") {
        return stream.word("KEY").then_some(KeyKind::Primary);
    }
    if stream.any(&["KEY", "INDEX"]) {
        return Some(KeyKind::Index);
    }
    let kinds = [
        ("UNIQUE", KeyKind::Unique),
        ("FULLTEXT", KeyKind::Fulltext),
        ("SPATIAL", KeyKind::Spatial),
        ("VECTOR", KeyKind::Vector),
    ];
    for (word, kind) in kinds {
        let mut lookahead = stream.clone();
        if lookahead.word(word) {
            let named = lookahead.any(&["KEY", "INDEX"]);
            // VECTOR is not a reserved word everywhere: without KEY it may be the name of a column.
            let may_be_column = kind == KeyKind::Vector && !named && !lookahead.is_punct(b'(');
            if may_be_column {
                return None;
            }
            *stream = lookahead;
            return Some(kind);
        }
    }
    None
}

fn key(
    mut stream: Stream<'_>,
    kind: KeyKind,
    symbol: Option<Vec<u8>>,
    range: &Range<usize>,
) -> Option<Key> {
    stream.if_not_exists();
    let mut name = None;
    if !stream.is_punct(b'(') && !stream.is("USING") && !stream.is("TYPE") {
        name = Some(stream.name()?);
    }
    if stream.any(&["USING", "TYPE"]) {
        stream.next()?;
    }
    let parts = stream
        .parenthesised()?
        .split_commas()
        .into_iter()
        .map(key_part)
        .collect::<Option<_>>()?;
    Some(Key {
        kind,
        name: name.or(symbol),
        parts,
        range: range.clone(),
    })
}

fn key_part(mut stream: Stream<'_>) -> Option<KeyPart> {
    let descending = stream
        .list
        .last()
        .is_some_and(|t| t.is(stream.text, "DESC"));
    let expression = KeyPart {
        column: None,
        prefix: None,
        descending,
    };
    if stream.is_punct(b'(') {
        return Some(expression);
    }
    let column = Some(stream.name()?);
    let mut prefix = None;
    if let Some(inner) = stream.parenthesised() {
        match inner.list {
            [number] if number.kind == TokenKind::Number => {
                prefix = Some(parse_number(inner.text, number.range.clone())?);
            }
            _ => return Some(expression),
        }
    }
    Some(KeyPart {
        column,
        prefix,
        descending,
    })
}

fn parse_number(text: &[u8], range: Range<usize>) -> Option<u32> {
    std::str::from_utf8(&text[range]).ok()?.parse().ok()
}

fn column_list(stream: &mut Stream<'_>) -> Option<Vec<Vec<u8>>> {
    let parts = stream.parenthesised()?.split_commas();
    parts.into_iter().map(|mut part| part.name()).collect()
}

fn foreign_key(
    mut stream: Stream<'_>,
    symbol: Option<Vec<u8>>,
    range: &Range<usize>,
) -> Option<ForeignKey> {
    if !stream.word("KEY") {
        return None;
    }
    stream.if_not_exists();
    let mut index = None;
    if !stream.is_punct(b'(') {
        index = Some(stream.name()?);
    }
    let columns = column_list(&mut stream)?;
    if !stream.word("REFERENCES") {
        return None;
    }
    let ref_table = stream.object()?;
    let ref_columns = column_list(&mut stream)?;
    let (mut on_delete, mut on_update) = (None, None);
    while stream.peek().is_some() {
        if !stream.word("ON") {
            stream.next();
        } else if stream.word("DELETE") {
            on_delete = action(&mut stream);
        } else if stream.word("UPDATE") {
            on_update = action(&mut stream);
        }
    }
    Some(ForeignKey {
        name: symbol.or(index),
        columns,
        ref_table,
        ref_columns,
        on_delete,
        on_update,
        range: range.clone(),
    })
}

fn action(stream: &mut Stream<'_>) -> Option<String> {
    let actions = [
        ("RESTRICT", ""),
        ("CASCADE", ""),
        ("SET", "NULL"),
        ("SET", "DEFAULT"),
        ("NO", "ACTION"),
    ];
    for (first, second) in actions {
        let mut lookahead = stream.clone();
        if lookahead.word(first) && (second.is_empty() || lookahead.word(second)) {
            *stream = lookahead;
            return Some(format!("{first} {second}").trim_end().to_owned());
        }
    }
    None
}

fn column(mut stream: Stream<'_>, range: Range<usize>, mode: LexMode) -> Option<Column> {
    let text = stream.text;
    let name = stream.name()?;
    let type_word = stream.next()?;
    if type_word.kind != TokenKind::Word {
        return None;
    }
    let type_name = text[type_word.range.clone()].to_ascii_uppercase();
    let before = stream.list;
    let mut type_end = type_word.range.end;
    if stream.is_punct(b'(') {
        stream.parenthesised()?;
        let taken = before.len() - stream.list.len();
        type_end = before[taken - 1].range.end;
    }
    let mut column = Column {
        name,
        range,
        auto_increment: type_name == b"SERIAL",
        type_range: type_word.range.start..type_end,
        type_name,
        unsigned: false,
        not_null: false,
        generated: None,
        invisible: false,
        charset: None,
        collation: None,
        comment: None,
        inline_key: None,
        references: false,
    };
    while stream.peek().is_some() {
        attribute(&mut stream, &mut column, mode);
    }
    Some(column)
}

/// Parses one column attribute. Always consumes at least one token.
fn attribute(stream: &mut Stream<'_>, column: &mut Column, mode: LexMode) {
    if stream.is_punct(b'(') {
        if stream.parenthesised().is_none() {
            stream.next();
        }
    } else if stream.word("AUTO_INCREMENT") {
        column.auto_increment = true;
    } else if stream.any(&["UNSIGNED", "ZEROFILL"]) {
        column.unsigned = true;
    } else if stream.word("NOT") {
        column.not_null |= stream.word("NULL");
    } else if stream.word("INVISIBLE") {
        column.invisible = true;
    } else if stream.word("AS") {
        column.generated = Some(if !stream.word("ROW") {
            column.generated.unwrap_or(Generated::Virtual)
        } else if stream.word("START") {
            Generated::RowStart
        } else {
            Generated::RowEnd
        });
    } else if stream.any(&["STORED", "PERSISTENT"]) {
        column.generated = Some(Generated::Stored);
    } else if stream.word("CHARSET") || (stream.word("CHARACTER") && stream.word("SET")) {
        column.charset = value(stream, mode);
    } else if stream.word("COLLATE") {
        column.collation = value(stream, mode);
    } else if stream.word("COMMENT") {
        column.comment = value(stream, mode);
    } else if stream.any(&["DEFAULT"]) {
        // The default value is not an attribute, whatever word it is.
        if !stream.is_punct(b'(') {
            stream.next();
        }
    } else if stream.word("PRIMARY") {
        column.inline_key = Some(KeyKind::Primary);
        stream.word("KEY");
    } else if stream.word("UNIQUE") {
        column.inline_key = Some(KeyKind::Unique);
        stream.word("KEY");
    } else if stream.word("KEY") {
        column.inline_key = Some(KeyKind::Primary);
    } else if stream.word("REFERENCES") {
        column.references = true;
    } else {
        stream.next();
    }
}

/// The value after a word, with or without an equals sign.
pub(super) fn value(stream: &mut Stream<'_>, mode: LexMode) -> Option<Vec<u8>> {
    stream.punct(b'=');
    let token = stream.next()?;
    match token.kind {
        TokenKind::Text => Some(unquote(stream.text, token, mode)),
        _ => token.name(stream.text),
    }
}
