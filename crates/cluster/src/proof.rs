//! By which way a node came back: what it missed (IST), or a full copy (SST).
//!
//! The provider says "SST received" in both cases: with the position that the node had before, or with that of the copy. A script of a full
//! copy keeps files that it does not know, so nothing that is laid into the data directory tells.

use serde::{Deserialize, Serialize};

use crate::node::NodeState;

/// What the provider writes once it knows where the node's data stand: behind it history and position.
const INSTALLED: &str = "Installed new state from SST: ";

/// The way by which a node came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameBy {
    /// It got the write-sets that it had missed.
    Ist,
    /// It got a full copy.
    Sst,
    /// It was there all the time.
    Stayed,
    /// Nobody can tell.
    Unknown,
}

/// By which way a node came back, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The way.
    pub by: CameBy,
    /// How that is known.
    pub evidence: String,
}

/// What a node that left at `left` and is back says of the way, by its log and by its own counters.
pub(crate) fn proof(left: u64, uuid: &str, state: &NodeState, log: Option<&str>) -> Proof {
    let found = |by, evidence: String| Proof { by, evidence };
    if state.cluster_uuid != uuid {
        return found(
            CameBy::Sst,
            format!("it follows another history now, {}", state.cluster_uuid),
        );
    }
    if let Some(installed) = log.and_then(|log| installed(log, uuid)) {
        return if installed == left {
            found(
                CameBy::Ist,
                format!("its log says that it went on from {installed}, where it had left"),
            )
        } else {
            found(
                CameBy::Sst,
                format!(
                    "its log says that it took a copy at {installed}, and it had left at {left}"
                ),
            )
        };
    }
    match state.gcache.oldest {
        // What came by IST is kept like everything that comes; a copy brings no write-sets from before it.
        Some(oldest) if oldest <= left.saturating_add(1) => found(
            CameBy::Ist,
            format!("it keeps the write-sets from {oldest} on, and had left at {left}"),
        ),
        _ => found(
            CameBy::Unknown,
            "its log cannot be read from here, and it keeps too few write-sets to tell".to_owned(),
        ),
    }
}

/// The position from which the node went on, by the last of these lines.
fn installed(log: &str, uuid: &str) -> Option<u64> {
    log.lines().rev().find_map(|line| {
        let (_, position) = line.split_once(INSTALLED)?;
        let seqno = position.trim().strip_prefix(uuid)?.strip_prefix(':')?;
        seqno.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::Sample;

    const UUID: &str = "befd421d-e706-11f1-bc0a-a7ea195e725e";

    fn state(oldest: &str) -> NodeState {
        let status = [
            ("wsrep_cluster_state_uuid", UUID),
            ("wsrep_local_cached_downto", oldest),
        ];
        let sample = Sample {
            at: Duration::ZERO,
            status: status
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        NodeState::new(&sample, &sample, &crate::node::Values::new())
    }

    #[test]
    fn the_log_tells_and_without_it_what_is_kept() {
        let log = |seqno: u64| {
            format!(
                "WSREP: Installed new state from SST: {UUID}:5\nx\n1 [Note] WSREP: SST received\n1 [Note] WSREP: Installed new state from SST: {UUID}:{seqno}\nend"
            )
        };
        let by = |oldest: &str, log: Option<&str>| proof(66, UUID, &state(oldest), log).by;
        assert_eq!(by("109", Some(&log(66))), CameBy::Ist);
        assert_eq!(by("2", Some(&log(128))), CameBy::Sst);
        assert_eq!(by("67", None), CameBy::Ist);
        assert_eq!(by("67", Some("nothing of it")), CameBy::Ist);
        assert_eq!(by("68", None), CameBy::Unknown);
        assert_eq!(proof(66, "another", &state("2"), None).by, CameBy::Sst);
    }
}
