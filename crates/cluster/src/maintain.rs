//! A node goes away for a while, and comes back with what it has missed: the others keep that for it meanwhile.
//!
//! Everything that is changed stands in journals before it is changed: one run for the maintenance, and one of its own for each node that
//! keeps write-sets, because a journal of settings is that of one server. After a kill -9 `refloat settings revert` puts back what
//! the others were told, and [`Maintenance::bring_back`] does the rest.

mod arrive;
mod held;
mod leave;
mod state;
mod watch;

use std::path::Path;
use std::time::{Duration, Instant};

use refloat_run::Run;

use crate::among::arrives;
use crate::control::{Control, StartAs};
use crate::forecast::{RejoinKind, rejoin};
use crate::grastate::GraState;
use crate::hold::HoldPlan;
use crate::join::{Joining, Seen, brief, look};
use crate::observe::{Member, observe};
use crate::proof::{CameBy, Proof, has_started, proof};
use state::FORMAT;
pub use state::{MaintainError, MaintainPhase, MaintainState, Maintained, STATE, open_maintenance};
use watch::Watched;

/// How often work and nodes are looked at.
const POLL: Duration = Duration::from_millis(200);
/// How often those that hold are looked at: each look is one question.
const WATCH: Duration = Duration::from_secs(1);
/// How often it is said how long a hold lasts.
const TELL: Duration = Duration::from_secs(60);

/// What is done while a node is away.
pub trait Work {
    /// Begins it: the node is down. An error is the same as the work's own.
    fn begin(&mut self) -> Result<(), String>;
    /// Whether it is done, and how it ended. Asked a few times a second.
    fn poll(&mut self) -> Option<Result<(), String>>;
    /// Whether a request to stop (Ctrl-C, SIGTERM) ends it well: nobody is at work.
    fn ends_when_asked(&self) -> bool {
        false
    }
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct MaintainLimits {
    /// So long write-sets are kept at the most, from the moment on that the node is down.
    pub hold: Duration,
    /// Whether the node may be stopped although what is kept will not last, and may come back by a full copy.
    pub allow_sst: bool,
}

/// A node that goes away and comes back.
#[derive(Debug)]
pub struct Maintenance<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// How the node is started and stopped.
    pub control: &'a Control,
    /// Where runs have their folders.
    pub state_dir: &'a Path,
    /// This run.
    pub run: &'a Run,
    /// How long things may take.
    pub limits: MaintainLimits,
}

/// Why the holding was ended before the node was back.
type GivenUp = Option<String>;

impl Maintenance<'_> {
    /// Takes the node away, has the work done, and brings it back.
    ///
    /// # Errors
    /// [`MaintainError`]. Whatever it is, those that keep write-sets have been released, unless that is said as a warning; the node is
    /// as the error says.
    pub fn run(
        &self,
        cluster: &str,
        plan: &HoldPlan,
        work: &mut dyn Work,
    ) -> Result<Maintained, MaintainError> {
        if !plan.lasts() && !self.limits.allow_sst {
            return Err(MaintainError::Short {
                node: plan.node.clone(),
                reason: plan.warnings.join("; "),
            });
        }
        let mut state = MaintainState {
            format: FORMAT,
            cluster: cluster.to_owned(),
            plan: plan.clone(),
            phase: MaintainPhase::Holding,
            holds: Vec::new(),
            left: None,
            log: None,
        };
        self.write(&state)?;
        let mut watched = Vec::new();
        let gone = self
            .hold(&mut state, &mut watched)
            .and_then(|()| self.stop(&mut state, &mut watched));
        if let Err(error) = gone {
            // It has not left: nothing has to be kept for it.
            self.release(&mut state);
            self.enter(&mut state, MaintainPhase::Ended);
            return Err(error);
        }
        let since = Instant::now();
        let mut given_up = None;
        let worked = self.while_away(&mut state, &mut watched, work, since, &mut given_up)?;
        let away = since.elapsed();
        let mut back = self.bring_back(&mut state, &mut watched, given_up, since)?;
        back.away_seconds = Some(away.as_secs_f64());
        back.work_failed = worked.err();
        Ok(back)
    }

    fn write(&self, state: &MaintainState) -> Result<(), MaintainError> {
        Ok(self.run.dir.write(STATE, state)?)
    }

    /// Writes down how far it has come. Nothing is left undone because that could not be written.
    fn enter(&self, state: &mut MaintainState, phase: MaintainPhase) {
        // What is still held keeps it open.
        state.phase = if phase == MaintainPhase::Ended && !state.holds.is_empty() {
            MaintainPhase::Releasing
        } else {
            phase
        };
        if let Err(error) = self.write(state) {
            self.run.events.warn(format!(
                "how far this has come could not be written down: {error}"
            ));
        }
    }

    fn member(&self, at: usize) -> &Member {
        &self.members[at]
    }

    /// Has the work done, and watches what is kept. What comes back is how the work ended.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`]: it was given up while the work still went on.
    fn while_away(
        &self,
        state: &mut MaintainState,
        watched: &mut [Watched],
        work: &mut dyn Work,
        since: Instant,
        given_up: &mut GivenUp,
    ) -> Result<Result<(), String>, MaintainError> {
        let node = state.plan.node.clone();
        self.run
            .events
            .note(format!("{node} is down, and what it misses is kept"));
        if let Err(reason) = work.begin() {
            return Ok(Err(reason));
        }
        let (mut last, mut told) = (Instant::now(), Instant::now());
        loop {
            if let Some(ended) = work.poll() {
                return Ok(ended);
            }
            if self.run.cancel.is_cancelled() && work.ends_when_asked() {
                return Ok(Ok(()));
            }
            // The work is not ours to end: a terminal has told it too. To start the server under it would be wrong.
            if self.run.cancel.is_hard() {
                return Err(MaintainError::NotBack {
                    node,
                    reason: "given up on request while it was being worked on. What it misses is kept until the budget for that is used up"
                        .to_owned(),
                });
            }
            std::thread::sleep(POLL);
            if last.elapsed() >= WATCH {
                last = Instant::now();
                self.watch(state, watched, since, given_up);
            }
            if told.elapsed() >= TELL && given_up.is_none() {
                told = Instant::now();
                self.tell(watched);
            }
        }
    }

    /// Looks whether write-sets are still kept, and gives up when the budget is used up.
    fn watch(
        &self,
        state: &mut MaintainState,
        watched: &mut [Watched],
        since: Instant,
        given_up: &mut GivenUp,
    ) {
        if given_up.is_some() {
            if !state.holds.is_empty() {
                self.release(state);
            }
            return;
        }
        let node = &state.plan.node;
        let left = state.left.unwrap_or(0);
        for one in watched.iter_mut() {
            one.look(&self.run.events);
        }
        let reason = if since.elapsed() > self.limits.hold {
            format!("the time for it is over ({} s)", self.limits.hold.as_secs())
        } else if watched.iter().all(|one| !one.keeps(left)) {
            let all: Vec<String> = watched.iter().map(Watched::why_not).collect();
            all.join("; ")
        } else {
            return;
        };
        self.run.events.warn(format!(
            "write-sets are not kept for {node} any more: {reason}. It will need a full copy (SST) unless it is back before they are thrown away"
        ));
        *given_up = Some(reason);
        self.release(state);
    }

    fn tell(&self, watched: &[Watched]) {
        let best = watched
            .iter()
            .filter_map(Watched::seconds_left)
            .fold(f64::NAN, f64::max);
        if best.is_finite() {
            self.run.events.note(format!(
                "at the rate of now write-sets are kept for {} more minutes",
                (best / 60.0).floor()
            ));
        }
    }

    /// Starts the node, waits until it is in step with the others, says by which way it came, and releases those that kept write-sets.
    ///
    /// # Errors
    /// [`MaintainError::NotBack`] and others.
    fn bring_back(
        &self,
        state: &mut MaintainState,
        watched: &mut [Watched],
        mut given_up: GivenUp,
        since: Instant,
    ) -> Result<Maintained, MaintainError> {
        let node = state.plan.node.clone();
        let member = self.member(state.plan.at).clone();
        let mut against = self.against_start(state);
        if against.is_none() && given_up.is_some() {
            self.hold_for_start(state, watched, &mut given_up);
            against = self.against_start(state);
        }
        if let Some(reason) = against {
            self.release(state);
            self.enter(state, MaintainPhase::Ended);
            return Err(MaintainError::NotBack {
                reason: format!(
                    "it is down, and was not started, because it would take a full copy (SST): {reason}. `refloat cluster rejoin {node} --allow-sst` starts it all the same"
                ),
                node,
            });
        }
        self.enter(state, MaintainPhase::Starting);
        let begun = Instant::now();
        // Of several names Galera takes whichever has got furthest.
        let best = state.plan.holders.first();
        let donors: Vec<&str> = best
            .map(|holder| holder.node_name.as_str())
            .filter(|name| !name.is_empty())
            .into_iter()
            .collect();
        self.run.events.note(format!("starting {node}"));
        let started = self.control.start(StartAs::Member, &donors);
        if let Err(error) = &started {
            self.run.events.warn(format!(
                "{error}. What {node} misses is kept on: mend it and start it by hand, or give it up with Ctrl-C"
            ));
        }
        let log = state.log.clone();
        let mut joining = Joining::new(&member, self.control, log.as_ref());
        let mut last_look = Instant::now();
        let mut told_gone = started.is_err();
        let mut late = false;
        let now = loop {
            let seen = joining.look();
            let ended = matches!(seen, Seen::Ended);
            match seen {
                Seen::There(now) => break now,
                Seen::Ended if !told_gone => {
                    told_gone = true;
                    self.run.events.warn(format!(
                        "{node} has ended while it started{}. What it misses is kept on: mend it and start it by hand, or give it up with Ctrl-C",
                        joining.last_words()
                    ));
                }
                Seen::Ended | Seen::Coming => {}
            }
            // One Ctrl-C while work was done is no reason to leave the node down; one more is.
            if self.run.cancel.is_hard() || (told_gone && self.run.cancel.is_cancelled()) {
                self.release(state);
                self.enter(state, MaintainPhase::Ended);
                return Err(MaintainError::NotBack {
                    node,
                    reason: "given up on request before it was in step with the others".to_owned(),
                });
            }
            joining.tell(&self.run.events);
            if last_look.elapsed() >= WATCH {
                last_look = Instant::now();
                if ended {
                    self.watch(state, watched, since, &mut given_up);
                } else {
                    self.watch_start(state, watched, since, &mut given_up, &joining, &mut late)?;
                }
                if let Some(why) = given_up.as_ref().filter(|_| ended) {
                    self.enter(state, MaintainPhase::Ended);
                    return Err(MaintainError::NotBack {
                        node,
                        reason: format!(
                            "it does not start{}. What it misses is kept no more: {why}",
                            joining.last_words()
                        ),
                    });
                }
            }
            std::thread::sleep(POLL);
        };
        let join_seconds = begun.elapsed().as_secs_f64();
        let arrived = arrives(self.members, state.plan.at, || self.run.cancel.is_hard());
        if let Err(astray) = arrived {
            let reason = astray.end(self.control, &member, true);
            self.release(state);
            self.enter(state, MaintainPhase::Ended);
            return Err(MaintainError::NotBack { node, reason });
        }
        let left = state.left.unwrap_or(0);
        let proof = proof(&state.plan.uuid, &now, joining.log_of(&now).as_deref());
        for one in watched.iter_mut() {
            one.look(&self.run.events);
        }
        let bytes = watched.iter().map(Watched::missed).max();
        self.enter(state, MaintainPhase::Releasing);
        let not_released = self.release(state);
        self.enter(state, MaintainPhase::Ended);
        Ok(Maintained {
            node,
            proof,
            left,
            back: now.seqno.unwrap_or(left),
            bytes,
            away_seconds: None,
            join_seconds,
            given_up,
            not_released,
            work_failed: None,
        })
    }

    /// Goes on with a maintenance that another process has begun and that does not work any more.
    ///
    /// # Errors
    /// As [`Maintenance::run`].
    pub fn finish(&self, state: &mut MaintainState) -> Result<Maintained, MaintainError> {
        if self.was_not_stopped(state) {
            return self.call_off(state);
        }
        let mut watched = Vec::new();
        for holder in state.plan.holders.clone() {
            let begun = self
                .connect(holder.at)
                .and_then(|conn| Watched::begin(self.member(holder.at), &holder, conn));
            match begun {
                Ok(one) => watched.push(one),
                Err(error) => self.run.events.warn(error.to_string()),
            }
        }
        self.bring_back(state, &mut watched, None, Instant::now())
    }

    /// Whether the node runs as it did when it was to be stopped.
    fn was_not_stopped(&self, state: &MaintainState) -> bool {
        let member = self.member(state.plan.at);
        match state.phase {
            MaintainPhase::Holding => true,
            MaintainPhase::Stopping => {
                let log = state.log.as_ref().zip(member.host.as_ref());
                let log = log.and_then(|(mark, host)| mark.since(host));
                log.is_some_and(|log| !has_started(&log)) && look(member).is_ok()
            }
            _ => false,
        }
    }

    /// Why the node must not be started: it would take a full copy, which wipes what it has, and nobody has allowed that.
    fn against_start(&self, state: &MaintainState) -> Option<String> {
        let at = state.plan.at;
        if self.limits.allow_sst || self.control.is_running().ok().flatten() == Some(true) {
            return None;
        }
        let mut view = observe(&state.cluster, self.members, &brief());
        let node = &mut view.nodes[at];
        if node.state.is_some() {
            return None;
        }
        // What cannot be read, and what was not written down, is known from before.
        let known = state.left.map(|left| GraState {
            uuid: state.plan.uuid.clone(),
            seqno: Some(left),
            safe_to_bootstrap: None,
        });
        match &mut node.grastate {
            Some(file) if file.uuid == state.plan.uuid => file.seqno = file.seqno.or(state.left),
            Some(_) => {}
            // Whoever worked on it may have given it another data directory.
            None if self.member(at).host.is_some() => {
                let reason = node.files_unreadable.take();
                return Some(reason.unwrap_or_else(|| "its grastate.dat is gone".to_owned()));
            }
            missing => *missing = known,
        }
        let forecast = rejoin(&view, &view.nodes[at], &brief());
        (!matches!(forecast.kind, RejoinKind::Ist { .. })).then_some(forecast.reason)
    }

    /// Ends one that has not come as far as to stop the node.
    fn call_off(&self, state: &mut MaintainState) -> Result<Maintained, MaintainError> {
        let node = state.plan.node.clone();
        let not_released = self.release(state);
        self.enter(state, MaintainPhase::Ended);
        let now = look(self.member(state.plan.at)).map_err(|reason| MaintainError::NotBack {
            node: node.clone(),
            reason: format!(
                "it was not stopped by this, and does not answer: {reason}. Nothing is kept for it any more; `refloat cluster rejoin {node}` brings it back"
            ),
        })?;
        let seqno = now.seqno.unwrap_or(0);
        Ok(Maintained {
            node,
            proof: Proof {
                by: CameBy::Stayed,
                evidence: "it was not stopped".to_owned(),
            },
            left: seqno,
            back: seqno,
            bytes: None,
            away_seconds: None,
            join_seconds: 0.0,
            given_up: None,
            not_released,
            work_failed: None,
        })
    }
}
