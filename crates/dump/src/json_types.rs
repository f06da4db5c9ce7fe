//! Values in JSON columns of MySQL whose type JSON text cannot carry.
//!
//! MySQL keeps JSON in a form of its own, in which a value may be a `DECIMAL`, a `DATE`, a `TIME`, a `DATETIME` or bytes (`BLOB`, `BIT`,
//! `OPAQUE`), as `JSON_TYPE` says. As text, which is all that a server takes and gives, the first becomes a `DOUBLE` and the others a
//! `STRING`. Nobody can dump them as they are, so they are told. That `UNSIGNED INTEGER` may become `INTEGER` is not: the number is the same.

use refloat_read::catalog::Table;
use refloat_sqltext::quote_ident;
use refloat_wire::{Connection, Error, Vendor};

use super::error::DumpError;

/// The first version with `JSON_TABLE`.
const SINCE: (u16, u16, u16) = (8, 0, 4);
/// Types that a value still has when its text was read again.
const NATIVE: &str =
    "'OBJECT','ARRAY','STRING','INTEGER','UNSIGNED INTEGER','DOUBLE','BOOLEAN','NULL'";

/// What there is of such values in a table: a sentence for each column that has any, or of which it cannot be told. The whole table is read
/// for it, through the reader's snapshot.
///
/// # Errors
/// The connection is lost.
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
            notes.push(unknown("versions before 8.0.4 do not tell"));
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

/// The types that are in a column and that text cannot carry. The root is asked for by itself: in an array of all values a document as deep as
/// may be would be too deep. Sizes (`JSON_STORAGE_SIZE`, before and after a round through text) cost a third, and do not tell: `.5` as
/// `DECIMAL(7,7)` has that of a `DOUBLE`.
fn query(table: &Table, column: &str) -> String {
    let (table, column) = (table.quoted(), format!("t.{}", quote_ident(column)));
    format!(
        "SELECT /* refloat dump */ JSON_TYPE({column}) FROM {table} t WHERE JSON_TYPE({column}) NOT IN ({NATIVE}) \
         UNION SELECT JSON_TYPE(found.inner_value) FROM {table} t, JSON_TABLE(JSON_EXTRACT({column}, '$**.*', '$**[*]'), '$[*]' \
         COLUMNS (inner_value JSON PATH '$')) found WHERE JSON_TYPE(found.inner_value) NOT IN ({NATIVE})"
    )
}
