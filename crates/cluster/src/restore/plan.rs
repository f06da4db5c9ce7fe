//! Plans a restore, and collects the objections to it. Planning changes nothing.

use refloat_host::datadir::{self, Folder};
use refloat_load::LoadOptions;
use refloat_run::Refusal;

use super::alone::alone;
use super::choose::{choose, histories, one_cluster, unknown, whole};
use super::examined_host::{Seen, datadir_of};
use super::planned::{Estimates, OldData, PlannedNode, RestorePlan, RestoreWay, RestoreWish};
use super::rates::Rates;
use super::room::Room;
use crate::advise::Shown;
use crate::member::Member;
use crate::view::{ClusterView, NodeView};

/// InnoDB's files take about this many times the size of the dump text, indexes included.
const FILES_PER_TEXT: f64 = 1.5;
/// Why a node's files could not be examined.
const NO_MACHINE: &str = "no machine is named to look at its files (ssh)";

/// Estimates the duration of both ways from rates that were given or measured.
fn estimate(text: Option<u64>, data: u64, nodes: usize, rates: &Rates) -> Estimates {
    let others = nodes.saturating_sub(1) as f64;
    Estimates {
        rebuild: text
            .filter(|_| rates.load.is_known() && rates.copy.is_known())
            .map(|text| {
                let copy =
                    (data as f64 + text as f64 * FILES_PER_TEXT) / rates.copy.bytes_per_second;
                let load = text as f64 / rates.load.bytes_per_second;
                load + 2.0 * rates.restart_seconds + others * (rates.restart_seconds + copy)
            }),
        replicate: text
            .filter(|_| rates.replicate.is_known())
            .map(|text| text as f64 / rates.replicate.bytes_per_second),
    }
}

/// Makes the plan from the observations.
///
/// # Errors
/// Every objection to a restore.
pub(super) fn make(
    view: &ClusterView,
    members: &[Member],
    seen: &[Seen],
    wish: &RestoreWish,
    load: &LoadOptions,
    text: Option<u64>,
    run_id: &str,
) -> Result<RestorePlan, Vec<Refusal>> {
    let histories = histories(view, seen, &wish.known);
    let unknown = unknown(view, seen, &histories);
    let at = node_to_load_into(view, seen, wish, &histories, &unknown)?;
    let data = data_bytes(&view.nodes[at], &seen[at]);
    let estimates = estimate(text, data, members.len(), &wish.rates);
    let in_step = view.quorum.synced == view.quorum.listed;
    let (way, why) = choose_way(wish, &estimates, text, in_step);
    let more = text.map_or(0, |text| (text as f64 * FILES_PER_TEXT) as u64);
    let mut found = Found {
        warnings: unknown,
        ..Found::default()
    };
    let old = if way == RestoreWay::Replicate {
        look_at_replication(view, seen, in_step, more, &mut found);
        vec![OldData::Stay; members.len()]
    } else {
        let rebuild = Rebuild {
            view,
            seen,
            at,
            more,
            needed: data + more,
            run_id,
        };
        rebuild.look(wish, &mut found)
    };
    let Found {
        mut against,
        warnings,
        room,
    } = found;
    against.extend(room.lacking().map(Refusal::from));
    let alone = alone(&members[at], seen, view, at, load, text);
    let (options, port, socket) = match alone {
        Ok(alone) => alone,
        Err(reason) => {
            against.push(format!("{}: {reason}", members[at].name).into());
            (Vec::new(), 0, None)
        }
    };
    if !against.is_empty() {
        return Err(against);
    }
    Ok(RestorePlan {
        source: load.source.display().to_string(),
        text_bytes: text,
        way,
        why,
        estimates,
        rates: wish.rates.clone(),
        at,
        nodes: planned_nodes(view, members, seen, histories, old),
        options,
        port,
        socket,
        warnings,
    })
}

/// What was found while planning.
#[derive(Default)]
struct Found<'a> {
    /// Objections to the restore.
    against: Vec<Refusal>,
    /// What the user should know.
    warnings: Vec<String>,
    /// The disk space that the nodes need.
    room: Room<'a>,
}

/// Chooses the node to load into, from nodes that form one whole cluster.
fn node_to_load_into(
    view: &ClusterView,
    seen: &[Seen],
    wish: &RestoreWish,
    histories: &[Option<(String, Option<u64>)>],
    unknown: &[String],
) -> Result<usize, Vec<Refusal>> {
    let mut against = one_cluster(view, histories);
    against.extend(whole(view, seen));
    // By naming a node, the user has decided which one is the newest.
    if wish.node.is_none() && view.quorum.primary == 0 {
        against.extend(unknown.iter().map(|reason| Refusal::new(reason).hint("Recover its position first (mariadbd --wsrep-recover), or name the node to begin with (--node).")));
    }
    match choose(view, seen, histories, wish) {
        Ok(at) if against.is_empty() => Ok(at),
        Ok(_) => Err(against),
        Err(more) => {
            against.push(more);
            Err(against)
        }
    }
}

/// Bytes of a node's data, which a copy of it transfers. 0: unknown.
fn data_bytes(node: &NodeView, seen: &Seen) -> u64 {
    let state = node.state.as_ref();
    // A node that is down is measured by its directory, which includes logs and caches that no copy
    // transfers. Too much is better than too little.
    state
        .and_then(|state| state.sst.bytes)
        .or_else(|| Some(seen.folder.as_ref()?.as_ref().ok()?.used))
        .unwrap_or(0)
}

/// The requested way, or else the faster one, and the reason.
fn choose_way(
    wish: &RestoreWish,
    estimates: &Estimates,
    text: Option<u64>,
    in_step: bool,
) -> (RestoreWay, String) {
    // The load alone may already take longer.
    let known = text.filter(|_| wish.rates.load.is_known());
    let load_alone = known.map(|text| text as f64 / wish.rates.load.bytes_per_second);
    let at_least = estimates.rebuild.or(load_alone);
    let (way, why) = match (wish.way, at_least.zip(estimates.replicate)) {
        (Some(way), _) => (way, "it was asked for"),
        _ if !in_step => (
            RestoreWay::Rebuild,
            "not all nodes are in sync, so rows cannot be replicated to all",
        ),
        (None, Some((rebuild, replicate))) if replicate <= rebuild => (
            RestoreWay::Replicate,
            "it takes less time, and the cluster keeps serving",
        ),
        (None, Some(_)) if estimates.rebuild.is_some() => {
            (RestoreWay::Rebuild, "it takes less time")
        }
        (None, _) if text.is_some() => (
            RestoreWay::Replicate,
            "which way takes less time is not known, because not all rates were measured, and the cluster keeps serving",
        ),
        (None, _) => (
            RestoreWay::Replicate,
            "how much there is to load is not known, and the cluster keeps serving",
        ),
    };
    (way, why.to_owned())
}

/// Objections to loading the dump into the running cluster, where each node needs `more` bytes.
fn look_at_replication<'a>(
    view: &'a ClusterView,
    seen: &'a [Seen],
    in_step: bool,
    more: u64,
    found: &mut Found<'a>,
) {
    if !in_step {
        found.against.push(
            Refusal::new("not all nodes are in sync, so rows cannot be replicated to all")
                .hint("Bring them back first, or take --way rebuild."),
        );
    }
    // A node that runs out of space stops the whole cluster.
    for (node, seen) in view.nodes.iter().zip(seen) {
        let reason = match &seen.folder {
            Some(Ok(folder)) => {
                found.against.extend(no_room(&node.name, folder, more));
                found.room.take(&node.name, folder, more);
                continue;
            }
            Some(Err(unseen)) => &unseen.reason,
            None => NO_MACHINE,
        };
        found.warnings.push(format!(
            "whether {} has room for what the dump takes is not known: {reason}",
            node.name
        ));
    }
}

/// A load into one standalone node that the others then copy.
struct Rebuild<'a> {
    view: &'a ClusterView,
    seen: &'a [Seen],
    /// Index of the node that is loaded into.
    at: usize,
    /// Bytes that the dump needs.
    more: u64,
    /// Bytes that a full copy needs.
    needed: u64,
    run_id: &'a str,
}

impl<'a> Rebuild<'a> {
    /// Collects the objections, and decides what happens to each node's old data.
    fn look(&self, wish: &RestoreWish, found: &mut Found<'a>) -> Vec<OldData> {
        for (node, seen) in self.view.nodes.iter().zip(self.seen) {
            self.look_at_surroundings(node, seen, found);
        }
        // Space for all copies comes before space for old data.
        self.reserve_copies(&mut found.room);
        let old: Vec<OldData> = (0..self.seen.len())
            .map(|place| self.old_data_of(place, found))
            .collect();
        let keeps = old.iter().any(|old| matches!(old, OldData::Aside { .. }));
        if !keeps && old.len() > 1 && !wish.discard_old {
            found.against.push(
                Refusal::new(
                    "no node can set its old data aside, so nobody would have them any longer",
                )
                .hint("Make room, or give them up with --discard-old."),
            );
        }
        old
    }

    /// Examines what else depends on a server: its replicas, and what starts and stops it.
    fn look_at_surroundings(&self, node: &NodeView, seen: &Seen, found: &mut Found<'_>) {
        let replicas = seen.facts.as_ref().and_then(|facts| facts.replicas);
        if let Some(replicas) = replicas.filter(|some| *some > 0) {
            found.warnings.push(self.replicas_of(node, replicas));
        }
        if let Some(lacks) = &seen.lacks {
            found.against.push(format!("{}: {lacks}", node.name).into());
        }
        if !seen.keepers.is_empty() {
            found.warnings.push(format!("{}: its machine runs {}: whatever supervises this server must leave it alone until the restore has ended; if the server is stopped, the load ends", node.name, seen.keepers.join(", ")));
        }
        if let Some(restarts) = &seen.restarts {
            found.warnings.push(format!("{}: {restarts}: a server that crashes is started again by systemd; during the restore it joins no cluster", node.name));
        }
    }

    /// What a rebuild means for the replicas of a node.
    fn replicas_of(&self, node: &NodeView, replicas: u64) -> String {
        let chosen = &self.view.nodes[self.at].name;
        let read = match replicas {
            1 => "a replica reads".to_owned(),
            more => format!("{more} replicas read"),
        };
        if node.name == *chosen {
            format!(
                "{chosen}: {read} its binary log, and gets the rows from it as soon as the node serves again"
            )
        } else {
            format!(
                "{}: {read} its binary log, which is gone once it has taken a copy of {chosen}: set them up again",
                node.name
            )
        }
    }

    /// Reserves space for the dump on the chosen node, and for a copy on each of the others.
    fn reserve_copies(&self, room: &mut Room<'a>) {
        for (place, (node, seen)) in self.view.nodes.iter().zip(self.seen).enumerate() {
            if let Some(Ok(folder)) = &seen.folder {
                let copied = self.needed.saturating_sub(folder.used);
                let bytes = if place == self.at { self.more } else { copied };
                room.take(&node.name, folder, bytes);
            }
        }
    }

    /// What happens to a node's old data.
    fn old_data_of(&self, place: usize, found: &mut Found<'_>) -> OldData {
        let (name, seen) = (&self.view.nodes[place].name, &self.seen[place]);
        let folder = match &seen.folder {
            Some(Ok(folder)) => folder,
            Some(Err(unseen)) => {
                let reason = format!("{name}: its data directory cannot be looked at: {unseen}");
                let refusal = Refusal::new(reason).hint(&unseen.hint);
                found.against.push(refusal);
                return OldData::Stay;
            }
            None => {
                found.against.push(format!("{name}: {NO_MACHINE}").into());
                return OldData::Stay;
            }
        };
        if place == self.at {
            found.against.extend(no_room(name, folder, self.more));
            return OldData::Stay;
        }
        let old = match &seen.elsewhere {
            Some(elsewhere) => OldData::Wiped {
                reason: elsewhere.clone(),
            },
            None => old_data(folder, self.needed, &mut found.room, self.run_id),
        };
        if let OldData::Wiped { reason } = &old {
            found
                .warnings
                .push(format!("{name} loses its old data: {reason}"));
            if folder.free + folder.used < self.needed {
                let room = folder.free + folder.used;
                found.against.push(
                    format!(
                        "{name} has room for {room} bytes, and a full copy takes about {}",
                        self.needed
                    )
                    .into(),
                );
            }
        }
        old
    }
}

fn planned_nodes(
    view: &ClusterView,
    members: &[Member],
    seen: &[Seen],
    histories: Vec<Option<(String, Option<u64>)>>,
    old: Vec<OldData>,
) -> Vec<PlannedNode> {
    let fates = histories.into_iter().zip(old);
    let nodes = view.nodes.iter().zip(members).zip(seen).zip(fates);
    nodes
        .map(|(((node, member), seen), (history, old))| {
            let folder = seen.folder.as_ref();
            PlannedNode {
                name: node.name.clone(),
                runs: seen.runs,
                history,
                datadir: folder
                    .and_then(|folder| Some(folder.as_ref().ok()?.path.clone()))
                    .unwrap_or_else(|| datadir_of(member, node)),
                old,
                shown: Shown::default(),
            }
        })
        .collect()
}

/// The objection to a node without enough space for what is loaded.
fn no_room(name: &str, folder: &Folder, more: u64) -> Option<Refusal> {
    let free = folder.free;
    let reason = || format!("{name} has {free} bytes free, and the dump takes about {more}");
    (free < more).then(|| reason().into())
}

fn old_data(folder: &Folder, needed: u64, room: &mut Room<'_>, run_id: &str) -> OldData {
    let reason = match &folder.fixed {
        Some(fixed) => fixed.clone(),
        None if folder.free < needed => format!(
            "{} bytes are free, and a full copy takes about {needed}",
            folder.free
        ),
        None => match room.take_more(folder, folder.used.min(needed)) {
            Ok(()) => {
                return OldData::Aside {
                    path: datadir::aside_of(&folder.path, run_id),
                };
            }
            Err(reason) => reason,
        },
    };
    OldData::Wiped { reason }
}

#[cfg(test)]
mod tests {
    use super::super::rates::Rate;
    use super::*;

    #[test]
    fn both_ways_are_estimated_from_sizes_and_rates() {
        let rates = Rates {
            load: Rate::given(100.0),
            replicate: Rate::given(10.0),
            copy: Rate::given(100.0),
            restart_seconds: 5.0,
            restart_measured: false,
        };
        let both = estimate(Some(1000), 500, 3, &rates);
        assert_eq!(both.replicate, Some(100.0));
        // 10 s of load, two restarts, and for each of two nodes a restart and a copy of 2000 bytes.
        assert_eq!(both.rebuild, Some(10.0 + 10.0 + 2.0 * (5.0 + 20.0)));
        assert_eq!(estimate(None, 500, 3, &rates).rebuild, None);
        // Rates that were never measured give no estimate.
        let none = estimate(Some(1000), 500, 3, &Rates::default());
        assert_eq!((none.rebuild, none.replicate), (None, None));
    }
}
