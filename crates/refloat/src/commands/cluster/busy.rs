//! What is under way in a cluster, and the refusals to begin something else beside it.

use anyhow::Context as _;
use refloat_cluster::{
    ClusterView, MaintainPhase, MaintainState, RestoreState, maintenances_elsewhere,
    open_maintenance, open_restore, restores_elsewhere,
};
use refloat_run::RunDir;

use super::members::Nodes;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::shell::word;

/// Name of the runs of `refloat cluster restore`.
pub const RESTORE: &str = "cluster restore";
/// Name of the runs of `refloat cluster maintain`.
pub const MAINTAIN: &str = "cluster maintain";

/// The newest restore of this cluster that has not ended.
pub fn unfinished_restore(
    cluster: &str,
    context: &Context,
) -> anyhow::Result<Option<(RunDir, RestoreState)>> {
    for dir in RunDir::list(context.state_dir())
        .context("cannot read the runs")?
        .into_iter()
        .rev()
    {
        if dir.info().command == RESTORE
            && let Some(state) = open_restore(&dir)?
            && state.cluster == cluster
        {
            return Ok(Some((dir, state)));
        }
    }
    Ok(None)
}

/// The command that goes on with a restore; of one of an earlier version, which has not kept it, with these flags for the cluster.
pub fn goes_on(state: &RestoreState, flags: &str) -> String {
    state.command.clone().unwrap_or_else(|| {
        let source = word(&state.plan.source);
        let flags = if flags.is_empty() {
            String::new()
        } else {
            format!("{flags} ")
        };
        format!("refloat cluster restore {source} {flags}--resume")
    })
}

/// Every maintenance that has not ended, the oldest first.
pub fn unfinished_maintenances(context: &Context) -> anyhow::Result<Vec<(RunDir, MaintainState)>> {
    let mut found = Vec::new();
    for dir in RunDir::list(context.state_dir()).context("cannot read the runs")? {
        if dir.info().command == MAINTAIN
            && let Some(state) = open_maintenance(&dir)?
        {
            found.push((dir, state));
        }
    }
    Ok(found)
}

/// Refuses for these reasons, if there are any.
pub fn refuse_for(reasons: &[String], hint: &str) -> anyhow::Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    Err(ProgramError::new(Exit::Refused, reasons.join("; "))
        .hint(hint)
        .into())
}

/// Refuses to do something else to a cluster while it is being restored.
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
        "Go on with it: `{}`; or end it: `refloat cluster restore {} --give-up`.",
        goes_on(&state, ""),
        word(&state.plan.source)
    ))
    .into())
}

/// Refuses while a restore of the cluster is driven by another process, on whatever machine: it stops and starts the same nodes.
pub fn refuse_restored(nodes: &Nodes, view: &ClusterView) -> anyhow::Result<()> {
    refuse_for(
        &restores_elsewhere(&nodes.members, view),
        "Wait for its end. One that was killed on a machine that cannot be seen from here goes on when its command is given again with --take-over, and ends with --give-up. The file may be removed when you know that nobody goes on with it.",
    )
}

/// Refuses while a maintenance of a node is going on, on whatever machine.
pub fn refuse_maintained(nodes: &Nodes, view: &ClusterView) -> anyhow::Result<()> {
    refuse_for(
        &maintenances_elsewhere(&nodes.members, view),
        "Wait for its end. One that was killed ends with --end where it was begun; the file may be removed when you know that it has ended.",
    )
}

/// Refuses while a maintenance that was begun elsewhere has a node keep write-sets: what it has raised is no room of ours, and goes when that
/// one ends.
pub fn refuse_held(nodes: &Nodes) -> anyhow::Result<()> {
    refuse_for(
        &nodes.kept_for_others(),
        "End that one first (--end, where it was begun); `refloat settings show` and `refloat settings revert` find what one has left that was killed.",
    )
}

/// Refuses to begin one while another is not ended: two that hold would undo each other's changes.
pub fn refuse_second(cluster: &str, context: &Context) -> anyhow::Result<()> {
    for (dir, state) in unfinished_maintenances(context)? {
        let owner = &dir.info().owner;
        if state.cluster != cluster {
            continue;
        }
        // One that ended before anything was changed leaves nothing to be ended.
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
