//! What of a server is Refloat's own.
//!
//! Refloat keeps tables on the servers that it works on: the journal of settings in [`JOURNAL_SCHEMA`], the progress marks of loads in
//! [`MARKS_SCHEMA`], for a moment rows of [`RATES_SCHEMA`]. Only these tables are its own, told by their names and their columns. Somebody may have a database of one of these
//! names, or a table of one of those in it, and then everything else in it is as any other data: it is dumped, copied and verified. A
//! database of these names that holds nothing else is Refloat's. Where somebody's table has the name of one of Refloat's, Refloat
//! cannot keep its own: a load is refused before it touches anything.

use std::collections::{BTreeMap, BTreeSet};

use refloat_wire::{Connection, Error};

use crate::ghost::SETTLED;
use crate::settings::{JOURNAL_SCHEMA, JOURNAL_TABLE};

/// The schema of the progress marks of loads.
pub const MARKS_SCHEMA: &str = "refloat_load";
/// Tables of the progress marks: of each unfinished load, of its committed rows, of what else it did.
pub const MARKS_TABLES: [&str; 3] = ["runs", "marks", "steps"];

/// The schema that rates are measured in, for a moment.
pub const RATES_SCHEMA: &str = "refloat_rates";
/// Its tables: rows that are replicated, and rows that are not.
pub const RATES_TABLES: [&str; 2] = ["replicated", "alone"];
const RATES_COLUMNS: &[&str] = &["id", "n", "moment", "name", "text"];

/// Refloat's own tables: schema, name, and the columns that every version has made.
const COLUMNS: [(&str, &str, &[&str]); 8] = [
    (JOURNAL_SCHEMA, JOURNAL_TABLE, &["run", "journal"]),
    (JOURNAL_SCHEMA, SETTLED, &["a"]),
    (MARKS_SCHEMA, "runs", &["run", "about"]),
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

/// Whether tables of Refloat's own are kept in a database of this name, whatever else it holds.
pub fn is_own_schema(database: &str) -> bool {
    [JOURNAL_SCHEMA, MARKS_SCHEMA, RATES_SCHEMA].contains(&database)
}

/// Whether this is the name of a table of Refloat's own. It is one where it has its columns, too ([`has_own_columns`]; [`namesakes`] asks
/// a server); on the target of a load there is no other, because the load would have been refused.
pub fn is_own_table(database: &str, table: &str) -> bool {
    own_columns(database, table).is_some()
}

/// Whether a table with the name of one of Refloat's own has the columns of that, in their order.
pub fn has_own_columns<'a>(
    database: &str,
    table: &str,
    columns: impl IntoIterator<Item = &'a str>,
) -> bool {
    own_columns(database, table).is_some_and(|own| columns.into_iter().eq(own.iter().copied()))
}

fn own_columns(database: &str, table: &str) -> Option<&'static [&'static str]> {
    let mut all = COLUMNS.iter();
    all.find(|(schema, name, _)| *schema == database && *name == table)
        .map(|(_, _, columns)| *columns)
}

/// Somebody's tables and views in a database that are called like one of Refloat's own and are none, by name. Of databases that are not
/// called like one of Refloat's it is not asked. One whose columns the server does not show, because the engine does not know the
/// table, is Refloat's.
///
/// # Errors
/// Those of the connection.
pub fn namesakes(conn: &mut Connection, database: &str) -> Result<BTreeSet<String>, Error> {
    if !is_own_schema(database) {
        return Ok(BTreeSet::new());
    }
    let found = conn.query(format!(
        "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{database}' ORDER BY TABLE_NAME, ORDINAL_POSITION"
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

/// All of a server's [`namesakes`], as `database.table`.
///
/// # Errors
/// Those of the connection.
pub fn all_namesakes(conn: &mut Connection) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    for schema in [JOURNAL_SCHEMA, MARKS_SCHEMA, RATES_SCHEMA] {
        let names = namesakes(conn, schema)?.into_iter();
        all.extend(names.map(|name| format!("{schema}.{name}")));
    }
    Ok(all)
}

/// Whether a database is Refloat's own: one of its names, with no `objects` (tables, views, sequences, by name) but its own tables.
/// Whether there are routines or events is for the caller to find out; [`holds_programs`] asks a server.
pub fn is_own_database<'a>(database: &str, objects: impl IntoIterator<Item = &'a str>) -> bool {
    is_own_schema(database) && objects.into_iter().all(|name| is_own_table(database, name))
}

/// Whether a database of one of Refloat's names has routines or events, as far as the account may see them. Of other databases it is not
/// asked.
///
/// # Errors
/// Those of the connection.
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
        assert!(has_own_columns("refloat_load", "runs", ["run", "about"]));
        assert!(!has_own_columns("refloat_load", "runs", ["run"]));
        assert!(!has_own_columns("refloat_load", "marks", ["a"]));
        assert!(!has_own_columns("shop", "runs", ["run", "about"]));
    }

    #[test]
    fn a_database_is_its_own_when_it_holds_nothing_else() {
        assert!(is_own_database("refloat", ["settings_journal"]));
        assert!(is_own_database("refloat_load", ["marks", "runs", "steps"]));
        assert!(is_own_database("refloat", []));
        assert!(!is_own_database("refloat", ["orders", "settings_journal"]));
        assert!(!is_own_database("shop", []));
    }
}
