//! By which way a node came back: what it missed (IST), or a full copy (SST).
//!
//! The provider says "SST received" in both cases: with the position that the node had before, or with that of the copy. A script of a full
//! copy keeps files that it does not know, so nothing that is laid into the data directory tells.

use serde::{Deserialize, Serialize};

use crate::node::NodeState;

/// What the provider writes once it knows where the node's data stand: behind it history and position.
const INSTALLED: &str = "Installed new state from SST: ";
/// What it writes at each start, before it asks anybody: behind it the position that it has.
const BEGUN: &str = "Setting GCS initial position to ";

/// What it writes once it has asked, or needs nothing: the first as soon as a donor is chosen.
const ASKED: [&str; 3] = [
    "requested state transfer from",
    "Requesting state transfer: success",
    INSTALLED,
];

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

/// What a node that is back says of the way, by what its log says of its last start.
///
/// What it keeps of write-sets tells nothing: a full copy brings some from before it along, to certify by.
pub(crate) fn proof(uuid: &str, state: &NodeState, log: Option<&str>) -> Proof {
    let found = |by, evidence: String| Proof { by, evidence };
    if state.cluster_uuid != uuid {
        return found(
            CameBy::Sst,
            format!("it follows another history now, {}", state.cluster_uuid),
        );
    }
    let Some((begun, installed)) = log.and_then(last_start) else {
        return found(
            CameBy::Unknown,
            "what its log says of its start cannot be read from here".to_owned(),
        );
    };
    match installed {
        _ if !begun.starts_with(uuid) => found(
            CameBy::Sst,
            "its log says that it began without a place in this history".to_owned(),
        ),
        Some(installed) if installed != begun => found(
            CameBy::Sst,
            format!("its log says that it began at {begun} and took a copy at {installed}"),
        ),
        _ => found(
            CameBy::Ist,
            format!("its log says that it went on from {begun}, where it had left"),
        ),
    }
}

/// Whether a server has started in this part of a log.
pub(crate) fn has_started(log: &str) -> bool {
    log.contains(BEGUN)
}

/// Whether the last start in this part of a log has come as far as to ask the others for what the node misses, or needed nothing of them.
pub(crate) fn has_asked(log: &str) -> bool {
    let last = log.rsplit_once(BEGUN).map(|(_, start)| start);
    last.is_some_and(|start| ASKED.iter().any(|words| start.contains(words)))
}

/// The position that a node began its last start with, and the one that it went on from once it had its data; `None`: it needed none.
pub(crate) fn last_start(log: &str) -> Option<(&str, Option<&str>)> {
    let (_, start) = log.rsplit_once(BEGUN)?;
    let begun = start.lines().next()?.trim();
    let installed = start
        .rsplit_once(INSTALLED)
        .and_then(|(_, rest)| rest.lines().next())
        .map(str::trim);
    Some((begun, installed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    const UUID: &str = "befd421d-e706-11f1-bc0a-a7ea195e725e";
    const NOWHERE: &str = "00000000-0000-0000-0000-000000000000:-1";

    #[test]
    fn the_last_start_in_the_log_tells() {
        let state = fixtures::state(&[("wsrep_cluster_state_uuid", UUID)], "");
        let start = |begun: &str, installed: &str| {
            format!(
                "1 [Note] WSREP: Setting GCS initial position to {begun}\nx\n1 [Note] WSREP: Installed new state from SST: {installed}\nend\n"
            )
        };
        let at = |seqno: u64| format!("{UUID}:{seqno}");
        let by = |log: &str| proof(UUID, &state, Some(log)).by;
        assert_eq!(by(&start(&at(66), &at(66))), CameBy::Ist);
        assert_eq!(by(&start(&at(66), &at(128))), CameBy::Sst);
        assert_eq!(by(&start(NOWHERE, &at(128))), CameBy::Sst);
        // Only the last one counts, and one that needed nothing has nothing installed.
        let two = start(&at(5), &at(9)) + &start(&at(66), &at(66));
        assert_eq!(by(&two), CameBy::Ist);
        let none =
            start(&at(5), &at(9)) + "WSREP: Setting GCS initial position to " + &at(66) + "\n";
        assert_eq!(by(&none), CameBy::Ist);
        assert_eq!(by("nothing of it"), CameBy::Unknown);
        assert_eq!(proof(UUID, &state, None).by, CameBy::Unknown);
        let other = fixtures::state(&[], "");
        assert_eq!(proof(UUID, &other, Some(&two)).by, CameBy::Sst);
        assert!(has_started(&two) && !has_started("x"));
        assert!(has_asked(&two) && !has_asked(&none) && !has_asked("x"));
        let asked = none
            + "Member 1.0 (b) requested state transfer from 'a,'. Selected 0.0 (a)(SYNCED) as donor.\n";
        assert!(has_asked(&asked));
    }
}
