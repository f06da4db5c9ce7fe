//! The result of a dump.

use refloat_run::phases::PhaseTime;
use refloat_source::manifest::SnapshotInfo;
use serde::Serialize;

/// The result of a dump.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct DumpOutcome {
    /// Run id.
    pub run: String,
    /// Address of the server, without secrets.
    pub source: String,
    /// Vendor and version of the server.
    pub server: String,
    /// Path of the dump, `standard output`, or repository and label.
    pub out: String,
    /// What was added to the repository, if the dump is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredDump>,
    /// The moment that the rows are from.
    pub snapshot: SnapshotInfo,
    /// Databases, including those without tables.
    pub databases: u64,
    /// Tables with rows of their own: no views and no sequences.
    pub tables: u64,
    /// Views, sequences, routines, triggers and events. A dump as SQL does not count sequences.
    pub programs: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Row text in bytes, before compression.
    pub text_bytes: u64,
    /// Size of the schema and row files in bytes; of the whole text for a dump as SQL.
    pub file_bytes: u64,
    /// Files that hold rows.
    pub files: u64,
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// Wall-clock time of each phase.
    pub phases: Vec<PhaseTime>,
    /// Seconds for which throttling held readers back, summed over all readers.
    pub held_seconds: f64,
    /// What the snapshot cost the server.
    pub snapshot_cost: SnapshotCost,
    /// What the dump does not contain, and what to know before a restore.
    pub notes: Vec<String>,
    /// Server settings still to be put back.
    pub settings_left: Vec<String>,
    /// Whether the dump is complete: the manifest is written, and all files are on the disk.
    pub complete: bool,
}

/// What was stored of a dump in a repository.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct StoredDump {
    /// Label of the backup.
    pub label: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Of these, bytes that the repository had already.
    pub known: u64,
    /// Bytes that were added to the repository.
    pub added: u64,
}

/// What the snapshot of a dump or a copy cost the server while rows were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SnapshotCost {
    /// Seconds for which it was open.
    pub seconds: f64,
    /// Length of InnoDB's history list; `None` if the account may not see it.
    pub history: Option<HistoryLength>,
    /// Galera flow control while rows were read; `None` on other servers.
    pub flow_control: Option<FlowControl>,
}

/// Length of InnoDB's history list: transactions whose old row versions are not purged yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HistoryLength {
    /// At the start of reading rows.
    pub first: u64,
    /// Highest value seen.
    pub highest: u64,
    /// At the end of reading rows.
    pub last: u64,
}

/// Galera flow control since the start of reading rows, as this node counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FlowControl {
    /// Pauses that this node requested.
    pub sent: u64,
    /// Pauses that any node requested.
    pub received: u64,
    /// Seconds for which the cluster was paused.
    pub paused_seconds: f64,
}
