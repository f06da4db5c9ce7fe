//! Files that grow, beside the backups of a repository: the binary logs of a server.
//!
//! A file is stored in pieces, each of them an object that never changes and whose name says which
//! bytes of the file it holds. So writing resumes where the last piece ends, however the writer
//! ended. Pieces are cut into blocks, which are compressed, encrypted and checked like those of
//! backups.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write as _};

use refloat_store::storage::{
    Existing, Patience, StorageError, StorageErrorKind, Upload, check_name, read_whole, reader,
    write_whole,
};

use crate::block::{BLOCK, Decoder, Encoder, Hash, LEVEL, STORED_MAX};
use crate::error::RepositoryError;
use crate::repository::{Repository, random_id};
use crate::seal::Seal;

/// Folder of all journals.
const PREFIX: &str = "binlogs/";
/// Object that describes the source of a journal.
const ABOUT: &str = "about.json";
const ABOUT_MAX: u64 = 1 << 20;
/// Folder of the files of a journal.
const FILES: &str = "files/";
/// First bytes of each piece.
const MAGIC: &[u8; 16] = b"refloat piece 1\n";
/// Before each block: its bytes in the object, its bytes in the file, its hash.
const HEAD: usize = 4 + 4 + 32;

/// Files that grow, under one name.
#[derive(Debug, Clone)]
pub struct Journal {
    repository: Repository,
    name: String,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// First byte in the file.
    pub begins: u64,
    /// The byte after its last one.
    pub ends: u64,
    object: String,
    size: u64,
}

/// A file that grows piece by piece, such as an archived binary log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFile {
    /// Name of the file within the journal.
    pub name: String,
    /// The pieces that it consists of, in order. Neighbours may overlap.
    pub pieces: Vec<Piece>,
    /// Redundant pieces: their bytes are in others as well.
    pub spare: Vec<Piece>,
    /// Missing bytes, as a half-open range. With a gap, the file cannot be read.
    pub gap: Option<(u64, u64)>,
}

impl JournalFile {
    /// Chooses the pieces that a file is read from.
    fn of(name: String, mut all: Vec<Piece>) -> Self {
        all.sort_by_key(|piece| (piece.begins, std::cmp::Reverse(piece.ends)));
        let (mut pieces, mut spare, mut gap, mut at) = (Vec::new(), Vec::new(), None, 0);
        for piece in all {
            if piece.begins > at {
                gap = gap.or(Some((at, piece.begins)));
            }
            if piece.ends > at {
                at = piece.ends;
                pieces.push(piece);
            } else {
                spare.push(piece);
            }
        }
        Self {
            name,
            pieces,
            spare,
            gap,
        }
    }

    /// Bytes from its beginning to the end of its last piece.
    pub fn size(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.ends)
    }

    /// Bytes that it takes on the storage.
    pub fn stored(&self) -> u64 {
        let all = self.pieces.iter().chain(&self.spare);
        all.map(|piece| piece.size).sum()
    }
}

impl Repository {
    /// The names of all journals, sorted.
    ///
    /// # Errors
    /// The storage fails.
    pub fn journals(&self) -> Result<Vec<String>, RepositoryError> {
        let objects = self.storage().list(PREFIX)?;
        let name = |object: &str| {
            let name = object.strip_prefix(PREFIX)?.strip_suffix(ABOUT)?;
            Some(name.strip_suffix('/')?.to_owned()).filter(|name| !name.contains('/'))
        };
        let names = objects.iter().filter_map(|object| name(&object.name));
        Ok(names.collect())
    }
}

impl Journal {
    /// The journal of this name, which need not exist.
    ///
    /// # Errors
    /// No object can have such a name.
    pub fn new(repository: &Repository, name: &str) -> Result<Self, RepositoryError> {
        let is_plain = !name.is_empty() && !name.contains('/');
        if !is_plain || check_name(repository.url(), &format!("{PREFIX}{name}")).is_err() {
            return Err(RepositoryError::Label {
                label: name.to_owned(),
            });
        }
        Ok(Self {
            repository: repository.clone(),
            name: name.to_owned(),
        })
    }

    /// Its name within the repository.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The repository that it lies in.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    fn prefix(&self) -> String {
        format!("{PREFIX}{}/", self.name)
    }

    fn url(&self) -> &str {
        self.repository.url()
    }

    /// What was recorded when it was begun. `None`: there is no such journal.
    ///
    /// # Errors
    /// The storage fails.
    pub fn about(&self) -> Result<Option<Vec<u8>>, RepositoryError> {
        let name = format!("{}{ABOUT}", self.prefix());
        match read_whole(self.repository.storage(), &name, ABOUT_MAX) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == StorageErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins the journal.
    ///
    /// # Errors
    /// It exists already, or the storage fails.
    pub fn begin(&self, about: &[u8]) -> Result<(), RepositoryError> {
        let name = format!("{}{ABOUT}", self.prefix());
        let storage = self.repository.storage();
        Ok(write_whole(&**storage, &name, about, Existing::Keep)?)
    }

    /// Its files, sorted by name.
    ///
    /// # Errors
    /// The storage fails.
    pub fn files(&self) -> Result<Vec<JournalFile>, RepositoryError> {
        let found = self.listed("")?;
        if found.iter().all(|file| file.gap.is_none()) {
            return Ok(found);
        }
        // A listing that is made while pieces are replaced may lack both the old and the new ones.
        self.listed("")
    }

    /// Its files, or the one of a folder.
    fn listed(&self, under: &str) -> Result<Vec<JournalFile>, RepositoryError> {
        let prefix = format!("{}{FILES}", self.prefix());
        let mut found: BTreeMap<String, Vec<Piece>> = BTreeMap::new();
        for object in self
            .repository
            .storage()
            .list(&format!("{prefix}{under}"))?
        {
            let named = object.name.strip_prefix(&prefix).and_then(|rest| {
                let (file, piece) = rest.split_once('/')?;
                let mut words = piece.split('-');
                let begins = words.next()?.parse().ok()?;
                let ends = words.next()?.parse().ok()?;
                Some((file.to_owned(), begins, ends))
            });
            if let Some((file, begins, ends)) = named {
                found.entry(file).or_default().push(Piece {
                    begins,
                    ends,
                    object: object.name,
                    size: object.size,
                });
            }
        }
        let files = found.into_iter();
        Ok(files
            .map(|(name, all)| JournalFile::of(name, all))
            .collect())
    }

    /// Adds what `source` holds, which must be the bytes from `begins` up to `ends` of the file.
    /// All of them are stored when this returns.
    ///
    /// # Errors
    /// The storage or the source fails, or the file's name cannot be the name of an object.
    pub fn append(
        &self,
        file: &str,
        (begins, ends): (u64, u64),
        source: &mut dyn Read,
    ) -> Result<(), RepositoryError> {
        let id = random_id();
        let object = format!(
            "{}{FILES}{file}/{begins:020}-{ends:020}-{id}",
            self.prefix()
        );
        let storage = self.repository.storage();
        let failed = |source| StorageError::from_io(self.url(), &object, "writing", source);
        let mut upload = storage.create(&object, Existing::Keep)?;
        upload.write_all(MAGIC).map_err(failed)?;
        let seal = self.repository.key().map(|key| key.seal(&id));
        let mut encoder = Encoder::new(LEVEL).map_err(RepositoryError::Compress)?;
        let (mut at, mut left) = (MAGIC.len() as u64, ends - begins);
        let (mut block, mut stored) = (vec![0; BLOCK], Vec::new());
        while left > 0 {
            let plain = &mut block[..left.min(BLOCK as u64) as usize];
            source.read_exact(plain).map_err(failed)?;
            encoder
                .compress(plain, &mut stored)
                .map_err(RepositoryError::Compress)?;
            self.write_block(&mut upload, (seal.as_ref(), &mut at), plain, &mut stored)
                .map_err(failed)?;
            left -= plain.len() as u64;
        }
        Ok(upload.finish()?)
    }

    fn write_block(
        &self,
        upload: &mut Box<dyn Upload>,
        (seal, at): (Option<&Seal>, &mut u64),
        plain: &[u8],
        stored: &mut Vec<u8>,
    ) -> io::Result<()> {
        *at += HEAD as u64;
        if let Some(seal) = seal {
            let refused = |_| io::Error::other("a block cannot be encrypted");
            seal.close(*at, stored).map_err(refused)?;
        }
        upload.write_all(&(stored.len() as u32).to_le_bytes())?;
        upload.write_all(&(plain.len() as u32).to_le_bytes())?;
        upload.write_all(&self.repository.hash(plain).0)?;
        upload.write_all(stored)?;
        *at += stored.len() as u64;
        Ok(())
    }

    /// Reads a file from its first byte on.
    ///
    /// # Errors
    /// Bytes of it are missing, or there is no memory for it.
    pub fn read(&self, file: &JournalFile) -> Result<JournalReader, RepositoryError> {
        if let Some((begins, ends)) = file.gap {
            let object = format!("{}{FILES}{}", self.prefix(), file.name);
            let detail = format!("its bytes {begins} to {ends} are missing");
            return Err(RepositoryError::damaged(self.url(), object, detail));
        }
        self.read_pieces(&file.name, &file.pieces)
    }

    /// Reads the last piece of a file, from its first byte on.
    ///
    /// # Errors
    /// As [`Journal::read`].
    pub fn read_last(&self, file: &JournalFile) -> Result<JournalReader, RepositoryError> {
        self.read_pieces(
            &file.name,
            &file.pieces[file.pieces.len().saturating_sub(1)..],
        )
    }

    fn read_pieces(&self, name: &str, pieces: &[Piece]) -> Result<JournalReader, RepositoryError> {
        let key = self.repository.key();
        Ok(JournalReader {
            journal: self.clone(),
            name: name.to_owned(),
            ends: pieces.last().map_or(0, |piece| piece.ends),
            at: pieces.first().map_or(0, |piece| piece.begins),
            pieces: pieces.iter().cloned().collect(),
            current: None,
            decoder: Decoder::new(key).map_err(RepositoryError::Compress)?,
            stored: Vec::new(),
            block: Vec::new(),
            taken: 0,
            tried: None,
        })
    }

    /// Removes redundant pieces, whose bytes are in others as well.
    ///
    /// # Errors
    /// The storage fails.
    pub fn remove(&self, pieces: &[Piece]) -> Result<(), RepositoryError> {
        for piece in pieces {
            self.repository.storage().delete(&piece.object)?;
        }
        Ok(())
    }
}

/// The bytes of a file, checked.
pub struct JournalReader {
    journal: Journal,
    name: String,
    /// The byte up to which it is read.
    ends: u64,
    pieces: VecDeque<Piece>,
    current: Option<Open>,
    decoder: Decoder,
    stored: Vec<u8>,
    block: Vec<u8>,
    /// Bytes of the block that were returned.
    taken: usize,
    /// The next byte of the file.
    at: u64,
    /// The piece that was opened last.
    tried: Option<Piece>,
}

/// A piece that is being read.
struct Open {
    piece: Piece,
    source: Box<dyn Read + Send>,
    seal: Option<Seal>,
    /// The next byte of the object, and of the file.
    place: (u64, u64),
}

impl std::fmt::Debug for JournalReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JournalReader({}, byte {})", self.journal.name, self.at)
    }
}

impl JournalReader {
    fn open(&mut self, piece: Piece) -> Result<Open, RepositoryError> {
        self.tried = Some(piece.clone());
        let repository = &self.journal.repository;
        let mut source = reader(
            repository.storage(),
            &piece.object,
            0..piece.size,
            Patience::default(),
        );
        let mut magic = [0; MAGIC.len()];
        let failed =
            |error| StorageError::from_io(repository.url(), &piece.object, "reading", error);
        source.read_exact(&mut magic).map_err(failed)?;
        if magic != *MAGIC {
            let detail = "it does not begin as a piece does";
            return Err(RepositoryError::damaged(
                repository.url(),
                &piece.object,
                detail,
            ));
        }
        let id = piece.object.rsplit('-').next().unwrap_or_default();
        Ok(Open {
            seal: repository.key().map(|key| key.seal(id)),
            source: Box::new(source),
            place: (MAGIC.len() as u64, piece.begins),
            piece,
        })
    }

    /// Looks for pieces that have replaced the known ones: an archive merges them when a file is
    /// complete. Returns whether there are any.
    fn find_others(&mut self) -> Result<bool, RepositoryError> {
        let listed = self.journal.listed(&format!("{}/", self.name))?;
        let found = listed.into_iter().find(|file| file.name == self.name);
        let Some(file) = found.filter(|file| file.gap.is_none() && file.size() >= self.ends) else {
            return Ok(false);
        };
        let left = file.pieces.into_iter();
        let left: VecDeque<Piece> = left.filter(|piece| piece.ends > self.at).collect();
        // If the same pieces are still there, one of them is damaged.
        let is_other = left.front() != self.tried.as_ref();
        self.pieces = left;
        self.block.clear();
        self.taken = 0;
        Ok(is_other)
    }

    /// Reads the next block, or, if its piece is gone, finds the pieces that have replaced it.
    /// `false`: there are no more.
    fn next_block(&mut self) -> Result<bool, RepositoryError> {
        let mut open = match self.current.take() {
            Some(open) => open,
            None => match self.pieces.pop_front() {
                Some(piece) => match self.open(piece) {
                    Err(error) if is_gone(&error) && self.find_others()? => return Ok(true),
                    result => result?,
                },
                None => return Ok(false),
            },
        };
        let url = self.journal.url().to_owned();
        let object = open.piece.object.clone();
        let failed = |error| StorageError::from_io(&url, &object, "reading", error);
        let mut head = [0; HEAD];
        open.source.read_exact(&mut head).map_err(failed)?;
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (stored, length) = (number(0) as usize, number(4) as usize);
        let mut hash = [0; 32];
        hash.copy_from_slice(&head[8..]);
        let at = open.place.0 + HEAD as u64;
        let damaged =
            |detail: &str| RepositoryError::damaged(&url, format!("{object} at byte {at}"), detail);
        let left = open.piece.ends.saturating_sub(open.place.1);
        if stored > STORED_MAX || length > BLOCK || length == 0 || length as u64 > left {
            return Err(damaged("a block has an impossible length"));
        }
        self.stored.resize(stored, 0);
        open.source.read_exact(&mut self.stored).map_err(failed)?;
        self.decoder
            .decode(
                &mut self.stored,
                (open.seal.as_ref(), at),
                (length, Hash(hash)),
                &mut self.block,
            )
            .map_err(|detail| damaged(&detail))?;
        // Bytes that an overlapping earlier piece had are not returned again.
        let known = self.at.saturating_sub(open.place.1);
        self.taken = known.min(length as u64) as usize;
        open.place = (at + stored as u64, open.place.1 + length as u64);
        if open.place.1 < open.piece.ends {
            self.current = Some(open);
        }
        Ok(true)
    }
}

impl Read for JournalReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() {
            if self.at >= self.ends || !self.next_block().map_err(RepositoryError::into_io)? {
                return Ok(0);
            }
        }
        let rest = &self.block[self.taken..];
        let left = usize::try_from(self.ends - self.at).unwrap_or(usize::MAX);
        let count = rest.len().min(buffer.len()).min(left);
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        self.at += count as u64;
        Ok(count)
    }
}

/// Whether the error says that an object does not exist.
fn is_gone(error: &RepositoryError) -> bool {
    matches!(error, RepositoryError::Storage(error) if error.kind() == StorageErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::Arc;

    use refloat_store::storage::{LocalFolder, Storage as _};

    use super::Journal;
    use crate::{Key, Repository};

    fn text(journal: &Journal) -> Vec<u8> {
        let files = journal.files().unwrap();
        let mut found = Vec::new();
        let mut reader = journal.read(&files[0]).unwrap();
        reader.read_to_end(&mut found).unwrap();
        found
    }

    #[test]
    fn a_file_grows_in_pieces_and_comes_back() {
        for key in [None, Some(Key::new([7; 32]))] {
            let folder = tempfile::tempdir().unwrap();
            let storage = Arc::new(LocalFolder::new(folder.path()));
            let repository = Repository::init(storage.clone(), key).unwrap();
            let journal = Journal::new(&repository, "db1").unwrap();
            assert_eq!(journal.about().unwrap(), None);
            assert!(repository.journals().unwrap().is_empty());
            journal.begin(b"{}").unwrap();
            journal.begin(b"{}").unwrap_err();
            assert_eq!(repository.journals().unwrap(), ["db1"]);
            let bytes: Vec<u8> = (0..700_000_u32)
                .flat_map(|n| (n / 7).to_le_bytes())
                .collect();
            let append = |begins: usize, ends: usize| {
                let place = (begins as u64, ends as u64);
                let added = journal.append("log.1", place, &mut &bytes[begins..ends]);
                added.unwrap();
            };
            append(0, 100);
            append(100, 2_000_000);
            // Two writers at the same time do no harm.
            append(90, 1_500_000);
            append(1_500_000, bytes.len());
            assert!(text(&journal) == bytes);
            let before = journal.files().unwrap().remove(0);
            assert_eq!(before.size(), bytes.len() as u64);
            let mut early = journal.read(&before).unwrap();
            let mut found = vec![0; 1_000_000];
            early.read_exact(&mut found).unwrap();
            append(0, bytes.len());
            let after = journal.files().unwrap().remove(0);
            assert_eq!((after.pieces.len(), after.spare.len()), (1, 4));
            journal.remove(&after.spare).unwrap();
            assert!(text(&journal) == bytes);
            // A reader of the pieces that are gone continues with their replacement.
            early.read_to_end(&mut found).unwrap();
            assert!(found == bytes);

            // Damage is an error, never other content.
            let whole = &journal.files().unwrap()[0].pieces[0];
            let path = folder.path().join(&whole.object);
            let mut damaged = std::fs::read(&path).unwrap();
            let middle = damaged.len() / 2;
            damaged[middle] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            let mut reader = journal.read(&journal.files().unwrap()[0]).unwrap();
            reader.read_to_end(&mut Vec::new()).unwrap_err();
            storage.delete(&whole.object).unwrap();
            append(5, 10);
            append(2, 7);
            let broken = journal.files().unwrap().remove(0);
            assert_eq!(broken.gap, Some((0, 2)));
            let error = journal.read(&broken).unwrap_err();
            assert!(error.to_string().contains("missing"));
        }
    }
}
