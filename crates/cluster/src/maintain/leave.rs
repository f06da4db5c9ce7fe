//! Lets a node leave: waits until the others keep enough, checks everything again, and stops the
//! node.

use std::time::{Duration, Instant};

use refloat_host::chain;
use refloat_run::Refusal;

use super::{MaintainError, MaintainPhase, MaintainState, Maintenance, POLL};
use crate::claim::maintenances_elsewhere;
use crate::hold::{may_leave, safe_until};
use crate::join::{brief, is_down, look, stopped};
use crate::journal;
use crate::keep::{SETTLED, Watched};
use crate::node::NodeState;
use crate::observe::{ask, observe};

/// How long to wait for write-sets before the node leaves.
const GAP_PATIENCE: Duration = Duration::from_secs(300);
/// Stop waiting after this time without a write: the expected write-sets are not coming.
const STILL: Duration = Duration::from_secs(3);
/// Safety factor on the expected write-sets, for the distance from the oldest one kept.
const GAP_MARGIN: u64 = 2;

impl Maintenance<'_> {
    /// Stops the node. After an error, the node counts as still present.
    pub(super) fn stop(
        &self,
        state: &mut MaintainState,
        watched: &mut [Watched],
    ) -> Result<(), MaintainError> {
        let member = self.member(state.plan.at);
        let now = self.wait_for_distance(state, watched)?;
        self.check_again(state, watched, &now)?;
        state.log = journal::now(self.control, member, &now);
        state.left = now.seqno;
        state.phase = MaintainPhase::Stopping;
        self.write(state)?;
        self.end_server(state)
    }

    /// Stops the server of a node once everything is ready. After an error, the node is still up,
    /// or its state is unknown.
    pub(super) fn end_server(&self, state: &mut MaintainState) -> Result<(), MaintainError> {
        let node = state.plan.node.clone();
        let member = self.member(state.plan.at);
        self.run.events.note(format!("stopping {node}"));
        let stopped = stopped(&self.run.events, &member.name, || self.control.stop());
        // A stop command that succeeds may not have stopped the server, and one that fails may
        // have.
        let mut reported = false;
        let given_up = || {
            if self.run.cancel.is_cancelled() && !reported {
                reported = true;
                self.run.events.note(format!(
                    "waiting until {node} has stopped, so that it can be started again; Ctrl-C once more gives that up"
                ));
            }
            self.run.cancel.is_hard()
        };
        match is_down(self.control, member, given_up) {
            Ok(true) => {}
            Ok(false) => {
                stopped?;
                return Err(MaintainError::StillUp { node });
            }
            Err(unknown) => {
                return Err(MaintainError::Unseen {
                    node,
                    reason: chain(&unknown),
                });
            }
        }
        if let Err(error) = stopped {
            self.run.events.warn(error.to_string());
        }
        // What the node wrote down is newer than what it last reported.
        let written = ask(member, &brief()).grastate;
        match written.as_ref().and_then(|file| file.seqno) {
            Some(seqno) => state.left = Some(seqno),
            None if written.is_some() => self.run.events.warn(format!(
                "{node} has not recorded its position: it did not end cleanly"
            )),
            None => {}
        }
        self.enter(state, MaintainPhase::Away);
        Ok(())
    }

    /// Waits until the distance from the oldest kept write-set is large enough for the expected
    /// ones.
    fn wait_for_distance(
        &self,
        state: &MaintainState,
        watched: &mut [Watched],
    ) -> Result<NodeState, MaintainError> {
        let node = state.plan.node.clone();
        let member = self.member(state.plan.at);
        let expected = state.plan.write_sets * GAP_MARGIN;
        let begun = Instant::now();
        let mut reported = false;
        let mut moved = (0, Instant::now());
        loop {
            let now = look(member).map_err(|reason| MaintainError::NotHeld {
                node: node.clone(),
                reason,
            })?;
            for one in watched.iter_mut() {
                one.look(&self.run.events);
            }
            let oldest = watched.iter().map(|one| one.oldest).min().unwrap_or(0);
            let seqno = now.seqno.unwrap_or(0);
            let settled = begun.elapsed() >= SETTLED;
            let enough = safe_until(oldest, seqno) >= seqno.saturating_add(expected);
            if settled && enough {
                return Ok(now);
            }
            if seqno != moved.0 {
                moved = (seqno, Instant::now());
            }
            // An average since the server's start says nothing about a cluster that has no writes
            // now.
            if moved.1.elapsed() > STILL {
                return Ok(now);
            }
            if begun.elapsed() > GAP_PATIENCE {
                let reason = format!(
                    "{oldest} is the oldest write-set that is kept, and {node} is at {seqno}: \
                    after {expected} more Galera considers that too close for IST"
                );
                if self.limits.allow_sst {
                    self.run.events.warn(reason);
                    return Ok(now);
                }
                return Err(MaintainError::Short { node, reason });
            }
            if settled && !reported {
                reported = true;
                self.run.events.note(format!(
                    "waiting for more write-sets before {node} leaves: Galera wants some distance from the oldest that is kept ({oldest})"
                ));
            }
            if self.run.cancel.sleep(POLL) {
                return Err(MaintainError::Interrupted);
            }
        }
    }

    /// Checks everything again, because much may have happened since the plan was made.
    fn check_again(
        &self,
        state: &MaintainState,
        watched: &mut [Watched],
        now: &NodeState,
    ) -> Result<(), MaintainError> {
        let node = &state.plan.node;
        if self.run.cancel.is_cancelled() {
            return Err(MaintainError::Interrupted);
        }
        let view = observe(&state.cluster, self.members, &brief());
        let must_stay = |against: Vec<Refusal>| MaintainError::MustStay {
            node: node.clone(),
            against,
        };
        may_leave(&view, node).map_err(must_stay)?;
        // If two maintenances begin at the same moment, each sees the other.
        let others = maintenances_elsewhere(self.members, &view);
        if !others.is_empty() {
            return Err(must_stay(others));
        }
        for one in watched.iter_mut() {
            one.look(&self.run.events);
            one.leaves();
        }
        let seqno = now.seqno.unwrap_or(0);
        if self.limits.allow_sst || watched.iter().any(|one| one.keeps(seqno)) {
            return Ok(());
        }
        let all: Vec<String> = watched.iter().map(Watched::why_not).collect();
        Err(MaintainError::Short {
            node: node.clone(),
            reason: all.join("; "),
        })
    }
}
