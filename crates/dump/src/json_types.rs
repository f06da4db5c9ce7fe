//! Finds values in MySQL's JSON columns whose type JSON text cannot carry.
//!
//! MySQL stores JSON in a binary form in which a value may be a `DECIMAL`, `DATE`, `TIME`,
//! `DATETIME` or bytes (`BLOB`, `BIT`, `OPAQUE`), as `JSON_TYPE` shows. Servers send and accept
//! only text, in which the first becomes a `DOUBLE` and the others a `STRING`. They cannot be
//! dumped as they are, so the dump notes them. It does not note that an `UNSIGNED INTEGER` may
//! become an `INTEGER`: the number is the same.

use refloat_read::catalog::Table;
use refloat_sqltext::quote_ident;
use refloat_wire::{Connection, Error, Vendor};

use super::error::DumpError;

/// First version with `JSON_TABLE`.
const SINCE: (u16, u16, u16) = (8, 0, 4);
/// Types that survive a round trip through text.
const NATIVE: &str =
    "'OBJECT','ARRAY','STRING','INTEGER','UNSIGNED INTEGER','DOUBLE','BOOLEAN','NULL'";

/// One sentence for each column that holds such values, or for which this is unknown. Reads the
/// whole table, in the reader's snapshot.
///
/// # Errors
/// The connection was lost.
pub fn notes(reader: &mut Connection, table: &Table) -> Result<Vec<String>, DumpError> {
    if reader.server().vendor != Vendor::MySql {
        return Ok(Vec::new());
    }
    let mut notes = Vec::new();
    let known = reader.server().is_mysql_since(SINCE);
    for column in table.columns.iter().filter(|of| of.data_type == "json") {
        let name = format!("{}.{}", table.label(), column.name);
        let unknown = |reason: &str| {
            format!(
                "column {name}: whether it holds JSON values of types that text cannot carry (DECIMAL, DATE, TIME, DATETIME, bytes) is not known: {reason}"
            )
        };
        if !known {
            notes.push(unknown("versions before 8.0.4 do not report them"));
            continue;
        }
        match reader.query(query(table, &column.name)) {
            Ok(found) => {
                let mut types: Vec<&str> = found.texts(0).collect();
                types.sort_unstable();
                if !types.is_empty() {
                    notes.push(format!(
                        "column {name}: it holds JSON values of types that text cannot carry ({}): after a load they are DOUBLE (DECIMAL) or STRING (all others)",
                        types.join(", ")
                    ));
                }
            }
            Err(error @ Error::Server { .. }) => notes.push(unknown(&error.to_string())),
            Err(error) => {
                let doing = format!("looking at the JSON types of column {name}");
                return Err(DumpError::server(doing, error));
            }
        }
    }
    Ok(notes)
}

/// The query for types in a column that text cannot carry.
///
/// The root is queried separately: in an array of all values, a document of maximum depth would be
/// too deep. Comparing sizes (`JSON_STORAGE_SIZE`, before and after a round trip through text)
/// would cost a third as much, but is not conclusive: `.5` as `DECIMAL(7,7)` has the size of a
/// `DOUBLE`.
fn query(table: &Table, column: &str) -> String {
    let (table, column) = (table.quoted(), format!("t.{}", quote_ident(column)));
    format!(
        "SELECT /* refloat dump */ JSON_TYPE({column}) FROM {table} t WHERE JSON_TYPE({column}) NOT IN ({NATIVE}) \
         UNION SELECT JSON_TYPE(found.inner_value) FROM {table} t, JSON_TABLE(JSON_EXTRACT({column}, '$**.*', '$**[*]'), '$[*]' \
         COLUMNS (inner_value JSON PATH '$')) found WHERE JSON_TYPE(found.inner_value) NOT IN ({NATIVE})"
    )
}
