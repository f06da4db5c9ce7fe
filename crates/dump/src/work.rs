//! Reader threads: they cut tables into ranges and read the ranges into files, largest first.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use refloat_read::catalog::Table;
use refloat_read::jobs::{Job, Queue};
use refloat_read::ranges;
use refloat_read::ranges::{RANGE_MIN, Range};
use refloat_read::unchanged::{changed, counted, same_definition, whole};
use refloat_run::progress::{TableProgress, TableState};
use refloat_run::{Cancel, Event, Events, Progress, kill_on_cancel};
use refloat_source::manifest::ChunkEntry;
use refloat_source::stream::RowStream;
use refloat_store::Folder;
use refloat_wire::{Connection, Row};

use super::block::BlockWriter;
use super::chunk::ChunkWriter;
use super::error::DumpError;
use super::json_types;
use super::options::DumpOptions;
use super::throttle::Throttle;

/// Ranges per reader over the whole dump, so that all readers finish at about the same time. Not
/// more: InnoDB starts read-ahead only after the first 64 pages of a range.
const RANGES_PER_READER: u64 = 5;
/// When no table is cut, a reader may get up to 1/`UNEVEN` more than its share.
const UNEVEN: u64 = 12;
/// A range size larger than any table, with headroom for sums.
const UNCUT: u64 = u64::MAX / 4;

/// What all readers share.
pub struct Work<'a> {
    /// The options of the dump or copy.
    pub options: &'a DumpOptions,
    /// Destination of the rows.
    pub sink: Sink<'a>,
    /// Stops the work early.
    pub cancel: &'a Cancel,
    /// Receives the events. A copy discards them.
    pub events: &'a Events,
    /// Receives the progress of the tables. A copy discards it.
    pub progress: &'a Progress,
    /// Bytes of rows read so far, by the server's estimate.
    pub done: &'a AtomicU64,
    /// Limits the readers' rate.
    pub throttle: &'a Throttle,
    /// Reads definitions again, to see whether they changed.
    pub checker: &'a Mutex<Connection>,
    /// The tables to read, with the state of each.
    pub tables: &'a [TableWork],
}

/// Destination of the rows.
#[derive(Clone, Copy)]
pub enum Sink<'a> {
    /// Files of a dump folder.
    Folder(&'a Folder),
    /// Blocks of a stream, for a copy or a dump as SQL.
    Stream(&'a RowStream),
}

/// Writes the rows of one range.
enum RangeWriter<'a> {
    Files(Box<ChunkWriter<'a>>),
    Blocks(BlockWriter<'a>),
}

/// The result of writing one range.
struct WrittenRange {
    /// The range's files; empty for a stream.
    chunks: Vec<ChunkEntry>,
    rows: u64,
    /// Bytes of text that [`RangeWriter::row`] has not reported yet.
    untold: u64,
}

impl RangeWriter<'_> {
    /// Appends a row. Returns the bytes of text since the last report once there are enough of
    /// them, otherwise 0.
    fn row(&mut self, row: Row<'_>) -> Result<u64, DumpError> {
        match self {
            Self::Files(writer) => Ok(writer.row(row)?),
            Self::Blocks(writer) => writer.row(row),
        }
    }

    fn finish(self) -> Result<WrittenRange, DumpError> {
        Ok(match self {
            Self::Files(writer) => {
                let (chunks, untold) = writer.finish()?;
                WrittenRange {
                    rows: chunks.iter().map(|chunk| chunk.rows).sum(),
                    chunks,
                    untold,
                }
            }
            Self::Blocks(writer) => {
                let (rows, untold) = writer.finish()?;
                WrittenRange {
                    chunks: Vec::new(),
                    rows,
                    untold,
                }
            }
        })
    }
}

/// A table and the files written for it.
pub struct TableWork {
    /// The table as the catalog describes it.
    pub table: Table,
    /// Path of its files within the folder, without number and extension.
    pub stem: String,
    /// Ranges still to be read. Set when the table is cut.
    open: AtomicUsize,
    state: Mutex<TableFiles>,
}

#[derive(Default)]
struct TableFiles {
    /// Files, by the index of their range.
    chunks: Vec<(usize, Vec<ChunkEntry>)>,
    rows: u64,
    shown: Option<Arc<TableProgress>>,
    notes: Vec<String>,
}

impl TableWork {
    /// A table with nothing read yet.
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

    /// Warnings about the table's rows. Complete once all rows are read.
    pub fn notes(&self) -> Vec<String> {
        self.state().notes.clone()
    }

    /// The table and its files, in key order.
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

/// Ranges waiting to be read, by table index and range index.
type Ranges = HashMap<(usize, usize), Range>;

/// Reads the rows of the tables at the indexes `which` with all readers. The readers' snapshots
/// stay open.
pub fn read_all(
    work: &Work<'_>,
    readers: &mut [Connection],
    which: &[usize],
) -> Result<(), DumpError> {
    let queue = Queue::new(1, Ranges::new());
    let sizes: Vec<u64> = which
        .iter()
        .map(|index| work.tables[*index].table.bytes)
        .collect();
    let target = range_bytes(sizes, readers.len() as u64, work.options.file_bytes());
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

/// Target size of a range in bytes, so that all readers finish at about the same time.
///
/// No table is cut if whole tables can be spread evenly: a scan without conditions costs the server
/// a tenth less, and InnoDB reads ahead from start to end.
fn range_bytes(mut sizes: Vec<u64>, readers: u64, file: u64) -> u64 {
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let total: u64 = sizes.iter().sum();
    let mut loads = vec![0_u64; readers as usize];
    for size in sizes {
        if let Some(least) = loads.iter_mut().min() {
            *least += size;
        }
    }
    let share = total / readers.max(1);
    if loads.iter().all(|load| *load <= share + share / UNEVEN) {
        return UNCUT;
    }
    (share / RANGES_PER_READER).clamp(RANGE_MIN.min(file), file.max(1))
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
                let written =
                    self.read(reader, table, &range, number)
                        .map_err(|error| match error {
                            DumpError::Read(error) => changed(error, &of.table).into(),
                            other => other,
                        })?;
                {
                    let mut state = of.state();
                    state.chunks.push((number, written.chunks));
                    state.rows += written.rows;
                }
                self.done.fetch_add(range.bytes, Ordering::Relaxed);
                if of.open.fetch_sub(1, Ordering::SeqCst) == 1 {
                    if range.is_part() && of.table.has_text_in_key() {
                        counted(reader, &of.table, of.state().rows)?;
                    }
                    if self.options.json_types {
                        let notes = json_types::notes(reader, &of.table)?;
                        of.state().notes.extend(notes);
                    }
                    self.table_done(of)?;
                    if let Sink::Stream(stream) = self.sink {
                        stream.table_end(table, of.state().rows);
                    }
                }
                Ok(())
            }
        }
    }

    fn read(
        &self,
        reader: &mut Connection,
        table: usize,
        range: &Range,
        number: usize,
    ) -> Result<WrittenRange, DumpError> {
        let of = &self.tables[table];
        let mut writer = self.writer(table, number)?;
        let shown = of.state().shown.clone();
        let show = |rows: u64, bytes: u64| {
            if let Some(shown) = &shown {
                shown.add(rows, bytes);
            }
        };
        let shutdown = reader.shutdown_handle();
        let mut failed = None;
        let mut rows = 0;
        let select = ranges::select(&of.table, range);
        let select = ranges::ask_for_large_pieces(select, range, reader);
        let read = reader.query_each(select, &mut |row| {
            match writer.row(row) {
                Ok(0) => {}
                Ok(bytes) => {
                    show(rows, bytes);
                    rows = 0;
                    self.throttle.take(bytes, self.cancel);
                }
                Err(error) => {
                    failed = Some(error);
                    // The remaining rows have nowhere to go. Do not make the server send them.
                    shutdown.shutdown();
                    return ControlFlow::Break(());
                }
            }
            rows += 1;
            ControlFlow::Continue(())
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let end = read.map_err(|error| {
            DumpError::server(
                format!("reading the rows of table {}", of.table.label()),
                error,
            )
        })?;
        whole(reader, &of.table, end.ok.warnings)?;
        let written = writer.finish()?;
        show(rows, written.untold);
        self.throttle.take(written.untold, self.cancel);
        Ok(written)
    }

    fn writer(&self, table: usize, number: usize) -> Result<RangeWriter<'_>, DumpError> {
        let folder = match self.sink {
            Sink::Stream(stream) => {
                return Ok(RangeWriter::Blocks(BlockWriter::new(stream, table)));
            }
            Sink::Folder(folder) => folder,
        };
        let of = &self.tables[table];
        let key = of.table.key.iter().map(|column| column.index).collect();
        let stem = format!("{}.{number:05}", of.stem);
        ChunkWriter::new(folder, stem, self.options, key)
            .map(|writer| RangeWriter::Files(Box::new(writer)))
            .map_err(|source| DumpError::file(folder.path(), "preparing compression", source))
    }

    /// Called when all rows of a table are read: checks that its definition did not change.
    fn table_done(&self, of: &TableWork) -> Result<(), DumpError> {
        {
            let mut checker = self.checker.lock().unwrap_or_else(PoisonError::into_inner);
            same_definition(&mut checker, &of.table)?;
        }
        // All other readers of this table have finished, so this is the last reference.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_can_be_dealt_out_evenly_are_not_cut() {
        let file = 64 << 20;
        assert_eq!(range_bytes(vec![300 << 20, 310 << 20], 2, file), UNCUT);
        assert_eq!(range_bytes(vec![1 << 30; 10], 5, file), UNCUT);
        assert_eq!(
            range_bytes(vec![1 << 20, 100 << 20], 2, file),
            (101 << 19) / RANGES_PER_READER
        );
        assert_eq!(
            range_bytes(vec![4 << 30], 2, file),
            file,
            "files are no larger"
        );
        assert_eq!(range_bytes(vec![8 << 20], 2, file), RANGE_MIN);
        assert_eq!(range_bytes(vec![8 << 20], 2, 1000), 1000);
        assert_eq!(range_bytes(Vec::new(), 2, file), UNCUT);
    }
}
