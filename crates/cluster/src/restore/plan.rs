//! What a restore would do, and what stands against it. Nothing is changed by looking.

use std::path::{Path, PathBuf};

use refloat_load::LoadOptions;
use refloat_run::settings::Facts;
use refloat_wire::Connection;
use serde::{Deserialize, Serialize};

use super::alone::alone;
use super::choose::{choose, histories, one_cluster, unknown, whole};
use super::keepers;
use super::rates::Rates;
use super::room::Room;
use super::state::RestoreWay;
use crate::advise::{Advice, Shown};
use crate::control::{Control, StartOption};
use crate::error::chain;
use crate::files::{self, Folder};
use crate::join::runs;
use crate::observe::{Member, impatient, values};
use crate::view::{ClusterView, NodeView};

/// InnoDB's files take about this much more room than dump text, indexes included.
const FILES_PER_TEXT: f64 = 1.5;
/// Less text is loaded in the time in which servers stop and start, so that no rate has to be known: 16 MiB.
const TEXT_LEAST: u64 = 16 << 20;
/// Why nothing is known of the files of a node.
const NO_MACHINE: &str = "no machine is named to look at its files (ssh)";

/// What is asked for.
#[derive(Debug, Clone)]
pub struct RestoreWish {
    /// The node that is loaded into; `None`: whichever is best.
    pub node: Option<String>,
    /// The way; `None`: the faster one.
    pub way: Option<RestoreWay>,
    /// Rates for the estimate.
    pub rates: Rates,
    /// Whether those that nobody knows are measured on the cluster where the way depends on them: rows are written to it for that.
    pub measure: bool,
    /// Whether nodes may lose their old data where those cannot be set aside.
    pub discard_old: bool,
    /// Where nodes stood, by name, before an earlier restore had one of them give its place up: history and last write-set.
    pub known: Vec<(String, (String, u64))>,
}

/// How long both ways would take, in seconds; the comparison at the end is the same for both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    /// One node alone, then full copies of it.
    pub rebuild: Option<f64>,
    /// Through replication.
    pub replicate: Option<f64>,
}

/// What becomes of a node's old data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum OldData {
    /// They stay: the dump is loaded beside them.
    Stay,
    /// They are set aside, under this name on the node's machine.
    Aside {
        /// The folder.
        path: PathBuf,
    },
    /// The full copy wipes them.
    Wiped {
        /// Why they cannot be set aside.
        reason: String,
    },
}

/// A node of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub runs: bool,
    /// The history that it holds, if it belongs to any, and its last write-set of it.
    pub history: Option<(String, Option<u64>)>,
    /// Its data directory.
    pub datadir: PathBuf,
    /// What becomes of its old data.
    pub old: OldData,
    /// With what its server ran: what is looked at when it is down is looked at by that.
    #[serde(default)]
    pub shown: Shown,
}

/// What a restore would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestorePlan {
    /// The dump.
    pub source: String,
    /// Bytes of text in it, as far as that can be told.
    pub text_bytes: Option<u64>,
    /// The way.
    pub way: RestoreWay,
    /// Why that one.
    pub why: String,
    /// How long both would take.
    pub estimates: Estimates,
    /// By which rates.
    #[serde(default)]
    pub rates: Rates,
    /// The place of the node that is loaded into.
    pub at: usize,
    /// All nodes, in the order of the list.
    pub nodes: Vec<PlannedNode>,
    /// With what the chosen node is started while it stands alone.
    pub options: Vec<StartOption>,
    /// The port that it has then.
    pub port: u16,
    /// The socket that it has then.
    pub socket: Option<PathBuf>,
    /// What a person should know before it begins.
    pub warnings: Vec<String>,
}

impl RestorePlan {
    /// Takes down what servers that run show of themselves.
    pub fn know(&mut self, advice: &Advice) {
        for node in &mut self.nodes {
            node.shown = advice.shown(&node.name);
        }
    }

    /// Whether it takes rates that nobody knows to choose the way.
    pub(super) fn is_undecided(&self, wish: &RestoreWish) -> bool {
        let large = self.text_bytes.is_some_and(|text| text >= TEXT_LEAST);
        let both = self.estimates.rebuild.zip(self.estimates.replicate);
        wish.way.is_none() && self.way == RestoreWay::Replicate && large && both.is_none()
    }

    /// The chosen node's name.
    pub fn chosen(&self) -> &str {
        &self.nodes[self.at].name
    }
}

/// What was seen of a node besides what it says.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub folder: Option<Result<Folder, String>>,
    pub runs: bool,
    pub lacks: Option<String>,
    pub restarts: Option<String>,
    /// Programs on its machine that may start and stop it of their own accord.
    pub keepers: Vec<String>,
    pub recovered: Option<(String, u64)>,
    /// Why where it stands is not known, of a node whose file does not say it.
    pub unknown: Option<String>,
    pub facts: Option<Facts>,
    /// Which of its files are not in its data directory, as it says itself.
    pub elsewhere: Option<String>,
}

/// Folders of files that a full copy empties on the joiner, wherever they are.
const FOLDERS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_data_home_dir', 'innodb_log_group_home_dir', 'innodb_undo_directory')";

/// The settings that have files of a server outside of its data directory.
fn elsewhere(conn: &mut Connection, datadir: &Path) -> Option<String> {
    let said = values(conn, FOLDERS).ok()?;
    let outside = |value: &str| {
        let path = Path::new(value);
        path.is_absolute() && !path.starts_with(datadir) || value.contains("..")
    };
    let mut all: Vec<&str> = said
        .iter()
        .filter(|(_, value)| outside(value))
        .map(|(name, _)| name.as_str())
        .collect();
    all.sort_unstable();
    (!all.is_empty()).then(|| format!("its files are in other folders too ({})", all.join(", ")))
}

/// Looks at one node's machine. A position that was not written down is recovered, which starts its server for a moment.
pub(super) fn see(member: &Member, node: &NodeView, control: Option<&Control>) -> Seen {
    let datadir = datadir_of(member, node);
    let folder = member
        .host
        .as_ref()
        .map(|host| files::look_at(host, &datadir).map_err(|error| chain(&error)));
    let Some(control) = control else {
        return Seen {
            folder,
            runs: node.state.is_some(),
            lacks: Some("nothing is said about how it is started and stopped (control)".to_owned()),
            ..Seen::default()
        };
    };
    // Of a node of which that is not known nothing is touched; each step looks again.
    let seen = runs(control, member);
    let runs = node.state.is_some() || !matches!(seen, Ok(false));
    let mut conn = Connection::connect(&impatient(&member.connect)).ok();
    let folders = conn.as_mut().and_then(|conn| elsewhere(conn, &datadir));
    // Also of a file without a history: a start that fails late leaves one beside tables that are whole.
    let lost = node
        .grastate
        .as_ref()
        .is_some_and(|file| file.seqno.is_none());
    let (recovered, unknown) = match (lost && !runs).then(|| control.recover()) {
        None => (None, None),
        Some(Ok(Some(place))) => (Some(place), None),
        Some(Ok(None)) => (
            None,
            Some("its tables do not say it, or nobody could ask them".to_owned()),
        ),
        Some(Err(error)) => (None, Some(chain(&error))),
    };
    Seen {
        folder,
        runs,
        lacks: control.lacks().map(str::to_owned),
        restarts: control.restarts_by_itself(),
        keepers: member.host.as_ref().map(keepers::on).unwrap_or_default(),
        recovered,
        unknown,
        facts: conn.and_then(|mut conn| Facts::read(&mut conn).ok()),
        elsewhere: folders,
    }
}

pub(super) fn datadir_of(member: &Member, node: &NodeView) -> PathBuf {
    member.folder_by(node.state.as_ref())
}

/// How long both ways take, by rates that somebody has given or measured.
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

/// The plan, from what was seen.
///
/// # Errors
/// Everything that stands against it.
pub(super) fn make(
    view: &ClusterView,
    members: &[Member],
    seen: &[Seen],
    wish: &RestoreWish,
    load: &LoadOptions,
    text: Option<u64>,
    run_id: &str,
) -> Result<RestorePlan, Vec<String>> {
    let histories = histories(view, seen, &wish.known);
    let mut against = one_cluster(view, &histories);
    against.extend(whole(view, seen));
    let unknown = unknown(view, seen, &histories);
    // With one that is named a person has decided which is newest.
    if wish.node.is_none() && view.quorum.primary == 0 {
        against.extend(unknown.iter().map(|told| format!("{told}: recover that first (mariadbd --wsrep-recover), or name the node to begin with (--node)")));
    }
    let at = match choose(view, seen, &histories, wish) {
        Ok(at) if against.is_empty() => at,
        Ok(_) => return Err(against),
        Err(mut more) => {
            against.append(&mut more);
            return Err(against);
        }
    };
    let said = view.nodes[at].state.as_ref();
    let folder = seen[at].folder.as_ref();
    // What a node that is down holds is in its folder, with logs and caches that no copy takes: rather too much than too little.
    let data = said
        .and_then(|state| state.sst.bytes)
        .or_else(|| Some(folder?.as_ref().ok()?.used))
        .unwrap_or(0);
    let estimates = estimate(text, data, members.len(), &wish.rates);
    let in_step = view.quorum.synced == view.quorum.listed;
    // The load alone may take longer.
    let known = text.filter(|_| wish.rates.load.is_known());
    let load_alone = known.map(|text| text as f64 / wish.rates.load.bytes_per_second);
    let at_least = estimates.rebuild.or(load_alone);
    let (way, why) = match (wish.way, at_least.zip(estimates.replicate)) {
        (Some(way), _) => (way, "it was asked for".to_owned()),
        _ if !in_step => (
            RestoreWay::Rebuild,
            "not all nodes are in step, so rows cannot be replicated to all".to_owned(),
        ),
        (None, Some((rebuild, replicate))) if replicate <= rebuild => (
            RestoreWay::Replicate,
            "it takes less time, and the cluster goes on".to_owned(),
        ),
        (None, Some(_)) if estimates.rebuild.is_some() => {
            (RestoreWay::Rebuild, "it takes less time".to_owned())
        }
        (None, _) if text.is_some() => (
            RestoreWay::Replicate,
            "which way takes less time is not known, because not all rates were measured, and the cluster goes on".to_owned(),
        ),
        (None, _) => (            RestoreWay::Replicate,
            "how much there is to load is not known, and the cluster goes on".to_owned(),
        ),
    };
    let mut warnings = unknown;
    let mut old = vec![OldData::Stay; members.len()];
    let more = text.map_or(0, |text| (text as f64 * FILES_PER_TEXT) as u64);
    let mut room = Room::default();
    if way == RestoreWay::Replicate {
        if !in_step {
            against.push("not all nodes are in step, so rows cannot be replicated to all: bring them back first, or take --way rebuild".to_owned());
        }
        // What one node has no room for stops all of them.
        for (node, seen) in view.nodes.iter().zip(seen) {
            let reason = match &seen.folder {
                Some(Ok(folder)) => {
                    against.extend(no_room(&node.name, folder, more));
                    room.take(&node.name, folder, more);
                    continue;
                }
                Some(Err(reason)) => reason,
                None => NO_MACHINE,
            };
            warnings.push(format!(
                "whether {} has room for what the dump takes is not known: {reason}",
                node.name
            ));
        }
    } else {
        let needed = data + more;
        for (node, seen) in view.nodes.iter().zip(seen) {
            if let Some(replicas) = seen
                .facts
                .as_ref()
                .and_then(|facts| facts.replicas)
                .filter(|some| *some > 0)
            {
                let chosen = &view.nodes[at].name;
                let read = match replicas {
                    1 => "a replica reads".to_owned(),
                    more => format!("{more} replicas read"),
                };
                warnings.push(if node.name == *chosen {
                    format!("{chosen}: {read} its binary log, by which the rows come to them as soon as it serves again")
                } else {
                    format!(
                        "{}: {read} its binary log, which is gone when it has taken a copy of {chosen}: set them up anew",
                        node.name
                    )
                });
            }
            if let Some(lacks) = &seen.lacks {
                against.push(format!("{}: {lacks}", node.name));
            }
            if !seen.keepers.is_empty() {
                warnings.push(format!("{}: on its machine runs {}: what looks after this server has to leave it alone until the restore has ended; one that stops it ends the load", node.name, seen.keepers.join(", ")));
            }
            if let Some(restarts) = &seen.restarts {
                warnings.push(format!("{}: {restarts}: a server that crashes is started again by systemd; while this lasts it joins nobody", node.name));
            }
        }
        // Before anybody's old data are kept there is room for all.
        for (place, (node, seen)) in view.nodes.iter().zip(seen).enumerate() {
            if let Some(Ok(folder)) = &seen.folder {
                let copied = needed.saturating_sub(folder.used);
                let bytes = if place == at { more } else { copied };
                room.take(&node.name, folder, bytes);
            }
        }
        for (place, seen) in seen.iter().enumerate() {
            let name = &view.nodes[place].name;
            let folder = match &seen.folder {
                Some(Ok(folder)) => folder,
                Some(Err(reason)) => {
                    against.push(format!(
                        "{name}: its data directory cannot be looked at: {reason}"
                    ));
                    continue;
                }
                None => {
                    against.push(format!("{name}: {NO_MACHINE}"));
                    continue;
                }
            };
            old[place] = if place == at {
                against.extend(no_room(name, folder, more));
                OldData::Stay
            } else {
                match &seen.elsewhere {
                    Some(elsewhere) => OldData::Wiped {
                        reason: elsewhere.clone(),
                    },
                    None => old_data(folder, needed, &mut room, run_id),
                }
            };
            if let OldData::Wiped { reason } = &old[place] {
                warnings.push(format!("{name} loses its old data: {reason}"));
                if folder.free + folder.used < needed {
                    against.push(format!(
                        "{name} has room for {} bytes, and a full copy takes about {needed}",
                        folder.free + folder.used
                    ));
                }
            }
        }
        let keeps = old.iter().any(|old| matches!(old, OldData::Aside { .. }));
        if !keeps && members.len() > 1 && !wish.discard_old {
            against.push("no node can set its old data aside, so nobody would have them any more: make room, or give them up with --discard-old".to_owned());
        }
    }
    against.extend(room.lacking());
    let alone = alone(&members[at], seen, view, at, load, text);
    let (options, port, socket) = match alone {
        Ok(alone) => alone,
        Err(reason) => {
            against.push(format!("{}: {reason}", members[at].name));
            (Vec::new(), 0, None)
        }
    };
    if !against.is_empty() {
        return Err(against);
    }
    let nodes = view.nodes.iter().enumerate().map(|(place, node)| {
        let folder = seen[place].folder.as_ref();
        PlannedNode {
            name: node.name.clone(),
            runs: seen[place].runs,
            history: histories[place].clone(),
            datadir: folder
                .and_then(|folder| Some(folder.as_ref().ok()?.path.clone()))
                .unwrap_or_else(|| datadir_of(&members[place], node)),
            old: old[place].clone(),
            shown: Shown::default(),
        }
    });
    Ok(RestorePlan {
        source: load.source.display().to_string(),
        text_bytes: text,
        way,
        why,
        estimates,
        rates: wish.rates.clone(),
        at,
        nodes: nodes.collect(),
        options,
        port,
        socket,
        warnings,
    })
}

/// What is said of a node that has no room for what is loaded.
fn no_room(name: &str, folder: &Folder, more: u64) -> Option<String> {
    (folder.free < more).then(|| {
        format!(
            "{name} has {} bytes free, and the dump takes about {more}",
            folder.free
        )
    })
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
                    path: files::aside_of(&folder.path, run_id),
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
        // 10 s of load, two starts, and twice a start and 2000 bytes.
        assert_eq!(both.rebuild, Some(10.0 + 10.0 + 2.0 * (5.0 + 20.0)));
        assert_eq!(estimate(None, 500, 3, &rates).rebuild, None);
        // What nobody has measured is no estimate.
        let none = estimate(Some(1000), 500, 3, &Rates::default());
        assert_eq!((none.rebuild, none.replicate), (None, None));
    }
}
