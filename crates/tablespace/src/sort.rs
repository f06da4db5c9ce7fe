//! Sorts the records of an index, in memory as long as they have room there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::record::Record;

/// A record is kept with its key, as bytes: lengths, key, head and data.
///
/// The lengths are those of the key, of its part that no other record may have, of head and data,
/// and of their parts that an upper level repeats.
const LENGTHS: usize = 6;
const LENGTHS_BYTES: usize = 4 * LENGTHS;
/// Bytes that are read at a time of each run in a file, at least and at most.
const READ: std::ops::RangeInclusive<usize> = 4 << 10..=1 << 20;

/// Records in memory.
#[derive(Debug, Default)]
pub struct Run {
    bytes: Vec<u8>,
    /// For each record the beginning of its key, and where it is.
    records: Vec<(u64, usize)>,
}

impl Run {
    /// Takes a record. No other may have the first `unique` bytes of its key, if there are any.
    pub fn push(&mut self, key: &[u8], unique: usize, record: &Record) {
        let at = self.bytes.len();
        let lengths = [
            key.len(),
            unique,
            record.head.len(),
            record.data.len(),
            record.key_head,
            record.key_data,
        ];
        for len in lengths {
            self.bytes.extend_from_slice(&(len as u32).to_ne_bytes());
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(&record.head);
        self.bytes.extend_from_slice(&record.data);
        self.records.push((beginning(key), at));
    }

    /// Bytes of memory that it takes.
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<(u64, usize)>()
    }

    /// The same records in the order of their keys.
    pub fn sorted(mut self) -> SortedRun {
        let bytes = &self.bytes;
        let key = |at: usize| Entry(&bytes[at..]).key();
        self.records.sort_unstable_by(|a, b| {
            let order = a.0.cmp(&b.0);
            order.then_with(|| key(a.1).cmp(key(b.1)))
        });
        SortedRun(self)
    }
}

/// Records in memory, in the order of their keys.
#[derive(Debug)]
pub struct SortedRun(Run);

/// The first eight bytes of a key.
fn beginning(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// All records of an index, in runs of which each is sorted.
#[derive(Debug)]
pub struct Runs {
    /// Most bytes in memory.
    memory: usize,
    /// Where the file for the rest is made.
    folder: PathBuf,
    kept: Vec<Run>,
    held: usize,
    file: Option<File>,
    /// Where each run of the file begins and ends.
    written: Vec<(u64, u64)>,
}

impl Runs {
    /// Keeps up to `memory` bytes of records, and the rest in a file of `folder` that has no name.
    pub fn new(memory: usize, folder: PathBuf) -> Self {
        Self {
            memory,
            folder,
            kept: Vec::new(),
            held: 0,
            file: None,
            written: Vec::new(),
        }
    }

    /// Adds a run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, SortedRun(run): SortedRun) -> io::Result<()> {
        if self.held + run.held() <= self.memory {
            self.held += run.held();
            self.kept.push(run);
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile_in(&self.folder)?,
        };
        let start = self.written.last().map_or(0, |(_, end)| *end);
        let mut end = start;
        let mut out = BufWriter::with_capacity(*READ.end(), &file);
        for (_, at) in &run.records {
            let entry = Entry(&run.bytes[*at..]).whole();
            out.write_all(entry)?;
            end += entry.len() as u64;
        }
        out.flush()?;
        drop(out);
        self.file = Some(file);
        self.written.push((start, end));
        Ok(())
    }

    /// Gives all records, in order. Each comes with its key and the length of the part that no
    /// other may have.
    ///
    /// # Errors
    /// The file cannot be read, or `each` fails.
    pub fn merge<E: From<io::Error>>(
        self,
        mut each: impl FnMut(&[u8], usize, &Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut record = Record::default();
        // Of one run, nothing has to be compared.
        if let ([run], []) = (&self.kept[..], &self.written[..]) {
            for (_, at) in &run.records {
                let entry = Entry(&run.bytes[*at..]);
                entry.read(&mut record);
                each(entry.key(), entry.len_of(1), &record)?;
            }
            return Ok(());
        }
        let read = self.memory / self.written.len().max(1);
        let read = read.clamp(*READ.start(), *READ.end());
        let kept = self.kept.iter().map(|run| Source::Memory { run, next: 0 });
        let mut sources: Vec<Source<'_>> = kept.collect();
        if let Some(file) = &self.file {
            sources.extend(self.written.iter().map(|(start, end)| Source::File {
                file,
                at: *start,
                end: *end,
                read,
                buffer: Vec::new(),
                used: 0,
                entry: Vec::new(),
            }));
        }
        let mut heap = BinaryHeap::new();
        for (at, source) in sources.iter_mut().enumerate() {
            if let Some(entry) = source.next()? {
                heap.push(Reverse((entry.key().to_vec(), at)));
            }
        }
        while let Some(Reverse((mut key, at))) = heap.pop() {
            let entry = sources[at].current();
            entry.read(&mut record);
            each(&key, entry.len_of(1), &record)?;
            if let Some(entry) = sources[at].next()? {
                key.clear();
                key.extend_from_slice(entry.key());
                heap.push(Reverse((key, at)));
            }
        }
        Ok(())
    }
}

/// A sorted run that is being read.
enum Source<'a> {
    Memory {
        run: &'a Run,
        next: usize,
    },
    File {
        file: &'a File,
        /// What was not read yet.
        at: u64,
        end: u64,
        /// How much to read at a time.
        read: usize,
        buffer: Vec<u8>,
        used: usize,
        /// The latest record.
        entry: Vec<u8>,
    },
}

impl Source<'_> {
    fn next(&mut self) -> io::Result<Option<Entry<'_>>> {
        match self {
            Self::Memory { run, next } => {
                *next += 1;
                let record = run.records.get(*next - 1);
                Ok(record.map(|(_, at)| Entry(&run.bytes[*at..])))
            }
            Self::File {
                file,
                at,
                end,
                read,
                buffer,
                used,
                entry,
            } => {
                entry.clear();
                let mut wanted = LENGTHS_BYTES;
                while entry.len() < wanted {
                    if *used == buffer.len() {
                        let len = (*end - *at).min(*read as u64) as usize;
                        if len == 0 {
                            return Ok(None);
                        }
                        buffer.resize(len, 0);
                        file.read_exact_at(buffer, *at)?;
                        *at += len as u64;
                        *used = 0;
                    }
                    let len = (wanted - entry.len()).min(buffer.len() - *used);
                    entry.extend_from_slice(&buffer[*used..*used + len]);
                    *used += len;
                    if entry.len() == LENGTHS_BYTES {
                        wanted = Entry(entry).len();
                    }
                }
                Ok(Some(Entry(entry)))
            }
        }
    }

    fn current(&self) -> Entry<'_> {
        match self {
            Self::Memory { run, next } => Entry(&run.bytes[run.records[*next - 1].1..]),
            Self::File { entry, .. } => Entry(entry),
        }
    }
}

/// A record with its key, perhaps with others behind it.
struct Entry<'a>(&'a [u8]);

impl<'a> Entry<'a> {
    fn len_of(&self, which: usize) -> usize {
        let at = 4 * which;
        let bytes = [self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]];
        u32::from_ne_bytes(bytes) as usize
    }

    fn len(&self) -> usize {
        LENGTHS_BYTES + self.len_of(0) + self.len_of(2) + self.len_of(3)
    }

    fn whole(&self) -> &'a [u8] {
        &self.0[..self.len()]
    }

    fn key(&self) -> &'a [u8] {
        &self.0[LENGTHS_BYTES..LENGTHS_BYTES + self.len_of(0)]
    }

    fn read(&self, record: &mut Record) {
        let head = LENGTHS_BYTES + self.len_of(0);
        let data = head + self.len_of(2);
        record.head.clear();
        record.head.extend_from_slice(&self.0[head..data]);
        record.data.clear();
        record.data.extend_from_slice(&self.0[data..self.len()]);
        (record.key_head, record.key_data) = (self.len_of(4), self.len_of(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records come in order, whether they have room in memory or not.
    #[test]
    fn records_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for memory in [usize::MAX, 60_000, 0] {
            let mut runs = Runs::new(memory, folder.path().to_owned());
            for part in 0..3_u32 {
                let mut run = Run::default();
                for number in 0..500_u32 {
                    let number = number * 3 + part;
                    let key = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
                    let record = Record {
                        head: vec![part as u8],
                        // Some are longer than what is read at a time.
                        data: vec![7; if number % 100 == 0 { 9_000 } else { 4 }],
                        key_head: 1,
                        key_data: 4,
                        elsewhere: Vec::new(),
                    };
                    run.push(&key, 4, &record);
                }
                runs.add(run.sorted()).unwrap();
            }
            assert_eq!(runs.file.is_none(), memory == usize::MAX);
            let mut keys = Vec::new();
            let each = |key: &[u8], unique: usize, record: &Record| {
                assert_eq!((unique, record.head.len(), record.key_data), (4, 1, 4));
                assert!(matches!(record.data.len(), 4 | 9_000));
                keys.push(key.to_vec());
                io::Result::Ok(())
            };
            runs.merge(each).unwrap();
            assert_eq!(keys.len(), 1500);
            assert!(keys.is_sorted_by(|a, b| a < b));
        }
    }
}
