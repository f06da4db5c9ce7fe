//! Whether a name still means the table that it meant in the snapshot.
//!
//! A definition does not tell: who has filled a copy of a table puts it in the table's place with `RENAME TABLE`, or a partition with
//! `EXCHANGE PARTITION`, and both are defined alike. InnoDB gives each table, and each partition, a number that it never gives again.
//! Only an account with `PROCESS` sees it; to others a time of creation must do.

use std::collections::HashMap;

use refloat_wire::{Connection, Vendor};

use super::catalog::{DataPolicy, Table};
use super::error::DumpError;
use super::snapshot::position::told;
use crate::load::literal;

/// What is added to the file name of a table whose name is that of a device somewhere (`con`, `nul`).
const DEVICE: &[u8] = b"@@@";

/// InnoDB's number of a table, or those of its partitions, each with the name that InnoDB has for it.
type Numbers = Vec<(Vec<u8>, u64)>;

/// What tells a table from others of the same name and definition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    /// InnoDB's own.
    Numbers(Numbers),
    /// When it was created, as far as the server tells: in whole seconds, and on MySQL a renamed table takes it along.
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
    ) -> Result<Self, DumpError> {
        let tables: Vec<&Table> = tables
            .filter(|table| table.policy == DataPolicy::Snapshot)
            .collect();
        if tables.is_empty() {
            return Ok(Self::default());
        }
        let mut numbers = numbers(conn)?;
        let mut found = HashMap::with_capacity(tables.len());
        let mut times: HashMap<&str, HashMap<Vec<u8>, Option<Vec<u8>>>> = HashMap::new();
        for table in tables {
            let mut identity = None;
            if !numbers.is_empty()
                && let Some(mut file) = file_of(conn, table)?
            {
                identity = numbers.remove(&file).or_else(|| {
                    file.extend_from_slice(DEVICE);
                    numbers.remove(&file)
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

    /// Whether some are told apart by nothing but times.
    pub fn are_vague(&self) -> bool {
        let mut all = self.0.values();
        all.any(|identity| matches!(identity, Identity::Created(_)))
    }
}

/// InnoDB's numbers, by database and table as their files are called; none where the account may not see them.
fn numbers(conn: &mut Connection) -> Result<HashMap<Vec<u8>, Numbers>, DumpError> {
    let list = if conn.server().is_mysql_since((8, 0, 0)) {
        "INNODB_TABLES"
    } else {
        "INNODB_SYS_TABLES"
    };
    let all = told(conn.query(format!(
        "SELECT NAME, TABLE_ID FROM information_schema.{list} ORDER BY NAME"
    )))?;
    let mut by_table: HashMap<Vec<u8>, Numbers> = HashMap::new();
    for row in 0..all.as_ref().map_or(0, refloat_wire::ResultSet::len) {
        let cells = all.as_ref().map(|all| (all.bytes(row, 0), all.u64(row, 1)));
        let Some((Some(name), Some(number))) = cells else {
            continue;
        };
        // What follows names a partition: in a name itself this character is written otherwise.
        let table = name.split(|byte| *byte == b'#').next().unwrap_or_default();
        let of = by_table.entry(table.to_vec()).or_default();
        of.push((name.to_vec(), number));
    }
    Ok(by_table)
}

/// Database and table as their files are called; `None` where the server does not tell.
fn file_of(conn: &mut Connection, table: &Table) -> Result<Option<Vec<u8>>, DumpError> {
    let Some(mut file) = file_name(conn, &table.database)? else {
        return Ok(None);
    };
    let Some(name) = file_name(conn, &table.name)? else {
        return Ok(None);
    };
    file.push(b'/');
    file.extend_from_slice(&name);
    Ok(Some(file))
}

/// How servers write a name into one of a file: <https://dev.mysql.com/doc/refman/8.4/en/identifier-mapping.html>.
fn file_name(conn: &mut Connection, name: &str) -> Result<Option<Vec<u8>>, DumpError> {
    if !name.is_ascii() {
        // The mapping of letters is long, and only MariaDB lends it.
        if conn.server().vendor != Vendor::MariaDb {
            return Ok(None);
        }
        let written = format!(
            "SELECT CAST(CONVERT({} USING filename) AS BINARY)",
            literal(name)
        );
        let answer = told(conn.query(written))?;
        return Ok(answer.and_then(|answer| answer.bytes(0, 0).map(<[u8]>::to_vec)));
    }
    let mut file = Vec::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            file.push(byte);
        } else {
            file.extend_from_slice(format!("@{byte:04x}").as_bytes());
        }
    }
    Ok(Some(file))
}

/// When the tables of a database were created. On MariaDB it is the time of the definition's file, which renaming changes.
fn created(
    conn: &mut Connection,
    database: &str,
) -> Result<HashMap<Vec<u8>, Option<Vec<u8>>>, DumpError> {
    let times = conn
        .query(format!(
            "SELECT TABLE_NAME, CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {}",
            literal(database)
        ))
        .map_err(|error| {
            let doing = format!("reading when the tables of database {database} were created");
            DumpError::server(doing, error)
        })?;
    let cell = |row, column| times.bytes(row, column).map(<[u8]>::to_vec);
    Ok((0..times.len())
        .filter_map(|row| Some((cell(row, 0)?, cell(row, 1))))
        .collect())
}
