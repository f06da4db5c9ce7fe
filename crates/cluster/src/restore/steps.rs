//! The steps up to a cluster of one: the others stop, the chosen node stands alone, is loaded, and begins the cluster anew.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use refloat_logical::load::{self, GaleraMode, GaleraOptions, LoadFailure};
use refloat_run::settings::Durability;
use refloat_run::{Run, RunDir};
use refloat_wire::{ConnectOptions, Connection, Target};

use super::state::{Loaded, RestoreError, RestoreState, RestoreStep, RestoreWay};
use super::{Restore, files};
use crate::control::StartAs;
use crate::error::chain;
use crate::host::Host;
use crate::join::{Joining, Seen, brief, look};
use crate::journal::LogMark;
use crate::observe::{Member, ask, impatient, values};

/// Name of the runs that load.
const LOAD: &str = "load";
/// How often something that starts is looked at.
const POLL: Duration = Duration::from_millis(200);
/// How long a server that was stopped may go on answering.
const DOWN_PATIENCE: Duration = Duration::from_secs(900);

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

    /// The chosen node as it is reached while it stands alone.
    fn alone(&self, state: &RestoreState) -> ConnectOptions {
        let own = self.members[state.plan.at].connect.clone();
        match own.target() {
            Target::Tcp(..) => ConnectOptions {
                port: Some(state.plan.port),
                ..own
            },
            Target::Unix(_) => ConnectOptions {
                socket: state.plan.socket.clone(),
                ..own
            },
        }
    }

    /// Whether the chosen node stands alone. `None`: it does not answer there.
    pub(super) fn stands_alone(&self, state: &RestoreState) -> Option<Result<(), String>> {
        let mut conn = Connection::connect(&impatient(&self.alone(state))).ok()?;
        let asked = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_provider', 'datadir', 'socket')";
        let values = match values(&mut conn, asked) {
            Ok(values) => values,
            Err(error) => return Some(Err(chain(&error))),
        };
        // Another server may have the port. This socket is in the node's own data directory, and none but this node is started with it.
        let said = values.get("socket").map_or("", String::as_str);
        if state
            .plan
            .socket
            .as_ref()
            .is_some_and(|socket| Path::new(said) != socket)
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
        let said = values.get("datadir").map_or("", String::as_str);
        let trimmed = |path: &str| path.trim_end_matches('/').to_owned();
        // The path may lead over symbolic links: their last part is what tells another server.
        let same = trimmed(said).rsplit('/').next().map(str::to_owned)
            == trimmed(&here.to_string_lossy())
                .rsplit('/')
                .next()
                .map(str::to_owned);
        Some(if same {
            Ok(())
        } else {
            Err(format!(
                "another server answers there, with its data in {said}"
            ))
        })
    }

    /// Stops the chosen node, has it give its place up, and starts it as a server of its own.
    pub(super) fn stand_alone(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Standalone;
        let at = state.plan.at;
        self.others_are_down(state, STEP)?;
        if self.stands_alone(state) == Some(Ok(())) {
            return Ok(());
        }
        if look(&self.members[at]).is_ok()
            && Connection::connect(&impatient(&self.alone(state))).is_ok()
        {
            let reason = format!(
                "another server answers where it would stand alone, at port {}: end that one, or plan anew (--restart)",
                state.plan.port
            );
            return Err(self.wrong(STEP, at, reason));
        }
        if state.before.is_empty() {
            state.before = values_of_options(state, &self.members[at]);
            self.write(state)?;
        }
        if self.has_server(state, at)? {
            self.stop(state, at, STEP)?;
        }
        self.note_place(state, at, STEP)?;
        self.holds_what_is_newest(state)?;
        files::give_place_up(
            self.host(at),
            &state.plan.nodes[at].datadir,
            self.run.dir.id().as_str(),
            false,
        )?;
        self.start_alone(state, STEP)
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
                return Err(self.wrong(
                    RestoreStep::Standalone,
                    at,
                    format!(
                        "it is at {seqno}, and {} is at {newer}: it does not hold what is newest. Nothing was changed; begin with the other one (--restart --node {})",
                        self.members[other].name, self.members[other].name
                    ),
                ));
            }
        }
        Ok(())
    }

    fn start_alone(&self, state: &RestoreState, step: RestoreStep) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let control = self.control(at)?;
        let member = &self.members[at];
        let log = LogMark::of_node_that_is_down(control, member.host.as_ref());
        self.run.events.note(format!(
            "starting {} as a server of its own, at port {}",
            member.name, state.plan.port
        ));
        control.start_standalone(&state.plan.options)?;
        let begun = Instant::now();
        let mut joining = Joining::new(member, control, log.as_ref());
        loop {
            match self.stands_alone(state) {
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
                    return Err(self.wrong(step, at, "it has started as a node of a cluster, without the options for standing alone; it was stopped again"));
                }
                // It joins nobody, so nothing that is said of joining counts.
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
            self.may_go_on(step)?;
            std::thread::sleep(POLL);
        }
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

    /// Begins the cluster anew with the chosen node: in a history of its own, as it has none.
    pub(super) fn bootstrap(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        const STEP: RestoreStep = RestoreStep::Bootstrap;
        let at = state.plan.at;
        let (member, control) = (&self.members[at], self.control(at)?);
        let is_member = look(member).is_ok_and(|now| now.primary);
        if !is_member {
            self.others_are_down(state, STEP)?;
        }
        let alone = self.stands_alone(state).is_some();
        // A process that neither stands alone nor is a member yet may be on its way to be one, or still on its way out.
        let starting = !is_member && !alone && self.has_server(state, at)?;
        let log = LogMark::of_node_that_is_down(control, member.host.as_ref());
        let start_first = || -> Result<(), RestoreError> {
            control.end_standalone()?;
            files::give_place_up(
                self.host(at),
                &state.plan.nodes[at].datadir,
                self.run.dir.id().as_str(),
                true,
            )?;
            self.others_are_down(state, STEP)?;
            self.run
                .events
                .note(format!("{} begins the cluster", member.name));
            Ok(control.start(StartAs::First, &[])?)
        };
        let begun = Instant::now();
        let mut started = false;
        if !is_member && !starting {
            if alone {
                self.stop_alone(state, STEP)?;
            }
            start_first()?;
            started = true;
        }
        let mut joining = Joining::new(member, control, log.as_ref());
        let now = loop {
            match joining.look() {
                Seen::There(now) => break now,
                // It was told to stop before this process came, and has done so.
                Seen::Ended if !started => {
                    start_first()?;
                    started = true;
                    joining = Joining::new(member, control, log.as_ref());
                }
                Seen::Ended => {
                    let reason = format!(
                        "it has ended while it began the cluster{}",
                        joining.last_words()
                    );
                    return Err(self.wrong(STEP, at, reason));
                }
                Seen::Failed(line) => {
                    let reason = format!("it has failed while it began the cluster: {line}");
                    return Err(self.wrong(STEP, at, reason));
                }
                // It has crashed while it stood alone, and systemd has started it again so.
                Seen::Coming if !started && self.stands_alone(state).is_some() => {
                    self.stop_alone(state, STEP)?;
                    start_first()?;
                    started = true;
                    joining = Joining::new(member, control, log.as_ref());
                }
                Seen::Coming if begun.elapsed() > self.start_limit => {
                    let reason = format!(
                        "it is not in step after {} s (--start-limit), and goes on by itself; the same command waits again{}",
                        self.start_limit.as_secs(),
                        joining.last_words()
                    );
                    return Err(self.wrong(STEP, at, reason));
                }
                Seen::Coming => {}
            }
            joining.tell(&self.run.events);
            self.may_go_on(STEP)?;
            std::thread::sleep(POLL);
        };
        let old = state.nodes.iter().filter_map(|node| node.left.as_ref());
        if old.clone().any(|(uuid, _)| *uuid == now.cluster_uuid) {
            return Err(self.wrong(STEP, at, format!("it goes on with the old history {}, in which others would join by IST and differ: stop it, and let nobody join", now.cluster_uuid)));
        }
        if !now.replicates {
            return Err(self.wrong(STEP, at, "wsrep_on is OFF"));
        }
        self.settings_are_back(state, member)?;
        state.uuid = Some(now.cluster_uuid);
        self.write(state)?;
        self.set_all_aside(state)
    }

    /// Stops the chosen node where it stands alone.
    pub(super) fn stop_alone(
        &self,
        state: &RestoreState,
        step: RestoreStep,
    ) -> Result<(), RestoreError> {
        let at = state.plan.at;
        self.stop(state, at, step)?;
        // It answers at another address than the one that is looked at by that.
        let begun = Instant::now();
        while self.stands_alone(state).is_some() {
            if begun.elapsed() > DOWN_PATIENCE {
                return Err(self.wrong(step, at, "it was told to stop and still answers"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Whether everything that the node was started with while it stood alone is as before.
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

    /// What a node says, with its files.
    pub(super) fn is_member(&self, at: usize, uuid: &str) -> bool {
        let view = ask(&self.members[at], &brief());
        view.primary()
            .is_some_and(|state| state.cluster_uuid == uuid && state.ready)
    }
}

/// Values that the options for standing alone change, to be compared when they are back.
fn values_of_options(state: &RestoreState, member: &Member) -> BTreeMap<String, String> {
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
