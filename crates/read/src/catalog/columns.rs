//! Columns: what the server reports about them, how their values are read, and how conditions spell
//! them.

use refloat_schema::columns::Column as Listed;
use refloat_schema::members::{has_empty_member, has_equal_members};
use refloat_sqltext::quote_ident;
use refloat_wire::{ResultSet, Vendor};

use refloat_source::manifest::FieldLoad;

/// A column whose values the dump reads.
#[derive(Debug, Clone)]
pub struct Column {
    /// As the server spells it, unquoted.
    pub name: String,
    /// The expression that is selected.
    pub select: String,
    /// How a load must convert the field; `None` for no conversion.
    pub load: Option<FieldLoad>,
    /// Type name without length, in lower case.
    pub data_type: String,
    /// Character set of a text column; empty for other types.
    pub charset: String,
    /// Whether it tells when a row of a system-versioned table began or ended.
    pub period: bool,
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
        /// The collation by which the server sorts the key.
        collation: String,
    },
    /// Hexadecimal bytes.
    Binary,
}

/// A column as `information_schema.COLUMNS` describes it.
pub(super) struct Described {
    pub(super) column: Listed,
    pub(super) nullable: bool,
    expression: String,
    /// As the server writes it; empty when there is none.
    pub(super) default: String,
}

impl Described {
    pub(super) fn read(columns: &ResultSet, row: usize) -> Self {
        let text = |column| columns.str(row, column).unwrap_or_default();
        let collation = columns.str(row, 6);
        Self {
            column: Listed::listed(text(1), text(2), collation, text(4)),
            nullable: text(3) == "YES",
            expression: text(5).to_owned(),
            default: text(7).to_owned(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.column.name
    }

    /// The collation of the named column.
    pub(super) fn collation_of<'a>(all: &'a [Self], name: &[u8]) -> Option<&'a str> {
        let named = |one: &&Self| one.name().as_bytes() == name;
        all.iter().find(named)?.column.collation.as_deref()
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
        self.period() && self.column.data_type == "bigint"
    }

    /// Whether its values are generated from other columns.
    pub(super) fn generated(&self) -> bool {
        !self.period() && (!self.expression.is_empty() || self.column.generated)
    }

    fn collation(&self) -> &str {
        self.column.collation.as_deref().unwrap_or_default()
    }

    /// Whether its members look the same as text: index 0 and `''`, or two of the same name.
    fn has_members_alike(&self) -> bool {
        has_empty_member(&self.column.type_text)
            || has_equal_members(&self.column.type_text, self.collation())
    }

    pub(super) fn column(&self, vendor: Vendor) -> Column {
        let quoted = quote_ident(self.name());
        let (select, load) = match self.column.data_type.as_str() {
            // As text a `FLOAT` has only six digits. Multiplied, it becomes a `DOUBLE` with all of
            // them, and keeps the sign of a zero.
            "float" => (format!("{quoted} * 1E0"), None),
            "enum" if self.has_members_alike() => {
                (format!("{quoted} + 0"), Some(FieldLoad::Number))
            }
            "set" if self.has_members_alike() => (
                format!("CAST({quoted} AS UNSIGNED)"),
                Some(FieldLoad::Number),
            ),
            "json" if vendor == Vendor::MySql => (quoted, Some(FieldLoad::Utf8)),
            "uuid" | "inet4" | "inet6" | "xmltype" => (quoted, Some(FieldLoad::Utf8)),
            _ => (quoted, None),
        };
        Column {
            name: self.name().to_owned(),
            select,
            load,
            data_type: self.column.data_type.clone(),
            charset: self.column.charset.clone().unwrap_or_default(),
            period: self.period(),
        }
    }

    /// Whether its collation compares without padding (NO PAD).
    fn is_padded_unlike_compared(&self) -> bool {
        self.collation().contains("nopad") || self.collation().contains("_0900_")
    }

    /// How conditions spell its values; `None` if conditions do not follow the order of the key.
    pub(super) fn literal(&self, vendor: Vendor) -> Option<KeyLiteral> {
        Some(match self.column.data_type.as_str() {
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
                charset: self.column.charset.clone().unwrap_or_default(),
                collation: self.collation().to_owned(),
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
            period: true,
        })
        .collect()
}
