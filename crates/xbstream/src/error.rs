//! What can be wrong with a stream.

use std::fmt;
use std::io;

use crate::{BadPath, Dialect};

/// Why a stream could not be read to its end, or written.
#[derive(Debug)]
pub struct Error {
    /// Where in the stream, in bytes: the beginning of the chunk, or the end of the stream.
    pub at: u64,
    /// Path of the file that the chunk belongs to, with special bytes escaped. None if the chunk
    /// ends before it, or if the stream as a whole is meant.
    pub path: Option<String>,
    /// What is wrong there.
    pub problem: Problem,
}

impl Error {
    pub(crate) fn new(at: u64, path: &[u8], problem: Problem) -> Self {
        let path = Some(path.escape_ascii().to_string());
        Self { at, path, problem }
    }

    pub(crate) fn without_path(at: u64, problem: Problem) -> Self {
        let path = None;
        Self { at, path, problem }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xbstream, byte {}", self.at)?;
        if let Some(path) = &self.path {
            write!(f, ", file {path}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// What can be wrong with a stream.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Reading or writing failed. The cause is the source of the [`Error`].
    #[error("reading or writing fails")]
    Io(io::Error),
    /// The stream has no chunk at all.
    #[error("the stream is empty")]
    Empty,
    /// The stream ends inside a chunk.
    #[error("the stream ends inside a chunk")]
    Cut,
    /// The stream ends, and files in it have not. The path is the first one's.
    #[error("the stream ends, and {count} of its files did not")]
    NotEnded {
        /// Number of files that did not end.
        count: usize,
    },
    /// No chunk begins here.
    #[error("no chunk begins here: magic bytes are missing")]
    Magic,
    /// The type of the chunk is unknown and it may not be ignored.
    #[error("unknown type of chunk {kind:#04x}")]
    UnknownType {
        /// The type's byte.
        kind: u8,
    },
    /// The chunk has flags whose meaning is unknown.
    #[error("unknown flags of a chunk {flags:#04x}")]
    UnknownFlags {
        /// All of the chunk's flags.
        flags: u8,
    },
    /// The path is not one of a file below the folder that is extracted into.
    #[error("the path is refused: {0}")]
    Path(BadPath),
    /// The piece is longer than [`crate::CHUNK_LIMIT`].
    #[error("a piece of {length} bytes is too long")]
    TooLong {
        /// Its length, in bytes, with the map of holes.
        length: u64,
    },
    /// The piece would reach beyond the largest file.
    #[error("an offset of {offset} is too large")]
    TooFar {
        /// Offset in the file, in bytes.
        offset: u64,
    },
    /// The bytes of the piece are not those that were written.
    #[error("checksum {found:#010x} in place of {expected:#010x}: the piece is damaged")]
    Checksum {
        /// The one that the chunk names.
        expected: u32,
        /// The one of the bytes.
        found: u32,
    },
    /// The map of holes does not fit the bytes.
    #[error("a map of holes places {mapped} bytes, and there are {length}")]
    Map {
        /// Bytes that the map places.
        mapped: u64,
        /// Bytes of the piece.
        length: u64,
    },
    /// A piece does not begin where the one before it ended.
    #[error("a piece is for offset {found}, and {expected} is next")]
    Offset {
        /// Where it has to begin, in bytes.
        expected: u64,
        /// Where it says that it begins.
        found: u64,
    },
    /// The file has ended, and comes again.
    #[error("the file comes a second time")]
    Twice,
    /// The path is a file's and a folder's.
    #[error("the path is a file's and a folder's")]
    FileAndFolder,
    /// Some pieces of the file replace an older copy, and some do not.
    #[error("only some pieces of the file replace an older copy")]
    Mixed,
    /// The file is removed, renamed or replaced before it has ended.
    #[error("the file has not ended, and is renamed, replaced or removed")]
    NotYet,
    /// Written only: the file was not begun.
    #[error("the file has not begun")]
    NotBegun,
    /// Written only: the dialect cannot say this.
    #[error("streams of {0} cannot say this")]
    Dialect(Dialect),
    /// A call after one that failed.
    #[error("the stream failed before")]
    Failed,
}
