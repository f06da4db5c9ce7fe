//! Exit codes, and the program's own errors.

use std::process::ExitCode;

use refloat_run::Refusal;
use refloat_run::events::RunResult;

/// How a command ended. The numbers are stable and documented in `docs/exit-codes.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, and verified.
    Done = 0,
    /// Failed for the reason in the message.
    Failed = 1,
    /// The command line was not understood, or asks for something that is never allowed.
    Usage = 2,
    /// Refused before anything was touched.
    Refused = 3,
    /// The work was done, but its result did not pass verification.
    ProofFailed = 4,
    /// Stopped on request: no partial chunk is left, and a load can be resumed.
    Interrupted = 5,
    /// A server setting that was changed could not be put back yet.
    SettingsPending = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error of the program itself rather than of a library crate.
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

    /// Refused for all of this: exit code 3.
    pub fn refused(against: &[Refusal]) -> Self {
        Self {
            exit: Exit::Refused,
            message: Refusal::reasons(against),
            hints: Refusal::hints(against),
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

/// The exit code for the result of a run.
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

/// The exit code of another process of this program.
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
