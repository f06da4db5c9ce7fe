//! A statement and its place in the dump.

use std::sync::Arc;

use refloat_sqltext::{Item, head};

use crate::outcome::StatementFailure;
use crate::verdict::Reason;

/// Words for a line of the dump, before what is said about it. Statements that Refloat itself runs
/// for the source are on no line of it.
pub fn at_line(line: u64) -> String {
    match line {
        0 => String::new(),
        _ => format!("line {line}: "),
    }
}

/// A statement: its text and its place.
#[derive(Clone, Copy)]
pub struct Here<'a> {
    /// The file's name, for messages and marks.
    pub file: &'a Arc<str>,
    /// The text to run: as the file has it, or rewritten.
    pub text: &'a [u8],
    pub item: &'a Item,
}

impl<'a> Here<'a> {
    /// Another text in the same place.
    pub fn with(self, text: &'a [u8]) -> Self {
        Self { text, ..self }
    }

    /// The failure of the statement, with its place in the dump.
    pub fn failure(self, message: String) -> StatementFailure {
        StatementFailure {
            file: self.file.to_string(),
            line: self.item.line,
            offset: self.item.offset,
            head: head(self.text),
            message,
            ..StatementFailure::default()
        }
    }

    /// The failure of a statement that is refused.
    pub fn refused(self, reason: Reason) -> StatementFailure {
        StatementFailure {
            hint: reason.hint(),
            ..self.failure(format!("refused: {reason}"))
        }
    }
}
