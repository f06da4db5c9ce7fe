//! `refloat copy`: copies one server into another, with nothing on disk in between.

mod args;

pub use args::CopyArgs;

use std::io::Write as _;

use anyhow::Context as _;
use refloat_copy::{CopyFailure, CopyOptions, CopyOutcome};
use refloat_report::summary;
use refloat_run::Cancel;
use refloat_run::events::RunResult;

use crate::commands::load::{after_load, by_events, by_lines, proof_of};
use crate::context::Context;
use crate::exit::{self, Exit};
use crate::record::record;
use crate::watch::Watch;

pub fn run(args: &CopyArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut options = args.options(context)?;
    if args.plan {
        args.galera
            .enter(&mut options.load, &Cancel::new(), &by_lines(context))?;
        return plan(&options, args.output.json);
    }
    let (watch, run) = Watch::begin("copy", args.output.show(), context)?;
    let say = by_events(&run.events);
    let entered = args.galera.enter(&mut options.load, &run.cancel, &say);
    let (outcome, error) = match entered.map(|()| refloat_copy::copy(&options, &run)) {
        Ok(Ok(outcome)) => (outcome, None),
        Ok(Err(CopyFailure { error, outcome })) => (*outcome, Some(anyhow::Error::new(error))),
        Err(error) => (CopyOutcome::default(), Some(error)),
    };
    let result = proof_of(&outcome.load, error.as_ref());
    watch.quiet();
    let record_of = serde_json::to_value(&outcome).unwrap_or_default();
    let seconds = outcome.load.seconds;
    record(&run, seconds, record_of, result, error.as_ref());
    watch.stop();
    if !args.output.json && result != RunResult::Refused && !outcome.load.server.is_empty() {
        write!(std::io::stdout(), "{}", summary::copy(&outcome))?;
        if let Some(found) = &outcome.verified {
            write!(std::io::stdout(), "{}", summary::verify(found))?;
        }
    }
    after_load(&outcome.load, error.as_ref(), context);
    Ok(exit::of_result(result))
}

fn plan(options: &CopyOptions, json: bool) -> anyhow::Result<Exit> {
    let plan = refloat_copy::plan(options)?;
    let text = if json {
        serde_json::to_string_pretty(&plan).context("cannot write the plan")?
    } else {
        summary::copy_plan(&plan)
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(Exit::Done)
}
