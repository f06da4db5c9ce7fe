//! Opens the socket of a connection.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::error::{Error, Phase};
use crate::options::{ConnectOptions, Target};
use crate::transport::Socket;

/// Idle time before the first TCP keepalive probe. Probes detect a server that vanished while it
/// seemed to be building an index.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Opens the socket that [`ConnectOptions::target`] selects, with the timeouts for the login.
pub(super) fn socket(options: &ConnectOptions, peer: &str) -> Result<Socket, Error> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => Error::Timeout {
            phase: Phase::Connect,
            peer: peer.to_owned(),
            after: Some(options.connect_timeout),
        },
        _ => Error::Io {
            phase: Phase::Connect,
            peer: peer.to_owned(),
            source,
        },
    };
    let socket = match options.target() {
        Target::Unix(path) => Socket::Unix(UnixStream::connect(path).map_err(failed)?),
        Target::Tcp(host, port) => {
            let deadline = Instant::now() + options.connect_timeout;
            let mut last =
                std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
            let mut open = None;
            for address in (host.as_str(), port).to_socket_addrs().map_err(failed)? {
                let left = deadline
                    .saturating_duration_since(Instant::now())
                    .max(Duration::from_millis(1));
                match TcpStream::connect_timeout(&address, left) {
                    Ok(stream) => {
                        open = Some(stream);
                        break;
                    }
                    Err(error) => last = error,
                }
            }
            let stream = open.ok_or(last).map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            rustix::net::sockopt::set_socket_keepalive(&stream, true)
                .map_err(|e| failed(e.into()))?;
            rustix::net::sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)
                .map_err(|e| failed(e.into()))?;
            Socket::Tcp(stream)
        }
    };
    socket
        .set_read_timeout(Some(options.connect_timeout))
        .map_err(failed)?;
    socket
        .set_write_timeout(Some(options.connect_timeout))
        .map_err(failed)?;
    Ok(socket)
}
