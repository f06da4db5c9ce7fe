//! Values: a visitor over the tuples of an insert statement.
//!
//! Literals come in the form that their text has; what the server makes of them depends on the column and is
//! the visitor's business. Whatever is not surely one literal comes as an expression, with its text.

mod literal;
mod visit;

pub use literal::{StrLit, unescape_text};
pub use visit::{VisitError, visit_rows};

/// Receives the values of rows in order. An error ends the visit.
///
/// A value whose own method is not written goes to [`RowVisitor::value`]: enough for one who only counts.
pub trait RowVisitor {
    /// What the visitor may refuse with.
    type Error;

    /// A tuple begins; its `(` is at byte `at` of the rows.
    fn begin_row(&mut self, at: usize) -> Result<(), Self::Error> {
        let _ = at;
        Ok(())
    }
    /// A value of any kind.
    fn value(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// `NULL` or `\N`.
    fn null(&mut self) -> Result<(), Self::Error> {
        self.value()
    }
    /// `DEFAULT`.
    fn default(&mut self) -> Result<(), Self::Error> {
        self.value()
    }
    /// `[+-]digits[.digits][e[+-]digits]`, digits on at least one side of the point.
    fn number(&mut self, text: &[u8]) -> Result<(), Self::Error> {
        let _ = text;
        self.value()
    }
    /// A string literal, with its introducer if it has one.
    fn string(&mut self, literal: StrLit<'_>) -> Result<(), Self::Error> {
        let _ = literal;
        self.value()
    }
    /// Digits of `0x…` or `x'…'`, also behind `_binary`. An odd count (`0x…` only) means a leading zero.
    fn hex(&mut self, digits: &[u8]) -> Result<(), Self::Error> {
        let _ = digits;
        self.value()
    }
    /// Digits of `0b…` or `b'…'`; none for `b''`.
    fn bit(&mut self, digits: &[u8]) -> Result<(), Self::Error> {
        let _ = digits;
        self.value()
    }
    /// The bytes of a value as its column holds them, or as it would print them: what delimited text has, and no literal.
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        let _ = bytes;
        self.value()
    }
    /// Anything else, without surrounding blanks: `NOW()`, `1+1`, `'a' 'b'`, `TRUE`, `@x`, `_latin1 0xE9`.
    fn expression(&mut self, text: &[u8]) -> Result<(), Self::Error> {
        let _ = text;
        self.value()
    }
    /// The tuple is complete; `end` is the byte behind its `)`.
    fn end_row(&mut self, end: usize) -> Result<(), Self::Error> {
        let _ = end;
        Ok(())
    }
}
