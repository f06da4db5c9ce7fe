//! Reads the first rows of a table back, in the transaction that writes them.
//!
//! The sample tells whether a write path changes the kinds of values that it knows. This tells
//! whether each of the first rows is in the table as the dump has it: what the dump's text stands
//! for, found without the code that sends it, against what the server returns. Only digests are
//! compared, unless they differ ([`super::judge`]).
//!
//! The transaction's first query fixes what it sees: what was in the table then, and its own rows.
//! So what an application writes meanwhile does not matter.

use std::ops::ControlFlow;

use refloat_digest::cells::push;
use refloat_digest::literals::{self, Form, LiteralColumn};
use refloat_digest::rows::{Digest as Sum, RowText, cells, hash};
use refloat_schema::columns::{Column, ColumnClass};
use refloat_sqltext::{InsertVerb, quote_ident};
use refloat_wire::{Connection, Error};

use super::sample::{ROW_MAX, Shape};
use super::{FEW_ROWS, as_bytes};
use crate::chunk::{Chunk, Piece};
use crate::link::Link;
use crate::marks::Digest;
use crate::writer::Attempt;

/// Bytes of text that are read back. Reading a row back takes the server and this program half as
/// long as writing it (docs/design/load.md).
const FIRST_BYTES: usize = 256 << 10;
/// Rows of the dump's own text before them that are told apart from them: as many as a first chunk
/// of such text may have.
const BEFORE_MAX: usize = FEW_ROWS as usize;

/// The first rows of a chunk that is about to be written, to be found in the table afterwards.
pub struct ReadBack {
    /// These rows.
    pub first: Chunk,
    /// The other rows of the chunk.
    pub rest: Option<Chunk>,
    /// The columns that they fill.
    pub shape: Shape,
    /// Hashes of the first rows, in order.
    pub rows: Vec<u128>,
    /// Hashes of the rows that were there before.
    pub before: Vec<u128>,
    columns: Vec<LiteralColumn>,
    /// Which of `columns` each value of a row belongs to.
    targets: Vec<Option<usize>>,
    form: Form,
}

impl ReadBack {
    /// Makes the first query of the next transaction fix what it sees.
    pub const ISOLATION: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";

    /// Whether rows of a chunk can be read back, and rolled back if they are wrong.
    pub fn is_possible(chunk: &Chunk, shape: &Shape) -> bool {
        let layout = &shape.layout;
        // A rollback would use up numbers that rows need.
        let numbered = |(index, column)| is_numbered(column) && !shape.targets.contains(&index);
        chunk.header.verb == InsertVerb::Insert
            && layout.transactional
            && !layout.versioned
            && !layout.columns.iter().enumerate().any(numbered)
    }

    /// What the first rows of a chunk stand for; `None` if that is not certain, or if they cannot
    /// be told apart from others in the table.
    pub fn of(chunk: &Chunk, shape: Shape, buffer: &mut Vec<u8>) -> Result<Option<Self>, Attempt> {
        if !Self::is_possible(chunk, &shape) {
            return Ok(None);
        }
        let mut columns = Vec::new();
        let targets = shape.columns().map(|column| {
            let known = LiteralColumn::of(column, chunk.charset()).ok();
            columns.push(known.filter(|_| !column.generated)?);
            Some(columns.len() - 1)
        });
        let targets: Vec<Option<usize>> = targets.collect();
        let form = match chunk.form.delimited() {
            None => Form::Tuples(chunk.session.lex_mode()),
            Some(rows) => Form::Delimited(rows.format.clone(), rows.decode.clone()),
        };
        let (first, rest) = split(chunk, buffer)?;
        if first.bytes > ROW_MAX {
            return Ok(None);
        }
        let mut this = Self {
            first,
            rest,
            shape,
            rows: Vec::new(),
            before: Vec::new(),
            columns,
            targets,
            form,
        };
        let number = this.columns().position(is_numbered);
        let (mut rows, mut numbered) = (Vec::new(), false);
        let known = this.each_row(buffer, &mut |row| {
            numbered |= number.is_some_and(|at| matches!(cells(row)[at], None | Some(b"0")));
            rows.push(hash(row));
        })?;
        this.rows = rows;
        Ok((known && !numbered && !this.columns.is_empty()).then_some(this))
    }

    /// Hands over the first rows; returns `false` at one that is not certain.
    fn each_row(&self, buffer: &mut Vec<u8>, each: &mut dyn FnMut(&[u8])) -> Result<bool, Attempt> {
        for piece in &self.first.pieces {
            let text = Link::read_piece(piece, buffer)?;
            if literals::each_row(text, &self.form, &self.columns, &self.targets, each).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The columns that a row of [`Self::each_row`] has values of, in order.
    fn columns(&self) -> impl Iterator<Item = &Column> {
        let columns = self.shape.columns().zip(&self.targets);
        columns.filter_map(|(column, target)| target.map(|_| column))
    }

    /// Reads the rows of the table, in these columns.
    pub fn read(&self, conn: &mut Connection, each: &mut dyn FnMut(u128)) -> Result<(), Error> {
        let stored = self.columns().zip(&self.columns);
        let stored: Vec<String> = stored
            .map(|(column, read)| as_the_dump(column, read))
            .collect();
        let (stored, limit) = (stored.join(", "), self.limit());
        let table = self.first.table.quoted();
        let select = format!("SELECT {stored} FROM {table} LIMIT {limit}");
        let (mut text, mut scratch) = (RowText::default(), Vec::new());
        conn.query_each(select, &mut |row| {
            text.clear();
            for (cell, column) in row.iter().zip(&self.columns) {
                push(&mut text, cell, column.kind, &mut scratch);
            }
            each(hash(text.bytes()));
            ControlFlow::Continue(())
        })
        .map(drop)
    }

    /// Reads what is in the table before the transaction writes its rows. Returns `false` if that
    /// is more than `a_few` rows of this load.
    pub fn look_before(&mut self, conn: &mut Connection, a_few: bool) -> Result<bool, Error> {
        let table = self.first.table.quoted();
        let limit = if a_few { BEFORE_MAX } else { 0 } + 1;
        let there = conn.query(format!("SELECT 1 FROM {table} LIMIT {limit}"))?;
        if there.len() == limit {
            return Ok(false);
        }
        if !there.is_empty() {
            let mut before = Vec::new();
            self.read(conn, &mut |row| before.push(row))?;
            self.before = before;
        }
        Ok(true)
    }

    /// The most rows that one reading returns: one more than there should be.
    pub fn limit(&self) -> usize {
        self.before.len().max(BEFORE_MAX) + self.rows.len() + 1
    }

    /// Whether the table holds the first rows as the dump has them.
    pub fn is_found(&self, conn: &mut Connection) -> Result<bool, Error> {
        let mut expected = Sum::default();
        let rows = self.before.iter().chain(&self.rows);
        rows.for_each(|row| expected.add(*row));
        let mut found = Sum::default();
        self.read(conn, &mut |row| found.add(row))?;
        Ok(found == expected)
    }
}

/// The value of a column, in the character set of the dump's text.
fn as_the_dump(column: &Column, read: &LiteralColumn) -> String {
    let name = quote_ident(&column.name);
    match (&read.convert_to, &column.class) {
        (Some(charset), _) => format!("CAST(CONVERT({name} USING {charset}) AS BINARY)"),
        // The bytes of these are not those of their text.
        _ if matches!(column.data_type.as_str(), "uuid" | "inet4" | "inet6") => {
            format!("CAST(CONVERT({name} USING utf8mb4) AS BINARY)")
        }
        (None, ColumnClass::Bytes | ColumnClass::Bit) => name,
        _ => as_bytes(column),
    }
}

/// Whether the server may number the rows in a column.
fn is_numbered(column: &Column) -> bool {
    column.auto_increment || column.from_sequence
}

/// Splits a chunk after its first rows.
fn split(chunk: &Chunk, buffer: &mut Vec<u8>) -> Result<(Chunk, Option<Chunk>), Attempt> {
    let [mut first, mut rest] = [(); 2].map(|()| Chunk::new(chunk.head.clone()));
    for piece in &chunk.pieces {
        let room = FIRST_BYTES.saturating_sub(first.bytes);
        if room == 0 || rest.rows > 0 {
            rest.push(piece.clone());
            continue;
        }
        if piece.len() > room {
            let text = Link::read_piece(piece, buffer)?;
            if let Some([one, two]) = cut(chunk, piece, text, room) {
                first.push(one);
                rest.push(two);
                continue;
            }
        }
        first.push(piece.clone());
    }
    Ok((first, (rest.rows > 0).then_some(rest)))
}

/// Cuts a piece after the row that reaches `room` bytes; `None` if that is its last one.
fn cut(chunk: &Chunk, piece: &Piece, text: &[u8], room: usize) -> Option<[Piece; 2]> {
    let cut = chunk.form.cut(text, chunk.session.lex_mode(), room)?;
    let bounds = [0..cut.end, cut.next..text.len()];
    let [mut first, mut rest] = [0..1, 1..2].map(|which| piece.part(text, &bounds, which).0);
    (first.rows, rest.rows) = (cut.rows, piece.rows - cut.rows);
    // Marks are made of the whole piece.
    (first.digest, rest.digest) = (Digest::None, Digest::None);
    Some([first, rest])
}
