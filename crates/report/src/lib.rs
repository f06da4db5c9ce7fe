//! Faces of a run: the progress that a person watches, the JSON lines that a program reads, and the summary at the end.
//!
//! This room only looks. It consumes what a run emits and the snapshot that a run keeps, and turns both into text; it
//! starts nothing, changes nothing and decides nothing, and a face that fails (a closed terminal) never fails the run.
//!
//! Read first: [`live::TerminalFace`] (what a person watches), [`progress::View`] (what one frame of it shows) and
//! [`human`] (the only place where numbers become text).

pub mod bootstrap;
pub mod cluster;
pub mod cluster_verify;
pub mod human;
pub mod live;
pub mod maintain;
pub mod progress;
pub mod rejoin;
pub mod restore;
pub mod summary;
pub mod terminal;
