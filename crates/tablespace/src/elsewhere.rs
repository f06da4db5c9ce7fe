//! Values that are too long for their row, on pages of their own.
//!
//! MariaDB chains such pages (`FIL_PAGE_TYPE_BLOB`, `btr0cur.cc`). MySQL 8.0 and newer keep a list
//! of the parts of a value, ten of them in its first page (`lob0first.h`, `lob0index.h`,
//! `lob0pages.h`), so that parts can be changed.

use std::io;

use crate::format::{HEADER, NO_PAGE, SPACE_AT, TRAILER, TYPE_AT, put_u16, put_u32};
use crate::record::REFERENCE;
use crate::space::{Lane, Pages, SegmentId, put_address};

/// Types of such pages.
const TYPE_CHAINED: u16 = 10; // FIL_PAGE_TYPE_BLOB
const TYPE_PARTS: u16 = 22; // FIL_PAGE_TYPE_LOB_INDEX
const TYPE_PART: u16 = 23; // FIL_PAGE_TYPE_LOB_DATA
const TYPE_FIRST: u16 = 24; // FIL_PAGE_TYPE_LOB_FIRST

/// Where the bytes of a chained page begin: behind their number and the next page
/// (`BTR_BLOB_HDR_SIZE`).
const CHAINED_AT: usize = HEADER + 8;

/// Fields of the first page of MySQL.
const VERSION_AT: usize = HEADER + 2;
const FIRST_LEN_AT: usize = HEADER + 16;
const USED_AT: usize = HEADER + 26;
const FREE_AT: usize = HEADER + 42;
const FIRST_PARTS_AT: usize = HEADER + 58;
/// Parts that the first page lists.
const FIRST_PARTS: usize = 10;
const FIRST_BYTES_AT: usize = FIRST_PARTS_AT + FIRST_PARTS * PART;
/// Where the list in a page of its own begins.
const PARTS_AT: usize = HEADER + 1;
/// Fields of the page of a part.
const PART_LEN_AT: usize = HEADER + 1;
const PART_BYTES_AT: usize = HEADER + 11;

/// Bytes of an entry of the list, and its fields: links, earlier versions, its page, how many bytes
/// of the value are there, and the version.
const PART: usize = 60;
const VERSIONS_AT: usize = 12;
const PAGE_AT: usize = 48;
const LEN_AT: usize = 52;
const PART_VERSION_AT: usize = 56;
/// The version of a value that was never changed.
const FIRST_VERSION: u32 = 1;

/// Gives the number of the next page.
type Next<'a> = &'a mut dyn FnMut() -> io::Result<u32>;

/// Writes a value to pages of a segment, and returns the reference to it.
pub fn write(
    value: &[u8],
    segment: SegmentId,
    lane: &mut Lane,
    pages: &Pages,
) -> io::Result<[u8; REFERENCE]> {
    let mut next = || pages.allocate(segment, lane);
    let (first, third) = if pages.is_of_mysql() {
        (write_parts(value, &mut next, pages)?, FIRST_VERSION)
    } else {
        // Where the value begins in its page.
        (write_chain(value, &mut next, pages)?, HEADER as u32)
    };
    let mut reference = [0; REFERENCE];
    put_u32(&mut reference, 0, pages.space);
    put_u32(&mut reference, 4, first);
    put_u32(&mut reference, 8, third);
    // Flags: none. This row owns the value.
    put_u32(&mut reference, 16, value.len() as u32);
    Ok(reference)
}

fn write_chain(value: &[u8], allocate: Next<'_>, pages: &Pages) -> io::Result<u32> {
    let room = pages.format.page_size - CHAINED_AT - TRAILER;
    let first = allocate()?;
    let mut number = first;
    let mut parts = value.chunks(room).peekable();
    while let Some(part) = parts.next() {
        let next = match parts.peek() {
            Some(_) => allocate()?,
            None => NO_PAGE,
        };
        let mut page = new_page(TYPE_CHAINED, pages);
        put_u32(&mut page, HEADER, part.len() as u32);
        put_u32(&mut page, HEADER + 4, next);
        page[CHAINED_AT..CHAINED_AT + part.len()].copy_from_slice(part);
        pages.complete(&mut page, number, NO_PAGE, NO_PAGE);
        pages.write(number, &page)?;
        number = next;
    }
    Ok(first)
}

/// A part of a value: its page, and how many bytes it has.
struct Part {
    page: u32,
    len: usize,
}

fn write_parts(value: &[u8], allocate: Next<'_>, pages: &Pages) -> io::Result<u32> {
    let page_size = pages.format.page_size;
    let first = allocate()?;
    let (here, rest) = value.split_at(value.len().min(page_size - FIRST_BYTES_AT - TRAILER));
    let mut parts = vec![Part {
        page: first,
        len: here.len(),
    }];
    for part in rest.chunks(page_size - PART_BYTES_AT - TRAILER) {
        let number = allocate()?;
        let mut page = new_page(TYPE_PART, pages);
        put_u32(&mut page, PART_LEN_AT, part.len() as u32);
        page[PART_BYTES_AT..PART_BYTES_AT + part.len()].copy_from_slice(part);
        pages.complete(&mut page, number, NO_PAGE, NO_PAGE);
        pages.write(number, &page)?;
        parts.push(Part {
            page: number,
            len: part.len(),
        });
    }
    let mut list = List::new(first, parts.len(), allocate, pages)?;
    list.fill(&parts);
    let mut page = new_page(TYPE_FIRST, pages);
    put_u32(&mut page, VERSION_AT, FIRST_VERSION);
    put_u32(&mut page, FIRST_LEN_AT, here.len() as u32);
    list.put_base(&mut page, USED_AT, 0..parts.len());
    list.put_base(&mut page, FREE_AT, parts.len()..list.entries());
    page[FIRST_PARTS_AT..FIRST_BYTES_AT].copy_from_slice(list.of_page(0));
    page[FIRST_BYTES_AT..FIRST_BYTES_AT + here.len()].copy_from_slice(here);
    let next = list.numbers.get(1).copied().unwrap_or(NO_PAGE);
    pages.complete(&mut page, first, NO_PAGE, next);
    pages.write(first, &page)?;
    for at in 1..list.numbers.len() {
        let mut page = new_page(TYPE_PARTS, pages);
        let entries = list.of_page(at);
        page[PARTS_AT..PARTS_AT + entries.len()].copy_from_slice(entries);
        let next = list.numbers.get(at + 1).copied().unwrap_or(NO_PAGE);
        pages.complete(&mut page, list.numbers[at], NO_PAGE, next);
        pages.write(list.numbers[at], &page)?;
    }
    Ok(first)
}

/// The list of the parts of a value, over all pages that hold it. Entries that no part needs are in
/// a list of their own.
struct List {
    /// Its pages; the first holds ten entries, each of the others as many as it has room for.
    numbers: Vec<u32>,
    entries_of_page: usize,
    bytes: Vec<u8>,
}

impl List {
    fn new(first: u32, parts: usize, allocate: Next<'_>, pages: &Pages) -> io::Result<Self> {
        let entries_of_page = (pages.format.page_size - PARTS_AT - TRAILER) / PART;
        let more = parts.saturating_sub(FIRST_PARTS).div_ceil(entries_of_page);
        let mut numbers = vec![first];
        for _ in 0..more {
            numbers.push(allocate()?);
        }
        let entries = FIRST_PARTS + more * entries_of_page;
        Ok(Self {
            numbers,
            entries_of_page,
            bytes: vec![0; entries * PART],
        })
    }

    fn entries(&self) -> usize {
        self.bytes.len() / PART
    }

    /// The entries that a page of the list holds.
    fn of_page(&self, at: usize) -> &[u8] {
        let start = match at {
            0 => 0,
            _ => FIRST_PARTS + (at - 1) * self.entries_of_page,
        };
        let count = match at {
            0 => FIRST_PARTS,
            _ => self.entries_of_page,
        };
        &self.bytes[start * PART..(start + count) * PART]
    }

    /// Where an entry is.
    fn address(&self, entry: usize) -> (u32, u16) {
        match entry.checked_sub(FIRST_PARTS) {
            None => (self.numbers[0], (FIRST_PARTS_AT + entry * PART) as u16),
            Some(later) => {
                let page = self.numbers[1 + later / self.entries_of_page];
                let at = PARTS_AT + later % self.entries_of_page * PART;
                (page, at as u16)
            }
        }
    }

    /// Writes the entries: one for each part, and free ones.
    fn fill(&mut self, parts: &[Part]) {
        let all = self.entries();
        for entry in 0..all {
            let list = if entry < parts.len() {
                0..parts.len()
            } else {
                parts.len()..all
            };
            let beside = |other: Option<usize>| match other {
                Some(other) if list.contains(&other) => self.address(other),
                _ => (NO_PAGE, 0),
            };
            let links = [beside(entry.checked_sub(1)), beside(Some(entry + 1))];
            let bytes = &mut self.bytes[entry * PART..(entry + 1) * PART];
            for (at, link) in links.into_iter().enumerate() {
                put_address(bytes, at * 6, link);
            }
            // No earlier version.
            put_address(bytes, VERSIONS_AT + 4, (NO_PAGE, 0));
            put_address(bytes, VERSIONS_AT + 10, (NO_PAGE, 0));
            if let Some(part) = parts.get(entry) {
                put_u32(bytes, PAGE_AT, part.page);
                put_u16(bytes, LEN_AT, part.len as u16);
                put_u32(bytes, PART_VERSION_AT, FIRST_VERSION);
            } else {
                put_u32(bytes, PAGE_AT, NO_PAGE);
            }
        }
    }

    /// Writes how many entries a list has, and its ends.
    fn put_base(&self, page: &mut [u8], at: usize, list: std::ops::Range<usize>) {
        let ends = if list.is_empty() {
            [(NO_PAGE, 0); 2]
        } else {
            [self.address(list.start), self.address(list.end - 1)]
        };
        put_u32(page, at, list.len() as u32);
        put_address(page, at + 4, ends[0]);
        put_address(page, at + 10, ends[1]);
    }
}

fn new_page(kind: u16, pages: &Pages) -> Vec<u8> {
    let mut page = vec![0; pages.format.page_size];
    put_u16(&mut page, TYPE_AT, kind);
    put_u32(&mut page, SPACE_AT, pages.space);
    page
}
