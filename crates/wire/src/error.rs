//! Errors of a connection.

use std::time::Duration;
use std::{fmt, io};

/// Why the source of a LOAD DATA stream failed; returned by the caller's closure.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// The operation during which an error occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Resolving the name and opening the socket.
    Connect,
    /// Reading the greeting and answering it.
    Handshake,
    /// The TLS handshake.
    Tls,
    /// The exchange of an authentication plugin.
    Auth,
    /// Sending a command or rows.
    Send,
    /// Waiting for an answer, or reading it.
    Receive,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Handshake => "greeting",
            Self::Tls => "starting TLS",
            Self::Auth => "authenticating",
            Self::Send => "sending",
            Self::Receive => "receiving",
        })
    }
}

/// Whether a retry can help, and what must happen before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryStatus {
    /// The same request will fail again.
    Never,
    /// Roll back, then retry the transaction on the same connection (deadlock, lock wait timeout).
    SameConnection,
    /// The connection is gone. Retry only requests that are safe to run twice on a new one: the
    /// server may have committed.
    Reconnect,
}

/// Errors of this crate. None contains a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket failed.
    #[error("{phase} failed, {peer}")]
    Io {
        /// The operation that failed.
        phase: Phase,
        /// The server, as in [`crate::ConnectOptions::describe`].
        peer: String,
        /// The system's error.
        source: io::Error,
    },
    /// The server did not answer, or did not accept data, in time.
    #[error("timed out while {phase}, {peer}{}", after_text(*after))]
    Timeout {
        /// The operation that timed out.
        phase: Phase,
        /// The server, as in [`crate::ConnectOptions::describe`].
        peer: String,
        /// The limit that was reached, if known.
        after: Option<Duration>,
    },
    /// An error that the server returned.
    #[error("server error {code} ({sqlstate}): {message}")]
    Server {
        /// The server's error number.
        code: u16,
        /// The five characters of SQLSTATE.
        sqlstate: String,
        /// The server's message.
        message: String,
    },
    /// Authentication cannot proceed. A rejected password is [`Error::Server`] with code 1045.
    #[error("cannot authenticate with plugin {plugin}: {reason}")]
    Auth {
        /// The plugin that the server asked for.
        plugin: String,
        /// The reason, in words.
        reason: String,
    },
    /// TLS is required but missing, or its handshake failed, or the certificate was rejected.
    #[error("TLS with {peer}: {reason}")]
    Tls {
        /// The server, as in [`crate::ConnectOptions::describe`].
        peer: String,
        /// The reason, in words.
        reason: String,
    },
    /// The server violated the protocol; the connection is closed.
    #[error("protocol error from {peer}: {what}")]
    Protocol {
        /// The server, as in [`crate::ConnectOptions::describe`].
        peer: String,
        /// The violation, in words.
        what: String,
    },
    /// A command is longer than the server accepts. Nothing was sent.
    #[error(
        "a packet of {size} bytes is too large: max_allowed_packet of this session takes up to {limit}"
    )]
    PacketTooLarge {
        /// Length of the command, in bytes.
        size: usize,
        /// The longest command that the session accepts, in bytes.
        limit: usize,
    },
    /// The server requested a file that our statement did not name. Nothing was sent; the
    /// connection is closed.
    #[error("the server asked for the local file {asked:?}: refused")]
    LocalInfileRefused {
        /// The requested file name.
        asked: String,
    },
    /// A LOAD DATA statement that cannot run as given.
    #[error("load data: {reason}")]
    LoadData {
        /// The reason, in words.
        reason: String,
    },
    /// The caller's data source failed during LOAD DATA. The connection was dropped without the end
    /// packet, so the server rolls the statement back.
    #[error("the source of rows failed, the connection was dropped")]
    Source(#[source] SourceError),
    /// The server lacks a feature that the call needs.
    #[error("the server does not support {what}")]
    Unsupported {
        /// The missing feature.
        what: &'static str,
    },
    /// The call does not fit the state of the connection: a bug in the caller.
    #[error("the connection is busy: {what}")]
    Busy {
        /// The conflict, in words.
        what: &'static str,
    },
    /// A second connection reached a different server, or the server restarted in between.
    #[error("this is another server than before: expected {expected}, found {found}")]
    WrongServer {
        /// Identity of the expected server.
        expected: String,
        /// Identity of the server that answered.
        found: String,
    },
    /// The connection failed or was closed before this call.
    #[error("the connection to {peer} is closed")]
    Closed {
        /// The server, as in [`crate::ConnectOptions::describe`].
        peer: String,
    },
    /// Another thread shut the connection down through its [`crate::ShutdownHandle`].
    #[error("cancelled")]
    Cancelled,
    /// The options contradict each other or name an unusable file.
    #[error("connection options: {reason}")]
    Options {
        /// The reason, in words.
        reason: String,
    },
}

fn after_text(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |d| format!(" (limit {} s)", d.as_secs_f64()))
}

impl Error {
    /// The server's error number, if the error came from the server.
    pub fn server_code(&self) -> Option<u16> {
        match self {
            Self::Server { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// 1062, 1586 or 1022: duplicate key.
    pub fn is_duplicate_key(&self) -> bool {
        matches!(self.server_code(), Some(1062 | 1586 | 1022))
    }

    /// 1213, or 3101 (a Group Replication conflict that rolled the transaction back).
    pub fn is_deadlock(&self) -> bool {
        matches!(self.server_code(), Some(1213 | 3101))
    }

    /// 1205: lock wait timeout.
    pub fn is_lock_wait(&self) -> bool {
        self.server_code() == Some(crate::codes::LOCK_WAIT_TIMEOUT)
    }

    /// 1273: the server does not know the collation.
    pub fn is_unknown_collation(&self) -> bool {
        self.server_code() == Some(1273)
    }

    /// 1115: the server does not know the character set.
    pub fn is_unknown_charset(&self) -> bool {
        self.server_code() == Some(1115)
    }

    /// 1044, 1045, 1142, 1143, 1227, 1370, 1698: the account lacks the privilege or cannot log in.
    pub fn is_access_denied(&self) -> bool {
        matches!(
            self.server_code(),
            Some(1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698)
        )
    }

    /// 1148, 3948 or 4166: LOAD DATA LOCAL is disabled on the server.
    pub fn is_local_infile_disabled(&self) -> bool {
        matches!(self.server_code(), Some(1148 | 3948 | 4166))
    }

    /// 1317, 3024 or 1969: the statement was killed or hit its time limit.
    pub fn is_interrupted(&self) -> bool {
        matches!(self.server_code(), Some(1317 | 3024 | 1969))
    }

    /// 1114, 1021, 3, 14 (a file cannot grow) or 1878 (temporary file): a table, a disk or the
    /// temporary folder is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self.server_code(), Some(1114 | 1021 | 3 | 14 | 1878))
    }

    /// The connection is unusable: the socket failed, or the server said that it closes it.
    pub fn is_lost_connection(&self) -> bool {
        match self {
            Self::Io { .. }
            | Self::Timeout { .. }
            | Self::Protocol { .. }
            | Self::LocalInfileRefused { .. }
            | Self::Source(_)
            | Self::Closed { .. }
            | Self::Cancelled => true,
            // shutdown 1053, 1077; aborted, network errors 1152 to 1161, 1184; killed 1927, 3169;
            // client side 2006, 2013; idle for too long 4031
            Self::Server { code, .. } => {
                matches!(
                    code,
                    1053 | 1077 | 1152..=1161 | 1184 | 1927 | 2006 | 2013 | 4031 | 3169
                )
            }
            _ => false,
        }
    }

    /// Whether a retry can help.
    pub fn retry(&self) -> RetryStatus {
        if self.is_deadlock() || self.is_lock_wait() {
            return RetryStatus::SameConnection;
        }
        match self {
            Self::Cancelled
            | Self::Protocol { .. }
            | Self::LocalInfileRefused { .. }
            | Self::Source(_) => RetryStatus::Never,
            // too many connections, in total or of this user
            Self::Server {
                code: 1040 | 1203, ..
            } => RetryStatus::Reconnect,
            _ if self.is_lost_connection() => RetryStatus::Reconnect,
            _ => RetryStatus::Never,
        }
    }
}
