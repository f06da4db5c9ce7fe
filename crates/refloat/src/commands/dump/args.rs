//! Flags of `refloat dump`; their doc comments are the manual page.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use refloat_dump::{DumpFormat, DumpOptions, RowCompression};
use refloat_read::{Consistency, Kind};
use refloat_wire::ConnectOptions;

use crate::commands::load::OutputArgs;
use crate::connect::SourceArgs;
use crate::exit::ProgramError;
use crate::repo::DumpRepoArgs;
use crate::sizes::{parse_bytes, parse_count};

const AFTER_HELP: &str = "\
EXAMPLES:
  Everything but the server's own schemas, into a new folder:
      refloat dump --from mysql://root@db1/ --out /backup/db1

  Two databases, without the tables whose names begin with log_:
      refloat dump --from mysql://root@db1/ --out /backup/shop \\
          --databases shop,shop_archive --exclude 'log_*'

  Two tables:
      refloat dump --from mysql://root@db1/ --out /backup/orders \\
          --tables shop.orders,shop.items

  Small rather than fast, and easy on the server:
      refloat dump --from mysql://root@db1/ --out /backup/db1 \\
          --level 9 --max-rate 20M --max-running 16

  As one archive, over a network:
      refloat dump --from mysql://root@db1/ --out - |
          ssh backup 'cat > db1.tar'

  As SQL, for a server that has nothing but the stock client:
      refloat dump --from mysql://root@db1/ --databases shop --format sql \\
          --out shop.sql.zst

  Into a repository, which is made if the place is empty; a second dump costs what has changed:
      refloat dump --from mysql://root@db1/ --repo s3://bucket/repo
      refloat load latest --repo s3://bucket/repo --to mysql://root@db2/

  Only definitions, with accounts and grants:
      refloat dump --from mysql://root@db1/ --out /backup/schema --no-data \\
          --users

docs/format.md says how to restore a dump by hand, without refloat. The exit code is 0 only when \
the manifest, which is written last, is on disk, or in the repository.";

/// Dump a server into a folder or a repository, in parallel, as of one moment
///
/// All rows, over all connections, are as of the moment when the snapshot was opened; the manifest
/// holds the binary log position, the GTID and the cluster position of that moment. Writers wait
/// for the few milliseconds in which the snapshots are opened; with --threads 1 they do not wait at
/// all if MariaDB's binary log is on and all tables are transactional. If the lock has to wait
/// behind a long query, the dump says so.
///
/// A missing privilege never goes unnoticed: a definition that the account may not see stops the
/// dump. If the account may not take the lock, the dump warns that its rows may be of different
/// moments; with --consistency require it is refused.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct DumpArgs {
    /// The folder to write, which must be new or empty; - writes one archive to standard output
    ///
    /// The archive is a tar of that folder, with the manifest as its last file. An archive that was
    /// cut short has no end marker.
    #[arg(
        long,
        short = 'o',
        value_name = "FOLDER",
        required_unless_present = "repo",
        conflicts_with = "repo"
    )]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub repo: DumpRepoArgs,

    /// Name of the dump in the repository: letters, digits, dots, dashes and underscores
    ///
    /// Default: host and time.
    #[arg(
        long,
        value_name = "LABEL",
        requires = "repo",
        help_heading = "Repository"
    )]
    pub label: Option<String>,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub what: WhatArgs,

    /// Dump accounts, roles and grants too, into a file of their own
    #[arg(long, help_heading = "What to read")]
    pub users: bool,

    #[command(flatten)]
    pub how: HowArgs,

    #[command(flatten)]
    pub read: ReadArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// What is read of a server.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to read")]
pub struct WhatArgs {
    /// Read only these databases
    ///
    /// Comma-separated; * matches any text and ? any one character. Default: the database in the
    /// source's URL; if it names none, all but the server's own.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub databases: Vec<String>,

    /// Read only these tables and views, and the triggers of those tables
    ///
    /// Comma-separated: `table` or `database.table`; * matches any text and ? any one character.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tables: Vec<String>,

    /// Leave these tables and views out
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub exclude: Vec<String>,

    /// Leave objects of these kinds out
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub skip: Vec<Kind>,

    /// Read only definitions, no rows
    #[arg(long)]
    pub no_data: bool,

    /// Leave historical rows out of MariaDB's system-versioned tables
    #[arg(long)]
    pub no_history: bool,

    /// Leave DEFINER out of views, routines, triggers and events
    ///
    /// They then belong to the account that recreates them. Views and routines become SQL SECURITY
    /// INVOKER, so that nobody gains that account's privileges.
    #[arg(long)]
    pub strip_definer: bool,
}

/// How files are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Speed and safety")]
pub struct HowArgs {
    /// Connections that read rows
    ///
    /// Default: one per processor of this machine, at least 2 and at most 32.
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub threads: Option<u16>,

    /// Format of the dump
    ///
    /// `sql` is one SQL script that the stock client restores, as of one moment, though read over
    /// all connections. --out is then a file, compressed if its name ends with .gz or .zst, or -
    /// for standard output.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = DumpFormat::Refloat)]
    pub format: DumpFormat,

    /// How data files are compressed
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Compress::Zstd)]
    pub compress: Compress,

    /// The level of zstd, 1 (fast) to 19 (small)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub level: i32,

    /// Row text per file, before compression
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_bytes)]
    pub chunk_size: u64,

    /// Let a node of a Galera cluster fall behind while it is read
    ///
    /// Sets `wsrep_desync` ON until the dump is complete and the node has caught up, so that it
    /// does not hold up the other nodes.
    #[arg(long)]
    pub desync: bool,
}

/// How a server is read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
pub struct ReadArgs {
    /// What to do if one moment cannot be guaranteed for all rows
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Consistency::Best)]
    pub consistency: Consistency,

    /// How many seconds to wait for the snapshot's lock
    ///
    /// Each attempt lasts two seconds, because everybody else queues behind a pending lock. A
    /// statement waits just as long for a table that another session has locked, but at most a
    /// minute.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = parse_count)]
    pub lock_wait: u64,

    /// Do not search MySQL's JSON columns for values whose types text cannot carry
    ///
    /// Such values (DECIMAL, DATE, TIME, DATETIME, bytes) are reported. Finding them reads every
    /// document a second time.
    #[arg(long)]
    pub no_json_types: bool,

    /// Read at most this much row text per second, over all connections
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub max_rate: Option<u64>,

    /// Pause while more than this many statements of others run on the server
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub max_running: Option<u64>,

    /// Give up if InnoDB's history list grows longer than this many entries
    ///
    /// While rows are being read, the server keeps their old versions, which slows down everybody's
    /// reads. Checked once a second; needs the PROCESS privilege on MySQL.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub max_history: Option<u64>,

    /// Give up if rows are still being read this many seconds after the snapshot was opened
    #[arg(long, value_name = "SECONDS", value_parser = parse_count)]
    pub max_age: Option<u64>,
}

/// How files of rows are compressed (`--compress`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compress {
    /// In independent frames, each of which can be read alone
    Zstd,
    /// Not at all
    None,
}

impl DumpArgs {
    /// The library's options for these flags.
    ///
    /// # Errors
    /// As for [`WhatArgs::apply`].
    pub fn options(&self, source: ConnectOptions) -> anyhow::Result<DumpOptions> {
        let out = self.out.clone().unwrap_or_default();
        let mut options = DumpOptions::new(source, out);
        if let Some(threads) = self.how.threads {
            options.read.threads = usize::from(threads);
        }
        self.what.apply(&mut options)?;
        self.read.apply(&mut options);
        options.read.accounts = self.users;
        options.format = self.how.format;
        options.compression = match self.how.compress {
            Compress::Zstd => RowCompression::Zstd {
                level: self.how.level,
            },
            Compress::None => RowCompression::None,
        };
        options.chunk_bytes = self.how.chunk_size.max(1);
        options.desync = self.how.desync;
        Ok(options)
    }
}

impl WhatArgs {
    /// Applies these flags. A database in the URL of the source selects that database.
    ///
    /// # Errors
    /// The URL names a database and --databases is given too.
    pub fn apply(&self, options: &mut DumpOptions) -> anyhow::Result<()> {
        options.read.databases.clone_from(&self.databases);
        if let Some(name) = options.read.source.database.take() {
            if !self.databases.is_empty() {
                let error = ProgramError::usage(format!(
                    "the URL of the source names the database {name}, and --databases names others"
                ));
                return Err(error.hint("Leave one of them out.").into());
            }
            options.read.databases.push(name);
        }
        options.read.tables.clone_from(&self.tables);
        options.read.exclude.clone_from(&self.exclude);
        options.read.skip.clone_from(&self.skip);
        options.read.no_data = self.no_data;
        options.read.no_history = self.no_history;
        options.strip_definer = self.strip_definer;
        Ok(())
    }
}

impl ReadArgs {
    /// Applies these flags.
    pub fn apply(&self, options: &mut DumpOptions) {
        options.read.consistency = self.consistency;
        options.read.lock_patience = Duration::from_secs(self.lock_wait);
        options.json_types = !self.no_json_types;
        options.max_rate = self.max_rate;
        options.max_running = self.max_running;
        options.max_history = self.max_history;
        options.max_age = self.max_age.map(Duration::from_secs);
    }
}
