//! The manifest of a dump: what is in it, of which moment it is, and what proves it.
//!
//! It is written last: a folder without it is a dump that was not finished. `docs/format.md` describes it for those who restore
//! without this program.

mod text;

use serde::{Deserialize, Serialize};

pub use text::{ManifestError, parse, seal, unseal, write};

/// Name of the manifest's file.
pub const MANIFEST: &str = "manifest.json";
/// The format that this version writes and reads.
pub const FORMAT: u32 = 2;

/// A finished dump. [`write()`] makes the bytes of its file, which end with their checksum; [`parse`] reads them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Number of the format: [`FORMAT`].
    pub format: u32,
    /// The program and its version.
    pub made_by: String,
    /// The server.
    pub server: ServerInfo,
    /// The state that the rows are of.
    pub snapshot: SnapshotInfo,
    /// Databases, in the order of their names.
    pub databases: Vec<DatabaseEntry>,
    /// File with routines, packages, views, triggers and events of all databases, in an order in which they can be created.
    pub programs: Option<FileEntry>,
    /// File with accounts, roles and grants, when they were asked for.
    pub users: Option<FileEntry>,
    /// What is on the server and not in the dump, and what a restore should know; sentences.
    pub notes: Vec<String>,
}

/// The server that was dumped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// `MariaDB` or `MySQL`.
    pub vendor: String,
    /// Its version, as it says it.
    pub version: String,
    /// Its host name.
    pub hostname: String,
}

/// The state that the rows are of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// When it was taken, by the server's clock: RFC 3339, UTC.
    pub at: String,
    /// Whether all rows are of one moment, and the position is that moment's.
    pub consistent: bool,
    /// How that was reached, or why it was not.
    pub method: String,
    /// Seconds for which writers had to wait.
    pub locked_seconds: f64,
    /// The binary log's file, where it is on and may be seen.
    pub binlog_file: Option<String>,
    /// The byte in it.
    pub binlog_position: Option<u64>,
    /// The GTID position: MariaDB's `gtid_binlog_pos`, MySQL's `gtid_executed`.
    pub gtid: Option<String>,
    /// `uuid:seqno` of a Galera cluster.
    pub galera: Option<String>,
    /// MariaDB as a replica: the last transaction of each domain that it has from its sources, as `gtid_slave_pos` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtid_slave_pos: Option<String>,
    /// Where the server stood as a replica: one entry for each of its sources.
    pub replica_of: Vec<ReplicaPosition>,
}

impl SnapshotInfo {
    /// What is not guaranteed of it, where that is so.
    pub fn caveat(&self) -> Option<String> {
        (!self.consistent).then(|| format!("not guaranteed to be of one moment: {}", self.method))
    }

    /// The same, and what is not known of the server as a replica.
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
    /// Name of the channel or connection; empty for the default one.
    pub channel: String,
    /// The source's host and port.
    pub source: String,
    /// The source's binary log file.
    pub file: Option<String>,
    /// The byte in it up to which everything is executed, and beyond which nothing.
    pub position: Option<u64>,
    /// Whether the GTIDs of the snapshot (`gtid_slave_pos`; MySQL's `gtid`) tell exactly what is executed.
    #[serde(default)]
    pub by_gtid: bool,
    /// Why file and byte are not known of this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatabaseEntry {
    /// Its name.
    pub name: String,
    /// File that creates it, its sequences and its tables, in that order.
    pub schema: FileEntry,
    /// Its tables.
    pub tables: Vec<TableEntry>,
    /// Its sequences.
    pub sequences: Vec<String>,
    /// Its views; those that the server itself called invalid are among `invalid_views` too.
    pub views: Vec<String>,
    /// Views that name something that is not there.
    pub invalid_views: Vec<String>,
    /// Its functions, procedures and packages, as `FUNCTION f`.
    pub routines: Vec<String>,
    /// Its triggers.
    pub triggers: Vec<String>,
    /// Its events.
    pub events: Vec<String>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Its name.
    pub name: String,
    /// Its engine.
    pub engine: String,
    /// Whether its rows are in the dump; not those of engines that keep none here.
    pub data: bool,
    /// The columns of a row, in their order; generated ones are not among them.
    pub columns: Vec<ColumnEntry>,
    /// The columns of the key that files are ranges of, in its order; empty when there is none.
    pub key: Vec<String>,
    /// Rows, over all files.
    pub rows: u64,
    /// Digest of the rows, over all files: 32 hexadecimal digits.
    pub digest: String,
    /// Whether rows of the past are among them (system-versioned tables).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history: bool,
    /// Files with its rows.
    pub chunks: Vec<ChunkEntry>,
}

/// A column of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// Its name.
    pub name: String,
    /// What must be done with the bytes of a field before they are stored; most need nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<FieldLoad>,
}

/// What must be done with the bytes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldLoad {
    /// They are `utf8mb4` text, and the server takes no bytes for it: `CONVERT(@field USING utf8mb4)`.
    Utf8,
    /// They are the number of an `ENUM` or `SET`, because two values of it look alike: `CAST(@field AS UNSIGNED)`.
    Number,
}

/// A file with rows of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkEntry {
    /// The file.
    #[serde(flatten)]
    pub file: FileEntry,
    /// Rows.
    pub rows: u64,
    /// Bytes of the rows, not compressed.
    pub text_bytes: u64,
    /// Digest of the rows: 32 hexadecimal digits.
    pub digest: String,
    /// The key of the first row; empty when the table has no key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<KeyValue>,
    /// The key of the last row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<KeyValue>,
}

/// A value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyValue {
    /// The field's bytes, where they are UTF-8.
    Text(String),
    /// The field's bytes in hexadecimal digits, where they are not.
    Hex {
        /// The digits.
        hex: String,
    },
}

impl KeyValue {
    /// The value with these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        std::str::from_utf8(bytes).map_or_else(
            |_| Self::Hex { hex: hex(bytes) },
            |text| Self::Text(text.to_owned()),
        )
    }
}

/// Bytes in hexadecimal digits, as upper case.
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
    /// Where it stands, seen from the manifest; `/` between folders.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// XXH3-128 of its bytes: 32 hexadecimal digits.
    pub checksum: String,
}
