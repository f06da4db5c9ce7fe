//! Normalises cells so that both sides write the same value as the same bytes.

use std::io::Write as _;

use refloat_schema::columns::{NEVER_2038, NEVER_2106};

use crate::rows::RowText;

/// How a cell is normalised before it is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// Compared byte by byte.
    Bytes,
    /// A floating-point number, which the two vendors may print differently.
    Number,
    /// A JSON document, which one vendor stores as text and the other as parsed values.
    Json,
    /// The end of a row's period in a system-versioned table. The timestamp that means "not ended"
    /// differs before and after MariaDB 11.5.
    PeriodEnd,
    /// An integer, whatever its sign and leading zeros. This kind and those below are for literals
    /// in dumps of other tools.
    Integer,
    /// A decimal number, whatever its leading and trailing zeros.
    Decimal,
    /// A `FLOAT`, compared by value.
    Float,
    /// A `DOUBLE`, compared by value.
    Double,
    /// A time, whatever the trailing zeros of its fraction.
    Fraction,
    /// A `BIT`, whatever its leading zero bytes.
    Bits,
    /// A `CHAR`, whatever its trailing blanks.
    Blanks,
    /// A `BINARY`, whatever its trailing zero bytes.
    Zeros,
}

/// Appends a cell to `text`, normalised by its kind.
pub fn push(text: &mut RowText, cell: Option<&[u8]>, kind: CellKind, scratch: &mut Vec<u8>) {
    let Some(value) = cell else {
        return text.push(None);
    };
    scratch.clear();
    let known = match kind {
        CellKind::Number => std::str::from_utf8(value)
            .ok()
            .and_then(|value| value.parse::<f64>().ok())
            .is_some_and(|number| write!(scratch, "{number:?}").is_ok()),
        // Some servers keep the sign of zero, others do not.
        CellKind::Double => std::str::from_utf8(value)
            .ok()
            .and_then(|value| value.parse::<f64>().ok())
            .is_some_and(|number| write!(scratch, "{:?}", number + 0.0).is_ok()),
        CellKind::Float => std::str::from_utf8(value)
            .ok()
            .and_then(|value| value.parse::<f32>().ok())
            .is_some_and(|number| write!(scratch, "{:?}", number + 0.0).is_ok()),
        CellKind::Json => serde_json::from_slice::<serde_json::Value>(value)
            .is_ok_and(|value| serde_json::to_writer(&mut *scratch, &value).is_ok()),
        CellKind::PeriodEnd if value == NEVER_2038 => {
            scratch.extend_from_slice(NEVER_2106);
            true
        }
        CellKind::Integer | CellKind::Decimal => shortest(value, scratch),
        CellKind::Fraction => return text.push(Some(without_fraction_zeros(value))),
        CellKind::Bits => return text.push(Some(without_first(value, 0))),
        CellKind::Blanks => return text.push(Some(without_last(value, b' '))),
        CellKind::Zeros => return text.push(Some(without_last(value, 0))),
        CellKind::Bytes | CellKind::PeriodEnd => false,
    };
    text.push(Some(if known { scratch } else { value }));
}

/// Writes a number without a plus sign, without redundant zeros and without the sign of zero.
/// Returns `false` if it holds anything but digits, signs and a point.
fn shortest(value: &[u8], out: &mut Vec<u8>) -> bool {
    if value
        .iter()
        .any(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-'))
    {
        return false;
    }
    let minus = value.first() == Some(&b'-');
    let signed = minus || value.first() == Some(&b'+');
    let digits = &value[usize::from(signed)..];
    let digits = without_first(digits, b'0');
    let digits = without_fraction_zeros(digits);
    if minus && !digits.is_empty() {
        out.push(b'-');
    }
    if digits.first().is_none_or(|byte| *byte == b'.') {
        out.push(b'0');
    }
    out.extend_from_slice(digits);
    true
}

fn without_first(mut value: &[u8], byte: u8) -> &[u8] {
    while let [first, rest @ ..] = value
        && *first == byte
    {
        value = rest;
    }
    value
}

fn without_last(mut value: &[u8], byte: u8) -> &[u8] {
    while let [rest @ .., last] = value
        && *last == byte
    {
        value = rest;
    }
    value
}

/// Strips the trailing zeros of a fraction, and the point if nothing is left behind it.
fn without_fraction_zeros(value: &[u8]) -> &[u8] {
    if !value.contains(&b'.') {
        return value;
    }
    let value = without_last(value, b'0');
    value.strip_suffix(b".").unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::cells;

    fn pushed(value: &str, kind: CellKind) -> String {
        let mut text = RowText::default();
        push(&mut text, Some(value.as_bytes()), kind, &mut Vec::new());
        let cell = cells(text.bytes())[0].unwrap().to_vec();
        String::from_utf8(cell).unwrap()
    }

    #[test]
    fn what_is_written_in_two_ways_is_one_value() {
        let cases = [
            (CellKind::Integer, vec!["42", "0042", "+42"]),
            (CellKind::Integer, vec!["0", "-0", "000"]),
            (CellKind::Integer, vec!["-7", "-007"]),
            (CellKind::Decimal, vec!["1.5", "1.50", "01.500"]),
            (CellKind::Decimal, vec!["0", "0.00", "-0.0"]),
            (CellKind::Decimal, vec!["-0.5", "-.50"]),
            (CellKind::Decimal, vec!["100", "100.0"]),
            (CellKind::Float, vec!["0.1", "0.10000000149011612"]),
            (CellKind::Double, vec!["0", "-0", "0e0"]),
            (CellKind::Fraction, vec!["10:00:00", "10:00:00.000"]),
            (CellKind::Fraction, vec!["10:00:00.5", "10:00:00.500"]),
            (CellKind::Bits, vec!["\u{5}", "\0\0\u{5}"]),
            (CellKind::Blanks, vec!["a b", "a b  "]),
            (CellKind::Zeros, vec!["a\0b", "a\0b\0"]),
        ];
        for (kind, values) in cases {
            for value in &values {
                assert_eq!(
                    pushed(value, kind),
                    pushed(values[0], kind),
                    "{kind:?} {value}"
                );
            }
        }
        let others = [
            (CellKind::Integer, "10", "1"),
            (CellKind::Integer, "-1", "1"),
            (CellKind::Decimal, "10", "100"),
            (CellKind::Decimal, "1.05", "1.5"),
            (CellKind::Decimal, "1e2", "1e20"),
            (CellKind::Double, "0.1", "0.10000000149011612"),
            (CellKind::Fraction, "10:00:00", "10:00:00.001"),
            (CellKind::Fraction, "2020-01-10", "2020-01-1"),
            (CellKind::Bits, "\u{5}\0", "\u{5}"),
            (CellKind::Blanks, " a", "a"),
            (CellKind::Zeros, "\0a", "a"),
        ];
        for (kind, one, other) in others {
            assert_ne!(
                pushed(one, kind),
                pushed(other, kind),
                "{kind:?} {one} {other}"
            );
        }
    }
}
