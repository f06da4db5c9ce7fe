//! The node that was loaded into, while the others take copies of it: their old data are set aside before, and when it dies in between it
//! begins its history again.

use std::time::{Duration, Instant};

use super::Restore;
use super::state::{RestoreError, RestoreState, RestoreStep};
use crate::control::StartAs;
use crate::files;
use crate::grastate::GraState;
use crate::join::{Joining, Seen, look};
use crate::journal::LogMark;
use crate::node::{NodeState, Role};
use crate::restore::planned::OldData;

/// How long it may go without an answer while its process is there: one that was started as a member and finds nobody ends within a minute.
const SILENCE: Duration = Duration::from_secs(120);
/// How long it may belong to no primary component while no other node runs: what starts servers again has done so by then.
const ALONE_PATIENCE: Duration = Duration::from_secs(10);

impl Restore<'_> {
    /// Sets the old data of all others aside before any of them takes a copy. Whatever starts one of them from now on finds an empty folder.
    ///
    /// Not before the first node has begun the new history: until then each of the others is a whole copy that can begin a cluster.
    pub(super) fn set_all_aside(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        // Those that are down first: when another one is lost already, theirs are what is left.
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
            let is_there = files::exists(host, &path)?;
            if progress.aside.is_some() && is_there {
                continue;
            }
            if !is_there && (self.has_server(state, at)? || self.has_joined(state, at)?) {
                up.push(at);
                continue;
            }
            // Written down first: whoever looks for the old data finds both names.
            state.nodes[at].aside = Some(path.clone());
            self.write(state)?;
            files::set_aside(host, &state.plan.nodes[at].datadir, &path)?;
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

    /// Whether a node that is down has been in the new history.
    pub(super) fn has_joined(&self, state: &RestoreState, at: usize) -> Result<bool, RestoreError> {
        let file = self.place(state, at)?;
        Ok(file.is_some_and(|file| Some(file.uuid) == state.uuid))
    }

    /// The name by which the node that was loaded into is asked for copies, which it can give: it is in step.
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
                "it is {} in {}, and has to be in step in {uuid} to give copies",
                now.state, now.cluster_uuid
            );
            return Err(self.wrong(step, at, reason));
        }
        Ok(now.node_name)
    }

    /// What the chosen node says; one that has died is started again.
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
            // Of two of which one has died the other has no majority, and nobody is left to give it one.
            if let Ok(now) = &answer
                && !now.primary
                && now.cluster_uuid == uuid
                && begun.elapsed() > ALONE_PATIENCE
                && !self.another_runs(state)?
            {
                self.run.events.warn(format!(
                    "{} is {} and belongs to no primary component, and no other node runs: it is stopped, to begin the cluster again",
                    member.name, now.state
                ));
                self.stop(state, at, step)?;
                continue;
            }
            let why = match answer {
                // A donor is busy for a moment after its joiner has died.
                Ok(now) if now.primary && now.role == Role::Synced => return Ok(now),
                Ok(now) if begun.elapsed() > SILENCE => return Ok(now),
                Ok(_) => String::new(),
                Err(why) => why,
            };
            if begun.elapsed() > SILENCE {
                return Err(self.wrong(step, at, why));
            }
            joining.tell(&self.run.events);
            self.pause(step)?;
        }
        self.run.events.warn(format!(
            "{} is down, and the others are to take copies of it: it is started again",
            member.name
        ));
        let goes_on = self.others(state).any(|other| self.is_member(other, uuid));
        let log = LogMark::of_node_that_is_down(control, member);
        if goes_on {
            control.start(StartAs::Member, &[])?;
        } else {
            self.may_begin_again(state, uuid, step)?;
            files::allow_to_begin(self.host(at), &state.plan.nodes[at].datadir)?;
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
                    let reason = format!(
                        "it is not in step after {} s (--start-limit), and goes on by itself; the same command waits again",
                        self.start_limit.as_secs()
                    );
                    return Err(self.wrong(step, at, reason));
                }
                Seen::Coming => {}
            }
            joining.tell(&self.run.events);
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

    /// Proves that the chosen node can begin the new history again: no other one runs, and none holds more of it.
    fn may_begin_again(
        &self,
        state: &RestoreState,
        uuid: &str,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let own = match self.reached(state, at)? {
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
                        let reason = format!(
                            "it is down, and {} runs, has been in the new history and does not answer ({reason}): whether that one goes on with the cluster is not known. Give the same command again when it answers or is down",
                            self.members[other].name
                        );
                        return Err(self.wrong(step, at, reason));
                    }
                    // It has no place yet: it waits for somebody to give it a copy.
                    Err(_) => self.end_joiner(state, other, step)?,
                }
            }
            let joined = state.nodes[other].joined.is_some();
            // Of one that was seen to be back and does not say where it stands nobody knows; of another one that is half a copy.
            let newer = match self.reached(state, other)? {
                Some((of, seqno)) if of == uuid => {
                    seqno.zip(own).map_or(joined, |(its, own)| its > own)
                }
                _ => false,
            };
            if newer {
                let reason = format!(
                    "it is down, and {} may hold more of the history {uuid}: begin the cluster with that one by hand, and give the same command again",
                    self.members[other].name
                );
                return Err(self.wrong(step, at, reason));
            }
        }
        Ok(())
    }

    /// The history of a node that is down, and its last write-set, where anybody knows that.
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
        // Tables of half a copy cannot be read, and hold nothing of worth.
        let recovered = self.control(at)?.recover().ok().flatten();
        let seqno = recovered.and_then(|(of, seqno)| (of == file.uuid).then_some(seqno));
        Ok(Some((file.uuid, seqno)))
    }
}
