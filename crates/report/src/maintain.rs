//! The text of node maintenance: a node leaves and comes back.

use std::fmt::Write as _;
use std::time::Duration;

use refloat_cluster::{CameBy, HoldPlan, Maintained, Way};

use crate::human;

fn time(seconds: f64) -> String {
    human::seconds(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}

/// The plan of a node maintenance.
pub fn plan(plan: &HoldPlan) -> String {
    let mut page = format!("Plan for {}:\n", plan.node);
    let _ = writeln!(
        page,
        "  away      {}, in which {} of write-sets are expected ({})",
        time(plan.away_seconds),
        human::bytes(plan.bytes),
        human::byte_rate(plan.bytes_per_second)
    );
    page.push_str(&kept_by(plan));
    page
}

/// Which nodes keep write-sets and how, and what to know about it.
pub(crate) fn kept_by(plan: &HoldPlan) -> String {
    let mut page = String::new();
    for holder in &plan.holders {
        let how = match holder.way {
            Way::Unchanged => "keeps enough as it is".to_owned(),
            Way::Memory => format!("is given {} of memory for them", human::bytes(holder.bytes)),
            Way::Freeze => format!(
                "discards none of them, up to {}",
                human::bytes(holder.bytes)
            ),
        };
        let lasts = holder.seconds.map_or_else(
            || "for as long as nothing is written".to_owned(),
            |seconds| format!("for {}", time(seconds)),
        );
        let _ = writeln!(page, "  kept by   {}: {how}, {lasts}", holder.name);
    }
    let memory = plan.holders.iter().any(|holder| holder.way == Way::Memory);
    if memory {
        page.push_str(
            "            (gcache.mem_size; it is put back afterwards, and the memory is free again when newer write-sets have taken its place)\n",
        );
    }
    for warning in &plan.warnings {
        let _ = writeln!(page, "  note      {warning}");
    }
    page
}

pub(crate) const fn came_by(by: CameBy) -> &'static str {
    match by {
        CameBy::Ist => "by IST",
        CameBy::Sst => "by a FULL COPY (SST)",
        CameBy::Stayed => "as it was",
        CameBy::Unknown => "in an unknown way",
    }
}

/// The result of a node maintenance.
pub fn ended(outcome: &Maintained) -> String {
    let missed = outcome.back.saturating_sub(outcome.left);
    if outcome.proof.by == CameBy::Stayed {
        return format!("{} was not stopped\n", outcome.node);
    }
    let how = came_by(outcome.proof.by);
    let bytes = outcome
        .bytes
        .map_or_else(String::new, |bytes| format!(", {}", human::bytes(bytes)));
    let mut page = format!(
        "{} is back {how}: {}{bytes}\n",
        outcome.node,
        human::counted(missed, "write-set")
    );
    if let Some(away) = outcome.away_seconds {
        let _ = writeln!(page, "  away      {}", time(away));
    }
    let _ = writeln!(
        page,
        "  joined    in {}\n  known by  {}",
        time(outcome.join_seconds),
        outcome.proof.evidence
    );
    if let Some(reason) = &outcome.given_up {
        let _ = writeln!(page, "  not kept  to the end: {reason}");
    }
    for (node, reason) in &outcome.not_released {
        let _ = writeln!(page, "  LEFT      {node} still keeps write-sets: {reason}");
    }
    if let Some(reason) = &outcome.work_failed {
        let _ = writeln!(page, "  FAILED    what the node was down for: {reason}");
    }
    page
}

#[cfg(test)]
mod tests {
    use refloat_cluster::{Holder, Proof};

    use super::*;

    #[test]
    fn a_plan_and_its_end() {
        let holder = |name: &str, way, bytes, seconds| Holder {
            name: name.to_owned(),
            node_name: name.to_owned(),
            at: 0,
            way,
            bytes,
            seconds,
            oldest: 1,
        };
        let text = plan(&HoldPlan {
            node: "n1".to_owned(),
            at: 0,
            uuid: "u".to_owned(),
            datadir: None,
            away_seconds: 600.0,
            bytes_per_second: 1e6,
            bytes: 600_000_000,
            write_sets: 1000,
            holders: vec![
                holder("n2", Way::Memory, 1 << 30, Some(1073.0)),
                holder("n3", Way::Unchanged, 1 << 27, None),
            ],
            warnings: vec!["mind the gap".to_owned()],
        });
        assert!(
            text.contains("kept by   n2: is given 1.00 GiB of memory"),
            "{text}"
        );
        assert!(
            text.contains("n3: keeps enough as it is, for as long as nothing is written"),
            "{text}"
        );
        assert!(text.contains("note      mind the gap"), "{text}");
        let outcome = Maintained {
            node: "n1".to_owned(),
            proof: Proof {
                by: CameBy::Ist,
                evidence: "its log says so".to_owned(),
            },
            left: 10,
            back: 35,
            bytes: Some(2048),
            away_seconds: Some(12.0),
            join_seconds: 3.0,
            given_up: None,
            not_released: Vec::new(),
            work_failed: Some("exit status: 1".to_owned()),
        };
        let text = ended(&outcome);
        assert!(
            text.starts_with("n1 is back by IST: 25 write-sets, 2.00 KiB\n"),
            "{text}"
        );
        assert!(
            text.contains("FAILED    what the node was down for: exit status: 1"),
            "{text}"
        );
    }
}
