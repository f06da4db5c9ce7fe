//! Has the other nodes keep what a starting node needs until it is back.
//!
//! On a busy cluster, an observation only shows what they have at that moment, and a server may
//! take minutes before it requests anything.

use std::time::Duration;

use super::{RejoinPlan, Rejoining};
use crate::hold::{HoldPlan, HoldWish, plan_hold_of};
use crate::keep::{Holds, KeepError, Keeper, SETTLED, Watched};
use crate::view::{ClusterView, RejoinKind};

/// How long the hold should last at the current write rate: crash recovery with a large redo log
/// takes minutes. With fewer writes it lasts longer.
const START_TAKES: Duration = Duration::from_secs(600);

/// Plans how the nodes that have what a node needs keep it. `None`: the node would not rejoin by
/// IST, or already runs.
///
/// `bytes`, `available` and `disk` are as in [`HoldWish`].
pub fn plan_hold_for_start(
    view: &ClusterView,
    plan: &RejoinPlan,
    bytes: Option<u64>,
    (available, disk): (Vec<Option<u64>>, Vec<Option<u64>>),
) -> Option<HoldPlan> {
    let RejoinKind::Ist { donors, .. } = &plan.forecast.kind else {
        return None;
    };
    if plan.runs {
        return None;
    }
    let wish = HoldWish {
        away: START_TAKES,
        bytes,
        available,
        disk,
    };
    let has_it = |name: &str| donors.iter().any(|donor| donor.name == name);
    let holders: Vec<_> = view
        .serving()
        .filter(|(at, _)| *at != plan.at && has_it(&view.nodes[*at].name))
        .collect();
    let empty = HoldPlan::empty(&plan.node, plan.at, &plan.uuid, wish.away);
    Some(plan_hold_of(view, &holders, empty, &wish))
}

/// What the others keep for a starting node.
pub(super) struct Held<'a> {
    keeper: Keeper<'a>,
    holds: Holds,
    pub watched: Vec<Watched>,
}

impl Held<'_> {
    /// Whether any node was told to keep anything.
    pub fn any(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Tells all of them to stop keeping write-sets. Returns those that could not be told, and why.
    /// If `back` is given, waits until that node has applied the change.
    pub fn release(&mut self, back: Option<usize>) -> Vec<(String, String)> {
        let any = self.any();
        let failed = self.keeper.release(&mut self.holds);
        if let Some(back) = back.filter(|_| any) {
            self.keeper.settle(back);
        }
        failed
    }
}

impl Rejoining<'_> {
    /// Tells the others to keep what they have of the write-sets that the node misses. A node that
    /// keeps something for another run, or that cannot be told, is not changed but still watched.
    pub(super) fn hold(&self, plan: &RejoinPlan) -> Held<'_> {
        let keeper = Keeper {
            members: self.members,
            state_dir: self.state_dir,
            run: self.run,
        };
        let (mut holds, mut watched) = (Holds::new(), Vec::new());
        for holder in plan.hold.iter().flat_map(|hold| &hold.holders) {
            let result = keeper.begin_to_keep(&plan.node, holder, |run| {
                holds.push((holder.at, run));
                Ok(())
            });
            let begun = result.or_else(|error| {
                self.run.events.warn(match &error {
                    KeepError::Taken { reason, .. } => {
                        format!("{} is left as it is: {reason}", holder.name)
                    }
                    _ => format!("{error}. It is left as it is"),
                });
                keeper.watch(holder)
            });
            match begun {
                Ok(one) => watched.push(one),
                Err(error) => self.run.events.warn(error.to_string()),
            }
        }
        if !holds.is_empty() {
            self.run.cancel.sleep(SETTLED);
        }
        Held {
            keeper,
            holds,
            watched,
        }
    }
}
