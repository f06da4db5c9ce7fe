//! Builds the tablespace of a large table, instead of having the server insert its rows.
//!
//! The server exports the empty table, and its file is discarded. Workers build the new one from
//! the rows of their chunks, all indexes at once ([`refloat_tablespace`]). The server imports it
//! when all rows are in, counts the rows by every index, and only then are they marked as loaded.
//! So a load that is killed finds a table without loaded rows, and creates it again.
//!
//! A value that the server might store otherwise ends this: what was built until then is imported,
//! and all other rows go over SQL. `docs/design/tablespace.md` says more.

mod checkpoint;
mod exported;
mod place;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use refloat_run::Refusal;
use refloat_run::progress::TableState;
use refloat_run::settings::Facts;
use refloat_tablespace::table::{BuildError, TablePart};
use refloat_tablespace::value::Stored;
use refloat_wire::Connection;

use super::chunk::{Chunk, Piece};
use super::context::Context;
use super::encode::Encoder;
use super::encode::stored::StoredSink;
use super::error::LoadError;
use super::link::Link;
use super::marks::{StepKind, Stretch};
use super::options::{BinlogMode, LoadOptions, WritePath};
use super::table::Table;
use super::table_writer::{Rows, SqlWriter, TableWriter, drop_deferred};
use super::task::Task;
use super::worker::{Worker, source_error};
use super::writer::Written;
pub use exported::remove_files;
use exported::{Exported, look};

/// How often a thread that waits looks whether the load was cancelled.
const POLL: Duration = Duration::from_millis(100);
/// Marks in one statement.
const MARKS: usize = 5000;
/// What fails while rows come.
const BUILDING: &str = "building its tablespace";

/// Why this load cannot build tablespaces as it was asked to, if it cannot.
pub fn refused(
    options: &LoadOptions,
    facts: &Facts,
    is_node: bool,
    is_near: bool,
) -> Option<Refusal> {
    if options.write_path != WritePath::Tablespace {
        return None;
    }
    let (reason, hint) = if is_node {
        (
            "the server is a node of a cluster, which does not replicate an imported tablespace",
            "Use --write-path auto, or `refloat cluster restore`.",
        )
    } else if !is_near {
        (
            "the server does not run on this machine, so its files cannot be written here",
            "Run this on the server's machine, as root or as the server's account.",
        )
    } else if facts.is_on("log_bin") && options.binlog != BinlogMode::Off {
        (
            "the server has a binary log, in which rows of an imported tablespace are missing",
            "Add --binlog off if neither replicas nor a restore to a point in time need them.",
        )
    } else if let Some(missing) = checkpoint::impossible(facts) {
        (
            missing,
            "Use --write-path auto: a crash of the server would destroy what was imported.",
        )
    } else if !facts.is_on("innodb_file_per_table") {
        (
            "innodb_file_per_table is OFF, so tables have no files of their own",
            "SET GLOBAL innodb_file_per_table = ON.",
        )
    } else {
        return None;
    };
    Some(Refusal {
        reason: format!("--write-path tablespace: {reason}"),
        hint: hint.to_owned(),
    })
}

/// Builds the tablespace of one table.
#[derive(Default)]
pub struct TablespaceWriter {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Parts that were begun and not ended.
    building: usize,
    /// What is in the ended parts, by the number of their chunk.
    parts: BTreeMap<usize, Part>,
    /// Rows that are not in them, and go over SQL when the table is imported.
    left: Vec<Chunk>,
    /// Why the parts do not make a table.
    failed: Option<BuildError>,
}

#[derive(Default)]
enum Phase {
    /// Rows go over SQL: the tablespace is imported, or cannot be built.
    #[default]
    Sql,
    Building(Arc<Exported>),
    /// No more parts are begun.
    Closing(Arc<Exported>),
    /// One worker imports it, and the others wait.
    Importing,
    /// It can be neither finished nor written to.
    Failed,
}

/// What becomes of a chunk.
enum Begun {
    /// A part; one without rows if the table is closed.
    Part(Arc<Exported>, bool),
    Sql,
    /// Nothing: the load ends with the error of another chunk.
    Failed,
}

/// Rows of one chunk.
struct Part {
    stretches: Vec<Stretch>,
    rows: u64,
    bytes: u64,
    /// The same rows, if their text can be read again.
    again: Option<Chunk>,
}

impl State {
    /// Whether all parts are there. A chunk that was taken, and whose part is not begun yet, leaves
    /// a gap before the last one.
    fn has_all_parts(&self) -> bool {
        let last = self.parts.last_key_value();
        self.building == 0 && last.is_none_or(|(last, _)| self.parts.len() == last + 1)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a part.
    fn begin(&self, ctx: &Context) -> Result<Begun, LoadError> {
        let mut state = self.state();
        loop {
            let (exported, is_empty) = match &state.phase {
                Phase::Sql => return Ok(Begun::Sql),
                Phase::Building(exported) => (exported, false),
                Phase::Closing(exported) => (exported, true),
                Phase::Importing => {
                    state = self.wait(ctx, state)?;
                    continue;
                }
                Phase::Failed => return Ok(Begun::Failed),
            };
            let begun = Begun::Part(Arc::clone(exported), is_empty);
            state.building += 1;
            return Ok(begun);
        }
    }

    fn wait<'s>(
        &'s self,
        ctx: &Context,
        state: MutexGuard<'s, State>,
    ) -> Result<MutexGuard<'s, State>, LoadError> {
        ctx.check_others()?;
        let waited = self.changed.wait_timeout(state, POLL);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Ends a part. Whoever ends the last one of a table that is closed imports it, and the others
    /// wait: what they have left must not pile up.
    fn end(&self, worker: &mut Worker, number: usize, built: Built) -> Result<(), LoadError> {
        let mut state = self.state();
        state.parts.insert(number, built.part);
        state.building -= 1;
        let is_over = built.rest.is_some() || built.failed.is_some();
        state.left.extend(built.rest);
        // After the first one fails, none of the others can be joined.
        if matches!(built.failed, Some(BuildError::NotInOrder)) || state.failed.is_none() {
            state.failed = built.failed.or(state.failed.take());
        }
        if let Phase::Building(exported) = &state.phase
            && is_over
        {
            state.phase = Phase::Closing(Arc::clone(exported));
        }
        while matches!(state.phase, Phase::Closing(_) | Phase::Importing) {
            if matches!(state.phase, Phase::Closing(_)) && state.has_all_parts() {
                return self.import(worker, state);
            }
            state = self.wait(&worker.link.ctx, state)?;
        }
        Ok(())
    }

    /// Imports what was built, and writes the rows that are not in it.
    fn import(
        &self,
        worker: &mut Worker,
        mut state: MutexGuard<'_, State>,
    ) -> Result<(), LoadError> {
        let exported = match &state.phase {
            Phase::Building(exported) | Phase::Closing(exported) => Arc::clone(exported),
            Phase::Sql | Phase::Importing | Phase::Failed => return Ok(()),
        };
        state.phase = Phase::Importing;
        let mut parts = std::mem::take(&mut state.parts);
        let mut left = std::mem::take(&mut state.left);
        let failed = state.failed.take();
        drop(state);
        let rows = parts.values().map(|part| part.rows).sum();
        let finished = failed.map_or_else(|| exported.finish(rows), Err);
        match finished {
            // The server's own is as good.
            Ok(()) if rows == 0 => {}
            Ok(()) => {
                exported.import(&mut worker.link)?;
                mark(&mut worker.link, &exported.table, parts.into_values())?;
            }
            // The server refuses such rows, or takes them in any order.
            Err(BuildError::NotInOrder | BuildError::Duplicate(_))
                if parts.values().all(|part| part.again.is_some()) =>
            {
                let again = std::mem::take(&mut parts).into_values();
                left.splice(..0, again.filter_map(|part| part.again));
            }
            Err(error) => return Err(exported.failed(BUILDING, error)),
        }
        drop(exported);
        self.state().phase = Phase::Sql;
        self.changed.notify_all();
        left.iter().try_for_each(|chunk| worker.write(chunk))
    }

    fn fail(&self) {
        self.state().phase = Phase::Failed;
        self.changed.notify_all();
    }
}

/// Lets the other workers go if this one fails or panics.
struct Alarm<'a>(&'a Shared);

impl Alarm<'_> {
    fn silence(self) {
        std::mem::forget(self);
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

/// Marks imported rows as loaded.
fn mark(
    link: &mut Link,
    table: &Table,
    parts: impl Iterator<Item = Part>,
) -> Result<(), LoadError> {
    let ctx = Arc::clone(&link.ctx);
    let parts: Vec<Part> = parts.collect();
    if let Some(marks) = &ctx.marks {
        let all = parts.iter().flat_map(|part| &part.stretches);
        let stretches: Vec<Stretch> = all.copied().collect();
        let (first, others) = stretches.split_at(stretches.len().min(MARKS));
        let conn = &mut link.conn;
        let written = marks
            .open(conn, table, first)
            .and_then(|()| {
                others
                    .chunks(MARKS)
                    .try_for_each(|some| marks.add(conn, table, some))
            })
            .and_then(|()| conn.exec("COMMIT"));
        written.map_err(|error| {
            LoadError::server(
                format!("marking the rows of table {}", table.label()),
                error,
            )
        })?;
        table.note_described();
    }
    if !parts.is_empty() {
        let reason = "its file was built here (--verify digest compares every row)";
        ctx.note_not_compared(table, reason.to_owned());
    }
    for part in parts {
        table.imported(part.rows, part.bytes);
        let written = Written {
            rows: part.rows,
            ..Written::default()
        };
        ctx.note_chunk(WritePath::Tablespace, written, part.bytes);
    }
    Ok(())
}

impl TableWriter for TablespaceWriter {
    /// Has the server export the empty table. If it cannot be built, its rows go over SQL.
    fn open(
        &self,
        ctx: &Context,
        catalog: &mut Connection,
        table: &Arc<Table>,
        create: &str,
    ) -> Result<(), LoadError> {
        let note = |reason: &str| {
            let table = table.label();
            ctx.events
                .note(format!("table {table}: rows go over SQL: {reason}"));
        };
        let mut looked = match look(ctx, catalog, table, create) {
            Ok(looked) => looked,
            Err(reason) => {
                note(&reason);
                return SqlWriter.open(ctx, catalog, table, create);
            }
        };
        if let Some(marks) = &ctx.marks {
            let key = (&table.db, &table.name);
            let noted = marks.note_step(catalog, StepKind::Import, &table.label(), &key);
            noted.map_err(|error| LoadError::server("writing a progress mark", error))?;
        }
        if let Some(deferred) = &mut looked.deferred {
            drop_deferred(ctx, catalog, table, create, std::mem::take(deferred))?;
        }
        match Exported::begin(ctx, catalog, table, create, looked) {
            Ok(exported) => self.shared.state().phase = Phase::Building(Arc::new(exported)),
            Err(reason) => note(&reason),
        }
        Ok(())
    }

    fn take(&self, worker: &mut Worker, chunk: &Chunk) -> Result<(), LoadError> {
        let ctx = Arc::clone(&worker.link.ctx);
        let (exported, is_empty) = match self.shared.begin(&ctx)? {
            Begun::Part(exported, is_empty) => (exported, is_empty),
            Begun::Sql => return SqlWriter.take(worker, chunk),
            Begun::Failed => return Ok(()),
        };
        let alarm = Alarm(&self.shared);
        let built = build(&ctx, &exported, (chunk, is_empty), &mut worker.link.buffer)?;
        drop(exported);
        self.shared.end(worker, chunk.number, built)?;
        alarm.silence();
        Ok(())
    }

    /// Imports the tablespace, and builds the indexes that it lacks.
    fn finish(&self, ctx: &Context, table: &Arc<Table>, rows: Rows) -> Option<Task> {
        let after = SqlWriter.finish(ctx, table, rows);
        if matches!(self.shared.state().phase, Phase::Sql) {
            return after;
        }
        let (shared, table) = (Arc::clone(&self.shared), Arc::clone(table));
        let sorts = after.as_ref().map_or(0, |task| task.sorts);
        let key = table.id;
        let job = Box::new(move |worker: &mut Worker| {
            let progress = &worker.link.ctx.progress;
            let shown = progress.table(&table.label(), TableState::Indexing);
            let alarm = Alarm(&shared);
            shared.import(worker, shared.state())?;
            alarm.silence();
            drop(shown);
            after.map_or(Ok(()), |task| (task.job)(worker))
        });
        Some(Task {
            key,
            sorts,
            brings_rows: true,
            job,
        })
    }
}

/// What became of a chunk.
struct Built {
    part: Part,
    /// Rows that the part does not have.
    rest: Option<Chunk>,
    /// Why the part does not follow the ones before it.
    failed: Option<BuildError>,
}

/// Builds a part of a table from a chunk, up to the first row that is left to the server.
fn build(
    ctx: &Context,
    exported: &Exported,
    (chunk, is_empty): (&Chunk, bool),
    buffer: &mut Vec<u8>,
) -> Result<Built, LoadError> {
    let mut part = exported.builder.part(chunk.number, chunk.before);
    let columns = exported.columns(ctx, chunk).filter(|_| !is_empty);
    let mut taken: Vec<Piece> = Vec::new();
    let mut pieces = chunk.pieces.iter();
    let mut rest = None;
    for piece in pieces.by_ref() {
        let unread = |source| source_error(piece.source.to_string(), piece.offset, source);
        let text = piece.text(buffer).map_err(unread)?;
        let rows = match &columns {
            Some(columns) => add(exported, columns, chunk, text, &mut part)?,
            None => 0,
        };
        if rows == piece.rows {
            taken.push(piece.clone());
            continue;
        }
        let mut left = Chunk::new(chunk.head.clone());
        if rows == 0 {
            left.push(piece.clone());
        } else {
            let bounds = chunk.form.bounds(text, chunk.session.lex_mode());
            let (at, all) = (rows as usize, bounds.len());
            if all as u64 != piece.rows {
                return Err(exported.failed(BUILDING, BuildError::Unfinished));
            }
            taken.push(piece.part(text, &bounds, 0..at).0);
            left.push(piece.part(text, &bounds, at..all).0);
        }
        rest = Some(left);
        break;
    }
    if let Some(left) = &mut rest {
        pieces.for_each(|piece| left.push(piece.clone()));
    }
    let rows = part.rows();
    let failed = match part.finish() {
        Ok(()) => None,
        Err(error @ BuildError::Io(_)) => return Err(exported.failed(BUILDING, error)),
        Err(error) => Some(error),
    };
    let bytes = taken.iter().map(|piece| piece.len() as u64).sum();
    exported.table.built_of(rows, bytes);
    let stretches = ctx.marks.as_ref().map(|marks| marks.stretches(&taken));
    let again = taken.iter().all(Piece::is_in_file).then(|| {
        let mut again = Chunk::new(chunk.head.clone());
        for piece in taken {
            again.push(piece);
        }
        again
    });
    Ok(Built {
        part: Part {
            stretches: stretches.unwrap_or_default(),
            rows,
            bytes,
            again,
        },
        rest,
        failed,
    })
}

/// Adds rows to a part, up to the first one that is left to the server. Returns how many it has
/// added.
fn add(
    exported: &Exported,
    columns: &[Stored],
    chunk: &Chunk,
    text: &[u8],
    part: &mut TablePart,
) -> Result<u64, LoadError> {
    let all = &exported.layout().columns;
    let targets: Vec<usize> = (0..all.len()).collect();
    let mut sink = StoredSink::new(columns, part);
    let mut encoder = Encoder::new(all, &targets, chunk.charset(), &mut sink);
    // However this ends, the rows before are in the part, and the others are not.
    let _ = chunk
        .form
        .visit(text, chunk.session.lex_mode(), &mut encoder);
    let rows = encoder.rows;
    match sink.failed.take() {
        Some(error) => Err(exported.failed(BUILDING, error)),
        None => Ok(rows),
    }
}
