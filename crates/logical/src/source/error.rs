//! Why a source cannot be laid out.

use refloat_store::InputError;

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
    /// A file could not be read to its end.
    #[error(transparent)]
    Input(#[from] InputError),
}
