//! The plain values of a snapshot.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The phases of a load, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// Looking at source and server; nothing is touched yet.
    Preflight = 0,
    /// Changing settings of the server.
    Settings = 1,
    /// Tables and rows.
    Data = 2,
    /// Secondary indexes.
    Indexes = 3,
    /// Foreign keys.
    ForeignKeys = 4,
    /// Views, routines, triggers, events.
    Programs = 5,
    /// Counting and comparing.
    Proof = 6,
    /// Putting settings back.
    Revert = 7,
    /// Nothing is left to do.
    Done = 8,
}

impl Phase {
    pub(super) const ALL: [Self; 9] = [
        Self::Preflight,
        Self::Settings,
        Self::Data,
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
            Self::Indexes => "indexes",
            Self::ForeignKeys => "foreign keys",
            Self::Programs => "views, routines, triggers",
            Self::Proof => "proof",
            Self::Revert => "putting settings back",
            Self::Done => "done",
        })
    }
}

/// What happens with a table right now.
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
    /// It is being counted or compared.
    Checking = 3,
}

/// Where a run stands, as plain values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The phase that the run is in.
    pub phase: Phase,
    /// Seconds since the run began.
    pub elapsed: f64,
    /// Size of the raw source in bytes, when it is known.
    pub source_total: Option<u64>,
    /// Raw bytes of the source read so far.
    pub source_done: u64,
    /// Bytes of dump text that are in the server.
    pub bytes_done: u64,
    /// Rows that are in the server.
    pub rows_done: u64,
    /// Raw source bytes per second, over the last seconds.
    pub source_rate: f64,
    /// Dump text bytes per second, over the last seconds.
    pub bytes_rate: f64,
    /// Rows per second, over the last seconds.
    pub rows_rate: f64,
    /// Tables begun so far.
    pub tables_started: u64,
    /// Tables whose rows are all in.
    pub tables_done: u64,
    /// Tables expected, when that is known.
    pub tables_total: Option<u64>,
    /// Tables at work now, at most 64 of them, by name.
    pub active: Vec<ActiveTable>,
    /// Tables at work beyond those listed.
    pub active_more: u64,
    /// Indexes and foreign keys to be built, as far as is known yet.
    pub builds_total: u64,
    /// Built.
    pub builds_done: u64,
    /// Bytes of table text that the builds go through, as far as is known yet.
    pub build_bytes_total: u64,
    /// Of these, done.
    pub build_bytes_done: u64,
    /// Warnings so far.
    pub warnings: u64,
    /// Of a dump or copy: the length of InnoDB's history list on the source, when it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u64>,
    /// Of a dump or copy from a node of a Galera cluster: pauses by flow control since rows are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<u64>,
    /// Seconds left over all phases, when that can be said.
    pub eta: Option<f64>,
    /// Part of the whole run that is behind us, 0 to 1, when that can be said.
    pub fraction: Option<f64>,
}

/// A table at work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActiveTable {
    /// `database.table`.
    pub table: String,
    /// What happens.
    pub state: TableState,
    /// Rows so far.
    pub rows: u64,
    /// Bytes of dump text so far.
    pub bytes: u64,
    /// Seconds since it began.
    pub seconds: f64,
}
