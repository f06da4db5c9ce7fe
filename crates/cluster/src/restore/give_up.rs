//! Gives up a restore that will not be resumed.

use super::Restore;
use super::state::{RestoreError, RestoreState, RestoreStep};
use crate::join::look;
use crate::restore::planned::RestoreWay;

impl Restore<'_> {
    /// Ends an unfinished restore. If the chosen node is standalone, it is stopped and will start
    /// as a cluster node again. Nothing else is started or stopped, and no data is touched.
    ///
    /// # Errors
    /// The chosen node does not stop, or its normal start cannot be restored. The restore then
    /// stays open.
    pub fn give_up(&self, state: &mut RestoreState) -> Result<(), RestoreError> {
        let at = state.plan.at;
        let is_member = look(&self.members[at]).is_ok_and(|now| now.primary);
        if state.plan.way == RestoreWay::Rebuild && !is_member {
            let control = self.control(at)?;
            if self.is_standalone(state).is_some() {
                self.stop_alone(state, state.step)?;
            } else if state.uuid.is_none()
                && state.step > RestoreStep::Stop
                && control.is_running()? == Some(true)
            {
                // It was starting as a standalone server.
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
