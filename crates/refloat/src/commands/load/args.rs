//! Flags of `refloat load`; their doc comments are the manual page.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use refloat_load::{
    BinlogMode, ForeignKeyMode, IndexMode, OnError, StatementClass, SystemSchemaMode, WritePath,
};
use refloat_run::settings::Durability;
use serde::{Deserialize, Serialize};

use super::galera::GaleraArgs;
use crate::connect::TargetArgs;
use crate::repo::DumpRepoArgs;
use crate::sizes::{parse_bytes, parse_count};
use crate::watch::Show;

const AFTER_HELP: &str = "\
EXAMPLES:
  See the plan first; nothing is touched:
      refloat load shop.sql.gz --to mysql://root@db1/ --plan

  Load a dump that creates its databases itself (mysqldump --databases or --all-databases):
      refloat load all.sql.zst --to mysql://root@db1/

  Load a dump of one database, made without --databases, into a database of any name:
      refloat load shop.sql --to mysql://root@db1/ --database shop_copy

  Only two tables of it, and everything that starts with log_:
      refloat load shop.sql --to mysql://root@db1/ \\
          --tables 'shop.orders,shop.items,shop.log_*'

  Straight from another server, with no file between:
      mariadb-dump --single-transaction -h old shop |
          refloat load - --to mysql://root@db1/ --database shop

  A new, empty server that can be thrown away if the power fails:
      refloat load shop.sql.gz \\
          --to 'mysql://root@localhost/?socket=/run/mysqld/mysqld.sock' \\
          --durability disposable

  A folder of mydumper, or of mysqldump --tab (which names no database):
      refloat load /backup/export-20260101 --to mysql://root@db1/
      refloat load /backup/shop-tab --to mysql://root@db1/ --database shop

  The same as an archive:
      refloat load /backup/export-20260101.tar.zst --to mysql://root@db1/

  From a bucket, from another machine, and the newest dump of a repository:
      refloat load s3://bucket/export-20260101 --to mysql://root@db1/
      refloat load ssh://backup@store/srv/shop.sql.zst --to mysql://root@db1/
      refloat load latest --repo s3://bucket/repo --to mysql://root@db1/

  A CSV file with a line of names, into a table that is there:
      refloat load prices.csv --to mysql://root@db1/ --table shop.prices \\
          --source-format csv --header --null ''

  A MySQL 8 dump into MariaDB:
      refloat load shop.sql --to mariadb://root@db1/ \\
          --map-collation utf8mb4_0900_ai_ci=utf8mb4_general_ci

  After Ctrl-C, a crash of the server or of this machine: the same command resumes
      refloat load shop.sql.gz --to mysql://root@db1/

  For a script: events as JSON lines, the outcome as the last one:
      refloat load shop.sql --to mysql://root@db1/ --json | tail -n 1 |
          jq .outcome

The exit code is 0 only when every row of the dump was found on the server afterwards, with no warning and no \
row skipped. See `refloat --help` for the others.";

/// Load a logical dump into a server, in parallel, and prove it
///
/// Loads the SQL of mysqldump, mariadb-dump, phpMyAdmin and other tools, folders of refloat dump,
/// mydumper and MySQL Shell, and delimited text. The result is what the stock client would have
/// produced, byte for byte: same rows, same schema. Rows take the fastest path that the server
/// offers, over several connections; secondary indexes and foreign keys are built after the rows. A
/// statement that refloat does not know runs by itself, once everything before it is done.
///
/// Only data changes for good. Settings that are changed for speed are journalled first, and put
/// back at the end, on Ctrl-C, or later by `refloat settings revert`.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct LoadArgs {
    /// The dump: a file, a folder, the URL of one, or - for standard input
    ///
    /// With --repo the label of a dump in the repository, or `latest`. A URL is
    /// `ssh://USER@HOST/PATH`, `s3://BUCKET/KEY`, `az://CONTAINER/NAME`, `gs://BUCKET/NAME` or
    /// `file:///PATH`: the files are read there as they are needed. A file is .sql, .sql.gz,
    /// .sql.zst, .sql.xz or .sql.bz2, or delimited text with --table. A folder is one of refloat
    /// dump, mydumper, MySQL Shell, mysqldump --tab or mariadb-dump --dir, or a tar archive of one,
    /// compressed or not. The kind is detected from the content, not from the name.
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    #[command(flatten)]
    pub repo: DumpRepoArgs,

    #[command(flatten)]
    pub target: TargetArgs,

    #[command(flatten)]
    pub what: WhatArgs,

    #[command(flatten)]
    pub data: DataArgs,

    #[command(flatten)]
    pub how: HowArgs,

    #[command(flatten)]
    pub galera: GaleraArgs,

    #[command(flatten)]
    pub trouble: TroubleArgs,

    #[command(flatten)]
    pub resume: ResumeArgs,

    /// How the load is proven
    ///
    /// `digest` reads the dump a second time, so it does not work with standard input.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Verify::Counts, help_heading = "Speed and safety")]
    pub verify: Verify,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// What is loaded, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to load")]
pub struct WhatArgs {
    /// Load into this database
    ///
    /// For a dump that names no database itself (mysqldump NAME, without --databases). It is
    /// created if it is missing.
    #[arg(long, short = 'D', value_name = "NAME")]
    pub database: Option<String>,

    /// Load only these tables
    ///
    /// Comma-separated: `table` or `database.table`; * matches any text and ? any one character.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tables: Vec<String>,

    /// What to do with the server's own schema (mysql) in a dump of everything
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = SystemSchemaMode::Refuse)]
    pub system_schema: SystemSchemaMode,

    /// Replace tables of the same name that are already on the server
    ///
    /// Without --replace or --append, a database that the dump loads into must be empty: no table,
    /// view, routine or event of any name. Otherwise the load is refused.
    #[arg(long, conflicts_with = "append")]
    pub replace: bool,

    /// Add the rows to tables that are already on the server
    #[arg(long)]
    pub append: bool,

    /// Print what would be done, and touch nothing
    #[arg(long)]
    pub plan: bool,
}

/// How rows are written in data files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Folders and data files")]
pub struct DataArgs {
    /// The kind of source, where it cannot be detected
    #[arg(long, value_name = "KIND", value_enum)]
    pub source_format: Option<SourceFormat>,

    /// The table that a file of delimited text goes into, as `database.table` or `table`
    ///
    /// The table must exist. By default the file is read as LOAD DATA reads one: fields end with a
    /// tab, lines with a newline, a backslash escapes, \N is NULL. With --source-format csv, fields
    /// end with a comma and may be enclosed in double quotes, which are doubled inside; nothing
    /// escapes.
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// What ends a field; \t, \n, \r, \0 and \\ are understood
    #[arg(long, value_name = "TEXT", value_parser = parse_delimiter)]
    pub fields_terminated_by: Option<Delimiter>,

    /// What may enclose a field; empty for nothing
    #[arg(long, value_name = "BYTE", value_parser = parse_delimiter)]
    pub fields_enclosed_by: Option<Delimiter>,

    /// The escape character; empty for none
    #[arg(long, value_name = "BYTE", value_parser = parse_delimiter)]
    pub fields_escaped_by: Option<Delimiter>,

    /// What a line begins with; text before it is ignored
    #[arg(long, value_name = "TEXT", value_parser = parse_delimiter)]
    pub lines_starting_by: Option<Delimiter>,

    /// What ends a line
    ///
    /// Default for a single file: \r\n if its first line ends that way.
    #[arg(long, value_name = "TEXT", value_parser = parse_delimiter)]
    pub lines_terminated_by: Option<Delimiter>,

    /// The first line names the columns
    #[arg(long)]
    pub header: bool,

    /// Skip this many lines at the beginning of each file
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_lines: u64,

    /// The column of each field, comma-separated; @name skips a field
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,

    /// Read an unenclosed field with this text as NULL, besides \N; may be empty
    #[arg(long, value_name = "WORD", value_parser = parse_delimiter)]
    pub null: Option<Delimiter>,

    /// The folder in which to unpack a tar archive
    ///
    /// It needs room for the contents of the archive, and is removed at the end.
    #[arg(long, value_name = "FOLDER", default_value = refloat_source::SCRATCH_DEFAULT)]
    pub scratch: PathBuf,

    /// Character set of the text
    ///
    /// Default: utf8mb4 for a single file, and what the dump says for a folder. `binary` means that
    /// each value has the very bytes that its column stores.
    #[arg(long, value_name = "NAME")]
    pub charset: Option<String>,
}

/// Who wrote a folder, where its files do not tell (`--source-format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceFormat {
    /// A folder of mydumper
    Mydumper,
    /// A folder of mysqldump --tab or mariadb-dump --dir
    Tab,
    /// A folder of refloat dump
    Refloat,
    /// A folder of MySQL Shell or MariaDB Shell
    Shell,
    /// A file of text with delimiters: commas and quotes
    Csv,
    /// A file of text with delimiters: tabs and backslashes
    Tsv,
}

/// Bytes of a delimiter, which may be given with backslash escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delimiter(pub Vec<u8>);

/// How it is loaded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Speed and safety")]
pub struct HowArgs {
    /// Connections that write rows
    ///
    /// Default: one per processor of this machine, at least 2 and at most 32. The load opens a few
    /// more connections for everything that is not rows, and does not look at the server's
    /// `max_connections`.
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub threads: Option<u16>,

    /// How much the server may risk while the load runs
    ///
    /// Default: `relaxed` on a server that holds nothing else, `keep` on any other, and for less
    /// than 1 MiB into MariaDB. What `relaxed` and `disposable` change affects everybody on the
    /// server until the load ends; `refloat settings show` lists it for one server.
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub durability: Option<Durability>,

    /// How rows are sent
    #[arg(long, value_name = "PATH", value_enum, default_value_t = WritePath::Auto)]
    pub write_path: WritePath,

    /// When secondary indexes are built
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = IndexMode::Auto)]
    pub indexes: IndexMode,

    /// How far foreign keys are checked
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ForeignKeyMode::AsDump)]
    pub foreign_keys: ForeignKeyMode,

    /// Rows in one transaction
    ///
    /// Default: tuned while loading; the summary says the size that was found.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub chunk_rows: Option<u64>,

    /// Writers into one table at the same time
    ///
    /// Default: as many as there are threads. Where rows are wider than 96 bytes of dump text,
    /// MariaDB gets one per four processors of this machine: more writers of wide rows into one
    /// table gain little there.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub table_threads: Option<u16>,

    /// Bytes of dump text in one transaction, as in 16M
    ///
    /// Default: tuned while loading, starting from 16M.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub chunk_bytes: Option<u64>,

    /// The most memory that refloat may use, as in 224M
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub max_memory: Option<u64>,

    /// Whether the load is written to the server's binary log
    ///
    /// `off` needs the privilege to set `sql_log_bin`, and is refused while a replica is connected,
    /// which would miss the rows.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = BinlogMode::Auto)]
    pub binlog: BinlogMode,
}

/// What happens when something does not fit.
#[derive(Debug, Args)]
#[command(next_help_heading = "When something does not fit")]
pub struct TroubleArgs {
    #[command(flatten)]
    pub fit: FitArgs,

    /// Run classes of statements that are refused by default
    ///
    /// Comma-separated. A refusal names its class.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub allow: Vec<StatementClass>,

    /// Leave classes of statements out, and list them
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub skip: Vec<StatementClass>,

    /// Accept a dump that does not end with `-- Dump completed`
    ///
    /// Without that line a dump may be truncated, and is refused. Dumps made with --skip-comments
    /// or --compact never have it.
    #[arg(long)]
    pub accept_missing_trailer: bool,
}

/// What is done about a load that did not come to its end.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resuming an interrupted load")]
pub struct ResumeArgs {
    /// Resume an unfinished load of this source; fail if there is none
    ///
    /// Without this flag, an unfinished load of the same source with the same options is resumed
    /// too, and the output says so. Progress is kept on the target, so any machine that has the
    /// source can resume.
    #[arg(long, conflicts_with = "restart")]
    pub resume: bool,

    /// Forget an unfinished load of this source and start over
    ///
    /// Rows that it has loaded stay: add --replace to replace its tables.
    #[arg(long)]
    pub restart: bool,

    /// Say whether a statement that was running when the load was interrupted took effect
    ///
    /// Needed only when a load stops and asks for it. Rows are never in doubt: their progress mark
    /// commits with them.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub uncertain_statement: Option<Uncertain>,
}

/// What is proven after the last row (`--verify`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    /// Rows are counted, definitions compared, programs looked for
    Counts,
    /// Every row is also read back and compared with the dump, by code that shares nothing with the
    /// code that wrote it
    Digest,
}

/// `--uncertain-statement`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Uncertain {
    /// It took effect: it is not run again
    Done,
    /// It did not: it is run again
    Again,
}

/// What happens when something does not fit, of any source.
#[derive(Debug, Args)]
#[command(next_help_heading = "When something does not fit")]
pub struct FitArgs {
    /// What to do with a statement that the server refuses
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnError::Stop)]
    pub on_error: OnError,

    /// Write collation TO where the dump says FROM; may be given several times
    #[arg(long, value_name = "FROM=TO", value_parser = parse_mapping)]
    pub map_collation: Vec<(String, String)>,

    /// Write SQL mode NEW where the dump says MODE; an empty NEW leaves it out; may be given
    /// several times
    #[arg(long, value_name = "MODE=NEW", value_parser = parse_mapping_maybe_empty)]
    pub map_sql_mode: Vec<(String, String)>,
}

/// What is shown.
#[derive(Debug, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Draw no progress, even on a terminal
    #[arg(long)]
    pub no_progress: bool,

    /// Print events as JSON lines on stdout, the outcome as the last one
    #[arg(long)]
    pub json: bool,
}

impl OutputArgs {
    /// How to show the run.
    pub fn show(&self) -> Show {
        if self.json {
            Show::Json
        } else if self.no_progress {
            Show::Lines
        } else {
            Show::Best
        }
    }
}

fn parse_delimiter(text: &str) -> Result<Delimiter, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' || text == "\\" {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b't') => bytes.push(b'\t'),
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'0') => bytes.push(0),
            Some(b'\\') => bytes.push(b'\\'),
            // Keeps `--null '\N'` as it is typed.
            Some(other) => bytes.extend_from_slice(&[b'\\', other]),
            None => return Err("it ends with a single backslash".to_owned()),
        }
    }
    Ok(Delimiter(bytes))
}

fn parse_mapping(text: &str) -> Result<(String, String), String> {
    let (from, to) = parse_mapping_maybe_empty(text)?;
    if to.is_empty() {
        return Err("the part after = is missing".to_owned());
    }
    Ok((from, to))
}

fn parse_mapping_maybe_empty(text: &str) -> Result<(String, String), String> {
    let (from, to) = text.split_once('=').ok_or("write it as FROM=TO")?;
    let name = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if from.is_empty() || !name(from) || !name(to) {
        return Err("names are made of letters, digits and _".to_owned());
    }
    Ok((from.to_owned(), to.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters() {
        let bytes = |text| parse_delimiter(text).map(|delimiter| delimiter.0);
        assert_eq!(bytes(""), Ok(Vec::new()));
        assert_eq!(bytes("\\t|\\r\\n"), Ok(b"\t|\r\n".to_vec()));
        assert_eq!(bytes("\\"), Ok(b"\\".to_vec()));
        assert_eq!(bytes("\\\\"), Ok(b"\\".to_vec()));
        assert_eq!(bytes("\\N"), Ok(b"\\N".to_vec()));
        assert!(bytes("a\\").is_err());
    }

    #[test]
    fn mappings() {
        assert_eq!(parse_mapping("a_b=c1"), Ok(("a_b".into(), "c1".into())));
        assert!(parse_mapping("a=").is_err());
        assert!(parse_mapping("=b").is_err());
        assert!(parse_mapping("ab").is_err());
        assert!(parse_mapping("a=b; drop").is_err());
        assert_eq!(
            parse_mapping_maybe_empty("NO_AUTO_CREATE_USER="),
            Ok(("NO_AUTO_CREATE_USER".into(), String::new()))
        );
    }
}
