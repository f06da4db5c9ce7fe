//! Why a backup or a restore failed.

use std::path::PathBuf;

use refloat_host::HostError;
use refloat_repository::RepositoryError;
use refloat_run::desync::DesyncError;
use refloat_run::settings::SettingsError;
use refloat_run::{CancelReason, Refusal, RunDirError};

use crate::about::InfoError;
use crate::transfer::ChannelError;

/// Why a backup, a restore or a check of one failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PhysicalError {
    /// Refused before anything was begun, with all reasons at once.
    #[error("{}", Refusal::reasons(.0))]
    Refused(Vec<Refusal>),
    /// The repository, or the storage that it lies on.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The server refused a statement, or the connection to it failed.
    #[error("{doing}")]
    Server {
        /// What it was asked to do.
        doing: &'static str,
        /// The error of the server or of the connection.
        source: refloat_wire::Error,
    },
    /// A machine could not be reached, or a command on it failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A setting of the server.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The record of the run.
    #[error(transparent)]
    Record(#[from] RunDirError),
    /// A tool failed, or did not report success.
    #[error("{tool} {what}: {reason}")]
    Tool {
        /// Its name, with the machine if it is another one.
        tool: String,
        /// How it failed, as the verb of the message.
        what: String,
        /// What it said last, or what is known of the cause.
        reason: String,
    },
    /// The files are in place, but the server that is to work on them does not.
    #[error("the files are in place, and the new server {what}: {reason}")]
    Start {
        /// What it did not do.
        what: &'static str,
        /// What was seen last.
        reason: String,
    },
    /// The stream of the tool is damaged or ended early.
    #[error("the stream of {tool}: {source}")]
    Stream {
        /// Name of the tool, with the machine if it is another one.
        tool: String,
        /// Where the stream is damaged, and how.
        source: refloat_xbstream::Error,
    },
    /// The stream ended properly, but is not a backup.
    #[error("what {tool} sent is not a whole backup: {reason}")]
    Incomplete {
        /// Name of the program, or `the clone plugin`.
        tool: String,
        /// What is missing or does not fit.
        reason: String,
    },
    /// Pages of the server whose checksums are wrong on its disk: `FILE (page N and M more), …`.
    #[error("the server's files are damaged: wrong page checksums in {0}")]
    DamagedPages(String),
    /// A transfer between two machines.
    #[error("transfer with {peer}")]
    Transfer {
        /// The other end: a machine's name, an address or a role.
        peer: String,
        /// Why the connection cannot be used.
        source: ChannelError,
    },
    /// A backup that this version cannot restore.
    #[error("backup {label}: {source}")]
    Info {
        /// Label of the backup.
        label: String,
        /// Why this version cannot use it.
        source: InfoError,
    },
    /// A binary log cannot be read, or is not what it should be.
    #[error("{place}: {reason}")]
    Binlog {
        /// The log, and where in it.
        place: String,
        /// Why the log cannot be used.
        reason: String,
    },
    /// A statement of a binary log failed on the restored server.
    #[error("replaying {file} at byte {at}: {statement}")]
    Replay {
        /// Name of the log file.
        file: String,
        /// The byte at which the event begins.
        at: u64,
        /// The first bytes of the statement.
        statement: String,
        /// The error of the restored server.
        source: refloat_wire::Error,
    },
    /// A file or folder of this machine.
    #[error("{path}: {doing}")]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A signal, or the failure of another worker, ended the run.
    #[error("{0}")]
    Cancelled(CancelReason),
    /// The same, while a new server that works and replicates was catching up.
    #[error("{0} before the new server had caught up with its donor")]
    CatchingUp(CancelReason),
}

impl From<DesyncError> for PhysicalError {
    fn from(error: DesyncError) -> Self {
        match error {
            DesyncError::Refused(refusal) => Self::refused(refusal),
            DesyncError::Server { doing, source } => Self::Server { doing, source },
            DesyncError::Settings(error) => error.into(),
            DesyncError::Cancelled(reason) => Self::Cancelled(reason),
        }
    }
}

impl PhysicalError {
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self::Refused(vec![refusal])
    }

    /// The result; `None`: refused, and the refusals are added to `against`. So all objections are
    /// named at once.
    pub(crate) fn gather<T>(
        result: Result<T, Self>,
        against: &mut Vec<Refusal>,
    ) -> Result<Option<T>, Self> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(Self::Refused(more)) => {
                against.extend(more);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn server(doing: &'static str) -> impl FnOnce(refloat_wire::Error) -> Self {
        move |source| Self::Server { doing, source }
    }

    pub(crate) fn file(
        path: impl Into<PathBuf>,
        doing: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            path,
            doing,
            source,
        }
    }
}
