//! Sends and receives the packets of a connection, and maps their errors.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, Phase};
use crate::frame::{FrameError, Framed, Place};
use crate::packet::Reader;
use crate::transport::Transport;

/// How long to wait, after a failed send, for the error that the server may have sent before it
/// closed the connection.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The packets of a connection, with what error messages need.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) framed: Framed<Transport>,
    pub(crate) peer: String,
    pub(crate) closed: bool,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) write_timeout: Option<Duration>,
}

impl Link {
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.cancelled.load(Ordering::SeqCst) {
            return Err(Error::Cancelled);
        }
        if self.closed {
            Err(Error::Closed {
                peer: self.peer.clone(),
            })
        } else {
            Ok(())
        }
    }

    /// Aborts the connection, whatever is in progress.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        // The peer may have closed it already.
        let _ = self.framed.io.socket.abort();
    }

    /// Closes the connection after an orderly goodbye.
    pub(crate) fn leave(&mut self) {
        self.closed = true;
        let _ = self.framed.io.socket.shutdown();
    }

    pub(crate) fn set_timeouts(
        &mut self,
        read: Option<Duration>,
        write: Option<Duration>,
    ) -> Result<(), Error> {
        // The system rejects zero, and `None` would wait indefinitely.
        let at_least = |limit: Option<Duration>| limit.map(|d| d.max(Duration::from_millis(1)));
        (self.read_timeout, self.write_timeout) = (at_least(read), at_least(write));
        let socket = &self.framed.io.socket;
        let set = socket
            .set_read_timeout(self.read_timeout)
            .and_then(|()| socket.set_write_timeout(self.write_timeout));
        set.map_err(|source| self.io(Phase::Connect, source))
    }

    /// Sends one payload, in as many packets as needed.
    pub(crate) fn send(
        &mut self,
        phase: Phase,
        prefix: &[u8],
        payload: &[u8],
    ) -> Result<(), Error> {
        let Err(source) = self.framed.write(prefix, payload) else {
            return Ok(());
        };
        let gone = matches!(
            source.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        );
        let error = self.io(phase, source);
        if gone
            && !matches!(error, Error::Cancelled)
            && let Some(reason) = self.last_words()
        {
            self.close();
            return Err(reason);
        }
        self.close();
        Err(error)
    }

    /// Reads the error that the server may have sent before closing (killed, shutdown, packet too
    /// large).
    fn last_words(&mut self) -> Option<Error> {
        self.framed
            .io
            .socket
            .set_read_timeout(Some(LAST_WORDS))
            .ok()?;
        // Its sequence number depends on how much the server had read, so any is accepted here.
        for _ in 0..=u8::MAX {
            match self.framed.read() {
                Ok(place) => {
                    let payload = self.framed.payload(&place);
                    return (payload.first() == Some(&0xff)).then(|| self.server_error(payload));
                }
                Err(FrameError::Sequence { found, .. }) => self.framed.set_sequence(found),
                Err(_) => return None,
            }
        }
        None
    }

    /// Reads one payload.
    pub(crate) fn receive(&mut self, phase: Phase) -> Result<Place, Error> {
        let error = match self.framed.read() {
            Ok(place) => return Ok(place),
            Err(FrameError::Io(source)) => self.io(phase, source),
            Err(FrameError::Sequence { expected, found }) => {
                self.server_closed(found).unwrap_or_else(|| {
                    self.protocol(&format!("packet {found} where {expected} was due"))
                })
            }
            Err(FrameError::TooLong { limit }) => {
                self.protocol(&format!("a packet longer than {limit} bytes"))
            }
        };
        self.close();
        Err(error)
    }

    /// A server that ends a session on its own (shutdown, idle timeout) sends an error numbered 0,
    /// 1 or 2, whatever number was due.
    fn server_closed(&mut self, found: u8) -> Option<Error> {
        if found > 2 {
            return None;
        }
        self.framed.set_sequence(found);
        let place = self.framed.read().ok()?;
        let payload = self.framed.payload(&place);
        (payload.first() == Some(&0xff)).then(|| self.server_error(payload))
    }

    pub(crate) fn io(&self, phase: Phase, source: io::Error) -> Error {
        if self.cancelled.load(Ordering::SeqCst) {
            return Error::Cancelled;
        }
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let after = if phase == Phase::Send {
                    self.write_timeout
                } else {
                    self.read_timeout
                };
                Error::Timeout {
                    phase,
                    peer: self.peer.clone(),
                    after,
                }
            }
            // TLS and plain sockets report this in different words, and neither helps an
            // administrator.
            io::ErrorKind::UnexpectedEof => Error::Io {
                phase,
                peer: self.peer.clone(),
                source: io::Error::new(source.kind(), "the server closed the connection"),
            },
            _ => Error::Io {
                phase,
                peer: self.peer.clone(),
                source,
            },
        }
    }

    pub(crate) fn protocol(&self, what: &str) -> Error {
        Error::Protocol {
            peer: self.peer.clone(),
            what: what.to_owned(),
        }
    }

    /// Parses an error packet: `0xff`, code, `#` and SQLSTATE, message. Before the login the
    /// SQLSTATE may be missing.
    pub(crate) fn server_error(&self, payload: &[u8]) -> Error {
        let mut r = Reader::new(payload);
        let (Ok(_), Ok(code)) = (r.u8(), r.u16()) else {
            return self.protocol("a truncated error packet");
        };
        let mut sqlstate = "HY000".to_owned();
        if r.peek() == Some(b'#') && r.rest().len() >= 6 {
            sqlstate = String::from_utf8_lossy(&r.rest()[1..6]).into_owned();
            let _ = r.bytes(6);
        }
        Error::Server {
            code,
            sqlstate,
            message: String::from_utf8_lossy(r.rest()).into_owned(),
        }
    }
}
