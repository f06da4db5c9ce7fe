//! Why a comparison stopped.

use std::path::{Path, PathBuf};

use refloat_read::ReadError;
use refloat_run::Cancel;
use refloat_source::SourceError;

use super::outcome::VerifyOutcome;

/// What the two are called in messages.
pub(super) const SIDES: [&str; 2] = ["first side", "second side"];

/// Why a comparison stopped. A difference is no error: it stands in the outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Found before any row was read.
    #[error("{reason}")]
    Refused {
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: String,
    },
    /// A server could not be read.
    #[error(transparent)]
    Server(ReadError),
    /// Somebody changed the definition of a table, or put another one in its place, between the snapshot and the reading of its rows.
    #[error(
        "{what} of the {side} was changed, exchanged, dropped or created by somebody while it was read: whether it is the same is not known"
    )]
    Changed {
        /// Which table.
        what: String,
        /// Which of the two it is on.
        side: &'static str,
    },
    /// Ranges have not brought every row, or one twice: what they say of a table is worth nothing.
    #[error(
        "table {table} of the {side} was read in ranges of its key, which brought {read} rows, and the server counts {counted}: whether it is the same is not known"
    )]
    Uncounted {
        /// The table.
        table: String,
        /// Which of the two it is.
        side: &'static str,
        /// Rows that were read.
        read: u64,
        /// Rows that the server counts.
        counted: u64,
    },
    /// A file of a dump is not what the manifest says.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file of a dump could not be read.
    #[error("{}: {doing} failed", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// A dump could not be read, or unpacked.
    #[error(transparent)]
    Source(SourceError),
    /// Stopped on request.
    #[error("{0}")]
    Interrupted(String),
}

impl From<SourceError> for VerifyError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Unknown { path, reason } => Self::Refused {
                reason: format!("{path} is no dump that is known: {reason}"),
                hint: "Name the file or folder of a dump, or the URL of a server (mysql://…)."
                    .to_owned(),
            },
            error => Self::Source(error),
        }
    }
}

impl From<ReadError> for VerifyError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused { reason, hint } => Self::Refused { reason, hint },
            ReadError::Interrupted(reason) => Self::Interrupted(reason),
            error => Self::Server(error),
        }
    }
}

impl VerifyError {
    /// A file that is not what the manifest says.
    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// An error of the file system.
    pub(super) fn file(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            path,
            doing,
            source,
        }
    }

    /// Says on which side (0 or 1) a table was changed, where that is what happened.
    pub(super) fn on_side(self, side: usize) -> Self {
        match self {
            Self::Server(ReadError::Changed { what }) => Self::Changed {
                what,
                side: SIDES[side],
            },
            other => other,
        }
    }

    /// What the other threads end with when one has panicked.
    pub(super) fn defect() -> Self {
        Self::Interrupted("a defect of this program".to_owned())
    }

    /// What a cancelled run ends with.
    pub(super) fn interrupted(cancel: &Cancel) -> Self {
        ReadError::interrupted(cancel).into()
    }
}

/// A comparison that stopped, and what it had found by then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct VerifyFailure {
    /// Why.
    #[source]
    pub error: VerifyError,
    /// What was compared.
    pub outcome: Box<VerifyOutcome>,
}
