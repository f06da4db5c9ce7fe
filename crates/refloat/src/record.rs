//! Records the end of a run and announces it.

use std::io::Write as _;

use anyhow::Context as _;
use refloat_run::events::{Outcome, RunResult};
use refloat_run::{Event, Run, RunDir};
use serde::Serialize;

use crate::commands::load::OutputArgs;
use crate::context::Context;
use crate::exit::{self, Exit};
use crate::watch::Watch;

/// Announces the end to all listeners and writes it to the run's folder. The run is over, so a
/// record that cannot be written is reported but changes nothing.
pub fn record(
    run: &Run,
    seconds: f64,
    summary: serde_json::Value,
    result: RunResult,
    error: Option<&anyhow::Error>,
) {
    let last = Outcome {
        result,
        seconds,
        message: error.map(|error| exit::redact(&exit::chain_text(error))),
        hints: error.map(exit::hints_of).unwrap_or_default(),
        summary,
    };
    if let Err(error) = run.dir.write(RunDir::OUTCOME, &last) {
        run.events.warn(format!(
            "the outcome of the run could not be recorded: {error}"
        ));
    }
    run.events.emit(Event::Finished { outcome: last });
}

/// Prints a plan: as JSON if that is asked for, otherwise as `text` makes it.
pub fn print_plan<P: Serialize>(
    plan: &P,
    output: &OutputArgs,
    text: impl FnOnce(&P) -> String,
) -> anyhow::Result<Exit> {
    let text = if output.json {
        serde_json::to_string_pretty(plan).context("cannot write the plan")?
    } else {
        text(plan)
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(Exit::Done)
}

/// Ends a run that has changed no settings: records it, and prints its error, or its summary as
/// `text` makes it.
pub fn conclude<O: Serialize>(
    (watch, run): (Watch, &Run),
    (outcome, seconds, error): (&O, f64, Option<&anyhow::Error>),
    (output, context): (&OutputArgs, &Context),
    text: impl FnOnce(&O) -> String,
) -> anyhow::Result<Exit> {
    let result = error.map_or(RunResult::Done, exit::result_of);
    watch.quiet();
    let record_of = serde_json::to_value(outcome).unwrap_or_default();
    record(run, seconds, record_of, result, error);
    watch.stop();
    if let Some(error) = error {
        exit::report(error, context);
    } else if !output.json {
        write!(std::io::stdout(), "{}", text(outcome))?;
    }
    Ok(exit::of_result(result))
}
