//! Chooses the preferred donors of a joiner.

use super::DonorChoice;
use crate::node::NodeState;
use crate::view::{ClusterView, Rejoin, RejoinKind};

/// Nodes that can give a full copy, in order of preference: first those that applications do not
/// write to, then those with fewer write-sets to apply.
pub fn copy_donors(view: &ClusterView) -> Vec<DonorChoice> {
    ranked(view, None, |_| true)
}

/// The donors in order of preference: in the same segment, without writes from applications, not
/// behind. For IST, only nodes that keep what is missed. A stopped node does not report its
/// segment; `segment` comes from its option files.
pub(super) fn donors(
    view: &ClusterView,
    at: usize,
    forecast: &Rejoin,
    segment: Option<u64>,
) -> Vec<DonorChoice> {
    let keeps = |name: &str| match &forecast.kind {
        RejoinKind::Ist { donors, .. } => donors.iter().any(|donor| donor.name == name),
        _ => true,
    };
    let reported = view.nodes[at].state.as_ref().map(|state| state.segment);
    let may_be = |other: usize| other != at && keeps(&view.nodes[other].name);
    ranked(view, reported.or(segment), may_be)
}

fn ranked(
    view: &ClusterView,
    segment: Option<u64>,
    may_be: impl Fn(usize) -> bool,
) -> Vec<DonorChoice> {
    let several = segment.is_none() && {
        let mut segments = view.serving().map(|(_, state)| state.segment);
        let first = segments.next();
        segments.any(|one| Some(one) != first)
    };
    let most = view
        .serving()
        .map(|(_, state)| state.own_write_sets_per_second)
        .fold(0.0, f64::max);
    let mut candidates: Vec<(u8, u64, usize, &NodeState)> = view
        .serving()
        .filter(|(other, _)| may_be(*other))
        .map(|(other, state)| {
            let far = segment.is_some_and(|segment| segment != state.segment);
            let rank = u8::from(far) * 2 + u8::from(writes(state, most));
            (rank, state.receive_queue.now, other, state)
        })
        .collect();
    candidates.sort_by_key(|(rank, queue, other, _)| (*rank, *queue, *other));
    candidates
        .into_iter()
        .map(|(_, queue, other, state)| {
            let mut why = vec![if writes(state, most) {
                "applications write to it".to_owned()
            } else {
                "applications do not write to it".to_owned()
            }];
            if several || segment.is_some_and(|segment| segment != state.segment) {
                why.push(format!("it is in segment {}", state.segment));
            }
            if queue > 0 {
                why.push(format!("{queue} write-sets behind"));
            }
            DonorChoice {
                name: view.nodes[other].name.clone(),
                node_name: state.node_name.clone(),
                why: why.join(", "),
            }
        })
        .collect()
}

/// Whether applications write to this node, given that the busiest node has `most` write-sets per
/// second.
fn writes(state: &NodeState, most: f64) -> bool {
    most > 0.0 && state.own_write_sets_per_second >= most / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{state, view};
    use crate::view::Donor;

    const OPTIONS: &str = "gcache.size = 128M; gmcast.segment = 0";

    fn order(view: &ClusterView, kind: RejoinKind) -> Vec<String> {
        order_from(view, kind, None)
    }

    fn order_from(view: &ClusterView, kind: RejoinKind, segment: Option<u64>) -> Vec<String> {
        let forecast = Rejoin {
            kind,
            reason: String::new(),
        };
        let donors = donors(view, 0, &forecast, segment);
        donors.into_iter().map(|donor| donor.name).collect()
    }

    #[test]
    fn a_node_that_nobody_writes_to_is_asked_first() {
        let mut busy = state(&[], OPTIONS);
        busy.own_write_sets_per_second = 90.0;
        let mut behind = state(&[], OPTIONS);
        behind.receive_queue.now = 40;
        let idle = state(&[], OPTIONS);
        let mut far = state(&[], "gmcast.segment = 2");
        far.own_write_sets_per_second = 10.0;
        let mut all = view(vec![
            None,
            Some(busy),
            Some(behind),
            Some(idle),
            Some(far.clone()),
        ]);
        // Nothing is known about the node's segment.
        assert_eq!(order(&all, RejoinKind::Unknown), ["n4", "n5", "n3", "n2"]);
        let kept = |names: &[&str]| RejoinKind::Ist {
            write_sets: 1,
            bytes: None,
            donors: names
                .iter()
                .map(|name| Donor {
                    name: (*name).to_owned(),
                    oldest: 1,
                })
                .collect(),
        };
        assert_eq!(order(&all, kept(&["n2", "n5"])), ["n5", "n2"]);
        assert!(order(&all, kept(&[])).is_empty());
        let copied: Vec<String> = copy_donors(&all).into_iter().map(|one| one.name).collect();
        assert_eq!(copied, ["n4", "n5", "n3", "n2"]);
        // Its option files name the segment, and so does the node itself when it answers.
        let from_files = |segment| order_from(&all, RejoinKind::Unknown, Some(segment));
        assert_eq!(from_files(0), ["n4", "n3", "n2", "n5"]);
        assert_eq!(from_files(2), ["n5", "n4", "n3", "n2"]);
        let mut here = state(&[("wsrep_cluster_status", "non-Primary")], OPTIONS);
        here.ready = false;
        all.nodes[0].state = Some(here);
        assert_eq!(order(&all, RejoinKind::Unknown), ["n4", "n3", "n2", "n5"]);
    }
}
