//! Encodes rows as InnoDB stores them.

use refloat_sqltext::StrLit;
use refloat_tablespace::record::Row;
use refloat_tablespace::table::{BuildError, TablePart};
use refloat_tablespace::value::{Literal, Stored};

use super::{FlushError, ValueSink};

/// Adds rows to a part of a table that is built here. The rows fill all columns, in their order.
pub struct StoredSink<'a> {
    columns: &'a [Stored],
    part: &'a mut TablePart,
    row: Row,
    /// The column of the next value.
    at: usize,
    /// Whether all values of the row were taken.
    fits: bool,
    value: Vec<u8>,
    text: Vec<u8>,
    /// Why the table cannot be built any further.
    pub failed: Option<BuildError>,
}

impl<'a> StoredSink<'a> {
    pub fn new(columns: &'a [Stored], part: &'a mut TablePart) -> Self {
        Self {
            columns,
            part,
            row: Row::default(),
            at: 0,
            fits: true,
            value: Vec::new(),
            text: Vec::new(),
            failed: None,
        }
    }

    /// Takes a value, unless the server might store anything else.
    #[inline]
    fn put(&mut self, literal: Literal<'_>) -> bool {
        let column = self.columns.get(self.at);
        self.at += 1;
        self.value.clear();
        let fits = column.is_some_and(|column| column.put(literal, &mut self.value));
        self.row.push(&self.value);
        self.fits &= fits;
        fits
    }
}

impl ValueSink for StoredSink<'_> {
    #[inline]
    fn row_start(&mut self) {
        self.at = 0;
        self.fits = true;
        self.part.begin(&mut self.row);
    }

    #[inline]
    fn row_end(&mut self) -> Result<bool, FlushError> {
        if !self.fits {
            return Ok(false);
        }
        match self.part.push(&self.row) {
            Ok(()) => Ok(true),
            // Such a row is left to the server: it may be stored elsewhere, or be refused there.
            Err(BuildError::Row(_) | BuildError::NotInOrder) => Ok(false),
            Err(error) => {
                self.failed = Some(error);
                Ok(false)
            }
        }
    }

    #[inline]
    fn null(&mut self) {
        self.at += 1;
        self.row.push_null();
    }

    fn default(&mut self) -> bool {
        false
    }

    #[inline]
    fn integer(&mut self, digits: &[u8], _unsigned: bool) -> bool {
        self.put(Literal::Number(digits))
    }

    #[inline]
    fn plain(&mut self, text: &[u8]) {
        self.put(Literal::Number(text));
    }

    #[inline]
    fn string(&mut self, literal: &StrLit<'_>) {
        if literal.has_backslash || literal.has_doubled_quote {
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            literal.unescape_into(&mut text);
            self.put(Literal::Text(&text));
            self.text = text;
        } else {
            self.put(Literal::Text(literal.raw));
        }
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.put(Literal::Bytes(bytes));
    }
}
