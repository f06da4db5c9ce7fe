//! Numbers.

/// Appends the low `bytes` bytes of a number, big-endian.
pub fn whole(value: u64, bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes()[8 - bytes..]);
}

/// An integer of so many bytes: big-endian, and with its sign bit flipped, so that bytes compare as
/// numbers do.
pub fn integer(text: &[u8], bytes: usize, unsigned: bool, out: &mut Vec<u8>) -> Option<()> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut size: u64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        size = size.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    let most = u64::MAX >> (64 - 8 * bytes);
    if unsigned {
        // "-0" is 0.
        if size > most || negative && size > 0 {
            return None;
        }
        whole(size, bytes, out);
        return Some(());
    }
    let sign = 1 << (8 * bytes - 1);
    let value = if negative {
        (size <= sign).then(|| sign - size)?
    } else {
        (size < sign).then(|| sign + size)?
    };
    whole(value, bytes, out);
    Some(())
}

/// Bytes that hold so many decimal digits (`dig2bytes` of `strings/decimal.c`).
const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
/// Digits of a group.
const GROUP: usize = 9;

/// Bytes of a decimal number (`decimal_bin_size`).
pub fn decimal_bytes(precision: usize, scale: usize) -> usize {
    let bytes = |digits: usize| digits / GROUP * 4 + BYTES[digits % GROUP];
    bytes(precision - scale) + bytes(scale)
}

/// Appends up to nine digits.
fn group(digits: &[u8], out: &mut Vec<u8>) {
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    whole(value, BYTES[digits.len()], out);
}

/// A decimal number (`decimal2bin`): groups of nine digits, counted from the point, each in as many
/// bytes as it needs. Negative numbers have all bits flipped, and then all have the first one
/// flipped.
pub fn decimal(
    text: &[u8],
    precision: usize,
    scale: usize,
    unsigned: bool,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    let is_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let zeros = whole.iter().take_while(|digit| **digit == b'0').count();
    let whole = &whole[zeros..];
    // More digits after the point would be rounded, unless they are zeros.
    let (fraction, more) = fraction.split_at(fraction.len().min(scale));
    if whole.len() > precision - scale || more.iter().any(|digit| *digit != b'0') {
        return None;
    }
    let is_zero = whole.is_empty() && fraction.iter().all(|digit| *digit == b'0');
    if negative && (unsigned || is_zero) {
        return None;
    }
    let start = out.len();
    let mut padded = [b'0'; 65];
    let first = precision - scale - whole.len();
    padded
        .get_mut(first..precision - scale)?
        .copy_from_slice(whole);
    padded
        .get_mut(precision - scale..precision - scale + fraction.len())?
        .copy_from_slice(fraction);
    let (before, after) = padded[..precision].split_at(precision - scale);
    let (lead, groups) = before.split_at(before.len() % GROUP);
    group(lead, out);
    for digits in groups.chunks(GROUP).chain(after.chunks(GROUP)) {
        group(digits, out);
    }
    if negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
    out[start] ^= 0x80;
    Some(())
}

/// Longest number without an exponent that the server reads as it is: it turns longer ones into a
/// decimal first.
const PLAIN_MOST: usize = 30;

/// A number with a point or an exponent, or a whole one.
fn approximate(text: &[u8], unsigned: bool) -> Option<f64> {
    let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E');
    let is_plain = !text.iter().any(|byte| matches!(byte, b'e' | b'E'));
    if text.is_empty() || !text.iter().all(is_number) || is_plain && text.len() > PLAIN_MOST {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let mut digits = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    if value == 0.0 && digits.any(|byte| matches!(byte, b'1'..=b'9')) {
        return None; // Too small.
    }
    // A negative zero depends on how it is written.
    let is_exact = value.is_finite() && !(value == 0.0 && text.contains(&b'-'));
    (is_exact && !(unsigned && value < 0.0)).then_some(value)
}

/// A number of double precision.
pub fn double(text: &[u8], unsigned: bool, out: &mut Vec<u8>) -> Option<()> {
    let value = approximate(text, unsigned)?;
    out.extend_from_slice(&value.to_le_bytes());
    Some(())
}

/// A number of single precision. The server rounds the one of double precision, which must be in
/// range before.
pub fn float(text: &[u8], unsigned: bool, out: &mut Vec<u8>) -> Option<()> {
    let value = approximate(text, unsigned)?;
    let rounded = value as f32;
    if value.abs() > f64::from(f32::MAX) || rounded == 0.0 && value != 0.0 {
        return None;
    }
    out.extend_from_slice(&rounded.to_le_bytes());
    Some(())
}

/// Bits, of the bytes of a literal.
pub fn bits(text: &[u8], bits: usize, out: &mut Vec<u8>) -> Option<()> {
    let bytes = bits.div_ceil(8);
    let zeros = text.iter().take_while(|byte| **byte == 0).count();
    let text = &text[zeros..];
    let pad = bytes.checked_sub(text.len())?;
    let first = if pad == 0 { text.first() } else { None };
    // Of the first byte, only some bits may be there.
    let unused = bytes * 8 - bits;
    if first.is_some_and(|first| first.leading_zeros() < unused as u32) {
        return None;
    }
    out.extend(std::iter::repeat_n(0, pad));
    out.extend_from_slice(text);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Put = fn(&[u8], &mut Vec<u8>) -> Option<()>;

    fn stored(text: &str, put: Put) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        put(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn integers() {
        let tiny: Put = |text, out| integer(text, 1, false, out);
        assert_eq!(stored("-128", tiny), Some(vec![0]));
        assert_eq!(stored("127", tiny), Some(vec![255]));
        assert_eq!(stored("+0007", tiny), Some(vec![135]));
        for other in ["128", "-129", "", "-", "1.0", "1e1", " 1"] {
            assert_eq!(stored(other, tiny), None, "{other}");
        }
        let big: Put = |text, out| integer(text, 8, false, out);
        assert_eq!(stored("-9223372036854775808", big), Some(vec![0; 8]));
        assert_eq!(stored("9223372036854775807", big), Some(vec![255; 8]));
        assert_eq!(stored("9223372036854775808", big), None);
        let unsigned: Put = |text, out| integer(text, 8, true, out);
        assert_eq!(stored("18446744073709551615", unsigned), Some(vec![255; 8]));
        assert_eq!(stored("18446744073709551616", unsigned), None);
        assert_eq!(stored("-0", unsigned), Some(vec![0; 8]));
        assert_eq!(stored("-1", unsigned), None);
    }

    /// The example of `decimal2bin`: 1234567890.1234 in `DECIMAL(14,4)`.
    #[test]
    fn decimals() {
        let put: Put = |text, out| decimal(text, 14, 4, false, out);
        let positive = [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2];
        assert_eq!(stored("1234567890.1234", put), Some(positive.to_vec()));
        assert_eq!(stored("0001234567890.12340", put), Some(positive.to_vec()));
        let negative: Vec<u8> = positive.iter().map(|byte| !byte).collect();
        assert_eq!(stored("-1234567890.1234", put), Some(negative));
        assert_eq!(stored(".5", put), Some(vec![0x80, 0, 0, 0, 0, 0x13, 0x88]));
        for other in ["1.23456", "12345678901.0", "-0", "-0.0000", "1e3", ".", ""] {
            assert_eq!(stored(other, put), None, "{other}");
        }
    }

    #[test]
    fn approximate_numbers() {
        let put: Put = |text, out| float(text, false, out);
        assert_eq!(stored("0.1", put), Some(0.1_f32.to_le_bytes().to_vec()));
        assert_eq!(
            stored("-1e-3", put),
            Some((-1e-3_f32).to_le_bytes().to_vec())
        );
        for other in [
            "1e39",
            "3.4028235e38",
            "-1e-50",
            "1e-400",
            "-0",
            "nan",
            "inf",
            "1.2.3",
            "",
        ] {
            assert_eq!(stored(other, put), None, "{other}");
        }
        let put: Put = |text, out| double(text, true, out);
        assert_eq!(stored("1e39", put), Some(1e39_f64.to_le_bytes().to_vec()));
        assert_eq!(stored("-1", put), None);
    }

    #[test]
    fn bits_of_a_literal() {
        let put: Put = |text, out| bits(text, 10, out);
        assert_eq!(stored("\x03\x01", put), Some(vec![3, 1]));
        assert_eq!(stored("\0\0\x07", put), Some(vec![0, 7]));
        assert_eq!(stored("", put), Some(vec![0, 0]));
        assert_eq!(stored("\x04\x01", put), None);
        assert_eq!(stored("\x01\x01\x01", put), None);
    }
}
