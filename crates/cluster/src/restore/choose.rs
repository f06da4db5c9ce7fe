//! Chooses the node to load into, and detects that the nodes are not one whole cluster.

use std::collections::BTreeMap;

use refloat_run::Refusal;

use crate::restore::examined_host::Seen;
use crate::restore::planned::RestoreWish;
use crate::view::{ClusterView, NodeView};

/// The history of each node, and its seqno there.
///
/// `known` gives, by node name, the positions before an earlier restore had a node discard its
/// position. The node's tables still hold the same data.
pub(super) fn histories(
    view: &ClusterView,
    seen: &[Seen],
    known: &[(String, (String, u64))],
) -> Vec<Option<(String, Option<u64>)>> {
    let before = |name: &str| known.iter().find(|(of, _)| of == name).map(|(_, at)| at);
    let nodes = view.nodes.iter().zip(seen);
    nodes
        .map(|(node, seen)| history(node, seen, before(&node.name)))
        .collect()
}

fn history(
    node: &NodeView,
    seen: &Seen,
    before: Option<&(String, u64)>,
) -> Option<(String, Option<u64>)> {
    if let Some(state) = node.primary() {
        return Some((state.cluster_uuid.clone(), state.seqno));
    }
    let file = node.grastate.as_ref().filter(|file| file.has_history());
    match (file, &seen.recovered) {
        (Some(file), Some((uuid, seqno))) if *uuid == file.uuid => {
            Some((uuid.clone(), Some(*seqno)))
        }
        (Some(file), _) => Some((file.uuid.clone(), file.seqno)),
        // A start that fails late clears the file but not the tables. Membership changes take
        // seqnos too but leave no trace in the tables, so of two positions in one history, the
        // later one is right.
        (None, Some((uuid, seqno))) => {
            let same = before.filter(|(of, _)| of == uuid);
            let seqno = same.map_or(*seqno, |(_, before)| (*seqno).max(*before));
            Some((uuid.clone(), Some(seqno)))
        }
        (None, None) => before.map(|(uuid, seqno)| (uuid.clone(), Some(*seqno))),
    }
}

/// Stopped nodes with data whose position is unknown.
pub(super) fn unknown(
    view: &ClusterView,
    seen: &[Seen],
    histories: &[Option<(String, Option<u64>)>],
) -> Vec<String> {
    let nodes = view.nodes.iter().zip(seen).zip(histories);
    nodes
        .filter(|((node, _), history)| node.state.is_none() && history.is_none())
        .filter_map(|((node, seen), _)| {
            let holds = matches!(&seen.folder, Some(Ok(folder)) if folder.holds);
            let why = seen.unknown.as_ref().filter(|_| holds)?;
            Some(format!(
                "{} is down and has data, and its position is not known ({why}): it may be the \
                most advanced node",
                node.name
            ))
        })
        .collect()
}

/// Signs that the nodes do not belong to one cluster.
pub(super) fn one_cluster(
    view: &ClusterView,
    histories: &[Option<(String, Option<u64>)>],
) -> Vec<Refusal> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, history) in view.nodes.iter().zip(histories) {
        if let Some((uuid, _)) = history {
            groups.entry(uuid).or_default().push(&node.name);
        }
        if let Some(state) = &node.state {
            names
                .entry(&state.cluster_name)
                .or_default()
                .push(&node.name);
        }
    }
    let mut against = Vec::new();
    for (what, groups) in [("history", groups), ("cluster name", names)] {
        if groups.len() > 1 {
            let listing: Vec<String> = groups
                .iter()
                .map(|(value, names)| format!("{} of {value}", names.join(", ")))
                .collect();
            let listing = listing.join("; ");
            against.push(format!("the nodes are not of one cluster: by {what} {listing}").into());
        }
    }
    against
}

/// Signs that not all nodes are known, or that some are in a state in which nothing may be stopped.
pub(super) fn whole(view: &ClusterView, seen: &[Seen]) -> Vec<Refusal> {
    let mut against = Vec::new();
    let primary = view.quorum.primary;
    for (node, seen) in view.nodes.iter().zip(seen) {
        let name = &node.name;
        match &node.state {
            Some(state) if !state.primary => against.push(
                Refusal::new(format!(
                    "{name} answers and belongs to no primary component (it says {:?})",
                    state.state
                ))
                .hint(format!("First find out why {name} does not.")),
            ),
            Some(state) if !view.serving().any(|(at, _)| view.nodes[at].name == *name) => {
                against.push(format!("{name} is not in sync: it is {}", state.state).into());
            }
            Some(state) if state.size > primary as u64 => against.push(
                Refusal::new(format!(
                    "{name} sees {} members, and {primary} of them are listed",
                    state.size
                ))
                .hint("List every node, and stop arbitrators (garbd)."),
            ),
            None if seen.runs => {
                let why = node.unreachable.as_deref().unwrap_or_default();
                let reason = format!("{name} does not answer, but its process is there: {why}");
                against.push(Refusal::new(reason).hint(format!("Stop {name} first.")));
            }
            None if node.grastate.is_none() && seen.folder.is_some() => {
                let why = node.files_unreadable.as_deref().unwrap_or_default();
                let reason =
                    format!("{name} does not answer, and what it holds cannot be seen: {why}");
                let hint = match &seen.folder {
                    Some(Err(unseen)) => unseen.hint.as_str(),
                    _ => "",
                };
                against.push(Refusal::new(reason).hint(hint));
            }
            _ => {}
        }
    }
    against
}

/// Chooses the node to load into: one that holds the newest data.
pub(super) fn choose(
    view: &ClusterView,
    seen: &[Seen],
    histories: &[Option<(String, Option<u64>)>],
    wish: &RestoreWish,
) -> Result<usize, Refusal> {
    let at = |name: &String| view.nodes.iter().position(|node| node.name == *name);
    let asked = match &wish.node {
        Some(name) => {
            Some(at(name).ok_or_else(|| format!("no node of the list is called {name}"))?)
        }
        None => None,
    };
    let head = view.quorum.seqno;
    let places: Vec<(usize, Option<u64>)> = histories
        .iter()
        .enumerate()
        .filter_map(|(at, history)| Some((at, history.as_ref()?.1)))
        .collect();
    let positions = || {
        let each = places.iter().map(|(at, seqno)| {
            let seqno = seqno.map_or_else(|| "-1 (unknown)".to_owned(), |seqno| seqno.to_string());
            format!("{} is at {seqno}", view.nodes[*at].name)
        });
        each.collect::<Vec<_>>().join(", ")
    };
    if let Some(head) = head {
        let newer = places
            .iter()
            .find(|(at, seqno)| view.nodes[*at].state.is_none() && *seqno > Some(head));
        if let Some((at, seqno)) = newer {
            let (name, seqno) = (&view.nodes[*at].name, seqno.unwrap_or(0));
            return Err(format!(
                "{name} is down at {seqno}, and those that run are at {head}: it holds what nobody else does"
            )
            .into());
        }
        let serving: Vec<usize> = view.serving().map(|(at, _)| at).collect();
        return match asked {
            Some(at) if serving.contains(&at) => Ok(at),
            Some(at) => Err(Refusal::new(format!(
                "{} is down while others run, so it is not the most advanced node",
                view.nodes[at].name
            ))
            .hint("Choose one of those that run.")),
            None => {
                let free = |at: &usize| match &seen[*at].folder {
                    Some(Ok(folder)) => folder.free,
                    _ => 0,
                };
                let most = serving.iter().map(free).max();
                let best = serving.iter().find(|at| Some(free(at)) == most);
                best.copied().ok_or_else(|| "no node is in sync".into())
            }
        };
    }
    // No node runs: the newest must be known, and the user must confirm it.
    if places.iter().any(|(_, seqno)| seqno.is_none()) {
        return Err(Refusal::new(format!(
            "all nodes are down, and not everybody's position is known: {}",
            positions()
        ))
        .hint("Recover it first (mariadbd --wsrep-recover)."));
    }
    let newest = places.iter().filter_map(|(_, seqno)| *seqno).max();
    let is_newest = |at: usize| places.contains(&(at, newest));
    match asked {
        Some(at) if newest.is_none() || is_newest(at) => Ok(at),
        // Its position is unknown, so trust the user who named it.
        Some(at) if histories[at].is_none() && seen[at].unknown.is_some() => Ok(at),
        Some(at) => {
            let name = &view.nodes[at].name;
            Err(format!("{name} is not the most advanced node: {}", positions()).into())
        }
        None if places.iter().any(|(_, seqno)| *seqno != newest) => Err(Refusal::new(format!(
            "all nodes are down at different positions: {}",
            positions()
        ))
        .hint("Name the one to start from (--node); it must be the most advanced.")),
        None => Ok(places.first().map_or(0, |(at, _)| *at)),
    }
}

#[cfg(test)]
mod tests {
    use refloat_host::{GraState, datadir::Folder};

    use super::*;
    use crate::fixtures::{state, view};
    use crate::restore::Rates;

    fn down(seqnos: &[Option<u64>]) -> ClusterView {
        let mut all = view(seqnos.iter().map(|_| None).collect());
        all.quorum.seqno = None;
        for (node, seqno) in all.nodes.iter_mut().zip(seqnos) {
            node.grastate = Some(GraState {
                uuid: "30ba41b5-e6ea-11f1-acb3-d71df7acd2d5".to_owned(),
                seqno: *seqno,
                safe_to_bootstrap: None,
            });
        }
        all
    }

    fn chosen(all: &ClusterView, node: Option<&str>) -> Result<usize, String> {
        let seen: Vec<Seen> = all.nodes.iter().map(|_| Seen::default()).collect();
        let known = [("n9".to_owned(), ("of another".to_owned(), 1))];
        let histories = histories(all, &seen, &known);
        let wish = RestoreWish {
            node: node.map(str::to_owned),
            way: None,
            rates: Rates::default(),
            measure: false,
            discard_old: false,
            known: Vec::new(),
        };
        choose(all, &seen, &histories, &wish)
            .map_err(|Refusal { reason, hint }| format!("{reason}. {hint}"))
    }

    #[test]
    fn only_a_node_that_holds_what_is_newest_is_loaded_into() {
        let apart = down(&[Some(100), Some(105), Some(103)]);
        let error = chosen(&apart, None).unwrap_err();
        for words in ["n1 is at 100", "n2 is at 105", "n3 is at 103", "--node"] {
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(chosen(&apart, Some("n2")), Ok(1));
        let error = chosen(&apart, Some("n1")).unwrap_err();
        assert!(
            error.contains("n1 is not the most advanced node"),
            "{error}"
        );
        assert_eq!(chosen(&down(&[Some(5), Some(5)]), None), Ok(0));
        let error = chosen(&down(&[Some(5), None]), Some("n1")).unwrap_err();
        assert!(error.contains("n2 is at -1 (unknown)"), "{error}");
        // While others run, a node that is down is either behind or ahead of all of them.
        let mut some = view(vec![Some(state(&[], "")), None]);
        some.quorum.seqno = Some(1000);
        some.nodes[1].grastate.clone_from(&apart.nodes[0].grastate);
        assert_eq!(chosen(&some, None), Ok(0));
        assert!(chosen(&some, Some("n2")).is_err());
        some.quorum.seqno = Some(99);
        let error = chosen(&some, None).unwrap_err();
        assert!(error.contains("n2 is down at 100"), "{error}");
    }

    #[test]
    fn a_node_that_gave_its_place_up_still_holds_what_it_held() {
        let mut all = down(&[Some(10), Some(11), None]);
        let uuid = all.nodes[0].grastate.as_ref().unwrap().uuid.clone();
        let third = all.nodes[2].grastate.as_mut().unwrap();
        third.uuid = "00000000-0000-0000-0000-000000000000".to_owned();
        let seen: Vec<Seen> = all.nodes.iter().map(|_| Seen::default()).collect();
        let known = [("n3".to_owned(), (uuid.clone(), 5000))];
        let all = histories(&all, &seen, &known);
        assert_eq!(all[2], Some((uuid, Some(5000))));
        assert_eq!(all[1].as_ref().unwrap().1, Some(11));
    }

    #[test]
    fn a_file_that_has_forgotten_its_place_is_not_believed() {
        let none = "00000000-0000-0000-0000-000000000000";
        let mut all = down(&[None, Some(105), Some(105)]);
        let uuid = all.nodes[1].grastate.as_ref().unwrap().uuid.clone();
        all.nodes[0].grastate.as_mut().unwrap().uuid = none.to_owned();
        let mut seen: Vec<Seen> = all.nodes.iter().map(|_| Seen::default()).collect();
        seen[0].folder = Some(Ok(Folder {
            path: "/d".into(),
            disk: None,
            free: 1,
            used: 1,
            fixed: None,
            holds: true,
        }));
        seen[0].unknown = Some("by commands".to_owned());
        let places = histories(&all, &seen, &[]);
        let reasons = unknown(&all, &seen, &places);
        assert!(
            reasons.len() == 1 && reasons[0].contains("n1 is down and has data"),
            "{reasons:?}"
        );
        if let Some(Ok(folder)) = &mut seen[0].folder {
            folder.holds = false;
        }
        assert!(
            unknown(&all, &seen, &places).is_empty(),
            "an empty folder holds nothing"
        );
        // The position is in its tables.
        seen[0].recovered = Some((uuid.clone(), 5000));
        assert_eq!(
            histories(&all, &seen, &[])[0],
            Some((uuid.clone(), Some(5000)))
        );
        let known = [("n1".to_owned(), (uuid.clone(), 5002))];
        assert_eq!(histories(&all, &seen, &known)[0], Some((uuid, Some(5002))));
    }

    #[test]
    fn nodes_of_several_clusters_are_shown_by_what_they_are_of() {
        let mut all = down(&[Some(1), Some(1)]);
        let seen = [Seen::default(), Seen::default()];
        let refusals = |all: &ClusterView| one_cluster(all, &histories(all, &seen, &[]));
        assert!(refusals(&all).is_empty());
        let other = "40ba41b5-e6ea-11f1-acb3-d71df7acd2d5";
        all.nodes[1].grastate.as_mut().unwrap().uuid = other.to_owned();
        let against = refusals(&all);
        assert!(
            against.len() == 1 && against[0].reason.contains(&format!("n2 of {other}")),
            "{against:?}"
        );
    }
}
