//! Columns: what the server reports about them, how their values are read, and how conditions spell
//! them.

use refloat_schema::members::{has_empty_member, has_equal_members};
use refloat_sqltext::quote_ident;
use refloat_wire::{ResultSet, Vendor};

use refloat_source::manifest::FieldLoad;

/// A column whose values the dump reads.
#[derive(Debug, Clone)]
pub struct Column {
    /// Column name.
    pub name: String,
    /// The expression that is selected.
    pub select: String,
    /// How a load must convert the field; `None` for no conversion.
    pub load: Option<FieldLoad>,
    /// Type name without length, in lower case.
    pub data_type: String,
    /// Character set of a text column; empty for other types.
    pub charset: String,
}

/// How a condition spells a value of a key column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyLiteral {
    /// Digits.
    Integer,
    /// Digits with a decimal point.
    Decimal,
    /// A date or time, in quotes.
    Quoted,
    /// Hexadecimal bytes with a character set and a collation.
    Text {
        /// Character set.
        charset: String,
        /// Collation.
        collation: String,
    },
    /// Hexadecimal bytes.
    Binary,
}

/// A column as `information_schema.COLUMNS` describes it.
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

    /// The collation of the named column.
    pub(super) fn collation<'a>(all: &'a [Self], name: &[u8]) -> Option<&'a str> {
        let column = all.iter().find(|column| column.name.as_bytes() == name)?;
        (!column.collation.is_empty()).then_some(column.collation.as_str())
    }

    /// Whether the dump must hold its values.
    pub(super) fn stored(&self, history: bool) -> bool {
        if self.period() {
            return history;
        }
        !self.generated()
    }

    /// Whether it is the start or end of the period of a system-versioned table.
    fn period(&self) -> bool {
        matches!(self.expression.as_str(), "ROW START" | "ROW END")
    }

    /// Whether its period is measured in transaction IDs rather than timestamps.
    pub(super) fn numbers_transactions(&self) -> bool {
        self.period() && self.data_type == "bigint"
    }

    /// Whether its values are generated from other columns. MySQL's `DEFAULT_GENERATED` is not
    /// that.
    pub(super) fn generated(&self) -> bool {
        // MariaDB before 10.2 says only `VIRTUAL`.
        let words = ["VIRTUAL", "STORED GENERATED", "PERSISTENT"];
        !self.period()
            && (!self.expression.is_empty() || words.iter().any(|word| self.extra.contains(word)))
    }

    pub(super) fn column(&self, vendor: Vendor) -> Column {
        let quoted = quote_ident(&self.name);
        let (select, load) = match self.data_type.as_str() {
            // As text a `FLOAT` has only six digits. Multiplied, it becomes a `DOUBLE` with all of
            // them, and keeps the sign of a zero.
            "float" => (format!("{quoted} * 1E0"), None),
            // Index 0 and the member `''` look the same as text, and so do two members of the same
            // name.
            "enum"
                if has_empty_member(&self.column_type)
                    || has_equal_members(&self.column_type, &self.collation) =>
            {
                (format!("{quoted} + 0"), Some(FieldLoad::Number))
            }
            // The text of a `SET` does not show whether the member `''` is in it, nor which of two
            // members of the same name.
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

    /// Whether its collation compares without padding (NO PAD).
    fn is_padded_unlike_compared(&self) -> bool {
        self.collation.contains("nopad") || self.collation.contains("_0900_")
    }

    /// How conditions spell its values; `None` if conditions do not follow the order of the key.
    pub(super) fn literal(&self, vendor: Vendor) -> Option<KeyLiteral> {
        Some(match self.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" => {
                KeyLiteral::Integer
            }
            "decimal" => KeyLiteral::Decimal,
            "date" | "datetime" | "timestamp" | "time" | "year" => KeyLiteral::Quoted,
            // MariaDB pads these in the key but strips the blanks for comparison: a value that
            // sorts before a blank has different places in the key and in a condition (10.11.19,
            // 11.8.6).
            "char" if vendor == Vendor::MariaDb && self.is_padded_unlike_compared() => return None,
            "char" | "varchar" => KeyLiteral::Text {
                charset: self.charset.clone(),
                collation: self.collation.clone(),
            },
            "binary" | "varbinary" => KeyLiteral::Binary,
            // `ENUM` and `SET` sort by number but compare as text; `FLOAT` and `DOUBLE` do not
            // round-trip.
            _ => return None,
        })
    }
}

/// The period columns of a system-versioned table that does not name them: they exist nevertheless.
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
