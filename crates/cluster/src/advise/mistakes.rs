//! Finds what would make a state transfer fail or be unsafe.

use std::net::IpAddr;

use super::encryption::{self, Encryption};
use super::facts::NodeFacts;
use super::inspect::Facts;
use super::mistake::{Effect, Found, Mistake, MistakeKind};
use super::pairs;
use super::sides::{Side, account, rate_limit, tools};
use super::streams;
use super::unit::start_timeout;
use crate::node::Role;
use crate::node::names_of;

/// All mistakes, worst first.
pub(super) fn find(facts: &Facts, joiner: Option<&str>) -> Vec<Mistake> {
    let mut found = Found::default();
    let joiners = facts
        .nodes
        .iter()
        .filter(|node| joiner.is_none_or(|name| node.name == name));
    for to in joiners {
        let donors: Vec<&NodeFacts> = facts
            .nodes
            .iter()
            .filter(|node| node.name != to.name && node.can_give())
            .collect();
        alone(facts, to, &donors, &mut found);
        donor_names(facts, to, &donors, &mut found);
        start_timeout(facts, to, &donors, &mut found);
        let Some(method) = to.method() else { continue };
        tools(to, method, Side::Joiner, &mut found);
        for from in donors {
            tools(from, method, Side::Donor, &mut found);
            busy(from, to, &mut found);
            account(from, method, &mut found);
            rate_limit(from, method, &mut found);
            pairs::compare(from, to, method, &mut found);
            streams::compare(from, to, method, &mut found);
        }
    }
    for node in &facts.nodes {
        if joiner.is_none_or(|name| name == node.name) || node.can_give() {
            encryption::certificates(node, &mut found);
        }
    }
    ways(facts, &mut found);
    no_tls(facts, joiner, &mut found);
    found.worst_first()
}

/// Checks a joiner on its own, whichever node is the donor.
fn alone(facts: &Facts, to: &NodeFacts, donors: &[&NodeFacts], found: &mut Found) {
    let name = [to.name.as_str()];
    if donors.is_empty() {
        let text = if facts.nodes.len() == 1 {
            "it is the only node that is known: none could give it a copy"
        } else {
            "no other node belongs to the primary component and takes statements: none could give it a copy"
        };
        found.fails(
            MistakeKind::NoDonor,
            &name,
            text,
            "bring another node back first, or list them all in a cluster.toml",
        );
    }
    let Some(machine) = &to.machine else { return };
    // During a copy, the copy's own program listens.
    let receives = to
        .state
        .as_ref()
        .is_some_and(|state| state.role == Role::Joiner);
    // With a method that receives on the server's own port, nothing else listens.
    let mut others = machine
        .listens
        .iter()
        .filter(|one| one.pid.is_none() || one.pid != machine.pid);
    if let (Some(listener), false) = (others.next(), receives) {
        let who = match (listener.program.as_str(), listener.pid) {
            ("", _) | (_, None) => "another program".to_owned(),
            (program, Some(pid)) => format!("{program} (process {pid})"),
        };
        found.fails(
            MistakeKind::PortTaken,
            &name,
            format!(
                "its port for copies, {}, is taken by {who}",
                to.receives_at().1
            ),
            "end that program, or give wsrep_sst_receive_address another port",
        );
    }
    if let (Some(host), port) = to.receives_at()
        && host.parse::<IpAddr>().is_ok()
        && !machine.addresses.is_empty()
        && !machine.addresses.contains(&host)
    {
        found.add(
            MistakeKind::PortClosed,
            Effect::Unsafe,
            &name,
            format!("it receives copies at {host}:{port}, and its machine has no such address: a copy arrives only if something forwards it"),
            "correct wsrep_sst_receive_address or wsrep_node_address, unless addresses are translated on the way",
        );
    }
    if !receives && !machine.running.is_empty() {
        found.fails(
            MistakeKind::Leftover,
            &name,
            format!("an earlier copy still runs ({}): the next one waits for it 30 s and gives up, and a node that comes by IST does too", machine.running.join("; ")),
            "wait for it, or end it: when a donor is killed, the script of its copy may wait for it for ever",
        );
    }
    if !receives && !machine.leftovers.is_empty() {
        found.add(
            MistakeKind::Leftover,
            Effect::Unsafe,
            &name,
            format!(
                "an earlier copy has left {} in its data directory: it did not end well",
                machine.leftovers.join(" and ")
            ),
            "check its error log before the next one; the next copy removes them",
        );
    }
}

/// Reports a donor that is already giving a copy. If its joiner fails, the donor continues for a
/// while, and sends to whatever listens on the port by then. That is the next attempt, which fails
/// because of it.
fn busy(from: &NodeFacts, to: &NodeFacts, found: &mut Found) {
    let state = from.state.as_ref();
    let receives = to
        .state
        .as_ref()
        .is_some_and(|state| state.role == Role::Joiner);
    if state.is_some_and(|state| state.role == Role::Donor && !state.desync) && !receives {
        found.add(
            MistakeKind::Busy,
            Effect::Unsafe,
            &[&from.name],
            "it is already giving a copy; if that is what is left of a copy that failed, it spoils the next one",
            "wait until it is synced again",
        );
    }
}

/// `wsrep_sst_donor`: names in order. A trailing comma allows other nodes as donors too.
fn donor_names(facts: &Facts, to: &NodeFacts, donors: &[&NodeFacts], found: &mut Found) {
    let setting = match &to.state {
        Some(state) => state.sst.donor.clone(),
        None => to.option(&["server"], "wsrep-sst-donor").map(str::to_owned),
    };
    let Some(list) = setting.filter(|list| !list.trim().is_empty()) else {
        return;
    };
    let named: Vec<&str> = names_of(&list).collect();
    let open = list.trim_end().ends_with(',');
    let unknown: Vec<&str> = named
        .iter()
        .copied()
        .filter(|one| facts.lacks(one))
        .collect();
    let gives = |one: &&str| donors.iter().any(|node| node.cluster_name() == *one);
    if !unknown.is_empty() {
        let effect = if open || named.iter().any(&gives) {
            Effect::Unsafe
        } else {
            Effect::Fails
        };
        found.add(
            MistakeKind::DonorName,
            effect,
            &[&to.name],
            format!(
                "wsrep_sst_donor={list} names {}, and no node has that wsrep_node_name",
                unknown.join(" and ")
            ),
            "write the names as in wsrep_node_name, with a comma after the last one so that others \
            may be donors too",
        );
    } else if !open && !named.iter().any(gives) {
        found.fails(
            MistakeKind::DonorName,
            &[&to.name],
            format!(
                "wsrep_sst_donor={list} allows no other donor, and none of these can be one \
                now"
            ),
            "write a comma after the last name: then any other node may be the donor",
        );
    }
}

/// Reports ports that a donor cannot reach.
fn ways(facts: &Facts, found: &mut Found) {
    for reach in &facts.reaches {
        if let Some(reason) = &reach.closed {
            found.fails(
                MistakeKind::PortClosed,
                &[&reach.donor, &reach.joiner],
                format!("{} as a donor cannot reach {}, where {} receives copies: {reason}", reach.donor, reach.address, reach.joiner),
                "open the port in firewalls on both machines and between them, or correct wsrep_sst_receive_address",
            );
        }
    }
}

/// Reports nodes whose copies anybody can read, in one mistake for all of them.
fn no_tls(facts: &Facts, joiner: Option<&str>, found: &mut Found) {
    let mut plain: Vec<&str> = Vec::new();
    let mut unverified: Vec<&str> = Vec::new();
    for node in &facts.nodes {
        let (Some(method), true) = (node.method(), node.machine.is_some()) else {
            continue;
        };
        if joiner.is_some_and(|name| name != node.name) && !node.can_give() {
            continue;
        }
        match encryption::of(node, method) {
            Encryption::None => plain.push(&node.name),
            Encryption::Tls { verified: false } => unverified.push(&node.name),
            _ => {}
        }
    }
    let remedy =
        "give every node a certificate of one authority, and set ssl-mode=VERIFY_CA in [sst]";
    if !plain.is_empty() {
        found.add(
            MistakeKind::NoTls,
            Effect::Unsafe,
            &plain,
            "copies cross the network without TLS: anyone on the path can read all data, and \
            whoever connects first can send the joiner other data",
            remedy,
        );
    }
    if !unverified.is_empty() {
        found.add(
            MistakeKind::NoTls,
            Effect::Unsafe,
            &unverified,
            "copies are encrypted, but certificates are not verified: whoever connects first can \
            send the joiner other data",
            remedy,
        );
    }
}
