//! `refloat verify`: checks whether two servers or dumps hold the same.

mod args;

pub use args::VerifyArgs;

use std::io::Write as _;

use refloat_report::summary;
use refloat_run::events::RunResult;
use refloat_verify::VerifyFailure;

use crate::context::Context;
use crate::exit::{self, Exit};
use crate::record::record;
use crate::watch::Watch;

pub fn run(args: &VerifyArgs, context: &Context) -> anyhow::Result<Exit> {
    let options = args.options(context)?;
    let (watch, run) = Watch::begin("verify", args.output.show(), context)?;
    let (outcome, error) = match refloat_verify::verify(&options, &run) {
        Ok(outcome) => (outcome, None),
        Err(VerifyFailure { error, outcome }) => (*outcome, Some(anyhow::Error::new(error))),
    };
    let result = match &error {
        Some(error) => exit::result_of(error),
        None if outcome.same => RunResult::Done,
        None => RunResult::ProofFailed,
    };
    watch.quiet();
    let record_of = serde_json::to_value(&outcome).unwrap_or_default();
    record(&run, outcome.seconds, record_of, result, error.as_ref());
    watch.stop();
    // What was found before it stopped is still worth showing.
    if !args.output.json && (error.is_none() || outcome.differs()) {
        write!(std::io::stdout(), "{}", summary::verify(&outcome))?;
    }
    if let Some(error) = &error {
        exit::report(error, context);
    }
    Ok(exit::of_result(result))
}
