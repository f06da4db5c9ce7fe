//! Everything that a load can read: single files, folders, archives and streams.
//!
//! A source is laid out before anything is loaded: [`layout::Layout`] lists its files, the order in
//! which they are read, the purpose of each, and what is missing. The loader follows the layout and
//! knows nothing about the tools that wrote it.

pub mod archive;
pub mod blocks;
pub mod cutter;
pub mod delimited;
mod detect;
mod error;
pub mod folder;
#[doc(hidden)]
pub mod fuzzing;
pub mod infile;
mod inspect;
pub mod items;
pub mod layout;
pub mod manifest;
mod mydumper;
pub mod namesake;
pub mod native;
mod options;
pub mod script;
mod shell;
pub mod stray;
pub mod stream;
mod tab;
pub mod tsv;
pub mod tuples;

pub use archive::SCRATCH_DEFAULT;
pub use detect::open_folder;
pub use error::SourceError;
pub use inspect::{InspectedTable, Inspection, inspect};
pub use layout::{Layout, SourceFormat};
pub use native::read as read_manifest;
pub use options::DelimitedOptions;
