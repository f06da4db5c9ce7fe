//! Finds problems of a cluster in what its nodes report.

use std::collections::BTreeMap;

use refloat_host::GraState;

use crate::node::{NodeState, Role};
use crate::view::{ClusterView, Finding, NodeView, Severity};
use crate::work::{OpenWork, WorkKind};

/// A node with this many waiting write-sets is behind.
const QUEUE_LONG: u64 = 100;
/// Applications notice when replication is paused for this fraction of the time.
const PAUSED_MUCH: f64 = 0.05;
/// In seconds. A shorter window of write-sets does not cover a restart with an upgrade.
const WINDOW_SHORT: f64 = 600.0;
/// Maximum number of names shown from a longer list.
const NAMES_TOLD: usize = 5;

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, nodes: &[&str], text: impl Into<String>) {
        self.0.push(Finding {
            severity,
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
            text: text.into(),
        });
    }
}

impl ClusterView {
    /// Adds unfinished work on this cluster, and searches for problems again with that in mind.
    pub fn note_work(&mut self, work: Vec<OpenWork>) {
        for one in work {
            let known = self.work.iter_mut().find(|known| known.run == one.run);
            match known {
                None => self.work.push(one),
                // Another process has resumed the work.
                Some(known) if known.running != Some(true) => {
                    (known.process, known.running) = (one.process, one.running);
                }
                Some(_) => {}
            }
        }
        self.look_for_trouble();
    }

    pub(crate) fn look_for_trouble(&mut self) {
        self.findings = find(self);
    }
}

/// All problems, worst first.
fn find(view: &ClusterView) -> Vec<Finding> {
    let mut found = Findings(Vec::new());
    work(view, &mut found);
    listed_twice(view, &mut found);
    component(view, &mut found);
    for node in &view.nodes {
        match &node.state {
            Some(state) => answering(node, state, &mut found),
            None => silent(node, &mut found),
        }
    }
    differences(view, &mut found);
    // Only the restore knows which node continues: the others hold data that it discards.
    if !view.work.iter().any(|work| work.kind == WorkKind::Restore) {
        bootstrap(view, &mut found);
    }
    tables(view, &mut found);
    let mut found = found.0;
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// Unfinished work by Refloat on the cluster.
fn work(view: &ClusterView, found: &mut Findings) {
    for work in &view.work {
        let severity = match (work.kind, work.running) {
            (_, Some(true)) => Severity::Note,
            (WorkKind::Restore, _) => Severity::Critical,
            (WorkKind::Maintenance, _) => Severity::Warning,
        };
        found.add(severity, &[&work.node], work.describe());
    }
}

/// A list whose addresses lead through a load balancer, or that lists one node twice.
fn listed_twice(view: &ClusterView, found: &mut Findings) {
    for names in view.same_nodes() {
        found.add(
            Severity::Critical,
            &names,
            "these are one node: their addresses lead to it, as those of a load balancer do. Other nodes may not have been asked: list each by its own address",
        );
    }
}

/// Checks that there is one cluster, and that all of its nodes are listed.
fn component(view: &ClusterView, found: &mut Findings) {
    use Severity::{Critical, Warning};
    let primary: Vec<(&str, &NodeState)> = view
        .nodes
        .iter()
        .filter_map(|node| Some((node.name.as_str(), node.primary()?)))
        .collect();
    if primary.is_empty() {
        found.add(
            Critical,
            &[],
            "no node that answers belongs to a primary component: nothing can be read or written",
        );
        return;
    }
    let all: Vec<&str> = primary.iter().map(|(name, _)| *name).collect();
    let by = |what: &dyn Fn(&NodeState) -> String| {
        let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, state) in &primary {
            groups.entry(what(state)).or_default().push(name);
        }
        groups
    };
    let describe = |groups: &BTreeMap<String, Vec<&str>>| {
        let groups: Vec<String> = groups
            .iter()
            .map(|(value, names)| format!("{} say {value}", names.join(", ")))
            .collect();
        groups.join("; ")
    };
    let histories = by(&|state| state.cluster_uuid.clone());
    if histories.len() > 1 {
        found.add(
            Critical,
            &all,
            format!(
                "these are several clusters, with histories of their own: {}",
                describe(&histories)
            ),
        );
        return;
    }
    let views = by(&|state| format!("view {} of {} nodes", state.view.unwrap_or(0), state.size));
    if views.len() > 1 {
        found.add(
            Critical,
            &all,
            format!("the nodes disagree on who belongs to the cluster: {}; unless that is over in a moment the cluster is split", describe(&views)),
        );
    } else if let Some(size) = view.quorum.size {
        let seen = primary.len() as u64;
        if seen > size {
            let text = format!(
                "{seen} nodes belong to primary components, and each counts {size} members: the \
                cluster is split, and its parts run independently"
            );
            found.add(Critical, &all, text);
        } else if size > seen {
            // A listed node that does not answer is reported below.
            let listed = view.quorum.listed as u64;
            let why = if listed >= size {
                "it has not noticed yet that the others are gone, or they are there and do not answer us"
            } else {
                "the others are not listed, or no servers (garbd)"
            };
            let text = format!("the cluster counts {size} members, of which {seen} answer: {why}");
            found.add(Warning, &[], text);
        }
    }
}

fn answering(node: &NodeView, state: &NodeState, found: &mut Findings) {
    let name = &node.name;
    membership(name, state, found);
    pace(name, state, found);
    long_ddl(name, state, found);
    statements(name, state, found);
    queues(name, state, found);
    gcache(name, state, found);
    settings(name, state, found);
}

/// Checks that a node belongs to the primary component and is ready.
fn membership(name: &str, state: &NodeState, found: &mut Findings) {
    if !state.primary {
        found.add(
            Severity::Critical,
            &[name],
            format!(
                "it is not in the primary component, and sees {} with itself: it refuses statements",
                if state.size == 1 {
                    "1 node".to_owned()
                } else {
                    format!("{} nodes", state.size)
                }
            ),
        );
    } else if !state.ready {
        found.add(
            Severity::Critical,
            &[name],
            format!("it is not ready ({}): it refuses statements", state.state),
        );
    }
}

/// Checks that a node keeps up with the others.
fn pace(name: &str, state: &NodeState, found: &mut Findings) {
    use Severity::{Note, Warning};
    match state.role {
        Role::Donor if state.desync => found.add(
            Warning,
            &[name],
            "it was told not to keep pace (wsrep_desync=ON)",
        ),
        Role::Donor => found.add(
            Warning,
            &[name],
            "it gives a copy to another node, and does not keep pace meanwhile",
        ),
        Role::Joiner => found.add(Warning, &[name], "it receives a copy, or waits for one"),
        Role::Joined => found.add(Note, &[name], "it catches up"),
        Role::Synced if state.desync => {
            found.add(Warning, &[name], "wsrep_desync is ON: it may fall behind");
        }
        Role::Synced | Role::Undefined => {}
    }
}

/// A DDL statement that has run for a while.
fn long_ddl(name: &str, state: &NodeState, found: &mut Findings) {
    let Some(ddl) = &state.ddl else { return };
    let whose = if ddl.applied {
        " (of another node, applied here)"
    } else {
        ""
    };
    let alone = state.desync && !ddl.applied;
    let meaning = if alone {
        "on this node alone, which does not keep pace meanwhile".to_owned()
    } else {
        format!(
            "in the order of all write-sets, so nothing that comes after it is committed here before it has ended; {}",
            match ddl.waiting {
                1 => "1 session waits".to_owned(),
                more => format!("{more} sessions wait"),
            }
        )
    };
    found.add(
        if alone {
            Severity::Warning
        } else {
            Severity::Critical
        },
        &[name],
        format!(
            "a DDL statement has run for {:.0} s{whose}, {meaning}: {}",
            ddl.seconds, ddl.statement
        ),
    );
}

/// Checks what happens to statements on a node.
fn statements(name: &str, state: &NodeState, found: &mut Findings) {
    use Severity::{Critical, Note, Warning};
    if !state.replicates {
        found.add(
            Critical,
            &[name],
            "wsrep_on is OFF: what is written here does not go to the others",
        );
    }
    if let Some(which) = &state.rejects_queries {
        found.add(
            Warning,
            &[name],
            format!("it rejects queries (wsrep_reject_queries={which})"),
        );
    }
    if state.read_only {
        found.add(Note, &[name], "it is read-only");
    }
}

/// Reports waiting write-sets, and what they wait for.
fn queues(name: &str, state: &NodeState, found: &mut Findings) {
    if state.receive_queue.now >= QUEUE_LONG {
        found.add(
            Severity::Warning,
            &[name],
            format!("{} write-sets wait to be applied", state.receive_queue.now),
        );
    }
    let flow = &state.flow_control;
    if flow.paused >= PAUSED_MUCH {
        let who = if flow.sent > 0 {
            ", and it is one of those that the others wait for"
        } else {
            ""
        };
        found.add(
            Severity::Warning,
            &[name],
            format!(
                "replication was paused {:.0} % of the time just now{who}",
                flow.paused * 100.0
            ),
        );
    }
}

/// Checks that a node keeps write-sets for long enough.
fn gcache(name: &str, state: &NodeState, found: &mut Findings) {
    if let Some(covers) = state
        .gcache
        .covers_seconds
        .filter(|covers| state.primary && *covers < WINDOW_SHORT)
    {
        found.add(
            Severity::Warning,
            &[name],
            format!("its gcache covers an absence of {covers:.0} s at the present rate: a node that is away for longer needs a full copy"),
        );
    }
}

/// Checks settings that Galera needs.
fn settings(name: &str, state: &NodeState, found: &mut Findings) {
    if state.primary && !state.binlog_format.eq_ignore_ascii_case("ROW") {
        found.add(
            Severity::Warning,
            &[name],
            format!("binlog_format is {}: Galera needs ROW", state.binlog_format),
        );
    }
    if state.autoinc_lock_mode.is_some_and(|mode| mode != 2) {
        found.add(
            Severity::Warning,
            &[name],
            "innodb_autoinc_lock_mode is not 2: appliers may deadlock",
        );
    }
}

fn silent(node: &NodeView, found: &mut Findings) {
    if let Some(pid) = node.receives {
        found.add(
            Severity::Warning,
            &[&node.name],
            format!("it receives a full copy (process {pid} on its machine), and does not answer before that has come"),
        );
        return;
    }
    let why = node.unreachable.as_deref().unwrap_or("it does not answer");
    found.add(
        Severity::Critical,
        &[&node.name],
        format!("it does not answer: {why}"),
    );
    if let Some(reason) = &node.files_unreadable {
        found.add(
            Severity::Note,
            &[&node.name],
            format!("its files could not be looked at: {reason}"),
        );
    }
}

/// Reports settings that should be the same on all nodes but differ.
fn differences(view: &ClusterView, found: &mut Findings) {
    type Setting = (&'static str, fn(&NodeState) -> String, &'static str);
    const SETTINGS: [Setting; 10] = [
        (
            "version",
            |state| state.version.clone(),
            "fine while an upgrade is under way",
        ),
        (
            "the provider's version",
            |state| state.provider.clone(),
            "fine while an upgrade is under way",
        ),
        (
            "wsrep_cluster_name",
            |state| state.cluster_name.clone(),
            "they would not find each other again",
        ),
        (
            "wsrep_sst_method",
            |state| state.sst.method.clone(),
            "the joiner's counts, and the donor has to have it",
        ),
        (
            "the account for copies (wsrep_sst_auth)",
            |state| {
                (if state.sst.has_account {
                    "set"
                } else {
                    "not set"
                })
                .to_owned()
            },
            "a donor without it may fail",
        ),
        (
            "gcache capacity",
            |state| format!("{} bytes", state.gcache.capacity),
            "who comes back depends on who is asked",
        ),
        (
            "wsrep_slave_threads",
            |state| state.appliers.to_string(),
            "the one that applies most slowly holds all of them up",
        ),
        (
            "gcs.fc_limit",
            |state| {
                state
                    .flow_control
                    .limit
                    .map_or_else(String::new, |limit| limit.to_string())
            },
            "one makes the others wait sooner than another",
        ),
        (
            "wsrep_max_ws_size",
            |state| {
                state
                    .limits
                    .write_set_bytes
                    .map_or_else(String::new, |bytes| bytes.to_string())
            },
            "a transaction fails on one node and not on another",
        ),
        (
            "wsrep_max_ws_rows",
            |state| {
                state
                    .limits
                    .write_set_rows
                    .map_or_else(|| "no limit".to_owned(), |rows| rows.to_string())
            },
            "a transaction fails on one node and not on another",
        ),
    ];
    for (setting, value, meaning) in SETTINGS {
        let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for node in &view.nodes {
            if let Some(state) = &node.state {
                groups.entry(value(state)).or_default().push(&node.name);
            }
        }
        if groups.len() > 1 {
            let values: Vec<String> = groups
                .iter()
                .map(|(value, names)| format!("{value} on {}", names.join(", ")))
                .collect();
            found.add(
                Severity::Warning,
                &[],
                format!("{setting} differs: {} ({meaning})", values.join("; ")),
            );
        }
    }
}

/// Reports which node may bootstrap the cluster when no node serves.
fn bootstrap(view: &ClusterView, found: &mut Findings) {
    if view.quorum.primary > 0 {
        // Bootstrapping another would create a second cluster.
        for node in view.nodes.iter().filter(|node| {
            node.grastate
                .as_ref()
                .is_some_and(|file| file.safe_to_bootstrap == Some(true))
        }) {
            found.add(
                Severity::Warning,
                &[&node.name],
                "its grastate.dat says safe_to_bootstrap: 1, but the cluster runs: it must join, \
                and never bootstrap",
            );
        }
        return;
    }
    // A running node knows its position, though its file says -1.
    let files: Vec<_> = view
        .nodes
        .iter()
        .filter_map(|node| {
            let mut file = node.grastate.clone().filter(GraState::has_history)?;
            file.seqno = file
                .seqno
                .or(node.state.as_ref().and_then(|state| state.seqno));
            Some((node.name.as_str(), file))
        })
        .collect();
    if files.is_empty() {
        return;
    }
    let without = |node: &&NodeView| {
        node.grastate
            .as_ref()
            .is_some_and(|file| !file.has_history())
    };
    let empty = view.nodes.iter().filter(without).count();
    let positions: Vec<String> = files
        .iter()
        .map(|(name, file)| {
            let seqno = file
                .seqno
                .map_or_else(|| "unknown".to_owned(), |seqno| seqno.to_string());
            let safe = if file.safe_to_bootstrap == Some(true) {
                ", safe to bootstrap"
            } else {
                ""
            };
            format!("{name} at {seqno}{safe}")
        })
        .collect();
    let positions = positions.join("; ");
    let histories: std::collections::BTreeSet<&str> =
        files.iter().map(|(_, file)| file.uuid.as_str()).collect();
    if histories.len() > 1 {
        found.add(
            Severity::Critical,
            &[],
            format!("the nodes hold the data of different histories: {positions}"),
        );
    } else if files.iter().any(|(_, file)| file.seqno.is_none())
        || files.len() + empty < view.nodes.len()
    {
        found.add(
            Severity::Critical,
            &[],
            format!(
                "the most advanced node is not known until the position of every node is: \
                {positions}"
            ),
        );
    } else {
        // Of several nodes at the same position, the one that left last.
        let most = files.iter().map(|(_, file)| file.seqno).max();
        let mut newest: Vec<_> = files
            .iter()
            .filter(|(_, file)| Some(file.seqno) == most)
            .collect();
        newest.sort_by_key(|(_, file)| file.safe_to_bootstrap != Some(true));
        let names: Vec<&str> = newest.iter().map(|(name, _)| *name).collect();
        let first = names.first().copied().unwrap_or_default();
        let text = if names.len() == 1 {
            format!("{first} holds the newest data, and is the one to bootstrap from: {positions}")
        } else {
            format!(
                "{} hold the same newest data; the one to bootstrap from is {first}: {positions}",
                names.join(" and ")
            )
        };
        found.add(Severity::Critical, &[], text);
    }
}

fn tables(view: &ClusterView, found: &mut Findings) {
    if let Some(reason) = &view.tables_unread {
        found.add(
            Severity::Warning,
            &[],
            format!("tables were not looked through: {reason}"),
        );
    }
    let Some(tables) = &view.tables else { return };
    let mut report = |count: u64, names: &[String], what: &str, meaning: &str| {
        if count == 0 {
            return;
        }
        let mut list = names
            .iter()
            .take(NAMES_TOLD)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if count > NAMES_TOLD as u64 {
            list.push_str(", …");
        }
        let tables = if count == 1 {
            "1 table".to_owned()
        } else {
            format!("{count} tables")
        };
        found.add(
            Severity::Warning,
            &[],
            format!("{tables} {what}: {list} ({meaning})"),
        );
    };
    report(
        tables.without_key,
        &tables.without_key_names,
        "without a primary key",
        "nodes may keep their rows in different order, and large changes of them stall appliers",
    );
    report(
        tables.other_engine,
        &tables.other_engine_names,
        "of engines other than InnoDB",
        "their rows are not replicated",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Quorum;

    const HISTORY: &str = "30ba41b5-e6ea-11f1-acb3-d71df7acd2d5";

    /// The findings when all nodes are down with these files.
    fn down(files: &[(&str, Option<u64>, bool)]) -> String {
        let nodes = files
            .iter()
            .enumerate()
            .map(|(at, (uuid, seqno, safe))| NodeView {
                name: format!("n{}", at + 1),
                address: String::new(),
                state: None,
                receives: None,
                copying: None,
                unreachable: Some("it is down".to_owned()),
                grastate: Some(GraState {
                    uuid: (*uuid).to_owned(),
                    seqno: *seqno,
                    safe_to_bootstrap: Some(*safe),
                }),
                files_unreadable: None,
                behind: None,
                rejoin: None,
            });
        let view = ClusterView {
            name: "c".to_owned(),
            quorum: Quorum::default(),
            nodes: nodes.collect(),
            tables: None,
            tables_unread: None,
            work: Vec::new(),
            findings: Vec::new(),
        };
        let mut found = Findings(Vec::new());
        bootstrap(&view, &mut found);
        found
            .0
            .pop()
            .map_or_else(String::new, |finding| finding.text)
    }

    #[test]
    fn which_node_begins_a_cluster_that_is_down() {
        let one = down(&[
            (HISTORY, Some(7), false),
            (HISTORY, Some(9), true),
            (HISTORY, Some(8), false),
        ]);
        assert!(one.starts_with("n2 holds the newest data"), "{one}");
        let two = down(&[(HISTORY, Some(9), false), (HISTORY, Some(9), true)]);
        assert!(
            two.starts_with("n2 and n1 hold the same newest data; the one to bootstrap from is n2"),
            "{two}"
        );
        let unknown = down(&[(HISTORY, Some(9), true), (HISTORY, None, false)]);
        assert!(
            unknown.contains("is not known until")
                && unknown.ends_with("n1 at 9, safe to bootstrap; n2 at unknown"),
            "{unknown}"
        );
        // A node whose copy failed holds nothing, and does not count.
        let wiped = down(&[
            ("00000000-0000-0000-0000-000000000000", None, false),
            (HISTORY, Some(9), true),
        ]);
        assert!(wiped.starts_with("n2 holds the newest data"), "{wiped}");
        let other = "40ba41b5-e6ea-11f1-acb3-d71df7acd2d5";
        let histories = down(&[(HISTORY, Some(9), true), (other, Some(9), true)]);
        assert!(histories.contains("different histories"), "{histories}");
    }
}
