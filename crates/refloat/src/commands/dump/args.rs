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

  Small rather than fast, and gently:
      refloat dump --from mysql://root@db1/ --out /backup/db1 \\
          --level 9 --max-rate 20M --max-running 16

  As one archive, over a network:
      refloat dump --from mysql://root@db1/ --out - |
          ssh backup 'cat > db1.tar'

  As SQL, for a server that has nothing but the stock client:
      refloat dump --from mysql://root@db1/ --databases shop --format sql \\
          --out shop.sql.zst

  Only definitions, with accounts and grants:
      refloat dump --from mysql://root@db1/ --out /backup/schema --no-data \\
          --users

Restore it by hand, without refloat: docs/format.md says how. The exit code is 0 only when the manifest, which is \
written last, is on the disk.";

/// Dump a server into a folder, in parallel, all of one moment
///
/// All rows are of the moment at which the snapshot was opened, over all connections; the manifest
/// holds the position of the
/// binary log, the GTID and the place in the cluster that belong to it. Writers wait for the
/// milliseconds in which the snapshots
/// are opened: not at all with --threads 1 where MariaDB's binary log is on and all tables have
/// transactions. The lock is never
/// waited for behind a long query without saying so.
///
/// What the account may not do is not passed over in silence: a definition that is hidden from it
/// stops the dump, and where it
/// may take no lock the dump says that its rows may be of different moments, or is refused with
/// --consistency require.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct DumpArgs {
    /// The folder that the dump becomes; it must not exist yet, or be empty; - for one archive on
    /// standard output
    ///
    /// The archive is a tar of that folder, with the manifest as its last file. One that stopped in
    /// the middle has no end mark.
    #[arg(long, short = 'o', value_name = "FOLDER")]
    pub out: PathBuf,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub what: WhatArgs,

    /// Accounts, roles and grants too, in a file of their own
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
    /// Only these databases
    ///
    /// A list with commas; * and ? stand for any text and any one character. Without it: the one in
    /// the URL of the source, or all but
    /// those of the server itself where it names none.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub databases: Vec<String>,

    /// Only these tables and views, and the triggers of those tables
    ///
    /// A list with commas: `table` or `database.table`; * and ? stand for any text and any one
    /// character.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tables: Vec<String>,

    /// Leave these tables and views out
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub exclude: Vec<String>,

    /// Leave objects of these kinds out
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub skip: Vec<Kind>,

    /// Only definitions, no rows
    #[arg(long)]
    pub no_data: bool,

    /// Leave rows of the past out of MariaDB's system-versioned tables
    #[arg(long)]
    pub no_history: bool,

    /// Leave DEFINER out of views, routines, triggers and events
    ///
    /// They then belong to the account that creates them again. So that nobody gains its rights,
    /// views and routines become
    /// SQL SECURITY INVOKER.
    #[arg(long)]
    pub strip_definer: bool,
}

/// How files are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Speed and safety")]
pub struct HowArgs {
    /// Connections that read rows
    ///
    /// Without it: one for each processor of this machine, 2 at least and 32 at most.
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub threads: Option<u16>,

    /// What the dump is written as
    ///
    /// `sql` is one text that the stock client restores, with the rows of one moment, read by all
    /// connections: --out is a file, compressed
    /// when its name ends with .gz or .zst, or - for standard output.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = DumpFormat::Refloat)]
    pub format: DumpFormat,

    /// How files with rows are compressed
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Compress::Zstd)]
    pub compress: Compress,

    /// The level of zstd, 1 (fast) to 19 (small)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub level: i32,

    /// Row text in one file, not compressed
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_bytes)]
    pub chunk_size: u64,

    /// Let a node of a Galera cluster fall behind while it is read
    ///
    /// `wsrep_desync` is ON until the dump is complete and the node has caught up: the other nodes
    /// are not held up by it.
    #[arg(long)]
    pub desync: bool,
}

/// How a server is read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
pub struct ReadArgs {
    /// What to do where it cannot be promised that all rows are of one moment
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Consistency::Best)]
    pub consistency: Consistency,

    /// Seconds for which the lock of the snapshot is waited for
    ///
    /// In attempts of two seconds each, because everybody else waits behind a lock that waits. A
    /// statement waits as long for a table that another session has locked, up to a minute.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = parse_count)]
    pub lock_wait: u64,

    /// Do not look in JSON columns of MySQL for values of types that text cannot carry
    ///
    /// Such values (DECIMAL, DATE, TIME, DATETIME, bytes) are noted; to find them every document is
    /// read once more.
    #[arg(long)]
    pub no_json_types: bool,

    /// Read no more than so much row text per second, over all connections
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub max_rate: Option<u64>,

    /// Pause while more than so many statements of others run on the server
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub max_running: Option<u64>,

    /// Give up when InnoDB's history list has more entries than this
    ///
    /// While rows are read the server keeps their old versions, and everybody's reads get slower.
    /// Looked at once a second; it needs PROCESS on
    /// MySQL.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub max_history: Option<u64>,

    /// Give up when rows are still being read so many seconds after the snapshot was opened
    #[arg(long, value_name = "SECONDS", value_parser = parse_count)]
    pub max_age: Option<u64>,
}

/// `--compress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compress {
    /// In independent frames: any of them can be read alone
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
        let mut options = DumpOptions::new(source, &self.out);
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
