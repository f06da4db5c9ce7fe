//! `refloat binlog`: keeps the binary logs of servers beside their backups.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use refloat_physical::PhysicalError;
use refloat_physical::binlog::kept::{self, Pruned};
use refloat_physical::binlog::{ArchiveOptions, archive};
use refloat_report::{human, summary};
use refloat_run::Cancel;

use crate::commands::load::OutputArgs;
use crate::connect::SourceArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::record::{End, conclude};
use crate::repo::RepoArgs;
use crate::sizes::parse_time;
use crate::watch::{Show, Watch};

/// Archive the binary logs of servers, for restores to a point in time
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  Keep the logs of a server from now on, beside its backups:
      refloat binlog archive --from mysql://repl@db1/ --repo /backup/repo

  The moment before somebody dropped a table:
      refloat restore latest --repo /backup/repo --to /var/lib/mysql \\
          --replace --until '2026-11-28 14:00:00+01:00'")]
pub struct BinlogArgs {
    #[command(subcommand)]
    command: BinlogCommand,
}

#[derive(Debug, Subcommand)]
enum BinlogCommand {
    Archive(Box<ArchiveArgs>),
    List(ListArgs),
    Fetch(FetchArgs),
    Prune(PruneArgs),
}

/// Archive the binary logs of a server in a repository, continuously
///
/// Reads them as a replica does, from the oldest log that the server has. Checks every event, and
/// that none is missing. Stores the bytes of the server's files, compressed, and encrypted if the
/// repository is. However it ended, the same command continues after the last event that is stored.
/// If the server has removed the logs that come next, or is a different server, it says so and
/// ends.
///
/// It runs until it is stopped (Ctrl-C, SIGTERM): run it as a service that is restarted.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  From now on:
      refloat binlog archive --from mysql://repl@db1/ --repo /backup/repo

  What is there now, as a cron job:
      refloat binlog archive --from mysql://repl@db1/ --once \\
          --repo s3://bucket/repo")]
pub struct ArchiveArgs {
    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    repo: RepoArgs,

    /// Name of the archive [default: that of the server]
    #[arg(long, value_name = "NAME", help_heading = "Repository")]
    name: Option<String>,

    /// End once everything is stored that is in the logs now
    #[arg(long)]
    once: bool,

    /// How long events may wait before they are stored, such as 2s
    ///
    /// This, and up to a quarter more, is what you lose if the server and this machine die at the
    /// same time. Each time events are stored, an object is written.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    every: Duration,

    #[command(flatten)]
    output: OutputArgs,
}

/// List the archives of a repository
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  For people, and for a program:
      refloat binlog list --repo /backup/repo
      refloat binlog list --repo /backup/repo --json")]
pub struct ListArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Write the logs of an archive to a folder, as the server had them
///
/// Every event is checked. Files that already exist with the right size are left alone.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  To look at them with the server's own tool:
      refloat binlog fetch db1 --repo /backup/repo --out /tmp/logs
      mariadb-binlog /tmp/logs/binlog.000007")]
pub struct FetchArgs {
    /// Name of the archive
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    repo: RepoArgs,

    /// The folder to write the logs into
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Remove logs that no backup in the repository needs
///
/// These are the logs before the one in which the oldest backup of files of their server begins;
/// which backup that is, `refloat backups prune` decides. An archive of a server that has no backup
/// there is left alone.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  See what would be removed, then remove it:
      refloat binlog prune --repo /backup/repo --plan
      refloat binlog prune --repo /backup/repo")]
pub struct PruneArgs {
    /// Name of the archive [default: all]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    repo: RepoArgs,

    /// Say what would be removed, and remove nothing
    #[arg(long)]
    plan: bool,
}

pub fn run(args: &BinlogArgs, context: &Context) -> anyhow::Result<Exit> {
    match &args.command {
        BinlogCommand::Archive(args) => keep(args, context),
        BinlogCommand::List(args) => list(args, context),
        BinlogCommand::Fetch(args) => fetch(args, context),
        BinlogCommand::Prune(args) => prune(args, context),
    }
}

fn keep(args: &ArchiveArgs, context: &Context) -> anyhow::Result<Exit> {
    let options = ArchiveOptions {
        source: args.source.resolve(context)?,
        name: args.name.clone(),
        once: args.once,
        interval: args.every,
    };
    let (repository, is_new) = args.repo.open_or_init(context)?;
    // Work without an end has no progress bar.
    let show = match args.output.show() {
        Show::Best => Show::Lines,
        other => other,
    };
    let (watch, run) = Watch::begin("binlog archive", show, context)?;
    // It may run for months, so its record must not grow every second.
    watch.quiet();
    if is_new {
        let url = repository.storage().url();
        run.events
            .warn(format!("{url} was empty: it is a new repository"));
    }
    let (outcome, error) = match archive(&options, &repository, &run) {
        Ok(outcome) => (outcome, None),
        Err((error, outcome)) => (*outcome, Some(anyhow::Error::new(error))),
    };
    conclude(
        (watch, &run),
        &End::new(&outcome, outcome.seconds, error.as_ref()),
        (&args.output, context),
        summary::binlog_archive,
    )
}

fn list(args: &ListArgs, context: &Context) -> anyhow::Result<Exit> {
    let all = kept::list(&args.repo.open(context)?)?;
    let mut out = std::io::stdout();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &all)?;
        writeln!(out)?;
    } else if all.is_empty() {
        writeln!(out, "no archives of binary logs")?;
    } else {
        write!(out, "{}", summary::binlog_list(&all))?;
    }
    Ok(Exit::Done)
}

fn fetch(args: &FetchArgs, context: &Context) -> anyhow::Result<Exit> {
    let repository = args.repo.open(context)?;
    let written = kept::fetch(&repository, &args.name, &args.out, &Cancel::new())?;
    writeln!(
        std::io::stdout(),
        "{}: {} written",
        args.out.display(),
        human::counted(written.len() as u64, "file")
    )?;
    Ok(Exit::Done)
}

fn prune(args: &PruneArgs, context: &Context) -> anyhow::Result<Exit> {
    let repository = args.repo.open(context)?;
    let Pruned { removed, left } = kept::prune(&repository, args.name.as_deref(), args.plan)?;
    let verb = if args.plan { "would go" } else { "removed" };
    let mut out = std::io::stdout();
    for (archive, file) in &removed {
        writeln!(out, "{archive} {file}: {verb}")?;
    }
    if !left.is_empty() {
        return Err(PhysicalError::Refused(left).into());
    }
    if removed.is_empty() {
        writeln!(
            out,
            "nothing to remove: the backups need all logs that are there"
        )?;
    }
    Ok(Exit::Done)
}
