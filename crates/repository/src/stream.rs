//! A repository as one stream of bytes: for pipes, and for files that are carried elsewhere.
//!
//! The stream begins with [`MAGIC`]; then come frames, each with its kind, the number of an object
//! and a length, all of them little-endian. Several objects may be in transit at a time. Each ends
//! with its size and its hash. The last frame says how many objects there were, with a hash over
//! what the earlier frames said about them: names, sizes, hashes. A stream without it was truncated
//! somewhere.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use refloat_store::storage::{
    Existing, Object, Stamp, Storage, StorageError, StorageErrorKind, Upload, check_name,
};

use crate::error::RepositoryError;

/// First bytes of each stream.
const MAGIC: &[u8; 16] = b"refloat stream 1";
/// Most bytes of one frame.
const FRAME_MAX: usize = 4 << 20;
/// Objects that may be in transit at a time. A writer has one for each of its threads.
const OPEN_MAX: usize = 1024;
const URL: &str = "standard output";

/// Kinds of frames.
const BEGIN: u8 = 1;
const DATA: u8 = 2;
const END: u8 = 3;
const WHOLE: u8 = 4;

/// Bytes before the content of a frame: its kind, number and length.
const HEAD: usize = 9;

#[derive(Default)]
struct State {
    out: Option<Box<dyn Write + Send>>,
    /// Objects that have ended, with their sizes.
    ended: BTreeMap<String, u64>,
    /// Objects that were begun.
    begun: u32,
    /// Hash over what the frames have said about objects.
    sum: blake3::Hasher,
    /// Something was begun and not ended, or written and deleted: the stream cannot be used.
    spoiled: bool,
}

impl State {
    fn frame(&mut self, kind: u8, number: u32, content: &[u8]) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        let mut head = [0; HEAD];
        head[0] = kind;
        head[1..5].copy_from_slice(&number.to_le_bytes());
        head[5..].copy_from_slice(&(content.len() as u32).to_le_bytes());
        let written = out.write_all(&head).and_then(|()| out.write_all(content));
        if written.is_err() {
            // Anything that followed would end up in the middle of a frame.
            self.out = None;
        }
        if kind != DATA {
            self.sum.update(&head);
            self.sum.update(content);
        }
        written
    }
}

/// A storage that is written once, as a stream.
///
/// It knows what was written, but cannot read it back.
pub struct StreamStorage {
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(name: &str, doing: &'static str) -> impl FnOnce(io::Error) -> StorageError {
    let name = name.to_owned();
    move |source| StorageError::from_io(URL, &name, doing, source)
}

impl StreamStorage {
    /// Begins a stream.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(mut out: Box<dyn Write + Send>) -> Result<Self, StorageError> {
        out.write_all(MAGIC).map_err(failed("", "writing"))?;
        let state = State {
            out: Some(out),
            ..State::default()
        };
        Ok(Self {
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// Writes the end, by which a reader knows that the stream is whole.
    ///
    /// # Errors
    /// It cannot be written, or objects that were begun are missing.
    pub fn finish(&self) -> Result<(), StorageError> {
        let mut state = lock(&self.state);
        let failed = failed("", "completing");
        if state.spoiled || state.begun as usize != state.ended.len() {
            return Err(failed(io::Error::other("not all of it was written")));
        }
        let sum = state.sum.finalize();
        let count = state.begun;
        let mut end = || {
            state.frame(WHOLE, count, sum.as_bytes())?;
            state.out.take().map_or(Ok(()), |mut out| out.flush())
        };
        end().map_err(failed)
    }
}

impl Storage for StreamStorage {
    fn url(&self) -> &str {
        URL
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError> {
        let state = lock(&self.state);
        let with = state
            .ended
            .iter()
            .filter(|(name, _)| name.starts_with(prefix));
        Ok(with
            .map(|(name, size)| Object {
                name: name.clone(),
                size: *size,
                mark: String::new(),
            })
            .collect())
    }

    fn stamp(&self, name: &str) -> Result<Stamp, StorageError> {
        let state = lock(&self.state);
        let size = state.ended.get(name).copied();
        let not_found = || StorageError::new(URL, name, "looking at", StorageErrorKind::NotFound);
        Ok(Stamp {
            size: size.ok_or_else(not_found)?,
            mark: String::new(),
        })
    }

    fn read(&self, name: &str, _: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError> {
        let gone = io::Error::other("what went into a stream cannot be read back");
        Err(failed(name, "reading")(gone))
    }

    fn create(&self, name: &str, existing: Existing) -> Result<Box<dyn Upload>, StorageError> {
        check_name(URL, name)?;
        let mut state = lock(&self.state);
        if state.ended.contains_key(name) {
            return Err(match existing {
                Existing::Keep => {
                    StorageError::new(URL, name, "creating", StorageErrorKind::Exists)
                }
                Existing::Replace => {
                    let source = io::Error::other("what went into a stream cannot be replaced");
                    failed(name, "creating")(source)
                }
            });
        }
        let number = state.begun;
        state.begun += 1;
        state
            .frame(BEGIN, number, name.as_bytes())
            .map_err(failed(name, "creating"))?;
        Ok(Box::new(StreamUpload {
            state: Arc::clone(&self.state),
            name: name.to_owned(),
            number,
            size: 0,
            hash: blake3::Hasher::new(),
            is_done: false,
        }))
    }

    fn delete(&self, name: &str) -> Result<(), StorageError> {
        let mut state = lock(&self.state);
        if state.ended.remove(name).is_some() {
            state.spoiled = true;
        }
        Ok(())
    }

    fn sweep(&self) -> Result<u64, StorageError> {
        Ok(0)
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn transfers(&self) -> usize {
        1
    }
}

struct StreamUpload {
    state: Arc<Mutex<State>>,
    name: String,
    number: u32,
    size: u64,
    hash: blake3::Hasher,
    is_done: bool,
}

impl Write for StreamUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(FRAME_MAX)];
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        lock(&self.state).frame(DATA, self.number, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for StreamUpload {
    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        let end = ending(self.size, &self.hash);
        let mut state = lock(&self.state);
        let written = state.frame(END, self.number, &end);
        written.map_err(failed(&self.name, "completing"))?;
        state.ended.insert(self.name.clone(), self.size);
        drop(state);
        self.is_done = true;
        Ok(())
    }
}

impl Drop for StreamUpload {
    fn drop(&mut self) {
        if !self.is_done {
            lock(&self.state).spoiled = true;
        }
    }
}

/// What the last frame of an object says.
fn ending(size: u64, hash: &blake3::Hasher) -> [u8; 40] {
    let mut end = [0; 40];
    end[..8].copy_from_slice(&size.to_le_bytes());
    end[8..].copy_from_slice(hash.finalize().as_bytes());
    end
}

/// What a stream brings next.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Begin {
        /// The number that its frames carry.
        number: u32,
        /// Its name, which fits every storage.
        name: &'a str,
    },
    /// Bytes of an object.
    Data { number: u32, bytes: &'a [u8] },
    /// An object has ended, and arrived as it was written.
    End { number: u32 },
}

struct Open {
    name: String,
    size: u64,
    hash: blake3::Hasher,
}

pub struct StreamReader<R> {
    input: R,
    open: BTreeMap<u32, Open>,
    begun: u32,
    sum: blake3::Hasher,
    is_whole: bool,
    content: Vec<u8>,
}

fn damaged(detail: impl Into<String>) -> RepositoryError {
    RepositoryError::Stream {
        detail: detail.into(),
    }
}

impl<R: Read> StreamReader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// It is not a stream of this program.
    pub fn begin(mut input: R) -> Result<Self, RepositoryError> {
        let mut magic = [0; MAGIC.len()];
        fill(&mut input, &mut magic)?;
        if magic != *MAGIC {
            let known = &MAGIC[..MAGIC.len() - 1];
            return Err(damaged(if magic.starts_with(known) {
                "a later version of refloat has written it"
            } else {
                "it is something else: `refloat backup --repo -` and `refloat backups export` write one"
            }));
        }
        Ok(Self {
            input,
            open: BTreeMap::new(),
            begun: 0,
            sum: blake3::Hasher::new(),
            is_whole: false,
            content: Vec::new(),
        })
    }

    /// What comes next. `None`: the stream has ended, and was whole.
    ///
    /// # Errors
    /// It cannot be read, was cut, or is damaged.
    pub fn next(&mut self) -> Result<Option<Piece<'_>>, RepositoryError> {
        if self.is_whole {
            return Ok(None);
        }
        let mut head = [0; HEAD];
        fill(&mut self.input, &mut head)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (number, length) = (word(1), word(5) as usize);
        if length > FRAME_MAX {
            return Err(damaged("a frame is too long"));
        }
        self.content.resize(length, 0);
        fill(&mut self.input, &mut self.content)?;
        if head[0] == WHOLE {
            return self.end(number).map(|()| None);
        }
        if head[0] != DATA {
            self.sum.update(&head);
            self.sum.update(&self.content);
        }
        match head[0] {
            BEGIN => {
                let name = std::str::from_utf8(&self.content).unwrap_or_default();
                let is_next = number == self.begun && self.open.len() < OPEN_MAX;
                if !is_next || check_name(URL, name).is_err() {
                    return Err(damaged("an object begins where none can"));
                }
                self.begun += 1;
                let open = Open {
                    name: name.to_owned(),
                    size: 0,
                    hash: blake3::Hasher::new(),
                };
                self.open.insert(number, open);
                Ok(Some(Piece::Begin { number, name }))
            }
            DATA => {
                let Some(open) = self.open.get_mut(&number) else {
                    return Err(damaged("bytes are of no object"));
                };
                open.size += length as u64;
                open.hash.update(&self.content);
                let bytes = &self.content;
                Ok(Some(Piece::Data { number, bytes }))
            }
            END => {
                let Some(open) = self.open.remove(&number) else {
                    return Err(damaged("an object ends that was not begun"));
                };
                if self.content != ending(open.size, &open.hash) {
                    return Err(damaged(format!("{} is not as it was written", open.name)));
                }
                Ok(Some(Piece::End { number }))
            }
            _ => Err(damaged("a frame is of an unknown kind")),
        }
    }

    fn end(&mut self, count: u32) -> Result<(), RepositoryError> {
        let is_all = self.open.is_empty() && count == self.begun;
        if !is_all || self.content != self.sum.finalize().as_bytes() {
            return Err(damaged("its last frame does not fit it"));
        }
        let mut more = [0];
        if self
            .input
            .read(&mut more)
            .map_err(|error| unreadable(&error))?
            > 0
        {
            return Err(damaged("something follows its end"));
        }
        self.is_whole = true;
        Ok(())
    }
}

fn fill(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), RepositoryError> {
    input.read_exact(bytes).map_err(|error| unreadable(&error))
}

fn unreadable(error: &io::Error) -> RepositoryError {
    match error.kind() {
        ErrorKind::UnexpectedEof => damaged("it ends early"),
        _ => damaged(format!("it cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use refloat_store::storage::{Existing, Storage, write_whole};

    use super::{Piece, StreamReader, StreamStorage};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The objects of a stream, if it is whole.
    fn read(stream: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
        let mut reader = StreamReader::begin(stream).ok()?;
        let (mut open, mut found) = (BTreeMap::new(), BTreeMap::new());
        while let Some(piece) = reader.next().ok()? {
            match piece {
                Piece::Begin { number, name } => {
                    open.insert(number, (name.to_owned(), Vec::new()));
                }
                Piece::Data { number, bytes } => {
                    open.get_mut(&number)?.1.extend_from_slice(bytes);
                }
                Piece::End { number } => {
                    let (name, content) = open.remove(&number)?;
                    found.insert(name, content);
                }
            }
        }
        Some(found)
    }

    #[test]
    fn a_stream_is_whole_or_refused() {
        let memory = Memory::default();
        let storage = StreamStorage::begin(Box::new(memory.clone())).unwrap();
        let mut one = storage.create("packs/1", Existing::Keep).unwrap();
        one.write_all(b"some").unwrap();
        write_whole(&storage, "a", b"text", Existing::Keep).unwrap();
        write_whole(&storage, "a", b"text", Existing::Keep).unwrap_err();
        one.write_all(b" more").unwrap();
        storage.finish().unwrap_err();
        one.finish().unwrap();
        write_whole(&storage, "empty", b"", Existing::Keep).unwrap();
        storage.finish().unwrap();
        let names: Vec<String> = storage
            .list("")
            .unwrap()
            .into_iter()
            .map(|o| o.name)
            .collect();
        assert_eq!(names, ["a", "empty", "packs/1"]);

        let stream = memory.0.lock().unwrap().clone();
        let found = read(&stream).unwrap();
        assert_eq!(found["packs/1"], b"some more");
        assert_eq!(found["a"], b"text");
        assert_eq!(found["empty"], b"");
        for at in 0..stream.len() {
            assert_eq!(read(&stream[..at]), None, "cut at {at}");
            let mut other = stream.clone();
            other[at] ^= 1;
            assert_eq!(read(&other), None, "damaged at {at}");
        }
        assert_eq!(read(&[&stream[..], b"\n"].concat()), None);
    }

    #[test]
    fn what_was_given_up_makes_no_whole_stream() {
        let begin = || StreamStorage::begin(Box::new(Memory::default())).unwrap();
        let storage = begin();
        drop(storage.create("a", Existing::Keep).unwrap());
        storage.finish().unwrap_err();
        let storage = begin();
        write_whole(&storage, "a", b"text", Existing::Keep).unwrap();
        storage.delete("b").unwrap();
        storage.delete("a").unwrap();
        storage.finish().unwrap_err();
    }
}
