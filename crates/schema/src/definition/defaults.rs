//! Default values of columns.

use refloat_sqltext::{LexMode, TokenKind};

use super::types::Type;
use super::words::{Words, agree, plain};

/// Names for the time of the statement.
const NOW: &[&str] = &["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"];

/// The value after `DEFAULT` or `ON UPDATE`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `NULL`.
    Null,
    /// The time of the statement, with this many digits after the second.
    Now(u32),
    /// A string, unquoted.
    Text(Vec<u8>),
    /// A number as written.
    Number(String),
    /// Bits or hexadecimal digits.
    Bytes(Vec<u8>),
    /// Anything else, as [`plain`] simplifies it.
    Expression(Vec<u8>),
}

impl Value {
    /// Parses the text of a value.
    pub fn parse(text: &[u8], mode: LexMode) -> Self {
        let mut words = Words::new(text, mode);
        let mut around = words.clone();
        if let Some(inner) = around.parenthesised()
            && around.peek().is_none()
        {
            return Self::parse(inner, mode);
        }
        let expression = || Self::Expression(plain(text, mode));
        if words.is("NULL") {
            return Self::Null;
        }
        if words.is_any(&["TRUE", "FALSE"]) {
            return Self::Number(u8::from(words.is("TRUE")).to_string());
        }
        if words.is_any(NOW) {
            words.next();
            let digits = words.parenthesised().unwrap_or_default().trim_ascii();
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            return match digits.parse() {
                _ if words.peek().is_some() => expression(),
                Err(_) if !digits.is_empty() => expression(),
                digits => Self::Now(digits.unwrap_or(0)),
            };
        }
        number(&words)
            .or_else(|| bytes(&words))
            .or_else(|| string(&mut words))
            .unwrap_or_else(expression)
    }

    /// The value, for display.
    pub fn shown(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Now(0) => "CURRENT_TIMESTAMP".to_owned(),
            Self::Now(digits) => format!("CURRENT_TIMESTAMP({digits})"),
            Self::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
            Self::Number(number) => number.clone(),
            Self::Bytes(bytes) => bytes
                .iter()
                .fold("0x".to_owned(), |out, byte| out + &format!("{byte:02x}")),
            Self::Expression(text) => String::from_utf8_lossy(text).into_owned(),
        }
    }

    /// Whether the server has the value that the dump asks for in a column of this type. Also true
    /// if that cannot be told.
    pub fn is_met_by(&self, mode: LexMode, server: &Self, kind: &Type) -> bool {
        match (self, server) {
            (Self::Null, Self::Null) => true,
            (Self::Null, _) | (_, Self::Null) => false,
            (Self::Now(wanted), Self::Now(found)) => wanted == found,
            (Self::Expression(_), _) | (_, Self::Expression(_)) => true,
            (Self::Now(_), _) | (_, Self::Now(_)) => false,
            _ => self.literal_is_met_by(mode, server, kind),
        }
    }

    fn literal_is_met_by(&self, mode: LexMode, server: &Self, kind: &Type) -> bool {
        if self == server {
            return true;
        }
        if kind.is(&["bit"]) {
            let both = self.as_integer().zip(server.as_integer());
            return both.is_none_or(|(wanted, found)| wanted == found);
        }
        if kind.is_number() {
            return self.same_number(server, kind);
        }
        if kind.is(&["date", "time", "datetime", "timestamp"]) {
            return self.same_time(server, kind);
        }
        let (wanted, found) = (self.as_text(), server.as_text());
        if kind.is(&["enum"]) {
            return !matches!(self, Self::Text(_)) || agree(&lower(&wanted), mode, &lower(&found));
        }
        if kind.is(&["set"]) {
            return !matches!(self, Self::Text(_))
                || agree(&members(&wanted), mode, &members(&found));
        }
        if kind.is(&[
            "binary",
            "varbinary",
            "blob",
            "tinyblob",
            "mediumblob",
            "longblob",
        ]) {
            // Printed as text, these lose what is not text.
            let printable = wanted.is_ascii() && found.is_ascii();
            return !printable || agree(without_zeros(&wanted), mode, without_zeros(&found));
        }
        if kind.is(&["char"]) {
            return agree(wanted.trim_ascii_end(), mode, found.trim_ascii_end());
        }
        !kind.is_text() || agree(&wanted, mode, &found)
    }

    fn as_text(&self) -> Vec<u8> {
        match self {
            Self::Text(bytes) | Self::Bytes(bytes) | Self::Expression(bytes) => bytes.clone(),
            Self::Number(number) => number.clone().into_bytes(),
            Self::Null | Self::Now(_) => Vec::new(),
        }
    }

    fn as_integer(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) if bytes.len() <= 8 => Some(
                bytes
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
            ),
            Self::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    fn as_number(&self) -> Option<(String, f64)> {
        let text = match self {
            Self::Text(text) => String::from_utf8_lossy(text).trim().to_owned(),
            Self::Number(number) => number.clone(),
            Self::Bytes(_) => self.as_integer()?.to_string(),
            _ => return None,
        };
        let value: f64 = text.parse().ok()?;
        Some((text, value))
    }

    fn same_number(&self, server: &Self, kind: &Type) -> bool {
        let (Some((text, wanted)), Some((other, found))) = (self.as_number(), server.as_number())
        else {
            return true;
        };
        if kind.is(&["float", "double"]) {
            return (wanted - found).abs() <= wanted.abs() * 1e-6;
        }
        if kind.is(&["year"]) && wanted < 100.0 {
            return true;
        }
        // Digits beyond what the column keeps are rounded.
        let fraction = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
        let rounded = fraction(&text) > fraction(&other) || text.contains(['e', 'E']);
        trimmed(&text) == trimmed(&other) || (rounded && (wanted - found).abs() <= 1.0)
    }

    fn same_time(&self, server: &Self, kind: &Type) -> bool {
        let digits = |value: &Self| {
            let mut text = value.as_text();
            text.retain(u8::is_ascii_digit);
            while text.last() == Some(&b'0') {
                text.pop();
            }
            text
        };
        let plain = |value: &Self| {
            let text = value.as_text();
            let date = text.len() >= 10 && text[4] == b'-' && text[7] == b'-';
            date && text
                .iter()
                .all(|byte| byte.is_ascii_digit() || b"-: .".contains(byte))
        };
        if digits(self) == digits(server) {
            return true;
        }
        // A timestamp is printed in the session's time zone, and a time can be written in many
        // ways.
        let decidable = kind.is(&["date", "datetime"]) && plain(self) && plain(server);
        // Fractions beyond what the column keeps are rounded.
        !decidable || self.as_text().contains(&b'.')
    }
}

/// The number without insignificant zeros and signs.
fn trimmed(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.trim_start_matches('0');
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    if digits.is_empty() {
        return "0".to_owned();
    }
    format!("{sign}{digits}")
}

fn lower(text: &[u8]) -> Vec<u8> {
    text.trim_ascii_end().to_ascii_lowercase()
}

/// The members of a set in alphabetical order: servers print them in the order of the type.
fn members(text: &[u8]) -> Vec<u8> {
    let text = lower(text);
    let mut list: Vec<&[u8]> = text.split(|byte| *byte == b',').collect();
    list.sort_unstable();
    list.join(&b',')
}

fn without_zeros(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    &text[..end]
}

/// `-1`, `.5`, `1e-5`: the scanner splits off signs and points.
fn number(words: &Words<'_>) -> Option<Value> {
    let digits = |kind: TokenKind| matches!(kind, TokenKind::Number | TokenKind::Word);
    let mut text = Vec::new();
    for token in words.rest() {
        let fits = digits(token.kind) || matches!(token.kind, TokenKind::Punct(b'-' | b'+' | b'.'));
        if !fits {
            return None;
        }
        text.extend_from_slice(words.bytes(token));
    }
    let text = String::from_utf8(text).ok()?;
    let digits = text.trim_start_matches(['-', '+']);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    text.parse::<f64>().ok()?;
    Some(Value::Number(text))
}

/// `0x61`, `x'61'`, `0b101`, `b'101'`, with or without a character set before them.
fn bytes(words: &Words<'_>) -> Option<Value> {
    let mut list = words.rest();
    if let [first, rest @ ..] = list
        && words.bytes(first).starts_with(b"_")
        && first.kind == TokenKind::Word
    {
        list = rest;
    }
    let (prefix, digits) = match list {
        [one] if one.kind == TokenKind::Word => words.bytes(one).split_at_checked(2)?,
        [prefix, one] if prefix.kind == TokenKind::Word && one.kind == TokenKind::Text => {
            let raw = words.bytes(one);
            (words.bytes(prefix), &raw[1..raw.len() - 1])
        }
        _ => return None,
    };
    let bits = match prefix.to_ascii_lowercase().as_slice() {
        b"0x" | b"x" => 4,
        b"0b" | b"b" => 1,
        _ => return None,
    };
    from_digits(digits, bits).map(Value::Bytes)
}

/// Bytes from digits of `bits` bits each, filled from the right.
fn from_digits(digits: &[u8], bits: usize) -> Option<Vec<u8>> {
    let mut out = vec![0_u8; (digits.len() * bits).div_ceil(8)];
    for (place, digit) in digits.iter().rev().enumerate() {
        let value = char::from(*digit).to_digit(1 << bits)? as u8;
        let last = out.len() - 1;
        out[last - place * bits / 8] |= value << (place * bits % 8);
    }
    Some(out)
}

/// One string or several in a row, with or without a character set before them.
fn string(words: &mut Words<'_>) -> Option<Value> {
    if let Some(first) = words.peek()
        && first.kind == TokenKind::Word
    {
        let bytes = words.bytes(first);
        if !(bytes.starts_with(b"_") || bytes.eq_ignore_ascii_case(b"n")) {
            return None;
        }
        words.next();
    }
    let mut text = Vec::new();
    words.peek()?;
    while let Some(token) = words.next() {
        if token.kind != TokenKind::Text {
            return None;
        }
        text.extend(words.unquoted(&token));
    }
    Some(Value::Text(text))
}
