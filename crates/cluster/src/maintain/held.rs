//! What the others are told while a node is away, and that they need not any more.

use std::time::Instant;

use super::{MaintainError, MaintainState, Maintenance};
use crate::hold::{Holder, Way};
use crate::keep::{Keeper, SETTLED, Watched};

/// A node's absence, by those that keep what it misses.
#[derive(Debug)]
pub(super) struct Absence {
    /// Those that keep it, or that are at least looked at.
    pub watched: Vec<Watched>,
    /// Since when.
    pub since: Instant,
    /// Why the holding was given up before the node was back.
    pub given_up: Option<String>,
}

impl Absence {
    pub fn begin() -> Self {
        Self {
            watched: Vec::new(),
            since: Instant::now(),
            given_up: None,
        }
    }
}

impl Maintenance<'_> {
    pub(super) fn keeper(&self) -> Keeper<'_> {
        Keeper {
            members: self.members,
            state_dir: self.state_dir,
            run: self.run,
        }
    }

    /// Tells the others to keep write-sets.
    pub(super) fn hold(
        &self,
        state: &mut MaintainState,
        absence: &mut Absence,
    ) -> Result<(), MaintainError> {
        for holder in state.plan.holders.clone() {
            absence.watched.push(self.tell(state, &holder)?);
        }
        Ok(())
    }

    /// Has those keep write-sets again that do not any more, because that was given up or put back: a node that starts needs them until it has
    /// asked for what it misses. Whether anybody was told.
    pub(super) fn hold_for_start(&self, state: &mut MaintainState, absence: &mut Absence) -> bool {
        if self.limits.allow_sst {
            return false;
        }
        let keeper = self.keeper();
        state.holds.retain(|(_, run)| keeper.is_in_force(run));
        let mut told = false;
        for holder in state.plan.holders.clone() {
            let holds = state.holds.iter().any(|(at, _)| *at == holder.at);
            if holds || holder.way == Way::Unchanged {
                continue;
            }
            match self.tell(state, &holder) {
                Ok(begun) => {
                    told = true;
                    let known = absence.watched.iter_mut().find(|one| one.is(&holder.name));
                    match known {
                        Some(one) => one.again(),
                        None => absence.watched.push(begun),
                    }
                }
                Err(error) => self
                    .run
                    .events
                    .warn(format!("write-sets are not kept for its start: {error}")),
            }
        }
        if told {
            self.run.events.note(format!(
                "the others keep write-sets again until {} is back",
                state.plan.node
            ));
            absence.given_up = None;
            std::thread::sleep(SETTLED);
        }
        told
    }

    fn tell(&self, state: &mut MaintainState, holder: &Holder) -> Result<Watched, MaintainError> {
        let node = state.plan.node.clone();
        let written = |run| {
            state.holds.push((holder.at, run));
            self.run.dir.write(super::STATE, state)
        };
        Ok(self.keeper().tell(&node, holder, written)?)
    }

    /// Tells the others that they need not keep anything any more; those that could not be told.
    pub(super) fn release(&self, state: &mut MaintainState) -> Vec<(String, String)> {
        let failed = self.keeper().release(&mut state.holds);
        if let Err(error) = self.write(state) {
            self.run.events.warn(error.to_string());
        }
        failed
    }

    /// What is kept outlives the process that watches it. That is no harm where it has its place from the beginning; a node that is told to
    /// throw nothing away grows until its disk is full, and lets go.
    pub(super) fn release_what_grows(&self, state: &mut MaintainState) {
        let holders = state.plan.holders.iter();
        let grow: Vec<usize> = holders
            .filter(|holder| holder.way == Way::Freeze)
            .map(|holder| holder.at)
            .collect();
        let (mut growing, rest) = std::mem::take(&mut state.holds)
            .into_iter()
            .partition::<Vec<_>, _>(|(at, _)| grow.contains(at));
        if !growing.is_empty() {
            self.run.events.warn(
                "nobody watches from now on how much is kept: those that throw nothing away are told to go on as before"
                    .to_owned(),
            );
            let _ = self.keeper().release(&mut growing);
        }
        state.holds = rest;
        state.holds.append(&mut growing);
        if let Err(error) = self.write(state) {
            self.run.events.warn(error.to_string());
        }
    }
}
