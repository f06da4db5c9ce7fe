//! The layout of a source: its files, the order in which they are read, and the purpose of each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use refloat_store::files::{self, Kind};
use refloat_store::{Compression, Input, InputError, OpenOptions, Unpacked};
use serde::Serialize;
use twox_hash::XxHash3_128;

use super::cutter::Ends;
use super::delimited::DelimitedFile;
use super::stream::RowStream;

/// The kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SourceFormat {
    /// One file of SQL, as mysqldump and mariadb-dump write it.
    Sql,
    /// A `refloat dump` folder.
    Refloat,
    /// A mydumper folder.
    Mydumper,
    /// A folder of `mysqldump --tab`, or of `mariadb-dump --dir`, which has one such folder per
    /// database.
    Tab,
    /// A MySQL Shell or MariaDB Shell folder.
    Shell,
    /// Delimited text for one table.
    Delimited,
    /// A server that is read while its rows are loaded elsewhere.
    Server,
}

impl std::fmt::Display for SourceFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sql => "SQL dump",
            Self::Refloat => "refloat dump",
            Self::Mydumper => "mydumper folder",
            Self::Tab => "folder of mysqldump --tab or mariadb-dump --dir",
            Self::Shell => "MySQL Shell or MariaDB Shell folder",
            Self::Delimited => "delimited text",
            Self::Server => "server",
        })
    }
}

/// A source, laid out for loading.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The kind of source.
    pub format: SourceFormat,
    /// The tool that wrote it, if the source says.
    pub written_by: Option<String>,
    /// The folder, file or archive.
    pub path: PathBuf,
    /// What to read, in this order.
    pub segments: Vec<Segment>,
    /// Statements that start every session, whichever file it loads.
    pub session: Vec<String>,
    /// Files that belong to the format but load nothing.
    pub passed_over: Vec<String>,
    /// What is missing or unexpected. A source without faults is complete.
    pub faults: Vec<String>,
    /// What the user should know before loading it.
    pub notes: Vec<String>,
    /// Keeps the unpacked files of an archive on disk while the layout lives.
    pub unpacked: Option<Arc<Unpacked>>,
}

/// One step of a layout.
#[derive(Debug, Clone)]
pub enum Segment {
    /// A database that must exist and that no file creates.
    Database(String),
    /// Statements, run one after another.
    Sql(SqlFile),
    /// Rows. Tables may be read in any order and in parallel; the files of one table are read in
    /// their order.
    Rows(Vec<TableRows>),
    /// Rows that arrive from a server while they are loaded.
    Stream(Arc<RowStream>),
}

/// A file of statements.
#[derive(Debug, Clone)]
pub struct SqlFile {
    /// The file, or for text in memory a name for messages.
    pub path: PathBuf,
    /// The text itself, if it is in memory and not in a file.
    pub text: Option<Arc<[u8]>>,
    /// The default database of its statements.
    pub database: Option<String>,
    /// How statements end.
    pub ends: Ends,
    /// Whether the session switches to a database that the file creates.
    pub enters: bool,
    /// Statements that start its session, after those of the layout.
    pub session: Vec<String>,
    /// XXH3-128 of the stored file, 32 hexadecimal digits; `None` if the source has no checksum.
    pub checksum: Option<String>,
}

impl SqlFile {
    /// Statements in memory; `name` stands for the file in messages.
    pub fn in_memory(name: &str, text: Vec<u8>) -> Self {
        Self {
            path: PathBuf::from(name),
            text: Some(text.into()),
            database: None,
            ends: Ends::Client,
            enters: true,
            session: Vec::new(),
            checksum: None,
        }
    }

    /// Why the file should not be empty; `None` if it has content or may be empty.
    fn lost(&self) -> Option<String> {
        let empty = self.text.is_none() && has_nothing(&self.path);
        empty
            .then(|| why_not_empty(&self.path, self.checksum.as_deref()))
            .flatten()
    }

    /// Stored size in bytes.
    pub fn bytes(&self) -> std::io::Result<u64> {
        match &self.text {
            Some(text) => Ok(text.len() as u64),
            None => files::stat(&self.path).map(|stat| stat.bytes),
        }
    }

    /// Opens the file, and computes its checksum if there is one to compare with.
    pub fn open(&self) -> Result<Input, InputError> {
        if let Some(text) = &self.text {
            let name = self.path.display().to_string();
            return Ok(Input::from_text(&name, Arc::clone(text)));
        }
        let mut options = OpenOptions::default();
        options.checksum = self.checksum.is_some();
        Input::open_with(&self.path, &options)
    }
}

/// The rows of one table.
#[derive(Debug, Clone)]
pub struct TableRows {
    /// Database name; `None` if the source does not name one.
    pub database: Option<String>,
    /// Table name. For SQL files it comes from the file names; the statements name the actual
    /// table.
    pub table: String,
    /// Its files, in order.
    pub files: Vec<RowFile>,
    /// Total number of rows, if the source says.
    pub rows: Option<u64>,
}

impl TableRows {
    /// Total stored size of its files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// `database.table`, for messages.
    pub fn label(&self) -> String {
        match &self.database {
            Some(database) => format!("{database}.{}", self.table),
            None => self.table.clone(),
        }
    }
}

/// One file with rows of a table, as tuples or as delimited text.
#[derive(Debug, Clone)]
pub struct RowFile {
    /// The file; its compression is detected from its first bytes.
    pub path: PathBuf,
    /// Stored size in bytes; 0 for a pipe.
    pub bytes: u64,
    /// Number of rows, if the source says.
    pub rows: Option<u64>,
    /// Size of its decompressed text in bytes and the file that states it, if one does.
    pub text: Option<(u64, String)>,
    /// How the rows are written.
    pub form: RowForm,
    /// XXH3-128 of the stored file, 32 hexadecimal digits; `None` if the source has no checksum.
    pub checksum: Option<String>,
}

impl RowFile {
    /// Statements that start its session, after those of the layout.
    pub fn session(&self) -> &[String] {
        match &self.form {
            RowForm::Delimited(form) => &form.session,
            RowForm::Sql => &[],
        }
    }

    /// Whether the file has no bytes. A pipe has no size and never counts as empty.
    pub fn is_empty(&self) -> bool {
        has_nothing(&self.path)
    }

    /// Why the file should not be empty, in which case its rows are lost; `None` if it may be.
    pub fn why_not_empty(&self) -> Option<String> {
        if let Some((bytes, by)) = self.text.as_ref().filter(|(bytes, _)| *bytes > 0) {
            return Some(format!(
                "the file is empty, and {by} says that it has {bytes} bytes of text"
            ));
        }
        if let Some(rows) = self.rows.filter(|rows| *rows > 0) {
            return Some(format!(
                "the file is empty, and the dump counts {rows} rows in it"
            ));
        }
        why_not_empty(&self.path, self.checksum.as_deref())
    }
}

/// Whether a regular file has no bytes.
fn has_nothing(path: &Path) -> bool {
    files::stat(path).is_ok_and(|stat| stat.kind == Kind::File && stat.bytes == 0)
}

/// Why a file should not be empty, judging by its name and checksum.
fn why_not_empty(path: &Path, checksum: Option<&str>) -> Option<String> {
    let compression = Compression::from_name(&path.to_string_lossy());
    if compression != Compression::None {
        return Some(format!(
            "the file is empty, and {compression} writes some bytes even of nothing"
        ));
    }
    let nothing = format!("{:032x}", XxHash3_128::oneshot(&[]));
    checksum
        .filter(|checksum| !checksum.eq_ignore_ascii_case(&nothing))
        .map(|checksum| format!("the file is empty, and its checksum was {checksum}"))
}

/// The form of a file's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowForm {
    /// `INSERT` statements, or `LOAD DATA` statements that name a file in the same folder.
    Sql,
    /// Delimited text.
    Delimited(Box<DelimitedFile>),
}

impl Layout {
    /// An empty layout.
    pub fn new(format: SourceFormat, path: &Path) -> Self {
        Self {
            format,
            written_by: None,
            path: path.to_owned(),
            segments: Vec::new(),
            session: Vec::new(),
            passed_over: Vec::new(),
            faults: Vec::new(),
            notes: Vec::new(),
            unpacked: None,
        }
    }

    /// Reports files that are empty but should not be: their content is lost.
    pub(super) fn look_for_lost(&mut self) {
        let place = |path: &Path| {
            let below = path.strip_prefix(&self.path).ok();
            let below = below.filter(|below| !below.as_os_str().is_empty());
            below.unwrap_or(path).display().to_string()
        };
        let statements = self.statements().filter_map(|file| {
            let why = file.lost()?;
            Some(format!("{}: {why}", place(&file.path)))
        });
        let rows = self.tables().flat_map(|table| {
            let empty = |file: &RowFile| file.is_empty();
            let mut lost: Vec<String> = table
                .files
                .iter()
                .filter(|file| empty(file))
                .filter_map(|file| {
                    Some(format!("{}: {}", place(&file.path), file.why_not_empty()?))
                })
                .collect();
            if let Some(rows) = table.rows.filter(|rows| *rows > 0)
                && lost.is_empty()
                && !table.files.is_empty()
                && table.files.iter().all(empty)
            {
                lost.push(format!(
                    "{}: the dump counts {rows} rows, and all files of them are empty",
                    table.label()
                ));
            }
            lost
        });
        let found: Vec<String> = statements.chain(rows).collect();
        self.faults.extend(found);
    }

    /// Total stored size of all files in bytes; for a stream, the server's estimate.
    pub fn bytes(&self) -> u64 {
        let sizes = self.segments.iter().map(|segment| match segment {
            Segment::Database(_) => 0,
            Segment::Sql(file) => file.bytes().unwrap_or(0),
            Segment::Rows(tables) => tables.iter().map(TableRows::bytes).sum(),
            Segment::Stream(stream) => stream.tables.iter().map(|table| table.bytes).sum(),
        });
        sizes.sum()
    }

    /// The tables with rows in files.
    pub fn tables(&self) -> impl Iterator<Item = &TableRows> {
        self.segments.iter().flat_map(|segment| match segment {
            Segment::Sql(_) | Segment::Database(_) | Segment::Stream(_) => &[],
            Segment::Rows(tables) => tables.as_slice(),
        })
    }

    /// The databases that no file creates.
    pub fn databases(&self) -> impl Iterator<Item = &String> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Database(name) => Some(name),
            Segment::Rows(_) | Segment::Sql(_) | Segment::Stream(_) => None,
        })
    }

    /// The files of statements, in order.
    pub fn statements(&self) -> impl Iterator<Item = &SqlFile> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Sql(file) => Some(file),
            Segment::Rows(_) | Segment::Database(_) | Segment::Stream(_) => None,
        })
    }

    /// The stream, if the rows come from a server.
    pub fn stream(&self) -> Option<&Arc<RowStream>> {
        self.segments.iter().find_map(|segment| match segment {
            Segment::Stream(stream) => Some(stream),
            _ => None,
        })
    }
}
