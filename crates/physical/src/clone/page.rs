//! Sizes of pages and tablespaces, checksums of pages, and the first page of a tablespace of which
//! nothing has arrived yet.

use crc32c::crc32c;
use flate2::{Decompress, FlushDecompress, Status};

/// Flags of a file that is not a tablespace.
pub const NO_SPACE: u32 = u32::MAX;

/// Fields of a page (`fil0types.h`), in bytes from its beginning.
const NUMBER_AT: usize = 4;
const LSN_AT: usize = 16;
const TYPE_AT: usize = 24;
const LSN_OF_FLUSH_AT: usize = 26;
const SPACE_AT: usize = 34;
const DATA_AT: usize = 38;
/// Its trailer repeats the checksum and half of the LSN.
const TRAILER: usize = 8;
/// What stands for a checksum under `innodb_checksum_algorithm=none`.
const NO_CHECKSUM: u32 = 0xDEAD_BEEF;
/// Type of a page that is compressed on the disk only (`COMPRESSION='zlib'`,
/// `FIL_PAGE_COMPRESSED`). Instead of the LSN of the last flush it has algorithm, type and sizes.
const PACKED: u16 = 14;
const ALGORITHM_AT: usize = 27;
const ZLIB: u8 = 1;
const LZ4: u8 = 2;
const UNPACKED_TYPE_AT: usize = 28;
const UNPACKED_SIZE_AT: usize = 30;
const PACKED_SIZE_AT: usize = 32;
/// Types of pages that are encrypted on the disk, to `FIL_PAGE_ENCRYPTED_RTREE`. A tablespace that
/// was decrypted may still have such pages; only the server can read them.
const ENCRYPTED: std::ops::RangeInclusive<u16> = 15..=17;
/// Size of a page whose flags do not state one.
const USUAL: usize = 16 << 10;

/// How the pages of a tablespace are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    /// Size of a page in memory, in bytes.
    logical: usize,
    /// Size of a page in the file, in bytes.
    pub size: usize,
    /// Whether its tables have `ROW_FORMAT=COMPRESSED`. Their pages may be as large as others
    /// (`KEY_BLOCK_SIZE=16`).
    pub is_compressed: bool,
}

impl Pages {
    /// By the flags of the tablespace.
    pub fn of(flags: u32) -> Self {
        let size = |shift: u32| match (flags >> shift) & 15 {
            0 => None,
            power => Some(512 << power),
        };
        let logical = size(6).unwrap_or(USUAL);
        let compressed = size(1);
        Self {
            logical,
            size: compressed.unwrap_or(logical),
            is_compressed: compressed.is_some(),
        }
    }

    /// Pages in an extent.
    pub fn in_extent(self) -> usize {
        if self.logical <= USUAL {
            (1 << 20) / self.logical
        } else {
            64
        }
    }
}

/// The size that a recovering server expects of a tablespace: whole extents, if there is more than
/// one (`Clone_Snapshot::extend_and_flush_files`).
pub fn aligned(size: u64, flags: u32) -> u64 {
    if flags == NO_SPACE {
        return size;
    }
    let pages = Pages::of(flags);
    let extent = (pages.in_extent() * pages.size) as u64;
    if size > extent {
        size.next_multiple_of(extent)
    } else {
        size
    }
}

/// The first page of a tablespace that was created during the copy. A recovering server finds the
/// number of the tablespace in it, and the rest in the redo log (`fil_write_initial_pages`).
/// `version` is that of the server, as in 90700.
pub fn first(space: u32, flags: u32, version: u32) -> Vec<u8> {
    let pages = Pages::of(flags);
    let mut page = vec![0; pages.size];
    let mut put = |at: usize, number: u32| {
        page[at..at + 4].copy_from_slice(&number.to_be_bytes());
    };
    put(8, version);
    put(12, 1); // The version of tablespaces.
    put(SPACE_AT, space);
    put(DATA_AT, space);
    put(DATA_AT + 16, flags);
    if pages.is_compressed {
        let sum = sum_of_compressed(&page);
        page[..4].copy_from_slice(&sum.to_be_bytes());
    } else {
        let (sum, end) = (sum_of(&page).to_be_bytes(), page.len() - TRAILER);
        page[..4].copy_from_slice(&sum);
        page[end..end + 4].copy_from_slice(&sum);
    }
    page
}

/// Checksum of a page (`buf_calc_page_crc32`).
fn sum_of(page: &[u8]) -> u32 {
    crc32c(&page[NUMBER_AT..LSN_OF_FLUSH_AT]) ^ crc32c(&page[DATA_AT..page.len() - TRAILER])
}

/// What the checksum of a page of a table with `ROW_FORMAT=COMPRESSED` covers: everything but the
/// LSN.
fn covered_of_compressed(page: &[u8]) -> [&[u8]; 3] {
    [
        &page[NUMBER_AT..LSN_AT],
        &page[TYPE_AT..LSN_OF_FLUSH_AT],
        &page[SPACE_AT..],
    ]
}

/// Checksum of such a page (`calc_zip_checksum`).
fn sum_of_compressed(page: &[u8]) -> u32 {
    let sums = covered_of_compressed(page).map(crc32c);
    sums.iter().fold(0, |a, b| a ^ b)
}

/// Whether a page is as a server wrote it, by its checksum: of any algorithm, because a server also
/// takes pages that were written under another one (`BlockReporter::is_corrupted`).
/// `is_compressed`: it is of a table with `ROW_FORMAT=COMPRESSED`.
pub fn is_sound(page: &[u8], is_compressed: bool) -> bool {
    let kind = short(page, TYPE_AT);
    if kind == PACKED {
        // The checksum is that of the page in memory. LZ4 has none of its own.
        return match page[ALGORITHM_AT] {
            ZLIB => unpacked(page).is_some_and(|page| is_sound(&page, false)),
            LZ4 => usize::from(short(page, PACKED_SIZE_AT)) <= page.len() - DATA_AT,
            _ => false,
        };
    }
    if ENCRYPTED.contains(&kind) {
        return true;
    }
    let stored = number(page, 0);
    if is_compressed {
        return stored == sum_of_compressed(page)
            || stored == NO_CHECKSUM
            || is_empty(page)
            || stored == old_sum_of_compressed(page);
    }
    let trailer = page.len() - TRAILER;
    let repeated = number(page, trailer);
    if number(page, LSN_AT + 4) != number(page, trailer + 4) {
        return false;
    }
    if stored == repeated && (stored == NO_CHECKSUM || stored == sum_of(page)) {
        return true;
    }
    is_empty(page) || is_sound_by_the_old_sum(page, stored, repeated)
}

/// Whether nothing was ever written to a page. The field of the LSN of the last flush may be set.
fn is_empty(page: &[u8]) -> bool {
    let is_zero = |range: &[u8]| range.iter().all(|byte| *byte == 0);
    is_zero(&page[..LSN_OF_FLUSH_AT]) && is_zero(&page[SPACE_AT..])
}

/// By `innodb_checksum_algorithm=innodb`, the default before MySQL 5.7.7.
fn is_sound_by_the_old_sum(page: &[u8], stored: u32, repeated: u32) -> bool {
    let covered = [NUMBER_AT..LSN_OF_FLUSH_AT, DATA_AT..page.len() - TRAILER];
    let sum = covered.map(|range| folded(&page[range]));
    repeated == folded(&page[..LSN_OF_FLUSH_AT]) && stored == sum[0].wrapping_add(sum[1])
}

/// `ut_fold_binary`, of which only these bits are stored.
fn folded(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0_u32, |sum, byte| {
        let byte = u32::from(*byte);
        let mixed = (sum ^ byte ^ 0x6294_6a4f) << 8;
        (mixed.wrapping_add(sum) ^ 0x573e_d587).wrapping_add(byte)
    })
}

/// Adler-32, which begins with zero here.
fn old_sum_of_compressed(page: &[u8]) -> u32 {
    let bytes = covered_of_compressed(page).into_iter().flatten();
    let (low, high) = bytes.fold((0, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    high << 16 | low
}

/// The page that was compressed (`Compression::deserialize`). `None`: it is damaged.
fn unpacked(page: &[u8]) -> Option<Vec<u8>> {
    let packed = page[DATA_AT..].get(..usize::from(short(page, PACKED_SIZE_AT)))?;
    if DATA_AT + usize::from(short(page, UNPACKED_SIZE_AT)) != page.len() {
        return None;
    }
    let mut whole = Vec::with_capacity(page.len());
    whole.extend_from_slice(&page[..DATA_AT]);
    whole.copy_within(UNPACKED_TYPE_AT..UNPACKED_SIZE_AT, TYPE_AT);
    let status = Decompress::new(true).decompress_vec(packed, &mut whole, FlushDecompress::Finish);
    let is_whole =
        status.is_ok_and(|status| status == Status::StreamEnd) && whole.len() == page.len();
    (is_whole && short(&whole, TYPE_AT) != PACKED).then_some(whole)
}

fn short(page: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([page[at], page[at + 1]])
}

fn number(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the checksum of a page.
    type Sum<'a> = &'a dyn Fn(&mut [u8]);

    #[test]
    fn sums_and_sizes() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let pages = |logical, size, is_compressed| Pages {
            logical,
            size,
            is_compressed,
        };
        assert_eq!(Pages::of(0x4021), pages(16384, 16384, false));
        assert_eq!(Pages::of(0x29), pages(16384, 8192, true)); // KEY_BLOCK_SIZE=8
        assert_eq!(Pages::of(0x2b), pages(16384, 16384, true)); // KEY_BLOCK_SIZE=16
        assert_eq!(aligned(7 * 16384, 0x4021), 7 * 16384);
        assert_eq!(aligned((1 << 20) + 1, 0x4021), 2 << 20);
        assert_eq!(aligned((512 << 10) + 1, 0x29), 1 << 20);
        assert_eq!(aligned(3_000_001, NO_SPACE), 3_000_001);
        let page = first(7, 0x4021, 90_700);
        assert_eq!(
            (page.len(), page[37], page[41], page[57]),
            (16384, 7, 7, 0x21)
        );
        assert_eq!(page[..4], page[16376..16380]);
        assert_eq!(first(7, 0x29, 90_700).len(), 8192);
    }
    /// Every change of a byte is seen, but in fields that no checksum covers.
    #[test]
    fn a_changed_page_is_not_sound() {
        let old = |page: &mut [u8]| {
            let end = page.len() - TRAILER;
            let sum =
                folded(&page[NUMBER_AT..LSN_OF_FLUSH_AT]).wrapping_add(folded(&page[DATA_AT..end]));
            page[..4].copy_from_slice(&sum.to_be_bytes());
            let sum = folded(&page[..LSN_OF_FLUSH_AT]);
            page[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        };
        let none = |page: &mut [u8]| {
            let end = page.len() - TRAILER;
            page[..4].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
            page[end..end + 4].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
        };
        let old_compressed = |page: &mut [u8]| {
            let sum = old_sum_of_compressed(page);
            page[..4].copy_from_slice(&sum.to_be_bytes());
        };
        let sums: [(u32, bool, Option<Sum<'_>>); 6] = [
            (0x4021, true, None),
            (0x4021, true, Some(&old)),
            (0x4021, false, Some(&none)),
            (0x29, true, None),
            (0x2b, true, None),
            (0x29, true, Some(&old_compressed)),
        ];
        for (flags, is_covered, sum) in sums {
            let is_compressed = Pages::of(flags).is_compressed;
            let mut page = first(7, flags, 90_700);
            if let Some(sum) = sum {
                sum(&mut page);
            }
            assert!(is_sound(&page, is_compressed), "{flags:x}");
            for at in (0..page.len()).filter(|at| is_covered && at % 7 == 0) {
                let is_lsn = (LSN_AT..TYPE_AT).contains(&at) && is_compressed;
                if is_lsn || (LSN_OF_FLUSH_AT..DATA_AT).contains(&at) {
                    continue;
                }
                page[at] ^= 4;
                assert!(!is_sound(&page, is_compressed), "{flags:x}: byte {at}");
                page[at] ^= 4;
            }
        }
        for is_compressed in [false, true] {
            assert!(is_sound(&[0; 8192], is_compressed));
        }
    }
}
