//! A node that is down comes back: by what it missed where anybody keeps that, and by a full copy only when somebody has said so.

use std::time::{Duration, Instant};

use refloat_run::Run;
use serde::Serialize;

use crate::control::{Control, StartAs};
use crate::error::ControlError;
use crate::forecast::{Rejoin, RejoinKind, rejoin};
use crate::join::{Joining, Seen, look};
use crate::journal::LogMark;
use crate::node::{NodeState, Role};
use crate::observe::{Member, Observation};
use crate::proof::{CameBy, Proof, proof};
use crate::view::ClusterView;

/// How often a node on its way is looked at.
const POLL: Duration = Duration::from_millis(200);
/// How often it is said that it is still on its way.
const TELL: Duration = Duration::from_secs(30);

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
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// It could not be started or looked at.
    #[error(transparent)]
    Control(#[from] ControlError),
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
        return Err(refused(format!(
            "{node} is there, and in step with the others"
        )));
    }
    let Some(uuid) = view.quorum.uuid.clone() else {
        return Err(refused(match view.quorum.primary {
            0 => "no node of a primary component answers: there is nothing to join. `refloat cluster status` says which node holds the newest data".to_owned(),
            _ => "the nodes that answer are of several clusters: whose data would it take?".to_owned(),
        }));
    };
    let runs = control.is_running()? == Some(true);
    let mut view = view.clone();
    let unknown = view.nodes[at]
        .grastate
        .as_ref()
        .is_some_and(|file| file.has_history() && file.seqno.is_none());
    if unknown
        && !runs
        && let Some((uuid, seqno)) = control.recover()?
    {
        let file = view.nodes[at].grastate.as_mut();
        if let Some(file) = file.filter(|file| file.uuid == uuid) {
            file.seqno = Some(seqno);
        }
    }
    let forecast = rejoin(&view, &view.nodes[at], how);
    let file = view.nodes[at].grastate.as_ref();
    let seqno = file
        .filter(|file| file.uuid == uuid)
        .and_then(|file| file.seqno);
    // What nobody else has must not be overwritten, whatever is allowed.
    if let (Some(seqno), Some(head)) = (seqno, view.quorum.seqno)
        && seqno > head
    {
        return Err(refused(format!(
            "{node} is at {seqno}, and the newest that any other node has is {head}: it holds what nobody else does"
        )));
    }
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
    })
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

/// Brings a node back as planned.
///
/// # Errors
/// [`RejoinError::NeedsCopy`] before anything is started, unless a full copy is allowed; others.
pub fn rejoin_node(
    member: &Member,
    control: &Control,
    plan: &RejoinPlan,
    allow_sst: bool,
    run: &Run,
) -> Result<Rejoined, RejoinError> {
    let node = plan.node.clone();
    if !plan.runs && !allow_sst && !matches!(plan.forecast.kind, RejoinKind::Ist { .. }) {
        return Err(RejoinError::NeedsCopy {
            node,
            reason: plan.forecast.reason.clone(),
        });
    }
    let log = LogMark::of_node_that_is_down(control, member.host.as_ref());
    let begun = Instant::now();
    if plan.runs {
        run.events
            .note(format!("{node} runs already: waiting for it"));
    } else {
        let donors: Vec<&str> = plan
            .donors
            .iter()
            .map(|donor| donor.node_name.as_str())
            .filter(|name| !name.is_empty())
            .collect();
        run.events.note(format!("starting {node}"));
        control.start(StartAs::Member, &donors)?;
    }
    let mut joining = Joining::new(member, control, log.as_ref());
    let mut told = Instant::now();
    let now = loop {
        match joining.look() {
            Seen::There(now) => break now,
            Seen::Ended => {
                return Err(RejoinError::NotBack {
                    node,
                    reason: format!("it has ended while it started{}", joining.last_words()),
                });
            }
            Seen::Coming => {}
        }
        if run.cancel.is_cancelled() {
            return Err(RejoinError::NotBack {
                node,
                reason: "it was still on its way when that was given up on request; it goes on by itself".to_owned(),
            });
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            let doing = look(member).map_or_else(
                |_| "it does not answer yet".to_owned(),
                |state| format!("it is {}", state.state),
            );
            run.events.note(format!(
                "{node} is on its way for {} s: {doing}",
                begun.elapsed().as_secs()
            ));
        }
        std::thread::sleep(POLL);
    };
    let proof = match plan.seqno {
        Some(left) => proof(left, &plan.uuid, &now, joining.log().as_deref()),
        // Whatever it had is not known to have been of use.
        None => Proof {
            by: if matches!(plan.forecast.kind, RejoinKind::Sst { .. }) {
                CameBy::Sst
            } else {
                CameBy::Unknown
            },
            evidence: plan.forecast.reason.clone(),
        },
    };
    Ok(Rejoined {
        node,
        proof,
        left: plan.seqno,
        back: now.seqno.unwrap_or(0),
        join_seconds: begun.elapsed().as_secs_f64(),
    })
}
