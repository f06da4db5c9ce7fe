//! The file of a backup that holds what is to be written over the others.
//!
//! It has blocks, and these have records: target (u32), length (u32), first byte (u64), all
//! little-endian, and the bytes. A length of zero ends a block. Later records win. Another file
//! names the targets, in JSON.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use refloat_repository::BLOCK;
use refloat_run::Cancel;

use crate::error::PhysicalError;
use crate::files::make_folders;
use crate::folder::confined;

/// Its path in the backup.
pub const CHANGES: &str = "refloat-changes";
/// The path of the names.
pub const NAMES: &str = "refloat-changes.json";

/// A folder that a server needs to start, although no file in it is copied.
const SYSTEM: &str = "mysql";
/// Tell a server that starts on these files that they are a copy (`clone0api.cc`,
/// `drop_status_file`; `clone_status.cc`): it then creates folders and empty tables of other
/// engines, notes where the binary log stood, and shows that in `performance_schema.clone_status`.
/// The last file holds the row of that table: state and id, times, source, error and its text.
const MARKS: [(&str, &str); 3] = [
    ("#clone/#status_fix", ""),
    ("#clone/#replace_files", ""),
    ("#clone/#view_status", "2 1\n0 0\nrefloat\n0\n\n\n0\n\n"),
];

/// Bytes before those of a record.
const HEADER: usize = 16;
/// The longest record, in bytes.
pub const LONGEST: usize = BLOCK - HEADER;

/// The number of a file: files of the redo log are counted separately.
pub fn target_of(index: u32, is_redo: bool) -> u32 {
    index * 2 + u32::from(is_redo)
}

/// Whether a block has room for a record of so many bytes.
pub fn has_room(block: &[u8], count: usize) -> bool {
    block.len() + HEADER + count <= BLOCK
}

/// Adds a record to a block.
pub fn put(block: &mut Vec<u8>, target: u32, begins: u64, bytes: &[u8]) {
    block.extend_from_slice(&target.to_le_bytes());
    block.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    block.extend_from_slice(&begins.to_le_bytes());
    block.extend_from_slice(bytes);
}

/// The names of the targets, in the form in which they are stored.
pub fn names(names: &BTreeMap<u32, String>) -> Vec<u8> {
    serde_json::to_vec(names).unwrap_or_default()
}

/// Writes the changes over the files of a folder, removes the changes, and marks the folder as a
/// copy. If it is part of a backup, changes of missing files are skipped.
///
/// # Errors
/// They are damaged, or a file cannot be written.
pub fn apply(folder: &Path, is_part: bool, cancel: &Cancel) -> Result<(), PhysicalError> {
    let (changes, names) = (folder.join(CHANGES), folder.join(NAMES));
    let text = fs::read(&names).map_err(PhysicalError::file(&names, "reading the names"))?;
    let targets: BTreeMap<u32, String> = serde_json::from_slice(&text)
        .map_err(|error| PhysicalError::file(&names, "reading the names")(error.into()))?;
    let file = File::open(&changes).map_err(PhysicalError::file(&changes, "opening the file"))?;
    let mut block = vec![0; BLOCK];
    let mut begins = 0;
    let mut open: Option<(u32, File)> = None;
    loop {
        if let Some(reason) = cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        let count = read(&file, begins, &mut block)
            .map_err(PhysicalError::file(&changes, "reading the changes"))?;
        if count == 0 {
            break;
        }
        begins += count as u64;
        for record in records(&block[..count]) {
            let (target, at, bytes) = record.map_err(|()| {
                let error = io::Error::new(io::ErrorKind::InvalidData, "a record is damaged");
                PhysicalError::file(&changes, "reading the changes")(error)
            })?;
            // The change is of a file that was removed later.
            let Some(name) = targets.get(&target) else {
                continue;
            };
            let path = folder.join(confined(name)?);
            if is_part && !path.exists() {
                continue;
            }
            if open.as_ref().is_none_or(|(number, _)| *number != target) {
                let file = OpenOptions::new().write(true).open(&path);
                let file = file.map_err(PhysicalError::file(&path, "opening the file"))?;
                open = Some((target, file));
            }
            if let Some((_, file)) = &open {
                file.write_all_at(bytes, at)
                    .map_err(PhysicalError::file(&path, "writing to the file"))?;
            }
        }
    }
    for path in [&changes, &names] {
        fs::remove_file(path).map_err(PhysicalError::file(path, "removing it"))?;
    }
    mark(folder)
}

fn mark(folder: &Path) -> Result<(), PhysicalError> {
    for path in [folder.join(SYSTEM), folder.join("#clone")] {
        make_folders(&path).map_err(PhysicalError::file(&path, "making the folder"))?;
    }
    for (path, text) in MARKS {
        let path = folder.join(path);
        fs::write(&path, text).map_err(PhysicalError::file(&path, "making the file"))?;
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends.
fn read(file: &File, begins: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], begins + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// The records of a block.
fn records(block: &[u8]) -> impl Iterator<Item = Result<(u32, u64, &[u8]), ()>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let (head, others) = rest.split_first_chunk::<HEADER>()?;
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (target, length) = (number(0), number(4));
        if length == 0 {
            return None;
        }
        let begins = u64::from(number(8)) | u64::from(number(12)) << 32;
        let Some((bytes, others)) = others.split_at_checked(length as usize) else {
            rest = &[];
            return Some(Err(()));
        };
        rest = others;
        Some(Ok((target, begins, bytes)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_written_over_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), [1; 8]).unwrap();
        fs::write(path("b"), [2; 8]).unwrap();
        let targets = [(0, "a".to_owned()), (1, "b".to_owned())];
        fs::write(path(NAMES), names(&BTreeMap::from(targets))).unwrap();
        let mut block = Vec::new();
        put(&mut block, target_of(0, false), 2, &[7; 3]);
        put(&mut block, target_of(0, true), 10, &[8; 2]);
        put(&mut block, target_of(5, false), 0, &[9; 9]);
        block.resize(BLOCK, 0);
        put(&mut block, target_of(0, false), 3, &[6]);
        fs::write(path(CHANGES), &block).unwrap();
        apply(folder.path(), false, &Cancel::new()).unwrap();
        assert_eq!(fs::read(path("a")).unwrap(), [1, 1, 7, 6, 7, 1, 1, 1]);
        assert_eq!(fs::read(path("b")).unwrap()[8..], [0, 0, 8, 8]);
        assert!(!path(CHANGES).exists() && !path(NAMES).exists());

        // A truncated file of changes is no complete backup.
        fs::write(path(NAMES), b"{}").unwrap();
        fs::write(path(CHANGES), &block[..18]).unwrap();
        apply(folder.path(), false, &Cancel::new()).unwrap_err();
    }
}
