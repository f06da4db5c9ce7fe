//! The steps up to a one-node cluster: the others stop, and the dump is loaded into the chosen
//! node.

use std::time::{Duration, Instant};

use refloat_host::{Host, chain};
use refloat_load::{GaleraMode, GaleraOptions, LoadFailure};
use refloat_run::settings::Durability;
use refloat_run::{Refusal, Run, RunDir};
use refloat_wire::Connection;

use super::Restore;
use super::state::{Loaded, RestoreError, RestoreState, RestoreStep};
use crate::join::{brief, look};
use crate::observe::ask;
use crate::restore::planned::RestoreWay;

/// How long a node that has left may still be counted as a member.
const MEMBER_PATIENCE: Duration = Duration::from_secs(30);

/// Name of the runs that load.
const LOAD: &str = "load";

impl Restore<'_> {
    pub(super) fn wrong(
        &self,
        step: RestoreStep,
        at: usize,
        wrong: impl Into<Refusal>,
    ) -> RestoreError {
        RestoreError::Node {
            step,
            node: self.members[at].name.clone(),
            wrong: wrong.into(),
        }
    }

    pub(super) fn host(&self, at: usize) -> &Host {
        // The plan refuses nodes whose machine is unknown.
        self.members[at].host.as_ref().unwrap_or(&Host::Local)
    }

    /// Stops the other nodes one by one, while the chosen node is up and can take over.
    pub(super) fn stop_others(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Stop;
        for at in self.others(state) {
            self.may_go_on(STEP)?;
            if self.has_server(state, at)? {
                let chosen = look(&self.members[state.plan.at])
                    .map_err(|reason| self.wrong(STEP, state.plan.at, reason))?;
                if !chosen.primary || !chosen.ready {
                    let reason = format!(
                        "it is {} and must be in sync before others stop",
                        chosen.state
                    );
                    return Err(self.wrong(STEP, state.plan.at, reason));
                }
                self.sees_no_strangers(state, chosen.size, self.members.len(), STEP)?;
                self.stop(state, at, STEP)?;
            }
            self.note_place(state, at, STEP)?;
        }
        Ok(())
    }

    /// Proves that the chosen node sees no members besides these. An unlisted one would continue
    /// the old history, and applications would follow it.
    fn sees_no_strangers(
        &self,
        state: &RestoreState,
        sees: u64,
        most: usize,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        if sees <= most as u64 {
            return Ok(());
        }
        let reason = format!(
            "it sees {sees} members, and {most} of them are listed here: another node or arbitrator (garbd) has joined, and would go on alone"
        );
        let wrong = Refusal::new(reason)
            .hint("Stop that one, or plan again with a list that names it (--restart).");
        Err(self.wrong(step, state.plan.at, wrong))
    }

    /// Proves that the chosen node is the last member of its cluster, before it leaves.
    pub(super) fn is_the_last(
        &self,
        state: &RestoreState,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let begun = Instant::now();
        loop {
            let now = match look(&self.members[at]) {
                Ok(now) => now,
                // It was told to stop and is shutting down.
                Err(_) if state.was_last => return Ok(()),
                Err(reason) => {
                    let reason = format!(
                        "its process is there, and how many members it sees cannot be asked: {reason}"
                    );
                    return Err(self.wrong(step, at, reason));
                }
            };
            // Outside a primary component it belongs to no cluster that could continue, and the
            // others are down.
            if now.size <= 1 {
                return Ok(());
            }
            // A crashed member is counted until the others give up on it.
            if begun.elapsed() > MEMBER_PATIENCE {
                return self.sees_no_strangers(state, now.size, 1, step);
            }
            self.pause(step)?;
        }
    }

    /// Loads the dump into the chosen node, and checks that the load is proven.
    pub(super) fn load(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Load;
        let at = state.plan.at;
        let node = self.members[at].name.clone();
        let rebuild = state.plan.way == RestoreWay::Rebuild;
        if rebuild {
            self.others_are_down(state, STEP)?;
            // The machine may have rebooted, or the server may have crashed.
            if self.is_standalone(state) != Some(Ok(())) {
                if self.has_server(state, at)? {
                    self.stop(state, at, STEP)?;
                }
                self.start_alone(state, STEP)?;
            }
        }
        let mut options = self.load.clone();
        options.leave_marks = true;
        options.target = self.members[at].connect.clone();
        options.galera.mode = Some(GaleraMode::Replicate);
        options.galera.others = (0..self.members.len())
            .filter(|&other| other != at)
            .map(|other| self.members[other].connect.clone())
            .collect();
        if rebuild {
            options.target = self.alone(state);
            options.galera = GaleraOptions::default();
            options.galera.mode = Some(GaleraMode::Local);
            options.durability = options.durability.or(Some(Durability::Relaxed));
        }
        // A settings journal belongs to one server and one run.
        let run = Run {
            dir: RunDir::create(self.state_dir, LOAD)?,
            ..self.run.clone()
        };
        let outcome =
            refloat_load::load(&options, &run).map_err(|LoadFailure { error, .. }| {
                RestoreError::Load {
                    node: node.clone(),
                    source: Box::new(error),
                }
            })?;
        let reason = match &outcome {
            outcome if !outcome.settings_left.is_empty() => Some(format!(
                "settings are still changed: {}",
                outcome.settings_left.join(", ")
            )),
            outcome if !outcome.proven => Some(format!(
                "{} differences, {} warnings, {} refused statements",
                outcome.proof.differences.total, outcome.warnings.total, outcome.failures.total
            )),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(RestoreError::NotProven {
                node,
                reason,
                way: state.plan.way,
            });
        }
        state.marks.clone_from(&outcome.marks);
        state.loaded = Some(Loaded {
            run: outcome.run,
            rows: outcome.rows,
            bytes: outcome.bytes,
            tables: outcome.tables.len() as u64,
            seconds: outcome.seconds,
            resumed: outcome.resumed.is_some(),
        });
        Ok(())
    }

    /// Removes the progress marks of the load, from the standalone node or from the cluster that it
    /// belongs to. By now the complete load is recorded.
    pub(super) fn forget_marks(
        &self,
        state: &mut RestoreState,
        alone: bool,
    ) -> Result<(), RestoreError> {
        let Some(mut marks) = state.marks.clone() else {
            return Ok(());
        };
        let target = if alone {
            self.alone(state)
        } else {
            // What a node keeps out of its binary log does not reach the other nodes either. A load
            // that was not logged has no replicas.
            (marks.rows_logged, marks.tables_logged) = (true, true);
            self.members[state.plan.at].connect.clone()
        };
        let removed = Connection::connect(&target).and_then(|mut conn| marks.remove(&mut conn));
        removed.map_err(|error| {
            let reason = format!(
                "the progress marks of the load cannot be removed: {}",
                chain(&error)
            );
            self.wrong(state.step, state.plan.at, reason)
        })?;
        state.marks = None;
        self.write(state)?;
        Ok(())
    }

    /// Whether a node is a ready member of the primary component with this history.
    pub(super) fn is_member(&self, at: usize, uuid: &str) -> bool {
        let view = ask(&self.members[at], &brief());
        view.primary()
            .is_some_and(|state| state.cluster_uuid == uuid && state.ready)
    }
}
