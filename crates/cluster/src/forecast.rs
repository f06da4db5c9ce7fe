//! Forecasts how a node would rejoin, and what that would cost.

use crate::member::Observation;
use crate::node::NodeState;
use crate::view::{ClusterView, Donor, NodeView, Quorum, Rejoin, RejoinKind};

/// The distance from the oldest kept write-set that a node needs for IST: a 128th of the kept
/// range, but no more than about a million (`group_find_ist_donor` in Galera's `gcs_group.cpp`).
pub(crate) const GAP_SHIFT: u32 = 7;
pub(crate) const GAP_MOST: u64 = 1 << 20;

impl ClusterView {
    /// The combined view of the nodes, without findings.
    pub(crate) fn new(name: &str, nodes: Vec<NodeView>, how: &Observation) -> Self {
        let mut view = Self {
            name: name.to_owned(),
            quorum: Quorum::default(),
            nodes,
            tables: None,
            tables_unread: None,
            work: Vec::new(),
            findings: Vec::new(),
        };
        view.quorum = view.count();
        for at in 0..view.nodes.len() {
            let node = &view.nodes[at];
            let behind = node.primary().and_then(|state| {
                let same = view.quorum.uuid.as_ref() == Some(&state.cluster_uuid);
                view.quorum
                    .seqno
                    .filter(|_| same)?
                    .checked_sub(state.seqno?)
            });
            let rejoin = node.primary().is_none().then(|| rejoin(&view, node, how));
            view.nodes[at].behind = behind;
            view.nodes[at].rejoin = rejoin;
        }
        view
    }
}

/// How this node would rejoin, and what that would cost.
pub(crate) fn rejoin(view: &ClusterView, node: &NodeView, how: &Observation) -> Rejoin {
    let unknown = |reason: &str| Rejoin {
        kind: RejoinKind::Unknown,
        reason: reason.to_owned(),
    };
    let Some(head) = view.quorum.seqno else {
        return unknown("no node of a primary component answers");
    };
    let Some(uuid) = &view.quorum.uuid else {
        return unknown("the primary nodes name different histories");
    };
    let sst = |reason: String| {
        let bytes = view
            .serving()
            .filter_map(|(_, state)| state.sst.bytes)
            .max();
        Rejoin {
            kind: RejoinKind::Sst {
                bytes,
                seconds: bytes
                    .zip(how.sst_bytes_per_second)
                    .map(|(bytes, rate)| bytes as f64 / rate),
            },
            reason,
        }
    };
    if node.receives.is_some() {
        return sst("it takes one now".to_owned());
    }
    let Some(file) = &node.grastate else {
        return unknown(match node.files_unreadable {
            Some(_) => "its grastate.dat could not be read",
            None => "its files were not looked at: no machine is named to look at them (ssh)",
        });
    };
    if !file.has_history() {
        // The provider writes zeros while a DDL statement or a state transfer is in progress.
        return sst("it holds the data of no cluster, or it ended in the middle of a DDL statement or a state transfer: its grastate.dat names none".to_owned());
    }
    if &file.uuid != uuid {
        return sst(format!(
            "it holds the data of another history ({})",
            file.uuid
        ));
    }
    // A node that answers knows its position, though its file says -1.
    let reported = node
        .state
        .as_ref()
        .and_then(|state: &NodeState| state.seqno);
    let Some(seqno) = reported.or(file.seqno) else {
        return unknown(
            "its grastate.dat says -1: it runs or has crashed, and its position has to be recovered",
        );
    };
    let Some(missed) = head.checked_sub(seqno) else {
        return unknown(
            "it is ahead of every node that answers: nothing may overwrite it before somebody knows why",
        );
    };
    // Galera keeps a distance from the oldest write-set of any node: what exists now may be gone
    // before it is sent.
    let lowest = view
        .serving()
        .filter_map(|(_, state)| state.gcache.oldest)
        .min();
    let safe = lowest.map(|lowest| {
        lowest.saturating_add((head.saturating_sub(lowest) >> GAP_SHIFT).min(GAP_MOST))
    });
    let mut donors: Vec<Donor> = view
        .serving()
        .filter_map(|(at, state)| {
            let oldest = state.gcache.oldest.filter(|oldest| *oldest <= seqno)?;
            safe.filter(|safe| *safe <= seqno)?;
            Some(Donor {
                name: view.nodes[at].name.clone(),
                oldest,
            })
        })
        .collect();
    if donors.is_empty() {
        return sst(match lowest {
            Some(lowest) if lowest <= seqno => format!(
                "it is at {seqno}, too near to {lowest}, the oldest write-set that anybody keeps"
            ),
            Some(lowest) => {
                format!("it is at {seqno}, and the oldest write-set that anybody keeps is {lowest}")
            }
            None => format!("it is at {seqno}, and no node says which write-sets it keeps"),
        });
    }
    donors.sort_by_key(|donor| donor.oldest);
    let size = view
        .serving()
        .find_map(|(_, state)| state.gcache.bytes_per_write_set);
    Rejoin {
        kind: RejoinKind::Ist {
            write_sets: missed,
            bytes: size.map(|size| (size * missed as f64) as u64),
            donors,
        },
        reason: format!("it is at {seqno}, the cluster at {head}"),
    }
}
