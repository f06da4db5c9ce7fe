//! Reads what servers and dumps say about databases, tables and accounts, as text and without a
//! server.
//!
//! Definitions are compared ([`definition`]), names are matched ([`pattern`]), accounts are taken
//! apart ([`accounts`]). This crate opens no connections and touches no files. All it knows of the
//! wire is the vendor and version of a server.
//!
//! Read first: [`definition::differences`], which reports how the server's table differs from what
//! the dump asked for; [`pattern::matches_any`]; [`Difference`].

pub mod accounts;
pub mod columns;
pub mod definition;
pub mod display;
#[doc(hidden)]
pub mod fuzzing;
pub mod members;
pub mod pattern;

use serde::Serialize;

/// A difference between what was expected and what was found.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// What differs, such as a table or another object.
    pub about: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}
