//! What the other nodes are told while a node is away, and how they are released.

use std::time::Instant;

use super::{MaintainError, MaintainState, Maintenance};
use crate::hold::{Holder, Way};
use crate::keep::{Keeper, SETTLED, Watched};

/// The absence of a node, from the view of the nodes that keep what it misses.
#[derive(Debug)]
pub(super) struct Absence {
    /// The nodes that keep write-sets, or are at least watched.
    pub watched: Vec<Watched>,
    /// When the node went away.
    pub since: Instant,
    /// When free memory and disk space on their machines were last checked.
    pub looked: Option<Instant>,
    /// Why the hold was given up before the node was back.
    pub given_up: Option<String>,
}

impl Absence {
    pub fn begin() -> Self {
        Self {
            watched: Vec::new(),
            since: Instant::now(),
            looked: None,
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

    /// Tells the other nodes to keep write-sets.
    pub(super) fn hold(
        &self,
        state: &mut MaintainState,
        absence: &mut Absence,
    ) -> Result<(), MaintainError> {
        for holder in state.plan.holders.clone() {
            absence.watched.push(self.begin_to_keep(state, &holder)?);
        }
        Ok(())
    }

    /// Renews holds that were given up or put back: a starting node needs the write-sets until it
    /// has requested them. Returns whether any node was told.
    pub(super) fn hold_for_start(&self, state: &mut MaintainState, absence: &mut Absence) -> bool {
        if self.limits.allow_sst {
            return false;
        }
        let keeper = self.keeper();
        state.holds.retain(|(_, run)| keeper.is_in_force(run));
        let mut any_begun = false;
        for holder in state.plan.holders.clone() {
            let holds = state.holds.iter().any(|(at, _)| *at == holder.at);
            if holds || holder.way == Way::Unchanged {
                continue;
            }
            if let Some(reason) = self.lacks_room(&holder) {
                self.run
                    .events
                    .warn(format!("write-sets are not kept for its start: {reason}"));
                continue;
            }
            match self.begin_to_keep(state, &holder) {
                Ok(begun) => {
                    any_begun = true;
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
        if any_begun {
            self.run.events.note(format!(
                "the others keep write-sets again until {} is back",
                state.plan.node
            ));
            absence.given_up = None;
            std::thread::sleep(SETTLED);
        }
        any_begun
    }

    fn begin_to_keep(
        &self,
        state: &mut MaintainState,
        holder: &Holder,
    ) -> Result<Watched, MaintainError> {
        let node = state.plan.node.clone();
        let written = |run| {
            state.holds.push((holder.at, run));
            self.run.dir.write(super::STATE, state)
        };
        Ok(self.keeper().begin_to_keep(&node, holder, written)?)
    }

    /// Tells the other nodes to stop keeping write-sets. Returns those that could not be told, and
    /// why.
    pub(super) fn release(&self, state: &mut MaintainState) -> Vec<(String, String)> {
        let failed = self.keeper().release(&mut state.holds);
        if let Err(error) = self.write(state) {
            self.run.events.warn(error.to_string());
        }
        failed
    }

    /// Tells some of the other nodes, by index, to stop keeping write-sets.
    fn release_at(&self, state: &mut MaintainState, places: &[usize]) {
        let (mut some, rest) = std::mem::take(&mut state.holds)
            .into_iter()
            .partition::<Vec<_>, _>(|(at, _)| places.contains(at));
        // `release` reports those that could not be told.
        let _ = self.keeper().release(&mut some);
        state.holds = rest;
        state.holds.append(&mut some);
        if let Err(error) = self.write(state) {
            self.run.events.warn(error.to_string());
        }
    }

    /// Releases the nodes whose hold grows, because a hold outlives the process that watches it. A
    /// hold of fixed size does no harm, but a node that discards nothing would grow until its disk
    /// is full.
    pub(super) fn release_what_grows(&self, state: &mut MaintainState) {
        let growing = holding(state);
        let growing = growing.filter(|holder| holder.way == Way::Freeze);
        let growing: Vec<usize> = growing.map(|holder| holder.at).collect();
        if growing.is_empty() {
            return;
        }
        self.run.events.warn(
            "from now on nobody watches how much is kept: nodes that discard no write-sets are \
            told to discard them as usual",
        );
        self.release_at(state, &growing);
    }

    /// Releases the nodes whose machines run short of space. What others need on a machine may have
    /// changed since the plan was made.
    pub(super) fn release_what_has_no_room(&self, state: &mut MaintainState) {
        let mut short = Vec::new();
        for holder in holding(state) {
            if let Some(reason) = self.lacks_room(holder) {
                self.run.events.warn(format!(
                    "{reason}: it keeps no more for {}",
                    state.plan.node
                ));
                short.push(holder.at);
            }
        }
        if !short.is_empty() {
            self.release_at(state, &short);
        }
    }

    /// Why a node should not keep more, as far as its machine is visible.
    fn lacks_room(&self, holder: &Holder) -> Option<String> {
        let member = self.member(holder.at);
        let host = member.host.as_ref()?;
        let (what, left) = match holder.way {
            Way::Unchanged => return None,
            Way::Memory => ("of memory", member.memory_available(None)?),
            Way::Freeze => ("on its disk", host.disk_free(&member.folder())?),
        };
        (left < self.limits.keep_free).then(|| {
            format!(
                "the machine of {} has {left} bytes left {what}, and {} have to stay (--keep-free)",
                holder.name, self.limits.keep_free
            )
        })
    }
}

/// The nodes that were told to keep write-sets.
fn holding(state: &MaintainState) -> impl Iterator<Item = &Holder> {
    let holders = state.plan.holders.iter();
    holders.filter(|holder| state.holds.iter().any(|(at, _)| *at == holder.at))
}
