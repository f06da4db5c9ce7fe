//! Which page of a tablespace belongs to whom: extents, segments and their lists (`fsp0fsp.cc`).
//!
//! An index has two segments, of its lowest level and of the others. A segment first takes single
//! pages of extents that all share, then whole extents. Each extent has a descriptor in the first
//! page of its group; extents of a kind are linked to a list, whose ends stand in the first page of
//! the tablespace or in the segment's inode.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::format::{
    Format, HEADER, LSN_AT, NO_PAGE, NUMBER_AT, SEGMENTS_AT, SPACE_AT, TYPE_AT, TYPE_CHANGE_BUFFER,
    TYPE_DESCRIPTORS, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64, set_links,
};
use crate::sink::Sink;

/// Fields of the head of a tablespace, in its first page (`FSP_SIZE` …).
const SIZE_AT: usize = HEADER + 8;
const LIMIT_AT: usize = HEADER + 12;
/// Flags of the tablespace.
pub const FLAGS_AT: usize = HEADER + 16;
const SINGLE_USED_AT: usize = HEADER + 20; // FSP_FRAG_N_USED
const FREE_AT: usize = HEADER + 24;
const SINGLE_FREE_AT: usize = HEADER + 40; // FSP_FREE_FRAG
const SINGLE_FULL_AT: usize = HEADER + 56; // FSP_FULL_FRAG
/// Where the extent descriptors begin (`XDES_ARR_OFFSET`).
const DESCRIPTORS_AT: usize = HEADER + 112;

/// Fields of an extent descriptor (`XDES_ID` …).
const NODE_AT: usize = 8;
const STATE_AT: usize = 20;
const BITS_AT: usize = 24;
/// States of an extent.
const SINGLE_FREE: u32 = 2;
const SINGLE_FULL: u32 = 3;
const OF_SEGMENT: u32 = 4;

/// Fields of an inode (`FSEG_ID` …).
const USED_AT: usize = 8; // FSEG_NOT_FULL_N_USED
const SEGMENT_FREE_AT: usize = 12;
const SEGMENT_NOT_FULL_AT: usize = 28;
const SEGMENT_FULL_AT: usize = 44;
const SINGLE_PAGES_AT: usize = 64; // FSEG_FRAG_ARR

/// Pages that every group begins with: descriptors and the change buffer.
const PAGES_OF_GROUP: u32 = 2;

/// A segment of the tablespace that is being built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentId(usize);

/// An extent, of which the first pages are used.
#[derive(Debug, Clone, Copy)]
struct Extent {
    number: u32,
    used: u32,
}

/// A segment.
#[derive(Debug)]
struct Segment {
    /// Where its inode is: page and byte.
    inode: (u32, usize),
    /// Single pages; those of the template first.
    single: Vec<u32>,
    extents: Vec<Extent>,
    /// Those that have room, and that nobody is filling.
    open: Vec<usize>,
}

/// An extent that a writer fills by itself, so that its pages follow each other.
#[derive(Debug, Default)]
pub struct Lane {
    /// Its place among the extents of the segment.
    extent: Option<usize>,
}

impl Extent {
    /// Takes its next page.
    fn next(&mut self, pages: u32) -> u32 {
        self.used += 1;
        self.number * pages + self.used - 1
    }
}

#[derive(Debug)]
struct Space {
    segments: Vec<Segment>,
    /// Extents whose pages are given away one by one.
    single: Vec<Extent>,
    /// The first extent that nobody has.
    next: u32,
}

/// Why a tablespace cannot be built on its template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("page {page} of the empty tablespace is not as expected: {what}")]
pub struct TemplateError {
    /// The page.
    pub page: u32,
    /// What is wrong.
    pub what: &'static str,
}

/// The pages of a tablespace while it is built. Several indexes may take and write pages at the
/// same time.
pub struct Pages {
    /// Its format.
    pub format: Format,
    /// The LSN that all pages get. The server replaces it.
    lsn: u64,
    /// Its number.
    pub space: u32,
    template: Vec<u8>,
    /// How many pages of the template are used.
    used: u32,
    sink: Box<dyn Sink>,
    state: Mutex<Space>,
}

impl Pages {
    /// Pages of a tablespace that begins as the empty one `template`.
    ///
    /// # Errors
    /// The template is not an empty tablespace of a known format.
    pub fn new(template: Vec<u8>, sink: Box<dyn Sink>) -> Result<Self, TemplateError> {
        let wrong = |page, what| TemplateError { page, what };
        if template.len() < 4096 {
            return Err(wrong(0, "it is too short"));
        }
        let flags = get_u32(&template, FLAGS_AT);
        let format = Format::of(flags).ok_or(wrong(0, "it is compressed or encrypted"))?;
        if !template.len().is_multiple_of(format.page_size) {
            return Err(wrong(0, "the file does not end with a page"));
        }
        let zero = vec![0; format.page_size];
        for (number, page) in template.chunks_exact(format.page_size).enumerate() {
            if page != zero && !format.is_sound(page) {
                return Err(wrong(number as u32, "its checksum is wrong"));
            }
            if format.is_encrypted(page) {
                return Err(wrong(number as u32, "it is encrypted"));
            }
        }
        // The pages that are used come first.
        let bits = &template[DESCRIPTORS_AT + BITS_AT..][..format.extent() as usize / 4];
        let is_free = |page: u32| bits[page as usize / 4] >> (page % 4 * 2) & 1 == 1;
        let used = (0..format.extent()).take_while(|page| !is_free(*page));
        let used = used.count() as u32;
        if (used..format.extent()).any(|page| !is_free(page))
            || get_u32(&template, DESCRIPTORS_AT + STATE_AT) != SINGLE_FREE
            || used as usize * format.page_size > template.len()
        {
            return Err(wrong(
                0,
                "other pages are used than those of an empty table",
            ));
        }
        Ok(Self {
            format,
            lsn: get_u64(&template, LSN_AT),
            space: get_u32(&template, SPACE_AT),
            template,
            used,
            sink,
            state: Mutex::new(Space {
                segments: Vec::new(),
                single: vec![Extent { number: 0, used }],
                next: 1,
            }),
        })
    }

    /// Whether the tablespace is of MySQL 8.0 or newer, which describes the table in it
    /// (`FSP_FLAGS_MASK_SDI`).
    pub fn is_of_mysql(&self) -> bool {
        get_u32(&self.template, FLAGS_AT) & 1 << 14 != 0
    }

    /// A page of the template.
    pub fn of_template(&self, number: u32) -> Result<&[u8], TemplateError> {
        let start = number as usize * self.format.page_size;
        let page = self.template.get(start..start + self.format.page_size);
        page.ok_or(TemplateError {
            page: number,
            what: "it does not exist",
        })
    }

    /// The segments of an index: of its lowest level, and of the others.
    ///
    /// # Errors
    /// Its root does not say where they are.
    pub fn segments(&self, root: u32) -> Result<[SegmentId; 2], TemplateError> {
        let page = self.of_template(root)?;
        let mut state = self.state();
        let mut found = [SegmentId(0); 2];
        for (which, id) in found.iter_mut().enumerate() {
            let at = SEGMENTS_AT + 10 * which;
            let inode = (get_u32(page, at + 4), usize::from(get_u16(page, at + 8)));
            let slots = self.format.single_pages();
            let bytes = self.of_template(inode.0)?.get(inode.1..);
            let bytes = bytes.and_then(|bytes| bytes.get(..SINGLE_PAGES_AT + 4 * slots));
            let bytes = bytes.ok_or(TemplateError {
                page: root,
                what: "its segments are nowhere",
            })?;
            let single = (0..slots).map(|slot| get_u32(bytes, SINGLE_PAGES_AT + 4 * slot));
            *id = SegmentId(state.segments.len());
            state.segments.push(Segment {
                inode,
                single: single.filter(|page| *page != NO_PAGE).collect(),
                extents: Vec::new(),
                open: Vec::new(),
            });
        }
        Ok(found)
    }

    fn state(&self) -> MutexGuard<'_, Space> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next page for a segment: a single one, or the next of the lane.
    ///
    /// # Errors
    /// The tablespace has no number left.
    pub fn allocate(&self, segment: SegmentId, lane: &mut Lane) -> io::Result<u32> {
        let mut state = self.state();
        let extent = self.format.extent();
        let is_single = state.segments[segment.0].single.len() < self.format.single_pages();
        if is_single {
            let open = state.single.iter_mut().find(|one| one.used < extent);
            let page = if let Some(one) = open {
                one.next(extent)
            } else {
                let number = state.take_extent(self.format)?;
                state.single.push(Extent { number, used: 1 });
                number * extent
            };
            state.segments[segment.0].single.push(page);
            return Ok(page);
        }
        let one = &mut state.segments[segment.0];
        let has_room = |at: &usize| one.extents[*at].used < extent;
        let open = lane.extent.filter(has_room).or_else(|| one.open.pop());
        if let Some(at) = open {
            lane.extent = Some(at);
            return Ok(one.extents[at].next(extent));
        }
        let number = state.take_extent(self.format)?;
        let extents = &mut state.segments[segment.0].extents;
        lane.extent = Some(extents.len());
        extents.push(Extent { number, used: 1 });
        Ok(number * extent)
    }

    /// Takes a single page more, for somebody who fills no lane.
    ///
    /// # Errors
    /// The tablespace has no number left.
    pub fn allocate_one(&self, segment: SegmentId) -> io::Result<u32> {
        let mut lane = Lane::default();
        let page = self.allocate(segment, &mut lane);
        self.give_back(segment, &mut lane);
        page
    }

    /// Lets others fill the rest of a lane.
    pub fn give_back(&self, segment: SegmentId, lane: &mut Lane) {
        let mut state = self.state();
        let one = &mut state.segments[segment.0];
        let extent = self.format.extent();
        let has_room = |at: &usize| one.extents[*at].used < extent;
        if let Some(at) = lane.extent.take().filter(has_room) {
            one.open.push(at);
        }
    }

    /// Gives a page its number and links and completes it.
    pub fn complete(&self, page: &mut [u8], number: u32, previous: u32, next: u32) {
        set_links(page, number, previous, next);
        self.format.seal(page, self.lsn);
    }

    /// Writes pages that follow each other.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, first: u32, pages: &[u8]) -> io::Result<()> {
        let at = u64::from(first) * self.format.page_size as u64;
        self.sink.write_at(at, pages)
    }

    /// Writes the pages of the template that are not written otherwise, and what says to whom each
    /// page belongs. `roots` have been written. Returns the size of the file in bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, roots: &[u32]) -> io::Result<u64> {
        let format = self.format;
        let mut state = self.state();
        let state = &mut *state;
        let extent = format.extent();
        // A tablespace of one extent may end within it.
        let template = (self.template.len() / format.page_size) as u32;
        let pages = match state.next {
            1 => template.max(state.single[0].used),
            next => next * extent,
        };
        let bytes = u64::from(pages) * format.page_size as u64;
        self.sink.set_len(bytes)?;
        let mut map = Map::new(format, &self.template[..format.page_size], state.next);
        let mut inodes: Vec<(u32, Vec<u8>)> = Vec::new();
        for segment in &mut state.segments {
            let (number, at) = segment.inode;
            if inodes.iter().all(|(known, _)| *known != number) {
                let page = self.of_template(number).map_err(io::Error::other)?;
                inodes.push((number, page.to_vec()));
            }
            let Some((_, page)) = inodes.iter_mut().find(|(known, _)| *known == number) else {
                continue;
            };
            let inode = &mut page[at..];
            let id = get_u64(inode, 0);
            let (full, not_full): (Vec<&Extent>, Vec<&Extent>) =
                segment.extents.iter().partition(|one| one.used == extent);
            let used = not_full.iter().map(|one| one.used).sum::<u32>();
            put_u32(inode, USED_AT, used);
            map.list(&mut inode[SEGMENT_FREE_AT..], &[], OF_SEGMENT, id);
            map.list(&mut inode[SEGMENT_NOT_FULL_AT..], &not_full, OF_SEGMENT, id);
            map.list(&mut inode[SEGMENT_FULL_AT..], &full, OF_SEGMENT, id);
            for (slot, page) in segment.single.iter().enumerate() {
                put_u32(inode, SINGLE_PAGES_AT + 4 * slot, *page);
            }
        }
        let (full, free): (Vec<&Extent>, Vec<&Extent>) =
            state.single.iter().partition(|one| one.used == extent);
        let mut head = self.template[..DESCRIPTORS_AT].to_vec();
        put_u32(&mut head, SIZE_AT, pages);
        put_u32(&mut head, LIMIT_AT, state.next * extent);
        let used = free.iter().map(|one| one.used).sum::<u32>();
        put_u32(&mut head, SINGLE_USED_AT, used);
        map.list(&mut head[FREE_AT..], &[], 0, 0);
        map.list(&mut head[SINGLE_FREE_AT..], &free, SINGLE_FREE, 0);
        map.list(&mut head[SINGLE_FULL_AT..], &full, SINGLE_FULL, 0);
        map.groups[0][..DESCRIPTORS_AT].copy_from_slice(&head);
        let write = |number: u32, page: &mut [u8]| {
            format.seal(page, self.lsn);
            self.write(number, page)
        };
        for (group, mut page) in map.groups.into_iter().enumerate() {
            let number = group as u32 * format.group();
            if group > 0 {
                put_u32(&mut page, NUMBER_AT, number);
                put_u16(&mut page, TYPE_AT, TYPE_DESCRIPTORS);
                put_u32(&mut page, SPACE_AT, self.space);
                let mut buffer = vec![0; format.page_size];
                put_u32(&mut buffer, NUMBER_AT, number + 1);
                put_u16(&mut buffer, TYPE_AT, TYPE_CHANGE_BUFFER);
                put_u32(&mut buffer, SPACE_AT, self.space);
                write(number + 1, &mut buffer)?;
            }
            write(number, &mut page)?;
        }
        let is_written = |number: u32, inodes: &[(u32, Vec<u8>)]| {
            number == 0 || roots.contains(&number) || inodes.iter().any(|(one, _)| *one == number)
        };
        for number in 0..self.used {
            if !is_written(number, &inodes) {
                let page = self.of_template(number).map_err(io::Error::other)?;
                self.write(number, page)?;
            }
        }
        for (number, page) in &mut inodes {
            write(*number, page)?;
        }
        Ok(bytes)
    }
}

impl Space {
    /// The next extent for a segment. The first one of each group begins with pages that belong to
    /// nobody; the rest of it is given away page by page.
    fn take_extent(&mut self, format: Format) -> io::Result<u32> {
        if (self.next * format.extent()).is_multiple_of(format.group()) {
            self.single.push(Extent {
                number: self.next,
                used: PAGES_OF_GROUP,
            });
            self.next += 1;
        }
        let taken = self.next;
        if taken >= NO_PAGE / format.extent() - 2 {
            let reason = "the tablespace would have more than 4,294,967,295 pages";
            return Err(io::Error::other(reason));
        }
        self.next += 1;
        Ok(taken)
    }
}

/// The pages of extent descriptors.
struct Map {
    format: Format,
    groups: Vec<Vec<u8>>,
}

impl Map {
    /// For so many extents; `first` is the tablespace's first page.
    fn new(format: Format, first: &[u8], extents: u32) -> Self {
        let groups = (extents * format.extent()).div_ceil(format.group()).max(1);
        let mut groups = vec![vec![0; format.page_size]; groups as usize];
        groups[0].copy_from_slice(first);
        Self { format, groups }
    }

    /// Where the descriptor of an extent is: its group, and the byte there.
    fn descriptor(&self, extent: u32) -> (usize, usize) {
        let page = extent * self.format.extent();
        let group = page / self.format.group();
        let within = page % self.format.group() / self.format.extent();
        let at = DESCRIPTORS_AT + within as usize * self.format.descriptor();
        (group as usize, at)
    }

    /// Describes extents of a kind, links them, and writes the ends of the list to `base`.
    fn list(&mut self, base: &mut [u8], extents: &[&Extent], state: u32, segment: u64) {
        let address = |one: Option<&&Extent>| {
            one.map_or((NO_PAGE, 0), |one| {
                let (group, at) = self.descriptor(one.number);
                (group as u32 * self.format.group(), (at + NODE_AT) as u16)
            })
        };
        put_u32(base, 0, extents.len() as u32);
        put_address(base, 4, address(extents.first()));
        put_address(base, 10, address(extents.last()));
        let links: Vec<_> = (0..extents.len())
            .map(|at| {
                let before = at.checked_sub(1).and_then(|at| extents.get(at));
                (address(before), address(extents.get(at + 1)))
            })
            .collect();
        for (one, (previous, next)) in extents.iter().zip(links) {
            let (group, at) = self.descriptor(one.number);
            let descriptor = &mut self.groups[group][at..at + self.format.descriptor()];
            put_u64(descriptor, 0, segment);
            put_address(descriptor, NODE_AT, previous);
            put_address(descriptor, NODE_AT + 6, next);
            put_u32(descriptor, STATE_AT, state);
            // Two bits a page: whether it is free, and one that is always set.
            descriptor[BITS_AT..].fill(0xff);
            for page in 0..one.used as usize {
                descriptor[BITS_AT + page / 4] &= !(1 << (page % 4 * 2));
            }
        }
    }
}

/// Writes an address within the file: a page, and a byte of it.
pub fn put_address(bytes: &mut [u8], at: usize, (page, byte): (u32, u16)) {
    put_u32(bytes, at, page);
    put_u16(bytes, at + 4, byte);
}
