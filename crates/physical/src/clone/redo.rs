//! Blocks of the redo log that a donor sends: whether each is whole, and whether all are there.
//!
//! A donor sends whole blocks only: those that were full when it archived them (`arch0log.cc`), and
//! the last one, which it fills up with zeros (`log_buffer_get_last_block`). Each has a checksum,
//! and a number that follows from its LSN (`log0files_io.h`). A server that recovers takes the
//! first block with another number for the end of the log, and says nothing: what was committed
//! later would be missing.

use std::collections::BTreeMap;
use std::ops::Range;

use crc32c::crc32c;

/// Size of a block, in bytes.
pub const BLOCK: usize = 512;
/// Blocks at the head of a file: what file it is, a checkpoint, keys, and the checkpoint again.
const HEAD: u64 = 4;
/// The block with the keys of an encrypted log. It has no checksum of this kind.
const KEYS: u64 = 2;
/// Where the first block of a file has the LSN at which the file begins.
const LSN_AT: usize = 8;
/// The checksum is behind everything that it covers.
const SUM_AT: usize = BLOCK - 4;
/// What stands for a checksum under `innodb_log_checksums=OFF`.
const NO_CHECKSUM: u32 = 0xDEAD_BEEF;
/// So many blocks have different numbers (`LOG_BLOCK_MAX_NO`).
const NUMBERS: u64 = 1 << 30;
/// Set in the number of a block by older servers, where they began to write.
const FLUSHED: u32 = 1 << 31;

/// What has arrived of a file of the log.
#[derive(Debug, Default)]
pub struct LogFile {
    /// The number of its first block behind the head, from 0 on. Every block has to agree.
    origin: Option<u64>,
    /// Blocks that have arrived: the first of each run, and the one behind its last.
    runs: BTreeMap<u64, u64>,
}

/// Blocks of a file that are whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    origin: Option<u64>,
    blocks: Range<u64>,
}

/// Looks at bytes of a file.
///
/// # Errors
/// What is wrong with them, as words.
pub fn look(begins: u64, bytes: &[u8]) -> Result<Piece, String> {
    let size = BLOCK as u64;
    if !begins.is_multiple_of(size) || !bytes.len().is_multiple_of(BLOCK) {
        return Err(format!(
            "{} bytes from {begins} on are not whole blocks",
            bytes.len()
        ));
    }
    let first = begins / size;
    let mut piece = Piece {
        origin: None,
        blocks: first..first + (bytes.len() / BLOCK) as u64,
    };
    for (at, block) in piece.blocks.clone().zip(bytes.chunks_exact(BLOCK)) {
        if !is_sound(at, block) {
            return Err(format!("the checksum of block {at} is wrong"));
        }
        if let Some(origin) = origin(at, block)
            && *piece.origin.get_or_insert(origin) != origin
        {
            return Err(misplaced(at));
        }
    }
    Ok(piece)
}

fn is_sound(at: u64, block: &[u8]) -> bool {
    let stored = number(block, SUM_AT);
    let is_right = stored == crc32c(&block[..SUM_AT]);
    match at {
        0 => is_right,
        KEYS => true,
        // Only the first file of a log needs a checkpoint.
        1 | 3 => is_right || block.iter().all(|byte| *byte == 0),
        _ => is_right || stored == NO_CHECKSUM,
    }
}

/// The number, from 0 on, that the first block behind the head has if this one is in its place.
/// `None`: this one has no number.
fn origin(at: u64, block: &[u8]) -> Option<u64> {
    if at == 0 {
        let lsn = u64::from(number(block, LSN_AT)) << 32 | u64::from(number(block, LSN_AT + 4));
        return Some(lsn / BLOCK as u64 % NUMBERS);
    }
    let behind = at.checked_sub(HEAD)?;
    // Stored from 1 on.
    let own = u64::from(number(block, 0) & !FLUSHED) + NUMBERS - 1;
    Some((own + NUMBERS - behind % NUMBERS) % NUMBERS)
}

fn misplaced(at: u64) -> String {
    format!("block {at} is not the one that belongs there")
}

fn number(block: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

impl LogFile {
    /// Adds blocks, which may have come before.
    ///
    /// # Errors
    /// They do not belong there, as words.
    pub fn add(&mut self, piece: Piece) -> Result<(), String> {
        let Piece { origin, blocks } = piece;
        if let Some(origin) = origin
            && *self.origin.get_or_insert(origin) != origin
        {
            return Err(misplaced(blocks.start));
        }
        let (mut first, mut end) = (blocks.start, blocks.end);
        while let Some((&begins, &ends)) = self.runs.range(..=end).next_back()
            && ends >= first
        {
            self.runs.remove(&begins);
            first = first.min(begins);
            end = end.max(ends);
        }
        self.runs.insert(first, end);
        Ok(())
    }

    /// The first of these blocks that has not arrived. `None`: all have.
    fn missing(&self, blocks: Range<u64>) -> Option<u64> {
        let run = self.runs.range(..=blocks.start).next_back();
        let end = run.map_or(blocks.start, |(_, end)| blocks.start.max(*end));
        (end < blocks.end).then_some(end)
    }

    /// The block behind the last one that has arrived.
    fn end(&self) -> u64 {
        self.runs.last_key_value().map_or(0, |(_, end)| *end)
    }
}

/// A file of the log for [`whole`]: its name, its size in bytes, and what has arrived of it.
pub type Named<'f> = (&'f str, u64, &'f LogFile);

/// Fails if a log is not whole from a checkpoint to the last block that has arrived.
///
/// # Errors
/// What is missing, as words.
pub fn whole(files: &[Named<'_>], checkpoint: u64) -> Result<(), String> {
    let mut next = None;
    for (place, (name, size, file)) in files.iter().enumerate() {
        let Some(origin) = file.origin.filter(|_| file.missing(0..1).is_none()) else {
            return Err(format!("{name}: its head is missing"));
        };
        if next.is_some_and(|next| next != origin) {
            return Err(format!("{name}: it does not continue the file before it"));
        }
        let first = if place == 0 {
            let block = checkpoint / BLOCK as u64 % NUMBERS;
            HEAD + (block + NUMBERS - origin) % NUMBERS
        } else {
            HEAD
        };
        // The last file ends with the log.
        let is_last = place + 1 == files.len();
        let blocks = size / BLOCK as u64;
        let end = if is_last { file.end() } else { blocks };
        if let Some(missing) = file.missing(first..end.max(first + 1)) {
            return Err(format!("{name}: block {missing} is missing"));
        }
        next = Some((origin + blocks.saturating_sub(HEAD)) % NUMBERS);
    }
    Ok(())
}

#[cfg(test)]
pub mod tests;
