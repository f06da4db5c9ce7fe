//! Turns the values of a dump's rows into what the columns of a server would hold.
//!
//! If it is not certain what a server makes of a literal, it has no value here, and the rows of its
//! table are not compared.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use refloat_schema::columns::Column;
use refloat_schema::members::members;
use refloat_source::delimited::{Decode, Delimited};
use refloat_source::tuples::introducer;
use refloat_sqltext::{
    CharsetFamily, LexMode, RowVisitor, StrLit, TokenKind, VisitError, tokens, visit_rows,
};

use crate::cells::{CellKind, push};
use crate::rows::RowText;

/// The kind of values a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Integers of any size.
    Integer,
    /// Fixed-point numbers.
    Decimal,
    /// `FLOAT` and `DOUBLE`.
    Approximate,
    /// `YYYY-MM-DD`.
    Date,
    /// `YYYY-MM-DD hh:mm:ss`, optionally with a fraction.
    DateTime,
    /// `hh:mm:ss`, optionally with a fraction.
    Time,
    /// Four digits.
    Year,
    /// `BIT`, of 1 to 64 bits.
    Bits,
    /// Binary strings.
    Bytes,
    /// Character strings.
    Text,
    /// Member names of an `ENUM` or `SET`.
    Names,
    /// Those of an `ENUM` with an empty member; see [`LiteralColumn::by_number`].
    Numbered,
    /// `UUID` of MariaDB.
    Uuid,
    /// `INET4` of MariaDB.
    Inet4,
    /// `INET6` of MariaDB.
    Inet6,
}

/// A column of a dump's table that is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiteralColumn {
    /// Name, as its definition spells it.
    pub name: String,
    /// The values it holds.
    pub domain: Domain,
    /// How its cells are normalised, on both sides.
    pub kind: CellKind,
    /// The character set of the column; empty if it has none or it is unknown.
    pub own_charset: String,
    /// The character set that the server must convert it to; `None` for the column's own bytes.
    pub convert_to: Option<String>,
    /// Digits of the fraction of seconds that it stores.
    pub fraction: usize,
    /// The members of an `ENUM` or `SET`, if they are known.
    pub members: Vec<String>,
    /// Whether a value may be several members.
    pub is_set: bool,
}

impl LiteralColumn {
    /// How the values of a column are compared with literals in this character set.
    ///
    /// # Errors
    /// Why they cannot be.
    pub fn of(column: &Column, charset: &str) -> Result<Self, String> {
        // The server sends JSON as utf8mb4, whatever it calls the character set.
        let column_charset = match column.data_type.as_str() {
            "json" => "utf8mb4",
            _ => column.charset.as_deref().unwrap_or_default(),
        };
        let same = column_charset.is_empty()
            || charset == "binary"
            || charset == column_charset
            || (is_utf8(charset) && is_utf8(column_charset));
        // The name comes from a file and becomes part of a statement.
        for name in [charset, column_charset] {
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(format!("{name:?} is not a character set"));
            }
        }
        let (domain, kind) = match column.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "bool"
            | "boolean" | "serial" => (Domain::Integer, CellKind::Integer),
            "decimal" | "numeric" | "dec" | "fixed" => (Domain::Decimal, CellKind::Decimal),
            "float" => (Domain::Approximate, CellKind::Float),
            "double" | "real" => (Domain::Approximate, CellKind::Double),
            "date" => (Domain::Date, CellKind::Bytes),
            "datetime" | "timestamp" => (Domain::DateTime, CellKind::Fraction),
            "time" => (Domain::Time, CellKind::Fraction),
            "year" => (Domain::Year, CellKind::Bytes),
            "bit" => (Domain::Bits, CellKind::Bits),
            "binary" => (Domain::Bytes, CellKind::Zeros),
            "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector"
            | "geometry" | "point" | "linestring" | "polygon" | "multipoint"
            | "multilinestring" | "multipolygon" | "geometrycollection" | "geomcollection" => {
                (Domain::Bytes, CellKind::Bytes)
            }
            "enum" | "set" => (Domain::Names, CellKind::Bytes),
            "uuid" => (Domain::Uuid, CellKind::Bytes),
            "inet4" => (Domain::Inet4, CellKind::Bytes),
            "inet6" => (Domain::Inet6, CellKind::Bytes),
            "json" => (Domain::Text, CellKind::Json),
            // In a wide character set a blank is more than one byte.
            "char" if !(is_wide(column_charset) && same) => (Domain::Text, CellKind::Blanks),
            _ => (Domain::Text, CellKind::Bytes),
        };
        Ok(Self {
            name: column.name.clone(),
            domain,
            kind,
            own_charset: column_charset.to_owned(),
            convert_to: (!same).then(|| charset.to_owned()),
            fraction: fraction(&column.type_text),
            members: members(&column.type_text),
            is_set: column.data_type == "set",
        })
    }

    /// Its values are written as numbers, and compared so that index 0 differs from an empty
    /// member: those of an `ENUM` as one byte 0, or a byte 1 and the name. Those of a `SET` are
    /// compared as numbers, because its text does not show an empty member.
    pub fn by_number(&mut self) {
        if self.is_set {
            (self.domain, self.kind) = (Domain::Integer, CellKind::Integer);
        } else {
            self.domain = Domain::Numbered;
        }
        self.convert_to = None;
    }

    /// Whether its values are text.
    fn is_text(&self) -> bool {
        matches!(self.domain, Domain::Text | Domain::Names)
    }

    /// The members of an `ENUM` or `SET` that a number stands for, as the server sends them; `None`
    /// if that is not certain.
    fn named(&self, number: &[u8]) -> Option<String> {
        let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
        let value = match (self.is_set, number) {
            (_, 0) => String::new(),
            (false, number) => {
                let at = usize::try_from(number - 1).ok()?;
                self.members.get(at)?.clone()
            }
            (true, number) => {
                let known = 1u64.checked_shl(u32::try_from(self.members.len()).ok()?);
                if known.is_some_and(|end| number >= end) {
                    return None;
                }
                let members = self.members.iter().enumerate();
                let chosen = members.filter(|(at, _)| number >> at & 1 == 1);
                let chosen: Vec<&str> = chosen.map(|(_, member)| member.as_str()).collect();
                chosen.join(",")
            }
        };
        let sent_in = self.convert_to.as_ref().unwrap_or(&self.own_charset);
        (value.is_ascii() && !is_wide(sent_in) || is_utf8(sent_in)).then_some(value)
    }

    /// The value of an `ENUM` or `SET` as the server shows it; `None` if it may be stored in
    /// another spelling. Characters that are not ASCII are taken as they are.
    fn canonical(&self, value: &[u8]) -> Option<Vec<u8>> {
        if value.is_empty() || self.members.is_empty() || !value.is_ascii() {
            return Some(value.to_owned());
        }
        let parts: Vec<&[u8]> = if self.is_set {
            value.split(|byte| *byte == b',').collect()
        } else {
            vec![value]
        };
        let place = |part: &&[u8]| self.members.iter().position(|one| one.as_bytes() == *part);
        let places: Option<BTreeSet<usize>> = parts.iter().map(place).collect();
        let members = places?
            .into_iter()
            .map(|place| self.members[place].as_bytes());
        Some(members.collect::<Vec<_>>().join(&b','))
    }
}

/// How a piece of rows is written.
#[derive(Debug, Clone)]
pub enum Form {
    /// Tuples of an `INSERT`.
    Tuples(LexMode),
    /// Delimited text.
    Delimited(Delimited, Vec<Decode>),
}

/// Hands over each row of a piece as [`RowText`]. `targets` says which column each value belongs
/// to, if any.
///
/// # Errors
/// The offset in the piece of the row that cannot be read, and the reason.
pub fn each_row(
    text: &[u8],
    form: &Form,
    columns: &[LiteralColumn],
    targets: &[Option<usize>],
    each: &mut dyn FnMut(&[u8]),
) -> Result<(), (usize, String)> {
    let mut cells = Cells {
        mode: match form {
            Form::Tuples(mode) => *mode,
            Form::Delimited(..) => LexMode::default(),
        },
        columns,
        targets,
        at: 0,
        row_at: 0,
        bytes: Vec::new(),
        found: vec![None; columns.len()],
        row: RowText::default(),
        scratch: Vec::new(),
        each,
    };
    let result = match form {
        Form::Tuples(mode) => visit_rows(text, *mode, &mut cells),
        Form::Delimited(format, decode) => format.visit(text, decode, &mut cells),
    };
    match result {
        Ok(_) => Ok(()),
        Err(VisitError::Visitor { error, .. }) => Err((cells.row_at, error)),
        Err(VisitError::Syntax { at, expected }) => Err((at, format!("expected {expected}"))),
    }
}

struct Cells<'a> {
    mode: LexMode,
    columns: &'a [LiteralColumn],
    targets: &'a [Option<usize>],
    /// Position of the next value in its row.
    at: usize,
    row_at: usize,
    /// Values of the row, concatenated; `found` says where each of them lies.
    bytes: Vec<u8>,
    found: Vec<Option<(usize, usize)>>,
    row: RowText,
    scratch: Vec<u8>,
    each: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Cells<'a> {
    /// The column of the next value.
    fn column(&mut self) -> Result<Option<(usize, &'a LiteralColumn)>, String> {
        let target = self.targets.get(self.at).copied();
        self.at += 1;
        let target = target.ok_or("the row has more values than the table has columns")?;
        Ok(target.map(|place| (place, &self.columns[place])))
    }

    /// Keeps the bytes from `from` on as a column's value, if `fits`; otherwise the value is not
    /// certain.
    fn keep(&mut self, place: usize, from: usize, fits: bool) -> Result<(), String> {
        if !fits {
            let column = &self.columns[place];
            let value = String::from_utf8_lossy(&self.bytes[from..]);
            return Err(unknown(column, &value));
        }
        self.found[place] = Some((from, self.bytes.len()));
        Ok(())
    }

    /// A value written as hexadecimal or binary digits.
    fn digits(&mut self, digits: &[u8], base: u32) -> Result<(), String> {
        let Some((place, column)) = self.column()? else {
            return Ok(());
        };
        let from = self.bytes.len();
        self.push_digits(digits, base)?;
        let fits = match column.domain {
            Domain::Bytes | Domain::Bits => true,
            Domain::Text => self.is_sent_as_is(column, from),
            _ => false,
        };
        self.keep(place, from, fits)
    }

    fn push_digits(&mut self, digits: &[u8], base: u32) -> Result<(), String> {
        let per_byte = if base == 16 { 2 } else { 8 };
        let mut byte = 0;
        for (at, digit) in digits.iter().enumerate() {
            let Some(value) = char::from(*digit).to_digit(base) else {
                return Err("digits that are none".to_owned());
            };
            byte = byte * base + value;
            if (digits.len() - at - 1).is_multiple_of(per_byte) {
                self.bytes.extend(u8::try_from(byte));
                byte = 0;
            }
        }
        Ok(())
    }

    /// Whether the column's own bytes are what the server sends.
    fn is_sent_as_is(&self, column: &LiteralColumn, from: usize) -> bool {
        column.convert_to.is_none()
            || (self.bytes[from..].is_ascii() && !is_wide(&column.own_charset))
    }
}

impl RowVisitor for Cells<'_> {
    type Error = String;

    fn begin_row(&mut self, at: usize) -> Result<(), String> {
        self.at = 0;
        self.row_at = at;
        self.bytes.clear();
        self.found.fill(None);
        Ok(())
    }

    fn null(&mut self) -> Result<(), String> {
        self.column().map(drop)
    }

    fn default(&mut self) -> Result<(), String> {
        match self.column()? {
            None => Ok(()),
            Some((_, column)) => Err(unknown(column, "DEFAULT")),
        }
    }

    fn number(&mut self, text: &[u8]) -> Result<(), String> {
        let Some((place, column)) = self.column()? else {
            return Ok(());
        };
        let from = self.bytes.len();
        let fits = match column.domain {
            Domain::Integer => is_integer(text),
            Domain::Decimal => is_number(text) && !text.contains(&b'e') && !text.contains(&b'E'),
            Domain::Approximate => is_number(text),
            Domain::Year => text.len() == 4 && is_integer(text),
            // As text, a number keeps its spelling only if that is the shortest one.
            Domain::Text => is_integer(text) && (text == b"0" || matches!(text[0], b'1'..=b'9')),
            Domain::Bits => {
                let value = std::str::from_utf8(text)
                    .ok()
                    .and_then(|text| text.parse::<u64>().ok());
                let bytes = value.map(u64::to_be_bytes);
                self.bytes.extend(bytes.iter().flatten());
                return self.keep(place, from, bytes.is_some());
            }
            Domain::Names | Domain::Numbered => {
                let Some(value) = column.named(text) else {
                    return Err(unknown(column, &String::from_utf8_lossy(text)));
                };
                if column.domain == Domain::Numbered {
                    self.bytes.push(u8::from(text != b"0"));
                }
                self.bytes.extend_from_slice(value.as_bytes());
                return self.keep(place, from, true);
            }
            _ => false,
        };
        self.bytes.extend_from_slice(text);
        self.keep(place, from, fits)
    }

    fn string(&mut self, literal: StrLit<'_>) -> Result<(), String> {
        let Some((place, column)) = self.column()? else {
            return Ok(());
        };
        let from = self.bytes.len();
        unescape(&literal, &mut self.bytes);
        let value = &self.bytes[from..];
        let binary = match literal.introducer {
            None => false,
            Some(word) if word.eq_ignore_ascii_case(b"_binary") => true,
            // For pure ASCII, any other character set makes no difference.
            Some(word) if value.is_ascii() && !is_wide(&String::from_utf8_lossy(&word[1..])) => {
                false
            }
            Some(_) => return self.keep(place, from, false),
        };
        let fits = match column.domain {
            Domain::Bytes | Domain::Bits => true,
            Domain::Names if !binary || self.is_sent_as_is(column, from) => {
                let value = column.canonical(value);
                let known = value.is_some();
                if let Some(value) = value {
                    self.bytes.truncate(from);
                    self.bytes.extend_from_slice(&value);
                }
                known
            }
            Domain::Names | Domain::Numbered => false,
            Domain::Text => !binary || self.is_sent_as_is(column, from),
            Domain::Integer => is_integer(value),
            Domain::Decimal => is_number(value) && !value.contains(&b'e') && !value.contains(&b'E'),
            Domain::Approximate => is_number(value),
            Domain::Year => value.len() == 4 && is_integer(value),
            Domain::Date => is_date(value),
            Domain::DateTime => {
                value.len() > 11
                    && value[10] == b' '
                    && is_date(&value[..10])
                    && is_time(&value[11..], column.fraction)
            }
            Domain::Time => is_time(value.strip_prefix(b"-").unwrap_or(value), column.fraction),
            Domain::Uuid => is_uuid(value),
            Domain::Inet4 => is_shortest::<Ipv4Addr>(value),
            Domain::Inet6 => is_shortest::<Ipv6Addr>(value),
        };
        self.keep(place, from, fits)
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.string(StrLit::verbatim(bytes))
    }

    fn hex(&mut self, digits: &[u8]) -> Result<(), String> {
        self.digits(digits, 16)
    }

    fn bit(&mut self, digits: &[u8]) -> Result<(), String> {
        self.digits(digits, 2)
    }

    fn expression(&mut self, text: &[u8]) -> Result<(), String> {
        let Some((place, column)) = self.column()? else {
            return Ok(());
        };
        let literal = of_utf8mb4(text, self.mode).filter(|_| column.domain == Domain::Text);
        let from = self.bytes.len();
        let Some(literal) = literal else {
            let digits = introduced(text, &column.own_charset);
            let Some(digits) = digits.filter(|_| column.is_text()) else {
                return Err(unknown(column, &String::from_utf8_lossy(text)));
            };
            self.push_digits(digits, 16)?;
            return self.keep(place, from, column.convert_to.is_none());
        };
        unescape(&literal, &mut self.bytes);
        let unicode = matches!(
            column.own_charset.as_str(),
            "" | "utf8" | "utf8mb3" | "utf8mb4"
        );
        let fits = self.bytes[from..].is_ascii() || (unicode && column.convert_to.is_none());
        self.keep(place, from, fits)
    }

    fn end_row(&mut self, _end: usize) -> Result<(), String> {
        if self.at != self.targets.len() {
            return Err(format!(
                "the row has {} values where {} are expected",
                self.at,
                self.targets.len()
            ));
        }
        self.row.clear();
        for (cell, column) in self.found.iter().zip(self.columns) {
            let value = cell.map(|(from, to)| &self.bytes[from..to]);
            push(&mut self.row, value, column.kind, &mut self.scratch);
        }
        (self.each)(self.row.bytes());
        Ok(())
    }
}

/// The literal in `CONVERT("…" USING UTF8MB4)`: mydumper writes JSON like this when the session's
/// character set is binary.
fn of_utf8mb4(text: &[u8], mode: LexMode) -> Option<StrLit<'_>> {
    const HEAD: &[u8] = b"CONVERT(";
    const TAIL: &[u8] = b" USING UTF8MB4)";
    let inner = text.len().checked_sub(HEAD.len() + TAIL.len())?;
    let (head, rest) = text.split_at(HEAD.len());
    let (inner, tail) = rest.split_at(inner);
    if !head.eq_ignore_ascii_case(HEAD) || !tail.eq_ignore_ascii_case(TAIL) {
        return None;
    }
    let mut all = tokens(inner, mode);
    let one = all.next().filter(|token| token.kind == TokenKind::Text)?;
    if all.next().is_some() || one.range != (0..inner.len()) {
        return None;
    }
    Some(StrLit::new(&inner[1..inner.len() - 1], inner[0], mode))
}

/// The digits of a text in the character set of its column, such as `_latin1 0xFC`:
/// `refloat dump` writes texts that are not ASCII like this in SQL.
fn introduced<'a>(text: &'a [u8], charset: &str) -> Option<&'a [u8]> {
    let (word, literal) = text.split_at(memchr::memchr(b' ', text)?);
    let word = word.strip_prefix(b"_")?;
    let is_own = word == introducer(charset).as_bytes();
    literal.strip_prefix(b" 0x").filter(|_| is_own)
}

fn unknown(column: &LiteralColumn, value: &str) -> String {
    let shown: String = value.chars().take(40).collect();
    format!(
        "what the server makes of {shown} in column {} is not known",
        column.name
    )
}

/// Appends the value of a string literal, following the server's manual.
fn unescape(literal: &StrLit<'_>, out: &mut Vec<u8>) {
    if literal.is_plain() {
        return out.extend_from_slice(literal.raw);
    }
    // Only the lexer knows whether a backslash is part of a multi-byte character.
    if literal.family() != CharsetFamily::Plain {
        return literal.unescape_into(out);
    }
    let mut bytes = literal.raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == literal.quote {
            // A doubled quote stands for one.
            bytes.next_if_eq(&literal.quote);
            out.push(byte);
        } else if byte == b'\\' && literal.has_backslash {
            match bytes.next() {
                Some(b'0') => out.push(0),
                Some(b'b') => out.push(8),
                Some(b't') => out.push(9),
                Some(b'n') => out.push(10),
                Some(b'r') => out.push(13),
                Some(b'Z') => out.push(26),
                Some(kept @ (b'%' | b'_')) => out.extend([b'\\', kept]),
                Some(other) => out.push(other),
                None => out.push(b'\\'),
            }
        } else {
            out.push(byte);
        }
    }
}

/// Whether a character set is UTF-8.
fn is_utf8(charset: &str) -> bool {
    matches!(charset, "utf8" | "utf8mb3" | "utf8mb4")
}

/// Whether ASCII characters take more than one byte in this character set.
fn is_wide(charset: &str) -> bool {
    let charset = charset.to_ascii_lowercase();
    ["ucs2", "utf16", "utf32"]
        .iter()
        .any(|wide| charset.starts_with(wide))
}

fn is_integer(text: &[u8]) -> bool {
    let sign = matches!(text.first(), Some(b'+' | b'-'));
    let digits = &text[usize::from(sign)..];
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn is_number(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
        && std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok())
}

/// As the server writes it: in lower case, with four dashes.
fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Whether an address is written in the shortest way.
fn is_shortest<A: FromStr + Display>(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.parse()
        .is_ok_and(|address: A| address.to_string() == text)
}

/// `YYYY-MM-DD`.
fn is_date(text: &[u8]) -> bool {
    text.len() == 10
        && text.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// The digits of a fraction of seconds that a type like `datetime(3)` stores.
fn fraction(type_text: &str) -> usize {
    let digits = type_text.split(['(', ')']).nth(1);
    digits
        .and_then(|digits| digits.trim().parse().ok())
        .unwrap_or(0)
}

/// `hh:mm:ss` or `hhh:mm:ss`, optionally with a fraction of so many digits: from others the server
/// makes something, by its `sql_mode`.
fn is_time(text: &[u8], digits: usize) -> bool {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &text[..0]),
    };
    let mut parts = whole.split(|byte| *byte == b':').map(<[u8]>::len);
    let shape = matches!(parts.next(), Some(2 | 3))
        && parts.next() == Some(2)
        && parts.next() == Some(2)
        && parts.next().is_none();
    let stored = fraction.iter().rposition(|byte| *byte != b'0');
    shape
        && stored.is_none_or(|last| last < digits)
        && fraction.iter().all(u8::is_ascii_digit)
        && whole
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::cells;

    fn column(domain: Domain, convert_to: Option<&str>) -> LiteralColumn {
        LiteralColumn {
            name: "c".to_owned(),
            domain,
            kind: CellKind::Bytes,
            own_charset: String::new(),
            convert_to: convert_to.map(str::to_owned),
            fraction: 6,
            members: Vec::new(),
            is_set: false,
        }
    }

    #[test]
    fn members_are_spelled_as_the_server_shows_them() {
        let found = |kind: &str, text: &str| {
            let column = Column::new("c", kind, Some("utf8mb4".to_owned()));
            let column = LiteralColumn::of(&column, "utf8mb4").unwrap();
            values(text, column).map(|mut found| found.remove(0).unwrap())
        };
        let set = found("set('a','b','c d')", "('c d,a,a')");
        assert_eq!(set.unwrap(), b"a,c d");
        assert_eq!(found("set('a','b')", "('')").unwrap(), b"");
        assert_eq!(found("enum('a,b','c')", "('a,b')").unwrap(), b"a,b");
        let other = found("enum('\u{e9}')", "('\u{c9}')");
        assert_eq!(other.unwrap(), "\u{c9}".as_bytes());
        for (kind, text) in [("set('a','b')", "('B')"), ("enum('one')", "('ONE')")] {
            assert!(found(kind, text).is_err(), "{kind} {text}");
        }
    }

    /// The values of one column, or why they are not certain.
    fn values(text: &str, column: LiteralColumn) -> Result<Vec<Option<Vec<u8>>>, String> {
        let mut found = Vec::new();
        let form = Form::Tuples(LexMode::default());
        let rows = each_row(text.as_bytes(), &form, &[column], &[Some(0)], &mut |row| {
            found.push(cells(row)[0].map(<[u8]>::to_vec));
        });
        rows.map(|()| found).map_err(|(_, why)| why)
    }

    #[test]
    fn literals_are_what_a_server_makes_of_them() {
        let value_of = |text, domain| values(text, column(domain, None)).unwrap()[0].clone();
        let is = |text, domain, value: &[u8]| {
            assert_eq!(value_of(text, domain).as_deref(), Some(value), "{text}");
        };
        assert_eq!(value_of("(NULL)", Domain::Text), None);
        is("(-5)", Domain::Integer, b"-5");
        is("('5')", Domain::Integer, b"5");
        is("(1.50)", Domain::Decimal, b"1.50");
        is("(1e3)", Domain::Approximate, b"1e3");
        is(
            "('2020-01-02 03:04:05.6')",
            Domain::DateTime,
            b"2020-01-02 03:04:05.6",
        );
        is("('-838:59:59')", Domain::Time, b"-838:59:59");
        let uuid = "123e4567-e89b-12d3-a456-426655440000";
        let text = format!("('{uuid}')");
        is(&text, Domain::Uuid, uuid.as_bytes());
        is("('2001:db8::1')", Domain::Inet6, b"2001:db8::1");
        is("('192.0.2.1')", Domain::Inet4, b"192.0.2.1");
        is("(0x0aFF)", Domain::Bytes, b"\x0a\xff");
        is("(0xabc)", Domain::Bytes, b"\x0a\xbc");
        is("(b'101011100')", Domain::Bits, b"\x01\x5c");
        is("(5)", Domain::Bits, b"\0\0\0\0\0\0\0\x05");
        is("(_binary 'a\\0b')", Domain::Bytes, b"a\0b");
        is(
            "('it''s \\\\ \\'x\\' \\% \\n')",
            Domain::Text,
            b"it's \\ 'x' \\% \n",
        );
        is(
            "(CONVERT(\"{\\\"a\\\": 1}\" USING UTF8MB4))",
            Domain::Text,
            b"{\"a\": 1}",
        );
    }

    /// As `refloat dump` writes SQL.
    #[test]
    fn texts_in_the_character_set_of_their_column() {
        let of = |charset: &str| LiteralColumn {
            own_charset: charset.to_owned(),
            ..column(Domain::Text, None)
        };
        for (text, charset, value) in [
            ("(_latin1 0xE9)", "latin1", b"\xe9".as_slice()),
            ("(_utf8mb4 0xC3A9)", "utf8mb3", "é".as_bytes()),
            ("(_utf16 0x00E9)", "ucs2", b"\0\xe9"),
        ] {
            let found = values(text, of(charset)).unwrap();
            assert_eq!(found[0].as_deref(), Some(value), "{text}");
        }
        let unlike = values("(_latin1 0xE9)", of("latin2")).unwrap_err();
        assert!(unlike.contains("is not known"), "{unlike}");
    }

    #[test]
    fn index_0_differs_from_an_empty_member() {
        let cell = |text: &str| {
            let column = Column::new("c", "enum('','a')", Some("utf8mb4".to_owned()));
            let mut column = LiteralColumn::of(&column, "utf8mb4").unwrap();
            column.by_number();
            values(text, column).unwrap().remove(0).unwrap()
        };
        assert_eq!(cell("(0)"), b"\0");
        assert_eq!(cell("(1)"), b"\x01");
        assert_eq!(cell("(2)"), b"\x01a");
    }

    #[test]
    fn a_fraction_that_is_not_stored_has_no_value() {
        for (kind, text, known) in [
            ("datetime", "('2024-01-02 03:04:05.678')", false),
            ("datetime", "('2024-01-02 03:04:05.000')", true),
            ("datetime(3)", "('2024-01-02 03:04:05.678')", true),
            ("time(2)", "('03:04:05.678')", false),
            ("timestamp(6)", "('2024-01-02 03:04:05.678901')", true),
        ] {
            let column = LiteralColumn::of(&Column::new("c", kind, None), "utf8mb4").unwrap();
            assert_eq!(values(text, column).is_ok(), known, "{kind} {text}");
        }
    }

    #[test]
    fn numbers_stand_for_members() {
        let of = |type_text: &str, is_set| LiteralColumn {
            members: members(type_text),
            is_set,
            own_charset: "utf8mb4".to_owned(),
            ..column(Domain::Names, None)
        };
        let is = |text: &str, column: LiteralColumn, value: &str| {
            let found = values(text, column).unwrap();
            assert_eq!(found[0].as_deref(), Some(value.as_bytes()), "{text}");
        };
        is("(2)", of("enum('a','é')", false), "é");
        is("(0)", of("enum('a','é')", false), "");
        is("(5)", of("set('a','b','c')", true), "a,c");
        values("(3)", of("enum('a','é')", false)).unwrap_err();
        values("(8)", of("set('a','b','c')", true)).unwrap_err();
    }

    #[test]
    fn what_is_not_certain_has_no_value() {
        for (text, domain) in [
            ("(NOW())", Domain::DateTime),
            ("(1+1)", Domain::Integer),
            ("('5 ')", Domain::Integer),
            ("('abc')", Domain::Integer),
            ("('2020-1-2')", Domain::Date),
            ("('123E4567-E89B-12D3-A456-426655440000')", Domain::Uuid),
            ("('123e4567e89b12d3a456426655440000')", Domain::Uuid),
            ("(0x123E4567E89B12D3A456426655440000)", Domain::Uuid),
            ("('2001:DB8::1')", Domain::Inet6),
            ("('2001:0db8::1')", Domain::Inet6),
            ("(0x0A000001)", Domain::Inet4),
            ("('192.0.2.1')", Domain::Inet6),
            ("(20200102)", Domain::Date),
            ("('10:00')", Domain::Time),
            ("(70)", Domain::Year),
            ("(1)", Domain::Names),
            ("(1.50)", Domain::Text),
            ("(_latin1 'é')", Domain::Text),
            ("(DEFAULT)", Domain::Text),
            ("(CONVERT('a' 'b' USING UTF8MB4))", Domain::Text),
        ] {
            let why = values(text, column(domain, None)).unwrap_err();
            assert!(why.contains("is not known"), "{text}: {why}");
        }
        // The column's own bytes, where the server sends it in another character set.
        let converted = || column(Domain::Text, Some("utf8mb4"));
        assert!(values("(0xE9)", converted()).is_err());
        assert!(values("(0x65)", converted()).is_ok());
        assert!(values("(1, 2)", column(Domain::Integer, None)).is_err());
        assert!(values("()", column(Domain::Integer, None)).is_err());
    }
}
