//! Splits `CREATE TABLE` into its parts and keeps their text verbatim.
//!
//! The splitter knows brackets, quotes, comments and the leading words of each part, not the full
//! grammar. Anything it does not recognise becomes [`Element::Other`] or stays in the verbatim
//! tail. Ranges index into the text given to [`parse_create_table`].

use std::ops::Range;

use crate::classify::ObjectName;

mod collate;
mod element;
mod stream;
mod table;

pub use collate::replace_collations;
pub use table::parse_create_table;

/// Why a statement could not be split.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DdlError {
    /// The text is a different statement.
    #[error("not a CREATE TABLE statement")]
    NotCreateTable,
    /// A bracket, quote or comment is not closed.
    #[error("bracket, quote or comment at byte {at} is not closed")]
    Unbalanced {
        /// Position of the opening bracket, quote or comment.
        at: usize,
    },
}

/// A `CREATE TABLE` statement, split into parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent words of the statement"
)]
pub struct CreateTable {
    /// The table being created.
    pub table: ObjectName,
    /// With `IF NOT EXISTS`: one that exists stays as it is.
    pub if_not_exists: bool,
    /// With `TEMPORARY`: it is gone when the session ends.
    pub temporary: bool,
    /// With `OR REPLACE` (MariaDB): one that exists is dropped first.
    pub or_replace: bool,
    /// `CREATE TABLE … LIKE …`: no elements.
    pub like: bool,
    /// `CREATE TABLE … SELECT …`: the query may add columns that are not among the elements.
    pub select: bool,
    /// The text between the outer parentheses; empty when there are none.
    pub body: Range<usize>,
    /// Columns, keys and the rest of the body, in order.
    pub elements: Vec<Element>,
    /// Table options, in order.
    pub options: Vec<TableOption>,
    /// Everything between the closing parenthesis and the partitions, trimmed.
    pub options_range: Range<usize>,
    /// `PARTITION BY …` to the end of the text, including the conditional comment around it.
    pub partition: Option<Range<usize>>,
}

/// One element of the body, between its commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// A column, perhaps with a key, checks and references of its own.
    Column(Column),
    /// A key of any kind except a foreign key.
    Key(Key),
    /// `FOREIGN KEY … REFERENCES …`, with the name of its constraint, if any.
    ForeignKey(ForeignKey),
    /// A `CHECK` constraint of the table.
    Check(Check),
    /// `PERIOD FOR …`, `LIKE …`, and anything unrecognised or dependent on conditional comments.
    Other(Range<usize>),
}

/// A column definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent attributes of the column"
)]
pub struct Column {
    /// Name, unquoted.
    pub name: Vec<u8>,
    /// Verbatim text of the definition.
    pub range: Range<usize>,
    /// First word of the type in upper case (`INT`, `VARCHAR`, `DOUBLE`).
    pub type_name: Vec<u8>,
    /// The type's first word with its arguments (`decimal(10,2)`, `enum('a','b')`).
    pub type_range: Range<usize>,
    /// With `UNSIGNED` or `ZEROFILL`, which implies it.
    pub unsigned: bool,
    /// With `NOT NULL`; a primary key alone does not set it.
    pub not_null: bool,
    /// With `AUTO_INCREMENT`, or of type `SERIAL`.
    pub auto_increment: bool,
    /// How the value is computed; `None` for an ordinary column.
    pub generated: Option<Generated>,
    /// With `INVISIBLE`: `SELECT *` and `INSERT` without names pass it by.
    pub invisible: bool,
    /// The word after `CHARACTER SET` or `CHARSET`.
    pub charset: Option<Vec<u8>>,
    /// The word after `COLLATE`.
    pub collation: Option<Vec<u8>>,
    /// The text after `COMMENT`, unescaped.
    pub comment: Option<Vec<u8>>,
    /// The key declared with the column (`id INT PRIMARY KEY`).
    pub inline_key: Option<KeyKind>,
    /// The column definition has a `REFERENCES` clause.
    pub references: bool,
}

/// How the value of a generated column comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generated {
    /// Computed when read; the default when neither keyword is given.
    Virtual,
    /// `STORED` or `PERSISTENT`.
    Stored,
    /// `ROW START` of a system-versioned table.
    RowStart,
    /// `ROW END` of a system-versioned table.
    RowEnd,
}

/// Kinds of keys, foreign keys excepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// `PRIMARY KEY`.
    Primary,
    /// `UNIQUE`, with `KEY`, `INDEX` or neither.
    Unique,
    /// `KEY` or `INDEX`.
    Index,
    /// `FULLTEXT`: words of text columns.
    Fulltext,
    /// `SPATIAL`: an R-tree over a geometry.
    Spatial,
    /// `VECTOR` (MariaDB).
    Vector,
}

/// A key other than a foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Whether it is unique, and how the server searches it.
    pub kind: KeyKind,
    /// Name; for a primary or unique key without one, the constraint's name, if any.
    pub name: Option<Vec<u8>>,
    /// The key parts, in order.
    pub parts: Vec<KeyPart>,
    /// Verbatim text of the definition.
    pub range: Range<usize>,
}

/// A column or expression that a key is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// The column; `None` for an expression.
    pub column: Option<Vec<u8>>,
    /// Prefix length, in characters or bytes depending on the column type.
    pub prefix: Option<u32>,
    /// Whether `DESC` follows it.
    pub descending: bool,
}

impl KeyPart {
    /// Is it an expression instead of a column?
    pub fn is_expression(&self) -> bool {
        self.column.is_none()
    }
}

/// A foreign key constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Name of the constraint; `None` if the server is to choose one.
    pub name: Option<Vec<u8>>,
    /// The referencing columns, in this table.
    pub columns: Vec<Vec<u8>>,
    /// The referenced table.
    pub ref_table: ObjectName,
    /// The referenced columns.
    pub ref_columns: Vec<Vec<u8>>,
    /// The words after `ON DELETE`, in upper case.
    pub on_delete: Option<String>,
    /// The words after `ON UPDATE`, in upper case.
    pub on_update: Option<String>,
    /// Verbatim text of the definition.
    pub range: Range<usize>,
}

/// A `CHECK` constraint of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name of the constraint; `None` if the server is to choose one.
    pub name: Option<Vec<u8>>,
    /// Verbatim text of the definition.
    pub range: Range<usize>,
}

/// A table option such as `ENGINE=InnoDB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOption {
    /// Name in upper case without `DEFAULT`; `CHARACTER SET` becomes `CHARSET`.
    pub name: String,
    /// Value without quotes; empty for options that take none (`WITH SYSTEM VERSIONING`).
    pub value: Vec<u8>,
    /// Verbatim text, name and value.
    pub range: Range<usize>,
}

impl Element {
    /// The range of its verbatim text in the statement.
    pub fn range(&self) -> Range<usize> {
        match self {
            Self::Column(column) => column.range.clone(),
            Self::Key(key) => key.range.clone(),
            Self::ForeignKey(key) => key.range.clone(),
            Self::Check(check) => check.range.clone(),
            Self::Other(range) => range.clone(),
        }
    }

    /// `ADD …`, the `ALTER TABLE` clause that restores it; `text` is the statement it was parsed
    /// from.
    pub fn add_clause(&self, text: &[u8]) -> Vec<u8> {
        add_clause(text, self.range())
    }
}

impl Key {
    /// Like [`Element::add_clause`].
    pub fn add_clause(&self, text: &[u8]) -> Vec<u8> {
        add_clause(text, self.range.clone())
    }
}

impl ForeignKey {
    /// Like [`Element::add_clause`].
    pub fn add_clause(&self, text: &[u8]) -> Vec<u8> {
        add_clause(text, self.range.clone())
    }
}

fn add_clause(text: &[u8], range: Range<usize>) -> Vec<u8> {
    [b"ADD ", &text[range]].concat()
}

impl CreateTable {
    /// The columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.elements.iter().filter_map(|e| match e {
            Element::Column(column) => Some(column),
            _ => None,
        })
    }

    /// The keys, in order, without foreign keys.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.elements.iter().filter_map(|e| match e {
            Element::Key(key) => Some(key),
            _ => None,
        })
    }

    /// The foreign keys, in order.
    pub fn foreign_keys(&self) -> impl Iterator<Item = &ForeignKey> {
        self.elements.iter().filter_map(|e| match e {
            Element::ForeignKey(key) => Some(key),
            _ => None,
        })
    }

    /// Value of the last table option with this name (upper case, as in [`TableOption::name`]).
    pub fn option(&self, name: &str) -> Option<&[u8]> {
        self.options
            .iter()
            .rev()
            .find(|o| o.name == name)
            .map(|o| o.value.as_slice())
    }

    /// The statement's text without some elements; everything else stays verbatim. `text` is the
    /// text it was parsed from. If every element would go, none does: a table needs a column.
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
                // The comma and blanks before this element.
                out.extend_from_slice(&text[self.elements[i - 1].range().end..range.start]);
            }
            out.extend_from_slice(&text[range]);
        }
        out.extend_from_slice(&text[last.range().end..]);
        out
    }
}
