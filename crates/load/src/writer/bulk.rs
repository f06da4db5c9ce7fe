//! Writes rows by MariaDB's array-bound prepared insert.
//!
//! While the server stores one packet, the next one is encoded: the answer to a packet is read only
//! before the following one is sent.

use std::sync::Arc;
use std::time::Instant;

use refloat_schema::columns::Layout;
use refloat_sqltext::{InsertHeader, InsertVerb, VisitError, quote_ident};
use refloat_wire::{BulkPacket, BulkType, Connection, Error, Statement};

use super::text::TextWriter;
use super::{Attempt, ChunkWriter, Link, Written};
use crate::chunk::{Chunk, Piece};
use crate::context::Context;
use crate::encode::bulk::{BulkSend, BulkSink, bulk_type};
use crate::encode::{Encoder, FlushError, Stop};
use crate::table::Table;

/// Bytes of a packet that are worth a round trip; larger packets only cost cache misses.
pub const PACKET_TARGET: usize = 4 << 20;
/// The first packet of a chunk: the server is idle until it arrives, and a small one is ready
/// sooner. Each following packet is four times as large, up to [`PACKET_TARGET`].
const PACKET_FIRST: usize = 256 << 10;
/// Room left below the server's limit.
const PACKET_SLACK: usize = 1024;

/// The statement that a worker has prepared, and its parameters.
struct Prepared {
    /// Generation of the link's session that it was prepared in.
    generation: u64,
    /// The columns that it was prepared for: another table has others, and so does the same one
    /// after the dump changed it.
    layout: Arc<Layout>,
    header: Vec<u8>,
    charset: String,
    statement: Statement,
    /// The columns of the dump's rows, in their order.
    targets: Vec<usize>,
    /// Types of the parameters, by [`Form::index`].
    types: [Vec<BulkType>; 4],
    /// Which of these forms the packet has.
    form: Form,
}

/// What is known about the values of a packet; it determines the types that they are bound with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Form {
    /// All text is ASCII.
    ascii: bool,
    /// Dates go as numbers.
    dates: bool,
}

impl Form {
    /// All forms, in the order of [`Form::index`].
    const ALL: [Self; 4] = [
        Self {
            ascii: false,
            dates: false,
        },
        Self {
            ascii: true,
            dates: false,
        },
        Self {
            ascii: false,
            dates: true,
        },
        Self {
            ascii: true,
            dates: true,
        },
    ];

    fn index(self) -> usize {
        usize::from(self.ascii) + 2 * usize::from(self.dates)
    }
}

/// Sends packets, and reads each answer only before the next packet.
struct Sender<'a> {
    conn: &'a mut Connection,
    ctx: &'a Context,
    table: &'a Table,
    verb: InsertVerb,
    outstanding: Option<u64>,
    /// Bytes that the next packet should have.
    worth: usize,
    written: Written,
    /// Whether all warnings could be judged.
    judged: bool,
}

impl Sender<'_> {
    fn settle(&mut self) -> Result<(), Error> {
        let Some(rows) = self.outstanding.take() else {
            return Ok(());
        };
        let waiting = Instant::now();
        let ok = self.conn.read_result()?;
        self.ctx.note_server_wait(waiting);
        let warnings = self.ctx.warnings_of(self.conn, self.table, &ok)?;
        let by_text = self.table.is_judged_by_text(self.verb);
        match warnings {
            Some(warnings) if warnings.is_empty() || !by_text => {
                self.ctx.warn_of(self.table, self.verb, warnings);
            }
            _ => self.judged = false,
        }
        let written = Written::by(self.verb, rows, ok.affected_rows);
        self.written.add(written);
        Ok(())
    }

    fn send_packet(&mut self, packet: &mut BulkPacket) -> Result<(), Error> {
        self.settle()?;
        self.conn.bulk_send(packet)?;
        self.outstanding = Some(packet.rows() as u64);
        self.worth = (self.worth * 4).min(PACKET_TARGET);
        packet.clear();
        Ok(())
    }
}

impl BulkSend for &mut Sender<'_> {
    fn send(&mut self, packet: &mut BulkPacket) -> Result<usize, FlushError> {
        self.send_packet(packet).map_err(FlushError::Wire)?;
        Ok(self.worth)
    }
}

/// The statement to prepare: the dump's verb and columns, with one `?` each.
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

/// Writes a chunk as array-bound packets; rows that cannot be bound go as the dump's own text.
#[derive(Default)]
pub struct BulkWriter {
    prepared: Option<Prepared>,
    packet: Option<BulkPacket>,
}

impl ChunkWriter for BulkWriter {
    fn write(&mut self, link: &mut Link, chunk: &Chunk) -> Result<Written, Attempt> {
        let Some(layout) = chunk.table.layout() else {
            return TextWriter.write(link, chunk);
        };
        if !self.prepare(link, chunk, &layout)? {
            return TextWriter.write(link, chunk);
        }
        let mut total = Written::default();
        let mut rest = chunk.pieces.as_slice();
        while !rest.is_empty() {
            let (done, stopped) = self.bind(link, chunk, rest, &layout, &mut total)?;
            if let Some((at, left)) = stopped {
                chunk.table.note_encode_failure();
                total.add(link.insert_rest(chunk, &rest[done], at, left)?);
                rest = &rest[done + 1..];
            } else {
                break;
            }
        }
        Ok(total)
    }
}

impl BulkWriter {
    /// Prepares the chunk's statement unless it already is; `false` if the columns are unknown or
    /// the rows cannot be bound.
    fn prepare(
        &mut self,
        link: &mut Link,
        chunk: &Chunk,
        layout: &Arc<Layout>,
    ) -> Result<bool, Error> {
        if self.prepared.as_ref().is_some_and(|one| {
            one.generation == link.generation()
                && Arc::ptr_eq(&one.layout, layout)
                && one.header == chunk.header.text
                && one.charset == chunk.charset()
        }) {
            return Ok(true);
        }
        let Some(targets) = layout.targets(chunk.header.columns.as_deref()) else {
            return Ok(false);
        };
        // MariaDB's dump tool writes values for generated columns. Unless the session is strict,
        // the server ignores them with a warning for each; here they are not sent.
        let bound: Vec<usize> = targets
            .iter()
            .copied()
            .filter(|&index| !layout.columns[index].generated)
            .collect();
        let computed = bound.len() < targets.len();
        // The row start and end times of system-versioned rows are generated too, but may be given
        // (system_versioning_insert_history).
        if bound.is_empty() || (computed && (chunk.session.is_strict() || layout.versioned)) {
            return Ok(false);
        }
        if let Some(old) = self.prepared.take() {
            link.conn.close_statement(&old.statement)?;
        }
        let statement =
            link.conn
                .prepare(statement_text(&chunk.table, &chunk.header, layout, &bound))?;
        let types = Form::ALL.map(|form| {
            let charset = chunk.charset();
            let of =
                |&index: &usize| bulk_type(&layout.columns[index], charset, form.ascii, form.dates);
            bound.iter().map(of).collect::<Vec<_>>()
        });
        let form = Form::default();
        match &mut self.packet {
            Some(packet) => packet.begin(&statement, &types[form.index()]),
            None => self.packet = Some(BulkPacket::new(&statement, &types[form.index()])),
        }
        let header = chunk.header.text.clone();
        self.prepared = Some(Prepared {
            generation: link.generation(),
            layout: Arc::clone(layout),
            header,
            charset: chunk.charset().to_owned(),
            statement,
            targets,
            types,
            form,
        });
        Ok(true)
    }

    /// Binds and sends `pieces` to the end or to an unfit row; returns the piece it stopped in,
    /// with the byte and the number of rows that are left there.
    fn bind(
        &mut self,
        link: &mut Link,
        chunk: &Chunk,
        pieces: &[Piece],
        layout: &Layout,
        total: &mut Written,
    ) -> Result<(usize, Option<(usize, u64)>), Attempt> {
        let limit = link.conn.max_allowed_packet().saturating_sub(PACKET_SLACK);
        let (Some(prepared), Some(packet)) = (&mut self.prepared, &mut self.packet) else {
            return Ok((0, Some((0, pieces[0].rows))));
        };
        packet.clear();
        let mode = chunk.session.lex_mode();
        let mut sender = Sender {
            conn: &mut link.conn,
            ctx: &link.ctx,
            table: &chunk.table,
            verb: chunk.header.verb,
            outstanding: None,
            worth: PACKET_FIRST,
            written: Written::default(),
            judged: true,
        };
        let mut stopped = None;
        let mut done = 0;
        let mut index = 0;
        let (mut from, mut bound) = (0, 0);
        while let Some(piece) = pieces.get(index) {
            done = index;
            let text = &Link::read_piece(piece, &mut link.buffer)?[from..];
            let form = Form {
                ascii: text.is_ascii(),
                dates: !chunk.table.has_spelled_dates(),
            };
            if form != prepared.form {
                if prepared.types[form.index()] != prepared.types[prepared.form.index()] {
                    if packet.rows() > 0 {
                        sender.send_packet(packet)?;
                    }
                    packet.begin(&prepared.statement, &prepared.types[form.index()]);
                }
                prepared.form = form;
            }
            let mut sink = BulkSink::new(packet, sender.worth, limit, form.dates, &mut sender);
            let mut encoder = Encoder::new(
                &layout.columns,
                &prepared.targets,
                chunk.charset(),
                &mut sink,
            );
            let result = chunk.form.visit(text, mode, &mut encoder);
            let rows = encoder.rows;
            match result {
                Ok(_) => {}
                Err(VisitError::Visitor {
                    error: Stop::Unfit(at),
                    ..
                }) => {
                    sink.forget_row();
                    stopped = Some((from + at, piece.rows - bound - rows));
                    break;
                }
                Err(VisitError::Visitor {
                    error: Stop::Spelled(at),
                    ..
                }) => {
                    // From this row on, dates go as text.
                    sink.forget_row();
                    chunk.table.note_spelled_dates();
                    from += at;
                    bound += rows;
                    continue;
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
                    return Err(Attempt::RowTooLarge { size });
                }
                // Not what the walker recognizes as tuples: the server's parser decides about the
                // whole piece.
                Err(VisitError::Syntax { .. }) => {
                    sender.settle()?;
                    return Err(Attempt::NotExact(
                        "the rows could not be read as literals".to_owned(),
                    ));
                }
            }
            (index, from, bound) = (index + 1, 0, 0);
        }
        if packet.rows() > 0 {
            sender.send_packet(packet)?;
        }
        sender.settle()?;
        if !sender.judged {
            chunk.table.make_plain();
            return Err(Attempt::many_notes());
        }
        total.add(sender.written);
        Ok((done, stopped))
    }
}
