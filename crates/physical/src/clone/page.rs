//! Sizes of pages and tablespaces, and the first page of a tablespace of which nothing has arrived
//! yet.

/// Flags of a file that is not a tablespace.
pub const NO_SPACE: u32 = u32::MAX;

/// Bytes of a header of a page before its checksum covers them, and of its trailer.
const COVERED_AT: usize = 4;
const LSN_OF_FLUSH_AT: usize = 26;
const TRAILER: usize = 8;
const DATA_AT: usize = 38;
/// Size of a page whose flags do not state one.
const USUAL: usize = 16 << 10;

/// Logical and physical size of a page, in bytes. They differ in compressed tables.
pub fn sizes(flags: u32) -> (usize, usize) {
    let size = |shift: u32| match (flags >> shift) & 15 {
        0 => None,
        power => Some(512 << power),
    };
    let logical = size(6).unwrap_or(USUAL);
    (logical, size(1).unwrap_or(logical))
}

/// The size that a recovering server expects of a tablespace: whole extents, if there is more than
/// one (`Clone_Snapshot::extend_and_flush_files`).
pub fn aligned(size: u64, flags: u32) -> u64 {
    if flags == NO_SPACE {
        return size;
    }
    let (logical, physical) = sizes(flags);
    let pages = if logical <= USUAL {
        (1 << 20) / logical
    } else {
        64
    };
    let extent = (pages * physical) as u64;
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
    let (logical, physical) = sizes(flags);
    let mut page = vec![0; physical];
    let mut put = |at: usize, number: u32| {
        page[at..at + 4].copy_from_slice(&number.to_be_bytes());
    };
    put(8, version);
    put(12, 1); // The version of tablespaces.
    put(34, space);
    put(DATA_AT, space);
    put(DATA_AT + 16, flags);
    let sum = if physical < logical {
        // The checksum of a compressed page covers everything but its LSN.
        let sum = crc32c(0, &page[4..16]) ^ crc32c(0, &page[24..26]) ^ crc32c(0, &page[34..]);
        page[..4].copy_from_slice(&sum.to_be_bytes());
        return page;
    } else {
        let end = page.len() - TRAILER;
        crc32c(0, &page[COVERED_AT..LSN_OF_FLUSH_AT]) ^ crc32c(0, &page[DATA_AT..end])
    };
    let end = page.len() - TRAILER;
    page[..4].copy_from_slice(&sum.to_be_bytes());
    page[end..end + 4].copy_from_slice(&sum.to_be_bytes());
    page
}

/// CRC-32 with Castagnoli's polynomial.
fn crc32c(begin: u32, bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(!begin, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    });
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_sizes() {
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
        assert_eq!(sizes(0x4021), (16384, 16384));
        assert_eq!(sizes(0x29), (16384, 8192)); // KEY_BLOCK_SIZE=8
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
}
