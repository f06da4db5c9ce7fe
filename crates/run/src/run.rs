//! What every command that works on servers is given, besides its options.

use crate::{Cancel, Events, Progress, RunDir};

/// One run of one command.
#[derive(Debug, Clone)]
pub struct Run {
    /// The run's folder: events and the settings journal go there.
    pub dir: RunDir,
    /// Ends the run early.
    pub cancel: Cancel,
    /// What the run says.
    pub events: Events,
    /// Where the run stands.
    pub progress: Progress,
}
