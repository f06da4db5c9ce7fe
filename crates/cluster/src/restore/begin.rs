//! Bootstraps the cluster again from the chosen node.

use std::time::{Duration, Instant};

use refloat_host::{GraState, HostError, StartAs};
use refloat_run::Refusal;

use super::Restore;
use super::standing::values_of_options;
use super::state::{RestoreError, RestoreState, RestoreStep};
use crate::join::{Joining, Seen, late, look};
use crate::journal;
use crate::member::Member;

/// How long a node's `grastate.dat` may lack the history that the node reports.
const FILE_PATIENCE: Duration = Duration::from_secs(20);

impl Restore<'_> {
    /// Bootstraps the cluster from the chosen node. The history is new because the node has none.
    pub(super) fn bootstrap(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Bootstrap;
        let at = state.plan.at;
        let (member, control) = (&self.members[at], self.control(at)?);
        let is_member = look(member).is_ok_and(|now| now.primary);
        if !is_member {
            self.others_are_down(state, STEP)?;
        }
        let stands = self.is_standalone(state);
        let alone = stands.is_some();
        // A process that is neither standalone nor a member may still be starting or shutting down.
        let starting = !is_member && !alone && self.has_server(state, at)?;
        if !is_member && stands == Some(Ok(())) {
            self.forget_marks(state, true)?;
        }
        let log = journal::of_node_that_is_down(control, member);
        let begun = Instant::now();
        // `false`: a killed process had requested a start, and it happens now.
        let start_first = || -> Result<bool, RestoreError> {
            control.end_standalone()?;
            // A start that a killed process requested may still be pending. Its server writes the
            // new history into this file, so a file that is already right is not written again.
            let may_begin =
                |file: GraState| !file.has_history() && file.safe_to_bootstrap == Some(true);
            if !self.place(state, at)?.is_some_and(may_begin) {
                match self.give_place_up(state, at, true) {
                    Err(HostError::ServerRuns { .. }) if begun.elapsed() < self.start_limit => {
                        return Ok(false);
                    }
                    done => done?,
                }
            }
            self.others_are_down(state, STEP)?;
            self.run
                .events
                .note(format!("{} bootstraps the cluster", member.name));
            control.start(StartAs::First, &[])?;
            Ok(true)
        };
        let mut started = false;
        if !is_member && !starting {
            if alone {
                self.stop_alone(state, STEP)?;
            }
            started = start_first()?;
        }
        let mut joining = Joining::new(member, control, log.as_ref());
        let now = loop {
            match joining.look() {
                Seen::There(now) => break now,
                // It had been told to stop before this process looked, and has now stopped.
                Seen::Ended if !started => {
                    started = start_first()?;
                    joining = Joining::new(member, control, log.as_ref());
                }
                Seen::Ended => {
                    let reason = format!(
                        "it has ended while it bootstrapped the cluster{}",
                        joining.last_words()
                    );
                    return Err(self.wrong(STEP, at, reason));
                }
                Seen::Failed(line) => {
                    let reason = format!("it has failed while it bootstrapped the cluster: {line}");
                    return Err(self.wrong(STEP, at, reason));
                }
                // It crashed while standalone, and systemd has restarted it that way.
                Seen::Coming if !started && self.is_standalone(state).is_some() => {
                    self.stop_alone(state, STEP)?;
                    started = start_first()?;
                    joining = Joining::new(member, control, log.as_ref());
                }
                Seen::Coming if begun.elapsed() > self.start_limit => {
                    let wrong = late(self.start_limit, &joining.last_words());
                    return Err(self.wrong(STEP, at, wrong));
                }
                Seen::Coming => {}
            }
            joining.report(&self.run.events);
            self.pause(STEP)?;
        };
        let old = state.nodes.iter().filter_map(|node| node.left.as_ref());
        if old.clone().any(|(uuid, _)| *uuid == now.cluster_uuid) {
            let wrong = Refusal::new(format!(
                "it continues the old history {}, in which others would join by IST and differ",
                now.cluster_uuid
            ))
            .hint(format!("Stop {}, and let nobody join.", member.name));
            return Err(self.wrong(STEP, at, wrong));
        }
        if !now.replicates {
            return Err(self.wrong(STEP, at, "wsrep_on is OFF"));
        }
        self.is_one_node(state, &now.cluster_uuid)?;
        self.settings_are_back(state, member)?;
        state.uuid = Some(now.cluster_uuid);
        self.write(state)?;
        self.set_all_aside(state)
    }

    /// Proves that the chosen node's address and its files belong to the same node. Another server
    /// that has taken over the address would be mistaken for the cluster.
    fn is_one_node(&self, state: &RestoreState, uuid: &str) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let begun = Instant::now();
        loop {
            let file = self.place(state, at)?;
            let has = file.map_or_else(|| "none".to_owned(), |file| file.uuid);
            if has == uuid {
                return Ok(());
            }
            // The provider removes the history from the file while a DDL statement runs.
            if begun.elapsed() > FILE_PATIENCE {
                let reason = format!(
                    "the server that answers at its address is of the history {uuid}, and the files in {} are of {has}: they are not of one node",
                    state.plan.nodes[at].datadir.display()
                );
                return Err(self.wrong(RestoreStep::Bootstrap, at, reason));
            }
            self.pause(RestoreStep::Bootstrap)?;
        }
    }

    /// Checks that every setting that the standalone start changed has its old value again.
    fn settings_are_back(&self, state: &RestoreState, member: &Member) -> Result<(), RestoreError> {
        let now = values_of_options(state, member);
        let changed: Vec<String> = state
            .before
            .iter()
            .filter(|(name, old)| now.get(*name).is_some_and(|now| now != *old))
            .map(|(name, old)| format!("{name} is {} and was {old}", now[name]))
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        Err(self.wrong(
            RestoreStep::Bootstrap,
            state.plan.at,
            format!("settings are not as before: {}", changed.join(", ")),
        ))
    }
}
