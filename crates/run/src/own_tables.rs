//! Tells which tables and databases of a server are Refloat's own.
//!
//! Refloat keeps tables on the servers it works on: the journal of settings in [`JOURNAL_SCHEMA`],
//! the progress marks of loads in [`MARKS_SCHEMA`], and for a moment rows in [`RATES_SCHEMA`]. Only
//! these tables are its own, recognised by name and columns. If a user has a database of one of
//! these names, or a table of their own under one of these table names, everything in it that is
//! not Refloat's is ordinary data: it is dumped, copied and verified. A database of one of these
//! names that holds nothing else is Refloat's. If a user's table has the name of one of Refloat's
//! tables, Refloat cannot create its own: a load is refused before it touches anything.

use std::collections::{BTreeMap, BTreeSet};

use refloat_wire::{Connection, Error};

/// Refloat's own schema on a target server.
pub const JOURNAL_SCHEMA: &str = "refloat";
/// Holds the journals of runs that have not put everything back yet.
pub const JOURNAL_TABLE: &str = "settings_journal";
/// The short-lived table that [`sync_definitions`] creates.
pub(crate) const SETTLED: &str = "removal_settled";
/// Schema of the progress marks of loads.
pub const MARKS_SCHEMA: &str = "refloat_load";
/// Tables of progress marks: committed rows of unfinished loads, and their other finished steps.
pub const MARKS_TABLES: [&str; 2] = ["marks", "steps"];

/// Schema in which rates are measured; it exists only for a moment.
pub const RATES_SCHEMA: &str = "refloat_rates";
/// Tables of the rates schema: one for replicated rows, one for rows that are not replicated.
pub const RATES_TABLES: [&str; 2] = ["replicated", "alone"];
const RATES_COLUMNS: &[&str] = &["id", "n", "moment", "name", "text"];

/// Refloat's own tables: schema, name, and the columns that every version has created.
const COLUMNS: [(&str, &str, &[&str]); 7] = [
    (JOURNAL_SCHEMA, JOURNAL_TABLE, &["run", "journal"]),
    (JOURNAL_SCHEMA, SETTLED, &["a"]),
    (
        MARKS_SCHEMA,
        "marks",
        &[
            "run",
            "file",
            "begins",
            "ends",
            "db",
            "tbl",
            "sent_rows",
            "stored_rows",
            "ignored_rows",
            "refused_rows",
            "digest",
            "detail",
        ],
    ),
    (MARKS_SCHEMA, "steps", &["run", "kind", "name", "detail"]),
    (MARKS_SCHEMA, SETTLED, &["a"]),
    (RATES_SCHEMA, RATES_TABLES[0], RATES_COLUMNS),
    (RATES_SCHEMA, RATES_TABLES[1], RATES_COLUMNS),
];

/// Whether a database of this name may hold Refloat's own tables, whatever else is in it.
pub fn is_own_schema(database: &str) -> bool {
    [JOURNAL_SCHEMA, MARKS_SCHEMA, RATES_SCHEMA].contains(&database)
}

/// Whether this is the name of one of Refloat's own tables. The table is Refloat's only if its
/// columns match too ([`has_own_columns`]; [`namesakes`] asks a server). On the target of a load
/// the name is enough: with any other table of that name, the load would have been refused.
pub fn is_own_table(database: &str, table: &str) -> bool {
    own_columns(database, table).is_some()
}

/// Whether a table named like one of Refloat's own also has that table's columns, in order.
pub fn has_own_columns<'a>(
    database: &str,
    table: &str,
    columns: impl IntoIterator<Item = &'a str>,
) -> bool {
    own_columns(database, table).is_some_and(|known| columns.into_iter().eq(known.iter().copied()))
}

fn own_columns(database: &str, table: &str) -> Option<&'static [&'static str]> {
    let mut all = COLUMNS.iter();
    all.find(|(schema, name, _)| *schema == database && *name == table)
        .map(|(_, _, columns)| *columns)
}

/// Names of the tables and views in a database that are named like one of Refloat's own but are
/// not. Databases that are not named like one of Refloat's are not queried. A table counts as
/// Refloat's if the server does not show its columns because the engine does not know it.
///
/// # Errors
/// A query fails, or the connection is lost.
pub fn namesakes(conn: &mut Connection, database: &str) -> Result<BTreeSet<String>, Error> {
    if !is_own_schema(database) {
        return Ok(BTreeSet::new());
    }
    namesakes_where(conn, database, "")
}

/// Whether the table of this name, one of Refloat's own, is a user's. Makes the server open only
/// this table, while [`namesakes`] makes it open all of them.
///
/// # Errors
/// A query fails, or the connection is lost.
pub(crate) fn is_namesake(
    conn: &mut Connection,
    database: &str,
    table: &str,
) -> Result<bool, Error> {
    let only = format!(" AND TABLE_NAME = '{table}'");
    Ok(namesakes_where(conn, database, &only)?.contains(table))
}

fn namesakes_where(
    conn: &mut Connection,
    database: &str,
    condition: &str,
) -> Result<BTreeSet<String>, Error> {
    let found = conn.query(format!(
        "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{database}'{condition} ORDER BY TABLE_NAME, ORDINAL_POSITION"
    ))?;
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in 0..found.len() {
        if let (Some(table), Some(column)) = (found.str(row, 0), found.str(row, 1)) {
            tables.entry(table).or_default().push(column);
        }
    }
    let others = tables.into_iter().filter(|(table, columns)| {
        is_own_table(database, table) && !has_own_columns(database, table, columns.iter().copied())
    });
    Ok(others.map(|(table, _)| table.to_owned()).collect())
}

/// All [`namesakes`] on a server, as `database.table`.
///
/// # Errors
/// A query fails, or the connection is lost.
pub fn all_namesakes(conn: &mut Connection) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    for schema in [JOURNAL_SCHEMA, MARKS_SCHEMA, RATES_SCHEMA] {
        let names = namesakes(conn, schema)?.into_iter();
        all.extend(names.map(|name| format!("{schema}.{name}")));
    }
    Ok(all)
}

/// Whether a database is Refloat's own: it has one of Refloat's names, and no `objects` (names of
/// tables, views and sequences) other than its tables. The caller must check for routines and
/// events; [`holds_programs`] asks a server.
pub fn is_own_database<'a>(database: &str, objects: impl IntoIterator<Item = &'a str>) -> bool {
    is_own_schema(database) && objects.into_iter().all(|name| is_own_table(database, name))
}

/// Whether a database of one of Refloat's names has routines, events or (since MySQL 9.2)
/// libraries, as far as the account can see. Other databases are not queried.
///
/// # Errors
/// A query fails, or the connection is lost.
pub fn holds_programs(conn: &mut Connection, database: &str) -> Result<bool, Error> {
    if !is_own_schema(database) {
        return Ok(false);
    }
    let mut kinds = vec![("ROUTINES", "ROUTINE_SCHEMA"), ("EVENTS", "EVENT_SCHEMA")];
    if conn.server().is_mysql_since((9, 2, 0)) {
        kinds.push(("LIBRARIES", "LIBRARY_SCHEMA"));
    }
    for (view, column) in kinds {
        let query = format!(
            "SELECT 1 FROM information_schema.{view} WHERE {column} = '{database}' LIMIT 1"
        );
        if !conn.query(query)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_tables_are_its_own() {
        assert!(is_own_table("refloat", "settings_journal"));
        assert!(is_own_table("refloat_load", "marks"));
        assert!(!is_own_table("refloat", "marks"));
        assert!(!is_own_table("shop", "settings_journal"));
        assert!(!is_own_table("refloat", "orders"));
    }

    #[test]
    fn a_table_is_its_own_by_its_columns() {
        let journal = ["run", "journal"];
        assert!(has_own_columns("refloat", "settings_journal", journal));
        assert!(!has_own_columns("refloat", "settings_journal", ["run"]));
        assert!(!has_own_columns("refloat_load", "marks", ["a"]));
        assert!(!has_own_columns("shop", "settings_journal", journal));
    }

    #[test]
    fn a_database_is_its_own_when_it_holds_nothing_else() {
        assert!(is_own_database("refloat", ["settings_journal"]));
        assert!(is_own_database("refloat_load", ["marks", "steps"]));
        assert!(is_own_database("refloat", []));
        assert!(!is_own_database("refloat", ["orders", "settings_journal"]));
        assert!(!is_own_database("shop", []));
    }
}
