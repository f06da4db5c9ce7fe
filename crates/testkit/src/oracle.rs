//! Decides whether two servers, or one server at two times, hold the same data.
//!
//! A [`Snapshot`] holds everything that a logical dump can carry: the definition of every object,
//! both in the server's own words (`SHOW CREATE …`) and in the catalogue (`information_schema`),
//! and the rows of every table.
//!
//! Rows are compared as bytes. Text and binary columns are read as `HEX` of the stored value, so
//! that no character set is converted. `FLOAT` and `DOUBLE` are read as bits, over the binary
//! protocol. Each cell is hashed with its length, and NULL is distinct. Row hashes are added modulo
//! 2^128, so their order does not matter, but duplicates do.

mod catalogue;
mod rows;

use std::collections::BTreeMap;
use std::fmt;

use refloat_run::own_tables;
use refloat_wire::{Connection, Error};

pub use rows::Rows;

/// Databases of the server itself.
const SYSTEM_DATABASES: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];
/// Maximum number of differing rows shown per table.
const ROWS_SHOWN: usize = 3;

/// Options of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scope {
    /// Include the row history of system-versioned tables, with its timestamps. Otherwise only
    /// current rows are read, without timestamps, because those are set by the load.
    pub history: bool,
}

/// Everything that a server holds, except in its own databases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Definitions, by kind and name of the object.
    pub definitions: BTreeMap<(String, String), String>,
    /// Rows by `database.table`; quoted if a name contains a dot.
    pub rows: BTreeMap<String, Rows>,
}

/// One difference between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Kind (`table`, `trigger`, `rows` …) and name of the object.
    pub about: String,
    /// The object in the first snapshot.
    pub left: String,
    /// The object in the second snapshot.
    pub right: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n    left:  {}\n    right: {}",
            self.about, self.left, self.right
        )
    }
}

impl Snapshot {
    /// Reads everything. Changes the session of the connection.
    ///
    /// # Errors
    /// Errors of the connection. An object that the server cannot show (an invalid view) is not an
    /// error: the server's message becomes part of the snapshot.
    pub fn take(conn: &mut Connection, scope: Scope) -> Result<Self, Error> {
        catalogue::prepare_session(conn)?;
        let mut snapshot = Self::default();
        let databases = databases(conn)?;
        for database in &databases {
            snapshot.database(conn, database, scope)?;
        }
        catalogue::information_schema(conn, &databases, &mut snapshot.definitions)?;
        Ok(snapshot)
    }

    /// Reads only rows, with column names but without types: other vendors use other types for the
    /// same values. Changes the session of the connection.
    ///
    /// # Errors
    /// Errors of the connection.
    pub fn rows_of_any_vendor(conn: &mut Connection) -> Result<Self, Error> {
        catalogue::prepare_session(conn)?;
        let mut snapshot = Self::default();
        for database in databases(conn)? {
            for table in catalogue::tables_with_rows(conn, &database)? {
                let mut read = rows::read(conn, &database, &table, Scope::default())?;
                for column in &mut read.columns {
                    let name = column.rsplit_once(' ').map_or(0, |(name, _)| name.len());
                    column.truncate(name);
                }
                snapshot.rows.insert(label(&database, &table), read);
            }
        }
        Ok(snapshot)
    }

    fn database(
        &mut self,
        conn: &mut Connection,
        database: &str,
        scope: Scope,
    ) -> Result<(), Error> {
        catalogue::objects(conn, database, &mut self.definitions)?;
        for table in catalogue::tables_with_rows(conn, database)? {
            let read = rows::read(conn, database, &table, scope)?;
            self.rows.insert(label(database, &table), read);
        }
        Ok(())
    }
}

/// The databases of a server, except its own and those that hold only Refloat's tables.
///
/// # Errors
/// Errors of the connection.
pub fn databases(conn: &mut Connection) -> Result<Vec<String>, Error> {
    let result = conn.query("SHOW DATABASES")?;
    let names = result.rows.iter().filter_map(|row| row.first()?.as_deref());
    let mut found = Vec::new();
    for name in names.map(|name| String::from_utf8_lossy(name).into_owned()) {
        if !SYSTEM_DATABASES.contains(&name.as_str()) && !is_own(conn, &name)? {
            found.push(name);
        }
    }
    Ok(found)
}

/// Whether a database holds only Refloat's own tables.
fn is_own(conn: &mut Connection, database: &str) -> Result<bool, Error> {
    if !own_tables::is_own_schema(database) {
        return Ok(false);
    }
    let tables = conn.query(format!("SHOW TABLES FROM {}", quote(database)))?;
    Ok(own_tables::is_own_database(database, tables.texts(0))
        && !own_tables::holds_programs(conn, database)?)
}

/// `database.table`; quoted if a dot in a name would make it ambiguous.
fn label(database: &str, table: &str) -> String {
    if database.contains('.') || table.contains('.') {
        format!("{}.{}", quote(database), quote(table))
    } else {
        format!("{database}.{table}")
    }
}

/// Quotes a name with backticks.
pub fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Quotes a text with apostrophes, for a session without `NO_BACKSLASH_ESCAPES`.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// All differences between two snapshots; empty if they are the same.
pub fn differences(left: &Snapshot, right: &Snapshot) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(
        &left.definitions,
        &right.definitions,
        |(kind, name)| format!("{kind} {name}"),
        |a, b| first_difference(a, b),
        &mut found,
    );
    compare(
        &left.rows,
        &right.rows,
        |name| format!("rows of {name}"),
        |a, b| a.against(b, ROWS_SHOWN),
        &mut found,
    );
    found
}

fn compare<K: Ord, V: PartialEq>(
    left: &BTreeMap<K, V>,
    right: &BTreeMap<K, V>,
    about: impl Fn(&K) -> String,
    words: impl Fn(&V, &V) -> (String, String),
    found: &mut Vec<Difference>,
) {
    for (key, value) in left {
        let (left, right) = match right.get(key) {
            Some(other) if other == value => continue,
            Some(other) => words(value, other),
            None => ("is there".to_owned(), "is missing".to_owned()),
        };
        found.push(Difference {
            about: about(key),
            left,
            right,
        });
    }
    for key in right.keys().filter(|key| !left.contains_key(key)) {
        found.push(Difference {
            about: about(key),
            left: "is missing".to_owned(),
            right: "is there".to_owned(),
        });
    }
}

/// The lines from the first difference on, truncated for display.
fn first_difference(left: &str, right: &str) -> (String, String) {
    // Not `lines()`: that would hide a carriage return.
    let same = left
        .split('\n')
        .zip(right.split('\n'))
        .take_while(|(a, b)| a == b)
        .count();
    let rest = |text: &str| {
        let lines: Vec<&str> = text.split('\n').skip(same).take(3).collect();
        let mut shown: String = lines.join(" | ").chars().take(300).collect();
        if shown.is_empty() {
            shown.push_str("(ends here)");
        }
        shown
    };
    (rest(left), rest(right))
}
