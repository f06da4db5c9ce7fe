//! Quotes words for commands that users paste into a POSIX shell.

/// A value as one word, always quoted.
pub fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// A value as one word, quoted if necessary.
pub fn word(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/.:@_-+,=%".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    quoted(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_value_as_it_is() {
        for value in ["it's $HOME `x` \\", "plain", "", "a=b,c"] {
            for written in [quoted(value), word(value)] {
                let output = std::process::Command::new("sh")
                    .args(["-c", &format!("printf %s {written}")])
                    .output()
                    .unwrap();
                assert_eq!(String::from_utf8_lossy(&output.stdout), value);
            }
        }
    }
}
