//! One process at a time drives a restore, on whatever machine it runs.

use std::path::PathBuf;

use refloat_run::Owner;

use super::state::{RestoreError, RestoreState};
use super::{Restore, files};
use crate::claim::Claim;

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
        let refused = |against: Vec<String>| {
            if against.is_empty() {
                return Ok(());
            }
            Err(RestoreError::Refused(against))
        };
        refused(self.driven_by_others(state, take_over)?)?;
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
        let driving = Driving {
            restore: self,
            path,
            at,
        };
        // Another one that began in the same moment has not seen this claim, and this one sees that one's.
        refused(self.driven_by_others(state, take_over)?)?;
        Ok(driving)
    }

    /// Who else drives a restore of these nodes, or may do so.
    fn driven_by_others(
        &self,
        state: &RestoreState,
        take_over: bool,
    ) -> Result<Vec<String>, RestoreError> {
        let mut against = Vec::new();
        for at in 0..self.members.len() {
            let Some(claim) = self.claim(state, at)? else {
                continue;
            };
            let Some(who) = claim.of_another().filter(|_| !take_over) else {
                continue;
            };
            let unseen = match claim.driver.alive() {
                Some(_) => "",
                None => {
                    "; whether it has ended cannot be seen from here: --take-over says that it has"
                }
            };
            against.push(format!(
                "{who} a restore of {} (run {}){unseen}",
                self.members[at].name, claim.run
            ));
        }
        Ok(against)
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
        Some(Claim::path(&state.plan.nodes[at].datadir))
    }

    fn claim(&self, state: &RestoreState, at: usize) -> Result<Option<Claim>, RestoreError> {
        let (Some(path), Some(host)) = (self.claim_path(state, at), &self.members[at].host) else {
            return Ok(None);
        };
        Ok(Claim::read(host, &path)?)
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let (Some(path), Some(host)) = (&self.path, &self.restore.members[self.at].host) else {
            return;
        };
        let ours = Claim::read(host, path).ok().flatten();
        if ours.is_some_and(|claim| claim.driver == Owner::this()) {
            // Whoever finds it later sees that its process has ended.
            let _ = files::remove(host, path);
        }
    }
}
