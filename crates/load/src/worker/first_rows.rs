//! Test writes of the first rows of a table, before any of them goes into the table itself.
//!
//! `LOAD DATA` and the array-bound insert receive values in another form than the dump has them. If
//! a value changes on the way, no count reveals it. So when a table first gets a chunk by such a
//! path, some rows are written to two temporary tables like it: to one by that path, to the other
//! as the dump's own `INSERT`, in the dump's session at this place. They are the chunk's first
//! rows, and later ones with kinds of values that the first ones lack ([`kinds`]). Both tables must
//! hold the same bytes, or the load ends before a row of the chunk is stored. Then the first rows
//! are written to the table itself as a chunk of their own, and all of it is read back
//! ([`read_back`]). What cannot be read back is a smaller chunk, all of which goes to the temporary
//! tables. This happens once for each session, column list and path of a table.
//!
//! Temporary tables have no triggers and no foreign keys, and belong to their connection. They are
//! kept out of the binary log.

mod judge;
mod kinds;
mod read_back;
mod sample;

use std::sync::{Arc, MutexGuard};

use refloat_schema::columns::{Column, ColumnClass};
use refloat_schema::display::two_values;
use refloat_sqltext::{InsertVerb, LexMode, quote_ident};
use refloat_wire::Error;

use super::{Worker, is_exact, source_error};
use crate::chunk::{Chunk, Piece};
use crate::error::{LoadError, OtherValue, SentRow};
use crate::form::Form;
use crate::options::WritePath;
use crate::table::{Compared, Kind, Table};
use crate::writer::Attempt;
pub use read_back::ReadBack;
use sample::{Rows, Sample, Shape};

/// A first chunk of up to this many rows and bytes of text goes as the dump's own text, unless a
/// path was requested: a comparison would cost the server more time than the faster path saves (2.6
/// ms per table, compared with 5 µs per row; `bench/small`).
const FEW_ROWS: u64 = 500;
const FEW_BYTES: usize = kinds::FIRST_BYTES;
/// Bytes of text of a first chunk that is read back. Reading a row back takes the server and this
/// program half as long as writing it (docs/design/load.md).
const READ_BACK_BYTES: usize = 256 << 10;
/// Each piece counts as at least this many bytes, so that a first chunk has no more pieces than the
/// search for rows to compare looks at.
const PIECE_LEAST: usize = 64;
/// How often the server may refuse first rows of a table before the comparison is given up. It is
/// tried more than once because later rows may be ones that the server accepts.
const REFUSED_MAX: u32 = 3;
/// The temporary tables; no table of a dump can have these names.
const TABLES: [&str; 2] = ["refloat_rows_by_path", "refloat_rows_as_text"];
/// A stopped clock, in seconds since 1970, for values that the server takes from it.
const STOP_CLOCK: &str = "SET SESSION timestamp = 1700000000";
const START_CLOCK: &str = "SET SESSION timestamp = DEFAULT";

/// Why a difference says nothing.
const NEVER_THE_SAME: &str = "the same text is stored as something else each time";

/// Why two ways of writing were not compared.
enum Halt {
    /// The connection or the source failed, or the load is ending.
    Fatal(Attempt),
    /// It is not possible, for this reason.
    Impossible(String),
    /// The server refused the rows in one of the two ways.
    Refused(String),
}

/// The first rows of a kind, which no other writer of the table overtakes.
pub struct First<'a> {
    compared: MutexGuard<'a, Compared>,
    kind: Kind,
    /// The columns that they fill.
    pub shape: Shape,
}

impl First<'_> {
    /// Lets other writers of the table go on.
    pub fn examined(mut self) {
        self.compared.note(self.kind);
    }

    /// The same, once the first rows were found in the table.
    pub fn read_back(mut self) {
        self.compared.read_back = true;
        self.examined();
    }

    /// Whether the table has a few rows of this load, sent as the dump's own text.
    pub fn follows_a_few(&self) -> bool {
        self.compared.few
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        if error.server_code().is_some() && !error.is_lost_connection() {
            Self::Refused(error.to_string())
        } else {
            Self::Fatal(Attempt::Wire(error))
        }
    }
}

/// The first value that differs.
struct Difference {
    column: String,
    by_path: String,
    as_text: String,
}

/// The columns that a chunk fills, if its rows are sent in another form than the dump has them.
fn in_other_form(chunk: &Chunk, path: WritePath) -> Option<Shape> {
    let as_text = match path {
        WritePath::Bulk => false,
        WritePath::LoadData => chunk.header.verb != InsertVerb::Insert,
        WritePath::Insert | WritePath::Auto | WritePath::Tablespace => true,
    };
    if as_text || chunk.table.is_view() {
        return None;
    }
    let layout = chunk.table.layout()?;
    let targets = layout.targets(chunk.header.columns.as_deref())?;
    let shape = Shape { layout, targets };
    (!shape.given().is_empty()).then_some(shape)
}

/// Whether a first chunk can be read back, as far as this load knows the table.
fn may_be_read_back(chunk: &Chunk, shape: &Shape, follows_a_few: bool) -> bool {
    let apart = if follows_a_few { FEW_ROWS } else { 0 };
    ReadBack::is_possible(chunk, shape) && chunk.table.expected() <= apart
}

/// The kind of a chunk's rows.
fn kind_of(chunk: &Chunk, path: WritePath) -> Kind {
    Kind {
        session: Arc::clone(&chunk.session),
        header: Arc::clone(&chunk.header),
        path,
    }
}

/// Splits pieces after their first rows: as many as fit into `room`, but at least one. `None` if
/// these are all, or if only the server can tell the rows of the first piece apart.
fn split(
    pieces: &[Piece],
    (form, mode): (&Form, LexMode),
    mut room: usize,
    buffer: &mut Vec<u8>,
) -> Result<Option<[Vec<Piece>; 2]>, LoadError> {
    let fits = |piece: &&Piece| {
        let left = room.checked_sub(piece.len().max(PIECE_LEAST));
        room = left.unwrap_or(room);
        left.is_some()
    };
    let whole = pieces.iter().take_while(fits).count();
    let Some(piece) = pieces.get(whole) else {
        return Ok(None);
    };
    let [mut first, mut rest] = [pieces[..whole].to_vec(), Vec::new()];
    let failed = |source| source_error(piece.source.to_string(), piece.offset, source);
    let text = piece.text(buffer).map_err(failed)?;
    let rows = form.bounds(text, mode);
    if rows.len() as u64 == piece.rows {
        let fit = rows.partition_point(|row| row.end <= room);
        let cut = fit.max(usize::from(first.is_empty()));
        for (part, which) in [(&mut first, 0..cut), (&mut rest, cut..rows.len())] {
            if !which.is_empty() {
                part.push(piece.part(text, &rows, which).0);
            }
        }
    } else {
        rest.push(piece.clone());
    }
    rest.extend_from_slice(&pieces[whole + 1..]);
    let is_cut = !first.is_empty() && !rest.is_empty();
    Ok(is_cut.then_some([first, rest]))
}

impl Worker {
    /// Cuts the first rows of their kind off a chunk, if they are sent in another form than the
    /// dump has them: all of them will be compared.
    pub(super) fn cut_first(
        &mut self,
        chunk: &Chunk,
        path: WritePath,
    ) -> Result<Option<[Chunk; 2]>, LoadError> {
        let Some(shape) = in_other_form(chunk, path) else {
            return Ok(None);
        };
        let compared = chunk.table.compared();
        let room = if may_be_read_back(chunk, &shape, compared.few) {
            READ_BACK_BYTES
        } else {
            kinds::ALL_BYTES
        };
        if compared.knows(&kind_of(chunk, path)) || self.are_few(chunk, &compared) {
            return Ok(None);
        }
        drop(compared);
        let rows = (&chunk.form, chunk.session.lex_mode());
        let parts = split(&chunk.pieces, rows, room, &mut self.link.buffer)?;
        Ok(parts.map(|parts| {
            parts.map(|pieces| {
                let mut part = Chunk::new(chunk.head.clone());
                for piece in pieces {
                    part.push(piece);
                }
                part
            })
        }))
    }

    /// Whether the rows of a first chunk go as the dump's own text because they are few.
    fn are_few(&self, chunk: &Chunk, compared: &Compared) -> bool {
        let nobody_asked = self.link.ctx.options.write_path.over_sql() == WritePath::Auto;
        let few = chunk.rows <= FEW_ROWS && chunk.bytes <= FEW_BYTES;
        few && nobody_asked && !compared.few && matches!(chunk.form, Form::Tuples)
    }

    /// The path to write the rows of a chunk by: the intended one if it stores what the dump has,
    /// or the dump's own text if the server refuses them. For the first rows of their kind by that
    /// path, also what must be read back before any other rows of the table are written. The sample
    /// is taken from `sampled`, which begins with the chunk.
    pub(super) fn proven_path<'a>(
        &mut self,
        chunk: &'a Chunk,
        sampled: &Chunk,
        path: WritePath,
    ) -> Result<(WritePath, Option<First<'a>>), Attempt> {
        let Some(shape) = in_other_form(chunk, path) else {
            return Ok((path, None));
        };
        let kind = kind_of(chunk, path);
        let mut compared = chunk.table.compared();
        if compared.knows(&kind) {
            return Ok((path, None));
        }
        if self.are_few(sampled, &compared) {
            compared.few = true;
            return Ok((WritePath::Insert, None));
        }
        let looked = self
            .sample(sampled, path, shape.clone(), compared.few)
            .and_then(|sample| self.try_both(&sample));
        match looked {
            Ok(()) => compared.any = true,
            Err(Halt::Fatal(failed)) => return Err(failed),
            // Then it will refuse this chunk as well, or the next one, and say which row is to
            // blame.
            Err(Halt::Refused(_)) if compared.refused < REFUSED_MAX => {
                compared.refused += 1;
                return Ok((WritePath::Insert, None));
            }
            Err(Halt::Refused(words)) => {
                let reason =
                    format!("the server does not take them into a temporary table ({words})");
                self.link.ctx.note_not_compared(&chunk.table, reason);
            }
            Err(Halt::Impossible(reason)) => {
                self.link.ctx.note_not_compared(&chunk.table, reason);
            }
        }
        let first = First {
            compared,
            kind,
            shape,
        };
        Ok((path, Some(first)))
    }

    /// The rows of a chunk to compare: all its first rows if they will not be read back.
    fn sample<'a>(
        &mut self,
        chunk: &'a Chunk,
        path: WritePath,
        shape: Shape,
        follows_a_few: bool,
    ) -> Result<Sample<'a>, Halt> {
        let mut columns = shape.layout.columns.iter();
        // The temporary tables would consume numbers of the sequence.
        if let Some(column) = columns.find(|column| column.from_sequence) {
            let name = &column.name;
            let reason = format!("the default of column {name} is the next value of a sequence");
            return Err(Halt::Impossible(reason));
        }
        let all = !may_be_read_back(chunk, &shape, follows_a_few);
        Ok(Sample {
            chunk,
            path,
            shape,
            rows: Rows::of(chunk, all, &mut self.link.buffer)?,
        })
    }

    /// Compares what a path stores with what an `INSERT` stores.
    fn try_both(&mut self, sample: &Sample<'_>) -> Result<(), Halt> {
        let quiet = self.keep_out_of_binlog(sample)?;
        let looked = match self.differ(sample, &sample.rows, [sample.path, WritePath::Insert]) {
            Ok(Some(_)) => self.try_again(sample),
            Ok(None) => Ok(()),
            Err(halt) => Err(halt),
        };
        if quiet && !matches!(looked, Err(Halt::Fatal(_))) {
            self.link.conn.exec("SET SESSION sql_log_bin = 1")?;
        }
        looked
    }

    /// Turns the connection's binary log off if temporary tables would get into it; returns whether
    /// it did.
    fn keep_out_of_binlog(&mut self, sample: &Sample<'_>) -> Result<bool, Halt> {
        let ctx = Arc::clone(&self.link.ctx);
        if ctx.binlog_off
            || !sample.chunk.session.logs()
            || !ctx.logs_temporary_tables(&mut self.link.conn)?
        {
            return Ok(false);
        }
        match self.link.conn.exec("SET SESSION sql_log_bin = 0") {
            Ok(_) => Ok(true),
            Err(error) if error.is_access_denied() => Err(Halt::Impossible(
                "the server would write temporary tables to its binary log, and the account may not keep them out of it".to_owned(),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Confirms a difference, and finds the row.
    fn try_again(&mut self, sample: &Sample<'_>) -> Result<(), Halt> {
        // If the clock cannot be stopped, the difference must show up again anyway.
        let stopped = match self.link.conn.exec(STOP_CLOCK) {
            Ok(_) => true,
            Err(error) if error.is_lost_connection() => return Err(error.into()),
            Err(_) => false,
        };
        let found = self.find_row(sample);
        if stopped && !matches!(found, Err(Halt::Fatal(_))) {
            self.link.conn.exec(START_CLOCK)?;
        }
        match found? {
            Some(error) => Err(Halt::Fatal(Attempt::Otherwise(Box::new(error)))),
            None => Ok(()),
        }
    }

    fn find_row(&mut self, sample: &Sample<'_>) -> Result<Option<LoadError>, Halt> {
        let ways = [sample.path, WritePath::Insert];
        let Some(mut found) = self.differ(sample, &sample.rows, ways)? else {
            return Ok(None);
        };
        let twice = [WritePath::Insert, WritePath::Insert];
        if self.differ(sample, &sample.rows, twice)?.is_some() {
            return Err(Halt::Impossible(NEVER_THE_SAME.to_owned()));
        }
        let mut rows = sample.rows.clone();
        while let Some(halves) = rows.halves(sample.chunk, &mut self.link.buffer)? {
            let mut differing = None;
            for half in halves {
                if let Some(difference) = self.differ(sample, &half, ways)? {
                    differing = Some((difference, half));
                    break;
                }
            }
            let Some(differing) = differing else { break };
            (found, rows) = differing;
        }
        Ok(Some(LoadError::StoredOtherwise(Box::new(OtherValue {
            row: sent(&rows.all, &sample.chunk.table, sample.path),
            column: found.column,
            by_path: found.by_path,
            as_text: found.as_text,
        }))))
    }

    /// Writes rows to two temporary tables, and returns the first difference.
    fn differ(
        &mut self,
        sample: &Sample<'_>,
        rows: &Rows,
        ways: [WritePath; 2],
    ) -> Result<Option<Difference>, Halt> {
        let mut made = Vec::new();
        let found = self.compare(sample, rows, ways, &mut made);
        // After a fatal error the connection may be in the middle of rows, where no statement can
        // be sent.
        if !made.is_empty() && !matches!(found, Err(Halt::Fatal(_))) {
            let statement = format!("DROP TEMPORARY TABLE {}", made.join(", "));
            self.link.conn.exec(statement)?;
        }
        found
    }

    /// Writes a chunk that is only looked at.
    fn write_as(&mut self, chunk: &Chunk, way: WritePath) -> Result<(), Halt> {
        let written = self.writers.by(way).write(&mut self.link, chunk);
        let exact = written.and_then(|written| is_exact(chunk, written));
        exact.map_err(|failed| match failed {
            Attempt::Wire(error) => error.into(),
            Attempt::NotExact(words) => Halt::Refused(words),
            Attempt::RowTooLarge { .. } => Halt::Refused("a row is too large".to_owned()),
            failed @ (Attempt::Source { .. } | Attempt::Otherwise(_)) => Halt::Fatal(failed),
        })
    }

    fn compare(
        &mut self,
        sample: &Sample<'_>,
        rows: &Rows,
        ways: [WritePath; 2],
        made: &mut Vec<String>,
    ) -> Result<Option<Difference>, Halt> {
        let shape = self.make_tables(sample, made)?;
        for (name, way) in TABLES.into_iter().zip(ways) {
            let trial = Table::trial(&sample.chunk.table.db, name, Arc::clone(&shape.layout));
            self.write_as(&sample.on(trial, &shape, rows, way), way)?;
        }
        let given = shape.given();
        let values: Vec<String> = given.iter().map(|column| as_bytes(column)).collect();
        let values = values.join(", ");
        let stored = self.link.conn.query(format!(
            "SELECT 0, {values} FROM {} UNION ALL SELECT 1, {values} FROM {}",
            made[0], made[1]
        ))?;
        let (mut by_path, mut as_text): (Vec<_>, Vec<_>) =
            stored.rows.into_iter().partition(|row| {
                row.first()
                    .is_some_and(|side| side.as_deref() == Some(b"0"))
            });
        // `LOAD DATA` sends rows that it cannot express after the others.
        by_path.sort_unstable();
        as_text.sort_unstable();
        Ok(difference(&given, &by_path, &as_text))
    }

    /// Creates two temporary tables like the rows' own table, but without anything that a temporary
    /// table cannot have.
    fn make_tables(&mut self, sample: &Sample<'_>, made: &mut Vec<String>) -> Result<Shape, Halt> {
        let (table, shape) = (&sample.chunk.table, &sample.shape);
        let columns: Vec<&Column> = shape.columns().collect();
        let names: Vec<String> = columns.iter().map(|one| quote_ident(&one.name)).collect();
        let mut like = shape.layout.transactional;
        for name in TABLES {
            let name = format!("{}.{}", quote_ident(&table.db), quote_ident(name));
            let head = format!("CREATE TEMPORARY TABLE {name}");
            let from = table.quoted();
            if like && let Err(error) = self.link.conn.exec(format!("{head} LIKE {from}")) {
                like = false;
                impossible(error)?;
            }
            if !like {
                // Another engine may keep its rows elsewhere, even those of a temporary table.
                let select = format!(
                    "{head} ENGINE=InnoDB AS SELECT {} FROM {from} LIMIT 0",
                    names.join(", ")
                );
                if let Err(error) = self.link.conn.exec(select) {
                    let words = error.to_string();
                    impossible(error)?;
                    return Err(Halt::Impossible(format!(
                        "the server cannot create a temporary table with its columns ({words})"
                    )));
                }
            }
            made.push(name);
        }
        Ok(if like { shape.alike() } else { shape.plain() })
    }
}

/// The first row of a piece that was sent to a table by a path.
fn sent(piece: &Piece, table: &Table, path: WritePath) -> SentRow {
    SentRow {
        file: piece.source.to_string(),
        line: piece.line,
        offset: piece.offset,
        table: table.label(),
        path,
    }
}

/// Whether a definition was refused for a reason that need not apply to another definition.
fn impossible(error: Error) -> Result<(), Halt> {
    if error.is_access_denied() {
        let reason = "the account may not create temporary tables (CREATE TEMPORARY TABLES)";
        return Err(Halt::Impossible(reason.to_owned()));
    }
    match Halt::from(error) {
        Halt::Refused(_) => Ok(()),
        halt => Err(halt),
    }
}

/// The bytes that a column holds, as an expression.
fn as_bytes(column: &Column) -> String {
    let name = quote_ident(&column.name);
    match column.class {
        ColumnClass::Bytes => name,
        ColumnClass::Bit => format!("HEX({name})"),
        // A FLOAT displays fewer digits than it has.
        ColumnClass::Approximate => format!("CAST({name} + 0e0 AS BINARY)"),
        _ => format!("CAST({name} AS BINARY)"),
    }
}

/// The first value in which the rows differ. The first column of each row says which table it is
/// from.
fn difference(
    given: &[&Column],
    by_path: &[Vec<Option<Vec<u8>>>],
    as_text: &[Vec<Option<Vec<u8>>>],
) -> Option<Difference> {
    if by_path.len() != as_text.len() {
        return Some(Difference {
            column: "(all of them)".to_owned(),
            by_path: format!("{} rows", by_path.len()),
            as_text: format!("{} rows", as_text.len()),
        });
    }
    let values = |row: &Vec<Option<Vec<u8>>>| row.iter().skip(1).cloned().collect::<Vec<_>>();
    by_path.iter().zip(as_text).find_map(|(by_path, as_text)| {
        let pairs = values(by_path).into_iter().zip(values(as_text));
        let mut pairs = given.iter().zip(pairs);
        let (column, (by_path, as_text)) = pairs.find(|(_, (one, other))| one != other)?;
        let (by_path, as_text) = two_values(by_path.as_deref(), as_text.as_deref());
        Some(Difference {
            column: column.name.clone(),
            by_path,
            as_text,
        })
    })
}

#[cfg(test)]
mod tests {
    use refloat_source::blocks::{Block, BlockPool};

    use super::*;

    /// Pieces of rows of 10 bytes each, one piece after the other; every piece but the first comes
    /// after a gap.
    fn pieces(rows: &[u64]) -> Vec<Piece> {
        let source = Arc::from("dump.sql");
        let mut offset = 0;
        let piece = |&rows: &u64| {
            let text = vec!["(11,'222')"; rows as usize].join(",\n").into_bytes();
            let range = 0..text.len();
            let block = Arc::new(Block::new(text.clone(), Arc::new(BlockPool::default())));
            let line = 1 + offset;
            let mut piece =
                Piece::in_memory(&source, block, range, rows, offset, line).hashed(&text);
            piece.after_gap = offset > 0;
            offset += 1_000;
            piece
        };
        rows.iter().map(piece).collect()
    }

    /// Rows, offset, and whether a gap is before it, of each piece.
    type Seen = Vec<(u64, u64, bool)>;

    fn seen(pieces: &[Piece], room: usize) -> Option<[Seen; 2]> {
        let rows = (&Form::Tuples, LexMode::default());
        let parts = split(pieces, rows, room, &mut Vec::new()).unwrap()?;
        let seen = |piece: &Piece| (piece.rows, piece.offset, piece.after_gap);
        Some(parts.map(|pieces| pieces.iter().map(seen).collect()))
    }

    #[test]
    fn a_first_chunk_ends_within_a_piece() {
        let all = pieces(&[6, 6, 6]);
        // 70 bytes each.
        let found = seen(&all, 70 + 10 + 12);
        let first = vec![(6, 0, false), (2, 1_000, true)];
        let rest = vec![(4, 1_024, false), (6, 2_000, true)];
        assert_eq!(found, Some([first, rest]));
        // The second piece does not come into it at all.
        let found = seen(&all, 70);
        let rest = vec![(6, 1_000, true), (6, 2_000, true)];
        assert_eq!(found, Some([vec![(6, 0, false)], rest]));
        assert_eq!(seen(&all, 3 * 70), None);
    }

    #[test]
    fn a_first_chunk_has_a_row_however_large_it_is() {
        assert_eq!(
            seen(&pieces(&[2]), 1),
            Some([vec![(1, 0, false)], vec![(1, 12, false)]])
        );
        assert_eq!(seen(&pieces(&[1]), 1), None);
    }

    #[test]
    fn a_first_chunk_has_no_more_pieces_than_are_searched() {
        let all = pieces(&[1; 100]);
        let [first, rest] = seen(&all, 10 * PIECE_LEAST).unwrap();
        assert_eq!((first.len(), rest.len()), (10, 90));
    }
}
