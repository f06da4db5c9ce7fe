//! Cancellation of a run.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why a run was cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelReason {
    /// The user or the system sent the signal with this number.
    Signal(i32),
    /// Another worker failed, with this message.
    Failed(String),
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(2) => f.write_str("interrupted"),
            Self::Signal(n) => write!(f, "stopped by signal {n}"),
            Self::Failed(message) => f.write_str(message),
        }
    }
}

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    reason: Option<CancelReason>,
    hooks: Vec<(u64, Hook)>,
    hard_hooks: Vec<(u64, Hook)>,
    next: u64,
}

#[derive(Default)]
struct Inner {
    soft: Arc<AtomicBool>,
    hard: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

/// A token shared by all workers of a run: they check it between chunks, and hooks wake those that
/// wait.
///
/// There are two levels. *Cancelled*: take no new work, roll back what is open, put everything
/// back. *Hard*: the user asked twice, so do not even wait for a server's answer.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel")
            .field("reason", &self.reason())
            .field("hard", &self.is_hard())
            .finish_non_exhaustive()
    }
}

/// How often [`abandonable`] checks whether the run was cancelled.
const POLL: Duration = Duration::from_millis(50);

/// Removes a hook when dropped.
#[must_use = "a hook is taken out when its guard is dropped"]
pub struct HookGuard {
    cancel: Cancel,
    id: u64,
}

impl Drop for HookGuard {
    fn drop(&mut self) {
        let mut state = self.cancel.state();
        state.hooks.retain(|(id, _)| *id != self.id);
        state.hard_hooks.retain(|(id, _)| *id != self.id);
    }
}

/// Runs `work` in a thread of its own, and abandons it (`None`) when the run is cancelled. For
/// waits that nothing else can end.
pub fn abandonable<T: Send + 'static>(
    cancel: &Cancel,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        // After Ctrl-C, nothing receives it.
        let _ = sender.send(work());
    });
    loop {
        match receiver.recv_timeout(POLL) {
            Ok(done) => return Some(done),
            Err(RecvTimeoutError::Timeout) if !cancel.is_cancelled() => {}
            Err(RecvTimeoutError::Timeout) => return None,
            // Only a panic ends the thread without a result. Resume it here, where it is reported
            // as a bug.
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return None,
            },
        }
    }
}

impl Cancel {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run should stop. Cheap enough to ask per chunk or block.
    pub fn is_cancelled(&self) -> bool {
        self.0.soft.load(Ordering::Relaxed)
    }

    /// Whether the user asked twice.
    pub fn is_hard(&self) -> bool {
        self.0.hard.load(Ordering::Relaxed)
    }

    /// Why the run was cancelled, or `None` if it was not. The first reason stays.
    pub fn reason(&self) -> Option<CancelReason> {
        self.state().reason.clone()
    }

    /// The flag itself, for code that knows nothing about runs.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.soft.clone()
    }

    /// Cancels the run and calls the hooks on this thread. A second call changes nothing.
    pub fn cancel(&self, reason: CancelReason) {
        let hooks = {
            let mut state = self.state();
            state.reason.get_or_insert(reason);
            self.0.soft.store(true, Ordering::SeqCst);
            self.0.changed.notify_all();
            std::mem::take(&mut state.hooks)
        };
        for (_, hook) in hooks {
            hook();
        }
    }

    /// Cancels the run, if that has not happened yet, and requests the hard stop.
    pub fn cancel_hard(&self, reason: CancelReason) {
        self.cancel(reason);
        let hooks = {
            let mut state = self.state();
            self.0.hard.store(true, Ordering::SeqCst);
            std::mem::take(&mut state.hard_hooks)
        };
        for (_, hook) in hooks {
            hook();
        }
    }

    /// Calls `hook` when the run is cancelled, or at once if it already is. Hooks must be short and
    /// must not wait for workers: they kill queries and shut down sockets.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) -> HookGuard {
        self.register(hook, false)
    }

    /// Calls `hook` when the hard stop is requested, or at once if it already was.
    pub fn on_hard(&self, hook: impl FnOnce() + Send + 'static) -> HookGuard {
        self.register(hook, true)
    }

    fn register(&self, hook: impl FnOnce() + Send + 'static, hard: bool) -> HookGuard {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        // Check under the lock, so that no cancellation slips in between the check and the list.
        let now = if hard {
            self.is_hard()
        } else {
            self.is_cancelled()
        };
        if now {
            drop(state);
            hook();
        } else if hard {
            state.hard_hooks.push((id, Box::new(hook)));
        } else {
            state.hooks.push((id, Box::new(hook)));
        }
        HookGuard {
            cancel: self.clone(),
            id,
        }
    }

    /// Sleeps until the time is over or the run is cancelled; returns whether it is cancelled.
    pub fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state();
        while !self.is_cancelled() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .0
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn hooks_run_once_and_the_first_reason_stays() {
        let cancel = Cancel::new();
        let count = Arc::new(AtomicUsize::new(0));
        let add = |n: usize| {
            let count = count.clone();
            move || {
                count.fetch_add(n, Ordering::SeqCst);
            }
        };
        let _kept = cancel.on_cancel(add(1));
        drop(cancel.on_cancel(add(100)));
        let _hard = cancel.on_hard(add(10));
        let waiter = std::thread::spawn({
            let cancel = cancel.clone();
            move || cancel.sleep(Duration::from_secs(60))
        });
        cancel.cancel(CancelReason::Signal(2));
        cancel.cancel(CancelReason::Failed("later".into()));
        assert!(waiter.join().unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 1);
        assert_eq!(cancel.reason(), Some(CancelReason::Signal(2)));
        let _late = cancel.on_cancel(add(1));
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert!(!cancel.is_hard());
        cancel.cancel_hard(CancelReason::Signal(2));
        assert_eq!(count.load(Ordering::SeqCst), 12);
        assert!(!Cancel::new().sleep(Duration::from_millis(5)));
    }
}
