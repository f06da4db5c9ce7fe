//! `refloat cluster bootstrap`: all nodes are down, and the cluster begins again.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::{
    Begun, BootstrapError, BootstrapPlan, BootstrapWish, Bootstrapping, ClusterView, Control,
    Leave, Observation, Rejoined, Rejoining, WantedTables, observe, plan_bootstrap,
};
use refloat_report::{bootstrap as face, cluster_verify, rejoin as rejoin_face};
use refloat_run::Run;
use refloat_run::events::RunResult;
use serde::{Deserialize, Serialize};

use super::lock::ClusterLock;
use super::maintain::refuse_second;
use super::members::{ClusterOf, Nodes};
use super::rejoin::{Asked, How, VerifyAfter, is_left, is_proven, planned};
use super::restore::{refuse_maintained, refuse_open, refuse_restored};
use super::{print_plan, start_limit, verify};
use crate::context::Context;
use crate::exit::{self, Exit};
use crate::record::record;
use crate::sizes::parse_time;
use crate::watch::{Show, Watch};

/// Name of these runs.
const COMMAND: &str = "cluster bootstrap";

const AFTER_HELP: &str = "\
EXAMPLES:
  All nodes are down: where would the cluster begin, and why?
      refloat cluster bootstrap --cluster shop.toml --plan

  Begin it there, and bring the others back:
      refloat cluster bootstrap --cluster shop.toml

  A machine is gone for good, and whatever only it held with it:
      refloat cluster bootstrap --cluster shop.toml --without db3

  Two nodes have gone on without each other, and db1 is to be right:
      refloat cluster bootstrap --cluster shop.toml --node db1

Every node has to be down, and its position known: by its grastate.dat, or recovered from its tables
(mariadbd --wsrep-recover; units with MariaDB's galera_recovery, and the sandbox). The node that stands
furthest begins, and of several that stand equally far the one that was the last to leave, else the first of
the list: they hold the same. A position is believed only as far as write-sets are the same: what the
others have kept last is compared with what that node keeps (galera.cache). Nodes of different histories,
and nodes of one history that have gone on without each other, are two candidates: both sides are told,
and nothing is begun until --node says which one is right. What cannot be compared is told as a warning.

The node that begins gets its position and `safe_to_bootstrap: 1` written into its grastate.dat, and is
started; the others are brought back one after the other, as by `refloat cluster rejoin`. One that would
need a full copy is left down unless --allow-sst is given, and the rest goes on. After Ctrl-C, a crash or
a node that did not start, the same command goes on where it ended.

EXIT CODES:
  0  the cluster serves, and all others are back
  1  the node that was to begin does not serve, or another one is not back
  3  refused: a node runs, a position is not known, or there are two candidates; or the cluster serves and
     a node was refused, which needs a full copy
  4  a node is back, and whether it holds what the others hold is not known, or it does not
  5  stopped on request
  6  a node still keeps write-sets: `refloat settings revert`";

/// Begin a cluster again all nodes of which are down, with the one that holds what is newest
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct BootstrapArgs {
    /// Begin with this node, whatever others hold
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// Go on although where this node stands is not known: it may hold what is newest
    #[arg(long, value_name = "NODE", action = clap::ArgAction::Append)]
    without: Vec<String>,

    /// Let nodes take full copies (SST) that need one, and have nothing that is nowhere else
    #[arg(long)]
    allow_sst: bool,

    /// How long each server may take from its start until its node is in step [default: 1h; none with --allow-sst]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start_limit: Option<Duration>,

    /// Say what would be done, and do nothing but recover positions that were not written down
    #[arg(long)]
    plan: bool,

    #[command(flatten)]
    verify: VerifyAfter,

    #[command(flatten)]
    cluster: ClusterOf,

    /// Print events and the result as JSON lines on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What became of the others.
#[derive(Debug, Default, Serialize)]
struct Others {
    back: Vec<Rejoined>,
    not_back: Vec<NotBack>,
    #[serde(skip)]
    unproven: bool,
    #[serde(skip)]
    first_error: Option<anyhow::Error>,
}

#[derive(Debug, Serialize)]
struct NotBack {
    node: String,
    reason: String,
}

pub fn run(args: &BootstrapArgs, context: &Context) -> anyhow::Result<Exit> {
    let nodes = args.cluster.nodes(context)?;
    refuse_second(&nodes.name, context)?;
    refuse_open(&nodes.name, context)?;
    let _lock = ClusterLock::take(&nodes.name, context)?;
    let how = Observation {
        sample: Duration::ZERO,
        tables: WantedTables::Never,
        ..Observation::default()
    };
    let view = observe(&nodes.name, &nodes.members, &how);
    refuse_restored(&nodes, &view)?;
    refuse_maintained(&nodes, &view)?;
    let controls: Vec<Option<&Control>> = nodes
        .controls
        .iter()
        .map(|control| control.as_ref().ok().and_then(Option::as_ref))
        .collect();
    let mark = Mark::of(&nodes.name, context);
    let plan = if let Some(plan) = mark.goes_on(&nodes, &view) {
        plan
    } else {
        let wish = BootstrapWish {
            node: args.node.clone(),
            without: args.without.clone(),
        };
        plan_bootstrap(&view, &nodes.members, &controls, &wish)?
    };
    if args.plan {
        print_plan(&plan, face::plan, args.json)?;
        return Ok(Exit::Done);
    }
    if !args.json {
        write!(std::io::stderr(), "{}", face::plan(&plan))?;
    }
    nodes.control(&plan.node)?;
    mark.write(&plan)?;
    let show = if args.json { Show::Json } else { Show::Lines };
    let (watch, run) = Watch::begin(COMMAND, show, context)?;
    let bootstrapping = Bootstrapping {
        members: &nodes.members,
        controls: &controls,
        run: &run,
        start_limit: start_limit(args.start_limit, false).unwrap_or(Duration::MAX),
    };
    let begun = bootstrapping.begin(&plan);
    let mut others = match &begun {
        Ok(_) => bring_back(args, &plan, &nodes, &run, context),
        Err(_) => Others::default(),
    };
    let (begun, mut error) = match begun {
        Ok(begun) => (Some(begun), None),
        Err(error) => (None, Some(anyhow::Error::new(error))),
    };
    error = error.or(others.first_error.take());
    let verified = match args.verify.verify.filter(|_| error.is_none()) {
        None => None,
        Some(how) => verify::after(&nodes, how == How::Quick, &run)
            .map_err(|failed| error = Some(failed.into()))
            .ok(),
    };
    let same = match &verified {
        Some(verified) => verified.is_same(),
        None => !others.unproven,
    };
    let result = match &error {
        _ if is_left(context) => RunResult::SettingsLeft,
        Some(error) => exit::result_of(error),
        None if !same => RunResult::ProofFailed,
        None => RunResult::Done,
    };
    if begun.is_some() && error.is_none() {
        mark.remove();
    }
    watch.quiet();
    let seconds = run.events.elapsed().as_secs_f64();
    let summary = serde_json::json!({
        "cluster": nodes.name, "begun": begun, "back": others.back, "not_back": others.not_back, "verified": verified,
    });
    record(&run, seconds, summary, result, error.as_ref());
    watch.stop();
    if let Some(begun) = begun.filter(|_| !args.json) {
        page(args, &begun, &others, verified.as_ref())?;
    }
    if let Some(error) = &error {
        exit::report(error, context);
    }
    Ok(exit::of_result(result))
}

fn page(
    args: &BootstrapArgs,
    begun: &Begun,
    others: &Others,
    verified: Option<&refloat_cluster::Verified>,
) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    write!(out, "{}", face::begun(begun))?;
    for one in &others.back {
        write!(out, "{}", rejoin_face::ended(one))?;
    }
    for one in &others.not_back {
        writeln!(out, "{} is NOT BACK: {}", one.node, one.reason)?;
    }
    match verified {
        Some(verified) => write!(out, "{}", cluster_verify::ended(verified)),
        None => writeln!(
            out,
            "  compare   {}",
            verify::command(&args.cluster.cluster)
        ),
    }
}

/// Brings the others back, one after the other. One that is refused or does not come keeps nobody else away.
fn bring_back(
    args: &BootstrapArgs,
    plan: &BootstrapPlan,
    nodes: &Nodes,
    run: &Run,
    context: &Context,
) -> Others {
    let mut others = Others::default();
    for member in &nodes.members {
        if member.name == plan.node || args.without.contains(&member.name) {
            continue;
        }
        if run.cancel.is_cancelled() {
            let node = member.name.clone();
            let stopped = BootstrapError::Interrupted { node };
            others.first_error.get_or_insert(stopped.into());
            break;
        }
        let is_back =
            |one: &refloat_cluster::NodeView| one.name == member.name && one.primary().is_some();
        let view = observe(
            &nodes.name,
            &nodes.members,
            &Observation {
                sample: Duration::ZERO,
                tables: WantedTables::Never,
                ..Observation::default()
            },
        );
        if view.nodes.iter().any(is_back)
            && view
                .serving()
                .any(|(at, _)| view.nodes[at].name == member.name)
        {
            continue;
        }
        match one_back(args, &member.name, nodes, run, context) {
            Ok((rejoined, proven)) => {
                others.unproven |= !proven;
                others.back.push(rejoined);
            }
            Err(error) => {
                run.events
                    .warn(format!("{} is not back: {error:#}", member.name));
                others.not_back.push(NotBack {
                    node: member.name.clone(),
                    reason: exit::redact(&exit::chain_text(&error)),
                });
                others.first_error.get_or_insert(error);
            }
        }
    }
    others
}

fn one_back(
    args: &BootstrapArgs,
    node: &str,
    nodes: &Nodes,
    run: &Run,
    context: &Context,
) -> anyhow::Result<(Rejoined, bool)> {
    let asked = Asked {
        node,
        leave: Leave {
            sst: args.allow_sst,
            discard: None,
            failing: false,
        },
        hold: None,
        sst_rate: None,
    };
    let plan = planned(&asked, nodes, &args.cluster, context)?;
    plan.check(&asked.leave)?;
    let rejoining = Rejoining {
        members: &nodes.members,
        control: nodes.control(node)?,
        state_dir: context.state_dir(),
        run,
        start_limit: start_limit(args.start_limit, args.allow_sst),
    };
    let rejoined = rejoining.bring_back(&plan, &asked.leave)?;
    let proven = is_proven(&rejoined, &plan, None);
    Ok((rejoined, proven))
}

/// Where it stands that a cluster was to begin, until all nodes are back.
struct Mark {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Marked {
    plan: BootstrapPlan,
}

impl Mark {
    fn of(cluster: &str, context: &Context) -> Self {
        Self {
            path: ClusterLock::path(cluster, context).with_extension("bootstrap.json"),
        }
    }

    /// The plan of a command that ended before all were back, where its node serves by now, or is on its way to.
    fn goes_on(&self, nodes: &Nodes, view: &ClusterView) -> Option<BootstrapPlan> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        let Marked { plan } = serde_json::from_str(&text).ok()?;
        let is_it = nodes.members.get(plan.at)?.name == plan.node;
        let others_serve = view
            .nodes
            .iter()
            .enumerate()
            .any(|(at, node)| at != plan.at && node.primary().is_some());
        let begun = match view.nodes[plan.at].primary() {
            Some(state) => state.cluster_uuid == plan.uuid,
            None if others_serve => false,
            None => {
                let control = nodes.control(&plan.node).ok()?;
                control.is_running().ok()? == Some(true)
            }
        };
        let all_serve = view.quorum.synced == view.nodes.len();
        (is_it && begun && !all_serve).then_some(plan)
    }

    fn write(&self, plan: &BootstrapPlan) -> anyhow::Result<()> {
        let text = serde_json::to_string(&Marked { plan: plan.clone() })?;
        let new = self.path.with_extension("new");
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn remove(&self) {
        // One that is left behind is looked at only when its node serves alone.
        let _ = std::fs::remove_file(&self.path);
    }
}
