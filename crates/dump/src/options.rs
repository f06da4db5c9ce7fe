//! What can be asked of a dump.

use std::path::{Path, PathBuf};
use std::time::Duration;

use refloat_read::ReadOptions;
use refloat_store::Compression;
use refloat_wire::ConnectOptions;
use serde::Serialize;

use super::error::DumpError;

/// Bytes of row text in a file: small enough to be read again after a fault, large enough that a terabyte is not a million files.
const CHUNK_BYTES: u64 = 64 << 20;
/// Row text in the files of an archive that are being written, all readers together.
const ARCHIVE_BYTES: u64 = 64 << 20;
/// The level of zstd that costs less than reading the rows.
const ZSTD_LEVEL: i32 = 1;

/// How files with rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowCompression {
    /// As they are.
    None,
    /// In independent zstd frames.
    Zstd {
        /// 1 (fast) to 19 (small).
        level: i32,
    },
}

/// What a dump is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DumpFormat {
    /// A folder, or an archive of it: `docs/format.md`.
    #[default]
    Refloat,
    /// One text of SQL, which the stock client restores.
    Sql,
}

/// Everything a dump can be told. [`DumpOptions::new`] gives the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct DumpOptions {
    /// The server, and what of it is read.
    pub read: ReadOptions,
    /// The folder that the dump becomes; it must not exist, or be empty. `-` writes one archive to standard output. As SQL it is the
    /// file, which must not exist, compressed when its name ends with `.gz` or `.zst`; or standard output.
    pub out: PathBuf,
    /// What it is written as.
    pub format: DumpFormat,
    /// Look in JSON columns of MySQL for values of types that text cannot carry, and note them.
    pub json_types: bool,
    /// Write accounts, roles and grants as well.
    pub users: bool,
    /// Leave `DEFINER` out of views and programs, and make them `SQL SECURITY INVOKER`.
    pub strip_definer: bool,
    /// How files with rows are written.
    pub compression: RowCompression,
    /// Bytes of row text in a file.
    pub chunk_bytes: u64,
    /// Let a node of a Galera cluster fall behind while it is read. A copy does not look at it.
    pub desync: bool,
    /// Ceiling for the rate of row text in bytes per second, over all threads.
    pub max_rate: Option<u64>,
    /// Pause while more than this many statements run on the server, ours not counted.
    pub max_running: Option<u64>,
    /// Give up when InnoDB's history list is longer than this.
    pub max_history: Option<u64>,
    /// Give up when rows are still being read this long after the snapshot was opened.
    pub max_age: Option<Duration>,
}

/// The path with `.tar` in the place of every ending of an archive.
fn plain_tar(path: &Path) -> String {
    let path = path.display().to_string();
    let folder = path.rfind('/').map_or(0, |at| at + 1);
    let dot = path[folder..]
        .find('.')
        .map_or(path.len(), |at| folder + at);
    format!("{}.tar", &path[..dot])
}

impl DumpOptions {
    /// Options for one server and one folder, all else at its default.
    pub fn new(source: ConnectOptions, out: impl Into<PathBuf>) -> Self {
        Self {
            read: ReadOptions::new(source),
            out: out.into(),
            format: DumpFormat::Refloat,
            users: false,
            json_types: true,
            strip_definer: false,
            compression: RowCompression::Zstd { level: ZSTD_LEVEL },
            chunk_bytes: CHUNK_BYTES,
            desync: false,
            max_rate: None,
            max_running: None,
            max_history: None,
            max_age: None,
        }
    }

    /// Whether the dump is one archive on standard output.
    pub fn to_stdout(&self) -> bool {
        self.out.as_os_str() == "-"
    }

    /// How the file of a dump as SQL is compressed, by its name.
    pub(super) fn out_compression(&self) -> Compression {
        Compression::from_name(&self.out.to_string_lossy())
    }

    /// Whether the dump is what its name says: nobody finds later that an archive is a folder, or that a `.gz` is plain text.
    pub(super) fn check_name(&self) -> Result<(), DumpError> {
        let name = self.out.file_name().map(|name| name.to_string_lossy());
        let Some(name) = name.filter(|_| !self.to_stdout()) else {
            return Ok(());
        };
        let lower = name.to_ascii_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| lower.ends_with(ending));
        let compression = Compression::from_name(&lower);
        let archive = ends(&[".tar", ".tgz", ".tzst", ".txz", ".tbz2", ".zip", ".7z"])
            || lower.contains(".tar.");
        let out = self.out.display();
        let (what, hint) = match self.format {
            DumpFormat::Sql if archive => (
                "an archive, and --format sql writes one file of text",
                "Give it a name that ends with .sql, .sql.gz or .sql.zst.".to_owned(),
            ),
            DumpFormat::Sql
                if ends(&[".lz4", ".lzo", ".br"])
                    || !matches!(
                        compression,
                        Compression::None | Compression::Gzip | Compression::Zstd
                    ) =>
            {
                (
                    "a compression that is not written",
                    "Give it a name that ends with .sql, .sql.gz or .sql.zst; or --out - and compress what comes.".to_owned(),
                )
            }
            DumpFormat::Refloat if archive => (
                "an archive, and a dump is a folder",
                format!("Name a folder; or write one archive, whose rows are compressed, by --out - > {}.", plain_tar(&self.out)),
            ),
            DumpFormat::Refloat if ends(&[".sql"]) || compression != Compression::None => (
                "a file, and a dump is a folder",
                "Name a folder; --format sql writes one file of SQL, and compresses it when its name ends with .gz or .zst.".to_owned(),
            ),
            _ => return Ok(()),
        };
        Err(DumpError::refused(
            format!("{out} is the name of {what}"),
            hint,
        ))
    }

    /// Bytes of row text in a file. Files of an archive are in memory until they are whole, so there are more and smaller ones.
    pub(super) fn file_bytes(&self) -> u64 {
        if self.to_stdout() {
            let share = ARCHIVE_BYTES / self.read.threads.max(1) as u64;
            self.chunk_bytes.min(share.max(1))
        } else {
            self.chunk_bytes
        }
    }
}
