//! The manifest of a dump: its content, the moment it belongs to, and the checksums that prove it.
//!
//! It is written last: a folder without a manifest is an unfinished dump. `docs/format.md`
//! describes it for those who restore without this program.

mod text;

use serde::{Deserialize, Serialize};

pub use text::{ManifestError, parse, seal, unseal, write};

/// File name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// The format version that this program writes and reads.
pub const FORMAT: u32 = 2;

/// A finished dump. [`write()`] encodes it as a file that ends with its own checksum; [`parse`]
/// decodes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format version: [`FORMAT`].
    pub format: u32,
    /// Name and version of the program that wrote the dump.
    pub made_by: String,
    /// The server that was dumped.
    pub server: ServerInfo,
    /// The snapshot that the rows come from.
    pub snapshot: SnapshotInfo,
    /// Databases, sorted by name.
    pub databases: Vec<DatabaseEntry>,
    /// File with the routines, packages, views, triggers and events of all databases, in an order
    /// in which they can be created.
    pub programs: Option<FileEntry>,
    /// File with accounts, roles and grants, if they were requested.
    pub users: Option<FileEntry>,
    /// Sentences for the user: what the dump leaves out and what a restore should consider.
    pub notes: Vec<String>,
}

/// The server that was dumped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// `MariaDB` or `MySQL`.
    pub vendor: String,
    /// The version that the server reports.
    pub version: String,
    /// Its host name.
    pub hostname: String,
}

/// The snapshot that the rows come from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// When it was taken, by the server's clock: RFC 3339, UTC.
    pub at: String,
    /// Whether all rows belong to one moment, and the positions to the same moment.
    pub consistent: bool,
    /// How consistency was achieved, or why it was not.
    pub method: String,
    /// Seconds for which writers were held up.
    pub locked_seconds: f64,
    /// Binary log file; `None` if the binary log is off or the account may not see it.
    pub binlog_file: Option<String>,
    /// Byte offset in that file.
    pub binlog_position: Option<u64>,
    /// GTID position: MySQL's `gtid_executed`; on MariaDB `BINLOG_GTID_POS` of the binary log
    /// position, or `gtid_current_pos` without one.
    pub gtid: Option<String>,
    /// Position in a Galera cluster, as `uuid:seqno`.
    pub galera: Option<String>,
    /// For a MariaDB replica: the last transaction of each domain that it applied, as a value for
    /// `gtid_slave_pos`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gtid_slave_pos: Option<String>,
    /// Replication positions, one for each source of the replica.
    pub replica_of: Vec<ReplicaPosition>,
}

impl SnapshotInfo {
    /// What is not guaranteed, if the snapshot is not consistent.
    pub fn caveat(&self) -> Option<String> {
        (!self.consistent).then(|| format!("not guaranteed to be of one moment: {}", self.method))
    }

    /// The same, and the replication positions that are not known.
    pub fn caveats(&self) -> Vec<String> {
        let unknown = self.replica_of.iter().filter(|of| !of.by_gtid);
        let sources = unknown.filter_map(|of| {
            let reason = of.not_kept.as_ref()?;
            Some(format!(
                "the position in the log of the source {} is not kept: {reason}",
                of.source
            ))
        });
        self.caveat().into_iter().chain(sources).collect()
    }
}

/// How far a replica had executed its source's binary log, in the rows of the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicaPosition {
    /// Name of the channel or connection; empty for the default.
    pub channel: String,
    /// The source's `host:port`.
    pub source: String,
    /// The source's binary log file.
    pub file: Option<String>,
    /// Byte offset in that file: everything before it was executed, nothing after it.
    pub position: Option<u64>,
    /// Whether the GTIDs of the snapshot (`gtid_slave_pos`, or MySQL's `gtid`) state exactly what
    /// was executed.
    pub by_gtid: bool,
    /// Why the file and offset are not known for this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A database and its objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatabaseEntry {
    /// As the server spells it, unquoted.
    pub name: String,
    /// File that creates the database, its sequences and its tables, in that order.
    pub schema: FileEntry,
    /// Tables with their row files.
    pub tables: Vec<TableEntry>,
    /// Names of its sequences.
    pub sequences: Vec<String>,
    /// Names of its views, including those in `invalid_views`.
    pub views: Vec<String>,
    /// Names of the views that refer to something that does not exist.
    pub invalid_views: Vec<String>,
    /// Its functions, procedures and packages, each with its kind, as in `FUNCTION f`.
    pub routines: Vec<String>,
    /// Names of its triggers.
    pub triggers: Vec<String>,
    /// Names of its events.
    pub events: Vec<String>,
}

/// A table and the files of its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Name without the database, unquoted.
    pub name: String,
    /// Storage engine.
    pub engine: String,
    /// Whether its rows are in the dump; false if its engine keeps no rows on this server.
    pub data: bool,
    /// The columns of a row, in order; without generated columns.
    pub columns: Vec<ColumnEntry>,
    /// Key columns that split the rows into files, in key order; empty if there is no such key.
    pub key: Vec<String>,
    /// Number of rows in all files.
    pub rows: u64,
    /// Digest of the rows in all files: 32 hexadecimal digits.
    pub digest: String,
    /// Whether historical rows are included (system-versioned tables).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history: bool,
    /// The files with its rows.
    pub chunks: Vec<ChunkEntry>,
}

/// A column of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// As the server spells it, unquoted.
    pub name: String,
    /// How the bytes of a field must be converted before they are stored; most columns need no
    /// conversion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<FieldLoad>,
}

/// How the bytes of a field must be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldLoad {
    /// `utf8mb4` text for a type that does not accept bytes: `CONVERT(@field USING utf8mb4)`.
    Utf8,
    /// The number of an `ENUM` or `SET` value, because two of its values look the same as text:
    /// `CAST(@field AS UNSIGNED)`.
    Number,
}

/// A file of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkEntry {
    /// Path, size and checksum of the file.
    #[serde(flatten)]
    pub file: FileEntry,
    /// Rows in this file.
    pub rows: u64,
    /// Size of the uncompressed rows in bytes.
    pub text_bytes: u64,
    /// Digest of the rows: 32 hexadecimal digits.
    pub digest: String,
    /// Key of the first row; empty if the table has no key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<KeyValue>,
    /// Key of the last row; empty if the table has no key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<KeyValue>,
}

/// One column's value in the key of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyValue {
    /// The field's bytes, if they are UTF-8.
    Text(String),
    /// The field's bytes in hexadecimal, if they are not UTF-8.
    Hex {
        /// Hexadecimal digits, in upper case.
        hex: String,
    },
}

impl KeyValue {
    /// Encodes a field's bytes.
    pub fn new(bytes: &[u8]) -> Self {
        std::str::from_utf8(bytes).map_or_else(
            |_| Self::Hex { hex: hex(bytes) },
            |text| Self::Text(text.to_owned()),
        )
    }
}

/// Bytes as upper-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02X}");
            out
        })
}

/// A file of the dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path relative to the manifest, with `/` as the separator.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// XXH3-128 of the stored file: 32 hexadecimal digits.
    pub checksum: String,
}
