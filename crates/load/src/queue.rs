//! The work queue between the conductor and the workers.
//!
//! Rows wait in one lane per table, in dump order; a worker takes as many as make a good chunk.
//! Different tables are written at the same time; the lane's limit says how many workers may write
//! into one table. Other work (index builds, checks) comes after the rows, and goes to workers that
//! no lane needs. The conductor can wait until one table, or everything, is done. The first error
//! of any worker ends the queue, and the conductor's next call returns it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use refloat_run::Cancel;

use super::chunk::{Chunk, Head, Piece};
use super::chunk_size::ChunkSize;
use super::context::OTHER_FAILED;
use super::error::LoadError;
use super::options::CHUNK_BYTES_MIN;
use super::table_writer::TableWriter;
use super::task::{Key, Task};

/// How often a waiting thread checks whether the run was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(100);
/// Near the end of a lane chunks shrink to leave this many for each worker, so that all of them
/// finish together.
const TAIL_CHUNKS: usize = 3;

/// Up to this many bytes of dump text a row is narrow: hundreds of them share a page, so writers
/// into the same table seldom contend for the locks of its index.
const NARROW_ROW: u64 = 96;

/// A unit of work for a worker.
pub enum Work {
    /// Write rows, by the writer of their table.
    Chunk(Chunk, Arc<dyn TableWriter>),
    /// Anything else.
    Task(Task),
}

/// How much a queue holds, how it is cut into chunks, and how many workers take from it.
pub struct Limits {
    /// Bytes of row text in memory, including those being written.
    pub memory: usize,
    /// Workers that may write into one table at the same time.
    pub lane_workers: usize,
    /// The same for tables of narrow rows.
    pub narrow_lane_workers: usize,
    /// Total number of workers.
    pub workers: usize,
    /// Exactly this many rows per chunk.
    pub chunk_rows: Option<u64>,
    /// At most this many rows per chunk.
    pub rows_most: Option<u64>,
    /// At most this many bytes of dump text per chunk, even with a fixed number of rows.
    pub bytes_most: Option<usize>,
    /// One row per chunk in tables without transactions.
    pub one_by_one: bool,
}

/// The queue of one load.
pub struct Queue {
    state: Mutex<State>,
    /// Signalled when work arrives or the queue ends.
    work: Condvar,
    /// Signalled when work is finished or the queue ends.
    done: Condvar,
    limits: Limits,
    chunk_size: Arc<ChunkSize>,
    cancel: Cancel,
}

/// Rows of one table.
#[derive(Default)]
struct Lane {
    pieces: VecDeque<(Head, Piece)>,
    bytes: usize,
    rows: u64,
    active: usize,
    /// Only one worker at a time, whatever the limit.
    ordered: bool,
    /// No more rows are expected: take what is left, even if it is less than a good chunk.
    flushed: bool,
    /// Writes them.
    writer: Option<Arc<dyn TableWriter>>,
    /// Task that follows when all rows are written.
    then: Option<Task>,
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.pieces.is_empty() && self.active == 0
    }
}

#[derive(Default)]
struct State {
    lanes: BTreeMap<Key, Lane>,
    tasks: Vec<Task>,
    /// Number of tasks queued or running, by key.
    open: HashMap<Key, usize>,
    /// Number of those that bring rows.
    bringing: usize,
    /// Chunks and rows that were taken so far, by key.
    taken: HashMap<Key, (usize, u64)>,
    held: usize,
    /// The conductor waits for memory, so chunks need not be full.
    starved: bool,
    sorting: u64,
    sort_budget: Option<u64>,
    running: usize,
    ended: bool,
    error: Option<LoadError>,
    failed: bool,
}

impl Queue {
    pub fn new(limits: Limits, chunk_size: Arc<ChunkSize>, cancel: Cancel) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            limits,
            chunk_size,
            cancel,
        }
    }

    /// Adds rows, waiting for memory. A piece larger than the whole limit is accepted when the
    /// queue holds nothing else.
    pub fn push(
        &self,
        writer: &Arc<dyn TableWriter>,
        rows: &Head,
        piece: Piece,
        ordered: bool,
    ) -> Result<(), LoadError> {
        let held = piece.held();
        rows.table.note_sent(piece.rows);
        let mut state = self.lock();
        while held > 0 && state.held > 0 && state.held + held > self.limits.memory {
            state.starved = true;
            self.work.notify_all();
            state = self.pause(state)?;
        }
        state.starved = false;
        self.check(&mut state)?;
        state.held += held;
        let lane = state.lanes.entry(rows.table.id).or_default();
        lane.bytes += piece.len();
        lane.rows += piece.rows;
        lane.ordered |= ordered;
        lane.flushed = false;
        lane.writer = Some(Arc::clone(writer));
        lane.pieces.push_back((rows.clone(), piece));
        self.work.notify_one();
        Ok(())
    }

    /// Bytes of rows of `key` that no worker has taken yet.
    pub fn waiting(&self, key: Key) -> usize {
        self.lock().lanes.get(&key).map_or(0, |lane| lane.bytes)
    }

    /// The lanes with rows that are not all written.
    pub fn open_lanes(&self) -> Vec<Key> {
        self.lock().lanes.keys().copied().collect()
    }

    /// Whether the queue ended early: what is queued must not be written any more.
    pub fn has_failed(&self) -> bool {
        self.lock().failed
    }

    /// Returns the error of a worker, if any, for a caller that has nothing to add now.
    pub fn look(&self) -> Result<(), LoadError> {
        self.check(&mut self.lock())
    }

    /// No more rows of `key` are expected for now; `then` follows when all of them are written.
    pub fn flush(&self, key: Key, then: Option<Task>) -> Result<(), LoadError> {
        let mut state = self.lock();
        self.check(&mut state)?;
        let lane = state.lanes.entry(key).or_default();
        lane.flushed = true;
        if then.is_some() {
            lane.then = then;
        }
        Self::follow(&mut state, key);
        self.work.notify_all();
        self.done.notify_all();
        Ok(())
    }

    pub fn submit(&self, task: Task) -> Result<(), LoadError> {
        let mut state = self.lock();
        self.check(&mut state)?;
        Self::add(&mut state, task);
        self.work.notify_one();
        Ok(())
    }

    /// Sets how many bytes tasks may sort at the same time.
    pub fn set_sort_budget(&self, bytes: Option<u64>) {
        self.lock().sort_budget = bytes;
    }

    fn add(state: &mut State, task: Task) {
        *state.open.entry(task.key).or_insert(0) += 1;
        state.bringing += usize::from(task.brings_rows);
        state.tasks.push(task);
    }

    /// Removes a lane that is done, and queues the task that follows it.
    fn follow(state: &mut State, key: Key) {
        let Some(lane) = state
            .lanes
            .get_mut(&key)
            .filter(|lane| lane.is_idle() && lane.flushed)
        else {
            return;
        };
        let then = lane.then.take();
        state.lanes.remove(&key);
        if let Some(task) = then {
            Self::add(state, task);
        }
    }

    /// Waits until nothing of `key` is queued or running. Its rows must have been flushed.
    pub fn wait_key(&self, key: Key) -> Result<(), LoadError> {
        let mut state = self.lock();
        while state.lanes.contains_key(&key) || state.open.contains_key(&key) {
            state = self.pause(state)?;
        }
        self.check(&mut state)
    }

    /// Waits until all rows are written; tasks may still run.
    pub fn wait_rows(&self) -> Result<(), LoadError> {
        let mut state = self.lock();
        self.flush_all(&mut state);
        while !state.lanes.is_empty() || state.bringing > 0 {
            state = self.pause(state)?;
        }
        self.check(&mut state)
    }

    /// Lets workers take whatever rows each table has, even if they are less than a good chunk:
    /// several tables may be in the middle of their rows.
    fn flush_all(&self, state: &mut State) {
        let keys: Vec<Key> = state.lanes.keys().copied().collect();
        for key in keys {
            if let Some(lane) = state.lanes.get_mut(&key) {
                lane.flushed = true;
            }
            Self::follow(state, key);
        }
        self.work.notify_all();
    }

    /// Waits until nothing is queued or running.
    pub fn wait_all(&self) -> Result<(), LoadError> {
        let mut state = self.lock();
        self.flush_all(&mut state);
        while !state.lanes.is_empty() || !state.open.is_empty() {
            state = self.pause(state)?;
        }
        self.check(&mut state)
    }

    /// No more work will come; workers end when the queue is empty.
    pub fn end(&self) {
        self.lock().ended = true;
        self.wake();
    }

    /// Ends the queue at once, dropping all work that no worker has taken.
    pub fn stop(&self) {
        Self::drop_work(&mut self.lock());
        self.wake();
    }

    /// Ends the queue with an error; only the first error is kept.
    pub fn fail(&self, error: LoadError) {
        let mut state = self.lock();
        state.error.get_or_insert(error);
        Self::drop_work(&mut state);
        drop(state);
        self.wake();
    }

    fn drop_work(state: &mut State) {
        state.failed = true;
        let left = state.tasks.drain(..);
        state.bringing -= left.filter(|task| task.brings_rows).count();
        for lane in state.lanes.values_mut() {
            lane.pieces.clear();
            lane.then = None;
        }
    }

    fn wake(&self) {
        self.work.notify_all();
        self.done.notify_all();
    }

    /// The error that ended the queue; returned only once.
    pub fn take_error(&self) -> Option<LoadError> {
        self.lock().error.take()
    }

    /// Takes the next work; `None` when there will be none.
    pub fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if state.failed || self.cancel.is_cancelled() {
                return None;
            }
            // Those hold memory and files until they are done.
            if let Some(task) = Self::take_task(&mut state, |task| task.brings_rows) {
                state.running += 1;
                return Some(Work::Task(task));
            }
            if let Some((chunk, writer)) = self.take_rows(&mut state) {
                state.running += 1;
                return Some(Work::Chunk(chunk, writer));
            }
            if let Some(task) = Self::take_task(&mut state, |_| true) {
                state.running += 1;
                return Some(Work::Task(task));
            }
            if state.ended && state.lanes.is_empty() && state.tasks.is_empty() {
                return None;
            }
            state = self
                .work
                .wait_timeout(state, CANCEL_POLL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Takes a chunk from the lane with the fewest workers, because workers in the same table wait
    /// for each other; among those from the one with the most rows left, so that the longest lane
    /// does not finish long after the others.
    fn take_rows(&self, state: &mut State) -> Option<(Chunk, Arc<dyn TableWriter>)> {
        let size = self.chunk_size.current();
        let starved = state.starved;
        let free = |lane: &Lane| {
            let most = if lane.ordered {
                1
            } else if lane.bytes as u64 <= lane.rows * NARROW_ROW {
                self.limits.narrow_lane_workers
            } else {
                self.limits.lane_workers
            };
            lane.active < most
        };
        let full = |lane: &Lane| {
            let enough = self
                .limits
                .chunk_rows
                .map_or(lane.bytes >= size, |rows| lane.rows >= rows);
            lane.flushed || starved || enough
        };
        let lane = state
            .lanes
            .values_mut()
            .filter(|lane| !lane.pieces.is_empty() && free(lane) && full(lane))
            .max_by_key(|lane| (Reverse(lane.active), lane.bytes))?;
        let writer = Arc::clone(lane.writer.as_ref()?);
        let share = lane.bytes / (self.limits.workers * TAIL_CHUNKS).max(1);
        let target = if self.limits.chunk_rows.is_some() {
            self.limits
                .bytes_most
                .map_or(usize::MAX, |most| most.min(size))
        } else {
            size.min(share.max(2 * CHUNK_BYTES_MIN))
        };
        let (head, first) = lane.pieces.pop_front()?;
        let mut chunk = Chunk::new(head);
        chunk.push(first);
        while let Some((head, piece)) = lane.pieces.front() {
            let limits = [self.limits.chunk_rows, self.limits.rows_most];
            let alone = self.limits.one_by_one && !chunk.head.table.is_transactional();
            let full = alone
                || chunk.bytes + piece.len() > target
                || limits
                    .into_iter()
                    .flatten()
                    .any(|limit| chunk.rows + piece.rows > limit);
            if full || !chunk.head.joins(head) {
                break;
            }
            chunk.push(lane.pieces.pop_front()?.1);
        }
        lane.bytes -= chunk.bytes;
        lane.rows -= chunk.rows;
        lane.active += 1;
        let taken = state.taken.entry(chunk.table.id).or_default();
        (chunk.number, chunk.before) = *taken;
        *taken = (chunk.number + 1, chunk.before + chunk.rows);
        Some((chunk, writer))
    }

    /// Takes the task that sorts most among the wanted ones that fit into the budget.
    fn take_task(state: &mut State, wanted: impl Fn(&Task) -> bool) -> Option<Task> {
        let room = state
            .sort_budget
            .map_or(u64::MAX, |budget| budget.saturating_sub(state.sorting));
        let alone = state.sorting == 0;
        let fits = |task: &Task| task.sorts <= room || alone;
        let (index, _) = state
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| wanted(task) && fits(task))
            .max_by_key(|(_, task)| task.sorts)?;
        let task = state.tasks.swap_remove(index);
        state.sorting += task.sorts;
        Some(task)
    }

    /// Marks a chunk of `key` that held `held` bytes as finished.
    pub fn finish_chunk(&self, key: Key, held: usize) {
        let mut state = self.lock();
        state.held -= held;
        state.running -= 1;
        if let Some(lane) = state.lanes.get_mut(&key) {
            lane.active -= 1;
        }
        Self::follow(&mut state, key);
        drop(state);
        self.wake();
    }

    /// Marks a task as finished.
    pub fn finish_task(&self, key: Key, sorts: u64, brought_rows: bool) {
        let mut state = self.lock();
        state.bringing -= usize::from(brought_rows);
        state.sorting -= sorts;
        state.running -= 1;
        if let Some(open) = state.open.get_mut(&key) {
            *open -= 1;
            if *open == 0 {
                state.open.remove(&key);
            }
        }
        drop(state);
        self.wake();
    }

    fn pause<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, LoadError> {
        self.check(&mut state)?;
        Ok(self
            .done
            .wait_timeout(state, CANCEL_POLL)
            .unwrap_or_else(PoisonError::into_inner)
            .0)
    }

    fn check(&self, state: &mut State) -> Result<(), LoadError> {
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        if self.cancel.is_cancelled() {
            return Err(LoadError::interrupted(&self.cancel));
        }
        if state.failed {
            return Err(LoadError::Interrupted(OTHER_FAILED.to_owned()));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
