//! Server settings: planned, journalled, changed, read back, put back.
//!
//! The order is the safety: [`plan`] only reads; [`AppliedSettings::apply`] writes the journal (the run's
//! `settings.json`, and a row in `refloat.settings_journal` on the server where that is possible), and only then
//! changes anything; each change is read back. [`AppliedSettings::revert`] puts everything back in reverse order, and so do
//! [`revert_run`] (from the run's folder) and [`revert_on_server`] (from the server's rows) after a run that was killed.
//!
//! Only `SET GLOBAL`, never `PERSIST`: what a restart of the server brings back is what it was before. The one state
//! that a restart does not bring back is MySQL's switched-off redo log, and it is journalled like the rest.

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

use std::fmt;
use std::str::FromStr;

use refloat_wire::{Connection, Error as WireError};
use serde::{Deserialize, Serialize};

use crate::{RunDirError, RunId};

pub use apply::{AppliedSettings, left_by_dead_runs};
pub use catalog::{Advice, PlannedChange, SessionChange, SettingsPlan, Skipped};
pub use facts::{Facts, Grants};
pub use journal::{
    JOURNAL_SCHEMA, JOURNAL_TABLE, Journal, JournalEntry, OpenRun, ServerMark, list, list_on_server,
};
pub use provider::{
    GCACHE_MEMORY, GCACHE_PURGE, ProviderOptions, provider_variable, size_in_bytes,
};
pub use revert::{
    RevertReport, RevertResult, RevertedSetting, SST_DONOR, WSREP_DESYNC, revert_on_server,
    revert_run,
};
pub use started::{forget_start, put_back_start, was_started, write_down_start};

/// How much of a server's durability a run may take for speed while it runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// No global setting is touched.
    #[default]
    Keep,
    /// Dynamic settings may be relaxed: a crash of the machine may lose the last second, for everything on the server.
    Relaxed,
    /// The server holds nothing else: redo, doublewrite and binary log may be off, and after a crash it is set up anew.
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

/// What a plan rests on besides the server's own words.
#[derive(Debug, Clone, Default)]
pub struct Hints {
    /// Bytes of dump text that will be loaded, when that is known (an estimate is enough).
    pub dump_bytes: Option<u64>,
    /// Memory that is free on the **server's** machine, in bytes; `None` when that cannot be seen (another machine).
    pub server_memory_available: Option<u64>,
    /// Space that is free for the server's data directory, in bytes; `None` when that cannot be seen.
    pub server_disk_available: Option<u64>,
    /// `local_infile` may be switched on for the run.
    pub allow_local_infile: bool,
    /// Sessions may skip the binary log although the level is not disposable.
    pub skip_binlog: bool,
}

/// What went wrong with settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The journal of the run could not be written or read.
    #[error(transparent)]
    Journal(#[from] RunDirError),
    /// The server refused or went away.
    #[error(transparent)]
    Server(#[from] WireError),
    /// The journal belongs to another server.
    #[error("run {run} changed settings of {expected}, and this is {found}")]
    WrongServer {
        /// The run.
        run: RunId,
        /// The server in the journal.
        expected: String,
        /// The server that answers.
        found: String,
    },
    /// The run that changed the settings still works.
    #[error("run {run} still works (process {pid} on {host}), so its settings stay")]
    StillRunning {
        /// The run.
        run: RunId,
        /// Its process.
        pid: u32,
        /// Its host.
        host: String,
    },
    /// Nobody can see from here whether the run still works: it ran on another host.
    #[error(
        "run {run} was started on {host} (process {pid}), and whether it still works cannot be seen from here"
    )]
    OwnerUnknown {
        /// The run.
        run: RunId,
        /// Its process.
        pid: u32,
        /// Its host.
        host: String,
    },
    /// Somebody's table has the name of the journal's, so that no change could be written down.
    #[error(
        "the table {JOURNAL_SCHEMA}.{JOURNAL_TABLE} on the server is not Refloat's: the journal of settings has no place, and nothing was changed; rename that table"
    )]
    PlaceTaken,
    /// A journal's row on the server cannot be understood.
    #[error(
        "the row of run {run} in {JOURNAL_SCHEMA}.{JOURNAL_TABLE} cannot be understood: {reason}"
    )]
    BadRow {
        /// The run, as the row names it.
        run: String,
        /// What is wrong.
        reason: String,
    },
}

/// Reads the server and says what would be changed, skipped and advised. Changes nothing.
pub fn plan(
    conn: &mut Connection,
    durability: Durability,
    hints: &Hints,
) -> Result<SettingsPlan, SettingsError> {
    let facts = Facts::read(conn)?;
    Ok(catalog::plan(&facts, durability, hints))
}

/// [`plan`] from facts that were read before.
pub fn plan_for(facts: &Facts, durability: Durability, hints: &Hints) -> SettingsPlan {
    catalog::plan(facts, durability, hints)
}
