//! One process at a time drives a restore, on whatever machine it runs.

use refloat_run::Owner;

use super::Restore;
use super::state::{RestoreError, RestoreState};
use crate::claim::{Claim, Claimed};
use crate::files;

/// As long as it is there, this process drives the restore.
#[derive(Debug)]
pub struct Driving<'a>(Option<Claimed<'a>>);

impl Driving<'_> {
    /// The restore has ended, and nobody is to go on with it.
    pub fn end(self) {
        if let Some(claimed) = self.0 {
            claimed.end();
        }
    }
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
        let host = self.members[at].host.as_ref();
        let datadir = &state.plan.nodes[at].datadir;
        let run = self.run.dir.id().as_str();
        let claimed = host.map(|host| Claimed::restore(host, datadir, run));
        let driving = Driving(claimed.transpose()?);
        // Another one that began in the same moment has not seen this claim, and this one sees that one's.
        refused(self.driven_by_others(state, take_over)?)?;
        Ok(driving)
    }

    /// Removes what an earlier restore has left that is forgotten.
    pub fn forget_claim(&self, earlier: &RestoreState, run: &str) {
        let at = earlier.plan.at;
        let left = self.claim(earlier, at).ok().flatten();
        if let (Some(host), true) = (
            &self.members[at].host,
            left.is_some_and(|left| left.run == run),
        ) {
            let path = Claim::path(&earlier.plan.nodes[at].datadir);
            // What stays is told by whoever finds it.
            let _ = files::remove(host, &path);
        }
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

    fn claim(&self, state: &RestoreState, at: usize) -> Result<Option<Claim>, RestoreError> {
        let Some(host) = &self.members[at].host else {
            return Ok(None);
        };
        let path = Claim::path(&state.plan.nodes[at].datadir);
        Ok(Claim::read(host, &path)?)
    }
}
