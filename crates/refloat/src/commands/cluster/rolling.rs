//! `refloat cluster rolling`: takes every node away and brings it back, one after the other.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::{Observation, WantedTables, observe, rolling_order};
use refloat_run::signals::install_signal_handlers;
use refloat_run::{Cancel, Refusal};

use super::busy::{refuse_for, refuse_second};
use super::copies;
use super::maintain::{self, Begin, HoldArgs};
use super::members::{ClusterOf, Nodes};
use crate::context::Context;
use crate::exit::{Exit, ProgramError};

const AFTER_HELP: &str = "\
EXAMPLES:
  Upgrade the packages of all nodes, one after the other:
      refloat cluster rolling --cluster shop.toml --for 10m -- \\
          sh -c 'ssh \"$REFLOAT_NODE_SSH\" apt-get upgrade -y'

  In which order, and how long would the write-sets last?
      refloat cluster rolling --cluster shop.toml --for 10m --plan

Each node is handled as by `refloat cluster maintain`: the others keep what it misses, it is \
stopped, the command runs, it is started, and it has to come back by IST before the next one is \
touched. The first failure ends the run: the remaining nodes are not touched.

Preferred donors (wsrep_sst_donor) go last; among equals, the node that applications write to most \
goes last. All nodes must be up and in sync at the start, and again before each node.

The command finds the node's name in REFLOAT_NODE, and its machine, as the list names it, in \
REFLOAT_NODE_SSH.";

/// Take every node down in turn, and bring each back by IST before the next
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct RollingArgs {
    #[command(flatten)]
    hold: HoldArgs,

    /// Only these nodes, by their names in the list
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    nodes: Vec<String>,

    /// Print the order and how long the write-sets would last, and do nothing
    #[arg(long)]
    plan: bool,

    #[command(flatten)]
    cluster: ClusterOf,

    /// What to run while a node is down, after `--`: a program and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "plan")]
    command: Vec<String>,
}

pub fn run(args: &RollingArgs, context: &Context) -> anyhow::Result<Exit> {
    if args.command.is_empty() && !args.plan {
        return Err(
            ProgramError::usage("no command is given to run while a node is down")
                .hint("Give a command behind `--`, or --plan to see what would be done.")
                .into(),
        );
    }
    let nodes = args.cluster.nodes(context)?;
    for name in &args.nodes {
        nodes.at(name)?;
    }
    if !args.plan {
        // A node may be down because its maintenance was killed; that message says more than "does
        // not answer".
        refuse_second(&nodes.name, context)?;
    }
    let how = Observation {
        sample: Duration::from_secs(1),
        tables: WantedTables::Never,
        ..Observation::default()
    };
    let view = observe(&nodes.name, &nodes.members, &how);
    let order = rolling_order(&view).map_err(|against| ProgramError::refused(&against))?;
    let wanted = |name: &String| args.nodes.is_empty() || args.nodes.contains(name);
    let order: Vec<String> = order.into_iter().filter(wanted).collect();
    // Find out about missing controls before the first node is touched.
    for name in &order {
        nodes.control(name)?;
    }
    if !args.plan && !args.hold.ignore_advice {
        let advice = copies::look(&args.cluster, None, context)?;
        let fails: Vec<Refusal> = order
            .iter()
            .flat_map(|name| maintain::keeps_away(&advice, name))
            .collect();
        refuse_for(&fails)?;
    }
    let say = |text: &str| writeln!(std::io::stderr(), "{text}");
    say(&format!("Order: {}", order.join(", ")))?;
    // Each maintenance handles signals itself; this covers the time in between.
    let cancel = Cancel::new();
    let _signals = install_signal_handlers(&cancel).context("cannot handle signals")?;
    let (mut planned, mut back) = (Exit::Done, Vec::new());
    for (at, name) in order.iter().enumerate() {
        let begin = Begin {
            nodes: &nodes,
            cluster: &args.cluster,
            node: name,
            hold: &args.hold,
            json: false,
            context,
        };
        if args.plan {
            if begin.show()? != Exit::Done {
                planned = Exit::Refused;
            }
            continue;
        }
        let brief = Observation {
            sample: Duration::ZERO,
            ..how
        };
        // A node that may not be touched counts among the remaining ones.
        let (exit, behind) = match next(&nodes, &brief, &cancel) {
            Err(error) => (Err(error), at),
            Ok(()) => match begin.with_program(&args.command) {
                Ok(ended) => {
                    back.extend(ended.back);
                    if ended.exit == Exit::Done {
                        continue;
                    }
                    (Ok(ended.exit), at + 1)
                }
                Err(error) => (Err(error), at + 1),
            },
        };
        let rest = &order[behind..];
        if !rest.is_empty() {
            say(&format!("Not touched: {}", rest.join(", ")))?;
        }
        maintain::offer_comparison(&back, &args.cluster)?;
        return exit;
    }
    if !args.plan {
        writeln!(
            std::io::stdout(),
            "Of {} these went away and came back by IST: {}",
            nodes.name,
            order.join(", ")
        )?;
    }
    maintain::offer_comparison(&back, &args.cluster)?;
    Ok(planned)
}

/// Whether the next node may be taken: all nodes are in sync, and nothing has been cancelled.
fn next(nodes: &Nodes, how: &Observation, cancel: &Cancel) -> anyhow::Result<()> {
    if cancel.is_cancelled() {
        return Err(ProgramError::new(Exit::Interrupted, "stopped on request").into());
    }
    let view = observe(&nodes.name, &nodes.members, how);
    rolling_order(&view)
        .map(drop)
        .map_err(|against| ProgramError::refused(&against).into())
}
