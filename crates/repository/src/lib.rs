//! Backups on a storage, in blocks that they share.
//!
//! A [`Repository`] is on any [`Storage`](refloat_store::storage::Storage). A backup is a set of
//! files with a description; the crate does not know what they hold. Each file is cut into blocks
//! of up to [`BLOCK`] bytes, which are hashed, compressed, encrypted if the repository is, and
//! written into packs. A block that an earlier backup has is not written again, so every backup is
//! whole and costs what has changed. The format and the reasons are in `docs/design/repository.md`.
//!
//! A backup exists once its manifest does, which is written last. Each block is checked by its hash
//! before a byte of it is used.
//!
//! Start with [`Repository`], [`BackupWriter`], [`Manifest`], [`fetch`].

mod age;
mod block;
mod carry;
mod catalogue;
mod error;
mod fetch;
mod files;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod journal;
mod keys;
mod known;
mod manifest;
mod mounted;
mod pack;
mod presence;
mod recipients;
mod repository;
mod retention;
mod seal;
mod stream;
mod sweep;
mod writer;

pub use age::{Identity, Recipient};
pub use block::{BLOCK, Hash, LEVEL, is_hole};
pub use carry::{Imported, export, import};
pub use catalogue::{LATEST, server_label, usual_label};
pub use error::RepositoryError;
pub use fetch::{Sink, fetch};
pub use folder::FolderWriter;
pub use journal::{Journal, JournalFile, JournalReader, Piece};
pub use keys::Access;
pub use manifest::{Extent, FileEntry, Manifest, PackInfo};
pub use mounted::mount;
pub use recipients::recipients;
pub use repository::{Damaged, Repository};
pub use retention::superfluous;
pub use seal::Key;
pub use stream::StreamStorage;
pub use sweep::{Swept, sweep};
pub use writer::{BackupWriter, FileId, Totals};
