//! Claims: which process drives a restore of a cluster, or maintains one of its nodes.
//!
//! The claim is a file in the data directory of the chosen node, whichever machine runs refloat.
//! That directory is the only one that stays in place from the first step to the last, can be read
//! while its server is down, and is visible from every machine. A full copy does not include the
//! file.

use std::path::{Path, PathBuf};

use refloat_host::{Host, HostError};
use refloat_run::{Owner, Refusal};
use serde::{Deserialize, Serialize};

use crate::member::Member;
use crate::view::ClusterView;
use crate::work::{OpenWork, WorkKind};

/// Claim of a restore, in the data directory of the chosen node.
const RESTORED: &str = "refloat-restore.json";
/// Claim of a maintenance, in the data directory of the maintained node.
const MAINTAINED: &str = "refloat-maintain.json";

/// Hint for a restore that a claim shows.
const END_RESTORE: &str = "Wait until it ends. If it was killed on a machine that cannot be \
    seen from here, its command with --take-over resumes it, and --give-up abandons it. Remove the \
    file only if you know that nobody will resume it.";
/// Hint for a maintenance that a claim shows.
const END_MAINTENANCE: &str = "Wait until it ends. If it was killed, end it with --end where it was \
    begun. Remove the file only if you know that it has ended.";

/// Which process drives a restore, or maintains a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub run: String,
    pub driver: Owner,
}

impl Claim {
    /// The path of the claim for this kind of work, in this data directory.
    pub fn path(kind: WorkKind, datadir: &Path) -> PathBuf {
        datadir.join(match kind {
            WorkKind::Restore => RESTORED,
            WorkKind::Maintenance => MAINTAINED,
        })
    }

    /// Reads a claim. `None`: there is no file, or the file is not a claim.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read(host: &Host, path: &Path) -> Result<Option<Self>, HostError> {
        let text = host.read(path)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Who else drives the work, or may drive it. `None`: this process does, or the process has
    /// ended.
    pub fn of_another(&self) -> Option<String> {
        let Owner { pid, host, .. } = &self.driver;
        match self.driver.alive() {
            _ if self.driver == Owner::this() => None,
            Some(false) => None,
            Some(true) => Some(format!("process {pid} on {host} drives")),
            None => Some(format!("process {pid} on {host} may drive")),
        }
    }
}

/// Each restore of these nodes that another process drives, may drive, or left unfinished. Claims
/// that cannot be read are skipped.
pub fn restores_elsewhere(members: &[Member], view: &ClusterView) -> Vec<Refusal> {
    elsewhere(members, view, WorkKind::Restore)
}

/// Each maintenance of these nodes that another process drives or may drive.
pub fn maintenances_elsewhere(members: &[Member], view: &ClusterView) -> Vec<Refusal> {
    elsewhere(members, view, WorkKind::Maintenance)
}

fn elsewhere(members: &[Member], view: &ClusterView, doing: WorkKind) -> Vec<Refusal> {
    let mut found = Vec::new();
    for (member, node) in members.iter().zip(&view.nodes) {
        let Some(host) = &member.host else {
            continue;
        };
        let datadir = member.folder_by(node.state.as_ref());
        let path = Claim::path(doing, &datadir);
        let (what, hint) = match doing {
            WorkKind::Restore => ("a restore of the cluster that it belongs to", END_RESTORE),
            WorkKind::Maintenance => ("a maintenance of it", END_MAINTENANCE),
        };
        let Ok(Some(claim)) = Claim::read(host, &path) else {
            continue;
        };
        // A maintenance also shows on its node and on those that hold write-sets. An abandoned
        // restore shows nowhere else.
        let left = doing == WorkKind::Restore && claim.driver.alive() == Some(false);
        let mut add = |reason: String| found.push(Refusal::new(reason).hint(hint));
        if left {
            add(format!(
                "{}: {what} has not ended, but process {} on {} no longer drives it (run {}; {} on {} says so)",
                member.name,
                claim.driver.pid,
                claim.driver.host,
                claim.run,
                path.display(),
                host.name()
            ));
        }
        if let Some(who) = claim.of_another() {
            add(format!(
                "{}: {who} {what} (run {}; {} on {} says so, and is removed when it ends)",
                member.name,
                claim.run,
                path.display(),
                host.name()
            ));
        }
    }
    found
}

/// A claim of this process in a node's data directory. Dropping it removes the file, unless the
/// claim `stays`.
#[derive(Debug)]
pub(crate) struct Claimed<'a> {
    host: &'a Host,
    path: PathBuf,
    /// Whether the file outlives this process.
    stays: bool,
}

impl<'a> Claimed<'a> {
    /// Claims a restore, in the data directory of the chosen node. The claim stays until the
    /// restore has ended ([`Self::end`]), so that a failed restore is visible from other machines.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn restore(host: &'a Host, datadir: &Path, run: &str) -> Result<Self, HostError> {
        Self::write(host, Claim::path(WorkKind::Restore, datadir), run, true)
    }

    /// Claims a maintenance. If no other node is told to hold write-sets, this is the only sign of
    /// it. `None`: the node's machine is unknown.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn maintenance(member: &'a Member, run: &str) -> Result<Option<Self>, HostError> {
        let path = || Claim::path(WorkKind::Maintenance, &member.folder());
        let host = member.host.as_ref();
        host.map(|host| Self::write(host, path(), run, false))
            .transpose()
    }

    /// Removes the claim: the work has ended.
    pub fn end(mut self) {
        self.stays = false;
    }

    fn write(host: &'a Host, path: PathBuf, run: &str, stays: bool) -> Result<Self, HostError> {
        let claim = Claim {
            run: run.to_owned(),
            driver: Owner::this(),
        };
        let text = serde_json::to_string(&claim).unwrap_or_default();
        host.put(&path, &text)?;
        Ok(Self { host, path, stays })
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let claim = Claim::read(self.host, &self.path).ok().flatten();
        if claim.is_some_and(|claim| claim.driver == Owner::this()) {
            // If this fails, whoever finds the file sees that its process has ended.
            let _ = self.host.remove(&self.path);
        }
    }
}

/// Unfinished work that claims in the nodes' data directories show, whichever machine began it.
pub fn open_work(members: &[Member], view: &ClusterView) -> Vec<OpenWork> {
    let mut found = Vec::new();
    for (member, node) in members.iter().zip(&view.nodes) {
        let Some(host) = &member.host else { continue };
        let datadir = member.folder_by(node.state.as_ref());
        for kind in [WorkKind::Restore, WorkKind::Maintenance] {
            let Ok(Some(claim)) = Claim::read(host, &Claim::path(kind, &datadir)) else {
                continue;
            };
            let driver = &claim.driver;
            found.push(OpenWork {
                kind,
                run: claim.run.clone(),
                node: member.name.clone(),
                step: None,
                process: format!("process {} on {}", driver.pid, driver.host),
                running: driver.alive(),
                next: format!(
                    "give the command again on {}, where it was begun",
                    driver.host
                ),
            });
        }
    }
    found
}
