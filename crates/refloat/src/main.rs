//! The refloat program: flags in, exit code out. Everything that touches data is in the library
//! crates.

mod as_text;
mod cli;
mod commands;
mod connect;
mod context;
mod dumps;
mod exit;
mod record;
mod repo;
mod shell;
mod sizes;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
