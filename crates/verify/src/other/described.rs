//! What the columns of a table hold, according to the server that a dump is compared with, or to
//! the dump's own definition.

use refloat_digest::literals::LiteralColumn;
use refloat_read::catalog::GONE;
use refloat_read::{ReadError, columns};
use refloat_schema::columns::{Column, defined};
use refloat_sqltext::{LexMode, parse_create_table};
use refloat_wire::Connection;

use crate::error::VerifyError;

/// The columns of a server's table, in order; empty if there is no such table.
pub fn by_server(
    conn: &mut Connection,
    database: &str,
    table: &str,
) -> Result<Vec<Column>, VerifyError> {
    // The catalogue would also match names that only compare as equal.
    match columns::read(conn, database, table, true, false) {
        Ok(found) => Ok(found.columns),
        Err(error) if error.server_code().is_some_and(|code| GONE.contains(&code)) => {
            Ok(Vec::new())
        }
        Err(error) => {
            let doing = format!("reading the columns of table {database}.{table}");
            Err(ReadError::server(doing, error).into())
        }
    }
}

/// What a `CREATE TABLE` of the dump says.
#[derive(Debug, Default)]
pub struct Definition {
    /// Its columns; empty if they cannot be parsed.
    pub columns: Vec<Column>,
    /// Whether it is a `CREATE OR REPLACE`.
    pub or_replace: bool,
    /// It is the table of a sequence, as `SHOW CREATE TABLE` prints it.
    pub sequence: bool,
}

impl Definition {
    /// Parses a `CREATE TABLE`.
    pub fn of(create: &[u8], mode: LexMode) -> Self {
        let Ok(create_table) = parse_create_table(create, mode) else {
            return Self::default();
        };
        let columns = create_table
            .columns()
            .map(|definition| defined(create, definition));
        let mut options = create_table.options.iter();
        Self {
            columns: columns.collect(),
            or_replace: create_table.or_replace,
            sequence: options.any(|option| option.name == "SEQUENCE"),
        }
    }

    /// Names of the columns in a row that does not list any.
    pub fn listed(&self) -> Vec<String> {
        let visible = self.columns.iter().filter(|column| !column.invisible);
        visible.map(|column| column.name.clone()).collect()
    }
}

/// How the values of a column are compared, given the dump's character set and time zone; the error
/// says why they cannot be.
pub fn compared(
    column: &Column,
    charset: &str,
    time_zone: Option<&str>,
) -> Result<LiteralColumn, String> {
    if column.data_type == "timestamp" && time_zone != Some("+00:00") {
        return Err(match time_zone {
            Some(zone) => format!("the dump tells its times in the time zone {zone}"),
            None => "the dump does not say in which time zone its times are".to_owned(),
        });
    }
    LiteralColumn::of(column, charset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_definition() {
        let found = Definition::of(
            b"CREATE TABLE t (id int(11) NOT NULL, s char(3) CHARACTER SET latin1, g int AS (id) STORED, ts timestamp INVISIBLE)",
            LexMode::default(),
        )
        .columns;
        let facts: Vec<_> = found
            .iter()
            .map(|of| {
                (
                    of.name.as_str(),
                    of.data_type.as_str(),
                    of.generated,
                    !of.invisible,
                )
            })
            .collect();
        assert_eq!(
            facts,
            [
                ("id", "int", false, true),
                ("s", "char", false, true),
                ("g", "int", true, true),
                ("ts", "timestamp", false, false)
            ]
        );
        assert_eq!(
            compared(&found[1], "latin1", None).unwrap().convert_to,
            None
        );
        let charset = compared(&found[1], "utf8mb4", None).unwrap().convert_to;
        assert_eq!(charset.as_deref(), Some("utf8mb4"));
        assert_eq!(
            compared(&found[1], "binary", None).unwrap().convert_to,
            None
        );
        assert!(
            compared(&found[3], "utf8mb4", Some("SYSTEM"))
                .unwrap_err()
                .contains("SYSTEM")
        );
        assert!(compared(&found[3], "utf8mb4", Some("+00:00")).is_ok());
    }
}
