//! A node that is down comes back: by what it missed where anybody keeps that, and by a full copy only when somebody has said so.

mod hold;
mod start;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::among::{Among, among};
use crate::control::Control;
use crate::error::ControlError;
use crate::forecast::{Rejoin, RejoinKind, rejoin};
use crate::grastate::GraState;
use crate::hold::HoldPlan;
use crate::node::{NodeState, Role};
use crate::observe::{DEFAULT_DATADIR, Member, Observation};
use crate::proof::Proof;
use crate::view::ClusterView;
pub use hold::plan_hold_for_start;
pub use start::Rejoining;

/// What may be in a data directory that holds nothing: of the provider, and of the file system.
const NO_DATA: [&str; 4] = ["grastate.dat", "gvwstate.dat", "galera.cache", "lost+found"];

/// How a node comes back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RejoinPlan {
    /// The node.
    pub node: String,
    /// Its place among the nodes.
    pub at: usize,
    /// By which way, and why.
    pub forecast: Rejoin,
    /// The last write-set that it has; `None`: nobody can tell.
    pub seqno: Option<u64>,
    /// The cluster's history.
    pub uuid: String,
    /// Who is asked first for what it needs, the best first.
    pub donors: Vec<DonorChoice>,
    /// Whether its process runs already: then it is only waited for.
    pub runs: bool,
    /// What a full copy would wipe that may be nowhere else, and by which name that is given up; `None`: nothing.
    pub only_copy: Option<OnlyCopy>,
    /// What would keep it from coming back by that way, as far as somebody has looked for it.
    pub fails: Vec<String>,
    /// What the others are told to keep until it is there; `None`: nothing.
    pub hold: Option<HoldPlan>,
}

/// Data that a full copy would wipe and that may be nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OnlyCopy {
    /// What it is.
    pub what: String,
    /// The history that it belongs to, which whoever gives it up has to name.
    pub history: String,
}

/// A node that may be asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DonorChoice {
    /// What people call it.
    pub name: String,
    /// `wsrep_node_name`.
    pub node_name: String,
    /// What speaks for it, and what against.
    pub why: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejoined {
    /// The node.
    pub node: String,
    /// By which way it came back.
    pub proof: Proof,
    /// The last write-set that it had before; `None`: nobody knew.
    pub left: Option<u64>,
    /// The last one that the cluster had when it was back.
    pub back: u64,
    /// From its start until it was in step with the others, in seconds.
    pub join_seconds: f64,
    /// Bytes of InnoDB's files that came by a full copy; `None`: no copy was made, or nobody can tell.
    #[serde(default)]
    pub copied: Option<u64>,
    /// Nodes that could not be told that they need not keep write-sets any more, and why.
    #[serde(default)]
    pub not_released: Vec<(String, String)>,
}

/// Why a node is not back.
#[derive(Debug, thiserror::Error)]
pub enum RejoinError {
    /// It must not be started as things are.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    /// It would take a full copy, and nobody has allowed that.
    #[error("{node} needs a full copy (SST): {reason}")]
    NeedsCopy {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// It would wipe what may be nowhere else.
    #[error("a full copy would wipe what may be nowhere else: {}", .0.what)]
    OnlyCopy(OnlyCopy),
    /// The full copy that it needs would wipe what it has, and then fail.
    #[error("a full copy would wipe what {node} has, and then fail: {}", .reasons.join("; "))]
    CopyFails {
        /// The node.
        node: String,
        /// Why.
        reasons: Vec<String>,
    },
    /// It would not come back.
    #[error("{node} would not come back: {}", .reasons.join("; "))]
    WouldFail {
        /// The node.
        node: String,
        /// Why.
        reasons: Vec<String>,
    },
    /// It could not be started or looked at.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Somebody stopped it before it had begun.
    #[error("{node} was not started: stopped on request")]
    NotStarted {
        /// The node.
        node: String,
    },
    /// Somebody stopped the waiting.
    #[error("{node} was still on its way, and goes on by itself")]
    Interrupted {
        /// The node.
        node: String,
    },
    /// It does not come back.
    #[error("{node} is not back: {reason}")]
    NotBack {
        /// The node.
        node: String,
        /// What is known.
        reason: String,
    },
}

/// Says how a node would come back. Its position is recovered where it has not written it down, which starts its server for a moment.
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
    let refused = |reason: String| RejoinError::Refused(vec![reason]);
    let Some(at) = view.nodes.iter().position(|one| one.name == node) else {
        return Err(refused(format!("no node is called {node}")));
    };
    if view.nodes[at]
        .primary()
        .is_some_and(|state| state.role == Role::Synced)
    {
        return Err(refused(match among(view, at) {
            Among::Itself(said) => format!(
                "{node} is in step with itself, and not with the others: {said}. Stop it first, and look at wsrep_cluster_address in its option files"
            ),
            _ => format!("{node} is there, and in step with the others"),
        }));
    }
    let Some(uuid) = view.quorum.uuid.clone() else {
        return Err(refused(match view.quorum.primary {
            0 => "no node of a primary component answers: there is nothing to join. `refloat cluster status` says which node holds the newest data".to_owned(),
            _ => "the nodes that answer are of several clusters: whose data would it take?".to_owned(),
        }));
    };
    let runs = control.is_running()? == Some(true);
    let mut view = view.clone();
    let file = view.nodes[at].grastate.as_ref();
    let stands_there = file.is_some_and(|file| file.seqno.is_some());
    let holds = if runs || stands_there {
        None
    } else {
        holds_data(&members[at])
    };
    let recovered = match file {
        _ if runs || stands_there || holds == Some(false) => None,
        Some(_) => control.recover()?,
        // Of a folder that nobody can see it is not known whether there is anything to look into.
        None if holds == Some(true) => control.recover().ok().flatten(),
        None => None,
    };
    let file = view.nodes[at].grastate.as_mut();
    if let (Some(file), Some((uuid, seqno))) = (file, &recovered)
        && file.uuid == *uuid
    {
        file.seqno = Some(*seqno);
    }
    let file = view.nodes[at].grastate.as_ref();
    let only_copy = if runs {
        None
    } else {
        let tables = recovered.as_ref();
        only_copy(file, tables, holds, &uuid, view.quorum.seqno)
    };
    let forecast = rejoin(&view, &view.nodes[at], how);
    let written = file
        .filter(|file| file.uuid == uuid)
        .and_then(|file| file.seqno);
    // What nobody else has must not be overwritten, whatever is allowed. (What the file has forgotten is in `only_copy`.)
    if let (Some(seqno), Some(head)) = (written, view.quorum.seqno)
        && seqno > head
    {
        return Err(refused(format!(
            "{node} is at {seqno}, and the newest that any other node has is {head}: it holds what nobody else does"
        )));
    }
    let in_tables = recovered.filter(|(of, _)| *of == uuid);
    let seqno = written.or(in_tables.map(|(_, seqno)| seqno));
    let donors = donors(&view, at, &forecast);
    if donors.is_empty() && !runs {
        return Err(refused(
            "no node is synced, takes statements and could give it what it needs".to_owned(),
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
    })
}

/// What a full copy would wipe that may be nowhere else: data of another history, data of which nobody knows where they stand, and what
/// the tables have and no other node has, of a node whose file has forgotten that. (The provider believes the file, and would wipe them.)
///
/// `holds` says whether there is anything in the data directory, `head` which is the newest write-set that any other node has.
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
                    "its grastate.dat has forgotten where it stands, and its tables are at {seqno}; the newest that any other node has is {head}: it holds what nobody else does"
                ),
                uuid,
            )
        }),
        _ if written.is_some_and(|file| file.seqno.is_some()) || holds == Some(false) => None,
        _ if written.is_some() => lost(
            "where it stands was not written down and cannot be recovered from here".to_owned(),
            uuid,
        ),
        _ if file.is_some() => lost(
            "its grastate.dat has forgotten where it stands, which cannot be recovered from here either, and its data directory is not empty"
                .to_owned(),
            uuid,
        ),
        _ => lost("what it holds cannot be seen from here".to_owned(), uuid),
    }
}

/// Whether there are data in a node's data directory. `None`: nobody can see it.
fn holds_data(member: &Member) -> Option<bool> {
    let datadir = member.datadir.as_deref();
    let datadir = datadir.unwrap_or(Path::new(DEFAULT_DATADIR));
    let names = member.host.as_ref()?.names(datadir)?;
    Some(names.iter().any(|name| !NO_DATA.contains(&name.as_str())))
}

/// Who is asked first: a node of the same segment, that applications do not write to, that is not behind. With IST, only those that keep
/// what is missed.
fn donors(view: &ClusterView, at: usize, forecast: &Rejoin) -> Vec<DonorChoice> {
    let keeps = |name: &str| match &forecast.kind {
        RejoinKind::Ist { donors, .. } => donors.iter().any(|donor| donor.name == name),
        _ => true,
    };
    let segment = view.nodes[at].state.as_ref().map(|state| state.segment);
    let most = view
        .serving()
        .map(|(_, state)| state.own_write_sets_per_second)
        .fold(0.0, f64::max);
    let mut candidates: Vec<(u8, u64, usize, &NodeState)> = view
        .serving()
        .filter(|(other, _)| *other != at && keeps(&view.nodes[*other].name))
        .map(|(other, state)| {
            let far = segment.is_some_and(|segment| segment != state.segment);
            let rank = u8::from(far) * 2 + u8::from(writes(state, most));
            (rank, state.receive_queue.now, other, state)
        })
        .collect();
    candidates.sort_by_key(|(rank, queue, other, _)| (*rank, *queue, *other));
    candidates
        .into_iter()
        .map(|(_, queue, other, state)| {
            let mut why = vec![if writes(state, most) {
                "applications write to it".to_owned()
            } else {
                "applications do not write to it".to_owned()
            }];
            if segment.is_some_and(|segment| segment != state.segment) {
                why.push(format!("it is in segment {}", state.segment));
            }
            if queue > 0 {
                why.push(format!("{queue} write-sets behind"));
            }
            DonorChoice {
                name: view.nodes[other].name.clone(),
                node_name: state.node_name.clone(),
                why: why.join(", "),
            }
        })
        .collect()
}

/// Whether this is a node that applications write to, among nodes of which one makes `most` write-sets per second.
fn writes(state: &NodeState, most: f64) -> bool {
    most > 0.0 && state.own_write_sets_per_second >= most / 2.0
}

/// What somebody has allowed.
#[derive(Debug, Clone, Default)]
pub struct Leave {
    /// The node may take a full copy.
    pub sst: bool,
    /// The history whose data on the node may be lost.
    pub discard: Option<String>,
    /// It may be started although something was found that keeps it from coming back.
    pub failing: bool,
}

impl RejoinPlan {
    /// Whether to start the node begins a full copy, as far as can be told.
    pub const fn begins_copy(&self) -> bool {
        !self.runs && !matches!(self.forecast.kind, RejoinKind::Ist { .. })
    }

    /// Whether the node may be started.
    ///
    /// # Errors
    /// [`RejoinError::NeedsCopy`], [`RejoinError::OnlyCopy`], [`RejoinError::CopyFails`], [`RejoinError::WouldFail`].
    pub fn check(&self, leave: &Leave) -> Result<(), RejoinError> {
        let fails = !self.fails.is_empty() && !leave.failing;
        if !self.begins_copy() {
            return if fails {
                Err(RejoinError::WouldFail {
                    node: self.node.clone(),
                    reasons: self.fails.clone(),
                })
            } else {
                Ok(())
            };
        }
        if !leave.sst {
            return Err(RejoinError::NeedsCopy {
                node: self.node.clone(),
                reason: self.forecast.reason.clone(),
            });
        }
        match &self.only_copy {
            Some(lost) if leave.discard.as_ref() != Some(&lost.history) => {
                Err(RejoinError::OnlyCopy(lost.clone()))
            }
            _ if fails => Err(RejoinError::CopyFails {
                node: self.node.clone(),
                reasons: self.fails.clone(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{state, view};
    use crate::forecast::Donor;

    const OPTIONS: &str = "gcache.size = 128M; gmcast.segment = 0";

    fn order(view: &ClusterView, kind: RejoinKind) -> Vec<String> {
        let forecast = Rejoin {
            kind,
            reason: String::new(),
        };
        let donors = donors(view, 0, &forecast);
        donors.into_iter().map(|donor| donor.name).collect()
    }

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
            // The file has forgotten it, and nobody can look into the tables.
            let zero = file("00000000-0000", None);
            assert_eq!(history(Some(&zero)).as_deref(), Some(ours));
        }
        // The file has forgotten it, and the tables have not.
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
        // Nothing is there that could be lost.
        assert_eq!(lost(Some(&zero), None, Some(false)), None);
        assert_eq!(lost(None, None, Some(false)), None);
    }

    #[test]
    fn a_node_that_nobody_writes_to_is_asked_first() {
        let mut busy = state(&[], OPTIONS);
        busy.own_write_sets_per_second = 90.0;
        let mut behind = state(&[], OPTIONS);
        behind.receive_queue.now = 40;
        let idle = state(&[], OPTIONS);
        let mut far = state(&[], "gmcast.segment = 2");
        far.own_write_sets_per_second = 10.0;
        let mut all = view(vec![
            None,
            Some(busy),
            Some(behind),
            Some(idle),
            Some(far.clone()),
        ]);
        // Nothing is known of where the node is.
        assert_eq!(order(&all, RejoinKind::Unknown), ["n4", "n5", "n3", "n2"]);
        let kept = |names: &[&str]| RejoinKind::Ist {
            write_sets: 1,
            bytes: None,
            donors: names
                .iter()
                .map(|name| Donor {
                    name: (*name).to_owned(),
                    oldest: 1,
                })
                .collect(),
        };
        assert_eq!(order(&all, kept(&["n2", "n5"])), ["n5", "n2"]);
        assert!(order(&all, kept(&[])).is_empty());
        // Its own segment is known when it answers.
        let mut here = state(&[("wsrep_cluster_status", "non-Primary")], OPTIONS);
        here.ready = false;
        all.nodes[0].state = Some(here);
        assert_eq!(order(&all, RejoinKind::Unknown), ["n4", "n3", "n2", "n5"]);
    }
}
