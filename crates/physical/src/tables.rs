//! The part of a backup that single tables need: their own files, and those that belong to no
//! table (system tablespace, undo and redo logs, the server's own schemas).
//!
//! Both mariadb-backup and the servers skip what the redo log and the dictionary say about missing
//! files (`log0recv.cc`; tried with the versions that the tests run on).

use std::collections::BTreeSet;

use refloat_repository::FileEntry;
use refloat_run::Refusal;
use refloat_schema::pattern::{is_system_database, matches_any, may_choose_in};
use refloat_wire::{Connection, Vendor};

use crate::error::PhysicalError;
use crate::private::{Candidate, PrivateServer};

/// How the names of InnoDB's tables for full-text indexes begin. They identify their table only by
/// a number.
const FULLTEXT: [&str; 2] = ["FTS_", "fts_"];
/// Suffix of a file of `InnoDB`.
const IBD: &str = ".ibd";
/// Suffix of a file that points from a trigger to its table (`MariaDB`).
const TRN: &str = ".TRN";
/// Number of similar names to show for one that does not exist.
const NEAREST: usize = 3;
/// Stands for a character whose code is not known here.
const UNKNOWN: char = '\u{fffd}';

/// A table of a backup, as its files name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    database: String,
    table: String,
}

impl Name {
    /// The table that a file belongs to. `None`: it belongs to none.
    fn of(path: &str, end: &str) -> Option<Self> {
        let (folder, file) = path.split_once('/')?;
        let stem = stem(file);
        let is_table = file.ends_with(end)
            && !file.contains('/')
            && !stem.is_empty()
            && !folder.starts_with('#')
            && !FULLTEXT.iter().any(|begin| file.starts_with(begin));
        let (database, table) = (decoded(folder), decoded(stem));
        (is_table && !is_system_database(&database)).then_some(Self { database, table })
    }

    fn matches(&self, patterns: &[String]) -> bool {
        matches_any(patterns, &self.database, &self.table)
    }

    /// Whether the server's names for it are known for certain.
    fn is_certain(&self) -> bool {
        !self.database.contains(UNKNOWN) && !self.table.contains(UNKNOWN)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.database, self.table)
    }
}

/// A file name without its suffix, and without the partition.
fn stem(file: &str) -> &str {
    file.split(['.', '#']).next().unwrap_or(file)
}

/// The name that a file name stands for: `@0020` is the character with that code. Others have two
/// letters behind the `@`, one of them no hexadecimal digit; only the server has their table
/// (`strings/ctype-utf8.c`, `my_mb_wc_filename`).
fn decoded(name: &str) -> String {
    let mut all = String::new();
    let mut rest = name;
    while let Some((plain, code)) = rest.split_once('@') {
        all.push_str(plain);
        let number = code
            .get(..4)
            .filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let number = number.and_then(|code| u32::from_str_radix(code, 16).ok());
        let length = if number.is_some() { 4 } else { 2 };
        all.push(number.and_then(char::from_u32).unwrap_or(UNKNOWN));
        rest = code.get(length..).unwrap_or_default();
    }
    all.push_str(rest);
    all
}

impl Candidate {
    /// Keeps only the files needed by the tables that these patterns choose (`table` or
    /// `database.table`, with `*` and `?`). Returns the names of those tables, as far as file names
    /// reveal them.
    ///
    /// # Errors
    /// A pattern chooses nothing.
    pub fn keep_tables(
        &mut self,
        patterns: &[String],
    ) -> Result<Vec<(String, String)>, PhysicalError> {
        // MariaDB has a file of this kind for every table.
        let end = if self.about.server.vendor == Vendor::MariaDb.to_string() {
            ".frm"
        } else {
            ".ibd"
        };
        let all: BTreeSet<Name> = self
            .files
            .iter()
            .filter_map(|file| Name::of(&file.path, end))
            .collect();
        self.names = all.iter().map(Name::to_string).collect();
        let (plain, open): (Vec<String>, Vec<String>) = patterns
            .iter()
            .cloned()
            .partition(|pattern| is_plain(pattern));
        let may_be = |name: &Name| {
            name.database.contains(UNKNOWN)
                || !name.is_certain() && may_choose_in(&open, &name.database)
        };
        let is_wanted = |name: &Name| name.matches(patterns) || !open.is_empty() && may_be(name);
        // Tables in them have no files of their own; which ones, the server alone knows.
        let is_shared =
            |path: &str| !path.contains('/') && path.ends_with(IBD) && path != "mysql.ibd";
        if !self.files.iter().any(|file| is_shared(&file.path)) {
            refuse_idle(&plain, &all, self)?;
            // A table of MySQL may be in the system tablespace as well.
            if end != IBD && all.iter().all(Name::is_certain) {
                refuse_idle(&open, &all, self)?;
            }
        }
        let wanted: BTreeSet<&Name> = all.iter().filter(|name| is_wanted(name)).collect();
        let databases: BTreeSet<&str> = wanted.iter().map(|name| name.database.as_str()).collect();
        self.files
            .retain(|file| is_needed(file, &wanted, &databases));
        let certain = wanted.iter().filter(|name| name.is_certain());
        Ok(certain
            .map(|name| (name.database.clone(), name.table.clone()))
            .collect())
    }
}

/// Whether a pattern cannot choose a name with undecoded characters: those are never ASCII.
fn is_plain(pattern: &str) -> bool {
    pattern.is_ascii() && !pattern.contains(['*', '?'])
}

/// Whether a file belongs to one of these tables, or to no table.
fn is_needed(file: &FileEntry, wanted: &BTreeSet<&Name>, databases: &BTreeSet<&str>) -> bool {
    let Some((folder, name)) = file.path.split_once('/') else {
        return true;
    };
    let database = decoded(folder);
    if folder.starts_with('#') || is_system_database(&database) {
        return true;
    }
    let of_all = name == "db.opt"
        || name.ends_with(TRN)
        || FULLTEXT.iter().any(|begin| name.starts_with(begin));
    let table = Name {
        table: decoded(stem(name)),
        database,
    };
    wanted.contains(&table) || of_all && databases.contains(table.database.as_str())
}

/// Refuses patterns that match none of these tables.
fn refuse_idle(
    patterns: &[String],
    all: &BTreeSet<Name>,
    candidate: &Candidate,
) -> Result<(), PhysicalError> {
    let idle = patterns.iter().filter(|pattern| {
        let one = std::slice::from_ref(*pattern);
        !all.iter().any(|name| name.matches(one))
    });
    let against: Vec<Refusal> = idle
        .map(|pattern| {
            let near = nearest(pattern, &candidate.names).join(", ");
            let hint = format!("The closest names are {near}. Views are not tables. Names are `table` or `database.table`; * and ? stand for other characters.");
            let label = &candidate.manifest.label;
            Refusal::new(format!("backup {label} has no table {pattern}")).hint(hint)
        })
        .collect();
    if against.is_empty() {
        Ok(())
    } else {
        Err(PhysicalError::Refused(against))
    }
}

/// The names that are most similar to this one.
fn nearest<'n>(wanted: &str, names: &'n [String]) -> Vec<&'n str> {
    let far = |name: &str| {
        let name = if wanted.contains('.') {
            name
        } else {
            name.split_once('.').map_or(name, |(_, table)| table)
        };
        distance(wanted, name)
    };
    let mut all: Vec<(usize, &str)> = names
        .iter()
        .map(|name| (far(name), name.as_str()))
        .collect();
    all.sort_unstable();
    all.retain(|(_, name)| *name != wanted);
    all.into_iter()
        .take(NEAREST)
        .map(|(_, name)| name)
        .collect()
}

/// How many letters must be changed, added or removed (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.to_lowercase().chars().enumerate() {
        let mut before = at;
        row[0] = at + 1;
        for (column, its) in other.iter().enumerate() {
            let changed = before + usize::from(letter != *its);
            before = row[column + 1];
            row[column + 1] = changed.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// The tables that patterns choose on a private server.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Database and name of each.
    pub tables: Vec<(String, String)>,
    /// Those that the backup lacks, because it copies only InnoDB.
    pub other_engines: Vec<String>,
    /// Views, which have no rows.
    pub views: Vec<String>,
}

impl PrivateServer {
    /// The tables that these patterns choose. `candidate` is the backup that it works on.
    ///
    /// # Errors
    /// It cannot be queried, or a pattern chooses nothing.
    pub fn choose(
        &self,
        patterns: &[String],
        candidate: &Candidate,
    ) -> Result<Chosen, PhysicalError> {
        let asked = PhysicalError::server("asking for its tables");
        let look = || {
            let mut conn = Connection::connect(self.connect())?;
            let engine = match conn.server().vendor {
                Vendor::MariaDb => "''",
                // Only these are copied.
                Vendor::MySql => "IF(ENGINE = 'InnoDB', '', ENGINE)",
            };
            conn.query(format!(
                "SELECT TABLE_SCHEMA, TABLE_NAME, IF(TABLE_TYPE LIKE '%VIEW', 'view', {engine}) \
                 FROM information_schema.TABLES ORDER BY 1, 2"
            ))
        };
        let rows = look().map_err(asked)?;
        let text = |row, column| rows.str(row, column).unwrap_or_default().to_owned();
        let (mut all, mut chosen) = (BTreeSet::new(), Chosen::default());
        for row in 0..rows.len() {
            let name = Name {
                database: text(row, 0),
                table: text(row, 1),
            };
            if is_system_database(&name.database) {
                continue;
            }
            let engine = text(row, 2);
            let is_chosen = name.matches(patterns);
            match engine.as_str() {
                "" => {
                    if is_chosen {
                        let key = (name.database.clone(), name.table.clone());
                        chosen.tables.push(key);
                    }
                    all.insert(name);
                }
                _ if !is_chosen => {}
                "view" => chosen.views.push(name.to_string()),
                engine => chosen.other_engines.push(format!("{name} ({engine})")),
            }
        }
        refuse_idle(patterns, &all, candidate)?;
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_give_table_names() {
        let of = |path| Name::of(path, ".ibd").map(|name| name.to_string());
        assert_eq!(of("shop/orders.ibd").as_deref(), Some("shop.orders"));
        assert_eq!(of("shop/parts#p#p0.ibd").as_deref(), Some("shop.parts"));
        assert_eq!(of("a@0020b/c@002dd.ibd").as_deref(), Some("a b.c-d"));
        assert!(!Name::of("shop/@1t.ibd", ".ibd").unwrap().is_certain());
        for path in [
            "ibdata1",
            "common.ibd",
            "mysql/user.ibd",
            "shop/orders.frm",
            "shop/FTS_0000000000000014_CONFIG.ibd",
            "shop/#sql-1.ibd",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn what_was_meant_is_named() {
        let names = ["shop.orders", "shop.order_items", "other.orders", "a.b"].map(str::to_owned);
        assert_eq!(nearest("shop.order", &names)[0], "shop.orders");
        assert_eq!(nearest("order", &names)[0], "other.orders");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
