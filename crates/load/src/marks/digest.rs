//! Digests tell loaded rows from other rows in the same place.
//!
//! Where a load cuts the pieces of its source depends on options, on earlier rows and on other
//! writers. Only the pieces themselves are the same each time. So the digest of a stretch is made
//! of one number for each piece of the source that it covers, in whole or in part. The number of a
//! whole piece is the hash of its text, that of a part is a sum over its rows. Parts of a piece
//! that are written together have the number that all of them would have as one.

use std::hash::Hasher as _;
use std::ops::Range;

use twox_hash::XxHash3_64;

/// The digest of rows without a mark.
pub const NO_DIGEST: u64 = 0;

/// The digest of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// The load keeps no marks.
    None,
    /// The hash of the text of a piece as the source has it.
    Whole(u64),
    /// Some rows of such a piece.
    Rows {
        /// See [`sum`].
        sum: u64,
        /// Whether the piece's first row is among them.
        first: bool,
        /// Whether the piece's last row is among them.
        last: bool,
        /// The hash of the whole piece's text.
        whole: u64,
    },
}

impl Digest {
    /// The digest of some rows (`which`) of a piece that has this digest. The piece's `text` begins
    /// at `offset`, and `bounds` are its rows in `text`.
    pub fn of_rows(
        self,
        text: &[u8],
        bounds: &[Range<usize>],
        which: Range<usize>,
        offset: u64,
    ) -> Self {
        let (begins, ends) = (which.start == 0, which.end == bounds.len());
        let (first, last, whole) = match self {
            Self::None => return Self::None,
            _ if begins && ends => return self,
            Self::Whole(whole) => (begins, ends, whole),
            Self::Rows {
                first, last, whole, ..
            } => (begins && first, ends && last, whole),
        };
        Self::Rows {
            sum: sum(text, &bounds[which], offset),
            first,
            last,
            whole,
        }
    }
}

/// The hash of a piece's text.
pub fn whole(text: &[u8]) -> u64 {
    XxHash3_64::oneshot(text)
}

/// The sum of the hashes of rows, each with its place. The sum of two runs of rows is the sum of
/// both.
pub fn sum(text: &[u8], bounds: &[Range<usize>], offset: u64) -> u64 {
    bounds.iter().fold(0, |sum, row| {
        let place = offset + row.start as u64;
        sum.wrapping_add(XxHash3_64::oneshot_with_seed(place, &text[row.clone()]))
    })
}

/// The digest of a stretch, from the numbers of its pieces.
pub fn chain(numbers: &[u64]) -> u64 {
    let mut hash = XxHash3_64::new();
    for number in numbers {
        hash.write(&number.to_le_bytes());
    }
    hash.finish().max(NO_DIGEST + 1)
}

/// The numbers of a stretch, as pieces and parts of pieces are added.
#[derive(Debug, Default)]
pub struct Growing {
    numbers: Vec<u64>,
    /// The sum of a piece of which more may come, and whether its first row is included.
    open: Option<(u64, bool)>,
    unknown: bool,
}

impl Growing {
    /// Adds what comes next in the source.
    pub fn add(&mut self, digest: Digest) {
        match digest {
            Digest::None => self.unknown = true,
            Digest::Whole(hash) => {
                self.open = None;
                self.numbers.push(hash);
            }
            Digest::Rows {
                sum,
                first,
                last,
                whole,
            } => {
                let (sum, first) = match self.open.take().filter(|_| !first) {
                    Some((before, first)) => {
                        self.numbers.pop();
                        (before.wrapping_add(sum), first)
                    }
                    None => (sum, first),
                };
                self.numbers.push(if first && last { whole } else { sum });
                self.open = (!last).then_some((sum, first));
            }
        }
    }

    /// The digest so far.
    pub fn digest(&self) -> u64 {
        if self.unknown {
            NO_DIGEST
        } else {
            chain(&self.numbers)
        }
    }
}
