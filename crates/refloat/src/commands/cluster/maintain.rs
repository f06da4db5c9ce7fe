//! `refloat cluster maintain`: takes a node away and lets it come back by IST, not by a full copy.

mod detached;
mod work;

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::advise::Advice;
use refloat_cluster::{
    CameBy, HoldPlan, HoldWish, MaintainError, MaintainLimits, MaintainState, Maintained,
    Maintenance, Observation, WantedTables, Work, observe, open_maintenance, plan_hold,
};
use refloat_host::Host;
use refloat_report::maintain as face;
use refloat_run::events::RunResult;
use refloat_run::{Refusal, Run, RunDir};

use super::busy::{
    MAINTAIN, refuse_for, refuse_held, refuse_maintained, refuse_open, refuse_restored,
    refuse_second, unfinished_maintenances,
};
use super::lock::ClusterLock;
use super::members::{ClusterOf, Nodes};
use super::rejoin::is_left;
use super::{copies, print_plan, start_limit, verify};
use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};
use crate::record::record;
use crate::sizes::{parse_bytes, parse_time};
use crate::watch::{Show, Watch};
use work::{Program, RUN_VARIABLE, UntilEnd};

/// Hint when something would keep a node from coming back.
const SEE_ADVISE: &str =
    "`refloat cluster advise` says what to do; --ignore-advice continues all the same.";
/// How long write-sets are held at most, as a multiple of the node's expected absence.
const LIMIT_TIMES: u32 = 3;

const AFTER_HELP: &str = "\
EXAMPLES:
  Upgrade the packages of a node, and have it catch up by IST:
      refloat cluster maintain db2 --cluster shop.toml --for 10m \\
          -- ssh root@db2 apt-get upgrade -y

  What would be done, and how long would the write-sets last?
      refloat cluster maintain db2 --cluster shop.toml --for 2h --plan

  By hand, with a new disk in between:
      refloat cluster maintain db2 --cluster shop.toml --for 2h --begin
      refloat cluster maintain db2 --cluster shop.toml --end

A node that comes back needs the write-sets that it missed. The others discard old ones all the \
time: what lasts for an hour on a quiet day lasts for a minute while a dump is being loaded, and \
then the node takes a full copy of everything. So maintain first has the others keep them (and stop \
afterwards, whatever happens). How much memory that takes, and how long it will last, is reported \
before anything is touched. Then the node is stopped, the command runs, the node is started, and \
its log proves how it came back.

If the budget is used up before the node is back, holding ends by itself: a warning says so, and \
the cluster is as it was. After kill -9, `refloat settings revert` puts back the settings of the \
others, and --end starts the node.

The list of nodes must say how this node is started and stopped (control); see `refloat cluster \
--help`.

EXIT CODES:
  0  the node is back by IST, and all settings are put back
  1  the command failed (the node is back), or the node did not come back
  3  refused before anything was touched
  4  the node is back, but by a full copy, or it is not known how
  6  a node still keeps write-sets: `refloat settings revert`";

/// For how long what a node misses is kept, and within which limits.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// How long a node will be away: 90s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    away: Duration,

    /// Bytes that each of the other nodes may use to hold write-sets [default: as needed, at most a
    /// quarter of its available memory, or 1G if that is not known]
    #[arg(long = "hold", value_name = "SIZE", value_parser = parse_bytes)]
    bytes: Option<u64>,

    /// How long to measure the write rate
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_time)]
    sample: Duration,

    /// Stop holding on a node whose machine has less memory or disk space left than this
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_bytes)]
    keep_free: u64,

    /// Stop holding write-sets after this time [default: three times --for]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    limit: Option<Duration>,

    /// How long a server may take from its start until the node is in sync [default: 1h; no limit
    /// with --allow-sst]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start_limit: Option<Duration>,

    /// Go on even if the held write-sets will not last: the node may need a full copy
    #[arg(long)]
    allow_sst: bool,

    /// Go on even if something is found that would keep a node from coming back
    #[arg(long)]
    pub ignore_advice: bool,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
/// Take a node down for a while and have it come back by IST, not by a full copy
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct MaintainArgs {
    /// The node, by its name in the list
    #[arg(value_name = "NODE")]
    node: String,

    #[command(flatten)]
    hold: HoldArgs,

    /// Say what would be done, and do nothing
    #[arg(long, conflicts_with_all = ["begin", "end"])]
    plan: bool,

    /// Stop the node and return; a background process watches the held write-sets until --end
    #[arg(long, conflicts_with = "end")]
    begin: bool,

    /// Start the node that --begin stopped, or whose maintenance was killed
    #[arg(long)]
    end: bool,

    /// The process in the background.
    #[arg(long, hide = true, conflicts_with_all = ["begin", "end", "plan"])]
    until_end: bool,

    #[command(flatten)]
    cluster: ClusterOf,

    /// Print events and the result as JSON lines on stdout
    #[arg(long, help_heading = "Output", conflicts_with_all = ["begin", "end"])]
    json: bool,

    /// What to run while the node is down, after `--`: a program and its arguments
    #[arg(last = true, value_name = "MAINTAIN", conflicts_with_all = ["begin", "end", "plan", "until_end"])]
    command: Vec<String>,
}

pub fn run(args: &MaintainArgs, context: &Context) -> anyhow::Result<Exit> {
    if args.end {
        return detached::end(args, context);
    }
    if args.begin {
        return detached::begin(args, context);
    }
    if args.command.is_empty() && !args.plan && !args.until_end {
        return Err(ProgramError::usage(
            "no command is given to run while the node is down",
        )
        .hint("Give a command behind `--`, or --begin and later --end, or --plan to see what would be done.")
        .into());
    }
    let nodes = args.cluster.nodes(context)?;
    let begin = Begin {
        nodes: &nodes,
        cluster: &args.cluster,
        node: &args.node,
        hold: &args.hold,
        json: args.json,
        context,
    };
    if args.plan {
        return begin.show();
    }
    let ended = if args.until_end {
        begin.run(|run| Box::new(UntilEnd::new(&run.dir)))?
    } else {
        begin.with_program(&args.command)?
    };
    if !args.json {
        offer_comparison(&Vec::from_iter(ended.back), &args.cluster)?;
    }
    Ok(ended.exit)
}

/// How a maintenance ended.
pub struct Ended {
    /// The exit code.
    pub exit: Exit,
    /// How the node came back. `None`: it did not, or was never away.
    pub back: Option<CameBy>,
}

/// Offers the comparison of all nodes, once some of them have come back. The quick one sees little
/// of two nodes whose servers have both been started again, so it is offered for one node only.
pub fn offer_comparison(back: &[CameBy], cluster: &ClusterOf) -> std::io::Result<()> {
    if back.is_empty() {
        return Ok(());
    }
    let quick = matches!(back, [CameBy::Ist | CameBy::Sst]);
    write!(std::io::stdout(), "{}", verify::offer(cluster, quick))
}

/// Unfinished maintenances of a cluster that were started on this machine.
pub fn open_here(cluster: &str, context: &Context) -> anyhow::Result<Vec<(RunDir, MaintainState)>> {
    let mut open = unfinished_maintenances(context)?;
    open.retain(|(_, state)| state.cluster == cluster);
    Ok(open)
}

/// A maintenance that is about to start.
pub struct Begin<'a> {
    /// All nodes of the cluster.
    pub nodes: &'a Nodes,
    /// The option that names the cluster.
    pub cluster: &'a ClusterOf,
    /// Name of the node that goes away.
    pub node: &'a str,
    /// What is held for it.
    pub hold: &'a HoldArgs,
    /// Whether the output is JSON.
    pub json: bool,
    /// State directory, terminal and the like.
    pub context: &'a Context,
}

impl<'a> Begin<'a> {
    /// Prints the plan; the exit code says whether it could be started.
    pub fn show(&self) -> anyhow::Result<Exit> {
        let mut plan = plan(self.nodes, self.node, self.hold, true)?;
        let keeps_away = self.keeps_away()?;
        let begins = keeps_away.is_empty() && (plan.lasts() || self.hold.allow_sst);
        plan.warnings
            .extend(keeps_away.into_iter().map(|one| one.reason));
        print_plan(&plan, face::plan, self.json)?;
        Ok(if begins { Exit::Done } else { Exit::Refused })
    }

    /// Takes the node away, runs a program, and brings the node back.
    pub fn with_program(&self, command: &[String]) -> anyhow::Result<Ended> {
        self.run(|run| {
            let mut surroundings = self.surroundings();
            surroundings.push((RUN_VARIABLE, run.dir.id().to_string()));
            Box::new(Program::new(command, surroundings, self.json))
        })
    }

    /// What would make the node's next start fail, whatever is held for it.
    fn keeps_away(&self) -> anyhow::Result<Vec<Refusal>> {
        if self.hold.ignore_advice {
            return Ok(Vec::new());
        }
        let advice = copies::look(self.cluster, Some(self.node), self.context)?;
        Ok(keeps_away(&advice, self.node))
    }

    /// Environment variables for the program.
    fn surroundings(&self) -> Vec<(&'static str, String)> {
        let member = self.nodes.at(self.node).ok();
        let ssh = match member.and_then(|at| self.nodes.members[at].host.as_ref()) {
            Some(Host::Ssh(name)) => name.clone(),
            _ => String::new(),
        };
        vec![
            ("REFLOAT_NODE", self.node.to_owned()),
            ("REFLOAT_NODE_SSH", ssh),
        ]
    }

    fn run(&self, work: impl FnOnce(&Run) -> Box<dyn Work + 'a>) -> anyhow::Result<Ended> {
        let control = self.nodes.control(self.node)?;
        // Check for open runs before taking the lock: they give a more useful message.
        refuse_second(&self.nodes.name, self.context)?;
        refuse_open(&self.nodes.name, self.context)?;
        let _lock = ClusterLock::take(&self.nodes.name, self.context)?;
        let plan = plan(self.nodes, self.node, self.hold, false)?;
        refuse_for(&self.keeps_away()?)?;
        let show = if self.json { Show::Json } else { Show::Lines };
        let (watch, run) = Watch::begin(MAINTAIN, show, self.context)?;
        if !self.json {
            write!(std::io::stderr(), "{}", face::plan(&plan))?;
        }
        let maintenance = Maintenance {
            members: &self.nodes.members,
            control,
            state_dir: self.context.state_dir(),
            run: &run,
            limits: limits(self.hold, &plan),
        };
        let result = maintenance.run(&self.nodes.name, &plan, work(&run).as_mut());
        finish(result, &run, watch, self.json, self.context)
    }
}

/// What would keep a node from coming back.
pub fn keeps_away(advice: &Advice, node: &str) -> Vec<Refusal> {
    let mistakes = advice.keeps_away(node);
    let reasons = mistakes.iter().map(|mistake| mistake.describe());
    reasons
        .map(|reason| Refusal::new(format!("it would not come back: {reason}")).hint(SEE_ADVISE))
        .collect()
}

fn limits(args: &HoldArgs, plan: &HoldPlan) -> MaintainLimits {
    let away = Duration::from_secs_f64(plan.away_seconds);
    MaintainLimits {
        hold: args.limit.unwrap_or(away * LIMIT_TIMES),
        start: start_limit(args.start_limit, args.allow_sst),
        allow_sst: args.allow_sst,
        keep_free: args.keep_free,
    }
}

fn plan(nodes: &Nodes, node: &str, hold: &HoldArgs, only_shown: bool) -> anyhow::Result<HoldPlan> {
    nodes.at(node)?;
    let how = Observation {
        sample: hold.sample,
        tables: WantedTables::Never,
        ..Observation::default()
    };
    let view = observe(&nodes.name, &nodes.members, &how);
    refuse_restored(nodes, &view)?;
    refuse_held(nodes)?;
    refuse_maintained(nodes, &view)?;
    let (available, disk) = nodes.room(&view);
    let wish = HoldWish {
        away: hold.away,
        bytes: hold.bytes,
        available,
        disk,
    };
    let plan = plan_hold(&view, node, &wish).map_err(|against| ProgramError::refused(&against))?;
    if !plan.lasts() && !hold.allow_sst && !only_shown {
        return Err(ProgramError::new(Exit::Refused, plan.warnings.join("; "))
            .hint(
                "Let the others hold more write-sets with --hold, shorten the absence with \
                --for, choose a quieter hour, or continue with --allow-sst.",
            )
            .into());
    }
    Ok(plan)
}

/// Reports and records how the maintenance ended.
fn finish(
    result: Result<Maintained, MaintainError>,
    run: &Run,
    watch: Watch,
    json: bool,
    context: &Context,
) -> anyhow::Result<Ended> {
    let (outcome, error) = match result {
        Ok(outcome) => (Some(outcome), None),
        Err(error) => (None, Some(anyhow::Error::new(error))),
    };
    // Settings still changed on other nodes come first: they affect people who did not start this.
    let left = open_maintenance(&run.dir)
        .is_ok_and(|open| open.is_some_and(|open| !open.holds.is_empty()))
        || is_left(context);
    let result = match (&outcome, &error) {
        _ if left => RunResult::SettingsLeft,
        (Some(outcome), _) if outcome.work_failed.is_some() => RunResult::Failed,
        (Some(outcome), _) if !matches!(outcome.proof.by, CameBy::Ist | CameBy::Stayed) => {
            RunResult::ProofFailed
        }
        (_, Some(error)) => exit::result_of(error),
        _ if run.cancel.is_cancelled() => RunResult::Interrupted,
        _ => RunResult::Done,
    };
    watch.quiet();
    let seconds = run.events.elapsed().as_secs_f64();
    let summary = serde_json::to_value(&outcome).context("the result is not JSON")?;
    record(run, seconds, summary, result, error.as_ref());
    watch.stop();
    let back = outcome.as_ref().map(|outcome| outcome.proof.by);
    if let Some(outcome) = outcome.filter(|_| !json) {
        write!(std::io::stdout(), "{}", face::ended(&outcome))?;
    }
    if let Some(error) = &error {
        exit::report(error, context);
    }
    Ok(Ended {
        exit: exit::of_result(result),
        back: back.filter(|by| *by != CameBy::Stayed),
    })
}
