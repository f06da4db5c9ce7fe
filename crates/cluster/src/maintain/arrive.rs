//! A node comes back: what it misses is kept until it is there, and it is not started where it would take a full copy.

use std::time::Instant;

use super::held::Absence;
use super::{MaintainError, MaintainPhase, MaintainState, Maintained, Maintenance, POLL, WATCH};
use crate::among::arrives;
use crate::asked::Start;
use crate::control::Control;
use crate::files::server_in;
use crate::join::{Joining, Seen, brief, is_down};
use crate::journal::LogMark;
use crate::keep::{SILENCE, StartWay, Unallowed, Watched, kept, way_now};
use crate::member::Member;
use crate::node::NodeState;
use crate::observe::ask;
use crate::proof::proof;
use crate::rejoin::give_back_forgotten;

/// So often a node is started again whose provider has given up: its donor may have died.
const STARTS_AGAIN: u32 = 3;

impl Maintenance<'_> {
    /// Starts the node, waits until it is in step with the others, says by which way it came, and releases those that kept write-sets.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`] and others.
    pub(super) fn bring_back(
        &self,
        state: &mut MaintainState,
        mut absence: Absence,
    ) -> Result<Maintained, MaintainError> {
        // A start that has ended early, by hand or before whoever watched it was killed.
        give_back_forgotten(self.members, state.plan.at, self.control, self.run);
        self.may_start(state)?;
        // What was kept may have gone meanwhile.
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

    /// Waits until it is known that the node comes by what it has missed. One that would take a full copy, which wipes what it has, is not
    /// started when nobody has allowed that. What cannot be seen for a moment is no reason to give up what is kept.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`]: it would take a copy, or nothing is known for too long. Then it is kept on, and is for `--end` to go on with.
    fn may_start(&self, state: &mut MaintainState) -> Result<(), MaintainError> {
        if self.limits.allow_sst {
            return Ok(());
        }
        let node = state.plan.node.clone();
        let begun = Instant::now();
        let mut told = false;
        loop {
            let plan = &state.plan;
            let stands = (plan.uuid.as_str(), state.left);
            let way = way_now(self.members, self.control, plan.at, stands, &plan.holders);
            let reason = match way {
                StartWay::Ist(_) => return Ok(()),
                StartWay::Copy(reason) => {
                    return self.not_back(state, format!(
                        "it is down, and was not started, because it would take a full copy (SST): {reason}. `refloat cluster rejoin {node} --allow-sst` starts it all the same"
                    ));
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
                return Err(MaintainError::NotBack {
                    reason: format!(
                        "it is down, and was not started, because by which way it would come could not be seen for {} s: {reason}. What it misses is kept on: \
                         `refloat cluster maintain {node} --end` goes on when that is mended, and gives it up when it is told to stop twice (Ctrl-C)",
                        SILENCE.as_secs()
                    ),
                    node,
                });
            }
            if !std::mem::replace(&mut told, true) {
                self.run.events.warn(format!(
                    "by which way {node} would come cannot be seen just now ({reason}): it is tried again for {} s, and what it misses is kept on",
                    SILENCE.as_secs()
                ));
            }
            std::thread::sleep(WATCH);
        }
    }

    /// Ends it without the node: those that kept write-sets are released.
    fn not_back<T>(&self, state: &mut MaintainState, reason: String) -> Result<T, MaintainError> {
        self.start_of(state).failed();
        self.release(state);
        self.enter(state, MaintainPhase::Ended);
        Err(MaintainError::NotBack {
            node: state.plan.node.clone(),
            reason,
        })
    }

    fn start_of(&self, state: &MaintainState) -> Start<'_> {
        Start {
            member: self.member(state.plan.at),
            control: self.control,
            state_dir: self.state_dir,
            run: self.run,
        }
    }

    /// Starts the node; whether that could be done.
    fn start(&self, state: &MaintainState) -> bool {
        let node = &state.plan.node;
        // Of several names Galera takes whichever has got furthest.
        let best = state.plan.holders.first();
        let donor = best.map(|holder| holder.node_name.as_str());
        self.run.events.note(format!("starting {node}"));
        let started = self.start_of(state).begin(donor);
        if let Err(error) = &started {
            self.run.events.warn(format!(
                "{error}. What {node} misses is kept on: mend it and start it by hand, or give it up with Ctrl-C"
            ));
        }
        started.is_ok()
    }

    /// Waits until the node is in step. `started` says whether it could be started: somebody may do so by hand.
    fn wait_for_it(
        &self,
        state: &mut MaintainState,
        absence: &mut Absence,
        joining: &mut Joining<'_>,
        started: bool,
    ) -> Result<Box<NodeState>, MaintainError> {
        let node = state.plan.node.clone();
        let mut last_look = Instant::now();
        let mut told_gone = !started;
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
                    if again < STARTS_AGAIN && !told_gone && !self.run.cancel.is_cancelled() =>
                {
                    again += 1;
                    told_gone = !self.start_again(state, joining, &line)?;
                    None
                }
                Seen::Failed(line) => Some(format!(
                    "has failed while it started, and has to be stopped before it is started again: {line}"
                )),
            };
            if let Some(how) = ended.as_ref().filter(|_| !told_gone) {
                told_gone = true;
                self.run.events.warn(format!(
                    "{node} {how}. What it misses is kept on: mend it and start it by hand, or give it up with Ctrl-C"
                ));
            }
            // One Ctrl-C while work was done is no reason to leave the node down; one more is.
            if self.run.cancel.is_hard() || (told_gone && self.run.cancel.is_cancelled()) {
                let reason = "given up on request before it was in step with the others";
                return self.not_back(state, reason.to_owned());
            }
            joining.tell(&self.run.events);
            if last_look.elapsed() >= WATCH {
                last_look = Instant::now();
                if ended.is_some() {
                    self.watch(state, absence);
                } else {
                    self.watch_start(state, absence, joining, &mut late)?;
                }
                if let Some((how, why)) = ended.as_ref().zip(absence.given_up.as_ref()) {
                    let reason = format!("it {how}. What it misses is kept no more: {why}");
                    return self.not_back(state, reason);
                }
                if let Some(late) = joining
                    .is_late(self.limits.start)
                    .filter(|_| ended.is_none())
                {
                    return self.too_late(state, joining, &late);
                }
            }
            std::thread::sleep(POLL);
        }
    }

    /// Ends the server of a node whose provider has given up, which does nothing any more and keeps the next start from beginning, and starts the
    /// node again as soon as the others serve: what it misses is kept for it still. Whether that could be done.
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
            "{node} has failed while it started: {line}. Its server is ended, and it is started again; what it misses is kept on"
        ));
        let ended = self.control.end_at_once();
        let down = is_down(self.control, member, || {
            ended.is_err() || self.run.cancel.is_hard()
        });
        // Who has no word for it whether a process runs takes one that answers nobody for none.
        let left_over = member.host.as_ref().zip(member.datadir.as_deref());
        let left_over = left_over.map(|(host, datadir)| server_in(host, datadir));
        if !matches!(down, Ok(true)) || matches!(left_over, Some(Ok(Some(_)) | Err(_))) {
            let why = ended
                .err()
                .map_or_else(String::new, |error| format!(" ({error})"));
            self.run.events.warn(format!(
                "{node} does not end{why}, and has to be stopped before it is started again. What it misses is kept on: stop it and start it by hand, or give it up with Ctrl-C"
            ));
            return Ok(false);
        }
        give_back_forgotten(self.members, state.plan.at, self.control, self.run);
        // A command may start a server as it is, which then begins without a place, and takes a full copy.
        let position = ask(member, &brief()).grastate.and_then(|file| file.seqno);
        if matches!(self.control, Control::Commands { .. })
            && position.is_none()
            && !self.limits.allow_sst
        {
            self.run.events.warn(format!(
                "{node} has not written down where it stands, and whether its command has that looked for is not known. What it misses is kept on: start it by hand with its position, or give it up with Ctrl-C"
            ));
            return Ok(false);
        }
        self.may_start(state)?;
        // What was said before this start says nothing of it.
        state.log = LogMark::of_node_that_is_down(self.control, member).or_else(|| {
            let host = member.host.as_ref()?;
            state.log.as_ref()?.moved_to_the_end(host)
        });
        self.enter(state, MaintainPhase::Starting);
        let started = self.start(state);
        joining.again(state.log.as_ref());
        Ok(started)
    }

    /// Looks whether what the node needs is still kept. Time alone ends no hold while it starts. A node that has not asked yet when what it
    /// needs is gone would take a full copy: unless that is allowed it is stopped.
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
                    "the time for keeping write-sets is over ({} s), and they are kept on while {node} starts",
                    self.limits.hold.as_secs()
                ));
            }
            return Ok(());
        };
        let unallowed = self.unallowed(state, joining);
        if let Some(how) = unallowed.and_then(|one| one.stop_for_want(&node, &reason)) {
            let again = format!("`refloat cluster rejoin {node} --allow-sst`");
            return self.not_back(state, format!("{how}. {again} starts it all the same"));
        }
        if absence.given_up.is_none() {
            self.run.events.warn(format!(
                "write-sets are not kept for {node} any more: {reason}. It will need a full copy (SST) unless it has asked for them"
            ));
            absence.given_up = Some(reason);
        }
        if !state.holds.is_empty() {
            self.release(state);
        }
        Ok(())
    }

    /// Ends the waiting for a node that takes too long. It goes on by itself, unless it would take a full copy then.
    fn too_late<T>(
        &self,
        state: &mut MaintainState,
        joining: &Joining<'_>,
        late: &str,
    ) -> Result<T, MaintainError> {
        let node = state.plan.node.clone();
        let again = format!("`refloat cluster rejoin {node}`");
        let unallowed = self.unallowed(state, joining);
        let now = match unallowed.and_then(|one| one.stop_late()) {
            Some(how) => format!("{how}. {again} starts it again"),
            None => format!("it goes on by itself, and {again} waits for it again"),
        };
        self.not_back(state, format!("{late}; {now}"))
    }

    /// The node on its way, unless it may take a full copy.
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

    /// Whether a node that is in step is so with the others; one that is not is stopped.
    fn is_with_the_others(
        &self,
        state: &mut MaintainState,
        member: &Member,
    ) -> Result<(), MaintainError> {
        let arrived = arrives(self.members, state.plan.at, || self.run.cancel.is_hard());
        arrived.or_else(|astray| {
            let reason = astray.end(self.control, member, Some(self.run));
            self.not_back(state, reason)
        })
    }
}
