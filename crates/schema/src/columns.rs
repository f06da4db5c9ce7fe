//! The columns of a table, as far as they decide how a value may be sent.

mod shown;

pub use shown::{TEXTS, charset_of, columns};

/// Character sets in which some ASCII character has different bytes.
pub const NOT_ASCII: &[&str] = &["ucs2", "utf16", "utf16le", "utf32", "swe7", "sjis", "cp932"];

/// What a column accepts, as far as that decides how a literal may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnClass {
    /// `TINYINT` … `BIGINT`.
    Integer {
        /// Whether it is `UNSIGNED`.
        unsigned: bool,
    },
    /// `DECIMAL`.
    Decimal,
    /// `FLOAT`, `DOUBLE`.
    Approximate,
    /// `YEAR`.
    Year,
    /// `DATE`.
    Date,
    /// `DATETIME`, `TIMESTAMP`.
    DateTime,
    /// `TIME`.
    Time,
    /// `CHAR`, `VARCHAR`, `TEXT`, `ENUM`, `SET`, and types that are written as text (`UUID`,
    /// `INET6`, MySQL's `JSON`).
    Text,
    /// `BINARY`, `VARBINARY`, `BLOB`, `VECTOR`, geometries: bytes without a character set.
    Bytes,
    /// `BIT`.
    Bit,
    /// Unknown type: rows are sent as the dump has them.
    Unknown,
}

impl ColumnClass {
    /// Classifies a column by `Type` and `Collation` of `SHOW FULL COLUMNS`.
    pub fn of(type_text: &str, collation: Option<&str>) -> Self {
        let word: String = type_text
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect::<String>()
            .to_ascii_lowercase();
        match word.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Self::Integer {
                unsigned: type_text.contains("unsigned"),
            },
            "decimal" | "numeric" => Self::Decimal,
            "float" | "double" => Self::Approximate,
            "year" => Self::Year,
            "date" => Self::Date,
            "datetime" | "timestamp" => Self::DateTime,
            "time" => Self::Time,
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext"
                if collation != Some("binary") =>
            {
                Self::Text
            }
            "enum" | "set" | "json" | "uuid" | "inet4" | "inet6" => Self::Text,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector" => {
                Self::Bytes
            }
            // Text types in the character set `binary`, and geometry types, which have none.
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "geometry"
            | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
            | "multipolygon" | "geometrycollection" | "geomcollection" => Self::Bytes,
            "bit" => Self::Bit,
            _ => Self::Unknown,
        }
    }
}

/// A column of the target table.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent attributes of one column"
)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// What it accepts.
    pub class: ColumnClass,
    /// Whether it is an `ENUM` without an empty member.
    pub is_enum: bool,
    /// Character set of a text column; `None` for types that have none.
    pub charset: Option<String>,
    /// Whether the server computes it.
    pub generated: bool,
    /// Whether `SELECT *` and an `INSERT` without a column list leave it out.
    pub invisible: bool,
    /// Whether it is `AUTO_INCREMENT`.
    pub auto_increment: bool,
    /// Whether its default is the next value of a sequence (MariaDB).
    pub from_sequence: bool,
    /// Whether a row must give it a value: it takes no NULL and has no default.
    pub needs_value: bool,
}

/// The column of a system-versioned table that says when a row ended, and the time that means it
/// has not.
#[derive(Debug, Clone)]
pub struct PeriodEnd {
    /// Name of the column.
    pub column: String,
    /// That time as this server writes it.
    pub never: &'static [u8],
    /// That time as other servers write it.
    pub never_elsewhere: &'static [u8],
}

/// The end of time, in UTC, up to MariaDB 11.4 and wherever `TIMESTAMP` has 32 bits.
pub const NEVER_2038: &[u8] = b"2038-01-19 03:14:07.999999";
/// The end of time, in UTC, from MariaDB 11.5 on.
pub const NEVER_2106: &[u8] = b"2106-02-07 06:28:15.999999";

/// Columns and properties of a table, read from the server.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Columns in table order.
    pub columns: Vec<Column>,
    /// Whether the engine can roll back a transaction.
    pub transactional: bool,
    /// Whether the server keeps the history of its rows (MariaDB).
    pub versioned: bool,
    /// For a versioned table whose rows bring their own start and end times: the column with the
    /// end.
    pub period_end: Option<PeriodEnd>,
}

impl Layout {
    /// A layout of these columns, without a period.
    pub fn of(columns: Vec<Column>, transactional: bool, versioned: bool) -> Self {
        Self {
            columns,
            transactional,
            versioned,
            period_end: None,
        }
    }

    /// Whether rows with these columns leave out one that must have a value. MySQL's `LOAD DATA`
    /// does not enforce that.
    pub fn lacks_value(&self, targets: &[usize]) -> bool {
        let mut columns = self.columns.iter().enumerate();
        columns.any(|(at, column)| column.needs_value && !targets.contains(&at))
    }

    /// Whether the server computes any of the columns.
    pub fn computes(&self) -> bool {
        self.columns.iter().any(|column| column.generated)
    }

    /// The columns that a row of an `INSERT` fills, in order: those it lists, or all visible ones.
    ///
    /// `None` if the list names a column that the table does not have; the server's own error
    /// explains that best.
    pub fn targets(&self, list: Option<&[Vec<u8>]>) -> Option<Vec<usize>> {
        match list {
            None => Some(
                (0..self.columns.len())
                    .filter(|&index| !self.columns[index].invisible)
                    .collect(),
            ),
            Some(names) => names
                .iter()
                .map(|name| {
                    self.columns
                        .iter()
                        .position(|column| column.name.as_bytes().eq_ignore_ascii_case(name))
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_type_and_collation() {
        assert_eq!(
            ColumnClass::of("int(10) unsigned zerofill", None),
            ColumnClass::Integer { unsigned: true }
        );
        assert_eq!(
            ColumnClass::of("bigint", None),
            ColumnClass::Integer { unsigned: false }
        );
        assert_eq!(
            ColumnClass::of("varchar(20)", Some("latin1_swedish_ci")),
            ColumnClass::Text
        );
        assert_eq!(ColumnClass::of("varbinary(20)", None), ColumnClass::Bytes);
        assert_eq!(
            ColumnClass::of("enum('blob','int')", Some("utf8mb4_bin")),
            ColumnClass::Text
        );
        assert_eq!(ColumnClass::of("timestamp(6)", None), ColumnClass::DateTime);
        assert_eq!(ColumnClass::of("vector(3)", None), ColumnClass::Bytes);
        assert_eq!(ColumnClass::of("some_new_type", None), ColumnClass::Unknown);
    }
}
