//! What servers and dumps say of databases, tables and accounts, as text that is read without a server.
//!
//! Definitions are compared ([`definition`]), names are matched ([`pattern`]), accounts are taken apart ([`accounts`]). The room
//! opens no connection, and reads and writes no file; of the wire it knows only which vendor and version a server is.
//!
//! Read first: [`definition::differences`], which says in what the server's table is another one than the dump asked for;
//! [`pattern::matches_any`]; [`Difference`].

pub mod accounts;
pub mod columns;
pub mod definition;
#[doc(hidden)]
pub mod fuzzing;
pub mod members;
pub mod pattern;
pub mod shown;

use serde::Serialize;

/// One difference between what was expected and what is there.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// What differs: a table, an object.
    pub about: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}
