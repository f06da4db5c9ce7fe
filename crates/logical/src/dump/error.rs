//! Why a dump stopped.

use std::path::PathBuf;

use refloat_run::Cancel;
use refloat_run::settings::SettingsError;
use refloat_wire::Error as WireError;

use super::outcome::DumpOutcome;

/// Why a dump stopped. What it has written is no dump: it has no manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// Found before anything was written.
    #[error("{reason}")]
    Refused {
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: String,
    },
    /// The server refused or went away.
    #[error("{doing}")]
    Server {
        /// What was being done.
        doing: String,
        /// The server's words.
        #[source]
        source: WireError,
    },
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
    /// Somebody changed a definition, or put another table in the place of one, while it was read: its rows and its definition may not fit.
    #[error("{what} was changed, exchanged, dropped or created by somebody while it was read")]
    Changed {
        /// Which table, view or program.
        what: String,
    },
    /// Ranges of a key have not brought every row, or one twice.
    #[error(
        "table {table} was read in ranges of its key, which brought {read} rows, and the server counts {counted} in the same moment"
    )]
    Uncounted {
        /// The table.
        table: String,
        /// Rows that were read.
        read: u64,
        /// Rows that the server counts.
        counted: u64,
    },
    /// The lock of the snapshot was not given in time.
    #[error("no consistent snapshot: the lock was not given within {seconds} s; {in_the_way}")]
    NoLock {
        /// How long it was waited for.
        seconds: u64,
        /// What stands in its way.
        in_the_way: String,
    },
    /// A node of a cluster has not applied in time what others had confirmed.
    #[error(
        "the node lags behind its cluster: it has not applied, within its repl.causal_read_timeout, what the others had confirmed when it was asked"
    )]
    Behind,
    /// The server cannot send a value whole.
    #[error(
        "table {table}: a value is larger as text than the server's max_allowed_packet of {limit} bytes, so the server would leave it empty"
    )]
    TooLarge {
        /// The table.
        table: String,
        /// The limit.
        limit: usize,
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
    /// Stopped on request.
    #[error("{0}")]
    Interrupted(String),
}

impl DumpError {
    /// An error of the server.
    pub(crate) fn server(doing: impl Into<String>, source: WireError) -> Self {
        Self::Server {
            doing: doing.into(),
            source,
        }
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
    pub(crate) fn defect() -> Self {
        Self::Interrupted("a defect of this program".to_owned())
    }

    /// What a cancelled run ends with.
    pub(crate) fn interrupted(cancel: &Cancel) -> Self {
        Self::Interrupted(
            cancel
                .reason()
                .map_or_else(|| "stopped".to_owned(), |reason| reason.to_string()),
        )
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
