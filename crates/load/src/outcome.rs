//! The result of a load, and its proof.

use refloat_run::outcome::Bounded;
use refloat_run::phases::PhaseTime;
use refloat_schema::Difference;
use serde::Serialize;

use super::galera::GaleraOutcome;
use super::marks::LeftMarks;
use super::options::WritePath;

/// One table of the dump.
#[derive(Debug, Clone, Serialize)]
pub struct TableOutcome {
    /// The database that the table was loaded into.
    pub database: String,
    /// Name of the table, without its database.
    pub table: String,
    /// Rows that the server confirmed and that are committed.
    pub rows: u64,
    /// Bytes of dump text that those rows came from.
    pub bytes: u64,
    /// Number of secondary indexes and foreign keys built after the rows.
    pub indexes_built: u64,
    /// Whether rows, indexes and foreign keys are all in place.
    pub complete: bool,
    /// Whether its engine has transactions. If not, the table may hold rows of a failed chunk in
    /// addition to those counted.
    pub transactional: bool,
    /// Clauses that are still missing (`ADD KEY …`), to be used after `ALTER TABLE`.
    pub missing: Vec<String>,
}

/// A statement or row that the server refused.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StatementFailure {
    /// The file of the dump.
    pub file: String,
    /// Line of the dump, from 1; 0 for a statement that Refloat itself runs.
    pub line: u64,
    /// Byte of the (decompressed) dump where the statement or row begins, from 0.
    pub offset: u64,
    /// Its first bytes.
    pub head: String,
    /// Server error code; 0 when Refloat itself refused it.
    pub code: u16,
    /// The server's message, with its error code.
    pub message: String,
    /// What to do about it, where Refloat itself refused the statement.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// Database and table, if the statement belongs to one.
    pub table: Option<String>,
}

impl std::fmt::Display for StatementFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Statements that Refloat itself runs for the source are on no line of it.
        if self.line > 0 {
            write!(f, "line {}, byte {}: ", self.line, self.offset)?;
        }
        write!(f, "{}: {}", self.message, self.head)
    }
}

/// A warning of the server about a statement of the load.
#[derive(Debug, Clone, Serialize)]
pub struct LoadWarning {
    /// The table or statement that it concerns.
    pub about: String,
    /// Server warning code; 0 when the warning is Refloat's own.
    pub code: u16,
    /// The text of the warning.
    pub message: String,
}

/// A load that resumed where an earlier process ended.
#[derive(Debug, Clone, Serialize)]
pub struct Resumption {
    /// Id of the run that started it.
    pub run: String,
    /// When that was, in UTC.
    pub begun: String,
    /// Rows that were already in.
    pub rows: u64,
}

/// Orphan rows found by `--foreign-keys checked`.
#[derive(Debug, Clone, Serialize)]
pub struct OrphanRows {
    /// `database.table` of the child rows.
    pub table: String,
    /// Name of the foreign key.
    pub constraint: String,
    /// Number of child rows without a parent.
    pub rows: u64,
    /// Key values of the first of them.
    pub examples: Vec<String>,
}

/// The checks after the load.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Proof {
    /// Whether the checks were run at all.
    pub done: bool,
    /// Tables whose row count was compared.
    pub tables_counted: u64,
    /// Tables whose correct row count is unknown, because the dump ran statements that may have
    /// changed any number of rows.
    pub tables_not_counted: u64,
    /// Tables whose first rows were sent in another form only after a comparison with what an
    /// `INSERT` of the dump's own text stores.
    pub first_rows_compared: u64,
    /// Those of them whose first rows were also read back.
    pub first_rows_read_back: u64,
    /// Tables whose first rows were sent in another form without that comparison, and why, as
    /// sentences.
    pub first_rows_not_compared: Vec<String>,
    /// Tables whose definition was compared.
    pub definitions_compared: u64,
    /// Views, routines, triggers, events and sequences of the dump whose existence was checked.
    pub programs_checked: u64,
    /// Everything that was not as expected.
    pub differences: Bounded<Difference>,
    /// Orphan rows, if foreign keys were checked.
    pub orphans: Vec<OrphanRows>,
}

/// The result of a load.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct LoadOutcome {
    /// The marks that were kept, if [`LoadOptions::leave_marks`](super::LoadOptions::leave_marks)
    /// asked for that.
    #[serde(skip)]
    pub marks: Option<LeftMarks>,
    /// The earlier process that this load resumed, if any.
    pub resumed: Option<Resumption>,
    /// Whether the same command would resume where this load ended.
    pub resumable: bool,
    /// Run id.
    pub run: String,
    /// Name of the dump.
    pub source: String,
    /// The server, without secrets.
    pub target: String,
    /// Vendor and version of the server.
    pub server: String,
    /// Tables, in the order of the dump.
    pub tables: Vec<TableOutcome>,
    /// Rows committed.
    pub rows: u64,
    /// Bytes of (decompressed) dump text read.
    pub bytes: u64,
    /// Statements run, not counting those that are rows.
    pub statements: u64,
    /// Wall-clock seconds of the whole run.
    pub seconds: f64,
    /// Wall-clock seconds by phase.
    pub phases: Vec<PhaseTime>,
    /// Chunk size at which the search ended, in bytes of dump text.
    pub chunk_bytes: u64,
    /// Rows in an average chunk.
    pub chunk_rows: u64,
    /// Rows by write path.
    pub write_paths: Vec<(WritePath, u64)>,
    /// Of the rows by `LOAD DATA`, those whose text was sent exactly as in the source.
    pub as_it_stands_rows: u64,
    /// Why a slower path than the best one was taken, and how to allow the better one.
    pub advice: Vec<String>,
    /// The bottleneck of the run, as a sentence with figures.
    pub bound_by: Option<String>,
    /// Chunks sent again after a deadlock or a lock wait timeout.
    pub retries: u64,
    /// Rows that the dump's `INSERT IGNORE` left out, as they would be with the stock client.
    pub ignored_rows: u64,
    /// What the user excluded: statements, and the number of tables that were not chosen.
    pub skipped: Bounded<String>,
    /// Statements about what stays as it is: the definition of an existing table (`--append`), a
    /// database that would be dropped (`--replace`), Refloat's own tables.
    pub kept: Bounded<String>,
    /// Tables and columns for which the dump leaves the collation to the server, and whose
    /// collation here differs from that on the usual source of such dumps. This does not affect the
    /// proof.
    pub other_collations: u64,
    /// Warnings of the server.
    pub warnings: Bounded<LoadWarning>,
    /// Statements and rows that the server refused.
    pub failures: Bounded<StatementFailure>,
    /// The checks after the load.
    pub proof: Proof,
    /// For a load into a Galera cluster, its effect on the nodes.
    pub galera: Option<GaleraOutcome>,
    /// Settings that were changed, as `name: old -> new (reason)`.
    pub settings_changed: Vec<String>,
    /// Settings that were requested but not changed, with the reason.
    pub settings_skipped: Vec<String>,
    /// Settings that could not be restored.
    pub settings_left: Vec<String>,
    /// Whether every statement was run, every row is there and every check passed.
    pub proven: bool,
}

impl LoadOutcome {
    /// The outcome as JSON. Nothing is proven of what was left out, so `proven` is false beside it.
    pub fn to_json(&self) -> serde_json::Value {
        let mut outcome = serde_json::to_value(self).unwrap_or_default();
        if self.skipped.total > 0 {
            outcome["proven"] = false.into();
        }
        outcome
    }

    /// Whether the load itself finished, but a check found something.
    pub fn proof_failed(&self) -> bool {
        self.proof.done
            && (!self.proof.differences.is_empty()
                || self.proof.tables_not_counted > 0
                || !self.proof.orphans.is_empty()
                || !self.warnings.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_on_no_line_names_none() {
        let mut failure = StatementFailure {
            file: "a.sql".to_owned(),
            line: 0,
            offset: 0,
            head: "ALTER TABLE t".to_owned(),
            code: 1061,
            message: "Duplicate key name".to_owned(),
            ..StatementFailure::default()
        };
        assert_eq!(failure.to_string(), "Duplicate key name: ALTER TABLE t");
        (failure.line, failure.offset) = (3, 40);
        assert!(failure.to_string().starts_with("line 3, byte 40: "));
    }
}
