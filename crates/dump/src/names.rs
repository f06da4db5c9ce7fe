//! File names for databases and tables.

// Hazard of dumps: L-61 names that collide on disk

use std::collections::HashSet;
use std::fmt::Write as _;

use twox_hash::XxHash3_64;

/// Longest stem of a file name in bytes. File systems allow 255, and extensions need room.
const STEM_MAX: usize = 180;

/// Gives out file name stems that are unique even on a case-insensitive file system.
#[derive(Debug, Default)]
pub struct FileNames {
    taken: HashSet<String>,
}

impl FileNames {
    /// A stem for `name`. Each call returns a new one, even for the same name.
    pub fn give(&mut self, name: &str) -> String {
        let stem = stem(name);
        let mut given = stem.clone();
        let mut number = 2;
        while !self.taken.insert(given.to_ascii_lowercase()) {
            given = format!("{stem}~{number}");
            number += 1;
        }
        given
    }
}

/// A name as the stem of a file name.
///
/// Letters, digits, `_` and `-` stay. Every other byte becomes `%` and two hexadecimal digits, so a
/// name cannot leave its folder or be a special one such as `..`. The stem of a name that is too
/// long ends in a hash; the manifest has the full name.
fn stem(name: &str) -> String {
    let mut stem = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            stem.push(char::from(byte));
        } else {
            let _ = write!(stem, "%{byte:02X}");
        }
    }
    if stem.len() > STEM_MAX {
        let hash = XxHash3_64::oneshot(name.as_bytes());
        stem.truncate(STEM_MAX - 18);
        let _ = write!(stem, "~{hash:016x}");
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        assert_eq!(stem("orders_2024-1"), "orders_2024-1");
        assert_eq!(stem("../../etc"), "%2E%2E%2F%2E%2E%2Fetc");
        assert_eq!(stem("."), "%2E");
        assert_eq!(stem("a b\0"), "a%20b%00");
        assert_eq!(stem("ü"), "%C3%BC");
        let long = "é".repeat(64);
        assert!(stem(&long).len() <= STEM_MAX);
        assert_ne!(stem(&long), stem(&format!("{}x", "é".repeat(63))));
    }

    #[test]
    fn no_two_names_share_a_file() {
        let mut names = FileNames::default();
        let given: HashSet<String> = ["T", "t", "T~2", "t", "t%7E2"]
            .iter()
            .map(|name| names.give(name).to_ascii_lowercase())
            .collect();
        assert_eq!(given.len(), 5);
    }
}
