//! Encodes rows as MariaDB's array-bound packet (`COM_STMT_BULK_EXECUTE`).

use refloat_schema::columns::{Column, ColumnClass, NOT_ASCII};
use refloat_sqltext::StrLit;
use refloat_wire::{BulkPacket, BulkType, Day};

use super::{FlushError, ValueSink};

/// The parameter type for a column; it also decides which character set the server reads the value
/// in.
///
/// Text bound as bytes is stored as is. Text bound as text is first converted and counted, which
/// costs a fifth of the server's time for such rows. So text goes as bytes where both give the same
/// result: when the column has the character set of the dump's text, or when all of the text is
/// ASCII (`ascii`). With `dates`, dates go as numbers, which the server does not have to parse.
pub fn bulk_type(column: &Column, charset: &str, ascii: bool, dates: bool) -> BulkType {
    match column.class {
        ColumnClass::Date if dates => BulkType::Date,
        ColumnClass::DateTime if dates => BulkType::DateTime,
        ColumnClass::Integer { unsigned: false } => BulkType::LongLong,
        ColumnClass::Integer { unsigned: true } => BulkType::LongLongUnsigned,
        ColumnClass::Bytes
        | ColumnClass::Bit
        | ColumnClass::Date
        | ColumnClass::DateTime
        | ColumnClass::Time
        | ColumnClass::Decimal
        | ColumnClass::Approximate
        | ColumnClass::Year => BulkType::Blob,
        ColumnClass::Text => match &column.charset {
            // With `binary`, each value already has the bytes that its column stores.
            Some(column_charset) if column_charset == charset || charset == "binary" => {
                BulkType::Blob
            }
            Some(column_charset) if ascii && !NOT_ASCII.contains(&column_charset.as_str()) => {
                BulkType::Blob
            }
            // A type with a text form but no character set (UUID, INET6): as bytes it would mean
            // something else.
            _ => BulkType::String,
        },
        ColumnClass::Unknown => BulkType::String,
    }
}

/// Sends finished packets.
pub trait BulkSend {
    /// Sends the packet's rows and empties it; returns how many bytes the next packet should have.
    fn send(&mut self, packet: &mut BulkPacket) -> Result<usize, FlushError>;
}

pub struct BulkSink<'a, T> {
    packet: &'a mut BulkPacket,
    target: usize,
    limit: usize,
    send: T,
    row_at: usize,
    /// Whether dates go as numbers.
    dates: bool,
}

impl<'a, T: BulkSend> BulkSink<'a, T> {
    /// A sink whose first packet has about `target` bytes, and none more than `limit`. With
    /// `dates`, the packet's types for dates are the numeric ones.
    pub fn new(
        packet: &'a mut BulkPacket,
        target: usize,
        limit: usize,
        dates: bool,
        send: T,
    ) -> Self {
        let row_at = packet.mark();
        Self {
            packet,
            target,
            limit,
            send,
            row_at,
            dates,
        }
    }

    /// Drops what the current row has written so far.
    pub fn forget_row(&mut self) {
        self.packet.rewind(self.row_at);
    }
}

impl<T: BulkSend> ValueSink for BulkSink<'_, T> {
    #[inline]
    fn row_start(&mut self) {
        self.row_at = self.packet.mark();
    }

    #[inline]
    fn row_end(&mut self) -> Result<bool, FlushError> {
        if self.packet.len() > self.limit {
            // This row takes the packet over the limit: send what came before it, then start with
            // it.
            let row = self.packet.buf().split_off(self.row_at);
            if !self.packet.is_empty() {
                self.target = self.send.send(self.packet)?;
            }
            self.packet.buf().extend_from_slice(&row);
            if self.packet.len() > self.limit {
                return Err(FlushError::RowTooLarge {
                    size: self.packet.len(),
                });
            }
        }
        self.packet.end_row();
        if self.packet.len() >= self.target.min(self.limit) {
            self.target = self.send.send(self.packet)?;
        }
        Ok(true)
    }

    #[inline]
    fn null(&mut self) {
        self.packet.put_null();
    }

    fn default(&mut self) -> bool {
        self.packet.put_default();
        true
    }

    #[inline]
    fn integer(&mut self, digits: &[u8], unsigned: bool) -> bool {
        if unsigned {
            parse_unsigned(digits).is_some_and(|value| {
                self.packet.put_u64(value);
                true
            })
        } else {
            parse_signed(digits).is_some_and(|value| {
                self.packet.put_i64(value);
                true
            })
        }
    }

    #[inline]
    fn plain(&mut self, text: &[u8]) {
        self.packet.put_bytes(text);
    }

    #[inline]
    fn string(&mut self, literal: &StrLit<'_>) {
        if literal.is_plain() {
            self.packet.put_bytes(literal.raw);
        } else {
            self.packet
                .put_with(literal.raw.len(), |out| literal.unescape_into(out));
        }
    }

    #[inline]
    fn date(&mut self, literal: &StrLit<'_>, with_time: bool) -> bool {
        if !self.dates {
            self.string(literal);
            return true;
        }
        let Some(day) = literal.raw.get(..10).and_then(parse_day) else {
            return false;
        };
        match (&literal.raw[10..], with_time) {
            ([], false) => self.packet.put_date(day),
            ([b' ', time @ ..], true) => {
                let Some((time, micros)) = parse_time(time) else {
                    return false;
                };
                self.packet.put_date_time(day, time, micros);
            }
            _ => return false,
        }
        true
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.packet.put_bytes(bytes);
    }
}

/// Parses `YYYY-MM-DD`, a day that is valid on every server. Other days (zeros, 30 February) are
/// left to the server, whose answer depends on its mode.
#[inline]
fn parse_day(text: &[u8]) -> Option<Day> {
    let text: &[u8; 10] = text.try_into().ok()?;
    if (text[4], text[7]) != (b'-', b'-') {
        return None;
    }
    let year = u16::from(two_digits(text, 0)?) * 100 + u16::from(two_digits(text, 2)?);
    let (month, day) = (two_digits(text, 5)?, two_digits(text, 8)?);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => return None,
    };
    (year > 0 && (1..=last).contains(&day)).then_some(Day { year, month, day })
}

/// Parses `HH:MM:SS` with up to six decimal places.
#[inline]
fn parse_time(text: &[u8]) -> Option<([u8; 3], u32)> {
    let (time, fraction) = text.split_at_checked(8)?;
    if (time[2], time[5]) != (b':', b':') {
        return None;
    }
    let time = [
        two_digits(time, 0).filter(|hour| *hour < 24)?,
        two_digits(time, 3).filter(|minute| *minute < 60)?,
        two_digits(time, 6).filter(|second| *second < 60)?,
    ];
    let micros = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => {
            let value = u32::try_from(parse_digits(digits)?).ok()?;
            value * 10_u32.pow(6 - digits.len() as u32)
        }
        _ => return None,
    };
    Some((time, micros))
}

#[inline]
fn two_digits(text: &[u8], at: usize) -> Option<u8> {
    let (tens, ones) = (text[at], text[at + 1]);
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| (tens - b'0') * 10 + (ones - b'0'))
}

/// Parses `[-+]?digits` within a signed 64-bit integer.
#[inline]
fn parse_signed(text: &[u8]) -> Option<i64> {
    match text.split_first()? {
        (b'-', digits) => {
            let value = parse_digits(digits)?;
            if value <= i64::MAX as u64 + 1 {
                Some(value.cast_signed().wrapping_neg())
            } else {
                None
            }
        }
        (b'+', digits) => i64::try_from(parse_digits(digits)?).ok(),
        _ => i64::try_from(parse_digits(text)?).ok(),
    }
}

/// Parses `+?digits` within an unsigned 64-bit integer.
#[inline]
fn parse_unsigned(text: &[u8]) -> Option<u64> {
    parse_digits(text.strip_prefix(b"+").unwrap_or(text))
}

#[inline]
fn parse_digits(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    if digits.len() <= 19 {
        // 19 digits cannot overflow, so no check per digit.
        return digits.iter().try_fold(0u64, |value, digit| {
            digit
                .is_ascii_digit()
                .then(|| value * 10 + u64::from(digit - b'0'))
        });
    }
    digits.iter().try_fold(0u64, |value, digit| {
        digit.is_ascii_digit().then_some(())?;
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_days_and_times_that_every_server_knows_go_as_numbers() {
        let day = |year, month, day| Some(Day { year, month, day });
        assert_eq!(parse_day(b"2024-02-29"), day(2024, 2, 29));
        assert_eq!(parse_day(b"9999-12-31"), day(9999, 12, 31));
        for other in [
            "0000-00-00",
            "2023-02-29",
            "1900-02-29",
            "2023-00-10",
            "2023-13-01",
            "2023-04-31",
            "0000-01-01",
            "2023/01/01",
            "2023-1-001",
            "20x3-01-01",
        ] {
            assert_eq!(parse_day(other.as_bytes()), None, "{other}");
        }
        assert_eq!(parse_time(b"23:59:59"), Some(([23, 59, 59], 0)));
        assert_eq!(parse_time(b"00:00:00.5"), Some(([0, 0, 0], 500_000)));
        assert_eq!(parse_time(b"01:02:03.000007"), Some(([1, 2, 3], 7)));
        for other in [
            "24:00:00",
            "1:02:03",
            "01:02:60",
            "01:02:03.",
            "01:02:03.1234567",
            "01:02:03+01:00",
        ] {
            assert_eq!(parse_time(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn integers_at_their_limits() {
        assert_eq!(parse_signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_signed(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_signed(b"9223372036854775808"), None);
        assert_eq!(parse_signed(b"-9223372036854775809"), None);
        assert_eq!(parse_unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_unsigned(b"18446744073709551616"), None);
        assert_eq!(parse_unsigned(b"-1"), None);
        assert_eq!(parse_signed(b"0007"), Some(7));
        assert_eq!(parse_signed(b""), None);
        assert_eq!(parse_signed(b"1.5"), None);
    }
}
