//! Records the end of a run and announces it.

use refloat_run::events::{Outcome, RunResult};
use refloat_run::{Event, Run, RunDir};

use crate::exit;

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
