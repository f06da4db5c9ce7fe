//! The underlying byte stream: TCP, unix socket, or TLS on either.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A plain socket, shared with the handles held by other threads.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_read_timeout(limit),
            Self::Unix(s) => s.set_read_timeout(limit),
        }
    }

    pub(crate) fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_write_timeout(limit),
            Self::Unix(s) => s.set_write_timeout(limit),
        }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Aborts the connection; anything in progress is lost.
    ///
    /// Over TCP, a reset informs the server at once. After an orderly close, a server that waits
    /// for its client to read more notices only when it next probes for room. It does so less and
    /// less often (tcp(7): zero window probes), in the end every two minutes. Until then its
    /// statement would continue and keep its locks, and `KILL` would not end it either.
    pub(crate) fn abort(&self) -> io::Result<()> {
        if let Self::Tcp(s) = self {
            rustix::net::sockopt::set_socket_linger(s, Some(Duration::ZERO))?;
        }
        self.shutdown()
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.shutdown(Shutdown::Both),
            Self::Unix(s) => s.shutdown(Shutdown::Both),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&*s).read(out),
            Socket::Unix(s) => (&*s).read(out),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&*s).write(data),
            Socket::Unix(s) => (&*s).write(data),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&*s).write_vectored(slices),
            Socket::Unix(s) => (&*s).write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The stream that carries the packets.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) socket: Arc<Socket>,
    pub(crate) tls: Option<Box<rustls::ClientConnection>>,
}

impl Read for Transport {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut socket = &*self.socket;
        match &mut self.tls {
            None => socket.read(out),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).read(out),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut socket = &*self.socket;
        match &mut self.tls {
            None => socket.write(data),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).write(data),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut socket = &*self.socket;
        match &mut self.tls {
            None => socket.write_vectored(slices),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut socket = &*self.socket;
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).flush(),
        }
    }
}

/// Lets another thread interrupt a connection, whatever it waits for, by closing its socket. The
/// connection cannot be used afterwards; its calls return [`crate::Error::Cancelled`]. The server
/// notices and rolls back uncommitted changes, but may first finish a running statement: use
/// [`crate::KillHandle`] to stop it.
#[derive(Debug, Clone)]
pub struct ShutdownHandle {
    pub(crate) socket: Arc<Socket>,
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl ShutdownHandle {
    /// Closes the socket in both directions. Calling it twice does no harm.
    pub fn shutdown(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        // The socket may be closed already, which is fine.
        let _ = self.socket.abort();
    }
}
