//! The forms that rows come in: tuples of `INSERT` statements, and delimited text.

use std::ops::Range;
use std::sync::Arc;

use refloat_source::delimited::DelimitedRows;
use refloat_sqltext::{LexMode, RowVisitor, VisitError, visit_rows};

/// The form of a chunk's rows.
#[derive(Debug, Clone)]
pub enum Form {
    /// `(…),(…)` with SQL literals.
    Tuples,
    /// Fields and lines.
    Delimited(Arc<DelimitedRows>),
}

impl Form {
    /// Whether rows of both forms can go into the same statements.
    pub fn joins(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tuples, Self::Tuples) => true,
            (Self::Delimited(one), Self::Delimited(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// Feeds the rows of `text` to a visitor.
    pub fn visit<V: RowVisitor>(
        &self,
        text: &[u8],
        mode: LexMode,
        visitor: &mut V,
    ) -> Result<u64, VisitError<V::Error>> {
        match self {
            Self::Tuples => visit_rows(text, mode, visitor),
            Self::Delimited(rows) => rows.format.visit(text, &rows.decode, visitor),
        }
    }

    /// The range of each row in `text`; empty when the text cannot be walked.
    pub fn bounds(&self, text: &[u8], mode: LexMode) -> Vec<Range<usize>> {
        let mut bounds = Bounds::new();
        match self.visit(text, mode, &mut bounds) {
            Ok(_) => bounds.rows,
            Err(_) => Vec::new(),
        }
    }

    /// Splits `text` into two runs of rows, each with its row count; one run if it has fewer than
    /// two rows.
    pub fn halves(&self, text: &[u8], mode: LexMode) -> Vec<(Range<usize>, u64)> {
        halves_of(&self.bounds(text, mode))
    }

    /// The format of delimited text; `None` for tuples.
    pub fn delimited(&self) -> Option<&DelimitedRows> {
        match self {
            Self::Tuples => None,
            Self::Delimited(rows) => Some(rows),
        }
    }
}

/// Records where rows begin and end.
struct Bounds {
    start: usize,
    rows: Vec<Range<usize>>,
}

impl Bounds {
    pub fn new() -> Self {
        Self {
            start: 0,
            rows: Vec::new(),
        }
    }
}

impl RowVisitor for Bounds {
    type Error = std::convert::Infallible;

    fn begin_row(&mut self, at: usize) -> Result<(), Self::Error> {
        self.start = at;
        Ok(())
    }
    fn end_row(&mut self, end: usize) -> Result<(), Self::Error> {
        self.rows.push(self.start..end);
        Ok(())
    }
}

/// Splits rows into two runs, each with its row count; one run if there are fewer than two rows.
fn halves_of(rows: &[Range<usize>]) -> Vec<(Range<usize>, u64)> {
    let (left, right) = rows.split_at(rows.len() / 2);
    [left, right]
        .into_iter()
        .filter_map(|half| Some((half.first()?.start..half.last()?.end, half.len() as u64)))
        .collect()
}
