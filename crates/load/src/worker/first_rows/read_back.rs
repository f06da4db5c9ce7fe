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
use crate::chunk::Chunk;
use crate::link::Link;
use crate::writer::Attempt;

/// Rows of the dump's own text before them that are told apart from them: as many as a first chunk
/// of such text may have.
const BEFORE_MAX: usize = FEW_ROWS as usize;

/// A first chunk that is about to be written, to be found in the table afterwards.
pub struct ReadBack<'a> {
    /// The chunk.
    pub chunk: &'a Chunk,
    /// The columns that its rows fill.
    pub shape: Shape,
    /// Hashes of its rows, in order.
    pub rows: Vec<u128>,
    /// Hashes of the rows that were there before.
    pub before: Vec<u128>,
    columns: Vec<LiteralColumn>,
    /// Which of `columns` each value of a row belongs to.
    targets: Vec<Option<usize>>,
    form: Form,
}

impl<'a> ReadBack<'a> {
    /// Makes the first query of the next transaction fix what it sees.
    pub const ISOLATION: &'static str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";

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

    /// What the rows of a chunk stand for; `None` if that is not certain, or if they cannot be told
    /// apart from others in the table.
    pub fn of(
        chunk: &'a Chunk,
        shape: Shape,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Self>, Attempt> {
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
        if chunk.bytes > ROW_MAX {
            return Ok(None);
        }
        let mut this = Self {
            chunk,
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

    /// Hands over the rows; returns `false` at one that is not certain.
    fn each_row(&self, buffer: &mut Vec<u8>, each: &mut dyn FnMut(&[u8])) -> Result<bool, Attempt> {
        for piece in &self.chunk.pieces {
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
        let table = self.chunk.table.quoted();
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
        let table = self.chunk.table.quoted();
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

    /// Whether the table holds the rows as the dump has them.
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
