//! `refloat cluster status`: shows what every node reports.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::{
    ClusterView, Finding, Observation, OpenWork, Severity, WantedTables, WorkKind, observe,
    open_work,
};
use refloat_report::cluster;
use refloat_run::signals::install_signal_handlers;
use refloat_run::{Cancel, RunDir};

use super::members::{ClusterOf, Nodes};
use super::{busy, maintain, seconds, sst_rate};
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::sizes::parse_bytes;

/// Interval between two looks with --watch.
const EVERY: Duration = Duration::from_secs(2);
/// Moves the cursor to the top left corner and clears the screen below it.
const CLEAR: &str = "\x1b[H\x1b[J";

const AFTER_HELP: &str = "\
EXAMPLES:
  From one node, which names the others:
      refloat cluster status --cluster mysql://root@db1/

  From a list of all nodes, including those that are down:
      refloat cluster status --cluster shop.toml

  Every two seconds, until Ctrl-C:
      refloat cluster status --cluster shop.toml --watch

  For a script, with rates measured for ten seconds:
      refloat cluster status --cluster shop.toml --sample 10 --json

COLUMNS:
  BEHIND   write-sets that another node has applied and this one has not
  QUEUE    write-sets that wait to be applied: now, and on average
  PAUSED   share of the sample time during which replication was paused
  SENT FC  how often this node made the others wait during the sample

The grastate.dat of a node that is down is read, through ssh if the list says so. Nothing is \
changed. If nodes disagree, each is shown as it sees itself, and the disagreement is explained \
below. The exit code is 0 when at least one node answers.";

/// Show the state of every node, what is wrong, and what a rejoin would cost
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct StatusArgs {
    /// Measure rates for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    sample: f64,

    /// Look for tables without a primary key, no matter how many tables there are
    #[arg(long, conflicts_with = "watch")]
    tables: bool,

    /// Bytes per second that a full copy (SST) moves [default: as in the last restore or rejoin]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    sst_rate: Option<u64>,

    #[command(flatten)]
    cluster: ClusterOf,

    /// Refresh every two seconds, until Ctrl-C
    #[arg(long, help_heading = "Output")]
    watch: bool,

    /// Print the result as JSON on stdout, one line per refresh
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: &StatusArgs, context: &Context) -> anyhow::Result<Exit> {
    let nodes = args.cluster.nodes(context)?;
    let mut how = Observation {
        sample: Duration::from_secs_f64(args.sample),
        tables: if args.tables {
            WantedTables::Always
        } else {
            WantedTables::WhereCheap
        },
        sst_bytes_per_second: sst_rate(args.sst_rate, &nodes.name, context),
        rebuilds: true,
    };
    if !args.watch {
        let view = look(&nodes, &how, args, context)?;
        print(&view, args.json, "")?;
        if view.quorum.answering == 0 {
            let why = view.nodes.iter().find_map(|node| node.unreachable.clone());
            let error = ProgramError::new(
                Exit::Failed,
                format!("no node answers: {}", why.unwrap_or_default()),
            );
            // An unfinished restore starts the cluster itself.
            let error = if view.work.iter().any(|work| work.kind == WorkKind::Restore) {
                error
            } else {
                error.hint(
                    "If all of them are down, `refloat cluster bootstrap --plan` finds the \
                    most advanced one, and without --plan bootstraps the cluster from it.",
                )
            };
            return Err(error.into());
        }
        return Ok(Exit::Done);
    }
    how.tables = WantedTables::Never;
    let cancel = Cancel::new();
    let _signals = install_signal_handlers(&cancel).context("cannot handle signals")?;
    let clear = if std::io::stdout().is_terminal() && !args.json {
        CLEAR
    } else {
        ""
    };
    // Ctrl-C is the normal way to stop watching, and leaves nothing undone.
    while !cancel.is_cancelled() {
        let begun = Instant::now();
        let view = look(&nodes, &how, args, context)?;
        print(&view, args.json, clear)?;
        cancel.sleep(EVERY.saturating_sub(begun.elapsed()));
    }
    Ok(Exit::Done)
}

fn look(
    nodes: &Nodes,
    how: &Observation,
    args: &StatusArgs,
    context: &Context,
) -> anyhow::Result<ClusterView> {
    let mut view = observe(&nodes.name, &nodes.members, how);
    // Runs of this machine are noted first: they are known in more detail than those found in the
    // nodes' folders.
    view.note_work(begun_here(nodes, args, context)?);
    view.note_work(open_work(&nodes.members, &view));
    if nodes.is_balanced {
        view.findings.push(Finding {
            severity: Severity::Note,
            nodes: Vec::new(),
            text: format!(
                "{} is a load balancer: each node was asked at the address that the cluster reports",
                args.cluster.cluster
            ),
        });
    }
    if nodes.unnamed > 0 {
        view.findings.push(Finding {
            severity: Severity::Note,
            nodes: Vec::new(),
            text: format!(
                "{} of the members do not tell their addresses (wsrep_node_incoming_address) and were not asked: a cluster.toml can name them",
                nodes.unnamed
            ),
        });
    }
    Ok(view)
}

/// Unfinished runs that were started on this machine.
fn begun_here(
    nodes: &Nodes,
    args: &StatusArgs,
    context: &Context,
) -> anyhow::Result<Vec<OpenWork>> {
    let flags = args.cluster.flags();
    let mut found = Vec::new();
    if let Some((dir, state)) = busy::unfinished_restore(&nodes.name, context)? {
        let named = (state.plan.chosen().to_owned(), state.step.word().to_owned());
        found.push(begun(WorkKind::Restore, &dir, named, state.command));
    }
    for (dir, state) in maintain::open_here(&nodes.name, context)? {
        let node = &state.plan.node;
        let next = format!("refloat cluster maintain {node} {flags} --end");
        let phase = serde_json::to_value(state.phase)?;
        let named = (node.clone(), phase.as_str().unwrap_or_default().to_owned());
        found.push(begun(WorkKind::Maintenance, &dir, named, next));
    }
    Ok(found)
}

fn begun(kind: WorkKind, dir: &RunDir, (node, step): (String, String), next: String) -> OpenWork {
    let owner = &dir.info().owner;
    OpenWork {
        kind,
        run: dir.id().to_string(),
        node,
        step: Some(step),
        process: format!("process {} on {}", owner.pid, owner.host),
        running: owner.alive(),
        next,
    }
}

fn print(view: &ClusterView, json: bool, before: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(view)?)?;
    } else {
        write!(out, "{before}{}", cluster::status(view))?;
    }
    out.flush()?;
    Ok(())
}
