//! Plans which other nodes keep the write-sets that a node misses while it is away, how they do
//! that, and for how long.
//!
//! Planning uses what all nodes report and changes nothing. `docs/design/cluster.md` explains why
//! memory is the means to use.

mod choose;

use std::path::PathBuf;
use std::time::Duration;

use refloat_run::Refusal;
use refloat_run::settings::{GCACHE_MEMORY, GCACHE_PURGE, PlannedChange};
use serde::{Deserialize, Serialize};

use crate::node::{HEADER, NodeState, Role};
use crate::view::ClusterView;
use choose::choose_holders;
pub(crate) use choose::plan_hold_of;

/// Hint for nodes in the wrong state.
pub(crate) const SEE_STATUS: &str = "`refloat cluster status` shows the state of every node.";

/// Hint for a node that does not answer.
pub(crate) fn comes_back(node: &str) -> String {
    format!("`refloat cluster rejoin {node}` brings it back when it is down.")
}

/// How a node keeps write-sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// No setting is changed. The node keeps write-sets long enough as it is, or longer than with
    /// the memory that it may use.
    Unchanged,
    /// `gcache.mem_size` is raised for the hold, and put back afterwards.
    Memory,
    /// `gcache.freeze_purge_at_seqno` is set for the hold: nothing is discarded.
    Freeze,
}

/// What a hold must achieve.
#[derive(Debug, Clone)]
pub struct HoldWish {
    /// How long the node will be away.
    pub away: Duration,
    /// Bytes that each node may use for the hold. `None`: as much as is needed, up to a quarter of
    /// the available memory.
    pub bytes: Option<u64>,
    /// Available memory of each node's machine in bytes, in the order of the nodes. `None`:
    /// unknown.
    pub available: Vec<Option<u64>>,
    /// Free space in bytes on the file system of each node's data, in the same order.
    pub disk: Vec<Option<u64>>,
}

/// A node that keeps write-sets for another node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// As the list of nodes names it.
    pub name: String,
    /// `wsrep_node_name`, by which the other nodes request it as donor.
    pub node_name: String,
    /// Its index in the list of nodes.
    pub at: usize,
    /// How it keeps them.
    pub way: Way,
    /// Bytes of write-sets that can arrive before the node discards the first missed one.
    pub bytes: u64,
    /// How long that lasts at the measured rate, in seconds. `None`: nothing is written.
    pub seconds: Option<f64>,
    /// The oldest write-set that it keeps.
    pub oldest: u64,
}

/// How the other nodes keep the write-sets that a node will miss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldPlan {
    /// Name of the node that leaves.
    pub node: String,
    /// Its index in the list of nodes.
    pub at: usize,
    /// The cluster's history.
    pub uuid: String,
    /// Its data directory, as reported while it runs. `None`: it is down.
    pub datadir: Option<PathBuf>,
    /// How long it will be away, in seconds.
    pub away_seconds: f64,
    /// Bytes of write-sets per second in the cluster.
    pub bytes_per_second: f64,
    /// Bytes expected to be written while it is away.
    pub bytes: u64,
    /// Write-sets expected to be written while it is away.
    pub write_sets: u64,
    /// The nodes that keep them, longest first.
    pub holders: Vec<Holder>,
    /// What the user should know before the hold begins.
    pub warnings: Vec<String>,
}

impl HoldPlan {
    /// A plan without write rate and holders, which are filled in later.
    pub(crate) fn empty(node: &str, at: usize, uuid: &str, away: Duration) -> Self {
        Self {
            node: node.to_owned(),
            at,
            uuid: uuid.to_owned(),
            datadir: None,
            away_seconds: away.as_secs_f64(),
            bytes_per_second: 0.0,
            bytes: 0,
            write_sets: 0,
            holders: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Fills in the write rate. Every node receives the same write-sets, so the highest rate of
    /// these nodes is the right one.
    fn at_the_rate_of(mut self, nodes: &[&NodeState]) -> Self {
        let rate =
            |of: fn(&NodeState) -> f64| nodes.iter().map(|state| of(state)).fold(0.0, f64::max);
        let sets = rate(|state| state.gcache.write_sets_per_second);
        self.bytes_per_second = rate(|state| state.gcache.bytes_per_second) + sets * HEADER as f64;
        self.bytes = (self.bytes_per_second * self.away_seconds) as u64;
        self.write_sets = (sets * self.away_seconds) as u64;
        self
    }

    /// How long the node can be away at the measured rate, in seconds. `None`: without limit,
    /// because nothing is written.
    pub fn seconds(&self) -> Option<f64> {
        self.holders.first().and_then(|holder| holder.seconds)
    }

    /// Whether that is long enough.
    pub fn lasts(&self) -> bool {
        self.seconds()
            .is_none_or(|seconds| seconds >= self.away_seconds)
    }
}

impl Holder {
    /// The setting to change on it for the hold. `None`: none.
    pub(crate) fn change(&self, node: &str) -> Option<PlannedChange> {
        let (name, new) = match self.way {
            Way::Unchanged => return None,
            Way::Memory => (GCACHE_MEMORY, self.bytes.to_string()),
            Way::Freeze => (GCACHE_PURGE, "now".to_owned()),
        };
        Some(PlannedChange {
            name: name.to_owned(),
            // The old value is read just before the change.
            old: String::new(),
            new,
            reason: format!("keeps the write-sets that {node} misses"),
            gain: "it comes back by IST".to_owned(),
        })
    }
}

/// Plans how the other nodes keep the write-sets that a node will miss.
///
/// # Errors
/// Every reason why the node must not leave or the write-sets cannot be kept.
pub fn plan_hold(
    view: &ClusterView,
    node: &str,
    wish: &HoldWish,
) -> Result<HoldPlan, Vec<Refusal>> {
    may_leave(view, node)?;
    let (at, leaving) = leaving(view, node)?;
    let others: Vec<(usize, &NodeState)> =
        view.serving().filter(|(other, _)| *other != at).collect();
    let mut against = Vec::new();
    for (other, state) in &others {
        if let Some(seqno) = state.gcache.frozen_at {
            let reason = format!(
                "{} holds write-sets from {seqno} on already (gcache.freeze_purge_at_seqno): somebody else does the same just now, or has forgotten to undo it",
                view.nodes[*other].name
            );
            against.push(
                Refusal::new(reason)
                    .hint("`refloat settings list` shows what runs of refloat have left."),
            );
        }
    }
    if !against.is_empty() {
        return Err(against);
    }
    let mut plan = HoldPlan::empty(node, at, &leaving.cluster_uuid, wish.away);
    plan.datadir = Some(&leaving.datadir)
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let others_and_it: Vec<&NodeState> = others
        .iter()
        .map(|(_, state)| *state)
        .chain([leaving])
        .collect();
    let mut plan = plan.at_the_rate_of(&others_and_it);
    choose_holders(view, &others, &mut plan, wish).map_err(|against| vec![against.into()])?;
    if plan.holders.is_empty() {
        return Err(plan.warnings.into_iter().map(Refusal::from).collect());
    }
    warn(view, leaving, &mut plan);
    Ok(plan)
}

/// The order in which nodes can leave one after the other. Preferred donors of other nodes
/// (`wsrep_sst_donor`) come last, so that they are available as long as a node may need a copy.
/// Among equals, the node with the most writes from applications comes last.
///
/// # Errors
/// Every node that does not answer or is not synced.
pub fn rolling_order(view: &ClusterView) -> Result<Vec<String>, Vec<Refusal>> {
    let mut nodes = Vec::new();
    let mut against = Vec::new();
    for node in &view.nodes {
        match leaving(view, &node.name) {
            Ok((at, state)) => nodes.push((
                asked_for_copies(view, at, &state.node_name),
                state.own_write_sets_per_second,
                node.name.clone(),
            )),
            Err(reasons) => against.extend(reasons),
        }
    }
    against.dedup();
    if !against.is_empty() {
        return Err(against);
    }
    nodes.sort_by(|(donor, writes, _), (other, others, _)| {
        donor.cmp(other).then(writes.total_cmp(others))
    });
    Ok(nodes.into_iter().map(|(.., name)| name).collect())
}

/// Whether a node other than `at` has this node as a preferred donor.
fn asked_for_copies(view: &ClusterView, at: usize, node_name: &str) -> bool {
    let others = view.nodes.iter().enumerate().filter(|(one, _)| *one != at);
    others
        .filter_map(|(_, node)| node.state.as_ref())
        .any(|state| state.sst.donor_names().any(|name| name == node_name))
}

/// Whether a node may leave now: it answers, and another node still serves.
///
/// # Errors
/// Every reason against it.
pub(crate) fn may_leave(view: &ClusterView, node: &str) -> Result<(), Vec<Refusal>> {
    let (at, _) = leaving(view, node)?;
    if view.serving().any(|(other, _)| other != at) {
        return Ok(());
    }
    let reason = format!(
        "no other node answers, is synced and takes statements: with {node} the last one would go"
    );
    Err(vec![Refusal::new(reason).hint(SEE_STATUS)])
}

/// The node that leaves, if it answers.
fn leaving<'a>(view: &'a ClusterView, node: &str) -> Result<(usize, &'a NodeState), Vec<Refusal>> {
    let Some(at) = view.nodes.iter().position(|one| one.name == node) else {
        let names: Vec<&str> = view.nodes.iter().map(|one| one.name.as_str()).collect();
        let reason = format!(
            "no node is called {node}; the nodes are {}",
            names.join(", ")
        );
        return Err(vec![reason.into()]);
    };
    let primary = view
        .nodes
        .iter()
        .filter(|one| one.primary().is_some())
        .count();
    if primary > 0 && (view.quorum.uuid.is_none() || view.quorum.view.is_none()) {
        let reason = "the nodes disagree on who belongs to the cluster";
        return Err(vec![Refusal::new(reason).hint(SEE_STATUS)]);
    }
    match &view.nodes[at].state {
        None => {
            let why = view.nodes[at].unreachable.as_deref();
            let why = why.unwrap_or("no reason is known");
            let refusal = Refusal::new(format!("{node} does not answer ({why})"));
            Err(vec![refusal.hint(comes_back(node))])
        }
        Some(state) if !state.primary || state.role != Role::Synced => {
            let is = match state.state.as_str() {
                "" => "not part of the cluster",
                other => other,
            };
            let reason = format!(
                "{node} is {is} and not Synced: keeping what it misses from now on would not be enough \
                to bring it back"
            );
            Err(vec![Refusal::new(reason).hint(SEE_STATUS)])
        }
        Some(state) => Ok((at, state)),
    }
}

fn warn(view: &ClusterView, leaving: &NodeState, plan: &mut HoldPlan) {
    match leaving.size {
        2 => plan.warnings.push(format!(
            "while {} is away, {} is the only node that runs",
            plan.node, plan.holders[0].name
        )),
        // A node that shuts down cleanly lowers the number needed for a majority. A crash does not.
        3 => plan.warnings.push(format!(
            "while {} is away, 2 nodes are left: if one of them crashes, the other one has no majority and stops serving",
            plan.node
        )),
        _ => {}
    }
    let unseen = (leaving.size as usize).saturating_sub(view.quorum.primary);
    if unseen > 0 {
        plan.warnings.push(format!(
            "{unseen} of the {} members were not asked: a cluster.toml can name them",
            leaving.size
        ));
    }
    if let Some(seconds) = plan.seconds().filter(|_| !plan.lasts()) {
        plan.warnings.push(format!(
            "write-sets are kept for {seconds:.0} s at the current rate, but {} is to be away for \
            {:.0} s",
            plan.node, plan.away_seconds
        ));
    }
}

/// The write-set up to which Galera still grants IST to a node that is at `seqno`, as long as
/// `oldest` is kept. Beyond it, Galera considers `seqno` too close to the oldest. See
/// [`crate::Rejoin`].
pub(crate) fn safe_until(oldest: u64, seqno: u64) -> u64 {
    let distance = seqno.saturating_sub(oldest);
    if distance >= crate::forecast::GAP_MOST {
        return u64::MAX;
    }
    // The gap is an integer: it stays at `distance` until the range reaches the next multiple.
    oldest.saturating_add(((distance + 1) << crate::forecast::GAP_SHIFT) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{state, view};

    fn wish(seconds: u64, bytes: Option<u64>) -> HoldWish {
        HoldWish {
            away: Duration::from_secs(seconds),
            bytes,
            available: vec![None, Some(4 << 30), None],
            disk: vec![Some(8 << 30); 3],
        }
    }

    /// A billion bytes in ten thousand write-sets over a hundred seconds.
    const BUSY: [(&str, &str); 2] = [
        ("wsrep_received_bytes", "1000000000"),
        ("wsrep_received", "10000"),
    ];

    #[test]
    fn memory_is_raised_within_limits_and_a_ring_that_lasts_is_left_alone() {
        let ring = "gcache.size = 128M; gcache.mem_size = 0";
        let all = || {
            view(vec![
                Some(state(&BUSY, ring)),
                Some(state(&BUSY, ring)),
                None,
            ])
        };
        let plan = plan_hold(&all(), "n1", &wish(60, None)).unwrap();
        assert_eq!(plan.holders.len(), 1);
        assert_eq!(
            (plan.holders[0].way, plan.holders[0].name.as_str()),
            (Way::Memory, "n2")
        );
        assert!(
            (plan.bytes_per_second - 10_006_400.0).abs() < 1.0,
            "{plan:?}"
        );
        assert!(
            plan.holders[0].bytes >= plan.bytes && plan.lasts(),
            "{plan:?}"
        );
        // A quarter of 4 GiB, which lasts 107 seconds.
        let long = plan_hold(&all(), "n1", &wish(600, None)).unwrap();
        assert_eq!(long.holders[0].bytes, 1 << 30);
        assert!(
            !long.lasts() && long.warnings.iter().any(|w| w.contains("kept for 107 s")),
            "{long:?}"
        );
        // With an explicit size: more than is available is refused, and less than the ring keeps
        // changes nothing.
        let more = plan_hold(&all(), "n1", &wish(60, Some(5 << 30))).unwrap_err();
        assert!(
            more[0].reason.contains("n2 cannot keep 5368709120 bytes"),
            "{more:?}"
        );
        let small = plan_hold(&all(), "n1", &wish(60, Some(1 << 20))).unwrap();
        assert_eq!(
            (small.holders[0].way, small.holders[0].bytes),
            (Way::Unchanged, 128 << 20)
        );
        let short = plan_hold(&all(), "n1", &wish(5, None)).unwrap();
        assert_eq!(short.holders[0].way, Way::Unchanged);
    }

    #[test]
    fn a_provider_that_can_freeze_is_asked_to_and_one_that_does_already_is_left_alone() {
        let can = "gcache.size = 128M; gcache.mem_size = 0; gcache.freeze_purge_at_seqno = -1";
        let all = view(vec![Some(state(&BUSY, can)), Some(state(&BUSY, can))]);
        let plan = plan_hold(&all, "n2", &wish(60, Some(5 << 30))).unwrap();
        assert_eq!(
            (plan.holders[0].way, plan.holders[0].bytes),
            (Way::Freeze, 5 << 30)
        );
        assert_eq!(plan.holders[0].change("n2").unwrap().new, "now");
        let frozen = can.replace("-1", "77");
        let all = view(vec![Some(state(&BUSY, &frozen)), Some(state(&BUSY, can))]);
        let against = plan_hold(&all, "n2", &wish(60, None)).unwrap_err();
        assert!(
            against[0]
                .reason
                .contains("n1 holds write-sets from 77 on already"),
            "{against:?}"
        );
    }

    #[test]
    fn what_must_not_be_begun() {
        let ring = "gcache.size = 128M";
        let one = |values: &[(&str, &str)]| Some(state(values, ring));
        let why = |view: &ClusterView, node: &str| {
            Refusal::reasons(&plan_hold(view, node, &wish(60, None)).unwrap_err())
        };
        assert!(why(&view(vec![one(&[]), None]), "n1").contains("the last one would go"));
        assert!(why(&view(vec![None, one(&[])]), "n1").contains("n1 does not answer"));
        assert!(
            why(&view(vec![one(&[])]), "n7").contains("no node is called n7; the nodes are n1")
        );
        let donor = [
            ("wsrep_local_state", "2"),
            ("wsrep_local_state_comment", "Donor/Desynced"),
        ];
        let text = why(&view(vec![one(&donor), one(&[])]), "n1");
        assert!(
            text.contains("n1 is Donor/Desynced and not Synced"),
            "{text}"
        );
        // The only other node is desynced.
        assert!(why(&view(vec![one(&[]), one(&donor)]), "n1").contains("no other node"));
        let mut split = view(vec![one(&[]), one(&[])]);
        split.quorum.view = None;
        assert!(why(&split, "n1").contains("disagree"));
    }

    #[test]
    fn donors_come_last_and_among_equals_the_one_that_is_written_to() {
        let node = |name: &str, writes: f64, donor: Option<&str>| {
            let mut state = state(&[], "");
            state.node_name = format!("{name}-of-shop");
            state.own_write_sets_per_second = writes;
            state.sst.donor = donor.map(str::to_owned);
            Some(state)
        };
        let order = |donor: Option<&str>| {
            let nodes = [("n1", 5.0), ("n2", 0.0), ("n3", 1.0), ("n4", 0.0)];
            let nodes = nodes.map(|(name, writes)| node(name, writes, donor));
            rolling_order(&view(nodes.into())).unwrap().join(" ")
        };
        assert_eq!(order(None), "n2 n4 n3 n1");
        assert_eq!(order(Some(" n2-of-shop , n3-of-shop,")), "n4 n1 n2 n3");
        // A node that lists only itself is no donor for the others.
        let mut alone = view(vec![
            node("n1", 0.0, Some("n1-of-shop")),
            node("n2", 1.0, None),
        ]);
        alone.quorum.primary = 2;
        assert_eq!(rolling_order(&alone).unwrap(), ["n1", "n2"]);
    }

    #[test]
    fn how_far_the_cluster_may_get() {
        let gap = |oldest: u64, head: u64| (head - oldest) >> 7;
        for (oldest, seqno) in [(1, 1), (1, 2), (10, 15), (100, 1000)] {
            let until = safe_until(oldest, seqno);
            assert!(seqno >= oldest + gap(oldest, until), "{oldest} {seqno}");
            assert!(seqno < oldest + gap(oldest, until + 1), "{oldest} {seqno}");
        }
        assert_eq!(safe_until(0, 1 << 20), u64::MAX);
    }
}
