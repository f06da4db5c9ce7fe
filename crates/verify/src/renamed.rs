//! Reads the names of a `RENAME TABLE`.

use refloat_sqltext::{LexMode, ObjectName, Token, tokens};

/// The old and the new name of each table. `None` if that is not certain.
pub fn renamed(text: &[u8], mode: LexMode) -> Option<Vec<(ObjectName, ObjectName)>> {
    let all: Vec<Token> = tokens(text, mode).code().collect();
    let table = |token: &Token| token.is(text, "TABLE") || token.is(text, "TABLES");
    let mut rest = &all[all.iter().position(table)? + 1..];
    let mut found = Vec::new();
    loop {
        let from = object(&mut rest, text)?;
        let (to, after) = rest.split_first()?;
        rest = after;
        if !to.is(text, "TO") {
            return None;
        }
        found.push((from, object(&mut rest, text)?));
        match rest.split_first() {
            Some((comma, after)) if comma.is_punct(b',') => rest = after,
            Some((end, _)) if !end.is_punct(b';') => return None,
            _ => return Some(found),
        }
    }
}

fn object(rest: &mut &[Token], text: &[u8]) -> Option<ObjectName> {
    let first = word(rest, text)?;
    if !rest.first().is_some_and(|token| token.is_punct(b'.')) {
        return Some(ObjectName {
            database: None,
            name: first,
        });
    }
    *rest = &rest[1..];
    Some(ObjectName {
        database: Some(first),
        name: word(rest, text)?,
    })
}

fn word(rest: &mut &[Token], text: &[u8]) -> Option<Vec<u8>> {
    let (first, more) = rest.split_first()?;
    *rest = more;
    first.name(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_databases() {
        let read = |text: &str| {
            let found = renamed(text.as_bytes(), LexMode::default())?;
            let shown = |name: ObjectName| {
                let database = name
                    .database
                    .map_or(String::new(), |name| String::from_utf8(name).unwrap() + ".");
                database + &String::from_utf8(name.name).unwrap()
            };
            let pairs = found.into_iter();
            let pairs: Vec<_> = pairs.map(|(a, b)| shown(a) + " " + &shown(b)).collect();
            Some(pairs.join(", "))
        };
        assert_eq!(read("RENAME TABLE a TO b;").as_deref(), Some("a b"));
        assert_eq!(
            read("rename tables `a b`.c to d, e TO f.g").as_deref(),
            Some("a b.c d, e f.g")
        );
        assert_eq!(read("RENAME TABLE a WAIT 5 TO b"), None);
    }
}
