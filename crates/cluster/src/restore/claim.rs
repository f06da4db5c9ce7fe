//! One process at a time drives a restore, on whatever machine it runs: who does so stands in the data directory of the chosen node.
//!
//! That folder is the only one that stays where it is from the first step to the last, can be read while its server is down, and is seen from
//! every machine. A full copy does not take the file along.

use std::path::PathBuf;

use refloat_run::Owner;
use serde::{Deserialize, Serialize};

use super::state::{RestoreError, RestoreState};
use super::{Restore, files};

/// The file.
const CLAIM: &str = "refloat-restore.json";

/// Who drives a restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    run: String,
    driver: Owner,
}

/// As long as it is there, this process drives the restore.
#[derive(Debug)]
pub struct Driving<'a> {
    restore: &'a Restore<'a>,
    path: Option<PathBuf>,
    at: usize,
}

impl Restore<'_> {
    /// Takes the restore for this process.
    ///
    /// # Errors
    /// [`RestoreError::Refused`]: another process drives it, or another restore of these nodes, or may do so on a machine that cannot be
    /// seen from here, and `take_over` does not say that it has ended.
    pub fn drive(
        &self,
        state: &RestoreState,
        take_over: bool,
    ) -> Result<Driving<'_>, RestoreError> {
        let mut against = Vec::new();
        for at in 0..self.members.len() {
            let Some(claim) = self.claim(state, at)? else {
                continue;
            };
            let alive = claim.driver.alive();
            if claim.driver == Owner::this() || alive == Some(false) || take_over {
                continue;
            }
            let (may, unseen) = if alive.is_none() {
                (
                    "may drive",
                    "; whether it has ended cannot be seen from here: --take-over says that it has",
                )
            } else {
                ("drives", "")
            };
            against.push(format!(
                "process {} on {} {may} a restore of {} (run {}){unseen}",
                claim.driver.pid, claim.driver.host, self.members[at].name, claim.run
            ));
        }
        if !against.is_empty() {
            return Err(RestoreError::Refused(against));
        }
        let at = state.plan.at;
        let path = self.claim_path(state, at);
        if let (Some(path), Some(host)) = (&path, &self.members[at].host) {
            let claim = Claim {
                run: self.run.dir.id().to_string(),
                driver: Owner::this(),
            };
            let text = serde_json::to_string(&claim).unwrap_or_default();
            files::put(host, path, &text)?;
        }
        Ok(Driving {
            restore: self,
            path,
            at,
        })
    }

    /// Whether this process has been told by another one that it drives no more.
    pub(super) fn taken_over(&self, state: &RestoreState) -> Result<Option<String>, RestoreError> {
        let claim = self.claim(state, state.plan.at)?;
        Ok(claim
            .filter(|claim| claim.driver != Owner::this())
            .map(|claim| {
                format!(
                    "process {} on {} has taken this restore over",
                    claim.driver.pid, claim.driver.host
                )
            }))
    }

    fn claim_path(&self, state: &RestoreState, at: usize) -> Option<PathBuf> {
        self.members[at].host.as_ref()?;
        Some(state.plan.nodes[at].datadir.join(CLAIM))
    }

    fn claim(&self, state: &RestoreState, at: usize) -> Result<Option<Claim>, RestoreError> {
        let (Some(path), Some(host)) = (self.claim_path(state, at), &self.members[at].host) else {
            return Ok(None);
        };
        let text = host.read(&path)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let (Some(path), Some(host)) = (&self.path, &self.restore.members[self.at].host) else {
            return;
        };
        let text = host.read(path).ok().flatten().unwrap_or_default();
        let ours = serde_json::from_str::<Claim>(&text);
        if ours.is_ok_and(|claim| claim.driver == Owner::this()) {
            // Whoever finds it later sees that its process has ended.
            let _ = files::remove(host, path);
        }
    }
}
