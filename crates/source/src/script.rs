//! What a SQL file says about itself: how it is lexed, who wrote it, which database it is from, and
//! whether it is complete. It is collected while the file is read from its beginning.

use refloat_sqltext::{CommentKind, Frame, Item, ItemKind, LexMode, Modes, SqlMode, StatementKind};

/// What a file lacks that was cut.
pub const CUT: &str = "its closing line `-- Dump completed` is missing, or it does not restore the \
    settings that it saved at its beginning";

/// What has been seen so far of one SQL file.
#[derive(Debug, Default)]
pub struct Script {
    modes: Modes,
    frame: Frame,
    /// Whether a closing comment was seen, whatever came after it.
    closed: bool,
    header: Option<String>,
    origin: Option<String>,
    statements: u64,
}

impl Script {
    /// Takes the next item of the file into account.
    pub fn item(&mut self, item: &Item, text: &[u8]) {
        match &item.kind {
            ItemKind::Statement(StatementKind::Empty)
            | ItemKind::ClientCommand(_)
            | ItemKind::Blank => {}
            ItemKind::Rows(_) => self.statement(),
            ItemKind::Statement(kind) => {
                self.statement();
                if matches!(kind, StatementKind::Set) {
                    self.set(text);
                    self.frame.set(text);
                }
            }
            ItemKind::Comment(CommentKind::DumpHeader) => {
                self.frame.header = true;
                let line = String::from_utf8_lossy(text);
                self.header = Some(line.trim_start_matches(['-', ' ']).trim_end().to_owned());
            }
            ItemKind::Comment(CommentKind::DumpCompleted) => {
                (self.frame.completed, self.closed) = (true, true);
            }
            ItemKind::Comment(_) => self.origin = origin(text).or(self.origin.take()),
        }
    }

    /// Applies a `SET` that the file starts with, although its text is elsewhere in the source.
    pub fn set(&mut self, text: &[u8]) {
        self.modes.set(text);
    }

    fn statement(&mut self) {
        self.statements += 1;
        self.frame.completed = false;
    }

    /// How the next statement is lexed.
    pub fn mode(&self) -> LexMode {
        self.modes.now()
    }

    /// The `sql_mode` of the next statement.
    pub fn sql_mode(&self) -> &SqlMode {
        self.modes.sql_mode()
    }

    /// The tool that wrote the file, as its first comment says.
    pub fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// The database that was dumped, if a comment names it.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Whether the file was cut: it begins like a dump but does not end like one, or it has no
    /// statement at all. A closing comment counts only if nothing follows it.
    pub fn is_cut(&self) -> bool {
        self.frame.is_cut() || self.statements == 0 && !self.frame.completed
    }

    /// [`Script::is_cut`] for a file of a folder: some tools write triggers after the closing
    /// comment, and a file may hold comments only.
    pub fn is_cut_part(&self) -> bool {
        !self.closed && self.frame.is_cut()
    }
}

/// The database that was dumped, from a comment in the dump's head:
/// `-- Host: localhost    Database: shop`.
pub fn origin(comment: &[u8]) -> Option<String> {
    let rest = comment.strip_prefix(b"-- Host: ")?;
    let word = b"    Database: ";
    let at = memchr::memmem::find(rest, word)?;
    let name = String::from_utf8_lossy(rest[at + word.len()..].trim_ascii()).into_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use refloat_sqltext::{Scanner, Step};

    use super::*;

    fn script(text: &str) -> Script {
        let (mut script, mut scanner, mut at) = (Script::default(), Scanner::default(), 0);
        while let Ok(Step::Item(item)) = scanner.next(&text.as_bytes()[at..], true) {
            script.item(&item, &text.as_bytes()[at..][item.text.clone()]);
            at += item.len;
        }
        script
    }

    const HEAD: &str = "-- MySQL dump 10.13  Distrib 8.0\n-- Host: localhost    Database: shop\n";
    const END: &str = "-- Dump completed on 2026-11-20\n";

    #[test]
    fn a_file_that_begins_as_a_dump_ends_as_one() {
        let whole = script(&format!("{HEAD}CREATE TABLE t (a int);\n{END}"));
        assert!(!whole.is_cut() && !whole.is_cut_part());
        assert_eq!(whole.header(), Some("MySQL dump 10.13  Distrib 8.0"));
        assert_eq!(whole.origin(), Some("shop"));
        let cut = script(&format!("{HEAD}CREATE TABLE t (a int);\n"));
        assert!(cut.is_cut() && cut.is_cut_part());
        let more = script(&format!("{HEAD}DO 1;\n{END};\nINSERT INTO t VALUES (1);\n"));
        assert!(more.is_cut(), "something follows the closing comment");
        assert!(!more.is_cut_part());
    }

    #[test]
    fn a_file_without_a_statement_may_have_been_cut_in_its_first_line() {
        assert!(script("").is_cut() && script("-- MySQL du").is_cut());
        assert!(!script("").is_cut_part());
        assert!(!script(END).is_cut());
        assert!(!script("DO 1;").is_cut());
    }

    #[test]
    fn without_comments_the_settings_tell() {
        let keeps = "/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;\n";
        assert!(script(keeps).is_cut() && script(keeps).is_cut_part());
    }

    #[test]
    fn heads_of_dumps() {
        let parse = |text: &str| origin(text.as_bytes());
        let named = parse("-- Host: localhost    Database: my shop");
        assert_eq!(named, Some("my shop".to_owned()));
        assert_eq!(parse("-- Host: localhost    Database: "), None);
        assert_eq!(parse("-- Server version\t9.7"), None);
    }
}
