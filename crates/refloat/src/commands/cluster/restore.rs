//! `refloat cluster restore`: restores a whole cluster from a dump.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::advise::{Advice, Mistake};
use refloat_cluster::{
    Rate, Rates, Restore, RestoreError, RestorePlan, RestoreState, RestoreStep, RestoreWay,
    RestoreWish, Restored, asked_for, differing, plan_restore,
};
use refloat_host::Control;
use refloat_load::LoadOptions;
use refloat_report::restore as face;
use refloat_run::events::RunResult;
use refloat_run::{Run, RunDir};
use refloat_wire::ConnectOptions;

use super::busy::{RESTORE, newest_restore, refuse_held, refuse_second, unfinished_restore};
use super::lock::ClusterLock;
use super::members::{ClusterOf, Nodes};
use super::{copies, print_plan};
use crate::commands::load::{DataArgs, HowArgs, TroubleArgs, WhatArgs, restore_options};
use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};
use crate::record::record;
use crate::shell::word;
use crate::sizes::{parse_bytes, parse_time};
use crate::watch::{Show, Watch};

const AFTER_HELP: &str = "\
EXAMPLES:
  What would be done, how long would it take, and what stands in the way?
      refloat cluster restore shop.sql.gz --cluster shop.toml --plan

  Do it:
      refloat cluster restore shop.sql.gz --cluster shop.toml

  Replace existing tables with those of the dump:
      refloat cluster restore /backup/shop --cluster shop.toml --replace

  After Ctrl-C, a crash, a node that did not start: the same command resumes
      refloat cluster restore shop.sql.gz --cluster shop.toml

  Look at the loaded node before the cluster is bootstrapped from it:
      refloat cluster restore shop.sql.gz --cluster shop.toml \\
          --stop-before bootstrap

There are two ways. Without --way the faster one is taken, or replicate if a rate was never \
measured on this cluster. `replicate` loads into one node of the running cluster. `rebuild` stops \
the other nodes, starts one as a standalone server with the wsrep provider off and a port of its \
own, loads into it, bootstraps the cluster from it, and has the others take full copies (SST). \
With rebuild the cluster serves nobody until the loaded node is back, and consists of one node \
until the others are.

Rows that arrive without write-sets do not advance the cluster's seqno. So that no node can join \
with an old one and differ for ever, rebuild begins a new history. What the others held is set \
aside (DATADIR.refloat-RUN), not deleted, if there is room. At the end every node is compared with \
the one that was loaded.

Steps: stop, standalone, load, bootstrap, rejoin, verify. Each is checked beforehand, proven \
afterwards and recorded, so the same command resumes at the step that failed.

The list of nodes must say how each node is started and stopped (control); see `refloat cluster \
--help`.

EXIT CODES:
  0  every node is in sync and holds the same data
  1  a step failed: the output says what was done and what was not
  3  refused before anything was touched
  4  what was loaded is not proven, or nodes differ
  5  stopped on request, and can be resumed";

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
/// Restore a whole cluster from a dump: load into one node, rebuild the others, compare all
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct RestoreArgs {
    /// The dump: a file or a folder, of any kind that `refloat load` takes
    #[arg(value_name = "SOURCE")]
    source: PathBuf,

    /// The node to load into [default: of the most advanced nodes, the one with the most space]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// How the rows reach all nodes [default: the faster way]
    #[arg(long, value_name = "WAY", value_enum)]
    way: Option<RestoreWay>,

    /// Stop before this step; the same command without this flag resumes
    #[arg(long, value_name = "STEP", value_enum)]
    stop_before: Option<RestoreStep>,

    /// Resume an unfinished restore; fail if there is none
    #[arg(long, conflicts_with = "restart")]
    resume: bool,

    /// Forget an unfinished restore, and plan a new one from the current state of the nodes
    #[arg(long)]
    restart: bool,

    /// Abandon an unfinished restore: stop the standalone node, so that it starts as a node of the
    /// cluster again
    ///
    /// Nothing else is started or stopped, and no data are touched. The output says where each node
    /// stood, and what it holds.
    #[arg(long, conflicts_with_all = ["resume", "restart", "stop_before"])]
    give_up: bool,

    /// Go on even though another machine may still drive this restore: only if you know that it
    /// does not
    #[arg(long)]
    take_over: bool,

    /// Let nodes lose their old data if none of them can set it aside
    #[arg(long)]
    discard_old: bool,

    /// Go on even if something is found that would make full copies fail
    #[arg(long)]
    ignore_advice: bool,

    /// Bytes of dump text per second that a load writes [default: as in the last restore, or
    /// measured]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    load_rate: Option<u64>,

    /// The same through replication [default: as in the last restore or load, or measured]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    replicate_rate: Option<u64>,

    /// Bytes per second that a full copy moves [default: as in the last restore or rejoin, or
    /// measured]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    sst_rate: Option<u64>,

    /// How long a server may take to start, and to bootstrap the cluster
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_time)]
    start_limit: Duration,

    #[command(flatten)]
    cluster: ClusterOf,

    #[command(flatten)]
    what: WhatArgs,

    #[command(flatten)]
    data: DataArgs,

    #[command(flatten)]
    how: HowArgs,

    #[command(flatten)]
    trouble: TroubleArgs,

    /// Print events and the result as JSON lines on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The request and its target.
struct Asked<'a> {
    args: &'a RestoreArgs,
    nodes: &'a Nodes,
    controls: &'a [Option<&'a Control>],
    load: &'a LoadOptions,
    context: &'a Context,
}

impl Asked<'_> {
    fn show(&self) -> Show {
        if self.args.json {
            Show::Json
        } else {
            Show::Lines
        }
    }
}

pub fn run(args: &RestoreArgs, context: &Context) -> anyhow::Result<Exit> {
    refuse_standard_input(args)?;
    let (nodes, candidates) = args.cluster.candidates(context)?;
    let candidates = if args.ignore_advice {
        Vec::new()
    } else {
        candidates
    };
    let controls = controls(&nodes)?;
    refuse_second(&nodes.name, context)?;
    let _lock = ClusterLock::take(&nodes.name, context)?;
    let load = restore_options(
        &args.source,
        ConnectOptions::default(),
        (&args.what, &args.data, &args.how, &args.trouble),
    );
    let asked = Asked {
        args,
        nodes: &nodes,
        controls: &controls,
        load: &load,
        context,
    };
    let open = unfinished_restore(&nodes.name, context)?;
    if args.resume && open.is_none() {
        return Err(ProgramError::new(
            Exit::Refused,
            format!("no restore of {} is open on this machine", nodes.name),
        )
        .hint("Its run's folder has to be in the state directory (REFLOAT_STATE_DIR).")
        .into());
    }
    if let Some((dir, state)) = open.as_ref().filter(|_| args.what.plan && !args.restart) {
        print_open(dir, state, args.json)?;
        return Ok(Exit::Done);
    }
    if args.give_up {
        return give_up(open, &asked);
    }
    let known = match &open {
        Some((_, state)) => places(state),
        None => given_up(&nodes.name, context)?.map_or_else(Vec::new, |state| places(&state)),
    };
    if args.what.plan {
        let (plan, _) = planned(&asked, &known)?;
        print_plan(&plan, face::plan, args.json)?;
        return Ok(Exit::Done);
    }
    let (watch, run, mut state) = match open {
        Some((dir, state)) if !args.restart => {
            let (watch, run) = resume(dir, &state, &asked)?;
            (watch, run, state)
        }
        earlier => begin(earlier, &known, &asked)?,
    };
    let restore = Restore {
        candidates: &candidates,
        ..restore(&asked, &run)
    };
    let driving = match restore.drive(&state, args.take_over) {
        Ok(driving) => driving,
        Err(error) => {
            watch.stop();
            return Err(anyhow::Error::new(error));
        }
    };
    let result = restore.run(&mut state, args.stop_before);
    if state.step == RestoreStep::Ended {
        driving.end();
    }
    finish(result, &state, &run, watch, args.json, context)
}

fn refuse_standard_input(args: &RestoreArgs) -> anyhow::Result<()> {
    if args.source.as_os_str() == "-" {
        return Err(ProgramError::usage(
            "a restore reads its source again when it is resumed, and standard input can be read \
            only once",
        )
        .hint("Write it to a file first.")
        .into());
    }
    Ok(())
}

/// Prints what would be resumed, instead of a plan.
fn print_open(dir: &RunDir, state: &RestoreState, json: bool) -> anyhow::Result<()> {
    if json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string(state)?)?;
    } else {
        write!(
            std::io::stdout(),
            "Run {}, begun at {}, would be resumed. {}",
            dir.id(),
            dir.info().started,
            face::progress(state)
        )?;
    }
    Ok(())
}

/// Resumes the run of an unfinished restore, if the request is the same as when it began.
fn resume(dir: RunDir, state: &RestoreState, asked: &Asked<'_>) -> anyhow::Result<(Watch, Run)> {
    check_same(state, asked.load, asked.nodes)?;
    let (watch, run) = Watch::of(dir, asked.show(), asked.context)?;
    run.events.note(format!(
        "resuming the restore that began at {} (run {}), at the step {}",
        run.dir.info().started,
        run.dir.id(),
        state.step.word()
    ));
    Ok((watch, run))
}

/// Plans a restore and begins its run, which replaces an unfinished earlier one.
fn begin(
    earlier: Option<(RunDir, RestoreState)>,
    known: &[(String, (String, u64))],
    asked: &Asked<'_>,
) -> anyhow::Result<(Watch, Run, RestoreState)> {
    let args = asked.args;
    let (plan, dir) = planned(asked, known)?;
    if !args.json {
        write!(std::io::stderr(), "{}", face::plan(&plan))?;
    }
    let (watch, run) = Watch::of(dir, asked.show(), asked.context)?;
    let restore = restore(asked, &run);
    let state = restore.begin(&asked.nodes.name, plan, command_to_go_on(args))?;
    if let Some((dir, mut old)) = earlier {
        restore.forget_claim(&old, dir.id().as_str());
        old.step = RestoreStep::Ended;
        dir.write(refloat_cluster::RESTORE_STATE, &old)?;
    }
    Ok((watch, run, state))
}

/// The command that resumes the restore started by this process.
fn command_to_go_on(args: &RestoreArgs) -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let source = args.source.to_string_lossy();
    let path = std::fs::canonicalize(&args.source).unwrap_or_else(|_| args.source.clone());
    again(words, (&source, &path.to_string_lossy()))
}

/// The same command without the flags that only apply once, and with a path to the source that
/// works from any directory.
fn again(words: impl Iterator<Item = String>, (source, path): (&str, &str)) -> String {
    const ONCE: [&str; 4] = ["--resume", "--restart", "--take-over", "--json"];
    const UNTIL: &str = "--stop-before";
    let mut command = vec!["refloat".to_owned()];
    let mut words = words.peekable();
    while let Some(given) = words.next() {
        if given == UNTIL {
            words.next();
        } else if given == source {
            command.push(word(path));
        } else if !ONCE.contains(&given.as_str()) && !given.starts_with("--stop-before=") {
            command.push(word(&exit::redact(&given)));
        }
    }
    command.push("--resume".to_owned());
    command.join(" ")
}

/// Abandons an unfinished restore and reports what is left.
fn give_up(open: Option<(RunDir, RestoreState)>, asked: &Asked<'_>) -> anyhow::Result<Exit> {
    let (args, nodes) = (asked.args, asked.nodes);
    let Some((dir, mut state)) = open else {
        return Err(ProgramError::new(
            Exit::Refused,
            format!("no restore of {} is open on this machine", nodes.name),
        )
        .into());
    };
    check_list(&state, nodes)?;
    let (watch, run) = Watch::of(dir, asked.show(), asked.context)?;
    let begun = state.step;
    let restore = restore(asked, &run);
    let driving = restore.drive(&state, args.take_over);
    let result = driving.and_then(|driving| {
        restore.give_up(&mut state)?;
        driving.end();
        Ok(())
    });
    watch.stop();
    result?;
    if args.json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&state)?)?;
    } else {
        write!(std::io::stdout(), "{}", face::given_up(&state, begun))?;
    }
    Ok(Exit::Done)
}

fn restore<'a>(asked: &Asked<'a>, run: &'a Run) -> Restore<'a> {
    Restore {
        members: &asked.nodes.members,
        controls: asked.controls,
        load: asked.load.clone(),
        state_dir: asked.context.state_dir(),
        run,
        start_limit: asked.args.start_limit,
        candidates: &[],
    }
}

fn controls(nodes: &Nodes) -> anyhow::Result<Vec<Option<&Control>>> {
    let controls = nodes.controls.iter().map(|control| match control {
        Ok(control) => Ok(control.as_ref()),
        Err(error) => Err(ProgramError::new(Exit::Refused, error.to_string()).into()),
    });
    controls.collect()
}

/// The newest restore of this cluster, if it was given up: its nodes may be down, and only its
/// record knows their positions.
fn given_up(cluster: &str, context: &Context) -> anyhow::Result<Option<RestoreState>> {
    let newest = newest_restore(cluster, context, |_| true)?;
    Ok(newest
        .map(|(_, state)| state)
        .filter(|state| state.given_up))
}

/// Positions of its nodes before it started.
fn places(state: &RestoreState) -> Vec<(String, (String, u64))> {
    let nodes = state.plan.nodes.iter().zip(&state.nodes);
    nodes
        .filter_map(|(node, progress)| {
            let planned = || {
                let (uuid, seqno) = node.history.clone()?;
                Some((uuid, seqno?))
            };
            let place = progress.left.clone().or_else(planned)?;
            Some((node.name.clone(), place))
        })
        .collect()
}

fn check_same(state: &RestoreState, load: &LoadOptions, nodes: &Nodes) -> anyhow::Result<()> {
    let refused = |message: String, hint: &str| {
        Err(ProgramError::new(Exit::Refused, message).hint(hint).into())
    };
    if state.asked != asked_for(load) {
        return refused(
            format!(
                "a restore of {} has not ended, and it was begun otherwise in {}",
                state.cluster,
                differing(&state.asked, &asked_for(load)).join(" and ")
            ),
            &format!(
                "To resume it: `{}`. --give-up ends it, and --restart forgets it and starts over.",
                state.command
            ),
        );
    }
    check_list(state, nodes)
}

fn check_list(state: &RestoreState, nodes: &Nodes) -> anyhow::Result<()> {
    let planned = state.plan.nodes.iter().map(|node| &node.name);
    if !planned.eq(nodes.members.iter().map(|member| &member.name)) {
        return Err(ProgramError::new(
            Exit::Refused,
            "the list names other nodes, or in another order, than when this was begun",
        )
        .hint("Use the list as it was then.")
        .into());
    }
    Ok(())
}

/// The rates for estimating both ways.
fn rates(args: &RestoreArgs, cluster: &str, context: &Context) -> Rates {
    let known = Rates::measured(context.state_dir(), cluster);
    let given = |rate: Option<u64>| Some(Rate::given(rate?.max(1) as f64));
    Rates {
        load: given(args.load_rate).unwrap_or(known.load),
        replicate: given(args.replicate_rate).unwrap_or(known.replicate),
        copy: given(args.sst_rate).unwrap_or(known.copy),
        ..known
    }
}

/// The plan, and the folder of its run, which names the data that is set aside.
fn planned(
    asked: &Asked<'_>,
    known: &[(String, (String, u64))],
) -> anyhow::Result<(RestorePlan, RunDir)> {
    let Asked {
        args,
        nodes,
        controls,
        load,
        context,
    } = *asked;
    // A node that is away for maintenance is down, and people may be working on its machine.
    refuse_held(nodes)?;
    let wish = RestoreWish {
        node: args.node.clone(),
        way: args.way,
        rates: rates(args, &nodes.name, context),
        measure: !args.what.plan,
        discard_old: args.discard_old,
        known: known.to_vec(),
    };
    let dir = RunDir::create(context.state_dir(), RESTORE)
        .context("cannot begin the record of the run")?;
    let plan = plan_restore(&nodes.name, &nodes.members, controls, load, &wish, dir.id());
    let keep = plan.is_ok() && !args.what.plan;
    if !keep {
        // The folder contains only the owner.
        let _ = std::fs::remove_dir_all(dir.path());
    }
    let mut plan = plan?;
    if plan.way == RestoreWay::Rebuild && !args.ignore_advice {
        let checked = copies_work(args, &plan, context);
        if checked.is_err() {
            let _ = std::fs::remove_dir_all(dir.path());
        }
        if let Some(advice) = checked? {
            plan.add_advice(&advice);
        }
    }
    Ok((plan, dir))
}

/// Refuses if something would make full copies fail. That is visible only while nodes run; once all
/// are down, each is checked before it takes its copy.
fn copies_work(
    args: &RestoreArgs,
    plan: &RestorePlan,
    context: &Context,
) -> anyhow::Result<Option<Advice>> {
    if !plan.nodes.iter().any(|node| node.runs) || plan.nodes.len() < 2 {
        return Ok(None);
    }
    let advice = copies::look(&args.cluster, None, context)?;
    let fails: Vec<String> = advice.failing().map(Mistake::describe).collect();
    if fails.is_empty() {
        return Ok(Some(advice));
    }
    Err(ProgramError::new(
        Exit::Refused,
        format!("full copies to the others would fail: {}", fails.join("; ")),
    )
    .hint("Nothing was touched. `refloat cluster advise` says what to do; --ignore-advice continues all the same.")
    .into())
}

/// Reports and records how the restore ended.
fn finish(
    result: Result<Option<Restored>, RestoreError>,
    state: &RestoreState,
    run: &Run,
    watch: Watch,
    json: bool,
    context: &Context,
) -> anyhow::Result<Exit> {
    let (outcome, error) = match result {
        Ok(outcome) => (outcome, None),
        Err(error) => (None, Some(anyhow::Error::new(error))),
    };
    let result = match &error {
        // Once nodes have been stopped, it is a failure, even if the failed step calls it a
        // refusal.
        Some(error) => match exit::result_of(error) {
            RunResult::Refused if state.step > RestoreStep::Stop => RunResult::Failed,
            result => result,
        },
        None if outcome.is_none() => RunResult::Interrupted,
        None => RunResult::Done,
    };
    watch.quiet();
    let seconds = run.events.elapsed().as_secs_f64();
    let summary = match &outcome {
        Some(outcome) => serde_json::to_value(outcome),
        None => serde_json::to_value(state),
    };
    record(
        run,
        seconds,
        summary.context("the result is not JSON")?,
        result,
        error.as_ref(),
    );
    watch.stop();
    if !json {
        let text = match &outcome {
            Some(outcome) => face::ended(outcome),
            None => face::progress(state),
        };
        write!(std::io::stdout(), "{text}")?;
    }
    if let Some(error) = &error {
        exit::report(error, context);
    }
    Ok(exit::of_result(result))
}

#[cfg(test)]
mod tests {
    use super::again;

    #[test]
    fn the_command_that_goes_on_can_be_given_as_it_stands() {
        let words = "cluster restore a b.sql|--cluster|c.toml|--way|rebuild|--replace|--stop-before|load|--stop-before=load|--restart|--json|--tables|a.*";
        let words = words.replacen("cluster restore ", "cluster|restore|", 1);
        let words = words.split('|').map(str::to_owned);
        assert_eq!(
            again(words, ("a b.sql", "/d/a b.sql")),
            "refloat cluster restore '/d/a b.sql' --cluster c.toml --way rebuild --replace --tables 'a.*' --resume"
        );
    }
}
