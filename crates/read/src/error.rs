//! Why a server could not be read.

use refloat_run::Cancel;
use refloat_wire::Error as WireError;

/// Why a server could not be read, or not at one moment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
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
    /// Stopped on request.
    #[error("{0}")]
    Interrupted(String),
}

impl ReadError {
    /// An error of the server.
    pub fn server(doing: impl Into<String>, source: WireError) -> Self {
        Self::Server {
            doing: doing.into(),
            source,
        }
    }

    /// What a cancelled run ends with.
    pub fn interrupted(cancel: &Cancel) -> Self {
        Self::Interrupted(
            cancel
                .reason()
                .map_or_else(|| "stopped".to_owned(), |reason| reason.to_string()),
        )
    }
}
