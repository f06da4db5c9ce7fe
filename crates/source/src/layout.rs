//! A source laid out: which files it has, in which order they are read, and what each is for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use refloat_store::{Compression, Input, InputError, OpenOptions, Unpacked};
use serde::Serialize;
use twox_hash::XxHash3_128;

use super::cutter::Ends;
use super::delimited::{Decode, Delimited};
use super::stream::RowStream;

/// What kind of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SourceFormat {
    /// One file of SQL, as mysqldump and mariadb-dump write.
    Sql,
    /// A folder of `refloat dump`.
    Refloat,
    /// A folder of mydumper.
    Mydumper,
    /// A folder of `mysqldump --tab`, or of `mariadb-dump --dir`, which has one such folder for each database.
    Tab,
    /// A folder of MySQL Shell or MariaDB Shell.
    Shell,
    /// Delimited text for one table.
    Delimited,
    /// A server, read while it is loaded.
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

/// A source of several files.
#[derive(Debug, Clone)]
pub struct Layout {
    /// What it is.
    pub format: SourceFormat,
    /// What wrote it, as far as it says.
    pub written_by: Option<String>,
    /// The folder or file.
    pub path: PathBuf,
    /// What is read, in this order.
    pub segments: Vec<Segment>,
    /// Statements that every file's session begins with.
    pub session: Vec<String>,
    /// Files that belong to the format and bring nothing into a database.
    pub passed_over: Vec<String>,
    /// What is missing or too much: a source without any is whole.
    pub faults: Vec<String>,
    /// What somebody should know of it before it is loaded.
    pub notes: Vec<String>,
    /// Where the files are while this lives, when the source is an archive.
    pub unpacked: Option<Arc<Unpacked>>,
}

/// Files that are read one after the other, or in any order.
#[derive(Debug, Clone)]
pub enum Segment {
    /// A database that has to be there, and that no file creates.
    Database(String),
    /// Statements, run one by one.
    Sql(SqlFile),
    /// Rows. Tables may be read in any order, and several of them at once; the files of one table are read in theirs.
    Rows(Vec<TableRows>),
    /// Rows that come from a server while they are read.
    Stream(Arc<RowStream>),
}

/// A file of statements.
#[derive(Debug, Clone)]
pub struct SqlFile {
    /// The file; of text in memory, what messages call it.
    pub path: PathBuf,
    /// The text itself, where it is not in a file but in memory.
    pub text: Option<Arc<[u8]>>,
    /// The database that its statements are about when they name none.
    pub database: Option<String>,
    /// Where its statements end.
    pub ends: Ends,
    /// Whether its session goes into the database that it creates.
    pub enters: bool,
    /// Statements that its session begins with, besides those of the layout.
    pub session: Vec<String>,
    /// XXH3-128 of the file as it is stored, 32 hexadecimal digits, where the source says.
    pub checksum: Option<String>,
}

impl SqlFile {
    /// Statements that are in memory; `name` is what messages call them.
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

    /// Why it cannot be without a single byte, where it is and cannot.
    fn lost(&self) -> Option<String> {
        let empty = self.text.is_none() && has_nothing(&self.path);
        empty
            .then(|| why_not_empty(&self.path, self.checksum.as_deref()))
            .flatten()
    }

    /// Bytes as it is stored.
    pub fn bytes(&self) -> std::io::Result<u64> {
        match &self.text {
            Some(text) => Ok(text.len() as u64),
            None => self.path.metadata().map(|meta| meta.len()),
        }
    }

    /// Opens it; the checksum is taken where there is one to compare it with.
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
    /// Database.
    pub database: Option<String>,
    /// Table. Of SQL files it is the name that the files have; the statements in them name the table.
    pub table: String,
    /// Its files, in their order.
    pub files: Vec<RowFile>,
    /// How many rows they hold together, where the source says.
    pub rows: Option<u64>,
}

impl TableRows {
    /// Bytes of its files as they are stored.
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

/// A file of rows.
#[derive(Debug, Clone)]
pub struct RowFile {
    /// The file; its compression is found by its first bytes.
    pub path: PathBuf,
    /// Bytes as it is stored.
    pub bytes: u64,
    /// Rows in it, where the source says.
    pub rows: Option<u64>,
    /// Bytes of its text, decompressed, and the file that says so, where one does.
    pub text: Option<(u64, String)>,
    /// How they are written.
    pub form: RowForm,
    /// XXH3-128 of the file as it is stored, 32 hexadecimal digits, where the source says.
    pub checksum: Option<String>,
}

impl RowFile {
    /// Whether there is not a single byte in it. A pipe has no size, and may have some.
    pub fn is_empty(&self) -> bool {
        has_nothing(&self.path)
    }

    /// Why it cannot be without a single byte, where it cannot: its rows are lost then.
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

/// Whether a file has no byte.
fn has_nothing(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.len() == 0)
}

/// Why a file cannot be empty, by its name and checksum.
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

/// How the rows of a file are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowForm {
    /// `INSERT` statements; or `LOAD DATA` statements that name a file of the same folder.
    Sql,
    /// Delimited text.
    Delimited(Box<DelimitedFile>),
}

/// How a delimited file is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelimitedFile {
    /// Terminators and escapes.
    pub format: Delimited,
    /// Character set; `binary` when each value is in the one of its column.
    pub charset: String,
    /// Lines in front of the rows.
    pub skip_lines: u64,
    /// Whether the first line names the columns.
    pub header: bool,
    /// The column of each field and how it is decoded; `None` for all columns of the table in their order.
    pub fields: Option<Vec<(String, Decode)>>,
    /// The table, where it is another than the files' names say.
    pub table: Option<String>,
    /// Whether every row ends with its terminator: a file that does not is cut.
    pub closed: bool,
    /// Whether characters were escaped, not bytes: `SELECT … INTO OUTFILE` leaves bytes within a character of several
    /// bytes as they are, also those that look like a terminator.
    pub by_character: bool,
    /// Statements that the rows' session begins with, besides those of the layout.
    pub session: Vec<String>,
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

    /// Takes files that are empty, and cannot have been, for faults: what was in them is lost.
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

    /// Bytes of all files that are read, as they are stored.
    pub fn bytes(&self) -> u64 {
        let sizes = self.segments.iter().map(|segment| match segment {
            Segment::Database(_) => 0,
            Segment::Sql(file) => file.bytes().unwrap_or(0),
            Segment::Rows(tables) => tables.iter().map(TableRows::bytes).sum(),
            Segment::Stream(stream) => stream.tables.iter().map(|table| table.bytes).sum(),
        });
        sizes.sum()
    }

    /// The tables that it has rows for.
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

    /// The files of statements.
    pub fn statements(&self) -> impl Iterator<Item = &SqlFile> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Sql(file) => Some(file),
            Segment::Rows(_) | Segment::Database(_) | Segment::Stream(_) => None,
        })
    }

    /// The rows that come from a server, if that is what it is.
    pub fn stream(&self) -> Option<&Arc<RowStream>> {
        self.segments.iter().find_map(|segment| match segment {
            Segment::Stream(stream) => Some(stream),
            _ => None,
        })
    }
}
