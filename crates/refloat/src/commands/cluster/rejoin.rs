//! `refloat cluster rejoin`: brings back a node that is down.

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use refloat_cluster::advise::Mistake;
use refloat_cluster::{
    CameBy, History, Leave, Observation, RejoinKind, RejoinPlan, Rejoined, Rejoining, Verified,
    WantedTables, observe, plan_hold_for_start, plan_rejoin,
};
use refloat_report::{cluster_verify, rejoin as face};
use refloat_run::events::RunResult;
use refloat_run::{Owner, settings};

use super::busy::{refuse_maintained, refuse_open, refuse_restored, refuse_second};
use super::lock::ClusterLock;
use super::members::{ClusterOf, Nodes};
use super::{copies, print_plan, sst_rate, start_limit, verify};
use crate::context::Context;
use crate::exit::{self, Exit};
use crate::record::record;
use crate::sizes::{parse_bytes, parse_time};
use crate::watch::{Show, Watch};

const COMMAND: &str = "cluster rejoin";

const AFTER_HELP: &str = "\
EXAMPLES:
  Start a node that is down, if the others still keep what it missed:
      refloat cluster rejoin db2 --cluster shop.toml

  How would it come back, and from which donor?
      refloat cluster rejoin db2 --cluster shop.toml --plan

  It has been down for too long: let it take a full copy
      refloat cluster rejoin db2 --cluster shop.toml --allow-sst

  Its rows differ: give it a full copy, even though the others hold what it missed
      refloat cluster rejoin db2 --cluster shop.toml --allow-sst --discard UUID

  Compare all nodes when it is back:
      refloat cluster rejoin db2 --cluster shop.toml --verify=quick

How the node will come back is reported before it is started. If the others still hold what it \
missed, rejoin has them keep it until the node is back (gcache.mem_size, put back afterwards), and \
checks them once more: a server may take minutes before it asks for what it missed, and on a busy \
cluster that may be gone by then. If it is gone all the same, the node is stopped rather than left \
to take a copy that nobody allowed. Settings that another run has changed are not touched. After \
kill -9, `refloat settings revert` puts back the settings of the others.

A full copy first wipes the node's data, so it needs --allow-sst. A node that is ahead of all \
others is never started, because what it holds is nowhere else. --discard must name the history of \
a node that has another history, whose position nobody can tell, or whose tables are ahead \
although its grastate.dat no longer says so.

Whatever would keep the node from coming back, such as a missing program, too little space for a \
copy, or the script of an earlier copy that still runs, is checked beforehand, as by `refloat \
cluster advise`. A position that was not written down (after a crash) is recovered first.

A history keeps its UUID when the cluster is bootstrapped from a node that lacked the newest \
write-sets, and later write-sets reuse the numbers of the lost ones. So before a node comes back \
by IST, the last write-set that it holds is compared with the one of the same number that a donor \
holds (galera.cache, read by Perl on their machines). If they differ, the node is refused, and \
both sides are shown. If they cannot be compared, only positions are known: refloat says so, and \
the exit code is 4 unless --verify finds every row of all nodes the same; --verify=quick is not \
enough. A node whose server died while it waited for IST gets back the position that its \
grastate.dat has lost.

Preferred as donor is a node that holds what is missing, that applications do not write to, and \
that is not behind. This holds for this one start only; a start command finds the names in \
REFLOAT_SST_DONOR. Afterwards refloat proves how the node came back.

EXIT CODES:
  0  the node is back as planned, in the history of the others
  1  it did not come back, or began a cluster of its own and was stopped again
  3  refused before anything was started
  4  it is back, but by an unexpected full copy; or it is not known how it came back, or whether
     it held the same as the others before (--verify tells); or nodes differ
  6  a node still keeps write-sets: `refloat settings revert`";

/// Start a node that is down, and say beforehand whether it needs a full copy
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct RejoinArgs {
    /// The node, by its name in the list
    #[arg(value_name = "NODE")]
    node: String,

    #[command(flatten)]
    copy: CopyArgs,

    /// Go on even if something is found that would keep the node from coming back
    #[arg(long)]
    ignore_advice: bool,

    /// Bytes that each of the other nodes may use to hold what it missed [default: as needed, at
    /// most a quarter of its available memory, or 1G if that is not known]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    hold: Option<u64>,

    /// How long a server may take from its start until the node is in sync [default: 1h; no limit
    /// with --allow-sst]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    start_limit: Option<Duration>,

    /// Say what would be done; do nothing but recover a position that was not written down
    #[arg(long)]
    plan: bool,

    #[command(flatten)]
    verify: VerifyAfter,

    /// Bytes per second that a full copy (SST) moves [default: as in the last restore or rejoin]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    sst_rate: Option<u64>,

    #[command(flatten)]
    cluster: ClusterOf,

    /// Print events and the result as JSON lines on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What is allowed of full copies.
#[derive(Debug, Args)]
struct CopyArgs {
    /// Let it take a full copy (SST) if it needs one: its own data are wiped
    #[arg(long)]
    allow_sst: bool,

    /// Discard what the node holds of this history (a UUID), which may exist nowhere else
    ///
    /// With the cluster's own UUID, the node takes a full copy even if the others hold what it
    /// missed, for example because its rows differ.
    #[arg(long, value_name = "UUID", requires = "allow_sst")]
    discard: Option<String>,
}

/// What is compared at the end.
#[derive(Debug, Args)]
pub struct VerifyAfter {
    /// Compare all nodes at the end, as `refloat cluster verify` does: every row, or `quick`
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "rows")]
    pub verify: Option<How>,
}

/// How nodes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// Every row.
    Rows,
    /// Counts of rows, and checksums of tables that have changed.
    Quick,
}

/// How one node is to be brought back.
pub struct Asked<'a> {
    /// The node, as the list or the user names it.
    pub node: &'a str,
    /// Whether a full copy is allowed, and what it may discard.
    pub leave: Leave,
    /// Bytes that other nodes may use to hold what it misses.
    pub hold: Option<u64>,
    /// Bytes per second of a full copy, if given.
    pub sst_rate: Option<u64>,
}

pub fn run(args: &RejoinArgs, context: &Context) -> anyhow::Result<Exit> {
    let nodes = args.cluster.nodes(context)?;
    refuse_second(&nodes.name, context)?;
    refuse_open(&nodes.name, context)?;
    let _lock = ClusterLock::take(&nodes.name, context)?;
    let control = nodes.control(&args.node)?;
    let asked = Asked {
        node: &args.node,
        leave: Leave {
            sst: args.copy.allow_sst,
            discard: args.copy.discard.clone(),
            failing: args.ignore_advice,
        },
        hold: args.hold,
        sst_rate: args.sst_rate,
    };
    let plan = planned(&asked, &nodes, &args.cluster, context)?;
    let allowed = plan.check(&asked.leave);
    if args.plan {
        print_plan(&plan, face::plan, args.json)?;
        return Ok(if allowed.is_ok() {
            Exit::Done
        } else {
            Exit::Refused
        });
    }
    if !args.json {
        write!(std::io::stderr(), "{}", face::plan(&plan))?;
    }
    allowed?;
    let show = if args.json { Show::Json } else { Show::Lines };
    let (watch, run) = Watch::begin(COMMAND, show, context)?;
    let rejoining = Rejoining {
        members: &nodes.members,
        control,
        state_dir: context.state_dir(),
        run: &run,
        start_limit: start_limit(args.start_limit, asked.leave.sst),
    };
    let (outcome, mut error) = match rejoining.bring_back(&plan, &asked.leave) {
        Ok(outcome) => (Some(outcome), None),
        Err(error) => (None, Some(anyhow::Error::new(error))),
    };
    let verified = match args.verify.verify.filter(|_| outcome.is_some()) {
        None => None,
        Some(how) => verify::after(&nodes, &[], how == How::Quick, &run)
            .map_err(|failed| error = Some(failed.into()))
            .ok(),
    };
    let result = match (&outcome, &error) {
        // Settings still changed on other nodes come first: they affect people who did not start
        // this.
        _ if is_left(context) => RunResult::SettingsLeft,
        (_, Some(error)) => exit::result_of(error),
        (Some(outcome), _) if !is_proven(outcome, &plan, verified.as_ref()) => {
            RunResult::ProofFailed
        }
        _ => RunResult::Done,
    };
    watch.quiet();
    let seconds = run.events.elapsed().as_secs_f64();
    let mut summary = serde_json::to_value(&outcome)?;
    if let Some(fields) = summary.as_object_mut() {
        // Later runs take their estimates from earlier ones of the same cluster.
        fields.insert("cluster".to_owned(), nodes.name.clone().into());
        fields.insert("verified".to_owned(), serde_json::to_value(&verified)?);
    }
    record(&run, seconds, summary, result, error.as_ref());
    watch.stop();
    if let Some(outcome) = outcome.filter(|_| !args.json) {
        let mut out = std::io::stdout();
        write!(out, "{}", face::ended(&outcome))?;
        if let Some(verified) = &verified {
            write!(out, "{}", cluster_verify::ended(verified))?;
            write!(out, "{}", context.with_cluster(&verify::copies(verified)))?;
        }
        let every_row = !has_known_history(&outcome);
        if every_row && verified.as_ref().is_some_and(|verified| verified.quick) {
            write!(out, "{}", cluster_verify::not_proven(&[&outcome.node]))?;
        }
        if verified
            .as_ref()
            .is_none_or(|verified| verified.quick && every_row)
        {
            write!(out, "{}", verify::offer(&args.cluster, !every_row))?;
        }
    }
    if let Some(error) = &error {
        exit::report(error, context);
    }
    Ok(exit::of_result(result))
}

/// Plans how a node rejoins, from everything known about it.
pub fn planned(
    asked: &Asked<'_>,
    nodes: &Nodes,
    cluster: &ClusterOf,
    context: &Context,
) -> anyhow::Result<RejoinPlan> {
    let node = asked.node;
    let how = Observation {
        tables: WantedTables::Never,
        sst_bytes_per_second: sst_rate(asked.sst_rate, &nodes.name, context),
        ..Observation::default()
    };
    let view = observe(&nodes.name, &nodes.members, &how);
    refuse_restored(nodes, &view)?;
    refuse_maintained(nodes, &view)?;
    let control = nodes.control(node)?;
    let mut plan = plan_rejoin(&view, &nodes.members, node, control, &how)?;
    plan.discard(&asked.leave, &view, &how);
    if !plan.runs {
        let advice = copies::look(cluster, Some(node), context)?;
        let fails: Vec<&Mistake> = if plan.begins_copy() {
            advice.failing().collect()
        } else {
            advice.keeps_away(node)
        };
        plan.fails = fails.into_iter().map(Mistake::describe).collect();
        if let Some(segment) = advice.segment(node) {
            plan.know_segment(&view, segment);
        }
    }
    plan.hold = plan_hold_for_start(&view, &plan, asked.hold, nodes.room(&view));
    if let Some(hold) = &mut plan.hold {
        hold.warnings.extend(nodes.kept_for_others());
    }
    Ok(plan)
}

/// Whether this process has left a change on a node: write-sets that others still hold, or a
/// preferred donor on a node that is back. (A donor set on a node that is still joining does not
/// count: repeating the command puts it back.)
pub fn is_left(context: &Context) -> bool {
    let left = |journal: &settings::Journal| {
        let on_its_way = matches!(
            &journal.changes[..],
            [one] if one.name == settings::SST_DONOR && one.applied.is_none()
        );
        journal.owner == Owner::this() && !on_its_way
    };
    settings::list_readable(context.state_dir())
        .is_ok_and(|(open, _)| open.iter().any(|open| left(&open.journal)))
}

/// Whether a node came back in the way that was planned, and is known to hold what the others hold.
pub fn is_proven(outcome: &Rejoined, plan: &RejoinPlan, verified: Option<&Verified>) -> bool {
    let came_as_planned = match outcome.proof.by {
        CameBy::Ist | CameBy::Stayed => true,
        CameBy::Sst => !matches!(plan.forecast.kind, RejoinKind::Ist { .. }),
        CameBy::Unknown => false,
    };
    let same = match verified {
        // Counts and checksums see neither definitions nor values that changed before a server
        // started.
        Some(verified) if verified.quick && !has_known_history(outcome) => false,
        Some(verified) => verified.knows(&outcome.node),
        None => has_known_history(outcome),
    };
    came_as_planned && same
}

/// Whether what a node held before is known to match the others, or was replaced by a full copy.
pub fn has_known_history(outcome: &Rejoined) -> bool {
    matches!(&outcome.history, None | Some(History::Shared { .. }))
}

#[cfg(test)]
mod tests {
    use refloat_cluster::{NodeVerdict, Proof, Rejoin};

    use super::*;

    #[test]
    fn an_unknown_history_takes_every_row() {
        let mut outcome = Rejoined {
            node: "n2".to_owned(),
            proof: Proof {
                by: CameBy::Ist,
                evidence: String::new(),
            },
            left: Some(3),
            back: 10,
            join_seconds: 1.0,
            copied: None,
            not_released: Vec::new(),
            history: Some(History::Unknown {
                reason: "its file is gone".to_owned(),
            }),
        };
        let plan = RejoinPlan {
            node: "n2".to_owned(),
            at: 1,
            forecast: Rejoin {
                kind: RejoinKind::Unknown,
                reason: String::new(),
            },
            seqno: Some(3),
            uuid: "u".to_owned(),
            donors: Vec::new(),
            runs: false,
            only_copy: None,
            fails: Vec::new(),
            hold: None,
            history: None,
            place: None,
            gives_up: false,
        };
        let verified = |quick| Verified {
            cluster: "c".to_owned(),
            uuid: Some("u".to_owned()),
            with: "n1".to_owned(),
            quick,
            nodes: vec![NodeVerdict {
                name: "n2".to_owned(),
                same: Some(true),
                tables: 1,
                checksums: 0,
                differ: Vec::new(),
                reason: None,
            }],
            seconds: 1.0,
        };
        assert!(!is_proven(&outcome, &plan, None));
        assert!(!is_proven(&outcome, &plan, Some(&verified(true))));
        assert!(is_proven(&outcome, &plan, Some(&verified(false))));
        outcome.history = Some(History::Shared {
            evidence: "both hold write-set 3".to_owned(),
        });
        assert!(is_proven(&outcome, &plan, Some(&verified(true))));
    }
}
