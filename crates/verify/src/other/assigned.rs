//! Reads rows written as `INSERT … SET column = value`.

use std::collections::BTreeSet;

use refloat_sqltext::{InsertHeader, InsertVerb, LexMode, Token, TokenKind, tokens};

/// After one of these words, a value does not belong to the row, or may not.
const BEHIND: &[&str] = &["ON", "AS", "RETURNING"];

/// Turns such a statement into the head of an `INSERT … VALUES` and a tuple. `None` if it is not
/// certain that the two are equivalent.
pub fn row(text: &[u8], mode: LexMode) -> Option<(InsertHeader, Vec<u8>)> {
    let mut all: Vec<Token> = tokens(text, mode).collect();
    while all.last().is_some_and(|token| token.is_punct(b';')) {
        all.pop();
    }
    let mut rest = all.as_slice();
    let verb = match take(&mut rest, text, &["INSERT", "REPLACE"])? {
        0 if take(&mut rest, text, &["IGNORE"]).is_some() => InsertVerb::InsertIgnore,
        0 => InsertVerb::Insert,
        _ => InsertVerb::Replace,
    };
    take(&mut rest, text, &["INTO"]);
    let mut table = name(&mut rest, text)?;
    let mut database = None;
    if rest.first()?.is_punct(b'.') {
        rest = &rest[1..];
        database = Some(std::mem::replace(&mut table, name(&mut rest, text)?));
    }
    take(&mut rest, text, &["SET"])?;
    let (mut columns, mut known) = (Vec::new(), BTreeSet::new());
    let mut tuple = b"(".to_vec();
    loop {
        let column = name(&mut rest, text)?;
        if !known.insert(column.to_ascii_lowercase()) || !rest.first()?.is_punct(b'=') {
            return None;
        }
        columns.push(column);
        rest = &rest[1..];
        let value = value(rest, text)?;
        let (first, last) = (value.first()?, value.last()?);
        tuple.extend_from_slice(&text[first.range.start..last.range.end]);
        rest = &rest[value.len()..];
        let Some(comma) = rest.first() else {
            tuple.push(b')');
            break;
        };
        tuple.push(b',');
        debug_assert!(comma.is_punct(b','));
        rest = &rest[1..];
    }
    let header = InsertHeader {
        verb,
        database,
        table,
        columns: Some(columns),
        text: text.to_vec(),
    };
    Some((header, tuple))
}

/// Consumes the next token if it is one of the words, and returns which.
fn take(rest: &mut &[Token], text: &[u8], words: &[&str]) -> Option<usize> {
    let next = rest.first()?;
    let found = words.iter().position(|word| next.is(text, word))?;
    *rest = &rest[1..];
    Some(found)
}

fn name(rest: &mut &[Token], text: &[u8]) -> Option<Vec<u8>> {
    let name = rest.first()?.name(text)?;
    *rest = &rest[1..];
    Some(name)
}

/// The tokens up to the comma after a value, or to the end.
fn value<'t>(rest: &'t [Token], text: &[u8]) -> Option<&'t [Token]> {
    let mut depth = 0_u32;
    for (at, token) in rest.iter().enumerate() {
        match token.kind {
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth = depth.checked_sub(1)?,
            TokenKind::Punct(b',') if depth == 0 => return Some(&rest[..at]),
            TokenKind::Unterminated | TokenKind::OpenConditional | TokenKind::CloseConditional => {
                return None;
            }
            _ if BEHIND.iter().any(|word| token.is(text, word)) => return None,
            _ => {}
        }
    }
    (depth == 0).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let (header, tuple) = row(text.as_bytes(), LexMode::default())?;
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let columns: Vec<String> = header.columns?.iter().map(|one| words(one)).collect();
        let database = header.database.map(|name| words(&name) + ".");
        Some(format!(
            "{:?} {}{} {} {}",
            header.verb,
            database.unwrap_or_default(),
            words(&header.table),
            columns.join(" "),
            words(&tuple)
        ))
    }

    #[test]
    fn assignments_are_a_row() {
        for (text, row) in [
            (
                "INSERT INTO t SET b='x, y', c = 2;",
                "Insert t b c ('x, y',2)",
            ),
            (
                "insert ignore `d`.`t` set `a b` = -1.5",
                "InsertIgnore d.t a b (-1.5)",
            ),
            (
                "REPLACE INTO t SET a=f(1, 2), b=NULL",
                "Replace t a b (f(1, 2),NULL)",
            ),
        ] {
            assert_eq!(read(text).as_deref(), Some(row), "{text}");
        }
    }

    #[test]
    fn what_says_more_is_no_row() {
        for text in [
            "INSERT INTO t SET a=1, b=2 ON DUPLICATE KEY UPDATE a=3, b=4",
            "INSERT INTO t SET a=1, a=2",
            "INSERT INTO t SET t.a=1",
            "INSERT INTO t SET a=1 RETURNING a",
            "INSERT INTO t SET a=1 /*!80000 , b=2 */",
            "INSERT INTO t SELECT 1",
            "INSERT INTO t (a) VALUES (1)",
            "INSERT INTO t SET a=",
            "INSERT DELAYED t SET a=1",
            "INSERT",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
