//! Errors of reading a server.

use refloat_run::{Cancel, Refusal};
use refloat_wire::Error as WireError;

/// Why a server could not be read, or not as of one moment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Refused before anything was written.
    #[error("{0}")]
    Refused(Refusal),
    /// The server returned an error, or the connection was lost.
    #[error("{doing}")]
    Server {
        /// What was being done at the time.
        doing: String,
        /// The error of the server or of the connection.
        #[source]
        source: WireError,
    },
    /// A definition changed, or another table took its place, while it was being read: its rows and
    /// its definition may not match.
    #[error("{what} was changed, exchanged, dropped or created by somebody while it was read")]
    Changed {
        /// The table, view or program.
        what: String,
    },
    /// Reading a table by key ranges missed rows or returned some twice.
    #[error(
        "table {table} was read in ranges of its key, which brought {read} rows, and the server counts {counted} in the same moment"
    )]
    Uncounted {
        /// The table, as `database.table`.
        table: String,
        /// Rows that the ranges returned.
        read: u64,
        /// Rows that the server counts in the same snapshot.
        counted: u64,
    },
    /// The snapshot lock was not granted in time.
    #[error("no consistent snapshot: the lock was not given within {seconds} s; {in_the_way}")]
    NoLock {
        /// Seconds waited.
        seconds: u64,
        /// What blocks it, as far as the account can see.
        in_the_way: String,
    },
    /// A Galera node did not apply in time what the cluster had confirmed.
    #[error(
        "the node lags behind its cluster: it has not applied, within its repl.causal_read_timeout, what the others had confirmed when it was asked"
    )]
    Behind,
    /// The server cannot send a value in full.
    #[error(
        "table {table}: a value is larger as text than the server's max_allowed_packet of {limit} bytes, so the server would leave it empty"
    )]
    TooLarge {
        /// The table, as `database.table`.
        table: String,
        /// `max_allowed_packet`, in bytes.
        limit: usize,
    },
    /// The run was interrupted; the reason.
    #[error("{0}")]
    Interrupted(String),
}

impl ReadError {
    /// An error from the server, and what was being done when it came.
    pub fn server(doing: impl Into<String>, source: WireError) -> Self {
        Self::Server {
            doing: doing.into(),
            source,
        }
    }

    /// The error that a cancelled run ends with.
    pub fn interrupted(cancel: &Cancel) -> Self {
        Self::Interrupted(
            cancel
                .reason()
                .map_or_else(|| "stopped".to_owned(), |reason| reason.to_string()),
        )
    }
}
