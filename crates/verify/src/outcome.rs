//! The result of a comparison.

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
    /// The first side.
    pub a: SideInfo,
    /// The second side.
    pub b: SideInfo,
    /// Number of tables whose rows were compared.
    pub tables: u64,
    /// Number of definitions that were compared.
    pub definitions: u64,
    /// Rows read on both sides.
    pub rows_read: u64,
    /// Bytes of values read on both sides.
    pub bytes_read: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Wall-clock seconds by phase.
    pub phases: Vec<PhaseTime>,
    /// Definitions that differ, and objects that only one side has.
    pub schema_differences: Bounded<SchemaDifference>,
    /// Tables whose rows differ.
    pub table_differences: Bounded<TableDifference>,
    /// Rows and columns of tables that could not be compared, and why, as sentences. If there are
    /// any, equality is not proven.
    pub rows_not_compared: Vec<String>,
    /// Whatever else was not compared, and why, as sentences.
    pub not_compared: Vec<String>,
    /// Notes for the reader of the result, as sentences.
    pub notes: Vec<String>,
    /// Whether all rows were compared and nothing differs.
    pub same: bool,
    /// Whether the comparison ran to its end.
    pub complete: bool,
}

impl VerifyOutcome {
    /// Whether anything differs.
    pub fn differs(&self) -> bool {
        self.schema_differences.total + self.table_differences.total > 0
    }
}

/// One side, and the moment at which it was read.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SideInfo {
    /// URL without secrets, or path of the dump.
    pub name: String,
    /// `server` or `dump`.
    pub kind: String,
    /// Vendor and version of the server, or of the server that was dumped.
    pub server: String,
    /// Its `server_uuid`, if it has one.
    pub uuid: Option<String>,
    /// Host name of the server or of the dumped server; empty if a dump does not say.
    pub hostname: String,
    /// Port of the server; `None` for a dump.
    pub port: Option<u16>,
    /// The snapshot that was read.
    pub snapshot: SnapshotInfo,
    /// Rows read from the tables that are compared.
    pub rows: u64,
}

/// A definition that differs, or an object that only one side has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaDifference {
    /// Kind, name and part: `table d.t: column c`.
    pub about: String,
    /// What the first side has.
    pub a: String,
    /// What the second side has.
    pub b: String,
}

/// A table whose rows differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TableDifference {
    /// `database.table`.
    pub table: String,
    /// Rows on the first side.
    pub rows_a: u64,
    /// Rows on the second side.
    pub rows_b: u64,
    /// Digest of the first side's rows: 32 hexadecimal digits.
    pub digest_a: String,
    /// Digest of the second side's rows.
    pub digest_b: String,
    /// Key ranges that differ; empty if the two sides were not read in the same ranges.
    pub ranges: Vec<RangeDifference>,
    /// Rows that differ, up to the number to show.
    pub rows: Vec<RowDifference>,
    /// Whether more rows differ than are listed.
    pub more: bool,
}

/// A range in which rows differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RangeDifference {
    /// Partition, first key, and the first key after the range, as literals.
    pub range: String,
    /// Rows on the first side.
    pub rows_a: u64,
    /// Rows on the second side.
    pub rows_b: u64,
}

/// How a row differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// Both sides have a row with this key, with different values.
    Changed,
    /// Only the first side has it.
    OnlyA,
    /// Only the second side has it.
    OnlyB,
}

/// A row that both sides have with different values, or that only one side has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowDifference {
    /// How it differs.
    pub kind: RowKind,
    /// Values of the key; empty if the table has none.
    pub key: Vec<NamedValue>,
    /// The columns that differ, for a changed row.
    pub columns: Vec<ColumnDifference>,
    /// The values, for a row that only one side has.
    pub values: Vec<NamedValue>,
    /// How many more of this row one side has.
    pub times: u64,
    /// Files of a dump that contain it.
    pub files: Vec<String>,
}

/// A column and its value, formatted for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    /// As the server spells it, unquoted.
    pub column: String,
    /// Text in single quotes, bytes as `0x…`, or `NULL`; shortened.
    pub value: String,
}

/// A column in which a row differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnDifference {
    /// As the server spells it, unquoted.
    pub column: String,
    /// Value on the first side; see [`NamedValue::value`].
    pub a: String,
    /// Value on the second side.
    pub b: String,
}
