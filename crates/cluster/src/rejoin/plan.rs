//! Plans how a node would rejoin, and what that would cost.

use refloat_host::{Control, ControlError, GraState, place};
use refloat_run::Refusal;

use super::donors::donors;
use super::place::forgotten_since;
use super::{Leave, OnlyCopy, RejoinError, RejoinPlan};
use crate::forecast::rejoin;
use crate::history::{self, History};
use crate::in_step::{Among, among};
use crate::member::{Member, Observation};
use crate::node::Role;
use crate::observe::GRASTATE;
use crate::view::{ClusterView, NodeView, Rejoin, RejoinKind};

/// Files in a data directory that counts as empty: those of the provider and of the file system.
const NO_DATA: [&str; 4] = ["grastate.dat", "gvwstate.dat", "galera.cache", "lost+found"];

/// Plans how a node would rejoin. A position that the node did not write down is recovered, which
/// starts its server for a moment.
///
/// # Errors
/// [`RejoinError::Refused`] with every reason why it must not be started; [`RejoinError::Control`].
pub fn plan_rejoin(
    view: &ClusterView,
    members: &[Member],
    node: &str,
    control: &Control,
    how: &Observation,
) -> Result<RejoinPlan, RejoinError> {
    let Some(at) = view.nodes.iter().position(|one| one.name == node) else {
        return Err(refused(format!("no node is called {node}")));
    };
    let uuid = history_to_join(view, at)?;
    let runs = control.is_running()? == Some(true);
    if runs {
        has_not_left(&view.nodes[at])?;
    } else {
        members[at].known_folder().map_err(|unknown| {
            let reason = format!("the data directory of {node} is not known: {unknown}");
            refused(Refusal::new(reason).hint(unknown.hint))
        })?;
    }
    let mut view = view.clone();
    let data = if runs {
        Data::default()
    } else {
        look_at_data(&view.nodes[at], &members[at], control)?
    };
    let place = data
        .recovered
        .as_ref()
        .and_then(|stands| put_position(&mut view, members, at, stands, control));
    let file = view.nodes[at].grastate.as_ref();
    let head = view.quorum.seqno;
    let mut only_copy = if runs {
        None
    } else {
        only_copy(file, data.recovered.as_ref(), data.holds, &uuid, head)
    };
    let mut forecast = rejoin(&view, &view.nodes[at], how);
    let written = file
        .filter(|file| file.uuid == uuid)
        .and_then(|file| file.seqno);
    is_not_ahead(node, written, head)?;
    let in_tables = data.recovered.filter(|(of, _)| *of == uuid);
    let seqno = written.or(in_tables.map(|(_, seqno)| seqno));
    let history = seqno
        .filter(|seqno| !runs && head.is_none_or(|head| *seqno <= head))
        .map(|seqno| history::look(&view, members, (at, control), seqno));
    if let Some(History::Parted(parting)) = &history {
        let description = parting.describe();
        let reason = format!(
            "its position is not in the history that the cluster has continued: \
            {description}"
        );
        forecast = without_place(&view, at, reason, how);
        if let Some(what) = parting.lost() {
            only_copy = Some(OnlyCopy {
                what,
                history: uuid.clone(),
            });
        }
    }
    let donors = donors(&view, at, &forecast, None);
    if donors.is_empty() && !runs {
        return Err(refused(
            "no node is synced, takes statements and could give it what it needs",
        ));
    }
    Ok(RejoinPlan {
        node: node.to_owned(),
        at,
        forecast,
        seqno,
        uuid,
        donors,
        runs,
        only_copy,
        fails: Vec::new(),
        hold: None,
        gives_up: matches!(history, Some(History::Parted(_))),
        history,
        place,
    })
}

fn refused(reason: impl Into<Refusal>) -> RejoinError {
    RejoinError::Refused(vec![reason.into()])
}

/// UUID of the history that a node would rejoin. An error if the node is already there.
fn history_to_join(view: &ClusterView, at: usize) -> Result<String, RejoinError> {
    let node = &view.nodes[at].name;
    let in_step = view.nodes[at]
        .primary()
        .is_some_and(|state| state.role == Role::Synced);
    if in_step {
        return Err(refused(match among(view, at) {
            Among::Itself(description) => Refusal::new(format!(
                "{node} is in sync with itself, but not with the others: {description}"
            ))
            .hint(format!(
                "Stop {node} first, and look at wsrep_cluster_address in its option files."
            )),
            _ => format!("{node} is there, and in sync with the others").into(),
        }));
    }
    view.quorum.uuid.clone().ok_or_else(|| {
        refused(match view.quorum.primary {
            0 => Refusal::new("no node of a primary component answers: there is nothing to join")
                .hint(
                    "`refloat cluster bootstrap --plan` finds the most advanced node, and without \
                    --plan bootstraps the cluster from it.",
                ),
            _ => "the nodes that answer are of several clusters: whose data would it take?".into(),
        })
    })
}

/// Refuses a node that runs and has left its cluster: it would never rejoin by itself.
fn has_not_left(node: &NodeView) -> Result<(), RejoinError> {
    match node.state.as_ref().filter(|now| !now.connected) {
        Some(now) => {
            let reason = format!(
                "{} runs, and has left its cluster ({}): by itself it does not come back",
                node.name, now.state
            );
            Err(refused(Refusal::new(reason).hint(
                "Its log says why it left; stop its server, and run this again.",
            )))
        }
        None => Ok(()),
    }
}

/// What is known about the data of a node that does not run, beyond its `grastate.dat`. Nothing, if
/// that file gives the position.
#[derive(Default)]
struct Data {
    /// Whether its data directory holds any. `None`: not visible.
    holds: Option<bool>,
    /// The position of its tables: history and seqno.
    recovered: Option<(String, u64)>,
}

/// Recovers the position of a node that does not run and did not write it down.
fn look_at_data(node: &NodeView, member: &Member, control: &Control) -> Result<Data, ControlError> {
    let file = node.grastate.as_ref();
    if file.is_some_and(|file| file.seqno.is_some()) {
        return Ok(Data::default());
    }
    let holds = holds_data(member);
    let recovered = match file {
        _ if holds == Some(false) => None,
        Some(_) => control.recover()?,
        // A directory that cannot be seen may hold nothing to recover from, so a failure is no
        // error.
        None if holds == Some(true) => control.recover().ok().flatten(),
        None => None,
    };
    Ok(Data { holds, recovered })
}

/// Puts a recovered position into the view where the node's file has none. Returns it if the file
/// has lost the whole position and the node is still at it.
fn put_position(
    view: &mut ClusterView,
    members: &[Member],
    at: usize,
    stands: &(String, u64),
    control: &Control,
) -> Option<u64> {
    let (uuid, seqno) = stands;
    if let Some(file) = &mut view.nodes[at].grastate
        && file.uuid == *uuid
    {
        file.seqno = Some(*seqno);
    }
    let place = forgotten_since(view, members, at, stands, control)?;
    view.nodes[at].grastate = Some(GraState {
        uuid: uuid.clone(),
        seqno: Some(place),
        safe_to_bootstrap: Some(false),
    });
    Some(place)
}

/// Data that no other node has must not be overwritten, whatever is allowed. (`only_copy` covers
/// what the file has lost.)
fn is_not_ahead(node: &str, written: Option<u64>, head: Option<u64>) -> Result<(), RejoinError> {
    match written.zip(head) {
        Some((seqno, head)) if seqno > head => Err(refused(format!(
            "{node} is at {seqno}, and the newest that any other node has is {head}: it holds what nobody else does"
        ))),
        _ => Ok(()),
    }
}

/// The cost of the rejoin if the node's position is ignored.
fn without_place(view: &ClusterView, at: usize, reason: String, how: &Observation) -> Rejoin {
    let mut node = view.nodes[at].clone();
    if let Some(file) = &mut node.grastate {
        // As if it belonged to no cluster.
        place::NOWHERE.clone_into(&mut file.uuid);
    }
    let Rejoin { kind, .. } = rejoin(view, &node, how);
    let kind = match kind {
        RejoinKind::Ist { .. } | RejoinKind::Unknown => RejoinKind::Sst {
            bytes: None,
            seconds: None,
        },
        kind @ RejoinKind::Sst { .. } => kind,
    };
    Rejoin { kind, reason }
}

impl RejoinPlan {
    /// Makes a stopped node take a full copy, whatever it missed, if the user gives up what it
    /// holds of the cluster's own history. A node whose rows differ would rejoin by IST and still
    /// differ.
    pub fn discard(&mut self, leave: &Leave, view: &ClusterView, how: &Observation) {
        let named = leave.discard.as_ref() == Some(&self.uuid);
        // Without that file, the node has no position to remove.
        if !named || self.runs || self.gives_up || view.nodes[self.at].grastate.is_none() {
            return;
        }
        self.gives_up = true;
        (self.history, self.place) = (None, None);
        let reason =
            "what it holds is discarded (--discard): its position is removed before it starts"
                .to_owned();
        self.forecast = without_place(view, self.at, reason, how);
        self.donors = donors(view, self.at, &self.forecast, None);
    }

    /// Chooses the donors again, now that the node's segment (`gmcast.segment`) is known from its
    /// option files.
    pub fn know_segment(&mut self, view: &ClusterView, segment: u64) {
        self.donors = donors(view, self.at, &self.forecast, Some(segment));
    }
}

/// What a full copy would wipe that may exist nowhere else: data of another history, data with an
/// unknown position, and, on a node whose file has lost its position, rows in its tables that no
/// other node has. (The provider believes the file and would wipe them.)
///
/// `holds` says whether the data directory holds anything. `head` is the newest write-set of any
/// other node.
fn only_copy(
    file: Option<&GraState>,
    recovered: Option<&(String, u64)>,
    holds: Option<bool>,
    uuid: &str,
    head: Option<u64>,
) -> Option<OnlyCopy> {
    let lost = |what: String, history: &str| {
        Some(OnlyCopy {
            what,
            history: history.to_owned(),
        })
    };
    if let Some(file) = file.filter(|file| file.has_history() && file.uuid != uuid) {
        return lost(
            format!("it holds data of another history, {}", file.uuid),
            &file.uuid,
        );
    }
    let written = file.filter(|file| file.has_history());
    match recovered {
        Some((other, seqno)) if other != uuid && *seqno > 0 => lost(
            format!("its tables are of another history, {other}, up to {seqno}"),
            other,
        ),
        Some((ours, seqno)) if ours == uuid => head.filter(|head| seqno > head).and_then(|head| {
            lost(
                format!(
                    "its grastate.dat has lost its position, and its tables are at {seqno}; the newest that any other node has is {head}: it holds what nobody else does"
                ),
                uuid,
            )
        }),
        _ if written.is_some_and(|file| file.seqno.is_some()) || holds == Some(false) => None,
        _ if written.is_some() => lost(
            "its position was not written down and cannot be recovered from here".to_owned(),
            uuid,
        ),
        _ if file.is_some() => lost(
            "its grastate.dat has lost its position, which cannot be recovered from here either, and its data directory is not empty"
                .to_owned(),
            uuid,
        ),
        _ => lost(
            "what it holds cannot be seen from here (the list may say where its data directory is: datadir)"
                .to_owned(),
            uuid,
        ),
    }
}

/// Whether a node's data directory holds data. `None`: not visible.
pub(crate) fn holds_data(member: &Member) -> Option<bool> {
    let names = member.host.as_ref()?.names(&member.folder())?;
    // A directory that was not configured and holds no `grastate.dat` may be a wrong guess: the
    // data is elsewhere.
    if member.datadir.is_none() && !names.iter().any(|name| name == GRASTATE) {
        return None;
    }
    Some(names.iter().any(|name| !NO_DATA.contains(&name.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_nowhere_else_is_given_up_by_name() {
        let file = |uuid: &str, seqno| GraState {
            uuid: uuid.to_owned(),
            seqno,
            safe_to_bootstrap: None,
        };
        let (ours, other) = ("30ba41b5", "40ba41b5");
        let lost = |file: Option<&GraState>, recovered: Option<(String, u64)>, holds| {
            only_copy(file, recovered.as_ref(), holds, ours, Some(9)).map(|lost| lost.history)
        };
        let full = Some(true);
        assert_eq!(lost(Some(&file(ours, Some(5))), None, None), None);
        for holds in [None, full] {
            let history = |file: Option<&GraState>| lost(file, None, holds);
            assert_eq!(history(Some(&file(other, Some(5)))).as_deref(), Some(other));
            assert_eq!(history(Some(&file(ours, None))).as_deref(), Some(ours));
            assert_eq!(history(None).as_deref(), Some(ours));
            // The file has lost the position, and the tables cannot be read.
            let zero = file("00000000-0000", None);
            assert_eq!(history(Some(&zero)).as_deref(), Some(ours));
        }
        // The file has lost the position, but the tables have it.
        let tables = |uuid: &str, seqno| Some((uuid.to_owned(), seqno));
        let zero = file("00000000-0000", None);
        let of = |recovered| lost(Some(&zero), recovered, full);
        assert_eq!(of(tables(other, 9)).as_deref(), Some(other));
        assert_eq!(of(tables(ours, 9)), None);
        assert_eq!(of(tables(ours, 10)).as_deref(), Some(ours));
        assert_eq!(
            lost(None, tables(ours, 10), full).as_deref(),
            Some(ours),
            "there is no file"
        );
        assert_eq!(lost(None, tables(ours, 9), full), None);
        // Nothing can be lost.
        assert_eq!(lost(Some(&zero), None, Some(false)), None);
        assert_eq!(lost(None, None, Some(false)), None);
    }
}
