//! Why a copy stopped.

use refloat_dump::DumpError;
use refloat_load::LoadError;
use refloat_verify::VerifyError;

use super::outcome::CopyOutcome;

/// Why a copy stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Found before anything was touched.
    #[error("{reason}")]
    Refused {
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: String,
    },
    /// The source could not be read to its end.
    #[error("the source, {server}")]
    Source {
        /// The source, without secrets.
        server: String,
        /// What happened.
        source: DumpError,
    },
    /// The target could not be written, or the copy was stopped on request.
    #[error(transparent)]
    Target(#[from] LoadError),
    /// Everything is copied, and could not be compared to the end.
    #[error("everything is copied, and the comparison could not come to its end")]
    Verify(#[source] VerifyError),
}

/// A copy that stopped, and what it had done by then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct CopyFailure {
    /// Why.
    #[source]
    pub error: CopyError,
    /// What was done.
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
