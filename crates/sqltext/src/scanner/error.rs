//! Errors of the scanner.

/// Why the scanner stopped. Offsets are bytes from 0 in the whole input; lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The input ends inside a string or quoted name.
    #[error("input ends inside of a {quote} quote that begins at byte {offset}, line {line}")]
    UnterminatedQuote {
        /// The quote byte.
        quote: char,
        /// Byte offset of the opening quote.
        offset: u64,
        /// Line of the opening quote.
        line: u64,
    },
    /// A line holds output of the dump program instead of a statement. The scanner never returns
    /// this; readers of dumps, which know such lines, do.
    #[error(
        "line {line}, byte {offset}, is a message of the program that made the dump, not a \
        statement"
    )]
    Message {
        /// Byte offset of the line.
        offset: u64,
        /// Number of that line, from 1.
        line: u64,
    },
    /// The input ends inside a comment.
    #[error("input ends inside of a comment that begins at byte {offset}, line {line}")]
    UnterminatedComment {
        /// Byte offset of the comment.
        offset: u64,
        /// Line where the comment begins.
        line: u64,
    },
    /// The input ends inside a row, or after the comma that follows one.
    #[error("input ends in the middle of the rows of an insert, at byte {offset}, line {line}")]
    UnterminatedRows {
        /// Byte offset of the last, incomplete row.
        offset: u64,
        /// Line of that row.
        line: u64,
    },
    /// Something other than rows follows, although rows of this insert were already emitted.
    #[error(
        "unexpected text behind the rows of an insert that was cut already, at byte {offset}, line {line}"
    )]
    TailAfterCut {
        /// Byte offset of the unexpected text.
        offset: u64,
        /// Line of the unexpected text.
        line: u64,
    },
    /// A NUL byte outside quotes and comments.
    #[error("NUL byte outside of a string at byte {offset}, line {line}")]
    Nul {
        /// Byte offset of the NUL.
        offset: u64,
        /// Line of the NUL.
        line: u64,
    },
    /// A client command (`\x`) in the middle of a statement.
    #[error("client command \\{command} inside of a statement at byte {offset}, line {line}")]
    CommandInStatement {
        /// The letter, escaped if it is not printable.
        command: String,
        /// Byte offset of the backslash.
        offset: u64,
        /// Line of the backslash.
        line: u64,
    },
    /// `DELIMITER` without an argument, or with a backslash in it.
    #[error("DELIMITER needs an argument without a backslash, at byte {offset}, line {line}")]
    BadDelimiter {
        /// Byte offset of the command.
        offset: u64,
        /// Line of the command.
        line: u64,
    },
    /// A statement, row or comment is longer than `max_item`.
    #[error("a statement or row of more than {limit} bytes begins at byte {offset}, line {line}")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
        /// Byte offset of its start.
        offset: u64,
        /// Line of its start.
        line: u64,
    },
    /// The buffer is shorter than in the previous call, so it cannot be the unconsumed input.
    #[error("buffer of {given} bytes is shorter than the {scanned} bytes scanned already")]
    ShortBuffer {
        /// Length of the buffer, in bytes.
        given: usize,
        /// Bytes already scanned.
        scanned: usize,
    },
}
