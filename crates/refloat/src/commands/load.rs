//! `refloat load`: any logical dump into a real server.

mod args;

pub use args::LoadArgs;

use crate::connect::refuse_password_in_url;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};

pub fn run(args: LoadArgs, _context: &Context) -> anyhow::Result<Exit> {
    refuse_password_in_url(&args.target.to)?;
    Err(ProgramError::new(Exit::Failed, "load is not in this build yet").into())
}
