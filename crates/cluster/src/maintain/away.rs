//! Runs the work while a node is away, and regularly checks the nodes that keep what it misses.

use std::time::{Duration, Instant};

use refloat_run::Refusal;

use super::held::Absence;
use super::{MaintainError, MaintainState, Maintenance, POLL, WATCH};
use crate::keep::{Watched, kept};

/// How often to report how long a hold will last.
const TELL: Duration = Duration::from_secs(60);
/// How often to check machines. Each check takes an SSH connection.
const ROOM: Duration = Duration::from_secs(10);

/// The work that is done while a node is away.
pub trait Work {
    /// Begins the work, once the node is down. An error counts as a failure of the work itself.
    fn begin(&mut self) -> Result<(), String>;
    /// Whether the work is done, and how it ended. Called several times a second.
    fn poll(&mut self) -> Option<Result<(), String>>;
    /// Whether a request to stop (Ctrl-C, SIGTERM) counts as the normal end of the work, because
    /// nothing is running.
    fn ends_when_asked(&self) -> bool {
        false
    }
}

impl Maintenance<'_> {
    /// Runs the work and watches the hold. Returns how the work ended.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`]: the wait was given up while the work was still running.
    pub(super) fn while_away(
        &self,
        state: &mut MaintainState,
        absence: &mut Absence,
        work: &mut dyn Work,
    ) -> Result<Result<(), String>, MaintainError> {
        let node = state.plan.node.clone();
        self.run
            .events
            .note(format!("{node} is down, and what it misses is kept"));
        if let Err(reason) = work.begin() {
            return Ok(Err(reason));
        }
        let (mut last, mut last_report) = (Instant::now(), Instant::now());
        loop {
            if let Some(ended) = work.poll() {
                return Ok(ended);
            }
            if self.run.cancel.is_cancelled() && work.ends_when_asked() {
                return Ok(Ok(()));
            }
            // The work is not ours to end: the terminal has signalled it too. Starting the server
            // under it would be wrong.
            if self.run.cancel.is_hard() {
                self.release_what_grows(state);
                let hint = format!("`refloat cluster maintain {node} --end` brings it back.");
                return Err(MaintainError::NotBack {
                    node,
                    wrong: Refusal::new(
                        "given up on request while it was being worked on. What it misses is kept \
                        until the budget for that is used up",
                    )
                    .hint(hint),
                });
            }
            std::thread::sleep(POLL);
            if last.elapsed() >= WATCH {
                last = Instant::now();
                self.watch(state, absence);
            }
            if last_report.elapsed() >= TELL && absence.given_up.is_none() {
                last_report = Instant::now();
                self.announce_hold(&absence.watched);
            }
        }
    }

    /// Checks that write-sets are still kept, and gives the hold up when its budget is used up.
    pub(super) fn watch(&self, state: &mut MaintainState, absence: &mut Absence) {
        if absence.given_up.is_some() {
            if !state.holds.is_empty() {
                self.release(state);
            }
            return;
        }
        if absence.looked.is_none_or(|last| last.elapsed() >= ROOM) {
            absence.looked = Some(Instant::now());
            self.release_what_has_no_room(state);
        }
        let node = &state.plan.node;
        let left = state.left.unwrap_or(0);
        let still = kept(&mut absence.watched, left, &self.run.events);
        let reason = if absence.since.elapsed() > self.limits.hold {
            format!("the time for it is over ({} s)", self.limits.hold.as_secs())
        } else if let Err(reason) = still {
            reason
        } else {
            return;
        };
        self.run.events.warn(format!(
            "write-sets are no longer kept for {node}: {reason}. It will need a full copy (SST) \
            unless it is back before they are discarded"
        ));
        absence.given_up = Some(reason);
        self.release(state);
    }

    fn announce_hold(&self, watched: &[Watched]) {
        let best = watched
            .iter()
            .filter_map(Watched::seconds_left)
            .fold(f64::NAN, f64::max);
        if best.is_finite() {
            self.run.events.note(format!(
                "at the current rate, write-sets are kept for {} more minutes",
                (best / 60.0).floor()
            ));
        }
    }
}
