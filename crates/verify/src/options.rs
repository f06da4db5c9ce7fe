//! What can be asked of a comparison.

use std::path::PathBuf;

use refloat_read::ReadOptions;
use refloat_wire::ConnectOptions;

use refloat_source::{DelimitedOptions, SCRATCH_DEFAULT, SourceFormat};

/// Rows shown of one table.
const ROWS_SHOWN: usize = 10;

/// One of the two that are compared.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A server.
    Server(Box<ConnectOptions>),
    /// The file, folder or archive of a dump.
    Dump(PathBuf),
}

impl Endpoint {
    /// For people, without secrets.
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
    /// Rows, and which tables there are.
    Rows,
    /// Definitions.
    Schema,
}

/// What the second of two is to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Relation {
    /// They live apart: a lower next `AUTO_INCREMENT` value of the second is told, and is no difference.
    #[default]
    Apart,
    /// The second was made of the first just now, and nobody else has written to it: its next values must be as high.
    MadeOfFirst,
}

/// Everything a comparison can be told. [`VerifyOptions::new`] gives the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// The first.
    pub a: Endpoint,
    /// The second.
    pub b: Endpoint,
    /// Connections to each server, and readers of a dump's files.
    pub threads: usize,
    /// Databases, `*` and `?` match; empty means all but those of the server itself.
    pub databases: Vec<String>,
    /// Tables and views, as `table` or `db.table`; empty means all.
    pub tables: Vec<String>,
    /// Tables and views that are left out, as `table` or `db.table`.
    pub exclude: Vec<String>,
    /// The second may have more than the first: that is no difference.
    pub more_in_second: bool,
    /// What the second is to the first.
    pub relation: Relation,
    /// The database of a dump that names none; else it is the one in the URL of the other side.
    pub database: Option<String>,
    /// What a dump of another tool is; found out by what is in it otherwise.
    pub source_format: Option<SourceFormat>,
    /// A dump of another tool may be without its last line.
    pub accept_missing_trailer: bool,
    /// How its delimited files are written.
    pub delimited: DelimitedOptions,
    /// What is compared.
    pub compared: Compared,
    /// Leave rows of the past out of system-versioned tables.
    pub no_history: bool,
    /// Rows shown of one table.
    pub rows_shown: usize,
    /// The folder that archives are unpacked into; what is unpacked is removed at the end.
    pub scratch: PathBuf,
}

impl VerifyOptions {
    /// Options for two endpoints, all else at its default.
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

/// What is asked of one server, in the words of a dump.
pub fn asked(options: &VerifyOptions, source: &ConnectOptions) -> ReadOptions {
    let mut asked = ReadOptions::new(source.clone());
    asked.threads = options.threads.max(1);
    asked.databases.clone_from(&options.databases);
    asked.tables.clone_from(&options.tables);
    asked.exclude.clone_from(&options.exclude);
    asked.no_data = options.compared == Compared::Schema;
    asked.no_history = options.no_history;
    asked
}
