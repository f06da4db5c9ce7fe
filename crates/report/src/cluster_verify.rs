//! The text of a comparison of all nodes.

use std::fmt::Write as _;
use std::time::Duration;

use refloat_cluster::{NodeVerdict, Verified};

use crate::human;

/// Maximum number of differences named per node.
const SHOWN: usize = 20;

/// The result of a comparison.
pub fn ended(outcome: &Verified) -> String {
    let head = if outcome.is_same() {
        "all nodes hold the same"
    } else if outcome.nodes.iter().any(|node| node.same == Some(false)) {
        "nodes DIFFER"
    } else {
        "not all nodes are known to hold the same"
    };
    let how = if outcome.quick {
        " (by counts and checksums)"
    } else {
        ""
    };
    let mut page = format!("Cluster {}: {head}{how}\n", outcome.cluster);
    for node in &outcome.nodes {
        let _ = writeln!(page, "  {}", verdict(node, &outcome.with));
        for name in node.differ.iter().take(SHOWN) {
            let _ = writeln!(page, "    {name}");
        }
        if node.differ.len() > SHOWN {
            let _ = writeln!(page, "    and {} more", node.differ.len() - SHOWN);
        }
    }
    let time = Duration::from_secs_f64(outcome.seconds.clamp(0.0, 1e9));
    let _ = writeln!(page, "  compared in {}", human::seconds(time));
    page
}

/// A warning that counts and checksums do not prove that these nodes hold the same as the others.
pub fn not_proven(nodes: &[&str]) -> String {
    format!(
        "  NOT PROVEN: whether {} held what the others hold: counts and checksums do not tell that, and every row does\n",
        nodes.join(" and ")
    )
}

fn verdict(node: &NodeVerdict, with: &str) -> String {
    let name = &node.name;
    match (node.same, &node.reason) {
        (Some(true), _) if node.checksums > 0 => format!(
            "{name} holds the same as {with}: {} counted, {} made",
            human::counted(node.tables, "table"),
            human::counted(node.checksums, "checksum")
        ),
        (Some(true), _) => format!(
            "{name} holds the same as {with}: {}",
            human::counted(node.tables, "table")
        ),
        (Some(false), _) => format!("{name} DIFFERS from {with} in"),
        (None, reason) => format!(
            "{name} NOT KNOWN: {}",
            reason.as_deref().unwrap_or("it was not compared")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_reported() {
        let node = |name: &str, same, differ: &[&str], reason: Option<&str>| NodeVerdict {
            name: name.to_owned(),
            same,
            tables: 3,
            checksums: 1,
            differ: differ.iter().map(|one| (*one).to_owned()).collect(),
            reason: reason.map(str::to_owned),
        };
        let mut outcome = Verified {
            cluster: "c".to_owned(),
            uuid: Some("u".to_owned()),
            with: "n1".to_owned(),
            quick: true,
            nodes: vec![
                node("n2", Some(true), &[], None),
                node("n3", Some(false), &["d.t", "d.u"], None),
                node("n4", None, &[], Some("no answer: gone")),
            ],
            seconds: 2.0,
        };
        assert_eq!(
            ended(&outcome),
            "Cluster c: nodes DIFFER (by counts and checksums)\n  n2 holds the same as n1: 3 tables counted, 1 checksum made\n  \
             n3 DIFFERS from n1 in\n    d.t\n    d.u\n  n4 NOT KNOWN: no answer: gone\n  compared in 2.0 s\n"
        );
        outcome.nodes.remove(1);
        assert!(ended(&outcome).starts_with("Cluster c: not all nodes are known to hold the same"));
        outcome.nodes.pop();
        assert!(ended(&outcome).starts_with("Cluster c: all nodes hold the same"));
    }
}
