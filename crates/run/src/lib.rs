//! Everything that changes something is a run.
//!
//! A run has an id, a folder of its own under the state directory, typed events, one progress value, a way to be
//! stopped, and a journal of the server settings that it changed and puts back. This room must not print, must not
//! read the environment or the home directory, and must not install signal handlers unless it is asked to: the program
//! does these things. It must not know what a run does with rows.
//!
//! Read first: [`RunDir`], [`events::Events`] with [`progress::Progress`], [`settings::AppliedSettings`].

pub mod bound;
pub mod cancel;
pub mod dir;
pub mod events;
pub mod fuzzing;
pub mod ghost;
mod id;
mod kill;
pub mod machine;
pub mod outcome;
pub mod own;
pub mod phases;
pub mod probe;
mod process;
pub mod progress;
mod run;
pub mod settings;
pub mod signals;

pub use cancel::{Cancel, CancelReason};
pub use dir::{RunDir, RunDirError};
pub use events::{Event, EventSink, Events};
pub use id::RunId;
pub use kill::kill_on_cancel;
pub use process::Owner;
pub use progress::{Progress, Snapshot};
pub use run::Run;

/// A moment as records of runs have it (RFC 3339, UTC), from seconds since 1970. `None`: there is no such date.
pub fn moment(seconds: i64) -> Option<String> {
    let moment = jiff::Timestamp::from_second(seconds).ok()?;
    Some(moment.to_string())
}
