//! Nodes and clusters for unit tests.

use std::time::Duration;

use crate::node::{NodeState, Sample, Values};
use crate::view::{ClusterView, NodeView, Quorum};

/// The state of one node of three, primary and synced, with these status values added.
pub fn state(values: &[(&str, &str)], options: &str) -> NodeState {
    let status = [
        ("wsrep_cluster_state_uuid", "u"),
        ("wsrep_cluster_status", "Primary"),
        ("wsrep_cluster_size", "3"),
        ("wsrep_cluster_conf_id", "3"),
        ("wsrep_local_state", "4"),
        ("wsrep_ready", "ON"),
        ("wsrep_last_committed", "1000"),
        ("wsrep_local_cached_downto", "100"),
        ("uptime", "100"),
    ];
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<Values>()
    };
    let mut status = map(&status);
    status.extend(map(values));
    let sample = Sample {
        at: Duration::from_secs(1),
        status,
    };
    NodeState::new(
        &sample,
        &sample,
        &map(&[("wsrep_provider_options", options)]),
    )
}

/// A cluster of nodes `n1`, `n2` and so on; `None`: the node does not answer.
pub fn view(states: Vec<Option<NodeState>>) -> ClusterView {
    let nodes: Vec<NodeView> = states
        .into_iter()
        .enumerate()
        .map(|(at, state)| NodeView {
            name: format!("n{}", at + 1),
            address: String::new(),
            state,
            receives: None,
            copying: None,
            unreachable: None,
            grastate: None,
            files_unreadable: None,
            behind: None,
            rejoin: None,
        })
        .collect();
    let primary = nodes.iter().filter(|node| node.primary().is_some()).count();
    ClusterView {
        name: "c".to_owned(),
        quorum: Quorum {
            uuid: Some("u".to_owned()),
            view: Some(3),
            primary,
            ..Quorum::default()
        },
        nodes,
        tables: None,
        tables_unread: None,
        work: Vec::new(),
        findings: Vec::new(),
    }
}
