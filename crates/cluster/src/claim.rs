//! Who drives a restore of a cluster, or maintains a node of it, stands in the data directory of the chosen node, whatever machine it is driven from.
//!
//! That folder is the only one that stays where it is from the first step to the last, can be read while its server is down, and is seen from
//! every machine. A full copy does not take the file along.

use std::path::{Path, PathBuf};

use refloat_run::Owner;
use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::files;
use crate::host::Host;
use crate::member::Member;
use crate::view::ClusterView;
use crate::work::{OpenWork, WorkKind};

/// The file.
const CLAIM: &str = "refloat-restore.json";
/// The same of a node that is maintained, in its own data directory.
const MAINTAINED: &str = "refloat-maintain.json";

/// Who drives a restore, or maintains a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The run.
    pub run: String,
    /// The process.
    pub driver: Owner,
}

impl Claim {
    /// The file that says it of the node with this data directory.
    pub fn path(datadir: &Path) -> PathBuf {
        datadir.join(CLAIM)
    }

    /// The same of any kind of work.
    pub fn path_of(kind: WorkKind, datadir: &Path) -> PathBuf {
        datadir.join(match kind {
            WorkKind::Restore => CLAIM,
            WorkKind::Maintenance => MAINTAINED,
        })
    }

    /// What stands in the file.
    ///
    /// # Errors
    /// It is there, and cannot be read.
    pub fn read(host: &Host, path: &Path) -> Result<Option<Self>, HostError> {
        let text = host.read(path)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Who else drives a restore, or may do so. `None`: this process does, or one that has ended.
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

/// Restores of these nodes that other processes drive, or may drive: a sentence for each. What cannot be read says nothing.
pub fn restores_elsewhere(members: &[Member], view: &ClusterView) -> Vec<String> {
    elsewhere(members, view, WorkKind::Restore)
}

/// The same of maintenances of any of these nodes.
pub fn maintenances_elsewhere(members: &[Member], view: &ClusterView) -> Vec<String> {
    elsewhere(members, view, WorkKind::Maintenance)
}

fn elsewhere(members: &[Member], view: &ClusterView, doing: WorkKind) -> Vec<String> {
    let mut found = Vec::new();
    for (member, node) in members.iter().zip(&view.nodes) {
        let Some(host) = &member.host else {
            continue;
        };
        let datadir = member.folder_by(node.state.as_ref());
        let (path, what) = match doing {
            WorkKind::Restore => (
                Claim::path(&datadir),
                "a restore of the cluster that it belongs to",
            ),
            WorkKind::Maintenance => (Claim::path_of(doing, &datadir), "a maintenance of it"),
        };
        let Ok(Some(claim)) = Claim::read(host, &path) else {
            continue;
        };
        // Of a maintenance its node and those that keep write-sets tell the rest; what a restore has left stands there alone.
        let left = doing == WorkKind::Restore && claim.driver.alive() == Some(false);
        if left {
            found.push(format!(
                "{}: {what} has not ended, and process {} on {} does not drive it any more (run {}; {} on {} says so)",
                member.name,
                claim.driver.pid,
                claim.driver.host,
                claim.run,
                path.display(),
                host.name()
            ));
        }
        if let Some(who) = claim.of_another() {
            found.push(format!(
                "{}: {who} {what} (run {}; {} on {} says so, and goes when it ends)",
                member.name,
                claim.run,
                path.display(),
                host.name()
            ));
        }
    }
    found
}

/// As long as it is there, a claim of this process stands in a node's data directory.
#[derive(Debug)]
pub(crate) struct Claimed<'a> {
    host: &'a Host,
    path: PathBuf,
    /// Whether it stays there when this process is not at it any more.
    stays: bool,
}

impl<'a> Claimed<'a> {
    /// Says that this process drives a restore, in the data directory of the chosen node. It stays there until the restore has ended
    /// ([`Self::end`]): whoever looks from another machine is to see one that has failed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn restore(host: &'a Host, datadir: &Path, run: &str) -> Result<Self, HostError> {
        Self::say(host, Claim::path(datadir), run, true)
    }

    /// Says that this process maintains a node: where nobody has to be told to keep write-sets there is no other sign of it. `None`: the node's
    /// machine is not known.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn maintenance(member: &'a Member, run: &str) -> Result<Option<Self>, HostError> {
        let said = member.host.as_ref();
        said.map(|host| Self::say(host, member.folder().join(MAINTAINED), run, false))
            .transpose()
    }

    /// Removes it now: what it was for has ended.
    pub fn end(mut self) {
        self.stays = false;
    }

    fn say(host: &'a Host, path: PathBuf, run: &str, stays: bool) -> Result<Self, HostError> {
        let claim = Claim {
            run: run.to_owned(),
            driver: Owner::this(),
        };
        let text = serde_json::to_string(&claim).unwrap_or_default();
        files::put(host, &path, &text)?;
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
            // Whoever finds it later sees that its process has ended.
            let _ = files::remove(self.host, &self.path);
        }
    }
}

/// What the data directories of the nodes say, whichever machine has begun it.
pub fn open_work(members: &[Member], view: &ClusterView) -> Vec<OpenWork> {
    let mut found = Vec::new();
    for (member, node) in members.iter().zip(&view.nodes) {
        let Some(host) = &member.host else { continue };
        let datadir = member.folder_by(node.state.as_ref());
        for kind in [WorkKind::Restore, WorkKind::Maintenance] {
            let Ok(Some(claim)) = Claim::read(host, &Claim::path_of(kind, &datadir)) else {
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
