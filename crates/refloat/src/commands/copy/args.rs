//! Flags of `refloat copy`; their doc comments are the manual page.

use std::path::PathBuf;

use clap::Args;
use refloat_copy::CopyOptions;
use refloat_load::{ExistingPolicy, WritePath};

use crate::commands::dump::{ReadArgs, WhatArgs};
use crate::commands::load::{self, FitArgs, GaleraArgs, HowArgs, OutputArgs, Verify};
use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::exit::ProgramError;

const AFTER_HELP: &str = "\
EXAMPLES:
  See the plan first; nothing is touched:
      refloat copy --from mysql://root@db1/ --to mysql://root@db2/ --plan

  Everything but the server's own schemas, onto a new server:
      refloat copy --from mysql://root@db1/ --to mysql://root@db2/

  One database, without the tables whose names begin with log_:
      refloat copy --from mysql://root@db1/ --to mysql://root@db2/ \\
          --databases shop --exclude 'log_*'

  Copy two tables again, without overloading the source:
      refloat copy --from mysql://root@db1/ --to mysql://root@db2/ \\
          --tables shop.orders,shop.items --replace --max-rate 20M

  From MySQL to MariaDB:
      refloat copy --from mysql://root@db1/ --to mariadb://root@db2/ \\
          --map-collation utf8mb4_0900_ai_ci=utf8mb4_uca1400_nopad_ai_ci

  Prove it value by value, against the moment that was copied:
      refloat copy --from mysql://root@db1/ --to mysql://root@db2/ \\
          --verify digest

  Two servers with different passwords, each in an option file:
      refloat copy --from mysql://root@db1/ --from-defaults-file ~/db1.cnf \\
          --to mysql://root@db2/ --defaults-file ~/db2.cnf

Accounts and grants are not copied: `refloat dump --users` writes them. The exit code is 0 only when every row that was read \
was found on the target afterwards, with no warning and no row skipped; with --verify digest, only when both sides have the \
same values.";

/// Copy one server into another, in parallel, and prove it
///
/// Works as a dump and a load in one stream: rows go straight from reading connections to writing
/// ones, and nothing is stored in between. All rows are of one moment, as with `refloat dump`; they
/// are written, counted and proven as with `refloat load`. Source and target may differ in vendor
/// and version.
///
/// A source that is faster than the target waits for it, so memory stays bounded. If either server
/// goes away, or somebody changes a definition on the source, the copy stops, gives the reason and
/// says what is already on the target. Settings of the target that were changed for speed are put
/// back at the end, on Ctrl-C, or later by `refloat settings revert`.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct CopyArgs {
    /// The server to read
    ///
    /// mysql://USER@HOST:PORT/ or mariadb://USER@HOST:PORT/, with options after a question mark:
    /// ?socket=PATH for a unix socket, ?ssl-mode=MODE. A password in the URL is refused: it would
    /// show in the process list.
    #[arg(long, value_name = "URL")]
    pub from: String,

    /// The server to write
    ///
    /// Written like --from, but without a database: a copy keeps the source's database names.
    #[arg(long, value_name = "URL")]
    pub to: String,

    /// Read only this option file for the source
    ///
    /// For a source whose password differs from the target's.
    #[arg(long, value_name = "FILE")]
    pub from_defaults_file: Option<PathBuf>,

    #[command(flatten)]
    pub connect: ConnectArgs,

    #[command(flatten)]
    pub what: WhatArgs,

    /// Replace tables of the same name that are already on the target
    ///
    /// Without --replace or --append, every database that is copied into must be empty: no table,
    /// view, routine or event of any name. Otherwise the copy is refused.
    #[arg(long, conflicts_with = "append", help_heading = "What to copy")]
    pub replace: bool,

    /// Add the rows to tables that are already on the target
    #[arg(long, help_heading = "What to copy")]
    pub append: bool,

    /// Print what would be done, and stop
    #[arg(long, help_heading = "What to copy")]
    pub plan: bool,

    #[command(flatten)]
    pub read: ReadArgs,

    #[command(flatten)]
    pub how: HowArgs,

    #[command(flatten)]
    pub galera: GaleraArgs,

    #[command(flatten)]
    pub fit: FitArgs,

    /// How the copy is proven
    ///
    /// `digest` keeps the source's snapshot open until every row has been compared; the source
    /// keeps old row versions that long.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Verify::Counts, help_heading = "Speed and safety")]
    pub verify: Verify,

    #[command(flatten)]
    pub output: OutputArgs,
}

impl CopyArgs {
    /// The library's options for these flags.
    ///
    /// # Errors
    /// As for [`ConnectArgs::resolve_flag`]; also if the target URL names a database.
    pub fn options(&self, context: &Context) -> anyhow::Result<CopyOptions> {
        let mut reads = self.connect.clone();
        if let Some(file) = &self.from_defaults_file {
            reads.defaults_file = Some(file.clone());
            (reads.defaults_extra_file, reads.no_defaults) = (None, false);
        }
        let source = reads.resolve_flag("--from", &self.from, context)?;
        let target = self.connect.resolve_flag("--to", &self.to, context)?;
        if let Some(database) = &target.database {
            let error = ProgramError::usage(format!(
                "--to names the database {database}, and a copy keeps the names of databases"
            ));
            return Err(error
                .hint("Choose what is copied with --databases, and leave the name out of --to.")
                .into());
        }
        let mut options = CopyOptions::new(source, target);
        self.what.apply(&mut options.dump)?;
        self.read.apply(&mut options.dump);
        load::apply(&mut options.load, &self.how, &self.fit);
        if options.load.write_path == WritePath::Tablespace {
            let error = ProgramError::usage(
                "--write-path tablespace needs rows in the order of their table, and a copy reads \
                parts of it side by side",
            );
            return Err(error
                .hint("Use `refloat dump` and `refloat load --write-path tablespace`.")
                .into());
        }
        options.dump.read.threads = options.load.threads;
        options.verify = self.verify == Verify::Digest;
        let hinders = [
            (self.append, "--append"),
            (options.dump.read.no_data, "--no-data"),
        ];
        if let Some((_, flag)) = hinders.iter().find(|(given, _)| options.verify && *given) {
            let error = ProgramError::usage(format!(
                "--verify digest compares whole tables, and {flag} does not copy them"
            ));
            return Err(error
                .hint("Without it rows are counted and definitions compared.")
                .into());
        }
        options.load.existing = match (self.replace, self.append) {
            (true, _) => ExistingPolicy::Replace,
            (_, true) => ExistingPolicy::Append,
            _ => ExistingPolicy::Refuse,
        };
        Ok(options)
    }
}
