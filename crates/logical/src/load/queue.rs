//! Work between the conductor and the workers, bounded by bytes.
//!
//! The conductor submits chunks and tasks; workers take them in order. The conductor can wait until one table, or
//! everything, is done. The first error of any worker ends the queue: nothing more is handed out, and the conductor's next
//! call returns it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use refloat_run::Cancel;

use super::chunk::Chunk;
use super::error::LoadError;
use super::worker::Worker;

/// How often a waiting thread looks whether the run was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(100);

/// Something a worker does with its connection besides writing rows.
pub type Task = Box<dyn FnOnce(&mut Worker) -> Result<(), LoadError> + Send>;

/// One thing to do.
pub enum Work {
    /// Write rows.
    Chunk(Chunk),
    /// Anything else; the key groups tasks for [`Queue::wait_key`].
    Task(Task),
}

/// What a piece of work belongs to: a table's id, or [`TASKS`].
pub type Key = usize;

/// Key for tasks that belong to no table.
pub const TASKS: Key = usize::MAX;

/// The queue of one load.
pub struct Queue {
    state: Mutex<State>,
    /// Signalled when work arrives or the queue ends.
    work: Condvar,
    /// Signalled when work is finished or the queue ends.
    done: Condvar,
    max_bytes: usize,
    cancel: Cancel,
}

#[derive(Default)]
struct State {
    work: VecDeque<(Key, usize, Work)>,
    bytes: usize,
    open: HashMap<Key, usize>,
    unfinished: usize,
    ended: bool,
    error: Option<LoadError>,
    failed: bool,
}

impl Queue {
    /// An empty queue that holds chunks of at most `max_bytes` of dump text, those being written included.
    pub fn new(max_bytes: usize, cancel: Cancel) -> Self {
        Self { state: Mutex::default(), work: Condvar::new(), done: Condvar::new(), max_bytes, cancel }
    }

    /// Adds a chunk, waiting for room. A chunk larger than the whole room is taken when nothing else is there.
    pub fn submit(&self, chunk: Chunk) -> Result<(), LoadError> {
        let bytes = chunk.bytes;
        let key = chunk.table.id;
        let mut state = self.lock();
        while state.bytes > 0 && state.bytes + bytes > self.max_bytes {
            state = self.pause(state)?;
        }
        self.check(&mut state)?;
        state.bytes += bytes;
        self.put(&mut state, key, bytes, Work::Chunk(chunk));
        Ok(())
    }

    /// Adds a task.
    pub fn submit_task(&self, key: Key, task: Task) -> Result<(), LoadError> {
        let mut state = self.lock();
        self.check(&mut state)?;
        self.put(&mut state, key, 0, Work::Task(task));
        Ok(())
    }

    fn put(&self, state: &mut State, key: Key, bytes: usize, work: Work) {
        *state.open.entry(key).or_insert(0) += 1;
        state.unfinished += 1;
        state.work.push_back((key, bytes, work));
        self.work.notify_one();
    }

    /// Waits until nothing of `key` is queued or running.
    pub fn wait_key(&self, key: Key) -> Result<(), LoadError> {
        let mut state = self.lock();
        while state.open.contains_key(&key) {
            state = self.pause(state)?;
        }
        self.check(&mut state)
    }

    /// Waits until nothing is queued or running.
    pub fn wait_all(&self) -> Result<(), LoadError> {
        let mut state = self.lock();
        while state.unfinished > 0 {
            state = self.pause(state)?;
        }
        self.check(&mut state)
    }

    /// Whether anything of `key` is queued or running.
    pub fn is_busy(&self, key: Key) -> bool {
        self.lock().open.contains_key(&key)
    }

    /// No more work will come; workers end when the queue is empty.
    pub fn end(&self) {
        self.lock().ended = true;
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Ends the queue at once: work that nobody has taken is dropped.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.failed = true;
        state.work.clear();
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Ends the queue with an error; the first one counts.
    pub fn fail(&self, error: LoadError) {
        let mut state = self.lock();
        state.error.get_or_insert(error);
        state.failed = true;
        state.work.clear();
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Whether the run is over: a worker failed, or it was cancelled.
    pub fn is_stopping(&self) -> bool {
        self.cancel.is_cancelled() || self.lock().failed
    }

    /// The error that ended the queue, once.
    pub fn take_error(&self) -> Option<LoadError> {
        self.lock().error.take()
    }

    /// Takes the next work; `None` when there will be none.
    pub fn next(&self) -> Option<(Key, usize, Work)> {
        let mut state = self.lock();
        loop {
            if state.failed || self.cancel.is_cancelled() {
                return None;
            }
            if let Some(work) = state.work.pop_front() {
                return Some(work);
            }
            if state.ended {
                return None;
            }
            state = self.work.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Marks work taken by [`Queue::next`] as finished.
    pub fn finish(&self, key: Key, bytes: usize) {
        let mut state = self.lock();
        state.bytes -= bytes;
        state.unfinished -= 1;
        if let Some(open) = state.open.get_mut(&key) {
            *open -= 1;
            if *open == 0 {
                state.open.remove(&key);
            }
        }
        self.done.notify_all();
    }

    fn pause<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, LoadError> {
        self.check(&mut state)?;
        Ok(self.done.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0)
    }

    fn check(&self, state: &mut State) -> Result<(), LoadError> {
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        if state.failed {
            return Err(LoadError::Interrupted("another part of the load failed".to_owned()));
        }
        if self.cancel.is_cancelled() {
            return Err(LoadError::Interrupted(self.cancel.reason().map_or_else(|| "stopped".to_owned(), |reason| reason.to_string())));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
