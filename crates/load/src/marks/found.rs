//! What an earlier process of the same load did.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use refloat_wire::{Connection, Error};
use serde::de::DeserializeOwned;

use super::{About, Fingerprint, ROWS, STEPS, StepKind, digest, hex, is_absent};
use crate::table::TableDetail;

/// Database and table.
type Key = (String, String);

/// The marks of a load that another process began.
#[derive(Debug, Default)]
pub struct Found {
    /// Tables with loaded rows, by database and name.
    pub tables: HashMap<Key, TableFound>,
    /// Statements that ran alone, by place, with what is known about each.
    pub statements: BTreeMap<String, Vec<u8>>,
    /// Tables whose tablespaces were being built.
    pub imports: HashSet<Key>,
    /// Databases as they were before the load.
    pub databases: HashMap<String, Vec<u8>>,
    /// Set if definitions of statements that are done may not be on disk: when the server that ran
    /// them was started, in its own seconds since 1970.
    pub unsettled: Option<i64>,
}

/// The loaded rows of one table.
#[derive(Debug, Default)]
pub struct TableFound {
    /// What the marks say about the table.
    pub detail: TableDetail,
    /// By file, and offset of the first row.
    stretches: BTreeMap<(u64, u64), Done>,
}

/// A stretch of loaded rows.
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

/// How much of a stretch the source has reached.
#[derive(Debug, Clone, Default)]
enum Seen {
    #[default]
    Nothing,
    /// The numbers of its pieces so far.
    Pieces(Vec<u64>),
    /// All of it.
    Whole,
}

/// Rows that an earlier process committed, counted when the source first reaches them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Rows of the source.
    pub sent: u64,
    /// Rows stored.
    pub stored: u64,
    /// Rows that `INSERT IGNORE` skipped.
    pub ignored: u64,
    /// Rows that the server refused.
    pub refused: u64,
}

/// How much of a piece is already loaded.
#[derive(Debug, PartialEq, Eq)]
pub enum Cover {
    /// Nothing.
    None,
    /// All of it.
    Whole(Counted),
    /// Some of it: these bytes of the source, in order.
    Parts(Counted, Vec<Range<u64>>),
    /// The rows here are not the ones that were here when the load began.
    Differs,
    /// The text of these bytes of the source cannot be split into rows, so it is unknown whether
    /// the rows are the same.
    Unknown(Range<u64>),
}

/// A piece of the source, when it is reached.
pub struct Met<'a> {
    /// Its byte range in its file.
    pub place: Range<u64>,
    /// Its rows as the source writes them.
    pub text: &'a [u8],
    /// Where its rows are in the text; `None` if the text cannot be split into rows.
    pub bounds: &'a dyn Fn() -> Option<&'a [Range<usize>]>,
}

impl Met<'_> {
    /// The number of the part of the piece that lies in `bytes` of the file, as defined in
    /// [`super::digest`]. `None` if the text cannot be split into rows.
    fn number(&self, bytes: &Range<u64>) -> Option<u64> {
        if *bytes == self.place {
            return Some(digest::whole(self.text));
        }
        let bounds = (self.bounds)()?;
        let start = self.place.start;
        let from = bounds.partition_point(|row| start + (row.start as u64) < bytes.start);
        let to = bounds.partition_point(|row| start + (row.end as u64) <= bytes.end);
        Some(if to.saturating_sub(from) == bounds.len() {
            digest::whole(self.text)
        } else {
            // No mark covers bytes without a whole row, so the sum of no rows matches no mark.
            digest::sum(self.text, bounds.get(from..to).unwrap_or_default(), start)
        })
    }
}

impl TableFound {
    /// Adds what one mark says.
    fn add(&mut self, file: u64, begin: u64, done: Done) {
        self.stretches.insert((file, begin), done);
    }

    /// Number of rows stored.
    pub fn stored(&self) -> u64 {
        self.stretches.values().map(|done| done.stored).sum()
    }

    /// Whether rows after this place in this file, or rows of another file, are loaded.
    pub fn has_rows_after(&self, file: u64, offset: u64) -> bool {
        self.stretches
            .keys()
            .any(|(of, begin)| *of != file || *begin >= offset)
    }

    /// Whether there are marks whose rows the source has not fully reached.
    pub fn unmet(&self) -> bool {
        self.stretches
            .values()
            .any(|done| !matches!(done.seen, Seen::Whole))
    }

    /// Finds how much of a piece of a file is loaded.
    pub fn cover(&mut self, file: u64, met: &Met<'_>) -> Cover {
        let place = &met.place;
        let before = self.stretches.range(..(file, place.start)).next_back();
        if before.is_some_and(|((of, _), done)| {
            *of == file && done.end <= place.start && matches!(done.seen, Seen::Pieces(_))
        }) {
            // The pieces so far stopped short of the end of that stretch.
            return Cover::Differs;
        }
        let first = self
            .stretches
            .range(..=(file, place.start))
            .next_back()
            .filter(|((of, _), done)| *of == file && done.end > place.start)
            .map_or((file, place.start), |(key, _)| *key);
        let mut counted = Counted::default();
        let mut parts: Vec<Range<u64>> = Vec::new();
        for ((_, begin), done) in self.stretches.range_mut(first..(file, place.end)) {
            let bytes = (*begin).max(place.start)..done.end.min(place.end);
            if matches!(done.seen, Seen::Nothing) {
                counted.sent += done.sent;
                counted.stored += done.stored;
                counted.ignored += done.ignored;
                counted.refused += done.refused;
            }
            match done.meet(*begin, &bytes, met) {
                Some(true) => parts.push(bytes),
                Some(false) => return Cover::Differs,
                None => return Cover::Unknown(bytes),
            }
        }
        match parts.as_slice() {
            [] => Cover::None,
            [one] if one == place => Cover::Whole(counted),
            _ => Cover::Parts(counted, parts),
        }
    }
}

impl Done {
    /// Compares the part of a piece that lies in `bytes` of this stretch with the loaded rows.
    /// `false`: they differ. `None`: that is unknown.
    fn meet(&mut self, begin: u64, bytes: &Range<u64>, met: &Met<'_>) -> Option<bool> {
        let mut numbers = match std::mem::take(&mut self.seen) {
            Seen::Nothing if bytes.start == begin => Vec::new(),
            Seen::Pieces(numbers) => numbers,
            Seen::Nothing | Seen::Whole => return Some(false),
        };
        numbers.push(met.number(bytes)?);
        if bytes.end < self.end {
            self.seen = Seen::Pieces(numbers);
            return Some(true);
        }
        self.seen = Seen::Whole;
        Some(digest::chain(&numbers) == self.digest)
    }
}

impl Found {
    /// Unfinished loads of this source, the latest first.
    pub fn loads(
        conn: &mut Connection,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<(String, About)>, Error> {
        let kind = hex(StepKind::Load.word().as_bytes());
        let result = match conn.query(format!(
            "SELECT run, detail FROM {STEPS} WHERE kind = {kind} ORDER BY run DESC"
        )) {
            Ok(result) => result,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let runs = (0..result.len()).filter_map(|row| {
            let run = String::from_utf8_lossy(result.bytes(row, 0)?).into_owned();
            // A row that this version cannot read belongs to no load that it could resume.
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
            } else if kind == StepKind::Import.word().as_bytes() {
                found.imports.extend(parsed::<Key>(&detail));
            } else if kind == StepKind::Unsettled.word().as_bytes() {
                // A value that cannot be read matches no running server.
                found.unsettled = Some(parsed(&detail).unwrap_or_default());
            }
        }
        Ok(found)
    }

    /// Number of rows stored.
    pub fn stored(&self) -> u64 {
        self.tables.values().map(TableFound::stored).sum()
    }

    /// Whether the load had done nothing yet.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.statements.is_empty() && self.databases.is_empty()
    }
}

/// What a step or mark says. `None` if this version does not understand it.
pub fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use refloat_source::blocks::{Block, BlockPool};

    use super::*;
    use crate::chunk::Piece;
    use crate::marks::digest::NO_DIGEST;
    use crate::marks::{Digest, Stretch, stretches_of};

    /// Bytes of a row. A separator of one byte comes between two rows.
    const ROW: usize = 9;
    /// Row numbers of the pieces of the source. A head of ten bytes comes before each piece.
    const PIECES: [Range<usize>; 3] = [0..5, 5..12, 12..20];
    const HEAD: u64 = 10;

    /// A piece of the source in which the row `odd` is different.
    fn source(at: usize, odd: usize) -> (u64, Vec<u8>) {
        let rows = PIECES[at].clone();
        let begin = (rows.start * (ROW + 1)) as u64 + (at as u64 + 1) * HEAD;
        let text: Vec<String> = rows
            .map(|row| format!("({row:06}{})", u8::from(row == odd)))
            .collect();
        (begin, text.join(",").into_bytes())
    }

    fn bounds(text: &[u8]) -> Vec<Range<usize>> {
        let rows = text.len().div_ceil(ROW + 1);
        (0..rows)
            .map(|row| row * (ROW + 1)..row * (ROW + 1) + ROW)
            .collect()
    }

    fn piece(at: usize) -> (Piece, Vec<u8>) {
        let (begin, text) = source(at, usize::MAX);
        let block = Arc::new(Block::new(text.clone(), Arc::new(BlockPool::default())));
        let (rows, whole) = (PIECES[at].len() as u64, 0..text.len());
        let piece = Piece::in_memory(&"file".into(), block, whole, rows, begin, 1);
        (piece.hashed(&text), text)
    }

    /// The rows of the source, cut after each of these rows.
    fn cut(behind: &[usize]) -> Vec<Piece> {
        let file: Arc<str> = "file".into();
        let mut parts = Vec::new();
        for (at, rows) in PIECES.iter().enumerate() {
            let (piece, text) = piece(at);
            let mut from = rows.start;
            for to in
                (rows.start + 1..=rows.end).filter(|to| *to == rows.end || behind.contains(to))
            {
                let which = from - rows.start..to - rows.start;
                let (mut part, _) = piece.part(&text, &bounds(&text), which);
                part.source = Arc::clone(&file);
                parts.push(part);
                from = to;
            }
        }
        parts
    }

    fn found(stretches: &[Stretch]) -> TableFound {
        let mut table = TableFound::default();
        for one in stretches {
            let done = Done {
                end: one.end,
                sent: one.rows,
                stored: one.rows,
                ignored: 0,
                refused: 0,
                digest: one.digest,
                seen: Seen::Nothing,
            };
            table.add(one.file, one.begin, done);
        }
        table
    }

    fn cover(table: &mut TableFound, (begin, text): &(u64, Vec<u8>)) -> Cover {
        let rows = bounds(text);
        let met = Met {
            place: *begin..begin + text.len() as u64,
            text,
            bounds: &|| Some(&rows),
        };
        table.cover(7, &met)
    }

    fn counted(rows: u64) -> Counted {
        Counted {
            sent: rows,
            stored: rows,
            ..Counted::default()
        }
    }

    #[test]
    fn pieces_of_a_stretch_are_passed_over_and_counted_once() {
        let mut table = found(&stretches_of(&cut(&[])[..2], |_| 7));
        assert!(table.unmet());
        let cover = |at, table: &mut TableFound| cover(table, &source(at, usize::MAX));
        assert_eq!(cover(0, &mut table), Cover::Whole(counted(12)));
        assert!(table.unmet(), "half of it is still to come");
        assert_eq!(cover(1, &mut table), Cover::Whole(Counted::default()));
        assert!(!table.unmet());
        assert_eq!(cover(2, &mut table), Cover::None);
    }

    /// However rows are cut and grouped into transactions, the same rows are recognized and others
    /// are not.
    #[test]
    fn rows_are_compared_however_they_were_cut() {
        let ways: [&[usize]; 6] = [
            &[],
            &[3, 6, 9, 15, 18],
            &[1, 2, 3, 4],
            &[7, 8],
            &[4, 8, 12, 16],
            &[10, 19],
        ];
        for behind in ways {
            let parts = cut(behind);
            for together in 1..=parts.len() {
                for left_out in 0..together {
                    let (_, kept) = parts.split_at(left_out);
                    let marks: Vec<Stretch> = kept
                        .chunks(together)
                        .flat_map(|chunk| stretches_of(chunk, |_| 7))
                        .collect();
                    let in_before: u64 = marks.iter().map(|mark| mark.rows).sum();
                    let first = 20 - usize::try_from(in_before).unwrap();
                    for odd in (0..20).chain([usize::MAX]) {
                        let mut table = found(&marks);
                        let met = (0..3).map(|at| cover(&mut table, &source(at, odd)));
                        let met: Vec<Cover> = met.collect();
                        let differs = met.contains(&Cover::Differs);
                        let known = (first..20).contains(&odd);
                        assert_eq!(differs, known, "{behind:?} {together} {left_out} {odd}");
                        assert!(differs || !table.unmet());
                    }
                }
            }
        }
    }

    #[test]
    fn rows_between_others_are_known_again() {
        let parts = cut(&[2, 4, 8]);
        let (one, last) = (&parts[1..2], &parts[3..]);
        let marks = [stretches_of(one, |_| 7), stretches_of(last, |_| 7)].concat();
        let mut table = found(&marks);
        let Cover::Parts(rows, bytes) = cover(&mut table, &source(0, usize::MAX)) else {
            panic!("no parts");
        };
        assert_eq!((rows, bytes.len()), (counted(2), 1));
        assert_eq!(bytes[0], 30..49);
        // The rows next to them are written, cut again, and recognized together with them the next
        // time.
        let (whole, text) = piece(0);
        let (mut before, _) = whole.part(&text, &bounds(&text), 0..2);
        let (mut behind, range) = whole.part(&text, &bounds(&text), 4..5);
        let text = &text[range];
        let again = behind.part(text, &bounds(text), 0..1).0;
        assert_eq!(again.digest, behind.digest);
        (before.after_gap, behind.after_gap) = (true, true);
        let more = stretches_of(&[before, behind], |_| 7);
        assert_eq!(more.len(), 2);
        for (odd, as_it_was) in [(usize::MAX, true), (1, false), (4, false), (3, false)] {
            let mut table = found(&[marks.clone(), more.clone()].concat());
            let cover = cover(&mut table, &source(0, odd));
            assert_eq!(cover != Cover::Differs, as_it_was, "{odd}: {cover:?}");
        }
    }

    #[test]
    fn rows_that_nothing_can_be_compared_with_are_not_taken_for_the_same() {
        let met = source(0, usize::MAX);
        // Rows of a part that cannot be told apart.
        let marks = stretches_of(&cut(&[3])[..1], |_| 7);
        let place = met.0..met.0 + met.1.len() as u64;
        let unreadable = Met {
            place,
            text: &met.1,
            bounds: &|| None,
        };
        assert_eq!(found(&marks).cover(7, &unreadable), Cover::Unknown(10..39));
    }

    #[test]
    fn a_stretch_whose_end_is_passed_by_is_one_of_other_rows() {
        let (_, text) = source(1, usize::MAX);
        let mut table = found(&[Stretch {
            file: 7,
            begin: 10,
            end: 65,
            rows: 5,
            digest: 1,
        }]);
        assert!(matches!(
            cover(&mut table, &source(0, usize::MAX)),
            Cover::Whole(_)
        ));
        assert_eq!(cover(&mut table, &(70, text)), Cover::Differs);
    }

    #[test]
    fn what_keeps_no_marks_has_no_digest() {
        let (mut unmarked, text) = piece(0);
        unmarked.digest = Digest::None;
        let (part, _) = unmarked.part(&text, &bounds(&text), 0..1);
        assert_eq!(part.digest, Digest::None);
        assert_eq!(stretches_of(&[part], |_| 7)[0].digest, NO_DIGEST);
    }

    #[test]
    fn rows_behind_a_place_are_known() {
        let table = found(&stretches_of(&cut(&[])[..1], |_| 7));
        assert!(table.has_rows_after(7, 10));
        assert!(!table.has_rows_after(7, 100));
        assert!(table.has_rows_after(8, 500), "another file");
    }
}
