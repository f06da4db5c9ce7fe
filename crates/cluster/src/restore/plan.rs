//! What a restore would do, and what stands against it. Nothing is changed by looking.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use refloat_logical::load::{BinlogMode, LoadOptions};
use refloat_run::settings::{Durability, Facts, Hints, plan_for};
use refloat_wire::{Connection, Target};
use serde::{Deserialize, Serialize};

use super::files::{self, Folder};
use super::state::RestoreWay;
use crate::control::{Control, StartOption};
use crate::error::chain;
use crate::join::runs;
use crate::observe::{DEFAULT_DATADIR, Member, impatient};
use crate::view::{ClusterView, NodeView};

/// InnoDB's files take about this much more room than dump text, indexes included.
const FILES_PER_TEXT: f64 = 1.5;
/// The longest path of a unix socket (`sockaddr_un`).
const SOCKET_MOST: usize = 107;
/// The socket of a server that stands alone, in its data directory.
const SOCKET: &str = "refloat-standalone.sock";
/// The first port that a server that stands alone listens on, when its own one is not known.
const PORT: u16 = 23_306;

/// Rates by which the time of both ways is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Bytes of text per second into one server.
    pub load: f64,
    /// The same with all nodes applying them too.
    pub replicate: f64,
    /// Bytes per second of a full copy.
    pub copy: f64,
    /// Seconds for a node to stop, start and join.
    pub restart: f64,
}

impl Default for Rates {
    /// Measured on two cores with a local disk: 604 MB of text into MariaDB 10.11, three nodes on the same machine.
    fn default() -> Self {
        const MIB: f64 = 1_048_576.0;
        Self {
            load: 80.0 * MIB,
            replicate: 40.0 * MIB,
            copy: 100.0 * MIB,
            restart: 4.0,
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct RestoreWish {
    /// The node that is loaded into; `None`: whichever is best.
    pub node: Option<String>,
    /// The way; `None`: the faster one.
    pub way: Option<RestoreWay>,
    /// Rates for the estimate.
    pub rates: Rates,
    /// Whether nodes may lose their old data where those cannot be set aside.
    pub discard_old: bool,
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
    pub recovered: Option<(String, u64)>,
    pub facts: Option<Facts>,
}

/// Looks at one node's machine. A position that was not written down is recovered, which starts its server for a moment.
pub(super) fn see(member: &Member, node: &NodeView, control: Option<&Control>) -> Seen {
    let Some(control) = control else {
        return Seen {
            runs: node.state.is_some(),
            lacks: Some("nothing is said about how it is started and stopped (control)".to_owned()),
            ..Seen::default()
        };
    };
    let runs = node.state.is_some() || runs(control, member);
    let datadir = datadir_of(member, node);
    let lost = node
        .grastate
        .as_ref()
        .is_some_and(|file| file.has_history() && file.seqno.is_none());
    Seen {
        folder: member
            .host
            .as_ref()
            .map(|host| files::look_at(host, &datadir).map_err(|error| chain(&error))),
        runs,
        lacks: control.lacks().map(str::to_owned),
        restarts: control.restarts_by_itself(),
        recovered: if lost && !runs {
            control.recover().ok().flatten()
        } else {
            None
        },
        facts: Connection::connect(&impatient(&member.connect))
            .ok()
            .and_then(|mut conn| Facts::read(&mut conn).ok()),
    }
}

pub(super) fn datadir_of(member: &Member, node: &NodeView) -> PathBuf {
    let said = node.state.as_ref().map(|state| state.datadir.clone());
    member
        .datadir
        .clone()
        .or_else(|| said.filter(|dir| !dir.is_empty()).map(PathBuf::from))
        .unwrap_or_else(|| DEFAULT_DATADIR.into())
}

/// How long both ways take.
fn estimate(text: Option<u64>, data: u64, nodes: usize, rates: &Rates) -> Estimates {
    let others = nodes.saturating_sub(1) as f64;
    Estimates {
        rebuild: text.map(|text| {
            let copy = (data as f64 + text as f64 * FILES_PER_TEXT) / rates.copy;
            text as f64 / rates.load + 2.0 * rates.restart + others * (rates.restart + copy)
        }),
        replicate: text.map(|text| text as f64 / rates.replicate),
    }
}

/// The history of a node, and where it stands in it.
fn history(node: &NodeView, seen: &Seen) -> Option<(String, Option<u64>)> {
    if let Some(state) = node.primary() {
        return Some((state.cluster_uuid.clone(), state.seqno));
    }
    let file = node.grastate.as_ref();
    match (&seen.recovered, file) {
        // The file has forgotten it when a start failed; the tables have not.
        (Some((uuid, seqno)), Some(file)) if file.has_history() && *uuid == file.uuid => {
            Some((uuid.clone(), Some(*seqno)))
        }
        (_, Some(file)) if file.has_history() => Some((file.uuid.clone(), file.seqno)),
        _ => None,
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
    let histories: Vec<_> = view
        .nodes
        .iter()
        .zip(seen)
        .map(|(node, seen)| history(node, seen))
        .collect();
    let mut against = one_cluster(view, &histories);
    against.extend(whole(view, seen));
    let at = match choose(view, seen, &histories, wish) {
        Ok(at) if against.is_empty() => at,
        Ok(_) => return Err(against),
        Err(mut more) => {
            against.append(&mut more);
            return Err(against);
        }
    };
    let data = view.nodes[at]
        .state
        .as_ref()
        .and_then(|state| state.sst.bytes)
        .unwrap_or(0);
    let estimates = estimate(text, data, members.len(), &wish.rates);
    let in_step = view.quorum.synced == view.quorum.listed;
    let (way, why) = match (wish.way, estimates.rebuild.zip(estimates.replicate)) {
        (Some(way), _) => (way, "it was asked for".to_owned()),
        _ if !in_step => (
            RestoreWay::Rebuild,
            "not all nodes are in step, so rows cannot be replicated to all".to_owned(),
        ),
        (None, Some((rebuild, replicate))) if replicate <= rebuild => (
            RestoreWay::Replicate,
            "it takes less time, and the cluster goes on".to_owned(),
        ),
        _ => (RestoreWay::Rebuild, "it takes less time".to_owned()),
    };
    let mut warnings = Vec::new();
    let mut old = vec![OldData::Stay; members.len()];
    if way == RestoreWay::Replicate {
        if !in_step {
            against.push("not all nodes are in step, so rows cannot be replicated to all: bring them back first, or take --way rebuild".to_owned());
        }
    } else {
        let needed = data + text.map_or(0, |text| (text as f64 * FILES_PER_TEXT) as u64);
        for (node, seen) in view.nodes.iter().zip(seen) {
            if let Some(lacks) = &seen.lacks {
                against.push(format!("{}: {lacks}", node.name));
            }
            if let Some(restarts) = &seen.restarts {
                warnings.push(format!("{}: {restarts}: a server that crashes is started again by systemd; while this lasts it joins nobody", node.name));
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
                    against.push(format!(
                        "{name}: no machine is named to look at its files (ssh)"
                    ));
                    continue;
                }
            };
            old[place] = if place == at {
                let more = needed.saturating_sub(data);
                if folder.free < more {
                    against.push(format!(
                        "{name} has {} bytes free, and the dump takes about {more}",
                        folder.free
                    ));
                }
                OldData::Stay
            } else {
                old_data(folder, needed, run_id)
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
        }
    });
    Ok(RestorePlan {
        source: load.source.display().to_string(),
        text_bytes: text,
        way,
        why,
        estimates,
        at,
        nodes: nodes.collect(),
        options,
        port,
        socket,
        warnings,
    })
}

fn old_data(folder: &Folder, needed: u64, run_id: &str) -> OldData {
    let reason = match &folder.fixed {
        Some(fixed) => fixed.clone(),
        None if folder.free < needed => format!(
            "{} bytes are free, and a full copy takes about {needed}",
            folder.free
        ),
        None => {
            return OldData::Aside {
                path: files::aside_of(&folder.path, run_id),
            };
        }
    };
    OldData::Wiped { reason }
}

/// What shows that the nodes are not of one cluster.
fn one_cluster(view: &ClusterView, histories: &[Option<(String, Option<u64>)>]) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, history) in view.nodes.iter().zip(histories) {
        if let Some((uuid, _)) = history {
            groups.entry(uuid).or_default().push(&node.name);
        }
        if let Some(state) = &node.state {
            names
                .entry(&state.cluster_name)
                .or_default()
                .push(&node.name);
        }
    }
    let mut against = Vec::new();
    for (what, groups) in [("history", groups), ("cluster name", names)] {
        if groups.len() > 1 {
            let told: Vec<String> = groups
                .iter()
                .map(|(value, names)| format!("{} of {value}", names.join(", ")))
                .collect();
            against.push(format!(
                "the nodes are not of one cluster: by {what} {}",
                told.join("; ")
            ));
        }
    }
    against
}

/// What shows that not everybody is known, or not in a state in which anything may be stopped.
fn whole(view: &ClusterView, seen: &[Seen]) -> Vec<String> {
    let mut against = Vec::new();
    let primary = view.quorum.primary;
    for (node, seen) in view.nodes.iter().zip(seen) {
        let name = &node.name;
        match &node.state {
            Some(state) if !state.primary => against.push(format!(
                "{name} answers and belongs to no primary component (it says {:?}): find out why first",
                state.state
            )),
            Some(state) if !view.serving().any(|(at, _)| view.nodes[at].name == *name) => {
                against.push(format!("{name} is not in step: it is {}", state.state));
            }
            Some(state) if state.size > primary as u64 => against.push(format!(
                "{name} sees {} members, and {primary} of them are listed: list every node, and stop arbitrators (garbd)",
                state.size
            )),
            None if seen.runs => against.push(format!(
                "{name} does not answer and its process is there: {}",
                node.unreachable.as_deref().unwrap_or_default()
            )),
            None if node.grastate.is_none() && seen.folder.is_some() => against.push(format!(
                "{name} does not answer, and what it holds cannot be seen: {}",
                node.files_unreadable.as_deref().unwrap_or_default()
            )),
            _ => {}
        }
    }
    against
}

/// The node that is loaded into: one that holds what is newest.
fn choose(
    view: &ClusterView,
    seen: &[Seen],
    histories: &[Option<(String, Option<u64>)>],
    wish: &RestoreWish,
) -> Result<usize, Vec<String>> {
    let at = |name: &String| view.nodes.iter().position(|node| node.name == *name);
    let asked = match &wish.node {
        Some(name) => {
            Some(at(name).ok_or_else(|| vec![format!("no node of the list is called {name}")])?)
        }
        None => None,
    };
    let head = view.quorum.seqno;
    let places: Vec<(usize, Option<u64>)> = histories
        .iter()
        .enumerate()
        .filter_map(|(at, history)| Some((at, history.as_ref()?.1)))
        .collect();
    let told = || {
        let told = places.iter().map(|(at, seqno)| {
            let seqno = seqno.map_or_else(|| "-1 (unknown)".to_owned(), |seqno| seqno.to_string());
            format!("{} is at {seqno}", view.nodes[*at].name)
        });
        told.collect::<Vec<_>>().join(", ")
    };
    if let Some(head) = head {
        let ahead = places
            .iter()
            .find(|(at, seqno)| view.nodes[*at].state.is_none() && *seqno > Some(head));
        if let Some((at, seqno)) = ahead {
            return Err(vec![format!(
                "{} is down at {}, and those that run are at {head}: it holds what nobody else does",
                view.nodes[*at].name,
                seqno.unwrap_or(0)
            )]);
        }
        let serving: Vec<usize> = view.serving().map(|(at, _)| at).collect();
        return match asked {
            Some(at) if serving.contains(&at) => Ok(at),
            Some(at) => Err(vec![format!(
                "{} is down while others run, so it does not hold what is newest: choose one of those that run",
                view.nodes[at].name
            )]),
            None => {
                let free = |at: &usize| match &seen[*at].folder {
                    Some(Ok(folder)) => folder.free,
                    _ => 0,
                };
                let most = serving.iter().map(free).max();
                let best = serving.iter().find(|at| Some(free(at)) == most);
                best.copied()
                    .ok_or_else(|| vec!["no node is in step".to_owned()])
            }
        };
    }
    // Nobody runs: what is newest has to be known, and to be meant.
    if places.iter().any(|(_, seqno)| seqno.is_none()) {
        return Err(vec![format!(
            "all nodes are down, and not everybody's position is known: {}. Recover it first (mariadbd --wsrep-recover)",
            told()
        )]);
    }
    let newest = places.iter().filter_map(|(_, seqno)| *seqno).max();
    let is_newest = |at: usize| places.contains(&(at, newest));
    match asked {
        Some(at) if newest.is_none() || is_newest(at) => Ok(at),
        Some(at) => Err(vec![format!(
            "{} does not hold what is newest: {}",
            view.nodes[at].name,
            told()
        )]),
        None if places.iter().any(|(_, seqno)| *seqno != newest) => Err(vec![format!(
            "all nodes are down at different places: {}. Say which one it begins with (--node); only the newest can be",
            told()
        )]),
        None => Ok(places.first().map_or(0, |(at, _)| *at)),
    }
}

/// With what the chosen node is started while it stands alone: cut off from the cluster and from applications, and with what only a start
/// can change for the load.
fn alone(
    member: &Member,
    seen: &[Seen],
    view: &ClusterView,
    at: usize,
    load: &LoadOptions,
    text: Option<u64>,
) -> Result<(Vec<StartOption>, u16, Option<PathBuf>), String> {
    let facts = seen[at].facts.as_ref();
    let own = match member.connect.target() {
        Target::Tcp(_, port) => Some(port),
        Target::Unix(_) => None,
    };
    // A port of its own keeps applications and proxies out, which the account of the load is not.
    let taken: Vec<u16> = view
        .nodes
        .iter()
        .filter_map(|node| node.address.rsplit_once(':')?.1.parse().ok())
        .collect();
    let first = own.unwrap_or(PORT).checked_add(7).unwrap_or(PORT);
    let port = (first..=u16::MAX)
        .chain(PORT..)
        .find(|port| {
            !taken.contains(port)
                && std::net::TcpStream::connect_timeout(
                    &std::net::SocketAddr::from(([127, 0, 0, 1], *port)),
                    std::time::Duration::from_millis(200),
                )
                .is_err()
        })
        .unwrap_or(PORT);
    let mut options = vec![
        StartOption::new("wsrep-on", "OFF"),
        StartOption::new("wsrep-provider", "none"),
        StartOption::new("port", port.to_string()),
        StartOption::switch("skip-slave-start"),
        StartOption::new("event-scheduler", "OFF"),
        StartOption::new("innodb-autoinc-lock-mode", "2"),
    ];
    let folder = match &seen[at].folder {
        Some(Ok(folder)) => folder.path.clone(),
        _ => datadir_of(member, &view.nodes[at]),
    };
    let socket = Some(folder.join(SOCKET)).filter(|path| {
        let option = StartOption::new("socket", path.to_string_lossy());
        path.as_os_str().len() <= SOCKET_MOST && option.word().is_some()
    });
    match &socket {
        Some(path) => options.push(StartOption::new("socket", path.to_string_lossy())),
        None if own.is_none() => {
            return Err(format!(
                "the socket of a server that stands alone would be {}, which is too long or has odd characters: give the node a url with a host",
                folder.join(SOCKET).display()
            ));
        }
        None => {}
    }
    if let Some(facts) = facts {
        options.extend(for_load(facts, load, text, &folder));
    }
    Ok((options, port, socket))
}

/// What only a start can change and a load is faster with, by the same rules as everywhere.
fn for_load(
    facts: &Facts,
    load: &LoadOptions,
    text: Option<u64>,
    _folder: &Path,
) -> Vec<StartOption> {
    let level = load.durability.unwrap_or(Durability::Relaxed);
    let hints = Hints {
        dump_bytes: text,
        skip_binlog: false,
        ..Hints::default()
    };
    let mut options = Vec::new();
    for advice in plan_for(facts, level, &hints).advice {
        let name = advice.name.as_str();
        let wanted = advice.restart
            && match name {
                // A crash of the machine may tear pages: only where the server may be lost.
                "innodb_doublewrite" => level == Durability::Disposable,
                "innodb_log_file_size" | "innodb_buffer_pool_size_max" => {
                    level >= Durability::Relaxed
                }
                _ => false,
            };
        if wanted {
            options.push(StartOption::new(&name.replace('_', "-"), advice.better));
        }
    }
    let binlog_off = match load.binlog {
        BinlogMode::Keep => false,
        // Others get these rows by full copies; a replica that reads the log would lack them.
        _ => facts.is_on("log_bin") && facts.replicas == Some(0),
    };
    if binlog_off {
        options.push(StartOption::switch("skip-log-bin"));
    }
    options
}
