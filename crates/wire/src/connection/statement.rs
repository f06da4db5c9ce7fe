//! Prepares and executes statements.

use std::ops::ControlFlow;

use crate::bulk::BulkPacket;
use crate::connection::Connection;
use crate::error::{Error, Phase};
use crate::packet::{Reader, put_lenenc};
use crate::prepared::Statement;
use crate::result::{OkInfo, QueryEnd, Row, split_binary_row};

const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;
/// `MYSQL_TYPE_VAR_STRING`.
const TYPE_STRING: u8 = 0xfd;

impl Connection {
    /// Prepares one statement, with `?` for values, for as long as the connection lives.
    pub fn prepare(&mut self, sql: impl AsRef<[u8]>) -> Result<Statement, Error> {
        if self.pending() != 0 {
            return Err(Error::Busy {
                what: "answers to earlier commands were not read",
            });
        }
        self.send_command(&[COM_STMT_PREPARE], sql.as_ref())?;
        self.begin_answer()?;
        let place = self.link.receive(Phase::Receive)?;
        let payload = self.link.framed.payload(&place);
        if payload.first() == Some(&0xff) {
            return Err(self.link.server_error(payload));
        }
        let mut r = Reader::new(payload);
        let (Ok(0), Ok(id), Ok(columns), Ok(params)) = (r.u8(), r.u32(), r.u16(), r.u16()) else {
            return Err(self.link.protocol("a malformed answer to a prepare"));
        };
        if params > 0 {
            self.read_columns(usize::from(params))?;
        }
        let columns = if columns > 0 {
            self.read_columns(usize::from(columns))?
        } else {
            Vec::new()
        };
        Ok(Statement {
            id,
            params: usize::from(params),
            columns,
        })
    }

    /// Executes a prepared statement that returns no rows. Parameters are text in the session's
    /// character set; `None` is NULL.
    pub fn execute(
        &mut self,
        statement: &Statement,
        params: &[Option<&[u8]>],
    ) -> Result<OkInfo, Error> {
        if params.len() != statement.params {
            return Err(Error::Busy {
                what: "the number of parameters is not that of the statement",
            });
        }
        if !statement.columns.is_empty() {
            return Err(Error::Unsupported {
                what: "rows from a prepared statement",
            });
        }
        let mut body = Vec::with_capacity(64);
        body.extend_from_slice(&statement.id.to_le_bytes());
        body.push(0);
        body.extend_from_slice(&1_u32.to_le_bytes());
        if !params.is_empty() {
            let bitmap = body.len();
            body.resize(bitmap + params.len().div_ceil(8), 0);
            body.push(1);
            for (i, param) in params.iter().enumerate() {
                if param.is_none() {
                    body[bitmap + i / 8] |= 1 << (i % 8);
                }
                body.extend_from_slice(&[TYPE_STRING, 0]);
            }
            for param in params.iter().flatten() {
                put_lenenc(&mut body, param.len());
                body.extend_from_slice(param);
            }
        }
        self.send_command(&[COM_STMT_EXECUTE], &body)?;
        self.read_result()
    }

    /// Executes a prepared statement without parameters and passes each row to `f`, as
    /// [`Connection::query_each`] does. Cells have the format of the binary protocol: numbers are
    /// little-endian, not text.
    pub fn query_each_binary(
        &mut self,
        statement: &Statement,
        f: &mut dyn FnMut(Row<'_>) -> ControlFlow<()>,
    ) -> Result<QueryEnd, Error> {
        if statement.params != 0 {
            return Err(Error::Busy {
                what: "the number of parameters is not that of the statement",
            });
        }
        let mut body = statement.id.to_le_bytes().to_vec();
        // No cursor, one iteration.
        body.extend_from_slice(&[0, 1, 0, 0, 0]);
        self.send_command(&[COM_STMT_EXECUTE], &body)?;
        self.read_answer_by(split_binary_row, &mut |_| (), f)
    }

    /// Closes a prepared statement. The server sends no answer.
    pub fn close_statement(&mut self, statement: &Statement) -> Result<(), Error> {
        self.send_command(&[COM_STMT_CLOSE], &statement.id.to_le_bytes())?;
        self.pending.pop_back();
        Ok(())
    }

    /// Sends a packet of rows for a prepared INSERT without waiting; [`Connection::read_result`]
    /// reads the answer. The packet can be cleared and refilled right away.
    pub fn bulk_send(&mut self, packet: &BulkPacket) -> Result<(), Error> {
        if !self.server.has_bulk {
            return Err(Error::Unsupported {
                what: "array-bound insert (COM_STMT_BULK_EXECUTE)",
            });
        }
        if packet.rows() == 0 {
            return Err(Error::Busy {
                what: "the packet has no row",
            });
        }
        self.send_command(&[], packet.bytes())
    }
}
