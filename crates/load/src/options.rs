//! What a caller can ask of a load.

use std::collections::BTreeMap;
use std::path::PathBuf;

use refloat_run::settings::Durability;
use refloat_source::{DelimitedOptions, SCRATCH_DEFAULT, SourceFormat};
use refloat_sqltext::{Danger, StatementKind};
use refloat_wire::ConnectOptions;
use serde::Serialize;

use super::galera::GaleraOptions;

/// Smallest chunk (transaction) that the search for a good size goes down to, in bytes of dump text.
pub const CHUNK_BYTES_MIN: usize = 1 << 20;
/// Where the search for a good chunk size starts, in bytes of dump text.
pub const CHUNK_BYTES_START: usize = 16 << 20;
/// Default ceiling for the memory of one run, in bytes; the input, the queue and the encoders share it.
pub const MEMORY_DEFAULT: usize = 224 << 20;

/// Bytes of rows from which a table is worth putting its indexes off; up to here they are built with the rows.
pub const DEFER_MIN_BYTES: usize = 8 << 20;

/// How rows are written to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WritePath {
    /// The fastest way that the server, the table and the values allow.
    #[default]
    Auto,
    /// MariaDB's array-bound prepared insert (`COM_STMT_BULK_EXECUTE`).
    Bulk,
    /// `LOAD DATA LOCAL INFILE`, each statement's information line checked before its commit.
    LoadData,
    /// The dump's own multi-row `INSERT` text.
    Insert,
}

impl WritePath {
    /// Its name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Bulk => "array-bound insert",
            Self::LoadData => "LOAD DATA",
            Self::Insert => "INSERT",
        }
    }
}

impl std::fmt::Display for WritePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// When secondary indexes are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum IndexMode {
    /// After the rows; but with them in a Galera cluster whose applications run.
    #[default]
    Auto,
    /// After the rows, for every table large enough to gain from it.
    Deferred,
    /// With the rows, as the dump's `CREATE TABLE` has them.
    Inline,
}

/// What is done about foreign keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ForeignKeyMode {
    /// As the dump's own session says: with `foreign_key_checks=0` (what the dump tools write) they are not validated.
    #[default]
    AsDump,
    /// Every foreign key of a loaded table is checked after the rows, and orphan rows are listed.
    Checked,
}

/// What is done with a target that already holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ExistingPolicy {
    /// Refuse before anything is touched.
    #[default]
    Refuse,
    /// Tables and views that the dump brings replace those of the same name; others stay.
    Replace,
    /// Rows are added to tables that exist and have the dump's definition; `DROP TABLE` of the dump is not run.
    Append,
}

/// What happens when the server refuses a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnError {
    /// Stop at the first one.
    #[default]
    Stop,
    /// Go on without the refused statement or row, list all of them at the end, and fail then.
    Continue,
}

/// Whether the sessions of the load write to the binary log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BinlogMode {
    /// Off with [`Durability::Disposable`] on a server without replicas, else as the server and the dump have it.
    #[default]
    Auto,
    /// As the server and the dump have it.
    Keep,
    /// `sql_log_bin=0` in every session of the load.
    Off,
}

/// What is done with the server's own schema (`mysql`) when the dump holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SystemSchemaMode {
    /// Refuse at the first statement, and say what the choices are.
    #[default]
    Refuse,
    /// Leave out every statement that concerns it.
    Skip,
    /// Run its statements as they stand, one after the other, as the stock client would.
    Load,
}

/// A class of statements that is not run unless it is allowed by name, because it reaches beyond the dump's databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StatementClass {
    /// `CREATE USER`, `GRANT`, `SET PASSWORD` and their like.
    Accounts,
    /// `CHANGE MASTER`, `RESET`, `PURGE BINARY LOGS`, `START REPLICA` and their like.
    Replication,
    /// `SET GLOBAL`, `SET PERSIST`.
    Global,
    /// `SET @@GLOBAL.GTID_PURGED`.
    GtidPurged,
    /// `PREPARE`, `EXECUTE` and their like, which run a text that the dump puts together.
    DynamicSql,
    /// With another database than the dump was made of: definitions that name the old one.
    OldDatabase,
}

impl StatementClass {
    /// The class of a statement, where its kind says it.
    pub(super) fn of(kind: &StatementKind) -> Option<Self> {
        match kind {
            StatementKind::Account => Some(Self::Accounts),
            StatementKind::Replication => Some(Self::Replication),
            StatementKind::SetGlobal => Some(Self::Global),
            StatementKind::SetGtidPurged => Some(Self::GtidPurged),
            StatementKind::Dangerous(Danger::DynamicSql) => Some(Self::DynamicSql),
            _ => None,
        }
    }

    /// Why it is not run unasked.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::OldDatabase => {
                "it names the database that the dump was made of, which is not the one that it goes into"
            }
            Self::DynamicSql => "what it runs cannot be seen beforehand",
            Self::GtidPurged => "it changes the server's own history of GTIDs",
            _ => "it changes the server beyond the dump's databases",
        }
    }

    /// How to choose.
    pub(super) fn hint(self) -> String {
        let word = self.word();
        match self {
            Self::GtidPurged => {
                "--skip gtid-purged leaves it out: right wherever the server is not to become a replica of the dump's server; --allow gtid-purged runs it as it stands."
                    .to_owned()
            }
            _ => format!("--skip {word} leaves such statements out, --allow {word} runs them as they stand."),
        }
    }

    /// The word that the program's `--allow` takes.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accounts => "accounts",
            Self::Replication => "replication",
            Self::Global => "global",
            Self::GtidPurged => "gtid-purged",
            Self::DynamicSql => "dynamic-sql",
            Self::OldDatabase => "old-database",
        }
    }
}

/// What is done about a load of the same source that was begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ResumeMode {
    /// It goes on where it ended, and says so; without one the load begins.
    #[default]
    Auto,
    /// It goes on; without one the load is refused.
    Require,
    /// Its marks are removed, and the load begins anew.
    Restart,
}

/// Everything a load can be told. `LoadOptions::new` gives the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The dump: a file, or `-` for standard input.
    pub source: PathBuf,
    /// The server.
    pub target: ConnectOptions,
    /// Connections that write at the same time.
    pub threads: usize,
    /// Connections that write into one table at the same time; `None` takes what is good on the server.
    pub table_threads: Option<usize>,
    /// Database for dumps that name none; created when it is missing.
    pub database: Option<String>,
    /// Tables to load, as `table` or `db.table`, `*` and `?` match; empty means all.
    pub tables: Vec<String>,
    /// How far the server's settings may be changed; `None` lets the server's contents decide.
    pub durability: Option<Durability>,
    /// How rows are written.
    pub write_path: WritePath,
    /// When secondary indexes are built.
    pub indexes: IndexMode,
    /// Bytes of rows from which [`IndexMode::Deferred`] puts a table's indexes off.
    pub defer_min_bytes: usize,
    /// What is done about foreign keys.
    pub foreign_keys: ForeignKeyMode,
    /// Fixed rows per transaction; `None` searches for a good size while loading.
    pub chunk_rows: Option<u64>,
    /// Fixed bytes of dump text per transaction; `None` searches.
    pub chunk_bytes: Option<usize>,
    /// Ceiling for the memory of the run, in bytes.
    pub max_memory: usize,
    /// What is done with a target that already holds something.
    pub existing: ExistingPolicy,
    /// What happens when the server refuses a statement.
    pub on_error: OnError,
    /// Collations to write instead of those in the dump.
    pub map_collation: BTreeMap<String, String>,
    /// `sql_mode` words to write instead of those in the dump; an empty value drops the word.
    pub map_sql_mode: BTreeMap<String, String>,
    /// Statement classes that may run although they reach beyond the dump's databases.
    pub allow: Vec<StatementClass>,
    /// Statement classes that are left out, and listed.
    pub skip: Vec<StatementClass>,
    /// What is done with the server's own schema.
    pub system_schema: SystemSchemaMode,
    /// Whether the sessions write to the binary log.
    pub binlog: BinlogMode,
    /// Take a dump whose closing comment is missing (it may be cut).
    pub accept_missing_trailer: bool,
    /// What kind of source it is; found by its content when nobody says.
    pub source_format: Option<SourceFormat>,
    /// The folder that archives are unpacked into; what is unpacked is removed at the end.
    pub scratch: PathBuf,
    /// How delimited text is written. With a table in it the source is a file of rows for that table.
    pub delimited: DelimitedOptions,
    /// What is done about a load of the same source that was begun and not ended.
    pub resume: ResumeMode,
    /// What is asked of a load into a node of a Galera cluster.
    pub galera: GaleraOptions,
    /// Whether a statement that was running when a load ended is taken for done; `None` refuses to decide.
    pub uncertain: Option<bool>,
    /// Leaves the marks of a load that is proven, so that the same again finds all of it done. Whoever asks for that removes them when the
    /// result is written down: [`LeftMarks::remove`](super::LeftMarks::remove).
    pub leave_marks: bool,
}

impl LoadOptions {
    /// Options for one source and one server, all else at its default.
    pub fn new(source: impl Into<PathBuf>, target: ConnectOptions) -> Self {
        Self {
            source: source.into(),
            target,
            threads: std::thread::available_parallelism()
                .map_or(2, usize::from)
                .clamp(2, 32),
            table_threads: None,
            database: None,
            tables: Vec::new(),
            durability: None,
            write_path: WritePath::Auto,
            indexes: IndexMode::Auto,
            defer_min_bytes: DEFER_MIN_BYTES,
            foreign_keys: ForeignKeyMode::AsDump,
            chunk_rows: None,
            chunk_bytes: None,
            max_memory: MEMORY_DEFAULT,
            existing: ExistingPolicy::Refuse,
            on_error: OnError::Stop,
            map_collation: BTreeMap::new(),
            map_sql_mode: BTreeMap::new(),
            allow: Vec::new(),
            skip: Vec::new(),
            system_schema: SystemSchemaMode::Refuse,
            binlog: BinlogMode::Auto,
            accept_missing_trailer: false,
            source_format: None,
            scratch: SCRATCH_DEFAULT.into(),
            delimited: DelimitedOptions::default(),
            resume: ResumeMode::Auto,
            galera: GaleraOptions::default(),
            uncertain: None,
            leave_marks: false,
        }
    }
}
