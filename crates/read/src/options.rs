//! What can be asked of a server that is read.

use std::time::Duration;

use refloat_wire::ConnectOptions;
use serde::Serialize;

/// How long the lock of the snapshot is waited for in all.
const LOCK_PATIENCE: Duration = Duration::from_secs(120);

/// What happens where it cannot be promised that all rows are of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    /// The best that the account may do; what is not promised is said, and stands in the manifest.
    #[default]
    Best,
    /// Refuse.
    Require,
    /// No locks at all.
    None,
}

/// Objects that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Views.
    Views,
    /// Functions, procedures, packages, libraries.
    Routines,
    /// Triggers.
    Triggers,
    /// Events.
    Events,
}

/// Which server, and what of it. [`ReadOptions::new`] gives the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The server.
    pub source: ConnectOptions,
    /// Connections that read at the same time.
    pub threads: usize,
    /// Databases, `*` and `?` match; empty means all but those of the server itself.
    pub databases: Vec<String>,
    /// Tables and views, as `table` or `db.table`; empty means all.
    pub tables: Vec<String>,
    /// Tables and views that are left out, as `table` or `db.table`.
    pub exclude: Vec<String>,
    /// Kinds of objects that are left out.
    pub skip: Vec<Kind>,
    /// Leave the rows out.
    pub no_data: bool,
    /// Leave rows of the past out of system-versioned tables.
    pub no_history: bool,
    /// What happens where rows of one moment cannot be promised.
    pub consistency: Consistency,
    /// How long the lock of the snapshot is waited for in all.
    pub lock_patience: Duration,
}

impl ReadOptions {
    /// Everything on a server that is not the server's own.
    pub fn new(source: ConnectOptions) -> Self {
        Self {
            source,
            threads: std::thread::available_parallelism()
                .map_or(2, usize::from)
                .clamp(2, 32),
            databases: Vec::new(),
            tables: Vec::new(),
            exclude: Vec::new(),
            skip: Vec::new(),
            no_data: false,
            no_history: false,
            consistency: Consistency::Best,
            lock_patience: LOCK_PATIENCE,
        }
    }

    /// Whether objects of this kind are read.
    pub fn wants(&self, kind: Kind) -> bool {
        !self.skip.contains(&kind)
    }
}
