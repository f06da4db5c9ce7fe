//! The text of a cluster bootstrap.

use std::fmt::Write as _;

use refloat_cluster::{Begun, BootstrapPlan, Standing};

/// The plan of a bootstrap.
pub fn plan(plan: &BootstrapPlan) -> String {
    let mut page = format!(
        "Plan for cluster {}:\n  begins    {} at {}:{}\n",
        plan.cluster, plan.node, plan.uuid, plan.seqno
    );
    for one in &plan.nodes {
        let _ = writeln!(page, "  {:<8}  {}", "stands", position(one));
    }
    for warning in &plan.warnings {
        let _ = writeln!(page, "  WARNING   {warning}");
    }
    page
}

fn position(one: &Standing) -> String {
    let name = &one.name;
    match (&one.place, &one.unknown) {
        (Some((uuid, seqno)), _) => {
            let mut notes = Vec::new();
            if one.recovered {
                notes.push("recovered from its tables");
            }
            if one.forgotten {
                notes.push("its grastate.dat no longer has it");
            }
            if one.last {
                notes.push("the last one to leave");
            }
            let notes = if notes.is_empty() {
                String::new()
            } else {
                format!(" ({})", notes.join(", "))
            };
            format!("{name} at {uuid}:{seqno}{notes}")
        }
        (None, Some(why)) => format!("{name}: not known ({why})"),
        (None, None) => format!("{name} holds nothing"),
    }
}

/// The result of a bootstrap.
pub fn begun(begun: &Begun) -> String {
    format!(
        "{} has bootstrapped the cluster at {}:{}\n",
        begun.node, begun.uuid, begun.seqno
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_all_nodes_are_shown() {
        let standing = |name: &str, place: Option<u64>, unknown: Option<&str>| Standing {
            name: name.to_owned(),
            place: place.map(|seqno| ("u".to_owned(), seqno)),
            recovered: true,
            forgotten: false,
            last: name == "n2",
            unknown: unknown.map(str::to_owned),
        };
        let text = plan(&BootstrapPlan {
            cluster: "c".to_owned(),
            node: "n2".to_owned(),
            at: 1,
            uuid: "u".to_owned(),
            seqno: 9,
            nodes: vec![
                standing("n1", Some(7), None),
                standing("n2", Some(9), None),
                standing("n3", None, Some("it is left out")),
                standing("n4", None, None),
            ],
            warnings: vec!["careful".to_owned()],
        });
        assert_eq!(
            text,
            "Plan for cluster c:\n  begins    n2 at u:9\n  stands    n1 at u:7 (recovered from its tables)\n  \
             stands    n2 at u:9 (recovered from its tables, the last one to leave)\n  stands    n3: not known (it is left out)\n  \
             stands    n4 holds nothing\n  WARNING   careful\n"
        );
    }
}
