//! Builds the packets of MariaDB's array-bound execution.
//!
//! `COM_STMT_BULK_EXECUTE`: 0xfa, statement id (4), flags (2), two bytes of type per parameter,
//! then for each row and parameter one indicator byte and, if that is 0, the value. Documented in
//! MariaDB's "3-Binary Protocol" pages; for how a value becomes the content of a column see
//! `setup_one_conversion_function` and `insert_bulk_params` in the server's `sql/sql_prepare.cc`.

use crate::packet::put_lenenc;
use crate::prepared::Statement;

const COM_STMT_BULK_EXECUTE: u8 = 0xfa;
/// `SEND_TYPES_TO_SERVER`.
const SEND_TYPES: u16 = 128;
/// Flag in the second byte of a type.
const UNSIGNED: u8 = 0x80;
const INDICATOR_VALUE: u8 = 0;
const INDICATOR_NULL: u8 = 1;
const INDICATOR_DEFAULT: u8 = 2;

/// Wire format of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkType {
    /// Text in `character_set_client`; the server converts it to `character_set_connection` and
    /// then to the column's character set. With `sql_mode=EMPTY_STRING_IS_NULL`, empty text becomes
    /// NULL.
    String,
    /// Bytes with character set `binary`, never converted, whatever the session's character sets.
    Blob,
    /// Decimal number as text; exact.
    Decimal,
    /// One byte, signed.
    Tiny,
    /// Four bytes, signed.
    Long,
    /// Eight bytes, signed.
    LongLong,
    /// Eight bytes, unsigned.
    LongLongUnsigned,
    /// Eight bytes, IEEE 754.
    Double,
    /// A date; see [`BulkPacket::put_date`].
    Date,
    /// A date and time of day; see [`BulkPacket::put_date_time`].
    DateTime,
}

impl BulkType {
    /// The protocol's type number and flag.
    fn code(self) -> [u8; 2] {
        match self {
            Self::String => [0xfe, 0],
            Self::Blob => [0xfc, 0],
            Self::Decimal => [0xf6, 0],
            Self::Tiny => [0x01, 0],
            Self::Long => [0x03, 0],
            Self::LongLong => [0x08, 0],
            Self::LongLongUnsigned => [0x08, UNSIGNED],
            Self::Double => [0x05, 0],
            Self::Date => [0x0a, 0],
            Self::DateTime => [0x0c, 0],
        }
    }
}

/// A calendar date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// The year, as in the calendar.
    pub year: u16,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
}

/// A packet of rows, in a reusable buffer.
///
/// Append the values row by row, one per parameter of the statement, and close each row with
/// [`BulkPacket::end_row`]. The values must match the types given: the server takes the bytes as
/// they are.
#[derive(Debug, Clone)]
pub struct BulkPacket {
    buffer: Vec<u8>,
    head: usize,
    rows: usize,
}

impl BulkPacket {
    /// An empty packet for a statement, with one type for each of its parameters.
    pub fn new(statement: &Statement, types: &[BulkType]) -> Self {
        let mut packet = Self {
            buffer: Vec::new(),
            head: 0,
            rows: 0,
        };
        packet.begin(statement, types);
        packet
    }

    /// Empties the packet for another statement or other types; keeps the memory.
    pub fn begin(&mut self, statement: &Statement, types: &[BulkType]) {
        debug_assert_eq!(statement.params, types.len(), "one type for each parameter");
        self.buffer.clear();
        self.buffer.push(COM_STMT_BULK_EXECUTE);
        self.buffer.extend_from_slice(&statement.id.to_le_bytes());
        self.buffer.extend_from_slice(&SEND_TYPES.to_le_bytes());
        for kind in types {
            self.buffer.extend_from_slice(&kind.code());
        }
        self.head = self.buffer.len();
        self.rows = 0;
    }

    /// Removes all rows; keeps statement, types and memory.
    pub fn clear(&mut self) {
        self.buffer.truncate(self.head);
        self.rows = 0;
    }

    /// Appends NULL.
    pub fn put_null(&mut self) {
        self.buffer.push(INDICATOR_NULL);
    }

    /// Appends the column's default.
    pub fn put_default(&mut self) {
        self.buffer.push(INDICATOR_DEFAULT);
    }

    /// Appends a value of type `String`, `Blob` or `Decimal`.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.buffer.push(INDICATOR_VALUE);
        put_lenenc(&mut self.buffer, bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// Appends a value of type `String`, `Blob` or `Decimal` that `write` writes straight into the
    /// buffer, at most `at_most` bytes long. The length is filled in afterwards, which saves a
    /// copy.
    pub fn put_with(&mut self, at_most: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.buffer.push(INDICATOR_VALUE);
        let slot = self.buffer.len();
        put_lenenc(&mut self.buffer, at_most);
        let from = self.buffer.len();
        write(&mut self.buffer);
        let length = self.buffer.len() - from;
        assert!(
            length <= at_most,
            "{length} bytes were written where at most {at_most} were announced"
        );
        // The length keeps the width of its slot even if a shorter form would do: the server
        // accepts both.
        let bytes = (length as u64).to_le_bytes();
        match self.buffer[slot] {
            0xfc..=0xfe => self.buffer[slot + 1..from].copy_from_slice(&bytes[..from - slot - 1]),
            _ => self.buffer[slot] = bytes[0],
        }
    }

    /// Appends a value of type `LongLong`.
    pub fn put_i64(&mut self, n: i64) {
        self.buffer.push(INDICATOR_VALUE);
        self.buffer.extend_from_slice(&n.to_le_bytes());
    }

    /// Appends a value of type `LongLongUnsigned`.
    pub fn put_u64(&mut self, n: u64) {
        self.buffer.push(INDICATOR_VALUE);
        self.buffer.extend_from_slice(&n.to_le_bytes());
    }

    /// Appends a value of type `Long`.
    pub fn put_i32(&mut self, n: i32) {
        self.buffer.push(INDICATOR_VALUE);
        self.buffer.extend_from_slice(&n.to_le_bytes());
    }

    /// Appends a value of type `Tiny`.
    pub fn put_i8(&mut self, n: i8) {
        self.buffer
            .extend_from_slice(&[INDICATOR_VALUE, n.to_le_bytes()[0]]);
    }

    /// Appends a value of type `Double`.
    pub fn put_f64(&mut self, n: f64) {
        self.buffer.push(INDICATOR_VALUE);
        self.buffer.extend_from_slice(&n.to_le_bytes());
    }

    /// Appends a value of type `Date`.
    pub fn put_date(&mut self, day: Day) {
        self.buffer.extend_from_slice(&[INDICATOR_VALUE, 4]);
        self.put_day(day);
    }

    /// Appends a value of type `DateTime`. `time` is hour, minute, second.
    pub fn put_date_time(&mut self, day: Day, time: [u8; 3], micros: u32) {
        let len = if micros == 0 { 7 } else { 11 };
        self.buffer.extend_from_slice(&[INDICATOR_VALUE, len]);
        self.put_day(day);
        self.buffer.extend_from_slice(&time);
        if micros != 0 {
            self.buffer.extend_from_slice(&micros.to_le_bytes());
        }
    }

    fn put_day(&mut self, day: Day) {
        self.buffer.extend_from_slice(&day.year.to_le_bytes());
        self.buffer.extend_from_slice(&[day.month, day.day]);
    }

    /// Completes a row after its last value.
    pub fn end_row(&mut self) {
        self.rows += 1;
    }

    /// The current end, for [`BulkPacket::rewind`].
    pub fn mark(&self) -> usize {
        self.buffer.len()
    }

    /// Removes the values after a mark, in a row that was not ended.
    pub fn rewind(&mut self, mark: usize) {
        self.buffer.truncate(mark.max(self.head));
    }

    /// Number of complete rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether there is no complete row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Length of the whole command in bytes, which must stay below
    /// [`crate::Connection::max_allowed_packet`].
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// The buffer, for encoders that append indicators and values themselves. They must not modify
    /// what is already there.
    pub fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// The command as sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }
}
