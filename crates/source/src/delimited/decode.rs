//! Decodes hexadecimal and base64.

/// Replaces hexadecimal digits by the bytes they stand for; `false` if they are invalid.
pub fn from_hex(text: &mut Vec<u8>) -> bool {
    if !text.len().is_multiple_of(2) {
        return false;
    }
    for at in 0..text.len() / 2 {
        let digit = |byte: u8| (byte as char).to_digit(16);
        let (Some(high), Some(low)) = (digit(text[2 * at]), digit(text[2 * at + 1])) else {
            return false;
        };
        text[at] = (high << 4 | low) as u8;
    }
    text.truncate(text.len() / 2);
    true
}

/// Replaces base64 by the bytes it stands for; `false` if it is invalid. Newlines, which the server
/// inserts after every 76 digits, are ignored.
pub fn from_base64(text: &mut Vec<u8>) -> bool {
    let (mut bits, mut held, mut to, mut padding, mut digits) = (0_u32, 0, 0, 0, 0_usize);
    for at in 0..text.len() {
        let value = match text[at] {
            byte @ b'A'..=b'Z' => byte - b'A',
            byte @ b'a'..=b'z' => byte - b'a' + 26,
            byte @ b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            b'\n' | b'\r' => continue,
            _ => return false,
        };
        if padding > 0 {
            return false;
        }
        digits += 1;
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            text[to] = (bits >> held) as u8;
            bits &= (1 << held) - 1;
            to += 1;
        }
    }
    text.truncate(to);
    padding <= 2 && (digits + padding).is_multiple_of(4)
}
