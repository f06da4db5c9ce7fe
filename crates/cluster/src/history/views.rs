//! Compares histories by the memberships in both nodes' logs, for when the write-set files give no
//! answer.
//!
//! Each membership has a seqno in the history, and the names that its members chose for that run of
//! their server.

use std::collections::BTreeSet;

use refloat_host::Control;

use crate::journal;
use crate::member::Member;
use crate::proof::since_last_start;
use crate::view::ClusterView;

/// How a membership begins in a log.
const VIEW: &str = "\nView:\n";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Membership {
    /// Its seqno in the history.
    seqno: u64,
    /// The names that its members chose.
    members: BTreeSet<String>,
}

/// The membership of this history that was in force at `seqno`, according to this log.
fn in_force(log: &str, uuid: &str, seqno: u64) -> Option<Membership> {
    let mut found: Option<Membership> = None;
    for view in log.split(VIEW).skip(1) {
        let value = |key: &str| {
            let mut lines = view.lines().take_while(|line| !line.starts_with("===="));
            lines.find_map(|line| line.trim().strip_prefix(key))
        };
        let Some((of, begun)) = value("id: ").and_then(|id| id.trim().rsplit_once(':')) else {
            continue;
        };
        let Ok(begun) = begun.parse::<u64>() else {
            continue;
        };
        if of != uuid || value("status: ") != Some("primary") || begun > seqno {
            continue;
        }
        let lines = view.lines().take_while(|line| !line.starts_with("===="));
        let members = lines
            .skip_while(|line| !line.trim().starts_with("members("))
            .skip(1)
            .filter_map(|line| {
                Some(
                    line.trim()
                        .split_once(": ")?
                        .1
                        .split_once(',')?
                        .0
                        .to_owned(),
                )
            });
        // Seqnos repeat in a history that was bootstrapped again from an earlier position. The last
        // entry in the log applies.
        found = Some(Membership {
            seqno: begun,
            members: members.collect(),
        });
    }
    found.filter(|found| !found.members.is_empty())
}

/// Evidence, in words, that the node and one that serves were in the same membership at `seqno`.
pub(super) fn shared(
    view: &ClusterView,
    members: &[Member],
    (at, control): (usize, &Control),
    seqno: u64,
) -> Option<String> {
    let node = &members[at];
    let uuid = view.quorum.uuid.as_ref()?;
    let log = journal::of_node_that_is_down(control, node)?.tail(node.host.as_ref()?)?;
    let ours = in_force(&log, uuid, seqno)?;
    let mut others = view.serving().filter(|(other, _)| *other != at);
    others.find_map(|(other, state)| {
        let donor = &members[other];
        let log = journal::of_node_that_answers(donor, state)?.tail(donor.host.as_ref()?)?;
        // Earlier runs in its log may concern data that a full copy has replaced since.
        let theirs = in_force(since_last_start(&log)?, uuid, seqno)?;
        (theirs == ours).then(|| {
            format!(
                "by their logs {} and {} were members of the same {} at {seqno}, since {}",
                node.name,
                donor.name,
                ours.members.len(),
                ours.seqno
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both must list the same members: each run of a server has its own name.
    #[test]
    fn who_was_a_member_at_a_seqno() {
        let view = |seqno: u64, members: &[&str]| {
            let members: Vec<String> = members
                .iter()
                .map(|one| format!("\t0: {one}, n{one}\n"))
                .collect();
            let members = members.concat();
            format!(
                "1 [Note] WSREP: \n=====\nView:\n  id: u:{seqno}\n  status: primary\n  members(2):\n{members}=====\n1 [Note] x: y, z\n"
            )
        };
        let log = view(3, &["a", "b"]) + &view(9, &["a"]);
        let at = |log: &str, seqno| {
            in_force(log, "u", seqno).map(|found| (found.seqno, found.members.len()))
        };
        assert_eq!(at(&log, 2), None);
        assert_eq!(at(&log, 8), Some((3, 2)));
        assert_eq!(at(&log, 9), Some((9, 1)));
        assert_eq!(in_force(&log, "v", 9), None);
        // The cluster was bootstrapped again from an earlier position.
        let again = log + &view(5, &["c"]);
        assert_eq!(at(&again, 4), Some((3, 2)));
        assert_eq!(at(&again, 7), Some((5, 1)));
        assert_eq!(at(&again, 12), Some((5, 1)));
    }
}
