//! Server settings of a run: planned, journalled, changed, read back, put back.
//!
//! The order makes it safe. [`plan`] only reads. [`AppliedSettings::apply`] first writes the
//! journal (the run's `settings.json`, and a row in `refloat.settings_journal` on the server where
//! possible), and only then changes anything, reading back each change. [`AppliedSettings::revert`]
//! puts everything back in reverse order. After a run was killed, [`revert_run`] does the same from
//! the run's folder, and [`revert_on_server`] from the rows on the server.
//!
//! Only `SET GLOBAL`, never `PERSIST`: a restart of the server brings the old values back. The one
//! exception is MySQL's disabled redo log, which survives a restart; it is journalled like the
//! rest.

mod apply;
mod catalog;
mod durable;
mod facts;
mod journal;
mod pool;
mod provider;
mod redo;
mod revert;
mod started;
mod value;
mod variable;

use std::fmt;
use std::str::FromStr;

use refloat_wire::{Connection, Error as WireError};
use serde::{Deserialize, Serialize};

use crate::own_tables::{JOURNAL_SCHEMA, JOURNAL_TABLE};
use crate::{RunDirError, RunId};

pub use apply::{AppliedSettings, left_by_dead_runs};
pub use catalog::{Advice, PlannedChange, SessionChange, SettingsPlan, Skipped};
pub use facts::{Facts, Grants};
pub use journal::{
    DAMAGED, Journal, JournalEntry, OpenRun, ServerMark, list, list_on_server, list_readable,
};
pub use provider::{
    GCACHE_MEMORY, GCACHE_PURGE, ProviderOptions, provider_variable, size_in_bytes,
};
pub use revert::{
    RevertReport, RevertResult, RevertedSetting, SST_DONOR, WSREP_DESYNC, revert_on_server,
    revert_run,
};
pub use started::{forget_start, put_back_start, was_started, write_down_start};

/// How much of a server's durability a run may trade for speed while it works.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Change nothing but the session's own settings.
    #[default]
    Keep,
    /// Change global settings while the load runs: logs are flushed less often (a power cut loses
    /// the last seconds of everybody's data), the server may take more memory, redo log and disk,
    /// and LOAD DATA LOCAL is allowed.
    Relaxed,
    /// The same, and turn off the redo log, binary log and doublewrite buffer where the server can:
    /// after a crash it has to be rebuilt from nothing.
    Disposable,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Relaxed => "relaxed",
            Self::Disposable => "disposable",
        })
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "keep" => Ok(Self::Keep),
            "relaxed" => Ok(Self::Relaxed),
            "disposable" => Ok(Self::Disposable),
            _ => Err(format!("{text:?} is not keep, relaxed or disposable")),
        }
    }
}

/// What a plan is based on besides what the server reports.
#[derive(Debug, Clone, Default)]
pub struct Hints {
    /// Bytes of dump text to be loaded, if known (an estimate is enough).
    pub dump_bytes: Option<u64>,
    /// Free memory on the **server's** machine, in bytes; `None` if it cannot be seen (another
    /// machine).
    pub server_memory_available: Option<u64>,
    /// Free space for the server's data directory, in bytes; `None` if it cannot be seen.
    pub server_disk_available: Option<u64>,
    /// Whether `local_infile` may be enabled for the run.
    pub allow_local_infile: bool,
    /// Whether sessions may skip the binary log although the level is not disposable.
    pub skip_binlog: bool,
}

/// What can go wrong with settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The run's journal could not be written or read.
    #[error(transparent)]
    Journal(#[from] RunDirError),
    /// The server refused a statement or went away.
    #[error(transparent)]
    Server(#[from] WireError),
    /// The journal belongs to another server.
    #[error("run {run} changed settings of {expected}, and this is {found}")]
    WrongServer {
        /// The run that changed the settings.
        run: RunId,
        /// The server in the journal.
        expected: String,
        /// The server at the other end of the connection.
        found: String,
    },
    /// The run that changed the settings is still running.
    #[error("run {run} is still working (process {pid} on {host}), so its settings stay")]
    StillRunning {
        /// The run that is still running.
        run: RunId,
        /// Id of its process.
        pid: u32,
        /// The host that the process runs on.
        host: String,
    },
    /// Whether the run is still running cannot be seen from here: it ran on another host.
    #[error(
        "run {run} was started on {host} (process {pid}), and whether it is still working cannot be seen from here"
    )]
    OwnerUnknown {
        /// The run that changed the settings.
        run: RunId,
        /// Id of its process.
        pid: u32,
        /// The host that the process ran on.
        host: String,
    },
    /// A table that is not Refloat's has the name of the journal table, so no change could be
    /// journalled.
    #[error(
        "the table {JOURNAL_SCHEMA}.{JOURNAL_TABLE} on the server is not Refloat's: the journal of settings has no place, and nothing was changed; rename that table"
    )]
    PlaceTaken,
    /// A journal row on the server cannot be understood.
    #[error(
        "the row of run {run} in {JOURNAL_SCHEMA}.{JOURNAL_TABLE} cannot be understood: {reason}"
    )]
    BadRow {
        /// The run, as the row names it.
        run: String,
        /// What is wrong with the row.
        reason: String,
    },
}

/// Reads the server's settings and plans what to change, skip and advise. Changes nothing.
pub fn plan(
    conn: &mut Connection,
    durability: Durability,
    hints: &Hints,
) -> Result<SettingsPlan, SettingsError> {
    let facts = Facts::read(conn)?;
    Ok(catalog::plan(&facts, durability, hints))
}

/// Same as [`plan`], from facts that were read earlier.
pub fn plan_for(facts: &Facts, durability: Durability, hints: &Hints) -> SettingsPlan {
    catalog::plan(facts, durability, hints)
}
