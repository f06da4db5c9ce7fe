//! Settings of the other nodes of a cluster, changed while rows are replicated to them.
//!
//! A node that applies what a load writes does the same work as the target node, with one thread.
//! If its redo log is too small, InnoDB checks before each row whether the log has room: a third of
//! the applier's time (10.11.19, 32 MiB, two million rows). The load ends when the slowest node has
//! applied everything. So what is changed on the target node is changed on the other nodes too,
//! each with a journal of its own.

use std::path::Path;

use refloat_run::settings::{
    AppliedSettings, Durability, Facts, SettingsError, SettingsPlan, left_by_dead_runs,
};
use refloat_run::{Cancel, Owner, Run, RunDir};
use refloat_wire::{ConnectOptions, Connection};

use crate::options::LoadOptions;
use crate::preflight::{Preflight, is_near};
use crate::{LoadError, connect_to, tuning};

/// Command name of the run folders that hold these journals.
const COMMAND: &str = "load, another node";

/// The other nodes of the cluster that a load is replicated in, and what is changed there.
pub struct Others {
    nodes: Vec<Other>,
}

struct Other {
    target: ConnectOptions,
    name: String,
    conn: Option<Connection>,
    facts: Facts,
    /// Whether it runs on this machine.
    near: bool,
    plan: SettingsPlan,
    applied: Option<AppliedSettings>,
}

impl Others {
    /// Connects to the nodes whose addresses are known. A node that cannot be queried is left as it
    /// is, with a warning. If `clear` has a run, what dead runs left on a node is put back first,
    /// so that it is not mistaken for the node's own. The owner in `clear` is known to have ended.
    ///
    /// # Errors
    /// The load is being stopped.
    pub fn look(
        options: &LoadOptions,
        preflight: &Preflight,
        clear: Option<(&Run, Option<&Owner>)>,
        cancel: &Cancel,
        mut warn: impl FnMut(String),
    ) -> Result<Self, LoadError> {
        let mut nodes = Vec::new();
        let replicated = preflight.node.as_ref().is_some_and(|node| node.connected);
        if replicated && !options.galera.through_proxy {
            for target in &options.galera.others {
                match Other::look(target, clear, cancel) {
                    Ok(other) => nodes.push(other),
                    Err(error) if cancel.is_cancelled() => return Err(error),
                    Err(error) => warn(format!(
                        "the settings of {} stay as they are: {error}",
                        target.target()
                    )),
                }
            }
        }
        Ok(Self { nodes })
    }

    /// How many of them run on this machine and share its memory.
    pub fn near(&self) -> usize {
        self.nodes.iter().filter(|node| node.near).count()
    }

    /// Plans what to change on them.
    pub fn plan(
        &mut self,
        options: &LoadOptions,
        preflight: &Preflight,
        dump_bytes: Option<u64>,
        here: usize,
    ) {
        for node in &mut self.nodes {
            // At most relaxed, even if the server holds nothing else: a node belongs to a cluster.
            let level = tuning::durability(options, &node.facts, preflight, dump_bytes);
            let level = level.min(Durability::Relaxed);
            let hints = tuning::hints(&node.facts, node.near, dump_bytes, here);
            node.plan = refloat_run::settings::plan_for(&node.facts, level, &hints);
        }
    }

    /// What is to be changed, by node.
    pub fn plans(&self) -> impl Iterator<Item = (&str, &SettingsPlan)> {
        self.nodes
            .iter()
            .map(|node| (node.name.as_str(), &node.plan))
    }

    /// Applies the plans on all nodes at once, and runs `beside` meanwhile. A node that goes away
    /// or refuses is left as it is, with a warning: its settings only affect speed.
    pub fn apply<T>(&mut self, run: &Run, beside: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            for node in &mut self.nodes {
                scope.spawn(|| {
                    let applied = node.apply(run);
                    if let Err(error) = applied
                        && !run.cancel.is_cancelled()
                    {
                        run.events
                            .warn(format!("the settings of {}: {error}", node.name));
                    }
                });
            }
            beside()
        })
    }

    /// What was changed, as text.
    pub fn changes(&self) -> Vec<String> {
        let changed = |node: &Other| -> Vec<String> {
            let changes = node.applied.iter().flat_map(AppliedSettings::changes);
            let lines = changes.map(tuning::change_line);
            lines.map(|line| format!("{}: {line}", node.name)).collect()
        };
        self.nodes.iter().flat_map(changed).collect()
    }

    /// Puts everything back on all nodes at once, and runs `beside` meanwhile. Returns the result
    /// of `beside`, and what could not be put back.
    pub fn put_back<T>(&mut self, run: &Run, beside: impl FnOnce() -> T) -> (T, Vec<String>) {
        std::thread::scope(|scope| {
            let nodes: Vec<_> = self
                .nodes
                .iter_mut()
                .map(|node| scope.spawn(|| node.put_back(run)))
                .collect();
            let done = beside();
            let left = nodes.into_iter().flat_map(|node| {
                node.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (done, left.collect())
        })
    }
}

impl Other {
    fn look(
        target: &ConnectOptions,
        clear: Option<(&Run, Option<&Owner>)>,
        cancel: &Cancel,
    ) -> Result<Self, LoadError> {
        let mut conn = connect_to(target, cancel)?;
        if let Some((run, ended)) = clear
            && let Some(state) = run.dir.state_dir()
            && left_by_dead_runs(&mut conn, state, ended)
        {
            let mut applied = AppliedSettings::new(&begin(state)?);
            if let Some(owner) = ended {
                applied.declare_ended(owner.clone());
            }
            applied.clear(&mut conn, &run.events)?;
        }
        let facts = Facts::read(&mut conn)?;
        Ok(Self {
            target: target.clone(),
            name: target.target().to_string(),
            near: is_near(&conn),
            conn: Some(conn),
            facts,
            plan: SettingsPlan::default(),
            applied: None,
        })
    }

    fn apply(&mut self, run: &Run) -> Result<(), SettingsError> {
        let (Some(mut conn), Some(state)) = (self.conn.take(), run.dir.state_dir()) else {
            return Ok(());
        };
        if self.plan.changes.is_empty() {
            return Ok(());
        }
        // Store this before applying: a change that was begun must be put back.
        let applied = self.applied.insert(AppliedSettings::new(&begin(state)?));
        let shutdown = conn.shutdown_handle();
        let _stop = run.cancel.on_cancel(move || shutdown.shutdown());
        applied.apply(&mut conn, &self.plan, &run.events)
    }

    /// Puts the settings back. Returns what could not be, as text.
    fn put_back(&mut self, run: &Run) -> Vec<String> {
        let Some(applied) = &mut self.applied else {
            return Vec::new();
        };
        // Ctrl-C is no reason to leave settings behind.
        let (left, result) = applied.put_back(run, || connect_to(&self.target, &Cancel::new()));
        if let Err(error) = result {
            run.events.warn(format!(
                "the settings of {} could not be put back: {error}",
                self.name
            ));
        }
        left.into_iter()
            .map(|what| format!("{}: {what}", self.name))
            .collect()
    }
}

/// Creates a run folder for the journal of one node.
fn begin(state_dir: &Path) -> Result<RunDir, SettingsError> {
    Ok(RunDir::create(state_dir, COMMAND)?)
}
