//! Reads sources (local files and standard input, plain or compressed) and writes folders.
//!
//! Reading opens a source, detects the compression from its first bytes, decompresses in a thread
//! ahead of the reader, and returns blocks. It makes one promise: the end is *proven*. A source
//! that stops in the middle, or whose checksum does not match, is an error even when every byte so
//! far was good. This crate knows nothing of the contents, except to tell a user what a file that
//! is not a dump looks like. It holds no more than a few blocks in memory, whatever size the source
//! claims.
//!
//! A tar archive is unpacked into a scratch folder, which is removed when the value that owns it is
//! dropped.
//!
//! Writing a folder yields the size and checksum of each file. All files are on disk before the
//! last one appears.
//!
//! A dump on a storage or in a backup is mounted ([`files`]): it then has paths as local ones have.
//!
//! Start with [`Input`], [`InputError`], [`LooksLike`], [`Folder`].

mod archive;
mod checksum;
mod decode;
mod error;
pub mod files;
mod folder;
mod input;
mod pump;
mod raw;
mod sniff;
pub mod storage;
mod tail;

pub use archive::{ArchiveError, Unpacked, unpack};
pub use checksum::file_checksum;
pub use decode::Compression;
pub use error::InputError;
pub use folder::{Folder, FolderError, FolderSink, NewFile, Written};
pub use input::{Input, OpenOptions};
pub use sniff::{LooksLike, looks_like};
pub use tail::tail;
