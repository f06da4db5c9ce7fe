//! `refloat restore`: makes a data directory from a backup.

mod beside;
pub mod elsewhere;
mod tables;

use std::path::PathBuf;

use clap::Args;
use refloat_host::Copying;
use refloat_physical::binlog::{LogsPlace, PointInTime, Until};
use refloat_physical::restore::{RestoreOptions, plan, restore};
use refloat_report::summary;
use refloat_repository::Repository;
use refloat_run::Run;
use serde::{Deserialize, Serialize};

use crate::commands::backup::threads;
use crate::commands::datadir::DatadirArgs;
use crate::commands::load::OutputArgs;
use crate::commands::private::PrivateArgs;
use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::record::{End, conclude, print_plan};
use crate::repo::RepoArgs;
use crate::watch::Watch;

const AFTER_HELP: &str = "\
EXAMPLES:
  The newest backup, into an empty directory:
      refloat restore latest --repo /backup/repo --to /var/lib/mysql

  A particular one, in place of what is there:
      systemctl stop mariadb
      refloat restore db1-20261128T020000Z --repo /backup/repo \\
          --to /var/lib/mysql --replace --start 'systemctl start mariadb'

  Onto another machine, which has refloat installed:
      refloat restore latest --repo /backup/repo --host root@db2 \\
          --to /var/lib/mysql

  When most of the data are right already, and the repository is far away:
      refloat restore latest --repo /backup/repo --to /var/lib/mysql \\
          --replace --delta

  The moment before somebody dropped a table, with the logs of the archive
  that `refloat binlog archive` keeps:
      refloat restore latest --repo /backup/repo --to /var/lib/mysql \\
          --replace --until '2026-11-28 14:00:00+01:00'

  Two tables, into a running server:
      refloat restore latest --repo /backup/repo \\
          --tables shop.orders,shop.items --to mysql://root@db1/

The same command resumes an interrupted restore: what was fetched is checked, and not fetched again. The old \
data stay beside the directory until you remove them.";

/// Restore a backup into a data directory
///
/// The files are fetched into a folder beside the data directory, decrypted, decompressed and
/// checked block by block. There, the tool applies the redo log (a MySQL server does that when it
/// starts), and owner and permissions are set. Only then are the two exchanged. Until that moment
/// nothing in the data directory is touched, and what it held is kept.
#[derive(Debug, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[command(after_long_help = AFTER_HELP)]
pub struct RestoreArgs {
    /// Label of the backup, or `latest`
    #[arg(value_name = "LABEL")]
    pub label: String,

    #[command(flatten)]
    #[serde(skip)]
    pub repo: RepoArgs,

    #[command(flatten)]
    pub datadir: DatadirArgs,

    /// The machine of the data directory, as ssh takes it [default: this one]
    ///
    /// It must have refloat of this version, but needs no access to the repository, which it reads
    /// through this machine. Everything else is that machine's: paths, option files, the tool, the
    /// servers of --start and --check, and the record of the run.
    #[arg(
        long,
        value_name = "[USER@]HOST",
        conflicts_with = "tables",
        help_heading = "Data directory"
    )]
    #[serde(skip)]
    pub host: Option<String>,

    /// refloat on that machine [default: refloat in the search path]
    #[arg(
        long,
        value_name = "PATH",
        requires = "host",
        help_heading = "Data directory"
    )]
    #[serde(skip)]
    pub host_program: Option<PathBuf>,

    /// Replay binary logs after the backup, up to here
    ///
    /// A time with its zone (`2026-11-28 14:00:00Z`, `2026-11-28 14:00:00+01:00`): what was
    /// committed before that second, by the times in the logs. Each is the time at which the
    /// statement or its COMMIT began, unless a session has set another. A GTID of one transaction:
    /// what comes before it in the logs; with `after:GTID`, that transaction too. `FILE:POSITION`:
    /// what comes before that byte. `latest`: all there is. Before anything else, refloat checks
    /// that the logs begin early enough, reach far enough and have no gap.
    #[arg(long, value_name = "WHEN", help_heading = "Point in time")]
    #[serde(with = "crate::as_text")]
    pub until: Option<Until>,

    /// Where the binary logs are: a folder, or archive:NAME [default: the archive of the server
    /// in the repository]
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "until",
        help_heading = "Point in time"
    )]
    pub binlogs: Option<String>,

    /// The folder with the server's programs, which replay the logs [default: the search path]
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "until",
        help_heading = "Point in time"
    )]
    pub programs: Option<PathBuf>,

    /// Restore only these tables, into a running server: --to is its URL
    ///
    /// Comma-separated: `table` or `database.table`; * matches any text and ? any one character.
    /// Only the files that they need are fetched. A private server on this machine starts on them,
    /// and rows, definitions, foreign keys and triggers are copied from there, whatever version the
    /// server of --to has. All tables take their places once all are whole; an existing table stays
    /// unless --replace is given.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["delta", "all_in_datadir", "option_file", "start", "check", "remove_old", "restart", "until"], help_heading = "Single tables")]
    pub tables: Vec<String>,

    #[command(flatten)]
    pub private: PrivateArgs,

    /// Start over, and remove what an unfinished restore of another backup has fetched
    #[arg(long, help_heading = "Data directory")]
    pub restart: bool,

    /// Threads that fetch, decrypt and decompress [default: one per processor]
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), help_heading = "Speed and safety")]
    pub threads: Option<u16>,

    /// Check everything, say what would be done, and touch nothing
    #[arg(long, help_heading = "Output")]
    pub plan: bool,

    #[command(flatten)]
    pub connect: ConnectArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

impl RestoreArgs {
    fn options(&self, context: &Context) -> anyhow::Result<RestoreOptions> {
        Ok(RestoreOptions {
            label: self.label.clone(),
            target: self.datadir.options(&self.connect, context)?,
            until: self.point_in_time(),
            restart: self.restart,
            threads: threads(self.threads),
        })
    }

    fn point_in_time(&self) -> Option<PointInTime> {
        let until = self.until.clone()?;
        let logs = match self.binlogs.as_deref() {
            None | Some("archive") => LogsPlace::Archive(None),
            Some(place) => match place.strip_prefix("archive:") {
                Some(name) => LogsPlace::Archive(Some(name.to_owned())),
                None => LogsPlace::Folder(PathBuf::from(place)),
            },
        };
        Some(PointInTime {
            until,
            logs,
            programs: self.programs.clone(),
        })
    }
}

pub fn run(args: &RestoreArgs, context: &Context) -> anyhow::Result<Exit> {
    if !args.tables.is_empty() {
        return tables::run(args, context);
    }
    args.private.refuse_without("--tables")?;
    if args.datadir.to.to_string_lossy().contains("://") {
        let error = ProgramError::usage("--to is a URL, but a restore fills a data directory");
        return Err(error
            .hint("To restore tables into a running server, give --tables.")
            .into());
    }
    if let Some(host) = &args.host {
        return elsewhere::run(args, host, &args.repo.open(context)?);
    }
    let options = args.options(context)?;
    fill((args, &options), &args.repo.open(context)?, context, |_| {})
}

/// Fills a data directory of this machine. `begun` is called when the run has begun.
fn fill(
    (args, options): (&RestoreArgs, &RestoreOptions),
    repository: &Repository,
    context: &Context,
    begun: impl FnOnce(&Run),
) -> anyhow::Result<Exit> {
    if args.plan {
        let plan = plan(options, repository)?;
        return print_plan(&plan, &args.output, summary::restore_backup_plan);
    }
    let (watch, run) = Watch::begin("restore", args.output.show(), context)?;
    begun(&run);
    Copying::remove_left(&options.target.datadir);
    let (outcome, error) = match restore(options, repository, &run) {
        Ok(outcome) => (outcome, None),
        Err((error, outcome)) => (*outcome, Some(anyhow::Error::new(error))),
    };
    conclude(
        (watch, &run),
        &End::new(&outcome, outcome.seconds, error.as_ref()),
        (&args.output, context),
        summary::restore_backup,
    )
}
