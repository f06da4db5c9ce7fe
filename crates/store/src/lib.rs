//! Where bytes come from: local files and standard input, plain or compressed.
//!
//! This room opens a source, finds out by its first bytes how it is compressed, decompresses it in a thread of its
//! own, ahead of the reader, and hands out blocks. Its one promise: the end is *proven*. A source that stops in
//! the middle, or whose checksum does not fit, is an error even when every byte so far was good. It must not know
//! what is inside the bytes, beyond telling a person what a file seems to be when it is no dump, and it must not
//! hold more than a few blocks in memory, whatever the source claims about its size.
//!
//! Read first: [`Input`], [`InputError`], [`LooksLike`].

mod decode;
mod error;
mod input;
mod pump;
mod raw;
mod sniff;
mod tail;

pub use decode::Compression;
pub use error::InputError;
pub use input::{Input, OpenOptions};
pub use sniff::{LooksLike, looks_like};
pub use tail::tail;
