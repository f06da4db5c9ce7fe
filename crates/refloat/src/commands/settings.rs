//! `refloat settings`: shows which settings were changed on which server, and puts them back.

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use refloat_run::own_tables::{JOURNAL_SCHEMA, JOURNAL_TABLE};
use refloat_run::settings::{
    self, Durability, Grants, Hints, OpenRun, RevertReport, RevertResult, ServerMark, SettingsError,
};
use refloat_run::{Events, RunDir};
use refloat_wire::Connection;
use serde_json::json;

use crate::connect::{ConnectArgs, TargetArgs};
use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};

const AFTER_HELP: &str = "\
EXAMPLES:
  Is anything still changed anywhere?
      refloat settings list

  What would a load change on this server, and what are the current values?
      refloat settings show --to mysql://root@db1/

  Which servers still have settings to put back?
      refloat settings revert

  Put back what a killed run left behind on one of them:
      refloat settings revert --to mysql://root@db1/

A setting is written to the journal before it is changed, so this works after kill -9 and after a \
power cut. A server that was restarted meanwhile, or whose setting was changed by somebody else since, \
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
    /// Show the settings of a server that matter for speed, and their current values
    #[command(after_long_help = AFTER_HELP)]
    Show(ShowArgs),
    /// Put back what runs have changed
    #[command(after_long_help = AFTER_HELP)]
    Revert(ServerArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Read this server's own journal too, which also knows runs that other machines started
    #[arg(long = "to", value_name = "URL", help_heading = "Connection")]
    to: Option<String>,

    #[command(flatten)]
    options: ConnectArgs,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Args)]
struct ServerArgs {
    /// Put back changes of runs on other machines too
    ///
    /// Whether such a run is still working cannot be seen from here: make sure that it is not.
    #[arg(long)]
    force: bool,

    /// The server; without it, the servers in the journal are listed
    #[arg(long = "to", value_name = "URL", help_heading = "Connection")]
    to: Option<String>,

    #[command(flatten)]
    options: ConnectArgs,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: SettingsArgs, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        SettingsCommand::List(args) => list(&args, context),
        SettingsCommand::Show(args) => show(&args, context),
        SettingsCommand::Revert(args) => revert(&args, context),
    }
}

/// Lists the changes that the journals of this machine still hold, and those of one server if it is
/// named.
fn list(args: &ListArgs, context: &Context) -> anyhow::Result<Exit> {
    let (mut open, damaged) = settings::list_readable(context.state_dir())
        .context("cannot read the journals of settings")?;
    warn_of_damaged(&damaged, context);
    if let Some(url) = &args.to {
        let mut conn = connect(url, &args.options, context)?;
        let server = mark(&conn);
        open.retain(|run| run.journal.server.same_server(&server));
        for run in
            settings::list_on_server(&mut conn).context("cannot read the server's own journal")?
        {
            if !open
                .iter()
                .any(|known| known.journal.run == run.journal.run)
            {
                open.push(run);
            }
        }
        if open.is_empty() {
            sees_journal(&mut conn)?;
        }
    }
    print_list(&open, &damaged, args.json)?;
    Ok(if open.is_empty() && damaged.is_empty() {
        Exit::Done
    } else {
        Exit::SettingsPending
    })
}

/// Warns once about each change that is not put back or cannot be read.
fn warn_of(errors: &[SettingsError], context: &Context) {
    let mut printed = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !printed.contains(&text) {
            exit::print_line("warning", &text, context.colour());
            printed.push(text);
        }
    }
}

/// The same for unreadable journals, with a hint.
fn warn_of_damaged(damaged: &[SettingsError], context: &Context) {
    warn_of(damaged, context);
    if !damaged.is_empty() {
        exit::print_line("hint", settings::DAMAGED, context.colour());
    }
}

fn texts(errors: &[SettingsError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn print_list(open: &[OpenRun], damaged: &[SettingsError], json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        let runs: Vec<_> = open
            .iter()
            .map(|run| json!({ "alive": run.alive, "journal": run.journal }))
            .collect();
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&json!({
                "open": runs,
                "damaged": texts(damaged),
            }))?
        )?;
        return Ok(());
    }
    if open.is_empty() && damaged.is_empty() {
        writeln!(out, "no setting is left to be put back")?;
    }
    for run in open {
        let journal = &run.journal;
        let state = match run.alive {
            Some(true) => "still working: it puts them back itself",
            Some(false) => "ended without putting them back",
            None => "ran on another machine",
        };
        writeln!(
            out,
            "{}: run {} of {}, {state}",
            journal.server.peer, journal.run, journal.created
        )?;
        for change in &journal.changes {
            writeln!(
                out,
                "  {}: {} -> {}  ({})",
                change.name, change.old, change.new, change.reason
            )?;
        }
    }
    Ok(())
}

/// Shows what a load would change on this server at each level, and what only a restart could
/// change.
fn show(args: &ShowArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut conn = connect(&args.target.to, &args.target.options, context)?;
    let hints = Hints::default();
    let plan = |conn: &mut Connection, level| {
        settings::plan(conn, level, &hints).context("cannot read the server's settings")
    };
    let relaxed = plan(&mut conn, Durability::Relaxed)?;
    let disposable = plan(&mut conn, Durability::Disposable)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&json!({ "relaxed": relaxed, "disposable": disposable }))?
        )?;
        return Ok(Exit::Done);
    }
    for plan in [&relaxed, &disposable] {
        writeln!(out, "with --durability {}:", plan.durability)?;
        if plan.changes.is_empty() {
            writeln!(out, "  nothing would be changed")?;
        }
        for change in &plan.changes {
            writeln!(
                out,
                "  {}: {} -> {}  ({})",
                change.name, change.old, change.new, change.reason
            )?;
        }
        for skipped in &plan.skipped {
            writeln!(out, "  {}: left alone: {}", skipped.name, skipped.reason)?;
        }
    }
    if !relaxed.advice.is_empty() {
        writeln!(out, "what you could change:")?;
    }
    for advice in &relaxed.advice {
        let how = if advice.restart {
            ", with a restart"
        } else {
            ""
        };
        writeln!(
            out,
            "  {}: {} -> {}{how}  ({}; {})",
            advice.name, advice.now, advice.better, advice.reason, advice.gain
        )?;
    }
    Ok(Exit::Done)
}

/// Puts back what a server's own journal and the journals of this machine hold.
fn revert(args: &ServerArgs, context: &Context) -> anyhow::Result<Exit> {
    let (open, damaged) = settings::list_readable(context.state_dir())
        .context("cannot read the journals of settings")?;
    let Some(url) = &args.to else {
        warn_of_damaged(&damaged, context);
        if open.is_empty() {
            print_reports(&[], &damaged, args.json)?;
            return Ok(if damaged.is_empty() {
                Exit::Done
            } else {
                Exit::SettingsPending
            });
        }
        let mut peers: Vec<&str> = open
            .iter()
            .map(|run| run.journal.server.peer.as_str())
            .collect();
        peers.sort_unstable();
        peers.dedup();
        return Err(ProgramError::new(
            Exit::SettingsPending,
            format!("settings are still changed on: {}", peers.join(", ")),
        )
        .hint("Name the server, one at a time: refloat settings revert --to URL")
        .into());
    };
    let mut conn = connect(url, &args.options, context)?;
    let server = mark(&conn);
    let events = Events::new();
    let (mut reports, mut refused) =
        settings::revert_on_server(&mut conn, Some(context.state_dir()), &events, args.force)
            .context("cannot put back what the server's own journal says")?;
    for run in open
        .iter()
        .filter(|run| run.journal.server.same_server(&server))
    {
        if reports.iter().any(|report| report.run == run.journal.run) {
            continue;
        }
        let dir = RunDir::open(context.state_dir(), &run.journal.run)?;
        match settings::revert_run(&dir, &mut conn, &events, args.force) {
            Ok(report) => reports.extend(report),
            Err(error) => refused.push(error),
        }
    }
    if reports.is_empty() && refused.is_empty() && damaged.is_empty() {
        sees_journal(&mut conn)?;
    }
    warn_of(&refused, context);
    warn_of_damaged(&damaged, context);
    refused.extend(damaged);
    print_reports(&reports, &refused, args.json)?;
    let complete = refused.is_empty() && reports.iter().all(|report| report.complete);
    Ok(if complete {
        Exit::Done
    } else {
        Exit::SettingsPending
    })
}

/// Refuses to report that nothing is left if the account could not see the journal.
fn sees_journal(conn: &mut Connection) -> anyhow::Result<()> {
    let grants = Grants::read(conn).context("cannot read the account's privileges")?;
    if grants.on_table("SELECT", JOURNAL_SCHEMA, JOURNAL_TABLE) {
        return Ok(());
    }
    Err(ProgramError::new(
        Exit::Refused,
        format!("the account may not read {JOURNAL_SCHEMA}.{JOURNAL_TABLE}, so it cannot see whether settings are left to be put back"),
    )
    .hint(format!(
        "Give it that right (GRANT SELECT ON {JOURNAL_SCHEMA}.* TO …), or use an account that has it."
    ))
    .into())
}

fn print_reports(
    reports: &[RevertReport],
    refused: &[SettingsError],
    json: bool,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&json!({
                "reverted": reports,
                "refused": texts(refused),
            }))?
        )?;
        return Ok(());
    }
    if reports.is_empty() && refused.is_empty() {
        writeln!(out, "no setting is left to be put back")?;
    }
    for report in reports {
        let restarted = if report.restarted {
            ", which was restarted meanwhile"
        } else {
            ""
        };
        writeln!(out, "{}{restarted}: run {}", report.server, report.run)?;
        for setting in &report.settings {
            let what = match &setting.result {
                RevertResult::Reverted => "put back".to_owned(),
                RevertResult::AlreadyBack => "was back already".to_owned(),
                RevertResult::GoneWithRestart => "gone with the restart".to_owned(),
                RevertResult::ChangedBySomeoneElse => format!(
                    "left alone: somebody has changed it since ({} before the run)",
                    setting.original
                ),
                RevertResult::Failed { reason } => format!("FAILED: {reason}"),
            };
            writeln!(out, "  {}: {}  {what}", setting.name, setting.now)?;
        }
        if let Some(reason) = &report.row_left {
            writeln!(
                out,
                "  the settings are back, but their row in {JOURNAL_SCHEMA}.{JOURNAL_TABLE} stays: {reason}"
            )?;
        }
    }
    Ok(())
}

fn connect(url: &str, options: &ConnectArgs, context: &Context) -> anyhow::Result<Connection> {
    let target = options.resolve(url, context)?;
    Connection::connect(&target).with_context(|| format!("cannot connect to {}", target.describe()))
}

/// Identifies the connected server for comparison with journals. Its start time is left out.
fn mark(conn: &Connection) -> ServerMark {
    let identity = conn.identity();
    ServerMark {
        peer: conn.server().peer.clone(),
        uuid: identity.uuid.clone(),
        hostname: identity.hostname.clone(),
        port: identity.port,
        datadir: identity.datadir.clone(),
        version: identity.version.clone(),
        started: 0,
    }
}
