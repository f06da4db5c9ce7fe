//! The options of a load.

use std::collections::BTreeMap;
use std::path::PathBuf;

use refloat_run::settings::Durability;
use refloat_schema::pattern::is_system_database;
use refloat_source::{DelimitedOptions, SCRATCH_DEFAULT, SourceFormat};
use refloat_sqltext::{Danger, StatementKind};
use refloat_wire::ConnectOptions;
use serde::Serialize;

use super::galera::GaleraOptions;

/// Smallest chunk (transaction) that the search for a good size tries, in bytes of dump text.
pub const CHUNK_BYTES_MIN: usize = 1 << 20;
/// Size at which the search for a good chunk size starts, in bytes of dump text.
pub const CHUNK_BYTES_START: usize = 16 << 20;
/// Default memory ceiling of one run, in bytes; input, queue and encoders share it.
pub const MEMORY_DEFAULT: usize = 224 << 20;

/// Bytes of rows from which deferring a table's indexes is worthwhile; smaller tables build them
/// with their rows.
pub const DEFER_MIN_BYTES: usize = 8 << 20;

/// How rows are written to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WritePath {
    /// The fastest path that this server allows.
    #[default]
    Auto,
    /// Array-bound prepared inserts (MariaDB).
    ///
    /// The server knows them as `COM_STMT_BULK_EXECUTE`.
    Bulk,
    /// LOAD DATA LOCAL INFILE, audited.
    ///
    /// Each statement's information line is checked before its commit.
    LoadData,
    /// Multi-row INSERT statements.
    ///
    /// Their text is the dump's own.
    Insert,
    /// Large InnoDB tables are built as files and imported; other rows as with `auto`.
    ///
    /// Needs write access to the server's data directory, on this machine.
    Tablespace,
}

impl WritePath {
    /// The name used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Bulk => "array-bound insert",
            Self::LoadData => "LOAD DATA",
            Self::Insert => "INSERT",
            Self::Tablespace => "tablespace",
        }
    }

    /// The path for rows that are not in a tablespace.
    #[must_use]
    pub fn over_sql(self) -> Self {
        if self == Self::Tablespace {
            Self::Auto
        } else {
            self
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
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum IndexMode {
    /// Deferred; inline in a Galera cluster that applications write to.
    #[default]
    Auto,
    /// After the rows, in parallel.
    ///
    /// Only tables that are large enough to gain from it.
    Deferred,
    /// With the table, as the dump says.
    Inline,
}

/// How foreign keys are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ForeignKeyMode {
    /// Trust the dump, as the stock client does.
    ///
    /// With `foreign_key_checks=0`, which the dump tools set, they are not validated.
    #[default]
    AsDump,
    /// Check every row, and list those that point at nothing.
    Checked,
}

/// What to do with a target that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ExistingPolicy {
    /// Refuse before anything is changed.
    #[default]
    Refuse,
    /// Tables and views of the dump replace those of the same name; others stay.
    Replace,
    /// Rows are added to existing tables that have the dump's definition; the dump's `DROP TABLE`
    /// is not run.
    Append,
}

/// What to do when the server refuses a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnError {
    /// Stop at the first one.
    #[default]
    Stop,
    /// Go on, list them all at the end, and exit with 1.
    Continue,
}

/// Whether the sessions of the load write to the binary log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BinlogMode {
    /// Off with --durability disposable on a server without replicas, else as the server and the
    /// dump set it.
    #[default]
    Auto,
    /// As the server and the dump set it.
    Keep,
    /// Not for the sessions of this load.
    ///
    /// They set `sql_log_bin=0`.
    Off,
}

/// What to do with the server's own schema (`mysql`) if the dump contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SystemSchemaMode {
    /// Refuse a dump that contains it.
    #[default]
    Refuse,
    /// Leave it out, and say so.
    Skip,
    /// Run its statements as the stock client would: accounts and grants are replaced.
    Load,
}

/// A class of statements that reach beyond the dump's databases, and run only if allowed by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StatementClass {
    /// CREATE USER, GRANT, SET PASSWORD and their like.
    Accounts,
    /// CHANGE MASTER, RESET, PURGE BINARY LOGS and their like.
    Replication,
    /// SET GLOBAL, SET PERSIST.
    Global,
    /// SET `@@GLOBAL.GTID_PURGED`.
    GtidPurged,
    /// PREPARE, EXECUTE and their like: what they run cannot be seen beforehand.
    DynamicSql,
    /// With --database: definitions that name the database which the dump was made of.
    OldDatabase,
}

impl StatementClass {
    /// The class of a statement, if its kind determines one.
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

    /// Why it does not run unless allowed.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::OldDatabase => {
                "it names the database that the dump was made from, not the one that it goes into"
            }
            Self::DynamicSql => "what it runs cannot be seen beforehand",
            Self::GtidPurged => "it changes the server's own history of GTIDs",
            _ => "it changes the server beyond the dump's databases",
        }
    }

    /// How to allow it or leave it out.
    pub(super) fn hint(self) -> String {
        let word = self.word();
        match self {
            Self::GtidPurged => {
                "--skip gtid-purged leaves it out, which is right unless the server is to become a \
                replica of the dump's server; --allow gtid-purged runs it unchanged."
                    .to_owned()
            }
            _ => format!(
                "--skip {word} leaves such statements out, --allow {word} runs them unchanged."
            ),
        }
    }

    /// The word for it in `--allow`.
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

/// What to do about an unfinished load of the same source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ResumeMode {
    /// Resume it and say so; if there is none, start a load.
    #[default]
    Auto,
    /// Resume it; if there is none, refuse the load.
    Require,
    /// Remove its marks and start over.
    Restart,
}

/// All options of a load. [`LoadOptions::new`] gives the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The dump: a file or folder, or `-` for standard input.
    pub source: PathBuf,
    /// How to connect to the server.
    pub target: ConnectOptions,
    /// Number of connections that write at the same time.
    pub threads: usize,
    /// Number of connections that write into one table at the same time; `None` chooses by the
    /// server.
    pub table_threads: Option<usize>,
    /// Database for dumps that name none; created if it does not exist.
    pub database: Option<String>,
    /// Patterns of the tables to load, as `table` or `db.table`, with `*` and `?`; empty means all.
    pub tables: Vec<String>,
    /// How far the server's settings may be changed; `None` decides by what the server contains.
    pub durability: Option<Durability>,
    /// How rows are written.
    pub write_path: WritePath,
    /// When secondary indexes are built.
    pub indexes: IndexMode,
    /// Bytes of rows from which [`IndexMode::Deferred`] defers a table's indexes.
    pub defer_min_bytes: usize,
    /// How foreign keys are handled.
    pub foreign_keys: ForeignKeyMode,
    /// Fixed number of rows per transaction; `None` searches for a good size during the load.
    pub chunk_rows: Option<u64>,
    /// Fixed bytes of dump text per transaction; `None` searches for a good size during the load.
    pub chunk_bytes: Option<usize>,
    /// Memory ceiling of the run, in bytes.
    pub max_memory: usize,
    /// What to do with a target that is not empty.
    pub existing: ExistingPolicy,
    /// What to do when the server refuses a statement.
    pub on_error: OnError,
    /// Collations of the dump, and those that replace them.
    pub map_collation: BTreeMap<String, String>,
    /// Words of the dump's `sql_mode`, and those that replace them; an empty value removes the
    /// word.
    pub map_sql_mode: BTreeMap<String, String>,
    /// Classes of statements that may run although they reach beyond the dump's databases.
    pub allow: Vec<StatementClass>,
    /// Classes of statements that are left out and listed.
    pub skip: Vec<StatementClass>,
    /// What to do with the server's own schema.
    pub system_schema: SystemSchemaMode,
    /// Whether the sessions write to the binary log.
    pub binlog: BinlogMode,
    /// Accept a dump without its closing comment, although it may be truncated.
    pub accept_missing_trailer: bool,
    /// The format of the source; `None` detects it from the content.
    pub source_format: Option<SourceFormat>,
    /// Folder that archives are unpacked into; the unpacked files are removed at the end.
    pub scratch: PathBuf,
    /// The format of delimited text. If it names a table, the source is a file of rows for that
    /// table.
    pub delimited: DelimitedOptions,
    /// What to do about an unfinished load of the same source.
    pub resume: ResumeMode,
    /// Options for a load into a node of a Galera cluster.
    pub galera: GaleraOptions,
    /// Whether a statement that was running when an earlier load ended counts as done; `None`
    /// refuses to decide.
    pub uncertain: Option<bool>,
    /// Keeps the marks of a proven load, so that the same load finds everything done if it is run
    /// again. The caller must remove them once the result is recorded:
    /// [`LeftMarks::remove`](super::LeftMarks::remove).
    pub leave_marks: bool,
}

impl LoadOptions {
    /// Options for one source and one server, with defaults for everything else.
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

    /// Whether everything about this database is left out: it is the server's own schema.
    pub(super) fn leaves_out(&self, database: &str) -> bool {
        self.system_schema == SystemSchemaMode::Skip && is_system_database(database)
    }

    /// What replaces a collation or character set of the dump, if anything does.
    pub fn mapped_collation(&self, name: &str) -> Option<&str> {
        replacement(&self.map_collation, name)
    }

    /// What replaces a word of the dump's `sql_mode`, if anything does; empty if it is left out.
    pub fn mapped_sql_mode(&self, word: &str) -> Option<&str> {
        replacement(&self.map_sql_mode, word)
    }

    /// A value of `sql_mode` with its words replaced, or left out.
    pub(crate) fn mapped_sql_modes(&self, value: &str) -> String {
        let words = value
            .split(',')
            .map(|word| self.mapped_sql_mode(word).unwrap_or(word));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        words.join(",")
    }
}

fn replacement<'m>(map: &'m BTreeMap<String, String>, name: &str) -> Option<&'m str> {
    map.iter()
        .find(|(from, _)| from.eq_ignore_ascii_case(name))
        .map(|(_, to)| to.as_str())
}
