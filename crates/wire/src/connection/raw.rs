//! Packets of another protocol on a connection that has logged in.

use crate::connection::Connection;
use crate::error::{Error, Phase};
use crate::transport::ShutdownHandle;

/// A connection whose server no longer waits for statements. Dropping it closes the socket without
/// a goodbye, which such a server would not understand.
#[derive(Debug)]
pub struct RawConnection {
    connection: Connection,
}

impl Connection {
    /// Sends a command after which the server speaks another protocol, and waits until it agrees.
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
    /// Sends one payload: `command`, and `body` behind it.
    ///
    /// # Errors
    /// The connection fails.
    pub fn send(&mut self, command: u8, body: &[u8]) -> Result<(), Error> {
        let link = &mut self.connection.link;
        link.check_open()?;
        link.framed.set_sequence(0);
        link.send(Phase::Send, &[command], body)
    }

    /// Waits for one payload. Each of them begins the numbers of its packets anew.
    ///
    /// # Errors
    /// The connection fails, or the server sends an error of the SQL protocol, as it does when it
    /// ends a session.
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
