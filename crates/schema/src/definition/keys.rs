//! Compares keys and foreign keys.

use std::ops::Range;

use refloat_sqltext::ddl::{Column, ForeignKey, Key, KeyKind, KeyPart};
use refloat_sqltext::shown;

use super::Found;
use super::columns::is_unclear;
use super::types::Type;
use super::words::{Side, Words, agree, names_agree};

/// What the text of a key says.
struct Facts {
    kind: KeyKind,
    name: Option<Vec<u8>>,
    parts: Vec<KeyPart>,
    using: Option<String>,
    comment: Vec<u8>,
    /// `INVISIBLE` (MySQL) or `IGNORED` (MariaDB): the optimiser does not use it.
    unused: bool,
    parser: bool,
}

impl Facts {
    fn shown(&self) -> String {
        let kind = match self.kind {
            KeyKind::Primary => "PRIMARY KEY",
            KeyKind::Unique => "UNIQUE KEY",
            KeyKind::Index => "KEY",
            KeyKind::Fulltext => "FULLTEXT KEY",
            KeyKind::Spatial => "SPATIAL KEY",
            KeyKind::Vector => "VECTOR KEY",
        };
        let name = self
            .name
            .as_deref()
            .filter(|_| self.kind != KeyKind::Primary);
        let name = name.map_or(String::new(), |name| format!(" {}", shown(name)));
        let parts: Vec<String> = self.parts.iter().map(shown_part).collect();
        format!("{kind}{name} ({})", parts.join(", "))
    }
}

fn shown_part(part: &KeyPart) -> String {
    let column = part.column.as_deref();
    let column = column.map_or("expression".to_owned(), shown);
    let length = part.prefix;
    let length = length.map_or(String::new(), |length| format!("({length})"));
    let order = if part.descending { " DESC" } else { "" };
    format!("{column}{length}{order}")
}

fn facts(side: &Side<'_>) -> Vec<Facts> {
    let mut list: Vec<Facts> = side.table.keys().map(|key| read(side, key)).collect();
    for column in side.table.columns() {
        if let Some(kind) = inline_kind(column) {
            let part = KeyPart {
                column: Some(column.name.clone()),
                prefix: None,
                descending: false,
            };
            list.push(Facts {
                kind,
                name: None,
                parts: vec![part],
                using: None,
                comment: Vec::new(),
                unused: false,
                parser: false,
            });
        }
    }
    list
}

fn inline_kind(column: &Column) -> Option<KeyKind> {
    let serial = (column.type_name == b"SERIAL").then_some(KeyKind::Unique);
    column.inline_key.or(serial)
}

fn read(side: &Side<'_>, key: &Key) -> Facts {
    let mut facts = Facts {
        kind: key.kind,
        name: key.name.clone(),
        parts: key.parts.clone(),
        using: None,
        comment: Vec::new(),
        unused: false,
        parser: false,
    };
    let mut words = side.words(&key.range);
    while words.peek().is_some() {
        if words.parenthesised().is_some() {
        } else if words.word("USING") {
            facts.using = words.value().map(|name| shown(&name).to_ascii_uppercase());
        } else if words.word("COMMENT") {
            facts.comment = words.value().unwrap_or_default();
        } else if words.words(&["NOT", "IGNORED"]) {
            facts.unused = false;
        } else if words.is_any(&["INVISIBLE", "IGNORED"]) {
            facts.unused = true;
            words.next();
        } else if words.words(&["WITH", "PARSER"]) {
            facts.parser = true;
        } else {
            words.next();
        }
    }
    facts
}

/// Compares the keys. The server may have more: it adds one for a foreign key that has none.
pub fn compare(dump: &Side<'_>, server: &Side<'_>, found: &mut Found<'_>) {
    let wanted = facts(dump);
    let mut rest = facts(server);
    let mut missing = Vec::new();
    let (named, unnamed): (Vec<&Facts>, Vec<&Facts>) =
        wanted.iter().partition(|key| key.name.is_some());
    for key in named.into_iter().chain(unnamed) {
        let place = rest.iter().position(|other| is_same_key(dump, key, other));
        let Some(place) = place else {
            missing.push(key);
            continue;
        };
        let other = rest.remove(place);
        compare_one(dump, server, key, &other, found);
    }
    for key in missing {
        // The nearest match: a key on the same columns, if there is one.
        let near = rest.iter().find(|other| {
            let mut pairs = key.parts.iter().zip(&other.parts);
            other.parts.len() == key.parts.len()
                && pairs.all(|(one, other)| same_column(dump, one, other))
        });
        found.differ(
            "key",
            key.shown(),
            near.map_or("none".to_owned(), Facts::shown),
        );
    }
    // Also counts a foreign key that the engine then ignores.
    let referring = [dump, server]
        .iter()
        .any(|side| side.table.foreign_keys().next().is_some());
    let generated = |key: &Facts| {
        key.parts
            .iter()
            .any(|part| part.column.as_deref() == Some(b"my_row_id"))
    };
    let unclear = dump
        .table
        .elements
        .iter()
        .any(|element| is_unclear(dump, element));
    for key in &rest {
        let added = (key.kind == KeyKind::Index && referring) || generated(key) || unclear;
        if !added {
            found.differ("key", "none".to_owned(), key.shown());
        }
    }
}

fn is_same_key(dump: &Side<'_>, key: &Facts, other: &Facts) -> bool {
    if key.kind == KeyKind::Primary || other.kind == KeyKind::Primary {
        return key.kind == other.kind;
    }
    if let (Some(name), Some(other)) = (&key.name, &other.name) {
        return names_agree(name, dump.mode, other);
    }
    let mut pairs = key.parts.iter().zip(&other.parts);
    key.kind == other.kind
        && key.parts.len() == other.parts.len()
        && pairs.all(|(one, other)| same_column(dump, one, other))
}

fn same_column(dump: &Side<'_>, one: &KeyPart, other: &KeyPart) -> bool {
    match (&one.column, &other.column) {
        (Some(one), Some(other)) => names_agree(one, dump.mode, other),
        // A function may stand in place of a column name, so nothing can be said.
        _ => true,
    }
}

fn compare_one(
    dump: &Side<'_>,
    server: &Side<'_>,
    key: &Facts,
    other: &Facts,
    found: &mut Found<'_>,
) {
    let mut pairs = key.parts.iter().zip(&other.parts);
    let same = key.kind == other.kind
        && key.parts.len() == other.parts.len()
        && pairs.all(|(one, other)| same_part(dump, server, key.kind, one, other));
    if !same {
        found.differ("key", key.shown(), other.shown());
        return;
    }
    let name = key.name.as_deref().map_or("PRIMARY".to_owned(), shown);
    if !agree(&key.comment, dump.mode, &other.comment) {
        found.differ(
            &format!("comment of key {name}"),
            shown(&key.comment),
            shown(&other.comment),
        );
    }
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for (what, asked, there) in [
        ("hidden from the optimiser", key.unused, other.unused),
        ("with a parser of its own", key.parser, other.parser),
    ] {
        if asked && !there {
            found.differ(&format!("key {name}: {what}"), yes(asked), yes(there));
        }
    }
    // For other engines, the kind of tree is up to the engine, which replaces what it cannot build.
    let in_memory = server
        .table
        .option("ENGINE")
        .is_some_and(|engine| engine.eq_ignore_ascii_case(b"MEMORY"));
    let method = |key: &Facts| key.using.clone().unwrap_or("HASH".to_owned());
    if in_memory && method(key) != method(other) {
        found.differ(&format!("key {name}: USING"), method(key), method(other));
    }
}

fn same_part(
    dump: &Side<'_>,
    server: &Side<'_>,
    kind: KeyKind,
    one: &KeyPart,
    other: &KeyPart,
) -> bool {
    if !same_column(dump, one, other) {
        return false;
    }
    if one.is_expression() || other.is_expression() {
        return true;
    }
    if matches!(kind, KeyKind::Fulltext | KeyKind::Spatial | KeyKind::Vector) {
        // Lengths and directions mean nothing here, and old versions print them.
        return true;
    }
    let prefix = match (one.prefix, other.prefix) {
        (Some(length), None) => whole_column(server, other, length),
        (one, other) => one == other,
    };
    prefix && one.descending == other.descending
}

/// Whether this length covers the whole column, so that the server omits it. Also true if that
/// cannot be told.
fn whole_column(server: &Side<'_>, part: &KeyPart, length: u32) -> bool {
    let Some(column) = server
        .table
        .columns()
        .find(|column| Some(&column.name) == part.column.as_ref())
    else {
        return true;
    };
    let mut words = server.words(&column.type_range);
    words.next();
    let arguments = words.parenthesised();
    let kind = Type::new(
        &column.type_name,
        arguments,
        &mut Words::new(b"", server.mode),
    );
    if kind.is(&[
        "text",
        "mediumtext",
        "longtext",
        "blob",
        "mediumblob",
        "longblob",
    ]) {
        return false;
    }
    kind.length().is_none_or(|whole| whole <= length)
}

/// Compares the foreign keys. A server or engine without foreign keys ignores them.
pub fn compare_foreign(dump: &Side<'_>, server: &Side<'_>, found: &mut Found<'_>) {
    let mut rest: Vec<&ForeignKey> = server.table.foreign_keys().collect();
    for key in dump.table.foreign_keys() {
        let alike = |other: &&&ForeignKey| same_reference(dump, key, other);
        let named = |other: &&&ForeignKey| match (&key.name, &other.name) {
            (Some(one), Some(other)) => names_agree(one, dump.mode, other),
            _ => false,
        };
        let alike_and_named = rest.iter().find(|other| alike(other) && named(other));
        let other = alike_and_named.or_else(|| rest.iter().find(alike)).copied();
        let Some(other) = other else {
            let near = rest
                .iter()
                .find(named)
                .map_or("none".to_owned(), |other| server.shown(&other.range));
            found.differ("foreign key", dump.shown(&key.range), near);
            continue;
        };
        rest.retain(|one| !std::ptr::eq(*one, other));
        if action(key.on_delete.as_ref()) != action(other.on_delete.as_ref())
            || action(key.on_update.as_ref()) != action(other.on_update.as_ref())
            || !same_name(dump, &key.range, key, other)
        {
            found.differ(
                "foreign key",
                dump.shown(&key.range),
                server.shown(&other.range),
            );
        }
    }
}

fn same_reference(dump: &Side<'_>, key: &ForeignKey, other: &ForeignKey) -> bool {
    let same = |one: &[Vec<u8>], other: &[Vec<u8>]| {
        let mut pairs = one.iter().zip(other);
        one.len() == other.len() && pairs.all(|(one, other)| names_agree(one, dump.mode, other))
    };
    same(&key.columns, &other.columns)
        && same(&key.ref_columns, &other.ref_columns)
        && names_agree(&key.ref_table.name, dump.mode, &other.ref_table.name)
}

/// Whether the constraint names match. Names in the form that servers generate may be generated
/// anew.
fn same_name(dump: &Side<'_>, range: &Range<usize>, key: &ForeignKey, other: &ForeignKey) -> bool {
    let (Some(name), Some(there)) = (&key.name, &other.name) else {
        return true;
    };
    let given = |name: &[u8]| {
        name.iter().all(u8::is_ascii_digit) || shown(name).to_ascii_lowercase().contains("_ibfk_")
    };
    // Without CONSTRAINT, this is the name of the key.
    !dump.words(range).is("CONSTRAINT")
        || given(name)
        || given(there)
        || names_agree(name, dump.mode, there)
}

/// To InnoDB, an omitted action, RESTRICT and NO ACTION are the same; versions differ in what they
/// print.
fn action(words: Option<&String>) -> &str {
    match words.map(String::as_str) {
        None | Some("RESTRICT" | "NO ACTION") => "",
        Some(other) => other,
    }
}
