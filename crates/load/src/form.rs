//! The forms that rows come in: tuples of `INSERT` statements, and delimited text.

use std::ops::Range;
use std::sync::Arc;

use refloat_source::delimited::DelimitedRows;
use refloat_sqltext::{LexMode, RowVisitor, VisitError, visit_rows};

use super::rows::{Bounds, halves_of};

/// How the rows of a chunk are written.
#[derive(Debug, Clone)]
pub enum Form {
    /// `(…),(…)`, literals of SQL.
    Tuples,
    /// Fields and lines.
    Delimited(Arc<DelimitedRows>),
}

impl Form {
    /// Whether rows of both can be written in the same statements.
    pub fn joins(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tuples, Self::Tuples) => true,
            (Self::Delimited(one), Self::Delimited(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// Hands the rows of `text` to a visitor.
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

    /// Where each row of `text` stands; empty when the text cannot be walked.
    pub fn bounds(&self, text: &[u8], mode: LexMode) -> Vec<Range<usize>> {
        let mut bounds = Bounds::new();
        match self.visit(text, mode, &mut bounds) {
            Ok(_) => bounds.rows,
            Err(_) => Vec::new(),
        }
    }

    /// `text` in two runs of rows, each with its count; one run when it has fewer than two rows.
    pub fn halves(&self, text: &[u8], mode: LexMode) -> Vec<(Range<usize>, u64)> {
        halves_of(&self.bounds(text, mode))
    }

    /// The rules of delimited text, if that is what it is.
    pub fn delimited(&self) -> Option<&DelimitedRows> {
        match self {
            Self::Tuples => None,
            Self::Delimited(rows) => Some(rows),
        }
    }
}
