//! Chooses which nodes keep write-sets for another, how, and how many bytes.

use super::{HoldPlan, HoldWish, Holder, Way};
use crate::node::NodeState;
use crate::view::ClusterView;

/// Safety factor: the measured write rate is only a snapshot.
const MARGIN: f64 = 1.5;
/// The least memory to reserve: it costs little, and a rate measured in a quiet moment says little.
const MEMORY_LEAST: u64 = 64 << 20;
/// By default, a hold takes at most a quarter of the available memory, or of the free disk space if
/// the node freezes write-sets.
const MEMORY_PART: u64 = 4;
/// By default, a hold takes at most this if the available memory is unknown.
const MEMORY_UNSEEN: u64 = 1 << 30;
/// If the ring alone lasts this many times as long as requested, nothing is changed.
const RING_LASTS: f64 = 2.0;

/// Plans how these nodes keep write-sets for one that is already down. If one of them cannot, it is
/// left unchanged with a warning.
pub(crate) fn plan_hold_of(
    view: &ClusterView,
    holders: &[(usize, &NodeState)],
    plan: HoldPlan,
    wish: &HoldWish,
) -> HoldPlan {
    let states: Vec<&NodeState> = holders.iter().map(|(_, state)| *state).collect();
    let mut plan = plan.at_the_rate_of(&states);
    for holder in holders {
        if let Err(against) = choose_holders(view, &[*holder], &mut plan, wish) {
            plan.warnings.push(against);
        }
    }
    plan
}

/// Adds the nodes that keep write-sets and how they do so, longest first.
///
/// # Errors
/// Why one of them cannot.
pub(super) fn choose_holders(
    view: &ClusterView,
    others: &[(usize, &NodeState)],
    plan: &mut HoldPlan,
    wish: &HoldWish,
) -> Result<(), String> {
    for (other, state) in others.iter().copied() {
        let name = view.nodes[other].name.clone();
        let Some(oldest) = state.gcache.oldest else {
            plan.warnings
                .push(format!("{name} does not say which write-sets it keeps"));
            continue;
        };
        let of = |all: &[Option<u64>]| all.get(other).copied().flatten();
        // Frozen write-sets go to files beside the data; the others go to memory.
        let available = if state.gcache.can_freeze {
            of(&wish.disk)
        } else {
            of(&wish.available)
        };
        let (way, bytes) = choose(state, plan, wish.bytes, available);
        if let Some(available) = available.filter(|most| way != Way::Unchanged && bytes > *most) {
            return Err(format!(
                "{name} cannot keep {bytes} bytes of write-sets: {available} are available"
            ));
        }
        let rate = plan.bytes_per_second;
        plan.holders.push(Holder {
            name,
            node_name: state.node_name.clone(),
            at: other,
            way,
            bytes,
            seconds: (rate > 0.0).then(|| bytes as f64 / rate),
            oldest,
        });
    }
    plan.holders
        .sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    Ok(())
}

/// How a node keeps write-sets, and how many bytes of them.
fn choose(
    state: &NodeState,
    plan: &HoldPlan,
    asked: Option<u64>,
    available: Option<u64>,
) -> (Way, u64) {
    let gcache = &state.gcache;
    // Whoever froze it decides for how long.
    if gcache.frozen_at.is_some() {
        return (Way::Unchanged, gcache.capacity);
    }
    let most = available.map_or(MEMORY_UNSEEN, |bytes| bytes / MEMORY_PART);
    let wanted = (plan.bytes as f64 * MARGIN) as u64;
    let budget = asked.unwrap_or_else(|| wanted.max(MEMORY_LEAST).min(most));
    if asked.is_none() && gcache.capacity as f64 >= plan.bytes as f64 * RING_LASTS && plan.bytes > 0
    {
        return (Way::Unchanged, gcache.capacity);
    }
    if gcache.can_freeze {
        return (Way::Freeze, budget.max(gcache.capacity));
    }
    // Memory replaces the ring and does not add to it: less memory than the ring would keep less.
    if budget <= gcache.capacity {
        return (Way::Unchanged, gcache.capacity);
    }
    (Way::Memory, budget)
}
