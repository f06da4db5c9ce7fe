//! Building blocks that the outcomes of runs share.

use serde::Serialize;

/// Entries kept in each list of an outcome; the totals next to the lists are always complete.
pub const LIST_MAX: usize = 100;

/// A list that keeps its first 100 entries and counts all of them.
#[derive(Debug, Clone, Serialize)]
pub struct Bounded<T> {
    /// Number of items pushed.
    pub total: u64,
    /// The first [`LIST_MAX`] of them.
    pub first: Vec<T>,
}

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self {
            total: 0,
            first: Vec::new(),
        }
    }
}

impl<T> Bounded<T> {
    /// Counts `item`, and keeps it if there is room.
    pub fn push(&mut self, item: T) {
        self.total += 1;
        if self.first.len() < LIST_MAX {
            self.first.push(item);
        }
    }

    /// Whether nothing was ever pushed.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}
