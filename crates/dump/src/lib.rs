//! Dumping a server into a folder or a repository from one consistent snapshot, with the manifest
//! written last.
//!
//! [`dump`] is the entry point. `refloat_read` opens the snapshot and cuts tables into ranges;
//! `work` reads the ranges into the files that `chunk` writes. `docs/format.md` describes the
//! folder, `docs/design/dump.md` the design.

mod accounts;
mod block;
mod chunk;
pub mod cost;
mod error;
mod json_types;
mod names;
mod options;
mod outcome;
mod record;
pub mod schema;
mod sql;
mod stored;
mod throttle;
pub mod work;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use refloat_run::progress::Phase;
use refloat_run::{Cancel, CancelReason, Event, Events, Progress, Run};
use refloat_store::{Compression, Folder, FolderError};
use refloat_wire::Connection;

pub use error::{DumpError, DumpFailure};
pub use options::{DumpFormat, DumpOptions, RowCompression};
pub use outcome::{DumpOutcome, FlowControl, HistoryLength, SnapshotCost, StoredDump};
pub use refloat_read::{Consistency, Kind};
pub use stored::{About, IntoRepository, KIND, ServerFacts, name_of};

use refloat_read::catalog::DataPolicy;
use refloat_read::moment::{self, Plan};
use refloat_read::snapshot::Snapshot;
use refloat_read::{ReadError, session};
use refloat_run::desync::Desync;
use refloat_run::kill_on_cancel;
use refloat_run::phases::Phases;
use refloat_source::manifest;
use refloat_source::manifest::MANIFEST;

use cost::Watcher;
use record::{complete, count, write_definitions};
use stored::Stored;
use throttle::Throttle;
use work::{Sink, TableWork, Work};

/// Assumed compression ratio: bytes of row text per byte of a compressed file.
const COMPRESSION_GUESS: u64 = 2;

/// Dumps a server into a folder or a repository.
///
/// # Errors
/// [`DumpFailure`] with the reason. A folder without a manifest is not a dump; a repository has no
/// backup of that label.
pub fn dump(options: &DumpOptions, run: &Run) -> Result<DumpOutcome, DumpFailure> {
    let started = Instant::now();
    let mut outcome = DumpOutcome {
        run: run.dir.id().to_string(),
        source: options.read.source.describe(),
        out: if options.to_stdout() {
            "standard output".to_owned()
        } else {
            options.out.display().to_string()
        },
        ..DumpOutcome::default()
    };
    let clock = Phases::new(&run.events, &run.progress);
    let result = run_dump(options, run, &mut outcome, &clock);
    outcome.phases = clock.end();
    outcome.seconds = started.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(outcome),
        Err(error) => Err(DumpFailure {
            // Ctrl-C kills connections. The errors that follow are not the reason for stopping.
            error: match error {
                DumpError::Read(ReadError::Server { .. }) if run.cancel.is_cancelled() => {
                    DumpError::interrupted(&run.cancel)
                }
                error => error,
            },
            outcome: Box::new(outcome),
        }),
    }
}

fn run_dump(
    options: &DumpOptions,
    run: &Run,
    outcome: &mut DumpOutcome,
    clock: &Phases,
) -> Result<(), DumpError> {
    clock.enter(Phase::Preflight);
    options.check_name()?;
    let mut control = session::connect(&options.read, &run.cancel)?;
    let _kill = kill_on_cancel(&run.cancel, &control);
    outcome.server = format!(
        "{} {}",
        control.server().vendor,
        control.server().version_string
    );
    let mut desync = Desync::new(run);
    // Caught, so that the setting is put back after a panic too.
    let result = catch_unwind(AssertUnwindSafe(|| {
        if options.desync {
            desync.begin(run, &mut control)?;
        }
        with_server(options, run, outcome, clock, &mut control)
    }));
    if outcome.complete {
        desync.catch_up(run, &mut control);
    }
    let (left, back) = desync.end(run, || session::another(&control, &options.read));
    outcome.settings_left = left;
    if let Err(error) = back {
        // The dump is still good. Only warn about what is left to do.
        let cause = std::error::Error::source(&error);
        let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        run.events.warn(format!(
            "a setting of the server was not put back: {error}{cause}"
        ));
    }
    result.unwrap_or_else(|_| Err(DumpError::defect()))?;
    run.progress.set_phase(Phase::Done);
    Ok(())
}

/// Everything between connecting and putting the setting back.
fn with_server(
    options: &DumpOptions,
    run: &Run,
    outcome: &mut DumpOutcome,
    clock: &Phases,
    control: &mut Connection,
) -> Result<(), DumpError> {
    cost::can_be_watched(control, options)?;
    let into = options.repository.as_ref();
    let begin = |into| Stored::begin(into, control, &run.events);
    let stored = into.map(begin).transpose()?;
    if let Some(stored) = &stored {
        outcome.out = stored.name.display().to_string();
    }
    let (mut snapshot, plan) = moment::moment(&options.read, run, control, true)?;
    if options.format == DumpFormat::Sql {
        let folder = options
            .out
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let packed = options.out_compression() != Compression::None;
        enough_room(
            options,
            &plan,
            folder.unwrap_or_else(|| Path::new(".")),
            packed,
        )?;
        announce(options, run, outcome, &plan);
        return sql::write(options, run, outcome, clock, (control, snapshot, plan));
    }
    let folder = match &stored {
        Some(stored) => stored.folder(),
        None => make_folder(options, &plan)?,
    };
    announce(options, run, outcome, &plan);
    let mut written = write_definitions(options, control, &folder, &plan)?;
    let tables = std::mem::take(&mut written.tables);
    let done = Arc::new(AtomicU64::new(0));
    let bytes = tables.iter().map(|of| of.table.bytes).sum();
    run.progress.set_source(Some(bytes), Arc::clone(&done));
    run.progress.set_tables_total(tables.len() as u64);
    clock.enter(Phase::Data);
    let reading = Reading {
        options,
        sink: Sink::Folder(&folder),
        cancel: &run.cancel,
        events: &run.events,
        progress: &run.progress,
        shown: &run.progress,
        done: &done,
    };
    let read = reading.read(&tables, &mut snapshot, control)?;
    (outcome.held_seconds, outcome.snapshot_cost) = (read.held.as_secs_f64(), read.cost);
    clock.enter(Phase::Proof);
    written.notes.extend(plan.notes);
    written
        .notes
        .extend(tables.iter().flat_map(TableWork::notes));
    written.notes.extend(snapshot.info.caveats());
    for note in &written.notes {
        run.events.warn(note.clone());
    }
    outcome.notes.clone_from(&written.notes);
    outcome.snapshot = snapshot.info.clone();
    let manifest = complete(written, tables, snapshot.info, control);
    count(&manifest, outcome);
    let text = manifest::write(&manifest).unwrap_or_default();
    folder.seal(MANIFEST, &text)?;
    if let Some(stored) = stored {
        outcome.stored = Some(stored.finish(&manifest, control.identity())?);
    }
    outcome.complete = true;
    Ok(())
}

/// Refuses a dump that, by the server's size estimates, will not fit on the disk.
fn enough_room(
    options: &DumpOptions,
    plan: &Plan,
    folder: &Path,
    packed: bool,
) -> Result<(), DumpError> {
    if options.read.no_data || options.to_stdout() {
        return Ok(());
    }
    let bytes: u64 = plan.tables.iter().flatten().map(|table| table.bytes).sum();
    let expected = if packed {
        bytes / COMPRESSION_GUESS
    } else {
        bytes
    };
    match refloat_run::machine::disk_available(folder) {
        Some(free) if free < expected => Err(DumpError::refused(
            format!(
                "{} has {} MiB free, and the dump will take about {} MiB",
                folder.display(),
                free >> 20,
                expected >> 20
            ),
            "Choose another place, or compress more with --compress zstd --level 9.",
        )),
        _ => Ok(()),
    }
}

/// Creates the folder and checks that the expected dump fits.
fn make_folder(options: &DumpOptions, plan: &Plan) -> Result<Folder, DumpError> {
    if options.to_stdout() {
        return Ok(Folder::stdout()?);
    }
    let folder = match Folder::create(&options.out) {
        Err(FolderError::NotEmpty(path)) => {
            return Err(DumpError::refused(
                format!("{} already exists and is not empty", path.display()),
                "Name a folder that does not exist yet: a dump never overwrites another.",
            ));
        }
        other => other?,
    };
    let packed = matches!(options.compression, RowCompression::Zstd { .. });
    enough_room(options, plan, &options.out, packed)?;
    Ok(folder)
}

fn announce(options: &DumpOptions, run: &Run, outcome: &DumpOutcome, plan: &Plan) {
    run.events.emit(Event::RunStarted {
        run: run.dir.id().clone(),
        command: "dump".to_owned(),
        source: outcome.source.clone(),
        target: outcome.out.clone(),
        plan: serde_json::json!({
            "server": outcome.server,
            "threads": options.read.threads,
            "databases": plan.databases.len(),
            "tables": plan.tables.iter().map(Vec::len).sum::<usize>(),
            "compression": options.compression,
        }),
    });
}

/// How to read the rows of a snapshot, and where to write them.
pub struct Reading<'a> {
    /// The options of the dump or copy.
    pub options: &'a DumpOptions,
    /// Destination of the rows.
    pub sink: Sink<'a>,
    /// Stops the reading early.
    pub cancel: &'a Cancel,
    /// Receives the events. A copy discards them.
    pub events: &'a Events,
    /// Receives the progress of the tables. A copy discards it, because there the target side
    /// reports how far each table is.
    pub progress: &'a Progress,
    /// The run's own progress, which shows what the snapshot costs the server.
    pub shown: &'a Progress,
    /// Bytes of rows read so far, by the server's estimate.
    pub done: &'a AtomicU64,
}

/// What it took to read a snapshot.
#[derive(Default)]
pub struct Read {
    /// Time for which throttling held readers back, summed over all readers.
    pub held: Duration,
    /// What the snapshot cost the server.
    pub cost: SnapshotCost,
}

impl Reading<'_> {
    /// Reads all rows and checks that no definition changed meanwhile.
    ///
    /// # Errors
    /// Reader errors, and [`DumpError::Given`] when the snapshot exceeds a cost limit.
    pub fn read(
        &self,
        tables: &[TableWork],
        snapshot: &mut Snapshot,
        control: &mut Connection,
    ) -> Result<Read, DumpError> {
        let options = self.options;
        let checker = Mutex::new(again(control, options)?);
        // Stops the readers of this snapshot. Ctrl-C triggers it too.
        let stop = Cancel::new();
        let also = |hard: bool| {
            let stop = stop.clone();
            let reason = || CancelReason::Failed("stopped".to_owned());
            move || {
                if hard {
                    stop.cancel_hard(reason());
                } else {
                    stop.cancel(reason());
                }
            }
        };
        let _linked = (
            self.cancel.on_cancel(also(false)),
            self.cancel.on_hard(also(true)),
        );
        let running = Arc::default();
        let opened_at = snapshot.opened_at;
        let watcher = Watcher::begin(control, options, opened_at, self.shown, &running, &stop)?;
        let throttle = Throttle::new(
            options.max_rate,
            options.max_running,
            options.read.threads,
            running,
        );
        let work = Work {
            options,
            sink: self.sink,
            cancel: &stop,
            events: self.events,
            progress: self.progress,
            done: self.done,
            throttle: &throttle,
            checker: &checker,
            tables,
        };
        let read = read_rows(options, &work, snapshot, control);
        let (cost, limit_error) = watcher.end(read.is_ok());
        if let Err(error) = read {
            // The limit that stopped the readers says more than the errors they ended with.
            return Err(match limit_error {
                _ if self.cancel.is_cancelled() => DumpError::interrupted(self.cancel),
                Some(limit_error) => limit_error,
                None => error,
            });
        }
        // The transactions that read the tables are still open, and their metadata locks prevent
        // any exchange of tables. So each name means now what it meant when it was read.
        let read = tables.iter().map(|of| &of.table);
        let read = read.filter(|_| !options.read.no_data);
        snapshot.identities.unchanged(control, read)?;
        if snapshot.ddl_blocked {
            // The lock dies with its connection, and without it definitions were unprotected.
            control.ping().map_err(|error| {
                DumpError::server(
                    "holding the lock on definitions until all rows were read",
                    error,
                )
            })?;
        }
        Ok(Read {
            held: throttle.held(),
            cost,
        })
    }
}

/// Reads tables without row versions first, while writers are blocked; then all others.
fn read_rows(
    options: &DumpOptions,
    work: &Work<'_>,
    snapshot: &mut Snapshot,
    control: &mut Connection,
) -> Result<(), DumpError> {
    let with = |policy: DataPolicy| -> Vec<usize> {
        (0..work.tables.len())
            .filter(|index| !options.read.no_data && work.tables[*index].table.policy == policy)
            .collect()
    };
    let locked = with(DataPolicy::Locked);
    if !locked.is_empty() {
        work::read_all(work, &mut snapshot.readers, &locked)?;
    }
    snapshot.release(control)?;
    work::read_all(work, &mut snapshot.readers, &with(DataPolicy::Snapshot))
}

fn again(control: &Connection, options: &DumpOptions) -> Result<Connection, DumpError> {
    session::another(control, &options.read)
        .map_err(|error| DumpError::server("connecting once more", error))
}
