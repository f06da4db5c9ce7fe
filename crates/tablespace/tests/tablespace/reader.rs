//! Reads a tablespace, of the server or built here, and checks all that belongs together in it. It
//! shares nothing with what builds tablespaces but the server's description of the table.

use std::collections::{BTreeMap, BTreeSet};

use refloat_tablespace::description::{Description, StoredIndex};

/// A field of a record: NULL, or its bytes, and how many bytes more are stored elsewhere.
pub type Field = Option<(Vec<u8>, u64)>;

/// A tablespace.
pub struct Reader<'a> {
    file: &'a [u8],
    table: &'a Description,
    page_size: usize,
    /// Pages in an extent, and bytes of its descriptor.
    extent: usize,
    /// Whether it was built here.
    is_built: bool,
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// An address in the file: page and byte.
type Address = (u64, usize);

impl<'a> Reader<'a> {
    pub fn new(file: &'a [u8], table: &'a Description, is_built: bool) -> Self {
        let page_size = table.page_size as usize;
        Self {
            file,
            table,
            page_size,
            is_built,
            extent: (1 << 20 >> page_size.trailing_zeros()).max(64),
        }
    }

    fn page(&self, page: u64) -> &'a [u8] {
        &self.file[page as usize * self.page_size..][..self.page_size]
    }

    fn at(&self, (page, byte): Address, len: usize) -> u64 {
        number(&self.page(page)[byte..byte + len])
    }

    fn address(&self, (page, byte): Address) -> Option<Address> {
        let target = (
            self.at((page, byte), 4),
            self.at((page, byte + 4), 2) as usize,
        );
        (target.0 != 0xffff_ffff).then_some(target)
    }

    /// The nodes of a list, read forwards and compared with the links back.
    fn list(&self, base: Address) -> Vec<Address> {
        let (page, byte) = base;
        let len = self.at(base, 4);
        let mut nodes = Vec::new();
        let mut next = self.address((page, byte + 4));
        let mut previous = None;
        while let Some(node) = next {
            assert_eq!(self.address(node), previous, "the link back of {node:?}");
            nodes.push(node);
            previous = next;
            next = self.address((node.0, node.1 + 6));
        }
        assert_eq!(
            self.address((page, byte + 10)),
            previous,
            "the end of {base:?}"
        );
        assert_eq!(nodes.len() as u64, len, "the length of {base:?}");
        nodes
    }

    /// The extents of a list, with their state and their used pages.
    fn extents(&self, base: Address) -> Vec<(u64, u64, BTreeSet<u64>)> {
        let size = 24 + self.extent / 4;
        let nodes = self.list(base).into_iter();
        nodes
            .map(|(page, byte)| {
                let start = byte - 8;
                assert_eq!((start - 150) % size, 0);
                let extent = page / self.extent as u64 + ((start - 150) / size) as u64;
                let first = extent * self.extent as u64;
                let used = (0..self.extent).filter(|at| {
                    let bits = self.page(page)[start + 24 + at / 4] >> (at % 4 * 2) & 3;
                    assert!(bits & 2 == 2, "the second bit is always set");
                    bits & 1 == 0
                });
                let used = used.map(|at| first + at as u64).collect();
                (
                    self.at((page, start), 8),
                    self.at((page, start + 20), 4),
                    used,
                )
            })
            .collect()
    }

    /// The pages of a segment whose address stands in a root.
    fn segment(&self, header: Address) -> BTreeSet<u64> {
        let (page, byte) = header;
        let inode = (
            self.at((page, byte + 4), 4),
            self.at((page, byte + 8), 2) as usize,
        );
        let field = |at: usize| (inode.0, inode.1 + at);
        let id = self.at(field(0), 8);
        assert_eq!(self.at(field(60), 4), 97_937_874, "FSEG_MAGIC_N");
        let mut pages = BTreeSet::new();
        for slot in 0..self.extent / 2 {
            let single = self.at(field(64 + 4 * slot), 4);
            if single != 0xffff_ffff {
                assert!(pages.insert(single));
            }
        }
        let mut used_of_not_full = 0;
        for (list, least, most) in [
            (12, 0, 0),
            (28, 1, self.extent - 1),
            (44, self.extent, self.extent),
        ] {
            for (owner, state, used) in self.extents(field(list)) {
                // MySQL also gives a segment the rest of an extent of single pages (5).
                assert!(owner == id && (state == 4 || state == 5 && !self.is_built));
                assert!(
                    (least..=most).contains(&used.len()),
                    "{list}: {}",
                    used.len()
                );
                if list == 28 {
                    used_of_not_full += used.len();
                }
                for page in used {
                    assert!(pages.insert(page));
                }
            }
        }
        assert_eq!(self.at(field(8), 4), used_of_not_full as u64);
        pages
    }

    /// All records of an index, in order. Every page of its segments must be reached.
    pub fn records(&self, index: &StoredIndex) -> Vec<Vec<Field>> {
        let root = u64::from(index.root);
        let lowest = self.segment((root, 38 + 36));
        let upper = self.segment((root, 38 + 46));
        let mut seen = BTreeSet::from([root]);
        let mut level = vec![root];
        let mut has_more = false;
        loop {
            let height = self.at((level[0], 38 + 26), 2);
            let mut below = Vec::new();
            let mut records = Vec::new();
            for (at, page) in level.iter().enumerate() {
                let previous = at.checked_sub(1).map_or(0xffff_ffff, |at| level[at]);
                let next = level.get(at + 1).copied().unwrap_or(0xffff_ffff);
                assert_eq!(self.at((*page, 8), 4), previous, "before {page}");
                assert_eq!(self.at((*page, 12), 4), next, "after {page}");
                assert_eq!(self.at((*page, 4), 4), *page);
                assert_eq!(self.at((*page, 38 + 28), 8), index.id);
                assert_eq!(self.at((*page, 38 + 26), 2), height);
                for origin in self.origins(*page) {
                    let (fields, end) = self.fields(index, *page, origin, height > 0);
                    let flags = self.page(*page)[origin - 5] >> 4;
                    let is_least = height > 0 && at == 0 && records.is_empty() && below.is_empty();
                    assert_eq!(flags, u8::from(is_least), "flags of a record");
                    if height > 0 {
                        let child = self.at((*page, end), 4);
                        below.push((fields, child));
                    } else {
                        has_more |= fields.iter().flatten().any(|(_, more)| *more > 0);
                        records.push(fields);
                    }
                }
            }
            if height == 0 {
                assert!(upper.is_subset(&seen) && upper.contains(&root));
                let leaves: BTreeSet<u64> = seen.difference(&upper).copied().collect();
                assert!(leaves.is_subset(&lowest));
                // Values that are stored elsewhere have their pages in the same segment.
                assert!(
                    has_more || !self.is_built || leaves == lowest,
                    "pages of the lowest level"
                );
                return records;
            }
            // A record of an upper level repeats the key of the first one below.
            let children: Vec<u64> = below.iter().map(|(_, child)| *child).collect();
            for (key, child) in &below {
                assert!(seen.insert(*child), "page {child} comes twice");
                let first = self.origins(*child)[0];
                let (fields, _) = self.fields(index, *child, first, true);
                // The server leaves the key as it is when a lesser one comes to the first page.
                assert!(!self.is_built || *key == fields, "the key of page {child}");
            }
            level = children;
        }
    }

    /// Where the records of a page are, in order; the directory must stand for all of them.
    fn origins(&self, page: u64) -> Vec<usize> {
        let bytes = self.page(page);
        assert_eq!(number(&bytes[24..26]), 17855, "the type of page {page}");
        let field = |at: usize| number(&bytes[38 + at..40 + at]) as usize;
        let (slots, count) = (field(0), field(16));
        // The heap also has records that were removed.
        let (heap, removed) = (field(4) & 0x7fff, field(8));
        assert!(field(4) >= 0x8000 && heap >= count + 2);
        assert!(removed > 0 || heap == count + 2);
        let mut origins = Vec::new();
        let mut numbers = BTreeSet::new();
        let mut at = 99;
        let mut owned = 0;
        let mut slot = 0;
        loop {
            let is_end = at == 112;
            if at != 99 && !is_end {
                let own = number(&bytes[at - 4..at - 2]) as usize >> 3;
                // MySQL 9.7 fills pages of 64 KiB with more records than have numbers.
                let is_new = numbers.insert(own) || !self.is_built;
                assert!(is_new && own < heap);
                origins.push(at);
            }
            owned += 1;
            let of_slot = usize::from(bytes[at - 5] & 15);
            if of_slot > 0 {
                assert_eq!(of_slot, owned, "records of a slot in page {page}");
                let entry = bytes.len() - 8 - 2 * (slot + 1);
                assert_eq!(number(&bytes[entry..entry + 2]) as usize, at);
                (slot, owned) = (slot + 1, 0);
            }
            if is_end {
                break;
            }
            let distance = number(&bytes[at - 2..at]) as u16;
            at = usize::from((at as u16).wrapping_add(distance));
        }
        assert_eq!((slot, owned, origins.len()), (slots, 0, count));
        origins
    }

    /// The fields of a record, or of its key, and where they end.
    fn fields(
        &self,
        index: &StoredIndex,
        page: u64,
        origin: usize,
        only_key: bool,
    ) -> (Vec<Field>, usize) {
        let bytes = self.page(page);
        let columns: BTreeMap<&str, _> = self
            .table
            .columns
            .iter()
            .map(|column| (column.name.as_str(), column))
            .collect();
        let nullable = |name: &str| columns[name].precise & 256 == 0;
        let nulls = index
            .fields
            .iter()
            .filter(|one| nullable(&one.name))
            .count();
        let mut length_at = origin - 5 - nulls.div_ceil(8);
        let count = if only_key && index.kind & 1 == 1 {
            index.unique
        } else {
            index.fields.len()
        };
        let mut fields = Vec::new();
        let (mut at, mut bit) = (origin, 0);
        for field in &index.fields[..count] {
            let column = columns[field.name.as_str()];
            if nullable(&field.name) {
                let is_null = bytes[origin - 6 - bit / 8] >> (bit % 8) & 1 == 1;
                bit += 1;
                if is_null {
                    fields.push(None);
                    continue;
                }
            }
            let mut elsewhere = 0;
            let len = if field.fixed > 0 {
                field.fixed as usize
            } else {
                length_at -= 1;
                let first = usize::from(bytes[length_at]);
                if (column.len > 255 || column.kind == 5) && first & 0x80 > 0 {
                    length_at -= 1;
                    elsewhere = first & 0x40;
                    (first & 0x3f) << 8 | usize::from(bytes[length_at])
                } else {
                    first
                }
            };
            let mut value = bytes[at..at + len].to_vec();
            let mut more = 0;
            if elsewhere > 0 {
                more = number(&value[len - 4..]);
                value.truncate(len - 20);
            }
            at += len;
            // These are the server's own.
            let own = ["DB_TRX_ID", "DB_ROLL_PTR", "DB_ROW_ID"];
            if !only_key && own.contains(&field.name.as_str()) {
                value.clear();
            }
            fields.push(Some((value, more)));
        }
        (fields, at)
    }

    /// Checks who owns which page of the file: whether each used one belongs to a segment or to
    /// the tablespace itself, and its size.
    pub fn check_space(&self) {
        let field = |at: usize| (0, 38 + at);
        let size = self.at(field(8), 4);
        assert!(size as usize * self.page_size <= self.file.len());
        let limit = self.at(field(12), 4);
        assert_eq!(limit as usize % self.extent, 0);
        let mut used_of_free = 0;
        let mut all = BTreeSet::new();
        for (list, state) in [(24, 1), (40, 2), (56, 3)] {
            for (_, found, used) in self.extents(field(list)) {
                assert_eq!(found, state);
                let is_full = used.len() == self.extent;
                assert_eq!(is_full, state == 3);
                if state == 2 {
                    used_of_free += used.len();
                }
                for page in used {
                    assert!(all.insert(page));
                }
            }
        }
        assert_eq!(self.at(field(20), 4), used_of_free as u64);
        for index in &self.table.indexes {
            for header in [38 + 36, 38 + 46] {
                for page in self.segment((u64::from(index.root), header)) {
                    // Single pages are of extents that are in the lists above.
                    all.insert(page);
                }
            }
        }
        assert!(all.iter().all(|page| *page < size.max(limit)));
    }
}
