//! The end of a restore that is not gone on with.

use super::Restore;
use super::state::{RestoreError, RestoreState, RestoreStep};
use crate::join::look;
use crate::restore::planned::RestoreWay;

impl Restore<'_> {
    /// Ends a restore that has not come to its end: the chosen node, if it stands alone, is stopped and will start as a node again. Nothing
    /// else is started or stopped, and no data are touched.
    ///
    /// # Errors
    /// The chosen node does not stop, or how it starts cannot be put back: then the restore is open still.
    pub fn give_up(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let is_member = look(&self.members[at]).is_ok_and(|now| now.primary);
        if state.plan.way == RestoreWay::Rebuild && !is_member {
            let control = self.control(at)?;
            if self.stands_alone(state).is_some() {
                self.stop_alone(state, state.step)?;
            } else if state.uuid.is_none()
                && state.step > RestoreStep::Stop
                && control.is_running()? == Some(true)
            {
                // It was on its way to stand alone.
                self.stop(state, at, state.step)?;
            }
            control.end_standalone()?;
        }
        state.step = RestoreStep::Ended;
        state.given_up = true;
        self.write(state)?;
        Ok(())
    }
}
