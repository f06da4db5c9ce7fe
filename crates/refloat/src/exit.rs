//! The one place where kinds of errors are mapped to exit codes and hints.
//!
//! Commands return `anyhow::Result<Exit>`. Errors of the library crates are found in the chain by
//! type and get their code and hints here and nowhere else. Every unknown error is
//! [`Exit::Failed`].

mod code;
mod hints;
mod physical_hints;

use std::fmt::Write as _;

use refloat_cluster::{
    BootstrapError, ConfigError, MaintainError, RejoinError, RestoreError, VerifyNodesError,
};
use refloat_copy::CopyError;
use refloat_dump::DumpError;
use refloat_load::LoadError;
use refloat_physical::PhysicalError;
use refloat_repository::RepositoryError;
use refloat_run::events::RunResult;
use refloat_verify::VerifyError;
use refloat_wire::options::user_info;

use crate::connect::PASSWORD_KEYS;
use crate::context::Context;
pub use code::{Exit, ProgramError, from_code, of_result};
pub use hints::{NO_DUMP, SETTINGS_LEFT, failure_hint};
use hints::{
    of_bootstrap, of_config, of_copy, of_dump, of_load, of_maintain, of_rejoin, of_restore,
    of_verify, of_verify_nodes, wire_hints,
};
use physical_hints::{of_physical, of_repository, of_storage};

/// The exit code and the hints for `error`.
fn classify(error: &anyhow::Error) -> (Exit, Vec<String>) {
    for cause in error.chain() {
        if let Some(program) = cause.downcast_ref::<ProgramError>() {
            return (program.exit, program.hints.clone());
        }
        if let Some(io) = cause.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::BrokenPipe
        {
            return (Exit::Done, Vec::new());
        }
        if let Some(copy) = cause.downcast_ref::<CopyError>() {
            return of_copy(copy);
        }
        if let Some(load) = cause.downcast_ref::<LoadError>() {
            return of_load(load);
        }
        if let Some(dump) = cause.downcast_ref::<DumpError>() {
            return of_dump(dump);
        }
        if let Some(nodes) = cause.downcast_ref::<VerifyNodesError>()
            && let Some(known) = of_verify_nodes(nodes)
        {
            return known;
        }
        if let Some(verify) = cause.downcast_ref::<VerifyError>() {
            return of_verify(verify);
        }
        if let Some(restore) = cause.downcast_ref::<RestoreError>()
            && let Some(known) = of_restore(restore)
        {
            return known;
        }
        if let Some(config) = cause.downcast_ref::<ConfigError>() {
            return of_config(config);
        }
        if let Some(rejoin) = cause.downcast_ref::<RejoinError>() {
            return of_rejoin(rejoin);
        }
        if let Some(bootstrap) = cause.downcast_ref::<BootstrapError>() {
            return of_bootstrap(bootstrap);
        }
        if let Some(maintain) = cause.downcast_ref::<MaintainError>() {
            return of_maintain(maintain);
        }
        if let Some(physical) = cause.downcast_ref::<PhysicalError>()
            && let Some(known) = of_physical(physical)
        {
            return known;
        }
        if let Some(repository) = cause.downcast_ref::<RepositoryError>() {
            return of_repository(repository);
        }
        if let Some(storage) = cause.downcast_ref::<refloat_store::storage::StorageError>() {
            return of_storage(storage);
        }
        if let Some(wire) = cause.downcast_ref::<refloat_wire::Error>() {
            return (Exit::Failed, wire_hints(wire));
        }
    }
    (Exit::Failed, Vec::new())
}

/// What the user can do about `error`: sentences.
pub fn hints_of(error: &anyhow::Error) -> Vec<String> {
    classify(error).1
}

/// The result of a run that `error` stopped.
pub fn result_of(error: &anyhow::Error) -> RunResult {
    match classify(error).0 {
        Exit::Refused => RunResult::Refused,
        Exit::Interrupted => RunResult::Interrupted,
        Exit::ProofFailed => RunResult::ProofFailed,
        Exit::SettingsPending => RunResult::SettingsLeft,
        Exit::Done | Exit::Failed | Exit::Usage => RunResult::Failed,
    }
}

/// Prints `error` with its causes and hints to stderr, and returns the exit code.
///
/// A broken pipe on stdout (`| head`) is not an error: nothing is printed.
pub fn report(error: &anyhow::Error, context: &Context) -> Exit {
    report_with(error, context, |hint| hint)
}

/// Like [`report`], without one hint that does not apply here.
pub fn report_but(error: &anyhow::Error, context: &Context, left_out: Option<&str>) -> Exit {
    report_with(error, context, |hint| {
        if Some(hint.as_str()) == left_out {
            String::new()
        } else {
            hint
        }
    })
}

/// Like [`report`], with each hint passed through `here`, which returns an empty one to drop it.
pub fn report_with(
    error: &anyhow::Error,
    context: &Context,
    here: impl Fn(String) -> String,
) -> Exit {
    let (exit, hints) = classify(error);
    if exit == Exit::Done {
        return exit;
    }
    let hints = hints.into_iter().map(here).filter(|hint| !hint.is_empty());
    print_line(
        "error",
        &context.with_cluster(&redact(&chain_text(error))),
        context.colour(),
    );
    for hint in hints {
        print_line("hint", &context.with_cluster(&hint), context.colour());
    }
    exit
}

/// The messages of an error and its causes, outermost first. A cause is left out if the message
/// before already ends with it, since some libraries print their source themselves. The server is
/// named only once.
pub fn chain_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for cause in error.chain() {
        let message = match cause.downcast_ref() {
            Some(wire) => without_peer(wire, &text),
            None => cause.to_string(),
        };
        if message.is_empty() || last.ends_with(&message) {
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

/// The message of `error`, without the server's name if `before` ends with it; empty if the next
/// cause says everything.
fn without_peer(error: &refloat_wire::Error, before: &str) -> String {
    let (refloat_wire::Error::Io { peer, .. }
    | refloat_wire::Error::Timeout { peer, .. }
    | refloat_wire::Error::Tls { peer, .. }
    | refloat_wire::Error::Protocol { peer, .. }
    | refloat_wire::Error::Closed { peer }) = error
    else {
        return error.to_string();
    };
    let mut text = error.to_string();
    if !peer.is_empty() && before.ends_with(peer.as_str()) {
        if matches!(
            error,
            refloat_wire::Error::Io {
                phase: refloat_wire::Phase::Connect,
                ..
            }
        ) {
            return String::new();
        }
        for joined in [", ", " with ", " from ", " to "] {
            text = text.replacen(&format!("{joined}{peer}"), "", 1);
        }
    }
    text
}

/// Prints `refloat: error: …`, or `hint: …` on a line of its own, to stderr.
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

/// Replaces the password of every URL in `text` by `***`, because messages may repeat what the user
/// typed.
///
/// Command-line words are matched as a whole, because a password may contain anything, including
/// spaces and quotes. Other URLs end at white space.
pub fn redact(text: &str) -> String {
    let words = std::env::args_os().skip(1);
    redact_words(text, words.map(|word| word.to_string_lossy().into_owned()))
}

fn redact_words(text: &str, typed: impl Iterator<Item = String>) -> String {
    let mut text = text.to_owned();
    for word in typed {
        // A message may repeat `--to=URL` with or without the flag.
        let value = word.split_once('=').map_or("", |(_, value)| value);
        for secret in [word.as_str(), value, &word[url_start(&word)..]] {
            let open = without_password(secret);
            if open != secret {
                text = text.replace(secret, &open);
            }
        }
    }
    let hide = |word: &str| {
        let start = url_start(word);
        if word[start..].contains("://") {
            format!("{}{}", &word[..start], without_password(&word[start..]))
        } else {
            word.to_owned()
        }
    };
    text.split_inclusive(char::is_whitespace)
        .map(hide)
        .collect()
}

/// Offset of the first URL's scheme in `text`; 0 if there is none.
fn url_start(text: &str) -> usize {
    let head = text.split_once("://").map_or("", |(head, _)| head);
    head.trim_end_matches(|c: char| c.is_ascii_alphanumeric())
        .len()
}

/// The URL with `***` for each password: after the first colon of the user part, and in password
/// parameters.
fn without_password(url: &str) -> String {
    let mut open = url.to_owned();
    if let Some(info) = user_info(url)
        && let Some(colon) = url[info.clone()].find(':')
    {
        open.replace_range(info.start + colon + 1..info.end, "***");
    }
    let separator = |c: char| matches!(c, '?' | '&' | ';');
    let hide = |part: &str| match part.split_once('=') {
        Some((key, value))
            if PASSWORD_KEYS
                .iter()
                .any(|one| key.eq_ignore_ascii_case(one)) =>
        {
            let ends = |c: char| separator(c) || matches!(c, '\'' | '"') || c.is_whitespace();
            let end = value.find(ends).unwrap_or(value.len());
            format!("{key}=***{}", &value[end..])
        }
        _ => part.to_owned(),
    };
    open.split_inclusive(separator).map(hide).collect()
}

#[cfg(test)]
mod tests {
    use refloat_cluster::RestoreWay;
    use refloat_run::Refusal;

    use super::*;

    #[test]
    fn a_copy_that_is_stopped_while_it_compares_is_interrupted() {
        let error = CopyError::Verify(VerifyError::Interrupted("Ctrl-C".to_owned()));
        assert_eq!(of_copy(&error).0, Exit::Interrupted);
    }

    #[test]
    fn a_copy_that_may_not_be_compared_is_not_proven() {
        let error = CopyError::Verify(VerifyError::Refused(Refusal {
            reason: "the account lacks EVENT".to_owned(),
            hint: "Grant it.".to_owned(),
        }));
        assert_eq!(
            of_copy(&error),
            (Exit::ProofFailed, vec!["Grant it.".to_owned()])
        );
    }

    #[test]
    fn a_password_in_a_url_is_never_repeated() {
        assert_eq!(
            redact("bad 'mysql://u:s3cret@h:3306/db' here"),
            "bad 'mysql://u:***@h:3306/db' here"
        );
        assert_eq!(redact("mysql://u:a@b@h"), "mysql://u:***@h");
        assert_eq!(
            redact("bad 'mysql://u:se/c'r?3t@h:3306/db' here"),
            "bad 'mysql://u:***@h:3306/db' here"
        );
        // This could be a password or a database.
        assert_eq!(redact("mysql://h:3306/x@y"), "mysql://h:***@y");
        assert_eq!(
            redact("mysql://u@h:1/ and root@h:1, no password"),
            "mysql://u@h:1/ and root@h:1, no password"
        );
        assert_eq!(
            redact("'mysql://h/?pass=x&PWD=s3cret&c=d' here"),
            "'mysql://h/?pass=***&PWD=***&c=d' here"
        );
        assert_eq!(redact("no url"), "no url");
    }

    #[test]
    fn a_password_of_the_command_line_may_hold_anything() {
        let words = |word: &str| std::iter::once(word.to_owned());
        for (word, shown) in [
            ("mysql://u:se cr'3t@h/", "'mysql://u:***@h/'"),
            ("u:se cr3t@h", "'u:***@h'"),
            ("--threads=mysql://u:se cr=3t@h", "'mysql://u:***@h'"),
            ("mysql://u:a://b c@h", "'mysql://u:***@h'"),
            ("u:a://b c@h", "'u:***@h'"),
        ] {
            let typed = word.trim_start_matches("--threads=");
            let text = format!("bad '{typed}' here");
            assert_eq!(
                redact_words(&text, words(word)),
                format!("bad {shown} here")
            );
        }
    }

    #[test]
    fn who_stopped_it_is_named_once() {
        let load = || LoadError::Interrupted("interrupted".to_owned());
        for error in [
            anyhow::Error::new(load()),
            anyhow::Error::new(CopyError::Target(load())),
        ] {
            let text = chain_text(&error);
            assert_eq!(text.matches("interrupted").count(), 1, "{text}");
        }
    }

    #[test]
    fn a_restore_that_is_not_proven_says_who_serves_what_was_loaded() {
        let hint = |way| {
            let error = RestoreError::NotProven {
                node: "db1".to_owned(),
                reason: "1 difference".to_owned(),
                way,
            };
            of_restore(&error).unwrap().1.concat()
        };
        let replicated = hint(RestoreWay::Replicate);
        assert!(replicated.contains("all of them serve it"), "{replicated}");
        let alone = hint(RestoreWay::Rebuild);
        assert!(
            alone.contains("others are down with their old data"),
            "{alone}"
        );
    }

    #[test]
    fn what_a_step_needs_of_a_node_is_a_hint() {
        let error = RestoreError::Node {
            step: refloat_cluster::RestoreStep::Stop,
            node: "db2".to_owned(),
            wrong: Refusal::new("it runs again").hint("Stop it."),
        };
        let (exit, hints) = of_restore(&error).unwrap();
        assert_eq!((exit, hints[0].as_str()), (Exit::Failed, "Stop it."));
        assert_eq!(error.to_string(), "stop db2: it runs again");
        let error = RejoinError::Refused(vec![Refusal::new("a").hint("B."), "c".into()]);
        assert_eq!(error.to_string(), "a; c");
        let (exit, hints) = of_rejoin(&error);
        assert_eq!(exit, Exit::Refused);
        assert_eq!(hints, ["B.", "Nothing was started."]);
        let error = RejoinError::NotBack {
            node: "db2".to_owned(),
            wrong: Refusal::new("it is late").hint("Wait."),
        };
        assert_eq!(error.to_string(), "db2 is not back: it is late");
        let (exit, hints) = of_rejoin(&error);
        assert_eq!((exit, hints[0].as_str()), (Exit::Failed, "Wait."));
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
    fn a_server_is_named_once() {
        let refused = |phase| refloat_wire::Error::Io {
            phase,
            peer: "root@db1:3306".to_owned(),
            source: std::io::Error::other("connection refused"),
        };
        let named = LoadError::server(
            "connecting to root@db1:3306",
            refused(refloat_wire::Phase::Connect),
        );
        assert_eq!(
            chain_text(&anyhow::Error::new(named)),
            "connecting to root@db1:3306: connection refused"
        );
        let unnamed = LoadError::server("reading", refused(refloat_wire::Phase::Receive));
        assert_eq!(
            chain_text(&anyhow::Error::new(unnamed)),
            "reading: receiving failed, root@db1:3306: connection refused"
        );
        let tls = refloat_wire::Error::Tls {
            peer: "root@db1:3306".to_owned(),
            reason: "the server offers none".to_owned(),
        };
        assert_eq!(
            chain_text(&anyhow::Error::new(tls).context("cannot connect to root@db1:3306")),
            "cannot connect to root@db1:3306: TLS: the server offers none"
        );
    }

    #[test]
    fn own_errors_carry_their_code_through_context() {
        let error = anyhow::Error::new(ProgramError::usage("no")).context("while reading flags");
        assert_eq!(classify(&error).0, Exit::Usage);
    }
}
