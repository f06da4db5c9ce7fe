//! Letting go of what was told to the others.

use refloat_run::settings;
use refloat_run::{RunDir, RunId};
use refloat_wire::Connection;

use super::{MaintainError, MaintainState, Maintenance};
use crate::error::chain;
use crate::observe::impatient;

impl Maintenance<'_> {
    pub(super) fn connect(&self, at: usize) -> Result<Connection, MaintainError> {
        let member = self.member(at);
        Connection::connect(&impatient(&member.connect)).map_err(|error| MaintainError::NotHeld {
            node: member.name.clone(),
            reason: chain(&error),
        })
    }

    /// Tells the others that they need not keep anything any more; those that could not be told.
    pub(super) fn release(&self, state: &mut MaintainState) -> Vec<(String, String)> {
        let mut failed = Vec::new();
        let mut left = Vec::new();
        if !state.holds.is_empty() {
            self.run
                .events
                .note("the others need not keep write-sets any more");
        }
        for (at, run) in std::mem::take(&mut state.holds) {
            if let Err(reason) = self.release_one(at, &run) {
                let name = self.member(at).name.clone();
                self.run.events.warn(format!(
                    "{name} is still told to keep write-sets: {reason}. `refloat settings revert` puts it back"
                ));
                failed.push((name, reason));
                left.push((at, run));
            }
        }
        state.holds = left;
        if let Err(error) = self.write(state) {
            self.run.events.warn(error.to_string());
        }
        failed
    }

    fn release_one(&self, at: usize, run: &RunId) -> Result<(), String> {
        let dir = RunDir::open(self.state_dir, run).map_err(|error| chain(&error))?;
        // A run that ended before it changed anything has no journal.
        if !dir.has(RunDir::SETTINGS) {
            return Ok(());
        }
        let mut conn = self.connect(at).map_err(|error| chain(&error))?;
        let report = settings::revert_run(&dir, &mut conn, &self.run.events, false)
            .map_err(|error| chain(&error))?;
        match report {
            Some(report) if !report.complete => Err("the server refuses".to_owned()),
            _ => Ok(()),
        }
    }
}
