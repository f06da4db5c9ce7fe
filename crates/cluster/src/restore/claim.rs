//! Makes sure that only one process drives a restore, whichever machine it runs on.

use refloat_run::{Owner, Refusal};

use super::Restore;
use super::state::{RestoreError, RestoreState};
use crate::claim::{Claim, Claimed};
use crate::work::WorkKind;

/// This process drives the restore while the value exists.
#[derive(Debug)]
pub struct Driving<'a>(Option<Claimed<'a>>);

impl Driving<'_> {
    /// Removes the claim: the restore has ended, and nothing should resume it.
    pub fn end(self) {
        if let Some(claimed) = self.0 {
            claimed.end();
        }
    }
}

impl Restore<'_> {
    /// Claims the restore for this process.
    ///
    /// # Errors
    /// [`RestoreError::Refused`]: another process drives a restore of these nodes, or may do so on
    /// a machine that cannot be seen from here, and `take_over` does not say that it has ended.
    pub fn drive(
        &self,
        state: &RestoreState,
        take_over: bool,
    ) -> Result<Driving<'_>, RestoreError> {
        let refused = |against: Vec<Refusal>| {
            if against.is_empty() {
                return Ok(());
            }
            Err(RestoreError::Refused(against))
        };
        refused(self.driven_by_others(state, take_over)?)?;
        let at = state.plan.at;
        let host = self.members[at].host.as_ref();
        let datadir = &state.plan.nodes[at].datadir;
        let run = self.run.dir.id().as_str();
        let claimed = host.map(|host| Claimed::restore(host, datadir, run));
        let driving = Driving(claimed.transpose()?);
        // A process that began at the same moment may have missed this claim, so look for its claim
        // now.
        refused(self.driven_by_others(state, take_over)?)?;
        Ok(driving)
    }

    /// Removes the claim of an earlier restore that is no longer recorded.
    pub fn forget_claim(&self, earlier: &RestoreState, run: &str) {
        let at = earlier.plan.at;
        let left = self.claim(earlier, at).ok().flatten();
        if let (Some(host), true) = (
            &self.members[at].host,
            left.is_some_and(|left| left.run == run),
        ) {
            let path = Claim::path(WorkKind::Restore, &earlier.plan.nodes[at].datadir);
            // A claim that remains is reported by whoever finds it.
            let _ = host.remove(&path);
        }
    }

    /// Which other processes drive a restore of these nodes, or may do so.
    fn driven_by_others(
        &self,
        state: &RestoreState,
        take_over: bool,
    ) -> Result<Vec<Refusal>, RestoreError> {
        let mut against = Vec::new();
        for at in 0..self.members.len() {
            let Some(claim) = self.claim(state, at)? else {
                continue;
            };
            let Some(who) = claim.of_another().filter(|_| !take_over) else {
                continue;
            };
            let name = &self.members[at].name;
            let refusal = Refusal::new(format!("{who} a restore of {name} (run {})", claim.run));
            against.push(match claim.driver.alive() {
                Some(_) => refusal,
                None => refusal.hint(
                    "Whether it has ended cannot be seen from here: --take-over says that it has.",
                ),
            });
        }
        Ok(against)
    }

    /// Whether another process has taken over this restore, and which one.
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

    fn claim(&self, state: &RestoreState, at: usize) -> Result<Option<Claim>, RestoreError> {
        let Some(host) = &self.members[at].host else {
            return Ok(None);
        };
        let path = Claim::path(WorkKind::Restore, &state.plan.nodes[at].datadir);
        Ok(Claim::read(host, &path)?)
    }
}
