//! A node goes away for a while, and comes back with what it has missed: the others keep that for it meanwhile.
//!
//! Everything that is changed stands in journals before it is changed: one run for the maintenance, and one of its own for each node that
//! keeps write-sets, because a journal of settings is that of one server. After a kill -9 `refloat settings revert` puts back what
//! the others were told, and [`Maintenance::bring_back`] does the rest.

mod watch;

use std::path::Path;
use std::time::{Duration, Instant};

use refloat_run::settings::{self, AppliedSettings, SettingsError, SettingsPlan};
use refloat_run::{Run, RunDir, RunDirError, RunId};
use refloat_wire::Connection;
use serde::{Deserialize, Serialize};

use crate::control::{Control, StartAs};
use crate::error::{ControlError, chain};
use crate::grastate::GraState;
use crate::hold::{HoldPlan, safe_until};
use crate::join::{Joining, Seen, brief, look};
use crate::journal::LogMark;
use crate::observe::{Member, ask, impatient};
use crate::proof::{CameBy, Proof, proof};
use watch::Watched;

/// The file of a run in which it stands how far a maintenance has come.
pub const STATE: &str = "maintain.json";
/// Its format.
const FORMAT: u32 = 1;
/// Name of the runs that hold write-sets, one for each node.
const HOLD: &str = "cluster hold";

/// How often work and nodes are looked at.
const POLL: Duration = Duration::from_millis(200);
/// How often those that hold are looked at: each look is one question.
const WATCH: Duration = Duration::from_secs(1);
/// How often it is said how long a hold lasts.
const TELL: Duration = Duration::from_secs(60);
/// How long it is waited for write-sets from before the node leaves.
const GAP_PATIENCE: Duration = Duration::from_secs(300);
/// After this time without a write nothing is waited for: what was expected is not coming.
const STILL: Duration = Duration::from_secs(3);
/// So much more than expected may be written before the distance to the oldest write-set is too short.
const GAP_MARGIN: u64 = 2;

/// How far a maintenance has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaintainPhase {
    /// The others are being told to keep write-sets.
    Holding,
    /// The node is being stopped.
    Stopping,
    /// It is down.
    Away,
    /// It is being started.
    Starting,
    /// It is back, and the others are being told that they need not keep anything.
    Releasing,
    /// Nothing is left to do.
    Ended,
}

/// What is written down of a maintenance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaintainState {
    /// Number of this format.
    pub format: u32,
    /// What people call the cluster.
    pub cluster: String,
    /// What was planned.
    pub plan: HoldPlan,
    /// How far it has come.
    pub phase: MaintainPhase,
    /// The runs in whose folders it stands what the others were told, with their places among the nodes.
    pub holds: Vec<(usize, RunId)>,
    /// The last write-set that the node had when it left.
    pub left: Option<u64>,
    /// Where its log ended then.
    log: Option<LogMark>,
}

/// What is done while a node is away.
pub trait Work {
    /// Begins it: the node is down. An error is the same as the work's own.
    fn begin(&mut self) -> Result<(), String>;
    /// Whether it is done, and how it ended. Asked a few times a second.
    fn poll(&mut self) -> Option<Result<(), String>>;
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

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Maintained {
    /// The node.
    pub node: String,
    /// By which way it came back.
    pub proof: Proof,
    /// The last write-set that it had when it left.
    pub left: u64,
    /// The last one that the cluster had when it was back.
    pub back: u64,
    /// Bytes of write-sets that the cluster wrote meanwhile, by those that kept them; `None`: nobody had counted them.
    pub bytes: Option<u64>,
    /// How long it was down, in seconds; `None`: another process had begun it.
    pub away_seconds: Option<f64>,
    /// From its start until it was in step with the others, in seconds.
    pub join_seconds: f64,
    /// Why the hold was given up before the node was back.
    pub given_up: Option<String>,
    /// Nodes that could not be told that they need not keep anything any more, and why.
    pub not_released: Vec<(String, String)>,
    /// What went wrong with the work, which the node was down for.
    pub work_failed: Option<String>,
}

/// Why a node is not back.
#[derive(Debug, thiserror::Error)]
pub enum MaintainError {
    /// It would not come back by what it has missed.
    #[error("{node} would need a full copy: {reason}")]
    Short {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// A node does not keep what it was told to keep.
    #[error("{node} does not keep write-sets: {reason}")]
    NotHeld {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// The run's own folder cannot be used.
    #[error(transparent)]
    Folder(#[from] RunDirError),
    /// Settings could not be changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The node could not be stopped or started.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// It does not come back.
    #[error("{node} is not back: {reason}")]
    NotBack {
        /// The node.
        node: String,
        /// What is known.
        reason: String,
    },
    /// Somebody stopped it.
    #[error("stopped on request")]
    Interrupted,
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
            .and_then(|()| self.stop(&mut state, &watched));
        if let Err(error) = gone {
            // Nothing is away yet, or it has to be looked at by a person: either way nothing has to be kept any more, unless it is down.
            if self.control.is_running().ok().flatten() != Some(false) {
                self.release(&mut state);
            }
            return Err(error);
        }
        let since = Instant::now();
        let mut given_up = None;
        let worked = self.while_away(&mut state, &mut watched, work, since, &mut given_up);
        let away = since.elapsed();
        let mut back = self.bring_back(&mut state, &mut watched, given_up, since)?;
        back.away_seconds = Some(away.as_secs_f64());
        back.work_failed = worked.err();
        Ok(back)
    }

    fn write(&self, state: &MaintainState) -> Result<(), MaintainError> {
        Ok(self.run.dir.write(STATE, state)?)
    }

    fn enter(&self, state: &mut MaintainState, phase: MaintainPhase) -> Result<(), MaintainError> {
        state.phase = phase;
        self.write(state)
    }

    fn member(&self, at: usize) -> &Member {
        &self.members[at]
    }

    fn connect(&self, at: usize) -> Result<Connection, MaintainError> {
        let member = self.member(at);
        Connection::connect(&impatient(&member.connect)).map_err(|error| MaintainError::NotHeld {
            node: member.name.clone(),
            reason: chain(&error),
        })
    }

    /// Tells the others to keep write-sets.
    fn hold(
        &self,
        state: &mut MaintainState,
        watched: &mut Vec<Watched>,
    ) -> Result<(), MaintainError> {
        for holder in state.plan.holders.clone() {
            let mut conn = self.connect(holder.at)?;
            if let Some(change) = holder.change(&state.plan.node) {
                let dir = RunDir::create(self.state_dir, HOLD)?;
                // It is written down that there may be a change before there is one.
                state.holds.push((holder.at, dir.id().clone()));
                self.write(state)?;
                let mut applied = AppliedSettings::new(&dir);
                let plan = SettingsPlan {
                    changes: vec![change],
                    ..SettingsPlan::default()
                };
                applied.apply(&mut conn, &plan, &self.run.events)?;
                if let Some(skipped) = applied.skipped().first() {
                    return Err(MaintainError::NotHeld {
                        node: holder.name.clone(),
                        reason: skipped.reason.clone(),
                    });
                }
            }
            watched.push(Watched::begin(self.member(holder.at), &holder, conn)?);
        }
        Ok(())
    }

    /// Stops the node, once its distance from the oldest write-set is long enough.
    fn stop(&self, state: &mut MaintainState, watched: &[Watched]) -> Result<(), MaintainError> {
        let at = state.plan.at;
        let node = state.plan.node.clone();
        let member = self.member(at);
        let oldest = watched.iter().map(|one| one.oldest).min().unwrap_or(0);
        let expected = state.plan.write_sets * GAP_MARGIN;
        let begun = Instant::now();
        let mut told = false;
        let mut moved = (0, Instant::now());
        let now = loop {
            let now = look(member).map_err(|reason| MaintainError::NotHeld {
                node: node.clone(),
                reason,
            })?;
            let seqno = now.seqno.unwrap_or(0);
            if safe_until(oldest, seqno) >= seqno.saturating_add(expected) {
                break now;
            }
            if seqno != moved.0 {
                moved = (seqno, Instant::now());
            }
            // The average since the start is no measure of a cluster in which nothing is written now.
            if moved.1.elapsed() > STILL {
                break now;
            }
            if begun.elapsed() > GAP_PATIENCE {
                let reason = format!(
                    "{oldest} is the oldest write-set that is kept, and {node} is at {seqno}: after {expected} more Galera takes that for too near for IST"
                );
                if self.limits.allow_sst {
                    self.run.events.warn(reason);
                    break now;
                }
                return Err(MaintainError::Short { node, reason });
            }
            if !told {
                told = true;
                self.run.events.note(format!(
                    "waiting for more write-sets before {node} leaves: Galera wants some distance from the oldest that is kept ({oldest})"
                ));
            }
            if self.run.cancel.sleep(POLL) {
                return Err(MaintainError::Interrupted);
            }
        };
        if self.run.cancel.is_cancelled() {
            return Err(MaintainError::Interrupted);
        }
        state.log = LogMark::now(self.control, member.host.as_ref(), &now);
        state.left = now.seqno;
        self.enter(state, MaintainPhase::Stopping)?;
        self.run.events.note(format!("stopping {node}"));
        self.control.stop()?;
        // What it has written down is later than what it said last.
        let written = ask(member, &brief()).grastate;
        match written.as_ref().and_then(|file: &GraState| file.seqno) {
            Some(seqno) => state.left = Some(seqno),
            None if written.is_some() => self.run.events.warn(format!(
                "{node} has not written down where it stands: it did not end cleanly"
            )),
            None => {}
        }
        self.enter(state, MaintainPhase::Away)
    }

    /// Has the work done, and watches what is kept.
    fn while_away(
        &self,
        state: &mut MaintainState,
        watched: &mut [Watched],
        work: &mut dyn Work,
        since: Instant,
        given_up: &mut GivenUp,
    ) -> Result<(), String> {
        let node = state.plan.node.clone();
        self.run
            .events
            .note(format!("{node} is down, and what it misses is kept"));
        work.begin()?;
        let (mut last, mut told) = (Instant::now(), Instant::now());
        loop {
            if let Some(ended) = work.poll() {
                return ended;
            }
            // The work is not ours to end: a terminal has told it too.
            if self.run.cancel.is_hard() {
                return Err("given up".to_owned());
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
        self.enter(state, MaintainPhase::Starting)?;
        let begun = Instant::now();
        let donors: Vec<&str> = state
            .plan
            .holders
            .iter()
            .map(|holder| holder.node_name.as_str())
            .filter(|name| !name.is_empty())
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
        let now = loop {
            match joining.look() {
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
                return Err(MaintainError::NotBack {
                    node,
                    reason: "given up on request before it was in step with the others".to_owned(),
                });
            }
            if last_look.elapsed() >= WATCH {
                last_look = Instant::now();
                self.watch(state, watched, since, &mut given_up);
                if given_up.is_some() && told_gone {
                    return Err(MaintainError::NotBack {
                        node,
                        reason: format!(
                            "it does not start, and what it misses is kept no more{}",
                            joining.last_words()
                        ),
                    });
                }
            }
            std::thread::sleep(POLL);
        };
        let join_seconds = begun.elapsed().as_secs_f64();
        let left = state.left.unwrap_or(0);
        let proof = proof(left, &state.plan.uuid, &now, joining.log().as_deref());
        for one in watched.iter_mut() {
            one.look(&self.run.events);
        }
        let bytes = watched.iter().map(|one| one.used).max();
        self.enter(state, MaintainPhase::Releasing)?;
        let not_released = self.release(state);
        if not_released.is_empty() {
            self.enter(state, MaintainPhase::Ended)?;
        }
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
        if state.phase == MaintainPhase::Holding {
            return self.call_off(state);
        }
        let mut watched = Vec::new();
        for holder in state.plan.holders.clone() {
            match self.connect(holder.at) {
                Ok(conn) => watched.push(Watched::begin(self.member(holder.at), &holder, conn)?),
                Err(error) => self.run.events.warn(error.to_string()),
            }
        }
        self.bring_back(state, &mut watched, None, Instant::now())
    }

    /// Ends one that has not come as far as to stop the node.
    fn call_off(&self, state: &mut MaintainState) -> Result<Maintained, MaintainError> {
        let node = state.plan.node.clone();
        let now = look(self.member(state.plan.at)).map_err(|reason| MaintainError::NotBack {
            node: node.clone(),
            reason,
        })?;
        let not_released = self.release(state);
        if not_released.is_empty() {
            self.enter(state, MaintainPhase::Ended)?;
        }
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

    /// Tells the others that they need not keep anything any more; those that could not be told.
    fn release(&self, state: &mut MaintainState) -> Vec<(String, String)> {
        let mut failed = Vec::new();
        let mut left = Vec::new();
        if !state.holds.is_empty() {
            self.run
                .events
                .note("the others need not keep write-sets any more");
        }
        for (at, run) in std::mem::take(&mut state.holds) {
            if let Err(reason) = self.release_one(at, &run) {
                let name = self.member(at).name.clone();
                self.run.events.warn(format!(
                    "{name} is still told to keep write-sets: {reason}. `refloat settings revert` puts it back"
                ));
                failed.push((name, reason));
                left.push((at, run));
            }
        }
        state.holds = left;
        if let Err(error) = self.write(state) {
            self.run.events.warn(error.to_string());
        }
        failed
    }

    fn release_one(&self, at: usize, run: &RunId) -> Result<(), String> {
        let dir = RunDir::open(self.state_dir, run).map_err(|error| chain(&error))?;
        // A run that ended before it changed anything has no journal.
        if !dir.has(RunDir::SETTINGS) {
            return Ok(());
        }
        let mut conn = self.connect(at).map_err(|error| chain(&error))?;
        let report = settings::revert_run(&dir, &mut conn, &self.run.events, false)
            .map_err(|error| chain(&error))?;
        match report {
            Some(report) if !report.complete => Err("the server refuses".to_owned()),
            _ => Ok(()),
        }
    }
}

/// What stands in a run's folder of a maintenance, if it is one that has not ended.
///
/// # Errors
/// The folder cannot be read.
pub fn open_maintenance(dir: &RunDir) -> Result<Option<MaintainState>, RunDirError> {
    if !dir.has(STATE) {
        return Ok(None);
    }
    let state: MaintainState = dir.read(STATE)?;
    Ok((state.phase != MaintainPhase::Ended && state.format == FORMAT).then_some(state))
}
