//! What was sent so far, and whether what comes next fits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;

use crate::chunk::Body;
use crate::operation::Ignored;
use crate::path::as_path;
use crate::{Error, Problem, Run};

/// End of a removed path that stands for all partitions of a table. The producer means a pattern
/// (`ddl_log.cc`, `process_remove`); mbstream looks for a file of this very name.
const PARTITIONS: &[u8] = b"#P#*";

/// The files of a stream: those that were sent and neither removed nor replaced.
///
/// One entry for each file is kept in memory.
#[derive(Debug)]
pub struct Catalogue {
    files: BTreeMap<Box<[u8]>, File>,
    /// Folders that files were sent into, also if these are gone.
    folders: BTreeSet<Box<[u8]>>,
    open: usize,
    empty: bool,
}

#[derive(Debug, Clone, Copy)]
struct File {
    open: bool,
    /// Does it replace an older copy? All its pieces say so.
    rewrite: bool,
    /// Where the next piece has to begin.
    position: u64,
    length: u64,
}

/// What a chunk does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It goes on with an open file, renames or removes one.
    Continues,
    /// It begins a file.
    Opens,
    /// It begins a file that replaces another.
    Rewrites,
    /// It removes these, the last one first. There is one at least.
    Removes(Vec<Gone>),
    Ignored(Ignored),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    File(Box<[u8]>),
    /// All in it has gone before.
    Folder(Box<[u8]>),
}

impl Catalogue {
    pub(crate) fn new() -> Self {
        Self {
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
            open: 0,
            empty: true,
        }
    }

    /// Path and length, in bytes, of every file, in order.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&Path, u64)> {
        self.files
            .iter()
            .map(|(path, file)| (as_path(path), file.length))
    }

    /// Length of a file, in bytes.
    pub fn length(&self, path: impl AsRef<Path>) -> Option<u64> {
        let path = crate::path::as_bytes(path.as_ref());
        self.files.get(path).map(|file| file.length)
    }

    /// Takes the next chunk. `length`: bytes of its piece; `map`: its holes; `to`: its new name.
    pub(crate) fn take(
        &mut self,
        path: &[u8],
        body: Body,
        length: u64,
        map: &[Run],
        to: &[u8],
    ) -> Result<Effect, Problem> {
        self.empty = false;
        match body {
            Body::Data { offset, rewrite } => {
                let begins = self.begin(path, rewrite)?;
                self.advance(path, offset, length, length > 0)?;
                Ok(begins)
            }
            Body::Sparse { offset } => {
                let begins = self.begin(path, false)?;
                let holes: u64 = map.iter().map(|run| u64::from(run.skip)).sum();
                self.advance(path, offset, holes + length, true)?;
                Ok(begins)
            }
            Body::Seek { offset } => {
                let rewrite = self.open_file(path).is_some_and(|file| file.rewrite);
                let begins = self.begin(path, rewrite)?;
                reach(offset, 0)?;
                if let Some(file) = self.files.get_mut(path) {
                    file.position = offset;
                }
                Ok(begins)
            }
            Body::End => {
                let rewrite = self.open_file(path).is_some_and(|file| file.rewrite);
                let begins = self.begin(path, rewrite)?;
                if let Some(file) = self.files.get_mut(path) {
                    file.open = false;
                    self.open -= 1;
                }
                Ok(begins)
            }
            Body::Rename => self.rename(path, to),
            Body::Remove => self.remove(path),
            Body::Unknown { kind } => Ok(Effect::Ignored(Ignored::UnknownType { kind, length })),
        }
    }

    /// Is the stream whole, which ends at byte `at`?
    pub(crate) fn finish(&self, at: u64) -> Result<(), Error> {
        if self.empty {
            return Err(Error::without_path(at, Problem::Empty));
        }
        if let Some((path, _)) = self.files.iter().find(|(_, file)| file.open) {
            return Err(Error::new(at, path, Problem::NotEnded { count: self.open }));
        }
        Ok(())
    }

    fn open_file(&self, path: &[u8]) -> Option<File> {
        self.files.get(path).copied().filter(|file| file.open)
    }

    /// Begins the file unless it is open.
    pub(crate) fn begin(&mut self, path: &[u8], rewrite: bool) -> Result<Effect, Problem> {
        match self.files.get(path) {
            Some(file) if file.open && file.rewrite == rewrite => return Ok(Effect::Continues),
            Some(file) if file.open => return Err(Problem::Mixed),
            Some(_) if !rewrite => return Err(Problem::Twice),
            _ => {}
        }
        self.place(path)?;
        let file = File {
            open: true,
            rewrite,
            position: 0,
            length: 0,
        };
        self.files.insert(path.into(), file);
        self.open += 1;
        Ok(if rewrite {
            Effect::Rewrites
        } else {
            Effect::Opens
        })
    }

    /// Makes room for a file, unless a folder has its name, or a file that of its folder.
    fn place(&mut self, path: &[u8]) -> Result<(), Problem> {
        if self.folders.contains(path) {
            return Err(Problem::FileAndFolder);
        }
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (at, _) in slashes {
            let folder = &path[..at];
            if self.files.contains_key(folder) {
                return Err(Problem::FileAndFolder);
            }
            if !self.folders.contains(folder) {
                self.folders.insert(folder.into());
            }
        }
        Ok(())
    }

    /// The files whose paths begin so.
    fn within(&self, prefix: &[u8]) -> impl Iterator<Item = (&Box<[u8]>, &File)> {
        let files = self.files.range::<[u8], _>(onwards(prefix));
        files.take_while(move |(path, _)| path.starts_with(prefix))
    }

    fn advance(
        &mut self,
        path: &[u8],
        offset: u64,
        length: u64,
        grows: bool,
    ) -> Result<(), Problem> {
        let end = reach(offset, length)?;
        let Some(file) = self.files.get_mut(path) else {
            return Ok(());
        };
        if file.position != offset {
            return Err(Problem::Offset {
                expected: file.position,
                found: offset,
            });
        }
        file.position = end;
        if grows {
            file.length = file.length.max(end);
        }
        Ok(())
    }

    /// The producer renames what its log of definitions names, whether it had sent it or not.
    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<Effect, Problem> {
        if self.open_file(from).is_some() || self.open_file(to).is_some() {
            return Err(Problem::NotYet);
        }
        if !self.files.contains_key(from) {
            return Ok(Effect::Ignored(Ignored::NothingToRename));
        }
        self.place(to)?;
        if let Some(file) = self.files.remove(from) {
            self.files.insert(to.into(), file);
        }
        Ok(Effect::Continues)
    }

    /// The producer removes what its log of definitions names, whether it had sent it or not: files
    /// of a table, all partitions of one, or a database.
    fn remove(&mut self, path: &[u8]) -> Result<Effect, Problem> {
        if let Some(file) = self.files.get(path) {
            if file.open {
                return Err(Problem::NotYet);
            }
            self.files.remove(path);
            return Ok(Effect::Continues);
        }
        let is_folder = self.folders.contains(path);
        let prefix = match path.strip_suffix(b"*") {
            Some(prefix) if path.ends_with(PARTITIONS) => prefix.to_vec(),
            _ if is_folder => [path, b"/"].concat(),
            _ => return Ok(Effect::Ignored(Ignored::NothingToRemove)),
        };
        let mut gone = Vec::new();
        if is_folder {
            gone.push(Gone::Folder(path.into()));
            let below = self.folders.range::<[u8], _>(onwards(&prefix));
            let below = below.take_while(|folder| folder.starts_with(&prefix));
            gone.extend(below.cloned().map(Gone::Folder));
        }
        for (path, file) in self.within(&prefix) {
            if file.open {
                return Err(Problem::NotYet);
            }
            gone.push(Gone::File(path.clone()));
        }
        if gone.is_empty() {
            return Ok(Effect::Ignored(Ignored::NothingToRemove));
        }
        for one in &gone {
            match one {
                Gone::File(path) => drop(self.files.remove(path)),
                Gone::Folder(path) => drop(self.folders.remove(path)),
            }
        }
        Ok(Effect::Removes(gone))
    }
}

fn onwards(prefix: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(prefix), Bound::Unbounded)
}

/// The end of a piece, if a file can be as long.
fn reach(offset: u64, length: u64) -> Result<u64, Problem> {
    let end = offset.checked_add(length);
    end.filter(|end| i64::try_from(*end).is_ok())
        .ok_or(Problem::TooFar { offset })
}
