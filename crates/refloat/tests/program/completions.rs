//! Completions and manual pages.

use std::process::{Command, Stdio};

use crate::support::refloat;
use crate::time_limits::output;

#[test]
fn completions_for_every_shell_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = refloat(&["completions", shell]).exits(0).stdout;
        for word in ["load", "settings", "sandbox", "durability"] {
            assert!(script.contains(word), "{shell}: {word} is missing");
        }
    }
}

#[test]
fn bash_takes_its_completion_script() {
    let script = refloat(&["completions", "bash"]).exits(0).stdout;
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .spawn()
        .expect("bash is there");
    std::io::Write::write_all(
        &mut bash.stdin.take().expect("stdin is piped"),
        script.as_bytes(),
    )
    .expect("bash reads");
    assert!(bash.wait().expect("bash ends").success());
}

#[test]
fn there_is_a_manual_page_for_every_visible_command() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("man");
    refloat(&["man", path.to_str().expect("the path is UTF-8")]).exits(0);
    for name in [
        "refloat",
        "refloat-load",
        "refloat-settings",
        "refloat-settings-revert",
        "refloat-sandbox",
        "refloat-completions",
    ] {
        let page = std::fs::read_to_string(path.join(format!("{name}.1")))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            page.contains(".TH") && page.contains("EXAMPLES"),
            "{name}:\n{page}"
        );
    }
    assert!(
        !path.join("refloat-man.1").exists(),
        "a hidden command has no page"
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_a_failure_with_its_cause() {
    let run = refloat(&["man", "/dev/null/x"]).exits(1);
    assert!(
        run.stderr
            .starts_with("refloat: error: cannot make the folder /dev/null/x: "),
        "{}",
        run.stderr
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let program = env!("CARGO_BIN_EXE_refloat");
    let mut bash = Command::new("bash");
    bash.args([
        "-c",
        "set -o pipefail; \"$0\" completions bash | head -c 10 >/dev/null; exit ${PIPESTATUS[0]}",
        program,
    ]);
    let output = output(&mut bash);
    assert!(output.status.success(), "{output:?}");
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
