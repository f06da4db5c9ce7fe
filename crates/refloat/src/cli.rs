//! Defines the top-level command line, and leads from arguments to an exit code.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    backup, backups, binlog, cluster, completions, copy, dump, inspect, load, man, rebuild,
    restore, sandbox, serve_host, settings, sst, verify,
};
use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};

/// Examples under the top-level help page.
const AFTER_HELP: &str = "\
EXAMPLES:
  See what a load would do, touching nothing:
      refloat load shop.sql.gz --to mysql://root@db1/ --plan

  Load it, and relax the durability of a server that holds nothing else:
      refloat load shop.sql.gz --to mysql://root@db1/ --durability relaxed

  Try it first on a throw-away server on this machine:
      refloat sandbox start --server mariadb-11.8 --name try
      refloat load shop.sql.gz --to \"$(refloat sandbox env try --url)\"

  Dump a server into a folder, as of one moment:
      refloat dump --from mysql://root@db1/ --out /backup/db1

  Copy one server into another, with nothing stored in between:
      refloat copy --from mysql://root@db1/ --to mysql://root@db2/

  Compare that dump with the server:
      refloat verify /backup/db1 mysql://root@db1/

  Back up this machine's server, and restore it:
      refloat backup --from mysql://root@localhost/ --repo /backup/repo
      refloat restore latest --repo /backup/repo --to /var/lib/mysql --replace

  How is a Galera cluster doing, as seen by each of its nodes?
      refloat cluster status --cluster mysql://root@db1/

  Put back settings after a run that was killed:
      refloat settings list
      refloat settings revert --to mysql://root@db1/

EXIT CODES:
  0  done and proven
  1  failed
  2  usage: the command line was not understood
  3  refused by preflight: nothing was touched
  4  proof failed: the work was done but does not check out
  5  interrupted: no chunk is half done; run the same command again
  6  settings still to be put back: see `refloat settings list`

Passwords never go on the command line: use ~/.my.cnf, MYSQL_PWD or --ask-password.";

/// Gets a MySQL, MariaDB or Galera database afloat again.
///
/// Refloat loads logical dumps into real servers as fast as the server can take them, dumps servers
/// as fast as they can be read, and backs up and restores their files. It never loses a row, proves
/// that at the end, and puts back every server setting that it changed.
///
/// Run `refloat COMMAND --help` for the manual page of one command.
#[derive(Debug, Parser)]
#[command(
    name = "refloat",
    version,
    max_term_width = 100,
    after_long_help = AFTER_HELP,
    arg_required_else_help = true,
    disable_help_subcommand = true,
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands, in the order in which help lists them.
#[derive(Debug, Subcommand)]
enum Command {
    Load(Box<load::LoadArgs>),
    Inspect(Box<inspect::InspectArgs>),
    Dump(Box<dump::DumpArgs>),
    Copy(Box<copy::CopyArgs>),
    Verify(Box<verify::VerifyArgs>),
    Backup(Box<backup::BackupArgs>),
    Restore(Box<restore::RestoreArgs>),
    Rebuild(Box<rebuild::RebuildArgs>),
    Backups(backups::BackupsArgs),
    Binlog(binlog::BinlogArgs),
    Cluster(cluster::ClusterArgs),
    Settings(settings::SettingsArgs),
    Sandbox(sandbox::SandboxArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Man(man::ManArgs),
    #[command(hide = true)]
    ServeHost(serve_host::ServeHostArgs),
}

/// Parses the command line, runs the command and turns its result into an exit code.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(exit) = sst::called_by_a_server(&args) {
        return exit;
    }
    let args = help_as_flag(args);
    let parsed = command().try_get_matches_from(&args);
    let cli = match parsed.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => cli,
        Err(error) => return report_parse_error(&error, &args),
    };
    let context = Context::from_environment();
    match cli.run(&context) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error, &context).into(),
    }
}

impl Cli {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self.command {
            Command::Load(args) => load::run(&args, context),
            Command::Inspect(args) => inspect::run(&args, context),
            Command::Dump(args) => dump::run(&args, context),
            Command::Copy(args) => copy::run(&args, context),
            Command::Verify(args) => verify::run(&args, context),
            Command::Backup(args) => backup::run(&args, context),
            Command::Restore(args) => restore::run(&args, context),
            Command::Rebuild(args) => rebuild::run(&args, context),
            Command::ServeHost(args) => serve_host::run(&args, context),
            Command::Backups(args) => backups::run(&args, context),
            Command::Binlog(args) => binlog::run(&args, context),
            Command::Cluster(args) => cluster::run(&args, context),
            Command::Settings(args) => settings::run(args, context),
            Command::Sandbox(args) => sandbox::run(args, context),
            Command::Completions(args) => completions::run(&args, command()),
            Command::Man(args) => man::run(&args, command()),
        }
    }
}

/// The command tree. Texts below the options are broken into lines here; as whole paragraphs they
/// fit a terminal of any width.
pub fn command() -> clap::Command {
    with_paragraphs(Cli::command())
}

fn with_paragraphs(command: clap::Command) -> clap::Command {
    let text = command.get_after_long_help().map(ToString::to_string);
    let command = match text {
        Some(text) => command.after_long_help(paragraphs(&text)),
        None => command,
    };
    command.mut_subcommands(with_paragraphs)
}

/// Joins lines that continue a paragraph: those that begin, like the line before, at the margin.
fn paragraphs(text: &str) -> String {
    let at_margin = |line: &str| line.starts_with(|first: char| !first.is_whitespace());
    let mut joined = String::with_capacity(text.len());
    let mut continues = false;
    for line in text.lines() {
        if !joined.is_empty() {
            joined.push(if continues && at_margin(line) {
                ' '
            } else {
                '\n'
            });
        }
        joined.push_str(line);
        continues = at_margin(line);
    }
    joined
}

/// Rewrites `refloat help load` as `refloat load --help`.
fn help_as_flag(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// Prints help to stdout, and errors to stderr in the program's own format. Never repeats a
/// password given in an argument.
fn report_parse_error(error: &clap::Error, args: &[OsString]) -> ExitCode {
    let args = args.get(1..).unwrap_or_default();
    let wrong = match error.kind() {
        ErrorKind::DisplayHelp if is_host_flag(args) => {
            Some("-h prints help here, and does not name a host".to_owned())
        }
        ErrorKind::UnknownArgument => stock_flag(error)
            .map(|flag| format!("there is no {flag} here: servers are named by URLs")),
        _ => None,
    };
    if let Some(wrong) = wrong {
        let command = args.first().and_then(|word| word.to_str());
        let error = instead_of_flags(&wrong, command);
        return exit::report(&error.into(), &Context::from_environment()).into();
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that closes the pipe (`| head`) is not a failure.
            let _ = error.print();
            Exit::Done.into()
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Exit::Usage.into()
        }
        _ => {
            let text = exit::redact(&error.render().to_string());
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let text = text.replace("\n  tip: ", "\nhint: ");
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            exit::print_line("error", text.trim_end(), colour);
            Exit::Usage.into()
        }
    }
}

/// Whether `-h` is among other arguments. The stock clients take it for the host: a job ported from
/// them would print help and report success on every run.
fn is_host_flag(args: &[OsString]) -> bool {
    if args.iter().any(|arg| arg == "--help") {
        return false;
    }
    // A request for help is the words of a command and nothing else.
    let words = args.iter().take_while(|arg| is_word(arg)).count();
    args.len() != words + 1 || args[words] != "-h"
}

/// Whether an argument could be a command name, rather than a path, a URL or an option.
fn is_word(arg: &OsString) -> bool {
    arg.to_str().is_some_and(|arg| {
        arg.starts_with(|c: char| c.is_ascii_lowercase())
            && arg.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    })
}

/// The stock clients' option for the server or the user, if that is the argument clap did not know.
fn stock_flag(error: &clap::Error) -> Option<&str> {
    const FLAGS: [&str; 9] = [
        "-u",
        "--user",
        "-p",
        "--password",
        "-P",
        "--port",
        "-S",
        "--socket",
        "--host",
    ];
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    FLAGS.contains(&flag.as_str()).then_some(flag)
}

/// The error for a stock client's connection option, with what to write instead.
fn instead_of_flags(wrong: &str, command: Option<&str>) -> ProgramError {
    let hint = match command {
        Some("load" | "settings") => "Name the server with --to mysql://USER@HOST:PORT/.",
        Some("dump") => "Name the server with --from mysql://USER@HOST:PORT/.",
        Some("copy") => {
            "Name the servers with --from mysql://USER@HOST:PORT/ and --to mysql://USER@HOST:PORT/."
        }
        Some("verify") => "Name a server as mysql://USER@HOST:PORT/.",
        Some("cluster") => "Name a node with --cluster mysql://USER@HOST:PORT/.",
        _ => "",
    };
    let error = ProgramError::usage(wrong);
    let error = if hint.is_empty() {
        error
    } else {
        error.hint(hint).hint(
            "For a unix socket, append ?socket=PATH. The password comes from ~/.my.cnf, \
                MYSQL_PWD or --ask-password.",
        )
    };
    error.hint("--help prints the manual page of a command.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line is as full as the next one allows.
    #[test]
    fn texts_are_wrapped_once_on_a_narrow_terminal() {
        const COLUMNS: usize = 80;
        let mut left = vec![command()];
        let mut paragraphs = 0;
        while let Some(next) = left.pop() {
            left.extend(next.get_subcommands().cloned());
            let page = next.clone().term_width(COLUMNS).render_long_help();
            let page = page.to_string();
            let lines: Vec<&str> = page.lines().collect();
            for pair in lines.windows(2) {
                let at_margin = |line: &str| line.starts_with(|first: char| first.is_alphabetic());
                if !pair.iter().all(|line| at_margin(line)) {
                    continue;
                }
                paragraphs += 1;
                let word = pair[1].split(' ').next().unwrap_or_default();
                let joined = pair[0].chars().count() + 1 + word.chars().count();
                assert!(joined > COLUMNS, "{}: {pair:#?}", next.get_name());
            }
        }
        assert!(paragraphs > 100);
    }
}
