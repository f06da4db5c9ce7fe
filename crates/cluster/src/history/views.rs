//! The same by what both have written to their logs, where the files of write-sets do not tell: memberships, each with its number in the history and
//! the names that its members have given themselves for that run.

use std::collections::BTreeSet;

use crate::control::Control;
use crate::journal::LogMark;
use crate::member::Member;
use crate::proof::since_last_start;
use crate::view::ClusterView;

/// A membership begins so in a log.
const VIEW: &str = "\nView:\n";

/// A membership.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Membership {
    /// Its number in the history.
    seqno: u64,
    /// The names of its members.
    members: BTreeSet<String>,
}

/// The membership of this history that was in force at a seqno, by this log.
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
        // A number is given twice in a history that somebody has begun again: what was said last holds.
        if found.as_ref().is_none_or(|found| begun >= found.seqno) {
            found = Some(Membership {
                seqno: begun,
                members: members.collect(),
            });
        }
    }
    found.filter(|found| !found.members.is_empty())
}

/// Whether the node and one that serves were in the same membership at this seqno, in words.
pub(super) fn shared(
    view: &ClusterView,
    members: &[Member],
    (at, control): (usize, &Control),
    seqno: u64,
) -> Option<String> {
    let node = &members[at];
    let uuid = view.quorum.uuid.as_ref()?;
    let log = LogMark::of_node_that_is_down(control, node)?.tail(node.host.as_ref()?)?;
    let ours = in_force(&log, uuid, seqno)?;
    let mut others = view.serving().filter(|(other, _)| *other != at);
    others.find_map(|(other, state)| {
        let donor = &members[other];
        let log = LogMark::of_node_that_answers(donor, state)?.tail(donor.host.as_ref()?)?;
        // What it says of its runs before may be of what it has given up for a copy since.
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

    /// What decides is that both name the same members: each run of a server has a name of its own.
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
        // It was begun again from an earlier place.
        let again = log + &view(5, &["c"]);
        assert_eq!(at(&again, 4), Some((3, 2)));
        assert_eq!(at(&again, 7), Some((5, 1)));
    }
}
