//! What a comparison found.

use refloat_run::outcome::Bounded;
use refloat_run::phases::PhaseTime;
use serde::Serialize;

use refloat_source::manifest::SnapshotInfo;

/// What a comparison found.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct VerifyOutcome {
    /// Run id.
    pub run: String,
    /// The first.
    pub a: SideInfo,
    /// The second.
    pub b: SideInfo,
    /// Tables whose rows were compared.
    pub tables: u64,
    /// Definitions that were compared.
    pub definitions: u64,
    /// Rows that were read, on both sides.
    pub rows_read: u64,
    /// Bytes of values that were read, on both sides.
    pub bytes_read: u64,
    /// Wall seconds.
    pub seconds: f64,
    /// Wall seconds by phase.
    pub phases: Vec<PhaseTime>,
    /// Definitions that differ, and objects that only one side has.
    pub schema_differences: Bounded<SchemaDifference>,
    /// Tables whose rows differ.
    pub table_differences: Bounded<TableDifference>,
    /// Rows of tables, and columns of them, that could not be compared, and why; sentences. With any, nothing is proven to be the same.
    pub rows_not_compared: Vec<String>,
    /// What else was not compared, and why; sentences.
    pub not_compared: Vec<String>,
    /// What a reader of the result should know; sentences.
    pub notes: Vec<String>,
    /// Whether all rows were compared to the end, and nothing differs.
    pub same: bool,
    /// Whether it came to its end.
    pub complete: bool,
}

impl VerifyOutcome {
    /// Whether something differs.
    pub fn differs(&self) -> bool {
        self.schema_differences.total + self.table_differences.total > 0
    }
}

/// One of the two, and of which moment it was.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SideInfo {
    /// URL without secrets, or folder.
    pub name: String,
    /// `server` or `dump`.
    pub kind: String,
    /// Vendor and version of the server, or of the server that was dumped.
    pub server: String,
    /// Its `server_uuid`, where it has one.
    pub uuid: Option<String>,
    /// Its host name.
    pub hostname: String,
    /// Its port; none of a dump.
    pub port: Option<u16>,
    /// The state that was read.
    pub snapshot: SnapshotInfo,
    /// Rows that were read of tables that are compared.
    pub rows: u64,
}

/// A definition that differs, or an object that only one side has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaDifference {
    /// Kind, name and part: `table d.t: column c`.
    pub about: String,
    /// What the first has.
    pub a: String,
    /// What the second has.
    pub b: String,
}

/// A table whose rows differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TableDifference {
    /// `database.table`.
    pub table: String,
    /// Rows of the first.
    pub rows_a: u64,
    /// Rows of the second.
    pub rows_b: u64,
    /// Digest of the first's rows: 32 hexadecimal digits.
    pub digest_a: String,
    /// Digest of the second's rows.
    pub digest_b: String,
    /// Ranges of the key that differ; empty where the two were not read in the same ranges.
    pub ranges: Vec<RangeDifference>,
    /// Rows that differ, as many as are shown.
    pub rows: Vec<RowDifference>,
    /// Whether more rows differ than are shown.
    pub more: bool,
}

/// A range in which rows differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RangeDifference {
    /// Partition, first key, and first key behind it, as a condition would have them.
    pub range: String,
    /// Rows of the first.
    pub rows_a: u64,
    /// Rows of the second.
    pub rows_b: u64,
}

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// Both have a row with this key, and values differ.
    Changed,
    /// Only the first has it.
    OnlyA,
    /// Only the second has it.
    OnlyB,
}

/// A row that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowDifference {
    /// What is wrong.
    pub kind: RowKind,
    /// Values of the key; empty where there is none.
    pub key: Vec<NamedValue>,
    /// Of a changed row, the columns that differ.
    pub columns: Vec<ColumnDifference>,
    /// Of a row that one side alone has, its values.
    pub values: Vec<NamedValue>,
    /// By how many such rows the two differ.
    pub times: u64,
    /// Files of a dump in which it stands.
    pub files: Vec<String>,
}

/// A column and its value, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    /// The column.
    pub column: String,
    /// Text in apostrophes, bytes as `0x…`, or `NULL`; shortened.
    pub value: String,
}

/// A column in which a row differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnDifference {
    /// The column.
    pub column: String,
    /// The first's value; see [`NamedValue::value`].
    pub a: String,
    /// The second's value.
    pub b: String,
}
