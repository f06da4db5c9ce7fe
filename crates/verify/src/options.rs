//! Options of a comparison.

use std::path::PathBuf;

use refloat_read::{Kind, ReadOptions};
use refloat_wire::ConnectOptions;

use refloat_source::{DelimitedOptions, SCRATCH_DEFAULT, SourceFormat};

/// Default for the rows shown per table.
const ROWS_SHOWN: usize = 10;

/// One of the two sides.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A server, read over several connections.
    Server(Box<ConnectOptions>),
    /// The file, folder or archive of a dump.
    Dump(PathBuf),
}

impl Endpoint {
    /// For messages, without secrets.
    pub fn describe(&self) -> String {
        match self {
            Self::Server(options) => options.describe(),
            Self::Dump(path) => path.display().to_string(),
        }
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compared {
    /// Definitions and rows.
    #[default]
    All,
    /// Rows, and which tables exist.
    Rows,
    /// Definitions only.
    Schema,
}

/// How the second side relates to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Relation {
    /// They are independent: a lower next `AUTO_INCREMENT` value on the second is noted, but is not
    /// a difference.
    #[default]
    Apart,
    /// The second was just made from the first and nobody else has written to it: its next
    /// `AUTO_INCREMENT` values must not be lower.
    MadeOfFirst,
}

/// Everything that can be set for a comparison. [`VerifyOptions::new`] gives the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// The first side.
    pub a: Endpoint,
    /// The second side.
    pub b: Endpoint,
    /// Connections to each server, and readers of a dump's files.
    pub threads: usize,
    /// Databases to compare; `*` and `?` are wildcards. Empty means all except the server's own.
    pub databases: Vec<String>,
    /// Tables and views to compare, as `table` or `db.table`; empty means all.
    pub tables: Vec<String>,
    /// Tables and views to leave out, as `table` or `db.table`.
    pub exclude: Vec<String>,
    /// The second side may have more than the first, without that being a difference.
    pub more_in_second: bool,
    /// How the second side relates to the first.
    pub relation: Relation,
    /// The database for a dump that names none. If unset, the one in the URL of the other side.
    pub database: Option<String>,
    /// Format of a dump of another tool; detected from its content if unset.
    pub source_format: Option<SourceFormat>,
    /// Accept a dump of another tool whose last line, or the delimiter of its last statement, is
    /// missing.
    pub accept_missing_trailer: bool,
    /// How the delimited files of a dump are written.
    pub delimited: DelimitedOptions,
    /// What is compared.
    pub compared: Compared,
    /// Leave out historical rows of system-versioned tables.
    pub no_history: bool,
    /// Rows shown per table.
    pub rows_shown: usize,
    /// Folder that archives are unpacked into; what is unpacked is removed at the end.
    pub scratch: PathBuf,
}

impl VerifyOptions {
    /// Options for two endpoints, with everything else at its default.
    pub fn new(a: Endpoint, b: Endpoint) -> Self {
        Self {
            a,
            b,
            threads: std::thread::available_parallelism()
                .map_or(2, usize::from)
                .clamp(2, 32),
            databases: Vec::new(),
            tables: Vec::new(),
            exclude: Vec::new(),
            more_in_second: false,
            relation: Relation::Apart,
            database: None,
            source_format: None,
            accept_missing_trailer: false,
            delimited: DelimitedOptions::default(),
            compared: Compared::All,
            no_history: false,
            rows_shown: ROWS_SHOWN,
            scratch: SCRATCH_DEFAULT.into(),
        }
    }
}

/// The options for reading one server.
pub fn read_options(options: &VerifyOptions, source: &ConnectOptions) -> ReadOptions {
    let mut asked = ReadOptions::new(source.clone());
    asked.threads = options.threads.max(1);
    asked.databases.clone_from(&options.databases);
    asked.tables.clone_from(&options.tables);
    asked.exclude.clone_from(&options.exclude);
    asked.no_data = options.compared == Compared::Schema;
    asked.no_history = options.no_history;
    asked.skip_flag = None;
    if options.compared == Compared::Rows {
        asked.skip = vec![Kind::Views, Kind::Routines, Kind::Triggers, Kind::Events];
    }
    asked
}
