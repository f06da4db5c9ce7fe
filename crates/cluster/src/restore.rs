//! Restores a whole cluster from a dump: the rows are loaded into one node that runs standalone,
//! and the other nodes then take full copies of it.
//!
//! Each step first checks whether it is already done, does what is missing, and proves the result.
//! Progress is recorded before and after. So whatever ends the process, running the same steps
//! again resumes where it stopped.
//! steps again resumes where it ended.
//!
//! Rows that arrive without write-sets leave the cluster's seqno unchanged: a node with the old
//! seqno would join by IST and differ permanently. So the loaded node discards its position in the
//! old history before the first row, and then starts a new history in which no other node has a
//! position. A full copy is the only way to join that history.

mod alone;
mod back;
mod begin;
mod choose;
mod claim;
mod donor;
mod examined_host;
mod give_up;
mod keepers;
mod measure;
mod past_rates;
mod plan;
mod planned;
mod rates;
mod room;
mod standing;
mod state;
mod steps;
mod take_down;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use refloat_host::Control;
use refloat_load::{GaleraMode, LoadOptions, looks_whole, refused, text_bytes};
use refloat_run::{Refusal, Run, RunDirError, RunId};
use serde::Serialize;

use crate::advise::Candidate;
use crate::claim::maintenances_elsewhere;
use crate::join::brief;
use crate::member::Member;
use crate::observe::observe;
pub use claim::Driving;
pub use planned::{Estimates, OldData, PlannedNode, RestorePlan, RestoreWay, RestoreWish};
pub use rates::{Rate, RateFrom, Rates};
use state::FORMAT;
pub use state::{
    Loaded, NodeProgress, RestoreError, RestoreState, RestoreStep, STATE as RESTORE_STATE,
    recorded_restore,
};

/// How often a server that starts or stops is checked.
const POLL: Duration = Duration::from_millis(200);

/// What a restore of a cluster works on, and what it loads.
#[derive(Debug)]
pub struct Restore<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// How each node is started and stopped. Only [`RestoreWay::Replicate`] works without.
    pub controls: &'a [Option<&'a Control>],
    /// What to load, and how; the restore itself sets the target.
    pub load: LoadOptions,
    /// The state directory.
    pub state_dir: &'a Path,
    /// This run: its folder, events and cancellation.
    pub run: &'a Run,
    /// Limit on the start of a server, and on the bootstrap of the cluster.
    pub start_limit: Duration,
    /// All nodes, to be checked for anything that would make a full copy fail. Empty: no check.
    pub candidates: &'a [Candidate],
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Restored {
    /// The cluster that was restored.
    pub cluster: String,
    /// How the rows reached all nodes.
    pub way: RestoreWay,
    /// Name of the node that was loaded into.
    pub node: String,
    /// UUID of the cluster's new history. `None`: it kept the old one.
    pub uuid: Option<String>,
    /// What was loaded.
    pub loaded: Loaded,
    /// Every node, in the order of the plan.
    pub nodes: Vec<RestoredNode>,
}

/// The result for one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RestoredNode {
    /// As the list of nodes names it.
    pub name: String,
    /// How far the restore got there.
    #[serde(flatten)]
    pub progress: NodeProgress,
}

/// Plans a restore, for the run with this id.
///
/// [`RestoreError::Refused`] with every objection. [`RestoreError::Unloadable`]: the source cannot
/// be used, or conflicts with what the cluster holds.
pub fn plan_restore(
    cluster: &str,
    members: &[Member],
    controls: &[Option<&Control>],
    load: &LoadOptions,
    wish: &RestoreWish,
    run: &RunId,
) -> Result<RestorePlan, RestoreError> {
    let text = text_bytes(load).map_err(|source| RestoreError::Unloadable {
        node: cluster.to_owned(),
        source: Box::new(source),
    })?;
    let view = observe(cluster, members, &brief());
    let maintained = maintenances_elsewhere(members, &view);
    if !maintained.is_empty() {
        return Err(RestoreError::Refused(maintained));
    }
    let nodes = view.nodes.iter().zip(members).zip(controls);
    let seen: Vec<examined_host::Seen> = nodes
        .map(|((node, member), control)| examined_host::see(member, node, *control))
        .collect();
    let make = |wish: &RestoreWish| {
        plan::make(&view, members, &seen, wish, load, text, run.as_str())
            .map_err(RestoreError::Refused)
    };
    let mut plan = before_anything_stops(make(wish)?, members, load)?;
    if !plan.is_undecided(wish) {
        return Ok(plan);
    }
    if !wish.measure {
        plan.warnings.push("a restore measures the rates that are not known, for a second each, before it chooses the way".to_owned());
        return Ok(plan);
    }
    // Nothing speaks against the restore, so writing to the cluster is fine.
    let mut rates = wish.rates.clone();
    let warnings = measure::measure(&mut rates, &view, members, plan.at);
    plan.rates = rates.clone();
    match make(&RestoreWish {
        rates,
        ..wish.clone()
    }) {
        Ok(measured) if measured.way == plan.way => {
            (plan.why, plan.estimates) = (measured.why, measured.estimates);
        }
        Ok(measured) => plan = before_anything_stops(measured, members, load)?,
        Err(RestoreError::Refused(against)) => plan.warnings.push(format!(
            "the other way takes less time, but something stands in its way: {}",
            Refusal::reasons(&against)
        )),
        Err(error) => return Err(error),
    }
    plan.warnings.extend(warnings);
    Ok(plan)
}

/// Checks while the cluster still serves whether the load would be refused.
fn before_anything_stops(
    mut plan: RestorePlan,
    members: &[Member],
    load: &LoadOptions,
) -> Result<RestorePlan, RestoreError> {
    let mut options = load.clone();
    options.target = members[plan.at].connect.clone();
    let looked = if plan.nodes[plan.at].runs {
        if plan.way == RestoreWay::Replicate {
            options.galera.mode = Some(GaleraMode::Replicate);
        }
        refused(&options, plan.way == RestoreWay::Rebuild)
    } else {
        plan.warnings.push(format!(
            "{} is down: whether the dump can go beside what it holds is not known until it runs standalone",
            plan.chosen()
        ));
        looks_whole(&options)
    };
    looked.map_err(|source| RestoreError::Unloadable {
        node: plan.chosen().to_owned(),
        source: Box::new(source),
    })?;
    Ok(plan)
}

/// What identifies a restore: the same source, loaded in the same way.
pub fn asked_for(load: &LoadOptions) -> String {
    let source = std::fs::canonicalize(&load.source).unwrap_or_else(|_| load.source.clone());
    format!(
        "{}: database {:?}, tables {:?}, existing {:?}, system schema {:?}, format {:?}",
        source.display(),
        load.database,
        load.tables,
        load.existing,
        load.system_schema,
        load.source_format
    )
}

/// The options that decide what is loaded: in the words of [`asked_for`], and as flags.
const CONTENT: [(&str, &str); 5] = [
    (": database ", "--database"),
    (", tables ", "--tables"),
    (", existing ", "--replace, --append or neither"),
    (", system schema ", "--system-schema"),
    (", format ", "--source-format"),
];

/// Names the flags in which a command differs from the one that began a restore. Both arguments
/// come from [`asked_for`].
pub fn differing(begun: &str, now: &str) -> Vec<&'static str> {
    let parts = |text: &str| {
        let mut rest = text;
        let mut parts = Vec::new();
        for (word, _) in CONTENT.iter().rev() {
            let (before, value) = rest.rsplit_once(word).unwrap_or((rest, ""));
            parts.push(value.to_owned());
            rest = before;
        }
        parts.push(rest.to_owned());
        parts
    };
    let names = CONTENT.iter().rev().map(|(_, flag)| *flag);
    let parts = parts(begun).into_iter().zip(parts(now));
    let mut differ: Vec<&str> = names
        .chain(["the source"])
        .zip(parts)
        .filter(|(_, (begun, now))| begun != now)
        .map(|(name, _)| name)
        .collect();
    differ.reverse();
    differ
}

impl Restore<'_> {
    /// Records the start of a restore, and the command that resumes it.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn begin(
        &self,
        cluster: &str,
        plan: RestorePlan,
        command: String,
    ) -> Result<RestoreState, RunDirError> {
        let state = RestoreState {
            format: FORMAT,
            cluster: cluster.to_owned(),
            asked: asked_for(&self.load),
            command,
            step: match plan.way {
                RestoreWay::Rebuild => RestoreStep::Stop,
                RestoreWay::Replicate => RestoreStep::Load,
            },
            nodes: vec![NodeProgress::default(); plan.nodes.len()],
            plan,
            before: BTreeMap::new(),
            loaded: None,
            was_last: false,
            marks: None,
            uuid: None,
            given_up: false,
        };
        self.write(&state)?;
        Ok(state)
    }

    /// Runs the remaining steps, all of them or those before `stop_before`. `None`: it stopped
    /// before that step.
    ///
    /// # Errors
    /// [`RestoreError`]. The state records the progress, and running the restore again resumes
    /// there.
    pub fn run(
        &self,
        state: &mut RestoreState,
        stop_before: Option<RestoreStep>,
    ) -> Result<Option<Restored>, RestoreError> {
        while state.step != RestoreStep::Ended {
            if stop_before.is_some_and(|before| state.step >= before) {
                return Ok(None);
            }
            self.may_go_on(state.step)?;
            if let Some(by) = self.taken_over(state)? {
                return Err(self.wrong(state.step, state.plan.at, by));
            }
            self.run.events.note(format!("step {}", state.step.word()));
            match state.step {
                RestoreStep::Stop => self.stop_others(state)?,
                RestoreStep::Standalone => self.stand_alone(state)?,
                RestoreStep::Load => self.load(state)?,
                RestoreStep::Bootstrap => self.bootstrap(state)?,
                RestoreStep::Rejoin => self.rejoin_others(state)?,
                RestoreStep::Verify => self.verify(state)?,
                RestoreStep::Ended => {}
            }
            state.step = state.step.next(state.plan.way);
            self.write(state)?;
        }
        let names = state.plan.nodes.iter().map(|node| node.name.clone());
        Ok(Some(Restored {
            cluster: state.cluster.clone(),
            way: state.plan.way,
            node: state.plan.chosen().to_owned(),
            uuid: state.uuid.clone(),
            loaded: state.loaded.clone().unwrap_or_default(),
            nodes: names
                .zip(&state.nodes)
                .map(|(name, progress)| RestoredNode {
                    name,
                    progress: progress.clone(),
                })
                .collect(),
        }))
    }

    fn may_go_on(&self, step: RestoreStep) -> Result<(), RestoreError> {
        if self.run.cancel.is_cancelled() {
            return Err(RestoreError::Interrupted { step });
        }
        Ok(())
    }

    /// Sleeps until the next poll, unless the user has stopped the restore.
    fn pause(&self, step: RestoreStep) -> Result<(), RestoreError> {
        self.may_go_on(step)?;
        std::thread::sleep(POLL);
        Ok(())
    }

    fn write(&self, state: &RestoreState) -> Result<(), RunDirError> {
        self.run.dir.write(RESTORE_STATE, state)
    }

    fn control(&self, at: usize) -> Result<&Control, RestoreError> {
        self.controls[at].ok_or_else(|| {
            let name = &self.members[at].name;
            let reason = format!("the list does not say how {name} is started and stopped");
            RestoreError::Refused(vec![reason.into()])
        })
    }

    /// The indexes of all nodes but the chosen one.
    fn others(&self, state: &RestoreState) -> impl Iterator<Item = usize> + use<> {
        let chosen = state.plan.at;
        (0..self.members.len()).filter(move |at| *at != chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::differing;

    #[test]
    fn the_flags_in_which_a_command_differs_are_named() {
        let asked = |source: &str, tables: &str, existing: &str| {
            format!(
                "{source}: database None, tables {tables}, existing {existing}, system schema Refuse, format None"
            )
        };
        let begun = asked("/d/a: b.sql", "[]", "Replace");
        assert!(differing(&begun, &begun).is_empty());
        assert_eq!(
            differing(&begun, &asked("/d/a: b.sql", "[]", "Refuse")),
            ["--replace, --append or neither"]
        );
        assert_eq!(
            differing(&begun, &asked("/d/c.sql", "[\"a.b\"]", "Replace")),
            ["the source", "--tables"]
        );
    }
}
