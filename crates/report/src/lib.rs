//! Presents a run: live progress for people, JSON lines for programs, and the final summary.
//!
//! This crate only observes. It turns a run's events and progress snapshots into text. It starts,
//! changes and decides nothing, and a face that fails (a closed terminal) never fails the run.
//!
//! Start with [`live::TerminalFace`] (the live display), [`progress::View`] (the content of one
//! frame) and [`human`] (the only place where numbers become text).

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
