//! Handles comments in a definition that are meant for another vendor's servers: rewritten where
//! this server has the same under another name, reported otherwise.

use std::borrow::Cow;
use std::ops::Range;

use refloat_sqltext::{
    CreateTable, Element, LexMode, TokenKind, parse_create_table, shown, tokens,
};
use refloat_wire::Vendor;

use super::ServerVersion;
use super::conditional::hidden;

/// First MariaDB version with `INVISIBLE` columns.
const INVISIBLE_COLUMNS: (u16, u16, u16) = (10, 3, 0);
/// First MariaDB version with `IGNORED` keys.
const IGNORED_KEYS: (u16, u16, u16) = (10, 6, 0);
/// MySQL's name for `GEOMETRYCOLLECTION`, from 8.0 on.
const GEOMETRIES: &[u8] = b"GEOMCOLLECTION";
/// Comments that state what is true without them, or what InnoDB does in any case.
const SAY_NOTHING: &[&str] = &[
    "ENCRYPTION='N'",
    "TABLESPACE `innodb_file_per_table`",
    "/*T![clustered_index] CLUSTERED */",
];
/// What it means if a server ignores these words.
const MEANINGS: &[(&str, &str)] = &[
    ("NOT ENFORCED", "the constraint is enforced here"),
    ("SRID", "geometries of every SRID are taken here"),
    ("COMPRESSED", "its values are not compressed here"),
    ("ENCRYPTION", "it is not encrypted here"),
    ("INVISIBLE", "it is visible here"),
    (
        "AUTO_RANDOM",
        "its values are not chosen by the server here",
    ),
    ("PARTITION BY", "the table has no partitions here"),
];

/// A definition as written for one server.
pub struct Written<'a> {
    /// The text to run.
    pub text: Cow<'a, [u8]>,
    /// What the server does not read of the definition, each with its place and its consequence.
    pub lost: Vec<Lost>,
}

/// An attribute that a server ignores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The part of the table (`column a: `), or empty.
    pub part: String,
    /// The comment as it stands in the text.
    pub comment: String,
    meaning: &'static str,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}{} is for another server, and this one ignores it: {}",
            self.part, self.comment, self.meaning
        )
    }
}

/// Writes `text` for `server`.
///
/// Under other names, MariaDB has some of what MySQL writes: an `INVISIBLE` column, if it gets a
/// value when none is given; an `INVISIBLE` key, which is called `IGNORED`; and the type
/// `geomcollection`, which has its long name.
pub fn written_for(text: &[u8], mode: LexMode, server: ServerVersion) -> Written<'_> {
    let mut comments = hidden(text, mode, server);
    comments.extend(of_other_products(text, mode));
    comments.retain(|range| {
        let comment = shown(&text[range.clone()]);
        !SAY_NOTHING.iter().any(|words| comment.contains(words))
    });
    comments.sort_by_key(|range| range.start);
    let short_names = server.vendor == Vendor::MariaDb
        && memchr::memmem::find(&text.to_ascii_uppercase(), GEOMETRIES).is_some();
    if comments.is_empty() && !short_names {
        return Written {
            text: Cow::Borrowed(text),
            lost: Vec::new(),
        };
    }
    let table = parse_create_table(text, mode).ok();
    let mut edits: Vec<(Range<usize>, &[u8])> = Vec::new();
    let mut lost = Vec::new();
    for range in comments {
        // The last element that begins before the comment, which may come after all of the
        // element's words.
        let within = table
            .as_ref()
            .filter(|table| table.body.contains(&range.start));
        let elements = within.map_or(&[][..], |table| &table.elements);
        let element = elements
            .iter()
            .rfind(|one| one.range().start <= range.start);
        if let Some(words) = element.and_then(|one| in_other_words(text, mode, one, &range, server))
        {
            edits.push((range, words));
            continue;
        }
        let comment = shown(&text[range]);
        let found = MEANINGS.iter().find(|(words, _)| comment.contains(words));
        lost.push(Lost {
            part: element.map_or_else(String::new, part),
            meaning: found.map_or("what it says is not there", |(_, meaning)| meaning),
            comment,
        });
    }
    if short_names {
        let columns = table.iter().flat_map(CreateTable::columns);
        let short = columns.filter(|column| column.type_name == GEOMETRIES);
        edits.extend(short.map(|column| (column.type_range.clone(), &b"geometrycollection"[..])));
        edits.sort_by_key(|(range, _)| range.start);
    }
    let mut written = Vec::with_capacity(text.len());
    let mut copied = 0;
    for (range, words) in edits {
        written.extend_from_slice(&text[copied..range.start]);
        written.extend_from_slice(words);
        copied = range.end;
    }
    written.extend_from_slice(&text[copied..]);
    Written {
        text: if copied == 0 {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(written)
        },
        lost,
    }
}

/// MariaDB's words for the same thing.
fn in_other_words(
    text: &[u8],
    mode: LexMode,
    element: &Element,
    comment: &Range<usize>,
    server: ServerVersion,
) -> Option<&'static [u8]> {
    let mut words = tokens(&text[comment.clone()], mode).code();
    let is_invisible = words
        .next()
        .is_some_and(|word| word.is(&text[comment.clone()], "INVISIBLE"))
        && words.next().is_none();
    if !is_invisible || server.vendor != Vendor::MariaDb {
        return None;
    }
    match element {
        Element::Column(column) if server.version >= INVISIBLE_COLUMNS => {
            let definition = &text[column.range.clone()];
            let has_default = tokens(definition, mode)
                .code()
                .any(|word| word.is(definition, "DEFAULT"));
            let has_value = !column.not_null
                || column.auto_increment
                || column.generated.is_some()
                || has_default;
            has_value.then_some(b"INVISIBLE")
        }
        Element::Key(_) if server.version >= IGNORED_KEYS => Some(b"IGNORED"),
        _ => None,
    }
}

fn part(element: &Element) -> String {
    let named = |what: &str, name: Option<&Vec<u8>>| {
        name.map_or_else(String::new, |name| format!("{what} {}: ", shown(name)))
    };
    match element {
        Element::Column(column) => named("column", Some(&column.name)),
        Element::Key(key) => named("key", key.name.as_ref()),
        Element::ForeignKey(key) => named("foreign key", key.name.as_ref()),
        Element::Check(check) => named("constraint", check.name.as_ref()),
        Element::Other(_) => String::new(),
    }
}

/// Comments of `TiDB` (`/*T! … */`, `/*T![feature] … */`), which are plain comments to both
/// vendors.
fn of_other_products(text: &[u8], mode: LexMode) -> Vec<Range<usize>> {
    const OPENING: &[u8] = b"/*T!";
    if memchr::memmem::find(text, OPENING).is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut look = |from: usize, to: usize| {
        let mut at = from;
        while let Some(start) = memchr::memmem::find(&text[at..to], OPENING).map(|i| at + i) {
            let end = memchr::memmem::find(&text[start..to], b"*/").map(|i| start + i + 2);
            let Some(end) = end else { return };
            found.push(start..end);
            at = end;
        }
    };
    let mut before = 0;
    for token in tokens(text, mode) {
        look(before, token.range.start);
        // An unterminated text reaches to the end: nothing after it is a comment.
        if token.kind == TokenKind::Unterminated {
            return found;
        }
        before = token.range.end;
    }
    look(before, text.len());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARIADB: ServerVersion = ServerVersion {
        vendor: Vendor::MariaDb,
        version: (10, 11, 6),
    };
    const MYSQL: ServerVersion = ServerVersion {
        vendor: Vendor::MySql,
        version: (9, 7, 0),
    };

    fn written(text: &str, server: ServerVersion) -> (String, Vec<String>) {
        let written = written_for(text.as_bytes(), LexMode::default(), server);
        let lost = written
            .lost
            .iter()
            .map(|one| format!("{}{}", one.part, one.comment));
        let lost = lost.collect();
        (shown(&written.text), lost)
    }

    #[test]
    fn what_mariadb_has_in_other_words_is_kept() {
        let dump = "CREATE TABLE t (`a` int, `b` int DEFAULT '7' /*!80023 INVISIBLE */, `c` int NOT NULL /*!80023 INVISIBLE */, \
                    `d` bigint NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */, KEY `k` (`a`) /*!80000 INVISIBLE */)";
        let (text, lost) = written(dump, MARIADB);
        assert_eq!(
            text,
            "CREATE TABLE t (`a` int, `b` int DEFAULT '7' INVISIBLE, `c` int NOT NULL /*!80023 INVISIBLE */, \
             `d` bigint NOT NULL AUTO_INCREMENT INVISIBLE, KEY `k` (`a`) IGNORED)"
        );
        assert_eq!(lost, ["column c: /*!80023 INVISIBLE */"]);
        assert_eq!(written(dump, MYSQL), (dump.to_owned(), Vec::new()));
        let old = ServerVersion {
            version: (10, 2, 0),
            ..MARIADB
        };
        assert_eq!(written(dump, old).1.len(), 4);
    }

    #[test]
    fn types_with_another_name() {
        let dump = "CREATE TABLE t (`c` geomcollection DEFAULT NULL COMMENT 'geomcollection' /*!80003 SRID 0 */)";
        let text = "CREATE TABLE t (`c` geometrycollection DEFAULT NULL COMMENT 'geomcollection' /*!80003 SRID 0 */)";
        assert_eq!(written(dump, MARIADB).0, text);
        assert_eq!(written(dump, MYSQL), (dump.to_owned(), Vec::new()));
    }

    #[test]
    fn what_is_passed_over_is_named_by_its_place() {
        let dump = "CREATE TABLE t (`a` int, `g` point NOT NULL /*!80003 SRID 4326 */, `z` varchar(9) /*M!100301 COMPRESSED*/, \
                    CONSTRAINT `c` CHECK (`a` > 0) /*!80016 NOT ENFORCED */) /*!80016 ENCRYPTION='Y' */ /*!80016 ENCRYPTION='N' */ \
                    COMMENT='/*!80023 INVISIBLE */'";
        let (text, lost) = written(dump, MARIADB);
        assert_eq!(text, dump);
        assert_eq!(
            lost,
            [
                "column g: /*!80003 SRID 4326 */",
                "constraint c: /*!80016 NOT ENFORCED */",
                "/*!80016 ENCRYPTION='Y' */"
            ]
        );
        assert_eq!(
            written(dump, MYSQL).1,
            ["column z: /*M!100301 COMPRESSED*/"]
        );
    }

    #[test]
    fn comments_of_other_products() {
        let dump = "CREATE TABLE t (`a` bigint /*T![auto_rand] AUTO_RANDOM(5) */, b CHAR(9) COMMENT '/*T! no */', \
                    PRIMARY KEY (`a`) /*T![clustered_index] CLUSTERED */) /*T! SHARD_ROW_ID_BITS=4 */ -- /*T! no";
        for server in [MARIADB, MYSQL] {
            assert_eq!(
                written(dump, server).1,
                [
                    "column a: /*T![auto_rand] AUTO_RANDOM(5) */",
                    "/*T! SHARD_ROW_ID_BITS=4 */"
                ]
            );
        }
    }
}
