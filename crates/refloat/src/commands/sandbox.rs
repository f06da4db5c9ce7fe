//! `refloat sandbox`: real throw-away servers on this machine.

use clap::Args;

use crate::context::Context;
use crate::exit::{Exit, ProgramError};

/// Start and stop real throw-away servers on this machine
#[derive(Debug, Args)]
pub struct SandboxArgs {}

pub fn run(_args: SandboxArgs, _context: &Context) -> anyhow::Result<Exit> {
    Err(ProgramError::new(Exit::Failed, "sandbox is not in this build yet").into())
}
