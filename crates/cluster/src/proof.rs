//! Finds out how a node rejoined: by IST or by a full copy (SST).
//!
//! The provider logs "SST received" in both cases: with the position that the node had before, or
//! with that of the copy. A marker file in the data directory would prove nothing, because the
//! scripts for full copies keep files that they do not know.

use serde::{Deserialize, Serialize};

use crate::node::NodeState;

/// Logged once the provider knows the position of the node's data. History and position follow.
const INSTALLED: &str = "Installed new state from SST: ";
/// Logged at each start, before the provider contacts another node. The node's position follows.
const BEGUN: &str = "Setting GCS initial position to ";

/// Logged once a donor is chosen for the provider's request, or once it needs nothing. ("requested
/// state transfer from" does not count: every node of a group logs it for each request, even if no
/// donor is found.)
const ASKED: [&str; 2] = ["Requesting state transfer: success", INSTALLED];

/// Logged once a node receives something: write-sets, a copy, or what synced nodes apply.
const GOT: [&str; 4] = [
    "Receiving IST: ",
    "SST received",
    "Proceeding with SST",
    "Synchronized with group",
];

/// Logged when the provider gives up for good. The server process may remain, but must be restarted
/// in any case. In lower case.
const FAILED: [&str; 4] = [
    "restart required",
    "must be restarted",
    "will never receive state",
    "unsupported cc action version",
];

/// How a node rejoined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameBy {
    /// It received the write-sets that it had missed.
    Ist,
    /// It received a full copy.
    Sst,
    /// It never left.
    Stayed,
    /// The log of its start cannot be read.
    Unknown,
}

/// How a node rejoined, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// How it rejoined.
    pub by: CameBy,
    /// The evidence, as a fragment of text.
    pub evidence: String,
}

/// Determines how a node rejoined, from the log of its last start.
///
/// The write-sets that the node keeps prove nothing: a full copy includes some earlier ones, for
/// certification.
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
            format!("its log says that it continued from {begun}, where it had stopped"),
        ),
    }
}

/// The part of a log after the last start.
pub(crate) fn since_last_start(log: &str) -> Option<&str> {
    log.rsplit_once(BEGUN).map(|(_, start)| start)
}

/// Whether a server has started in this part of a log.
pub(crate) fn has_started(log: &str) -> bool {
    log.contains(BEGUN)
}

/// The position at which a node began its last start, if it has received nothing since; it may have
/// requested what it misses. Until that request is answered, its file has no position and its
/// tables are unchanged.
pub(crate) fn began_and_got_nothing(log: &str) -> Option<(&str, u64)> {
    let (begun, installed) = last_start(log)?;
    let start = log.rsplit_once(BEGUN).map(|(_, start)| start)?;
    let got = installed.is_some() || GOT.iter().any(|words| start.contains(words));
    let (uuid, seqno) = begun.rsplit_once(':')?;
    let seqno = seqno.parse().ok()?;
    (!got).then_some((uuid, seqno))
}

/// Whether the last start in this part of a log has requested what the node misses, or needed
/// nothing.
pub(crate) fn has_asked(log: &str) -> bool {
    let last = log.rsplit_once(BEGUN).map(|(_, start)| start);
    last.is_some_and(|start| ASKED.iter().any(|words| start.contains(words)))
}

/// The log line after the last start in which the provider says that it has given up for good.
pub(crate) fn gave_up(log: &str) -> Option<&str> {
    let start = log.rsplit_once(BEGUN).map(|(_, start)| start)?;
    // Other components ask for restarts, too.
    let mut lines = start.lines().filter(|line| line.contains("WSREP"));
    lines.find(|line| {
        let line = line.to_ascii_lowercase();
        FAILED.iter().any(|words| line.contains(words))
    })
}

/// The position at which a node began its last start, and the one at which it continued once it had
/// its data. `None`: it needed none.
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
        // Only the last start counts, and one that needed nothing has nothing installed.
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
        // A node that dies after its request has not changed its tables.
        let asks = none.clone() + "Requesting state transfer: success, donor: 0\n";
        assert_eq!(began_and_got_nothing(&asks), Some((UUID, 66)));
        for got in [
            "SST received: x",
            "Receiving IST: 34 writesets",
            "WSREP_SST: [INFO] Proceeding with SST",
        ] {
            assert_eq!(
                began_and_got_nothing(&format!("{asks}{got}\n")),
                None,
                "{got}"
            );
        }
        assert_eq!(began_and_got_nothing(&two), None);
        // Another node that starts at the same time has made its request, and this one has asked in
        // vain.
        let other = none
            + "Member 2.0 (c) requested state transfer from 'a,'. Selected 0.0 (a)(SYNCED) as donor.\n"
            + "Member 1.0 (b) requested state transfer from 'a,', but it is impossible to select State Transfer donor: x\n"
            + "Requesting state transfer failed: -11(x). Will keep retrying every 1 second(s)\n";
        assert!(!has_asked(&other));
        let asked = other + "Requesting state transfer: success after 2 tries, donor: 0\n";
        assert!(has_asked(&asked));
        assert_eq!(gave_up(&asked), None);
        let line = "1 [ERROR] WSREP: Receiving IST failed, node restart required: Unsupported CC action version: 71 (Protocol error)";
        let failed = format!("{asked}{line}\nmore\n");
        assert_eq!(gave_up(&failed), Some(line));
        // It was restarted.
        assert_eq!(gave_up(&(failed + &asked)), None);
    }
}
