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

/// What stands before the name of a partition; a table whose own name has it is not found, and told by its time.
const PARTITION: [&[u8]; 2] = [b"#P#", b"#p#"];

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
                && let Some(mut name) = called(conn, table)?
            {
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

    /// Whether some are told apart by nothing but times.
    pub fn are_vague(&self) -> bool {
        let mut all = self.0.values();
        all.any(|identity| matches!(identity, Identity::Created(_)))
    }
}

/// InnoDB's numbers, by what [`called`] gives; none where the account may not see them.
///
/// Of MySQL since 8.0 they are those of the tables' files: its list of tables locks each for a moment, and would wait behind every
/// `ALTER TABLE` that waits for somebody. A table that shares a file with others has none.
fn numbers(conn: &mut Connection) -> Result<HashMap<Vec<u8>, Numbers>, DumpError> {
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

/// What InnoDB calls a table; `None` where the server does not tell.
fn called(conn: &mut Connection, table: &Table) -> Result<Option<Vec<u8>>, DumpError> {
    if conn.server().is_mysql_since((8, 0, 0)) {
        let name = format!("{}/{}", table.database, table.name);
        return Ok(Some(name.into_bytes()));
    }
    let (database, name) = (
        file_name(conn, &table.database)?,
        file_name(conn, &table.name)?,
    );
    Ok(database
        .zip(name)
        .map(|(database, name)| [database, name].join(&b'/')))
}

/// How servers write a name into one of a file: <https://dev.mysql.com/doc/refman/8.4/en/identifier-mapping.html>.
fn file_name(conn: &mut Connection, name: &str) -> Result<Option<Vec<u8>>, DumpError> {
    if !name.is_ascii() {
        // The mapping of letters is long, and MySQL 5.7 does not lend it.
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
