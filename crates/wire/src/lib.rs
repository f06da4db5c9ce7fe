//! The wire room: one blocking connection to one MySQL or MariaDB server.
//!
//! It opens a connection (TCP, TLS, unix socket), sends statements, streams rows out (borrowed from the read buffer) and rows in
//! (`LOAD DATA LOCAL`, MariaDB's array-bound insert). It must not print, read the environment or the home folder, retry on its own, or
//! ever end up on another server than the one it was told: see [`ConnectOptions::target`] and [`Identity`].
//!
//! Read first: [`ConnectOptions`], [`Connection`], [`Error`].

mod bulk;
mod connection;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod kill;
pub mod options;
mod packet;
mod result;
mod secret;
mod server;
mod tls;
mod transport;

pub use bulk::{BulkPacket, BulkType, Day};
pub use connection::{Connection, LocalInfile, Statement};
pub use error::{Error, Phase, RetryStatus, SourceError};
pub use kill::KillHandle;
pub use options::{CommitCounter, ConnectOptions, SslMode, Target, UrlError};
pub use result::{
    Column, OkInfo, QueryEnd, ResultSet, Row, STATUS_AUTOCOMMIT, STATUS_IN_TRANSACTION, Warning,
};
pub use secret::Secret;
pub use server::{Identity, ServerInfo, Vendor};
pub use transport::ShutdownHandle;
