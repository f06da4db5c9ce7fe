//! A blocking connection to one MySQL or MariaDB server.
//!
//! It connects (TCP, TLS, unix socket), sends statements, streams rows out (borrowed from the read
//! buffer) and rows in (`LOAD DATA LOCAL`, MariaDB's array-bound insert). It never prints, reads
//! the environment or the home folder, or retries on its own. It must never end up on a server
//! other than the requested one: see [`ConnectOptions::target`] and [`Identity`].
//!
//! Start with [`ConnectOptions`], [`Connection`], [`Error`].

mod bulk;
pub mod codes;
mod connection;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
pub mod options;
mod packet;
mod prepared;
mod result;
mod secret;
mod server;
mod tls;
mod transport;

pub use bulk::{BulkPacket, BulkType, Day};
pub use connection::{BinlogStream, Connection, KillHandle, LocalInfile, RawConnection};
pub use error::{Error, Phase, RetryStatus, SourceError};
pub use options::{CommitCounter, ConnectOptions, SslMode, Target, UrlError};
pub use prepared::Statement;
pub use result::{
    Column, OkInfo, QueryEnd, ResultSet, Row, STATUS_AUTOCOMMIT, STATUS_IN_TRANSACTION, Warning,
};
pub use secret::Secret;
pub use server::{Identity, ServerInfo, Vendor};
pub use tls::peer::{PeerStream, PeerTls, peer_refusal};
pub use transport::ShutdownHandle;
