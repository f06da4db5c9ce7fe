//! `refloat cluster bootstrap`: starts a cluster again after all its nodes went down.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::{
    Begun, BootstrapError, BootstrapPlan, BootstrapWish, Bootstrapping, ClusterView, Leave,
    Observation, Rejoined, Rejoining, Verified, WantedTables, observe, plan_bootstrap,
};
use refloat_host::Control;
use refloat_report::{bootstrap as face, cluster_verify, rejoin as rejoin_face};
use refloat_run::Run;
use refloat_run::events::RunResult;
use serde::{Deserialize, Serialize};

use super::busy::{refuse_maintained, refuse_open, refuse_restored, refuse_second};
use super::lock::ClusterLock;
use super::members::{ClusterOf, Nodes};
use super::rejoin::{Asked, How, VerifyAfter, has_known_history, is_left, is_proven, planned};
use super::{print_plan, start_limit, verify};
use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};
use crate::record::record;
use crate::shell::word;
use crate::sizes::parse_time;
use crate::watch::{Show, Watch};

const COMMAND: &str = "cluster bootstrap";

const AFTER_HELP: &str = "\
EXAMPLES:
  All nodes are down: which one would the cluster start from, and why?
      refloat cluster bootstrap --cluster shop.toml --plan

  Bootstrap it from that node, and bring the others back:
      refloat cluster bootstrap --cluster shop.toml

  A machine is gone for good, with whatever only it held:
      refloat cluster bootstrap --cluster shop.toml --without db3

  Two nodes went on without each other, and db1 is the one to keep:
      refloat cluster bootstrap --cluster shop.toml --node db1

Every node must be down and its position known, from its grastate.dat or recovered from its tables
(mariadbd --wsrep-recover; units with MariaDB's galera_recovery, and the sandbox). The cluster
starts from the most advanced node. Nodes that are equally advanced hold the same data; of those,
the one that left last is taken, or else the first in the list. A position counts only if the
write-sets are the same: the last ones that the others hold are compared with those of that node
(galera.cache). Nodes of different histories, and nodes of one history that went on without each
other, are rival candidates: both sides are shown, and nothing is started until --node says which
one to keep. What cannot be compared is reported as a warning.

That node gets its position and `safe_to_bootstrap: 1` written into its grastate.dat, and is
started. The others are brought back one by one, as by `refloat cluster rejoin`. A node that would
need a full copy stays down unless --allow-sst is given; the rest goes on. After Ctrl-C, a crash
or a node that did not start, the same command resumes; with a different --node or --without it is
refused.

EXIT CODES:
  0  the cluster serves, and all others are back
  1  the bootstrapped node does not serve, or another one is not back
  3  refused: a node runs, a position is not known, or there are two candidates; or the cluster
     serves, but a node that needs a full copy was refused
  4  a node is back, but it differs from the others, or it is not known whether it does
  5  stopped on request
  6  a node still keeps write-sets: `refloat settings revert`";

/// Bootstrap a cluster whose nodes are all down, from the most advanced one
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct BootstrapArgs {
    /// Bootstrap from this node, whatever the others hold
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// Go on without this node, whose position is not known: it may be the most advanced one
    #[arg(long, value_name = "NODE", action = clap::ArgAction::Append)]
    without: Vec<String>,

    /// Let nodes take a full copy (SST) if they need one and hold nothing that exists nowhere else
    #[arg(long)]
    allow_sst: bool,

    /// How long each server may take from its start until its node is in sync [default: 1h; no
    /// limit with --allow-sst]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start_limit: Option<Duration>,

    /// Say what would be done; do nothing but recover positions that were not written down
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

/// The result of bringing the other nodes back.
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
    hints: Vec<String>,
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
    let plan = if let Some(plan) = mark.unfinished_plan(&nodes, &view) {
        as_begun(&plan, args.node.as_deref(), &args.without)?;
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
    // If every other node is left out, there is nothing to compare.
    let alone = plan.left_out().count() + 1 == nodes.members.len();
    let verified = match args.verify.verify.filter(|_| error.is_none() && !alone) {
        None => None,
        Some(how) => verify::after(&nodes, &args.without, how == How::Quick, &run)
            .map_err(|failed| error = Some(failed.into()))
            .ok(),
    };
    // A full comparison reads every row; counts and checksums cannot prove that much.
    let overrules = verified.as_ref().is_some_and(|verified| !verified.quick);
    let same = verified.as_ref().is_none_or(Verified::is_same) && (overrules || !others.unproven);
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
    let serves = begun.is_some();
    if let Some(begun) = begun.filter(|_| !args.json) {
        page(args, &begun, &others, verified.as_ref(), context)?;
    }
    if let Some(error) = &error {
        exit::report_with(error, context, |hint| {
            let node = "The cluster serves, and this node was not started.";
            match hint.strip_prefix("Nothing was started.") {
                Some(rest) if serves => format!("{node}{rest}"),
                _ => hint,
            }
        });
    }
    Ok(exit::of_result(result))
}

fn page(
    args: &BootstrapArgs,
    begun: &Begun,
    others: &Others,
    verified: Option<&Verified>,
    context: &Context,
) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    write!(out, "{}", face::begun(begun))?;
    for one in &others.back {
        write!(out, "{}", rejoin_face::ended(one))?;
    }
    for one in &others.not_back {
        writeln!(out, "{} is NOT BACK: {}", one.node, one.reason)?;
        for hint in &one.hints {
            writeln!(out, "  {hint}")?;
        }
    }
    for node in &args.without {
        writeln!(out, "{node} was left out")?;
    }
    if let Some(verified) = verified {
        write!(out, "{}", cluster_verify::ended(verified))?;
        write!(out, "{}", context.with_cluster(&verify::copies(verified)))?;
    }
    let back = others.back.iter();
    let unknown: Vec<&str> = back
        .filter(|one| !has_known_history(one))
        .map(|one| one.node.as_str())
        .collect();
    let every_row = !unknown.is_empty();
    if every_row && verified.is_some_and(|verified| verified.quick) {
        write!(out, "{}", cluster_verify::not_proven(&unknown))?;
    }
    if verified.is_none_or(|verified| verified.quick && every_row) {
        write!(out, "{}", verify::offer(&args.cluster, !every_row))?;
    }
    Ok(())
}

/// Refuses to resume a bootstrap that was started with other options.
fn as_begun(plan: &BootstrapPlan, node: Option<&str>, without: &[String]) -> anyhow::Result<()> {
    let flags = |node: Option<&str>, without: &BTreeSet<&str>| {
        let without = without
            .iter()
            .map(|name| format!("--without {}", word(name)));
        let node = node.map(|name| format!("--node {}", word(name)));
        node.into_iter()
            .chain(without)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let then: BTreeSet<&str> = plan.left_out().collect();
    let now: BTreeSet<&str> = without.iter().map(String::as_str).collect();
    if now == then && node.is_none_or(|node| node == plan.node) {
        return Ok(());
    }
    let begun = flags(Some(&plan.node), &then);
    let now = match flags(node, &now) {
        given if given.is_empty() => "nobody is left out".to_owned(),
        given => format!("it is {given}"),
    };
    Err(ProgramError::new(
        Exit::Refused,
        format!(
            "the bootstrap of {} has not ended: it was begun as {begun}, and now {now}",
            plan.cluster
        ),
    )
    .hint(format!("`refloat cluster bootstrap {begun}` resumes it."))
    .hint(format!(
        "{} has bootstrapped the cluster: `refloat cluster rejoin NODE` brings others back one by \
        one, and another node can bootstrap it only when all are stopped.",
        plan.node
    ))
    .into())
}

/// Brings the other nodes back one after the other. A node that is refused or does not come back
/// does not hold up the rest.
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
                    hints: exit::hints_of(&error),
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

/// The file that records a started bootstrap until all nodes are back.
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

    /// The plan of a bootstrap that ended before all nodes were back. Its node must serve the
    /// cluster that it began or, if no node serves, its server must at least be running.
    fn unfinished_plan(&self, nodes: &Nodes, view: &ClusterView) -> Option<BootstrapPlan> {
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
        // A leftover file does no harm: `unfinished_plan` checks it against the cluster first.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use refloat_cluster::Standing;

    use super::*;

    #[test]
    fn only_the_same_command_goes_on() {
        let standing = |name: &str, unknown: Option<&str>| Standing {
            name: name.to_owned(),
            place: None,
            recovered: false,
            forgotten: false,
            last: false,
            unknown: unknown.map(str::to_owned),
        };
        let plan = BootstrapPlan {
            cluster: "shop".to_owned(),
            node: "n1".to_owned(),
            at: 0,
            uuid: "u".to_owned(),
            seqno: 9,
            nodes: vec![
                standing("n1", None),
                standing("n2", None),
                standing("n3", Some("it is left out")),
            ],
            warnings: Vec::new(),
        };
        let resume = |node: Option<&str>, without: &[&str]| {
            let without: Vec<String> = without.iter().map(|one| (*one).to_owned()).collect();
            as_begun(&plan, node, &without).map_err(|error| error.to_string())
        };
        assert_eq!(resume(None, &["n3"]), Ok(()));
        assert_eq!(resume(Some("n1"), &["n3", "n3"]), Ok(()));
        assert_eq!(
            resume(Some("n2"), &["n3"]).unwrap_err(),
            "the bootstrap of shop has not ended: it was begun as --node n1 --without n3, and now it is --node n2 --without n3"
        );
        let all = resume(None, &[]).unwrap_err();
        assert!(all.ends_with("and now nobody is left out"), "{all}");
        assert!(resume(None, &["n2", "n3"]).is_err());
    }
}
