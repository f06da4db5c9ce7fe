//! The caller's options for delimited text.

use std::path::Path;

use refloat_store::files::{self, Kind};

use super::delimited::{Decode, Delimited};
use super::error::SourceError;
use super::folder;
use super::layout::{Layout, RowFile, RowForm, Segment, SourceFormat, TableRows};
use crate::delimited::DelimitedFile;

/// How much of a file is searched for its line ending.
const HEAD: usize = 1 << 20;

/// How delimited text is written, where the source does not say. `None` means the default of its
/// format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DelimitedOptions {
    /// The table of a single file, as `table` or `database.table`.
    pub table: Option<String>,
    /// Commas and quotes instead of tabs and backslashes.
    pub csv: bool,
    /// What stands between two fields.
    pub fields_terminated_by: Option<Vec<u8>>,
    /// Field enclosure; empty for none.
    pub fields_enclosed_by: Option<Vec<u8>>,
    /// Escape character; empty for none.
    pub fields_escaped_by: Option<Vec<u8>>,
    /// Line prefix.
    pub lines_starting_by: Option<Vec<u8>>,
    /// What stands at the end of each line.
    pub lines_terminated_by: Option<Vec<u8>>,
    /// Whether the first line names the columns.
    pub header: bool,
    /// Number of lines to skip at the start, before the header.
    pub skip_lines: u64,
    /// The column of each field; `@name` discards the field.
    pub columns: Option<Vec<String>>,
    /// An unenclosed field that means `NULL`, in addition to `\N`.
    pub null: Option<Vec<u8>>,
    /// Character set of the text; `binary` if each value is in its column's own character set.
    pub charset: Option<String>,
}

impl DelimitedOptions {
    /// Whether no option is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Overrides `file` with the options that are set.
    pub(super) fn apply(&self, file: &mut DelimitedFile) {
        let format = &mut file.format;
        let one = |text: &Vec<u8>| text.first().copied();
        if let Some(text) = &self.fields_terminated_by {
            format.field_end.clone_from(text);
        }
        if let Some(text) = &self.fields_enclosed_by {
            format.enclosed = one(text);
            if format.enclosed.is_some() && !self.csv {
                format.null_word = Some(b"NULL".to_vec());
            }
        }
        if let Some(text) = &self.fields_escaped_by {
            format.escaped = one(text);
        }
        if let Some(text) = &self.lines_starting_by {
            format.line_start.clone_from(text);
        }
        if let Some(text) = &self.lines_terminated_by {
            format.line_end.clone_from(text);
        }
        if let Some(word) = &self.null {
            format.null_word = Some(word.clone());
        }
        if let Some(charset) = &self.charset {
            file.charset = charset.to_ascii_lowercase();
        }
        file.header |= self.header;
        file.skip_lines += self.skip_lines;
        if let Some(columns) = &self.columns {
            let fields = columns.iter().map(|name| {
                if name.starts_with('@') {
                    (name.clone(), Decode::Skip)
                } else {
                    (name.clone(), Decode::Plain)
                }
            });
            file.fields = Some(fields.collect());
        }
    }

    /// Checks that the options are valid and do not contradict each other.
    ///
    /// # Errors
    /// What is wrong, as a message.
    pub fn check(&self) -> Result<(), String> {
        let one = |what: &str, text: &Option<Vec<u8>>| match text {
            Some(text) if text.len() > 1 => Err(format!("{what} takes one byte, or none")),
            _ => Ok(()),
        };
        one("--fields-enclosed-by", &self.fields_enclosed_by)?;
        one("--fields-escaped-by", &self.fields_escaped_by)?;
        if let Some(charset) = &self.charset {
            let charset = charset.to_ascii_lowercase();
            if !charset.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(format!("{charset} is not a character set"));
            }
            if charset.starts_with("utf16") || charset.starts_with("utf32") || charset == "ucs2" {
                return Err(format!(
                    "text in {charset} is not read: convert it to utf8mb4 first"
                ));
            }
        }
        let mut file = self.file();
        self.apply(&mut file);
        file.format
            .fault()
            .map_or(Ok(()), |fault| Err(fault.to_owned()))
    }

    fn file(&self) -> DelimitedFile {
        let format = if self.csv {
            Delimited {
                field_end: b",".to_vec(),
                enclosed: Some(b'"'),
                escaped: None,
                ..Delimited::default()
            }
        } else {
            Delimited::default()
        };
        DelimitedFile {
            format,
            charset: "utf8mb4".to_owned(),
            skip_lines: 0,
            header: false,
            fields: None,
            table: None,
            closed: false,
            by_character: true,
            session: vec![
                "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'".to_owned(),
                "SET SESSION foreign_key_checks = 0".to_owned(),
            ],
        }
    }

    /// Lays out a single file for one table.
    ///
    /// # Errors
    /// Options that contradict each other, or a file that cannot be read.
    pub fn layout(&self, path: &Path) -> Result<Layout, SourceError> {
        let refused = |reason| SourceError::Unreadable {
            path: path.display().to_string(),
            reason,
        };
        self.check().map_err(refused)?;
        let Some(table) = &self.table else {
            return Err(refused(
                "--table must name the table that its rows are for".to_owned(),
            ));
        };
        let (database, table) = match table.split_once('.') {
            Some((database, table)) => (Some(database.to_owned()), table.to_owned()),
            None => (None, table.clone()),
        };
        // Standard input and pipes can be read only once, and have no size.
        let (piped, bytes) = if path.as_os_str() == "-" {
            (true, 0)
        } else {
            let stat = files::stat(path).map_err(|source| SourceError::Read {
                path: path.display().to_string(),
                source,
            })?;
            (stat.kind != Kind::File, stat.bytes)
        };
        let mut file = self.file();
        self.apply(&mut file);
        if self.lines_terminated_by.is_none() && !piped {
            let (head, _) = folder::read_up_to(path, HEAD)?;
            if memchr::memchr(b'\n', &head).is_some_and(|at| at > 0 && head[at - 1] == b'\r') {
                file.format.line_end = b"\r\n".to_vec();
            }
        }
        let mut layout = Layout::new(SourceFormat::Delimited, path);
        layout.segments = vec![Segment::Rows(vec![TableRows {
            database,
            table,
            rows: None,
            files: vec![RowFile {
                path: path.to_owned(),
                bytes,
                rows: None,
                text: None,
                form: RowForm::Delimited(Box::new(file)),
                checksum: None,
            }],
        }])];
        layout.look_for_lost();
        Ok(layout)
    }
}
