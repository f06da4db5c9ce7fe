//! Reads a server at one moment: what it holds, how it is defined, and its rows, in parallel.
//!
//! [`moment`](moment::moment) opens a snapshot on several connections and lists what was selected,
//! as the snapshot sees it; tables are cut into [`ranges`]. The crate writes nothing, neither to
//! the server nor to a file, and does not know what becomes of the rows.
//!
//! Start with [`ReadOptions`] (what can be selected), [`moment::moment`] (the recipe) and
//! [`catalog::Table`].

pub mod catalog;
pub mod columns;
mod error;
pub mod foreign;
pub mod identity;
pub mod jobs;
pub mod moment;
mod options;
mod outside_dumps;
mod privileges;
pub mod ranges;
pub mod session;
pub mod snapshot;
pub mod strip;
pub mod unchanged;

pub use error::ReadError;
pub use options::{Consistency, Kind, ReadOptions};
