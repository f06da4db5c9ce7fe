//! `refloat cluster advise`: finds what would make a state transfer fail, and what would make it
//! faster.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::advise::{Advice, AdviseError, AdviseOptions, advise, fragment};
use refloat_report::cluster;

use super::members::ClusterOf;
use super::seconds;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::sizes::parse_time;

const AFTER_HELP: &str = "\
EXAMPLES:
  Before a node is brought back by a full copy (SST): what would go wrong, what would be slow?
      refloat cluster advise db3 --cluster shop.toml

  For all nodes, with write-sets kept for absences of two hours:
      refloat cluster advise --cluster shop.toml --window 2h

  Write the settings as an option file, each with its reason:
      refloat cluster advise db3 --cluster shop.toml --write sst-tuned.cnf

  For a script:
      refloat cluster advise --cluster shop.toml --json

WHAT IS CHECKED:
  Servers, by SQL. Machines, through ssh or locally: memory, processors, space, programs, option
  files as the servers' own scripts read them, and who listens on the port for copies. The account
  for copies is tried on each possible donor, and each donor tries to reach the joiner's port while
  nobody listens there. Nothing is changed. Passwords stay where they are.

The exit code is 0 when nothing was found that would make a copy fail, 4 when something was, and 1 \
when no node answers. Findings that are merely unsafe, such as copies without TLS, are reported \
and leave it at 0.";

/// Find what would make a full copy (SST) to a node fail, and the settings that make it fast
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct AdviseArgs {
    /// The node that would take the copy, by its name in the list [default: any of them]
    #[arg(value_name = "NODE")]
    node: Option<String>,

    /// Size the write-set cache for an absence of this long: 2h, 90m, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    window: Option<Duration>,

    /// Measure rates for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    sample: f64,

    #[command(flatten)]
    cluster: ClusterOf,

    /// Write the settings as a commented option file; an existing file is never overwritten
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    write: Option<PathBuf>,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: &AdviseArgs, context: &Context) -> anyhow::Result<Exit> {
    if let Some(path) = args
        .write
        .as_ref()
        .filter(|path| path.symlink_metadata().is_ok())
    {
        return Err(is_there(path).into());
    }
    let (nodes, candidates) = args.cluster.candidates(context)?;
    let options = AdviseOptions {
        joiner: args.node.clone(),
        window: args.window,
        sample: Duration::from_secs_f64(args.sample),
    };
    let advice = advise(&nodes.name, &candidates, &options).map_err(|error| match error {
        AdviseError::UnknownNode { .. } => ProgramError::usage(error.to_string()),
    })?;
    if let Some(path) = &args.write {
        write(path, &advice)?;
    }
    print(&advice, args, nodes.unnamed)?;
    if advice.nodes.iter().all(|node| node.unreachable.is_some()) {
        let why = advice
            .nodes
            .iter()
            .find_map(|node| node.unreachable.clone());
        let text = format!("no node answers: {}", why.unwrap_or_default());
        return Err(ProgramError::new(Exit::Failed, text).into());
    }
    Ok(if advice.fails() {
        Exit::ProofFailed
    } else {
        Exit::Done
    })
}

fn print(advice: &Advice, args: &AdviseArgs, unnamed: usize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(advice)?)?;
    } else {
        write!(out, "{}", cluster::advise::advise(advice))?;
        if unnamed > 0 {
            writeln!(
                out,
                "\n{unnamed} of the members do not tell their addresses and were not looked at: a cluster.toml can name them."
            )?;
        }
        if let Some(path) = &args.write {
            writeln!(out, "\nWritten to {}.", path.display())?;
        }
    }
    out.flush()?;
    Ok(())
}

fn is_there(path: &Path) -> ProgramError {
    ProgramError::new(Exit::Refused, format!("{} already exists", path.display()))
        .hint("Give --write the name of a file that does not exist yet.")
}

/// Writes a new file directly, not through a temporary one: it is small, and an existing file is
/// never overwritten.
fn write(path: &Path, advice: &Advice) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    // It contains node names and key paths: readable by its owner only, like many option files.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(is_there(path).into()),
        other => other.with_context(failed)?,
    };
    let written = file
        .write_all(fragment(advice).as_bytes())
        .and_then(|()| file.sync_all());
    if written.is_err() {
        // A truncated list of settings is worse than none.
        let _ = std::fs::remove_file(path);
    }
    written.with_context(failed)
}
