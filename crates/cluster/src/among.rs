//! Whether a node that is in step is so with the others, and not with itself: one that was told to begin a cluster (`gcomm://` without
//! names), or that finds nobody, is primary, synced and ready too.

use std::time::{Duration, Instant};

use refloat_run::Run;

use crate::control::Control;
use crate::files;
use crate::join::{brief, is_down};
use crate::member::Member;
use crate::node::NodeState;
use crate::observe::observe;
use crate::view::ClusterView;

/// So long the others may see another membership than a node that is there: each learns of a change by itself.
const ALONE_PATIENCE: Duration = Duration::from_secs(20);
/// So long nobody else may answer.
const SILENCE: Duration = Duration::from_secs(120);
/// How often all are asked.
const POLL: Duration = Duration::from_millis(500);
/// So long a node that was told to stop is waited for.
const STOP_PATIENCE: Duration = Duration::from_secs(120);

/// With whom a node is in step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Among {
    /// With the others.
    Others,
    /// With others than those that serve: what each says.
    Itself(String),
    /// Nobody else answers as a member of a primary component.
    Unseen,
}

/// What a node of a primary component and the others say of each other.
///
/// Numbers of views begin anew with each cluster, so two of one node each look alike: a node that is with others counts them too.
pub(crate) fn among(view: &ClusterView, at: usize) -> Among {
    let Some(own) = view.nodes[at].primary() else {
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
        .filter(|(_, state)| component(state) == component(own))
        .count() as u64;
    if alike > 0 && own.size > alike {
        return Among::Others;
    }
    let said = |name: &str, state: &NodeState| {
        format!(
            "{name} sees {} in history {}",
            members(state.size),
            state.cluster_uuid
        )
    };
    Among::Itself(format!(
        "{}, and {}",
        said(&view.nodes[at].name, own),
        said(name, other)
    ))
}

fn members(count: u64) -> String {
    match count {
        1 => "one member".to_owned(),
        _ => format!("{count} members"),
    }
}

/// Waits until a node that is in step is so with the others.
///
/// # Errors
/// Why it is not, or why nobody can tell: the first means that it has begun a cluster of its own.
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
            Among::Itself(said) if begun.elapsed() > ALONE_PATIENCE => {
                return Err(Astray::Elsewhere(said));
            }
            Among::Unseen if begun.elapsed() > SILENCE || given_up() => return Err(Astray::Unseen),
            Among::Itself(_) | Among::Unseen => {}
        }
        std::thread::sleep(POLL);
    }
}

/// Why a node that is in step does not count as back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Astray {
    /// It has begun a cluster of its own: what it and the others say.
    Elsewhere(String),
    /// Nobody else answers.
    Unseen,
}

impl Astray {
    /// Stops a node that has begun a cluster of its own and takes its place away, where `ours` is the run that has started it; what is to be
    /// said of it.
    pub fn end(self, control: &Control, member: &Member, ours: Option<&Run>) -> String {
        let said = match self {
            Self::Unseen => {
                return "it says that it is in step, and none of the others answers to say the same: whether it has begun a cluster of its own is not known"
                    .to_owned();
            }
            Self::Elsewhere(said) => said,
        };
        let mut set_aside = false;
        let now = if let Some(run) = ours {
            let begun = Instant::now();
            let stopped = control.stop();
            let down = is_down(control, member, || begun.elapsed() > STOP_PATIENCE);
            match (stopped, down) {
                (_, Ok(true)) => {
                    let gone = member.host.as_ref().map(|host| {
                        let id = run.dir.id().as_str();
                        files::give_place_up(host, &member.folder(), id, files::ASTRAY, false)
                    });
                    set_aside = matches!(gone, Some(Ok(())));
                    "it was stopped again".to_owned()
                }
                (Err(error), _) => format!("stop it, which failed ({error})"),
                (Ok(()), Ok(false)) => "stop it: it was told to, and goes on".to_owned(),
                (Ok(()), Err(unknown)) => {
                    format!("stop it: it was told to, and whether it has is not known ({unknown})")
                }
            }
        } else {
            "stop it".to_owned()
        };
        let place = match ours.filter(|_| set_aside) {
            Some(run) => format!(
                "its position counts no more and was set aside (grastate.dat.refloat-{}): it takes a full copy when it comes back",
                run.dir.id()
            ),
            None => "its position counts no more: keep what is needed of it, and remove its grastate.dat before the next start".to_owned(),
        };
        format!(
            "it has begun a cluster of its own beside that of the others: {said}; {now}. Its option files name nobody to join, or somebody else (wsrep_cluster_address, wsrep_cluster_name): correct them. \
             What applications wrote to it meanwhile is on it alone, and {place}"
        )
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
        // One of them is in no list.
        assert_eq!(of(with("4")), Among::Others);
        assert_eq!(
            of(vec![node(a, "7", "2"), None, node(a, "7", "2")]),
            Among::Others
        );
        assert_eq!(of(vec![node(a, "7", "2"), None, None]), Among::Unseen);
        assert_eq!(of(vec![None, node(a, "7", "2")]), Among::Unseen);
        for other in [
            // Both have begun with one node, and count views from one.
            node(a, "1", "1"),
            node(a, "9", "1"),
            node(b, "1", "2"),
            node(a, "8", "2"),
        ] {
            let alone = of(vec![node(a, "1", "1"), other.clone(), other]);
            assert!(matches!(alone, Among::Itself(_)), "{alone:?}");
        }
        let said = of(vec![node(a, "1", "1"), node(b, "5", "2")]);
        assert_eq!(
            said,
            Among::Itself(format!(
                "n1 sees one member in history {a}, and n2 sees 2 members in history {b}"
            ))
        );
    }
}
