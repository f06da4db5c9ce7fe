//! Reads and writes xbstream, the container in which mariadb-backup and xtrabackup send the files
//! of a backup through a pipe.
//!
//! A stream is a sequence of chunks. Each belongs to a file and carries a piece of it, or says what
//! becomes of it; chunks of many files are mixed. The format has no trailer: a stream that was cut
//! between two chunks looks like a whole one, and the tools' own extractors take it for one. So
//! [`Reader`] keeps a [`Catalogue`] of what was sent, and returns the end of the stream only when
//! every file in it has ended. Files that come last can still be missing altogether: whoever knows
//! what a backup ends with looks for it in the catalogue.
//!
//! Nothing in a stream is trusted: paths stay below the folder that they are extracted into,
//! lengths are bounded, and every piece matches its checksum.
//!
//! The two families of tools use the same bytes for different things, and no stream says which one
//! wrote it: see [`Dialect`].
//!
//! This crate knows nothing of compression, files on disk or servers. It must not: what is
//! extracted where is for others to decide.
//!
//! Start with [`Reader`], [`Operation`] and [`Writer`].
//!
//! # Speed
//!
//! One core reads 7.5 GB/s from memory, checksums included, and writes 5.7 GB/s
//! (`examples/speed.rs`, two cores of an EPYC, 2026-11-28). From a pipe of 64 KiB, with its writer
//! on the other core, it reads 0.9 GB/s: the pipe is the limit.
//!
//! # Format
//!
//! | Part | Bytes |
//! |---|---|
//! | magic `XBSTCK01` | 8 |
//! | flags: 0x01 may be ignored, 0x02 see [`Dialect`] | 1 |
//! | type | 1 |
//! | length of the path | 4 |
//! | path | |
//! | what the type adds | |
//!
//! Numbers are little-endian. Type `P` adds a piece of the file: length (8 bytes), offset in the
//! file (8), CRC-32 (4), bytes. Type `E` ends the file and adds nothing. A type that a reader does
//! not know is laid out like `P`.
//!
//! | Type | `MariaDB` | Percona |
//! |---|---|---|
//! | `S` | the next piece goes to this offset (8) | pieces and holes: number of pairs (4), length (8), offset (8), CRC-32 of pairs and bytes (4), pairs of skip (4) and length (4), bytes |
//! | `R` | the file gets this name: length (4), new path | |
//! | `D` | the file goes | |
//!
//! Sources, read and not copied: `MariaDB/server`, `extra/mariabackup`: `xbstream_write.cc`
//! (`xb_stream_write_chunk`, `_seek_set`, `_rename`, `_remove`, `_eof`), `xbstream_read.cc`
//! (`xb_stream_read_chunk`), `ddl_log.cc` (when `R`, `D` and rewritten files are sent),
//! `aria_backup_client.cc` (`copy_log_tail`: when `S` is). `percona/percona-xtrabackup`,
//! `storage/innobase/xtrabackup`: `src/xbstream.cc` (`extract_worker_thread_func`), and the page on
//! the format in its documentation.

mod catalogue;
mod chunk;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod operation;
mod path;
mod reader;
mod writer;

pub use catalogue::Catalogue;
pub use chunk::CHUNK_LIMIT;
pub use error::{Error, Problem};
pub use operation::{Dialect, Ignored, Operation, Run};
pub use path::{BadPath, PATH_LIMIT};
pub use reader::Reader;
pub use writer::Writer;
