//! Brings a node back: keeps what it misses until it is synced, and does not start it if it would
//! take a full copy.

use std::time::Instant;

use refloat_host::datadir::server_in;
use refloat_run::Refusal;

use super::held::Absence;
use super::{MaintainError, MaintainPhase, MaintainState, Maintained, Maintenance, POLL, WATCH};
use crate::hold::comes_back;
use crate::in_step::arrives;
use crate::join::{Joining, Seen, brief, is_down};
use crate::journal;
use crate::keep::{SILENCE, StartWay, Unallowed, Watched, kept, way_now};
use crate::member::Member;
use crate::node::NodeState;
use crate::observe::ask;
use crate::proof::proof;
use crate::rejoin::give_back_forgotten;
use crate::sst_donor::Start;

/// How often to restart a node whose provider has given up: its donor may have died.
const STARTS_AGAIN: u32 = 3;

/// What to do about a node that would take a full copy.
fn starts_all_the_same(node: &str) -> String {
    format!("`refloat cluster rejoin {node} --allow-sst` starts it all the same.")
}

impl Maintenance<'_> {
    /// Starts the node, waits until it is synced with the others, determines how it rejoined, and
    /// releases the nodes that kept write-sets.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`] and others.
    pub(super) fn bring_back(
        &self,
        state: &mut MaintainState,
        mut absence: Absence,
    ) -> Result<Maintained, MaintainError> {
        // Needed after a start that ended early: one by hand, or one whose watcher was killed.
        give_back_forgotten(self.members, state.plan.at, self.control, self.run);
        self.may_start(state)?;
        // The hold may have ended meanwhile.
        if self.hold_for_start(state, &mut absence) {
            self.may_start(state)?;
        }
        self.enter(state, MaintainPhase::Starting);
        let begun = Instant::now();
        let started = self.start(state);
        let (member, log) = (self.member(state.plan.at).clone(), state.log.clone());
        let mut joining = Joining::new(&member, self.control, log.as_ref());
        let now = self.wait_for_it(state, &mut absence, &mut joining, started)?;
        let join_seconds = begun.elapsed().as_secs_f64();
        self.is_with_the_others(state, &member)?;
        self.start_of(state).arrived();
        let left = state.left.unwrap_or(0);
        let proof = proof(&state.plan.uuid, &now, joining.log_of(&now).as_deref());
        for one in &mut absence.watched {
            one.look(&self.run.events);
        }
        let bytes = absence.watched.iter().map(Watched::missed).max();
        self.enter(state, MaintainPhase::Releasing);
        let not_released = self.release(state);
        self.keeper().settle(state.plan.at);
        self.enter(state, MaintainPhase::Ended);
        Ok(Maintained {
            node: state.plan.node.clone(),
            proof,
            left,
            back: now.seqno.unwrap_or(left),
            bytes,
            away_seconds: None,
            join_seconds,
            given_up: absence.given_up,
            not_released,
            work_failed: None,
        })
    }

    /// Waits until it is certain that the node would rejoin by IST. A node that would take a full
    /// copy, which wipes its data, is started only if that is allowed. A short lack of information
    /// is no reason to give up the hold.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`]: it would take a copy, or its way is unknown for too long. In the
    /// latter case the hold continues, and `--end` resumes the maintenance.
    fn may_start(&self, state: &mut MaintainState) -> Result<(), MaintainError> {
        if self.limits.allow_sst {
            return Ok(());
        }
        let node = state.plan.node.clone();
        let begun = Instant::now();
        let mut warned = false;
        loop {
            let plan = &state.plan;
            let stands = (plan.uuid.as_str(), state.left);
            let way = way_now(self.members, self.control, plan.at, stands, &plan.holders);
            let reason = match way {
                StartWay::Ist(_) => return Ok(()),
                StartWay::Copy(reason) => {
                    let wrong = Refusal::new(format!(
                        "it is down, and was not started, because it would take a full copy \
                        (SST): {reason}"
                    ));
                    return self.not_back(state, wrong.hint(starts_all_the_same(&node)));
                }
                StartWay::Unknown(reason) => reason,
            };
            if self.run.cancel.is_hard() {
                let reason = format!("given up on request before it was started: {reason}");
                return self.not_back(state, reason);
            }
            if begun.elapsed() > SILENCE {
                self.enter(state, MaintainPhase::Away);
                self.release_what_grows(state);
                let wrong = Refusal::new(format!(
                    "it is down, and was not started: for {} s it was not possible to see how it \
                    would come back: {reason}. What it misses is still kept",
                    SILENCE.as_secs()
                ));
                return Err(MaintainError::NotBack {
                    wrong: wrong.hint(format!(
                        "`refloat cluster maintain {node} --end` resumes when that is fixed, and \
                        gives up when it is told to stop twice (Ctrl-C)."
                    )),
                    node,
                });
            }
            if !std::mem::replace(&mut warned, true) {
                self.run.events.warn(format!(
                    "how {node} would come back cannot be seen just now ({reason}): trying again \
                    for {} s; what it misses is still kept",
                    SILENCE.as_secs()
                ));
            }
            std::thread::sleep(WATCH);
        }
    }

    /// Ends the maintenance without the node, and releases the nodes that kept write-sets.
    fn not_back<T>(
        &self,
        state: &mut MaintainState,
        wrong: impl Into<Refusal>,
    ) -> Result<T, MaintainError> {
        self.start_of(state).failed();
        self.release(state);
        self.enter(state, MaintainPhase::Ended);
        let node = state.plan.node.clone();
        let mut wrong = wrong.into();
        if wrong.hint.is_empty() {
            wrong.hint = comes_back(&node);
        }
        Err(MaintainError::NotBack { node, wrong })
    }

    fn start_of(&self, state: &MaintainState) -> Start<'_> {
        Start {
            members: self.members,
            member: self.member(state.plan.at),
            control: self.control,
            state_dir: self.state_dir,
            run: self.run,
        }
    }

    /// Starts the node. Returns whether that succeeded.
    fn start(&self, state: &MaintainState) -> bool {
        let node = &state.plan.node;
        // Given several names, Galera picks the most advanced node.
        let best = state.plan.holders.first();
        let donor = best.map(|holder| holder.node_name.as_str());
        self.run.events.note(format!("starting {node}"));
        let started = self.start_of(state).begin(donor);
        if let Err(error) = &started {
            self.run.events.warn(format!(
                "{error}. What {node} misses is still kept: fix it and start it by hand, or give \
                up with Ctrl-C"
            ));
        }
        started.is_ok()
    }

    /// Waits until the node is synced. If it could not be started (`started`), the user may start
    /// it by hand.
    fn wait_for_it(
        &self,
        state: &mut MaintainState,
        absence: &mut Absence,
        joining: &mut Joining<'_>,
        started: bool,
    ) -> Result<Box<NodeState>, MaintainError> {
        let node = state.plan.node.clone();
        let mut last_look = Instant::now();
        let mut gone_reported = !started;
        let mut late = false;
        let mut again = 0;
        loop {
            let ended = match joining.look() {
                Seen::There(now) => return Ok(now),
                Seen::Coming => None,
                Seen::Ended => Some(format!(
                    "has ended while it started{}",
                    joining.last_words()
                )),
                Seen::Failed(line)
                    if again < STARTS_AGAIN
                        && !gone_reported
                        && !self.run.cancel.is_cancelled() =>
                {
                    again += 1;
                    gone_reported = !self.start_again(state, joining, &line)?;
                    None
                }
                Seen::Failed(line) => Some(format!(
                    "has failed while it started, and has to be stopped before it is started again: {line}"
                )),
            };
            if let Some(how) = ended.as_ref().filter(|_| !gone_reported) {
                gone_reported = true;
                self.run.events.warn(format!(
                    "{node} {how}. What it misses is still kept: fix it and start it by hand, or \
                    give up with Ctrl-C"
                ));
            }
            // A first Ctrl-C during the work is no reason to leave the node down. A second one is.
            if self.run.cancel.is_hard() || (gone_reported && self.run.cancel.is_cancelled()) {
                let reason = "given up on request before it was in sync with the others";
                return self.not_back(state, reason);
            }
            joining.report(&self.run.events);
            if last_look.elapsed() >= WATCH {
                last_look = Instant::now();
                if ended.is_some() {
                    self.watch(state, absence);
                } else {
                    self.watch_start(state, absence, joining, &mut late)?;
                }
                if let Some((how, why)) = ended.as_ref().zip(absence.given_up.as_ref()) {
                    let reason = format!("it {how}. What it misses is no longer kept: {why}");
                    return self.not_back(state, reason);
                }
                if let Some(late) = joining
                    .is_late(self.limits.start)
                    .filter(|_| ended.is_none())
                {
                    return self.too_late(state, joining, late);
                }
            }
            std::thread::sleep(POLL);
        }
    }

    /// Stops the server of a node whose provider has given up: such a server does nothing, and
    /// would block the next start. Starts the node again once the others serve; what it misses is
    /// still kept. Returns whether that succeeded.
    ///
    /// # Errors
    /// As [`Self::may_start`].
    fn start_again(
        &self,
        state: &mut MaintainState,
        joining: &mut Joining<'_>,
        line: &str,
    ) -> Result<bool, MaintainError> {
        let (node, member) = (state.plan.node.clone(), self.member(state.plan.at));
        self.run.events.warn(format!(
            "{node} has failed while it started: {line}. Its server is ended and started again; \
            what it misses is still kept"
        ));
        let ended = self.control.end_at_once();
        let down = is_down(self.control, member, || {
            ended.is_err() || self.run.cancel.is_hard()
        });
        // Without a command that checks the process, a server that does not answer counts as down.
        // So look for its process as well.
        let left_over = member.host.as_ref().zip(member.datadir.as_deref());
        let left_over = left_over.map(|(host, datadir)| server_in(host, datadir));
        if !matches!(down, Ok(true)) || matches!(left_over, Some(Ok(Some(_)) | Err(_))) {
            let why = ended
                .err()
                .map_or_else(String::new, |error| format!(" ({error})"));
            self.run.events.warn(format!(
                "{node} does not end{why}, and has to be stopped before it is started again. What \
                it misses is still kept: stop it and start it by hand, or give up with Ctrl-C"
            ));
            return Ok(false);
        }
        give_back_forgotten(self.members, state.plan.at, self.control, self.run);
        // The start command may not recover the position first. The server would then start without
        // one and take a full copy.
        let position = ask(member, &brief()).grastate.and_then(|file| file.seqno);
        if !self.control.recovers() && position.is_none() && !self.limits.allow_sst {
            self.run.events.warn(format!(
                "{node} has not recorded its position, and it is not known whether its start \
                command recovers it. What it misses is still kept: start it by hand with its \
                position, or give up with Ctrl-C"
            ));
            return Ok(false);
        }
        self.may_start(state)?;
        // Earlier log lines do not concern this start.
        state.log = journal::of_node_that_is_down(self.control, member).or_else(|| {
            let host = member.host.as_ref()?;
            state.log.as_ref()?.moved_to_the_end(host)
        });
        self.enter(state, MaintainPhase::Starting);
        let started = self.start(state);
        joining.again(state.log.as_ref());
        Ok(started)
    }

    /// Checks that what the node needs is still kept. While the node starts, the hold has no time
    /// limit. If what the node needs is lost before it has requested it, the node would take a full
    /// copy, so it is stopped unless a copy is allowed.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`]: it was stopped.
    fn watch_start(
        &self,
        state: &mut MaintainState,
        absence: &mut Absence,
        joining: &Joining<'_>,
        late: &mut bool,
    ) -> Result<(), MaintainError> {
        let node = state.plan.node.clone();
        let left = state.left.unwrap_or(0);
        let Err(reason) = kept(&mut absence.watched, left, &self.run.events) else {
            if absence.since.elapsed() > self.limits.hold
                && absence.given_up.is_none()
                && !std::mem::replace(late, true)
            {
                self.run.events.warn(format!(
                    "the time for keeping write-sets is over ({} s), and they are still kept while {node} starts",
                    self.limits.hold.as_secs()
                ));
            }
            return Ok(());
        };
        let unallowed = self.unallowed(state, joining);
        if let Some(how) = unallowed.and_then(|one| one.stop_for_want(&node, &reason)) {
            let wrong = Refusal::new(how).hint(starts_all_the_same(&node));
            return self.not_back(state, wrong);
        }
        if absence.given_up.is_none() {
            self.run.events.warn(format!(
                "write-sets are no longer kept for {node}: {reason}. It will need a full copy (SST) unless it has asked for them"
            ));
            absence.given_up = Some(reason);
        }
        if !state.holds.is_empty() {
            self.release(state);
        }
        Ok(())
    }

    /// Stops waiting for a node that takes too long. The node keeps starting, unless it would then
    /// take a full copy.
    fn too_late<T>(
        &self,
        state: &mut MaintainState,
        joining: &Joining<'_>,
        late: Refusal,
    ) -> Result<T, MaintainError> {
        let node = state.plan.node.clone();
        let again = format!("`refloat cluster rejoin {node}`");
        let unallowed = self.unallowed(state, joining);
        let wrong = match unallowed.and_then(|one| one.stop_late()) {
            Some(how) => {
                Refusal::new(format!("{late}; {how}")).hint(format!("{again} starts it again."))
            }
            None => late.hint(format!(
                "It continues by itself; {again} waits for it again."
            )),
        };
        self.not_back(state, wrong)
    }

    /// The starting node, if it may not take a full copy.
    fn unallowed<'b>(
        &'b self,
        state: &MaintainState,
        joining: &'b Joining<'b>,
    ) -> Option<Unallowed<'b>> {
        (!self.limits.allow_sst).then(|| Unallowed {
            control: self.control,
            member: self.member(state.plan.at),
            run: self.run,
            joining,
        })
    }

    /// Checks that a synced node is synced with the others. If not, it is stopped.
    fn is_with_the_others(
        &self,
        state: &mut MaintainState,
        member: &Member,
    ) -> Result<(), MaintainError> {
        let arrived = arrives(self.members, state.plan.at, || self.run.cancel.is_hard());
        arrived.or_else(|astray| {
            let wrong = astray.end(self.control, member, Some(self.run));
            self.not_back(state, wrong)
        })
    }
}
