//! Errors of a repository.

use refloat_run::CancelReason;
use refloat_store::storage::{StorageError, StorageErrorKind};

/// Why a repository cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepositoryError {
    /// The storage below failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The storage can be read, but holds no repository.
    #[error("{url}: holds no repository")]
    Missing {
        /// URL or path of the storage.
        url: String,
    },
    /// There is one already, or something else is there.
    #[error("{url}: is not empty: {found}")]
    Occupied {
        /// URL or path of the storage.
        url: String,
        /// The first thing that was found there.
        found: String,
    },
    /// Made by a later version of this program.
    #[error("{url}: has format {found}, and this version reads up to {known}")]
    Format {
        /// URL or path of the storage.
        url: String,
        /// The format that the repository has.
        found: u32,
        /// The latest format that this version reads.
        known: u32,
    },
    /// An object is not as it was written.
    #[error("{url}: {object} is damaged: {detail}")]
    Damaged {
        /// URL or path of the storage.
        url: String,
        /// The object, with the place in it.
        object: String,
        /// How the damage shows.
        detail: String,
    },
    /// The repository is encrypted and no key was given, or one was given for a plain one.
    #[error("{url}: {detail}")]
    Key {
        /// URL or path of the storage.
        url: String,
        /// Why it cannot be opened.
        detail: String,
    },
    /// The repository has no backup of that label.
    #[error("{url}: has no backup {label:?}")]
    NoBackup {
        /// URL or path of the storage.
        url: String,
        /// The label that was asked for.
        label: String,
    },
    /// The backup is of another kind than the one that can be used here.
    #[error("{url}: backup {label:?} is {found}, not {wanted}")]
    AnotherKind {
        /// URL or path of the storage.
        url: String,
        /// Label of the backup.
        label: String,
        /// What the backup is.
        found: String,
        /// The kind that was asked for.
        wanted: String,
    },
    /// The newest backup was asked for, and each server has one.
    #[error("{url}: has backups of {} servers", labels.len())]
    SeveralServers {
        /// URL or path of the storage.
        url: String,
        /// The label of each server's newest backup.
        labels: Vec<String>,
    },
    /// A backup of that label is there.
    #[error("{url}: already has a backup {label:?}")]
    LabelTaken {
        /// URL or path of the storage.
        url: String,
        /// The label that was to be used.
        label: String,
    },
    /// A label that cannot be the name of an object.
    #[error("{label:?} is not a valid label: use letters, digits, dots, dashes and underscores")]
    Label {
        /// The label as it was given.
        label: String,
    },
    /// Blocks that a backup shares with an earlier one are being removed.
    #[error("{url}: {pack} is being removed, although the backup has blocks in it")]
    Swept {
        /// URL or path of the storage.
        url: String,
        /// Name of the pack's object.
        pack: String,
    },
    /// The manifest of a backup that is not whole could not be removed again.
    #[error("backup {label} is not whole ({why}), and could not be removed")]
    LeftBehind {
        /// Label of the backup.
        label: String,
        /// What is wrong with it.
        why: String,
        /// Why it is still there.
        source: Box<RepositoryError>,
    },
    /// The stream is encrypted otherwise than the repository.
    #[error("{url}: {detail}")]
    Foreign {
        /// URL or path of the storage.
        url: String,
        /// How the two differ.
        detail: &'static str,
    },
    /// A stream was truncated, is damaged, or is something else.
    #[error("the stream is not a whole backup: {detail}")]
    Stream {
        /// How that was noticed.
        detail: String,
    },
    /// zstd could not compress a block.
    #[error("compressing a block failed: {0}")]
    Compress(#[source] std::io::Error),
    /// Whoever receives the blocks of a backup could not take them.
    #[error("{file}: {source}")]
    Sink {
        /// The file within the backup.
        file: String,
        /// The receiver's error.
        #[source]
        source: std::io::Error,
    },
    /// Something else ended the work first.
    #[error("{0}")]
    Cancelled(CancelReason),
}

impl RepositoryError {
    /// Whether something that was written is now damaged or gone.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Storage(error) => error.kind() == StorageErrorKind::NotFound,
            _ => false,
        }
    }

    /// Wraps it in an error of `Read` or `Write`.
    pub(crate) fn into_io(self) -> std::io::Error {
        match self {
            Self::Storage(error) => error.into_io(),
            other => std::io::Error::other(other),
        }
    }

    /// The error for an object that is not as it was written.
    pub(crate) fn damaged(url: &str, object: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Damaged {
            url: url.to_owned(),
            object: object.into(),
            detail: detail.into(),
        }
    }
}
