//! File names for names of databases and tables.

use std::collections::HashSet;
use std::fmt::Write as _;

use twox_hash::XxHash3_64;

/// Longest part of a file's name that stands for a name, in bytes: file systems take 255, and endings need room.
const STEM_MAX: usize = 180;

/// Gives every name a part of a file's name that no other one has, also where the file system does not tell `a` from `A`.
#[derive(Debug, Default)]
pub struct FileNames {
    taken: HashSet<String>,
}

impl FileNames {
    /// The part for `name`. Asked twice for the same name, it gives two.
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

/// A name as a part of a file's name.
///
/// Letters, digits, `_` and `-` stay; every other byte is written as `%` and two hexadecimal digits, so a name can neither leave
/// its folder nor be a special one. A name that would be too long ends in a hash instead; the manifest has it in full.
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
