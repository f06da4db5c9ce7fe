//! The blocks that a repository already has.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::block::Hash;
use crate::manifest::{Extent, FileEntry};

/// Where a block lies.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Index into the packs of the backup that is being written.
    pub pack: u32,
    /// First byte in the pack.
    pub at: u64,
    /// Bytes in the pack.
    pub stored: u32,
    /// Bytes of the block itself.
    pub length: u32,
}

impl Place {
    /// The block as part of a file.
    pub fn extent(self, begins: u64, hash: Hash) -> Extent {
        Extent {
            begins,
            length: self.length,
            pack: self.pack,
            at: self.at,
            stored: self.stored,
            hash,
        }
    }
}

/// Blocks by their hash: those of earlier backups, and those of the running one. A million blocks,
/// which are a terabyte, take some 60 MB.
#[derive(Default)]
pub struct Known(RwLock<HashMap<Hash, Place>>);

impl Known {
    /// Adds the blocks of these files, whose packs begin at `first` in the new backup.
    pub fn add_files(&self, files: &[FileEntry], first: u32) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for extent in files.iter().flat_map(|file| &file.extents) {
            known.entry(extent.hash).or_insert(Place {
                pack: first + extent.pack,
                ..place_of(extent)
            });
        }
    }

    pub fn add(&self, hash: Hash, place: Place) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(hash).or_insert(place);
    }

    /// Where the block of this hash and length lies, if it is known.
    pub fn find(&self, hash: &Hash, length: usize) -> Option<Place> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = known.get(hash).copied()?;
        (place.length as usize == length).then_some(place)
    }
}

fn place_of(extent: &Extent) -> Place {
    Place {
        pack: extent.pack,
        at: extent.at,
        stored: extent.stored,
        length: extent.length,
    }
}
