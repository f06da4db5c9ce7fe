//! The rows to compare, and the temporary tables' shape.

use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

use refloat_schema::columns::{Column, Layout};
use refloat_source::blocks::{Block, BlockPool};
use refloat_sqltext::{InsertHeader, InsertVerb, quote_ident};

use super::Halt;
use super::kinds::Chooser;
use crate::chunk::{Chunk, Head, Piece};
use crate::link::Link;
use crate::options::WritePath;
use crate::table::Table;

/// A row with more bytes than this is not written more often than necessary.
pub const ROW_MAX: usize = 16 << 20;

/// The rows to compare.
pub struct Sample<'a> {
    pub chunk: &'a Chunk,
    pub path: WritePath,
    pub shape: Shape,
    pub rows: Rows,
}

/// Columns, and which of them rows fill.
#[derive(Clone)]
pub struct Shape {
    pub layout: Arc<Layout>,
    pub targets: Vec<usize>,
}

/// Rows of a chunk, copied.
#[derive(Clone)]
pub struct Rows {
    /// One piece for each row, because what follows a row in its piece may be sent as text with it.
    pub each: Vec<Piece>,
    /// All of them in one piece.
    pub all: Piece,
}

impl Rows {
    /// Chooses rows of a chunk: all first rows that fit if `all`, otherwise a sample. `buffer` is
    /// for rows that have to be read from a file.
    pub fn of(chunk: &Chunk, all: bool, buffer: &mut Vec<u8>) -> Result<Self, Halt> {
        let mode = chunk.session.lex_mode();
        let mut chooser = Chooser::new(all);
        Self::pick(chunk, buffer, |text| {
            let rows = chooser.choose(&chunk.form, text, mode);
            (rows, chooser.is_done())
        })
    }

    /// Copies rows of a chunk. `choose` gets the text of each piece, and returns the ranges of its
    /// rows and whether no other piece is needed.
    pub fn pick(
        chunk: &Chunk,
        buffer: &mut Vec<u8>,
        mut choose: impl FnMut(&[u8]) -> (Vec<Range<usize>>, bool),
    ) -> Result<Self, Halt> {
        let mut copy = Vec::new();
        let mut places = Vec::new();
        for piece in &chunk.pieces {
            let text = Link::read_piece(piece, buffer).map_err(Halt::Fatal)?;
            let (mut line, mut counted) = (piece.line, 0);
            let (rows, done) = choose(text);
            for row in rows {
                if row.len() > ROW_MAX {
                    return Err(Halt::Impossible(
                        "a row to compare is very large".to_owned(),
                    ));
                }
                line += memchr::memchr_iter(b'\n', &text[counted..row.start]).count() as u64;
                counted = row.start;
                if !copy.is_empty() && chunk.form.delimited().is_none() {
                    copy.push(b',');
                }
                let start = copy.len();
                copy.extend_from_slice(&text[row.clone()]);
                if let Some(rows) = chunk.form.delimited()
                    && rows.format.is_open(&copy[start..])
                {
                    copy.extend_from_slice(&rows.format.line_end);
                }
                let offset = piece.offset + row.start as u64;
                places.push((&piece.source, start..copy.len(), offset, line));
            }
            if done {
                break;
            }
        }
        let whole = 0..copy.len();
        let block = Arc::new(Block::new(copy, Arc::new(BlockPool::default())));
        let cut = |source, range, rows, offset, line| {
            Piece::in_memory(source, Arc::clone(&block), range, rows, offset, line)
        };
        let Some(&(source, _, offset, line)) = places.first() else {
            return Err(Halt::Refused("they cannot be read".to_owned()));
        };
        let all = cut(source, whole, places.len() as u64, offset, line);
        let each = places
            .into_iter()
            .map(|(source, range, offset, line)| cut(source, range, 1, offset, line))
            .collect();
        Ok(Self { each, all })
    }

    /// The first and the second half of rows of a chunk; `None` if it is one row.
    pub fn halves(&self, chunk: &Chunk, buffer: &mut Vec<u8>) -> Result<Option<[Self; 2]>, Halt> {
        let text = Link::read_piece(&self.all, buffer).map_err(Halt::Fatal)?;
        let bounds = chunk.form.bounds(text, chunk.session.lex_mode());
        let (middle, end) = (bounds.len() / 2, bounds.len());
        if middle == 0 || end != self.each.len() {
            return Ok(None);
        }
        let half = |which: Range<usize>| {
            let each = self.each[which.clone()].to_vec();
            let mut all = self.all.part(text, &bounds, which).0;
            (all.offset, all.line) = (each[0].offset, each[0].line);
            Self { each, all }
        };
        Ok(Some([half(0..middle), half(middle..end)]))
    }

    /// The pieces to write by a path.
    fn pieces(&self, path: WritePath) -> &[Piece] {
        match path {
            WritePath::Insert => from_ref(&self.all),
            _ => &self.each,
        }
    }
}

impl Shape {
    /// The columns that rows fill, in the order of the rows.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.targets
            .iter()
            .map(|&index| &self.layout.columns[index])
    }

    /// Those of them that store the given values.
    pub fn given(&self) -> Vec<&Column> {
        self.columns().filter(|column| !column.generated).collect()
    }

    /// The shape of a temporary table with the same definition.
    pub fn alike(&self) -> Self {
        let mut layout = Layout::clone(&self.layout);
        // There is no transaction, so no savepoint to roll back to.
        layout.transactional = false;
        Self {
            layout: Arc::new(layout),
            targets: self.targets.clone(),
        }
    }

    /// The shape of a temporary table that has only these columns, none of them generated.
    pub fn plain(&self) -> Self {
        let plain = |column: &Column| Column {
            generated: false,
            ..column.clone()
        };
        let layout = Layout {
            columns: self.columns().map(plain).collect(),
            transactional: false,
            versioned: false,
            period_end: None,
        };
        Self {
            targets: (0..layout.columns.len()).collect(),
            layout: Arc::new(layout),
        }
    }
}

impl Sample<'_> {
    /// Rows as a chunk for a temporary table that is written by a path.
    pub fn on(&self, trial: Table, shape: &Shape, rows: &Rows, path: WritePath) -> Chunk {
        let verb = self.chunk.header.verb;
        let words = match verb {
            InsertVerb::Insert => "INSERT INTO",
            InsertVerb::InsertIgnore => "INSERT IGNORE INTO",
            InsertVerb::Replace => "REPLACE INTO",
        };
        let names: Vec<String> = shape.columns().map(|one| quote_ident(&one.name)).collect();
        let text = format!("{words} {} ({}) VALUES ", trial.quoted(), names.join(","));
        let bytes = |column: &Column| column.name.clone().into_bytes();
        let header = InsertHeader {
            verb,
            database: Some(trial.db.clone().into_bytes()),
            table: trial.name.clone().into_bytes(),
            columns: Some(shape.columns().map(bytes).collect()),
            text: text.into_bytes(),
        };
        let mut chunk = Chunk::new(Head {
            table: Arc::new(trial),
            session: Arc::clone(&self.chunk.session),
            header: Arc::new(header),
            form: self.chunk.form.clone(),
        });
        for piece in rows.pieces(path) {
            chunk.push(piece.clone());
        }
        chunk
    }
}
