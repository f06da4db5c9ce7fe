//! The database and table that a mydumper file belongs to.

use std::collections::{BTreeMap, BTreeSet};

use refloat_sqltext::{ItemKind, LexMode, StatementKind, Step};

use super::Role;
use crate::cutter::{Cutter, Ends};
use crate::error::SourceError;
use crate::folder::{self, Entry};

/// Since 0.11, this and a number replace names that are not suitable for file names
/// (`determine_filename` in `mydumper_common.c`). A name that itself starts this way is replaced
/// too.
const REPLACED: &str = "mydumper_";

/// The databases of a folder: their spelling in file names, and their actual names.
pub struct Databases {
    names: BTreeMap<String, String>,
    /// Those that a file creates, as spelled in file names.
    created: BTreeSet<String>,
}

impl Databases {
    /// Takes the names from the files that create databases, and those that `metadata` lists.
    pub fn read<'a>(
        files: &[(Role, String, Entry)],
        listed: impl Iterator<Item = &'a String>,
        mode: LexMode,
    ) -> Result<Self, SourceError> {
        let mut found = Self {
            names: listed
                .map(|database| (database.clone(), database.clone()))
                .collect(),
            created: BTreeSet::new(),
        };
        for (_, stem, entry) in files.iter().filter(|file| file.0 == Role::Database) {
            let text = folder::read(&entry.path)?;
            let created = first(&text, mode, |kind| match kind {
                StatementKind::CreateDatabase { database, .. } => {
                    Some(String::from_utf8_lossy(database).into_owned())
                }
                _ => None,
            });
            let real = created.unwrap_or_else(|| stem.clone());
            found.names.insert(stem.clone(), real);
            found.created.insert(stem.clone());
        }
        Ok(found)
    }

    /// Splits a file name without its suffix into database and rest.
    pub fn split(&self, stem: &str) -> (String, String) {
        if self.names.contains_key(stem) {
            return (stem.to_owned(), String::new());
        }
        let longest = self
            .names
            .keys()
            .filter(|name| {
                stem.strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
            })
            .max_by_key(|name| name.len());
        match longest {
            Some(name) => (name.clone(), stem[name.len() + 1..].to_owned()),
            None => match stem.split_once('.') {
                Some((database, table)) => (database.to_owned(), table.to_owned()),
                None => (stem.to_owned(), String::new()),
            },
        }
    }

    /// The actual name of a database.
    pub fn real(&self, prefix: &str) -> String {
        self.names
            .get(prefix)
            .cloned()
            .unwrap_or_else(|| prefix.to_owned())
    }

    /// Whether a file in the folder creates it.
    pub fn is_created(&self, prefix: &str) -> bool {
        self.created.contains(prefix)
    }

    /// Whether its actual name is unknown, in a folder whose writer replaces names: 0.10 does not.
    pub fn is_nameless(&self, prefix: &str) -> bool {
        let number = prefix.strip_prefix(REPLACED);
        !self.is_created(prefix)
            && number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// The first result of `pick` for the statements of a small file.
fn first<T>(text: &[u8], mode: LexMode, pick: impl Fn(&StatementKind) -> Option<T>) -> Option<T> {
    let mut cutter = Cutter::new(Ends::Client);
    cutter.set_mode(mode);
    let mut at = 0;
    while let Ok(Step::Item(item)) = cutter.next(&text[at..], true) {
        if let ItemKind::Statement(kind) = &item.kind
            && let Some(found) = pick(kind)
        {
            return Some(found);
        }
        at += item.len;
    }
    None
}

/// The table name without the part numbers.
pub fn table_name(rest: &str) -> &str {
    let mut name = rest;
    for _ in 0..2 {
        match name.rsplit_once('.') {
            Some((head, number))
                if number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                name = head;
            }
            _ => break,
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_parts_are_no_part_of_the_name() {
        assert_eq!(table_name("items"), "items");
        assert_eq!(table_name("items.00001"), "items");
        assert_eq!(table_name("items.00001.00002"), "items");
        assert_eq!(table_name("a.b.00000"), "a.b");
        assert_eq!(table_name("v1.2"), "v1.2");
    }

    #[test]
    fn the_longest_database_that_fits_is_meant() {
        let names = ["a", "a.b"].map(|name| (name.to_owned(), format!("real {name}")));
        let databases = Databases {
            names: names.into_iter().collect(),
            created: BTreeSet::new(),
        };
        let split = |stem: &str| databases.split(stem);
        assert_eq!(split("a.b.c"), ("a.b".to_owned(), "c".to_owned()));
        assert_eq!(split("a.c.d"), ("a".to_owned(), "c.d".to_owned()));
        assert_eq!(split("x.y"), ("x".to_owned(), "y".to_owned()));
        assert_eq!(databases.real("a.b"), "real a.b");
    }

    #[test]
    fn databases_are_called_as_their_statements_say() {
        let create = |text: &[u8], ansi_quotes| {
            let mode = LexMode {
                ansi_quotes,
                ..LexMode::default()
            };
            first(text, mode, |kind| match kind {
                StatementKind::CreateDatabase { database, .. } => Some(database.clone()),
                _ => None,
            })
        };
        let ansi =
            b"SET SQL_MODE='ANSI_QUOTES';\nCREATE DATABASE /*!32312 IF NOT EXISTS*/ \"d.b\";\n";
        assert_eq!(create(ansi, true).unwrap(), b"d.b");
        let plain = b"/*!40101 SET NAMES binary*/;\nCREATE DATABASE `d``b`;\n";
        assert_eq!(create(plain, false).unwrap(), b"d`b");
    }
}
