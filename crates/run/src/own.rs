//! What of a server is Refloat's own.
//!
//! Refloat keeps tables on the servers that it works on: the journal of settings in [`JOURNAL_SCHEMA`], the progress marks of loads in
//! [`MARKS_SCHEMA`]. Only these tables are its own. Somebody may have a database of one of these names, and then everything else in it is
//! as any other data: it is dumped, loaded, copied and verified. A database of these names that holds nothing else is Refloat's.

use refloat_wire::{Connection, Error};

use crate::ghost::SETTLED;
use crate::settings::{JOURNAL_SCHEMA, JOURNAL_TABLE};

/// The schema of the progress marks of loads.
pub const MARKS_SCHEMA: &str = "refloat_load";
/// Tables of the progress marks: of each unfinished load, of its committed rows, of what else it did.
pub const MARKS_TABLES: [&str; 3] = ["runs", "marks", "steps"];

/// Whether tables of Refloat's own are kept in a database of this name, whatever else it holds.
pub fn is_own_schema(database: &str) -> bool {
    [JOURNAL_SCHEMA, MARKS_SCHEMA].contains(&database)
}

/// Whether this table is Refloat's own, and no data of anybody.
pub fn is_own_table(database: &str, table: &str) -> bool {
    match database {
        JOURNAL_SCHEMA => table == JOURNAL_TABLE || table == SETTLED,
        MARKS_SCHEMA => MARKS_TABLES.contains(&table) || table == SETTLED,
        _ => false,
    }
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
    fn a_database_is_its_own_when_it_holds_nothing_else() {
        assert!(is_own_database("refloat", ["settings_journal"]));
        assert!(is_own_database("refloat_load", ["marks", "runs", "steps"]));
        assert!(is_own_database("refloat", []));
        assert!(!is_own_database("refloat", ["orders", "settings_journal"]));
        assert!(!is_own_database("shop", []));
    }
}
