//! `refloat cluster verify`: checks whether all nodes hold the same data.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::Args;
use refloat_cluster::{Verified, VerifyNodesError, Verifying};
use refloat_report::cluster_verify as face;
use refloat_run::Run;
use refloat_run::events::RunResult;

use super::members::{ClusterOf, Nodes};
use crate::context::Context;
use crate::exit::{self, Exit};
use crate::record::record;
use crate::watch::{Show, Watch};

const COMMAND: &str = "cluster verify";

const AFTER_HELP: &str = "\
EXAMPLES:
  Do all nodes hold the same data?
      refloat cluster verify --cluster shop.toml

  The same in a fraction of the time, by counts and checksums:
      refloat cluster verify --cluster shop.toml --quick

  For a script:
      refloat cluster verify --cluster shop.toml --json | tail -n 1 |
          jq '.outcome.summary.nodes'

The definitions and rows of every node that is in sync are compared with those of one of them, as
by `refloat verify`. Applications may write meanwhile: each node is read as of one moment, what
differs is compared again, and only rows that differ every time, or at the same write-set, count.
--quick counts the rows of every table, takes checksums (CHECKSUM TABLE) of those that have
changed since a server was started, and compares row by row only tables that differ in these. It
misses values that changed before that, and definitions.

EXIT CODES:
  0  all nodes were compared, and hold the same data
  1  failed: a node went away
  3  refused: fewer than two nodes are in sync
  4  a node differs, or may differ: the tables are named

Nothing is written to any node.";

/// Compare the definitions and rows of all nodes of a cluster
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct VerifyArgs {
    /// Count rows, and checksum tables that have changed, instead of comparing every row
    #[arg(long)]
    quick: bool,

    /// Connections to each node
    ///
    /// Default: one per processor of this machine, at least 2 and at most 32.
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,

    #[command(flatten)]
    cluster: ClusterOf,

    /// Print events and the result as JSON lines on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: &VerifyArgs, context: &Context) -> anyhow::Result<Exit> {
    let nodes = args.cluster.nodes(context)?;
    let show = if args.json { Show::Json } else { Show::Best };
    let (watch, run) = Watch::begin(COMMAND, show, context)?;
    let verifying = Verifying {
        members: &nodes.members,
        without: &[],
        quick: args.quick,
        threads: args.threads.map(usize::from),
        run: &run,
    };
    let (outcome, error) = match verifying.verify(&nodes.name) {
        Ok(outcome) => (Some(outcome), None),
        Err(error) => (None, Some(anyhow::Error::new(error))),
    };
    let result = match (&outcome, &error) {
        (_, Some(error)) => exit::result_of(error),
        (Some(outcome), _) if outcome.is_same() => RunResult::Done,
        _ => RunResult::ProofFailed,
    };
    watch.quiet();
    let seconds = run.events.elapsed().as_secs_f64();
    let summary = serde_json::to_value(&outcome)?;
    record(&run, seconds, summary, result, error.as_ref());
    watch.stop();
    if let Some(outcome) = outcome.filter(|_| !args.json) {
        write!(std::io::stdout(), "{}", face::ended(&outcome))?;
        write!(
            std::io::stdout(),
            "{}",
            context.with_cluster(&copies(&outcome))
        )?;
    }
    if let Some(error) = &error {
        exit::report(error, context);
    }
    Ok(exit::of_result(result))
}

/// The line of a result that offers the comparison of all nodes, ready to paste.
pub fn offer(cluster: &ClusterOf, quick: bool) -> String {
    let how = if quick { "--quick " } else { "" };
    format!(
        "  compare   refloat cluster verify {how}{}\n",
        cluster.flags()
    )
}

/// How to give a full copy to nodes that differ: IST would leave their differences in place.
pub fn copies(outcome: &Verified) -> String {
    let Some(uuid) = &outcome.uuid else {
        return String::new();
    };
    let mut lines = String::new();
    for node in outcome.nodes.iter().filter(|node| node.same == Some(false)) {
        let (name, with) = (&node.name, &outcome.with);
        let _ = writeln!(
            lines,
            "  copy      if {with} is right: stop the server of {name}, then `refloat cluster rejoin {name} --allow-sst --discard {uuid}`"
        );
    }
    lines
}

/// Compares all nodes after a command that changed something; nodes that the user left out only if
/// they are in sync.
pub fn after(
    nodes: &Nodes,
    without: &[String],
    quick: bool,
    run: &Run,
) -> Result<Verified, VerifyNodesError> {
    let verifying = Verifying {
        members: &nodes.members,
        without,
        quick,
        threads: None,
        run,
    };
    verifying.verify(&nodes.name)
}
