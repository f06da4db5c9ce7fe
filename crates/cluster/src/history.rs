//! Decides whether a node's position is part of the history that the cluster continued with.
//!
//! A history keeps its UUID when the cluster is bootstrapped again from any of its nodes, and new
//! write-sets take the seqnos that follow that node's position. A node that was ahead of it has a
//! position that looks valid, so IST sends it what came later although it lacks what came before.
//! That is why this module compares write-sets rather than numbers: both nodes keep them in a file,
//! each with its originating node, connection and time.

mod ring;
mod views;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use refloat_host::{Control, Host};
use refloat_run::settings::ProviderOptions;
use refloat_wire::Connection;
use serde::{Deserialize, Serialize};

use crate::member::{Member, impatient};
use crate::view::ClusterView;
use ring::{Kept, Ring};

/// The ring's file name, unless `gcache.name` sets another.
const RING_NAME: &str = "galera.cache";
/// How many seqnos to compare, counting back from a node's position.
const BACK: u64 = 256;
/// How many tables to name for one side.
const TABLES: usize = 5;

/// How a node's position relates to the history that the cluster continued with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "history", rename_all = "snake_case")]
pub enum History {
    /// The cluster holds the same data up to the node's seqno.
    Shared {
        /// How this is known.
        evidence: String,
    },
    /// The cluster was bootstrapped without what the node holds, or the node continued on its own.
    Parted(Box<Parting>),
    /// Whether they share it cannot be told.
    Unknown {
        /// Why not.
        reason: String,
    },
}

/// Where the histories of a node and of the cluster diverged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parting {
    /// The last seqno at which both are the same. `None`: it is older than anything still kept.
    pub after: Option<u64>,
    /// What only the node holds.
    pub node: Side,
    /// What the cluster holds at these seqnos and IST would not send.
    pub cluster: Side,
}

/// What only one side holds, as far as it is still kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The node that was examined.
    pub name: String,
    /// The seqno of that side.
    pub seqno: u64,
    /// Write-sets that the other side does not hold.
    pub write_sets: u64,
    /// The tables in these write-sets.
    pub tables: BTreeSet<String>,
    /// When the first of them was written, RFC 3339, by the servers' clocks. `None`: not recorded.
    pub since: Option<String>,
    /// When the last of them was written, like `since`.
    pub until: Option<String>,
}

impl Parting {
    /// Describes both sides in a sentence.
    pub fn describe(&self) -> String {
        let (node, cluster) = (&self.node, &self.cluster);
        if node.write_sets + cluster.write_sets == 0 {
            return format!(
                "{} is at {}, and the cluster ({}, at {}) went on without it from an earlier position",
                node.name, node.seqno, cluster.name, cluster.seqno
            );
        }
        let same = self.after.map_or_else(
            || "they diverged before anything that both still keep".to_owned(),
            |after| format!("both hold the same up to {after}"),
        );
        format!(
            "{same}; from there on {} (at {}) has {} that the cluster does not have, and the cluster ({}, at {}) has {} at the same seqnos that {} does not have",
            node.name,
            node.seqno,
            self.sets_of(node),
            cluster.name,
            cluster.seqno,
            self.sets_of(cluster),
            node.name
        )
    }

    /// Describes what only the node holds. `None`: nothing.
    pub fn lost(&self) -> Option<String> {
        match (self.node.write_sets, self.after) {
            (0, Some(_)) => None,
            (0, None) => {
                Some("what it has done without the cluster, which nobody keeps".to_owned())
            }
            _ => Some(format!(
                "{} that the cluster does not have",
                self.sets_of(&self.node)
            )),
        }
    }

    fn sets_of(&self, side: &Side) -> String {
        let count = match (side.write_sets, self.after) {
            (0, _) => return "nothing".to_owned(),
            (1, Some(_)) => "1 write-set".to_owned(),
            (many, Some(_)) => format!("{many} write-sets"),
            (many, None) => format!("{many} or more write-sets"),
        };
        let shown: Vec<&str> = side
            .tables
            .iter()
            .take(TABLES)
            .map(String::as_str)
            .collect();
        let tables = match (shown.len(), side.tables.len().saturating_sub(TABLES)) {
            (0, _) => None,
            (_, 0) => Some(shown.join(", ")),
            (_, rest) => Some(format!("{} and {rest} more tables", shown.join(", "))),
        };
        let written = side.since.as_ref().zip(side.until.as_ref());
        let written = written.map(|(since, until)| {
            if since == until {
                format!("written at {since}")
            } else {
                format!("written from {since} to {until}")
            }
        });
        let notes: Vec<String> = tables.into_iter().chain(written).collect();
        if notes.is_empty() {
            count
        } else {
            format!("{count} ({})", notes.join("; "))
        }
    }
}

/// The ring of one node.
struct At<'a> {
    name: &'a str,
    host: &'a Host,
    path: PathBuf,
}

/// Compares two rings at the first node's position, `seqno`; `head` is the cluster's position.
fn of_two(node: &At<'_>, donor: &At<'_>, uuid: &str, (seqno, head): (u64, u64)) -> History {
    let read = || -> Result<History, String> {
        let ours = Ring::read(node.host, &node.path, seqno)?;
        let theirs = Ring::read(donor.host, &donor.path, seqno)?;
        for (whose, ring) in [(node, &ours), (donor, &theirs)] {
            if ring.history != uuid {
                return Err(format!(
                    "the file in which {} keeps write-sets is not of this history",
                    whose.name
                ));
            }
        }
        Ok(judge(
            (node.name, &ours),
            (donor.name, &theirs),
            (seqno, head),
        ))
    };
    let unknown = |reason| History::Unknown { reason };
    match read() {
        // The donor keeps writing to its file, so read again before reporting a divergence.
        Ok(History::Parted(_)) => read().unwrap_or_else(unknown),
        known => known.unwrap_or_else(unknown),
    }
}

/// Compares two nodes that are down. The second one has reached the first one's seqno.
pub(crate) fn of_two_down(
    (older, seqno): (&Member, u64),
    (newer, head): (&Member, u64),
    uuid: &str,
) -> History {
    let Some((older_host, newer_host)) = older.host.as_ref().zip(newer.host.as_ref()) else {
        return History::Unknown {
            reason: "the files of both cannot be seen from here".to_owned(),
        };
    };
    let at = |name, host, member: &Member| At {
        name,
        host,
        path: member.folder().join(RING_NAME),
    };
    of_two(
        &at(&older.name, older_host, older),
        &at(&newer.name, newer_host, newer),
        uuid,
        (seqno, head),
    )
}

/// Compares entry by entry, from the node's position back to the first entry that both hold.
fn judge(
    (node, ours): (&str, &Ring),
    (donor, theirs): (&str, &Ring),
    (seqno, head): (u64, u64),
) -> History {
    let side = |name: &str, seqno| Side {
        name: name.to_owned(),
        seqno,
        ..Side::default()
    };
    let mut parting = Parting {
        after: None,
        node: side(node, seqno),
        cluster: side(donor, head),
    };
    let count = |side: &mut Side, tables: &BTreeSet<String>, time: Option<i64>| {
        side.write_sets += 1;
        side.tables.extend(tables.iter().cloned());
        // This walks backwards, so the first one counted was written last.
        if let Some(time) = time.and_then(refloat_run::moment) {
            side.until.get_or_insert_with(|| time.clone());
            side.since = Some(time);
        }
    };
    let lowest = seqno.saturating_sub(BACK).max(1);
    for at in (lowest..=seqno).rev() {
        let (here, there) = (ours.kept.get(&at), theirs.kept.get(&at));
        let same = here.and_then(Kept::identity) == there.and_then(Kept::identity);
        match (here, there) {
            (Some(Kept::WriteSet(..) | Kept::Change(_)), _) if same => {
                if parting.node.write_sets + parting.cluster.write_sets > 0 {
                    parting.after = Some(at);
                    return History::Parted(Box::new(parting));
                }
                let what = match here {
                    Some(Kept::Change(_)) => "change of the membership",
                    _ => "write-set",
                };
                return History::Shared {
                    evidence: format!("{node} and {donor} hold the same {what} {at}"),
                };
            }
            (Some(here), Some(there)) if *here != Kept::Several && *there != Kept::Several => {
                if let Kept::WriteSet(_, tables, time) = here {
                    count(&mut parting.node, tables, *time);
                }
                if let Kept::WriteSet(_, tables, time) = there {
                    count(&mut parting.cluster, tables, *time);
                }
            }
            _ if parting.node.write_sets + parting.cluster.write_sets > 0 => {
                return History::Parted(Box::new(parting));
            }
            (kept, _) => {
                let name = if matches!(kept, None | Some(Kept::Several)) {
                    node
                } else {
                    donor
                };
                return History::Unknown {
                    reason: format!("the file in which {name} keeps write-sets does not tell {at}"),
                };
            }
        }
    }
    match parting.node.write_sets + parting.cluster.write_sets {
        0 => History::Unknown {
            reason: format!("nothing was written between {lowest} and {seqno}"),
        },
        _ => History::Parted(Box::new(parting)),
    }
}

/// Decides how the position `seqno` of a node that is down relates to the history that the cluster
/// continued with.
pub(crate) fn look(
    view: &ClusterView,
    members: &[Member],
    (at, control): (usize, &Control),
    seqno: u64,
) -> History {
    let by_rings = by_rings(view, members, at, seqno);
    if !matches!(by_rings, History::Unknown { .. }) {
        return by_rings;
    }
    if let Some(evidence) = views::shared(view, members, (at, control), seqno) {
        return History::Shared { evidence };
    }
    if let Some(parting) = by_view(view, members, at, seqno) {
        return History::Parted(Box::new(parting));
    }
    by_rings
}

fn by_rings(view: &ClusterView, members: &[Member], at: usize, seqno: u64) -> History {
    let unknown = |reason: String| History::Unknown { reason };
    let node = &members[at];
    let Some(host) = &node.host else {
        return unknown(format!(
            "the files of {} cannot be seen from here",
            node.name
        ));
    };
    let (uuid, head) = (
        view.quorum.uuid.clone().unwrap_or_default(),
        view.quorum.seqno.unwrap_or(0),
    );
    let mut why = Vec::new();
    for (other, state) in view.serving().filter(|(other, _)| *other != at) {
        let donor = &members[other];
        let Some((donor_host, (folder, name))) = donor.host.as_ref().zip(ring_of(donor)) else {
            why.push(format!(
                "the files of {} cannot be seen from here",
                donor.name
            ));
            continue;
        };
        let ours = At {
            name: &node.name,
            host,
            path: node.folder().join(&name),
        };
        let theirs = At {
            name: &donor.name,
            host: donor_host,
            path: Path::new(&state.datadir).join(folder).join(&name),
        };
        match of_two(&ours, &theirs, &uuid, (seqno, head)) {
            History::Unknown { reason } => why.push(reason),
            known => return known,
        }
    }
    why.dedup();
    unknown(why.join("; "))
}

/// The folder and file name in which a running node keeps write-sets.
fn ring_of(member: &Member) -> Option<(PathBuf, String)> {
    let mut conn = Connection::connect(&impatient(&member.connect)).ok()?;
    let result = conn.query("SELECT @@wsrep_provider_options").ok()?;
    let options = ProviderOptions::parse(result.str(0, 0)?);
    let folder = options.get("gcache.dir").unwrap_or_default();
    let name = options.get("gcache.name").unwrap_or(RING_NAME);
    let name = Path::new(name).file_name()?.to_string_lossy().into_owned();
    Some((PathBuf::from(folder), name))
}

/// A node outside the component has received nothing since the current view began, so a seqno at or
/// beyond that view's came from elsewhere. Gives no answer while a member that the cluster counts
/// does not answer.
fn by_view(view: &ClusterView, members: &[Member], at: usize, seqno: u64) -> Option<Parting> {
    let primary = |(_, node): &(usize, &crate::view::NodeView)| node.primary().is_some();
    let seen = view.nodes.iter().enumerate().filter(primary).count() as u64;
    if view.quorum.size != Some(seen) {
        return None;
    }
    let (other, state) = view.serving().find(|(other, _)| *other != at)?;
    let mut conn = Connection::connect(&impatient(&members[other].connect)).ok()?;
    let rows = conn
        .query("SELECT cluster_uuid, view_seqno FROM mysql.wsrep_cluster")
        .ok()?;
    let begun: u64 = rows.str(0, 1)?.parse().ok()?;
    let is_this = rows.len() == 1 && rows.str(0, 0) == Some(state.cluster_uuid.as_str());
    let side = |name: &str, seqno| Side {
        name: name.to_owned(),
        seqno,
        ..Side::default()
    };
    (is_this && seqno >= begun).then(|| Parting {
        after: None,
        node: side(&members[at].name, seqno),
        cluster: side(&members[other].name, state.seqno.unwrap_or(begun)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(ours: &str, theirs: &str, seqno: u64) -> History {
        let (ours, theirs) = (Ring::parse(ours), Ring::parse(theirs));
        judge(("n2", &ours), ("n1", &theirs), (seqno, 20))
    }

    #[test]
    fn write_sets_tell_whether_histories_have_parted() {
        let shared = "history u\n7 w aa d.t\n8 w bb d.t\n";
        let same = judged(shared, &format!("{shared}9 w cc d.t\n"), 8);
        assert!(matches!(same, History::Shared { .. }), "{same:?}");
        // Membership changes carry no rows, so differences between them do not matter.
        let same = judged(
            &format!("{shared}9 c 5a\n"),
            &format!("{shared}9 c 5b\n10 w dd\n"),
            9,
        );
        assert!(matches!(same, History::Shared { .. }), "{same:?}");
        let only_changes = judged("history u\n9 c 5a\n", "history u\n9 c 5a\n", 9);
        assert!(
            matches!(only_changes, History::Shared { .. }),
            "{only_changes:?}"
        );
        let ours = format!("{shared}9 w c2 d.t,d.u 1700000000\n10 c 6a\n11 w d2 d.u 1700000060\n");
        let theirs = format!("{shared}9 c 5b\n10 w c1 d.t 1700000099\n11 w d1  \n");
        let History::Parted(parting) = judged(&ours, &theirs, 11) else {
            panic!("they have parted");
        };
        assert_eq!(parting.after, Some(8));
        assert_eq!(
            (parting.node.write_sets, parting.cluster.write_sets),
            (2, 2)
        );
        assert_eq!(
            parting.describe(),
            "both hold the same up to 8; from there on n2 (at 11) has 2 write-sets (d.t, d.u; written from 2023-11-14T22:13:20Z to 2023-11-14T22:14:20Z) that the cluster does not have, and the cluster (n1, at 20) has 2 write-sets (d.t; written at 2023-11-14T22:14:59Z) at the same seqnos that n2 does not have"
        );
        // Only the cluster has a write-set there.
        let parted = judged(
            &format!("{shared}9 c 5a\n"),
            &theirs.replace("9 c", "9 w"),
            9,
        );
        assert!(matches!(parted, History::Parted(_)), "{parted:?}");
        // Leftovers and missing entries prove nothing.
        for (ours, theirs) in [
            (format!("{shared}8 w b0 d.t\n"), shared.to_owned()),
            ("history u\n".to_owned(), shared.to_owned()),
            (shared.to_owned(), "7 w aa\n".to_owned()),
        ] {
            let unknown = judged(&ours, &theirs, 8);
            assert!(matches!(unknown, History::Unknown { .. }), "{unknown:?}");
        }
        let History::Parted(parting) = judged("8 w b2\n", "8 w b1\n", 8) else {
            panic!("they have parted");
        };
        assert_eq!(parting.after, None);
        assert!(parting.describe().contains("1 or more write-sets"));
    }
}
