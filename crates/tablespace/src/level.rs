//! Pages of one level of a B-tree, filled from left to right (`page0page.h`, `btr0bulk.cc`).
//!
//! A page holds a head, the records *infimum* and *supremum*, its own records in their order, free
//! space, and a directory at its end. Every slot of the directory points to a record and stands for
//! the few before it; the server searches in the slots first.

use std::io;

use crate::format::{
    FIRST_RECORD, FIXED_HEAD, Format, HEADER, NO_PAGE, SPACE_AT, TRAILER, TYPE_AT, TYPE_INDEX,
    put_u16, put_u32, put_u64,
};
use crate::record::Record;
use crate::space::{Lane, Pages, SegmentId};

/// Fields of the head of a page of an index (`page0types.h`), behind that of every page.
const SLOTS_AT: usize = HEADER; // PAGE_N_DIR_SLOTS
const HEAP_TOP_AT: usize = HEADER + 2;
pub const HEAP_AT: usize = HEADER + 4; // PAGE_N_HEAP
const LAST_INSERT_AT: usize = HEADER + 10;
const DIRECTION_AT: usize = HEADER + 12;
pub const RECORDS_AT: usize = HEADER + 16; // PAGE_N_RECS
const TRANSACTION_AT: usize = HEADER + 18; // PAGE_MAX_TRX_ID
pub const LEVEL_AT: usize = HEADER + 26;
pub const INDEX_AT: usize = HEADER + 28;

/// The origins of the two records that every page has (`PAGE_NEW_INFIMUM`, `PAGE_NEW_SUPREMUM`).
const INFIMUM: usize = 99;
const SUPREMUM: usize = 112;
/// Both, with their heads: the infimum stands for itself; the supremum is completed with the page.
const BOTH: [u8; FIRST_RECORD - INFIMUM + 5] =
    *b"\x01\x00\x02\x00\x00infimum\x00\x00\x00\x0b\x00\x00supremum";
/// `PAGE_HEAP_NO_USER_LOW`
pub const FIRST_HEAP_NUMBER: u16 = 2;
/// In `PAGE_N_HEAP`: the records have the compact form.
pub const COMPACT: u16 = 0x8000;
/// The server's guess where the next record comes: to the right (`PAGE_RIGHT`).
const RIGHT: u16 = 2;

/// The first record of an upper level is less than every other (`REC_INFO_MIN_REC_FLAG`).
const LEAST: u8 = 0x10;
/// Kinds of records (`REC_STATUS_ORDINARY`, `REC_STATUS_NODE_PTR`).
const ORDINARY: u16 = 0;
const POINTER: u16 = 1;

/// Records for which a full slot stands after a sorted build.
const OWNED: u8 = 4;
/// Most records of a page: their numbers in its heap have 13 bits.
const RECORDS_MOST: usize = 8189;

/// Bytes of pages that are written together.
const KEPT: usize = 1 << 20;

/// What pages of a level have in common.
#[derive(Debug, Clone, Copy)]
pub struct LevelOf {
    /// The index.
    pub index: u64,
    /// The tablespace.
    pub space: u32,
    /// 0 for the records themselves.
    pub level: u16,
    /// The segment that its pages are of.
    pub segment: SegmentId,
    /// Whether the index holds the rows.
    pub is_clustered: bool,
    /// Bytes of NULL bits of a record.
    pub nulls: usize,
}

/// The keys of pages and their numbers: the records of the level above.
///
/// Each has the lengths of its head and its data, the head, which is NULL bits and lengths of the
/// key as in [`Record::head`], and the data, which is the key and the number.
#[derive(Debug, Default)]
pub struct Entries {
    bytes: Vec<u8>,
}

impl Entries {
    fn push(&mut self, key: &Key, number: u32) {
        for len in [key.head.len(), key.data.len() + 4] {
            self.bytes.extend_from_slice(&(len as u16).to_ne_bytes());
        }
        self.bytes.extend_from_slice(&key.head);
        self.bytes.extend_from_slice(&key.data);
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    /// Adds those of pages further right.
    pub fn append(&mut self, mut others: Self) {
        self.bytes.append(&mut others.bytes);
    }

    /// Head and data of each.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (lengths, more) = rest.split_at_checked(4)?;
            let len = |at: usize| usize::from(u16::from_ne_bytes([lengths[at], lengths[at + 1]]));
            let (head, more) = more.split_at(len(0));
            let (data, more) = more.split_at(len(2));
            rest = more;
            Some((head, data))
        })
    }
}

/// The key of the first record of a page.
#[derive(Debug, Default)]
struct Key {
    head: Vec<u8>,
    data: Vec<u8>,
}

/// Fills the pages of a level, or of a part of it.
pub struct LevelWriter {
    of: LevelOf,
    format: Format,
    page: Vec<u8>,
    /// Its number, once it is known that it is not the only one.
    number: Option<u32>,
    previous: u32,
    /// Where the next record begins, and where the last one is.
    top: usize,
    last: usize,
    slots: Vec<u16>,
    /// Records since the last slot.
    owned: u8,
    records: u16,
    /// Complete pages that follow each other, and the number of the first.
    kept: Vec<u8>,
    kept_first: u32,
    key: Key,
    first: Option<FirstPage>,
    entries: Entries,
    /// Where its pages come from.
    pub lane: Lane,
}

/// The first page of a part of a level, if it is not the last one, too. It is not written: the page
/// before it is not known yet.
struct FirstPage {
    page: Vec<u8>,
    number: u32,
    next: u32,
}

/// The last page of a level or a part of it, which is not written: it may be the only one, and the
/// next one is not known yet.
struct LastPage {
    page: Vec<u8>,
    number: Option<u32>,
    previous: u32,
    key: Key,
}

/// A part of a level, of which all pages are written but the first and the last one.
pub struct Part {
    segment: SegmentId,
    first: Option<FirstPage>,
    last: LastPage,
    entries: Entries,
}

/// What a level amounts to.
pub enum Level {
    /// Its only page, without number and links.
    One(Vec<u8>),
    /// More than one, which have all been written.
    More(Entries),
}

impl Part {
    /// Appends a part with greater keys, and writes the pages between them.
    pub fn append(&mut self, mut next: Self, pages: &Pages) -> io::Result<()> {
        let number = self.last.number(self.segment, pages)?;
        let next_number = match &next.first {
            Some(first) => first.number,
            None => next.last.number(self.segment, pages)?,
        };
        let last = &mut self.last;
        pages.complete(&mut last.page, number, last.previous, next_number);
        pages.write(number, &last.page)?;
        self.entries.push(&last.key, number);
        match &mut next.first {
            Some(first) => {
                pages.complete(&mut first.page, first.number, number, first.next);
                pages.write(first.number, &first.page)?;
            }
            None => next.last.previous = number,
        }
        self.entries.append(next.entries);
        self.last = next.last;
        Ok(())
    }

    /// The whole level, if this is all of it.
    pub fn finish(mut self, pages: &Pages) -> io::Result<Level> {
        if let Some(first) = &mut self.first {
            pages.complete(&mut first.page, first.number, NO_PAGE, first.next);
            pages.write(first.number, &first.page)?;
        }
        let last = &mut self.last;
        let Some(number) = last.number else {
            return Ok(Level::One(self.last.page));
        };
        pages.complete(&mut last.page, number, last.previous, NO_PAGE);
        pages.write(number, &last.page)?;
        self.entries.push(&last.key, number);
        Ok(Level::More(self.entries))
    }
}

impl LastPage {
    fn number(&mut self, segment: SegmentId, pages: &Pages) -> io::Result<u32> {
        let number = match self.number {
            Some(number) => number,
            None => pages.allocate_one(segment)?,
        };
        self.number = Some(number);
        Ok(number)
    }
}

impl LevelWriter {
    /// An empty level.
    pub fn new(of: LevelOf, format: Format) -> Self {
        Self {
            of,
            format,
            page: vec![0; format.page_size],
            number: None,
            previous: NO_PAGE,
            top: FIRST_RECORD,
            last: INFIMUM,
            slots: Vec::new(),
            owned: 0,
            records: 0,
            kept: Vec::new(),
            kept_first: 0,
            key: Key::default(),
            first: None,
            entries: Entries::default(),
            lane: Lane::default(),
        }
    }

    /// Adds a record of the lowest level.
    pub fn push(&mut self, record: &Record, pages: &Pages) -> io::Result<()> {
        self.room_for(record.head.len() + record.data.len(), pages)?;
        if self.records == 0 {
            let (head, data) = (&mut self.key.head, &mut self.key.data);
            head.clear();
            head.extend_from_slice(&record.head[..record.key_head]);
            if self.of.is_clustered {
                // The key is never NULL; the other fields are not repeated.
                head[..self.of.nulls].fill(0);
            }
            data.clear();
            data.extend_from_slice(&record.data[..record.key_data]);
        }
        self.add(&record.head, &record.data);
        Ok(())
    }

    /// Adds a record of an upper level.
    pub fn push_entry(&mut self, head: &[u8], data: &[u8], pages: &Pages) -> io::Result<()> {
        self.room_for(head.len() + data.len(), pages)?;
        if self.records == 0 {
            self.key.head.clear();
            self.key.head.extend_from_slice(head);
            self.key.data.clear();
            self.key.data.extend_from_slice(&data[..data.len() - 4]);
        }
        self.add(head, data);
        Ok(())
    }

    /// Begins another page if a record of so many bytes has no room (`PageBulk::isSpaceAvailable`).
    fn room_for(&mut self, len: usize, pages: &Pages) -> io::Result<()> {
        let len = FIXED_HEAD + len;
        let records = usize::from(self.records);
        let directory = |records: usize| (2 * records).div_ceil(4); // page_dir_calc_reserved_space
        let free = self.format.page_size - TRAILER - 4 - self.top - directory(records);
        let needed = len + directory(records + 1) - directory(records);
        // The server leaves room for changes of rows (dict_index_get_space_reserve).
        let reserved = if self.of.is_clustered {
            self.format.page_size / 16
        } else {
            0
        };
        let is_full = needed > free || records == RECORDS_MOST;
        if is_full || records >= 2 && free - needed < reserved {
            self.next_page(pages)?;
        }
        Ok(())
    }

    fn add(&mut self, head: &[u8], data: &[u8]) {
        let (is_upper, is_first) = (self.of.level > 0, self.records == 0);
        let (page, start) = (&mut self.page, self.top);
        let at = start + head.len() + FIXED_HEAD;
        for (to, from) in page[start..].iter_mut().zip(head.iter().rev()) {
            *to = *from;
        }
        let is_least = is_upper && is_first && self.previous == NO_PAGE;
        page[at - 5] = if is_least { LEAST } else { 0 };
        let kind = if is_upper { POINTER } else { ORDINARY };
        put_u16(page, at - 4, (FIRST_HEAP_NUMBER + self.records) << 3 | kind);
        page[at..at + data.len()].copy_from_slice(data);
        if self.records > 0 {
            link(page, self.last, at);
        } else {
            // The page is still what the last one was.
            page[INFIMUM - FIXED_HEAD..FIRST_RECORD].copy_from_slice(&BOTH);
            link(page, INFIMUM, at);
        }
        self.top = at + data.len();
        self.last = at;
        self.records += 1;
        self.owned += 1;
        if self.owned == OWNED {
            self.slots.push(at as u16);
            page[at - 5] |= OWNED;
            self.owned = 0;
        }
    }

    /// Writes the page and begins another one.
    fn next_page(&mut self, pages: &Pages) -> io::Result<()> {
        let number = match self.number {
            Some(number) => number,
            None => pages.allocate(self.of.segment, &mut self.lane)?,
        };
        let next = pages.allocate(self.of.segment, &mut self.lane)?;
        self.complete();
        self.entries.push(&self.key, number);
        if self.previous == NO_PAGE {
            let page = std::mem::replace(&mut self.page, vec![0; self.format.page_size]);
            self.first = Some(FirstPage { page, number, next });
        } else {
            pages.complete(&mut self.page, number, self.previous, next);
            self.keep(number, pages)?;
        }
        self.page[FIRST_RECORD..].fill(0);
        (self.number, self.previous) = (Some(next), number);
        (self.top, self.last) = (FIRST_RECORD, INFIMUM);
        (self.owned, self.records) = (0, 0);
        self.slots.clear();
        Ok(())
    }

    /// Keeps a complete page until there are enough in a row.
    fn keep(&mut self, number: u32, pages: &Pages) -> io::Result<()> {
        let kept = (self.kept.len() / self.format.page_size) as u32;
        if self.kept_first + kept != number || self.kept.len() >= KEPT {
            self.flush(pages)?;
            self.kept_first = number;
        }
        self.kept.extend_from_slice(&self.page);
        Ok(())
    }

    /// Writes the pages that are kept.
    fn flush(&mut self, pages: &Pages) -> io::Result<()> {
        if !self.kept.is_empty() {
            pages.write(self.kept_first, &self.kept)?;
            self.kept.clear();
        }
        Ok(())
    }

    /// Writes the heads and the directory (`PageBulk::finish`).
    fn complete(&mut self) {
        let page = &mut self.page;
        link(page, self.last, SUPREMUM);
        let mut owned = self.owned + 1;
        // The last two slots become one, which may stand for up to eight records.
        if let Some(slot) = self.slots.pop() {
            page[usize::from(slot) - 5] &= !0xf;
            owned += OWNED;
        }
        page[SUPREMUM - 5] = owned;
        let end = page.len() - TRAILER;
        let slots = [INFIMUM as u16].into_iter().chain(self.slots.drain(..));
        let mut count = 0;
        for slot in slots.chain([SUPREMUM as u16]) {
            count += 1;
            put_u16(page, end - 2 * count, slot);
        }
        put_u16(page, TYPE_AT, TYPE_INDEX);
        put_u32(page, SPACE_AT, self.of.space);
        put_u16(page, SLOTS_AT, count as u16);
        put_u16(page, HEAP_TOP_AT, self.top as u16);
        put_u16(page, HEAP_AT, COMPACT | (FIRST_HEAP_NUMBER + self.records));
        put_u16(page, LAST_INSERT_AT, self.last as u16);
        put_u16(page, DIRECTION_AT, RIGHT);
        put_u16(page, RECORDS_AT, self.records);
        // Which transaction may have changed a secondary index last; 0 would be refused.
        let transaction = u64::from(!self.of.is_clustered && self.of.level == 0);
        put_u64(page, TRANSACTION_AT, transaction);
        put_u16(page, LEVEL_AT, self.of.level);
        put_u64(page, INDEX_AT, self.of.index);
    }

    /// Ends the part; `None` if it has no record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self, pages: &Pages) -> io::Result<Option<Part>> {
        self.flush(pages)?;
        pages.give_back(self.of.segment, &mut self.lane);
        if self.records == 0 {
            return Ok(None);
        }
        self.complete();
        Ok(Some(Part {
            segment: self.of.segment,
            first: self.first,
            last: LastPage {
                page: self.page,
                number: self.number,
                previous: self.previous,
                key: self.key,
            },
            entries: self.entries,
        }))
    }
}

/// Makes one record the next of another. The distance may be negative.
fn link(page: &mut [u8], from: usize, to: usize) {
    put_u16(page, from - 2, (to as u16).wrapping_sub(from as u16));
}
