//! Digests tables on both sides with all readers at once, the largest parts first.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use refloat_digest::rows::{Digest, hash};
use refloat_read::jobs::{Job, Queue};
use refloat_read::ranges::RANGE_MIN;
use refloat_run::progress::{TableProgress, TableState};
use refloat_run::{Cancel, Event, Events, Progress, kill_on_cancel};

use super::error::{SIDES, VerifyError};
use super::pair::{Pair, Reading};
use super::source::{Part, Source};

/// Ranges per reader over all tables, so that all readers finish at about the same time.
const RANGES_PER_READER: u64 = 8;
/// Upper limit for a range, in bytes: differences are searched within it.
const RANGE_MAX: u64 = 64 << 20;
/// Rows between two progress updates.
const TELL_ROWS: u64 = 8192;

/// What all readers share.
pub struct Work<'a> {
    /// Tables that both sides have.
    pub pairs: &'a [Pair],
    /// Stops the work.
    pub cancel: &'a Cancel,
    /// Receives the run's events.
    pub events: &'a Events,
    /// Receives the run's progress.
    pub progress: &'a Progress,
    /// Bytes of rows finished so far, by estimate.
    pub done: &'a AtomicU64,
}

/// What was read of one table.
#[derive(Default)]
pub struct Read {
    /// For each side, the parts and their digests by part number.
    pub parts: [BTreeMap<usize, (Part, Digest)>; 2],
    /// Rows as each server counts them, if the table was read in ranges.
    pub counted: [Option<u64>; 2],
    /// Bytes of values, on both sides together.
    pub bytes: u64,
}

impl Read {
    /// Checks that every row was read once, if a server has counted them.
    fn check(&self, table: &str) -> Result<(), VerifyError> {
        for (side, counted) in self.counted.iter().enumerate() {
            let read = self.digest(side).rows;
            if let Some(counted) = *counted
                && counted != read
            {
                return Err(VerifyError::Uncounted {
                    table: table.to_owned(),
                    side: SIDES[side],
                    read,
                    counted,
                });
            }
        }
        Ok(())
    }

    /// Digest of all rows of a side.
    pub fn digest(&self, side: usize) -> Digest {
        let mut digest = Digest::default();
        self.parts[side]
            .values()
            .for_each(|(_, part)| digest.merge(*part));
        digest
    }
}

/// A table in progress.
#[derive(Default)]
struct Table {
    read: Read,
    /// Parts not read yet, plus cuts not made yet.
    open: usize,
    shown: Option<Arc<TableProgress>>,
}

/// State shared by the readers of both sides.
#[derive(Default)]
struct Shared {
    /// Parts waiting to be read, by side, table and part number.
    parts: BTreeMap<(usize, usize, usize), Part>,
    tables: BTreeMap<usize, Table>,
}

/// A queue with a lane for each side.
type Both = Queue<Shared, VerifyError>;

impl Work<'_> {
    /// Digests the tables at the indexes `which` with all readers of both sides.
    pub fn read(
        &self,
        readers: [Vec<Source<'_>>; 2],
        which: &[usize],
    ) -> Result<BTreeMap<usize, Read>, VerifyError> {
        let queue = Both::new(2, Shared::default());
        let total: u64 = which
            .iter()
            .map(|index| self.pairs[*index].readings[0].bytes())
            .sum();
        let target = (total / (readers[0].len().max(1) as u64 * RANGES_PER_READER))
            .clamp(RANGE_MIN, RANGE_MAX);
        {
            let mut jobs = queue.jobs();
            for &table in which {
                let pair = &self.pairs[table];
                let mut read = Read::default();
                let mut open = 0;
                for side in 0..if pair.same_ranges { 1 } else { 2 } {
                    let bytes = pair.readings[side].bytes();
                    if let Reading::Other(of) = &pair.readings[side] {
                        // Digested while the dump was read.
                        read.parts[side].insert(0, (Part::All, of.digest));
                        read.bytes += bytes;
                        continue;
                    }
                    jobs.push(side, Job::Cut { bytes, table });
                    open += 1;
                }
                jobs.shared.tables.insert(
                    table,
                    Table {
                        read,
                        open,
                        shown: None,
                    },
                );
            }
        }
        std::thread::scope(|scope| {
            for (side, readers) in readers.into_iter().enumerate() {
                for mut reader in readers {
                    let queue = &queue;
                    scope.spawn(move || self.work(queue, side, &mut reader, target));
                }
            }
        });
        if self.cancel.is_cancelled() {
            return Err(VerifyError::interrupted(self.cancel));
        }
        let tables = queue.finish()?.tables;
        for (index, table) in &tables {
            table.read.check(&self.pairs[*index].label)?;
        }
        Ok(tables
            .into_iter()
            .map(|(index, table)| (index, table.read))
            .collect())
    }

    fn work(&self, queue: &Both, side: usize, reader: &mut Source<'_>, target: u64) {
        let _kill = match reader {
            Source::Server(conn) => Some(kill_on_cancel(self.cancel, conn)),
            Source::Dump(_) | Source::Other(..) => None,
        };
        queue.work(side, VerifyError::defect, |job| match job {
            Job::Cut { table, .. } => self.cut(queue, side, reader, table, target),
            Job::Read {
                table,
                number,
                bytes,
            } => {
                let result = self.part(queue, side, reader, (table, number));
                self.done.fetch_add(bytes, Ordering::Relaxed);
                result
            }
        });
    }

    fn cut(
        &self,
        queue: &Both,
        side: usize,
        reader: &mut Source<'_>,
        table: usize,
        target: u64,
    ) -> Result<(), VerifyError> {
        let pair = &self.pairs[table];
        let mut parts = reader
            .cut(&pair.readings[side], target)
            .map_err(|error| error.on_side(side))?;
        // Range borders rely on the order of text, which two indexes of one table may see
        // differently. So count the rows without ranges as well.
        if parts.len() > 1 && parts.iter().all(|part| matches!(part, Part::Range(_))) {
            parts.push(Part::Count);
        }
        let mut jobs = queue.jobs();
        let sides = if pair.same_ranges {
            0..2
        } else {
            side..side + 1
        };
        let of = jobs.shared.tables.entry(table).or_default();
        if of.shown.is_none() {
            let shown = self.progress.table(&pair.label, TableState::Checking);
            of.shown = Some(Arc::new(shown));
            self.events.emit(Event::TableStarted {
                table: pair.label.clone(),
            });
        }
        of.open += sides.len() * parts.len();
        for side in sides {
            let all = pair.readings[side].bytes();
            for (number, part) in parts.iter().enumerate() {
                let bytes = match part {
                    Part::Range(range) => range.bytes,
                    Part::File(_) => all / parts.len() as u64,
                    Part::Count | Part::All => 0,
                };
                let read = Job::Read {
                    bytes,
                    table,
                    number,
                };
                jobs.push(side, read);
                jobs.shared
                    .parts
                    .insert((side, table, number), part.clone());
            }
        }
        self.closed(&mut jobs.shared, table);
        queue.wake();
        Ok(())
    }

    fn part(
        &self,
        queue: &Both,
        side: usize,
        reader: &mut Source<'_>,
        (table, number): (usize, usize),
    ) -> Result<(), VerifyError> {
        let pair = &self.pairs[table];
        let (part, shown) = {
            let mut jobs = queue.jobs();
            let part = jobs.shared.parts.remove(&(side, table, number));
            let shown = jobs
                .shared
                .tables
                .get(&table)
                .and_then(|of| of.shown.clone());
            (part, shown)
        };
        let Some(part) = part else {
            return Ok(());
        };
        if part == Part::Count {
            let counted = reader
                .count(&pair.readings[side])
                .map_err(|error| error.on_side(side))?;
            let mut jobs = queue.jobs();
            if let Some(of) = jobs.shared.tables.get_mut(&table) {
                of.read.counted[side] = counted;
            }
            self.closed(&mut jobs.shared, table);
            return Ok(());
        }
        let mut digest = Digest::default();
        let (mut bytes, mut reported) = (0, (0, 0));
        let mut tell = |rows: u64, bytes: u64| {
            if let Some(shown) = &shown {
                shown.add(rows - reported.0, bytes - reported.1);
            }
            reported = (rows, bytes);
        };
        let each = &mut |row: &[u8]| {
            digest.add(hash(row));
            bytes += values(row, pair);
            if digest.rows.is_multiple_of(TELL_ROWS) {
                tell(digest.rows, bytes);
            }
            ControlFlow::Continue(())
        };
        reader
            .rows(pair, side, &part, self.cancel, each)
            .map_err(|error| error.on_side(side))?;
        tell(digest.rows, bytes);
        drop(shown);
        let mut jobs = queue.jobs();
        if let Some(of) = jobs.shared.tables.get_mut(&table) {
            of.read.parts[side].insert(number, (part, digest));
            of.read.bytes += bytes;
        }
        self.closed(&mut jobs.shared, table);
        Ok(())
    }

    /// Marks one job of a table as done; after the last one, the table is finished.
    fn closed(&self, shared: &mut Shared, table: usize) {
        let Some(of) = shared.tables.get_mut(&table) else {
            return;
        };
        of.open -= 1;
        if of.open > 0 {
            return;
        }
        if let Some(shown) = of.shown.take().and_then(Arc::into_inner) {
            self.events.emit(Event::TableFinished {
                table: self.pairs[table].label.clone(),
                rows: shown.rows(),
                bytes: shown.bytes(),
                seconds: shown.elapsed().as_secs_f64(),
            });
            shown.loaded();
        }
    }
}

/// Bytes of a row's values, without the lengths between them.
fn values(row: &[u8], pair: &Pair) -> u64 {
    (row.len() as u64).saturating_sub(8 * pair.columns.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_in_no_range_are_noticed() {
        let mut read = Read::default();
        let mut digest = Digest::default();
        digest.add(hash(b"row"));
        for side in 0..2 {
            read.parts[side].insert(0, (Part::Count, digest));
        }
        // Both have lost the same row, so the digests are equal.
        assert!(read.check("t").is_ok());
        read.counted = [Some(1), Some(2)];
        let error = read.check("a.t").unwrap_err().to_string();
        assert!(
            error.contains("a.t of the second side")
                && error.contains("brought 1 rows")
                && error.contains("counts 2"),
            "{error}"
        );
        read.counted = [Some(1), None];
        assert!(read.check("a.t").is_ok());
    }
}
