//! Splits files into statements.

use refloat_sqltext::{Item, ItemKind, LexMode, ScanError, ScanOptions, Scanner, Step, classify};

use super::stray::is_message;

/// Bytes of rows in one piece, the unit that chunks never split.
const PIECE_BYTES: usize = 1 << 20;
/// Largest statement or row held in memory, in bytes: the server does not accept a larger one
/// either.
pub const ITEM_MAX: usize = 1 << 30;

/// How full a buffer should get when it holds `rest` bytes of an unfinished item. Doubling avoids
/// rescanning them again and again; the limit is just above the largest statement or row.
pub fn fill_target(rest: usize, block: usize) -> usize {
    rest.saturating_mul(2)
        .min(rest.max(ITEM_MAX) + block)
        .max(block)
}

/// What ends a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The delimiter, as the stock client recognizes it.
    Client,
    /// A semicolon at the end of a line, in any context. This is how mydumper writes programs: it
    /// appends a blank to every other semicolon that would end a line.
    Line,
}

/// Splits text into statements.
pub enum Cutter {
    /// Like the stock client.
    Client(Box<Scanner>),
    /// At a semicolon that ends a line.
    Lines(Lines),
}

impl Cutter {
    /// Starts at the beginning of a file.
    pub fn new(ends: Ends) -> Self {
        match ends {
            Ends::Client => Self::Client(Box::new(Scanner::new(ScanOptions {
                piece_target: PIECE_BYTES,
                max_item: ITEM_MAX,
            }))),
            Ends::Line => Self::Lines(Lines::default()),
        }
    }

    /// Sets the mode for the following statements.
    pub fn set_mode(&mut self, mode: LexMode) {
        match self {
            Self::Client(scanner) => scanner.set_mode(mode),
            Self::Lines(lines) => lines.mode = mode,
        }
    }

    /// Cuts the next item from the start of `buf`; `eof` means that nothing follows.
    pub fn next(&mut self, buf: &[u8], eof: bool) -> Result<Step, ScanError> {
        match self {
            Self::Client(scanner) => {
                let (offset, line) = (scanner.offset(), scanner.line());
                scanner.next(buf, eof).map_err(|error| match error {
                    // The apostrophe belongs to a message and opens no string.
                    ScanError::UnterminatedQuote { .. } if is_message(buf.trim_ascii_start()) => {
                        let blanks = &buf[..buf.len() - buf.trim_ascii_start().len()];
                        let (offset, line) =
                            (offset + blanks.len() as u64, line + newlines(blanks));
                        ScanError::Message { offset, line }
                    }
                    error => error,
                })
            }
            Self::Lines(lines) => lines.next(buf, eof),
        }
    }
}

/// Splits after each semicolon at the end of a line.
#[derive(Debug)]
pub struct Lines {
    mode: LexMode,
    max_item: usize,
    offset: u64,
    line: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            mode: LexMode::default(),
            max_item: ITEM_MAX,
            offset: 0,
            line: 1,
        }
    }
}

impl Lines {
    fn next(&mut self, buf: &[u8], eof: bool) -> Result<Step, ScanError> {
        let found = memchr::memmem::find(buf, b";\n");
        if found.unwrap_or(buf.len()) > self.max_item {
            let start = buf.len() - buf.trim_ascii_start().len();
            return Err(ScanError::TooLong {
                limit: self.max_item,
                offset: self.offset + start as u64,
                line: self.line + newlines(&buf[..start]),
            });
        }
        let (end, len) = match found {
            Some(at) => (at, at + 2),
            None if !eof => return Ok(Step::NeedMore),
            None if buf.is_empty() => return Ok(Step::End),
            None => (buf.len(), buf.len()),
        };
        let whole = &buf[..end];
        let start = end - whole.trim_ascii_start().len();
        let mut text = start..start + whole[start..].trim_ascii_end().len();
        let mut terminated = found.is_some();
        if !terminated && buf[text.clone()].ends_with(b";") {
            text.end -= 1;
            terminated = true;
        }
        let blank = text.is_empty();
        let kind = if blank {
            ItemKind::Blank
        } else {
            ItemKind::Statement(classify(&buf[text.clone()], self.mode))
        };
        let item = Item {
            kind,
            len,
            offset: self.offset + text.start as u64,
            line: self.line + newlines(&buf[..text.start]),
            text,
            terminated: terminated || blank,
        };
        self.offset += len as u64;
        self.line += newlines(&buf[..len]);
        Ok(Step::Item(item))
    }
}

fn newlines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_semicolon_at_the_end_of_a_line_ends_a_statement() {
        let text =
            b"SET @a = 1;\nCREATE PROCEDURE p() BEGIN SELECT ';'; \nSELECT 2; END;\n\nDROP VIEW v";
        let mut cutter = Cutter::new(Ends::Line);
        let (mut at, mut found) = (0, Vec::new());
        while let Step::Item(item) = cutter.next(&text[at..], true).unwrap() {
            found.push((
                item.line,
                item.offset,
                String::from_utf8_lossy(&text[at..][item.text.clone()]).into_owned(),
                item.terminated,
            ));
            at += item.len;
        }
        assert_eq!(
            found,
            [
                (1, 0, "SET @a = 1".to_owned(), true),
                (
                    2,
                    12,
                    "CREATE PROCEDURE p() BEGIN SELECT ';'; \nSELECT 2; END".to_owned(),
                    true
                ),
                (5, 68, "DROP VIEW v".to_owned(), false),
            ]
        );
    }

    #[test]
    fn an_apostrophe_of_a_message_is_no_quote() {
        let text = b"SELECT 1;\n\nmysqldump: Couldn't execute 'SELECT 1': Unknown table (1109)\nSELECT 2;\n";
        let mut cutter = Cutter::new(Ends::Client);
        let Ok(Step::Item(first)) = cutter.next(text, true) else {
            panic!("the first statement is whole");
        };
        let error = cutter.next(&text[first.len..], true).unwrap_err();
        let found = ScanError::Message {
            offset: 11,
            line: 3,
        };
        assert_eq!(error, found);
    }

    #[test]
    fn a_statement_that_no_line_ends_is_given_up_at_the_limit() {
        let text = b"SELECT 1;\n \n SELECT 22222222;\n";
        for eof in [false, true] {
            let mut lines = Lines {
                max_item: 12,
                ..Lines::default()
            };
            let Ok(Step::Item(first)) = lines.next(text, eof) else {
                panic!("the first statement is short");
            };
            let error = lines.next(&text[first.len..], eof).unwrap_err();
            assert_eq!(
                error.to_string(),
                "a statement or row of more than 12 bytes begins at byte 13, line 3"
            );
            let error = lines.next(&text[first.len..text.len() - 2], eof);
            assert!(error.is_err(), "nothing has ended it yet");
        }
    }

    #[test]
    fn buffers_grow_no_further_than_a_row_may() {
        assert_eq!(fill_target(0, 10), 10);
        assert_eq!(fill_target(6, 10), 12);
        assert_eq!(fill_target(ITEM_MAX - 1, 10), ITEM_MAX + 10);
        assert_eq!(fill_target(ITEM_MAX + 5, 10), ITEM_MAX + 15);
    }
}
