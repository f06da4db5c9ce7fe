//! A node that was started, until it has asked for what it missed: before that, nothing that it needs may be let go of.

use std::time::{Duration, Instant};

use super::watch::Watched;
use super::{GivenUp, MaintainError, MaintainPhase, MaintainState, Maintenance, POLL};
use crate::join::{Joining, is_down};

/// So long a node is told again and again to stop that would take a full copy: one that hangs may come to itself late.
const STOP_PATIENCE: Duration = Duration::from_secs(600);
/// So long each time is waited for its end.
const STOP_WAIT: Duration = Duration::from_secs(2);

impl Maintenance<'_> {
    /// Has the others keep on what a node needs that is about to start, where that was given up while it was away.
    pub(super) fn hold_for_start(
        &self,
        state: &mut MaintainState,
        watched: &mut [Watched],
        given_up: &mut GivenUp,
    ) {
        if self.limits.allow_sst || given_up.is_none() || !state.holds.is_empty() {
            return;
        }
        match self.hold_again(state, watched) {
            Ok(()) => {
                self.run.events.note(format!(
                    "the others keep write-sets again until {} is back",
                    state.plan.node
                ));
                *given_up = None;
            }
            Err(error) => self
                .run
                .events
                .warn(format!("write-sets are not kept for its start: {error}")),
        }
    }

    /// Looks whether what the node needs is still kept. Time alone ends no hold while it starts. A node that has not asked yet when what it
    /// needs is gone would take a full copy: unless that is allowed it is stopped.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`]: it was stopped.
    pub(super) fn watch_start(
        &self,
        state: &mut MaintainState,
        watched: &mut [Watched],
        since: Instant,
        given_up: &mut GivenUp,
        joining: &Joining<'_>,
        late: &mut bool,
    ) -> Result<(), MaintainError> {
        let node = state.plan.node.clone();
        let left = state.left.unwrap_or(0);
        for one in watched.iter_mut() {
            one.look(&self.run.events);
        }
        if watched.iter().any(|one| one.keeps(left)) {
            if since.elapsed() > self.limits.hold
                && given_up.is_none()
                && !std::mem::replace(late, true)
            {
                self.run.events.warn(format!(
                    "the time for keeping write-sets is over ({} s), and they are kept on while {node} starts",
                    self.limits.hold.as_secs()
                ));
            }
            return Ok(());
        }
        let all: Vec<String> = watched.iter().map(Watched::why_not).collect();
        let reason = all.join("; ");
        if !self.limits.allow_sst && !joining.has_asked() {
            self.run.events.warn(format!(
                "what {node} misses is not kept any more ({reason}), and it has not asked for it yet: stopping it before it takes a full copy (SST)"
            ));
            if let Some(how) = self.stop_before_it_asks(state, joining) {
                self.release(state);
                self.enter(state, MaintainPhase::Ended);
                return Err(MaintainError::NotBack {
                    reason: format!(
                        "{how}, because it would have taken a full copy (SST): {reason}. `refloat cluster rejoin {node} --allow-sst` starts it all the same"
                    ),
                    node,
                });
            }
        }
        if given_up.is_none() {
            self.run.events.warn(format!(
                "write-sets are not kept for {node} any more: {reason}. It will need a full copy (SST) unless it has asked for them"
            ));
            *given_up = Some(reason);
        }
        if !state.holds.is_empty() {
            self.release(state);
        }
        Ok(())
    }

    /// Stops a node that has not asked for anything; how that went. `None`: it has asked meanwhile.
    fn stop_before_it_asks(&self, state: &MaintainState, joining: &Joining<'_>) -> Option<String> {
        let member = self.member(state.plan.at);
        let begun = Instant::now();
        loop {
            let stopped = self.control.end_at_once();
            let waited = Instant::now();
            // What could not be told is told again at once: it may come to itself any moment.
            let enough = || stopped.is_err() || waited.elapsed() > STOP_WAIT || joining.has_asked();
            if is_down(self.control, member, enough) {
                return Some("it was stopped again".to_owned());
            }
            if joining.has_asked() {
                return None;
            }
            if begun.elapsed() > STOP_PATIENCE || self.run.cancel.is_hard() {
                let why = stopped
                    .err()
                    .map_or_else(String::new, |error| format!(" ({error})"));
                return Some(format!("it does not stop{why}: stop it"));
            }
            std::thread::sleep(POLL);
        }
    }
}
