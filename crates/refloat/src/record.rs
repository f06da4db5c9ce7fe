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

/// Prints a plan: as JSON if requested, otherwise as `text` formats it.
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

/// How a run ended.
pub struct End<'a, O> {
    /// What was done.
    pub outcome: &'a O,
    /// Wall time.
    pub seconds: f64,
    /// Why it failed.
    pub error: Option<&'a anyhow::Error>,
    /// Settings of a server that could not be put back.
    pub settings_left: &'a [String],
    /// Whether the summary goes to stderr because stdout is used for something else.
    pub beside: bool,
}

impl<'a, O> End<'a, O> {
    /// The end of a run that changes no settings and has stdout to itself.
    pub fn new(outcome: &'a O, seconds: f64, error: Option<&'a anyhow::Error>) -> Self {
        Self {
            outcome,
            seconds,
            error,
            settings_left: &[],
            beside: false,
        }
    }
}

/// Ends a run: records it, and prints its error, or its summary as `text` formats it.
pub fn conclude<O: Serialize>(
    (watch, run): (Watch, &Run),
    end: &End<'_, O>,
    (output, context): (&OutputArgs, &Context),
    text: impl FnOnce(&O) -> String,
) -> anyhow::Result<Exit> {
    let End {
        outcome,
        seconds,
        error,
        settings_left,
        beside,
    } = *end;
    let result = match error {
        _ if !settings_left.is_empty() => RunResult::SettingsLeft,
        Some(error) => exit::result_of(error),
        None => RunResult::Done,
    };
    watch.quiet();
    let record_of = serde_json::to_value(outcome).unwrap_or_default();
    record(run, seconds, record_of, result, error);
    watch.stop();
    if let Some(error) = error {
        exit::report(error, context);
    } else if beside {
        // The exit code reports success; a closed terminal does not change that.
        let _ = write!(std::io::stderr(), "{}", text(outcome));
    } else if !output.json {
        write!(std::io::stdout(), "{}", text(outcome))?;
    }
    if !settings_left.is_empty() {
        exit::print_line("hint", exit::SETTINGS_LEFT, context.colour());
    }
    Ok(exit::of_result(result))
}
