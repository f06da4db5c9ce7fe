//! Whether a name still refers to the table that it referred to in the snapshot.
//!
//! The definition does not tell: `RENAME TABLE` can swap in a copy, and `EXCHANGE PARTITION` a
//! partition, with the same definition. InnoDB gives every table and every partition an ID that it
//! never reuses, but only an account with `PROCESS` can see it. For other accounts the creation
//! time must do.

use std::collections::{BTreeSet, HashMap};

use refloat_sqltext::literal;
use refloat_wire::{Connection, Vendor};

use super::catalog::{DataPolicy, Table};
use super::error::ReadError;
use super::snapshot::position::if_available;

/// Suffix of the file name of a table that is named like a device on some system (`con`, `nul`).
const DEVICE: &[u8] = b"@@@";

/// Separates the table name from the partition name. A table with this text in its own name is not
/// found, and is identified by its creation time.
const PARTITION: [&[u8]; 2] = [b"#P#", b"#p#"];

/// File names to ask for in one statement: each is a column of the result, and 4096 is the limit.
const NAMES_AT_ONCE: usize = 500;

/// The caveat when only a creation time tells one table from another.
const VAGUE: &str = "a table, or one of its partitions, that somebody exchanges, while it is read, for another of the same definition may not be noticed: the account lacks PROCESS, \
     or InnoDB has no number of its own for each table";

/// The InnoDB ID of a table, or those of its partitions, each with its InnoDB name.
type Numbers = Vec<(Vec<u8>, u64)>;

/// What distinguishes a table from others of the same name and definition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    /// The IDs that InnoDB assigned.
    Numbers(Numbers),
    /// The creation time, if the server reports one: in whole seconds, and on MySQL it follows the
    /// table through a rename. It never reveals `EXCHANGE PARTITION`.
    Created(Option<Vec<u8>>),
}

/// Identities of the tables that are read in the snapshot, by `database.table`.
#[derive(Debug, Default)]
pub struct Identities(HashMap<String, Identity>);

impl Identities {
    /// Reads the current identities of the tables.
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

    /// The first table, by name, that is not the same table in `now`.
    pub fn exchanged(&self, now: &Self) -> Option<String> {
        let is_other = |(name, identity): &(&String, &Identity)| {
            self.0.get(*name).is_none_or(|before| before != *identity)
        };
        let others = now.0.iter().filter(is_other);
        others.map(|(name, _)| name).min().cloned()
    }

    /// Checks that these tables are still the same ones.
    ///
    /// # Errors
    /// [`ReadError::Changed`] with the first table that is not.
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

    /// A note for the user if some tables are identified only by their creation time.
    pub fn caveat(&self) -> Option<String> {
        let mut all = self.0.values();
        all.any(|identity| matches!(identity, Identity::Created(_)))
            .then(|| VAGUE.to_owned())
    }
}

/// InnoDB's IDs by InnoDB table name; empty when the account may not see them.
///
/// On MySQL 8.0 and newer these are tablespace IDs: the list of tables locks each table for a
/// moment, and would wait behind every blocked `ALTER TABLE`. A table in a shared tablespace has no
/// ID.
fn numbers(conn: &mut Connection) -> Result<HashMap<Vec<u8>, Numbers>, ReadError> {
    let list = if conn.server().is_mysql_since((8, 0, 0)) {
        "SELECT NAME, SPACE FROM information_schema.INNODB_TABLESPACES_BRIEF ORDER BY NAME"
    } else {
        "SELECT NAME, TABLE_ID FROM information_schema.INNODB_SYS_TABLES ORDER BY NAME"
    };
    let Some(all) = if_available(conn.query(list))? else {
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

/// Table and database names encoded as file names:
/// <https://dev.mysql.com/doc/refman/8.4/en/identifier-mapping.html>. InnoDB uses these names on
/// MariaDB, and on MySQL before 8.0.
///
/// Only non-ASCII names are kept here. ASCII is easy to encode; the mapping of other characters is
/// long, so the server does it.
#[derive(Debug, Default)]
struct FileNames(HashMap<String, Vec<u8>>);

impl FileNames {
    /// Asks the server to encode the non-ASCII names, many per statement. MySQL 5.7 does not offer
    /// its mapping to queries.
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
            let Some(answer) = if_available(conn.query(format!("SELECT {}", list.join(", "))))?
            else {
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

    /// The InnoDB name of a table; `None` when the server did not encode it.
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

/// Creation times of the tables of a database. On MariaDB this is the time of the definition file,
/// which a rename changes.
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
