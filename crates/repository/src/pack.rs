//! Packs: objects that hold blocks, one after another.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use refloat_store::storage::{Existing, Storage, Upload};

use crate::error::RepositoryError;
use crate::manifest::PackInfo;
use crate::repository::random_id;
use crate::seal::{Key, Seal};

/// First bytes of each pack.
const MAGIC: &[u8; 16] = b"refloat pack 1\r\n";
/// A pack takes no further blocks once it has this many bytes: far below what a bucket accepts as
/// one object, and few enough that losing the last one of an interrupted backup costs little.
pub const PACK_MAX: u64 = 1 << 30;

/// Folder of the packs.
pub const PREFIX: &str = "packs/";
/// Digits of an id that say when its pack was begun.
const TIME: usize = 10;

/// Digits of an id.
const ID: usize = 32;

/// A new id: when the pack is begun, in seconds since 1970, and random digits.
pub fn new_id() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    format!("{now:010x}{}", &random_id()[TIME..])
}

/// When the pack with this object name was begun.
pub fn begun(name: &str) -> Option<SystemTime> {
    let id = name.rsplit('/').next()?;
    let seconds = u64::from_str_radix(id.get(..TIME)?, 16).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Whether an object of this name is a pack.
pub fn is_pack(name: &str) -> bool {
    let id = name.rsplit('/').next().unwrap_or_default();
    is_id(id) && name == name_of(id)
}

/// Whether this is an id as [`new_id`] makes them.
pub fn is_id(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == ID && text.bytes().all(digit)
}

/// Name of the object of a pack.
pub fn name_of(id: &str) -> String {
    // The last digits are random, so folders fill evenly.
    format!("{PREFIX}{}/{id}", &id[id.len().saturating_sub(2)..])
}

/// A pack that is being written.
pub struct PackWriter {
    upload: Box<dyn Upload>,
    url: String,
    /// Index into the packs of the backup.
    pub index: u32,
    /// Id and size so far.
    pub info: PackInfo,
    seal: Option<Seal>,
}

impl PackWriter {
    pub fn create(
        storage: &dyn Storage,
        id: String,
        index: u32,
        key: Option<&Key>,
    ) -> Result<Self, RepositoryError> {
        let upload = storage.create(&name_of(&id), Existing::Keep)?;
        let mut pack = Self {
            upload,
            url: storage.url().to_owned(),
            index,
            seal: key.map(|key| key.seal(&id)),
            info: PackInfo { id, size: 0 },
        };
        pack.append(MAGIC)?;
        Ok(pack)
    }

    pub fn is_full(&self) -> bool {
        self.info.size >= PACK_MAX
    }

    /// Adds a compressed block, encrypted if the repository is; returns its place and size.
    pub fn add(&mut self, bytes: &mut Vec<u8>) -> Result<(u64, u32), RepositoryError> {
        let at = self.info.size;
        if let Some(seal) = &self.seal {
            seal.close(at, bytes).map_err(|_| {
                let object = name_of(&self.info.id);
                RepositoryError::damaged(&self.url, object, "a block cannot be encrypted")
            })?;
        }
        self.append(bytes)?;
        Ok((at, bytes.len() as u32))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), RepositoryError> {
        self.upload.write_all(bytes).map_err(|source| {
            let name = name_of(&self.info.id);
            refloat_store::storage::StorageError::from_io(&self.url, &name, "writing", source)
        })?;
        self.info.size += bytes.len() as u64;
        Ok(())
    }

    /// Publishes the pack.
    pub fn finish(self) -> Result<PackInfo, RepositoryError> {
        self.upload.finish()?;
        Ok(self.info)
    }
}
