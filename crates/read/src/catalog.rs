//! Lists what is on the server and selects what was asked for.

mod collated;
mod columns;
mod hidden_characters;
mod programs;
mod tables;

use std::collections::BTreeSet;

use refloat_run::Refusal;
use refloat_run::own_tables::{holds_programs, is_own_schema, is_own_table, namesakes};
use refloat_schema::pattern::{is_system_database, matches_any, may_choose_in};
use refloat_sqltext::{literal, quote_ident};
use refloat_wire::{Connection, Error, ResultSet};

use super::error::ReadError;
use super::options::ReadOptions;

pub use columns::{Column, KeyLiteral};
pub use programs::{Program, Programs, View, read_programs};
pub use tables::{DataPolicy, KeyColumn, Table, read_tables};

/// The hint for names that match nothing.
pub const NAMES_HINT: &str = "Names are compared as the server has them; * and ? stand for other characters; tables are `table` or `db.table`. \
     Refloat's own tables, in databases refloat and refloat_load, are never taken.";

/// A database to dump, with the names of its objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Database {
    /// As the server spells it, unquoted.
    pub name: String,
    /// Base tables, sorted by name.
    pub tables: Vec<String>,
    /// Sequences (MariaDB), sorted by name.
    pub sequences: Vec<String>,
    /// Views, sorted by name.
    pub views: Vec<String>,
    /// Leftovers of the server's own work, which no tool may touch.
    pub leftovers: Vec<String>,
    /// Whether the account may list nothing in it (MySQL), though it may hold what is wanted.
    pub hidden: bool,
}

impl Database {
    /// Names of its tables, sequences, views and leftovers.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        let lists = [&self.tables, &self.sequences, &self.views, &self.leftovers];
        lists.into_iter().flatten().map(String::as_str)
    }
}

/// Lists the selected databases, tables and views by name, without Refloat's own. It is cheap,
/// because it also runs while writers wait.
pub fn list(conn: &mut Connection, options: &ReadOptions) -> Result<Vec<Database>, ReadError> {
    let failed = |error| ReadError::server("listing tables", error);
    let mut databases: Vec<String> = texts(&conn.query("SHOW DATABASES").map_err(failed)?, 0)?;
    databases.sort_unstable();
    databases.retain(|name| wanted_database(options, name));
    let of_files = !conn.server().is_mysql_since((8, 0, 0));
    let mut listed = Vec::with_capacity(databases.len());
    for name in databases {
        let theirs = namesakes(conn, &name).map_err(failed)?;
        let mut database = Database {
            name,
            ..Database::default()
        };
        let query = format!("SHOW FULL TABLES FROM {}", quote_ident(&database.name));
        let found = match conn.query(query) {
            // Dropped in the meantime.
            Err(error) if error.server_code() == Some(1049) => continue,
            Err(error) if error.is_access_denied() => {
                database.hidden = true;
                if may_choose_in(&options.tables, &database.name) {
                    listed.push(database);
                }
                continue;
            }
            other => other.map_err(failed)?,
        };
        let (names, kinds) = (texts(&found, 0)?, texts(&found, 1)?);
        for (name, kind) in names.into_iter().zip(kinds) {
            let is_own = is_own_table(&database.name, &name) && !theirs.contains(&name);
            if is_own || !asked_table(options, &database.name, &name) {
                continue;
            }
            // A file that belongs to no table, for example left by a killed `ALTER`. MySQL 8.0 and
            // newer list no files, so there it is a table name.
            if of_files && name.starts_with("#mysql50#") {
                database.leftovers.push(name);
                continue;
            }
            match kind.as_str() {
                "VIEW" | "SYSTEM VIEW" => database.views.push(name),
                "SEQUENCE" => database.sequences.push(name),
                _ => database.tables.push(name),
            }
        }
        database.tables.sort_unstable();
        database.sequences.sort_unstable();
        database.views.sort_unstable();
        if is_own_schema(&database.name)
            && database.objects().next().is_none()
            && !holds_programs(conn, &database.name).map_err(failed)?
        {
            continue;
        }
        listed.push(database);
    }
    if !options.tables.is_empty() {
        listed.retain(|database| {
            database.hidden
                || !database.tables.is_empty()
                || !database.views.is_empty()
                || !database.sequences.is_empty()
        });
    }
    Ok(listed)
}

/// Patterns that match nothing: a typing error must not produce an empty dump.
pub fn unmatched(options: &ReadOptions, listed: &[Database]) -> Vec<String> {
    let databases: BTreeSet<&str> = listed
        .iter()
        .map(|database| database.name.as_str())
        .collect();
    let no_database = options.databases.iter().filter(|pattern| {
        let one = std::slice::from_ref(*pattern);
        !databases.iter().any(|name| matches_any(one, "", name))
    });
    no_objects(&options.tables, listed)
        .chain(no_database)
        .cloned()
        .collect()
}

/// Exclusion patterns that match nothing on the server: a typing error must not let in what was to
/// be left out.
pub fn unmatched_exclusions(
    conn: &mut Connection,
    options: &ReadOptions,
) -> Result<Vec<String>, ReadError> {
    if options.exclude.is_empty() {
        return Ok(Vec::new());
    }
    // A pattern may match an object that is not selected.
    let mut everything = options.clone();
    everything.databases.clear();
    everything.tables.clear();
    everything.exclude.clear();
    let listed = list(conn, &everything)?;
    Ok(no_objects(&options.exclude, &listed).cloned().collect())
}

/// The patterns that match no table, view or sequence.
fn no_objects<'a>(patterns: &'a [String], listed: &[Database]) -> impl Iterator<Item = &'a String> {
    let objects: Vec<(&str, &str)> = listed
        .iter()
        .flat_map(|database| {
            let tables = database.tables.iter().map(String::as_str);
            tables
                .chain(database.views.iter().map(String::as_str))
                .chain(database.sequences.iter().map(String::as_str))
                .map(|name| (database.name.as_str(), name))
        })
        .collect();
    patterns.iter().filter(move |pattern| {
        let one = std::slice::from_ref(*pattern);
        !objects
            .iter()
            .any(|(database, name)| matches_any(one, database, name))
    })
}

/// Whether a database is selected. Whether a database with one of Refloat's names holds anything
/// but Refloat's own tables is a separate question ([`refloat_run::own_tables`]).
pub fn wanted_database(options: &ReadOptions, name: &str) -> bool {
    let asked = options.databases.is_empty() || matches_any(&options.databases, "", name);
    asked && !is_system_database(name)
}

/// Whether a table, view or sequence is selected. Names of Refloat's own tables never are.
pub fn wanted_table(options: &ReadOptions, database: &str, name: &str) -> bool {
    asked_table(options, database, name) && !is_own_table(database, name)
}

/// Whether a table, view or sequence is selected, Refloat's own included.
pub fn asked_table(options: &ReadOptions, database: &str, name: &str) -> bool {
    let asked = options.tables.is_empty() || matches_any(&options.tables, database, name);
    asked && !matches_any(&options.exclude, database, name)
}

/// Notes on Refloat's own tables that are left out of databases which also hold user objects.
pub fn notes_on_own_tables(
    conn: &mut Connection,
    databases: &[Database],
) -> Result<Vec<String>, ReadError> {
    let failed = |error| ReadError::server("listing tables", error);
    let mut notes = Vec::new();
    for database in databases.iter().filter(|of| is_own_schema(&of.name)) {
        let theirs = namesakes(conn, &database.name).map_err(failed)?;
        let query = format!("SHOW TABLES FROM {}", quote_ident(&database.name));
        let found = texts(&conn.query(query).map_err(failed)?, 0)?;
        let own_tables = found
            .iter()
            .filter(|name| is_own_table(&database.name, name) && !theirs.contains(*name));
        let own_tables: Vec<&str> = own_tables.map(String::as_str).collect();
        if !own_tables.is_empty() {
            notes.push(format!(
                "database {}: left out are Refloat's own tables ({})",
                database.name,
                own_tables.join(", ")
            ));
        }
    }
    Ok(notes)
}

/// The default collation of every database, by name.
pub fn collations(conn: &mut Connection) -> Result<Vec<(String, String)>, ReadError> {
    let query = "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA";
    let result = conn
        .query(query)
        .map_err(|error| ReadError::server("listing databases", error))?;
    let names = texts(&result, 0)?;
    Ok(names.into_iter().zip(texts(&result, 1)?).collect())
}

/// A column of a result as text, with NULL as the empty string. Names that are not UTF-8 are an
/// error: the object would be left out under a name that does not exist.
fn texts(result: &ResultSet, column: usize) -> Result<Vec<String>, ReadError> {
    let text = |row| {
        let bytes = result.bytes(row, column).unwrap_or_default();
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_not_text| {
                ReadError::Refused(Refusal {
                    reason: format!(
                        "the server lists a name that is not UTF-8: {}",
                        bytes.escape_ascii()
                    ),
                    hint: "Rename what has that name, or leave its database out with --databases."
                        .to_owned(),
                })
            })
    };
    (0..result.len()).map(text).collect()
}

/// Errors for an object that existed a moment ago: `ER_BAD_DB_ERROR`, `ER_NO_SUCH_TABLE`,
/// `ER_SP_DOES_NOT_EXIST`, `ER_TRG_DOES_NOT_EXIST`, `ER_EVENT_DOES_NOT_EXIST`, MariaDB's
/// `ER_UNKNOWN_SEQUENCES`.
pub const GONE: &[u16] = &[1049, 1146, 1305, 1360, 1539, 4091];

/// The result of a `SHOW CREATE`; [`ReadError::Changed`] if the object is gone. The server returns
/// NULL for a definition that the account may not see: an error, not an empty definition.
pub fn show_create(
    conn: &mut Connection,
    what: &str,
    statement: &str,
    columns: &[&str],
) -> Result<ShowCreate, ReadError> {
    let result = conn
        .query(statement)
        .map_err(|error: Error| match error.server_code() {
            Some(code) if GONE.contains(&code) => ReadError::Changed {
                what: what.to_owned(),
            },
            _ => ReadError::server(format!("reading the definition of {what}"), error),
        })?;
    let text = columns
        .iter()
        .find_map(|name| result.bytes(0, result.column(name)?));
    let Some(text) = text else {
        return Err(ReadError::Refused(Refusal {
            reason: format!("the definition of {what} is hidden from the account"),
            hint: "Grant it SHOW VIEW, TRIGGER, EVENT, and for routines SHOW_ROUTINE or SELECT on mysql.proc; or leave the object out with --exclude.".to_owned(),
        }));
    };
    let cell = |name: &str| result.get(0, name).map(str::to_owned);
    Ok(ShowCreate {
        text: text.to_vec(),
        sql_mode: cell("sql_mode"),
        client: cell("character_set_client"),
        connection: cell("collation_connection"),
        database: cell("Database Collation"),
        time_zone: cell("time_zone"),
    })
}

/// The `CREATE DATABASE IF NOT EXISTS` statement of a database, with its collation.
pub fn show_create_database(conn: &mut Connection, name: &str) -> Result<Vec<u8>, ReadError> {
    let label = format!("database {name}");
    let statement = format!("SHOW CREATE DATABASE IF NOT EXISTS {}", quote_ident(name));
    let create = show_create(conn, &label, &statement, &["Create Database"])?;
    let collation = conn
        .query_value(format!(
            "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {}",
            literal(name)
        ))
        .map_err(|error| ReadError::server(format!("reading the collation of {label}"), error))?;
    Ok(match collation {
        Some(collation) => collated::database(&create.text, &collation),
        None => create.text,
    })
}

/// A definition, and the session settings it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowCreate {
    /// The `CREATE` statement.
    pub text: Vec<u8>,
    /// `sql_mode` of a program.
    pub sql_mode: Option<String>,
    /// `character_set_client` at creation.
    pub client: Option<String>,
    /// `collation_connection` at creation.
    pub connection: Option<String>,
    /// Database collation at creation.
    pub database: Option<String>,
    /// `time_zone` of an event.
    pub time_zone: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_is_not_an_empty_one() {
        let of = |cell: Option<&[u8]>| ResultSet {
            rows: vec![vec![cell.map(<[u8]>::to_vec)]],
            ..ResultSet::default()
        };
        assert_eq!(texts(&of(Some("tä".as_bytes())), 0).unwrap(), ["tä"]);
        assert_eq!(texts(&of(None), 0).unwrap(), [""]);
        let error = texts(&of(Some(b"t\xe4")), 0).unwrap_err();
        assert!(error.to_string().contains(r"t\xe4"), "{error}");
    }
}
