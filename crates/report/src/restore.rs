//! A cluster that is restored, as text.

use std::fmt::Write as _;
use std::time::Duration;

use refloat_cluster::{OldData, RestorePlan, RestoreState, RestoreStep, RestoreWay, Restored};

use crate::human;

fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(
        || "nobody can tell how long".to_owned(),
        |seconds| human::seconds(Duration::from_secs_f64(seconds.clamp(0.0, 1e9))),
    )
}

const fn way(way: RestoreWay) -> &'static str {
    match way {
        RestoreWay::Rebuild => "rebuild",
        RestoreWay::Replicate => "replicate",
    }
}

/// What is going to be done.
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
        "  estimate  rebuild   {}: load into one node that stands alone, full copies to the others; THE CLUSTER SERVES NOBODY until its first node is back\n            replicate {}: load into one node, the others apply the same; the cluster goes on, slower",
        time(plan.estimates.rebuild),
        time(plan.estimates.replicate)
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
    for warning in &plan.warnings {
        let _ = writeln!(page, "  note      {warning}");
    }
    page
}

/// How far it has come, and what every node is.
pub fn progress(state: &RestoreState) -> String {
    let mut page = format!("Not ended: {} is the next step\n", state.step.word());
    for (at, (node, progress)) in state.plan.nodes.iter().zip(&state.nodes).enumerate() {
        let mut said = Vec::new();
        if at == state.plan.at {
            said.push(match (&state.loaded, &state.uuid) {
                (_, Some(uuid)) => format!("loaded, and has begun the history {uuid}"),
                (Some(_), None) => "loaded".to_owned(),
                _ if state.step > RestoreStep::Standalone => "stands alone".to_owned(),
                _ => "chosen to be loaded into".to_owned(),
            });
        }
        if let Some((uuid, seqno)) = &progress.left {
            said.push(format!("was at {uuid}:{seqno}"));
        }
        if let Some(aside) = &progress.aside {
            said.push(format!("old data in {}", aside.display()));
        }
        match (&progress.joined, progress.same) {
            (_, true) => said.push("back, and compared".to_owned()),
            (Some(_), false) => said.push("back by a full copy".to_owned()),
            _ if at == state.plan.at => {}
            _ if progress.left.is_some() => said.push("down, with its old data".to_owned()),
            _ => said.push("not touched".to_owned()),
        }
        let _ = writeln!(page, "  {:<9} {}", node.name, said.join("; "));
    }
    page
}

/// What came of it.
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
