//! Run bookkeeping: id, folder, events, progress, cancellation, and the journal of server settings.
//!
//! Every command that changes something is a run. A run has an id, its own folder under the state
//! directory, typed events, a progress value, a way to be stopped, and a journal of the server
//! settings that it changed and will put back. This crate must not print, read the environment or
//! the home directory, or install signal handlers unless asked: the program does that. It must not
//! know what a run does with rows.
//!
//! Read first: [`RunDir`], [`events::Events`] with [`progress::Progress`],
//! [`settings::AppliedSettings`].

pub mod bound;
pub mod cancel;
pub mod desync;
pub mod dir;
pub mod events;
pub mod fuzzing;
pub mod ghost;
mod id;
mod kill;
pub mod machine;
pub mod outcome;
pub mod own_tables;
pub mod phases;
pub mod probe;
mod process;
pub mod progress;
mod refusal;
mod run;
pub mod settings;
pub mod signals;
mod status;

pub use cancel::{Cancel, CancelReason};
pub use dir::{RunDir, RunDirError};
pub use events::{Event, EventSink, Events};
pub use id::RunId;
pub use kill::kill_on_cancel;
pub use process::Owner;
pub use progress::{Progress, Snapshot};
pub use refusal::Refusal;
pub use run::Run;
pub use status::Sampler;

/// Formats seconds since 1970 as the timestamp used in run records (RFC 3339, UTC). `None` if there
/// is no such date.
pub fn moment(seconds: i64) -> Option<String> {
    let moment = jiff::Timestamp::from_second(seconds).ok()?;
    Some(moment.to_string())
}

/// The first whole second that is not before a time with a zone (`2026-11-28 14:00:00Z`,
/// `2026-11-28T14:00:00+01:00`), in seconds since 1970, UTC. `None`: it is not such a time, or is
/// before 1970.
pub fn seconds(text: &str) -> Option<u64> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    let rest = i64::from(moment.subsec_nanosecond() > 0);
    u64::try_from(moment.as_second() + rest).ok()
}
