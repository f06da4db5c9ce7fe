//! Reads definitions from `SHOW CREATE` and from the catalogue.

use std::collections::BTreeMap;

use refloat_run::own_tables::is_own_table;
use refloat_wire::{Connection, Error, ResultSet};

use super::{literal, quote};

type Definitions = BTreeMap<(String, String), String>;

/// Views of the catalogue that are compared: name, column that holds the database, and columns to
/// ignore because they hold times or amounts.
const CATALOGUE: &[(&str, &str, &[&str])] = &[
    (
        "TABLES",
        "TABLE_SCHEMA",
        &[
            // Of MariaDB's table definition file. The server chooses it by itself.
            "VERSION",
            "TABLE_ROWS",
            "AVG_ROW_LENGTH",
            "DATA_LENGTH",
            "MAX_DATA_LENGTH",
            "INDEX_LENGTH",
            "MAX_INDEX_LENGTH",
            "DATA_FREE",
            "CREATE_TIME",
            "UPDATE_TIME",
            "CHECK_TIME",
        ],
    ),
    ("COLUMNS", "TABLE_SCHEMA", &[]),
    ("STATISTICS", "TABLE_SCHEMA", &["CARDINALITY"]),
    ("KEY_COLUMN_USAGE", "TABLE_SCHEMA", &[]),
    ("TABLE_CONSTRAINTS", "TABLE_SCHEMA", &[]),
    ("REFERENTIAL_CONSTRAINTS", "CONSTRAINT_SCHEMA", &[]),
    ("CHECK_CONSTRAINTS", "CONSTRAINT_SCHEMA", &[]),
    (
        "PARTITIONS",
        "TABLE_SCHEMA",
        &[
            "TABLE_ROWS",
            "AVG_ROW_LENGTH",
            "DATA_LENGTH",
            "MAX_DATA_LENGTH",
            "INDEX_LENGTH",
            "DATA_FREE",
            "CREATE_TIME",
            "UPDATE_TIME",
            "CHECK_TIME",
        ],
    ),
    ("VIEWS", "TABLE_SCHEMA", &[]),
    ("TRIGGERS", "TRIGGER_SCHEMA", &["CREATED"]),
    ("ROUTINES", "ROUTINE_SCHEMA", &["CREATED", "LAST_ALTERED"]),
    ("PARAMETERS", "SPECIFIC_SCHEMA", &[]),
    (
        "EVENTS",
        "EVENT_SCHEMA",
        &["CREATED", "LAST_ALTERED", "LAST_EXECUTED"],
    ),
];

/// Objects whose `SHOW CREATE` is compared: kind, catalogue view that lists them, columns that hold
/// database and name, and condition.
const PROGRAMS: &[(&str, &str, &str, &str, &str)] = &[
    (
        "PROCEDURE",
        "ROUTINES",
        "ROUTINE_SCHEMA",
        "ROUTINE_NAME",
        "ROUTINE_TYPE = 'PROCEDURE'",
    ),
    (
        "FUNCTION",
        "ROUTINES",
        "ROUTINE_SCHEMA",
        "ROUTINE_NAME",
        "ROUTINE_TYPE = 'FUNCTION'",
    ),
    (
        "PACKAGE",
        "ROUTINES",
        "ROUTINE_SCHEMA",
        "ROUTINE_NAME",
        "ROUTINE_TYPE = 'PACKAGE'",
    ),
    (
        "PACKAGE BODY",
        "ROUTINES",
        "ROUTINE_SCHEMA",
        "ROUTINE_NAME",
        "ROUTINE_TYPE = 'PACKAGE BODY'",
    ),
    ("TRIGGER", "TRIGGERS", "TRIGGER_SCHEMA", "TRIGGER_NAME", "1"),
    ("EVENT", "EVENTS", "EVENT_SCHEMA", "EVENT_NAME", "1"),
];

/// Sets every session variable that affects the answers.
pub fn prepare_session(conn: &mut Connection) -> Result<(), Error> {
    conn.exec("SET NAMES utf8mb4")?;
    conn.exec(
        "SET SESSION character_set_results = binary, sql_mode = '', time_zone = '+00:00', \
         sql_quote_show_create = 1, sql_select_limit = DEFAULT",
    )?;
    // Otherwise MySQL answers from statistics up to a day old, including `AUTO_INCREMENT`.
    if conn
        .query_value("SHOW SESSION VARIABLES LIKE 'information_schema_stats_expiry'")?
        .is_some()
    {
        conn.exec("SET SESSION information_schema_stats_expiry = 0")?;
    }
    Ok(())
}

/// Adds `SHOW CREATE` of a database and everything in it.
pub fn objects(
    conn: &mut Connection,
    database: &str,
    definitions: &mut Definitions,
) -> Result<(), Error> {
    show(conn, "DATABASE", &quote(database), database, definitions)?;
    let listed = conn.query(format!("SHOW FULL TABLES FROM {}", quote(database)))?;
    for row in &listed.rows {
        let (name, kind) = (cell(row.first()), cell(row.get(1)));
        if is_own_table(database, &name) {
            continue;
        }
        let quoted = format!("{}.{}", quote(database), quote(&name));
        let shown = format!("{database}.{name}");
        definitions.insert(("kind of".to_owned(), shown.clone()), kind.clone());
        // `SHOW CREATE TABLE` fails for an invalid view; `SHOW CREATE VIEW` works.
        let word = if kind.contains("VIEW") {
            "VIEW"
        } else {
            "TABLE"
        };
        show(conn, word, &quoted, &shown, definitions)?;
        if kind == "SEQUENCE" {
            let state = conn.query(format!("SELECT * FROM {quoted}"))?;
            definitions.insert(("state of sequence".to_owned(), shown), text(&state, &[]));
        }
    }
    for (word, view, schema, column, condition) in PROGRAMS {
        let names = conn.query(format!(
            "SELECT {column} FROM information_schema.{view} WHERE {schema} = {} AND {condition}",
            literal(database)
        ))?;
        for row in &names.rows {
            let name = cell(row.first());
            let quoted = format!("{}.{}", quote(database), quote(&name));
            show(
                conn,
                word,
                &quoted,
                &format!("{database}.{name}"),
                definitions,
            )?;
        }
    }
    Ok(())
}

/// Tables that hold rows of their own.
pub fn tables_with_rows(conn: &mut Connection, database: &str) -> Result<Vec<String>, Error> {
    let listed = conn.query(format!("SHOW FULL TABLES FROM {}", quote(database)))?;
    let rows = listed.rows.iter();
    let base_tables = rows.filter(|row| {
        matches!(
            cell(row.get(1)).as_str(),
            "BASE TABLE" | "SYSTEM VERSIONED" | "SYSTEM VERSIONED TABLE"
        )
    });
    let names = base_tables.map(|row| cell(row.first()));
    Ok(names.filter(|name| !is_own_table(database, name)).collect())
}

/// Adds the catalogue's entries for everything in these databases, except Refloat's own tables.
pub fn information_schema(
    conn: &mut Connection,
    databases: &[String],
    definitions: &mut Definitions,
) -> Result<(), Error> {
    if databases.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = databases.iter().map(|name| literal(name)).collect();
    for (view, schema, without) in CATALOGUE {
        let result = conn.query(format!(
            "SELECT * FROM information_schema.{view} WHERE {schema} IN ({})",
            names.join(", ")
        ))?;
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let place = result.column(schema).unwrap_or_default();
        let table = result.column("TABLE_NAME");
        for row in 0..result.len() {
            let database = cell(result.rows[row].get(place));
            if table
                .is_some_and(|table| is_own_table(&database, &cell(result.rows[row].get(table))))
            {
                continue;
            }
            lines
                .entry(database)
                .or_default()
                .push(line(&result, row, without));
        }
        for (database, mut lines) in lines {
            lines.sort();
            definitions.insert(
                (format!("information_schema.{view} of"), database),
                lines.join("\n"),
            );
        }
    }
    Ok(())
}

/// Adds the output of `SHOW CREATE`, or the server's error.
fn show(
    conn: &mut Connection,
    word: &str,
    quoted: &str,
    name: &str,
    definitions: &mut Definitions,
) -> Result<(), Error> {
    let definition = match conn.query(format!("SHOW CREATE {word} {quoted}")) {
        Ok(result) => text(&result, &["Created"]),
        Err(error) if error.server_code().is_some() && !error.is_lost_connection() => {
            format!("error: {error}")
        }
        Err(error) => return Err(error),
    };
    definitions.insert((word.to_ascii_lowercase(), name.to_owned()), definition);
    Ok(())
}

fn text(result: &ResultSet, without: &[&str]) -> String {
    let lines: Vec<String> = (0..result.len())
        .map(|row| line(result, row, without))
        .collect();
    lines.join("\n")
}

fn line(result: &ResultSet, row: usize, without: &[&str]) -> String {
    let cells = result.columns.iter().zip(&result.rows[row]);
    let kept = cells.filter(|(column, _)| {
        !without
            .iter()
            .any(|one| column.name.eq_ignore_ascii_case(one))
    });
    let parts: Vec<String> = kept
        .map(|(column, value)| format!("{}={}", column.name, cell(Some(value))))
        .collect();
    parts.join("; ")
}

/// A cell as text. Bytes that are not UTF-8 are escaped.
fn cell(value: Option<&Option<Vec<u8>>>) -> String {
    let Some(Some(bytes)) = value else {
        return "NULL".to_owned();
    };
    std::str::from_utf8(bytes)
        .map_or_else(|_| format!("bytes {}", bytes.escape_ascii()), str::to_owned)
}
