//! What the columns of a table hold, according to the server that a dump is compared with, or to
//! the dump's own definition.

use refloat_read::ReadError;
use refloat_read::catalog::GONE;
use refloat_sqltext::{Element, LexMode, parse_create_table, quote_ident};
use refloat_wire::Connection;

use super::cells::{Domain, OtherColumn};
use crate::cells::CellKind;
use crate::error::VerifyError;

/// A column as the server or the dump describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Name, as spelled there.
    pub name: String,
    /// First word of its type, in lower case.
    data_type: String,
    /// Its character set; empty if it has none or it is unknown.
    charset: String,
    /// Whether its values are computed.
    pub generated: bool,
    /// Whether rows that do not list their columns have a value for it.
    pub visible: bool,
}

/// The columns of a server's table, in order; empty if there is no such table.
pub fn by_server(
    conn: &mut Connection,
    database: &str,
    table: &str,
) -> Result<Vec<Described>, VerifyError> {
    // The catalogue would also match names that only compare as equal.
    let query = format!(
        "SHOW FULL COLUMNS FROM {}.{}",
        quote_ident(database),
        quote_ident(table)
    );
    let found = match conn.query(query) {
        Err(error) if error.server_code().is_some_and(|code| GONE.contains(&code)) => {
            return Ok(Vec::new());
        }
        other => other.map_err(|error| {
            let doing = format!("reading the columns of table {database}.{table}");
            ReadError::server(doing, error)
        })?,
    };
    let text = |row, name: &str| found.get(row, name).unwrap_or_default().to_owned();
    Ok((0..found.len())
        .map(|row| {
            let extra = text(row, "Extra").to_lowercase();
            let data_type = text(row, "Type").to_lowercase();
            let word = data_type.find(|c: char| !c.is_ascii_alphanumeric());
            let collation = text(row, "Collation");
            Described {
                name: text(row, "Field"),
                data_type: data_type[..word.unwrap_or(data_type.len())].to_owned(),
                charset: collation.split('_').next().unwrap_or_default().to_owned(),
                // MySQL shows DEFAULT_GENERATED for a default that is an expression; that is not a
                // generated column.
                generated: ["virtual", "stored generated", "persistent"]
                    .iter()
                    .any(|word| extra.contains(word)),
                visible: !extra.contains("invisible"),
            }
        })
        .collect())
}

/// What a `CREATE TABLE` of the dump says.
#[derive(Debug, Default)]
pub struct Definition {
    /// Its columns; empty if they cannot be parsed.
    pub columns: Vec<Described>,
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
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_lowercase();
        let columns = create_table.elements.iter().filter_map(|element| {
            let Element::Column(column) = element else {
                return None;
            };
            Some(Described {
                name: String::from_utf8_lossy(&column.name).into_owned(),
                data_type: words(&column.type_name),
                charset: column.charset.as_deref().map(words).unwrap_or_default(),
                generated: column.generated.is_some(),
                visible: !column.invisible,
            })
        });
        let mut options = create_table.options.iter();
        Self {
            columns: columns.collect(),
            or_replace: create_table.or_replace,
            sequence: options.any(|option| option.name == "SEQUENCE"),
        }
    }

    /// Names of the columns in a row that does not list any.
    pub fn listed(&self) -> Vec<String> {
        let visible = self.columns.iter().filter(|column| column.visible);
        visible.map(|column| column.name.clone()).collect()
    }
}

impl Described {
    /// How its values are compared, given the dump's character set and time zone; the error says
    /// why they cannot be.
    pub fn compared(&self, charset: &str, time_zone: Option<&str>) -> Result<OtherColumn, String> {
        let unicode = |name: &str| matches!(name, "utf8" | "utf8mb3" | "utf8mb4");
        // The server sends JSON as utf8mb4, whatever it calls the character set.
        let own = if self.data_type == "json" {
            "utf8mb4"
        } else {
            &self.charset
        };
        let same = own.is_empty()
            || charset == "binary"
            || charset == own
            || (unicode(charset) && unicode(own));
        // The name comes from a file and becomes part of a statement.
        for name in [charset, own] {
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(format!("{name:?} is no character set"));
            }
        }
        let wide = ["ucs2", "utf16", "utf16le", "utf32"].contains(&own);
        let (domain, kind) = match self.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "bool"
            | "boolean" | "serial" => (Domain::Integer, CellKind::Integer),
            "decimal" | "numeric" | "dec" | "fixed" => (Domain::Decimal, CellKind::Decimal),
            "float" => (Domain::Approximate, CellKind::Float),
            "double" | "real" => (Domain::Approximate, CellKind::Double),
            "date" => (Domain::Date, CellKind::Bytes),
            "timestamp" if time_zone != Some("+00:00") => {
                return Err(match time_zone {
                    Some(zone) => format!("the dump tells its times in the time zone {zone}"),
                    None => "the dump does not say in which time zone its times are".to_owned(),
                });
            }
            "datetime" | "timestamp" => (Domain::DateTime, CellKind::Fraction),
            "time" => (Domain::Time, CellKind::Fraction),
            "year" => (Domain::Year, CellKind::Bytes),
            "bit" => (Domain::Bits, CellKind::Bits),
            "binary" => (Domain::Bytes, CellKind::Zeros),
            "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector"
            | "geometry" | "point" | "linestring" | "polygon" | "multipoint"
            | "multilinestring" | "multipolygon" | "geometrycollection" | "geomcollection" => {
                (Domain::Bytes, CellKind::Bytes)
            }
            "enum" | "set" => (Domain::Names, CellKind::Bytes),
            "json" => (Domain::Text, CellKind::Json),
            // In a wide character set a blank is more than one byte.
            "char" if !(wide && same) => (Domain::Text, CellKind::Blanks),
            _ => (Domain::Text, CellKind::Bytes),
        };
        Ok(OtherColumn {
            name: self.name.clone(),
            domain,
            kind,
            own_charset: own.to_owned(),
            told_in: (!same).then(|| charset.to_owned()),
        })
    }
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
                    of.visible,
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
        assert_eq!(found[1].compared("latin1", None).unwrap().told_in, None);
        let told_in = found[1].compared("utf8mb4", None).unwrap().told_in;
        assert_eq!(told_in.as_deref(), Some("utf8mb4"));
        assert_eq!(found[1].compared("binary", None).unwrap().told_in, None);
        assert!(
            found[3]
                .compared("utf8mb4", Some("SYSTEM"))
                .unwrap_err()
                .contains("SYSTEM")
        );
        assert!(found[3].compared("utf8mb4", Some("+00:00")).is_ok());
    }
}
