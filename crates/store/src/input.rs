//! Reads a dump source: a file, standard input, or text in memory.

use std::fs::File;
use std::io::Seek;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use twox_hash::XxHash3_128;

use crate::decode::{Compression, DecodeFailure, Decoder};
use crate::files::{self, OpenFile};
use crate::pump::{Block, Next, Pump};
use crate::raw::RawReader;
use crate::{InputError, LooksLike, looks_like};

/// Bytes read to detect the compression and guess the content.
const HEAD: usize = 4096;
/// Bytes that suffice to detect the compression, so that a slow pipe does not wait for more.
const MAGIC: usize = 6;

/// Options for opening a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Memory that a compressed stream may request for its window or dictionary, in bytes. 128 MiB
    /// covers `zstd --long` (27) and `xz -9`; `zstd --long=31` needs 2 GiB and must be allowed.
    pub memory_limit: u64,
    /// Computes [`Input::checksum`] while reading.
    pub checksum: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            memory_limit: 128 << 20,
            checksum: false,
        }
    }
}

/// A dump source being read: decompressed blocks in order, and a proven end.
///
/// Plain regular files of this machine are read directly. A thread reads everything else
/// (compressed and mounted files, pipes, standard input) ahead of the reader; dropping the `Input`
/// never waits for that thread.
pub struct Input {
    name: String,
    path: Option<PathBuf>,
    compression: Compression,
    total: Option<u64>,
    position: Arc<AtomicU64>,
    cancel: Option<Arc<AtomicBool>>,
    memory_limit: u64,
    source: Source,
    /// Bytes that were peeked at and not yet returned.
    peeked: Vec<u8>,
    /// How far the raw source had been read when `peeked` was filled.
    peeked_raw: u64,
    /// Set once the end or a fault was reported; either is final.
    ended: bool,
    hash: Option<Arc<Mutex<XxHash3_128>>>,
}

enum Source {
    Direct(RawReader),
    Memory {
        text: Arc<[u8]>,
        at: usize,
    },
    Pumped {
        pump: Pump,
        block: Vec<u8>,
        at: usize,
    },
}

impl Input {
    /// Opens a file, or standard input when the path is `-`, with the default limits.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// Opens a file, or standard input when the path is `-`.
    pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Self, InputError> {
        if path.as_os_str() == "-" {
            return Self::stdin_with(options);
        }
        let name = path.display().to_string();
        let file = files::open(path, 0).map_err(|e| InputError::from_io(&name, 0, e))?;
        Self::from_file(name, Some(path), file, options)
    }

    /// Reads standard input.
    pub fn stdin() -> Result<Self, InputError> {
        Self::stdin_with(&OpenOptions::default())
    }

    /// Reads text already in memory as if it were a plain file; messages refer to it by `name`.
    pub fn from_text(name: &str, text: Arc<[u8]>) -> Self {
        Self {
            name: name.to_owned(),
            path: None,
            compression: Compression::None,
            total: Some(text.len() as u64),
            position: Arc::default(),
            cancel: None,
            memory_limit: OpenOptions::default().memory_limit,
            source: Source::Memory { text, at: 0 },
            peeked: Vec::new(),
            peeked_raw: 0,
            ended: false,
            hash: None,
        }
    }

    fn stdin_with(options: &OpenOptions) -> Result<Self, InputError> {
        let name = "standard input".to_owned();
        let fd = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|e| InputError::from_io(&name, 0, e))?;
        Self::from_file(name, None, OpenFile::Here(File::from(fd)), options)
    }

    fn from_file(
        name: String,
        path: Option<&Path>,
        file: OpenFile,
        options: &OpenOptions,
    ) -> Result<Self, InputError> {
        let sort = |e| InputError::from_io(&name, 0, e);
        let total = match &file {
            OpenFile::Mounted(_, bytes) => Some(*bytes),
            OpenFile::Here(file) => {
                let meta = file.metadata().map_err(sort)?;
                if meta.is_dir() {
                    return Err(InputError::IsDirectory { name });
                }
                // Standard input redirected from a file may start at any offset.
                let start = |mut file: &File| file.stream_position().map_err(sort);
                let left = meta.is_file().then(|| start(file)).transpose()?;
                left.map(|start| meta.len().saturating_sub(start))
            }
        };
        let regular = total.is_some();
        let here = matches!(file, OpenFile::Here(_));
        let mut raw = RawReader::new(file);
        let hash = options.checksum.then(Arc::default);
        if let Some(hash) = &hash {
            raw.hash_into(Arc::clone(hash));
        }
        let head = raw.peek(if regular { HEAD } else { MAGIC }).map_err(sort)?;
        if head.is_empty() {
            return Err(InputError::Empty { name });
        }
        let compression = Compression::detect(head);
        let expected = Compression::from_name(&name);
        if compression == Compression::None
            && expected != Compression::None
            && !looks_like(head).is_text()
        {
            return Err(InputError::NotWhatItsNameSays { name, expected });
        }
        // What comes from elsewhere is fetched ahead of the reader, plain or not.
        let source = if regular && here && compression == Compression::None {
            Source::Direct(raw)
        } else {
            let decoder = Decoder::new(raw, compression, options.memory_limit)
                .map_err(|f| sorted(&name, compression, options.memory_limit, f, 0))?;
            let pump = Pump::start(decoder).map_err(sort)?;
            Source::Pumped {
                pump,
                block: Vec::new(),
                at: 0,
            }
        };
        Ok(Self {
            name,
            path: path.filter(|_| regular).map(Path::to_owned),
            compression,
            total,
            position: Arc::default(),
            cancel: None,
            memory_limit: options.memory_limit,
            source,
            peeked: Vec::new(),
            peeked_raw: 0,
            ended: false,
            hash,
        })
    }

    /// The path as given, or `standard input`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compression of the source, from its first bytes.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The compression that the name implies, when the content differs. Not an error, but worth a
    /// message.
    pub fn name_mismatch(&self) -> Option<Compression> {
        let expected = Compression::from_name(&self.name);
        (expected != Compression::None && expected != self.compression).then_some(expected)
    }

    /// Size of the raw source in bytes; `None` unless it is a regular file or text in memory.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total
    }

    /// Raw bytes behind everything returned so far, out of [`Input::total_bytes`]. Any thread may
    /// read it.
    pub fn raw_position(&self) -> &Arc<AtomicU64> {
        &self.position
    }

    /// XXH3-128 of the raw bytes read so far, in 32 hexadecimal digits; at the end, of the whole
    /// source. `None` unless [`OpenOptions::checksum`] is set.
    pub fn checksum(&self) -> Option<String> {
        let hash = self.hash.as_ref()?;
        let hash = hash.lock().unwrap_or_else(PoisonError::into_inner);
        Some(format!("{:032x}", hash.finish_128()))
    }

    /// Whether the source can be opened again from its start.
    pub fn rewindable(&self) -> bool {
        self.path.is_some()
    }

    /// A handle to the file being read, for reads at other offsets. `None` unless it is a plain
    /// file of this machine that was opened by name. It stays the same file even if another one
    /// takes over its name.
    pub fn plain_file(&self) -> Result<Option<File>, InputError> {
        match &self.source {
            Source::Direct(raw) if self.path.is_some() => raw
                .file()
                .map(File::try_clone)
                .transpose()
                .map_err(|e| InputError::from_io(&self.name, 0, e)),
            _ => Ok(None),
        }
    }

    /// Opens the same source again from its start; `None` where that is impossible.
    pub fn reopen(&self) -> Result<Option<Self>, InputError> {
        let options = OpenOptions {
            memory_limit: self.memory_limit,
            checksum: self.hash.is_some(),
        };
        let again = self.path.as_deref().map(|p| Self::open_with(p, &options));
        let mut again = again.transpose()?;
        if let Some(input) = again.as_mut() {
            input.cancel.clone_from(&self.cancel);
        }
        Ok(again)
    }

    /// Once this flag is set, a waiting [`Input::read_block`] returns [`InputError::Cancelled`]
    /// within a tenth of a second, even if standard input is silent.
    pub fn cancel_flag(&mut self, flag: Arc<AtomicBool>) {
        self.cancel = Some(flag);
    }

    /// Returns the first `want` decompressed bytes (fewer when the source is shorter) without
    /// consuming them.
    pub fn peek(&mut self, want: usize) -> Result<&[u8], InputError> {
        let mut peeked = std::mem::take(&mut self.peeked);
        while peeked.len() < want {
            let missing = want - peeked.len();
            match self.fetch(&mut peeked, missing) {
                Ok((0, _)) => break,
                Ok((_, raw)) => self.peeked_raw = raw,
                Err(e) => {
                    self.peeked = peeked;
                    return Err(e);
                }
            }
        }
        self.peeked = peeked;
        Ok(&self.peeked[..want.min(self.peeked.len())])
    }

    /// Guesses the type of the content from its first decompressed bytes.
    pub fn content(&mut self) -> Result<LooksLike, InputError> {
        Ok(looks_like(self.peek(HEAD)?))
    }

    /// Appends up to `want` decompressed bytes to `buf` and returns their number.
    ///
    /// Fewer than `want` means nothing. 0 (for `want` > 0) is the proven end: a compressed stream
    /// reached its trailer, its checksum matched and nothing follows; a plain file was as long as
    /// when it was opened.
    pub fn read_block(&mut self, buf: &mut Vec<u8>, want: usize) -> Result<usize, InputError> {
        if want == 0 {
            return Ok(0);
        }
        if !self.peeked.is_empty() {
            let n = want.min(self.peeked.len());
            buf.extend_from_slice(&self.peeked[..n]);
            self.peeked.drain(..n);
            if self.peeked.is_empty() {
                self.position.store(self.peeked_raw, Ordering::Relaxed);
            }
            return Ok(n);
        }
        let (n, raw) = self.fetch(buf, want)?;
        self.position.store(raw, Ordering::Relaxed);
        Ok(n)
    }

    /// Reads further; returns the number of bytes appended and the raw position after them.
    fn fetch(&mut self, buf: &mut Vec<u8>, want: usize) -> Result<(usize, u64), InputError> {
        if self
            .cancel
            .as_ref()
            .is_some_and(|c| c.load(Ordering::Relaxed))
        {
            return Err(InputError::Cancelled {
                name: self.name.clone(),
            });
        }
        let position = self.position.load(Ordering::Relaxed).max(self.peeked_raw);
        if self.ended {
            return Ok((0, position));
        }
        match &mut self.source {
            Source::Direct(raw) => {
                let old = buf.len();
                buf.resize(old + want, 0);
                let result = raw.read_direct(&mut buf[old..]);
                buf.truncate(old + *result.as_ref().unwrap_or(&0));
                let at = raw.consumed();
                let n = result.map_err(|e| InputError::from_io(&self.name, at, e))?;
                if n == 0 {
                    if self.total.is_some_and(|total| at < total) {
                        return Err(InputError::Truncated {
                            name: self.name.clone(),
                            compression: self.compression,
                            at,
                        });
                    }
                    self.ended = true;
                }
                Ok((n, at))
            }
            Source::Memory { text, at } => {
                let n = want.min(text.len() - *at);
                buf.extend_from_slice(&text[*at..*at + n]);
                *at += n;
                self.ended = n == 0;
                Ok((n, *at as u64))
            }
            Source::Pumped { pump, block, at } => {
                let mut raw_end = position;
                if *at == block.len() {
                    pump.recycle(std::mem::take(block));
                    *at = 0;
                    match pump.next(self.cancel.as_ref()) {
                        Next::Block(Block { bytes, raw_end: r }) => {
                            *block = bytes;
                            raw_end = r;
                        }
                        Next::End => {
                            self.ended = true;
                            return Ok((0, self.total.unwrap_or(position)));
                        }
                        Next::Cancelled => {
                            return Err(InputError::Cancelled {
                                name: self.name.clone(),
                            });
                        }
                        Next::Failed(stopped) => {
                            return Err(sorted(
                                &self.name,
                                self.compression,
                                self.memory_limit,
                                stopped.failure,
                                stopped.at,
                            ));
                        }
                    }
                }
                let n = want.min(block.len() - *at);
                buf.extend_from_slice(&block[*at..*at + n]);
                *at += n;
                Ok((n, raw_end))
            }
        }
    }
}

/// Adds the source's name and position to a decoder's failure.
fn sorted(
    name: &str,
    compression: Compression,
    limit: u64,
    failure: DecodeFailure,
    at: u64,
) -> InputError {
    let name = name.to_owned();
    match failure {
        DecodeFailure::Truncated => InputError::Truncated {
            name,
            compression,
            at,
        },
        DecodeFailure::Corrupt(detail) => InputError::Corrupt {
            name,
            compression,
            at,
            detail,
        },
        DecodeFailure::Garbage => InputError::TrailingGarbage {
            name,
            compression,
            at,
        },
        DecodeFailure::Memory => InputError::TooMuchMemory {
            name,
            compression,
            limit,
        },
        DecodeFailure::Read(e) => InputError::from_io(&name, at, e),
    }
}
