//! The events of a server's binary log, as a replica receives them.

use std::time::Duration;

use crate::connection::Connection;
use crate::error::{Error, Phase};
use crate::transport::ShutdownHandle;

const COM_BINLOG_DUMP: u8 = 0x12;
/// `BINLOG_SEND_ANNOTATE_ROWS_EVENT` of MariaDB: without it, the server leaves out events that only
/// name a statement. MySQL has no such flag for this command.
const ANNOTATIONS: u16 = 2;

/// The events of a binary log from a given position on, in their order in the log. Dropping it
/// closes the connection.
#[derive(Debug)]
pub struct BinlogStream {
    connection: Connection,
}

impl Connection {
    /// Requests the events of `file` from byte `position` on, and of all later files.
    ///
    /// `replica` is the server id that tells replicas apart: another stream with the same id ends.
    /// While nothing is written to the log, the server sends a heartbeat at this interval.
    ///
    /// # Errors
    /// The server refuses, or the connection fails. If the account may not read the log, or the
    /// file does not exist, the first [`BinlogStream::receive`] reports it.
    pub fn into_binlog(
        mut self,
        (file, position): (&str, u32),
        replica: u32,
        heartbeat: Duration,
    ) -> Result<BinlogStream, Error> {
        let nanoseconds = heartbeat.as_nanos();
        // Each vendor ignores the other's names. A replica that does not announce support for
        // MariaDB's GTIDs (capability 4) gets other events instead.
        self.exec(format!(
            "SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}, \
             @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32', \
             @mariadb_slave_capability = 4"
        ))?;
        let mut body = Vec::with_capacity(10 + file.len());
        body.extend_from_slice(&position.to_le_bytes());
        body.extend_from_slice(&ANNOTATIONS.to_le_bytes());
        body.extend_from_slice(&replica.to_le_bytes());
        body.extend_from_slice(file.as_bytes());
        self.send_command(&[COM_BINLOG_DUMP], &body)?;
        self.begin_answer()?;
        Ok(BinlogStream { connection: self })
    }
}

impl BinlogStream {
    /// Waits for one event, with the header and the checksum that it has in the file. `None`: the
    /// server ended the stream.
    ///
    /// # Errors
    /// The server reports why it cannot continue, or the connection fails.
    pub fn receive(&mut self) -> Result<Option<&[u8]>, Error> {
        let link = &mut self.connection.link;
        link.check_open()?;
        let place = link.receive(Phase::Receive)?;
        let payload = link.framed.payload(&place);
        match payload.first() {
            Some(0x00) => {}
            Some(0xff) => return Err(link.server_error(payload)),
            Some(0xfe) if payload.len() < 9 => return Ok(None),
            _ => return Err(link.protocol("what is no event of a binary log")),
        }
        Ok(Some(&link.framed.payload(&place)[1..]))
    }

    /// A handle that closes this connection's socket, from any thread.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.connection.shutdown_handle()
    }
}

impl Drop for BinlogStream {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
