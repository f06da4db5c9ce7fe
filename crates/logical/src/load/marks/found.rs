//! What an earlier process of the same load has done.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher as _;
use std::ops::Range;

use refloat_wire::{Connection, Error};
use serde::de::DeserializeOwned;
use twox_hash::XxHash3_64;

use super::{
    About, Fingerprint, NO_DIGEST, ROWS, RUNS, STEPS, StepKind, TableDetail, hex, is_absent,
};

/// Database and table.
type Key = (String, String);

/// The marks of a load that another process has begun.
#[derive(Debug, Default)]
pub struct Found {
    /// Tables with rows, by database and name.
    pub tables: HashMap<Key, TableFound>,
    /// Statements that were run alone, by their place: what is known of each.
    pub statements: BTreeMap<String, Vec<u8>>,
    /// Databases, as they were before the load.
    pub databases: HashMap<String, Vec<u8>>,
}

/// Rows of one table that are in.
#[derive(Debug, Default)]
pub struct TableFound {
    /// What was said of it.
    pub detail: TableDetail,
    /// By file, and the place of the first row.
    stretches: BTreeMap<(u64, u64), Done>,
}

/// A stretch of rows that is in.
#[derive(Debug, Clone)]
struct Done {
    end: u64,
    stored: u64,
    sent: u64,
    ignored: u64,
    refused: u64,
    digest: u64,
    seen: Seen,
}

/// How much of a stretch was met in the source.
#[derive(Debug, Clone, Default)]
enum Seen {
    #[default]
    Nothing,
    /// Pieces so far, by their hashes; and where the next one has to begin or come after.
    Pieces(u64, Vec<u64>),
    /// A piece of this source does not end where the stretch does: hashes say nothing then.
    CutElsewhere,
    /// All of it.
    Whole,
}

/// Rows that an earlier process has committed, met in the source for the first time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Rows of the source.
    pub sent: u64,
    /// Rows stored.
    pub stored: u64,
    /// Rows that `INSERT IGNORE` left out.
    pub ignored: u64,
    /// Rows that the server refused.
    pub refused: u64,
}

/// What of a piece is in already.
#[derive(Debug, PartialEq, Eq)]
pub enum Cover {
    /// Nothing.
    None,
    /// All of it.
    Whole(Counted),
    /// Some of it: these bytes of the source, in their order.
    Parts(Counted, Vec<Range<u64>>),
    /// The rows in this place are not those that were here when the load began.
    Differs,
}

impl TableFound {
    /// Adds what one mark says.
    fn add(&mut self, file: u64, begin: u64, done: Done) {
        self.stretches.insert((file, begin), done);
    }

    /// Rows that are in.
    pub fn stored(&self) -> u64 {
        self.stretches.values().map(|done| done.stored).sum()
    }

    /// Whether rows behind this place of this file are in, or rows of another file.
    pub fn goes_beyond(&self, file: u64, offset: u64) -> bool {
        self.stretches
            .keys()
            .any(|(of, begin)| *of != file || *begin >= offset)
    }

    /// Marks that nothing of the source was found for.
    pub fn unmet(&self) -> bool {
        self.stretches
            .values()
            .any(|done| !matches!(done.seen, Seen::Whole | Seen::CutElsewhere))
    }

    /// What of the piece at `place` of a file, with the hash `digest`, is in.
    pub fn cover(&mut self, file: u64, place: Range<u64>, digest: u64) -> Cover {
        let first = self
            .stretches
            .range(..=(file, place.start))
            .next_back()
            .filter(|((of, _), done)| *of == file && done.end > place.start)
            .map_or((file, place.start), |(key, _)| *key);
        let mut counted = Counted::default();
        let mut parts: Vec<Range<u64>> = Vec::new();
        for ((_, begin), done) in self.stretches.range_mut(first..(file, place.end)) {
            let inside = place.start >= *begin && place.end <= done.end;
            if matches!(done.seen, Seen::Nothing) {
                counted.sent += done.sent;
                counted.stored += done.stored;
                counted.ignored += done.ignored;
                counted.refused += done.refused;
            }
            if !done.meet(*begin, &place, inside, digest) {
                return Cover::Differs;
            }
            parts.push((*begin).max(place.start)..done.end.min(place.end));
        }
        match parts.as_slice() {
            [] => Cover::None,
            [one] if *one == place => Cover::Whole(counted),
            _ => Cover::Parts(counted, parts),
        }
    }
}

impl Done {
    /// A piece of the source that has rows of this stretch; `false` when they are others than those that are in.
    fn meet(&mut self, begin: u64, place: &Range<u64>, inside: bool, digest: u64) -> bool {
        let aligned = match &self.seen {
            Seen::Nothing => place.start == begin,
            Seen::Pieces(next, _) => place.start >= *next,
            Seen::CutElsewhere => return true,
            Seen::Whole => return false,
        };
        if !inside || !aligned {
            self.seen = Seen::CutElsewhere;
            return true;
        }
        let mut hashes = match std::mem::take(&mut self.seen) {
            Seen::Pieces(_, hashes) => hashes,
            _ => Vec::new(),
        };
        hashes.push(digest);
        if place.end < self.end {
            self.seen = Seen::Pieces(place.end, hashes);
            return true;
        }
        let mut hash = XxHash3_64::new();
        for piece in &hashes {
            hash.write(&piece.to_le_bytes());
        }
        self.seen = Seen::Whole;
        self.digest == NO_DIGEST || hash.finish() == self.digest
    }
}

impl Found {
    /// Loads that were begun and not ended, of this source, the latest first.
    pub fn loads(
        conn: &mut Connection,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<(String, About)>, Error> {
        let result = match conn.query(format!("SELECT run, about FROM {RUNS} ORDER BY run DESC")) {
            Ok(result) => result,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let runs = (0..result.len()).filter_map(|row| {
            let run = String::from_utf8_lossy(result.bytes(row, 0)?).into_owned();
            // A row that this version does not understand is of no load that it could go on with.
            let about: About = serde_json::from_slice(result.bytes(row, 1)?).ok()?;
            (about.fingerprint == *fingerprint).then_some((run, about))
        });
        Ok(runs.collect())
    }

    /// Reads all marks of a load.
    pub fn read(conn: &mut Connection, run: &str) -> Result<Self, Error> {
        let mut found = Self::default();
        let run = hex(run.as_bytes());
        let result = conn.query(format!(
            "SELECT db, tbl, file, begins, ends, sent_rows, stored_rows, ignored_rows, refused_rows, digest, detail FROM {ROWS} WHERE run = {run}"
        ))?;
        for row in 0..result.len() {
            let text = |column| {
                String::from_utf8_lossy(result.bytes(row, column).unwrap_or_default()).into_owned()
            };
            let number = |column| result.u64(row, column).unwrap_or(0);
            let table = found.tables.entry((text(0), text(1))).or_default();
            if let Some(detail) = result.bytes(row, 10).and_then(parsed) {
                table.detail = detail;
            }
            let done = Done {
                end: number(4),
                sent: number(5),
                stored: number(6),
                ignored: number(7),
                refused: number(8),
                digest: number(9),
                seen: Seen::Nothing,
            };
            table.add(number(2), number(3), done);
        }
        let result = conn.query(format!(
            "SELECT kind, name, detail FROM {STEPS} WHERE run = {run}"
        ))?;
        for row in 0..result.len() {
            let name =
                String::from_utf8_lossy(result.bytes(row, 1).unwrap_or_default()).into_owned();
            let detail = result.bytes(row, 2).unwrap_or_default().to_vec();
            let kind = result.bytes(row, 0).unwrap_or_default();
            if kind == StepKind::Statement.word().as_bytes() {
                found.statements.insert(name, detail);
            } else if kind == StepKind::Database.word().as_bytes() {
                found.databases.insert(name, detail);
            }
        }
        Ok(found)
    }

    /// Rows that are in.
    pub fn stored(&self) -> u64 {
        self.tables.values().map(TableFound::stored).sum()
    }

    /// Whether the load had done anything.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.statements.is_empty() && self.databases.is_empty()
    }
}

/// What a step or mark says, if this version understands it.
pub fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(stretches: &[(u64, u64, &[&[u8]])]) -> TableFound {
        let mut table = TableFound::default();
        for (begin, end, pieces) in stretches {
            let mut hash = XxHash3_64::new();
            for piece in *pieces {
                hash.write(&crate::load::marks::digest(piece).to_le_bytes());
            }
            let done = Done {
                end: *end,
                sent: 10,
                stored: 10,
                ignored: 0,
                refused: 0,
                digest: hash.finish(),
                seen: Seen::Nothing,
            };
            table.add(7, *begin, done);
        }
        table
    }

    fn hash(text: &[u8]) -> u64 {
        crate::load::marks::digest(text)
    }

    const TEN: Counted = Counted {
        sent: 10,
        stored: 10,
        ignored: 0,
        refused: 0,
    };

    #[test]
    fn pieces_of_a_stretch_are_passed_over_and_counted_once() {
        let mut table = table(&[(100, 300, &[b"one", b"two"])]);
        assert_eq!(table.cover(7, 0..90, hash(b"zero")), Cover::None);
        assert!(table.unmet());
        assert_eq!(table.cover(7, 100..200, hash(b"one")), Cover::Whole(TEN));
        assert!(table.unmet(), "half of it is still to come");
        assert_eq!(
            table.cover(7, 210..300, hash(b"two")),
            Cover::Whole(Counted::default())
        );
        assert!(!table.unmet());
        assert_eq!(table.cover(7, 310..400, hash(b"three")), Cover::None);
        assert_eq!(table.cover(8, 100..200, hash(b"one")), Cover::None);
    }

    #[test]
    fn other_rows_in_the_same_place_are_noticed() {
        let mut table = table(&[(100, 300, &[b"one", b"two"])]);
        assert_eq!(table.cover(7, 100..200, hash(b"one")), Cover::Whole(TEN));
        assert_eq!(table.cover(7, 210..300, hash(b"TWO")), Cover::Differs);
    }

    #[test]
    fn a_piece_that_is_cut_elsewhere_is_taken_apart() {
        let mut table = table(&[(100, 200, &[b"one"]), (300, 400, &[b"two"])]);
        let Cover::Parts(counted, parts) = table.cover(7, 50..350, hash(b"large")) else {
            panic!("no parts");
        };
        assert_eq!((counted.stored, parts), (20, vec![100..200, 300..350]));
        assert_eq!(
            table.cover(7, 350..400, hash(b"rest")),
            Cover::Whole(Counted::default())
        );
        assert!(!table.unmet());
    }

    #[test]
    fn rows_behind_a_place_are_known() {
        let table = table(&[(100, 200, &[b"one"])]);
        assert!(table.goes_beyond(7, 100));
        assert!(!table.goes_beyond(7, 200));
        assert!(table.goes_beyond(8, 500), "another file");
    }
}
