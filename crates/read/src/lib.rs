//! A server at one moment: what is there, how it is defined, and how its rows are read in parallel.
//!
//! [`moment`](moment::moment) opens a snapshot on several connections and lists everything that is asked for as it is in it; tables are
//! cut into [`ranges`]. The room writes nothing, neither to the server nor to a file, and does not know what becomes of the rows.
//!
//! Read first: [`ReadOptions`] (what can be asked for), [`moment::moment`] (the recipe) and [`catalog::Table`].

mod beyond;
pub mod catalog;
pub mod columns;
mod error;
pub mod foreign;
pub mod identity;
pub mod jobs;
pub mod moment;
mod options;
mod privileges;
pub mod ranges;
pub mod session;
pub mod snapshot;
pub mod strip;
pub mod unchanged;

pub use error::ReadError;
pub use options::{Consistency, Kind, ReadOptions};
