//! Converts literals of the dump to the form that a server takes fastest.
//!
//! [`Encoder`] walks the tuples of a piece and decides, by the column's class and the kind of
//! literal, whether the value can be sent as data with exactly the result that the server's own
//! parser would have produced. Where that is not certain the row is *unfit*, and the caller sends
//! it and the rest of its piece as the dump's own `INSERT` text. The sinks write MariaDB's
//! array-bound packets, the text of `LOAD DATA`, and the rows of a tablespace.

pub mod bulk;
#[cfg(test)]
mod round_trips;
pub mod stored;
pub mod tsv;

use refloat_sqltext::{RowVisitor, StrLit};

use refloat_schema::columns::{Column, ColumnClass};

/// Longest number without an exponent that is sent to a `FLOAT` or `DOUBLE` column as text: the
/// server's parser turns longer ones into a `DECIMAL` first, which may round them.
const PLAIN_NUMBER_MAX: usize = 30;

/// Receives encoded values.
pub trait ValueSink {
    /// Begins a row; its values follow in column order.
    fn row_start(&mut self);
    /// Completes a row; the sink may send now. Returns `false` if this form cannot express the row.
    fn row_end(&mut self) -> Result<bool, FlushError>;
    /// `NULL`, which every form can express.
    fn null(&mut self);
    /// A `DEFAULT`; returns `false` if this form cannot express it.
    fn default(&mut self) -> bool;
    /// An integer for an integer column; returns `false` if it does not fit the bound type.
    fn integer(&mut self, digits: &[u8], unsigned: bool) -> bool;
    /// Text that needs no escaping in any form: a number.
    fn plain(&mut self, text: &[u8]);
    /// A quoted string of the dump.
    fn string(&mut self, literal: &StrLit<'_>);
    /// A quoted date, or date and time (`with_time`); returns `false` if this form cannot express
    /// it.
    fn date(&mut self, literal: &StrLit<'_>, with_time: bool) -> bool {
        let _ = with_time;
        self.string(literal);
        true
    }
    /// Bytes from a hexadecimal or binary literal.
    fn bytes(&mut self, bytes: &[u8]);
}

/// Why a sink could not send.
#[derive(Debug)]
pub enum FlushError {
    /// The connection or the server failed.
    Wire(refloat_wire::Error),
    /// One row needs more than the server takes in one packet.
    RowTooLarge {
        /// Bytes needed.
        size: usize,
    },
}

/// Why a walk over a piece ended early.
#[derive(Debug)]
pub enum Stop {
    /// The row that starts at this byte of the piece cannot be sent as data.
    Unfit(usize),
    /// The row that starts at this byte has a date that must be sent as text.
    Spelled(usize),
    /// Sending failed.
    Flush(FlushError),
}

/// Walks tuples and feeds a sink.
///
/// Literals for generated columns are dropped. The caller lets them through only where the server
/// would ignore them too.
pub struct Encoder<'a, S> {
    columns: &'a [Column],
    targets: &'a [usize],
    /// Character set of the dump's text, needed to judge an introducer.
    charset: &'a str,
    sink: &'a mut S,
    at: usize,
    row_start: usize,
    scratch: Vec<u8>,
    /// Rows handed to the sink so far.
    pub rows: u64,
}

impl<'a, S: ValueSink> Encoder<'a, S> {
    /// An encoder for rows that fill the columns `targets` of `columns`.
    pub fn new(
        columns: &'a [Column],
        targets: &'a [usize],
        charset: &'a str,
        sink: &'a mut S,
    ) -> Self {
        Self {
            columns,
            targets,
            charset,
            sink,
            at: 0,
            row_start: 0,
            scratch: Vec::new(),
            rows: 0,
        }
    }

    /// Where the row that was walked last starts in the piece.
    pub fn row_start(&self) -> usize {
        self.row_start
    }

    fn unfit(&self) -> Stop {
        Stop::Unfit(self.row_start)
    }

    /// `Ok` if the value could be sent.
    #[inline]
    fn sent(&self, fits: bool) -> Result<(), Stop> {
        if fits { Ok(()) } else { Err(self.unfit()) }
    }

    /// The column that the next value fills.
    #[inline]
    fn column(&mut self) -> Result<&'a Column, Stop> {
        let column = self.targets.get(self.at).map(|&index| &self.columns[index]);
        self.at += 1;
        column.ok_or_else(|| self.unfit())
    }

    #[inline]
    fn integer(&mut self, text: &[u8], unsigned: bool) -> Result<(), Stop> {
        let fits = is_integer(text) && self.sink.integer(text, unsigned);
        self.sent(fits)
    }

    fn literal_bytes(&mut self, decode: impl FnOnce(&mut Vec<u8>) -> bool) -> Result<(), Stop> {
        let column = self.column()?;
        if column.generated {
            return Ok(());
        }
        self.scratch.clear();
        if !matches!(column.class, ColumnClass::Bytes | ColumnClass::Bit)
            || !decode(&mut self.scratch)
        {
            return Err(self.unfit());
        }
        self.sink.bytes(&self.scratch);
        Ok(())
    }
}

/// Whether `text` is `[-+]?digits`.
fn is_integer(text: &[u8]) -> bool {
    let digits = text
        .strip_prefix(b"-")
        .or_else(|| text.strip_prefix(b"+"))
        .unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Whether a number without an exponent is zero.
fn is_zero(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'-' | b'0' | b'.'))
}

/// Whether `text` has no exponent.
fn is_exact(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, b'e' | b'E'))
}

impl<S: ValueSink> RowVisitor for Encoder<'_, S> {
    type Error = Stop;

    #[inline]
    fn begin_row(&mut self, at: usize) -> Result<(), Stop> {
        self.at = 0;
        self.row_start = at;
        self.sink.row_start();
        Ok(())
    }

    #[inline]
    fn null(&mut self) -> Result<(), Stop> {
        // For NULL the server chooses the value of an AUTO_INCREMENT column, so the order of rows
        // matters.
        let column = self.column()?;
        if column.generated {
            return Ok(());
        }
        self.sent(!column.auto_increment)?;
        self.sink.null();
        Ok(())
    }

    fn default(&mut self) -> Result<(), Stop> {
        let column = self.column()?;
        if column.generated {
            return Ok(());
        }
        let fits = !column.auto_increment && self.sink.default();
        self.sent(fits)
    }

    #[inline]
    fn number(&mut self, text: &[u8]) -> Result<(), Stop> {
        let column = self.column()?;
        if column.generated {
            return Ok(());
        }
        let fits = match column.class {
            ColumnClass::Integer { unsigned } => return self.integer(text, unsigned),
            ColumnClass::Decimal => is_exact(text),
            // MySQL negates an integer 0 to 0, but reads the text as a negative zero.
            ColumnClass::Approximate if text.starts_with(b"-0") && is_zero(text) => false,
            ColumnClass::Approximate => !is_exact(text) || text.len() <= PLAIN_NUMBER_MAX,
            // As text, '70' means 1970, but the number 0 means 0000; four digits mean the same both
            // ways.
            ColumnClass::Year => text.len() == 4 && is_integer(text),
            _ => false,
        };
        self.sent(fits)?;
        self.sink.plain(text);
        Ok(())
    }

    #[inline]
    fn string(&mut self, literal: StrLit<'_>) -> Result<(), Stop> {
        let column = self.column()?;
        if column.generated {
            return Ok(());
        }
        let binary = match literal.introducer {
            None => false,
            Some(word) if word.eq_ignore_ascii_case(b"_binary") => true,
            Some(word) => {
                let same = word
                    .strip_prefix(b"_")
                    .is_some_and(|name| name.eq_ignore_ascii_case(self.charset.as_bytes()));
                self.sent(same)?;
                false
            }
        };
        let fits = match column.class {
            ColumnClass::Bytes | ColumnClass::Bit => true,
            ColumnClass::Date | ColumnClass::DateTime if !binary => {
                let with_time = column.class == ColumnClass::DateTime;
                return if self.sink.date(&literal, with_time) {
                    Ok(())
                } else {
                    Err(Stop::Spelled(self.row_start))
                };
            }
            ColumnClass::Integer { unsigned } if !binary => {
                return self.integer(literal.raw, unsigned);
            }
            ColumnClass::Text
            | ColumnClass::Time
            | ColumnClass::Decimal
            | ColumnClass::Approximate
            | ColumnClass::Year => !binary,
            ColumnClass::Integer { .. }
            | ColumnClass::Date
            | ColumnClass::DateTime
            | ColumnClass::Unknown => false,
        };
        self.sent(fits)?;
        self.sink.string(&literal);
        Ok(())
    }

    #[inline]
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.string(StrLit::verbatim(bytes))
    }

    fn hex(&mut self, digits: &[u8]) -> Result<(), Stop> {
        self.literal_bytes(|out| decode_hex(digits, out))
    }

    fn bit(&mut self, digits: &[u8]) -> Result<(), Stop> {
        self.literal_bytes(|out| decode_bits(digits, out))
    }

    fn expression(&mut self, _text: &[u8]) -> Result<(), Stop> {
        Err(self.unfit())
    }

    #[inline]
    fn end_row(&mut self, _end: usize) -> Result<(), Stop> {
        self.sent(self.at == self.targets.len())?;
        let fits = self.sink.row_end().map_err(Stop::Flush)?;
        self.sent(fits)?;
        self.rows += 1;
        Ok(())
    }
}

/// Decodes hexadecimal digits; the server reads an odd number of them with a leading zero.
fn decode_hex(digits: &[u8], out: &mut Vec<u8>) -> bool {
    let mut digits = digits.iter();
    if digits.len() % 2 == 1 {
        let Some(low) = digits.next().copied().and_then(hex_value) else {
            return false;
        };
        out.push(low);
    }
    while let (Some(high), Some(low)) = (digits.next(), digits.next()) {
        let (Some(high), Some(low)) = (hex_value(*high), hex_value(*low)) else {
            return false;
        };
        out.push(high << 4 | low);
    }
    true
}

fn hex_value(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// Decodes binary digits, most significant first, into as few bytes as hold them.
fn decode_bits(digits: &[u8], out: &mut Vec<u8>) -> bool {
    for chunk in std::iter::once(&digits[..digits.len() % 8])
        .chain(digits[digits.len() % 8..].chunks(8))
        .filter(|chunk| !chunk.is_empty())
    {
        let mut byte = 0u8;
        for digit in chunk {
            match digit {
                b'0' | b'1' => byte = byte << 1 | (digit - b'0'),
                _ => return false,
            }
        }
        out.push(byte);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_and_binary_literals() {
        let mut out = Vec::new();
        assert!(decode_hex(b"0aFf", &mut out));
        assert_eq!(out, [0x0a, 0xff]);
        out.clear();
        assert!(decode_hex(b"abc", &mut out));
        assert_eq!(out, [0x0a, 0xbc]);
        out.clear();
        assert!(!decode_hex(b"0g", &mut out));
        out.clear();
        assert!(decode_bits(b"101011100", &mut out));
        assert_eq!(out, [0x01, 0x5c]);
        out.clear();
        assert!(!decode_bits(b"102", &mut out));
    }
}
