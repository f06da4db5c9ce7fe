//! Whether a name still means the table that it meant in the snapshot.
//!
//! A definition does not tell: who has filled a copy of a table puts it in the table's place with `RENAME TABLE`, or a partition with
//! `EXCHANGE PARTITION`, and both are defined alike. InnoDB gives each table, and each partition, a number that it never gives again.
//! Only an account with `PROCESS` sees it; to others a time of creation must do.

use std::collections::{BTreeSet, HashMap};

use refloat_sqltext::literal;
use refloat_wire::{Connection, Vendor};

use super::catalog::{DataPolicy, Table};
use super::error::ReadError;
use super::snapshot::position::told;

/// What is added to the file name of a table whose name is that of a device somewhere (`con`, `nul`).
const DEVICE: &[u8] = b"@@@";

/// What stands before the name of a partition; a table whose own name has it is not found, and told by its time.
const PARTITION: [&[u8]; 2] = [b"#P#", b"#p#"];

/// Names that one statement has the server write as those of files: each is a column, and 4096 is the most.
const NAMES_AT_ONCE: usize = 500;

/// What is said where nothing but a time tells one table from another.
const VAGUE: &str = "a table, or one of its partitions, that somebody exchanges, while it is read, for another of the same definition may not be noticed: the account lacks PROCESS, \
     or InnoDB has no number of its own for each table";

/// InnoDB's number of a table, or those of its partitions, each with the name that InnoDB has for it.
type Numbers = Vec<(Vec<u8>, u64)>;

/// What tells a table from others of the same name and definition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    /// InnoDB's own.
    Numbers(Numbers),
    /// When it was created, as far as the server tells: in whole seconds, and on MySQL a renamed table takes it along. Nowhere does it
    /// tell of `EXCHANGE PARTITION`.
    Created(Option<Vec<u8>>),
}

/// Identities of tables with snapshots, by what they are called.
#[derive(Debug, Default)]
pub struct Identities(HashMap<String, Identity>);

impl Identities {
    /// Reads them.
    pub fn read<'a>(
        conn: &mut Connection,
        tables: impl Iterator<Item = &'a Table>,
    ) -> Result<Self, ReadError> {
        let tables: Vec<&Table> = tables
            .filter(|table| table.policy == DataPolicy::Snapshot)
            .collect();
        if tables.is_empty() {
            return Ok(Self::default());
        }
        let mut numbers = numbers(conn)?;
        let by_file = !numbers.is_empty() && !conn.server().is_mysql_since((8, 0, 0));
        let file_names = if by_file {
            let names = tables
                .iter()
                .flat_map(|table| [&table.database, &table.name]);
            FileNames::read(conn, names.map(String::as_str))?
        } else {
            FileNames::default()
        };
        let mut found = HashMap::with_capacity(tables.len());
        let mut times: HashMap<&str, HashMap<Vec<u8>, Option<Vec<u8>>>> = HashMap::new();
        for table in tables {
            let mut identity = None;
            let called = if by_file {
                file_names.of(table)
            } else {
                Some(format!("{}/{}", table.database, table.name).into_bytes())
            };
            if let Some(mut name) = called {
                identity = numbers.remove(&name).or_else(|| {
                    name.extend_from_slice(DEVICE);
                    numbers.remove(&name)
                });
            }
            let identity = if let Some(numbers) = identity {
                Identity::Numbers(numbers)
            } else {
                let database = table.database.as_str();
                if !times.contains_key(database) {
                    times.insert(database, created(conn, database)?);
                }
                let of = times.get_mut(database);
                let time = of.and_then(|of| of.remove(table.name.as_bytes()));
                Identity::Created(time.flatten())
            };
            found.insert(table.label(), identity);
        }
        Ok(Self(found))
    }

    /// The first table that is another one now.
    pub fn exchanged(&self, now: &Self) -> Option<String> {
        let is_other = |(name, identity): &(&String, &Identity)| {
            self.0.get(*name).is_none_or(|before| before != *identity)
        };
        let others = now.0.iter().filter(is_other);
        others.map(|(name, _)| name).min().cloned()
    }

    /// Makes sure that these tables are still the same ones.
    ///
    /// # Errors
    /// [`ReadError::Changed`] with the first that is another one now.
    pub fn unchanged<'a>(
        &self,
        conn: &mut Connection,
        tables: impl Iterator<Item = &'a Table>,
    ) -> Result<(), ReadError> {
        let now = Self::read(conn, tables)?;
        self.exchanged(&now).map_or(Ok(()), |table| {
            Err(ReadError::Changed {
                what: format!("table {table}"),
            })
        })
    }

    /// What somebody should know where some are told apart by nothing but times; a sentence.
    pub fn caveat(&self) -> Option<String> {
        let mut all = self.0.values();
        all.any(|identity| matches!(identity, Identity::Created(_)))
            .then(|| VAGUE.to_owned())
    }
}

/// InnoDB's numbers, by what it calls the table; none where the account may not see them.
///
/// Of MySQL since 8.0 they are those of the tables' files: its list of tables locks each for a moment, and would wait behind every
/// `ALTER TABLE` that waits for somebody. A table that shares a file with others has none.
fn numbers(conn: &mut Connection) -> Result<HashMap<Vec<u8>, Numbers>, ReadError> {
    let list = if conn.server().is_mysql_since((8, 0, 0)) {
        "SELECT NAME, SPACE FROM information_schema.INNODB_TABLESPACES_BRIEF ORDER BY NAME"
    } else {
        "SELECT NAME, TABLE_ID FROM information_schema.INNODB_SYS_TABLES ORDER BY NAME"
    };
    let Some(all) = told(conn.query(list))? else {
        return Ok(HashMap::new());
    };
    let mut by_table: HashMap<Vec<u8>, Numbers> = HashMap::new();
    for row in 0..all.len() {
        let (Some(name), Some(number)) = (all.bytes(row, 0), all.u64(row, 1)) else {
            continue;
        };
        let end = PARTITION
            .iter()
            .find_map(|mark| memchr::memmem::find(name, mark))
            .unwrap_or(name.len());
        let of = by_table.entry(name[..end].to_vec()).or_default();
        of.push((name.to_vec(), number));
    }
    Ok(by_table)
}

/// Names of tables and databases as servers write them into one of a file:
/// <https://dev.mysql.com/doc/refman/8.4/en/identifier-mapping.html>. InnoDB calls a table so on MariaDB, and on MySQL before 8.0.
///
/// Those that are ASCII are not in it: how they are written is known. The mapping of other letters is long, so the server is asked.
#[derive(Debug, Default)]
struct FileNames(HashMap<String, Vec<u8>>);

impl FileNames {
    /// Has the server write those of these names that are not ASCII, many in one statement. MySQL 5.7 does not lend its mapping.
    fn read<'a>(
        conn: &mut Connection,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Self, ReadError> {
        let mut written = HashMap::new();
        if conn.server().vendor != Vendor::MariaDb {
            return Ok(Self(written));
        }
        let names: BTreeSet<&str> = names.filter(|name| !name.is_ascii()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        for some in names.chunks(NAMES_AT_ONCE) {
            let write =
                |name: &&str| format!("CAST(CONVERT({} USING filename) AS BINARY)", literal(name));
            let list: Vec<String> = some.iter().map(write).collect();
            let Some(answer) = told(conn.query(format!("SELECT {}", list.join(", "))))? else {
                break;
            };
            for (column, name) in some.iter().enumerate() {
                if let Some(file) = answer.bytes(0, column) {
                    written.insert((*name).to_owned(), file.to_vec());
                }
            }
        }
        Ok(Self(written))
    }

    /// What InnoDB calls a table; `None` where the server has not told.
    fn of(&self, table: &Table) -> Option<Vec<u8>> {
        let (database, name) = (self.file(&table.database)?, self.file(&table.name)?);
        Some([database, name].join(&b'/'))
    }

    fn file(&self, name: &str) -> Option<Vec<u8>> {
        if !name.is_ascii() {
            return self.0.get(name).cloned();
        }
        let mut file = Vec::with_capacity(name.len());
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || byte == b'_' {
                file.push(byte);
            } else {
                file.extend_from_slice(format!("@{byte:04x}").as_bytes());
            }
        }
        Some(file)
    }
}

/// When the tables of a database were created. On MariaDB it is the time of the definition's file, which renaming changes.
fn created(
    conn: &mut Connection,
    database: &str,
) -> Result<HashMap<Vec<u8>, Option<Vec<u8>>>, ReadError> {
    let times = conn
        .query(format!(
            "SELECT TABLE_NAME, CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {}",
            literal(database)
        ))
        .map_err(|error| {
            let doing = format!("reading when the tables of database {database} were created");
            ReadError::server(doing, error)
        })?;
    let cell = |row, column| times.bytes(row, column).map(<[u8]>::to_vec);
    Ok((0..times.len())
        .filter_map(|row| Some((cell(row, 0)?, cell(row, 1))))
        .collect())
}
