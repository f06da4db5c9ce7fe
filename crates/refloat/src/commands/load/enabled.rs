//! `refloat load` with its engine.

use std::io::Write as _;

use anyhow::Context as _;
use refloat_logical::load::{self, LoadError, LoadFailure, LoadOptions, LoadOutcome, Surroundings};
use refloat_report::summary;
use refloat_run::events::RunResult;

use super::args::LoadArgs;
use super::options;
use crate::context::Context;
use crate::exit::{self, Exit};
use crate::watch::{Show, Watch};

pub fn run(args: &LoadArgs, context: &Context) -> anyhow::Result<Exit> {
    let target = args.target.resolve(context)?;
    let options = options::from_args(args, target);
    let show = if args.output.json {
        Show::Json
    } else if args.output.no_progress {
        Show::Lines
    } else {
        Show::Best
    };
    let watch = Watch::start(show, context)?;
    let surroundings = Surroundings {
        state_dir: context.state_dir().to_owned(),
        cancel: watch.cancel.clone(),
        progress: watch.progress.clone(),
        events: watch.events.clone(),
    };
    if args.what.plan {
        let plan = load::plan(&options, &surroundings)?;
        watch.stop();
        print_plan(&plan, args.output.json)?;
        return Ok(Exit::Done);
    }
    let result = load::load(&options, &surroundings);
    watch.stop();
    report(&options, result, args.output.json, context)
}

fn print_plan(plan: &load::LoadPlan, json: bool) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string_pretty(plan).context("cannot write the plan")?
    } else {
        plan.to_string()
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(())
}

/// Prints the summary, and the error below it when there is one. With `--json` the summary was the last event.
fn report(
    _options: &LoadOptions,
    result: Result<LoadOutcome, LoadFailure>,
    json: bool,
    context: &Context,
) -> anyhow::Result<Exit> {
    let (outcome, error) = match result {
        Ok(outcome) => (outcome, None),
        Err(failure) => (*failure.outcome, Some(failure.error)),
    };
    let refused = matches!(error, Some(LoadError::Refused(_)));
    if !json && !refused {
        write!(std::io::stdout(), "{}", summary::load(&outcome))?;
    }
    let exit = match error {
        Some(error) => exit::report(&error.into(), context),
        None => exit::of_result(if outcome.proven {
            RunResult::Done
        } else {
            RunResult::ProofFailed
        }),
    };
    // Settings that are left behind concern people who did not start this run: they go before everything else.
    if outcome.settings_left.is_empty() {
        return Ok(exit);
    }
    exit::print_line(
        "hint",
        "Settings of the server are still changed. Put them back with `refloat settings revert`.",
        context.colour(),
    );
    Ok(Exit::SettingsPending)
}
