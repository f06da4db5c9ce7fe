//! `refloat completions`: prints completion scripts for shells.

use std::io::Write as _;

use clap::Args;
use clap_complete::Shell;

use crate::exit::Exit;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
  For bash, for this user:
      refloat completions bash \\
          > ~/.local/share/bash-completion/completions/refloat

  For fish:
      refloat completions fish > ~/.config/fish/completions/refloat.fish")]
pub struct CompletionsArgs {
    /// Shell that will read the script
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, mut command: clap::Command) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "refloat", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(Exit::Done)
}
