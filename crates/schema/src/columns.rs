//! The columns of a table: one description for what a server lists and what a definition says.

mod from_definition;

pub use from_definition::{columns, defined};

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
    /// `DECIMAL`, also called `NUMERIC`.
    Decimal,
    /// `FLOAT`, `DOUBLE`.
    Approximate,
    /// `YEAR`, of four digits.
    Year,
    /// `DATE`, without a time of day.
    Date,
    /// `DATETIME`, `TIMESTAMP`.
    DateTime,
    /// `TIME`, which may be negative, or longer than a day.
    Time,
    /// `CHAR`, `VARCHAR`, `TEXT`, `ENUM`, `SET`, and types that are written as text (`UUID`,
    /// `INET6`, MySQL's `JSON`).
    Text,
    /// `BINARY`, `VARBINARY`, `BLOB`, `VECTOR`, geometries: bytes without a character set.
    Bytes,
    /// `BIT`, of 1 to 64 bits.
    Bit,
    /// Unknown type: rows are sent as the dump has them.
    Unknown,
}

impl ColumnClass {
    /// Classifies a column by its type's first word in lower case, and its character set.
    fn of(data_type: &str, type_text: &str, charset: Option<&str>) -> Self {
        match data_type {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Self::Integer {
                unsigned: type_text.contains("unsigned"),
            },
            "decimal" | "numeric" => Self::Decimal,
            "float" | "double" => Self::Approximate,
            "year" => Self::Year,
            "date" => Self::Date,
            "datetime" | "timestamp" => Self::DateTime,
            "time" => Self::Time,
            "enum" | "set" | "json" | "uuid" | "inet4" | "inet6" => Self::Text,
            // Text in the character set `binary` is bytes.
            text if TEXTS.contains(&text) && charset != Some("binary") => Self::Text,
            text if TEXTS.contains(&text) => Self::Bytes,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector"
            | "geometry" | "point" | "linestring" | "polygon" | "multipoint"
            | "multilinestring" | "multipolygon" | "geometrycollection" | "geomcollection" => {
                Self::Bytes
            }
            "bit" => Self::Bit,
            _ => Self::Unknown,
        }
    }
}

/// Types with a character set, as servers print them.
pub const TEXTS: &[&str] = &[
    "char",
    "varchar",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "enum",
    "set",
];

/// A column of a table, as a server or a definition describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent attributes of one column"
)]
pub struct Column {
    /// As the server spells it, unquoted.
    pub name: String,
    /// First word of its type, in lower case.
    pub data_type: String,
    /// Its type as it is shown, with length or members: `varchar(20)`, `enum('a','b')`.
    pub type_text: String,
    /// What it accepts.
    pub class: ColumnClass,
    /// Character set of a text column; `None` for types that have none, or if it is unknown.
    pub charset: Option<String>,
    /// Collation of a text column; `None` for types that have none, or if it is unknown.
    pub collation: Option<String>,
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

impl Column {
    /// A column of this type and nothing else.
    pub fn new(name: &str, type_text: &str, charset: Option<String>) -> Self {
        let word = type_text.chars().take_while(char::is_ascii_alphanumeric);
        let data_type = word.collect::<String>().to_ascii_lowercase();
        Self {
            class: ColumnClass::of(&data_type, type_text, charset.as_deref()),
            name: name.to_owned(),
            data_type,
            type_text: type_text.to_owned(),
            charset,
            collation: None,
            generated: false,
            invisible: false,
            auto_increment: false,
            from_sequence: false,
            needs_value: false,
        }
    }

    /// From `Type`, `Collation` and `Extra` of `SHOW FULL COLUMNS`, or from the same columns of
    /// `information_schema.COLUMNS`.
    pub fn listed(name: &str, type_text: &str, collation: Option<&str>, extra: &str) -> Self {
        let extra = extra.to_ascii_uppercase();
        // MySQL's DEFAULT_GENERATED means an expression as default. MariaDB before 10.2 says only
        // VIRTUAL.
        let computed = ["VIRTUAL", "STORED GENERATED", "PERSISTENT"];
        Self {
            collation: collation.map(str::to_owned),
            generated: computed.iter().any(|word| extra.contains(word)),
            invisible: extra.contains("INVISIBLE"),
            auto_increment: extra.contains("AUTO_INCREMENT"),
            ..Self::new(name, type_text, collation.map(charset_of))
        }
    }

    /// Whether it is an `ENUM`.
    pub fn is_enum(&self) -> bool {
        self.data_type == "enum"
    }
}

/// The character set that a collation belongs to: the first word of its name.
pub fn charset_of(collation: &str) -> String {
    collation.split('_').next().unwrap_or(collation).to_owned()
}

/// The column of a system-versioned table that says when a row ended, and the time that means it
/// has not.
#[derive(Debug, Clone)]
pub struct PeriodEnd {
    /// The column that is `GENERATED ALWAYS AS ROW END`.
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

    /// Whether a server may warn of rows that it stores exactly: of index 0 of an `ENUM`, or of
    /// what it computes.
    pub fn may_warn(&self) -> bool {
        self.computes() || self.columns.iter().any(Column::is_enum)
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
        let class = |text, collation| Column::listed("c", text, collation, "").class;
        let integer = |unsigned| ColumnClass::Integer { unsigned };
        assert_eq!(class("int(10) unsigned zerofill", None), integer(true));
        assert_eq!(class("bigint", None), integer(false));
        assert_eq!(
            class("varchar(20)", Some("latin1_swedish_ci")),
            ColumnClass::Text
        );
        assert_eq!(class("varchar(20)", Some("binary")), ColumnClass::Bytes);
        assert_eq!(class("varbinary(20)", None), ColumnClass::Bytes);
        assert_eq!(
            class("enum('blob','int')", Some("utf8mb4_bin")),
            ColumnClass::Text
        );
        assert_eq!(class("timestamp(6)", None), ColumnClass::DateTime);
        assert_eq!(class("vector(3)", None), ColumnClass::Bytes);
        assert_eq!(class("some_new_type", None), ColumnClass::Unknown);
    }

    #[test]
    fn what_extra_says() {
        let flags = |extra| {
            let column = Column::listed("c", "int", None, extra);
            (column.generated, column.invisible, column.auto_increment)
        };
        for computed in [
            "VIRTUAL",
            "VIRTUAL GENERATED",
            "STORED GENERATED",
            "PERSISTENT",
        ] {
            assert_eq!(flags(computed), (true, false, false), "{computed}");
        }
        assert_eq!(flags("DEFAULT_GENERATED"), (false, false, false));
        assert_eq!(flags("auto_increment"), (false, false, true));
        assert_eq!(flags("STORED GENERATED, INVISIBLE"), (true, true, false));
    }
}
