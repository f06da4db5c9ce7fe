//! Copying one server into another: a dump and a load joined by a stream, with nothing on disk.
//!
//! [`copy`] is the entry point. The source side is a dump whose rows go into a `RowStream` instead
//! of files. The target side is a load that takes definitions from memory and rows from that
//! stream. `docs/design/copy.md` explains the design.

mod error;
mod options;
mod outcome;
mod relation;
mod source;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use refloat_run::cancel::CancelReason;
use refloat_run::{Cancel, Run};
use refloat_wire::ConnectOptions;

pub use error::{CopyError, CopyFailure};
pub use options::CopyOptions;
pub use outcome::{CopyOutcome, CopyPlan};

use refloat_read::catalog::DataPolicy;
use refloat_source::stream::RowStream;

use refloat_dump::DumpError;
use refloat_load::{LoadError, LoadFailure, LoadOutcome, OpenSource};
use refloat_verify::{Compared, Endpoint, Relation, ServerSide, VerifyFailure, VerifyOptions};
use source::{Source, SourceReport};

/// Copies a server.
///
/// # Errors
/// [`CopyFailure`] with the side that stopped, the reason, and what was done up to then. An `Ok`
/// outcome may still contain differences: see [`LoadOutcome::proven`](LoadOutcome::proven).
pub fn copy(options: &CopyOptions, run: &Run) -> Result<CopyOutcome, CopyFailure> {
    let options = &options.agreed();
    let mut outcome = CopyOutcome::default();
    if let Err(error) = refuse_related(options, &run.cancel) {
        outcome.load.run = run.dir.id().to_string();
        outcome.load.source = options.dump.read.source.describe();
        outcome.load.target = options.load.target.describe();
        return Err(CopyFailure::new(error, outcome));
    }
    // Stops the source when the run is cancelled, and when the target is finished with it.
    let reading = Cancel::new();
    let both = {
        let (run, reading) = (run.cancel.clone(), reading.clone());
        move || reading.cancel(run.reason().unwrap_or_else(stopped))
    };
    let _both = run.cancel.on_cancel(both);
    let source_result: Mutex<Result<SourceReport, DumpError>> =
        Mutex::new(Ok(SourceReport::default()));
    let set_source_result =
        |result| *source_result.lock().unwrap_or_else(PoisonError::into_inner) = result;
    let result = std::thread::scope(|scope| {
        let mut open_stream: Option<Arc<RowStream>> = None;
        let result = refloat_load::load_from(&options.load, run, || {
            let mut source = match Source::open(options, run, &reading) {
                Ok(source) => source,
                Err(error) => {
                    set_source_result(Err(error));
                    return Err(LoadError::SourceEnded);
                }
            };
            outcome.source_server.clone_from(&source.server);
            outcome.notes.extend_from_slice(source.notes());
            let (layout, stream) = source.layout(options);
            open_stream = Some(Arc::clone(&stream));
            let (set_source_result, reading) = (&set_source_result, &reading);
            scope.spawn(move || {
                let report = catch_unwind(AssertUnwindSafe(|| {
                    source.feed(options, run, reading, &stream)
                }));
                let report = report.unwrap_or_else(|_panic| Err(DumpError::defect()));
                let whole = report.is_ok();
                set_source_result(report);
                // Before the stream ends: the target acts on the end as soon as it sees it.
                stream.end(whole);
            });
            Ok(OpenSource::Layout(Box::new(layout)))
        });
        if let Some(stream) = open_stream {
            stream.close();
            reading.cancel(stopped());
        }
        result
    });
    let source_result = source_result
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    finish(options, run, outcome, result, source_result)
}

/// Combines the results of both sides.
fn finish(
    options: &CopyOptions,
    run: &Run,
    mut outcome: CopyOutcome,
    result: Result<LoadOutcome, LoadFailure>,
    source_result: Result<SourceReport, DumpError>,
) -> Result<CopyOutcome, CopyFailure> {
    let (load, error) = match result {
        Ok(load) => (load, None),
        Err(failure) => (*failure.outcome, Some(failure.error)),
    };
    outcome.load = load;
    let mut kept = None;
    let source_error = match source_result {
        Ok(report) => {
            kept = report.kept;
            outcome.snapshot = report.snapshot;
            outcome.held_seconds = report.read.held.as_secs_f64();
            outcome.snapshot_cost = report.read.cost;
            outcome.notes.extend(report.notes);
            None
        }
        Err(error) => Some(error),
    };
    let error = match (error, source_error) {
        (None, _) => return compare(options, run, outcome, kept),
        (Some(_), _) if run.cancel.is_cancelled() => {
            CopyError::Target(LoadError::interrupted(&run.cancel))
        }
        (Some(LoadError::SourceEnded), Some(error)) => CopyError::Source {
            server: options.dump.read.source.describe(),
            source: error,
        },
        (Some(error), _) => CopyError::Target(error),
    };
    Err(CopyFailure::new(error, outcome))
}

/// Compares the copy row by row, if the options ask for it.
fn compare(
    options: &CopyOptions,
    run: &Run,
    mut outcome: CopyOutcome,
    kept: Option<Box<ServerSide>>,
) -> Result<CopyOutcome, CopyFailure> {
    let Some(kept) = kept else {
        return Ok(outcome);
    };
    if kept
        .plan
        .tables
        .iter()
        .flatten()
        .any(|table| table.policy == DataPolicy::Locked)
    {
        outcome.notes.push(
            "tables of engines without transactions are read again for the comparison, as they are by then: what is written to them meanwhile differs"
                .to_owned(),
        );
    }
    let endpoint = |server: &ConnectOptions| Endpoint::Server(Box::new(server.clone()));
    let mut asked = VerifyOptions::new(
        endpoint(&options.dump.read.source),
        endpoint(&options.load.target),
    );
    asked.threads = options.dump.read.threads;
    asked.databases.clone_from(&options.dump.read.databases);
    asked.tables.clone_from(&options.dump.read.tables);
    asked.exclude.clone_from(&options.dump.read.exclude);
    asked.no_history = options.dump.read.no_history;
    asked.compared = Compared::Rows;
    asked.relation = Relation::MadeOfFirst;
    match refloat_verify::verify_kept(kept, &asked, run) {
        Ok(found) => {
            outcome.load.proven &= found.same;
            outcome.verified = Some(found);
            Ok(outcome)
        }
        Err(VerifyFailure {
            error,
            outcome: found,
        }) => {
            outcome.load.proven = false;
            outcome.verified = Some(*found);
            Err(CopyFailure::new(CopyError::Verify(error), outcome))
        }
    }
}

/// The plan of a copy. Changes nothing.
///
/// # Errors
/// The reason that the copy would be refused, or an error of either server.
pub fn plan(options: &CopyOptions) -> Result<CopyPlan, CopyError> {
    let options = &options.agreed();
    let cancel = Cancel::new();
    refuse_related(options, &cancel)?;
    let of_source = |source| CopyError::Source {
        server: options.dump.read.source.describe(),
        source,
    };
    let mut source = Source::look(options, &cancel).map_err(of_source)?;
    let (server, notes) = (source.server.clone(), source.notes().to_vec());
    let (layout, _) = source.layout(options);
    let load =
        refloat_load::plan_from(&options.load, OpenSource::Layout(Box::new(layout)), &cancel)?;
    Ok(CopyPlan {
        source_server: server,
        notes,
        load,
    })
}

fn stopped() -> CancelReason {
    CancelReason::Failed("stopped".to_owned())
}

/// Runs [`relation::refuse_related`] on connections to both ends, before anything else.
fn refuse_related(options: &CopyOptions, cancel: &Cancel) -> Result<(), CopyError> {
    let mut source = source::connect(options, cancel).map_err(|source| CopyError::Source {
        server: options.dump.read.source.describe(),
        source,
    })?;
    let mut target = refloat_load::connect(&options.load, cancel)?;
    relation::refuse_related(&mut source, &mut target)
}
