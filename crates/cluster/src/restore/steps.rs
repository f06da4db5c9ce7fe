//! Steps up to a cluster of one: the others stop, and the chosen node, which stands alone, is loaded.

use refloat_logical::load::{self, GaleraMode, GaleraOptions, LoadFailure};
use refloat_run::settings::Durability;
use refloat_run::{Run, RunDir};

use super::Restore;
use super::state::{Loaded, RestoreError, RestoreState, RestoreStep, RestoreWay};
use crate::host::Host;
use crate::join::{brief, look};
use crate::observe::ask;

/// Name of the runs that load.
const LOAD: &str = "load";

impl Restore<'_> {
    pub(super) fn wrong(
        &self,
        step: RestoreStep,
        at: usize,
        reason: impl Into<String>,
    ) -> RestoreError {
        RestoreError::Node {
            step,
            node: self.members[at].name.clone(),
            reason: reason.into(),
        }
    }

    pub(super) fn host(&self, at: usize) -> &Host {
        // The plan refuses nodes whose machine is not known.
        self.members[at].host.as_ref().unwrap_or(&Host::Local)
    }

    /// Stops the others, one by one, while the chosen node is there to take over what they leave.
    pub(super) fn stop_others(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Stop;
        for at in self.others(state) {
            self.may_go_on(STEP)?;
            if self.has_server(state, at)? {
                let chosen = look(&self.members[state.plan.at])
                    .map_err(|reason| self.wrong(STEP, state.plan.at, reason))?;
                if !chosen.primary || !chosen.ready {
                    let reason = format!(
                        "it is {} and must be in step before others stop",
                        chosen.state
                    );
                    return Err(self.wrong(STEP, state.plan.at, reason));
                }
                self.stop(state, at, STEP)?;
            }
            self.note_place(state, at, STEP)?;
        }
        Ok(())
    }

    /// Loads the dump.
    pub(super) fn load(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Load;
        let at = state.plan.at;
        let node = self.members[at].name.clone();
        let rebuild = state.plan.way == RestoreWay::Rebuild;
        if rebuild {
            self.others_are_down(state, STEP)?;
            // The machine may have started anew, or the server crashed.
            if self.stands_alone(state) != Some(Ok(())) {
                if self.has_server(state, at)? {
                    self.stop(state, at, STEP)?;
                }
                self.start_alone(state, STEP)?;
            }
        }
        let mut options = self.load.clone();
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
        // A journal of settings is of one server and one run.
        let run = Run {
            dir: RunDir::create(self.state_dir, LOAD)?,
            ..self.run.clone()
        };
        let outcome =
            load::load(&options, &run).map_err(|LoadFailure { error, .. }| RestoreError::Load {
                node: node.clone(),
                source: Box::new(error),
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
            return Err(RestoreError::NotProven { node, reason });
        }
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

    /// What a node says, with its files.
    pub(super) fn is_member(&self, at: usize, uuid: &str) -> bool {
        let view = ask(&self.members[at], &brief());
        view.primary()
            .is_some_and(|state| state.cluster_uuid == uuid && state.ready)
    }
}
