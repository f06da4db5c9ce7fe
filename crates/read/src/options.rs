//! Options for reading a server.

use std::time::Duration;

use refloat_wire::ConnectOptions;
use serde::Serialize;

/// Default of [`ReadOptions::lock_patience`].
const LOCK_PATIENCE: Duration = Duration::from_secs(120);

/// What to do when one consistent moment cannot be guaranteed for all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    /// Do the best that the account is allowed to, and say what is not guaranteed.
    ///
    /// The manifest says it too.
    #[default]
    Best,
    /// Refuse.
    Require,
    /// Take no lock at all.
    None,
}

/// Kinds of objects that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Views of the databases that are read.
    Views,
    /// Functions, procedures, packages and libraries.
    Routines,
    /// Triggers of the tables that are read.
    Triggers,
    /// What the event scheduler runs.
    Events,
}

/// Which server to read, and which of its objects. [`ReadOptions::new`] sets the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The server to connect to.
    pub source: ConnectOptions,
    /// Number of parallel reader connections.
    pub threads: usize,
    /// Databases to read, with `*` and `?` as wildcards; empty means all but the system databases.
    pub databases: Vec<String>,
    /// Tables and views to read, as `table` or `db.table`; empty means all.
    pub tables: Vec<String>,
    /// Tables and views to leave out, as `table` or `db.table`.
    pub exclude: Vec<String>,
    /// Kinds of objects to leave out.
    pub skip: Vec<Kind>,
    /// The flag that leaves kinds of objects out, for hints; `None` for a comparison, which has
    /// none.
    pub skip_flag: Option<&'static str>,
    /// Accounts, roles and grants are read too.
    pub accounts: bool,
    /// Read definitions only, no rows.
    pub no_data: bool,
    /// Leave historical rows out of system-versioned tables.
    pub no_history: bool,
    /// What to do when one consistent moment cannot be guaranteed.
    pub consistency: Consistency,
    /// How long to keep trying to take the snapshot lock, and at most how long one statement waits
    /// for a table that another session has locked.
    pub lock_patience: Duration,
}

impl ReadOptions {
    /// Defaults: everything except the system databases.
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
            skip_flag: Some("--skip"),
            accounts: false,
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
