//! Logical jobs: what moves rows and definitions as SQL.
//!
//! This room turns the text of a dump into rows in a server ([`load`]), a server into a dump ([`dump`]) or
//! another server ([`copy`]), and says whether two
//! of them hold the same ([`verify`]). It knows how to do that in parallel without changing the result that the stock client
//! would have produced, and it proves the result at the end. It must not print, read the environment or know about terminals:
//! it emits [`refloat_run::events`] and returns values.
//!
//! Read first: [`load::LoadOptions`] (what can be asked for), [`load::load`] (the recipe) and [`load::LoadOutcome`]
//! (what was done, and what proves it).

pub mod copy;
pub mod dump;
pub mod fuzzing;
pub mod load;
pub mod verify;
