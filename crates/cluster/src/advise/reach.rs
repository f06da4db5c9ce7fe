//! Whether donors can reach the ports on which joiners receive copies.

use std::thread;

use refloat_host::{Host, scripts};

use super::candidate::Candidate;
use super::facts::NodeFacts;
use super::script::run;
use crate::node::Role;

/// The script that tries, on a donor's machine, to reach a joiner.
const REACH: &str = include_str!("reach.sh");

/// Whether a donor can reach a joiner's port for state transfers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    pub donor: String,
    pub joiner: String,
    /// `HOST:PORT`.
    pub address: String,
    /// Why the port is unreachable. `None`: it is reachable, or nothing was tried.
    pub closed: Option<String>,
    /// Speed that the network device reports, in bytes per second. `None`: it reports none.
    pub bytes_per_second: Option<u64>,
    /// Whether the path stays on one machine.
    pub within: bool,
}

/// Tries every path from a donor to a joiner. A port on which a script waits for a copy is skipped:
/// it accepts only one connection.
pub(super) fn reaches(
    candidates: &[Candidate],
    nodes: &[NodeFacts],
    joiner: Option<&str>,
) -> Vec<Reach> {
    let is_settled = |node: &NodeFacts| match (&node.machine, &node.state) {
        (_, Some(state)) if state.role != Role::Synced => false,
        (Some(machine), _) => machine.listens.is_empty(),
        (None, Some(_)) => true,
        (None, None) => false,
    };
    let mut ways = Vec::new();
    for to in nodes
        .iter()
        .filter(|node| joiner.is_none_or(|name| node.name == name))
    {
        let (Some(host), port) = to.receives_at() else {
            continue;
        };
        if !is_settled(to) {
            continue;
        }
        for (from, candidate) in nodes.iter().zip(candidates) {
            let machine = (&from.machine, &candidate.member.host);
            if let (true, true, (Some(machine), Some(at))) =
                (from.name != to.name, from.can_give(), machine)
            {
                ways.push((from, to, machine.pid, at, host.clone(), port));
            }
        }
    }
    thread::scope(|scope| {
        let threads: Vec<_> = ways
            .into_iter()
            .map(|(from, to, pid, at, host, port)| {
                scope.spawn(move || reach(from, to, pid, at, &host, port))
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok().flatten())
            .collect()
    })
}

fn reach(
    from: &NodeFacts,
    to: &NodeFacts,
    pid: Option<u32>,
    at: &Host,
    host: &str,
    port: u16,
) -> Option<Reach> {
    let variables = [
        ("host", host.to_owned()),
        ("port", port.to_string()),
        ("pid", pid.map_or_else(String::new, |pid| pid.to_string())),
    ];
    let lines = run(at, &variables, &[scripts::ENTER, REACH].concat()).ok()?;
    Some(read_reach(
        &lines,
        &from.name,
        &to.name,
        format!("{host}:{port}"),
    ))
}

fn read_reach(lines: &[Vec<String>], donor: &str, joiner: &str, address: String) -> Reach {
    let mut reach = Reach {
        donor: donor.to_owned(),
        joiner: joiner.to_owned(),
        address,
        ..Reach::default()
    };
    for line in lines {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        match words.as_slice() {
            // Nothing listens, as expected, and the path is open.
            ["connect", "0", _] => {}
            ["connect", _, message] if message.contains("Connection refused") => {}
            ["connect", "124", _] => reach.closed = Some("no answer within 4 s".to_owned()),
            // No bash or no timeout: nothing was tried.
            ["connect", "126" | "127", _] => {}
            ["connect", _, message] => {
                let reason = message.rsplit(": ").next().unwrap_or_default();
                reach.closed = Some(
                    if reason.is_empty() {
                        "it cannot be reached"
                    } else {
                        reason
                    }
                    .to_owned(),
                );
            }
            ["device", "lo"] => reach.within = true,
            // In megabits per second; -1 if the device does not know.
            ["speed", speed] => {
                reach.bytes_per_second = speed
                    .parse::<u64>()
                    .ok()
                    .filter(|speed| *speed > 0)
                    .map(|speed| speed * 1_000_000 / 8);
            }
            _ => {}
        }
    }
    reach
}

#[cfg(test)]
mod tests {
    use super::super::script::lines;
    use super::*;

    #[test]
    fn a_refusal_of_the_port_is_an_open_way() {
        let way = |text| read_reach(&lines(text), "a", "b", "10.0.0.1:4444".to_owned());
        let refused = "connect\t1\tbash: connect: Connection refused bash: /dev/tcp/x/1: Connection refused\ndevice\teth0\nspeed\t1000";
        assert_eq!(way(refused).closed, None);
        assert_eq!(way(refused).bytes_per_second, Some(125_000_000));
        assert_eq!(
            way("connect\t124\t").closed.as_deref(),
            Some("no answer within 4 s")
        );
        assert_eq!(
            way("connect\t1\tbash: connect: No route to host")
                .closed
                .as_deref(),
            Some("No route to host")
        );
        assert!(way("connect\t0\t\ndevice\tlo\nspeed\t-1").within);
        assert_eq!(way("speed\t-1").bytes_per_second, None);
    }
}
