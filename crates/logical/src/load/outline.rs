//! A quick look over a plain dump file before anything is touched.
//!
//! Only the first bytes of each line are looked at, so a file is read at the speed of the disk. What this finds decides
//! what is *checked beforehand*, never what is run: the scanner reads the dump for real.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Files up to this size are looked over; larger ones would be read from disk twice for little.
const SIZE_MAX: u64 = 8 << 30;
/// Bytes read at a time.
const BLOCK: usize = 1 << 20;
/// Bytes of a line that are looked at.
const HEAD: usize = 256;
/// Bytes at the end of a file in which its closing comment must stand.
const TAIL: usize = 4096;

/// What a dump seems to hold.
#[derive(Debug, Default, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one dump"
)]
pub struct Outline {
    /// Databases that it creates or uses.
    pub databases: BTreeSet<String>,
    /// `CREATE TABLE` statements.
    pub tables: u64,
    /// Whether it creates triggers.
    pub triggers: bool,
    /// Whether it creates procedures or functions.
    pub routines: bool,
    /// Whether it creates events.
    pub events: bool,
    /// Whether it creates views.
    pub views: bool,
    /// Whether the dump program's head line is there.
    pub header: bool,
    /// Whether the closing comment is there.
    pub completed: bool,
}

impl Outline {
    /// Looks over a plain file; `None` when it is too large to be worth it.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() > SIZE_MAX {
            return Ok(None);
        }
        let mut outline = Self::default();
        let mut block = vec![0; BLOCK];
        let mut head: Vec<u8> = Vec::with_capacity(HEAD);
        let mut tail: Vec<u8> = Vec::new();
        loop {
            let read = file.read(&mut block)?;
            if read == 0 {
                break;
            }
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', &block[..read]) {
                take(&mut head, &block[start..end]);
                outline.line(&head);
                head.clear();
                start = end + 1;
            }
            take(&mut head, &block[start..read]);
            tail.extend_from_slice(&block[read.saturating_sub(TAIL)..read]);
            tail.drain(..tail.len().saturating_sub(TAIL));
        }
        outline.line(&head);
        outline.completed = memchr::memmem::find(&tail, b"-- Dump completed").is_some();
        Ok(Some(outline))
    }

    fn line(&mut self, line: &[u8]) {
        if line.starts_with(b"-- MySQL dump") || line.starts_with(b"-- MariaDB dump") {
            self.header = true;
        } else if line.starts_with(b"CREATE TABLE") {
            self.tables += 1;
        } else if let Some(rest) = line.strip_prefix(b"USE `") {
            self.databases.extend(quoted(rest));
        } else if line.starts_with(b"CREATE DATABASE")
            && let Some(at) = memchr::memchr(b'`', line)
        {
            self.databases.extend(quoted(&line[at + 1..]));
        } else if line.starts_with(b"/*!50") || line.starts_with(b"CREATE ") {
            let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
            self.triggers |= has(b" TRIGGER ");
            self.routines |= has(b" PROCEDURE ") || has(b" FUNCTION ");
            self.events |= has(b" EVENT ");
            self.views |= has(b" VIEW ");
        }
    }
}

fn take(head: &mut Vec<u8>, bytes: &[u8]) {
    let room = HEAD - head.len();
    head.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// A name up to its closing backtick; doubled ones are part of it.
fn quoted(rest: &[u8]) -> Option<String> {
    let mut name = Vec::new();
    let mut bytes = rest.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'`' && bytes.as_slice().first() != Some(&b'`') {
            return Some(String::from_utf8_lossy(&name).into_owned());
        }
        if *byte == b'`' {
            bytes.next();
        }
        name.push(*byte);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_names_what_a_dump_brings() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "-- MariaDB dump 10.19\nCREATE DATABASE /*!32312 IF NOT EXISTS*/ `a``b` /*!40100 DEFAULT CHARACTER SET latin1 */;\nUSE `a``b`;\n\
            CREATE TABLE `t` (\n  `a` int\n);\n/*!50003 CREATE*/ /*!50017 DEFINER=`x`@`y`*/ /*!50003 TRIGGER t BEFORE INSERT\n-- Dump completed\n";
        std::fs::write(file.path(), text).unwrap();
        let outline = Outline::of(file.path()).unwrap().unwrap();
        assert_eq!(
            outline
                .databases
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
            ["a`b"]
        );
        assert!(outline.triggers && !outline.routines && outline.header && outline.completed);
        assert_eq!(outline.tables, 1);
    }
}
