//! Finds the operations in progress on a cluster, and refuses to start another one next to them.

use anyhow::Context as _;
use refloat_cluster::{
    ClusterView, MaintainPhase, MaintainState, RestoreState, maintenances_elsewhere,
    open_maintenance, recorded_restore, restores_elsewhere,
};
use refloat_run::{Refusal, RunDir};

use super::members::Nodes;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::shell::word;

/// Command name under which the runs of `refloat cluster restore` are recorded.
pub const RESTORE: &str = "cluster restore";
/// Command name under which the runs of `refloat cluster maintain` are recorded.
pub const MAINTAIN: &str = "cluster maintain";

/// The runs of a command, oldest first.
fn runs(command: &str, context: &Context) -> anyhow::Result<Vec<RunDir>> {
    let mut runs = RunDir::list(context.state_dir()).context("cannot read the runs")?;
    runs.retain(|dir| dir.info().command == command);
    Ok(runs)
}

/// The newest restore of this cluster that meets the condition.
pub fn newest_restore(
    cluster: &str,
    context: &Context,
    is_it: impl Fn(&RestoreState) -> bool,
) -> anyhow::Result<Option<(RunDir, RestoreState)>> {
    for dir in runs(RESTORE, context)?.into_iter().rev() {
        if let Some(state) = recorded_restore(&dir)?
            && state.cluster == cluster
            && is_it(&state)
        {
            return Ok(Some((dir, state)));
        }
    }
    Ok(None)
}

/// The newest unfinished restore of this cluster.
pub fn unfinished_restore(
    cluster: &str,
    context: &Context,
) -> anyhow::Result<Option<(RunDir, RestoreState)>> {
    newest_restore(cluster, context, RestoreState::is_open)
}

/// All unfinished maintenances, oldest first.
pub fn unfinished_maintenances(context: &Context) -> anyhow::Result<Vec<(RunDir, MaintainState)>> {
    let mut found = Vec::new();
    for dir in runs(MAINTAIN, context)? {
        if let Some(state) = open_maintenance(&dir)? {
            found.push((dir, state));
        }
    }
    Ok(found)
}

/// Refuses for the given reasons, if there are any.
pub fn refuse_for(against: &[Refusal]) -> anyhow::Result<()> {
    if against.is_empty() {
        return Ok(());
    }
    Err(ProgramError::refused(against).into())
}

/// Refuses to do anything else to a cluster that is being restored.
pub fn refuse_open(cluster: &str, context: &Context) -> anyhow::Result<()> {
    let Some((dir, state)) = unfinished_restore(cluster, context)? else {
        return Ok(());
    };
    Err(ProgramError::new(
        Exit::Refused,
        format!(
            "the restore of {cluster}, begun at {}, has not ended: {} is its next step (run {})",
            dir.info().started,
            state.step.word(),
            dir.id()
        ),
    )
    .hint(format!(
        "Resume it: `{}`; or abandon it: `refloat cluster restore {} --give-up`.",
        state.command,
        word(&state.plan.source)
    ))
    .into())
}

/// Refuses while another process, on any machine, drives a restore of the cluster: it stops and
/// starts the same nodes.
pub fn refuse_restored(nodes: &Nodes, view: &ClusterView) -> anyhow::Result<()> {
    refuse_for(&restores_elsewhere(&nodes.members, view))
}

/// Refuses while a maintenance of a node is in progress, on any machine.
pub fn refuse_maintained(nodes: &Nodes, view: &ClusterView) -> anyhow::Result<()> {
    refuse_for(&maintenances_elsewhere(&nodes.members, view))
}

/// Refuses while a node holds write-sets for a maintenance started elsewhere: the memory or disk
/// space that the hold uses is not free, and the hold shrinks when that maintenance ends.
pub fn refuse_held(nodes: &Nodes) -> anyhow::Result<()> {
    let reasons = nodes.kept_for_others().into_iter();
    let against: Vec<Refusal> = reasons
        .map(|reason| Refusal::new(reason).hint("End that one first (--end, where it was begun); if it was killed, `refloat settings show` and `refloat settings revert` find what it left behind."))
        .collect();
    refuse_for(&against)
}

/// Refuses to start a maintenance while another is unfinished: two of them would undo each other's
/// changes.
pub fn refuse_second(cluster: &str, context: &Context) -> anyhow::Result<()> {
    for (dir, state) in unfinished_maintenances(context)? {
        let owner = &dir.info().owner;
        if state.cluster != cluster {
            continue;
        }
        // A maintenance that ended before it changed anything needs no cleanup.
        if owner.alive() != Some(true)
            && state.phase == MaintainPhase::Holding
            && state.holds.is_empty()
        {
            continue;
        }
        let node = &state.plan.node;
        return Err(ProgramError::new(
            Exit::Refused,
            format!(
                "the maintenance of {node}, begun at {}, has not ended (run {})",
                dir.info().started,
                dir.id()
            ),
        )
        .hint(format!(
            "End it first: `refloat cluster maintain {node} --end`"
        ))
        .into());
    }
    Ok(())
}
