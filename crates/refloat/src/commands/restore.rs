//! `refloat restore`: makes a data directory of a backup.

use clap::Args;
use refloat_physical::restore::{RestoreOptions, plan, restore};
use refloat_report::summary;

use crate::commands::backup::threads;
use crate::commands::datadir::DatadirArgs;
use crate::commands::load::OutputArgs;
use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::record::{End, conclude, print_plan};
use crate::repo::RepoArgs;
use crate::watch::Watch;

const AFTER_HELP: &str = "\
EXAMPLES:
  The newest backup, into an empty directory:
      refloat restore latest --repo /backup/repo --to /var/lib/mysql

  A certain one, in place of what is there:
      systemctl stop mariadb
      refloat restore db1-20261128T020000Z --repo /backup/repo \\
          --to /var/lib/mysql --replace --start 'systemctl start mariadb'

  Most of the data are right already, and the repository is far away:
      refloat restore latest --repo /backup/repo --to /var/lib/mysql \\
          --replace --delta

An interrupted restore goes on with the same command: what was fetched is checked and not fetched again. The old \
data stay beside the directory until you remove them.";

/// Restore a backup into a data directory
///
/// The files are fetched into a folder beside the data directory, decrypted, decompressed and
/// checked block by block; the tool applies the redo log there, or a MySQL server does it when it
/// starts; owner and permissions are set; and only then the two are exchanged. Until that moment
/// nothing in the data directory is touched, and what it held is kept. Runs on the machine of the
/// data directory.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct RestoreArgs {
    /// Label of the backup, or `latest`
    #[arg(value_name = "LABEL")]
    pub label: String,

    #[command(flatten)]
    pub repo: RepoArgs,

    #[command(flatten)]
    pub datadir: DatadirArgs,

    /// Begin anew, and remove what an unfinished restore of another backup has fetched
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

pub fn run(args: &RestoreArgs, context: &Context) -> anyhow::Result<Exit> {
    let options = RestoreOptions {
        label: args.label.clone(),
        target: args.datadir.options(&args.connect, context)?,
        restart: args.restart,
        threads: threads(args.threads),
    };
    let repository = args.repo.open(context)?;
    if args.plan {
        let plan = plan(&options, &repository)?;
        return print_plan(&plan, &args.output, summary::restore_backup_plan);
    }
    let (watch, run) = Watch::begin("restore", args.output.show(), context)?;
    let (outcome, error) = match restore(&options, &repository, &run) {
        Ok(outcome) => (outcome, None),
        Err((error, outcome)) => (*outcome, Some(anyhow::Error::new(error))),
    };
    conclude(
        (watch, &run),
        &End {
            outcome: &outcome,
            seconds: outcome.seconds,
            error: error.as_ref(),
            settings_left: &[],
            beside: false,
        },
        (&args.output, context),
        summary::restore_backup,
    )
}
