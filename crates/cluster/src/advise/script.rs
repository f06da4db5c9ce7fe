//! Runs scripts on the machines of nodes, and reads their answers.

use std::fmt::Write as _;

use refloat_host::{Host, chain};

use super::facts::{TEXT_MOST, clean};

/// Longest answer of a machine, in bytes.
const ANSWER_MOST: usize = 1 << 20;

/// Runs a script with variables set before it, and returns its output as lines of words.
pub(super) fn run(
    host: &Host,
    variables: &[(&str, String)],
    script: &str,
) -> Result<Vec<Vec<String>>, String> {
    let mut text = String::new();
    for (name, value) in variables {
        let _ = writeln!(text, "{name}={}", Host::word(&value.replace('\0', "")));
    }
    text.push_str(script);
    let output = host.run(&text).map_err(|error| chain(&error))?;
    let answer = &output.stdout[..output.stdout.len().min(ANSWER_MOST)];
    let lines = lines(&String::from_utf8_lossy(answer));
    if lines.is_empty() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{} cannot be asked: {}",
            host.name(),
            clean(
                stderr.lines().last().unwrap_or("it says nothing"),
                TEXT_MOST
            )
        ));
    }
    Ok(lines)
}

/// An answer as lines of words.
pub(crate) fn lines(text: &str) -> Vec<Vec<String>> {
    let words = |line: &str| {
        let words = line.split('\t');
        words.map(|word| clean(word, TEXT_MOST)).collect()
    };
    text.lines().map(words).collect()
}
