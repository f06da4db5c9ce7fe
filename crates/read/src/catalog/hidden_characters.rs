//! Detects characters that servers do not show in definitions.
//!
//! MariaDB and MySQL write definitions in three-byte UTF-8: a character beyond U+FFFF appears as
//! `?` in `ENUM` and `SET` members, and on MariaDB also in defaults. No tool that reads
//! `SHOW CREATE TABLE` can see it, and a table created from that text is not the same. Whatever can
//! be detected is reported.

use refloat_source::manifest::hex;
use refloat_sqltext::quote_ident;
use refloat_wire::Connection;

use super::columns::Described;
use crate::error::ReadError;

/// Character sets that include characters beyond U+FFFF.
const WIDE: &[&str] = &["utf8mb4", "utf16", "utf16le", "utf32"];
/// What the server shows in place of such a character.
const INSTEAD: char = '?';

/// Notes on a table's columns, one per finding.
pub fn of(
    conn: &mut Connection,
    database: &str,
    table: &str,
    columns: &[Described],
) -> Result<Vec<String>, ReadError> {
    let mut notes = Vec::new();
    for described in columns {
        let column = &described.column;
        if !WIDE
            .iter()
            .any(|wide| column.charset.as_deref() == Some(wide))
        {
            continue;
        }
        let place = format!("table {database}.{table}: column {}", column.name);
        let lists = matches!(column.data_type.as_str(), "enum" | "set");
        if lists && column.type_text.contains(INSTEAD) {
            notes.push(format!(
                "{place}: the server shows a member with ?, which may stand for a character beyond U+FFFF that it cannot show; the dump has the definition as it is \
                 shown, and a load will refuse rows with that member"
            ));
        }
        // MySQL shows such a default in hexadecimal.
        if described.default.starts_with('\'') && described.default.contains(INSTEAD) {
            let shown = unquoted(&described.default);
            let Some(real) = default_of(conn, database, table, &column.name)? else {
                continue;
            };
            if !real.eq_ignore_ascii_case(&hex(shown.as_bytes())) {
                notes.push(format!(
                    "{place}: its default has characters that the server does not show, and the dump has it as it is shown; after a load: \
                     ALTER TABLE {}.{} ALTER COLUMN {} SET DEFAULT _utf8mb4 x'{real}'",
                    quote_ident(database),
                    quote_ident(table),
                    quote_ident(&column.name)
                ));
            }
        }
    }
    Ok(notes)
}

/// The text of a literal as MariaDB's `information_schema` writes it.
fn unquoted(literal: &str) -> String {
    let inner = literal
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    let inner = inner.unwrap_or(literal);
    inner.replace("''", "'").replace("\\\\", "\\")
}

/// A column's default in UTF-8, as hexadecimal digits. The outer join takes it from the definition,
/// even if the table has no rows.
fn default_of(
    conn: &mut Connection,
    database: &str,
    table: &str,
    column: &str,
) -> Result<Option<String>, ReadError> {
    let found = conn.query_value(format!(
        "SELECT HEX(CONVERT(DEFAULT({}) USING utf8mb4)) FROM (SELECT 1) AS one LEFT JOIN {}.{} ON 0",
        quote_ident(column),
        quote_ident(database),
        quote_ident(table)
    ));
    found.map_err(|error| {
        ReadError::server(
            format!("reading the default of column {column} of table {database}.{table}"),
            error,
        )
    })
}
