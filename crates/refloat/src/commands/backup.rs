//! `refloat backup`: copies the files of a running server into a repository.

use std::path::PathBuf;

use clap::Args;
use refloat_host::Host;
use refloat_physical::DonorOptions;
use refloat_physical::backup::{BackupOptions, backup, plan};
use refloat_report::summary;

use crate::commands::load::OutputArgs;
use crate::connect::SourceArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::record::{conclude, print_plan};
use crate::repo::RepoArgs;
use crate::sizes::parse_bytes;
use crate::watch::Watch;

const AFTER_HELP: &str = "\
EXAMPLES:
  This machine's server, into a repository that is made if nothing is there:
      refloat backup --from mysql://root@localhost/ --repo /backup/repo

  A server on another machine, from here:
      refloat backup --from mysql://root@db1/ --host root@db1 \\
          --repo /backup/repo

  A MySQL server, from anywhere:
      refloat backup --from mysql://backup@db1/ --repo /backup/repo

  Gently, under a name of its own:
      refloat backup --from mysql://root@localhost/ --repo /backup/repo \\
          --max-rate 50M --label before-upgrade

  What is there, and is it whole?
      refloat backups list --repo /backup/repo
      refloat backups verify --repo /backup/repo

Every backup is whole: there are no increments and no chains. A second backup costs what has changed, because \
blocks that the repository has already are not stored again.";

/// Back a server up into a repository: its files, while it runs
///
/// A MariaDB server's own tool (mariadb-backup) copies the files on the server's machine. A MySQL
/// server sends them itself, by its clone plugin, with no tool and from anywhere; with --tool,
/// xtrabackup copies them.
///
/// What comes is taken apart file by file, hashed, compressed, encrypted if the repository is, and
/// written in blocks of 1 MiB. The backup exists when all of it is on the disk and checked: the
/// tool or the server has ended well and said so, what it sent was whole, and its last files are
/// there. Otherwise there is no backup of that label.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct BackupArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub repo: RepoArgs,

    /// Name of the backup: letters, digits, dots, dashes and underscores [default: host and time]
    #[arg(long, value_name = "LABEL", help_heading = "Repository")]
    pub label: Option<String>,

    /// The machine that the server runs on, as ssh takes it [default: this one]
    #[arg(long, value_name = "[USER@]HOST", help_heading = "Server's machine")]
    pub host: Option<String>,

    /// The tool's program there [default: mariadb-backup in the search path; none for MySQL]
    #[arg(long, value_name = "PATH", help_heading = "Server's machine")]
    pub tool: Option<PathBuf>,

    /// Files that the tool reads at the same time, or connections to a MySQL server
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Speed and safety")]
    pub parallel: u16,

    /// Threads that hash, compress and encrypt [default: one per processor of this machine]
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512), help_heading = "Speed and safety")]
    pub threads: Option<u16>,

    /// Read at most this much per second, such as 50M; at least 8M for MariaDB
    ///
    /// The rate is given up while the redo log would otherwise be overwritten before it is copied,
    /// and at the end, when definitions and commits wait for the backup.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Speed and safety")]
    pub max_rate: Option<u64>,

    /// Check everything, say what would be done, and touch nothing
    #[arg(long, help_heading = "Output")]
    pub plan: bool,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// Threads for work that keeps a processor busy.
pub fn threads(asked: Option<u16>) -> usize {
    let usual = || std::thread::available_parallelism().map_or(2, usize::from);
    asked.map_or_else(usual, usize::from)
}

pub fn run(args: &BackupArgs, context: &Context) -> anyhow::Result<Exit> {
    let options = BackupOptions {
        donor: DonorOptions {
            source: args.source.resolve(context)?,
            host: args.host.clone().map(Host::Ssh),
            tool: args.tool.clone(),
            clones: true,
            parallel: usize::from(args.parallel),
            max_rate: args.max_rate,
        },
        label: args.label.clone(),
        threads: threads(args.threads),
    };
    if args.plan {
        let (url, repository) = args.repo.open_if_there(context)?;
        let plan = plan(&options, &url, repository.as_ref())?;
        return print_plan(&plan, &args.output, summary::backup_plan);
    }
    let (repository, is_new) = args.repo.open_or_init(context)?;
    let (watch, run) = Watch::begin("backup", args.output.show(), context)?;
    if is_new {
        run.events.warn(format!(
            "{} held nothing: it is a new repository, and the backup has to be copied whole",
            repository.storage().url()
        ));
    }
    let (outcome, error) = match backup(&options, &repository, &run) {
        Ok(outcome) => (outcome, None),
        Err((error, outcome)) => (*outcome, Some(anyhow::Error::new(error))),
    };
    conclude(
        (watch, &run),
        (&outcome, outcome.seconds, error.as_ref()),
        (&args.output, context),
        summary::backup,
    )
}
