//! Scans a plain file line by line, looking only at the beginning and the end of each line.
//!
//! Dump tools begin every statement on a line of its own and end it at the end of a line. A
//! statement that does not follow this is missed here, or taken for part of the one before it.

use std::io::{self, Read};

use refloat_run::Cancel;
use refloat_sqltext::{
    ClientCommand, DUMP_COMPLETED, InsertHeader, ItemKind, Modes, Scanner, StatementKind, Step,
    classify, is_dump_header,
};

use super::{Gather, Outline};

/// Bytes read at a time.
const BLOCK: usize = 1 << 20;
/// How many bytes of a line are examined.
const HEAD: usize = 1024;
/// How many bytes of a statement are kept.
const STATEMENT: usize = 8 << 10;
/// The delimiter must be within this many bytes of the end of its line.
const TAIL: usize = 64;
/// The first line of newer MariaDB dumps. It is meant for the stock client: no server runs it, and
/// no delimiter ends it.
const SANDBOX: [&[u8]; 2] = [b"/*M!999999\\-", b"/*!999999\\-"];
/// The closing comment must be within this many bytes of the end of the file.
const FILE_TAIL: usize = 4096;

/// Scans to the end; `None` if the run is cancelled meanwhile.
pub fn read(
    file: &mut impl Read,
    gather: Gather<'_>,
    cancel: &Cancel,
) -> io::Result<Option<Outline>> {
    let mut walk = Walk::new(gather);
    let mut block = vec![0; BLOCK];
    let mut file_tail: Vec<u8> = Vec::new();
    loop {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let read = match file.read(&mut block) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &block[..read]) {
            walk.part(&block[start..end]);
            walk.line();
            start = end + 1;
        }
        walk.part(&block[start..read]);
        file_tail.extend_from_slice(&block[read.saturating_sub(FILE_TAIL)..read]);
        file_tail.drain(..file_tail.len().saturating_sub(FILE_TAIL));
    }
    walk.line();
    // The last statement has no delimiter.
    walk.gather.outline().suspect |= walk.inside != Inside::Nothing;
    let mut outline = walk.gather.end();
    outline.frame.tail(&file_tail);
    outline.frame.completed = memchr::memmem::find(&file_tail, DUMP_COMPLETED).is_some();
    Ok(Some(outline))
}

/// What the current line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Statement,
    Rows,
}

struct Walk<'a> {
    gather: Gather<'a>,
    modes: Modes,
    delimiter: Vec<u8>,
    inside: Inside,
    /// Beginning and end of the current line.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Beginning of the current statement, and the line that it begins on.
    text: Vec<u8>,
    begin: u64,
    line: u64,
    /// Beginning of the last insert, up to its first row.
    insert: Vec<u8>,
}

impl<'a> Walk<'a> {
    fn new(gather: Gather<'a>) -> Self {
        Self {
            gather,
            modes: Modes::default(),
            delimiter: b";".to_vec(),
            inside: Inside::Nothing,
            head: Vec::with_capacity(HEAD),
            tail: Vec::with_capacity(2 * TAIL),
            text: Vec::with_capacity(STATEMENT),
            begin: 0,
            line: 1,
            insert: Vec::new(),
        }
    }

    /// Takes more bytes of the line.
    fn part(&mut self, bytes: &[u8]) {
        let room = if self.inside == Inside::Rows {
            // Within rows, only a change of the delimiter matters.
            TAIL.saturating_sub(self.head.len())
        } else {
            HEAD - self.head.len()
        };
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() >= TAIL {
            self.tail.clear();
        }
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
    }

    /// Ends the line.
    fn line(&mut self) {
        let ended = self.tail.trim_ascii_end().ends_with(&self.delimiter);
        self.look(ended);
        self.head.clear();
        self.tail.clear();
        self.line += 1;
    }

    fn look(&mut self, ended: bool) {
        if let Some(delimiter) = delimiter_command(&self.head) {
            self.delimiter = delimiter.to_vec();
            self.inside = Inside::Nothing;
            return;
        }
        match self.inside {
            Inside::Rows => {}
            Inside::Statement => {
                if self.text.len() + self.head.len() < STATEMENT {
                    self.text.push(b'\n');
                    self.text.extend_from_slice(&self.head);
                }
            }
            Inside::Nothing => {
                let line = self.head.trim_ascii_start();
                if is_dump_header(line) {
                    self.gather.outline().frame.header = true;
                }
                let plain_comment = line.starts_with(b"--")
                    || line.starts_with(b"#")
                    || SANDBOX.iter().any(|head| line.starts_with(head))
                    || (line.starts_with(b"/*")
                        && !line.starts_with(b"/*!")
                        && !line.starts_with(b"/*M!"));
                if plain_comment {
                    self.gather.comment(line);
                }
                if line.is_empty() || plain_comment {
                    return;
                }
                if self.insert() {
                    self.inside = Inside::Rows;
                } else {
                    self.inside = Inside::Statement;
                    self.begin = self.line;
                    self.text.clear();
                    self.text.extend_from_slice(&self.head);
                }
            }
        }
        if ended {
            if self.inside == Inside::Statement {
                self.statement();
            }
            self.inside = Inside::Nothing;
        }
    }

    /// Whether an insert begins here; records its table.
    fn insert(&mut self) -> bool {
        if !self.insert.is_empty() && self.head.starts_with(&self.insert) {
            return true;
        }
        let word = self.head.get(..7).unwrap_or_default();
        if !(word.eq_ignore_ascii_case(b"INSERT ") || word.eq_ignore_ascii_case(b"REPLACE")) {
            return false;
        }
        // Let the scanner parse the head, with a single row in place of the real ones.
        let Some(header) = insert_header(&self.head, &self.modes) else {
            return false;
        };
        self.gather.rows(header.database.as_deref(), &header.table);
        self.insert = header.text.trim_ascii_end().to_vec();
        true
    }

    /// Reads the statement that is now complete, or several that share lines.
    fn statement(&mut self) {
        let mut text = b"DELIMITER ".to_vec();
        text.extend_from_slice(&self.delimiter);
        text.push(b'\n');
        let text_start = text.len();
        text.extend_from_slice(&self.text);
        let mut scanner = Scanner::default();
        scanner.set_mode(self.modes.now());
        let mut at = 0;
        // A truncated statement may look malformed, but its kind can be determined anyway.
        while let Ok(Step::Item(item)) = scanner.next(&text[at..], true) {
            let words = at + item.text.start..at + item.text.end;
            at += item.len;
            match &item.kind {
                ItemKind::Statement(kind) => self.found(kind, &text[words]),
                ItemKind::Rows(rows) => {
                    self.gather
                        .rows(rows.header.database.as_deref(), &rows.header.table);
                }
                ItemKind::ClientCommand(ClientCommand::Delimiter(_)) => {}
                ItemKind::ClientCommand(_) => self.gather.outline().suspect = true,
                _ => {}
            }
            scanner.set_mode(self.modes.now());
        }
        let rest = text[at.max(text_start)..].trim_ascii();
        if !rest.is_empty() {
            let kind = classify(rest, self.modes.now());
            self.found(&kind, rest);
        }
    }

    fn found(&mut self, kind: &StatementKind, text: &[u8]) {
        let mode = self.modes.now();
        if matches!(kind, StatementKind::Set) {
            self.modes.set(text);
            self.gather.outline().frame.set(text);
        }
        if matches!(
            kind,
            StatementKind::Use { .. } | StatementKind::CreateTrigger { .. }
        ) {
            // After this, the same insert may mean another table, or also change others.
            self.insert.clear();
        }
        self.gather.statement(kind, text, mode, self.begin);
    }
}

/// The head of an insert that begins with `line`.
fn insert_header(line: &[u8], modes: &Modes) -> Option<std::sync::Arc<InsertHeader>> {
    let upper = line.to_ascii_uppercase();
    let values = memchr::memmem::find(&upper, b"VALUES")?;
    let mut text = line[..values + b"VALUES".len()].to_vec();
    text.extend_from_slice(b" (1);");
    let mut scanner = Scanner::default();
    scanner.set_mode(modes.now());
    match scanner.next(&text, true) {
        Ok(Step::Item(item)) => match item.kind {
            ItemKind::Rows(rows) => {
                let mut header = InsertHeader::clone(&rows.header);
                // As in the line, without the blank that was added.
                header.text = line[..values + b"VALUES".len()].to_vec();
                Some(std::sync::Arc::new(header))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The delimiter that a `DELIMITER` line of the stock client sets.
fn delimiter_command(line: &[u8]) -> Option<&[u8]> {
    let word = line.get(..10)?;
    if !word.eq_ignore_ascii_case(b"DELIMITER ") {
        return None;
    }
    let delimiter = line[10..].trim_ascii();
    let end = delimiter
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(delimiter.len());
    (end > 0).then(|| &delimiter[..end])
}
