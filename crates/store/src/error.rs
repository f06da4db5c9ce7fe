//! What can be wrong with a source.

use std::io;

use crate::Compression;

/// Why a source could not be opened, read, or proven complete.
///
/// `name` is the path as it was given (or `standard input`); `at` is a position in the **raw** source, in bytes,
/// so in the compressed file when there is one.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Its bytes are not those that were written.
    #[error("{name}: its checksum is not the one that was written down: it was changed or damaged")]
    Checksum {
        /// The source.
        name: String,
    },
    /// There is no such file.
    #[error("{name}: no such file")]
    NotFound {
        /// The source.
        name: String,
    },
    /// The path is a directory.
    #[error("{name}: is a directory, not a dump file")]
    IsDirectory {
        /// The source.
        name: String,
    },
    /// The file may not be read by this user.
    #[error("{name}: permission denied")]
    Permission {
        /// The source.
        name: String,
    },
    /// The source holds not a single byte.
    #[error("{name}: is empty")]
    Empty {
        /// The source.
        name: String,
    },
    /// The source ends before its end mark: it was cut off.
    #[error("{name}: truncated: the {} ends at byte {at} before it is complete", what(*.compression))]
    Truncated {
        /// The source.
        name: String,
        /// How it is compressed.
        compression: Compression,
        /// Bytes read before the end, in the raw source.
        at: u64,
    },
    /// A checksum does not fit or the compressed form is broken.
    #[error("{name}: corrupt {} near byte {at}: {detail}", what(*.compression))]
    Corrupt {
        /// The source.
        name: String,
        /// How it is compressed.
        compression: Compression,
        /// Where reading had come to, in the raw source.
        at: u64,
        /// What the decoder said.
        detail: String,
    },
    /// After a complete compressed stream something else follows.
    #[error("{name}: the {} is complete at byte {at}, but something that is no {compression} follows", what(*.compression))]
    TrailingGarbage {
        /// The source.
        name: String,
        /// How it is compressed.
        compression: Compression,
        /// Where the foreign bytes begin, in the raw source.
        at: u64,
    },
    /// Decompression would need more memory than is allowed.
    #[error("{name}: the {} needs more memory to decompress than the {limit} bytes that are allowed", what(*.compression))]
    TooMuchMemory {
        /// The source.
        name: String,
        /// How it is compressed.
        compression: Compression,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The name promises a compressed file, but the first bytes are neither that nor text.
    #[error(
        "{name}: its name says {expected}, its first bytes say neither that nor text: damaged?"
    )]
    NotWhatItsNameSays {
        /// The source.
        name: String,
        /// The compression that the name promises.
        expected: Compression,
    },
    /// The operating system could not read.
    #[error("{name}: reading at byte {at}: {source}")]
    Read {
        /// The source.
        name: String,
        /// Where reading had come to, in the raw source.
        at: u64,
        /// The system's words.
        source: io::Error,
    },
    /// Reading was cancelled through the flag given to [`crate::Input::cancel_flag`].
    #[error("{name}: reading was cancelled")]
    Cancelled {
        /// The source.
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
    /// Sorts an error from opening or reading a path.
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
