//! `refloat backup`: copies the files of a running server into a repository.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use refloat_host::Host;
use refloat_physical::DonorOptions;
use refloat_physical::backup::{BackupOptions, backup, plan};
use refloat_report::summary;
use refloat_repository::{Key, LEVEL, Repository, RepositoryError, StreamStorage};
use refloat_run::Run;

use crate::commands::load::OutputArgs;
use crate::connect::SourceArgs;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::record::{End, conclude, print_plan};
use crate::repo::{RecipientArgs, RepoArgs, stdout_for_stream};
use crate::sizes::parse_bytes;
use crate::watch::Watch;

const AFTER_HELP: &str = "\
EXAMPLES:
  This machine's server, into a repository that is made if the place is empty:
      refloat backup --from mysql://root@localhost/ --repo /backup/repo

  A server on another machine, from here:
      refloat backup --from mysql://root@db1/ --host root@db1 \\
          --repo /backup/repo

  A MySQL server, from anywhere:
      refloat backup --from mysql://backup@db1/ --repo /backup/repo

  Gently, with a label of your own:
      refloat backup --from mysql://root@localhost/ --repo /backup/repo \\
          --max-rate 50M --label before-upgrade

  Onto another machine, through a pipe, and only readable there:
      refloat backup --from mysql://root@localhost/ --repo - \\
          --recipient-file team.txt | ssh host 'cat > db1.stream'

  What is there, and is it whole?
      refloat backups list --repo /backup/repo
      refloat backups verify --repo /backup/repo

Every backup is whole: there are no increments and no chains. A second backup costs only what has changed, \
because blocks that the repository already has are not stored again.";

/// Back up the files of a running server into a repository
///
/// A MariaDB server's own tool (mariadb-backup) copies the files on the server's machine. A MySQL
/// server sends them itself, by its clone plugin, from anywhere and without a tool; with --tool,
/// xtrabackup copies them.
///
/// Each file is hashed, compressed, encrypted if the repository is, and stored in blocks of 1 MiB.
/// The backup exists once all of it is on disk and checked: the tool or the server has ended well
/// and said so, what it sent was whole, and its last files are there. Otherwise there is no backup
/// of that label.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct BackupArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub repo: RepoArgs,

    #[command(flatten)]
    pub recipients: RecipientArgs,

    /// Label of the backup: letters, digits, dots, dashes and underscores [default: host and time]
    #[arg(long, value_name = "LABEL", help_heading = "Repository")]
    pub label: Option<String>,

    /// The server's machine, as ssh takes it [default: this one]
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

    /// The level of zstd, -7 (fastest) to 19 (smallest); 0 does not compress
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = LEVEL, value_parser = clap::value_parser!(i32).range(-7..=19), help_heading = "Speed and safety")]
    pub level: i32,

    /// Read at most this much per second, such as 50M; at least 8M for MariaDB
    ///
    /// The limit is lifted while the redo log would otherwise be overwritten before it is copied,
    /// and at the end, when definitions and commits wait for the backup.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Speed and safety")]
    pub max_rate: Option<u64>,

    /// Slow the copy down while the server is busy
    ///
    /// Twice a second, the server is compared with how it was before the copy: write-sets that wait
    /// (on a cluster node), how long a statement takes that does nothing, how many statements run.
    /// While it is worse, the rate is halved, down to 8 MiB per second; then it grows again.
    #[arg(long, help_heading = "Speed and safety")]
    pub gentle: bool,

    /// Let a node of a Galera cluster fall behind while it is copied
    ///
    /// Sets `wsrep_desync` ON until the copy is complete and the node has caught up, so that it
    /// does not hold up the other nodes.
    #[arg(long, help_heading = "Speed and safety")]
    pub desync: bool,

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
            gentle: args.gentle,
            desync: args.desync,
        },
        label: args.label.clone(),
        threads: threads(args.threads),
        level: args.level,
    };
    if args.repo.is_stream() {
        return stream(args, &options, context);
    }
    if !args.recipients.is_empty() {
        return Err(ProgramError::usage("--recipient is for --repo -, which has a key of its own")
            .hint("`refloat backups init` makes a repository for recipients, and `refloat backups keys add` adds them.")
            .into());
    }
    if args.plan {
        let (storage, repository) = args.repo.open_if_there(context)?;
        let plan = plan(&options, &*storage, repository.as_ref())?;
        return print_plan(&plan, &args.output, summary::backup_plan);
    }
    let (repository, is_new) = args.repo.open_or_init(context)?;
    let (watch, run) = Watch::begin("backup", args.output.show(), context)?;
    if is_new {
        run.events.warn(format!(
            "{} was empty: it is a new repository, and the backup has to be copied whole",
            repository.storage().url()
        ));
    }
    copy((args, &options), &repository, (watch, run), None, context)
}

/// Writes a repository with this backup alone to stdout, as a stream.
fn stream(args: &BackupArgs, options: &BackupOptions, context: &Context) -> anyhow::Result<Exit> {
    let usage = |what: &str| Err(ProgramError::usage(what).into());
    if args.repo.identity.is_some() {
        return usage("--identity opens an existing repository; a stream takes --recipient");
    }
    if args.output.json {
        return usage("--json and --repo - both want standard output");
    }
    let recipients = args.recipients.read()?;
    let key = args.repo.key()?;
    let key = key.or_else(|| (!recipients.is_empty()).then(Key::random));
    let out = if args.plan {
        Box::new(std::io::sink())
    } else {
        stdout_for_stream()?
    };
    let begin = || -> Result<_, RepositoryError> {
        let storage = Arc::new(StreamStorage::begin(out)?);
        let repository = Repository::init_for(storage.clone(), key, &recipients)?;
        Ok((storage, repository))
    };
    if args.plan {
        let (_, repository) = begin()?;
        let plan = plan(options, &**repository.storage(), Some(&repository))?;
        return print_plan(&plan, &args.output, summary::backup_plan);
    }
    let (watch, run) = Watch::begin("backup", args.output.show(), context)?;
    let (storage, repository) = begin()?;
    copy(
        (args, options),
        &repository,
        (watch, run),
        Some(&storage),
        context,
    )
}

/// Makes the backup, and ends the stream that it went into.
fn copy(
    (args, options): (&BackupArgs, &BackupOptions),
    repository: &Repository,
    (watch, run): (Watch, Run),
    stream: Option<&StreamStorage>,
    context: &Context,
) -> anyhow::Result<Exit> {
    let (outcome, error) = match backup(options, repository, &run) {
        Ok(outcome) => (
            outcome,
            stream
                .and_then(|stream| stream.finish().err())
                .map(anyhow::Error::new),
        ),
        Err((error, outcome)) => (*outcome, Some(anyhow::Error::new(error))),
    };
    conclude(
        (watch, &run),
        &End {
            outcome: &outcome,
            seconds: outcome.seconds,
            error: error.as_ref(),
            settings_left: &outcome.settings_left,
            beside: stream.is_some(),
        },
        (&args.output, context),
        summary::backup,
    )
}
