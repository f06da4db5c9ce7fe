//! The text of a cluster restore.

use std::fmt::Write as _;
use std::time::Duration;

use refloat_cluster::{
    OldData, Rate, RateFrom, RestorePlan, RestoreState, RestoreStep, RestoreWay, Restored,
};

use crate::human;

/// For a node whose full copy (SST) overwrote its old data.
const LOST: &str = "its old data are LOST: something had started it before they were set aside";

fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(
        || "it is not known how long".to_owned(),
        |seconds| human::seconds(Duration::from_secs_f64(seconds.clamp(0.0, 1e9))),
    )
}

const fn way(way: RestoreWay) -> &'static str {
    match way {
        RestoreWay::Rebuild => "rebuild",
        RestoreWay::Replicate => "replicate",
    }
}

/// A rate, and where it comes from.
fn rate(rate: &Rate) -> String {
    let from = match &rate.from {
        RateFrom::Given => "as given",
        RateFrom::Measured { .. } => "as measured last",
        RateFrom::Shown { by, .. } => &format!("as in the last {by}"),
        RateFrom::Tried => "as measured just now",
        RateFrom::Assumed => return "not measured".to_owned(),
    };
    format!(
        "{}/s ({from})",
        human::bytes(rate.bytes_per_second.clamp(0.0, 1e18) as u64)
    )
}

/// The plan of a restore.
pub fn plan(plan: &RestorePlan) -> String {
    let size = plan.text_bytes.map_or_else(
        || "of unknown size".to_owned(),
        |bytes| format!("about {} of text", human::bytes(bytes)),
    );
    let mut page = format!(
        "Plan for {}, {size}:\n  way       {}: {}\n",
        plan.source,
        way(plan.way),
        plan.why
    );
    let _ = writeln!(
        page,
        "  estimate  rebuild   {}: load into one standalone node, then full copies to the others; the cluster serves nobody until its first node is back\n            replicate {}: load into one node, the others apply the same write-sets; the cluster keeps serving, but slower",
        time(plan.estimates.rebuild),
        time(plan.estimates.replicate)
    );
    let rates = &plan.rates;
    let _ = writeln!(
        page,
        "  by rates  load {}, through replication {}, full copies {}",
        rate(&rates.load),
        rate(&rates.replicate),
        rate(&rates.copy)
    );
    let _ = writeln!(page, "  into      {}", plan.chosen());
    for (at, node) in plan.nodes.iter().enumerate() {
        if at == plan.at || plan.way == RestoreWay::Replicate {
            continue;
        }
        let stops = if node.runs { "is stopped" } else { "is down" };
        let old = match &node.old {
            OldData::Stay => String::new(),
            OldData::Aside { path } => format!(", its old data go to {}", path.display()),
            OldData::Wiped { .. } => ", and LOSES its old data".to_owned(),
        };
        let _ = writeln!(
            page,
            "  {:<9} {stops}, then takes a full copy{old}",
            node.name
        );
    }
    if plan.way == RestoreWay::Rebuild {
        let options: Vec<String> = plan
            .options
            .iter()
            .map(|option| match &option.value {
                Some(value) => format!("{}={value}", option.name),
                None => option.name.clone(),
            })
            .collect();
        let _ = writeln!(page, "  alone     with {}", options.join(" "));
        let steps: Vec<&str> = RestoreStep::ALL.iter().map(|step| step.word()).collect();
        let _ = writeln!(page, "  steps     {}", steps.join(", "));
    }
    if plan.way == RestoreWay::Rebuild {
        page += "  note      refloat knows of no backup of the old data: those that are set aside are all that is kept of them\n";
    }
    for warning in &plan.warnings {
        let _ = writeln!(page, "  note      {warning}");
    }
    page
}

/// The state of an unfinished restore and of its nodes.
pub fn progress(state: &RestoreState) -> String {
    let mut page = format!("Not ended: {} is the next step\n", state.step.word());
    nodes(state, state.step, &mut page);
    page
}

/// The state after a restore was given up before the step `begun`.
pub fn given_up(state: &RestoreState, begun: RestoreStep) -> String {
    let mut page = format!("Given up before the step {}\n", begun.word());
    nodes(state, begun, &mut page);
    page += match (state.plan.way, &state.uuid) {
        (RestoreWay::Replicate, _) => {
            "The cluster keeps serving; what was loaded by then is in it.\n"
        }
        (_, Some(_)) => {
            "The cluster continues with the nodes that have come back; bring the others back with `refloat cluster rejoin`.\n"
        }
        (_, None) if begun == RestoreStep::Stop => "No node was stopped by this command.\n",
        (_, None) => {
            "Nodes that were stopped are down still, with the data that they had. docs/cluster-restore.md says how to go back to those; \
             the same command without --give-up begins a new restore, and knows where each node was.\n"
        }
    };
    page
}

fn nodes(state: &RestoreState, step: RestoreStep, page: &mut String) {
    for (at, (node, progress)) in state.plan.nodes.iter().zip(&state.nodes).enumerate() {
        let mut remarks = Vec::new();
        if at == state.plan.at {
            remarks.push(match (&state.loaded, &state.uuid) {
                (_, Some(uuid)) => format!("loaded, and has begun the history {uuid}"),
                (Some(_), None) => "loaded".to_owned(),
                _ if step > RestoreStep::Standalone && state.plan.way == RestoreWay::Rebuild => {
                    if state.given_up {
                        "ran standalone, and may hold a part of what was to be loaded"
                    } else {
                        "stands alone"
                    }
                    .to_owned()
                }
                _ => "chosen to be loaded into".to_owned(),
            });
        }
        if let Some((uuid, seqno)) = &progress.left {
            remarks.push(format!("was at {uuid}:{seqno}"));
        }
        if let Some(aside) = &progress.aside {
            remarks.push(format!("old data in {}", aside.display()));
        }
        if progress.overtaken {
            remarks.push(LOST.to_owned());
        }
        match (&progress.joined, progress.same) {
            (_, true) => remarks.push("back, and compared".to_owned()),
            (Some(_), false) => remarks.push("back by a full copy".to_owned()),
            _ if at == state.plan.at => {}
            _ if progress.left.is_some() => remarks.push("down, with its old data".to_owned()),
            _ => remarks.push("not touched".to_owned()),
        }
        let _ = writeln!(page, "  {:<9} {}", node.name, remarks.join("; "));
    }
}

/// The result of a restore.
pub fn ended(outcome: &Restored) -> String {
    let loaded = &outcome.loaded;
    let mut page = format!(
        "{} is restored: {} in {}, the same on all {} nodes\n  loaded    into {}, {} in {}\n",
        outcome.cluster,
        human::counted(loaded.rows, "row"),
        human::counted(loaded.tables, "table"),
        outcome.nodes.len(),
        outcome.node,
        human::bytes(loaded.bytes),
        time(Some(loaded.seconds))
    );
    if let Some(uuid) = &outcome.uuid {
        let _ = writeln!(
            page,
            "  history   {uuid} (a new one: nothing of before joins it by IST)"
        );
    }
    for node in &outcome.nodes {
        if let Some(joined) = &node.progress.joined {
            let _ = writeln!(
                page,
                "  {:<9} back by a full copy in {}",
                node.name,
                time(Some(joined.join_seconds))
            );
        }
        if node.progress.overtaken {
            let _ = writeln!(page, "  {:<9} {LOST}", node.name);
        }
        if let Some(aside) = &node.progress.aside {
            let _ = writeln!(
                page,
                "            its old data are in {}: remove them when nobody needs them",
                aside.display()
            );
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use refloat_cluster::{Estimates, NodeProgress, PlannedNode, Rates};
    use refloat_host::StartOption;

    use super::*;

    #[test]
    fn a_plan_and_how_far_it_has_come() {
        let node = |name: &str, old| PlannedNode {
            name: name.to_owned(),
            runs: true,
            history: Some(("u".to_owned(), Some(7))),
            datadir: PathBuf::from("/d"),
            old,
            shown: refloat_cluster::advise::Shown::default(),
        };
        let planned = RestorePlan {
            source: "shop.sql".to_owned(),
            text_bytes: Some(1 << 30),
            way: RestoreWay::Rebuild,
            why: "it takes less time".to_owned(),
            estimates: Estimates {
                rebuild: Some(61.0),
                replicate: None,
            },
            rates: Rates {
                load: Rate::given(1_048_576.0),
                ..Rates::default()
            },
            at: 0,
            nodes: vec![
                node("n1", OldData::Stay),
                node(
                    "n2",
                    OldData::Aside {
                        path: PathBuf::from("/d.refloat-r"),
                    },
                ),
                node(
                    "n3",
                    OldData::Wiped {
                        reason: "it is a mount point".to_owned(),
                    },
                ),
            ],
            options: vec![
                StartOption::new("wsrep-on", "OFF"),
                StartOption::switch("skip-log-bin"),
            ],
            port: 1,
            socket: None,
            warnings: vec!["n3 loses its old data: it is a mount point".to_owned()],
        };
        let text = plan(&planned);
        for line in [
            "Plan for shop.sql, about 1.00 GiB of text:",
            "  way       rebuild: it takes less time",
            "replicate it is not known how long",
            "  by rates  load 1.00 MiB/s (as given), through replication not measured, full copies not measured",
            "  into      n1",
            "  n2        is stopped, then takes a full copy, its old data go to /d.refloat-r",
            "  n3        is stopped, then takes a full copy, and LOSES its old data",
            "  alone     with wsrep-on=OFF skip-log-bin",
            "  note      refloat knows of no backup of the old data",
            "  note      n3 loses",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let state = RestoreState {
            format: 1,
            cluster: "c".to_owned(),
            asked: String::new(),
            command: String::new(),
            plan: planned,
            step: RestoreStep::Load,
            nodes: vec![
                NodeProgress::default(),
                NodeProgress {
                    left: Some(("u".to_owned(), 7)),
                    ..NodeProgress::default()
                },
                NodeProgress::default(),
            ],
            before: BTreeMap::new(),
            was_last: false,
            marks: None,
            loaded: None,
            uuid: None,
            given_up: false,
        };
        assert_eq!(
            progress(&state),
            "Not ended: load is the next step\n  n1        stands alone\n  n2        was at u:7; down, with its old data\n  n3        not touched\n"
        );
    }
}
