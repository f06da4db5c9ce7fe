//! The start of a node for which other nodes hold write-sets: how it would rejoin, and what to do
//! if the write-sets are lost before it has requested them.

use std::time::{Duration, Instant};

use refloat_host::{Control, GraState};
use refloat_run::{Events, Run};

use super::Watched;
use crate::forecast::rejoin;
use crate::hold::Holder;
use crate::join::{Joining, brief, is_down};
use crate::member::Member;
use crate::observe::{GRASTATE, observe};
use crate::view::RejoinKind;

/// How long to keep stopping a node that would take a full copy. One that hangs may react late.
const STOP_PATIENCE: Duration = Duration::from_secs(600);
/// How long to wait after each attempt.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// Pause between attempts.
const POLL: Duration = Duration::from_millis(200);

/// How a stopped node would rejoin if it were started now.
#[derive(Debug)]
pub(crate) enum StartWay {
    /// By IST, from the nodes with these names, or it already runs.
    Ist(Vec<String>),
    /// By a full copy; the text says why.
    Copy(String),
    /// Currently unknown; the text says why.
    Unknown(String),
}

/// Observes all nodes once. `uuid` is the cluster's history, `left` the last write-set that the
/// node is known to have, and `holders` are the nodes that should keep what came after it.
pub(crate) fn way_now(
    members: &[Member],
    control: &Control,
    at: usize,
    (uuid, left): (&str, Option<u64>),
    holders: &[Holder],
) -> StartWay {
    match control.is_running() {
        Ok(Some(true)) => return StartWay::Ist(Vec::new()),
        Ok(_) => {}
        Err(error) => {
            return StartWay::Unknown(format!(
                "whether its process is there is not known: {error}"
            ));
        }
    }
    let mut view = observe("", members, &brief());
    let node = &mut view.nodes[at];
    if node.state.is_some() {
        return StartWay::Ist(Vec::new());
    }
    // Replaces a file that cannot be read.
    let known = left.map(|left| GraState {
        uuid: uuid.to_owned(),
        seqno: Some(left),
        safe_to_bootstrap: None,
    });
    match &mut node.grastate {
        Some(file) if file.uuid == uuid => {
            file.seqno = file.seqno.or(left);
            if file.seqno.is_none() {
                return StartWay::Copy("its position was not written down".to_owned());
            }
        }
        Some(_) => {}
        // The work on the node may have given it another data directory.
        None if members[at].host.is_some() => {
            let reason = node.files_unreadable.take();
            let reason = reason.unwrap_or_else(|| "its grastate.dat is gone".to_owned());
            return if machine_answers(&members[at]) {
                StartWay::Copy(reason)
            } else {
                StartWay::Unknown(reason)
            };
        }
        missing => *missing = known,
    }
    let forecast = rejoin(&view, &view.nodes[at], &brief());
    match forecast.kind {
        RejoinKind::Ist { donors, .. } => {
            StartWay::Ist(donors.into_iter().map(|donor| donor.name).collect())
        }
        RejoinKind::Unknown => StartWay::Unknown(forecast.reason),
        // A holder that does not answer may still have the write-sets.
        RejoinKind::Sst { .. } => holders
            .iter()
            .find_map(|holder| {
                let silent = view.nodes[holder.at].unreachable.as_ref()?;
                Some(StartWay::Unknown(format!(
                    "{}, which was to keep what it misses, does not answer: {silent}",
                    holder.name
                )))
            })
            .unwrap_or(StartWay::Copy(forecast.reason)),
    }
}

/// Whether files on a node's machine can be read at all.
fn machine_answers(member: &Member) -> bool {
    let host = member.host.as_ref();
    host.is_some_and(|host| host.read(&member.folder().join(GRASTATE)).is_ok())
}

/// Checks that some node still has the write-sets after `left`.
///
/// # Errors
/// Why none does.
pub(crate) fn kept(watched: &mut [Watched], left: u64, events: &Events) -> Result<(), String> {
    for one in watched.iter_mut() {
        one.look(events);
    }
    if watched.iter().any(|one| one.keeps(left)) {
        return Ok(());
    }
    let all: Vec<String> = watched.iter().map(Watched::why_not).collect();
    Err(all.join("; "))
}

/// A starting node that is not allowed to take a full copy.
pub(crate) struct Unallowed<'a> {
    pub control: &'a Control,
    pub member: &'a Member,
    pub run: &'a Run,
    pub joining: &'a Joining<'a>,
}

impl Unallowed<'_> {
    /// Stops the node because the write-sets that it misses are no longer kept (`reason`), and
    /// returns what to tell the user. `None`: it has already requested them.
    pub fn stop_for_want(&self, node: &str, reason: &str) -> Option<String> {
        if self.joining.has_asked() {
            return None;
        }
        self.run.events.warn(format!(
            "what {node} misses is no longer kept ({reason}), and it has not asked for it yet: stopping it before it takes a full copy (SST)"
        ));
        let how = self.stop()?;
        Some(format!(
            "{how}, because it would have taken a full copy (SST): {reason}"
        ))
    }

    /// Stops a node that took too long, if it certainly has made no request yet and would make it
    /// when the write-sets are gone. Returns what to tell the user. `None`: it continues by itself.
    pub fn stop_late(&self) -> Option<String> {
        if !self.joining.has_surely_not_asked() {
            return None;
        }
        let how = self.stop()?;
        Some(format!(
            "{how}, because it would have taken a full copy (SST) later: what it misses is no \
            longer kept"
        ))
    }

    /// Stops the node and returns how that went. `None`: it has made its request meanwhile.
    fn stop(&self) -> Option<String> {
        let Self {
            control,
            member,
            run,
            joining,
        } = self;
        let begun = Instant::now();
        loop {
            let stopped = control.end_at_once();
            let waited = Instant::now();
            // Repeat a failed request at once: the node may react again at any moment.
            let enough = || stopped.is_err() || waited.elapsed() > STOP_WAIT || joining.has_asked();
            if matches!(is_down(control, member, enough), Ok(true)) {
                return Some("it was stopped again".to_owned());
            }
            if joining.has_asked() {
                return None;
            }
            if begun.elapsed() > STOP_PATIENCE || run.cancel.is_hard() {
                let why = stopped
                    .err()
                    .map_or_else(String::new, |error| format!(" ({error})"));
                return Some(format!("it does not stop{why}, and has to be stopped"));
            }
            std::thread::sleep(POLL);
        }
    }
}
