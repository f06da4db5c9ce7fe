//! `CREATE TABLE`, split into its parts with their text kept verbatim.
//!
//! The splitter knows brackets, quotes, comments and the leading words of each part, not all the grammar:
//! what it does not recognise is [`Element::Other`] or stays in the verbatim tail. Ranges index into the text
//! that was given to [`parse_create_table`].

use std::ops::Range;

use crate::classify::ObjectName;

mod collate;
mod element;
mod stream;
mod table;

pub use collate::replace_collations;
pub use table::parse_create_table;

/// Why a text could not be split.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DdlError {
    /// The text is some other statement.
    #[error("not a CREATE TABLE statement")]
    NotCreateTable,
    /// A bracket, quote or comment is not closed.
    #[error("bracket, quote or comment at byte {at} is not closed")]
    Unbalanced {
        /// Where it opens.
        at: usize,
    },
}

/// A `CREATE TABLE` statement in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent words of the statement"
)]
pub struct CreateTable {
    /// The table.
    pub table: ObjectName,
    /// With `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// With `TEMPORARY`.
    pub temporary: bool,
    /// With `OR REPLACE`.
    pub or_replace: bool,
    /// `CREATE TABLE … LIKE …`: no elements.
    pub like: bool,
    /// `CREATE TABLE … SELECT …`: the elements may not be all columns.
    pub select: bool,
    /// What stands between the outer parentheses; empty when there are none.
    pub body: Range<usize>,
    /// Columns, keys and the rest of the body, in their order.
    pub elements: Vec<Element>,
    /// Table options in their order.
    pub options: Vec<TableOption>,
    /// All behind the closing parenthesis up to the partitions, trimmed.
    pub options_range: Range<usize>,
    /// `PARTITION BY …` to the end of the text, with the conditional comment around it.
    pub partition: Option<Range<usize>>,
}

/// One element of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// A column.
    Column(Column),
    /// A key of any kind but a foreign one.
    Key(Key),
    /// A foreign key.
    ForeignKey(ForeignKey),
    /// A `CHECK` of the table.
    Check(Check),
    /// `PERIOD FOR …`, `LIKE …`, and what is not recognised or depends on conditional comments.
    Other(Range<usize>),
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent attributes of the column"
)]
pub struct Column {
    /// Name, unquoted.
    pub name: Vec<u8>,
    /// Verbatim text.
    pub range: Range<usize>,
    /// First word of the type in upper case (`INT`, `VARCHAR`, `DOUBLE`).
    pub type_name: Vec<u8>,
    /// The type's first word with its arguments (`decimal(10,2)`, `enum('a','b')`).
    pub type_range: Range<usize>,
    /// With `UNSIGNED`.
    pub unsigned: bool,
    /// With `NOT NULL`.
    pub not_null: bool,
    /// With `AUTO_INCREMENT`, or of type `SERIAL`.
    pub auto_increment: bool,
    /// The value is computed.
    pub generated: Option<Generated>,
    /// With `INVISIBLE`.
    pub invisible: bool,
    /// Word behind `CHARACTER SET` or `CHARSET`.
    pub charset: Option<Vec<u8>>,
    /// Word behind `COLLATE`.
    pub collation: Option<Vec<u8>>,
    /// Text behind `COMMENT`, unescaped.
    pub comment: Option<Vec<u8>>,
    /// A key given with the column (`id INT PRIMARY KEY`).
    pub inline_key: Option<KeyKind>,
    /// With `REFERENCES` in the column.
    pub references: bool,
}

/// How a generated column is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generated {
    /// Computed when read; also when nothing is said.
    Virtual,
    /// `STORED` or `PERSISTENT`.
    Stored,
    /// `ROW START` of system versioning.
    RowStart,
    /// `ROW END` of system versioning.
    RowEnd,
}

/// Kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// `PRIMARY KEY`.
    Primary,
    /// `UNIQUE`.
    Unique,
    /// `KEY` or `INDEX`.
    Index,
    /// `FULLTEXT`.
    Fulltext,
    /// `SPATIAL`.
    Spatial,
    /// `VECTOR` (MariaDB).
    Vector,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The kind.
    pub kind: KeyKind,
    /// Name; for a primary or unique key without one, the constraint's name if given.
    pub name: Option<Vec<u8>>,
    /// What is indexed.
    pub parts: Vec<KeyPart>,
    /// Verbatim text.
    pub range: Range<usize>,
}

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// The column; `None` for an expression.
    pub column: Option<Vec<u8>>,
    /// Prefix length in characters or bytes, as the type has it.
    pub prefix: Option<u32>,
    /// With `DESC`.
    pub descending: bool,
}

impl KeyPart {
    /// Is it an expression instead of a column?
    pub fn is_expression(&self) -> bool {
        self.column.is_none()
    }
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Name of the constraint.
    pub name: Option<Vec<u8>>,
    /// Columns of this table.
    pub columns: Vec<Vec<u8>>,
    /// The table referred to.
    pub ref_table: ObjectName,
    /// Its columns.
    pub ref_columns: Vec<Vec<u8>>,
    /// Words behind `ON DELETE`, in upper case.
    pub on_delete: Option<String>,
    /// Words behind `ON UPDATE`, in upper case.
    pub on_update: Option<String>,
    /// Verbatim text.
    pub range: Range<usize>,
}

/// A `CHECK` of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name of the constraint.
    pub name: Option<Vec<u8>>,
    /// Verbatim text.
    pub range: Range<usize>,
}

/// A table option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOption {
    /// Name in upper case without `DEFAULT`; `CHARACTER SET` is `CHARSET`.
    pub name: String,
    /// Value without quotes; empty for those without one (`WITH SYSTEM VERSIONING`).
    pub value: Vec<u8>,
    /// Verbatim text, name and value.
    pub range: Range<usize>,
}

impl Element {
    /// Its verbatim text in the statement.
    pub fn range(&self) -> Range<usize> {
        match self {
            Self::Column(column) => column.range.clone(),
            Self::Key(key) => key.range.clone(),
            Self::ForeignKey(key) => key.range.clone(),
            Self::Check(check) => check.range.clone(),
            Self::Other(range) => range.clone(),
        }
    }

    /// `ADD …` for an `ALTER TABLE` that brings it back; `text` is the statement it was parsed from.
    pub fn add_clause(&self, text: &[u8]) -> Vec<u8> {
        add_clause(text, self.range())
    }
}

impl Key {
    /// [`Element::add_clause`].
    pub fn add_clause(&self, text: &[u8]) -> Vec<u8> {
        add_clause(text, self.range.clone())
    }
}

impl ForeignKey {
    /// [`Element::add_clause`].
    pub fn add_clause(&self, text: &[u8]) -> Vec<u8> {
        add_clause(text, self.range.clone())
    }
}

fn add_clause(text: &[u8], range: Range<usize>) -> Vec<u8> {
    [b"ADD ", &text[range]].concat()
}

impl CreateTable {
    /// The columns in their order.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.elements.iter().filter_map(|e| match e {
            Element::Column(column) => Some(column),
            _ => None,
        })
    }

    /// The keys in their order, without foreign ones.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.elements.iter().filter_map(|e| match e {
            Element::Key(key) => Some(key),
            _ => None,
        })
    }

    /// The foreign keys in their order.
    pub fn foreign_keys(&self) -> impl Iterator<Item = &ForeignKey> {
        self.elements.iter().filter_map(|e| match e {
            Element::ForeignKey(key) => Some(key),
            _ => None,
        })
    }

    /// Value of the last table option of this name (upper case, as in [`TableOption::name`]).
    pub fn option(&self, name: &str) -> Option<&[u8]> {
        self.options
            .iter()
            .rev()
            .find(|o| o.name == name)
            .map(|o| o.value.as_slice())
    }

    /// The statement's text with some elements left out and all the rest verbatim. `text` is what this was
    /// parsed from. When all would go, nothing is left out: a table needs a column.
    pub fn without(&self, text: &[u8], mut leave_out: impl FnMut(&Element) -> bool) -> Vec<u8> {
        let kept: Vec<usize> = (0..self.elements.len())
            .filter(|&i| !leave_out(&self.elements[i]))
            .collect();
        let Some(last) = self.elements.last().filter(|_| !kept.is_empty()) else {
            return text.to_vec();
        };
        let mut out = text[..self.elements[0].range().start].to_vec();
        for (n, &i) in kept.iter().enumerate() {
            let range = self.elements[i].range();
            if n > 0 {
                // The comma and blanks that stand before it.
                out.extend_from_slice(&text[self.elements[i - 1].range().end..range.start]);
            }
            out.extend_from_slice(&text[range]);
        }
        out.extend_from_slice(&text[last.range().end..]);
        out
    }
}
