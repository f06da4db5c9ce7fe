//! What a dump did.

use refloat_run::phases::PhaseTime;
use refloat_source::manifest::SnapshotInfo;
use serde::Serialize;

use super::cost::SnapshotCost;

/// What a dump did.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct DumpOutcome {
    /// Run id.
    pub run: String,
    /// The server, without secrets.
    pub source: String,
    /// Vendor and version of the server.
    pub server: String,
    /// Where the dump is.
    pub out: String,
    /// Of which moment its rows are.
    pub snapshot: SnapshotInfo,
    /// Databases.
    pub databases: u64,
    /// Tables.
    pub tables: u64,
    /// Views, sequences, routines, triggers and events.
    pub programs: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes of row text.
    pub text_bytes: u64,
    /// Bytes of files.
    pub file_bytes: u64,
    /// Files with rows.
    pub files: u64,
    /// Wall seconds.
    pub seconds: f64,
    /// Wall seconds by phase.
    pub phases: Vec<PhaseTime>,
    /// Seconds for which readers were held back on request, all together.
    pub held_seconds: f64,
    /// What the snapshot has cost the server.
    pub snapshot_cost: SnapshotCost,
    /// What is not in the dump, and what a restore should know.
    pub notes: Vec<String>,
    /// Settings of the server that are still to be put back.
    pub settings_left: Vec<String>,
    /// Whether the manifest is written: all rows are there, and files are on the disk.
    pub complete: bool,
}
