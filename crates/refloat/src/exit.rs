//! The one place where kinds of errors become exit codes and hints.
//!
//! Commands return `anyhow::Result<Exit>`. An error that a room below returned is found again in the chain by its type,
//! and gets its code and its hints here and nowhere else. Everything that is not known is [`Exit::Failed`].

use std::fmt::Write as _;
use std::process::ExitCode;

use refloat_logical::load::{LoadError, StatementFailure};
use refloat_run::events::RunResult;
use refloat_sqltext::ScanError;
use refloat_store::InputError;

use crate::context::Context;

/// `ER_DUP_ENTRY`.
const DUPLICATE: u16 = 1062;
/// `ER_UNKNOWN_CHARACTER_SET`.
const UNKNOWN_CHARSET: u16 = 1115;
/// `ER_WRONG_VALUE_FOR_VAR`.
const WRONG_VALUE: u16 = 1231;
/// `ER_UNKNOWN_COLLATION`.
const UNKNOWN_COLLATION: u16 = 1273;
/// What to do about text that ends too early.
const CUT: &str = "The dump is cut: copy it again and compare checksums, or make it again.";

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
    /// Stopped on request; the same command with `--resume` or a new run can go on.
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
    exit: Exit,
    message: String,
    hints: Vec<String>,
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

/// The exit code and the hints for `error`.
fn classify(error: &anyhow::Error) -> (Exit, Vec<String>) {
    for cause in error.chain() {
        if let Some(own) = cause.downcast_ref::<ProgramError>() {
            return (own.exit, own.hints.clone());
        }
        if let Some(io) = cause.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::BrokenPipe
        {
            return (Exit::Done, Vec::new());
        }
        if let Some(load) = cause.downcast_ref::<LoadError>() {
            return of_load(load);
        }
        if let Some(wire) = cause.downcast_ref::<refloat_wire::Error>() {
            return (Exit::Failed, wire_hints(wire));
        }
    }
    (Exit::Failed, Vec::new())
}

/// The end of a load that stopped, in one word.
pub fn result_of_load(error: &LoadError) -> RunResult {
    match of_load(error).0 {
        Exit::Refused => RunResult::Refused,
        Exit::Interrupted => RunResult::Interrupted,
        Exit::ProofFailed => RunResult::ProofFailed,
        Exit::SettingsPending => RunResult::SettingsLeft,
        Exit::Done | Exit::Failed | Exit::Usage => RunResult::Failed,
    }
}

/// Exit code and hints for a load that stopped.
fn of_load(error: &LoadError) -> (Exit, Vec<String>) {
    match error {
        LoadError::Refused(refusals) => {
            let mut hints: Vec<String> = refusals.iter().map(|refusal| refusal.hint.clone()).filter(|hint| !hint.is_empty()).collect();
            hints.dedup();
            (Exit::Refused, hints)
        }
        LoadError::Stopped(refusals) => {
            let mut hints: Vec<String> = refusals.iter().map(|refusal| refusal.hint.clone()).filter(|hint| !hint.is_empty()).collect();
            hints.push("What was loaded before this point is still there: with --replace the load begins afresh.".to_owned());
            hints.dedup();
            (Exit::Failed, hints)
        }
        LoadError::SourceChanged { .. } => (
            Exit::Failed,
            vec!["Wait until the dump is complete, then load it again with --replace.".to_owned()],
        ),
        LoadError::Interrupted(_) => (Exit::Interrupted, vec!["Start the same command again; with --replace it begins afresh.".to_owned()]),
        LoadError::Input(InputError::Cancelled { .. }) => (Exit::Interrupted, Vec::new()),
        LoadError::Input(input) => (Exit::Failed, input_hints(input)),
        LoadError::MissingTrailer { .. } => (
            Exit::Failed,
            vec!["Make the dump again. If it was made with --skip-comments or --compact it has no such line: load it with --accept-missing-trailer.".to_owned()],
        ),
        LoadError::RowTooLarge { size, .. } => {
            let wanted = size.next_power_of_two().clamp(1 << 20, 1 << 30);
            (Exit::Failed, vec![format!("Run `SET GLOBAL max_allowed_packet = {wanted}` on the server and load again.")])
        }
        LoadError::Statement { failure, .. } => {
            let mut hints: Vec<String> = failure_hint(failure).into_iter().collect();
            hints.push("With --on-error continue the load goes on after a refused statement, lists all of them and exits with 1.".to_owned());
            (Exit::Failed, hints)
        }
        LoadError::Scan { source, .. } if is_cut(source) => (Exit::Failed, vec![CUT.to_owned()]),
        LoadError::Scan { .. } => (Exit::Failed, vec!["The dump is damaged here: make it again, or copy it again and compare checksums.".to_owned()]),
        LoadError::Text { .. } => (Exit::Failed, vec![CUT.to_owned()]),
        LoadError::Index { source, .. } if source.server_code() == Some(DUPLICATE) => (
            Exit::Failed,
            vec!["The rows are in, the key is not. With --on-error continue unique keys are built with the rows, and each row that breaks one is named by its line.".to_owned()],
        ),
        LoadError::Server { source, .. } | LoadError::Index { source, .. } => (Exit::Failed, wire_hints(source)),
        _ => (Exit::Failed, Vec::new()),
    }
}

/// Whether the text ends where a dump cannot end.
fn is_cut(error: &ScanError) -> bool {
    matches!(
        error,
        ScanError::UnterminatedQuote { .. }
            | ScanError::UnterminatedComment { .. }
            | ScanError::UnterminatedRows { .. }
    )
}

/// What a person can do about a statement or row that was refused.
pub fn failure_hint(failure: &StatementFailure) -> Option<String> {
    let quoted = failure.message.rsplit('\'').nth(1).unwrap_or_default();
    match failure.code {
        UNKNOWN_COLLATION => {
            let other = other_collation(quoted);
            Some(format!(
                "Write another collation in its place: --map-collation {quoted}={other}. SHOW COLLATION lists those that the server has."
            ))
        }
        UNKNOWN_CHARSET => Some(
            "SHOW CHARACTER SET lists those that the server has: dump again with one of them, or load into a server that has it.".to_owned(),
        ),
        WRONG_VALUE if failure.message.contains("sql_mode") => Some(format!(
            "Leave the word out with --map-sql-mode {quoted}=, or write another after the =."
        )),
        _ => None,
    }
}

/// The collation of the other vendor that compares most alike.
///
/// MySQL's `utf8mb4_0900_*` do not pad with spaces, like MariaDB's `*_nopad_*`.
fn other_collation(name: &str) -> String {
    match name {
        "utf8mb4_0900_bin" => "utf8mb4_bin".to_owned(),
        _ if name.starts_with("utf8mb4_0900_") => {
            name.replacen("utf8mb4_0900_", "utf8mb4_uca1400_nopad_", 1)
        }
        _ if name.starts_with("utf8mb4_uca1400_nopad_") => {
            name.replacen("utf8mb4_uca1400_nopad_", "utf8mb4_0900_", 1)
        }
        _ if name.starts_with("utf8mb4_uca1400_") => {
            name.replacen("utf8mb4_uca1400_", "utf8mb4_0900_", 1)
        }
        _ => match name.split_once('_') {
            Some((charset, _)) => format!("{charset}_general_ci"),
            None => "utf8mb4_general_ci".to_owned(),
        },
    }
}

fn input_hints(error: &InputError) -> Vec<String> {
    let hint = match error {
        InputError::Truncated { .. } => {
            "The file is shorter than it was when it was written: copy it again and compare checksums."
        }
        InputError::Corrupt { .. } | InputError::TrailingGarbage { .. } => {
            "The file is damaged: copy it again and compare checksums."
        }
        InputError::Empty { .. } => {
            "What should have written it has failed: look at the dump's own messages."
        }
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}

/// What a person can do about an error of a connection.
fn wire_hints(error: &refloat_wire::Error) -> Vec<String> {
    let hint = match error {
        _ if error.server_code() == Some(1045) => {
            "Check the user name in the URL; give the password in ~/.my.cnf, in MYSQL_PWD or with --ask-password."
        }
        _ if error.is_access_denied() => "Ask for the missing privilege, or use another account.",
        _ if error.is_disk_full() => "The server's disk is full: make room, then load again.",
        refloat_wire::Error::Io {
            phase: refloat_wire::Phase::Connect,
            ..
        } => "Check host, port or socket in the URL, and that the server is running.",
        _ if error.is_lost_connection() && !matches!(error, refloat_wire::Error::Tls { .. }) => {
            "The connection to the server was lost in the middle: its error log says whether it was restarted or the connection killed. Then load again with --replace."
        }
        refloat_wire::Error::Tls { .. } => {
            "--ssl-mode says how far TLS is used and checked; --ssl-ca names the authority to trust."
        }
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}

/// Prints `error` with its causes and hints on stderr, and returns the exit code.
///
/// A broken pipe on stdout (`| head`) is not an error: nothing is printed.
pub fn report(error: &anyhow::Error, context: &Context) -> Exit {
    let (exit, hints) = classify(error);
    if exit == Exit::Done {
        return exit;
    }
    print_line("error", &redact(&chain_text(error)), context.colour());
    for hint in hints {
        print_line("hint", &hint, context.colour());
    }
    exit
}

/// The messages of an error and its causes, outermost first. A cause that the message before already ends with is
/// left out: some libraries print their source themselves.
pub fn chain_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for cause in error.chain() {
        let message = cause.to_string();
        if last.ends_with(&message) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        let _ = write!(text, "{message}");
        last = message;
    }
    text
}

/// Prints `refloat: error: …`, or `hint: …` on a line of its own, on stderr.
pub fn print_line(kind: &str, text: &str, colour: bool) {
    let (start, end) = match (colour, kind) {
        (false, _) => ("", ""),
        (true, "error") => ("\x1b[1;31m", "\x1b[0m"),
        (true, "warning") => ("\x1b[1;33m", "\x1b[0m"),
        (true, _) => ("\x1b[1;36m", "\x1b[0m"),
    };
    if kind == "hint" {
        eprintln!("{start}hint:{end} {text}");
    } else {
        eprintln!("refloat: {start}{kind}:{end} {text}");
    }
}

/// Replaces the password of every URL in `text` by `***`: what a person typed may come back in a message.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        out.push_str(head);
        let end = tail
            .find(|c: char| c.is_whitespace() || c == '/' || c == '\'')
            .unwrap_or(tail.len());
        let authority = &tail[..end];
        match (authority.rfind('@'), authority.find(':')) {
            (Some(host), Some(colon)) if colon < host => {
                out.push_str(&authority[..=colon]);
                out.push_str("***");
                out.push_str(&authority[host..]);
            }
            _ => out.push_str(authority),
        }
        rest = &tail[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_never_repeated() {
        assert_eq!(
            redact("bad 'mysql://u:s3cret@h:3306/db' here"),
            "bad 'mysql://u:***@h:3306/db' here"
        );
        assert_eq!(redact("mysql://u:a@b@h"), "mysql://u:***@h");
        assert_eq!(redact("mysql://h:3306/x@y"), "mysql://h:3306/x@y");
        assert_eq!(redact("no url"), "no url");
    }

    #[test]
    fn causes_follow_the_message_once() {
        let inner = anyhow::anyhow!("connection refused");
        let outer = inner.context("cannot reach db1:3306");
        assert_eq!(
            chain_text(&outer),
            "cannot reach db1:3306: connection refused"
        );
    }

    #[test]
    fn own_errors_carry_their_code_through_context() {
        let error = anyhow::Error::new(ProgramError::usage("no")).context("while reading flags");
        assert_eq!(classify(&error).0, Exit::Usage);
    }
}
