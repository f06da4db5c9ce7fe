//! Detects text in a dump that is not a statement: messages of the program that wrote it, and byte
//! order marks of joined files.

use refloat_sqltext::{BYTE_ORDER_MARK, StatementKind};

/// Programs whose messages end up in a dump when standard error is redirected into it (`2>&1`).
const PROGRAMS: &[&str] = &[
    "mysqldump",
    "mariadb-dump",
    "mysqlpump",
    "mysql",
    "mariadb",
    "mydumper",
    "mysqlsh",
    "docker",
    "bash",
    "sh",
    "ssh",
    "sudo",
];
/// Starts of other lines that such programs print.
const LINES: &[&str] = &[
    "Warning: A partial dump",
    "Warning: option",
    "Enter password:",
    "WARNING: ",
    "Error: ",
    "Got error: ",
    "Couldn't execute ",
];

/// Why a text is not a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stray {
    /// A message of a program.
    Message,
    /// A byte order mark in the middle of a dump: files were joined.
    Mark,
}

impl Stray {
    /// An explanation for the user.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Message => {
                "this line is a message of the program that made the dump, not a statement"
            }
            Self::Mark => {
                "a byte order mark stands here, inside of the dump, where files were joined: no server reads it"
            }
        }
    }

    /// What the user can do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Message => {
                "Take the line out of the dump, and keep messages out of the next one: write only the standard output of the program into the file (no 2>&1)."
            }
            Self::Mark => {
                "Take it out: sed -i 's/^\\xEF\\xBB\\xBF//' FILE. The stock client stops here too."
            }
        }
    }
}

/// Checks whether a statement of unknown kind is not a statement at all.
pub fn stray(kind: &StatementKind, text: &[u8]) -> Option<Stray> {
    if !matches!(kind, StatementKind::Other) {
        return None;
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        return Some(Stray::Mark);
    }
    is_message(text).then_some(Stray::Message)
}

/// Whether the first line of a text is a message of a program.
pub fn is_message(text: &[u8]) -> bool {
    let end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let Ok(line) = std::str::from_utf8(&text[..end]) else {
        return false;
    };
    let of_program = line.split_once(": ").is_some_and(|(program, _)| {
        PROGRAMS.contains(&program.rsplit('/').next().unwrap_or(program))
    });
    of_program || LINES.iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use refloat_sqltext::{LexMode, classify};

    use super::*;

    #[test]
    fn messages_and_marks_are_told_from_statements() {
        let found = |text: &str| {
            stray(
                &classify(text.as_bytes(), LexMode::default()),
                text.as_bytes(),
            )
        };
        for text in [
            "mysqldump: [Warning] Using a password on the command line interface can be insecure.\n-- x\nSET a=1",
            "Warning: A partial dump from a server that has GTIDs will by default include",
            "/usr/bin/mariadb-dump: Deprecated program name.",
            "mysqldump: Error: 'Access denied'",
        ] {
            assert_eq!(found(text), Some(Stray::Message), "{text}");
        }
        assert_eq!(found("\u{feff}SELECT 1"), Some(Stray::Mark));
        assert_eq!(found("\u{feff}-- MySQL dump\nSELECT 1"), Some(Stray::Mark));
        for text in ["SELECT 'mysqldump: x'", "WITHOUT x", "FROBNICATE: x"] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
