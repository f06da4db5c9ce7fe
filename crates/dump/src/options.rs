//! Options of a dump.

use std::path::{Path, PathBuf};
use std::time::Duration;

use refloat_read::ReadOptions;
use refloat_store::Compression;
use refloat_wire::ConnectOptions;
use serde::Serialize;

use super::error::DumpError;
use super::stored::IntoRepository;

/// Row text per file in bytes: small enough to read again after a fault, large enough that a
/// terabyte does not become a million files.
const CHUNK_BYTES: u64 = 64 << 20;
/// Row text in unfinished files of an archive in bytes, over all readers.
const ARCHIVE_BYTES: u64 = 64 << 20;
/// Default zstd level: compressing costs less than reading the rows.
const ZSTD_LEVEL: i32 = 1;

/// Compression of the files that hold rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowCompression {
    /// Uncompressed.
    None,
    /// Independent zstd frames.
    Zstd {
        /// zstd level, from 1 (fast) to 19 (small).
        level: i32,
    },
}

/// What a dump is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum DumpFormat {
    /// A folder of files, the fastest to write and to load.
    ///
    /// Or an archive of one: see `docs/format.md`.
    #[default]
    Refloat,
    /// One SQL script, for the stock client.
    Sql,
}

/// Options of a dump. [`DumpOptions::new`] sets the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DumpOptions {
    /// The server to read, and what to read of it.
    pub read: ReadOptions,
    /// The folder to create, or an existing empty one. `-` writes one archive to standard output.
    /// For [`DumpFormat::Sql`] it is the file to create, compressed if its name ends with `.gz` or
    /// `.zst`, or `-` for standard output.
    pub out: PathBuf,
    /// The repository that the dump goes into, in place of `out`. For [`DumpFormat::Refloat`] only.
    pub repository: Option<IntoRepository>,
    /// What is written: a folder of Refloat, or one file of SQL.
    pub format: DumpFormat,
    /// Search MySQL's JSON columns for values of types that text cannot carry, and note them.
    pub json_types: bool,
    /// Strip `DEFINER` from views and programs, and make them `SQL SECURITY INVOKER`.
    pub strip_definer: bool,
    /// Compression of the files that hold rows.
    pub compression: RowCompression,
    /// Row text per file, in bytes.
    pub chunk_bytes: u64,
    /// Set `wsrep_desync` on a Galera node while it is read, so that it may fall behind. A copy
    /// ignores this.
    pub desync: bool,
    /// Maximum rate of row text in bytes per second, over all threads.
    pub max_rate: Option<u64>,
    /// Pause while more than this many statements run on the server, not counting our own.
    pub max_running: Option<u64>,
    /// Give up when InnoDB's history list grows longer than this.
    pub max_history: Option<u64>,
    /// Give up when rows are still being read this long after the snapshot was opened.
    pub max_age: Option<Duration>,
}

/// The path with its archive extensions replaced by `.tar`, for a hint.
fn plain_tar(path: &Path) -> String {
    let path = path.display().to_string();
    let folder = path.rfind('/').map_or(0, |at| at + 1);
    let dot = path[folder..]
        .find('.')
        .map_or(path.len(), |at| folder + at);
    format!("{}.tar", &path[..dot])
}

impl DumpOptions {
    /// Options for one server and one folder, with defaults for everything else.
    pub fn new(source: ConnectOptions, out: impl Into<PathBuf>) -> Self {
        Self {
            read: ReadOptions::new(source),
            out: out.into(),
            repository: None,
            format: DumpFormat::Refloat,
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

    /// Whether the dump goes to standard output.
    pub fn to_stdout(&self) -> bool {
        self.out.as_os_str() == "-" && self.repository.is_none()
    }

    /// Compression of the SQL file, from its name.
    pub(super) fn out_compression(&self) -> Compression {
        Compression::from_name(&self.out.to_string_lossy())
    }

    /// Refuses a name that does not fit the format, such as `.tar` for a folder or `.7z` for SQL
    /// text.
    pub(super) fn check_name(&self) -> Result<(), DumpError> {
        let name = self.out.file_name().map(|name| name.to_string_lossy());
        let named = !self.to_stdout() && self.repository.is_none();
        let Some(name) = name.filter(|_| named) else {
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
                "an archive, but --format sql writes one SQL file",
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
                    "a compression that refloat does not write",
                    "Give it a name that ends with .sql, .sql.gz or .sql.zst; or --out - and compress what comes.".to_owned(),
                )
            }
            DumpFormat::Refloat if archive => (
                "an archive, but a dump is a folder",
                format!("Name a folder; or write one archive, whose rows are compressed, by --out - > {}.", plain_tar(&self.out)),
            ),
            DumpFormat::Refloat if ends(&[".sql"]) || compression != Compression::None => (
                "a file, but a dump is a folder",
                "Name a folder; --format sql writes one file of SQL, and compresses it when its name ends with .gz or .zst.".to_owned(),
            ),
            _ => return Ok(()),
        };
        Err(DumpError::refused(
            format!("{out} is the name of {what}"),
            hint,
        ))
    }

    /// Row text per file, in bytes. Files of an archive stay in memory until they are complete, so
    /// they are smaller.
    pub(super) fn file_bytes(&self) -> u64 {
        if self.to_stdout() {
            let share = ARCHIVE_BYTES / self.read.threads.max(1) as u64;
            self.chunk_bytes.min(share.max(1))
        } else {
            self.chunk_bytes
        }
    }
}
