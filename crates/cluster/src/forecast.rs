//! What it would cost to bring a node back.

use serde::Serialize;

use crate::node::NodeState;
use crate::observe::Observation;
use crate::view::{ClusterView, NodeView};

/// How far from the oldest write-set a node has to be for IST: a 128th of what is kept, and no more than a million (`group_find_ist_donor`
/// in Galera's `gcs_group.cpp`).
pub(crate) const GAP_SHIFT: u32 = 7;
pub(crate) const GAP_MOST: u64 = 1 << 20;

/// What it would cost to bring a node back now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rejoin {
    /// By which way it would come.
    #[serde(flatten)]
    pub kind: RejoinKind,
    /// Why, in words.
    pub reason: String,
}

/// The way by which a node comes back.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum RejoinKind {
    /// The write-sets that it has missed are kept by others.
    Ist {
        /// How many write-sets it has missed.
        write_sets: u64,
        /// Bytes of them, by their average size.
        bytes: Option<u64>,
        /// Who keeps them, the one that keeps the most first.
        donors: Vec<Donor>,
    },
    /// It needs a full copy.
    Sst {
        /// Bytes of a copy.
        bytes: Option<u64>,
        /// How long that takes at the rate that was given, in seconds.
        seconds: Option<f64>,
    },
    /// Nobody can tell.
    Unknown,
}

/// A node that keeps what another one has missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Donor {
    /// Its name.
    pub name: String,
    /// The oldest write-set that it keeps.
    pub oldest: u64,
}

/// What it would cost to bring this node back.
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
        // The provider writes zeros for as long as a DDL statement or a state transfer is under way.
        return sst("it holds the data of no cluster, or it ended in the middle of a DDL statement or a state transfer: its grastate.dat names none".to_owned());
    }
    if &file.uuid != uuid {
        return sst(format!(
            "it holds the data of another history ({})",
            file.uuid
        ));
    }
    // A node that answers has its position, though its file says -1.
    let said = node
        .state
        .as_ref()
        .and_then(|state: &NodeState| state.seqno);
    let Some(seqno) = said.or(file.seqno) else {
        return unknown(
            "its grastate.dat says -1: it runs or has crashed, and its position has to be recovered",
        );
    };
    let Some(missed) = head.checked_sub(seqno) else {
        return unknown(
            "it is ahead of every node that answers: nothing may overwrite it before somebody knows why",
        );
    };
    // Galera keeps a distance from the oldest write-set that anybody keeps: what is there now may be gone before it is sent.
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
            None => format!("it is at {seqno}, and nobody says which write-sets are kept"),
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
