//! Dumping a server into a folder: one moment, many readers, and a manifest that is written last.
//!
//! [`dump`] is the recipe. `snapshot` makes all connections see one moment, `ranges` cuts tables, `work` reads ranges into the
//! files of `chunk`. `docs/format.md` says what the folder holds, `docs/design/dump.md` why it is done in this way.

mod accounts;
mod beyond;
mod block;
pub(crate) mod catalog;
mod chunk;
mod cost;
mod desync;
pub(crate) mod error;
mod identity;
mod json_types;
mod names;
pub(crate) mod options;
mod outcome;
mod privileges;
pub(crate) mod ranges;
mod record;
pub(crate) mod schema;
pub(crate) mod session;
pub(crate) mod snapshot;
mod sql;
mod throttle;
pub(crate) mod tsv;
pub(crate) mod work;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use refloat_run::progress::Phase;
use refloat_run::settings::{Facts, SettingsError};
use refloat_run::{Cancel, CancelReason, Event, Events, Progress, Run};
use refloat_store::{Compression, Folder, FolderError};
use refloat_wire::Connection;

pub use cost::{FlowControl, HistoryLength, SnapshotCost};
pub use error::{DumpError, DumpFailure};
pub use options::{Consistency, DumpFormat, DumpOptions, Kind, RowCompression};
pub use outcome::DumpOutcome;

use refloat_run::phases::Phases;
use refloat_source::manifest;
use refloat_source::manifest::MANIFEST;

use crate::load::context::kill_on_cancel;
use catalog::{DataPolicy, Database, Programs, Table};
use cost::Watcher;
use desync::Desync;
use identity::Identities;
use record::{complete, count, write_definitions};
use snapshot::{Snapshot, Wanted};
use throttle::Throttle;
use work::{Sink, TableWork, Work};

/// How often the snapshot is taken anew because a definition was changed meanwhile.
const SNAPSHOT_TRIES: u32 = 3;
/// Text that files are assumed to hold per byte when they are compressed.
const COMPRESSION_GUESS: u64 = 2;

/// Dumps a server into a folder.
///
/// # Errors
/// [`DumpFailure`] with why it stopped. A folder without a manifest is no dump.
pub fn dump(options: &DumpOptions, run: &Run) -> Result<DumpOutcome, DumpFailure> {
    let started = Instant::now();
    let mut outcome = DumpOutcome {
        run: run.dir.id().to_string(),
        source: options.source.describe(),
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
            // Ctrl-C ends connections: what they then say is not why it stopped.
            error: match error {
                DumpError::Server { .. } if run.cancel.is_cancelled() => {
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
    let mut control = session::connect(options, &run.cancel)?;
    let _kill = kill_on_cancel(&run.cancel, &control);
    outcome.server = format!(
        "{} {}",
        control.server().vendor,
        control.server().version_string
    );
    let mut desync = Desync::new(run);
    // What it changes is put back also after a defect.
    let result = catch_unwind(AssertUnwindSafe(|| {
        desync.begin(options, run, &mut control)?;
        with_server(options, run, outcome, clock, &mut control)
    }));
    if outcome.complete {
        desync.catch_up(run, &mut control);
    }
    let (left, back) = desync.end(run, &control);
    outcome.settings_left = left;
    if let Err(error) = back {
        // The dump is none the worse for it; what is left to be done is told beside it.
        let cause = std::error::Error::source(&error);
        let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        run.events.warn(format!(
            "a setting of the server is not back: {error}{cause}"
        ));
    }
    result.unwrap_or_else(|_| Err(DumpError::defect()))?;
    run.progress.set_phase(Phase::Done);
    Ok(())
}

/// The dump proper.
fn with_server(
    options: &DumpOptions,
    run: &Run,
    outcome: &mut DumpOutcome,
    clock: &Phases,
    control: &mut Connection,
) -> Result<(), DumpError> {
    let (mut snapshot, plan) = moment(options, run, control, true)?;
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
    let folder = make_folder(options, &plan)?;
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
    outcome.complete = true;
    Ok(())
}

/// What is dumped.
pub(crate) struct Plan {
    /// Databases, with the names of what is in them.
    pub databases: Vec<Database>,
    /// Collations of the databases, by name.
    pub collations: Vec<(String, String)>,
    /// Tables, by the place of their database.
    pub tables: Vec<Vec<Table>>,
    /// Routines, views, triggers and events.
    pub programs: Programs,
    /// What is not in it, and what somebody should know.
    pub notes: Vec<String>,
    /// Whether the account may take the lock of all tables.
    pub may_flush: bool,
}

/// Opens the snapshot, and makes sure that what was listed before it is what is there in it.
///
/// `complete`: everything that is asked for must be there, and something at all.
pub(crate) fn moment(
    options: &DumpOptions,
    run: &Run,
    control: &mut Connection,
    complete: bool,
) -> Result<(Snapshot, Plan), DumpError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match open_moment(options, run, control, complete) {
            Err(DumpError::Changed { what }) if tries < SNAPSHOT_TRIES => run.events.note(format!(
                "{what} was changed while the snapshot was opened: it is opened again"
            )),
            other => return other,
        }
    }
}

/// Opens the snapshot once; [`DumpError::Changed`] when somebody changed a definition meanwhile.
fn open_moment(
    options: &DumpOptions,
    run: &Run,
    control: &mut Connection,
    complete: bool,
) -> Result<(Snapshot, Plan), DumpError> {
    let mut plan = look(options, control, complete)?;
    let identities = |control: &mut Connection, plan: &Plan| {
        // Without rows it does not matter which table it is.
        let all = plan.tables.iter().flatten();
        Identities::read(control, all.filter(|_| !options.no_data))
    };
    let before = identities(control, &plan)?;
    let all = || plan.tables.iter().flatten();
    let quoted: Vec<String> = all().map(Table::quoted).collect();
    let wanted = Wanted {
        tables: &quoted,
        locked_reads: !options.no_data && all().any(|table| table.policy == DataPolicy::Locked),
        may_flush: plan.may_flush,
        readers: options.threads,
    };
    let (mut snapshot, listed) = Snapshot::take(
        control,
        options,
        &wanted,
        (&run.cancel, &run.events),
        |conn| catalog::list(conn, options),
    )?;
    let what = if listed == plan.databases {
        // Neither identities nor programs are in the snapshot: if they are now what they were before it, they were so in it.
        let now = identities(control, &plan)?;
        let exchanged = before.exchanged(&now);
        match read_programs(control, options, &listed) {
            Ok(_) if exchanged.is_some() => format!("table {}", exchanged.unwrap_or_default()),
            Ok(programs) if programs == plan.programs => {
                plan.notes.extend(now.caveat());
                snapshot.identities = now;
                return Ok((snapshot, plan));
            }
            Ok(_) => "a routine, view, trigger or event".to_owned(),
            Err(DumpError::Changed { what }) => what,
            Err(error) => return Err(error),
        }
    } else {
        "a table or view".to_owned()
    };
    // Its readers, and with them its locks, end here.
    snapshot.give_up(control)?;
    Err(DumpError::Changed { what })
}

/// Refuses tables whose past no server takes back: MariaDB gives the numbers of transactions itself, and refuses a row that comes with some
/// (error 1906, also with `system_versioning_insert_history`).
fn refuse_numbered<'a>(tables: impl Iterator<Item = &'a Table>) -> Result<(), DumpError> {
    let found: Vec<String> = tables
        .filter(|table| table.numbered)
        .map(Table::label)
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(DumpError::Refused {
        reason: format!(
            "no server takes back the past of {}: it is told by numbers of transactions (GENERATED ALWAYS AS ROW START, of BIGINT UNSIGNED), which a server gives itself",
            found.join(", ")
        ),
        hint: "--no-history takes the rows of now only, of all tables; --exclude leaves these out, to be taken by a run of their own."
            .to_owned(),
    })
}

/// Looks at everything that is asked for.
pub(crate) fn look(
    options: &DumpOptions,
    control: &mut Connection,
    complete: bool,
) -> Result<Plan, DumpError> {
    let databases = catalog::list(control, options)?;
    let mut unmatched = catalog::unmatched(options, &databases);
    if complete {
        unmatched.extend(catalog::unmatched_exclusions(control, options)?);
    }
    if complete && !unmatched.is_empty() {
        return Err(DumpError::Refused {
            reason: format!("nothing on the server is called {}", unmatched.join(", ")),
            hint: catalog::NAMES_HINT.to_owned(),
        });
    }
    if complete && databases.is_empty() {
        return Err(DumpError::Refused {
            reason: "there is nothing to dump: the account sees no database but those of the server itself".to_owned(),
            hint: "A server that was just installed has none. Otherwise the account lacks privileges: SHOW GRANTS lists them.".to_owned(),
        });
    }
    let facts = Facts::read(control).map_err(|error| match error {
        SettingsError::Server(error) => DumpError::server("asking for privileges", error),
        other => DumpError::Refused {
            reason: other.to_string(),
            hint: String::new(),
        },
    })?;
    let mut notes = privileges::check(options, &facts, &databases)?;
    notes.extend(catalog::own_left_out(control, &databases)?);
    cost::can_be_watched(control, options)?;
    if complete {
        notes.extend(beyond::notes(control, options, &facts)?);
    }
    let mut tables = Vec::with_capacity(databases.len());
    for database in &databases {
        let of = catalog::read_tables(control, options, database)?;
        for table in &of {
            notes.extend(table.unshown.iter().cloned());
            if table.policy == DataPolicy::Elsewhere {
                notes.push(format!(
                    "table {}: only its definition is in the dump, engine {} keeps its rows elsewhere",
                    table.label(),
                    table.engine
                ));
            }
        }
        for name in &database.leftovers {
            notes.push(format!(
                "table {}.{name} is not in the dump: it is a leftover of the server's own work",
                database.name
            ));
        }
        tables.push(of);
    }
    if !options.no_data {
        refuse_numbered(tables.iter().flatten())?;
    }
    let programs = read_programs(control, options, &databases)?;
    for view in programs.views.iter().filter(|view| view.invalid.is_some()) {
        notes.push(format!(
            "view {}.{} cannot be read on the server: {}",
            view.database,
            view.name,
            view.invalid.as_deref().unwrap_or_default()
        ));
    }
    let collations = catalog::collations(control)?;
    Ok(Plan {
        databases,
        collations,
        tables,
        programs,
        notes,
        may_flush: facts.may(&["RELOAD", "FLUSH_TABLES"]),
    })
}

/// Programs are text in the character set of who made them: it comes as it is stored.
fn read_programs(
    control: &mut Connection,
    options: &DumpOptions,
    databases: &[Database],
) -> Result<Programs, DumpError> {
    let failed = |error| DumpError::server("preparing the session", error);
    control
        .exec("SET SESSION character_set_results = binary")
        .map_err(failed)?;
    let programs = catalog::read_programs(control, options, databases);
    control
        .exec("SET SESSION character_set_results = utf8mb4")
        .map_err(failed)?;
    programs
}

/// Refuses a dump for which there is too little room, as far as the server's estimates tell.
fn enough_room(
    options: &DumpOptions,
    plan: &Plan,
    folder: &Path,
    packed: bool,
) -> Result<(), DumpError> {
    if options.no_data || options.to_stdout() {
        return Ok(());
    }
    let bytes: u64 = plan.tables.iter().flatten().map(|table| table.bytes).sum();
    let expected = if packed {
        bytes / COMPRESSION_GUESS
    } else {
        bytes
    };
    match refloat_run::machine::disk_available(folder) {
        Some(free) if free < expected => Err(DumpError::Refused {
            reason: format!(
                "{} has {} MiB free, and the dump will take about {} MiB",
                folder.display(),
                free >> 20,
                expected >> 20
            ),
            hint: "Choose another place, or compress more with --compress zstd --level 9."
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Makes the folder, where there is room for what is expected.
fn make_folder(options: &DumpOptions, plan: &Plan) -> Result<Folder, DumpError> {
    if options.to_stdout() {
        return Ok(Folder::stdout()?);
    }
    let folder = match Folder::create(&options.out) {
        Err(FolderError::NotEmpty(path)) => {
            return Err(DumpError::Refused {
                reason: format!("{} is there already and not empty", path.display()),
                hint: "Name a folder that does not exist yet: a dump never overwrites another."
                    .to_owned(),
            });
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
            "threads": options.threads,
            "databases": plan.databases.len(),
            "tables": plan.tables.iter().map(Vec::len).sum::<usize>(),
            "compression": options.compression,
        }),
    });
}

/// How the rows of a snapshot are read, and where they go.
pub(crate) struct Reading<'a> {
    /// What was asked for.
    pub options: &'a DumpOptions,
    /// Where rows go.
    pub sink: Sink<'a>,
    /// Ends it early.
    pub cancel: &'a Cancel,
    /// What the run says.
    pub events: &'a Events,
    /// Where the run stands.
    pub progress: &'a Progress,
    /// Where it is shown what the snapshot costs the server: the run's own.
    pub shown: &'a Progress,
    /// Bytes of rows that are done with, in the server's estimate.
    pub done: &'a AtomicU64,
}

/// What the reading was like.
#[derive(Default)]
pub(crate) struct Read {
    /// For how long readers were held back on request, all together.
    pub held: Duration,
    /// What the snapshot has cost the server.
    pub cost: SnapshotCost,
}

impl Reading<'_> {
    /// Reads all rows, and makes sure that nobody has changed a definition meanwhile.
    ///
    /// # Errors
    /// Besides those of readers: [`DumpError::Given`] when the snapshot costs the server more than it may.
    pub fn read(
        &self,
        tables: &[TableWork],
        snapshot: &mut Snapshot,
        control: &mut Connection,
    ) -> Result<Read, DumpError> {
        let options = self.options;
        let checker = Mutex::new(again(control)?);
        let watcher = match options.max_running {
            Some(_) => Some(again(control)?),
            None => None,
        };
        let throttle = Throttle::new(
            options.max_rate,
            options.max_running,
            options.threads,
            watcher,
        );
        let watcher = Watcher::begin(again(control)?, options, snapshot.opened, self.shown)?;
        // Ends the readers of this snapshot, and with Ctrl-C too.
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
        let hang_up = watcher.hang_up();
        let (end, ended) = cost::ending();
        let (read, seen) = std::thread::scope(|scope| {
            let stop = &stop;
            let watching = scope.spawn(move || watcher.run(&ended, stop));
            let end = end;
            let read = read_rows(options, &work, snapshot, control);
            if read.is_err() {
                hang_up.shutdown();
            }
            drop(end);
            (read, watching.join())
        });
        let (cost, beyond) = seen.map_err(|_panic| DumpError::defect())?;
        if let Err(error) = read {
            // Why the readers were ended says more than that they were.
            return Err(match beyond {
                _ if self.cancel.is_cancelled() => DumpError::interrupted(self.cancel),
                Some(beyond) => beyond,
                None => error,
            });
        }
        // Each table was read by a transaction that is still open, and has kept it from being exchanged since: what a name means now it
        // meant then.
        let read = tables.iter().map(|of| &of.table);
        let read = read.filter(|_| !options.no_data);
        snapshot.identities.unchanged(control, read)?;
        if snapshot.ddl_blocked {
            // The lock lives as long as its connection: without it definitions were nobody's business.
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

/// Tables without old versions of rows first, while writers wait; then all others.
fn read_rows(
    options: &DumpOptions,
    work: &Work<'_>,
    snapshot: &mut Snapshot,
    control: &mut Connection,
) -> Result<(), DumpError> {
    let with = |policy: DataPolicy| -> Vec<usize> {
        (0..work.tables.len())
            .filter(|index| !options.no_data && work.tables[*index].table.policy == policy)
            .collect()
    };
    let locked = with(DataPolicy::Locked);
    if !locked.is_empty() {
        work::read_all(work, &mut snapshot.readers, &locked)?;
    }
    snapshot.release(control)?;
    work::read_all(work, &mut snapshot.readers, &with(DataPolicy::Snapshot))
}

fn again(control: &Connection) -> Result<Connection, DumpError> {
    session::another(control).map_err(|error| DumpError::server("connecting once more", error))
}
