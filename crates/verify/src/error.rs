//! Why a comparison stopped.

use std::path::{Path, PathBuf};

use refloat_read::ReadError;
use refloat_run::{Cancel, Refusal};
use refloat_source::SourceError;

use super::outcome::VerifyOutcome;

/// How messages refer to the two sides.
pub(super) const SIDES: [&str; 2] = ["first side", "second side"];

/// Why a comparison stopped. A difference is not an error: it is reported in the outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Refused before any row was read.
    #[error("{0}")]
    Refused(Refusal),
    /// A server could not be read.
    #[error(transparent)]
    Server(ReadError),
    /// A table's definition changed, or another table took its place, between the snapshot and the
    /// reading of its rows.
    #[error(
        "{what} of the {side} was changed, exchanged, dropped or created by somebody while it was read: whether it is the same is not known"
    )]
    Changed {
        /// The table.
        what: String,
        /// The side it is on.
        side: &'static str,
    },
    /// The ranges of a table missed rows or returned some twice, so its digest proves nothing.
    #[error(
        "table {table} of the {side} was read in ranges of its key, which brought {read} rows, and the server counts {counted}: whether it is the same is not known"
    )]
    Uncounted {
        /// The table, as `database.table`.
        table: String,
        /// The side it is on.
        side: &'static str,
        /// Rows read in all ranges together.
        read: u64,
        /// Rows that the server counts.
        counted: u64,
    },
    /// A file of a dump does not match the manifest, or cannot be parsed.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file that is damaged.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file of a dump could not be read.
    #[error("{}: {doing} failed", path.display())]
    File {
        /// The file that could not be read.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A dump could not be read or unpacked.
    #[error(transparent)]
    Source(SourceError),
    /// The run was cancelled.
    #[error("{0}")]
    Interrupted(String),
}

impl From<SourceError> for VerifyError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Unknown { path, reason } => Self::Refused(Refusal {
                reason: format!("{path} is not a known kind of dump: {reason}"),
                hint: "Name the file or folder of a dump, or the URL of a server (mysql://…)."
                    .to_owned(),
            }),
            error => Self::Source(error),
        }
    }
}

impl From<ReadError> for VerifyError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(Refusal { reason, hint }) => Self::Refused(Refusal { reason, hint }),
            ReadError::Interrupted(reason) => Self::Interrupted(reason),
            error => Self::Server(error),
        }
    }
}

impl VerifyError {
    /// Error for a file that does not match the manifest.
    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// Maps an I/O error to [`VerifyError::File`].
    pub(super) fn file(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            path,
            doing,
            source,
        }
    }

    /// Adds the side (0 or 1) to a [`ReadError::Changed`]; leaves every other error as it is.
    pub(super) fn on_side(self, side: usize) -> Self {
        match self {
            Self::Server(ReadError::Changed { what }) => Self::Changed {
                what,
                side: SIDES[side],
            },
            other => other,
        }
    }

    /// The error that the other threads end with after one has panicked.
    pub(super) fn defect() -> Self {
        Self::Interrupted("a defect of this program".to_owned())
    }

    /// The error that a cancelled run ends with.
    pub(super) fn interrupted(cancel: &Cancel) -> Self {
        ReadError::interrupted(cancel).into()
    }
}

/// A comparison that stopped, with what it had found by then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct VerifyFailure {
    /// Why it stopped.
    #[source]
    pub error: VerifyError,
    /// What was compared up to then.
    pub outcome: Box<VerifyOutcome>,
}
