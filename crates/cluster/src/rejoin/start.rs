//! A node is started, and waited for until it is in step with the others.

use std::time::{Duration, Instant};

use refloat_run::Run;

use super::{Leave, RejoinError, RejoinPlan, Rejoined};
use crate::among::arrives;
use crate::control::{Control, StartAs};
use crate::join::{Joining, Seen};
use crate::journal::LogMark;
use crate::observe::Member;
use crate::proof::{CameBy, proof};

/// How often a node on its way is looked at.
const POLL: Duration = Duration::from_millis(200);

/// A node that is brought back.
#[derive(Debug)]
pub struct Rejoining<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// How the node is started and stopped.
    pub control: &'a Control,
    /// This run.
    pub run: &'a Run,
}

impl Rejoining<'_> {
    /// Brings a node back as planned.
    ///
    /// # Errors
    /// [`RejoinError::NeedsCopy`] before anything is started, unless a full copy is allowed; others.
    pub fn bring_back(&self, plan: &RejoinPlan, leave: &Leave) -> Result<Rejoined, RejoinError> {
        let (control, run) = (self.control, self.run);
        let member = &self.members[plan.at];
        let node = plan.node.clone();
        plan.check(leave)?;
        let log = LogMark::of_node_that_is_down(control, member.host.as_ref());
        let begun = Instant::now();
        if plan.runs {
            run.events
                .note(format!("{node} runs already: waiting for it"));
        } else {
            // Of several names Galera takes whichever has got furthest.
            let best = plan.donors.first();
            let donors: Vec<&str> = best
                .map(|donor| donor.node_name.as_str())
                .filter(|name| !name.is_empty())
                .into_iter()
                .collect();
            run.events.note(format!("starting {node}"));
            // A restore that was given up may have left with what it was to stand alone.
            control.end_standalone()?;
            control.start(StartAs::Member, &donors)?;
        }
        let mut joining = Joining::new(member, control, log.as_ref());
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
                return Err(RejoinError::Interrupted { node });
            }
            joining.tell(&run.events);
            std::thread::sleep(POLL);
        };
        arrives(self.members, plan.at, || run.cancel.is_cancelled()).map_err(|astray| {
            RejoinError::NotBack {
                node: node.clone(),
                reason: astray.end(control, member, !plan.runs),
            }
        })?;
        let proof = proof(&plan.uuid, &now, joining.log_of(&now).as_deref());
        let by_copy = proof.by == CameBy::Sst;
        Ok(Rejoined {
            node,
            proof,
            left: plan.seqno,
            back: now.seqno.unwrap_or(0),
            join_seconds: begun.elapsed().as_secs_f64(),
            copied: now.sst.bytes.filter(|_| by_copy),
        })
    }
}
