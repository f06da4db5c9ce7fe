//! Who drives a restore of a cluster stands in the data directory of the chosen node, whatever machine it is driven from.
//!
//! That folder is the only one that stays where it is from the first step to the last, can be read while its server is down, and is seen from
//! every machine. A full copy does not take the file along.

use std::path::{Path, PathBuf};

use refloat_run::Owner;
use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::host::Host;
use crate::observe::Member;
use crate::view::ClusterView;

/// The file.
const CLAIM: &str = "refloat-restore.json";

/// Who drives a restore.
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
    let mut found = Vec::new();
    for (member, node) in members.iter().zip(&view.nodes) {
        let Some(host) = &member.host else {
            continue;
        };
        let said = node.state.as_ref().map(|state| state.datadir.as_str());
        let said = said.filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let datadir = member.datadir.clone().or(said);
        let path = Claim::path(&datadir.unwrap_or_else(|| member.folder()));
        let Ok(Some(claim)) = Claim::read(host, &path) else {
            continue;
        };
        if let Some(who) = claim.of_another() {
            found.push(format!(
                "{who} a restore of the cluster that {} belongs to (run {}; {} on {} says so, and goes when it ends)",
                member.name,
                claim.run,
                path.display(),
                host.name()
            ));
        }
    }
    found
}
