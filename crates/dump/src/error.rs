//! Why a dump stopped.

use std::path::PathBuf;

use refloat_read::ReadError;
use refloat_run::Cancel;
use refloat_run::settings::SettingsError;
use refloat_wire::Error as WireError;

use super::outcome::DumpOutcome;

/// Why a dump stopped. What it has written is no dump: it has no manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The server could not be read, or what was asked for was refused before anything was written.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file could not be written.
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
    /// The folder of the dump could not be made or written.
    #[error(transparent)]
    Folder {
        /// What happened.
        #[from]
        source: refloat_store::FolderError,
    },
    /// The server shows something of an account that a file of statements cannot hold.
    #[error("the server shows {what} as what is no UTF-8 text, so it cannot be dumped")]
    NoText {
        /// What it is.
        what: String,
    },
    /// The snapshot costs the server more than it may.
    #[error("the snapshot was given up: {reason}")]
    Given {
        /// Which limit is passed.
        reason: String,
    },
    /// A setting of the server could not be journalled, changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Nobody takes the rows any more: the other side of a copy has stopped.
    #[error("the target takes no more rows")]
    NotWanted,
}

impl DumpError {
    /// A refusal: what is wrong, and what to do about it.
    pub(crate) fn refused(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        let (reason, hint) = (reason.into(), hint.into());
        ReadError::Refused { reason, hint }.into()
    }

    /// An error of the server.
    pub(crate) fn server(doing: impl Into<String>, source: WireError) -> Self {
        ReadError::server(doing, source).into()
    }

    /// An error of the file system.
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

    /// What the other threads end with when one has panicked.
    pub fn defect() -> Self {
        ReadError::Interrupted("a defect of this program".to_owned()).into()
    }

    /// What a cancelled run ends with.
    pub(crate) fn interrupted(cancel: &Cancel) -> Self {
        ReadError::interrupted(cancel).into()
    }
}

/// A dump that stopped, and what it had done by then.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct DumpFailure {
    /// Why.
    #[source]
    pub error: DumpError,
    /// What was done.
    pub outcome: Box<DumpOutcome>,
}
