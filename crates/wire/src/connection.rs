//! The connection: opens it, sends commands, reads answers.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::codes::UNKNOWN_VARIABLE;
use crate::error::{Error, Phase};
use crate::frame::Framed;
use crate::handshake::{CLIENT_MAX_PACKET, shake_hands};
use crate::options::ConnectOptions;
use crate::packet::Truncated;
use crate::result::{
    Cells, Column, OkInfo, QueryEnd, ResultSet, Row, STATUS_MORE_RESULTS, SplitRow, Warning,
    split_row,
};
use crate::server::{Identity, ServerInfo, Vendor, parse_version};
use crate::transport::{ShutdownHandle, Transport};

mod binlog;
mod kill;
mod link;
mod load;
mod open;
mod raw;
mod statement;

pub use binlog::BinlogStream;
pub use kill::KillHandle;
pub(crate) use link::Link;
pub use load::LocalInfile;
pub use raw::RawConnection;

/// Longest answer accepted before the login is complete, in bytes.
const LIMIT_BEFORE_LOGIN: usize = 1 << 20;
/// Longest row accepted, in bytes: the largest `max_allowed_packet` of a server, plus headers.
const LIMIT: usize = CLIENT_MAX_PACKET as usize + (64 << 10);
/// Most columns accepted in a result; the servers' own limit is 4096.
const MAX_COLUMNS: u64 = 1 << 16;

pub(crate) const COM_QUIT: u8 = 0x01;
pub(crate) const COM_QUERY: u8 = 0x03;
pub(crate) const COM_PING: u8 = 0x0e;
pub(crate) const COM_RESET_CONNECTION: u8 = 0x1f;

/// One session on one server. All calls block. Dropping it sends `COM_QUIT` if it is idle, and
/// closes the socket.
#[derive(Debug)]
pub struct Connection {
    pub(crate) link: Link,
    options: Arc<ConnectOptions>,
    server: ServerInfo,
    identity: Identity,
    opened_at: Instant,
    max_allowed_packet: usize,
    /// Commands sent but not answered: the sequence number with which each answer starts.
    pending: VecDeque<u8>,
    /// A LOAD DATA stream is open.
    loading: bool,
    cells: Cells,
}

impl Connection {
    /// Connects and logs in. The session uses `utf8mb4`, `sql_big_selects = 1`, and the server's
    /// defaults for everything else.
    pub fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let peer = options.describe();
        let socket = open::socket(options, &peer)?;
        let opened_at = Instant::now();
        let transport = Transport {
            socket: Arc::new(socket),
            tls: None,
        };
        let mut link = Link {
            framed: Framed::new(transport, LIMIT_BEFORE_LOGIN),
            peer,
            closed: false,
            cancelled: Arc::new(AtomicBool::new(false)),
            read_timeout: Some(options.connect_timeout),
            write_timeout: Some(options.connect_timeout),
        };
        let mut server = shake_hands(&mut link, options)?;
        link.framed.limit = LIMIT;
        let unknown = Identity {
            uuid: None,
            hostname: String::new(),
            port: 0,
            datadir: String::new(),
            version: String::new(),
        };
        let mut connection = Self {
            link,
            options: Arc::new(options.clone()),
            server: server.clone(),
            identity: unknown,
            opened_at,
            max_allowed_packet: 1 << 20,
            pending: VecDeque::new(),
            loading: false,
            cells: Vec::new(),
        };
        // A server that rejects large SELECTs may reject small SELECT and SHOW statements too.
        connection.exec("SET SESSION sql_big_selects = 1")?;
        let (identity, max_allowed_packet, id) = connection.ask_identity()?;
        // A proxy's greeting carries the proxy's version; the server behind it reports its own.
        (server.vendor, server.version) = parse_version(&identity.version);
        server.version_string.clone_from(&identity.version);
        server.connection_id = id;
        connection.server = server;
        connection.identity = identity;
        connection.max_allowed_packet = options
            .max_allowed_packet
            .map_or(max_allowed_packet, |ours| ours.min(max_allowed_packet));
        connection.set_timeouts(options.read_timeout, options.write_timeout)?;
        Ok(connection)
    }

    /// Facts about the server and this connection.
    pub fn server(&self) -> &ServerInfo {
        &self.server
    }

    /// The instance on the other side, as it reported after the login.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The options that opened this connection.
    pub fn options(&self) -> &ConnectOptions {
        &self.options
    }

    /// The session's `max_allowed_packet` in bytes. A command, including its first byte, must be
    /// shorter.
    pub fn max_allowed_packet(&self) -> usize {
        self.max_allowed_packet
    }

    /// Opens another connection with the same options and checks that it reaches the same server.
    pub fn reconnect(&self) -> Result<Self, Error> {
        let other = Self::connect(&self.options)?;
        other.expect_identity(&self.identity)?;
        Ok(other)
    }

    /// Fails with [`Error::WrongServer`] unless the server has this identity.
    pub fn expect_identity(&self, expected: &Identity) -> Result<(), Error> {
        if self.identity == *expected {
            return Ok(());
        }
        Err(Error::WrongServer {
            expected: expected.to_string(),
            found: self.identity.to_string(),
        })
    }

    /// Sets the limits for each wait; `None` waits indefinitely.
    pub fn set_timeouts(
        &mut self,
        read: Option<Duration>,
        write: Option<Duration>,
    ) -> Result<(), Error> {
        self.link.set_timeouts(read, write)
    }

    /// Runs a statement and discards its rows. Returns the final status of its last result.
    pub fn exec(&mut self, sql: impl AsRef<[u8]>) -> Result<OkInfo, Error> {
        self.send_query(sql.as_ref())?;
        self.read_result()
    }

    /// Runs a query and passes each row to `f` as it arrives. If `f` breaks, the remaining rows are
    /// read and discarded; to avoid that for a long result, drop the connection.
    pub fn query_each(
        &mut self,
        sql: impl AsRef<[u8]>,
        f: &mut dyn FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<QueryEnd, Error> {
        self.send_query(sql.as_ref())?;
        self.read_answer(&mut |_| (), f)
    }

    /// Runs a query with a small result. Of several result sets, the first one with columns is
    /// kept.
    pub fn query(&mut self, sql: impl AsRef<[u8]>) -> Result<ResultSet, Error> {
        self.send_query(sql.as_ref())?;
        let mut result = ResultSet::default();
        let mut sets = 0;
        let sets_seen = std::cell::Cell::new(0);
        let end = self.read_answer(
            &mut |columns| {
                sets += 1;
                sets_seen.set(sets);
                if sets == 1 {
                    result.columns = columns.to_vec();
                }
            },
            &mut |row| {
                if sets_seen.get() == 1 {
                    result
                        .rows
                        .push(row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect());
                }
                ControlFlow::Continue(())
            },
        )?;
        result.ok = end.ok;
        Ok(result)
    }

    /// The first cell of a query as text; `None` if it is NULL or not UTF-8, or if there is no row.
    pub fn query_value(&mut self, sql: impl AsRef<[u8]>) -> Result<Option<String>, Error> {
        let result = self.query(sql)?;
        Ok(result.str(0, 0).map(str::to_owned))
    }

    /// The warnings of the last statement. The server keeps at most `max_error_count`;
    /// [`OkInfo::warnings`] counts all.
    pub fn warnings(&mut self) -> Result<Vec<Warning>, Error> {
        let result = self.query("SHOW WARNINGS")?;
        Ok((0..result.len())
            .map(|row| Warning {
                level: result.str(row, 0).unwrap_or_default().to_owned(),
                code: result
                    .u64(row, 1)
                    .and_then(|n| u16::try_from(n).ok())
                    .unwrap_or_default(),
                message: result
                    .bytes(row, 2)
                    .map(|b| String::from_utf8_lossy(b).into_owned())
                    .unwrap_or_default(),
            })
            .collect())
    }

    /// Sends a statement without waiting for the answer. Several may be sent ahead;
    /// [`Connection::read_result`] reads the answers in the same order.
    pub fn send_query(&mut self, sql: &[u8]) -> Result<(), Error> {
        self.send_command(&[COM_QUERY], sql)
    }

    /// Waits for the answer to the oldest unanswered command, and discards its rows.
    pub fn read_result(&mut self) -> Result<OkInfo, Error> {
        self.read_answer(&mut |_| (), &mut |_| ControlFlow::Continue(()))
            .map(|end| end.ok)
    }

    /// Number of commands sent whose answers have not been read.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Checks that the server still answers.
    pub fn ping(&mut self) -> Result<(), Error> {
        self.send_command(&[COM_PING], &[])?;
        self.read_result().map(drop)
    }

    /// Rolls back and resets the session to its defaults (variables, temporary tables, locks,
    /// prepared statements).
    pub fn reset(&mut self) -> Result<(), Error> {
        self.send_command(&[COM_RESET_CONNECTION], &[])?;
        self.read_result().map(drop)
    }

    /// Closes the connection in an orderly way. The server rolls back uncommitted changes.
    pub fn close(self) {
        drop(self);
    }

    /// Closes the socket at once, whatever is in progress. The server rolls back uncommitted
    /// changes.
    pub fn abort(&mut self) {
        self.loading = false;
        self.link.close();
    }

    /// Whether the connection has failed or was closed.
    pub fn is_closed(&self) -> bool {
        self.link.closed
    }

    /// A handle that kills what this connection is running on the server, from any thread.
    pub fn killer(&self) -> KillHandle {
        KillHandle::new(
            Arc::clone(&self.options),
            self.identity.clone(),
            self.server.clone(),
            self.opened_at,
        )
    }

    /// A handle that closes this connection's socket, from any thread.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle {
            socket: Arc::clone(&self.link.framed.io.socket),
            cancelled: Arc::clone(&self.link.cancelled),
        }
    }

    /// Queries the server's identity again.
    pub fn fetch_identity(&mut self) -> Result<Identity, Error> {
        self.ask_identity().map(|(identity, ..)| identity)
    }

    fn ask_identity(&mut self) -> Result<(Identity, usize, u64), Error> {
        let ask = "SELECT @@hostname, @@port, @@datadir, @@version, @@session.max_allowed_packet, CONNECTION_ID()";
        let uuid_of = |vendor| match vendor {
            Vendor::MariaDb => "server_uid",
            Vendor::MySql => "server_uuid",
        };
        // MariaDB has it since 10.5.26, 10.6.19 and 10.11.9, and a proxy may have named another
        // version.
        let server = &self.server;
        let may_have_one = server.vendor == Vendor::MySql || server.version >= (10, 11, 9);
        let name = uuid_of(server.vendor);
        let with_uuid = may_have_one.then(|| self.query(format!("{ask}, @@global.{name}")));
        let (result, has_uuid) = match with_uuid {
            None => (self.query(ask)?, false),
            Some(Err(error)) if error.server_code() == Some(UNKNOWN_VARIABLE) => {
                (self.query(ask)?, false)
            }
            Some(other) => (other?, true),
        };
        let text = |column| {
            result
                .bytes(0, column)
                .map(|b| String::from_utf8_lossy(b).into_owned())
                .unwrap_or_default()
        };
        let uuid = if has_uuid {
            Some(text(6))
        } else {
            let name = uuid_of(parse_version(&text(3)).0);
            let found = self.query(format!("SHOW GLOBAL VARIABLES LIKE '{name}'"))?;
            found.str(0, 1).map(str::to_owned)
        };
        let identity = Identity {
            uuid,
            hostname: text(0),
            port: result
                .u64(0, 1)
                .and_then(|n| u16::try_from(n).ok())
                .unwrap_or_default(),
            datadir: text(2),
            version: text(3),
        };
        let limit = result.u64(0, 4).and_then(|n| usize::try_from(n).ok());
        let id = result.u64(0, 5).unwrap_or(self.server.connection_id);
        Ok((
            identity,
            limit.ok_or_else(|| self.link.protocol("no max_allowed_packet"))?,
            id,
        ))
    }

    /// Checks the length of a command and sends it as `prefix` plus `body`.
    pub(crate) fn send_command(&mut self, prefix: &[u8], body: &[u8]) -> Result<(), Error> {
        self.link.check_open()?;
        if self.loading {
            return Err(Error::Busy {
                what: "a LOAD DATA stream is open",
            });
        }
        let size = prefix.len() + body.len();
        if size >= self.max_allowed_packet {
            return Err(Error::PacketTooLarge {
                size,
                limit: self.max_allowed_packet.saturating_sub(1),
            });
        }
        self.link.framed.set_sequence(0);
        self.link.send(Phase::Send, prefix, body)?;
        self.pending.push_back(self.link.framed.sequence());
        Ok(())
    }

    /// Prepares to read the answer to the oldest pending command.
    pub(crate) fn begin_answer(&mut self) -> Result<(), Error> {
        self.link.check_open()?;
        let sequence = self.pending.pop_front().ok_or(Error::Busy {
            what: "no command was sent",
        })?;
        self.link.framed.set_sequence(sequence);
        Ok(())
    }

    /// Reads all results of the oldest pending command.
    fn read_answer(
        &mut self,
        columns_of: &mut dyn FnMut(&[Column]),
        row_of: &mut dyn FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<QueryEnd, Error> {
        self.read_answer_by(split_row, columns_of, row_of)
    }

    fn read_answer_by(
        &mut self,
        split: SplitRow,
        columns_of: &mut dyn FnMut(&[Column]),
        row_of: &mut dyn FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<QueryEnd, Error> {
        self.begin_answer()?;
        let mut end = QueryEnd::default();
        loop {
            end.ok =
                self.read_one_result(split, &mut end.rows, &mut end.stopped, columns_of, row_of)?;
            if end.ok.status & STATUS_MORE_RESULTS == 0 {
                return Ok(end);
            }
        }
    }

    fn read_one_result(
        &mut self,
        split: SplitRow,
        rows: &mut u64,
        stopped: &mut bool,
        columns_of: &mut dyn FnMut(&[Column]),
        row_of: &mut dyn FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<OkInfo, Error> {
        let place = self.link.receive(Phase::Receive)?;
        let payload = self.link.framed.payload(&place);
        let count = match payload.first() {
            Some(0x00) => {
                let ok = OkInfo::parse(payload)
                    .map_err(|Truncated| self.link.protocol("a truncated OK packet"))?;
                if let Some(commits) = self
                    .options
                    .commits
                    .as_ref()
                    .filter(|_| !ok.in_transaction())
                {
                    commits.add();
                }
                return Ok(ok);
            }
            Some(0xff) => return Err(self.link.server_error(payload)),
            Some(0xfb) => {
                // The protocol would allow an empty file as the answer, but then the server would
                // report success for a statement that did not do its work. A server that requests
                // files on its own gets no answer.
                let asked = String::from_utf8_lossy(&payload[1..]).into_owned();
                self.link.close();
                return Err(Error::LocalInfileRefused { asked });
            }
            _ => crate::packet::Reader::new(payload).lenenc(),
        };
        let count = match count {
            Ok(n @ 1..=MAX_COLUMNS) => n as usize,
            _ => return Err(self.link.protocol("an impossible number of columns")),
        };
        let columns = self.read_columns(count)?;
        columns_of(&columns);
        let mut cells = std::mem::take(&mut self.cells);
        let ended = loop {
            let place = match self.link.receive(Phase::Receive) {
                Ok(place) => place,
                Err(error) => break Err(error),
            };
            let payload = self.link.framed.payload(&place);
            match payload.first() {
                Some(0xfe) if payload.len() < 9 => break self.parse_eof(payload),
                Some(0xff) => break Err(self.link.server_error(payload)),
                _ => {}
            }
            *rows += 1;
            if *stopped {
                continue;
            }
            if split(payload, &columns, &mut cells).is_err() {
                break Err(self.link.protocol("a row that does not fit its columns"));
            }
            *stopped = row_of(Row {
                payload,
                cells: &cells,
                columns: &columns,
            })
            .is_break();
        };
        self.cells = cells;
        ended
    }

    /// Reads `count` column definitions and the EOF packet that follows.
    pub(crate) fn read_columns(&mut self, count: usize) -> Result<Vec<Column>, Error> {
        let mut columns = Vec::with_capacity(count.min(4096));
        for _ in 0..count {
            let place = self.link.receive(Phase::Receive)?;
            let payload = self.link.framed.payload(&place);
            if payload.first() == Some(&0xff) {
                return Err(self.link.server_error(payload));
            }
            columns.push(
                Column::parse(payload)
                    .map_err(|Truncated| self.link.protocol("a truncated column definition"))?,
            );
        }
        let place = self.link.receive(Phase::Receive)?;
        let payload = self.link.framed.payload(&place);
        match payload.first() {
            Some(0xff) => Err(self.link.server_error(payload)),
            Some(0xfe) if payload.len() < 9 => Ok(columns),
            _ => Err(self.link.protocol("the columns do not end")),
        }
    }

    fn parse_eof(&self, payload: &[u8]) -> Result<OkInfo, Error> {
        let [_, w0, w1, s0, s1] = *payload else {
            return Err(self.link.protocol("a truncated EOF packet"));
        };
        Ok(OkInfo {
            warnings: u16::from_le_bytes([w0, w1]),
            status: u16::from_le_bytes([s0, s1]),
            ..OkInfo::default()
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.link.closed && !self.loading && self.pending.is_empty() {
            self.link.framed.set_sequence(0);
            // A courtesy that keeps "aborted connection" out of the server's log; nothing depends
            // on it.
            let _ = self.link.send(Phase::Send, &[COM_QUIT], &[]);
            self.link.leave();
        } else {
            self.link.close();
        }
    }
}
