//! Loads a dump into a server: rows in parallel, the rest in order, with a proof at the end.
//!
//! [`load`] is the recipe. The conductor reads the dump and keeps its order, workers write the
//! rows, and indexes and foreign keys follow. At the end every table is counted and compared. Start
//! with the `conductor` module to see how order is kept; `docs/design/load.md` says why.

mod bound;
mod budget;
mod choice;
mod chunk;
mod chunk_size;
mod collation;
mod conductor;
mod context;
mod crew;
mod deferral;
mod encode;
mod error;
mod form;
mod galera;
mod link;
mod marks;
mod open_source;
mod options;
mod outcome;
mod outline;
mod own_tables;
mod patience;
mod plan;
mod preflight;
mod programs;
mod queue;
mod refusals;
mod renamed;
mod resume;
mod rows;
mod session;
mod table;
mod table_writer;
mod tablespace;
mod task;
mod transaction;
mod tuning;
mod verdict;
mod worker;
mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use refloat_run::cancel::abandonable;
use refloat_run::machine::Machine;
use refloat_run::probe::{self, ServerProbe};
use refloat_run::progress::Phase;
use refloat_run::settings::{AppliedSettings, Facts, SettingsPlan};
use refloat_run::{Cancel, Event, Run};
use refloat_wire::{CommitCounter, ConnectOptions, Connection};

pub use collation::other_collation;
pub use error::{LoadError, LoadFailure};
pub use galera::pace::PacedNode;
pub use galera::{GaleraMode, GaleraOptions, GaleraOutcome, MAX_PAUSED_DEFAULT};
pub use marks::LeftMarks;
pub use open_source::OpenSource;
pub use options::{
    BinlogMode, ExistingPolicy, ForeignKeyMode, IndexMode, LoadOptions, MEMORY_DEFAULT, OnError,
    ResumeMode, StatementClass, SystemSchemaMode, WritePath,
};
pub use outcome::{
    LoadOutcome, LoadWarning, OrphanRows, Proof, Resumption, StatementFailure, TableOutcome,
};
pub use plan::plan_from;
pub use plan::{LoadPlan, PlannedTable, looks_whole, plan, refused};
pub use refloat_run::Refusal;
pub use refloat_source::stray::Stray;

use refloat_run::kill_on_cancel;
use refloat_run::phases::Phases;

use budget::Budget;
use chunk::PlainFile;
use chunk_size::ChunkSize;
use conductor::Conductor;
use context::{Context, Setup};
use error::guarded;
use galera::Replicated;
use galera::others::Others;
use preflight::Preflight;
use queue::Queue;
use resume::Earlier;

/// Bytes of memory for sorting index entries when nothing is known about the server's machine. Only
/// some servers accept such a setting.
const INDEX_MEMORY: u64 = 256 << 20;

/// Loads a dump.
///
/// # Errors
/// [`LoadFailure`] carries the reason and what was done up to that point. An `Ok` outcome may still
/// contain differences: see [`LoadOutcome::proven`].
pub fn load(options: &LoadOptions, run: &Run) -> Result<LoadOutcome, LoadFailure> {
    load_from(options, run, || {
        OpenSource::open(options, &run.cancel, |words| run.events.note(words))
    })
}

/// Estimates how many bytes of text a source holds without reading it. `None` if that is unknown.
/// Compressed data counts as four times its size. Nothing is unpacked, and no server is contacted.
///
/// # Errors
/// [`LoadError`]: the source cannot be opened or is not a dump.
pub fn text_bytes(options: &LoadOptions) -> Result<Option<u64>, LoadError> {
    if refloat_store::files::is_folder(&options.source) || options.delimited.table.is_some() {
        return Ok(OpenSource::open(options, &Cancel::new(), |_words| {})?.text_bytes());
    }
    let input = refloat_store::Input::open(&options.source)?;
    Ok(OpenSource::Stream(Box::new(input)).text_bytes())
}

/// [`load`] from the source that `open` returns, whatever the options name as the source.
pub fn load_from(
    options: &LoadOptions,
    run: &Run,
    open: impl FnOnce() -> Result<OpenSource, LoadError>,
) -> Result<LoadOutcome, LoadFailure> {
    let started = Instant::now();
    // What the target node replicates beyond this count was written by others.
    let mut counted = options.clone();
    counted.target.commits = Some(CommitCounter::default());
    let options = &counted;
    let mut outcome = LoadOutcome {
        run: run.dir.id().to_string(),
        source: source_name(options),
        target: options.target.describe(),
        ..LoadOutcome::default()
    };
    let clock = Arc::new(Phases::new(&run.events, &run.progress));
    let result = run_load(options, run, &mut outcome, &clock, open);
    outcome.phases = clock.end();
    outcome.seconds = started.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(outcome),
        Err(error) => Err(LoadFailure {
            // Ctrl-C kills connections. The errors that follow are not why the load stopped.
            error: match error {
                LoadError::Server { .. } | LoadError::Settings(_) if run.cancel.is_cancelled() => {
                    LoadError::interrupted(&run.cancel)
                }
                error => error,
            },
            outcome: Box::new(outcome),
        }),
    }
}

fn run_load(
    options: &LoadOptions,
    run: &Run,
    outcome: &mut LoadOutcome,
    clock: &Arc<Phases>,
    open: impl FnOnce() -> Result<OpenSource, LoadError>,
) -> Result<(), LoadError> {
    clock.enter(Phase::Preflight);
    let mut source = open()?;
    outcome.source = source.name();
    let outline = source.look(options, &run.cancel)?;
    for note in source.notes() {
        run.events.warn(note);
    }
    let mut control = connect(options, &run.cancel)?;
    let kill = kill_on_cancel(&run.cancel, &control);
    outcome.server = format!(
        "{} {}",
        control.server().vendor,
        control.server().version_string
    );
    galera::read_all_marks(options, &mut control, true)?;
    let mut earlier = Earlier::look(options, &mut source, &mut control)?;
    earlier.take_over(options, &mut control, &source, run)?;
    galera::read_all_marks(options, &mut control, false)?;
    let mut applied = AppliedSettings::new(&run.dir);
    if let Some(begun) = &earlier.begun {
        applied.declare_ended(begun.about.owner.clone());
    }
    // Do this before reading facts: settings that a dead run left are not the server's own.
    applied.clear(&mut control, &run.events)?;
    let facts = Facts::read(&mut control)?;
    let stops = plan::stops(
        options,
        &source,
        outline.as_ref(),
        &mut control,
        &run.cancel,
    )?;
    let preflight =
        preflight::look_at_server(options, &mut control, &facts, outline, &earlier, stops)?;
    let options = &galera::settle(options, preflight.node.as_ref());
    outcome.advice.clone_from(&preflight.advice);
    clock.enter(Phase::Settings);
    let warn = |line| run.events.warn(line);
    let ended = earlier.begun.as_ref().map(|begun| &begun.about.owner);
    let clear = Some((run, ended));
    let mut others = Others::look(options, &preflight, clear, &run.cancel, warn)?;
    let (dump_bytes, here) = (source.text_bytes(), others.near() + 1);
    let settings = tuning::plan(options, &facts, &preflight, dump_bytes, here);
    others.plan(options, &preflight, dump_bytes, here);
    if let Some(refusal) = preflight::path_refused(options, &facts, &settings) {
        return Err(LoadError::Refused(vec![refusal]));
    }
    outcome
        .advice
        .extend(settings.advice.iter().map(tuning::advice_line));
    announce(options, run, outcome, &source, &settings);
    for line in preflight::left_out(options, &settings, &[]) {
        run.events.warn(line);
    }
    let changed = others.apply(run, || applied.apply(&mut control, &settings, &run.events));
    drop(kill);
    outcome.settings_skipped = preflight::left_out(options, &settings, applied.skipped());
    outcome.settings_changed = applied.changes().map(tuning::change_line).collect();
    outcome.settings_changed.extend(others.changes());
    let result = match changed {
        _ if run.cancel.is_cancelled() => Err(LoadError::interrupted(&run.cancel)),
        Ok(()) => guarded(|| {
            let prepared = Prepared {
                options,
                run,
                clock,
                facts: &facts,
                preflight: &preflight,
                settings: &settings,
            };
            with_settings(&prepared, outcome, source, control, earlier)
        }),
        Err(error) => Err(error.into()),
    };
    clock.enter(Phase::Revert);
    let (reverted, left) = others.put_back(run, || {
        tuning::put_back(options, run, outcome, &mut applied)
    });
    outcome.settings_left.extend(left);
    run.progress.set_phase(Phase::Done);
    result?;
    reverted?;
    finish(outcome)
}

/// A load whose settings are in effect.
struct Prepared<'a> {
    options: &'a LoadOptions,
    run: &'a Run,
    clock: &'a Arc<Phases>,
    /// The server before its settings were changed.
    facts: &'a Facts,
    preflight: &'a Preflight,
    settings: &'a SettingsPlan,
}

/// Runs the load itself. Settings are put back whatever happens here.
fn with_settings(
    prepared: &Prepared,
    outcome: &mut LoadOutcome,
    source: OpenSource,
    control: Connection,
    mut earlier: Earlier,
) -> Result<(), LoadError> {
    let run = prepared.run;
    let mut control = see_settings(control, prepared.settings)?;
    let kill = kill_on_cancel(&run.cancel, &control);
    let Equipment { ctx, budget, probe } =
        equip(prepared, outcome, &source, &mut control, &earlier)?;
    let reading = Reading::of(source, &ctx, &budget)?;
    run.progress
        .set_source(reading.source.total_bytes(), Arc::clone(&reading.position));
    if let Some(outline) = &prepared.preflight.outline {
        run.progress.set_tables_total(outline.tables);
    }
    let watch = bound::Watch::start(&ctx, probe, &mut control);
    prepared.clock.enter(Phase::Data);
    let queue = Queue::new(
        budget.limits,
        Arc::clone(&ctx.chunk_size),
        run.cancel.clone(),
    );
    let begun = earlier.begun.take();
    let resumption = begun.as_ref().filter(|begun| !begun.found.is_empty());
    let resumption = resumption.map(|begun| (begun.run.clone(), begun.about.begun.clone()));
    let found = begun.map(|begun| begun.found);
    let mut conductor = Conductor::new(&ctx, &queue, control, found)?;
    drop(kill);
    let kill = conductor.kill_on_cancel();
    let result = with_workers(&ctx, &queue, || {
        read_and_prove(prepared, outcome, &mut conductor, reading, &watch)
    });
    drop(kill);
    conductor.report(outcome);
    outcome.galera = ctx.cluster.as_ref().map(Replicated::outcome);
    outcome.resumed = resumption.map(|(run, begun)| Resumption {
        run,
        begun,
        rows: conductor.resume.counted.stored,
    });
    if result.is_err() {
        outcome.resumable = conductor.keeps_marks();
    }
    let result = result.and_then(|(proof, forgotten)| {
        outcome.proof = proof;
        forgotten.map_err(|error| LoadError::MarksLeft(Box::new(error)))
    });
    match result {
        Ok(()) => Ok(()),
        Err(_) if run.cancel.is_cancelled() => Err(ctx.interrupted()),
        // A worker's own error says more than the message that the queue has ended.
        Err(error) => match queue.take_error().unwrap_or(error) {
            LoadError::Refused(refusals) if conductor.findings.touched => {
                Err(LoadError::Stopped(refusals))
            }
            error => Err(error),
        },
    }
}

/// A connection that the changed settings apply to.
fn see_settings(control: Connection, settings: &SettingsPlan) -> Result<Connection, LoadError> {
    if settings
        .changes
        .iter()
        .any(|change| change.name == "local_infile")
    {
        // Only sessions that start after the change pick it up.
        return control.reconnect().map_err(|error| {
            LoadError::server("connecting again after settings were changed", error)
        });
    }
    Ok(control)
}

/// What a load works with.
struct Equipment {
    ctx: Arc<Context>,
    budget: Budget,
    probe: Option<ServerProbe>,
}

/// Makes the decisions that had to wait for the settings, and begins the marks.
fn equip(
    prepared: &Prepared,
    outcome: &mut LoadOutcome,
    source: &OpenSource,
    control: &mut Connection,
    earlier: &Earlier,
) -> Result<Equipment, LoadError> {
    let Prepared {
        options,
        run,
        facts,
        preflight,
        ..
    } = *prepared;
    let infile_allowed = preflight::opens_infile(prepared.settings)
        && control
            .query_value("SELECT @@GLOBAL.local_infile")
            .map_err(|error| LoadError::server("asking whether LOAD DATA is allowed", error))?
            .is_some_and(|value| value == "1");
    let write_path = preflight::path_now(options, facts, infile_allowed, preflight.write_path);
    if write_path != preflight.write_path {
        outcome
            .advice
            .retain(|line| !preflight.advice.contains(line));
    }
    let cluster = Replicated::begin(options, preflight.node.as_ref(), &run.events);
    let limit = cluster.as_ref().map(|cluster| cluster.write_set);
    let budget = Budget::of(options, source, control.server().vendor, limit);
    let probe = ServerProbe::find(control.identity());
    let binlog_off = prepare_control(control, prepared.settings)?;
    let marks = begin_marks((options, run), earlier, source, control, (preflight, facts))?;
    let chunk_bytes = options
        .chunk_bytes
        .map(|bytes| limit.map_or(bytes, |limit| bytes.min(limit.bytes)));
    let setup = Setup {
        options: options.clone(),
        source: outcome.source.clone(),
        cancel: run.cancel.clone(),
        progress: run.progress.clone(),
        events: run.events.clone(),
        phases: Arc::clone(prepared.clock),
        identity: control.identity().clone(),
        server_is_local: probe.is_some(),
        write_path,
        chunk_size: Arc::new(ChunkSize::new(chunk_bytes, budget.chunk_max)),
        done_bytes: Arc::default(),
        binlog_off,
        index_memory: Machine::here()
            .filter(|_| probe.is_some())
            .map_or(INDEX_MEMORY, |machine| machine.memory_available / 8),
        marks,
        first_connection: own_connection_id(options, control),
        server_started: server_started(options, control)?,
        cluster,
    };
    let ctx = Arc::new(Context::new(setup));
    ctx.read_what_others_wrote(control)?;
    ctx.hold(control, 0)?;
    Ok(Equipment { ctx, budget, probe })
}

/// Prepares the session of the control connection. Returns whether its binary log is off.
fn prepare_control(control: &mut Connection, settings: &SettingsPlan) -> Result<bool, LoadError> {
    preflight::control_connection(control)?;
    let binlog_off = settings
        .session
        .iter()
        .any(|change| change.name == "sql_log_bin");
    if binlog_off {
        control
            .exec("SET SESSION sql_log_bin = 0")
            .map_err(|error| {
                LoadError::server("switching the binary log off for the session", error)
            })?;
    }
    Ok(binlog_off)
}

/// The connection id that the server itself gave; 0 if that is not known.
fn own_connection_id(options: &LoadOptions, control: &Connection) -> u64 {
    let server = control.server();
    // Connection ids mean nothing behind a proxy that pools connections.
    let is_direct = server.greeted_id == server.connection_id && !options.galera.through_proxy;
    if is_direct { server.connection_id } else { 0 }
}

/// When the server started. Behind a proxy, any server may answer.
fn server_started(
    options: &LoadOptions,
    control: &mut Connection,
) -> Result<Option<i64>, LoadError> {
    if options.galera.through_proxy {
        return Ok(None);
    }
    probe::server_started(control)
        .map_err(|error| LoadError::server("asking how long the server has been up", error))
}

/// The source, and how far it has been read.
struct Reading {
    source: OpenSource,
    /// The file that the workers read too.
    file: Option<Arc<PlainFile>>,
    /// The position that the progress display shows.
    position: Arc<AtomicU64>,
    /// The counter that the conductor adds its reads to.
    read: Arc<AtomicU64>,
    /// How many tables may be read at the same time.
    open_max: usize,
}

impl Reading {
    fn of(source: OpenSource, ctx: &Context, budget: &Budget) -> Result<Self, LoadError> {
        let file = source.plain_file()?;
        let position = source.position(&ctx.done_bytes);
        // Plain files are counted where their bytes are processed, not where they are read.
        let read = source.read_counter(&position, &ctx.done_bytes);
        Ok(Self {
            source,
            file,
            position,
            read,
            open_max: budget.open_max,
        })
    }
}

/// Does `work` while workers write the rows that it puts into the queue.
fn with_workers<T>(
    ctx: &Arc<Context>,
    queue: &Queue,
    work: impl FnOnce() -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    std::thread::scope(|scope| {
        for _ in 0..ctx.options.threads.max(1) {
            scope.spawn(|| crew::run(ctx, queue));
        }
        // Catch panics here: the scope waits for the workers, and they wait for the queue to end.
        let result = guarded(work);
        // Workers end with the queue. After an error they have nothing left to do.
        if result.is_ok() {
            queue.end();
        } else {
            ctx.note_failed();
            queue.stop();
        }
        result
    })
}

/// Reads the source to its end and proves that everything is in. The second result is that of
/// removing the marks: a failure does not weaken the proof.
fn read_and_prove(
    prepared: &Prepared,
    outcome: &mut LoadOutcome,
    conductor: &mut Conductor,
    reading: Reading,
    watch: &bound::Watch,
) -> Result<(Proof, Result<(), LoadError>), LoadError> {
    match reading.source {
        OpenSource::Stream(input) => conductor.run(*input, reading.file.clone())?,
        OpenSource::Layout(layout) => {
            conductor.run_layout(&layout, &reading.read, reading.open_max)?;
        }
    }
    if let Some(file) = reading.file {
        unchanged(&file, &outcome.source)?;
    }
    outcome.bound_by = watch.verdict(&mut conductor.catalog.conn);
    prepared.clock.enter(Phase::Proof);
    let proof = conductor.prove()?;
    if prepared.options.leave_marks {
        outcome.marks = conductor.resume.made_marks();
        return Ok((proof, Ok(())));
    }
    Ok((proof, conductor.resume.forget_marks(&mut conductor.catalog)))
}

/// Sets up the marks of this load, or tells the user that there will be none.
fn begin_marks(
    (options, run): (&LoadOptions, &Run),
    earlier: &Earlier,
    source: &OpenSource,
    control: &mut Connection,
    (preflight, facts): (&Preflight, &Facts),
) -> Result<Option<marks::Marks>, LoadError> {
    let id = run.dir.id().as_str();
    let about = (id, preflight.empty_server, &facts.grants);
    let marks = resume::begin_marks(options, earlier, source, control, about)
        .map_err(|error| LoadError::server("preparing progress marks", error))?;
    if marks.is_none() && resume::keeps_marks(source) {
        run.events.note(format!(
            "no progress marks are kept: the account may not create tables in a database {}; if this load is interrupted, it has to start over",
            marks::SCHEMA
        ));
    }
    Ok(marks)
}

/// What to call the source until it is open and names itself.
fn source_name(options: &LoadOptions) -> String {
    if options.source.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        options.source.display().to_string()
    }
}

/// The conductor and the workers read the file at different times and must see the same bytes.
fn unchanged(file: &PlainFile, name: &str) -> Result<(), LoadError> {
    let change = file
        .change()
        .map_err(|source| open_source::read_error(name, source))?;
    match change {
        Some(change) => Err(LoadError::SourceChanged {
            file: name.to_owned(),
            change,
        }),
        None => Ok(()),
    }
}

/// Connects. Ctrl-C does not wait for a server that does not answer.
pub fn connect(options: &LoadOptions, cancel: &Cancel) -> Result<Connection, LoadError> {
    connect_to(&options.target, cancel)
}

/// [`connect`] to any server.
pub(crate) fn connect_to(
    server: &ConnectOptions,
    cancel: &Cancel,
) -> Result<Connection, LoadError> {
    let target = server.clone();
    let connected = abandonable(cancel, move || {
        let mut conn = Connection::connect(&target)?;
        context::be_patient(&mut conn)?;
        Ok(conn)
    });
    match connected {
        Some(connected) => connected.map_err(|error: refloat_wire::Error| {
            LoadError::server(format!("connecting to {}", server.describe()), error)
        }),
        None => Err(LoadError::interrupted(cancel)),
    }
}

fn announce(
    options: &LoadOptions,
    run: &Run,
    outcome: &LoadOutcome,
    source: &OpenSource,
    settings: &SettingsPlan,
) {
    run.events.emit(Event::RunStarted {
        run: run.dir.id().clone(),
        command: source.command().to_owned(),
        source: outcome.source.clone(),
        target: outcome.target.clone(),
        plan: serde_json::json!({
            "server": outcome.server,
            "threads": options.threads,
            "source_bytes": source.total_bytes(),
            "source_format": source.format(),
            "compression": source.compression(),
            "durability": settings.durability,
            "settings": settings.changes,
        }),
    });
}

/// Turns what the load and its proof found into the verdict.
fn finish(outcome: &mut LoadOutcome) -> Result<(), LoadError> {
    if !outcome.failures.is_empty() {
        return Err(LoadError::Failures {
            total: outcome.failures.total,
        });
    }
    outcome.proven =
        outcome.proof.done && !outcome.proof_failed() && outcome.settings_left.is_empty();
    Ok(())
}
