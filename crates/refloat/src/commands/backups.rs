//! `refloat backups`: what a repository holds, whether it is whole, and what may go. Backups of
//! files and dumps are treated alike.

mod carry;
mod keys;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use refloat_physical::{KIND, VerifyOutcome, verify};
use refloat_report::{human, summary};
use refloat_repository::{Key, Manifest, Repository, RepositoryError, superfluous, sweep};

use crate::commands::backup::threads;
use crate::commands::load::OutputArgs;
use crate::commands::private::PrivateArgs;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::record::{End, conclude};
use crate::repo::{RecipientArgs, RepoArgs};
use crate::sizes::{parse_bytes, parse_time};
use crate::watch::Watch;

/// For backups with blocks that cannot be read.
const BLOCKS_HINT: &str = "Remove what is damaged (`refloat backups remove`) before you make a new backup, which would otherwise share its blocks.";
/// For backups whose blocks are whole and whose tables are not.
const TABLES_HINT: &str = "Their blocks are as they were written: CHECK TABLE says whether the server already had the damage. Other tables can be restored with `refloat restore --tables`.";
/// For backups that no server works on.
const UNTRIED_HINT: &str = "Their blocks are as they were written. See the reasons: the files were damaged when they were backed up, or the server cannot work on this machine. Try --server, --memory, or another machine.";
/// Packs that are younger may belong to a backup that is being made.
const UNUSED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// List, show, check and remove backups: of files, and dumps
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  What is there, and can all of it be read?
      refloat backups list --repo /backup/repo
      refloat backups verify --repo /backup/repo

  Keep a week, and never less than three:
      refloat backups prune --repo /backup/repo --keep 3 --keep-for 7d")]
pub struct BackupsArgs {
    #[command(subcommand)]
    command: BackupsCommand,
}

#[derive(Debug, Subcommand)]
enum BackupsCommand {
    Init(InitArgs),
    List(ListArgs),
    Show(ShowArgs),
    Verify(VerifyArgs),
    Remove(RemoveArgs),
    Prune(PruneArgs),
    Keys(keys::KeysArgs),
    Export(carry::ExportArgs),
    Import(carry::ImportArgs),
}

/// Make a repository in an empty place
///
/// `refloat backup` and `refloat dump` make one too; this command can also make the key of an
/// encrypted repository.
#[derive(Debug, Args)]
#[command(mut_arg("identity", |arg| arg.hide(true)))]
#[command(after_long_help = "\
EXAMPLES:
  An encrypted one; the key is made if the file is not there:
      refloat backups init --repo /backup/repo --key-file /etc/refloat.key

  One whose key two people can open, each with an age identity of their own:
      refloat backups init --repo /backup/repo --recipient-file team.txt")]
pub struct InitArgs {
    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    recipients: RecipientArgs,
}

/// List the backups of a repository, the oldest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  For people, and for a program:
      refloat backups list --repo /backup/repo
      refloat backups list --repo s3://bucket/repo --json")]
pub struct ListArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Show one backup
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  The newest:
      refloat backups show latest --repo /backup/repo")]
pub struct ShowArgs {
    /// Label of the backup, or `latest`
    #[arg(value_name = "LABEL")]
    label: String,

    #[command(flatten)]
    repo: RepoArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Read backups back: every block of every file, checked by its hash
///
/// With --restore, backups of files are restored as well, one after the other: into a temporary
/// folder, where a server of their series starts that nobody else can reach. It checks every table
/// (`CHECK TABLE`), and is removed again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  The newest one:
      refloat backups verify latest --repo /backup/repo

  Does a server start with it, and are its tables whole?
      refloat backups verify db1-20261128T020000Z --restore \\
          --repo /backup/repo --scratch /backup/scratch")]
pub struct VerifyArgs {
    /// Labels of the backups, or `latest` [default: all]
    #[arg(value_name = "LABEL")]
    labels: Vec<String>,

    #[command(flatten)]
    repo: RepoArgs,

    /// Restore them too, start a server on each, and have it check every table
    #[arg(long)]
    restore: bool,

    #[command(flatten)]
    private: PrivateArgs,

    /// The tool's program here [default: mariadb-backup or xtrabackup in the search path]
    #[arg(
        long,
        value_name = "PATH",
        requires = "restore",
        help_heading = "Private server"
    )]
    tool: Option<PathBuf>,

    /// Memory for applying the redo log, such as 4G [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "restore", help_heading = "Private server")]
    memory: Option<u64>,

    /// Threads that read, decrypt and decompress [default: one per processor]
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Remove the named backups, whole or damaged
///
/// The others stay whole. The next `prune` frees the space of blocks that no backup needs any more.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  One that can no longer be read:
      refloat backups remove db1-20261128T020000Z --repo /backup/repo")]
pub struct RemoveArgs {
    /// Labels of the backups
    #[arg(value_name = "LABEL", required = true)]
    labels: Vec<String>,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Remove old backups, and blocks that no backup needs
///
/// A backup stays if it is among the newest --keep of its server and kind, or younger than
/// --keep-for. Every backup is whole, although backups share blocks, so any of them may go. Blocks
/// that no backup needs are removed once they are a week old, unless a running backup may need
/// them.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  See what would be removed, then remove it:
      refloat backups prune --repo /backup/repo --keep 7 --plan
      refloat backups prune --repo /backup/repo --keep 7")]
pub struct PruneArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Keep this many of the newest backups of each server and kind
    #[arg(long, value_name = "N", required_unless_present = "keep_for", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,

    /// Keep backups that are younger than this, such as 30d
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    keep_for: Option<Duration>,

    /// Say what would be removed, and remove nothing
    #[arg(long)]
    plan: bool,
}

pub fn run(args: &BackupsArgs, context: &Context) -> anyhow::Result<Exit> {
    match &args.command {
        BackupsCommand::Init(args) => init(args, context),
        BackupsCommand::List(args) => list(args, context),
        BackupsCommand::Show(args) => show(args, context),
        BackupsCommand::Verify(args) => check(args, context),
        BackupsCommand::Remove(args) => remove(args, context),
        BackupsCommand::Prune(args) => prune(args, context),
        BackupsCommand::Keys(args) => keys::run(args, context),
        BackupsCommand::Export(args) => carry::export(args, context),
        BackupsCommand::Import(args) => carry::import(args, context),
    }
}

fn init(args: &InitArgs, context: &Context) -> anyhow::Result<Exit> {
    if args.repo.identity.is_some() {
        return Err(ProgramError::usage(
            "--identity opens an existing repository; a new one takes --recipient",
        )
        .into());
    }
    let recipients = args.recipients.read()?;
    let mut key = args.repo.key_or_new()?;
    if !recipients.is_empty() {
        key = key.or_else(|| Some(Key::random()));
    }
    let repository = Repository::init_for(args.repo.storage(context)?, key, &recipients)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}: a new repository", repository.storage().url())?;
    for recipient in &recipients {
        writeln!(out, "Its key is wrapped for {recipient}")?;
    }
    match &args.repo.key_file {
        Some(path) if recipients.is_empty() => writeln!(
            out,
            "Its key is in {}. Without that file nobody can read the backups: keep a copy of it elsewhere.",
            path.display()
        )?,
        Some(path) => writeln!(out, "Its key is in {}", path.display())?,
        None if recipients.is_empty() => {}
        None => writeln!(
            out,
            "Without one of their identities nobody can read the backups, or make new ones: keep copies elsewhere."
        )?,
    }
    Ok(Exit::Done)
}

fn list(args: &ListArgs, context: &Context) -> anyhow::Result<Exit> {
    let (backups, damaged) = args.repo.open(context)?.backups_and_damaged()?;
    if args.json {
        let mut all: Vec<serde_json::Value> = backups.iter().map(to_json).collect();
        all.extend(damaged.iter().map(
            |(label, error)| serde_json::json!({"label": label, "damaged": error.to_string()}),
        ));
        serde_json::to_writer_pretty(std::io::stdout(), &all)?;
        writeln!(std::io::stdout())?;
    } else if backups.is_empty() && damaged.is_empty() {
        writeln!(std::io::stdout(), "no backups")?;
    } else {
        write!(std::io::stdout(), "{}", summary::backup_list(&backups))?;
    }
    let labels: Vec<&str> = damaged.iter().map(|(label, _)| label.as_str()).collect();
    unreadable(&labels).map_or(Ok(Exit::Done), Err)
}

fn show(args: &ShowArgs, context: &Context) -> anyhow::Result<Exit> {
    let repository = args.repo.open(context)?;
    let one = repository.find(&args.label, None)?;
    if args.json {
        serde_json::to_writer_pretty(std::io::stdout(), &to_json(&one))?;
        writeln!(std::io::stdout())?;
    } else {
        write!(std::io::stdout(), "{}", summary::backup_shown(&one))?;
    }
    Ok(Exit::Done)
}

/// A backup without the list of its blocks.
fn to_json(manifest: &Manifest) -> serde_json::Value {
    serde_json::json!({
        "label": manifest.label,
        "kind": manifest.kind(),
        "began": manifest.began,
        "ended": manifest.ended,
        "files": manifest.files,
        "bytes": manifest.bytes,
        "added": manifest.added,
        "about": manifest.about,
    })
}

fn check(args: &VerifyArgs, context: &Context) -> anyhow::Result<Exit> {
    if !args.restore {
        args.private.refuse_without("--restore")?;
    }
    let repository = args.repo.open(context)?;
    let (backups, unread) = if args.labels.is_empty() {
        repository.backups_and_damaged()?
    } else {
        let found: Result<Vec<_>, _> = args
            .labels
            .iter()
            .map(|label| repository.find(label, None))
            .collect();
        (found?, Vec::new())
    };
    if backups.is_empty() && unread.is_empty() {
        return Err(ProgramError::new(
            Exit::Failed,
            format!("{}: holds no backups", repository.storage().url()),
        )
        .into());
    }
    let dump = backups.iter().find(|backup| backup.kind() != KIND);
    if let Some(dump) = dump.filter(|_| args.restore && !args.labels.is_empty()) {
        return Err(ProgramError::new(Exit::Refused, format!("backup {} is a dump: there are no files to start a server with", dump.label))
            .hint("`refloat sandbox start`, `refloat load LABEL --repo URL --to SERVER` and `refloat verify` try it; without --restore it is read.")
            .into());
    }
    let (watch, run) = Watch::begin("backups verify", args.output.show(), context)?;
    let threads = threads(args.threads);
    let private = args
        .private
        .options(args.tool.as_deref(), args.memory, threads);
    let private = args.restore.then_some(&private);
    let (outcome, error) = match verify(&repository, &backups, private, threads, &run) {
        Ok(mut outcome) => {
            let unread = unread.iter();
            outcome
                .damaged
                .extend(unread.map(|(label, error)| (label.clone(), error.to_string())));
            let labels: Vec<&str> = outcome.damaged.keys().map(String::as_str).collect();
            let tables = outcome.checked.iter().any(|one| !one.damaged.is_empty());
            let error = if tables {
                damaged(&labels, TABLES_HINT)
            } else {
                unreadable(&labels)
            };
            let error = error.or_else(|| untried(&outcome));
            (outcome, error)
        }
        Err(error) => (VerifyOutcome::default(), Some(anyhow::Error::new(error))),
    };
    conclude(
        (watch, &run),
        &End::new(&outcome, outcome.seconds, error.as_ref()),
        (&args.output, context),
        summary::verified,
    )
}

/// The error for backups that no server works on. `None`: there are none.
fn untried(outcome: &VerifyOutcome) -> Option<anyhow::Error> {
    let labels: Vec<&str> = outcome.untried.keys().map(String::as_str).collect();
    (!labels.is_empty()).then(|| {
        let what = format!("no server runs on {}", labels.join(", "));
        ProgramError::new(Exit::Failed, what)
            .hint(UNTRIED_HINT)
            .into()
    })
}

/// The error for backups that cannot be read. `None`: there are none.
fn unreadable(labels: &[&str]) -> Option<anyhow::Error> {
    damaged(labels, BLOCKS_HINT)
}

fn damaged(labels: &[&str], hint: &str) -> Option<anyhow::Error> {
    (!labels.is_empty()).then(|| {
        ProgramError::new(
            Exit::ProofFailed,
            format!(
                "{} damaged: {}",
                match labels.len() {
                    1 => "1 backup is".to_owned(),
                    count => format!("{count} backups are"),
                },
                labels.join(", ")
            ),
        )
        .hint(hint)
        .into()
    })
}

fn remove(args: &RemoveArgs, context: &Context) -> anyhow::Result<Exit> {
    let repository = args.repo.open(context)?;
    let there = repository.labels()?;
    if let Some(label) = args.labels.iter().find(|label| !there.contains(label)) {
        return Err(RepositoryError::NoBackup {
            url: repository.storage().url().to_owned(),
            label: label.clone(),
        }
        .into());
    }
    for label in &args.labels {
        repository.forget(label)?;
        writeln!(std::io::stdout(), "removed {label}")?;
    }
    Ok(Exit::Done)
}

fn prune(args: &PruneArgs, context: &Context) -> anyhow::Result<Exit> {
    let repository = args.repo.open(context)?;
    let backups = repository.backups()?;
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let known: Vec<_> = backups
        .iter()
        .map(|backup| ((backup.kind(), backup.server()), backup.began))
        .collect();
    let gone = superfluous(&known, args.keep.unwrap_or(0) as usize, args.keep_for, now);
    let gone: Vec<&str> = gone
        .into_iter()
        .map(|at| backups[at].label.as_str())
        .collect();
    if gone.len() == backups.len() && !gone.is_empty() {
        return Err(ProgramError::new(
            Exit::Refused,
            format!(
                "none of the {} would stay",
                human::counted(gone.len() as u64, "backup")
            ),
        )
        .hint("Give --keep 1 as well, to keep the newest however old it is.")
        .into());
    }
    let mut out = std::io::stdout();
    for label in &gone {
        if args.plan {
            writeln!(out, "would remove {label}")?;
        } else {
            repository.forget(label)?;
            writeln!(out, "removed {label}")?;
        }
    }
    let stay = match backups.len() - gone.len() {
        1 => "1 backup stays".to_owned(),
        count => format!("{count} backups stay"),
    };
    writeln!(out, "{stay}")?;
    if !args.plan {
        let swept = sweep(&repository, UNUSED_FOR)?;
        writeln!(out, "{} freed", human::bytes(swept.bytes))?;
        if swept.spared > 0 {
            let packs = human::counted(swept.spared, "pack");
            writeln!(
                out,
                "{packs} left: a backup is being written that may need them"
            )?;
        }
        for name in &swept.strangers {
            writeln!(out, "left alone, because it is not a pack: {name}")?;
        }
    }
    Ok(Exit::Done)
}
