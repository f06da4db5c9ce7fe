//! The progress of a run: workers update atomics, user interfaces take snapshots.

mod eta;
mod rates;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use eta::{EtaInput, estimate};
use rates::Rates;
pub use snapshot::{ActiveTable, Phase, Snapshot, TableState};

/// Number of tables listed in a snapshot; the rest is only counted. This bounds the memory of a
/// snapshot for any number of threads.
const ACTIVE_TABLES: usize = 64;

#[derive(Default)]
struct Counters {
    phase: AtomicU8,
    bytes: AtomicU64,
    rows: AtomicU64,
    tables_started: AtomicU64,
    tables_done: AtomicU64,
    /// `u64::MAX` while unknown.
    tables_total: AtomicU64,
    builds_total: AtomicU64,
    builds_done: AtomicU64,
    build_bytes_total: AtomicU64,
    build_bytes_done: AtomicU64,
    /// Total time of finished builds, in microseconds.
    build_micros: AtomicU64,
    warnings: AtomicU64,
    /// `u64::MAX` while unknown.
    history_length: AtomicU64,
    /// `u64::MAX` while unknown.
    flow_control: AtomicU64,
    /// `u64::MAX` while unknown.
    redo_bytes: AtomicU64,
    /// `u64::MAX` while unknown.
    behind_total: AtomicU64,
    behind_done: AtomicU64,
}

struct TableCounters {
    name: String,
    started: Instant,
    rows: AtomicU64,
    bytes: AtomicU64,
    state: AtomicU8,
}

struct Build {
    started: Instant,
    bytes: u64,
}

#[derive(Default)]
struct Lists {
    source_total: Option<u64>,
    source_done: Option<Arc<AtomicU64>>,
    tables: BTreeMap<u64, Arc<TableCounters>>,
    builds: BTreeMap<u64, Build>,
    next: u64,
    data_started: Option<Instant>,
    data_ended: Option<Instant>,
    builds_started: Option<Instant>,
    prepare_started: Option<Instant>,
    catch_up_started: Option<Instant>,
    rates: Rates,
}

struct Inner {
    started: Instant,
    counters: Counters,
    lists: Mutex<Lists>,
}

/// The progress of a run. Cheap to clone; workers update it per chunk, never per row.
#[derive(Clone)]
pub struct Progress(Arc<Inner>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// A new progress, whose clock starts now.
    pub fn new() -> Self {
        let counters = Counters::default();
        for unknown in [
            &counters.tables_total,
            &counters.history_length,
            &counters.flow_control,
            &counters.redo_bytes,
            &counters.behind_total,
        ] {
            unknown.store(u64::MAX, Ordering::Relaxed);
        }
        Self(Arc::new(Inner {
            started: Instant::now(),
            counters,
            lists: Mutex::default(),
        }))
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the size of the raw source (if known) and where its position can be read.
    pub fn set_source(&self, total: Option<u64>, position: Arc<AtomicU64>) {
        let mut lists = self.lists();
        lists.source_total = total;
        lists.source_done = Some(position);
    }

    /// Sets the number of tables expected.
    pub fn set_tables_total(&self, tables: u64) {
        self.0
            .counters
            .tables_total
            .store(tables, Ordering::Relaxed);
    }

    /// Sets the cost of the open snapshot on the source: the length of its history list, and the
    /// flow control pauses of its cluster.
    pub fn set_snapshot_cost(&self, history_length: Option<u64>, flow_control: Option<u64>) {
        let c = &self.0.counters;
        for (counter, value) in [
            (&c.history_length, history_length),
            (&c.flow_control, flow_control),
        ] {
            counter.store(value.unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Sets how many bytes of redo log will be applied to the files that are copied.
    pub fn set_redo(&self, bytes: u64) {
        let c = &self.0.counters;
        c.redo_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets how much a new server still has to replicate until it has caught up: bytes of its
    /// source's log, or write-sets. The most that was ever left counts as the whole.
    pub fn set_behind(&self, left: u64) {
        let c = &self.0.counters;
        let before = c.behind_total.load(Ordering::Relaxed);
        let total = if before == u64::MAX {
            left
        } else {
            before.max(left)
        };
        c.behind_total.store(total, Ordering::Relaxed);
        c.behind_done.store(total - left, Ordering::Relaxed);
    }

    /// Enters a phase.
    pub fn set_phase(&self, phase: Phase) {
        let now = Instant::now();
        let mut lists = self.lists();
        if phase == Phase::Data {
            lists.data_started.get_or_insert(now);
        } else if phase > Phase::Data && lists.data_started.is_some() {
            lists.data_ended.get_or_insert(now);
        }
        if phase == Phase::Prepare {
            lists.prepare_started.get_or_insert(now);
        } else if phase == Phase::CatchUp {
            lists.catch_up_started.get_or_insert(now);
        }
        self.0.counters.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Current phase.
    pub fn phase(&self) -> Phase {
        let index = usize::from(self.0.counters.phase.load(Ordering::Relaxed));
        Phase::ALL.get(index).copied().unwrap_or(Phase::Done)
    }

    /// Adds bytes that belong to no table (statements, comments).
    pub fn add_bytes(&self, bytes: u64) {
        self.0.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds to the number of warnings.
    pub fn add_warnings(&self, warnings: u64) {
        self.0
            .counters
            .warnings
            .fetch_add(warnings, Ordering::Relaxed);
    }

    /// Starts work on a table, or on the same table in another state.
    pub fn table(&self, name: &str, state: TableState) -> TableProgress {
        let counters = Arc::new(TableCounters {
            name: name.to_owned(),
            started: Instant::now(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            state: AtomicU8::new(state as u8),
        });
        let mut lists = self.lists();
        let id = lists.next;
        lists.next += 1;
        lists.tables.insert(id, counters.clone());
        drop(lists);
        if state == TableState::Loading {
            self.0
                .counters
                .tables_started
                .fetch_add(1, Ordering::Relaxed);
        }
        TableProgress {
            progress: self.clone(),
            counters,
            id,
        }
    }

    /// Announces `builds` indexes or foreign keys to be built later, which together read `bytes` of
    /// table text: the table's bytes once for each build that reads the table.
    pub fn plan_builds(&self, builds: u64, bytes: u64) {
        self.0
            .counters
            .builds_total
            .fetch_add(builds, Ordering::Relaxed);
        self.0
            .counters
            .build_bytes_total
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Starts one statement that does `builds` of the planned builds; `bytes` as planned for it.
    pub fn build(&self, builds: u64, bytes: u64) -> BuildProgress {
        let now = Instant::now();
        let mut lists = self.lists();
        let id = lists.next;
        lists.next += 1;
        lists.builds_started.get_or_insert(now);
        lists.builds.insert(
            id,
            Build {
                started: now,
                bytes,
            },
        );
        BuildProgress {
            progress: self.clone(),
            id,
            builds,
            bytes,
            started: now,
        }
    }

    /// Takes all figures at once. Meant to be called about ten times a second.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_at(Instant::now())
    }

    fn snapshot_at(&self, now: Instant) -> Snapshot {
        let c = &self.0.counters;
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let known = |a: &AtomicU64| Some(get(a)).filter(|n| *n != u64::MAX);
        let phase = self.phase();
        let mut lists = self.lists();
        let source_done = lists.source_done.as_ref().map_or(0, |a| get(a));
        let source_total = lists.source_total;
        let (bytes_done, rows_done) = (get(&c.bytes), get(&c.rows));
        lists.rates.push(now, source_done, bytes_done, rows_done);
        let [source_rate, bytes_rate, rows_rate] = lists.rates.per_second();
        let active: Vec<ActiveTable> = lists
            .tables
            .values()
            .take(ACTIVE_TABLES)
            .map(|t| t.snapshot(now))
            .collect();
        let active_more = (lists.tables.len() - active.len()) as u64;
        let span = |from: Option<Instant>, to: Option<Instant>| {
            from.map_or(Duration::ZERO, |f| {
                to.unwrap_or(now).saturating_duration_since(f)
            })
        };
        let build_total = get(&c.build_bytes_total);
        let input = EtaInput {
            phase,
            source_total,
            source_done,
            bytes_done,
            data_seconds: span(lists.data_started, lists.data_ended).as_secs_f64(),
            recent_source_rate: source_rate,
            build_bytes_planned: build_total,
            build_bytes_done: get(&c.build_bytes_done),
            build_seconds: get(&c.build_micros) as f64 / 1e6,
            running_builds: lists
                .builds
                .values()
                .map(|b| {
                    (
                        b.bytes,
                        now.saturating_duration_since(b.started).as_secs_f64(),
                    )
                })
                .collect(),
            builds_wall_seconds: span(lists.builds_started, None).as_secs_f64(),
            redo_bytes: known(&c.redo_bytes),
            prepare_seconds: span(lists.prepare_started, None).as_secs_f64(),
            behind: known(&c.behind_total).map(|total| (total, get(&c.behind_done))),
            catch_up_seconds: span(lists.catch_up_started, None).as_secs_f64(),
        };
        drop(lists);
        let elapsed = now.saturating_duration_since(self.0.started).as_secs_f64();
        let eta = estimate(&input);
        Snapshot {
            phase,
            elapsed,
            source_total,
            source_done,
            bytes_done,
            rows_done,
            source_rate,
            bytes_rate,
            rows_rate,
            tables_started: get(&c.tables_started),
            tables_done: get(&c.tables_done),
            tables_total: known(&c.tables_total),
            history_length: known(&c.history_length),
            flow_control: known(&c.flow_control),
            active,
            active_more,
            builds_total: get(&c.builds_total),
            builds_done: get(&c.builds_done),
            build_bytes_total: build_total,
            build_bytes_done: input.build_bytes_done,
            warnings: get(&c.warnings),
            eta,
            fraction: eta.map(|eta| {
                if eta + elapsed > 0.0 {
                    elapsed / (elapsed + eta)
                } else {
                    0.0
                }
            }),
        }
    }
}

impl TableCounters {
    fn snapshot(&self, now: Instant) -> ActiveTable {
        ActiveTable {
            table: self.name.clone(),
            state: match self.state.load(Ordering::Relaxed) {
                0 => TableState::Loading,
                1 => TableState::Indexing,
                2 => TableState::ForeignKeys,
                _ => TableState::Checking,
            },
            rows: self.rows.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            seconds: now.saturating_duration_since(self.started).as_secs_f64(),
        }
    }
}

/// A table being worked on. Dropping this takes it off the list of active tables. Several workers
/// may share it.
pub struct TableProgress {
    progress: Progress,
    counters: Arc<TableCounters>,
    id: u64,
}

impl TableProgress {
    /// Adds rows and bytes of dump text that are now in the server. Call once per committed chunk.
    pub fn add(&self, rows: u64, bytes: u64) {
        self.counters.rows.fetch_add(rows, Ordering::Relaxed);
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.progress
            .0
            .counters
            .rows
            .fetch_add(rows, Ordering::Relaxed);
        self.progress
            .0
            .counters
            .bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.counters.rows.load(Ordering::Relaxed)
    }

    /// Bytes of dump text so far.
    pub fn bytes(&self) -> u64 {
        self.counters.bytes.load(Ordering::Relaxed)
    }

    /// Time since the table started.
    pub fn elapsed(&self) -> Duration {
        self.counters.started.elapsed()
    }

    /// Sets what is happening to the table now.
    pub fn set_state(&self, state: TableState) {
        self.counters.state.store(state as u8, Ordering::Relaxed);
    }

    /// All rows are in: counts the table as done, and takes it off the list.
    pub fn loaded(self) {
        self.progress
            .0
            .counters
            .tables_done
            .fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for TableProgress {
    fn drop(&mut self) {
        self.progress.lists().tables.remove(&self.id);
    }
}

/// A running build. Dropped without [`BuildProgress::finish`], it counts as not done.
pub struct BuildProgress {
    progress: Progress,
    id: u64,
    builds: u64,
    bytes: u64,
    started: Instant,
}

impl BuildProgress {
    /// Counts the build as done.
    pub fn finish(self) {
        let c = &self.progress.0.counters;
        c.builds_done.fetch_add(self.builds, Ordering::Relaxed);
        c.build_bytes_done.fetch_add(self.bytes, Ordering::Relaxed);
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        c.build_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Drop for BuildProgress {
    fn drop(&mut self) {
        self.progress.lists().builds.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_tells_what_workers_did() {
        let p = Progress::new();
        let position = Arc::new(AtomicU64::new(0));
        p.set_source(Some(1000), position.clone());
        p.set_phase(Phase::Data);
        let t = p.table("a.b", TableState::Loading);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| t.add(10, 100));
            }
        });
        position.store(400, Ordering::Relaxed);
        p.plan_builds(2, 800);
        let b = p.build(1, 400);
        let s = p.snapshot_at(Instant::now() + Duration::from_secs(2));
        assert_eq!((s.rows_done, s.bytes_done, s.source_done), (40, 400, 400));
        assert_eq!(s.active[0].table, "a.b");
        assert_eq!(
            (s.active[0].rows, s.active[0].state),
            (40, TableState::Loading)
        );
        assert!(s.eta.unwrap() > 0.0 && s.fraction.unwrap() < 1.0);
        t.loaded();
        b.finish();
        drop(p.build(1, 400));
        let s = p.snapshot();
        assert!(s.active.is_empty());
        assert_eq!(
            (s.tables_done, s.builds_done, s.build_bytes_done),
            (1, 1, 400)
        );
        p.set_phase(Phase::Done);
        assert_eq!(p.snapshot().eta, Some(0.0));
    }

    #[test]
    fn many_tables_stay_a_short_list() {
        let p = Progress::new();
        let all: Vec<_> = (0..1000)
            .map(|i| p.table(&format!("d.t{i}"), TableState::Loading))
            .collect();
        let s = p.snapshot();
        assert_eq!((s.active.len(), s.active_more), (64, 936));
        drop(all);
        assert_eq!(p.snapshot().active_more, 0);
    }
}
