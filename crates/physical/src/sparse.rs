//! Pages that are smaller than their slot in a file.
//!
//! A server that compresses pages (`PAGE_COMPRESSED`, `COMPRESSION`) punches a hole into the rest
//! of each page's slot. In a copy there are zeros instead, which would take several times the
//! space.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use refloat_repository::BLOCK;
use rustix::fs::FallocateFlags;

/// The unit in which file systems allocate and free space, in bytes.
const UNIT: usize = 4096;
/// Default size of a page. With another page size, not all holes are found.
const PAGE: usize = 16 << 10;
/// Where the type of a page is.
const TYPE_AT: usize = 24;
/// The type of a compressed page of `MySQL` (`FIL_PAGE_COMPRESSED`).
const COMPRESSED: u16 = 14;
/// `MariaDB` has this bit in all types of compressed pages, and in none of others that may have
/// zeros in them.
const COMPRESSED_BIT: u16 = 1 << 15;

/// Writes bytes of a file. What compressed pages leave of their slots becomes holes.
///
/// # Errors
/// The file cannot be written to.
pub fn write(file: &File, begins: u64, bytes: &[u8]) -> io::Result<()> {
    if !has_compressed(begins, bytes) {
        return file.write_all_at(bytes, begins);
    }
    let (mut at, mut rest) = (0, bytes);
    while !rest.is_empty() {
        let is_zero = leads_with_zeros(begins + at, rest);
        let mut count = unit(begins + at, rest);
        while count < rest.len()
            && leads_with_zeros(begins + at + count as u64, &rest[count..]) == is_zero
        {
            count += unit(begins + at + count as u64, &rest[count..]);
        }
        let (piece, others) = rest.split_at(count);
        if is_zero {
            zero(file, begins + at, count as u64)?;
        } else {
            file.write_all_at(piece, begins + at)?;
        }
        at += count as u64;
        rest = others;
    }
    Ok(())
}

/// How many bytes of a file [`write`] writes; the others are holes. Backups contain no blocks of
/// zeros.
pub fn room(begins: u64, bytes: &[u8]) -> u64 {
    if bytes.iter().all(|byte| *byte == 0) {
        return 0;
    }
    if !has_compressed(begins, bytes) {
        return bytes.len() as u64;
    }
    let (mut at, mut room) = (0, 0);
    while at < bytes.len() {
        let (begins, rest) = (begins + at as u64, &bytes[at..]);
        let count = unit(begins, rest);
        room += if leads_with_zeros(begins, rest) {
            0
        } else {
            count as u64
        };
        at += count;
    }
    room
}

/// Zeroes a range of a file, as a hole if the file system supports that.
///
/// # Errors
/// The file cannot be written to.
pub fn zero(file: &File, begins: u64, count: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if rustix::fs::fallocate(file, flags, begins, count).is_ok() {
        return Ok(());
    }
    let zeros = vec![0; BLOCK];
    let mut at = begins;
    while at < begins + count {
        let now = (begins + count - at).min(BLOCK as u64);
        file.write_all_at(&zeros[..now as usize], at)?;
        at += now;
    }
    Ok(())
}

/// Whether a page that begins in these bytes is a compressed one.
fn has_compressed(begins: u64, bytes: &[u8]) -> bool {
    let first = begins.next_multiple_of(PAGE as u64) - begins;
    let pages = bytes.get(first as usize..).unwrap_or_default().chunks(PAGE);
    pages
        .filter_map(|page| page.get(TYPE_AT..)?.first_chunk())
        .map(|kind| u16::from_be_bytes(*kind))
        .any(|kind| kind == COMPRESSED || kind & COMPRESSED_BIT != 0)
}

/// Bytes up to the end of the first unit.
fn unit(begins: u64, bytes: &[u8]) -> usize {
    bytes.len().min(UNIT - (begins % UNIT as u64) as usize)
}

/// Whether a whole unit of zeros comes first.
fn leads_with_zeros(begins: u64, bytes: &[u8]) -> bool {
    let unit = &bytes[..unit(begins, bytes)];
    unit.len() == UNIT && unit.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn compressed_pages_leave_holes_and_others_do_not() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [COMPRESSED, 0x8001, 0x45bf] {
            let path = folder.path().join(kind.to_string());
            // What was there before must not show through.
            std::fs::write(&path, vec![7; 9 * PAGE]).unwrap();
            let mut bytes = vec![0; 8 * PAGE];
            for page in bytes.chunks_mut(PAGE) {
                page[..UNIT + 100].fill(1);
                page[TYPE_AT..TYPE_AT + 2].copy_from_slice(&kind.to_be_bytes());
            }
            let file = File::options().write(true).open(&path).unwrap();
            // Not at the beginning of a unit, nor of a page.
            let begins = PAGE as u64 - 50;
            let mut all = vec![7; PAGE - 50];
            all.extend_from_slice(&[9; 50]);
            all.extend_from_slice(&bytes);
            let mut written = vec![9; 50];
            written.extend_from_slice(&bytes);
            write(&file, begins, &written).unwrap();
            let zeros = if kind == 0x45bf { 0 } else { 8 * 2 * UNIT };
            assert_eq!(room(begins, &written), (written.len() - zeros) as u64);
            assert_eq!(room(0, &vec![0; PAGE]), 0);
            file.sync_all().unwrap();
            assert!(std::fs::read(&path).unwrap() == all, "{kind}");
            let taken = file.metadata().unwrap().blocks() * 512;
            let is_sparse = taken * 3 < all.len() as u64 * 2;
            assert_eq!(is_sparse, kind != 0x45bf, "{kind}: {taken}");
        }
    }
}
