//! The text of a node's rejoin.

use std::fmt::Write as _;
use std::time::Duration;

use refloat_cluster::{History, Rejoin, RejoinKind, RejoinPlan, Rejoined};

use crate::human;
use crate::maintain::{came_by, kept_by};

/// The plan of a rejoin.
pub fn plan(plan: &RejoinPlan) -> String {
    let mut page = format!(
        "Plan for {}:\n  comes     {}\n",
        plan.node,
        way(&plan.forecast)
    );
    let _ = writeln!(page, "  because   {}", plan.forecast.reason);
    if let Some(lost) = &plan.only_copy
        && !matches!(plan.forecast.kind, RejoinKind::Ist { .. })
    {
        let _ = writeln!(
            page,
            "  LOSES     {}: given up by --discard {}",
            lost.what, lost.history
        );
    }
    if plan.gives_up {
        page.push_str(
            "  position  is removed, so that it takes a full copy (its grastate.dat is kept beside it)\n",
        );
    }
    for reason in &plan.fails {
        let _ = writeln!(page, "  FAILS     {reason}");
    }
    if let (RejoinKind::Ist { .. }, Some(history)) = (&plan.forecast.kind, &plan.history) {
        let _ = writeln!(page, "  {}", held(history));
    }
    if let Some(seqno) = plan.place {
        let _ = writeln!(
            page,
            "  position  its grastate.dat lost it at the last start, and gets it back: {seqno}"
        );
    }
    if plan.runs {
        page.push_str("  start     it runs already, and is only waited for\n");
    }
    for (at, donor) in plan.donors.iter().enumerate() {
        let head = if at == 0 { "asks" } else { "then" };
        let _ = writeln!(page, "  {head:<8}  {}: {}", donor.name, donor.why);
    }
    if let Some(hold) = &plan.hold {
        page.push_str(&kept_by(hold));
    }
    page
}

fn way(forecast: &Rejoin) -> String {
    match &forecast.kind {
        RejoinKind::Ist {
            write_sets, bytes, ..
        } => {
            let size = bytes.map_or_else(String::new, |bytes| {
                format!(", about {}", human::bytes(bytes))
            });
            format!("by IST: {}{size}", human::counted(*write_sets, "write-set"))
        }
        RejoinKind::Sst { bytes, seconds } => {
            let mut text = "by a FULL COPY (SST), which wipes what it has".to_owned();
            if let Some(bytes) = bytes {
                let time = seconds.map_or_else(
                    || "at a rate that was not measured".to_owned(),
                    |seconds| {
                        let time = Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
                        format!("about {}", human::seconds(time))
                    },
                );
                let _ = write!(text, ": {}, {time}", human::bytes(*bytes));
            }
            text
        }
        RejoinKind::Unknown => "in an unknown way: maybe a FULL COPY (SST)".to_owned(),
    }
}

/// Whether the node's data belong to the cluster's history.
fn held(history: &History) -> String {
    match history {
        History::Shared { evidence } => format!("history   {evidence}"),
        History::Parted(parting) => format!("PARTED    {}", parting.describe()),
        History::Unknown { reason } => format!(
            "POSITIONS ONLY: whether what it held is what the others hold is not known ({reason})"
        ),
    }
}

/// The result of a rejoin.
pub fn ended(outcome: &Rejoined) -> String {
    let missed = outcome.left.map_or_else(String::new, |left| {
        let missed = outcome.back.saturating_sub(left);
        format!(": {}", human::counted(missed, "write-set"))
    });
    let mut page = format!(
        "{} is back {}{missed}\n  joined    in {}\n  known by  {}\n",
        outcome.node,
        came_by(outcome.proof.by),
        human::seconds(Duration::from_secs_f64(
            outcome.join_seconds.clamp(0.0, 1e9)
        )),
        outcome.proof.evidence
    );
    if let Some(history) = &outcome.history {
        let _ = writeln!(page, "  {}", held(history));
    }
    for (node, reason) in &outcome.not_released {
        let _ = writeln!(page, "  LEFT      {node} still keeps write-sets: {reason}");
    }
    page
}

#[cfg(test)]
mod tests {
    use refloat_cluster::{CameBy, DonorChoice, HoldPlan, Holder, OnlyCopy, Proof, Way};

    use super::*;

    #[test]
    fn a_plan_and_its_end() {
        let donor = |name: &str, why: &str| DonorChoice {
            name: name.to_owned(),
            node_name: name.to_owned(),
            why: why.to_owned(),
        };
        let text = plan(&RejoinPlan {
            node: "n1".to_owned(),
            at: 0,
            forecast: Rejoin {
                kind: RejoinKind::Sst {
                    bytes: Some(3 << 30),
                    seconds: Some(31.0),
                },
                reason: "it is at 5, and the oldest write-set that anybody keeps is 9".to_owned(),
            },
            seqno: Some(5),
            uuid: "u".to_owned(),
            donors: vec![donor("n3", "idle"), donor("n2", "busy")],
            runs: false,
            only_copy: Some(OnlyCopy {
                what: "it holds data of another history, x".to_owned(),
                history: "x".to_owned(),
            }),
            fails: vec!["n1: there is too little space".to_owned()],
            history: None,
            place: None,
            gives_up: true,
            hold: Some(HoldPlan {
                node: "n1".to_owned(),
                at: 0,
                uuid: "u".to_owned(),
                datadir: None,
                away_seconds: 600.0,
                bytes_per_second: 1e6,
                bytes: 600_000_000,
                write_sets: 1000,
                holders: vec![Holder {
                    name: "n3".to_owned(),
                    node_name: "n3".to_owned(),
                    at: 2,
                    way: Way::Memory,
                    bytes: 1 << 30,
                    seconds: Some(1073.0),
                    oldest: 3,
                }],
                warnings: Vec::new(),
            }),
        });
        for line in [
            "  comes     by a FULL COPY (SST), which wipes what it has: 3.00 GiB, about 31.0 s",
            "  because   it is at 5, and",
            "  asks      n3: idle",
            "  then      n2: busy",
            "  LOSES     it holds data of another history, x: given up by --discard x",
            "  FAILS     n1: there is too little space",
            "  position  is removed, so that",
            "  kept by   n3: is given 1.00 GiB of memory for them",
        ] {
            assert!(text.contains(line), "{line:?}: {text}");
        }
        let text = ended(&Rejoined {
            node: "n1".to_owned(),
            proof: Proof {
                by: CameBy::Ist,
                evidence: "its log says so".to_owned(),
            },
            left: Some(3),
            back: 10,
            join_seconds: 2.0,
            copied: None,
            not_released: vec![("n3".to_owned(), "gone".to_owned())],
            history: Some(History::Unknown {
                reason: "its file is gone".to_owned(),
            }),
        });
        assert!(
            text.starts_with("n1 is back by IST: 7 write-sets\n"),
            "{text}"
        );
        assert!(text.contains("LEFT      n3 still keeps write-sets: gone"));
        assert!(text.contains("  POSITIONS ONLY: whether") && text.contains("(its file is gone)"));
    }
}
