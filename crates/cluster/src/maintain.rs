//! A node goes away for a while, and comes back with what it has missed: the others keep that for it meanwhile.
//!
//! Everything that is changed stands in journals before it is changed: one run for the maintenance, and one of its own for each node that
//! keeps write-sets, because a journal of settings is that of one server. After a kill -9 `refloat settings revert` puts back what
//! the others were told, and [`Maintenance::bring_back`] does the rest.

mod arrive;
mod away;
mod held;
mod leave;
mod state;

use std::path::Path;
use std::time::{Duration, Instant};

use refloat_run::Run;

use crate::claim::Claimed;
use crate::control::Control;
use crate::error::chain;
use crate::hold::HoldPlan;
use crate::join::look;
use crate::member::Member;
use crate::proof::{CameBy, Proof, has_started};
pub use away::Work;
use held::Absence;
use state::FORMAT;
pub use state::{MaintainError, MaintainPhase, MaintainState, Maintained, STATE, open_maintenance};

/// How often work and nodes are looked at.
const POLL: Duration = Duration::from_millis(200);
/// How often those that hold are looked at: each look is one question.
const WATCH: Duration = Duration::from_secs(1);

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct MaintainLimits {
    /// So long write-sets are kept at the most, from the moment on that the node is down.
    pub hold: Duration,
    /// So long the node may take from its start until it is in step; `None`: as long as it takes.
    pub start: Option<Duration>,
    /// Whether the node may be stopped although what is kept will not last, and may come back by a full copy.
    pub allow_sst: bool,
    /// So many bytes have to stay available on the machines of those that keep write-sets: of memory, or of the disk where those grow
    /// that throw nothing away.
    pub keep_free: u64,
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
        let members = self.members_of(plan);
        self.with(&members).take_away(cluster, plan, work)
    }

    /// The nodes, with what the one that goes away says of itself while it runs.
    fn members_of(&self, plan: &HoldPlan) -> Vec<Member> {
        let mut members = self.members.to_vec();
        let member = &mut members[plan.at];
        member.datadir = member.datadir.take().or_else(|| plan.datadir.clone());
        members
    }

    fn with<'a>(&'a self, members: &'a [Member]) -> Maintenance<'a> {
        Maintenance { members, ..*self }
    }

    fn take_away(
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
        let _maintaining = self.say_so(plan);
        let mut absence = Absence::begin();
        let gone = self
            .hold(&mut state, &mut absence)
            .and_then(|()| self.stop(&mut state, &mut absence.watched));
        if let Err(error) = gone {
            // It has not left: nothing has to be kept for it.
            self.release(&mut state);
            self.enter(&mut state, MaintainPhase::Ended);
            return Err(error);
        }
        absence.since = Instant::now();
        let worked = self.while_away(&mut state, &mut absence, work)?;
        let away = absence.since.elapsed();
        let mut back = self.bring_back(&mut state, absence)?;
        back.away_seconds = Some(away.as_secs_f64());
        back.work_failed = worked.err();
        Ok(back)
    }

    /// Leaves word for other machines that this maintains the node.
    fn say_so(&self, plan: &HoldPlan) -> Option<Claimed<'_>> {
        let member = self.member(plan.at);
        Claimed::maintenance(member, self.run.dir.id().as_str()).unwrap_or_else(|error| {
            self.run.events.warn(format!(
                "that {} is maintained cannot be written down for other machines: {}",
                plan.node,
                chain(&error)
            ));
            None
        })
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

    /// Goes on with a maintenance that another process has begun and that does not work any more.
    ///
    /// # Errors
    /// As [`Maintenance::run`].
    pub fn finish(&self, state: &mut MaintainState) -> Result<Maintained, MaintainError> {
        let members = self.members_of(&state.plan);
        self.with(&members).go_on(state)
    }

    fn go_on(&self, state: &mut MaintainState) -> Result<Maintained, MaintainError> {
        let _maintaining = self.say_so(&state.plan);
        if state.phase == MaintainPhase::Holding {
            return self.call_off(state);
        }
        // What was to stop it may be on its way still: one that answers now would go down when nothing is kept for it any more, and one that does
        // not answer may be at its files.
        if self.may_not_be_down(state) {
            self.end_server(state)?;
        }
        let mut absence = Absence::begin();
        for holder in &state.plan.holders {
            match self.keeper().watch(holder) {
                Ok(one) => absence.watched.push(one),
                Err(error) => self.run.events.warn(error.to_string()),
            }
        }
        self.bring_back(state, absence)
    }

    /// Whether the node may run as it did when it was to be stopped, or be on its way down.
    fn may_not_be_down(&self, state: &MaintainState) -> bool {
        let member = self.member(state.plan.at);
        let log = state.log.as_ref().zip(member.host.as_ref());
        let log = log.and_then(|(mark, host)| mark.since(host));
        state.phase == MaintainPhase::Stopping && log.is_none_or(|log| !has_started(&log))
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
