//! Flags of `refloat verify`; their doc comments are the manual page.

use clap::Args;
use refloat_host::storage::is_elsewhere;
use refloat_verify::{Compared, Endpoint, VerifyOptions};

use crate::commands::load::{DataArgs, OutputArgs, source_of};
use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::dumps;
use crate::exit::ProgramError;
use crate::repo::DumpRepoArgs;

const AFTER_HELP: &str = "\
EXAMPLES:
  A server and the one that it was copied to:
      refloat verify mysql://root@db1/ mysql://root@db2/

  A dump and the server that it was made from or restored into:
      refloat verify /backup/db1 mysql://root@db1/
      refloat verify shop.sql.gz mysql://root@db1/shop
      refloat verify latest mysql://root@db1/ --repo s3://bucket/repo

  One database, without the tables whose names begin with log_:
      refloat verify mysql://root@db1/ mysql://root@db2/ --databases shop \\
          --exclude 'log_*'

  Only definitions, which takes seconds:
      refloat verify mysql://root@db1/ mysql://root@db2/ --schema-only

  The result for a script:
      refloat verify /backup/db1 mysql://root@db2/ --json | tail -n 1 |
          jq '.outcome.summary.same'

EXIT CODES:
  0  everything was compared, and nothing differs
  1  failed: a server went away, or a file of a dump is damaged or missing; it is named
  3  refused: nothing was compared
  4  something differs: the summary names it

Nothing is written to either side.";

/// Compare definitions and rows of two servers, or of a dump and a server
///
/// A and B are each a server (mysql://USER@HOST:PORT/) or a dump in any format that `refloat load`
/// reads. Each server is read in one consistent snapshot, over several connections. Rows that are
/// written between the two snapshots differ, so compare servers that nobody writes to, or a dump
/// with a replica that was stopped at the dump's position. The summary says which moment each side
/// shows.
///
/// Rows are compared by a 128-bit digest in which differences cannot cancel out and no value is
/// rounded. In a table that differs, the rows that differ are found and shown. Every file of a
/// refloat dump is also checked against the manifest. A dump by another tool is read as it stands;
/// if it is not certain what a server makes of a value, the table is reported as not compared,
/// never as the same.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct VerifyArgs {
    /// The first side: URL of a server, or file, folder or tar archive of a dump, or its URL
    ///
    /// With --repo, anything that is not a URL is the label of a dump in the repository, or
    /// `latest`.
    #[arg(value_name = "A")]
    pub a: String,

    /// The second side: URL of a server, or file, folder or tar archive of a dump, or its URL
    #[arg(value_name = "B")]
    pub b: String,

    #[command(flatten)]
    pub repo: DumpRepoArgs,

    #[command(flatten)]
    pub what: WhatArgs,

    /// Connections to each server, and readers of a dump's files
    ///
    /// Default: one per processor of this machine, at least 2 and at most 32.
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), help_heading = "How to compare")]
    pub threads: Option<u16>,

    /// How many differing rows of a table to show
    ///
    /// With 0 they are not searched for: the summary says only which tables differ.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        help_heading = "How to compare"
    )]
    pub show_rows: u32,

    #[command(flatten)]
    pub data: DataArgs,

    #[command(flatten)]
    pub connect: ConnectArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// What is compared.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
#[derive(Debug, Args)]
#[command(next_help_heading = "What to compare")]
pub struct WhatArgs {
    /// The database of a dump that names none (mysqldump NAME, without --databases)
    ///
    /// Default: the database in the URL of the other side.
    #[arg(long, short = 'D', value_name = "NAME")]
    pub database: Option<String>,

    /// Accept a dump that does not end with `-- Dump completed`
    #[arg(long)]
    pub accept_missing_trailer: bool,

    /// Compare only these databases
    ///
    /// Comma-separated; * matches any text and ? any one character. Default: all but the server's
    /// own; if one side is a dump, the databases of the dump.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub databases: Vec<String>,

    /// Compare only these tables and views, and the triggers of those tables
    ///
    /// Comma-separated: `table` or `database.table`; * matches any text and ? any one character.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tables: Vec<String>,

    /// Leave these tables and views out
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub exclude: Vec<String>,

    /// Compare only rows, and which tables exist
    #[arg(long, conflicts_with = "schema_only")]
    pub rows_only: bool,

    /// Compare only definitions
    #[arg(long)]
    pub schema_only: bool,

    /// Leave historical rows out of MariaDB's system-versioned tables
    ///
    /// For copies that were made without them.
    #[arg(long)]
    pub no_history: bool,
}

impl VerifyArgs {
    /// The library's options for these flags.
    ///
    /// # Errors
    /// As for [`ConnectArgs::resolve_flag`].
    pub fn options(&self, context: &Context) -> anyhow::Result<VerifyOptions> {
        let repo = self.repo.given();
        let endpoint = |name: &str, text: &str| -> anyhow::Result<Endpoint> {
            if !text.contains("://") {
                let path = dumps::path_of(text.as_ref(), repo.as_ref(), context)?;
                return Ok(Endpoint::Dump(path));
            }
            if is_elsewhere(text) || text.starts_with("file://") {
                return Ok(Endpoint::Dump(dumps::path_of(
                    text.as_ref(),
                    None,
                    context,
                )?));
            }
            let source = self.connect.resolve_flag(name, text, context)?;
            Ok(Endpoint::Server(Box::new(source)))
        };
        let mut options = VerifyOptions::new(endpoint("A", &self.a)?, endpoint("B", &self.b)?);
        if let Some(threads) = self.threads {
            options.threads = usize::from(threads);
        }
        options.databases.clone_from(&self.what.databases);
        if let (Endpoint::Server(a), Endpoint::Server(b)) = (&options.a, &options.b) {
            match (&a.database, &b.database) {
                (None, None) => {}
                (Some(a), Some(b)) if a == b && self.what.databases.is_empty() => {
                    options.databases.push(a.clone());
                }
                _ => {
                    let error = ProgramError::usage(
                        "a database in the URLs of two servers has to be the same one in both, without --databases",
                    );
                    return Err(error.hint("Databases are compared by their names: name them with --databases, and leave them out of the URLs.").into());
                }
            }
        }
        options.tables.clone_from(&self.what.tables);
        options.exclude.clone_from(&self.what.exclude);
        options.compared = match (self.what.rows_only, self.what.schema_only) {
            (true, _) => Compared::Rows,
            (_, true) => Compared::Schema,
            _ => Compared::All,
        };
        options.no_history = self.what.no_history;
        options.rows_shown = usize::try_from(self.show_rows).unwrap_or(usize::MAX);
        options.scratch.clone_from(&self.data.scratch);
        options.database.clone_from(&self.what.database);
        options.accept_missing_trailer = self.what.accept_missing_trailer;
        (options.source_format, options.delimited) = source_of(&self.data);
        Ok(options)
    }
}
