//! Determines the positions of all nodes, and which node holds everything that the others hold.

use refloat_host::{Control, GraState, chain};
use refloat_run::Refusal;

use super::{BootstrapError, BootstrapPlan, BootstrapWish, Standing};
use crate::history::{History, of_two_down};
use crate::join::runs;
use crate::member::Member;
use crate::rejoin::holds_data;
use crate::view::{ClusterView, NodeView};

/// Value of [`Standing::unknown`] for a node that the user left out.
const LEFT_OUT: &str = "it is left out";

impl BootstrapPlan {
    /// Names of the nodes that the user left out.
    pub fn left_out(&self) -> impl Iterator<Item = &str> {
        let left_out = |one: &&Standing| one.unknown.as_deref() == Some(LEFT_OUT);
        self.nodes
            .iter()
            .filter(left_out)
            .map(|one| one.name.as_str())
    }
}

/// Decides which node bootstraps the cluster. A position that a node did not write down is
/// recovered, which starts its server for a moment.
///
/// # Errors
/// [`BootstrapError::Refused`] with every objection; [`BootstrapError::Unclear`]: more than one
/// node might be the right one.
pub fn plan_bootstrap(
    view: &ClusterView,
    members: &[Member],
    controls: &[Option<&Control>],
    wish: &BootstrapWish,
) -> Result<BootstrapPlan, BootstrapError> {
    let named = wish.node.iter().chain(&wish.without);
    let mut against: Vec<Refusal> = named
        .filter(|name| !members.iter().any(|member| member.name == **name))
        .map(|name| format!("no node is called {name}").into())
        .collect();
    let nodes = view.nodes.iter().zip(members).zip(controls);
    against.extend(serving(view));
    against.extend(
        nodes
            .clone()
            .filter_map(|((node, member), control)| alive(node, member, *control)),
    );
    if !against.is_empty() {
        return Err(BootstrapError::Refused(against));
    }
    let standings: Vec<Standing> = nodes
        .map(|((node, member), control)| standing(node, member, *control, wish))
        .collect();
    let unknown: Vec<Refusal> = standings
        .iter()
        .filter(|one| !wish.without.contains(&one.name))
        .filter_map(|one| {
            let why = one.unknown.as_ref()?;
            let name = &one.name;
            let reason = format!(
                "the position of {name} is not known ({why}): it may be the most advanced node"
            );
            Some(Refusal::new(reason).hint(format!("--without {name} continues all the same.")))
        })
        .collect();
    if !unknown.is_empty() {
        return Err(BootstrapError::Refused(unknown));
    }
    let (at, warnings) = choose(&standings, members, wish)?;
    let place = standings[at].place.clone();
    let (uuid, seqno) = place.unwrap_or_default();
    Ok(BootstrapPlan {
        cluster: view.name.clone(),
        node: standings[at].name.clone(),
        at,
        uuid,
        seqno,
        nodes: standings,
        warnings,
    })
}

/// The objection that the cluster is already up.
fn serving(view: &ClusterView) -> Option<Refusal> {
    let primary = view.nodes.iter().filter(|node| node.primary().is_some());
    let names: Vec<&str> = primary.map(|node| node.name.as_str()).collect();
    let down = view.nodes.iter().filter(|node| node.primary().is_none());
    let rejoin: Vec<String> = down
        .map(|node| format!("`refloat cluster rejoin {}`", node.name))
        .collect();
    let refusal = || Refusal::new(format!("the cluster already serves ({})", names.join(", ")));
    (!names.is_empty()).then(|| match &rejoin[..] {
        [] => refusal(),
        _ => refusal().hint(format!(
            "{} brings back the nodes that are down.",
            rejoin.join(" and ")
        )),
    })
}

/// Why a node prevents a bootstrap: it is not down.
fn alive(node: &NodeView, member: &Member, control: Option<&Control>) -> Option<Refusal> {
    let name = &node.name;
    match &node.state {
        // `serving` reports these, once for all of them.
        Some(state) if state.primary => None,
        Some(state) => {
            let reason = format!(
                "{name} runs and belongs to no primary component (it says {:?})",
                state.state
            );
            Some(Refusal::new(reason).hint(format!(
                "Stop {name} first; or let it continue with `SET GLOBAL wsrep_provider_options = 'pc.bootstrap=1'` if you know that no other node runs."
            )))
        }
        None => match runs(control?, member) {
            Ok(true) => {
                let why = node.unreachable.as_deref().unwrap_or_default();
                let reason = format!("{name} does not answer, but its process is there ({why})");
                Some(Refusal::new(reason).hint(format!("Stop {name} first.")))
            }
            // If its process cannot be checked, neither can its position, and `standing` reports
            // that.
            Ok(false) | Err(_) => None,
        },
    }
}

/// Determines the position of a stopped node.
fn standing(
    node: &NodeView,
    member: &Member,
    control: Option<&Control>,
    wish: &BootstrapWish,
) -> Standing {
    let mut found = Standing {
        name: node.name.clone(),
        place: None,
        recovered: false,
        forgotten: false,
        last: false,
        unknown: None,
    };
    if wish.without.contains(&node.name) {
        found.unknown = Some(LEFT_OUT.to_owned());
        return found;
    }
    if let Err(unknown) = member.known_folder() {
        found.unknown = Some(unknown.to_string());
        return found;
    }
    let file = node.grastate.as_ref();
    found.last = file.is_some_and(|file| file.safe_to_bootstrap == Some(true));
    found.forgotten = file.is_some_and(|file| !file.has_history());
    if let Some(file) = file.filter(|file| file.has_history())
        && let Some(seqno) = file.seqno
    {
        found.place = Some((file.uuid.clone(), seqno));
        return found;
    }
    if holds_data(member) == Some(false) {
        return found;
    }
    found.recovered = true;
    let Some(control) = control else {
        found.unknown = Some(node.files_unreadable.clone().unwrap_or_else(|| {
            "the list does not say how it is started, which recovering its position needs"
                .to_owned()
        }));
        return found;
    };
    match control.recover() {
        Ok(Some(place)) if fits(file, &place) => found.place = Some(place),
        Ok(Some((uuid, seqno))) => {
            found.unknown = Some(format!(
                "its tables are at {uuid}:{seqno}, and its grastate.dat is of another history"
            ));
        }
        Ok(None) => {
            found.unknown = Some(
                "its position was not written down, and cannot be recovered from here: mariadbd \
                --wsrep-recover prints it; write it into its grastate.dat"
                    .to_owned(),
            );
        }
        Err(error) => found.unknown = Some(chain(&error)),
    }
    found
}

fn fits(file: Option<&GraState>, (uuid, _): &(String, u64)) -> bool {
    file.is_none_or(|file| !file.has_history() || file.uuid == *uuid)
}

/// The node that holds everything that the others hold, with warnings about the choice.
fn choose(
    standings: &[Standing],
    members: &[Member],
    wish: &BootstrapWish,
) -> Result<(usize, Vec<String>), BootstrapError> {
    let describe = |one: &Standing| {
        let (uuid, seqno) = one.place.clone().unwrap_or_default();
        let forgotten = if one.forgotten {
            ", of which its grastate.dat says nothing"
        } else {
            ""
        };
        format!("{} is at {uuid}:{seqno}{forgotten}", one.name)
    };
    let placed = || {
        standings
            .iter()
            .enumerate()
            .filter(|(_, one)| one.place.is_some())
    };
    let seqno = |one: &Standing| one.place.as_ref().map_or(0, |(_, seqno)| *seqno);
    let asked = wish.node.as_ref();
    let newest = placed()
        .filter(|(_, one)| asked.is_none_or(|name| one.name == *name))
        .max_by_key(|(at, one)| (!one.forgotten, seqno(one), one.last, usize::MAX - at));
    let Some((at, chosen)) = newest else {
        return Err(BootstrapError::Refused(vec![match asked {
            Some(name) => format!("{name} holds nothing to bootstrap a cluster from").into(),
            None => "no node holds anything to bootstrap a cluster from".into(),
        }]));
    };
    let mut against = Vec::new();
    for (other, one) in placed().filter(|(other, _)| *other != at) {
        against.extend(more_than((chosen, &members[at]), (one, &members[other])));
    }
    let (unclear, warnings): (Vec<_>, Vec<_>) = against.into_iter().partition(|(grave, _)| *grave);
    let texts = |all: Vec<(bool, String)>| all.into_iter().map(|(_, text)| text);
    if asked.is_some() || (unclear.is_empty() && !chosen.forgotten) {
        return Ok((at, texts(unclear).chain(texts(warnings)).collect()));
    }
    let all = placed().map(|(_, one)| describe(one));
    Err(BootstrapError::Unclear(all.chain(texts(unclear)).collect()))
}

/// What a node holds, or may hold, that the chosen one does not. The flag is true if that is
/// certain.
fn more_than(
    (chosen, chosen_member): (&Standing, &Member),
    (one, member): (&Standing, &Member),
) -> Option<(bool, String)> {
    let ((uuid, head), (of, seqno)) = (chosen.place.as_ref()?, one.place.as_ref()?);
    if of != uuid {
        return Some((
            true,
            format!(
                "{} and {} are of different histories",
                chosen.name, one.name
            ),
        ));
    }
    if seqno > head {
        return Some((
            true,
            format!(
                "{} holds what {} does not, up to {seqno}",
                one.name, chosen.name
            ),
        ));
    }
    match of_two_down((member, *seqno), (chosen_member, *head), uuid) {
        History::Shared { .. } => None,
        History::Parted(parting) => Some((true, parting.describe())),
        History::Unknown { reason } => Some((
            false,
            format!(
                "whether {} holds what {} held is known by their positions only ({reason}): {} is compared again when it comes back",
                chosen.name, one.name, one.name
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use refloat_wire::ConnectOptions;

    use super::*;

    fn chosen(places: &[(&str, u64, bool, bool)], wish: &BootstrapWish) -> Result<usize, String> {
        let standings: Vec<Standing> = places
            .iter()
            .enumerate()
            .map(|(at, (uuid, seqno, last, forgotten))| Standing {
                name: format!("n{}", at + 1),
                place: Some(((*uuid).to_owned(), *seqno)),
                recovered: false,
                forgotten: *forgotten,
                last: *last,
                unknown: None,
            })
            .collect();
        let members: Vec<Member> = standings
            .iter()
            .map(|one| Member {
                name: one.name.clone(),
                connect: ConnectOptions::default(),
                host: None,
                datadir: None,
                log: None,
                defaults_file: None,
            })
            .collect();
        choose(&standings, &members, wish)
            .map(|(at, _)| at)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_node_whose_data_directory_is_a_guess_does_not_begin() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my.cnf");
        std::fs::write(&file, "[mysqld]\n").unwrap();
        let member = Member {
            name: "n1".to_owned(),
            connect: ConnectOptions::tcp("127.0.0.1", 1, "root"),
            host: Some(refloat_host::Host::Local),
            datadir: None,
            log: None,
            defaults_file: Some(file),
        };
        let view = crate::fixtures::view(vec![None]);
        let plan = plan_bootstrap(&view, &[member], &[None], &BootstrapWish::default());
        let error = plan.unwrap_err().to_string();
        assert!(
            error.contains("on this machine gives no datadir"),
            "{error}"
        );
    }

    #[test]
    fn who_holds_what_all_hold_begins() {
        let any = BootstrapWish::default();
        let third = BootstrapWish {
            node: Some("n3".to_owned()),
            ..BootstrapWish::default()
        };
        let at = |places: &[_]| chosen(places, &any);
        assert_eq!(
            at(&[
                ("a", 5, false, false),
                ("a", 7, false, false),
                ("a", 7, true, false)
            ]),
            Ok(2)
        );
        assert_eq!(at(&[("a", 7, false, false), ("a", 7, false, false)]), Ok(0));
        // Two histories, and a position that is only in the tables.
        let two = [
            ("a", 5, false, false),
            ("b", 9, false, false),
            ("a", 4, false, false),
        ];
        assert!(
            at(&two)
                .unwrap_err()
                .contains("n2 and n1 are of different histories")
        );
        assert_eq!(chosen(&two, &third), Ok(2));
        let forgotten = [("a", 5, false, false), ("a", 9, false, true)];
        assert!(
            at(&forgotten)
                .unwrap_err()
                .contains("n2 holds what n1 does not, up to 9")
        );
        assert!(
            at(&[("a", 5, false, true)])
                .unwrap_err()
                .contains("says nothing")
        );
    }
}
