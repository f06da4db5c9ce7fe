//! Server settings: planned, journalled, changed, read back, put back.

use serde::{Deserialize, Serialize};

/// How much of a server's durability a run may take for speed while it runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// No global setting is touched.
    #[default]
    Keep,
    /// Dynamic settings may be relaxed: a crash of the machine may lose the last second, for everything on the server.
    Relaxed,
    /// The server holds nothing else: redo and binary log may be off, and after a crash it is set up anew.
    Disposable,
}

/// What went wrong with settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The journal of the run could not be written or read.
    #[error(transparent)]
    Journal(#[from] crate::RunDirError),
}
