//! Row digests that do not depend on the order of rows and in which equal rows do not cancel out.
//!
//! A row is serialised cell by cell: the cell's length plus one in 8 bytes, then the cell; NULL is
//! a length of 0. No two different rows serialise alike. The hash of a row is the XXH3-128 of that
//! text. Hashes are added modulo 2^128, so a pair of equal rows counts twice; with XOR it would
//! vanish.

use twox_hash::XxHash3_128;

/// Buckets of a table whose two sides cannot be read in the same ranges. More buckets cost memory,
/// fewer leave more rows to look at.
pub const BUCKETS: usize = 1024;

/// A row in the form that is hashed; see the module documentation.
#[derive(Debug, Default)]
pub struct RowText {
    bytes: Vec<u8>,
}

impl RowText {
    /// Clears the buffer for the next row.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends a cell; `None` is NULL.
    pub fn push(&mut self, cell: Option<&[u8]>) {
        match cell {
            None => self.bytes.extend_from_slice(&0_u64.to_le_bytes()),
            Some(value) => {
                let length = value.len() as u64 + 1;
                self.bytes.extend_from_slice(&length.to_le_bytes());
                self.bytes.extend_from_slice(value);
            }
        }
    }

    /// The serialised row.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Splits a row that [`RowText`] serialised back into its cells.
pub fn cells(mut row: &[u8]) -> Vec<Option<&[u8]>> {
    let mut cells = Vec::new();
    while let Some((length, rest)) = row.split_first_chunk::<8>() {
        let length = u64::from_le_bytes(*length);
        let (cell, rest) = match usize::try_from(length).unwrap_or(usize::MAX) {
            0 => (None, rest),
            length => {
                let (cell, rest) = rest.split_at((length - 1).min(rest.len()));
                (Some(cell), rest)
            }
        };
        cells.push(cell);
        row = rest;
    }
    cells
}

/// Hash of a serialised row: XXH3-128.
pub fn hash(row: &[u8]) -> u128 {
    XxHash3_128::oneshot(row)
}

/// Sum of the hashes of some rows, with their number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    sum: u128,
    /// Number of rows added.
    pub rows: u64,
}

impl Digest {
    /// Adds a row by its hash.
    pub fn add(&mut self, hash: u128) {
        self.sum = self.sum.wrapping_add(hash);
        self.rows += 1;
    }

    /// Adds all rows of another digest.
    pub fn merge(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.rows += other.rows;
    }

    /// The sum as 32 hexadecimal digits.
    pub fn hex(&self) -> String {
        format!("{:032x}", self.sum)
    }
}

/// Digests of rows, grouped by part of the hash: equal rows share a bucket, in whatever order they
/// arrive.
#[derive(Debug, Clone)]
pub struct Buckets(Vec<Digest>);

impl Default for Buckets {
    fn default() -> Self {
        Self(vec![Digest::default(); BUCKETS])
    }
}

impl Buckets {
    /// The bucket that a row with this hash belongs to.
    pub fn of(hash: u128) -> usize {
        // The remainder is below `BUCKETS`.
        usize::try_from(hash % BUCKETS as u128).unwrap_or_default()
    }

    /// Adds a row by its hash.
    pub fn add(&mut self, hash: u128) {
        self.0[Self::of(hash)].add(hash);
    }

    /// Buckets that differ, each with the number of rows that both sides together have in it.
    pub fn different<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (usize, u64)> + 'a {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        pairs
            .filter(|(_, (a, b))| a != b)
            .map(|(index, (a, b))| (index, a.rows + b.rows))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(cells: &[Option<&[u8]>]) -> Vec<u8> {
        let mut text = RowText::default();
        for cell in cells {
            text.push(*cell);
        }
        text.bytes().to_vec()
    }

    fn digest(rows: &[&[Option<&[u8]>]]) -> Digest {
        let mut digest = Digest::default();
        for cells in rows {
            digest.add(hash(&row(cells)));
        }
        digest
    }

    #[test]
    fn pairs_do_not_cancel_and_cells_do_not_flow_together() {
        let a: &[Option<&[u8]>] = &[Some(b"a")];
        let b: &[Option<&[u8]>] = &[Some(b"b")];
        assert_ne!(digest(&[a, a]), digest(&[b, b]));
        assert_ne!(digest(&[a, a]), digest(&[a]));
        assert_eq!(digest(&[a, b]), digest(&[b, a]));
        assert_ne!(
            row(&[Some(b"a#"), Some(b"b")]),
            row(&[Some(b"a"), Some(b"#b")])
        );
        assert_ne!(row(&[None]), row(&[Some(b"")]));
        assert_ne!(row(&[None]), row(&[Some(b"NULL")]));
    }

    #[test]
    fn a_bucket_that_differs_is_found() {
        let (mut a, mut b) = (Buckets::default(), Buckets::default());
        for number in 0..10_000_u32 {
            let hash = hash(&number.to_le_bytes());
            a.add(hash);
            if number != 77 {
                b.add(hash);
            }
        }
        let different: Vec<usize> = a.different(&b).map(|(index, _)| index).collect();
        assert_eq!(different, [Buckets::of(hash(&77_u32.to_le_bytes()))]);
    }

    proptest! {
        #[test]
        fn a_row_is_read_back(cells in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..20)), 0..8)) {
            let mut text = RowText::default();
            for cell in &cells {
                text.push(cell.as_deref());
            }
            let back: Vec<_> = super::cells(text.bytes()).into_iter().map(|cell| cell.map(<[u8]>::to_vec)).collect();
            prop_assert_eq!(back, cells);
        }
    }
}
