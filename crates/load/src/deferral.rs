//! The parts of a table's definition that can wait until its rows are in.

use serde::{Deserialize, Serialize};

use refloat_sqltext::ddl::{CreateTable, Element, Key, KeyKind, parse_create_table};
use refloat_sqltext::{LexMode, quote_ident_bytes};

/// What is deferred for one table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Deferral {
    /// `ADD …` clauses of keys, in the order of the definition.
    pub keys: Vec<String>,
    /// `ADD …` clauses of `FULLTEXT` keys: the server adds only one at a time.
    pub fulltext: Vec<String>,
    /// `ADD …` clauses of foreign keys.
    pub foreign_keys: Vec<String>,
}

impl Deferral {
    /// All clauses, for reporting what is missing.
    pub fn clauses(&self) -> Vec<String> {
        self.keys
            .iter()
            .chain(&self.fulltext)
            .chain(&self.foreign_keys)
            .cloned()
            .collect()
    }

    /// The clauses that are still missing from `create`, a definition as the server prints it; the
    /// others have been added since.
    pub fn lacking(mut self, create: &str) -> Self {
        let lacks = |clause: &String| {
            let element = clause.strip_prefix("ADD ").unwrap_or(clause);
            // The server prints each on a line of its own.
            ![",\n", "\n"]
                .iter()
                .any(|end| create.contains(&format!("\n  {element}{end}")))
        };
        for clauses in [&mut self.keys, &mut self.fulltext, &mut self.foreign_keys] {
            clauses.retain(lacks);
        }
        self
    }

    /// Number of clauses.
    pub fn len(&self) -> usize {
        self.keys.len() + self.fulltext.len() + self.foreign_keys.len()
    }
}

/// Decides what can be deferred; returns the clauses that drop it and those that add it again.
///
/// `keep_unique` keeps unique keys, so that a row that violates one is refused individually. Of the
/// keys, those are deferred that are `wanted` by name, and others that would change their place
/// otherwise.
pub fn split(
    create: &str,
    keep_unique: bool,
    wanted: &dyn Fn(&str) -> bool,
) -> Option<(Vec<String>, Deferral)> {
    let text = create.as_bytes();
    let parsed = parse_create_table(text, LexMode::default()).ok()?;
    if parsed
        .options
        .iter()
        .any(|option| option.name == "WITH SYSTEM VERSIONING")
    {
        return None;
    }
    let keys: Vec<&Key> = parsed
        .elements
        .iter()
        .filter_map(|element| {
            if let Element::Key(key) = element {
                Some(key)
            } else {
                None
            }
        })
        .collect();
    let mut drops = Vec::new();
    let mut deferral = Deferral::default();
    for element in &parsed.elements {
        if let Element::ForeignKey(foreign) = element {
            let Some(name) = &foreign.name else { continue };
            drops.push(format!("DROP FOREIGN KEY {}", shown(name)));
            deferral.foreign_keys.push(format!(
                "ADD {}",
                String::from_utf8_lossy(&text[foreign.range.clone()])
            ));
        }
    }
    for (place, key) in keys.iter().enumerate() {
        // If a key that comes before one that stays were added again, it would move after it. The
        // server sorts keys by kind first, so only keys of the same kind count.
        let kept = |other: &Key| {
            keep_unique && other.kind == KeyKind::Unique || must_stay(other, &parsed, &keys, text)
        };
        let stays = keys[place..]
            .iter()
            .any(|other| kept(other) && same_sort(key, other));
        let is_wanted = |other: &&Key| {
            let name = other
                .name
                .as_ref()
                .map(|name| String::from_utf8_lossy(name));
            same_sort(key, other) && name.is_some_and(|name| wanted(&name))
        };
        let goes = !stays && keys[..=place].iter().any(is_wanted);
        let Some(name) = key.name.as_ref().filter(|_| goes) else {
            continue;
        };
        drops.push(format!("DROP KEY {}", shown(name)));
        let clause = format!("ADD {}", String::from_utf8_lossy(&text[key.range.clone()]));
        if key.kind == KeyKind::Fulltext {
            deferral.fulltext.push(clause);
        } else {
            deferral.keys.push(clause);
        }
    }
    (deferral.len() > 0).then_some((drops, deferral))
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&quote_ident_bytes(name)).into_owned()
}

fn same_sort(a: &Key, b: &Key) -> bool {
    let sort = |key: &Key| match key.kind {
        KeyKind::Primary => 0,
        KeyKind::Unique => 1,
        KeyKind::Fulltext => 3,
        _ => 2,
    };
    sort(a) == sort(b)
}

/// Whether a key must exist while rows are written.
fn must_stay(key: &Key, table: &CreateTable, keys: &[&Key], text: &[u8]) -> bool {
    match key.kind {
        KeyKind::Primary | KeyKind::Vector => return true,
        // Without a primary key, InnoDB clusters rows by the first unique key on NOT NULL columns.
        KeyKind::Unique if !keys.iter().any(|other| other.kind == KeyKind::Primary) => return true,
        _ => {}
    }
    if key.parts.iter().any(|part| part.column.is_none()) && key.kind == KeyKind::Unique {
        return true;
    }
    let columns = || {
        table.elements.iter().filter_map(|element| {
            if let Element::Column(column) = element {
                Some(column)
            } else {
                None
            }
        })
    };
    let column_of = |part: &refloat_sqltext::ddl::KeyPart| {
        columns().find(|column| Some(&column.name) == part.column.as_ref())
    };
    if key
        .parts
        .first()
        .and_then(column_of)
        .is_some_and(|column| column.auto_increment)
    {
        return true;
    }
    // MariaDB implements unique keys over long columns with a hash, and has added such a key
    // despite duplicates (MDEV-37296).
    let long = |part: &refloat_sqltext::ddl::KeyPart| {
        part.prefix.is_none()
            && column_of(part).is_some_and(|column| {
                let kind = column.type_name.to_ascii_uppercase();
                kind.ends_with(b"BLOB") || kind.ends_with(b"TEXT") || kind == b"JSON"
            })
    };
    let clause = &text[key.range.clone()];
    key.kind == KeyKind::Unique
        && (key.parts.iter().any(long)
            || memchr::memmem::find(clause, b"WITHOUT OVERLAPS").is_some()
            || memchr::memmem::find(clause, b"USING HASH").is_some())
}
