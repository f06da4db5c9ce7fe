//! Narrows a table that differs down to the rows that do.
//!
//! If both servers were read in the same ranges, a range that differs is halved by key until it
//! holds few rows. Otherwise (a dump, or a table without a key), rows are counted by hash, for
//! large tables only in the buckets that differ; rows that do not cancel out are fetched.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use refloat_digest::rows::{BUCKETS, Buckets, Digest, RowText, cells, hash};
use refloat_read::ranges;
use refloat_read::ranges::Range;
use refloat_run::Cancel;

use super::error::VerifyError;
use super::outcome::{RangeDifference, RowDifference, RowKind, TableDifference};
use super::pair::{Pair, Reading};
use super::show;
use super::source::{Part, Source};
use super::work::Read;

/// A range is not halved further if it has at most this many rows and [`FEW_BYTES`] of values.
const FEW_ROWS: u64 = 500;
/// See [`FEW_ROWS`]. A range of a single row is never halved, whatever its size.
const FEW_BYTES: u64 = 16 << 20;
/// Limit for rows whose hashes are kept at a time, on both sides together.
const HASHES_MAX: u64 = 1 << 20;
/// Limit for rows fetched from each side.
const FETCHED_MAX: usize = 2000;
/// Limit for bytes of rows fetched from each side.
const FETCHED_BYTES: usize = 32 << 20;
/// Limit for the ranges listed in the result.
const RANGES_SHOWN: usize = 100;

/// Finds the rows of one table that differ.
pub struct Narrow<'a> {
    /// The table whose digests differ.
    pub pair: &'a Pair,
    /// Its parts and their digests.
    pub read: &'a Read,
    /// Stops the search.
    pub cancel: &'a Cancel,
    /// How many rows to show; with 0 none are looked for.
    pub shown: usize,
}

/// A row that one side has more often than the other.
#[derive(Debug, Clone)]
struct Alone {
    row: Vec<u8>,
    times: u64,
    files: Vec<String>,
}

/// Rows that one side has more often, for each side.
#[derive(Default)]
struct Found {
    alone: [Vec<Alone>; 2],
    /// More rows may differ than were looked at.
    more: bool,
}

/// Digest of a range, with the size of its values in bytes.
#[derive(Clone, Copy, Default)]
struct Weighed {
    digest: Digest,
    bytes: u64,
}

impl Narrow<'_> {
    /// Finds what differs. Call it only if the digests of the two sides differ.
    pub fn difference(
        &self,
        sources: &mut [Source<'_>; 2],
    ) -> Result<TableDifference, VerifyError> {
        let digests = [0, 1].map(|side| self.read.digest(side));
        let mut difference = TableDifference {
            table: self.pair.label.clone(),
            rows_a: digests[0].rows,
            rows_b: digests[1].rows,
            digest_a: digests[0].hex(),
            digest_b: digests[1].hex(),
            ..TableDifference::default()
        };
        if self.shown == 0 {
            difference.more = true;
            return Ok(difference);
        }
        let found = if self.pair.same_ranges {
            self.by_halves(sources, &mut difference.ranges)?
        } else {
            self.by_buckets(sources)?
        };
        self.rows(sources, found, &mut difference)?;
        Ok(difference)
    }

    /// Pairs rows by key and describes how each differs.
    fn rows(
        &self,
        sources: &mut [Source<'_>; 2],
        mut found: Found,
        difference: &mut TableDifference,
    ) -> Result<(), VerifyError> {
        let mut rows: Vec<RowDifference> = Vec::new();
        if !self.pair.key.is_empty() {
            if found.more && !self.pair.same_ranges {
                self.complete(sources, &mut found)?;
            }
            let mut by_key: HashMap<Vec<u8>, Alone> = HashMap::new();
            for of_b in std::mem::take(&mut found.alone[1]) {
                by_key.insert(self.key(&of_b.row), of_b);
            }
            for of_a in std::mem::take(&mut found.alone[0]) {
                match by_key.remove(&self.key(&of_a.row)) {
                    None => found.alone[0].push(of_a),
                    Some(of_b) => {
                        let mut files = of_a.files;
                        files.extend(of_b.files);
                        rows.push(show::changed(self.pair, &of_a.row, &of_b.row, files));
                    }
                }
            }
            found.alone[1] = by_key.into_values().collect();
            // A row that was fetched only as a partner is not a difference by itself.
            found
                .alone
                .iter_mut()
                .for_each(|rows| rows.retain(|row| row.times > 0));
        }
        for (side, kind) in [RowKind::OnlyA, RowKind::OnlyB].into_iter().enumerate() {
            for alone in &found.alone[side] {
                let files = alone.files.clone();
                rows.push(show::alone(self.pair, kind, &alone.row, alone.times, files));
            }
        }
        // Sort so that every run shows the same rows, whatever the order of the map.
        rows.sort_by(|a, b| {
            let key = |row: &RowDifference| {
                let values = row.key.iter().chain(&row.values);
                values
                    .map(|value| (value.value.len(), value.value.clone()))
                    .collect::<Vec<_>>()
            };
            key(a).cmp(&key(b))
        });
        difference.more = found.more || rows.len() > self.shown;
        rows.truncate(self.shown);
        difference.rows = rows;
        Ok(())
    }

    fn key(&self, row: &[u8]) -> Vec<u8> {
        let cells = cells(row);
        let mut key = RowText::default();
        for place in &self.pair.key {
            key.push(cells.get(*place).copied().flatten());
        }
        key.bytes().to_vec()
    }

    fn full(&self, found: &Found) -> bool {
        found.alone.iter().map(Vec::len).sum::<usize>() > self.shown * 2
    }

    fn by_halves(
        &self,
        sources: &mut [Source<'_>; 2],
        ranges: &mut Vec<RangeDifference>,
    ) -> Result<Found, VerifyError> {
        let mut found = Found::default();
        let mut open: Vec<(Range, [Weighed; 2])> = Vec::new();
        for (number, (part, of_a)) in &self.read.parts[0] {
            let Some((_, of_b)) = self.read.parts[1].get(number) else {
                continue;
            };
            let Part::Range(range) = part else { continue };
            if of_a == of_b {
                continue;
            }
            if ranges.len() < RANGES_SHOWN {
                ranges.push(RangeDifference {
                    range: words(range),
                    rows_a: of_a.rows,
                    rows_b: of_b.rows,
                });
            }
            let weighed = |digest: &Digest| Weighed {
                digest: *digest,
                bytes: range.bytes,
            };
            open.push((range.clone(), [weighed(of_a), weighed(of_b)]));
        }
        // Work through the ranges in key order.
        open.reverse();
        while let Some((range, weighed)) = open.pop() {
            if weighed[0].digest == weighed[1].digest {
                continue;
            }
            if self.full(&found) {
                found.more = true;
                break;
            }
            let few = weighed.iter().all(|of| {
                of.digest.rows <= 1 || (of.digest.rows <= FEW_ROWS && of.bytes <= FEW_BYTES)
            });
            let halves = if few {
                None
            } else {
                self.halve(sources, &range, &weighed)?
            };
            match halves {
                None => self.compare(sources, &range, &mut found)?,
                Some((left, right)) => {
                    open.push((right.clone(), self.weigh(sources, &right)?));
                    open.push((left.clone(), self.weigh(sources, &left)?));
                }
            }
        }
        Ok(found)
    }

    /// Splits a range in the middle of the side with more rows.
    fn halve(
        &self,
        sources: &mut [Source<'_>; 2],
        range: &Range,
        weighed: &[Weighed; 2],
    ) -> Result<Option<(Range, Range)>, VerifyError> {
        let side = usize::from(weighed[1].digest.rows > weighed[0].digest.rows);
        let middle = weighed[side].digest.rows / 2;
        match (&mut sources[side], &self.pair.readings[side]) {
            (Source::Server(conn), Reading::Server(table)) => {
                Ok(ranges::split(conn, table, range, middle)?)
            }
            _ => Ok(None),
        }
    }

    fn weigh(
        &self,
        sources: &mut [Source<'_>; 2],
        range: &Range,
    ) -> Result<[Weighed; 2], VerifyError> {
        let part = Part::Range(range.clone());
        both(sources, |side, source| {
            let mut weighed = Weighed::default();
            source.rows(self.pair, side, &part, self.cancel, &mut |row| {
                weighed.digest.add(hash(row));
                weighed.bytes += row.len() as u64;
                ControlFlow::Continue(())
            })?;
            Ok(weighed)
        })
    }

    /// Compares the rows of a small range one by one.
    fn compare(
        &self,
        sources: &mut [Source<'_>; 2],
        range: &Range,
        found: &mut Found,
    ) -> Result<(), VerifyError> {
        let part = Part::Range(range.clone());
        let [mut a, mut b] = both(sources, |side, source| {
            let mut rows: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            source.rows(self.pair, side, &part, self.cancel, &mut |row| {
                *rows.entry(row.to_vec()).or_default() += 1;
                ControlFlow::Continue(())
            })?;
            Ok(rows)
        })?;
        for (row, times) in &mut a {
            if let Some(other) = b.get_mut(row) {
                let common = (*times).min(*other);
                *times -= common;
                *other -= common;
            }
        }
        for (side, rows) in [a, b].into_iter().enumerate() {
            let left = rows.into_iter().filter(|(_, times)| *times > 0);
            found.alone[side].extend(left.map(|(row, times)| Alone {
                row,
                times,
                files: Vec::new(),
            }));
        }
        Ok(())
    }

    /// Chooses the buckets to look at: all of them if the hashes of the table fit, otherwise as
    /// many of those that differ as fit.
    fn choose(
        &self,
        sources: &mut [Source<'_>; 2],
        found: &mut Found,
    ) -> Result<HashSet<usize>, VerifyError> {
        let rows: u64 = [0, 1].map(|side| self.read.digest(side).rows).iter().sum();
        if rows <= HASHES_MAX {
            return Ok((0..BUCKETS).collect());
        }
        let buckets = both(sources, |side, source| {
            let mut buckets = Buckets::default();
            self.all(side, source, &mut |row, _| buckets.add(hash(row)))?;
            Ok(buckets)
        })?;
        let mut chosen = HashSet::new();
        let mut rows = 0;
        for (bucket, more) in buckets[0].different(&buckets[1]) {
            if rows > 0 && rows + more > HASHES_MAX {
                found.more = true;
                break;
            }
            rows += more;
            chosen.insert(bucket);
        }
        Ok(chosen)
    }

    fn by_buckets(&self, sources: &mut [Source<'_>; 2]) -> Result<Found, VerifyError> {
        let mut found = Found::default();
        let chosen = self.choose(sources, &mut found)?;
        let counts = both(sources, |side, source| {
            let mut counts: HashMap<u128, u64> = HashMap::new();
            self.all(side, source, &mut |row, _| {
                let hash = hash(row);
                if chosen.contains(&Buckets::of(hash)) {
                    *counts.entry(hash).or_default() += 1;
                }
            })?;
            Ok(counts)
        })?;
        let mut wanted: [HashMap<u128, u64>; 2] = Default::default();
        for (side, wanted) in wanted.iter_mut().enumerate() {
            let other = &counts[1 - side];
            for (hash, times) in &counts[side] {
                let more = times.saturating_sub(other.get(hash).copied().unwrap_or(0));
                if more > 0 {
                    if wanted.len() == FETCHED_MAX {
                        found.more = true;
                        break;
                    }
                    wanted.insert(*hash, more);
                }
            }
        }
        drop(counts);
        let fetched = both(sources, |side, source| {
            let mut fetched: HashMap<u128, Alone> = HashMap::new();
            let mut bytes = 0;
            self.all(side, source, &mut |row, file| {
                let hash = hash(row);
                let Some(times) = wanted[side].get(&hash) else {
                    return;
                };
                if !fetched.contains_key(&hash) {
                    if bytes + row.len() > FETCHED_BYTES && bytes > 0 {
                        return;
                    }
                    bytes += row.len();
                }
                let alone = fetched.entry(hash).or_insert_with(|| Alone {
                    row: row.to_vec(),
                    times: *times,
                    files: Vec::new(),
                });
                note_file(&mut alone.files, file);
            })?;
            Ok(fetched)
        })?;
        for (side, fetched) in fetched.into_iter().enumerate() {
            found.more |= fetched.len() < wanted[side].len();
            found.alone[side] = fetched.into_values().collect();
        }
        Ok(found)
    }

    /// If not all rows were fetched, the partner of a row may be missing: fetches it by key.
    fn complete(
        &self,
        sources: &mut [Source<'_>; 2],
        found: &mut Found,
    ) -> Result<(), VerifyError> {
        for rows in &mut found.alone {
            rows.sort_by(|a, b| a.row.cmp(&b.row));
            rows.truncate(self.shown);
        }
        let keys = [0, 1].map(|side: usize| -> HashSet<Vec<u8>> {
            found.alone[side]
                .iter()
                .map(|alone| self.key(&alone.row))
                .collect()
        });
        let partners = both(sources, |side, source| {
            let mut partners = Vec::new();
            self.all(side, source, &mut |row, file| {
                let key = self.key(row);
                if keys[1 - side].contains(&key) && !keys[side].contains(&key) {
                    let mut files = Vec::new();
                    note_file(&mut files, file);
                    partners.push(Alone {
                        row: row.to_vec(),
                        times: 0,
                        files,
                    });
                }
            })?;
            Ok(partners)
        })?;
        for (side, partners) in partners.into_iter().enumerate() {
            found.alone[side].extend(partners);
        }
        Ok(())
    }

    /// Reads all rows of a side, each with the dump file that holds it, if any.
    fn all(
        &self,
        side: usize,
        source: &mut Source<'_>,
        each: &mut dyn FnMut(&[u8], Option<&str>),
    ) -> Result<(), VerifyError> {
        for (part, _) in self.read.parts[side].values() {
            let file = match (part, &self.pair.readings[side]) {
                (Part::File(index), Reading::Dump(entry, _)) => {
                    Some(entry.chunks[*index].file.path.as_str())
                }
                _ => None,
            };
            source.rows(self.pair, side, part, self.cancel, &mut |row| {
                each(row, file);
                ControlFlow::Continue(())
            })?;
        }
        Ok(())
    }
}

fn note_file(files: &mut Vec<String>, file: Option<&str>) {
    if let Some(file) = file
        && !files.iter().any(|known| known == file)
    {
        files.push(file.to_owned());
    }
}

/// Runs `work` on both sides at once.
fn both<T: Send>(
    sources: &mut [Source<'_>; 2],
    work: impl Fn(usize, &mut Source<'_>) -> Result<T, VerifyError> + Sync,
) -> Result<[T; 2], VerifyError> {
    let [a, b] = sources;
    let (a, b) = std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1, b));
        let this = work(0, a);
        let other = match other.join() {
            Ok(other) => other,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        (this, other)
    });
    Ok([a?, b?])
}

/// A range as text, for people.
fn words(range: &Range) -> String {
    let partition = range.partition.as_ref();
    let partition = partition.map_or_else(String::new, |name| format!("partition {name}: "));
    let border = |border: &Option<Vec<String>>, open: &str| {
        let values = border.as_ref().map(|values| values.join(", "));
        values.unwrap_or_else(|| open.to_owned())
    };
    format!(
        "{partition}{} .. {}",
        border(&range.from, "first"),
        border(&range.to, "last")
    )
}
