//! What can go wrong on a connection, as data.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why the source of a LOAD DATA stream gave up; what the caller's closure returns.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// What the connection was doing when an error happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Resolving the name and opening the socket.
    Connect,
    /// Reading the greeting and sending the answer to it.
    Handshake,
    /// The TLS handshake.
    Tls,
    /// The exchange of an authentication plugin.
    Auth,
    /// Sending a command or rows.
    Send,
    /// Waiting for or reading an answer.
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

/// Whether trying again can help, and what has to happen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryStatus {
    /// The same request will fail again.
    Never,
    /// Roll back, then run the transaction again on the same connection (deadlock, lock wait timeout).
    SameConnection,
    /// The connection is gone. Only a request that is safe to run twice may be repeated on a new one: the server may have committed.
    Reconnect,
}

/// Every error of this crate. No variant ever carries a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket failed.
    #[error("{phase} failed, {peer}")]
    Io {
        /// What was being done.
        phase: Phase,
        /// The other side, as in [`crate::ConnectOptions::describe`].
        peer: String,
        /// The cause.
        source: io::Error,
    },
    /// The server did not answer, or did not take data, in the time allowed.
    #[error("timed out while {phase}, {peer}{}", after_text(*after))]
    Timeout {
        /// What was being done.
        phase: Phase,
        /// The other side.
        peer: String,
        /// The limit that was reached, where known.
        after: Option<Duration>,
    },
    /// The server's own error packet.
    #[error("server error {code} ({sqlstate}): {message}")]
    Server {
        /// The server's error number.
        code: u16,
        /// Five characters of SQLSTATE.
        sqlstate: String,
        /// The server's words.
        message: String,
    },
    /// Authentication is not possible as asked for. A refused password is [`Error::Server`] with code 1045.
    #[error("cannot authenticate with plugin {plugin}: {reason}")]
    Auth {
        /// The plugin that the server asked for.
        plugin: String,
        /// Why not.
        reason: String,
    },
    /// TLS is required and missing, or its handshake or certificate was refused.
    #[error("TLS with {peer}: {reason}")]
    Tls {
        /// The other side.
        peer: String,
        /// What was refused.
        reason: String,
    },
    /// The other side broke the protocol; the connection is closed.
    #[error("protocol error from {peer}: {what}")]
    Protocol {
        /// The other side.
        peer: String,
        /// What was wrong.
        what: String,
    },
    /// A command is longer than the server accepts. Nothing was sent.
    #[error(
        "a packet of {size} bytes is too large: max_allowed_packet of this session takes up to {limit}"
    )]
    PacketTooLarge {
        /// Length of the command in bytes.
        size: usize,
        /// The longest command that the session takes, in bytes.
        limit: usize,
    },
    /// The server asked for a file that no statement of ours named. Nothing was sent; the connection is closed.
    #[error("the server asked for the local file {asked:?}: refused")]
    LocalInfileRefused {
        /// The name that it asked for.
        asked: String,
    },
    /// A LOAD DATA statement that cannot be run as given.
    #[error("load data: {reason}")]
    LoadData {
        /// What is wrong with it.
        reason: String,
    },
    /// The caller's data source failed in the middle of LOAD DATA. The connection was dropped without the end packet, so the server
    /// rolls the statement back.
    #[error("the source of rows failed, the connection was dropped")]
    Source(#[source] SourceError),
    /// The server lacks what the call needs.
    #[error("the server does not support {what}")]
    Unsupported {
        /// The missing ability.
        what: &'static str,
    },
    /// The call does not fit the state of the connection (a programming error of the caller).
    #[error("the connection is busy: {what}")]
    Busy {
        /// What is in the way.
        what: &'static str,
    },
    /// A second connection reached another server, or the server was restarted in between.
    #[error("this is another server than before: expected {expected}, found {found}")]
    WrongServer {
        /// Who was expected.
        expected: String,
        /// Who answered.
        found: String,
    },
    /// The connection had failed before.
    #[error("the connection to {peer} is closed")]
    Closed {
        /// The other side.
        peer: String,
    },
    /// Another thread shut the connection down through its [`crate::ShutdownHandle`].
    #[error("cancelled")]
    Cancelled,
    /// The options contradict each other or name a file that cannot be used.
    #[error("connection options: {reason}")]
    Options {
        /// What is wrong.
        reason: String,
    },
}

fn after_text(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |d| format!(" (limit {} s)", d.as_secs_f64()))
}

impl Error {
    /// The server's error number, if it was the server that refused.
    pub fn server_code(&self) -> Option<u16> {
        match self {
            Self::Server { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// 1062, 1586 or 1022: a row with this key exists.
    pub fn is_duplicate_key(&self) -> bool {
        matches!(self.server_code(), Some(1062 | 1586 | 1022))
    }

    /// 1213, or 3101 (a Group Replication conflict that rolled the transaction back).
    pub fn is_deadlock(&self) -> bool {
        matches!(self.server_code(), Some(1213 | 3101))
    }

    /// 1205: the row lock was not given in time.
    pub fn is_lock_wait(&self) -> bool {
        self.server_code() == Some(1205)
    }

    /// 1273: the collation is not known to this server.
    pub fn is_unknown_collation(&self) -> bool {
        self.server_code() == Some(1273)
    }

    /// 1115: the character set is not known to this server.
    pub fn is_unknown_charset(&self) -> bool {
        self.server_code() == Some(1115)
    }

    /// 1044, 1045, 1142, 1143, 1227, 1370, 1698: the account may not do that.
    pub fn is_access_denied(&self) -> bool {
        matches!(
            self.server_code(),
            Some(1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698)
        )
    }

    /// 1148 or 3948: LOAD DATA LOCAL is switched off on the server.
    pub fn is_local_infile_disabled(&self) -> bool {
        matches!(self.server_code(), Some(1148 | 3948 | 4166))
    }

    /// 1317, or 3024 and 1969: the statement was interrupted.
    pub fn is_interrupted(&self) -> bool {
        matches!(self.server_code(), Some(1317 | 3024 | 1969))
    }

    /// 1114, 1021, 3, 14 (a file cannot grow) or 1878 (temporary file): a table, a disk or the temporary folder is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self.server_code(), Some(1114 | 1021 | 3 | 14 | 1878))
    }

    /// The connection cannot be used any more: the socket failed, or the server said that it closes it.
    pub fn is_lost_connection(&self) -> bool {
        match self {
            Self::Io { .. }
            | Self::Timeout { .. }
            | Self::Protocol { .. }
            | Self::LocalInfileRefused { .. }
            | Self::Source(_)
            | Self::Closed { .. }
            | Self::Cancelled => true,
            // server shutdown, killed, new connection refused because of shutdown, net errors, wsrep not ready, killed when idle
            Self::Server { code, .. } => {
                matches!(
                    code,
                    1053 | 1077 | 1152..=1161 | 1184 | 1927 | 2006 | 2013 | 4031 | 3169
                )
            }
            _ => false,
        }
    }

    /// Whether trying again can help.
    pub fn retry(&self) -> RetryStatus {
        if self.is_deadlock() || self.is_lock_wait() {
            return RetryStatus::SameConnection;
        }
        match self {
            Self::Cancelled
            | Self::Protocol { .. }
            | Self::LocalInfileRefused { .. }
            | Self::Source(_) => RetryStatus::Never,
            // too many connections, of all and of this user
            Self::Server {
                code: 1040 | 1203, ..
            } => RetryStatus::Reconnect,
            _ if self.is_lost_connection() => RetryStatus::Reconnect,
            _ => RetryStatus::Never,
        }
    }
}
