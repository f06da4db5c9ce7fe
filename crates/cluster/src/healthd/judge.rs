//! Decides from a node's answer whether it may take traffic.

use serde::Serialize;

use crate::node::Values;

/// The conditions for taking traffic.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Maximum number of write-sets that may wait to be applied.
    pub max_queue: u64,
    /// Whether it may serve while it is a donor.
    pub donor_serves: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_queue: 100,
            donor_serves: false,
        }
    }
}

/// Whether a node may take traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether it may take reads.
    pub reads: bool,
    /// Whether it may take writes.
    pub writes: bool,
    /// It works, but new clients should go elsewhere. Work in progress may finish.
    pub drains: bool,
    /// One word: `synced`, `donor`, `joiner`, `joined`, `desynced`, `lagging`, `read_only`,
    /// `rejecting`, `not_ready`, `non_primary`, `not_galera`, `unreachable`.
    pub state: &'static str,
    /// The reason, as a fragment of text.
    pub reason: String,
}

impl Verdict {
    /// The verdict on a node that must get no traffic.
    pub(crate) fn down(state: &'static str, reason: impl Into<String>) -> Self {
        Self {
            reads: false,
            writes: false,
            drains: false,
            state,
            reason: reason.into(),
        }
    }

    fn draining(state: &'static str, reason: impl Into<String>) -> Self {
        Self {
            drains: true,
            ..Self::down(state, reason)
        }
    }

    fn up(writes: bool, state: &'static str, reason: impl Into<String>) -> Self {
        Self {
            reads: true,
            writes,
            ..Self::down(state, reason)
        }
    }
}

/// The queries. They return every name that is evaluated below.
pub(crate) const ASKED: [&str; 2] = [
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_status', 'wsrep_ready', 'wsrep_local_state', 'wsrep_local_state_comment', \
     'wsrep_local_recv_queue')",
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_provider', 'wsrep_desync', 'wsrep_reject_queries', 'read_only')",
];

/// Judges a node's answer. The most severe state comes first: outside the primary component,
/// nothing else matters.
pub(crate) fn judge(values: &Values, rules: Rules) -> Verdict {
    let is = |name: &str, value: &str| {
        values
            .get(name)
            .is_some_and(|reported| reported.eq_ignore_ascii_case(value))
    };
    let on = |name: &str| is(name, "ON") || is(name, "1");
    let text = |name: &str| values.get(name).map_or("", String::as_str);
    if !on("wsrep_on") || matches!(text("wsrep_provider"), "" | "none") {
        return Verdict::down(
            "not_galera",
            "the server is not a node of a cluster (wsrep_on is OFF, or there is no provider)",
        );
    }
    if !is("wsrep_cluster_status", "Primary") {
        return Verdict::down(
            "non_primary",
            format!(
                "the node is not in the primary component ({})",
                text("wsrep_cluster_status")
            ),
        );
    }
    if !on("wsrep_ready") {
        return Verdict::down(
            "not_ready",
            format!(
                "the node is not ready ({})",
                text("wsrep_local_state_comment")
            ),
        );
    }
    if !is("wsrep_reject_queries", "NONE") && !text("wsrep_reject_queries").is_empty() {
        return Verdict::down(
            "rejecting",
            format!(
                "the node rejects queries (wsrep_reject_queries={})",
                text("wsrep_reject_queries")
            ),
        );
    }
    let state: u8 = text("wsrep_local_state").parse().unwrap_or(0);
    match state {
        4 => {}
        2 if on("wsrep_desync") => {
            let text = "the node does not keep pace (wsrep_desync is ON)";
            return Verdict::draining("desynced", text);
        }
        2 if rules.donor_serves => {}
        2 => return Verdict::draining("donor", "the node gives a copy to another one"),
        1 => return Verdict::down("joiner", "the node receives a copy"),
        3 => return Verdict::draining("joined", "the node catches up"),
        _ => {
            return Verdict::down(
                "not_ready",
                format!("the node is {}", text("wsrep_local_state_comment")),
            );
        }
    }
    let queue: u64 = text("wsrep_local_recv_queue").parse().unwrap_or(u64::MAX);
    if queue > rules.max_queue {
        let reason = format!(
            "{queue} write-sets wait on the node, more than {}",
            rules.max_queue
        );
        return Verdict::draining("lagging", reason);
    }
    // Since MariaDB 12 it has more values than ON and OFF. An unknown value counts as read-only.
    if !is("read_only", "OFF") && !is("read_only", "0") {
        return Verdict::up(false, "read_only", "the node is read-only");
    }
    match state {
        2 => Verdict::up(
            true,
            "donor",
            "the node gives a copy to another one, and may serve meanwhile",
        ),
        _ => Verdict::up(true, "synced", "the node is synced"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: [(&str, &str); 8] = [
        ("wsrep_on", "ON"),
        ("wsrep_provider", "/usr/lib/galera/libgalera_smm.so"),
        ("wsrep_cluster_status", "Primary"),
        ("wsrep_ready", "ON"),
        ("wsrep_local_state", "4"),
        ("wsrep_local_recv_queue", "0"),
        ("wsrep_reject_queries", "NONE"),
        ("read_only", "OFF"),
    ];

    fn of(changes: &[(&str, &str)], rules: Rules) -> Verdict {
        let values = WELL
            .iter()
            .chain(changes)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        judge(&values.collect(), rules)
    }

    #[test]
    fn each_state_has_its_verdict() {
        let rules = Rules::default();
        // Changes, state, reads, writes, drains.
        for (changes, state, reads, writes, drains) in [
            (&[][..], "synced", true, true, false),
            (&[("read_only", "1")], "read_only", true, false, false),
            (&[("read_only", "NO_LOCK")], "read_only", true, false, false),
            (&[("wsrep_local_state", "2")], "donor", false, false, true),
            (
                &[("wsrep_local_state", "2"), ("wsrep_desync", "ON")],
                "desynced",
                false,
                false,
                true,
            ),
            (&[("wsrep_local_state", "3")], "joined", false, false, true),
            (&[("wsrep_local_state", "1")], "joiner", false, false, false),
            (
                &[("wsrep_local_state", "0")],
                "not_ready",
                false,
                false,
                false,
            ),
            (
                &[("wsrep_local_recv_queue", "101")],
                "lagging",
                false,
                false,
                true,
            ),
            (
                &[("wsrep_local_recv_queue", "100")],
                "synced",
                true,
                true,
                false,
            ),
            (&[("wsrep_ready", "OFF")], "not_ready", false, false, false),
            (
                &[("wsrep_reject_queries", "ALL")],
                "rejecting",
                false,
                false,
                false,
            ),
            (
                &[("wsrep_cluster_status", "non-Primary")],
                "non_primary",
                false,
                false,
                false,
            ),
            (&[("wsrep_on", "OFF")], "not_galera", false, false, false),
            (
                &[("wsrep_provider", "none")],
                "not_galera",
                false,
                false,
                false,
            ),
        ] {
            let verdict = of(changes, rules);
            assert_eq!(
                (verdict.state, verdict.reads, verdict.writes, verdict.drains),
                (state, reads, writes, drains),
                "{changes:?}"
            );
        }
        let donor = of(
            &[("wsrep_local_state", "2")],
            Rules {
                donor_serves: true,
                ..rules
            },
        );
        assert!(donor.reads && donor.writes);
        assert_eq!(judge(&Values::new(), rules).state, "not_galera");
    }
}
