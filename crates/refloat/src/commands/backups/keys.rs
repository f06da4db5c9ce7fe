//! `refloat backups keys`: who opens an encrypted repository.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use refloat_repository::{Repository, recipients};

use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::repo::{RecipientArgs, RepoArgs, write_key};

/// See and change who can open an encrypted repository
///
/// The key of a repository is in a key file, or wrapped for age recipients in the repository
/// itself, or both. All of them open the same key, which does not change when recipients come and
/// go.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  Who can open it?
      refloat backups keys list --repo /backup/repo

  Let somebody else open it too:
      refloat backups keys add --repo /backup/repo --identity me.txt \\
          --recipient-file colleague.txt")]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    List(ListArgs),
    Add(AddArgs),
    Remove(RemoveArgs),
    Save(SaveArgs),
}

/// List the age recipients that the key is wrapped for
///
/// Needs no key. Key files are not in the repository, so they are not listed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
      refloat backups keys list --repo /backup/repo")]
struct ListArgs {
    #[command(flatten)]
    repo: RepoArgs,
}

/// Wrap the key for more age recipients
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  A repository with a key file gets its first recipients:
      refloat backups keys add --repo /backup/repo \\
          --key-file /etc/refloat.key --recipient-file team.txt")]
struct AddArgs {
    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    recipients: RecipientArgs,
}

/// Remove the key that is wrapped for a recipient
///
/// The given key file or identity must open the repository without that recipient, so that nobody
/// locks everyone out. The key stays the same: a recipient who has kept it, or has a copy of the
/// repository, can still read backups. Where that matters, make a new repository.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  Somebody has left:
      refloat backups keys remove --repo /backup/repo --identity me.txt \\
          --recipient-file colleague.txt")]
struct RemoveArgs {
    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    recipients: RecipientArgs,
}

/// Write the key of the repository into a key file
///
/// For a machine that opens it with --key-file, or as a copy in a safe.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
      refloat backups keys save /safe/refloat.key --repo /backup/repo \\
          --identity me.txt")]
struct SaveArgs {
    /// The file, which must not exist
    #[arg(value_name = "FILE")]
    to: PathBuf,

    #[command(flatten)]
    repo: RepoArgs,
}

pub fn run(args: &KeysArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout();
    match &args.command {
        KeysCommand::List(args) => {
            let there = recipients(&*args.repo.storage(context)?)?;
            for recipient in &there {
                writeln!(out, "{recipient}")?;
            }
            if there.is_empty() {
                writeln!(out, "no recipients")?;
            }
        }
        KeysCommand::Add(args) => {
            let repository = args.repo.open(context)?;
            for recipient in some(&args.recipients)? {
                repository.add_recipient(&recipient)?;
                writeln!(out, "added {recipient}")?;
            }
        }
        KeysCommand::Remove(args) => {
            let storage = args.repo.storage(context)?;
            // Read once: the file may be a pipe.
            let access = args.repo.access()?;
            for recipient in some(&args.recipients)? {
                Repository::remove_recipient(&storage, access.clone(), &recipient)?;
                writeln!(out, "removed {recipient}")?;
            }
        }
        KeysCommand::Save(args) => {
            let repository = args.repo.open(context)?;
            let Some(key) = repository.key() else {
                let what = format!("{}: is not encrypted", repository.storage().url());
                return Err(ProgramError::new(Exit::Refused, what).into());
            };
            write_key(&args.to, key)
                .with_context(|| format!("cannot make {}", args.to.display()))?;
            writeln!(out, "the key is in {}", args.to.display())?;
        }
    }
    Ok(Exit::Done)
}

fn some(args: &RecipientArgs) -> anyhow::Result<Vec<refloat_repository::Recipient>> {
    let recipients = args.read()?;
    if recipients.is_empty() {
        return Err(ProgramError::usage("give --recipient or --recipient-file").into());
    }
    Ok(recipients)
}
