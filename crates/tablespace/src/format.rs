//! What all pages of a tablespace have in common: sizes, header, trailer and checksum.
//!
//! Names in parentheses are those of the servers' source (`storage/innobase`).

use crc32c::{crc32c, crc32c_append};

/// Fields of a page's header (`fil0types.h`), in bytes from its beginning.
pub const CHECKSUM_AT: usize = 0;
/// Number of the page (`FIL_PAGE_OFFSET`).
pub const NUMBER_AT: usize = 4;
/// The page before it on its level (`FIL_PAGE_PREV`).
pub const PREVIOUS_AT: usize = 8;
/// The page after it on its level (`FIL_PAGE_NEXT`).
pub const NEXT_AT: usize = 12;
/// `FIL_PAGE_LSN`.
pub const LSN_AT: usize = 16;
/// `FIL_PAGE_TYPE`.
pub const TYPE_AT: usize = 24;
/// `FIL_PAGE_FILE_FLUSH_LSN`, which the checksum `crc32` does not cover.
const FLUSH_LSN_AT: usize = 26;
/// `FIL_PAGE_SPACE_ID`.
pub const SPACE_AT: usize = 34;
/// The end of the header (`FIL_PAGE_DATA`).
pub const HEADER: usize = 38;
/// Bytes at the end of a page that belong to none of its records (`FIL_PAGE_DATA_END`).
pub const TRAILER: usize = 8;

/// No page (`FIL_NULL`).
pub const NO_PAGE: u32 = u32::MAX;

/// The page of extent descriptors of a group of pages, but the first (`FIL_PAGE_TYPE_XDES`).
pub const TYPE_DESCRIPTORS: u16 = 9;
/// The page after it, of the change buffer (`FIL_PAGE_IBUF_BITMAP`).
pub const TYPE_CHANGE_BUFFER: u16 = 5;
/// A page of an index (`FIL_PAGE_INDEX`).
pub const TYPE_INDEX: u16 = 17855;

/// In the root of an index: where the inodes of its segments are (`PAGE_BTR_SEG_LEAF`,
/// `PAGE_BTR_SEG_TOP`).
pub const SEGMENTS_AT: usize = HEADER + 36;
/// Bytes of both.
pub const SEGMENTS: usize = 20;
/// Where the first record of a page of an index begins (`PAGE_NEW_SUPREMUM_END`).
pub const FIRST_RECORD: usize = 120;
/// Bytes of such a page that records cannot have: its head, its trailer, and two slots of its
/// directory (`page_get_free_space_of_empty`).
pub const EMPTY_PAGE: usize = FIRST_RECORD + TRAILER + 4;
/// Bytes of a record's head that are the same in all (`REC_N_NEW_EXTRA_BYTES`).
pub const FIXED_HEAD: usize = 5;

/// Flag of a tablespace with the checksum `full_crc32` (`FSP_FLAGS_FCRC32_MASK_MARKER`). Other
/// tablespaces have a size of compressed pages there, which is never as large.
const FULL_CRC32: u32 = 1 << 4;

/// How a page proves that it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// MariaDB's default since 10.5: over the whole page, at its end.
    FullCrc32,
    /// MySQL's: over most of the page, at its beginning and in its trailer.
    Crc32,
}

/// Sizes and checksum of the pages of a tablespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Bytes of a page.
    pub page_size: usize,
    /// How its pages are checked.
    pub checksum: Checksum,
}

impl Format {
    /// By the flags of a tablespace (`FSP_SPACE_FLAGS`). `None`: its pages are compressed, or
    /// encrypted by MySQL.
    pub fn of(flags: u32) -> Option<Self> {
        if flags & FULL_CRC32 != 0 {
            // FSP_FLAGS_FCRC32_MASK_PAGE_SSIZE, FSP_FLAGS_FCRC32_MASK_COMPRESSED_ALGO
            let (shift, compressed) = (flags & 15, flags >> 5 & 7);
            return ((3..=7).contains(&shift) && compressed == 0).then_some(Self {
                page_size: 512 << shift,
                checksum: Checksum::FullCrc32,
            });
        }
        // FSP_FLAGS_MASK_ZIP_SSIZE; MySQL's ENCRYPTION; MariaDB's PAGE_COMPRESSION and its level
        let special = 15 << 1 | 1 << 13 | 0x1f << 16;
        let shift = flags >> 6 & 15; // FSP_FLAGS_MASK_PAGE_SSIZE
        let page_size = match shift {
            0 => 16 << 10,
            3..=7 => 512 << shift,
            _ => return None,
        };
        (flags & special == 0).then_some(Self {
            page_size,
            checksum: Checksum::Crc32,
        })
    }

    /// Pages of an extent (`FSP_EXTENT_SIZE`).
    pub fn extent(self) -> u32 {
        ((1 << 20) / self.page_size).max(64) as u32
    }

    /// Bytes of an extent descriptor (`XDES_SIZE`): its list node and two bits for each page.
    pub fn descriptor(self) -> usize {
        24 + self.extent() as usize / 4
    }

    /// Single pages that a segment takes before it takes extents (`FSEG_FRAG_ARR_N_SLOTS`).
    pub fn single_pages(self) -> usize {
        self.extent() as usize / 2
    }

    /// Pages that one page of extent descriptors describes.
    pub fn group(self) -> u32 {
        self.page_size as u32
    }

    /// Completes a page: its LSN, and the checksum over it.
    pub fn seal(self, page: &mut [u8], lsn: u64) {
        let end = page.len();
        put_u64(page, LSN_AT, lsn);
        match self.checksum {
            Checksum::FullCrc32 => {
                put_u32(page, end - 8, lsn as u32);
                let sum = crc32c(&page[..end - 4]);
                put_u32(page, end - 4, sum);
            }
            Checksum::Crc32 => {
                put_u32(page, end - 4, lsn as u32);
                let sum = sum_of(page);
                put_u32(page, CHECKSUM_AT, sum);
                put_u32(page, end - 8, sum);
            }
        }
    }

    /// Whether a page is encrypted with a key of MariaDB, whose version stands in its header
    /// (`FIL_PAGE_FCRC32_KEY_VERSION`, `FIL_PAGE_FILE_FLUSH_LSN_OR_KEY_VERSION`).
    pub fn is_encrypted(self, page: &[u8]) -> bool {
        let at = match self.checksum {
            Checksum::FullCrc32 => 0,
            Checksum::Crc32 => FLUSH_LSN_AT,
        };
        get_u32(page, at) != 0
    }

    /// Whether the checksum of a page is right.
    pub fn is_sound(self, page: &[u8]) -> bool {
        let end = page.len();
        match self.checksum {
            Checksum::FullCrc32 => {
                get_u32(page, end - 4) == crc32c(&page[..end - 4])
                    && get_u32(page, end - 8) == get_u32(page, LSN_AT + 4)
            }
            Checksum::Crc32 => {
                let sum = sum_of(page);
                get_u32(page, CHECKSUM_AT) == sum
                    && get_u32(page, end - 8) == sum
                    && get_u32(page, end - 4) == get_u32(page, LSN_AT + 4)
            }
        }
    }
}

/// `buf_calc_page_crc32`.
fn sum_of(page: &[u8]) -> u32 {
    crc32c_append(0, &page[NUMBER_AT..FLUSH_LSN_AT])
        ^ crc32c_append(0, &page[HEADER..page.len() - TRAILER])
}

/// Writes number and links of a page.
pub fn set_links(page: &mut [u8], number: u32, previous: u32, next: u32) {
    put_u32(page, NUMBER_AT, number);
    put_u32(page, PREVIOUS_AT, previous);
    put_u32(page, NEXT_AT, next);
}

/// Writes a big-endian number of two bytes.
pub fn put_u16(page: &mut [u8], at: usize, value: u16) {
    page[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
/// Writes a big-endian number of four bytes.
pub fn put_u32(page: &mut [u8], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
/// Writes a big-endian number of eight bytes.
pub fn put_u64(page: &mut [u8], at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_be_bytes());
}
/// Reads a big-endian number of two bytes.
pub fn get_u16(page: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([page[at], page[at + 1]])
}
/// Reads a big-endian number of four bytes.
pub fn get_u32(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}
/// Reads a big-endian number of eight bytes.
pub fn get_u64(page: &[u8], at: usize) -> u64 {
    u64::from(get_u32(page, at)) << 32 | u64::from(get_u32(page, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_servers() {
        let format = |page_size, checksum| {
            Some(Format {
                page_size,
                checksum,
            })
        };
        // MariaDB 10.11 and 11.8, 16 KiB and 4 KiB; MySQL 9.7 of 16 KiB and 64 KiB.
        assert_eq!(Format::of(0x15), format(16384, Checksum::FullCrc32));
        assert_eq!(Format::of(0x13), format(4096, Checksum::FullCrc32));
        assert_eq!(Format::of(0x4021), format(16384, Checksum::Crc32));
        assert_eq!(Format::of(0x4021 | 7 << 6), format(65536, Checksum::Crc32));
        // Compressed rows, pages compressed by MariaDB in either form, encrypted by MySQL.
        for flags in [0x29, 0x21 | 1 << 16, 0x15 | 1 << 5, 0x4021 | 1 << 13] {
            assert_eq!(Format::of(flags), None, "{flags:x}");
        }
    }

    #[test]
    fn sizes() {
        let of = |page_size| Format {
            page_size,
            checksum: Checksum::Crc32,
        };
        let all = |size| {
            let format = of(size);
            (format.extent(), format.descriptor(), format.single_pages())
        };
        assert_eq!(all(4096), (256, 88, 128));
        assert_eq!(all(8192), (128, 56, 64));
        assert_eq!(all(16384), (64, 40, 32));
        assert_eq!(all(65536), (64, 40, 32));
    }
}
