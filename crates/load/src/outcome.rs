//! What a load did, and what proves it.

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
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
    /// Rows that the server confirmed and that are committed.
    pub rows: u64,
    /// Bytes of dump text those rows came from.
    pub bytes: u64,
    /// Secondary indexes and foreign keys built after the rows.
    pub indexes_built: u64,
    /// Whether rows, indexes and foreign keys are all in place.
    pub complete: bool,
    /// Whether its engine has transactions. Without, rows of a chunk that failed may be there besides those that are counted.
    pub transactional: bool,
    /// Definitions that are still missing (`ADD KEY …`), ready to be put behind `ALTER TABLE`.
    pub missing: Vec<String>,
}

/// A statement or row that the server refused.
#[derive(Debug, Clone, Serialize)]
pub struct StatementFailure {
    /// The file of the dump.
    pub file: String,
    /// Line of the dump, from 1.
    pub line: u64,
    /// Byte of the (decompressed) dump where the statement or row begins, from 0.
    pub offset: u64,
    /// The first bytes of it.
    pub head: String,
    /// Server error code, 0 when Refloat itself refused it.
    pub code: u16,
    /// The server's words, with its error code.
    pub message: String,
    /// Database and table, when the statement belongs to one.
    pub table: Option<String>,
}

impl std::fmt::Display for StatementFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What refloat itself runs for the source stands on no line.
        if self.line > 0 {
            write!(f, "line {}, byte {}: ", self.line, self.offset)?;
        }
        write!(f, "{}: {}", self.message, self.head)
    }
}

/// A warning of the server about a statement of the load.
#[derive(Debug, Clone, Serialize)]
pub struct LoadWarning {
    /// Table or statement that it was about.
    pub about: String,
    /// Server warning code, 0 when the warning is Refloat's own.
    pub code: u16,
    /// The server's words.
    pub message: String,
}

/// A load that went on where an earlier process of it had ended.
#[derive(Debug, Clone, Serialize)]
pub struct Resumption {
    /// The run that began it.
    pub run: String,
    /// When that was, UTC.
    pub begun: String,
    /// Rows that were in already.
    pub rows: u64,
}

/// An orphan row found by `--foreign-keys checked`.
#[derive(Debug, Clone, Serialize)]
pub struct OrphanRows {
    /// Child table.
    pub table: String,
    /// Constraint.
    pub constraint: String,
    /// How many child rows have no parent.
    pub rows: u64,
    /// Key values of the first of them.
    pub examples: Vec<String>,
}

/// What was checked after the load.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Proof {
    /// Whether the checks were run at all.
    pub done: bool,
    /// Tables whose row count was compared.
    pub tables_counted: u64,
    /// Tables whose rows nobody can tell the right number of: the dump has run statements that may have changed any.
    pub tables_not_counted: u64,
    /// Tables whose first rows were compared with what an `INSERT` of the dump's own text stores, before they were sent in another form.
    pub first_rows_compared: u64,
    /// Tables whose first rows were sent in another form without that, and why; sentences.
    pub first_rows_not_compared: Vec<String>,
    /// Tables whose definition was compared.
    pub definitions_compared: u64,
    /// Views, routines, triggers, events and sequences of the dump that were looked for.
    pub programs_checked: u64,
    /// Everything that was not as it should be.
    pub differences: Bounded<Difference>,
    /// Orphan rows, where foreign keys were checked.
    pub orphans: Vec<OrphanRows>,
}

/// What a load did.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct LoadOutcome {
    /// The marks that were left, as it was asked for.
    #[serde(skip)]
    pub marks: Option<LeftMarks>,
    /// The earlier process that this load went on after.
    pub resumed: Option<Resumption>,
    /// Whether the same command resumes where this one ended.
    pub resumable: bool,
    /// Run id.
    pub run: String,
    /// The dump.
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
    /// Statements run that were not rows.
    pub statements: u64,
    /// Wall seconds of the whole run.
    pub seconds: f64,
    /// Wall seconds by phase.
    pub phases: Vec<PhaseTime>,
    /// Chunk size that the search ended with, in bytes of dump text.
    pub chunk_bytes: u64,
    /// Rows of an average chunk.
    pub chunk_rows: u64,
    /// Rows by write path.
    pub write_paths: Vec<(WritePath, u64)>,
    /// Of the rows by `LOAD DATA`, those whose text was sent as it stands in the source.
    pub as_it_stands_rows: u64,
    /// Why a slower path than the best one was taken, and how to allow the better.
    pub advice: Vec<String>,
    /// What bound the run, as a sentence with figures.
    pub bound_by: Option<String>,
    /// Chunks sent again after a deadlock or a lock wait.
    pub retries: u64,
    /// Rows that `INSERT IGNORE` of the dump left out, as the stock client would have.
    pub ignored_rows: u64,
    /// Statements left out on purpose, with the reason.
    pub skipped: Bounded<String>,
    /// Tables and columns whose collation the dump leaves to the server, and that have another one here than where such dumps come from. It
    /// takes nothing from the proof.
    pub other_collations: u64,
    /// Warnings of the server.
    pub warnings: Bounded<LoadWarning>,
    /// Statements and rows that the server refused.
    pub failures: Bounded<StatementFailure>,
    /// What was checked at the end.
    pub proof: Proof,
    /// Of a load into a Galera cluster, what it did to the nodes.
    pub galera: Option<GaleraOutcome>,
    /// Settings that were changed, as `name: old -> new (reason)`.
    pub settings_changed: Vec<String>,
    /// Settings that were asked for and not changed, with the reason.
    pub settings_skipped: Vec<String>,
    /// Settings that could not be put back.
    pub settings_left: Vec<String>,
    /// Whether every statement was run, every row is there and every check passed.
    pub proven: bool,
}

impl LoadOutcome {
    /// Whether the load itself ended, but a check found something.
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
            table: None,
        };
        assert_eq!(failure.to_string(), "Duplicate key name: ALTER TABLE t");
        (failure.line, failure.offset) = (3, 40);
        assert!(failure.to_string().starts_with("line 3, byte 40: "));
    }
}
