//! Digests of rows, and what the literals of a dump stand for.
//!
//! [`literals`] turns the rows of a dump into what the columns of a server would hold, [`cells`]
//! normalises a value so that both sides write it as the same bytes, and [`rows`] hashes the rows
//! and adds up their hashes. No code that writes rows to a server or to a dump is used here, so
//! that a bug there cannot hide itself from the proof.

pub mod cells;
pub mod literals;
pub mod rows;
