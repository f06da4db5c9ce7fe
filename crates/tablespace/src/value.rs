//! Values as InnoDB stores them, from the text that a dump has of them.
//!
//! A value is taken only if the server would store exactly it, without a warning. Everything else
//! is left to the server: rounding, cutting off, other spellings of a date, characters that are
//! not valid.

mod number;
mod text;
mod time;

use crate::description::StoredColumn;
use text::{FixedText, VariableText};

/// How the values of a column are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// An integer of so many bytes, big-endian, with the sign bit flipped.
    Integer {
        /// 1 to 4, or 8.
        bytes: usize,
        /// Whether it has no sign.
        unsigned: bool,
    },
    /// A decimal number (`decimal2bin`).
    Decimal {
        /// Digits in all.
        precision: usize,
        /// Digits after the point.
        scale: usize,
        /// Whether it may not be negative.
        unsigned: bool,
    },
    /// An IEEE number of single precision, little-endian.
    Float {
        /// Whether it may not be negative.
        unsigned: bool,
    },
    /// An IEEE number of double precision, little-endian.
    Double {
        /// Whether it may not be negative.
        unsigned: bool,
    },
    /// A year in one byte.
    Year,
    /// A date in three bytes.
    Date,
    /// A date and time in five bytes, and so many digits of a second.
    DateTime(usize),
    /// Seconds since 1970 in UTC in four bytes, and so many digits of a second.
    Timestamp(usize),
    /// A time, perhaps negative, in three bytes, and so many digits of a second.
    Time(usize),
    /// So many bits.
    Bit(usize),
    /// Text that is padded with blanks.
    FixedText(FixedText),
    /// Text of up to so many characters and bytes.
    Text(VariableText),
    /// So many bytes, padded with zeros.
    FixedBytes(usize),
    /// Up to so many bytes.
    Bytes(usize),
    /// The number of a member, in one or two bytes.
    Enum {
        /// The members, in the column's character set.
        members: Vec<Vec<u8>>,
    },
    /// A bit for each member.
    Set {
        /// The members, in the column's character set.
        members: Vec<Vec<u8>>,
    },
}

/// What SQL says of a column, beside how it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Declared<'a> {
    /// Its type as the server shows it: `decimal(10,2) unsigned`, `enum('a','b')`.
    pub type_text: &'a str,
    /// The members of an `ENUM` or a `SET`.
    pub members: &'a [String],
    /// Its character set, if it has one.
    pub charset: Option<&'a str>,
    /// The character set of the texts that will be stored.
    pub text_charset: &'a str,
}

/// A value as a dump has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal<'a> {
    /// A number without quotes.
    Number(&'a [u8]),
    /// A text between quotes, without its escapes.
    Text(&'a [u8]),
    /// The bytes of a hexadecimal or binary literal.
    Bytes(&'a [u8]),
}

/// Main types of InnoDB (`data0type.h`).
const FIXED_BINARY: u32 = 3;
const BINARY: u32 = 4;
const BLOB: u32 = 5;
const INT: u32 = 6;
const FLOAT: u32 = 9;
const DOUBLE: u32 = 10;

impl Stored {
    /// How the values of a column are stored. `None`: only the server can do it, or the column is
    /// not stored as one of its type is.
    pub fn of(column: &StoredColumn, declared: Declared<'_>) -> Option<Self> {
        let Type {
            word,
            numbers,
            unsigned,
        } = Type::of(declared.type_text)?;
        let (kind, len) = (column.kind, column.len as usize);
        let first = numbers.first().copied();
        let fraction = first.unwrap_or(0);
        let with_fraction = |whole: usize| {
            (kind == FIXED_BINARY && len == whole + fraction.div_ceil(2)).then_some(fraction)
        };
        let charset = || declared.charset.map(|own| (own, declared.text_charset));
        let stored = match &word[..] {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Self::Integer {
                bytes: len,
                unsigned,
            },
            "decimal" => {
                let [precision, scale] = numbers[..] else {
                    return None;
                };
                Self::Decimal {
                    precision,
                    scale,
                    unsigned,
                }
            }
            // With digits, the server rounds.
            "float" if numbers.is_empty() => Self::Float { unsigned },
            "double" if numbers.is_empty() => Self::Double { unsigned },
            "year" => Self::Year,
            "date" => Self::Date,
            "datetime" => Self::DateTime(with_fraction(5)?),
            "timestamp" => Self::Timestamp(with_fraction(4)?),
            "time" => Self::Time(with_fraction(3)?),
            "bit" => Self::Bit(first?),
            // Servers show it as BINARY, and dumps may not.
            "char" if declared.charset == Some("binary") => Self::FixedBytes(first?),
            "char" => Self::FixedText(FixedText::of(first?, column, charset()?)?),
            "varchar" => Self::Text(VariableText::of(first, len, charset()?)?),
            "tinytext" | "text" | "mediumtext" | "longtext" => {
                Self::Text(VariableText::of(None, bytes_of_blob(&word)?, charset()?)?)
            }
            "binary" => Self::FixedBytes(first?),
            "varbinary" => Self::Bytes(first?),
            "tinyblob" | "blob" | "mediumblob" | "longblob" => Self::Bytes(bytes_of_blob(&word)?),
            "enum" | "set" => {
                let in_text = |member: &String| text::encoded(member, declared.text_charset);
                let members: Vec<Vec<u8>> = declared
                    .members
                    .iter()
                    .map(in_text)
                    .collect::<Option<_>>()?;
                if word == "enum" {
                    Self::Enum { members }
                } else {
                    Self::Set { members }
                }
            }
            _ => return None,
        };
        let bytes_of_int = match &word[..] {
            "tinyint" => 1,
            "smallint" => 2,
            "mediumint" => 3,
            "int" => 4,
            _ => 8,
        };
        let is_as_declared = match &stored {
            Self::Integer { .. } => kind == INT && len == bytes_of_int,
            Self::Decimal {
                precision, scale, ..
            } => {
                let fits = (1..=65).contains(precision) && scale <= precision;
                fits && kind == FIXED_BINARY && len == number::decimal_bytes(*precision, *scale)
            }
            Self::Float { .. } => kind == FLOAT && len == 4,
            Self::Double { .. } => kind == DOUBLE && len == 8,
            Self::Year => kind == INT && len == 1,
            Self::Date => kind == INT && len == 3,
            // Checked above.
            Self::DateTime(_) | Self::Timestamp(_) | Self::Time(_) => true,
            Self::Bit(bits) => (1..=64).contains(bits) && len == bits.div_ceil(8),
            Self::Text(_) | Self::Bytes(_) if word.ends_with("text") || word.ends_with("blob") => {
                kind == BLOB
            }
            Self::FixedText(_) | Self::Text(_) => len == first? * column.char_max as usize,
            Self::Bytes(most) => kind == BINARY && len == *most,
            Self::FixedBytes(bytes) => kind == FIXED_BINARY && len == *bytes,
            Self::Enum { members } => {
                !members.is_empty() && kind == INT && len == bytes_of_enum(members.len())
            }
            Self::Set { members } => {
                let fits = (1..=64).contains(&members.len());
                fits && kind == INT && len == bytes_of_set(members.len())
            }
        };
        is_as_declared.then_some(stored)
    }

    /// Appends a value. Returns `false`, and appends nothing, if the server might store anything
    /// else.
    ///
    /// What depends on more than the column is the caller's to know: a zero for `AUTO_INCREMENT`,
    /// a `TIMESTAMP` in another time zone than UTC, and the `CHECK` constraints of the table, of
    /// which MariaDB's `JSON` has one.
    pub fn put(&self, literal: Literal<'_>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let done = self.put_all(literal, out).is_some();
        if !done {
            out.truncate(start);
        }
        done
    }

    fn put_all(&self, literal: Literal<'_>, out: &mut Vec<u8>) -> Option<()> {
        use Literal::{Bytes, Number, Text};
        match (self, literal) {
            (Self::Integer { bytes, unsigned }, Number(text) | Text(text)) => {
                number::integer(text, *bytes, *unsigned, out)
            }
            (
                Self::Decimal {
                    precision,
                    scale,
                    unsigned,
                },
                Number(text) | Text(text),
            ) => number::decimal(text, *precision, *scale, *unsigned, out),
            (Self::Float { unsigned }, Number(text) | Text(text)) => {
                number::float(text, *unsigned, out)
            }
            (Self::Double { unsigned }, Number(text) | Text(text)) => {
                number::double(text, *unsigned, out)
            }
            (Self::Year, Number(text) | Text(text)) => time::year(text, out),
            (Self::Date, Text(text)) => time::date(text, out),
            (Self::DateTime(fraction), Text(text)) => time::date_time(text, *fraction, out),
            (Self::Timestamp(fraction), Text(text)) => time::timestamp(text, *fraction, out),
            (Self::Time(fraction), Text(text)) => time::time(text, *fraction, out),
            (Self::Bit(bits), Text(text) | Bytes(text)) => number::bits(text, *bits, out),
            (Self::FixedText(kind), Text(text)) => kind.put(text, out),
            (Self::Text(kind), Text(text)) => kind.put(text, out),
            (Self::FixedBytes(len), Text(text) | Bytes(text)) => {
                let pad = len.checked_sub(text.len())?;
                out.extend_from_slice(text);
                out.extend(std::iter::repeat_n(0, pad));
                Some(())
            }
            (Self::Bytes(most), Text(text) | Bytes(text)) => {
                (text.len() <= *most).then(|| out.extend_from_slice(text))
            }
            (Self::Enum { members }, Text(text)) => {
                let number = members.iter().position(|member| member == text)? + 1;
                number::whole(number as u64, bytes_of_enum(members.len()), out);
                Some(())
            }
            (Self::Set { members }, Text(text)) => {
                let mut bits = 0_u64;
                for one in text.split(|byte| *byte == b',') {
                    if !text.is_empty() {
                        bits |= 1 << members.iter().position(|member| member == one)?;
                    }
                }
                number::whole(bits, bytes_of_set(members.len()), out);
                Some(())
            }
            _ => None,
        }
    }
}

fn bytes_of_enum(members: usize) -> usize {
    if members < 256 { 1 } else { 2 }
}

fn bytes_of_set(members: usize) -> usize {
    match members.div_ceil(8) {
        few @ ..=4 => few,
        _ => 8,
    }
}

/// A type as a server shows it, taken apart.
struct Type {
    word: String,
    /// In its parentheses, if they hold numbers.
    numbers: Vec<usize>,
    unsigned: bool,
}

impl Type {
    /// `None` if it has anything else: MariaDB shows compressed columns and those in old formats by
    /// a comment.
    fn of(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric());
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        let (inner, rest) = match rest.strip_prefix('(') {
            Some(rest) => rest.rsplit_once(')')?,
            None => ("", rest),
        };
        let mut unsigned = false;
        for attribute in rest.split_ascii_whitespace() {
            match attribute {
                "unsigned" => unsigned = true,
                "zerofill" => {}
                _ => return None,
            }
        }
        let has_members = matches!(word, "enum" | "set");
        let numbers = match inner {
            "" => Vec::new(),
            _ if has_members => Vec::new(),
            inner => inner
                .split(',')
                .map(|number| number.trim().parse().ok())
                .collect::<Option<_>>()?,
        };
        Some(Self {
            word: word.to_owned(),
            numbers,
            unsigned,
        })
    }
}

/// The most bytes of a `BLOB` or a `TEXT`.
fn bytes_of_blob(word: &str) -> Option<usize> {
    Some(match word {
        "tinyblob" | "tinytext" => 255,
        "blob" | "text" => (1 << 16) - 1,
        "mediumblob" | "mediumtext" => (1 << 24) - 1,
        "longblob" | "longtext" => (1 << 32) - 1,
        _ => return None,
    })
}
