//! Packets of another protocol on a connection that has logged in.

use crate::connection::Connection;
use crate::error::{Error, Phase};
use crate::transport::ShutdownHandle;

/// A connection whose server no longer expects statements. Dropping it closes the socket without
/// `COM_QUIT`, which such a server would not understand.
#[derive(Debug)]
pub struct RawConnection {
    connection: Connection,
}

impl Connection {
    /// Sends a command that switches the server to another protocol, and waits for its consent.
    ///
    /// # Errors
    /// The server refuses, or the connection fails.
    pub fn into_raw(mut self, command: u8) -> Result<RawConnection, Error> {
        self.send_command(&[command], &[])?;
        self.read_result()?;
        Ok(RawConnection { connection: self })
    }
}

impl RawConnection {
    /// Sends one payload: `command` followed by `body`.
    ///
    /// # Errors
    /// The connection fails.
    pub fn send(&mut self, command: u8, body: &[u8]) -> Result<(), Error> {
        let link = &mut self.connection.link;
        link.check_open()?;
        link.framed.set_sequence(0);
        link.send(Phase::Send, &[command], body)
    }

    /// Waits for one payload. The packet numbers start again with each payload.
    ///
    /// # Errors
    /// The connection fails, or the server sends an SQL error, as it does when it ends a session.
    pub fn receive(&mut self) -> Result<&[u8], Error> {
        let link = &mut self.connection.link;
        link.check_open()?;
        link.framed.set_sequence(0);
        let place = link.receive(Phase::Receive)?;
        let payload = link.framed.payload(&place);
        if payload.first() == Some(&0xff) {
            return Err(link.server_error(payload));
        }
        Ok(link.framed.payload(&place))
    }

    /// A handle that closes this connection's socket, from any thread.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.connection.shutdown_handle()
    }
}

impl Drop for RawConnection {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
