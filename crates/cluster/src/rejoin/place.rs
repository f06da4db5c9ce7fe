//! Sets a node's position in the cluster's history: restores a position that `grastate.dat` has
//! lost, and removes an invalid one.

use std::time::{Duration, Instant};

use refloat_host::{Control, ControlError, place};
use refloat_run::Run;

use super::{RejoinError, RejoinPlan};
use crate::history::{self, History};
use crate::join::brief;
use crate::journal;
use crate::member::Member;
use crate::node::NodeState;
use crate::observe::observe;
use crate::proof::{began_and_got_nothing, last_start};
use crate::reasons;
use crate::view::ClusterView;

/// How long the others may count a node that has crashed, or be out of sync because of its request.
const COUNTED_OUT: Duration = Duration::from_secs(20);
/// How often the others are queried.
const POLL: Duration = Duration::from_millis(500);

/// The position of a node whose file has lost it because the node died while it waited for a
/// requested state transfer, and whose tables have not changed since.
///
/// The node must have been promised write-sets rather than a copy, because a copy begins by
/// overwriting its tables. A donor that keeps what a node misses sends write-sets, and whatever all
/// members keep now, they kept then.
pub(super) fn forgotten_since(
    view: &ClusterView,
    members: &[Member],
    at: usize,
    (uuid, seqno): &(String, u64),
    control: &Control,
) -> Option<u64> {
    let forgets = |file: &refloat_host::GraState| !file.has_history();
    view.nodes[at]
        .grastate
        .as_ref()
        .filter(|file| forgets(file))?;
    if view.quorum.uuid.as_ref() != Some(uuid) {
        return None;
    }
    let log = journal::of_node_that_is_down(control, &members[at])?;
    let log = log.tail(members[at].host.as_ref()?)?;
    let began = began_and_got_nothing(&log)?;
    let is_there = began == (uuid.as_str(), *seqno);
    (is_there && all_keep(members, *seqno)).then_some(*seqno)
}

/// Restores the position of a stopped node if its file lost the position since the node's last
/// start and nothing else happened to the node. Returns whether it did. A failed check or write is
/// not an error: the caller continues with the node as it is.
pub(crate) fn give_back_forgotten(
    members: &[Member],
    at: usize,
    control: &Control,
    run: &Run,
) -> bool {
    let view = observe("", members, &brief());
    let node = &view.nodes[at];
    let forgets = node
        .grastate
        .as_ref()
        .is_some_and(|file| !file.has_history());
    if node.state.is_some() || !forgets || !matches!(control.is_running(), Ok(Some(false))) {
        return false;
    }
    let Ok(Some(stands)) = control.recover() else {
        return false;
    };
    let Some(seqno) = forgotten_since(&view, members, at, &stands, control) else {
        return false;
    };
    match give_back(&members[at], (&stands.0, seqno), run) {
        Ok(()) => true,
        Err(error) => {
            run.events.warn(error.to_string());
            false
        }
    }
}

fn give_back(member: &Member, place: (&str, u64), run: &Run) -> Result<(), ControlError> {
    let (id, (uuid, seqno)) = (run.dir.id().as_str(), place);
    let Some(host) = &member.host else {
        return Ok(());
    };
    run.events.note(format!(
        "{} gets back the position that its grastate.dat has lost: {uuid}:{seqno} (the file is \
        kept as grastate.dat.refloat-{id})",
        member.name
    ));
    place::give_place_back(host, &member.folder(), id, place, false)
        .map_err(|error| not_written(member, &error))
}

fn not_written(member: &Member, error: &refloat_host::HostError) -> ControlError {
    ControlError::new(
        &member.name,
        "writing the grastate.dat of",
        error.to_string(),
    )
}

/// Whether all members but the node keep everything after `seqno`, and all of them were seen. Waits
/// a while: the donor may not be synced again yet, and a crashed node is still counted for some
/// time.
fn all_keep(members: &[Member], seqno: u64) -> bool {
    let others = members.len() as u64 - 1;
    let begun = Instant::now();
    loop {
        let view = observe("", members, &brief());
        let keeps = |state: &NodeState| state.gcache.oldest.is_some_and(|oldest| oldest <= seqno);
        if !view.serving().all(|(_, state)| keeps(state)) {
            return false;
        }
        if view.quorum.size == Some(others) && view.quorum.synced as u64 == others {
            return true;
        }
        if begun.elapsed() > COUNTED_OUT {
            return false;
        }
        std::thread::sleep(POLL);
    }
}

/// Restores the position that the plan has found, or removes the position, as planned.
///
/// # Errors
/// [`RejoinError::Control`]: its file cannot be written.
pub(super) fn set_place(plan: &RejoinPlan, member: &Member, run: &Run) -> Result<(), RejoinError> {
    let id = run.dir.id().as_str();
    let Some(host) = &member.host else {
        return Ok(());
    };
    if let Some(seqno) = plan.place {
        give_back(member, (&plan.uuid, seqno), run)?;
    }
    if plan.gives_up {
        let why = match plan.history {
            Some(History::Parted(_)) => reasons::ASTRAY,
            _ => reasons::DISCARDED,
        };
        run.events.note(format!(
            "{} gives up its position, so that it takes a full copy (its grastate.dat is kept as \
            grastate.dat.refloat-{id})",
            plan.node
        ));
        place::give_place_up(host, &member.folder(), id, why, false)
            .map_err(|error| not_written(member, &error))?;
    }
    Ok(())
}

/// Decides from its log whether a node that was already starting shares the cluster's history.
pub(super) fn by_its_log(
    members: &[Member],
    plan: &RejoinPlan,
    control: &Control,
    log: Option<&str>,
) -> History {
    let begun = log.and_then(last_start).and_then(|(begun, _)| {
        let (uuid, seqno) = begun.rsplit_once(':')?;
        seqno.parse().ok().filter(|_| uuid == plan.uuid)
    });
    match begun {
        Some(seqno) => history::look(
            &observe("", members, &brief()),
            members,
            (plan.at, control),
            seqno,
        ),
        None => History::Unknown {
            reason: "its log does not tell where it began".to_owned(),
        },
    }
}
