//! Takes a node out of the cluster for a while and brings it back by IST: the other nodes keep what
//! it misses.
//!
//! Every change is journalled before it is made: in one run for the maintenance, and one for each
//! node that keeps write-sets, because a settings journal belongs to one server. After a `kill -9`,
//! `refloat settings revert` restores the settings of the other nodes, and
//! [`Maintenance::bring_back`] does the rest.

mod arrive;
mod away;
mod held;
mod leave;
mod state;

use std::path::Path;
use std::time::{Duration, Instant};

use refloat_host::{Control, chain};
use refloat_run::{Refusal, Run};

use crate::claim::Claimed;
use crate::hold::HoldPlan;
use crate::join::look;
use crate::member::Member;
use crate::proof::{CameBy, Proof, has_started};
pub use away::Work;
use held::Absence;
use state::FORMAT;
pub use state::{MaintainError, MaintainPhase, MaintainState, Maintained, STATE, open_maintenance};

/// How often the work and the nodes are checked.
const POLL: Duration = Duration::from_millis(200);
/// How often the nodes that hold write-sets are checked. Each check costs a query.
const WATCH: Duration = Duration::from_secs(1);

/// How long a maintenance may take, and what it may cost the cluster.
#[derive(Debug, Clone, Copy)]
pub struct MaintainLimits {
    /// How long write-sets are kept, counted from when the node is down. While the node starts, the
    /// hold has no time limit.
    pub hold: Duration,
    /// Limit on the time from the start of the node until it is synced. `None`: no limit.
    pub start: Option<Duration>,
    /// Whether the node may be stopped although the write-sets will not be kept long enough, and
    /// may rejoin by a full copy.
    pub allow_sst: bool,
    /// Bytes that must stay available on the machines that keep write-sets: of memory, or of the
    /// disk where write-sets grow if the node discards none.
    pub keep_free: u64,
}

/// The maintenance of one node.
#[derive(Debug)]
pub struct Maintenance<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// How the node is started and stopped.
    pub control: &'a Control,
    /// The state directory.
    pub state_dir: &'a Path,
    /// This run: its folder, events and cancellation.
    pub run: &'a Run,
    /// Limits on the maintenance.
    pub limits: MaintainLimits,
}

impl Maintenance<'_> {
    /// Stops the node, runs the work, and brings the node back.
    ///
    /// # Errors
    /// [`MaintainError`]. The nodes that keep write-sets were released unless the error or a
    /// warning says otherwise. The error describes the state of the node.
    pub fn run(
        &self,
        cluster: &str,
        plan: &HoldPlan,
        work: &mut dyn Work,
    ) -> Result<Maintained, MaintainError> {
        let members = self.members_of(plan);
        self.with(&members).take_away(cluster, plan, work)
    }

    /// The nodes, with the data directory that the leaving one reported while it ran.
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
        let _maintaining = self.claim_for_others(plan);
        let mut absence = Absence::begin();
        let gone = self
            .hold(&mut state, &mut absence)
            .and_then(|()| self.stop(&mut state, &mut absence.watched));
        if let Err(error) = gone {
            // It has not left, so nothing needs to be kept for it.
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

    /// Leaves a claim that tells other machines that this process maintains the node.
    fn claim_for_others(&self, plan: &HoldPlan) -> Option<Claimed<'_>> {
        let member = self.member(plan.at);
        Claimed::maintenance(member, self.run.dir.id().as_str()).unwrap_or_else(|error| {
            self.run.events.warn(format!(
                "the maintenance of {} cannot be recorded for other machines: {}",
                plan.node,
                chain(&error)
            ));
            None
        })
    }

    fn write(&self, state: &MaintainState) -> Result<(), MaintainError> {
        Ok(self.run.dir.write(STATE, state)?)
    }

    /// Records the progress of the maintenance. A failed write is only a warning, so that the
    /// remaining steps still happen.
    fn enter(&self, state: &mut MaintainState, phase: MaintainPhase) {
        // A remaining hold keeps the maintenance open.
        state.phase = if phase == MaintainPhase::Ended && !state.holds.is_empty() {
            MaintainPhase::Releasing
        } else {
            phase
        };
        if let Err(error) = self.write(state) {
            self.run
                .events
                .warn(format!("the progress could not be recorded: {error}"));
        }
    }

    fn member(&self, at: usize) -> &Member {
        &self.members[at]
    }

    /// Resumes a maintenance whose process no longer runs.
    ///
    /// # Errors
    /// As [`Maintenance::run`].
    pub fn finish(&self, state: &mut MaintainState) -> Result<Maintained, MaintainError> {
        let members = self.members_of(&state.plan);
        self.with(&members).go_on(state)
    }

    fn go_on(&self, state: &mut MaintainState) -> Result<Maintained, MaintainError> {
        let _maintaining = self.claim_for_others(&state.plan);
        if state.phase == MaintainPhase::Holding {
            return self.call_off(state);
        }
        // The request to stop the node may still be pending: a node that answers now would go down
        // after the hold has ended, and one that does not may still be using its files.
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

    /// Whether the node may still run because it was never stopped, or is still shutting down.
    fn may_not_be_down(&self, state: &MaintainState) -> bool {
        let member = self.member(state.plan.at);
        let log = state.log.as_ref().zip(member.host.as_ref());
        let log = log.and_then(|(mark, host)| mark.since(host));
        state.phase == MaintainPhase::Stopping && log.is_none_or(|log| !has_started(&log))
    }

    /// Ends a maintenance that never stopped the node.
    fn call_off(&self, state: &mut MaintainState) -> Result<Maintained, MaintainError> {
        let node = state.plan.node.clone();
        let not_released = self.release(state);
        self.enter(state, MaintainPhase::Ended);
        let now = look(self.member(state.plan.at)).map_err(|reason| MaintainError::NotBack {
            node: node.clone(),
            wrong: Refusal::new(format!(
                "it was not stopped by this, but does not answer: {reason}. Nothing is kept for it any longer"
            ))
            .hint(format!("`refloat cluster rejoin {node}` brings it back.")),
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
