//! Errors of a dump.

use std::path::PathBuf;

use refloat_read::ReadError;
use refloat_repository::RepositoryError;
use refloat_run::desync::DesyncError;
use refloat_run::settings::SettingsError;
use refloat_run::{Cancel, Refusal};
use refloat_wire::Error as WireError;

use super::outcome::DumpOutcome;

/// Why a dump stopped. What it wrote is not a dump, because it has no manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The server could not be read, or the request was refused before anything was written.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file could not be written.
    #[error("{}: {doing} failed", path.display())]
    File {
        /// The file that was being written.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The dump folder could not be created or written.
    #[error(transparent)]
    Folder {
        /// The underlying error.
        #[from]
        source: refloat_store::FolderError,
    },
    /// The repository could not be written.
    #[error(transparent)]
    Repository(Box<RepositoryError>),
    /// The server returned part of an account's definition as non-UTF-8 bytes, which an SQL file
    /// cannot hold.
    #[error("the server returns {what} as text that is not UTF-8, so it cannot be dumped")]
    NoText {
        /// The part of the definition.
        what: String,
    },
    /// The snapshot exceeded a cost limit.
    #[error("the snapshot was abandoned: {reason}")]
    Given {
        /// The limit and the value that passed it.
        reason: String,
    },
    /// A server setting could not be journalled, changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The consumer of the rows stopped: the target of a copy, or the writer of a dump as SQL.
    #[error("the target takes no more rows")]
    NotWanted,
}

impl From<RepositoryError> for DumpError {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(Box::new(error))
    }
}

impl From<DesyncError> for DumpError {
    fn from(error: DesyncError) -> Self {
        match error {
            DesyncError::Refused(refusal) => ReadError::Refused(refusal).into(),
            DesyncError::Server { doing, source } => Self::server(doing, source),
            DesyncError::Settings(error) => error.into(),
            DesyncError::Cancelled(reason) => ReadError::Interrupted(reason.to_string()).into(),
        }
    }
}

impl DumpError {
    /// A refusal: what is wrong, and what to do about it.
    pub(crate) fn refused(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        let (reason, hint) = (reason.into(), hint.into());
        ReadError::Refused(Refusal { reason, hint }).into()
    }

    pub(crate) fn server(doing: impl Into<String>, source: WireError) -> Self {
        ReadError::server(doing, source).into()
    }

    pub(crate) fn file(
        path: impl Into<PathBuf>,
        doing: &'static str,
        source: std::io::Error,
    ) -> Self {
        Self::File {
            path: path.into(),
            doing,
            source,
        }
    }

    /// The error of the other threads when one has panicked.
    pub fn defect() -> Self {
        ReadError::Interrupted("a defect of this program".to_owned()).into()
    }

    /// The error of a cancelled run.
    pub(crate) fn interrupted(cancel: &Cancel) -> Self {
        ReadError::interrupted(cancel).into()
    }
}

/// A dump that stopped, with what it had done by then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct DumpFailure {
    /// Why it stopped.
    #[source]
    pub error: DumpError,
    /// What was done up to then.
    pub outcome: Box<DumpOutcome>,
}
