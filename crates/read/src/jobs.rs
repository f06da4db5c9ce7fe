//! A job queue for threads: cutting goes before reading, larger jobs before smaller, and the first
//! error stops everything.

use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A unit of work on a table. Cutting sorts above reading: it is quick, and it reveals which jobs
/// are large.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// Read one range of a table.
    Read {
        /// Estimated size in bytes.
        bytes: u64,
        /// Index of the table.
        table: usize,
        /// Index of the range.
        number: usize,
    },
    /// Cut a table into ranges.
    Cut {
        /// Estimated size in bytes.
        bytes: u64,
        /// Index of the table.
        table: usize,
    },
}

/// The open jobs, and the state that the threads share (`S`).
pub struct Jobs<S, E> {
    /// State shared by the threads and their caller.
    pub shared: S,
    /// Open jobs by lane; each thread takes jobs from one lane only.
    open: Vec<BinaryHeap<Job>>,
    busy: usize,
    error: Option<E>,
}

impl<S, E> Jobs<S, E> {
    /// Adds a job to a lane. Call [`Queue::wake`] afterwards to notify the threads that wait.
    pub fn push(&mut self, lane: usize, job: Job) {
        self.open[lane].push(job);
    }
}

/// Jobs, and the threads that wait for them.
pub struct Queue<S, E> {
    jobs: Mutex<Jobs<S, E>>,
    changed: Condvar,
}

impl<S, E> Queue<S, E> {
    /// An empty queue with `lanes` lanes.
    pub fn new(lanes: usize, shared: S) -> Self {
        Self {
            jobs: Mutex::new(Jobs {
                shared,
                open: (0..lanes).map(|_| BinaryHeap::new()).collect(),
                busy: 0,
                error: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Locks the jobs and the shared state.
    pub fn jobs(&self) -> MutexGuard<'_, Jobs<S, E>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the waiting threads that there are new jobs.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Runs jobs of one lane until all lanes are done or a job has failed. If a job panics, the
    /// queue fails with `defect`, so that no thread waits forever, and the panic resumes here.
    pub fn work(
        &self,
        lane: usize,
        defect: impl Fn() -> E,
        mut run: impl FnMut(Job) -> Result<(), E>,
    ) {
        while let Some(job) = self.next(lane) {
            match catch_unwind(AssertUnwindSafe(|| run(job))) {
                Ok(result) => self.done(result),
                Err(panic) => {
                    self.done(Err(defect()));
                    resume_unwind(panic);
                }
            }
        }
    }

    /// The shared state at the end, or the first error.
    pub fn finish(self) -> Result<S, E> {
        let jobs = self
            .jobs
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        jobs.error.map_or(Ok(jobs.shared), Err)
    }

    fn next(&self, lane: usize) -> Option<Job> {
        let mut jobs = self.jobs();
        loop {
            if jobs.error.is_some() {
                return None;
            }
            if let Some(job) = jobs.open[lane].pop() {
                jobs.busy += 1;
                return Some(job);
            }
            // A running job may add others, to any lane.
            if jobs.busy == 0 && jobs.open.iter().all(BinaryHeap::is_empty) {
                return None;
            }
            jobs = self
                .changed
                .wait(jobs)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, result: Result<(), E>) {
        let mut jobs = self.jobs();
        jobs.busy -= 1;
        if let Err(error) = result {
            jobs.error.get_or_insert(error);
        }
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_goes_first_and_then_the_largest() {
        let queue: Queue<Vec<Job>, ()> = Queue::new(1, Vec::new());
        for (bytes, number) in [(1, 0), (9, 1), (5, 2)] {
            let table = 0;
            queue.jobs().push(
                0,
                Job::Read {
                    bytes,
                    table,
                    number,
                },
            );
        }
        queue.jobs().push(0, Job::Cut { bytes: 2, table: 1 });
        queue.work(
            0,
            || (),
            |job| {
                queue.jobs().shared.push(job);
                Ok(())
            },
        );
        let order: Vec<u64> = queue
            .finish()
            .unwrap()
            .into_iter()
            .map(|job| match job {
                Job::Read { bytes, .. } | Job::Cut { bytes, .. } => bytes,
            })
            .collect();
        assert_eq!(order, [2, 9, 5, 1]);
    }

    #[test]
    fn the_first_error_ends_all() {
        let queue: Queue<(), &str> = Queue::new(2, ());
        for lane in [0, 0, 1] {
            queue.jobs().push(lane, Job::Cut { bytes: 1, table: 0 });
        }
        let mut runs = 0;
        queue.work(
            0,
            || "defect",
            |_| {
                runs += 1;
                Err("failed")
            },
        );
        queue.work(1, || "defect", |_| unreachable!("it has failed"));
        assert_eq!(runs, 1);
        assert_eq!(queue.finish(), Err("failed"));
    }
}
