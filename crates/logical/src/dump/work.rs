//! Readers at work: cut tables into ranges, read ranges into files, the largest first.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use refloat_run::progress::{TableProgress, TableState};
use refloat_run::{Cancel, Event, Events, Progress};
use refloat_store::Folder;
use refloat_wire::Connection;

use super::catalog::{Table, show_create};
use super::chunk::ChunkWriter;
use super::error::DumpError;
use super::options::DumpOptions;
use super::ranges::{self, Range};
use super::throttle::Throttle;
use crate::jobs::{Job, Queue};
use crate::load::context::kill_on_cancel;
use crate::load::definition::fingerprint;
use crate::manifest::ChunkEntry;

/// Ranges per reader of the whole dump, so that all readers end at about the same time.
const RANGES_PER_READER: u64 = 8;
/// A range is not made smaller than this: each costs a few estimates and a file.
const RANGE_MIN: u64 = 4 << 20;
/// `ER_TABLE_DEF_CHANGED`.
const DEFINITION_CHANGED: u16 = 1412;
/// `ER_NO_SUCH_TABLE`.
const NO_SUCH_TABLE: u16 = 1146;

/// What readers share.
pub struct Work<'a> {
    /// What was asked for.
    pub options: &'a DumpOptions,
    /// Where files go.
    pub folder: &'a Folder,
    /// Ends the work early.
    pub cancel: &'a Cancel,
    /// What the run says.
    pub events: &'a Events,
    /// Where the run stands.
    pub progress: &'a Progress,
    /// Bytes of rows that are done with, in the server's estimate.
    pub done: &'a AtomicU64,
    /// Holds readers back.
    pub throttle: &'a Throttle,
    /// Looks at definitions again.
    pub checker: &'a Mutex<Connection>,
    /// The tables, with what is known of each.
    pub tables: &'a [TableWork],
}

/// A table and its files.
pub struct TableWork {
    /// The table.
    pub table: Table,
    /// Names of its files without number and ending.
    pub stem: String,
    /// Ranges that are not read yet; all of them once it is cut.
    open: AtomicUsize,
    state: Mutex<TableFiles>,
}

#[derive(Default)]
struct TableFiles {
    /// By the place of their range.
    chunks: Vec<(usize, Vec<ChunkEntry>)>,
    shown: Option<Arc<TableProgress>>,
}

impl TableWork {
    /// A table of which nothing is read.
    pub fn new(table: Table, stem: String) -> Self {
        Self {
            table,
            stem,
            open: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, TableFiles> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files, in the order of the key.
    pub fn into_chunks(self) -> (Table, Vec<ChunkEntry>) {
        let mut files = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        files.chunks.sort_unstable_by_key(|(range, _)| *range);
        let chunks = files
            .chunks
            .into_iter()
            .flat_map(|(_, chunks)| chunks)
            .collect();
        (self.table, chunks)
    }
}

/// Ranges that wait to be read, by table and place.
type Ranges = HashMap<(usize, usize), Range>;

/// Reads the rows of some tables (`which`, by their place) with all readers. Afterwards the readers still see their moment.
pub fn read_all(
    work: &Work<'_>,
    readers: &mut [Connection],
    which: &[usize],
) -> Result<(), DumpError> {
    let queue = Queue::new(1, Ranges::new());
    let total: u64 = which
        .iter()
        .map(|index| work.tables[*index].table.bytes)
        .sum();
    let target = (total / (readers.len() as u64 * RANGES_PER_READER)).clamp(
        RANGE_MIN.min(work.options.chunk_bytes),
        work.options.chunk_bytes.max(1),
    );
    for &table in which {
        let bytes = work.tables[table].table.bytes;
        queue.jobs().push(0, Job::Cut { bytes, table });
    }
    std::thread::scope(|scope| {
        for reader in readers.iter_mut() {
            let queue = &queue;
            scope.spawn(move || {
                let _kill = kill_on_cancel(work.cancel, reader);
                queue.work(0, DumpError::defect, |job| {
                    work.run(queue, reader, &job, target)
                });
            });
        }
    });
    if work.cancel.is_cancelled() {
        return Err(DumpError::interrupted(work.cancel));
    }
    queue.finish().map(drop)
}

impl Work<'_> {
    fn run(
        &self,
        queue: &Queue<Ranges, DumpError>,
        reader: &mut Connection,
        job: &Job,
        target: u64,
    ) -> Result<(), DumpError> {
        match *job {
            Job::Cut { table, .. } => {
                let of = &self.tables[table];
                let ranges = ranges::cut(reader, &of.table, target)
                    .map_err(|error| changed(error, &of.table))?;
                of.open.store(ranges.len(), Ordering::SeqCst);
                let shown = self.progress.table(&of.table.label(), TableState::Loading);
                of.state().shown = Some(Arc::new(shown));
                self.events.emit(Event::TableStarted {
                    table: of.table.label(),
                });
                let mut jobs = queue.jobs();
                for (number, range) in ranges.into_iter().enumerate() {
                    let bytes = range.bytes;
                    let read = Job::Read {
                        bytes,
                        table,
                        number,
                    };
                    jobs.push(0, read);
                    jobs.shared.insert((table, number), range);
                }
                queue.wake();
                Ok(())
            }
            Job::Read { table, number, .. } => {
                let range = queue
                    .jobs()
                    .shared
                    .remove(&(table, number))
                    .unwrap_or_default();
                let of = &self.tables[table];
                let chunks = self
                    .read(reader, of, &range, number)
                    .map_err(|error| changed(error, &of.table))?;
                of.state().chunks.push((number, chunks));
                self.done.fetch_add(range.bytes, Ordering::Relaxed);
                if of.open.fetch_sub(1, Ordering::SeqCst) == 1 {
                    self.table_done(of)?;
                }
                Ok(())
            }
        }
    }

    fn read(
        &self,
        reader: &mut Connection,
        of: &TableWork,
        range: &Range,
        number: usize,
    ) -> Result<Vec<ChunkEntry>, DumpError> {
        let folder = |source| DumpError::Folder { source };
        let key = of.table.key.iter().map(|column| column.index).collect();
        let mut writer = ChunkWriter::new(
            self.folder,
            format!("{}.{number:05}", of.stem),
            self.options,
            key,
        )
        .map_err(|source| DumpError::file(self.folder.path(), "preparing compression", source))?;
        let shown = of.state().shown.clone();
        let show = |rows: u64, bytes: u64| {
            if let Some(shown) = &shown {
                shown.add(rows, bytes);
            }
        };
        let shutdown = reader.shutdown_handle();
        let mut failed = None;
        let mut rows = 0;
        let read = reader.query_each(ranges::select(&of.table, range), &mut |row| {
            match writer.row(row) {
                Ok(0) => {}
                Ok(bytes) => {
                    show(rows, bytes);
                    rows = 0;
                    self.throttle.take(bytes, self.cancel);
                }
                Err(error) => {
                    failed = Some(error);
                    // The rest of the rows has nowhere to go, and need not come.
                    shutdown.shutdown();
                    return ControlFlow::Break(());
                }
            }
            rows += 1;
            ControlFlow::Continue(())
        });
        if let Some(error) = failed {
            return Err(folder(error));
        }
        read.map_err(|error| {
            DumpError::server(
                format!("reading the rows of table {}", of.table.label()),
                error,
            )
        })?;
        let (chunks, rest) = writer.finish().map_err(folder)?;
        show(rows, rest);
        self.throttle.take(rest, self.cancel);
        Ok(chunks)
    }

    /// All rows of a table are read: was it the same table all the time?
    fn table_done(&self, of: &TableWork) -> Result<(), DumpError> {
        {
            let mut checker = self.checker.lock().unwrap_or_else(PoisonError::into_inner);
            let statement = format!("SHOW CREATE TABLE {}", of.table.quoted());
            let label = format!("table {}", of.table.label());
            let now = show_create(&mut checker, &label, &statement, &["Create Table"])
                .map_err(|error| changed(error, &of.table))?;
            let print = |text: &[u8]| fingerprint(&String::from_utf8_lossy(text));
            if print(&now.text) != print(&of.table.create) {
                return Err(DumpError::Changed { what: label });
            }
        }
        // The other readers of the table have ended before: nobody else has it.
        if let Some(shown) = of.state().shown.take().and_then(Arc::into_inner) {
            let (rows, bytes, seconds) =
                (shown.rows(), shown.bytes(), shown.elapsed().as_secs_f64());
            shown.loaded();
            self.events.emit(Event::TableFinished {
                table: of.table.label(),
                rows,
                bytes,
                seconds,
            });
        }
        Ok(())
    }
}

/// What a server says about a table that is not what it was.
fn changed(error: DumpError, table: &Table) -> DumpError {
    match &error {
        DumpError::Server { source, .. }
            if matches!(
                source.server_code(),
                Some(DEFINITION_CHANGED | NO_SUCH_TABLE)
            ) =>
        {
            DumpError::Changed {
                what: format!("table {}", table.label()),
            }
        }
        _ => error,
    }
}
