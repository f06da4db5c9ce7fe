//! Where bytes come from, and where they go to: local files and standard input, plain or compressed; a folder that is written.
//!
//! This room opens a source, finds out by its first bytes how it is compressed, decompresses it in a thread of its
//! own, ahead of the reader, and hands out blocks. Its one promise: the end is *proven*. A source that stops in
//! the middle, or whose checksum does not fit, is an error even when every byte so far was good. It must not know
//! what is inside the bytes, beyond telling a person what a file seems to be when it is no dump, and it must not
//! hold more than a few blocks in memory, whatever the source claims about its size.
//!
//! A tar archive is unpacked into a scratch folder, which goes away with the value that stands for it.
//!
//! A folder that is written has each file as a whole, with its size and checksum, and is on the disk before its last file appears.
//!
//! Read first: [`Input`], [`InputError`], [`LooksLike`], [`Folder`].

mod archive;
mod checksum;
mod decode;
mod error;
mod folder;
mod input;
mod pump;
mod raw;
mod sniff;
mod tail;

pub use archive::{ArchiveError, Unpacked, unpack};
pub use checksum::file_checksum;
pub use decode::Compression;
pub use error::InputError;
pub use folder::{Folder, FolderError, NewFile, Written};
pub use input::{Input, OpenOptions};
pub use sniff::{LooksLike, looks_like};
pub use tail::tail;
