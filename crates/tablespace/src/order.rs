//! In which order an index has its records (`rem0cmp.cc`): as the bytes of a key that is made of
//! its fields.

use crate::description::{Description, StoredColumn, StoredIndex};
use crate::record::{Row, Shape};

/// How the characters of a text compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collation {
    /// As bytes, of which the shorter of two that begin alike comes first.
    Bytes,
    /// As bytes, filled up with blanks.
    PaddedBytes,
    /// By a weight for each byte, filled up with blanks.
    PaddedWeights(Box<[u8; 256]>),
}

/// `utf8mb4_bin`, `latin1_bin`, `ascii_bin` and `utf8mb3_bin`.
const PADDED_BYTES: [u32; 4] = [46, 47, 65, 83];

/// How the collation of a number compares, if it does so by bytes. All others are known to the
/// server.
pub fn by_bytes(collation: u32) -> Option<Collation> {
    PADDED_BYTES
        .contains(&collation)
        .then_some(Collation::PaddedBytes)
}

/// How a field becomes part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Bytes of a fixed length, as they are.
    Fixed,
    /// A number of single or double precision.
    Approximate,
    /// Text, or bytes of different lengths.
    Text(Collation),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    /// Its place in a record.
    at: usize,
    part: Part,
    is_nullable: bool,
    is_descending: bool,
}

/// The order of the records of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    fields: Vec<Field>,
    /// How many of them no two rows may have in common; 0 if they may.
    unique: usize,
}

/// Why the order of an index is only known to the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the order of {0} is known to the server only")]
pub struct UnknownOrder(pub String);

/// Main types of InnoDB (`data0type.h`).
const FLOAT: u32 = 9;
const DOUBLE: u32 = 10;
/// Those that compare as bytes: FIXBINARY, INT, SYS.
const AS_BYTES: [u32; 3] = [3, 6, 8];
/// Text and bytes: VARCHAR, CHAR, BINARY, BLOB, VARMYSQL, MYSQL.
const TEXTS: [u32; 6] = [1, 2, 4, 5, 12, 13];
/// The collation of bytes.
const BINARY: u32 = 63;

impl Order {
    /// The order of an index. `collations` knows how the collation of a number compares, if it is
    /// known here.
    ///
    /// # Errors
    /// A field compares in a way that is not known here.
    pub fn of(
        table: &Description,
        index: &StoredIndex,
        collations: impl Fn(u32) -> Option<Collation>,
    ) -> Result<Self, UnknownOrder> {
        let unknown = |name: &str| UnknownOrder(name.to_owned());
        // The rest of a row's record does not count.
        let compared = if index.is_clustered() {
            index.unique
        } else {
            index.fields.len()
        };
        let mut fields = Vec::new();
        for (at, field) in index.fields.iter().enumerate().take(compared) {
            let column = table.columns.iter().find(|c| c.name == field.name);
            let column = column.ok_or_else(|| unknown(&field.name))?;
            let part = part_of(column, &collations).ok_or_else(|| unknown(&field.name))?;
            fields.push(Field {
                at,
                part,
                is_nullable: column.is_nullable(),
                is_descending: field.is_descending,
            });
        }
        // `n_uniq` of a secondary index that is unique: the fields of its definition.
        let unique = if index.is_unique() { index.unique } else { 0 };
        Ok(Self { fields, unique })
    }

    /// Appends the key of a row, and returns how much of it no other row may have: 0 if there is no
    /// such part, or a field of it is NULL.
    pub fn key(&self, shape: &Shape, row: &Row, key: &mut Vec<u8>) -> usize {
        let begin = key.len();
        let mut unique = 0;
        let mut has_null = false;
        for (at, field) in self.fields.iter().enumerate() {
            let start = key.len();
            match shape.value(row, field.at) {
                None => {
                    key.push(0);
                    has_null |= at < self.unique;
                }
                Some(value) => {
                    if field.is_nullable {
                        key.push(1);
                    }
                    field.part.put(value, key);
                }
            }
            if field.is_descending {
                for byte in &mut key[start..] {
                    *byte = !*byte;
                }
            }
            if at + 1 == self.unique {
                unique = key.len() - begin;
            }
        }
        if has_null { 0 } else { unique }
    }
}

fn part_of(column: &StoredColumn, collations: impl Fn(u32) -> Option<Collation>) -> Option<Part> {
    Some(match column.kind {
        FLOAT | DOUBLE => Part::Approximate,
        kind if AS_BYTES.contains(&kind) => Part::Fixed,
        // DECIMAL is FIXBINARY; other numbers are from before 5.0.
        kind if TEXTS.contains(&kind) => match column.collation() {
            0 | BINARY => Part::Text(Collation::Bytes),
            collation => Part::Text(collations(collation)?),
        },
        _ => return None,
    })
}

impl Part {
    fn put(&self, value: &[u8], key: &mut Vec<u8>) {
        match self {
            Self::Fixed => key.extend_from_slice(value),
            Self::Approximate => {
                let start = key.len();
                key.extend(value.iter().rev());
                let rest_is_zero = key[start + 1..].iter().all(|byte| *byte == 0);
                let is_zero = rest_is_zero && matches!(key[start], 0 | 0x80);
                // Negative numbers come first, the greater ones of them earlier. Zero has no sign.
                if is_zero || key[start] & 0x80 == 0 {
                    key[start] |= 0x80;
                } else {
                    for byte in &mut key[start..] {
                        *byte = !*byte;
                    }
                }
            }
            Self::Text(Collation::Bytes) => {
                // A zero byte is told from the end.
                for part in value.split_inclusive(|byte| *byte == 0) {
                    key.extend_from_slice(part);
                    if part.last() == Some(&0) {
                        key.push(0xff);
                    }
                }
                key.extend_from_slice(&[0, 0]);
            }
            Self::Text(Collation::PaddedBytes) => padded(value, |byte| byte, key),
            Self::Text(Collation::PaddedWeights(weights)) => {
                padded(value, |byte| weights[usize::from(byte)], key);
            }
        }
    }
}

/// Weights that are written together.
const SEGMENT: usize = 8;
/// Whether what follows a segment comes before blanks, is blanks only, or comes after them.
const BEFORE: u8 = 1;
const BLANKS: u8 = 2;
const AFTER: u8 = 3;

/// Text that compares as if it were followed by blanks without end: in segments, of which the last
/// one is filled up with blanks, each with a byte that compares the rest with blanks.
fn padded(value: &[u8], weight: impl Fn(u8) -> u8, key: &mut Vec<u8>) {
    let blank = weight(b' ');
    let is_other = |byte: &u8| weight(*byte) != blank;
    let end = value.iter().rposition(is_other).map_or(0, |end| end + 1);
    let mut rest = &value[..end];
    loop {
        let (segment, more) = rest.split_at(rest.len().min(SEGMENT));
        key.extend(segment.iter().map(|byte| weight(*byte)));
        key.extend(std::iter::repeat_n(blank, SEGMENT - segment.len()));
        let first = more.iter().copied().map(&weight).find(|one| *one != blank);
        key.push(match first {
            None => BLANKS,
            Some(first) if first < blank => BEFORE,
            Some(_) => AFTER,
        });
        if first.is_none() {
            return;
        }
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(part: &Part, value: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        part.put(value, &mut key);
        key
    }

    #[test]
    fn numbers_of_any_sign() {
        let numbers = [f64::MIN, -2.5, -1.0, -1e-9, 0.0, 1e-9, 1.0, 2.5, f64::MAX];
        let key = |number: f64| key(&Part::Approximate, &number.to_le_bytes());
        assert!(numbers.map(key).is_sorted_by(|a, b| a < b));
        assert_eq!(key(-0.0), key(0.0));
    }

    #[test]
    fn bytes_and_zeros() {
        let part = Part::Text(Collation::Bytes);
        let texts: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0a", b"\x01", b"a", b"a\0"];
        let keys = texts.map(|text| key(&part, text));
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    }

    /// As `my_strnncollsp_simple` compares: the shorter text goes on with blanks.
    fn compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let len = a.len().max(b.len());
        let at = |text: &[u8], at: usize| text.get(at).copied().unwrap_or(b' ');
        (0..len).map(|i| at(a, i)).cmp((0..len).map(|i| at(b, i)))
    }

    #[test]
    fn blanks_do_not_count() {
        let part = Part::Text(Collation::PaddedBytes);
        // All texts of up to five of these, and some that are longer than a segment.
        let letters = [b'\t', b' ', b'a'];
        let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
        let mut from = 0;
        for _ in 0..5 {
            let to = texts.len();
            for at in from..to {
                for letter in letters {
                    let mut text = texts[at].clone();
                    text.push(letter);
                    texts.push(text);
                }
            }
            from = to;
        }
        for at in 0..texts.len() {
            let long = [b"       ".to_vec(), texts[at].clone()].concat();
            texts.push(long);
        }
        for a in texts.iter().step_by(3) {
            for b in &texts {
                let order = key(&part, a).cmp(&key(&part, b));
                assert_eq!(order, compare(a, b), "{a:?} {b:?}");
            }
        }
        let mut weights = Box::new([0; 256]);
        for (at, weight) in weights.iter_mut().enumerate() {
            *weight = (at as u8).to_ascii_uppercase();
        }
        let part = Part::Text(Collation::PaddedWeights(weights));
        assert_eq!(key(&part, b"Abc "), key(&part, b"aBC"));
    }
}
