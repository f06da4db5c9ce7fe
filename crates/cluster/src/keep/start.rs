//! The start of a node that others keep write-sets for: by which way it would come, and what is done when what it needs goes before it has
//! asked for it.

use std::time::{Duration, Instant};

use refloat_run::{Events, Run};

use super::Watched;
use crate::control::Control;
use crate::forecast::rejoin;
use crate::grastate::GraState;
use crate::hold::Holder;
use crate::join::{Joining, brief, is_down};
use crate::member::Member;
use crate::observe::{GRASTATE, observe};
use crate::view::RejoinKind;

/// So long a node is told again and again to stop that would take a full copy: one that hangs may come to itself late.
const STOP_PATIENCE: Duration = Duration::from_secs(600);
/// So long each time is waited for its end.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// How often it is tried.
const POLL: Duration = Duration::from_millis(200);

/// By which way a node that is down would come if it were started now.
#[derive(Debug)]
pub(crate) enum StartWay {
    /// By what it has missed, from those that keep it (their names), or it runs already.
    Ist(Vec<String>),
    /// By a full copy: why.
    Copy(String),
    /// That cannot be seen just now: why.
    Unknown(String),
}

/// Looks at all nodes once. `uuid` is the cluster's history, `left` the last write-set that the node is known to have, `holders` are those that
/// were to keep what came behind it.
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
    // What cannot be read, and what was not written down, is known from before.
    let known = left.map(|left| GraState {
        uuid: uuid.to_owned(),
        seqno: Some(left),
        safe_to_bootstrap: None,
    });
    match &mut node.grastate {
        Some(file) if file.uuid == uuid => {
            file.seqno = file.seqno.or(left);
            if file.seqno.is_none() {
                return StartWay::Copy("where it stands was not written down".to_owned());
            }
        }
        Some(_) => {}
        // Whoever worked on it may have given it another data directory.
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
        // Who says nothing may keep it all the same.
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

/// Whether files on a node's machine can be looked at at all.
fn machine_answers(member: &Member) -> bool {
    let host = member.host.as_ref();
    host.is_some_and(|host| host.read(&member.folder().join(GRASTATE)).is_ok())
}

/// Looks whether anybody still keeps what comes behind `left`.
///
/// # Errors
/// Why nobody does.
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

/// A node on its way that nobody has allowed to take a full copy.
pub(crate) struct Unallowed<'a> {
    pub control: &'a Control,
    pub member: &'a Member,
    pub run: &'a Run,
    pub joining: &'a Joining<'a>,
}

impl Unallowed<'_> {
    /// Stops it, when it has not asked yet for what it misses and that is not kept any more (`reason`): what is to be said of it. `None`:
    /// it has asked.
    pub fn stop_for_want(&self, node: &str, reason: &str) -> Option<String> {
        if self.joining.has_asked() {
            return None;
        }
        self.run.events.warn(format!(
            "what {node} misses is not kept any more ({reason}), and it has not asked for it yet: stopping it before it takes a full copy (SST)"
        ));
        let how = self.stop()?;
        Some(format!(
            "{how}, because it would have taken a full copy (SST): {reason}"
        ))
    }

    /// Stops it, when it takes too long to be waited for and would surely ask only when what it misses is kept no more: what is to be said of
    /// it. `None`: it goes on by itself.
    pub fn stop_late(&self) -> Option<String> {
        if !self.joining.has_surely_not_asked() {
            return None;
        }
        let how = self.stop()?;
        Some(format!(
            "{how}, because it would have taken a full copy (SST) later: what it misses is kept no more"
        ))
    }

    /// Stops it; how that went. `None`: it has asked meanwhile.
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
            // What could not be told is told again at once: it may come to itself any moment.
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
                return Some(format!("it does not stop{why}: stop it"));
            }
            std::thread::sleep(POLL);
        }
    }
}
