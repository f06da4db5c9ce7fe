//! Writes rows by `LOAD DATA LOCAL INFILE`.
//!
//! `LOCAL` makes the server skip duplicates and turn errors into warnings, whatever the `sql_mode`.
//! So each statement's information line is compared with what was sent before anything is
//! committed. A statement that was not exact is rolled back and written as the dump's own text,
//! which the server refuses with a message for the row.

use std::sync::Arc;
use std::time::Instant;

use refloat_schema::columns::{ColumnClass, Layout};
use refloat_source::delimited::{Decode, Delimited, DelimitedRows};
use refloat_sqltext::{InsertVerb, LexMode, VisitError, quote_ident};
use refloat_wire::{Connection, Vendor};

use super::text::TextWriter;
use super::{Attempt, ChunkWriter, Link, Written};
use crate::chunk::Chunk;
use crate::context::NOT_ABOUT_VALUES;
use crate::encode::tsv::{TsvSend, TsvSink};
use crate::encode::{Encoder, FlushError, Stop};
use crate::form::Form;
use crate::table::Table;

/// The character set of text in UTF-8.
const UTF8: &str = "utf8mb4";
/// The first byte of a four-byte UTF-8 character is at least this; `utf8mb3` has no such
/// characters.
const FOUR_BYTES: u8 = 0xF0;
/// Bytes sent at a time.
const SEND_TARGET: usize = 1 << 20;

struct Sender<'a>(&'a mut Connection);

impl TsvSend for &mut Sender<'_> {
    fn send(&mut self, text: &mut Vec<u8>) -> Result<(), FlushError> {
        self.0.load_write(text).map_err(FlushError::Wire)?;
        text.clear();
        Ok(())
    }
}

/// The format of fields and lines, in hexadecimal because `sql_mode` decides what a backslash in a
/// literal means, and also what an omitted clause means: under `NO_BACKSLASH_ESCAPES` nothing is
/// escaped unless the statement says so (MySQL 9.7.4: `\N` would be the text, not NULL).
const FIELDS: &str =
    "FIELDS TERMINATED BY X'09' ENCLOSED BY '' ESCAPED BY X'5C' LINES TERMINATED BY X'0A'";

/// The statement; the file name is only a word that both sides agree on.
///
/// The stream is `binary`, so that its bytes are stored unchanged. In a multi-byte character set
/// the server would look for character boundaries before those of fields, even in columns without a
/// character set: bytes that begin a character without completing it swallow the escape that
/// follows (seen on 9.7.4 with 0xE05C27 in a `BLOB`), and no count or warning reveals it. Text that
/// must be converted for its column is converted explicitly; the second value says whether there is
/// such text.
fn statement_text(
    table: &Table,
    layout: &Layout,
    targets: &[usize],
    charset: &str,
) -> (String, bool) {
    let mut fields = Vec::with_capacity(targets.len());
    let mut conversions = Vec::new();
    for &index in targets {
        let column = &layout.columns[index];
        let name = quote_ident(&column.name);
        let as_it_is = match column.charset.as_deref() {
            Some(column_charset) => {
                charset == "binary"
                    || column_charset == charset
                    || (column_charset, charset) == ("utf8mb3", UTF8)
            }
            None => false,
        };
        if column.class != ColumnClass::Text || as_it_is {
            fields.push(name);
        } else {
            // A text type without a character set (JSON) refuses `binary` strings.
            let charset = if charset == "binary" {
                "utf8mb4"
            } else {
                charset
            };
            fields.push(format!("@refloat_{index}"));
            conversions.push(format!(
                "{name} = CONVERT(@refloat_{index} USING {charset})"
            ));
        }
    }
    let set = if conversions.is_empty() {
        String::new()
    } else {
        format!(" SET {}", conversions.join(", "))
    };
    let text = format!(
        "LOAD DATA LOCAL INFILE 'refloat' INTO TABLE {} CHARACTER SET binary {FIELDS} ({}){set}",
        table.quoted(),
        fields.join(",")
    );
    (text, !conversions.is_empty())
}

/// Whether the text of a file can be sent exactly as it is.
fn is_ready(rows: &DelimitedRows) -> bool {
    rows.format.is_default() && rows.decode.iter().all(|how| *how == Decode::Plain)
}

/// Ends the last line of a file that does not end with a newline, because more rows may follow.
fn end_line(conn: &mut Connection, text: &[u8]) -> Result<(), refloat_wire::Error> {
    if Delimited::default().is_open(text) {
        conn.load_write(b"\n")?;
    }
    Ok(())
}

/// Whether all warnings of the last statement concern only how values are written, or values that
/// the server computes.
fn are_about_notation(
    conn: &mut Connection,
    table: &Table,
    warnings: u64,
) -> Result<bool, refloat_wire::Error> {
    let mut found = conn.warnings()?;
    let all = found.len() as u64;
    found.retain(|one| !NOT_ABOUT_VALUES.contains(&one.code));
    let of_computed = table.remove_notes_about_computed(&mut found);
    if of_computed && all < warnings {
        // Statements of text can be kept short enough.
        table.make_plain();
    }
    Ok(all == warnings && found.is_empty())
}

/// How a chunk is sent.
struct Sending {
    layout: Arc<Layout>,
    /// The column that each field fills.
    targets: Vec<usize>,
    statement: String,
    /// How to read the dump's text.
    mode: LexMode,
    /// Whether the text is in the old UTF-8.
    old_utf8: bool,
    /// Whether the text of a file is sent exactly as it is.
    passes: bool,
}

/// The rows of a chunk that were sent, and those that follow as the dump's own text.
#[derive(Default)]
struct Sent {
    rows: u64,
    /// Index of the piece, the byte from which on its rows were not sent, and their number.
    unfit: Vec<(usize, usize, u64)>,
}

impl Sending {
    /// `None` if the rows have to be written as the dump's own text.
    fn of(conn: &Connection, chunk: &Chunk) -> Option<Self> {
        let layout = chunk.table.layout()?;
        let targets = layout.targets(chunk.header.columns.as_deref())?;
        let unknown = chunk.header.verb != InsertVerb::Insert
            || layout.lacks_value(&targets)
            || targets.iter().any(|&index| layout.columns[index].generated);
        if unknown || targets.is_empty() {
            return None;
        }
        // MySQL warns about each row if the old character set is named. Text without four-byte
        // characters is the same in both.
        let old_utf8 = matches!(chunk.charset(), "utf8" | "utf8mb3");
        let charset = if old_utf8 { UTF8 } else { chunk.charset() };
        let (statement, converts) = statement_text(&chunk.table, &layout, &targets, charset);
        // With a SET clause, MariaDB 10.11 generates a value for an AUTO_INCREMENT value of 0,
        // whatever the sql_mode.
        if converts
            && conn.server().vendor == Vendor::MariaDb
            && layout.columns.iter().any(|column| column.auto_increment)
        {
            return None;
        }
        Some(Self {
            layout,
            targets,
            statement,
            mode: chunk.session.lex_mode(),
            old_utf8,
            passes: chunk.form.delimited().is_some_and(is_ready),
        })
    }

    /// Sends the rows of all pieces.
    fn send(&self, link: &mut Link, chunk: &Chunk) -> Result<Sent, Attempt> {
        let mut sent = Sent::default();
        link.text.clear();
        for (index, piece) in chunk.pieces.iter().enumerate() {
            // The statement has begun: an error here closes its connection, and the server rolls
            // everything back.
            let text = Link::read_piece(piece, &mut link.buffer)?;
            if self.old_utf8 && text.iter().any(|&byte| byte >= FOUR_BYTES) {
                sent.unfit.push((index, 0, piece.rows));
                continue;
            }
            if self.passes {
                link.conn
                    .load_write(text)
                    .and_then(|()| end_line(&mut link.conn, text))?;
                sent.rows += piece.rows;
                continue;
            }
            let sender = Sender(&mut link.conn);
            let (rows, unfit) = self.encode(sender, &mut link.text, chunk, text)?;
            sent.rows += rows;
            if let Some(at) = unfit {
                sent.unfit.push((index, at, piece.rows - rows));
            }
        }
        if !link.text.is_empty() {
            link.conn.load_write(&link.text)?;
        }
        Ok(sent)
    }

    /// Encodes the rows of a piece. Returns their number and, if it had to stop, where the first
    /// row starts that was not sent.
    fn encode(
        &self,
        mut sender: Sender,
        lines: &mut Vec<u8>,
        chunk: &Chunk,
        text: &[u8],
    ) -> Result<(u64, Option<usize>), Attempt> {
        let mut sink = match &chunk.form {
            Form::Tuples => TsvSink::new(lines, SEND_TARGET, text, self.mode, &mut sender),
            Form::Delimited(_) => TsvSink::of_bytes(lines, SEND_TARGET, &mut sender),
        };
        let columns = &self.layout.columns;
        let mut encoder = Encoder::new(columns, &self.targets, chunk.charset(), &mut sink);
        let result = chunk.form.visit(text, self.mode, &mut encoder);
        let (rows, row_start) = (encoder.rows, encoder.row_start());
        let unfit = match result {
            Ok(_) => return Ok((rows, None)),
            Err(VisitError::Visitor {
                error: Stop::Unfit(at) | Stop::Spelled(at),
                ..
            }) => at,
            Err(VisitError::Visitor {
                error: Stop::Flush(FlushError::Wire(error)),
                ..
            }) => return Err(error.into()),
            Err(VisitError::Visitor {
                error: Stop::Flush(FlushError::RowTooLarge { size }),
                ..
            }) => return Err(Attempt::RowTooLarge { size }),
            // The rows are counted again at the end: anything that the walker misread makes the
            // counts differ.
            Err(VisitError::Syntax { .. }) => row_start,
        };
        sink.forget_row();
        Ok((rows, Some(unfit)))
    }
}

/// Ends the statement, and compares what the server says about it with the number of rows that were
/// sent.
fn finish(link: &mut Link, table: &Table, sent: u64) -> Result<(), Attempt> {
    let waiting = Instant::now();
    let ok = link.conn.load_finish()?;
    link.ctx.note_server_wait(waiting);
    let count = |name| ok.info_count(name).unwrap_or(u64::MAX);
    let (records, deleted, skipped, warnings) = (
        count("Records"),
        count("Deleted"),
        count("Skipped"),
        count("Warnings"),
    );
    let harmless = warnings == 0 || are_about_notation(&mut link.conn, table, warnings)?;
    if records != sent || deleted != 0 || skipped != 0 || !harmless {
        return Err(Attempt::NotExact(format!(
            "{sent} rows were sent; the server says: {}",
            ok.info
        )));
    }
    Ok(())
}

/// Writes a chunk by one `LOAD DATA`; rows that it cannot express follow as the dump's own text.
#[derive(Default)]
pub struct LoadDataWriter;

impl ChunkWriter for LoadDataWriter {
    fn write(&mut self, link: &mut Link, chunk: &Chunk) -> Result<Written, Attempt> {
        let Some(sending) = Sending::of(&link.conn, chunk) else {
            return TextWriter.write(link, chunk);
        };
        link.conn.load_begin(&sending.statement)?;
        let sent = sending.send(link, chunk)?;
        finish(link, &chunk.table, sent.rows)?;
        let mut total = Written {
            rows: sent.rows,
            ignored: 0,
            as_it_stands: if sending.passes { sent.rows } else { 0 },
        };
        for (index, at, left) in sent.unfit {
            chunk.table.note_encode_failure();
            total.add(link.insert_rest(chunk, &chunk.pieces[index], at, left)?);
        }
        Ok(total)
    }
}
