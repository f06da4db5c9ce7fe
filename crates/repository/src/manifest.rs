//! What a backup holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::block::{BLOCK, Hash, STORED_MAX};

/// A pack that a backup has blocks in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackInfo {
    /// Its id: the name of its object after `packs/`.
    pub id: String,
    /// Its size in bytes.
    pub size: u64,
}

/// A block, and the range of a file that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub begins: u64,
    /// Bytes of the file that it covers.
    pub length: u32,
    /// Index into [`Manifest::packs`].
    pub pack: u32,
    /// First byte in the pack.
    pub at: u64,
    /// Bytes in the pack, after compression and encryption.
    pub stored: u32,
    /// Hash of the bytes of the file.
    pub hash: Hash,
}

// As an array, because a backup of a terabyte has a million.
impl Serialize for Extent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (
            self.begins,
            self.length,
            self.pack,
            self.at,
            self.stored,
            self.hash,
        )
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (begins, length, pack, at, stored, hash) = Deserialize::deserialize(deserializer)?;
        Ok(Self {
            begins,
            length,
            pack,
            at,
            stored,
            hash,
        })
    }
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path within the backup, with `/` between parts.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Its blocks, in the order of the bytes that they cover. What no block covers is zeros.
    pub extents: Vec<Extent>,
}

impl FileEntry {
    /// Bytes of it that blocks cover.
    pub fn covered(&self) -> u64 {
        self.extents
            .iter()
            .map(|extent| u64::from(extent.length))
            .sum()
    }

    /// Checks that the extents are in order, do not overlap, and lie within the file and the packs.
    ///
    /// # Errors
    /// What is wrong, as words.
    pub(crate) fn check(&self, packs: &[PackInfo]) -> Result<(), String> {
        let mut end = 0;
        for extent in &self.extents {
            let pack = packs.get(extent.pack as usize);
            let within = pack.is_some_and(|pack| {
                let last = extent.at.checked_add(u64::from(extent.stored));
                last.is_some_and(|last| last <= pack.size)
            });
            let small = extent.length as usize <= BLOCK && extent.stored as usize <= STORED_MAX;
            if extent.begins < end || !within || !small {
                return Err(format!("file {:?} has an impossible block", self.path));
            }
            end = extent
                .begins
                .checked_add(u64::from(extent.length))
                .filter(|end| *end <= self.size)
                .ok_or_else(|| format!("file {:?} has a block beyond its end", self.path))?;
        }
        Ok(())
    }
}

/// What a backup is. It is the last object of a backup to be written; without it there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the backup within its repository.
    pub label: String,
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// Nanoseconds after that second, which put backups of the same second in order.
    #[serde(default)]
    pub began_nanos: u32,
    /// When it was complete, in seconds since 1970.
    pub ended: u64,
    /// What its maker recorded about it.
    pub about: BTreeMap<String, serde_json::Value>,
    /// How many files the backup has.
    pub files: u64,
    /// Bytes of its files, uncompressed, holes included.
    pub bytes: u64,
    /// Bytes that were added to the repository for it.
    pub added: u64,
    /// Packs that it has blocks in, its own and those of earlier backups.
    pub packs: Vec<PackInfo>,
    /// Size of the list of files, which is itself stored in blocks: a line of JSON for each file.
    pub list_bytes: u64,
    /// Blocks of the list of files.
    pub list: Vec<Extent>,
}

/// Whether a text is the id of a pack: 32 hexadecimal digits.
fn is_id(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(digit)
}

impl Manifest {
    /// Checks what would otherwise be trusted: names of objects, and sizes that memory is allocated
    /// for.
    ///
    /// # Errors
    /// What is wrong, as words.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(pack) = self.packs.iter().find(|pack| !is_id(&pack.id)) {
            return Err(format!("{:?} is not the id of a pack", pack.id));
        }
        let covered: u64 = self.list.iter().map(|part| u64::from(part.length)).sum();
        if self.list_bytes != covered {
            return Err("its list of files has too few blocks".to_owned());
        }
        Ok(())
    }
}
