//! The refloat program: flags in, exit code out. Everything that touches data lives in the rooms below.

mod cli;
mod commands;
mod connect;
mod context;
mod exit;
mod record;
mod shell;
mod sizes;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
