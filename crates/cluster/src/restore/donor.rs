//! Keeps the loaded node able to give copies to the others.
//!
//! The other nodes' old data is set aside first. If the loaded node dies in between, it bootstraps
//! its history again.

use std::time::{Duration, Instant};

use refloat_host::{GraState, StartAs, datadir, place};
use refloat_run::Refusal;

use super::Restore;
use super::state::{RestoreError, RestoreState, RestoreStep};
use crate::join::{Joining, Seen, late, look};
use crate::journal;
use crate::node::{NodeState, Role};
use crate::restore::planned::OldData;

/// How long the node may be silent while its process exists. One that was started as a member and
/// finds no other stops within a minute.
const SILENCE: Duration = Duration::from_secs(120);
/// How long it may be outside a primary component while no other node runs. A service manager has
/// restarted another node by then.
const ALONE_PATIENCE: Duration = Duration::from_secs(10);

impl Restore<'_> {
    /// Sets the old data of all other nodes aside before any of them takes a copy. Whatever starts
    /// one of them later finds an empty directory.
    ///
    /// This must wait until the first node has bootstrapped the new history: until then, each of
    /// the others is a complete copy that can bootstrap a cluster.
    pub(super) fn set_all_aside(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        // Nodes that are down come first: if another node's data is already lost, theirs is what is
        // left.
        let others: Vec<usize> = self.others(state).collect();
        let mut up = Vec::new();
        for at in others {
            let OldData::Aside { path } = state.plan.nodes[at].old.clone() else {
                continue;
            };
            let progress = &state.nodes[at];
            if progress.joined.is_some() || progress.overtaken {
                continue;
            }
            let host = self.host(at);
            let is_there = host.exists(&path)?;
            if progress.aside.is_some() && is_there {
                continue;
            }
            if !is_there && (self.has_server(state, at)? || self.has_joined(state, at)?) {
                up.push(at);
                continue;
            }
            // Record it first: a search for the old data then has both names.
            state.nodes[at].aside = Some(path.clone());
            self.write(state)?;
            datadir::set_aside(host, &state.plan.nodes[at].datadir, &path)?;
            self.run.events.note(format!(
                "the old data of {} are in {}",
                self.members[at].name,
                path.display()
            ));
        }
        for at in up {
            state.nodes[at].aside = None;
            state.nodes[at].overtaken = true;
            self.write(state)?;
            self.run.events.warn(format!(
                "something has started {} before its old data were set aside: the full copy that it takes wipes them",
                self.members[at].name
            ));
        }
        Ok(())
    }

    /// Whether a stopped node has joined the new history.
    pub(super) fn has_joined(&self, state: &RestoreState, at: usize) -> Result<bool, RestoreError> {
        let file = self.place(state, at)?;
        Ok(file.is_some_and(|file| Some(file.uuid) == state.uuid))
    }

    /// The `wsrep_node_name` of the loaded node, to request it as donor. The node is synced, so it
    /// can give copies.
    pub(super) fn donor(
        &self,
        state: &RestoreState,
        uuid: &str,
        step: RestoreStep,
    ) -> Result<String, RestoreError> {
        let at = state.plan.at;
        let now = self.chosen(state, uuid, step)?;
        if now.cluster_uuid != uuid || now.role != Role::Synced {
            let reason = format!(
                "it is {} in {}, and has to be in sync in {uuid} to give copies",
                now.state, now.cluster_uuid
            );
            return Err(self.wrong(step, at, reason));
        }
        Ok(now.node_name)
    }

    /// The state of the chosen node. If the node has died, it is started again.
    fn chosen(
        &self,
        state: &RestoreState,
        uuid: &str,
        step: RestoreStep,
    ) -> Result<NodeState, RestoreError> {
        let at = state.plan.at;
        let (member, control) = (&self.members[at], self.control(at)?);
        let begun = Instant::now();
        let mut joining = Joining::new(member, control, None);
        while self.has_server(state, at)? {
            let answer = look(member);
            // When one of two nodes dies, the other has no majority, and no node is left that could
            // restore it.
            if let Ok(now) = &answer
                && !now.primary
                && now.cluster_uuid == uuid
                && begun.elapsed() > ALONE_PATIENCE
                && !self.another_runs(state)?
            {
                self.run.events.warn(format!(
                    "{} is {} and belongs to no primary component, and no other node runs: it is stopped, to bootstrap the cluster again",
                    member.name, now.state
                ));
                self.stop(state, at, step)?;
                continue;
            }
            let why = match answer {
                // A donor stays busy for a moment after its joiner died.
                Ok(now) if now.primary && now.role == Role::Synced => return Ok(now),
                Ok(now) if begun.elapsed() > SILENCE => return Ok(now),
                Ok(_) => String::new(),
                Err(why) => why,
            };
            if begun.elapsed() > SILENCE {
                return Err(self.wrong(step, at, why));
            }
            joining.report(&self.run.events);
            self.pause(step)?;
        }
        self.run.events.warn(format!(
            "{} is down, and the others are to take copies of it: it is started again",
            member.name
        ));
        let goes_on = self.others(state).any(|other| self.is_member(other, uuid));
        let log = journal::of_node_that_is_down(control, member);
        if goes_on {
            control.start(StartAs::Member, &[])?;
        } else {
            self.may_begin_again(state, uuid, step)?;
            place::allow_to_begin(self.host(at), &state.plan.nodes[at].datadir)?;
            control.start(StartAs::First, &[])?;
        }
        let begun = Instant::now();
        let mut joining = Joining::new(member, control, log.as_ref());
        loop {
            match joining.look() {
                Seen::There(now) => return Ok(*now),
                Seen::Ended => {
                    let reason = format!(
                        "it has ended while it started again{}",
                        joining.last_words()
                    );
                    return Err(self.wrong(step, at, reason));
                }
                Seen::Failed(line) => {
                    let reason = format!("it has failed while it started again: {line}");
                    return Err(self.wrong(step, at, reason));
                }
                Seen::Coming if begun.elapsed() > self.start_limit => {
                    let wrong = late(self.start_limit, &joining.last_words());
                    return Err(self.wrong(step, at, wrong));
                }
                Seen::Coming => {}
            }
            joining.report(&self.run.events);
            self.pause(step)?;
        }
    }

    fn another_runs(&self, state: &RestoreState) -> Result<bool, RestoreError> {
        for other in self.others(state) {
            if self.has_server(state, other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Proves that the chosen node can bootstrap the new history again: no other node runs, and
    /// none holds more of that history. Stops the others if they run.
    fn may_begin_again(
        &self,
        state: &RestoreState,
        uuid: &str,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let position = match self.reached(state, at)? {
            Some((of, seqno)) if of == uuid => seqno,
            place => {
                let of = place.map_or_else(|| "none".to_owned(), |(of, _)| of);
                let reason = format!(
                    "it is down, and is of the history {of}, and not of {uuid}, which the cluster has begun"
                );
                return Err(self.wrong(step, at, reason));
            }
        };
        for other in self.others(state) {
            if self.has_server(state, other)? {
                match look(&self.members[other]) {
                    Ok(_) => self.stop(state, other, step)?,
                    Err(reason) if self.has_joined(state, other)? => {
                        let wrong = Refusal::new(format!(
                            "it is down, and {} runs, has been in the new history and does not answer ({reason}): whether that one continues the cluster is not known",
                            self.members[other].name
                        ))
                        .hint("Wait until that one answers or is down.");
                        return Err(self.wrong(step, at, wrong));
                    }
                    // It has no position yet and waits for a donor.
                    Err(_) => self.end_joiner(state, other, step)?,
                }
            }
            let joined = state.nodes[other].joined.is_some();
            // A node that rejoined but has no known position may be ahead. If it never rejoined, an
            // unknown position means half a copy.
            let newer = match self.reached(state, other)? {
                Some((of, seqno)) if of == uuid => seqno
                    .zip(position)
                    .map_or(joined, |(its, position)| its > position),
                _ => false,
            };
            if newer {
                let name = &self.members[other].name;
                let wrong = Refusal::new(format!(
                    "it is down, and {name} may hold more of the history {uuid}"
                ))
                .hint(format!("Begin the cluster with {name} by hand."));
                return Err(self.wrong(step, at, wrong));
            }
        }
        Ok(())
    }

    /// The history of a stopped node, and its last write-set if known.
    fn reached(
        &self,
        state: &RestoreState,
        at: usize,
    ) -> Result<Option<(String, Option<u64>)>, RestoreError> {
        let Some(file) = self.place(state, at)?.filter(GraState::has_history) else {
            return Ok(None);
        };
        if file.seqno.is_some() {
            return Ok(Some((file.uuid, file.seqno)));
        }
        // The tables of half a copy cannot be read and are worthless.
        let recovered = self.control(at)?.recover().ok().flatten();
        let seqno = recovered.and_then(|(of, seqno)| (of == file.uuid).then_some(seqno));
        Ok(Some((file.uuid, seqno)))
    }
}
