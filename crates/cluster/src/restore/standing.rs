//! The chosen node as a standalone server: its start, the proof that it is standalone, and its
//! stop.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use refloat_host::{HostError, chain, place};
use refloat_run::Refusal;
use refloat_wire::{ConnectOptions, Connection, Target};

use super::Restore;
use super::state::{RestoreError, RestoreState, RestoreStep};
use crate::join::{Joining, Seen, look};
use crate::journal;
use crate::member::{Member, impatient};
use crate::observe::values;
use crate::reasons;

/// How long a server that was told to stop may keep answering.
const DOWN_PATIENCE: Duration = Duration::from_secs(900);

impl Restore<'_> {
    /// How to connect to the chosen node while it is standalone.
    pub(super) fn alone(&self, state: &RestoreState) -> ConnectOptions {
        let connect = self.members[state.plan.at].connect.clone();
        match connect.target() {
            Target::Tcp(..) => ConnectOptions {
                port: Some(state.plan.port),
                ..connect
            },
            Target::Unix(_) => ConnectOptions {
                socket: state.plan.socket.clone(),
                ..connect
            },
        }
    }

    /// Whether the chosen node runs standalone. `None`: it does not answer on the standalone
    /// address.
    pub(super) fn is_standalone(&self, state: &RestoreState) -> Option<Result<(), String>> {
        let mut conn = Connection::connect(&impatient(&self.alone(state))).ok()?;
        let asked = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_provider', 'datadir', 'socket')";
        let values = match values(&mut conn, asked) {
            Ok(values) => values,
            Err(error) => return Some(Err(chain(&error))),
        };
        // Another server may use the port. This socket is in the node's own data directory, and
        // only this node is started with it.
        let reported_socket = values.get("socket").map_or("", String::as_str);
        if state
            .plan
            .socket
            .as_ref()
            .is_some_and(|socket| Path::new(reported_socket) != socket)
        {
            return None;
        }
        let is = |name: &str, wanted: &str| {
            values
                .get(name)
                .is_none_or(|value| value.eq_ignore_ascii_case(wanted))
        };
        if !is("wsrep_on", "OFF") || !is("wsrep_provider", "none") {
            return Some(Err("it has not taken the options that keep it out of the cluster (wsrep_on, wsrep_provider)".to_owned()));
        }
        let here = &state.plan.nodes[state.plan.at].datadir;
        let datadir = values.get("datadir").map_or("", String::as_str);
        let trimmed = |path: &str| path.trim_end_matches('/').to_owned();
        // The path may contain symbolic links. Its last component is enough to tell servers apart.
        let same = trimmed(datadir).rsplit('/').next().map(str::to_owned)
            == trimmed(&here.to_string_lossy())
                .rsplit('/')
                .next()
                .map(str::to_owned);
        Some(if same {
            Ok(())
        } else {
            Err(format!(
                "another server answers there, with its data in {datadir}"
            ))
        })
    }

    /// Records that a node no longer has a position in the old history.
    pub(super) fn give_place_up(
        &self,
        state: &RestoreState,
        at: usize,
        safe_to_bootstrap: bool,
    ) -> Result<(), HostError> {
        let (host, datadir) = (self.host(at), &state.plan.nodes[at].datadir);
        let run = self.run.dir.id().as_str();
        place::give_place_up(host, datadir, run, reasons::LOADED, safe_to_bootstrap)
    }

    /// Stops the chosen node, discards its position, and starts it standalone.
    pub(super) fn stand_alone(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Standalone;
        let at = state.plan.at;
        self.others_are_down(state, STEP)?;
        if self.is_standalone(state) == Some(Ok(())) {
            return Ok(());
        }
        if look(&self.members[at]).is_ok()
            && Connection::connect(&impatient(&self.alone(state))).is_ok()
        {
            let wrong = Refusal::new(format!(
                "another server answers where it would run standalone, at port {}",
                state.plan.port
            ))
            .hint("Stop that one, or plan again (--restart).");
            return Err(self.wrong(STEP, at, wrong));
        }
        if state.before.is_empty() {
            state.before = values_of_options(state, &self.members[at]);
            self.write(state)?;
        }
        let begun = Instant::now();
        loop {
            if self.has_server(state, at)? {
                if state.nodes[at].left.is_none() {
                    self.is_the_last(state, STEP)?;
                    state.was_last = true;
                    self.write(state)?;
                } else if self.comes_up_alone(state, STEP)? {
                    return Ok(());
                }
                self.stop(state, at, STEP)?;
            }
            self.note_place(state, at, STEP)?;
            self.holds_what_is_newest(state)?;
            match self.give_place_up(state, at, false) {
                // A killed process had requested a start or a recovery that begins only now.
                Err(HostError::ServerRuns { .. }) if begun.elapsed() < self.start_limit => {
                    self.pause(STEP)?;
                }
                done => break done?,
            }
        }
        self.start_alone(state, STEP)
    }

    /// Waits for a server that an earlier process started standalone, and returns whether it is
    /// standalone. MariaDB 10.11 has been seen to hang forever when it was told to stop while it
    /// was starting.
    fn comes_up_alone(
        &self,
        state: &RestoreState,
        step: RestoreStep,
    ) -> Result<bool, RestoreError> {
        let at = state.plan.at;
        let member = &self.members[at];
        let is_a_node = || look(member).is_ok();
        if is_a_node() {
            return Ok(false);
        }
        self.run.events.note(format!(
            "waiting for {}, which is starting as a standalone server",
            member.name
        ));
        let begun = Instant::now();
        while begun.elapsed() <= self.start_limit && !is_a_node() {
            match self.is_standalone(state) {
                Some(stands) => return Ok(stands.is_ok()),
                None if !self.works_in_its_folder(state, at)? => break,
                None => self.pause(step)?,
            }
        }
        Ok(false)
    }

    fn holds_what_is_newest(&self, state: &RestoreState) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let Some((uuid, seqno)) = &state.nodes[at].left else {
            return Ok(());
        };
        for other in self.others(state) {
            if let Some((of, newer)) = &state.nodes[other].left
                && of == uuid
                && newer > seqno
            {
                let name = &self.members[other].name;
                let wrong = Refusal::new(format!(
                    "it is at {seqno}, and {name} is at {newer}: it is not the most advanced node"
                ))
                .hint(format!(
                    "Nothing was changed; start from the other one (--restart --node {name})."
                ));
                return Err(self.wrong(RestoreStep::Standalone, at, wrong));
            }
        }
        Ok(())
    }

    pub(super) fn start_alone(
        &self,
        state: &RestoreState,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let control = self.control(at)?;
        let member = &self.members[at];
        let log = journal::of_node_that_is_down(control, member);
        self.run.events.note(format!(
            "starting {} as a standalone server, on port {}",
            member.name, state.plan.port
        ));
        control.start_standalone(&state.plan.options)?;
        let begun = Instant::now();
        let mut joining = Joining::new(member, control, log.as_ref());
        loop {
            match self.is_standalone(state) {
                Some(Ok(())) => return Ok(()),
                Some(Err(reason)) => {
                    let _ = control.stop();
                    return Err(self.wrong(step, at, format!("{reason}; it was stopped again")));
                }
                None => {}
            }
            let gone = match joining.look() {
                Seen::Ended => true,
                Seen::There(_) => {
                    let _ = control.stop();
                    return Err(self.wrong(step, at, "it has started as a node of a cluster, without the options for a standalone server; it was stopped again"));
                }
                // It joins no cluster, so whatever its log says about joining does not matter.
                Seen::Coming | Seen::Failed(_) => begun.elapsed() > self.start_limit,
            };
            if gone {
                let reason = format!(
                    "it does not answer at port {}{}",
                    state.plan.port,
                    joining.last_words()
                );
                return Err(self.wrong(step, at, reason));
            }
            self.pause(step)?;
        }
    }

    /// Stops the chosen node while it is standalone.
    pub(super) fn stop_alone(
        &self,
        state: &RestoreState,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let at = state.plan.at;
        self.stop(state, at, step)?;
        // `stop` watches the node's usual address, but the standalone server answers on another
        // one.
        let begun = Instant::now();
        while self.is_standalone(state).is_some() {
            if begun.elapsed() > DOWN_PATIENCE {
                return Err(self.wrong(step, at, "it was told to stop and still answers"));
            }
            self.pause(step)?;
        }
        Ok(())
    }
}

/// The values that the standalone options change, for comparison once the node is back.
pub(super) fn values_of_options(state: &RestoreState, member: &Member) -> BTreeMap<String, String> {
    let names: Vec<String> = state
        .plan
        .options
        .iter()
        .map(|option| match option.name.as_str() {
            "skip-log-bin" => "'log_bin'".to_owned(),
            "skip-slave-start" => "'skip_slave_start'".to_owned(),
            name => format!("'{}'", name.replace('-', "_")),
        })
        .collect();
    let asked = format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})",
        names.join(", ")
    );
    let found = Connection::connect(&impatient(&member.connect))
        .and_then(|mut conn| values(&mut conn, &asked));
    found.unwrap_or_default().into_iter().collect()
}
