//! Reads mydumper's `metadata`, and the smaller metadata files beside it.
//!
//! Up to 0.10 it is text for people. Since 0.14 it is a key file with a section for each table and
//! database (`print_dbt_on_metadata_gstring` in `mydumper_start_dump.c`). In between, every table
//! has a file `DB.TABLE-metadata` with its number of rows. A stream puts the head of `metadata`
//! into a separate file, `metadata.header`, and the state so far into `metadata.partial.N`
//! (`mydumper_stream.c`); the `metadata` at its end repeats all tables.

use std::collections::BTreeMap;

use refloat_sqltext::LexMode;

use super::names::Databases;
use crate::error::SourceError;
use crate::folder::{self, Entry};
use crate::layout::Layout;

/// The head of `metadata`, at the start of a stream.
const HEADER: &str = "metadata.header";
/// Suffix of a file that holds the row count of a table.
const ROWS_END: &str = "-metadata";
/// How mydumper writes a newline in a name: C reads `"\u10000"` as one character followed by a
/// zero.
const NEWLINE: &str = "\u{1000}0";

/// The content of `metadata`.
#[derive(Debug, Default)]
pub struct Metadata {
    /// Whether the dump finished.
    pub finished: bool,
    /// Whether it has sections, which contain row counts.
    pub counts: bool,
    /// Whether the files quote names with `"`, as a server in `ANSI_QUOTES` mode does.
    pub ansi: bool,
    /// Statements that start every session.
    pub session: Vec<String>,
    /// Row counts by database and table, as spelled in file names; without views and sequences.
    pub rows: BTreeMap<(String, String), u64>,
    /// Actual names of the tables, by database and table as spelled in file names.
    pub real: BTreeMap<(String, String), String>,
}

impl Metadata {
    /// Reads the metadata of a folder. Missing files become faults of the layout.
    pub fn read(entries: &[Entry], layout: &mut Layout) -> Result<Self, SourceError> {
        let find = |name: &str| entries.iter().find(|entry| entry.name == name);
        let Some(entry) = find("metadata") else {
            layout.faults.push(
                "metadata is missing: mydumper writes it last, so the dump is not whole".to_owned(),
            );
            return Ok(Self::default());
        };
        let mut text = Vec::new();
        if let Some(header) = find(HEADER) {
            text = folder::read(&header.path)?;
            text.push(b'\n');
        }
        text.extend(folder::read(&entry.path)?);
        let metadata = Self::parse(&String::from_utf8_lossy(&text));
        if !metadata.finished {
            layout.faults.push(
                "metadata has no line `Finished dump at`: the dump has ended early".to_owned(),
            );
        }
        let version = match (metadata.counts, entries.iter().any(counts_rows)) {
            (true, _) => "mydumper 0.14 or later",
            (false, true) => "mydumper 0.11 to 0.13",
            (false, false) => "mydumper 0.10 or earlier",
        };
        layout.written_by = Some(version.to_owned());
        Ok(metadata)
    }

    /// Parses the lines of `metadata`.
    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let mut section = Section::default();
        for line in text.lines().map(str::trim) {
            if line
                .trim_start_matches(['#', ' '])
                .starts_with("Finished dump at")
            {
                found.finished = true;
            } else if let Some(name) = line
                .strip_prefix('[')
                .and_then(|line| line.strip_suffix(']'))
            {
                section.end(&mut found);
                section = Section::named(name);
                found.counts = true;
            } else if let Some((key, value)) = line.split_once('=') {
                section.take(key.trim(), value.trim(), &mut found);
            }
        }
        section.end(&mut found);
        found
    }

    /// The lexical mode of the statements in its files.
    pub fn mode(&self) -> LexMode {
        LexMode {
            ansi_quotes: self.ansi,
            ..LexMode::default()
        }
    }

    /// Adds the row counts from the `DB.TABLE-metadata` files.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold a number.
    pub fn add_counts(
        &mut self,
        entries: &[Entry],
        databases: &Databases,
    ) -> Result<(), SourceError> {
        for entry in entries.iter().filter(|entry| counts_rows(entry)) {
            let text = folder::read(&entry.path)?;
            let rows = std::str::from_utf8(&text).ok();
            let rows = rows.and_then(|text| text.trim().parse().ok());
            let rows = rows.ok_or_else(|| SourceError::Unreadable {
                path: entry.path.display().to_string(),
                reason: "it does not hold the number of rows of a table".to_owned(),
            })?;
            let stem = &entry.name[..entry.name.len() - ROWS_END.len()];
            self.rows.entry(databases.split(stem)).or_insert(rows);
        }
        Ok(())
    }
}

/// The section being parsed.
#[derive(Debug, Default)]
struct Section {
    name: String,
    /// Database and table, as spelled in file names.
    table: Option<(String, String)>,
    /// The quote character around its name.
    quote: char,
    /// Whether it is a view or a sequence, which have no rows of their own.
    view: bool,
    rows: Option<u64>,
}

impl Section {
    fn named(name: &str) -> Self {
        let table = table_of(name);
        Self {
            name: name.to_owned(),
            quote: table.as_ref().map_or('`', |(quote, _)| *quote),
            table: table.map(|(_, table)| table),
            ..Self::default()
        }
    }

    fn take(&mut self, key: &str, value: &str, found: &mut Metadata) {
        match (key, self.name.as_str()) {
            ("rows", _) => self.rows = value.parse().ok(),
            ("real_table_name", _) => {
                if let Some(table) = &self.table {
                    let doubled = format!("{}{}", self.quote, self.quote);
                    let real = value.replace(NEWLINE, "\n");
                    let real = real.replace(&doubled, &self.quote.to_string());
                    found.real.insert(table.clone(), real);
                }
            }
            ("is_view" | "is_sequence", _) => self.view |= value == "1",
            ("quote-character", "config") => {
                found.ansi |= matches!(value, "DOUBLE_QUOTE" | "\"");
            }
            ("SQL_MODE", "myloader_session_variables") => {
                if let Some(mode) = quoted_words(value) {
                    found.session = vec![
                        format!("SET SESSION sql_mode = '{mode}'"),
                        "SET SESSION foreign_key_checks = 0".to_owned(),
                    ];
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, found: &mut Metadata) {
        if let (Some(table), Some(rows), false) = (self.table.take(), self.rows, self.view) {
            found.rows.insert(table, rows);
        }
    }
}

/// The words in `'A,B' /*!40101`. Nothing else that a dump may put here ends up in a statement.
fn quoted_words(value: &str) -> Option<String> {
    let inner = value.strip_prefix('\'')?;
    let (words, _) = inner.split_once('\'')?;
    words
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b','))
        .then(|| words.to_owned())
}

/// Database and table of a section, as spelled in file names, and their quote character.
fn table_of(section: &str) -> Option<(char, (String, String))> {
    ['`', '"'].into_iter().find_map(|quote| {
        let inner = section.strip_prefix(quote)?.strip_suffix(quote)?;
        let (database, table) = inner.split_once(&format!("{quote}.{quote}"))?;
        Some((quote, (database.to_owned(), table.to_owned())))
    })
}

/// Whether a file holds the row count of a table.
fn counts_rows(entry: &Entry) -> bool {
    entry.name.ends_with(ROWS_END) && !entry.folder
}

/// Whether a file is one that streams have in addition to `metadata`, which repeats its content at
/// the end.
pub fn is_of_stream(name: &str) -> bool {
    let part = name.strip_prefix("metadata.partial.");
    name == HEADER
        || part
            .is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "\
# Started dump at: 2026-11-22 06:33:06
[config]
quote-character = BACKTICK

[myloader_session_variables]
SQL_MODE='NO_AUTO_VALUE_ON_ZERO,NO_ZERO_DATE' /*!40101

[source]
# Channel_Name = '' # It can be use to setup replication FOR CHANNEL
SOURCE_LOG_FILE = \"binlog.000002\"
#SOURCE_AUTO_POSITION = {0|1}
myloader_exec_reset_replica = 0

[`shop`.`items`]
real_table_name=items
rows = 1200
data_checksum = 1234
schema_checksum = 922479af
indexes_checksum = 0

[`shop`.`mydumper_0`]
real_table_name=o.d`` d
rows = 3

[`shop`.`v`]
real_table_name=v
rows = 5
is_view = 1

[`shop`.`s`]
real_table_name=s
rows = 0
is_sequence = 1

[`shop`]
schema_checksum = FDF2173B
post_checksum = DB11C4DD
events_checksum = A93CB91B
triggers_checksum = 0
[config]
max-statement-size = 1000
num-sequences = 1
# Finished dump at: 2026-11-22 06:33:07
";

    #[test]
    fn metadata_of_1_x_counts_rows() {
        let found = Metadata::parse(METADATA);
        assert!(found.finished && found.counts && !found.ansi);
        let key = |table: &str| ("shop".to_owned(), table.to_owned());
        assert_eq!(found.rows.get(&key("items")), Some(&1200));
        assert_eq!(found.rows.len(), 2, "{:?}", found.rows);
        assert_eq!(found.real.get(&key("mydumper_0")).unwrap(), "o.d` d");
        assert_eq!(
            found.session[0],
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,NO_ZERO_DATE'"
        );
    }

    #[test]
    fn names_are_quoted_as_the_server_quoted_them() {
        let text = METADATA
            .replace("BACKTICK", "DOUBLE_QUOTE")
            .replace('`', "\"");
        let found = Metadata::parse(&text);
        assert!(found.ansi && found.mode().ansi_quotes);
        let key = ("shop".to_owned(), "mydumper_0".to_owned());
        assert_eq!(found.real.get(&key).unwrap(), "o.d\" d");
        assert_eq!(found.rows.get(&key), Some(&3));
    }

    #[test]
    fn metadata_of_0_10_says_only_that_the_dump_ended() {
        let found = Metadata::parse(
            "Started dump at: x\nSHOW MASTER STATUS:\n\tLog: b\n\nFinished dump at: y\n",
        );
        assert!(found.finished && !found.counts && found.rows.is_empty());
        assert!(!Metadata::parse("Started dump at: x\n").finished);
    }

    #[test]
    fn nothing_but_words_is_taken_from_metadata() {
        assert_eq!(quoted_words("'A_B,C' /*!40101").as_deref(), Some("A_B,C"));
        for hostile in [
            "A",
            "'A",
            "'A; DROP TABLE t' x",
            "(SELECT 1)",
            "'A''B'C; --",
        ] {
            assert!(
                quoted_words(hostile).is_none_or(|words| words == "A"),
                "{hostile}"
            );
        }
    }

    #[test]
    fn parts_of_a_stream_are_told_from_a_dump_that_is_not_finished() {
        for name in [
            "metadata.header",
            "metadata.partial.0",
            "metadata.partial.17",
        ] {
            assert!(is_of_stream(name), "{name}");
        }
        for name in [
            "metadata",
            "metadata.partial",
            "metadata.partial.",
            "metadata.partial.x",
        ] {
            assert!(!is_of_stream(name), "{name}");
        }
    }
}
