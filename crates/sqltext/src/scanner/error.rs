//! What can be wrong with the text.

/// Why the scanner cannot go on. Offsets are bytes from 0 in the whole input, lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The input ends inside of a string or quoted name.
    #[error("input ends inside of a {quote} quote that begins at byte {offset}, line {line}")]
    UnterminatedQuote {
        /// The quote byte.
        quote: char,
        /// Where it begins.
        offset: u64,
        /// Line of that place.
        line: u64,
    },
    /// A line is no statement but what a program has printed. The scanner never says so; who reads dumps knows such lines.
    #[error(
        "line {line}, byte {offset}, is a message of the program that made the dump, and no statement"
    )]
    Message {
        /// Where it begins.
        offset: u64,
        /// Its line.
        line: u64,
    },
    /// The input ends inside of a comment.
    #[error("input ends inside of a comment that begins at byte {offset}, line {line}")]
    UnterminatedComment {
        /// Where it begins.
        offset: u64,
        /// Line of that place.
        line: u64,
    },
    /// The input ends inside of a row, or after the comma behind one.
    #[error("input ends in the middle of the rows of an insert, at byte {offset}, line {line}")]
    UnterminatedRows {
        /// Where the last, incomplete row begins.
        offset: u64,
        /// Line of that place.
        line: u64,
    },
    /// Rows of this insert were handed out already, and now something other than rows follows.
    #[error(
        "unexpected text behind the rows of an insert that was cut already, at byte {offset}, line {line}"
    )]
    TailAfterCut {
        /// Where it stands.
        offset: u64,
        /// Line of that place.
        line: u64,
    },
    /// A NUL byte outside of quotes and comments.
    #[error("NUL byte outside of a string at byte {offset}, line {line}")]
    Nul {
        /// Where it stands.
        offset: u64,
        /// Line of that place.
        line: u64,
    },
    /// A client command (`\x`) in the middle of a statement.
    #[error("client command \\{command} inside of a statement at byte {offset}, line {line}")]
    CommandInStatement {
        /// The letter, escaped if it is not printable.
        command: String,
        /// Where it stands.
        offset: u64,
        /// Line of that place.
        line: u64,
    },
    /// `DELIMITER` without an argument, or with a backslash in it.
    #[error("DELIMITER needs an argument without a backslash, at byte {offset}, line {line}")]
    BadDelimiter {
        /// Where the command begins.
        offset: u64,
        /// Line of that place.
        line: u64,
    },
    /// One statement, row or comment is longer than `max_item`.
    #[error("a statement or row of more than {limit} bytes begins at byte {offset}, line {line}")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
        /// Where it begins.
        offset: u64,
        /// Line of that place.
        line: u64,
    },
    /// The caller gave fewer bytes than it gave before: not the unconsumed input.
    #[error("buffer of {given} bytes is shorter than the {scanned} bytes scanned already")]
    ShortBuffer {
        /// Bytes given.
        given: usize,
        /// Bytes scanned.
        scanned: usize,
    },
}
