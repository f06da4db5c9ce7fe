//! `refloat settings`: what was changed on which server, and the way back.

use clap::{Args, Subcommand};

use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};

const AFTER_HELP: &str = "\
EXAMPLES:
  Is anything still changed anywhere?
      refloat settings list

  What would a load change on this server, and what does each setting stand at now?
      refloat settings show --to mysql://root@db1/

  Put back what a killed run left behind, on every server that the journal knows:
      refloat settings revert

  On one server only:
      refloat settings revert --to mysql://root@db1/

A setting is written to the journal before it is changed, so this works after kill -9 and after a
power cut. A server that was restarted meanwhile, or whose setting was changed by somebody else since,
is left alone and named.";

/// List and put back the server settings that runs have changed
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct SettingsArgs {
    #[command(subcommand)]
    command: SettingsCommand,
}

#[derive(Debug, Subcommand)]
enum SettingsCommand {
    /// List the changes that are still to be put back
    #[command(after_long_help = AFTER_HELP)]
    List(ListArgs),
    /// Show the settings of a server that matter for speed, and what they stand at
    #[command(after_long_help = AFTER_HELP)]
    Show(ServerArgs),
    /// Put back what runs have changed
    #[command(after_long_help = AFTER_HELP)]
    Revert(ServerArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print the result as JSON on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ServerArgs {
    /// Only this server; without it, every server that the journal knows
    #[arg(long = "to", value_name = "URL", help_heading = "Connection")]
    to: Option<String>,

    #[command(flatten)]
    options: ConnectArgs,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: SettingsArgs, _context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        SettingsCommand::List(_) | SettingsCommand::Show(_) | SettingsCommand::Revert(_) => {
            Err(ProgramError::new(Exit::Failed, "settings is not in this build yet").into())
        }
    }
}
