//! Unpacks streams of `mydumper --stream`: for each file an empty line, `-- NAME SIZE`, then SIZE
//! bytes.
//!
//! Format: `src/mydumper/mydumper_stream.c` of mydumper 0.15 and later. Earlier versions wrote no
//! sizes, so the end of a file cannot be determined.

use std::io::{BufRead as _, BufReader, Read as _};

use super::{ArchiveError, Source, Work, parts};

/// Start of each file's header.
const BEGIN: &[u8] = b"\n-- ";
/// Longest name plus size, in bytes.
const HEADER_MAX: u64 = 4096;

impl Work {
    /// Unpacks all files of a stream.
    pub(super) fn files(&mut self, source: &mut Source) -> Result<(), ArchiveError> {
        let mut reader = BufReader::new(source);
        let mut at = 0;
        loop {
            let mut line = Vec::new();
            let read = (&mut reader)
                .take(BEGIN.len() as u64)
                .read_to_end(&mut line);
            if read.is_err() {
                // `source` keeps the reason.
                return Ok(());
            }
            if line.is_empty() {
                return Ok(());
            }
            if line.len() < BEGIN.len() && BEGIN.starts_with(&line) {
                return Err(ArchiveError::Cut {
                    archive: self.archive.clone(),
                    at: at + line.len() as u64,
                });
            }
            if line != BEGIN {
                return Err(ArchiveError::Damaged {
                    archive: self.archive.clone(),
                    at,
                    reason: "a file must begin here with `-- NAME SIZE`, and does not".to_owned(),
                });
            }
            line.clear();
            let read = (&mut reader).take(HEADER_MAX).read_until(b'\n', &mut line);
            if read.is_err() {
                return Ok(());
            }
            let archive = self.archive.clone();
            let cut = |at| ArchiveError::Cut { archive, at };
            let header = match line.strip_suffix(b"\n") {
                Some(header) => header,
                None if line.len() as u64 == HEADER_MAX => {
                    return Err(self.refused(&line[..64], "the line of its name has no end"));
                }
                None => return Err(cut(at + (BEGIN.len() + line.len()) as u64)),
            };
            let space = header.iter().rposition(|byte| *byte == b' ');
            let (name, size) = header.split_at(space.unwrap_or(header.len()));
            let size = std::str::from_utf8(size)
                .ok()
                .and_then(|size| size.trim().parse::<u64>().ok());
            let Some(size) = size else {
                return Err(self.refused(
                    header,
                    "its size does not stand behind its name, as in streams of old versions of mydumper",
                ));
            };
            let of_name = parts(name).map_err(|reason| self.refused(name, reason))?;
            let &[file] = of_name.as_slice() else {
                return Err(self.refused(name, "a stream holds files, and no folders"));
            };
            let begins = at + (BEGIN.len() + line.len()) as u64;
            let path = self.root.join(file);
            let written = self.file(name, &path, size, &mut (&mut reader).take(size))?;
            match written {
                None => return Ok(()),
                Some(written) if written < size => return Err(cut(begins + written)),
                Some(_) => at = begins + size,
            }
        }
    }
}
