//! Takes nodes down: stops them, records their positions, and proves that they stay down.

use std::time::{Duration, Instant};

use refloat_host::{Control, ControlError, GraState, datadir};
use refloat_run::Refusal;

use super::Restore;
use super::state::{RestoreError, RestoreState, RestoreStep};
use crate::join::{is_down, runs, stopped};

/// How long a server process that no longer answers may take to end.
const DOWN_PATIENCE: Duration = Duration::from_secs(900);

impl Restore<'_> {
    /// Whether a node has a running server: it answers, its control says so, or its machine has a
    /// process for it.
    pub(super) fn has_server(&self, state: &RestoreState, at: usize) -> Result<bool, RestoreError> {
        Ok(self.works_in_its_folder(state, at)? || runs(self.control(at)?, &self.members[at])?)
    }

    pub(super) fn works_in_its_folder(
        &self,
        state: &RestoreState,
        at: usize,
    ) -> Result<bool, RestoreError> {
        let server = datadir::server_in(self.host(at), &state.plan.nodes[at].datadir)?;
        Ok(server.is_some())
    }

    /// What a stopped node has recorded in its `grastate.dat`, read from the planned data
    /// directory.
    pub(super) fn place(
        &self,
        state: &RestoreState,
        at: usize,
    ) -> Result<Option<GraState>, RestoreError> {
        let path = state.plan.nodes[at].datadir.join("grastate.dat");
        let text = self.host(at).read(&path)?;
        Ok(text.as_deref().and_then(GraState::parse))
    }

    /// Stops a node and waits until it is gone.
    pub(super) fn stop(
        &self,
        state: &RestoreState,
        at: usize,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let name = &self.members[at].name;
        self.run.events.note(format!("stopping {name}"));
        self.goes_down(state, at, step, Control::stop)
    }

    /// Kills a node that waits for a copy, and waits until it is gone. A normal stop would first
    /// wait for the copy.
    pub(super) fn end_joiner(
        &self,
        state: &RestoreState,
        at: usize,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let name = &self.members[at].name;
        self.run.events.note(format!(
            "ending {name}: it waits for a copy, and nobody is there to give one"
        ));
        self.goes_down(state, at, step, Control::end_at_once)
    }

    fn goes_down(
        &self,
        state: &RestoreState,
        at: usize,
        step: RestoreStep,
        how: impl Fn(&Control) -> Result<(), ControlError>,
    ) -> Result<(), RestoreError> {
        let (member, control) = (&self.members[at], self.control(at)?);
        let stopped = stopped(&self.run.events, &member.name, || how(control));
        let cancel = &self.run.cancel;
        let down = is_down(control, member, || cancel.is_cancelled());
        if !matches!(down, Ok(true)) {
            if cancel.is_cancelled() {
                return Err(RestoreError::Interrupted { step });
            }
            down?;
            stopped?;
            return Err(self.wrong(step, at, "it was told to stop and still answers"));
        }
        if let Err(error) = stopped {
            self.run.events.warn(error.to_string());
        }
        // A server that no longer answers may still be using its files, which the commands cannot
        // detect.
        let begun = Instant::now();
        while self.works_in_its_folder(state, at)? {
            if begun.elapsed() > DOWN_PATIENCE {
                return Err(self.wrong(
                    step,
                    at,
                    "it was told to stop, but its process is still there",
                ));
            }
            self.pause(step)?;
        }
        Ok(())
    }

    /// Records the position of a stopped node.
    pub(super) fn note_place(
        &self,
        state: &mut RestoreState,
        at: usize,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let Some(file) = self.place(state, at)? else {
            return Err(self.wrong(step, at, "its grastate.dat cannot be read"));
        };
        // Recorded earlier; the node may have discarded its position since.
        if state.nodes[at].left.is_some() {
            return Ok(());
        }
        let left = match (file.has_history(), file.seqno) {
            // The position of its tables when the restore was planned.
            (false, _) => match state.plan.nodes[at].history.clone() {
                Some((uuid, Some(seqno))) => Some((uuid, seqno)),
                _ => return Ok(()),
            },
            (true, Some(seqno)) => Some((file.uuid.clone(), seqno)),
            (true, None) => self
                .control(at)?
                .recover()?
                .filter(|(uuid, _)| *uuid == file.uuid),
        };
        let Some(left) = left else {
            return Err(self.wrong(
                step,
                at,
                "it has not recorded its position (seqno -1): it runs, or it crashed and its position has \
                to be recovered",
            ));
        };
        if let Some((uuid, _)) = &state.plan.nodes[at].history
            && *uuid != left.0
        {
            return Err(self.wrong(
                step,
                at,
                format!("it is of the history {} now, and was of {uuid}", left.0),
            ));
        }
        state.nodes[at].recovered = file.seqno.is_none();
        if file.has_history() && file.seqno.is_none() {
            self.run.events.warn(format!(
                "{} did not end cleanly: its tables are at {}:{}, and it has not written that down itself",
                self.members[at].name, left.0, left.1
            ));
        }
        state.nodes[at].left = Some(left);
        self.write(state)?;
        Ok(())
    }

    /// Proves that no other node runs. A running one would continue with the old data, or
    /// applications would mistake it for the cluster.
    pub(super) fn others_are_down(
        &self,
        state: &RestoreState,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        for at in self.others(state) {
            if self.has_server(state, at)? {
                let wrong = Refusal::new(
                    "it runs again: something has started it (a cluster manager, a supervisor, a person)",
                )
                .hint("Keep that from doing so, and stop it.");
                return Err(self.wrong(step, at, wrong));
            }
            self.is_where_it_was(state, at, step)?;
        }
        Ok(())
    }

    /// Proves that nothing was written to a node since it was stopped.
    fn is_where_it_was(
        &self,
        state: &RestoreState,
        at: usize,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let now = self.place(state, at)?;
        let Some(now) = now.filter(GraState::has_history) else {
            return Ok(());
        };
        let progress = &state.nodes[at];
        let Some((uuid, seqno)) = &progress.left else {
            return Ok(());
        };
        let written = match now.seqno {
            _ if now.uuid != *uuid => now.seqno,
            Some(now) if now != *seqno => Some(now),
            Some(_) => return Ok(()),
            None if progress.recovered => return Ok(()),
            // The file had a seqno. A server that starts resets it to -1.
            None => match self.control(at)?.recover()? {
                Some((of, now)) if of == *uuid && now <= *seqno => return Ok(()),
                Some((_, now)) => Some(now),
                None => {
                    let wrong = Refusal::new(format!(
                        "it was stopped at {seqno}, and its grastate.dat says -1 now: a server was started on its data since, and has crashed or runs where it cannot be seen"
                    ))
                    .hint(format!(
                        "Stop it, and when its tables are at {seqno} still (mariadbd --wsrep-recover) write that into the file again."
                    ));
                    return Err(self.wrong(step, at, wrong));
                }
            },
        };
        Err(self.wrong(
            step,
            at,
            format!(
                "it was stopped at {uuid}:{seqno} and is at {}:{} now: somebody has written to it meanwhile",
                now.uuid,
                written.map_or_else(|| "-1".to_owned(), |now| now.to_string())
            ),
        ))
    }
}
