//! Visits the values in the rows of an insert statement.
//!
//! The visitor gets each literal in the form it is written in. How the server interprets it depends
//! on the column; that is the visitor's business. Anything not clearly a single literal arrives as
//! an expression, with its text.

mod literal;
mod visit;

pub use literal::{StrLit, unescape_text};
pub use visit::{VisitError, visit_rows};

/// Receives the values of rows in order. An error ends the visit.
///
/// Values whose own method is not implemented go to [`RowVisitor::value`], which is enough for
/// counting.
pub trait RowVisitor {
    /// The error with which the visitor may stop the visit.
    type Error;

    /// A tuple begins; its `(` is at byte `at` of the rows.
    fn begin_row(&mut self, at: usize) -> Result<(), Self::Error> {
        let _ = at;
        Ok(())
    }
    /// A value of any kind whose own method is not implemented.
    fn value(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// `NULL` or `\N`.
    fn null(&mut self) -> Result<(), Self::Error> {
        self.value()
    }
    /// The word `DEFAULT`, which stands for the column's default.
    fn default(&mut self) -> Result<(), Self::Error> {
        self.value()
    }
    /// `[+-]digits[.digits][e[+-]digits]`, digits on at least one side of the point.
    fn number(&mut self, text: &[u8]) -> Result<(), Self::Error> {
        let _ = text;
        self.value()
    }
    /// A string literal, with its introducer, if any.
    fn string(&mut self, literal: StrLit<'_>) -> Result<(), Self::Error> {
        let _ = literal;
        self.value()
    }
    /// Digits of `0x…` or `x'…'`, also after `_binary`. An odd count (`0x…` only) implies a leading
    /// zero.
    fn hex(&mut self, digits: &[u8]) -> Result<(), Self::Error> {
        let _ = digits;
        self.value()
    }
    /// Digits of `0b…` or `b'…'`; empty for `b''`.
    fn bit(&mut self, digits: &[u8]) -> Result<(), Self::Error> {
        let _ = digits;
        self.value()
    }
    /// A value from delimited text: bytes as the column stores or prints them, not an SQL literal.
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        let _ = bytes;
        self.value()
    }
    /// Anything else, without surrounding blanks: `NOW()`, `1+1`, `'a' 'b'`, `TRUE`, `@x`,
    /// `_latin1 0xE9`.
    fn expression(&mut self, text: &[u8]) -> Result<(), Self::Error> {
        let _ = text;
        self.value()
    }
    /// The tuple is complete; `end` is the position after its `)`.
    fn end_row(&mut self, end: usize) -> Result<(), Self::Error> {
        let _ = end;
        Ok(())
    }
}
