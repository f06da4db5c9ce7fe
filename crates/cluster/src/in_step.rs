//! Whether a synced node is synced with the other nodes.
//!
//! A node that was told to bootstrap (`gcomm://` without names), or that finds no other node, is
//! also primary, synced and ready, but in a cluster of its own.

use std::time::{Duration, Instant};

use refloat_host::{Control, place};
use refloat_run::{Refusal, Run};

use crate::hold::SEE_STATUS;
use crate::join::{brief, is_down};
use crate::member::Member;
use crate::node::NodeState;
use crate::observe::observe;
use crate::reasons;
use crate::view::ClusterView;

/// How long the others may see another membership than the node does: they learn of a change at
/// different times.
const ALONE_PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait while no other node answers.
const SILENCE: Duration = Duration::from_secs(120);
/// How often all nodes are queried.
const POLL: Duration = Duration::from_millis(500);
/// How long to wait for a node that was told to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(120);

/// The nodes with which a node is synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Among {
    /// The other nodes.
    Others,
    /// None of the nodes that serve; the text says what each side sees.
    Itself(String),
    /// No other node answers as a member of a primary component.
    Unseen,
}

/// Compares what a node of a primary component and the others report about each other.
///
/// View numbers restart with each cluster, so two single-node clusters look alike. A node that
/// really is with the others also counts them.
pub(crate) fn among(view: &ClusterView, at: usize) -> Among {
    let Some(primary) = view.nodes[at].primary() else {
        return Among::Unseen;
    };
    let others: Vec<(&str, &NodeState)> = view
        .nodes
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != at)
        .filter_map(|(_, node)| Some((node.name.as_str(), node.primary()?)))
        .collect();
    let Some((name, other)) = others.first() else {
        return Among::Unseen;
    };
    let component = |state: &NodeState| (state.cluster_uuid.clone(), state.view, state.size);
    let alike = others
        .iter()
        .filter(|(_, state)| component(state) == component(primary))
        .count() as u64;
    if alike > 0 && primary.size > alike {
        return Among::Others;
    }
    let describe = |name: &str, state: &NodeState| {
        format!(
            "{name} sees {} in history {}",
            members(state.size),
            state.cluster_uuid
        )
    };
    Among::Itself(format!(
        "{}, and {}",
        describe(&view.nodes[at].name, primary),
        describe(name, other)
    ))
}

fn members(count: u64) -> String {
    match count {
        1 => "one member".to_owned(),
        _ => format!("{count} members"),
    }
}

/// Waits until a synced node is synced with the others.
///
/// # Errors
/// It runs a cluster of its own, or no other node answers to confirm.
pub(crate) fn arrives(
    members: &[Member],
    at: usize,
    mut given_up: impl FnMut() -> bool,
) -> Result<(), Astray> {
    let begun = Instant::now();
    loop {
        let view = observe("", members, &brief());
        match among(&view, at) {
            Among::Others => return Ok(()),
            Among::Itself(description) if begun.elapsed() > ALONE_PATIENCE => {
                return Err(Astray::Elsewhere(description));
            }
            Among::Unseen if begun.elapsed() > SILENCE || given_up() => return Err(Astray::Unseen),
            Among::Itself(_) | Among::Unseen => {}
        }
        std::thread::sleep(POLL);
    }
}

/// Why a synced node does not count as back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Astray {
    /// It runs a cluster of its own; the text says what it and the others see.
    Elsewhere(String),
    /// No other node answers.
    Unseen,
}

impl Astray {
    /// Stops a node that has bootstrapped a cluster of its own, and discards its position if `ours`
    /// is the run that started it. Returns what to tell the user.
    pub fn end(self, control: &Control, member: &Member, ours: Option<&Run>) -> Refusal {
        let description = match self {
            Self::Unseen => {
                return Refusal::new(
                    "it says that it is in sync, but none of the others answers to confirm it: it \
                    is not known whether it has begun a cluster of its own",
                )
                .hint(SEE_STATUS);
            }
            Self::Elsewhere(description) => description,
        };
        let mut set_aside = false;
        let stop = format!("Stop {}. ", member.name);
        let (now, stop) = if let Some(run) = ours {
            let begun = Instant::now();
            let stopped = control.stop();
            let down = is_down(control, member, || begun.elapsed() > STOP_PATIENCE);
            match (stopped, down) {
                (_, Ok(true)) => {
                    let gone = member.host.as_ref().map(|host| {
                        let id = run.dir.id().as_str();
                        place::give_place_up(host, &member.folder(), id, reasons::ASTRAY, false)
                    });
                    set_aside = matches!(gone, Some(Ok(())));
                    ("; it was stopped again".to_owned(), String::new())
                }
                (Err(error), _) => (format!("; it could not be stopped ({error})"), stop),
                (Ok(()), Ok(false)) => ("; it was told to stop, but still runs".to_owned(), stop),
                (Ok(()), Err(unknown)) => {
                    let now = format!(
                        "; it was told to stop, and it is not known whether it has ({unknown})"
                    );
                    (now, stop)
                }
            }
        } else {
            (String::new(), stop)
        };
        let (place, keep) = match ours.filter(|_| set_aside) {
            Some(run) => {
                let place = format!(
                    " and was set aside (grastate.dat.refloat-{}): it takes a full copy when it \
                    comes back",
                    run.dir.id()
                );
                (place, "")
            }
            None => (
                String::new(),
                " Keep what is needed of it, and remove its grastate.dat before the next start.",
            ),
        };
        Refusal::new(format!(
            "it has begun a cluster of its own beside that of the others: {description}{now}. What \
            applications wrote to it meanwhile is on it alone, and its position no longer \
            counts{place}"
        ))
        .hint(format!(
            "{stop}Its option files name nobody to join, or another cluster \
            (wsrep_cluster_address, wsrep_cluster_name): correct them.{keep}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{state, view};

    fn member(uuid: &str, conf: &str, size: &str) -> NodeState {
        let status = [
            ("wsrep_cluster_state_uuid", uuid),
            ("wsrep_cluster_conf_id", conf),
            ("wsrep_cluster_size", size),
        ];
        state(&status, "")
    }

    #[test]
    fn a_cluster_beside_another_is_told_from_one() {
        let of = |nodes| among(&view(nodes), 0);
        let node = |uuid, conf, size| Some(member(uuid, conf, size));
        let (a, b) = (
            "30ba41b5-e6ea-11f1-acb3-d71df7acd2d5",
            "40ba41b5-e6ea-11f1-acb3-d71df7acd2d5",
        );
        let with = |size| vec![node(a, "7", size), node(a, "7", size), node(a, "7", size)];
        assert_eq!(of(with("3")), Among::Others);
        // One member is not listed.
        assert_eq!(of(with("4")), Among::Others);
        assert_eq!(
            of(vec![node(a, "7", "2"), None, node(a, "7", "2")]),
            Among::Others
        );
        assert_eq!(of(vec![node(a, "7", "2"), None, None]), Among::Unseen);
        assert_eq!(of(vec![None, node(a, "7", "2")]), Among::Unseen);
        for other in [
            // Both were bootstrapped alone, and each counts views from one.
            node(a, "1", "1"),
            node(a, "9", "1"),
            node(b, "1", "2"),
            node(a, "8", "2"),
        ] {
            let alone = of(vec![node(a, "1", "1"), other.clone(), other]);
            assert!(matches!(alone, Among::Itself(_)), "{alone:?}");
        }
        let found = of(vec![node(a, "1", "1"), node(b, "5", "2")]);
        assert_eq!(
            found,
            Among::Itself(format!(
                "n1 sees one member in history {a}, and n2 sees 2 members in history {b}"
            ))
        );
    }
}
