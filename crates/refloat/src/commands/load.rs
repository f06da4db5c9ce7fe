//! `refloat load`: loads any logical dump into a real server.

mod args;
mod galera;
mod options;
mod verified;

pub use args::{DataArgs, FitArgs, HowArgs, LoadArgs, OutputArgs, TroubleArgs, Verify, WhatArgs};
pub use galera::{GaleraArgs, by_events, by_lines};
pub use options::{apply, of_parts as restore_options, source_of};

use std::io::Write as _;

use anyhow::Context as _;
use refloat_copy::CopyError;
use refloat_load::{LoadError, LoadFailure, LoadOptions, LoadOutcome};
use refloat_report::summary;
use refloat_run::events::RunResult;
use refloat_run::{Cancel, settings};

use crate::connect::refuse_password_in_url;
use crate::context::Context;
use crate::dumps;
use crate::exit::{self, Exit};
use crate::record::record;
use crate::watch::Watch;

/// Hint for a load that did not finish.
const RESUMABLE: &str = "What is committed is marked on the target: the same command resumes from there; --restart --replace starts over.";

/// Hint for a server that was lost while its redo log was off.
const NO_REDO_LOG: &str = "The server cannot be reached, and its redo log was off (--durability disposable): if it has ended, nothing on it can be \
    recovered. Remove its data directory, initialise a new data directory, and load again; there is nothing to resume.";

pub fn run(args: &LoadArgs, context: &Context) -> anyhow::Result<Exit> {
    // A URL given as the dump is not a file, and would be recorded verbatim with the run.
    let source = args.source.to_string_lossy();
    if source.contains("://") {
        refuse_password_in_url(&source)?;
    }
    let target = args.target.resolve(context)?;
    let source = dumps::path_of(&args.source, args.repo.given().as_ref(), context)?;
    let mut options = options::from_args(args, &source, target);
    let by_digest = args.verify == Verify::Digest;
    if by_digest {
        verified::refuse(args, &source)?;
    }
    if args.what.plan {
        args.galera
            .enter(&mut options, &Cancel::new(), &by_lines(context))?;
        return plan(&options, args.output.json);
    }
    let show = args.output.show();
    let (watch, run) = Watch::begin("load", show, context)?;
    let entered = args
        .galera
        .enter(&mut options, &run.cancel, &galera::by_events(&run.events));
    let (mut outcome, mut error) = match entered.map(|()| refloat_load::load(&options, &run)) {
        Ok(Ok(outcome)) => (outcome, None),
        Ok(Err(LoadFailure { error, outcome })) => (*outcome, Some(anyhow::Error::new(error))),
        Err(error) => (LoadOutcome::default(), Some(error)),
    };
    let mut compared = None;
    if by_digest && error.is_none() {
        compared = Some(match verified::compare(&options, &run) {
            Ok(found) => found,
            Err((stopped, found)) => {
                error = Some(stopped);
                *found
            }
        });
    }
    outcome.proven &= compared.as_ref().is_none_or(|found| found.same);
    let result = proof_of(&outcome, error.as_ref());
    watch.quiet();
    let mut summary = outcome.to_json();
    if let Some(found) = &compared {
        summary["verified"] = serde_json::to_value(found).unwrap_or_default();
    }
    record(&run, outcome.seconds, summary, result, error.as_ref());
    watch.stop();
    // If no server was reached, the error says everything.
    if !args.output.json && result != RunResult::Refused && !outcome.server.is_empty() {
        write!(
            std::io::stdout(),
            "{}",
            summary::load(&outcome, compared.as_ref())
        )?;
        if let Some(found) = &compared {
            write!(std::io::stdout(), "{}", summary::verify(found))?;
        }
    }
    after_load(&outcome, error.as_ref(), context);
    Ok(exit::of_result(result))
}

/// Reports why the load stopped, and what to do about it.
pub fn after_load(outcome: &LoadOutcome, error: Option<&anyhow::Error>, context: &Context) {
    if let Some(error) = error {
        exit::report(error, context);
    }
    for hint in hints_of_failures(outcome, error) {
        exit::print_line("hint", &hint, context.colour());
    }
    if lost_without_redo_log(outcome, error, context) {
        return exit::print_line("hint", NO_REDO_LOG, context.colour());
    }
    if outcome.resumable {
        exit::print_line("hint", RESUMABLE, context.colour());
    }
    if !outcome.settings_left.is_empty() {
        exit::print_line("hint", exit::SETTINGS_LEFT, context.colour());
    }
}

/// Whether the server is unreachable, and a run of this machine left its redo log off.
fn lost_without_redo_log(
    outcome: &LoadOutcome,
    error: Option<&anyhow::Error>,
    context: &Context,
) -> bool {
    let lost = load_error(error).is_some_and(|error| {
        matches!(
            error,
            LoadError::Server { source, .. } | LoadError::Index { source, .. } if source.is_lost_connection()
        )
    });
    let left = |run: &settings::OpenRun| {
        run.journal.server.peer == outcome.target && run.journal.redo_log_off()
    };
    lost && settings::list_readable(context.state_dir())
        .is_ok_and(|(runs, _)| runs.iter().any(left))
}

/// The error that stopped the load, also within a copy.
fn load_error(error: Option<&anyhow::Error>) -> Option<&LoadError> {
    error
        .into_iter()
        .flat_map(anyhow::Error::chain)
        .find_map(|cause| match cause.downcast_ref::<CopyError>() {
            Some(CopyError::Target(load)) => Some(load),
            _ => cause.downcast_ref::<LoadError>(),
        })
}

/// Hints for the statements that failed under `--on-error continue`, each once.
fn hints_of_failures(outcome: &LoadOutcome, error: Option<&anyhow::Error>) -> Vec<String> {
    if !matches!(load_error(error), Some(LoadError::Failures { .. })) {
        return Vec::new();
    }
    let hints = outcome.failures.first.iter().filter_map(exit::failure_hint);
    hints
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn plan(options: &LoadOptions, json: bool) -> anyhow::Result<Exit> {
    let plan = refloat_load::plan(options)?;
    let text = if json {
        serde_json::to_string_pretty(&plan).context("cannot write the plan")?
    } else {
        summary::load_plan(&plan)
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(Exit::Done)
}

/// The result of the run, in one word. Settings that are left changed take precedence: they affect
/// people who did not start this run.
pub fn proof_of(outcome: &LoadOutcome, error: Option<&anyhow::Error>) -> RunResult {
    if !outcome.settings_left.is_empty() {
        return RunResult::SettingsLeft;
    }
    match error {
        Some(error) => exit::result_of(error),
        None if outcome.proven => RunResult::Done,
        None => RunResult::ProofFailed,
    }
}
