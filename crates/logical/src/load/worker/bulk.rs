//! Rows by MariaDB's array-bound prepared insert.
//!
//! While the server stores one packet the next one is encoded: a packet is sent, and its answer is read only before the
//! following one goes out.

use std::sync::Arc;
use std::time::Instant;

use refloat_sqltext::{InsertHeader, InsertVerb, VisitError, quote_ident, visit_rows};
use refloat_wire::{BulkPacket, BulkType, Connection, Error, Statement};

use super::{Attempt, Worker, Written};
use crate::load::chunk::{Chunk, Piece};
use crate::load::context::Context;
use crate::load::encode::bulk::{BulkSend, BulkSink, bulk_type};
use crate::load::encode::{Encoder, FlushError, Stop};
use crate::load::table::{Layout, Table};

/// Bytes of a packet that are worth a round trip; larger packets only cost cache.
pub const PACKET_TARGET: usize = 4 << 20;
/// Room left below the server's limit.
const PACKET_SLACK: usize = 1024;

/// The statement that a worker has prepared, and what its parameters are.
pub(super) struct Prepared {
    /// The columns that it was prepared for: another table, or the same one after the dump changed it, has others.
    layout: Arc<Layout>,
    header: Vec<u8>,
    statement: Statement,
    targets: Vec<usize>,
    /// Types of the parameters for any text, and for text that is all ASCII.
    types: [Vec<BulkType>; 2],
    /// Which of the two the packet has.
    ascii: bool,
}

/// Sends packets and reads their answers one packet late.
struct Sender<'a> {
    conn: &'a mut Connection,
    ctx: &'a Context,
    table: &'a Table,
    verb: InsertVerb,
    outstanding: Option<u64>,
    written: Written,
}

impl Sender<'_> {
    fn settle(&mut self) -> Result<(), Error> {
        let Some(rows) = self.outstanding.take() else {
            return Ok(());
        };
        let waiting = Instant::now();
        let ok = self.conn.read_result()?;
        self.ctx.note_server_wait(waiting);
        self.ctx.judge(self.conn, self.table, self.verb, &ok)?;
        match self.verb {
            InsertVerb::Insert => self.written.rows += ok.affected_rows,
            InsertVerb::InsertIgnore => {
                self.written.rows += ok.affected_rows;
                self.written.ignored += rows.saturating_sub(ok.affected_rows);
            }
            InsertVerb::Replace => self.written.rows += rows,
        }
        Ok(())
    }

    fn send_packet(&mut self, packet: &mut BulkPacket) -> Result<(), Error> {
        self.settle()?;
        self.conn.bulk_send(packet)?;
        self.outstanding = Some(packet.rows() as u64);
        packet.clear();
        Ok(())
    }
}

impl BulkSend for &mut Sender<'_> {
    fn send(&mut self, packet: &mut BulkPacket) -> Result<(), FlushError> {
        self.send_packet(packet).map_err(FlushError::Wire)
    }
}

/// The statement to prepare: the dump's verb and columns, one `?` for each.
fn statement_text(
    table: &Table,
    header: &InsertHeader,
    layout: &Layout,
    targets: &[usize],
) -> String {
    let verb = match header.verb {
        InsertVerb::Insert => "INSERT INTO",
        InsertVerb::InsertIgnore => "INSERT IGNORE INTO",
        InsertVerb::Replace => "REPLACE INTO",
    };
    let columns: Vec<String> = targets
        .iter()
        .map(|&index| quote_ident(&layout.columns[index].name))
        .collect();
    let marks = vec!["?"; targets.len()];
    format!(
        "{verb} {} ({}) VALUES ({})",
        table.quoted(),
        columns.join(","),
        marks.join(",")
    )
}

impl Worker {
    /// Writes a chunk as array-bound packets; rows that cannot be bound go as the dump's own text.
    pub(super) fn write_bulk(&mut self, chunk: &Chunk) -> Result<Written, Attempt> {
        let Some(layout) = chunk.table.layout() else {
            return self.write_text(chunk);
        };
        if !self.prepare_bulk(chunk, &layout)? {
            return self.write_text(chunk);
        }
        let mut total = Written::default();
        let mut rest = chunk.pieces.as_slice();
        while !rest.is_empty() {
            let (done, stopped) = self.bind(chunk, rest, &layout, &mut total)?;
            if let Some((at, left)) = stopped {
                chunk.table.note_encode_failure();
                total.add(self.insert_rest(chunk, &rest[done], at, left)?);
                rest = &rest[done + 1..];
            } else {
                break;
            }
        }
        Ok(total)
    }

    /// Prepares the chunk's statement unless it still is; `false` when the columns are not known.
    fn prepare_bulk(&mut self, chunk: &Chunk, layout: &Arc<Layout>) -> Result<bool, Error> {
        if self
            .prepared
            .as_ref()
            .is_some_and(|one| Arc::ptr_eq(&one.layout, layout) && one.header == chunk.header.text)
        {
            return Ok(true);
        }
        let Some(targets) = layout.targets(chunk.header.columns.as_deref()) else {
            return Ok(false);
        };
        if targets.is_empty() || targets.iter().any(|&index| layout.columns[index].generated) {
            return Ok(false);
        }
        if let Some(old) = self.prepared.take() {
            self.conn.close_statement(&old.statement)?;
        }
        let statement = self.conn.prepare(statement_text(
            &chunk.table,
            &chunk.header,
            layout,
            &targets,
        ))?;
        let types = [false, true].map(|ascii| {
            let of =
                |&index: &usize| bulk_type(&layout.columns[index], chunk.session.charset(), ascii);
            targets.iter().map(of).collect::<Vec<_>>()
        });
        match &mut self.packet {
            Some(packet) => packet.begin(&statement, &types[0]),
            None => self.packet = Some(BulkPacket::new(&statement, &types[0])),
        }
        let header = chunk.header.text.clone();
        self.prepared = Some(Prepared {
            layout: Arc::clone(layout),
            header,
            statement,
            targets,
            types,
            ascii: false,
        });
        Ok(true)
    }

    /// Binds and sends `pieces` until the end or an unfit row; returns the piece it stopped in, with the byte and the
    /// number of rows that are left there.
    fn bind(
        &mut self,
        chunk: &Chunk,
        pieces: &[Piece],
        layout: &Layout,
        total: &mut Written,
    ) -> Result<(usize, Option<(usize, u64)>), Attempt> {
        let limit = self.conn.max_allowed_packet().saturating_sub(PACKET_SLACK);
        let (Some(prepared), Some(packet)) = (&mut self.prepared, &mut self.packet) else {
            return Ok((0, Some((0, pieces[0].rows))));
        };
        packet.clear();
        let mode = chunk.session.lex_mode();
        let mut sender = Sender {
            conn: &mut self.conn,
            ctx: &self.ctx,
            table: &chunk.table,
            verb: chunk.header.verb,
            outstanding: None,
            written: Written::default(),
        };
        let mut stopped = None;
        let mut done = 0;
        for (index, piece) in pieces.iter().enumerate() {
            done = index;
            let text = Self::read_piece(piece, &mut self.buffer)?;
            let ascii = text.is_ascii();
            if ascii != prepared.ascii && prepared.types[0] != prepared.types[1] {
                if packet.rows() > 0 {
                    sender.send_packet(packet)?;
                }
                packet.begin(&prepared.statement, &prepared.types[usize::from(ascii)]);
                prepared.ascii = ascii;
            }
            let mut sink = BulkSink::new(packet, PACKET_TARGET.min(limit), limit, &mut sender);
            let mut encoder = Encoder::new(
                &layout.columns,
                &prepared.targets,
                chunk.session.charset(),
                &mut sink,
            );
            let result = visit_rows(text, mode, &mut encoder);
            let rows = encoder.rows;
            match result {
                Ok(_) => {}
                Err(VisitError::Visitor {
                    error: Stop::Unfit(at),
                    ..
                }) => {
                    sink.forget_row();
                    stopped = Some((at, piece.rows - rows));
                    break;
                }
                Err(VisitError::Visitor {
                    error: Stop::Flush(FlushError::Wire(error)),
                    ..
                }) => return Err(error.into()),
                Err(VisitError::Visitor {
                    error: Stop::Flush(FlushError::RowTooLarge { size }),
                    ..
                }) => {
                    sender.settle()?;
                    return Err(Attempt::RowTooLarge {
                        offset: piece.offset,
                        line: piece.line,
                        size,
                    });
                }
                // Not what the walker knows as tuples: the server's parser has the last word on the whole piece.
                Err(VisitError::Syntax { .. }) => {
                    sender.settle()?;
                    return Err(Attempt::NotExact(
                        "the rows could not be read as literals".to_owned(),
                    ));
                }
            }
        }
        if packet.rows() > 0 {
            sender.send_packet(packet)?;
        }
        sender.settle()?;
        total.add(sender.written);
        Ok((done, stopped))
    }
}
