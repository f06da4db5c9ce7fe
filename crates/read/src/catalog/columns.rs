//! Columns: what the server says about them, how their values are read, and how they are written in conditions.

use refloat_schema::members::{has_empty_member, has_equal_members};
use refloat_sqltext::quote_ident;
use refloat_wire::{ResultSet, Vendor};

use refloat_source::manifest::FieldLoad;

/// A column of a row.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name.
    pub name: String,
    /// The expression that is read.
    pub select: String,
    /// What a load must do with it.
    pub load: Option<FieldLoad>,
    /// Its type without length, in lower case.
    pub data_type: String,
    /// The character set of text; else empty.
    pub charset: String,
}

/// How a value of a key is written in a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyLiteral {
    /// Digits.
    Integer,
    /// Digits with a point.
    Decimal,
    /// Text of dates and times.
    Quoted,
    /// Bytes in a character set and collation.
    Text {
        /// Character set.
        charset: String,
        /// Collation.
        collation: String,
    },
    /// Bytes.
    Binary,
}

/// What the server says about a column.
pub(super) struct Described {
    pub(super) name: String,
    pub(super) data_type: String,
    pub(super) column_type: String,
    pub(super) nullable: bool,
    extra: String,
    expression: String,
    pub(super) charset: String,
    collation: String,
    /// As the server writes it; empty when there is none.
    pub(super) default: String,
}

impl Described {
    pub(super) fn read(columns: &ResultSet, row: usize) -> Self {
        let text = |column| columns.str(row, column).unwrap_or_default().to_owned();
        Self {
            name: text(1),
            data_type: text(2).to_ascii_lowercase(),
            column_type: text(3).to_ascii_lowercase(),
            nullable: text(4) == "YES",
            extra: text(5).to_ascii_uppercase(),
            expression: text(6),
            charset: text(7),
            collation: text(8),
            default: text(9),
        }
    }

    /// The collation of the column with this name among `all`.
    pub(super) fn collation<'a>(all: &'a [Self], name: &[u8]) -> Option<&'a str> {
        let column = all.iter().find(|column| column.name.as_bytes() == name)?;
        (!column.collation.is_empty()).then_some(column.collation.as_str())
    }

    /// Whether a dump must hold its values. `DEFAULT_GENERATED` in MySQL's extra says something else.
    pub(super) fn stored(&self, history: bool) -> bool {
        if self.period() {
            return history;
        }
        !self.generated()
    }

    /// Whether it is the begin or the end of the life of a row of a system-versioned table.
    fn period(&self) -> bool {
        matches!(self.expression.as_str(), "ROW START" | "ROW END")
    }

    /// Whether it tells the life of a row by numbers of transactions, and not by times.
    pub(super) fn numbers_transactions(&self) -> bool {
        self.period() && self.data_type == "bigint"
    }

    /// Whether its values follow from other columns.
    pub(super) fn generated(&self) -> bool {
        // MariaDB before 10.2 says only VIRTUAL.
        let words = ["VIRTUAL", "STORED GENERATED", "PERSISTENT"];
        !self.period()
            && (!self.expression.is_empty() || words.iter().any(|word| self.extra.contains(word)))
    }

    pub(super) fn column(&self, vendor: Vendor) -> Column {
        let quoted = quote_ident(&self.name);
        let (select, load) = match self.data_type.as_str() {
            // As text a FLOAT has six digits; multiplied it is a DOUBLE and has all of them, and keeps its sign at zero.
            "float" => (format!("{quoted} * 1E0"), None),
            // Index 0 and the member '' are written alike, and so are two members of one name.
            "enum"
                if has_empty_member(&self.column_type)
                    || has_equal_members(&self.column_type, &self.collation) =>
            {
                (format!("{quoted} + 0"), Some(FieldLoad::Number))
            }
            // The text of a SET does not tell whether the member '' is in it, nor which of two members of one name.
            "set"
                if has_empty_member(&self.column_type)
                    || has_equal_members(&self.column_type, &self.collation) =>
            {
                (
                    format!("CAST({quoted} AS UNSIGNED)"),
                    Some(FieldLoad::Number),
                )
            }
            "json" if vendor == Vendor::MySql => (quoted, Some(FieldLoad::Utf8)),
            "uuid" | "inet4" | "inet6" | "xmltype" => (quoted, Some(FieldLoad::Utf8)),
            _ => (quoted, None),
        };
        Column {
            name: self.name.clone(),
            select,
            load,
            data_type: self.data_type.clone(),
            charset: self.charset.clone(),
        }
    }

    /// Whether its collation is one of those that MariaDB compares without padding.
    fn is_padded_unlike_compared(&self) -> bool {
        self.collation.contains("nopad") || self.collation.contains("_0900_")
    }

    /// How a value of it is written in a condition; `None` where conditions do not follow the order of the key.
    pub(super) fn literal(&self, vendor: Vendor) -> Option<KeyLiteral> {
        Some(match self.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" => {
                KeyLiteral::Integer
            }
            "decimal" => KeyLiteral::Decimal,
            "date" | "datetime" | "timestamp" | "time" | "year" => KeyLiteral::Quoted,
            // MariaDB pads these in the key, and takes the blanks away to compare: what sorts before a blank is in another
            // place for a condition than for the key (10.11.19, 11.8.6).
            "char" if vendor == Vendor::MariaDb && self.is_padded_unlike_compared() => return None,
            "char" | "varchar" => KeyLiteral::Text {
                charset: self.charset.clone(),
                collation: self.collation.clone(),
            },
            "binary" | "varbinary" => KeyLiteral::Binary,
            // ENUM and SET sort by number and compare as text; FLOAT and DOUBLE do not come back as they were.
            _ => return None,
        })
    }
}

/// The period of a system-versioned table that does not name its columns: they are there nevertheless.
pub(super) fn hidden_period(create: &[u8], all: &[Described]) -> Vec<Column> {
    let named = all
        .iter()
        .any(|column| matches!(column.expression.as_str(), "ROW START" | "ROW END"));
    if named || memchr::memmem::find(create, b"PERIOD FOR SYSTEM_TIME").is_some() {
        return Vec::new();
    }
    ["row_start", "row_end"]
        .iter()
        .map(|name| Column {
            name: (*name).to_owned(),
            select: quote_ident(name),
            load: None,
            data_type: "timestamp".to_owned(),
            charset: String::new(),
        })
        .collect()
}
