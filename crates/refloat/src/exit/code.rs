//! Exit codes, and errors of the program itself.

use std::process::ExitCode;

use refloat_run::events::RunResult;

/// How a command ended. The numbers are stable and documented in `docs/exit-codes.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, and proven to be done.
    Done = 0,
    /// Failed for a reason that the message gives.
    Failed = 1,
    /// The command line was not understood, or asks for something that is refused by rule.
    Usage = 2,
    /// Refused before anything was touched.
    Refused = 3,
    /// The work was done, but the result does not check out.
    ProofFailed = 4,
    /// Stopped on request: no half chunk is left, and a load can go on.
    Interrupted = 5,
    /// A server setting that was changed could not be put back yet.
    SettingsPending = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// A refusal that comes from the program itself rather than from a room below.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProgramError {
    pub(super) exit: Exit,
    message: String,
    pub(super) hints: Vec<String>,
}

impl ProgramError {
    /// An error with the exit code `exit`; the message is a lowercase fragment without a full stop.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// A usage error: exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds a hint: one or two whole sentences that say what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// The exit code of a run that ended by itself.
pub fn of_result(result: RunResult) -> Exit {
    match result {
        RunResult::Done => Exit::Done,
        RunResult::Failed => Exit::Failed,
        RunResult::Refused => Exit::Refused,
        RunResult::ProofFailed => Exit::ProofFailed,
        RunResult::Interrupted => Exit::Interrupted,
        RunResult::SettingsLeft => Exit::SettingsPending,
    }
}

/// The exit code that another process of this program ended with.
pub fn from_code(code: Option<i32>) -> Exit {
    [
        Exit::Done,
        Exit::Usage,
        Exit::Refused,
        Exit::ProofFailed,
        Exit::Interrupted,
        Exit::SettingsPending,
    ]
    .into_iter()
    .find(|exit| Some(*exit as i32) == code)
    .unwrap_or(Exit::Failed)
}
