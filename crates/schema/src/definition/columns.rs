//! Compares the columns of two definitions.

use refloat_sqltext::ddl::{Column, Generated, KeyKind};
use refloat_sqltext::{Element, shown};

use super::Found;
use super::collation::Collated;
use super::defaults::Value;
use super::types::Type;
use super::words::{Side, Words, agree, names_agree};

/// Words that end a default value or an expression of a column.
const ATTRIBUTES: &[&str] = &[
    "NOT",
    "NULL",
    "AUTO_INCREMENT",
    "UNIQUE",
    "PRIMARY",
    "KEY",
    "COMMENT",
    "ON",
    "COLLATE",
    "CHARACTER",
    "CHARSET",
    "CHECK",
    "INVISIBLE",
    "VISIBLE",
    "COLUMN_FORMAT",
    "STORAGE",
    "GENERATED",
    "AS",
    "CONSTRAINT",
    "REFERENCES",
    "WITH",
    "WITHOUT",
    "COMPRESSED",
    "SRID",
    "REF_SYSTEM_ID",
    "ENGINE_ATTRIBUTE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "VIRTUAL",
    "STORED",
    "PERSISTENT",
    "DEFAULT",
];

/// What the text of a column says.
pub struct Facts<'a> {
    /// The column as the parser split it.
    pub column: &'a Column,
    pub kind: Type,
    null: Option<bool>,
    default: Option<Value>,
    on_update: Option<Value>,
    compressed: bool,
    srid: Option<Vec<u8>>,
    unversioned: bool,
    /// Whether a word chooses a character set in another way (`ASCII`, `BYTE`, `BINARY`).
    other_charset: bool,
    /// Names and expressions of its `CHECK` constraints.
    pub checks: Vec<(Option<Vec<u8>>, &'a [u8])>,
}

/// What the texts of the columns say, in table order.
pub fn facts<'a>(side: &Side<'a>) -> Vec<Facts<'a>> {
    side.table
        .columns()
        .map(|column| read(side, column))
        .collect()
}

fn read<'a>(side: &Side<'a>, column: &'a Column) -> Facts<'a> {
    let first = column.type_range.start..column.type_range.end;
    let mut head = side.words(&first);
    head.next();
    let arguments = head.parenthesised();
    let mut words = side.words(&(column.type_range.end..column.range.end));
    let mut facts = Facts {
        column,
        kind: Type::new(&column.type_name, arguments, &mut words),
        null: None,
        default: None,
        on_update: None,
        compressed: false,
        srid: None,
        unversioned: false,
        other_charset: false,
        checks: Vec::new(),
    };
    let mut constraint = None;
    while words.peek().is_some() {
        attribute(side, &mut words, &mut facts, &mut constraint);
    }
    facts
}

/// Reads one attribute, taking at least one token.
fn attribute<'a>(
    side: &Side<'a>,
    words: &mut Words<'a>,
    facts: &mut Facts<'a>,
    constraint: &mut Option<Vec<u8>>,
) {
    if words.word("UNSIGNED") {
        facts.kind.unsigned = true;
    } else if words.word("ZEROFILL") {
        (facts.kind.unsigned, facts.kind.zerofill) = (true, true);
    } else if words.words(&["NOT", "NULL"]) {
        facts.null = Some(false);
    } else if words.word("NULL") {
        facts.null = Some(true);
    } else if words.word("DEFAULT") {
        facts.default = Some(Value::parse(words.until(ATTRIBUTES), side.mode));
    } else if words.words(&["ON", "UPDATE"]) {
        facts.on_update = Some(Value::parse(words.until(ATTRIBUTES), side.mode));
    } else if words.is_punct(b'(') {
        // The expression of a computed column, which the server writes its own way.
        if words.parenthesised().is_none() {
            words.next();
        }
    } else if words.word("CONSTRAINT") {
        if !words.is("CHECK") {
            *constraint = words.name();
        }
    } else if words.word("CHECK") {
        if let Some(text) = words.parenthesised() {
            facts.checks.push((constraint.take(), text));
        }
    } else if words.word("COMPRESSED") {
        facts.compressed = true;
    } else if words.word("SRID") {
        facts.srid = words.value();
    } else if words.words(&["WITHOUT", "SYSTEM", "VERSIONING"]) {
        facts.unversioned = true;
    } else if words.is_any(&["ASCII", "UNICODE", "BYTE", "BINARY"]) {
        facts.other_charset = true;
        words.next();
    } else if words.word("CHARACTER") {
        words.word("SET");
        words.value();
    } else if ["CHARSET", "COLLATE", "COMMENT"]
        .iter()
        .any(|word| words.word(word))
    {
        words.value();
    } else {
        words.next();
    }
}

/// Compares the columns. If their names differ, there is nothing more to compare.
pub fn compare(dump: &Side<'_>, server: &Side<'_>, found: &mut Found<'_>) {
    let wanted = facts(dump);
    let mut present = facts(server);
    let known = |name: &[u8]| {
        let mut columns = wanted.iter();
        columns.any(|column| names_agree(&column.column.name, dump.mode, name))
    };
    // Ignore the primary key that the server was configured to add to every table without one.
    present.retain(|column| {
        !(column.column.invisible && column.column.name == b"my_row_id" && !known(b"my_row_id"))
    });
    let unclear = dump
        .table
        .elements
        .iter()
        .any(|element| is_unclear(dump, element));
    let same = wanted.len() == present.len()
        && wanted
            .iter()
            .zip(&present)
            .all(|(one, other)| names_agree(&one.column.name, dump.mode, &other.column.name));
    if !same {
        if !unclear {
            let list = |facts: &[Facts<'_>]| {
                let names: Vec<String> = facts.iter().map(|one| shown(&one.column.name)).collect();
                names.join(", ")
            };
            found.differ("columns", list(&wanted), list(&present));
        }
        return;
    }
    for (one, other) in wanted.iter().zip(&present) {
        compare_one(dump, server, one, other, found);
    }
}

/// Whether the parser does not know an element, so that it may stand for columns or keys.
pub fn is_unclear(side: &Side<'_>, element: &Element) -> bool {
    matches!(element, Element::Other(range) if !side.words(range).is("PERIOD"))
}

fn compare_one(
    dump: &Side<'_>,
    server: &Side<'_>,
    wanted: &Facts<'_>,
    present: &Facts<'_>,
    found: &mut Found<'_>,
) {
    let mode = dump.mode;
    let name = shown(&wanted.column.name);
    let mut differ = |what: &str, expected: String, there: String| {
        found.differ(&format!("column {name}: {what}"), expected, there);
    };
    let asked = text_of(dump, wanted);
    let binary = asked.charset.as_deref() == Some("binary");
    // Text in the character set `binary` gets another type, and so does what the other words ask
    // for.
    if !binary && !wanted.other_charset {
        if !wanted.kind.is_met_by(mode, &present.kind) {
            differ("type", wanted.kind.shown(), present.kind.shown());
            return;
        }
        let there = text_of(server, present);
        if wanted.kind.is_text() && present.kind.is_text() && !asked.is_met_by(&there) {
            differ("collation", asked.shown(), there.shown());
        }
    }
    nulls([dump, server], wanted, present, &mut differ);
    default(dump, wanted, present, &mut differ);
    let (one, other) = (wanted.column, present.column);
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for (what, asked, there) in [
        ("AUTO_INCREMENT", one.auto_increment, other.auto_increment),
        ("INVISIBLE", one.invisible, other.invisible),
        ("COMPRESSED", wanted.compressed, present.compressed),
        (
            "WITHOUT SYSTEM VERSIONING",
            wanted.unversioned,
            present.unversioned,
        ),
    ] {
        if asked && !there {
            differ(what, yes(asked), yes(there));
        }
    }
    if one.generated != other.generated {
        let kind = |column: &Column| {
            column
                .generated
                .map_or("a stored value", |kind| match kind {
                    Generated::Virtual => "computed when read",
                    Generated::Stored => "computed and stored",
                    Generated::RowStart => "start of the row's validity",
                    Generated::RowEnd => "end of the row's validity",
                })
        };
        differ("value", kind(one).to_owned(), kind(other).to_owned());
    }
    let comment = |column: &Column| column.comment.clone().unwrap_or_default();
    if !agree(&comment(one), mode, &comment(other)) {
        differ("comment", shown(&comment(one)), shown(&comment(other)));
    }
    if let Some(srid) = &wanted.srid
        && present.srid.as_ref() != Some(srid)
    {
        let there = present.srid.as_deref().map_or("none".to_owned(), shown);
        differ("SRID", shown(srid), there);
    }
}

/// Columns that name a character set without a collation, where the default collation differs here:
/// name, collation there, collation here.
pub fn other_defaults(dump: &Side<'_>, server: &Side<'_>) -> Vec<(String, String, String)> {
    let present = facts(server);
    let found = dump.table.columns().filter_map(|column| {
        let collated = Collated::new(column.charset.as_deref(), column.collation.as_deref());
        let there = present
            .iter()
            .find(|one| names_agree(&column.name, dump.mode, &one.column.name))?;
        let (old, new) = collated.other_default(&text_of(server, there))?;
        Some((shown(&column.name), old, new))
    });
    found.collect()
}

/// Character set and collation of a column, its own or the table's.
fn text_of(side: &Side<'_>, facts: &Facts<'_>) -> Collated {
    let column = facts.column;
    let collated = Collated::new(column.charset.as_deref(), column.collation.as_deref());
    if !collated.is_unspecified() {
        return collated;
    }
    let option = |name| side.table.option(name);
    Collated::new(option("CHARSET"), option("COLLATE"))
}

fn nulls(
    [dump, server]: [&Side<'_>; 2],
    wanted: &Facts<'_>,
    present: &Facts<'_>,
    differ: &mut impl FnMut(&str, String, String),
) {
    // If a dump stands in for the server, it may leave NOT NULL to the primary key.
    let there = present.null != Some(false) && !is_of_primary_key(server, present.column);
    let nullability = |null: bool| if null { "NULL" } else { "NOT NULL" }.to_owned();
    let expected = match wanted.null {
        Some(false) => false,
        // A key or a period makes its columns NOT NULL. An old mode does the same to timestamps.
        _ if is_made_not_null(dump, wanted) => return,
        _ => true,
    };
    if expected != there {
        differ("NULL", nullability(expected), nullability(there));
    }
}

/// Whether a primary key or a vector key makes a column NOT NULL.
fn is_of_primary_key(side: &Side<'_>, column: &Column) -> bool {
    let keys = side.table.keys();
    keys.filter(|key| matches!(key.kind, KeyKind::Primary | KeyKind::Vector))
        .flat_map(|key| &key.parts)
        .filter_map(|part| part.column.as_deref())
        .any(|name| names_agree(name, side.mode, &column.name))
        || column.inline_key == Some(KeyKind::Primary)
}

fn is_made_not_null(dump: &Side<'_>, facts: &Facts<'_>) -> bool {
    let column = facts.column;
    let others = dump.table.elements.iter();
    let period = others
        .into_iter()
        .any(|element| matches!(element, Element::Other(_)));
    is_of_primary_key(dump, column)
        || period
        || column.auto_increment
        || column.generated.is_some()
        || (facts.kind.is(&["timestamp"]) && facts.null.is_none())
}

fn default(
    dump: &Side<'_>,
    wanted: &Facts<'_>,
    present: &Facts<'_>,
    differ: &mut impl FnMut(&str, String, String),
) {
    let mode = dump.mode;
    let shown = |value: Option<&Value>| value.map_or("none".to_owned(), Value::shown);
    let (asked, there) = (wanted.default.as_ref(), present.default.as_ref());
    // Where NULL is allowed, a column without a default is the same as one with DEFAULT NULL.
    let is_none = |value: Option<&Value>| matches!(value, None | Some(Value::Null));
    let same = match (asked, there) {
        _ if is_none(asked) && is_none(there) => true,
        (Some(asked), Some(there)) => asked.is_met_by(mode, there, &wanted.kind),
        // Servers fill in a missing default for timestamps and, in old versions, for primary keys.
        (None, Some(_)) => wanted.kind.is(&["timestamp"]) || is_made_not_null(dump, wanted),
        _ => false,
    };
    if !same {
        differ("default", shown(asked), shown(there));
    }
    let (asked, there) = (wanted.on_update.as_ref(), present.on_update.as_ref());
    let same = match (asked, there) {
        (Some(asked), Some(there)) => asked.is_met_by(mode, there, &wanted.kind),
        (None, None) => true,
        (None, Some(_)) => wanted.kind.is(&["timestamp"]) && wanted.default.is_none(),
        (Some(_), None) => false,
    };
    if !same {
        differ("ON UPDATE", shown(asked), shown(there));
    }
}
