//! Rows as tab-separated text, the default format of `LOAD DATA`, with a digest that does not
//! depend on row order.
//!
//! A field ends with a tab and a row with a newline. A backslash escapes a tab, newline or
//! backslash in a value, and NULL is `\N`. Nothing else changes: the bytes of a value are those
//! that the column holds.

use twox_hash::XxHash3_128;

/// Appends a field's bytes, escaped.
fn escape(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(at) = memchr::memchr3(b'\t', b'\n', b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(match rest[at] {
            b'\t' => b't',
            b'\n' => b'n',
            other => other,
        });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends a row; `None` is NULL.
pub fn write_row<'a>(cells: impl Iterator<Item = Option<&'a [u8]>>, out: &mut Vec<u8>) {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            out.push(b'\t');
        }
        match cell {
            Some(value) => escape(value, out),
            None => out.extend_from_slice(b"\\N"),
        }
    }
    out.push(b'\n');
}

/// The fields of an encoded row, with or without its newline; `None` is NULL.
pub fn fields(row: &[u8]) -> impl Iterator<Item = Option<Vec<u8>>> + '_ {
    let row = row.strip_suffix(b"\n").unwrap_or(row);
    // A tab within a value is written as `\t`, so every literal tab ends a field.
    row.split(|byte| *byte == b'\t')
        .map(|field| (field != b"\\N").then(|| unescape(field)))
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match (byte, byte == b'\\') {
            (_, true) => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(&other) => other,
                None => b'\\',
            },
            (byte, false) => byte,
        });
    }
    out
}

/// The sum of the row hashes, modulo 2^128.
///
/// The hash of a row is XXH3-128 of its encoded form without the newline. A sum does not depend on
/// row order, and it counts duplicate rows, which XOR would cancel out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowDigest {
    sum: u128,
    rows: u64,
}

impl RowDigest {
    /// Adds an encoded row, without its newline.
    pub fn add(&mut self, row: &[u8]) {
        self.sum = self.sum.wrapping_add(XxHash3_128::oneshot(row));
        self.rows += 1;
    }

    /// Adds the rows of another digest.
    pub fn merge(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.rows += other.rows;
    }

    /// Number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The digest of `rows` rows from its hexadecimal digits. Invalid digits give a sum of 0.
    pub fn from_hex(digits: &str, rows: u64) -> Self {
        Self {
            sum: u128::from_str_radix(digits, 16).unwrap_or_default(),
            rows,
        }
    }

    /// The sum as 32 hexadecimal digits.
    pub fn hex(&self) -> String {
        format!("{:032x}", self.sum)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(cells: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        write_row(cells.iter().copied(), &mut out);
        out
    }

    #[test]
    fn what_load_data_reads_back() {
        assert_eq!(row(&[Some(b"1"), None, Some(b"")]), b"1\t\\N\t\n");
        assert_eq!(
            row(&[Some(b"a\tb\nc\\d\0\r")]),
            b"a\\tb\\nc\\\\d\0\r\n".as_slice()
        );
        assert_eq!(row(&[Some(b"\\N")]), b"\\\\N\n", "not NULL");
    }

    #[test]
    fn a_digest_sees_what_an_exclusive_or_does_not() {
        let of = |rows: &[&[u8]]| {
            let mut digest = RowDigest::default();
            for row in rows {
                digest.add(row);
            }
            digest
        };
        assert_eq!(of(&[b"a", b"b"]), of(&[b"b", b"a"]));
        assert_ne!(of(&[b"a", b"a"]).hex(), of(&[b"b", b"b"]).hex());
        assert_ne!(of(&[b"a", b"a"]).hex(), of(&[]).hex());
        let mut parts = of(&[b"a"]);
        parts.merge(of(&[b"b"]));
        assert_eq!(parts, of(&[b"a", b"b"]));
    }

    proptest! {
        #[test]
        fn a_row_is_read_back_as_it_was(cells in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), 1..8)) {
            let mut out = Vec::new();
            write_row(cells.iter().map(Option::as_deref), &mut out);
            prop_assert_eq!(memchr::memchr_iter(b'\n', &out).count(), 1);
            let back: Vec<_> = fields(&out).collect();
            prop_assert_eq!(back, cells);
        }
    }
}
