//! Errors of laying out a source.

use std::path::Path;

use refloat_store::{ArchiveError, InputError};

/// Why a source cannot be laid out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The operating system refused to read a file or folder.
    #[error("{path}: cannot be read")]
    Read {
        /// The file or folder.
        path: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file's content is not what it should be.
    #[error("{path}: {reason}")]
    Unreadable {
        /// The file with that content.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder or file is not a dump of a known tool.
    #[error("{path}: not a known kind of dump: {reason}")]
    Unknown {
        /// The folder or file.
        path: String,
        /// What was looked for, or what was found instead.
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
    /// The same error for an archive: names the archive in place of the scratch folder, which the
    /// user did not choose.
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
