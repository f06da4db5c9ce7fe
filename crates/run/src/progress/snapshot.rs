//! The plain values that a progress snapshot consists of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The phases of a run, in order. Each kind of run has some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// Inspecting source and server; nothing has been touched yet.
    Preflight = 0,
    /// Changing server settings.
    Settings = 1,
    /// Creating tables and loading rows; copying files.
    Data = 2,
    /// Applying the redo log to copied files.
    Prepare = 3,
    /// Replicating what was written while files were copied.
    CatchUp = 4,
    /// Building secondary indexes.
    Indexes = 5,
    /// Adding foreign keys.
    ForeignKeys = 6,
    /// Creating views, routines, triggers and events.
    Programs = 7,
    /// Counting and comparing rows; reading a backup back.
    Proof = 8,
    /// Putting settings back.
    Revert = 9,
    /// Nothing left to do.
    Done = 10,
}

impl Phase {
    pub(super) const ALL: [Self; 11] = [
        Self::Preflight,
        Self::Settings,
        Self::Data,
        Self::Prepare,
        Self::CatchUp,
        Self::Indexes,
        Self::ForeignKeys,
        Self::Programs,
        Self::Proof,
        Self::Revert,
        Self::Done,
    ];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preflight => "preflight",
            Self::Settings => "settings",
            Self::Data => "data",
            Self::Prepare => "prepare",
            Self::CatchUp => "catch-up",
            Self::Indexes => "indexes",
            Self::ForeignKeys => "foreign keys",
            Self::Programs => "views, routines, triggers",
            Self::Proof => "proof",
            Self::Revert => "putting settings back",
            Self::Done => "done",
        })
    }
}

/// What is happening to a table right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum TableState {
    /// Rows are coming in.
    Loading = 0,
    /// Indexes are being built.
    Indexing = 1,
    /// Foreign keys are being added.
    ForeignKeys = 2,
    /// The table is being counted or compared.
    Checking = 3,
}

/// The progress of a run, as plain values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Current phase.
    pub phase: Phase,
    /// Seconds since the run began.
    pub elapsed: f64,
    /// Size of the raw source in bytes, if known.
    pub source_total: Option<u64>,
    /// Raw bytes read from the source so far.
    pub source_done: u64,
    /// Bytes of dump text that are in the server.
    pub bytes_done: u64,
    /// Rows that are in the server.
    pub rows_done: u64,
    /// Raw source bytes per second, over the last few seconds.
    pub source_rate: f64,
    /// Dump text bytes per second, over the last few seconds.
    pub bytes_rate: f64,
    /// Rows per second, over the last few seconds.
    pub rows_rate: f64,
    /// Tables started so far.
    pub tables_started: u64,
    /// Tables whose rows are all in.
    pub tables_done: u64,
    /// Number of tables expected, if known.
    pub tables_total: Option<u64>,
    /// Tables being worked on, at most 64, in the order they started.
    pub active: Vec<ActiveTable>,
    /// Number of active tables beyond those listed.
    pub active_more: u64,
    /// Indexes and foreign keys to build, as far as known yet.
    pub builds_total: u64,
    /// Indexes and foreign keys built so far.
    pub builds_done: u64,
    /// Bytes of table text that the builds read, as far as known yet.
    pub build_bytes_total: u64,
    /// Bytes of table text that finished builds have read.
    pub build_bytes_done: u64,
    /// Warnings so far.
    pub warnings: u64,
    /// For a dump or copy: length of InnoDB's history list on the source, as last sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u64>,
    /// For a dump or copy from a Galera node: flow control pauses since reading rows started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<u64>,
    /// Estimated seconds left over all phases, if an estimate is possible.
    pub eta: Option<f64>,
    /// Completed part of the whole run, 0 to 1, if an estimate is possible.
    pub fraction: Option<f64>,
}

/// A table being worked on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActiveTable {
    /// `database.table`.
    pub table: String,
    /// What is happening to the table.
    pub state: TableState,
    /// Rows so far.
    pub rows: u64,
    /// Bytes of dump text so far.
    pub bytes: u64,
    /// Seconds since the table started.
    pub seconds: f64,
}
