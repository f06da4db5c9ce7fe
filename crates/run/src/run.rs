//! What every command that works on servers receives besides its options.

use crate::{Cancel, Events, Progress, RunDir};

/// One run of one command.
#[derive(Debug, Clone)]
pub struct Run {
    /// The run's folder, which holds its events and its journal of settings.
    pub dir: RunDir,
    /// Cancels the run.
    pub cancel: Cancel,
    /// Takes the run's events.
    pub events: Events,
    /// Progress of the run.
    pub progress: Progress,
}
