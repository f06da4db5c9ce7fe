//! Starts a node and waits until it is synced with the others.

use std::time::{Duration, Instant};

use refloat_host::{Control, GraState, chain};
use refloat_run::Refusal;

use super::hold::Held;
use super::place::{by_its_log, set_place};
use super::{Leave, RejoinError, RejoinPlan, Rejoined, Rejoining};
use crate::in_step::arrives;
use crate::join::{Joining, Seen, brief, ends_of_logs, look, runs};
use crate::journal;
use crate::keep::{SILENCE, StartWay, Unallowed, kept, way_now};
use crate::member::Member;
use crate::node::NodeState;
use crate::observe::ask;
use crate::proof::{CameBy, began_and_got_nothing, proof};
use crate::sst_donor::Start;
use crate::view::RejoinKind;

/// How often a starting node is checked.
const POLL: Duration = Duration::from_millis(200);
/// How often the nodes that hold write-sets are checked.
const WATCH: Duration = Duration::from_secs(1);
/// How long the only possible donor may be down. A service manager has restarted it by then.
const GIVER_PATIENCE: Duration = Duration::from_secs(20);

/// The donor of a full copy, and how it is started and stopped.
///
/// A node that waits for a copy stops when its donor leaves, as long as another member is left to
/// tell it. If it is alone with its donor, it ends up outside any primary component and waits
/// indefinitely.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Giver<'a> {
    pub member: &'a Member,
    pub control: &'a Control,
}

/// The refusal for a node whose server was stopped because of `reason`. `same`: the same command
/// starts the node again; otherwise the failed start may have cost it its position.
fn ended(reason: &str, plan: &RejoinPlan, same: bool) -> Refusal {
    if same {
        return Refusal::new(format!("{reason}; its server was ended"))
            .hint("The same command starts it again.");
    }
    let begins = if plan.begins_copy() {
        format!(" --allow-sst --discard {}", plan.uuid)
    } else {
        " --plan".to_owned()
    };
    let does = if plan.begins_copy() {
        "starts it again"
    } else {
        "says what it takes now"
    };
    Refusal::new(format!(
        "{reason}; its server was ended, and its position is no longer recorded"
    ))
    .hint(format!(
        "`refloat cluster rejoin {}{begins}` {does}.",
        plan.node
    ))
}

impl Rejoining<'_> {
    /// Brings a node back as planned. If it comes by IST, the others keep what it needs, from
    /// before the last check until it is back.
    ///
    /// # Errors
    /// [`RejoinError::NeedsCopy`] before anything is started, unless a full copy is allowed;
    /// others. In every case the others were told to stop keeping write-sets, or a warning says
    /// that they were not.
    pub fn bring_back(&self, plan: &RejoinPlan, leave: &Leave) -> Result<Rejoined, RejoinError> {
        self.bring_back_by(plan, leave, None)
    }

    /// Like [`Self::bring_back`], for a node that takes a full copy from `giver`. Stops waiting if
    /// that node is down and no other node can be the donor.
    ///
    /// # Errors
    /// As [`Self::bring_back`].
    pub(crate) fn bring_back_by(
        &self,
        plan: &RejoinPlan,
        leave: &Leave,
        giver: Option<Giver<'_>>,
    ) -> Result<Rejoined, RejoinError> {
        plan.check(leave)?;
        let mut held = self.hold(plan);
        let came = self.come_back(plan, leave, &mut held, giver);
        if came.is_err() {
            self.start_of(plan).failed();
        }
        let not_released = held.release(came.is_ok().then_some(plan.at));
        Ok(Rejoined {
            not_released,
            ..came?
        })
    }

    fn come_back(
        &self,
        plan: &RejoinPlan,
        leave: &Leave,
        held: &mut Held<'_>,
        giver: Option<Giver<'_>>,
    ) -> Result<Rejoined, RejoinError> {
        let (control, run) = (self.control, self.run);
        let member = &self.members[plan.at];
        let node = plan.node.clone();
        if run.cancel.is_cancelled() {
            return Err(RejoinError::NotStarted { node });
        }
        set_place(plan, member, run)?;
        let keep_it = self.still_by_ist(plan, leave)?;
        if run.cancel.is_cancelled() {
            return Err(RejoinError::NotStarted { node });
        }
        let log = journal::of_node_that_is_down(control, member);
        let others = match plan.forecast.kind {
            RejoinKind::Ist { .. } => Vec::new(),
            _ => ends_of_logs(self.members, plan.at),
        };
        let begun = Instant::now();
        if plan.runs {
            run.events
                .note(format!("{node} runs already: waiting for it"));
        } else {
            self.start(plan, &keep_it)?;
        }
        let mut joining = Joining::new(member, control, log.as_ref()).beside(others);
        let now = self.wait_for_it(plan, leave, held, &mut joining, giver)?;
        arrives(self.members, plan.at, || run.cancel.is_cancelled()).map_err(|astray| {
            RejoinError::NotBack {
                node: node.clone(),
                wrong: astray.end(control, member, (!plan.runs).then_some(run)),
            }
        })?;
        self.start_of(plan).arrived();
        let log = joining.log_of(&now);
        let proof = proof(&plan.uuid, &now, log.as_deref());
        let by_copy = proof.by == CameBy::Sst;
        let history = match &plan.history {
            _ if by_copy => None,
            Some(known) => Some(known.clone()),
            None => Some(by_its_log(self.members, plan, control, log.as_deref())),
        };
        Ok(Rejoined {
            node,
            proof,
            left: plan.seqno,
            back: now.seqno.unwrap_or(0),
            join_seconds: begun.elapsed().as_secs_f64(),
            copied: now.sst.bytes.filter(|_| by_copy),
            not_released: Vec::new(),
            history,
        })
    }

    /// Checks again which nodes have what the node misses, now that they no longer discard it.
    /// Returns nothing if that does not matter or the node already runs.
    ///
    /// # Errors
    /// [`RejoinError::NeedsCopy`]: the write-sets were discarded before the others were told to
    /// keep them. A full copy takes different checks, so this start does not switch to one.
    fn still_by_ist(&self, plan: &RejoinPlan, leave: &Leave) -> Result<Vec<String>, RejoinError> {
        let Some(hold) = &plan.hold else {
            return Ok(Vec::new());
        };
        let stands = (plan.uuid.as_str(), plan.seqno);
        let begun = Instant::now();
        loop {
            let reason = match way_now(self.members, self.control, plan.at, stands, &hold.holders) {
                StartWay::Ist(donors) => return Ok(donors),
                StartWay::Copy(reason) => {
                    let again = if leave.sst {
                        ". The same command again plans for a copy"
                    } else {
                        ""
                    };
                    return Err(RejoinError::NeedsCopy {
                        node: plan.node.clone(),
                        reason: format!("since it was planned {reason}{again}"),
                    });
                }
                StartWay::Unknown(reason) => reason,
            };
            if begun.elapsed() > SILENCE {
                return Err(RejoinError::NotBack {
                    node: plan.node.clone(),
                    wrong: format!("it was not started: {reason}").into(),
                });
            }
            if self.run.cancel.sleep(WATCH) {
                return Err(RejoinError::NotStarted {
                    node: plan.node.clone(),
                });
            }
        }
    }

    /// Starts the node. It first requests one of the nodes that have what it misses.
    fn start(&self, plan: &RejoinPlan, keep_it: &[String]) -> Result<(), RejoinError> {
        // Given several names, Galera picks the most advanced node.
        let mut donors = plan.donors.iter();
        let best = donors.find(|donor| keep_it.is_empty() || keep_it.contains(&donor.name));
        let donor = best.map(|donor| donor.node_name.as_str());
        self.run.events.note(format!("starting {}", plan.node));
        // A restore that was given up may have left its standalone options behind.
        self.control.end_standalone()?;
        Ok(self.start_of(plan).begin(donor)?)
    }

    fn start_of(&self, plan: &RejoinPlan) -> Start<'_> {
        Start {
            members: self.members,
            member: &self.members[plan.at],
            control: self.control,
            state_dir: self.state_dir,
            run: self.run,
        }
    }

    fn wait_for_it(
        &self,
        plan: &RejoinPlan,
        leave: &Leave,
        held: &mut Held<'_>,
        joining: &mut Joining<'_>,
        giver: Option<Giver<'_>>,
    ) -> Result<Box<NodeState>, RejoinError> {
        let node = &plan.node;
        let mut last_look = Instant::now();
        let mut hope = last_look;
        let mut reported = false;
        loop {
            match joining.look() {
                Seen::There(now) => return Ok(now),
                Seen::Ended => {
                    return Err(RejoinError::NotBack {
                        node: node.clone(),
                        wrong: format!("it has ended while it started{}", joining.last_words())
                            .into(),
                    });
                }
                Seen::Failed(line) => {
                    let reason = format!("it has failed while it started: {line}");
                    return Err(RejoinError::NotBack {
                        node: node.clone(),
                        wrong: self.end_failed(&reason, plan, leave, giver.is_some()),
                    });
                }
                Seen::Coming => {}
            }
            if let Some(late) = joining.is_late(self.start_limit) {
                return Err(self.too_late(plan, leave, joining, late));
            }
            if self.run.cancel.is_cancelled() {
                // Without the hold, the node might take a full copy that was not allowed.
                let wait = held.any() && !leave.sst && !joining.has_asked();
                if !wait || self.run.cancel.is_hard() {
                    return Err(RejoinError::Interrupted { node: node.clone() });
                }
                if !std::mem::replace(&mut reported, true) {
                    self.run.events.note(format!(
                        "waiting until {node} has asked for what it misses, which is kept for it so long; Ctrl-C once more gives that up"
                    ));
                }
            }
            joining.report(&self.run.events);
            if last_look.elapsed() >= WATCH {
                last_look = Instant::now();
                self.watch(plan, leave, held, joining)?;
                if giver.is_none_or(|giver| self.can_be_given(plan, giver)) {
                    hope = last_look;
                } else if hope.elapsed() > GIVER_PATIENCE {
                    let giver = giver.map_or("", |giver| giver.member.name.as_str());
                    let reason = format!(
                        "{giver}, which was to give it a copy, is down, and no other node can give one"
                    );
                    return Err(RejoinError::NotBack {
                        node: node.clone(),
                        wrong: self.end_failed(&reason, plan, leave, true),
                    });
                }
            }
            std::thread::sleep(POLL);
        }
    }

    /// Whether a node may exist that can give this one a copy.
    fn can_be_given(&self, plan: &RejoinPlan, giver: Giver<'_>) -> bool {
        // Unknown does not mean down.
        if !matches!(runs(giver.control, giver.member), Ok(false)) {
            return true;
        }
        let others = self.members.iter().enumerate();
        let mut others = others.filter(|(other, _)| *other != plan.at);
        others.any(|(_, member)| look(member).is_ok_and(|now| now.primary))
    }

    /// Stops the server of a node that will not rejoin because of `reason`: such a server does
    /// nothing, and would block the next start. Returns what to tell the user.
    fn end_failed(
        &self,
        reason: &str,
        plan: &RejoinPlan,
        leave: &Leave,
        of_restore: bool,
    ) -> Refusal {
        let stop_it = || {
            format!(
                "Stop the server of {} before it is started again.",
                plan.node
            )
        };
        if plan.runs {
            return Refusal::new(reason).hint(stop_it());
        }
        match self.control.end_at_once() {
            Ok(()) => {
                let stands = self.position_still_counts(plan);
                let discards = leave.discard.is_some() || of_restore;
                ended(reason, plan, stands || discards)
            }
            Err(error) => {
                let reason = format!("{reason}; its server was not ended: {}", chain(&error));
                Refusal::new(reason).hint(stop_it())
            }
        }
    }

    /// Whether a node whose start failed still has its position, or can recover it.
    fn position_still_counts(&self, plan: &RejoinPlan) -> bool {
        let member = &self.members[plan.at];
        let file = ask(member, &brief()).grastate;
        // A position that is missing in the file can be recovered from the tables, unless a copy
        // has begun to overwrite them.
        let known =
            |file: GraState| file.has_history() && (file.seqno.is_some() || !plan.begins_copy());
        let got_nothing = || {
            let log = journal::of_node_that_is_down(self.control, member)?;
            let log = log.tail(member.host.as_ref()?)?;
            Some(began_and_got_nothing(&log).is_some_and(|(uuid, _)| uuid == plan.uuid))
        };
        file.is_some_and(known) || got_nothing() == Some(true)
    }

    /// The error for a node that takes too long. The node keeps starting, unless it would then take
    /// a full copy.
    fn too_late(
        &self,
        plan: &RejoinPlan,
        leave: &Leave,
        joining: &Joining<'_>,
        late: Refusal,
    ) -> RejoinError {
        let unallowed = self.unallowed(plan, leave, joining);
        let stopped = unallowed
            .filter(|_| plan.hold.is_some())
            .and_then(|one| one.stop_late());
        let wrong = match stopped {
            Some(how) => {
                Refusal::new(format!("{late}; {how}")).hint("The same command starts it again.")
            }
            None => late,
        };
        RejoinError::NotBack {
            node: plan.node.clone(),
            wrong,
        }
    }

    /// The starting node, if it may not take a full copy.
    fn unallowed<'b>(
        &'b self,
        plan: &RejoinPlan,
        leave: &Leave,
        joining: &'b Joining<'b>,
    ) -> Option<Unallowed<'b>> {
        (!leave.sst).then(|| Unallowed {
            control: self.control,
            member: &self.members[plan.at],
            run: self.run,
            joining,
        })
    }

    /// Checks that what the node needs is still kept. If that is lost before the node has requested
    /// it, the node would take a full copy, so it is stopped unless a copy is allowed.
    ///
    /// # Errors
    /// [`RejoinError::NotBack`]: it was stopped.
    fn watch(
        &self,
        plan: &RejoinPlan,
        leave: &Leave,
        held: &mut Held<'_>,
        joining: &Joining<'_>,
    ) -> Result<(), RejoinError> {
        let (node, Some(left)) = (&plan.node, plan.seqno) else {
            return Ok(());
        };
        if held.watched.is_empty() {
            return Ok(());
        }
        let Err(reason) = kept(&mut held.watched, left, &self.run.events) else {
            return Ok(());
        };
        let unallowed = self.unallowed(plan, leave, joining);
        if let Some(how) = unallowed.and_then(|one| one.stop_for_want(node, &reason)) {
            return Err(RejoinError::NotBack {
                node: node.clone(),
                wrong: Refusal::new(how).hint("--allow-sst starts it all the same."),
            });
        }
        // The donor itself keeps what the node has requested.
        held.watched.clear();
        held.release(None);
        Ok(())
    }
}
