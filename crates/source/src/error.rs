//! Why a source cannot be laid out.

use std::path::Path;

use refloat_store::{ArchiveError, InputError};

/// Why a source cannot be laid out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The system does not let a file or folder be read.
    #[error("{path}: cannot be read")]
    Read {
        /// The file or folder.
        path: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what can be read here.
    #[error("{path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A folder is none that a dump tool writes.
    #[error("{path}: no dump that is known: {reason}")]
    Unknown {
        /// The folder.
        path: String,
        /// What was looked for.
        reason: String,
    },
    /// An archive could not be unpacked.
    #[error(transparent)]
    Archive(ArchiveError),
    /// A file could not be read to its end.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl From<ArchiveError> for SourceError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Input(error) => Self::Input(error),
            error => Self::Archive(error),
        }
    }
}

impl SourceError {
    /// The same of an archive: nobody has chosen the folder that it was unpacked into.
    pub(super) fn of_archive(self, archive: &str, root: &Path) -> Self {
        let root = root.display().to_string();
        let named = |path: String| match path.strip_prefix(&root) {
            Some(rest) => format!("{archive}{}{rest}", if rest.is_empty() { "" } else { ": " }),
            None => path,
        };
        match self {
            Self::Read { path, source } => Self::Read {
                path: named(path),
                source,
            },
            Self::Unreadable { path, reason } => Self::Unreadable {
                path: named(path),
                reason,
            },
            Self::Unknown { path, reason } => Self::Unknown {
                path: named(path),
                reason,
            },
            other => other,
        }
    }
}
