//! Errors of reading a source.

use std::io;

use crate::Compression;

/// Why a source could not be opened, read, or proven complete.
///
/// `name` is the path as given, or `standard input`. `at` is a byte position in the **raw** source:
/// in the compressed file if there is one.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The source's bytes are not those that were written.
    #[error(
        "{name}: its checksum differs from the one that was recorded: it was changed or damaged"
    )]
    Checksum {
        /// Path as given, or `standard input`.
        name: String,
    },
    /// There is no such file.
    #[error("{name}: no such file")]
    NotFound {
        /// Path as given, or `standard input`.
        name: String,
    },
    /// The path is a directory.
    #[error("{name}: is a directory, not a dump file")]
    IsDirectory {
        /// Path as given, or `standard input`.
        name: String,
    },
    /// This user may not read the file.
    #[error("{name}: permission denied")]
    Permission {
        /// Path as given, or `standard input`.
        name: String,
    },
    /// The source is zero bytes long.
    #[error("{name}: is empty")]
    Empty {
        /// Path as given, or `standard input`.
        name: String,
    },
    /// The source ends before its end mark.
    #[error("{name}: truncated: the {} ends at byte {at} before it is complete", what(*.compression))]
    Truncated {
        /// Path as given, or `standard input`.
        name: String,
        /// Compression that the first bytes show.
        compression: Compression,
        /// Length of the raw source, in bytes.
        at: u64,
    },
    /// A checksum does not match, or the compressed data is malformed.
    #[error("{name}: corrupt {} near byte {at}: {detail}", what(*.compression))]
    Corrupt {
        /// Path as given, or `standard input`.
        name: String,
        /// Compression that the first bytes show.
        compression: Compression,
        /// Read position in the raw source.
        at: u64,
        /// The decoder's message.
        detail: String,
    },
    /// Other data follows a complete compressed stream.
    #[error("{name}: the {} is complete at byte {at}, but something that is not {compression} follows", what(*.compression))]
    TrailingGarbage {
        /// Path as given, or `standard input`.
        name: String,
        /// Compression that the first bytes show.
        compression: Compression,
        /// Start of the other data, in the raw source.
        at: u64,
    },
    /// Decompression would exceed the memory limit.
    #[error("{name}: the {} needs more memory to decompress than the {limit} bytes that are allowed", what(*.compression))]
    TooMuchMemory {
        /// Path as given, or `standard input`.
        name: String,
        /// Compression that the first bytes show.
        compression: Compression,
        /// The memory that is allowed, in bytes.
        limit: u64,
    },
    /// The file name implies compression, but the first bytes are neither that format nor text.
    #[error(
        "{name}: its name says {expected}, its first bytes say neither that nor text: damaged?"
    )]
    NotWhatItsNameSays {
        /// Path as given, or `standard input`.
        name: String,
        /// The compression that the name implies.
        expected: Compression,
    },
    /// The operating system failed to read.
    #[error("{name}: reading at byte {at}: {source}")]
    Read {
        /// Path as given, or `standard input`.
        name: String,
        /// Read position in the raw source.
        at: u64,
        /// The system's error.
        source: io::Error,
    },
    /// Reading was cancelled through the flag given to [`crate::Input::cancel_flag`].
    #[error("{name}: reading was cancelled")]
    Cancelled {
        /// Path as given, or `standard input`.
        name: String,
    },
}

/// The noun for messages.
fn what(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "file",
        Compression::Gzip => "gzip stream",
        Compression::Zstd => "zstd stream",
        Compression::Xz => "xz stream",
        Compression::Bzip2 => "bzip2 stream",
    }
}

impl InputError {
    /// Converts an error from opening or reading a path.
    pub(crate) fn from_io(name: &str, at: u64, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { name },
            io::ErrorKind::PermissionDenied => Self::Permission { name },
            io::ErrorKind::IsADirectory => Self::IsDirectory { name },
            _ => Self::Read { name, at, source },
        }
    }
}
