//! Errors of a copy.

use refloat_dump::DumpError;
use refloat_load::LoadError;
use refloat_run::Refusal;
use refloat_verify::VerifyError;

use super::outcome::CopyOutcome;

/// Why a copy stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Refused before anything was touched.
    #[error("{0}")]
    Refused(Refusal),
    /// The source could not be read to the end.
    #[error("the source, {server}")]
    Source {
        /// Address of the source, without secrets.
        server: String,
        /// The error of the source.
        source: DumpError,
    },
    /// The target could not be written, or the run was cancelled.
    #[error(transparent)]
    Target(#[from] LoadError),
    /// Everything is copied, but the comparison could not be completed.
    #[error("everything is copied, but the comparison could not be completed")]
    Verify(#[source] VerifyError),
}

/// A copy that stopped, with what it had done by then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct CopyFailure {
    /// Why it stopped.
    #[source]
    pub error: CopyError,
    /// What was done up to then.
    pub outcome: Box<CopyOutcome>,
}

impl CopyFailure {
    pub(super) fn new(error: CopyError, outcome: CopyOutcome) -> Self {
        Self {
            error,
            outcome: Box::new(outcome),
        }
    }
}
