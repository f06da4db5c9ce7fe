//! Folders of MySQL Shell (`util.dumpInstance`, `dumpSchemas`, `dumpTables`) and of MariaDB Shell.
//!
//! MariaDB Shell is a fork (`mariadb-corporation/mariadb-shell`) that keeps the layout. It adds
//! `source.vendor` to `@.json`, lists `sequences`, `packages` and `packageBodies` in `SCHEMA.json`,
//! and puts their statements into `SCHEMA.sql`.
//!
//! From the Shell's source (`modules/util/dump/dumper.cc`, `modules/util/load/dump_reader.cc`,
//! `modules/util/common/dump/utils.cc`):
//!
//! | File | Content |
//! |---|---|
//! | `@.json` | what was dumped, base names of the schemas, `tzUtc`; `@.done.json`, written last: rows of each table |
//! | `SCHEMA.json`, `SCHEMA.sql` | tables, views, base names; `CREATE DATABASE`, events and routines |
//! | `SCHEMA.libraries.sql`, `.routines.sql`, `.events.sql` | these in separate files, with `multifileDdl`: since 9.4, if there are libraries |
//! | `SCHEMA@TABLE.json`, `.sql`, `.triggers.sql` | format of the rows; definition; triggers |
//! | `SCHEMA@VIEW.pre.sql`, `SCHEMA@VIEW.sql` | a placeholder for the view; the view |
//! | `SCHEMA@TABLE@0.tsv.zst` … `SCHEMA@TABLE@@9.tsv.zst` | chunks of rows, the last one with two `@`; `SCHEMA@TABLE.tsv.zst` without chunks; `.idx` files beside them |
//! | `SCHEMA@TABLE@PARTITION@0.tsv.zst` … | rows of a partitioned table |
//! | `@.users.sql` | accounts |
//!
//! Metadata is treated as data: the only expressions supported in it are `UNHEX` and `FROM_BASE64`.

mod metadata;

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::cutter::Ends;
use super::delimited::{Decode, Delimited};
use super::error::SourceError;
use super::folder::{self, Entry};
use super::layout::{Layout, RowFile, RowForm, Segment, SourceFormat, SqlFile, TableRows};
use crate::delimited::DelimitedFile;
use metadata::{Done, Dump, Options, Schema, Table};

/// MariaDB may hold rows that violate a `CHECK` of their own table, inserted while
/// `check_constraint_checks` was off. MariaDB Shell also loads with it off. MySQL has no such
/// variable and skips the comment.
const SESSION_OF_MARIADB: &str =
    "SET SESSION foreign_key_checks = 0 /*M!100201 , SESSION check_constraint_checks = 0 */";
/// How many characters of an unknown capability's name a message shows.
const CAPABILITY_SHOWN: usize = 64;

/// Whether a folder with these entries was written by the Shell.
pub fn is_here(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.name == "@.json")
}

/// Lays out a folder.
///
/// # Errors
/// Files that cannot be read, or metadata that the Shell does not write. Missing files are faults
/// of the layout.
pub fn layout(path: &Path, entries: Vec<Entry>) -> Result<Layout, SourceError> {
    let mut folder = Folder {
        files: entries
            .into_iter()
            .map(|entry| (entry.name.clone(), entry))
            .collect(),
        path,
        layout: Layout::new(SourceFormat::Shell, path),
        before: Vec::new(),
        rows: Vec::new(),
        views: Vec::new(),
        programs: Vec::new(),
    };
    folder.read()?;
    let Folder {
        mut layout,
        files,
        before,
        rows,
        views,
        programs,
        ..
    } = folder;
    for name in files.into_keys() {
        if name.starts_with("@.") {
            layout.passed_over.push(name);
        } else {
            layout.faults.push(format!(
                "{name}: the metadata of the dump does not name this file"
            ));
        }
    }
    layout.segments = before.into_iter().map(Segment::Sql).collect();
    layout.segments.push(Segment::Rows(rows));
    layout
        .segments
        .extend(views.into_iter().chain(programs).map(Segment::Sql));
    Ok(layout)
}

struct Folder<'a> {
    /// Files not used so far.
    files: BTreeMap<String, Entry>,
    path: &'a Path,
    layout: Layout,
    before: Vec<SqlFile>,
    rows: Vec<TableRows>,
    views: Vec<SqlFile>,
    programs: Vec<SqlFile>,
}

impl Folder<'_> {
    fn read(&mut self) -> Result<(), SourceError> {
        let top: Dump = self.json("@.json")?.unwrap_or_default();
        if let Some(other) = &top.redirected_dump_dir {
            self.fault(&format!(
                "@.json says that the dump is in {other}: that folder is to be loaded"
            ));
            return Ok(());
        }
        for capability in top.capabilities.iter().flatten() {
            if let Some(why) = unsupported(&capability.id) {
                self.fault(&why);
            }
        }
        let done: Option<Done> = self.json("@.done.json")?;
        if done.is_none() {
            self.fault(
                "@.done.json is missing: the Shell writes it last, so the dump is not whole",
            );
        }
        let done = done.unwrap_or_default();
        self.layout.written_by = top.dumper;
        self.layout.session = vec![
            "SET NAMES utf8mb4".to_owned(),
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'".to_owned(),
            "SET SESSION foreign_key_checks = 0".to_owned(),
        ];
        if top.tz_utc.unwrap_or(true) {
            self.layout
                .session
                .push("SET SESSION time_zone = '+00:00'".to_owned());
        }
        if top.source.vendor.as_deref() == Some("mariadb") {
            self.layout.session.push(SESSION_OF_MARIADB.to_owned());
        }
        for schema in &top.schemas.0 {
            let base = top.basenames.0.get(schema).unwrap_or(schema);
            self.schema(schema, base, &done)?;
        }
        Ok(())
    }

    fn schema(&mut self, schema: &str, base: &str, done: &Done) -> Result<(), SourceError> {
        let name = format!("{base}.json");
        let Some(meta) = self.json::<Schema>(&name)? else {
            self.fault(&format!("{name} is missing"));
            return Ok(());
        };
        let defines = meta.includes_ddl.unwrap_or(true);
        if let Some(mut file) = self.statements(&format!("{base}.sql"), schema, defines) {
            (file.database, file.enters) = (None, true);
            self.before.push(file);
        }
        if meta.multifile_ddl == Some(true) {
            let routines = [&meta.functions, &meta.procedures];
            for (end, needed) in [
                ("libraries", !meta.libraries.0.is_empty()),
                ("routines", routines.iter().any(|list| !list.0.is_empty())),
                ("events", !meta.events.0.is_empty()),
            ] {
                let name = format!("{base}.{end}.sql");
                let file = self.statements(&name, schema, defines && needed);
                self.before.extend(file);
            }
        }
        for table in &meta.tables.0 {
            let usual = format!("{base}@{table}");
            let base = meta.basenames.0.get(table).unwrap_or(&usual);
            let has_rows = meta.includes_data.unwrap_or(true);
            self.table(schema, table, base, (defines, has_rows), done)?;
        }
        for view in &meta.views.0 {
            let usual = format!("{base}@{view}");
            let base = meta.basenames.0.get(view).unwrap_or(&usual);
            let needed = defines && meta.includes_views_ddl.unwrap_or(true);
            let file = self.statements(&format!("{base}.pre.sql"), schema, needed);
            self.before.extend(file);
            let file = self.statements(&format!("{base}.sql"), schema, needed);
            self.views.extend(file);
        }
        Ok(())
    }

    fn table(
        &mut self,
        schema: &str,
        table: &str,
        base: &str,
        (defines, has_rows): (bool, bool),
        done: &Done,
    ) -> Result<(), SourceError> {
        let file = self.statements(&format!("{base}.sql"), schema, defines);
        self.before.extend(file);
        let name = format!("{base}.json");
        let meta: Option<Table> = self.json(&name)?;
        let triggers = meta
            .as_ref()
            .is_some_and(|meta| !meta.triggers.0.is_empty());
        let file = self.statements(&format!("{base}.triggers.sql"), schema, triggers);
        self.programs.extend(file);
        let Some(meta) = meta else {
            // A dump without rows has no such file.
            if has_rows {
                self.fault(&format!("{name} is missing"));
            }
            return Ok(());
        };
        if !has_rows || meta.includes_data == Some(false) {
            return Ok(());
        }
        let form = form(&meta.options).map_err(|reason| SourceError::Unreadable {
            path: self.path.join(&name).display().to_string(),
            reason,
        })?;
        let extension = meta.extension.unwrap_or_else(|| "tsv".to_owned());
        let chunked = meta.chunking.unwrap_or(false);
        let mut bases: Vec<String> = meta.basenames.0.into_values().collect();
        if bases.is_empty() {
            bases.push(base.to_owned());
        }
        let mut files = Vec::new();
        for base in bases {
            for entry in self.chunks(&base, &extension, chunked) {
                let text = self.text_bytes(&entry.name, done)?;
                files.push((entry, text));
            }
        }
        let rows = done.table_rows.0.get(schema);
        let rows = rows.and_then(|rows| rows.0.get(table).copied());
        self.rows.push(TableRows {
            database: Some(schema.to_owned()),
            table: table.to_owned(),
            rows,
            files: files
                .into_iter()
                .map(|(entry, text)| RowFile {
                    path: entry.path,
                    bytes: entry.bytes,
                    rows: None,
                    text,
                    form: RowForm::Delimited(Box::new(form.clone())),
                    checksum: None,
                })
                .collect(),
        });
        Ok(())
    }

    /// The row files of a table or partition, in order.
    fn chunks(&mut self, base: &str, extension: &str, chunked: bool) -> Vec<Entry> {
        let whole = format!("{base}.{extension}");
        let mut found: Vec<Entry> = self.files.remove(&whole).into_iter().collect();
        if !chunked {
            if found.is_empty() {
                self.fault(&format!("{whole} is missing"));
            }
            return found;
        }
        // Older Shells write an empty table as a single file even in a chunked dump.
        if !found.is_empty() {
            return found;
        }
        for index in 0_u64.. {
            if let Some(entry) = self.files.remove(&format!("{base}@{index}.{extension}")) {
                found.push(entry);
            } else if let Some(entry) = self.files.remove(&format!("{base}@@{index}.{extension}")) {
                found.push(entry);
                break;
            } else {
                self.fault(&format!("{base}@{index}.{extension} is missing, or it is the last chunk and called {base}@@{index}.{extension}"));
                break;
            }
        }
        found
    }

    /// Size of the text in a row file in bytes, and the file that states it: the index beside it,
    /// or the metadata that is written last. The index holds offsets into the text as big-endian
    /// 64-bit integers, about one per MiB, and ends with the offset of the end of the text.
    fn text_bytes(
        &mut self,
        name: &str,
        done: &Done,
    ) -> Result<Option<(u64, String)>, SourceError> {
        let recorded = done.chunk_file_bytes.0.get(name).copied();
        let index = format!("{name}.idx");
        let Some(entry) = self.files.remove(&index) else {
            return Ok(recorded.map(|bytes| (bytes, "@.done.json".to_owned())));
        };
        let offsets = folder::read(&entry.path)?;
        self.layout.passed_over.push(index.clone());
        let (offsets, rest) = offsets.as_chunks::<8>();
        if !rest.is_empty() {
            self.fault(&format!(
                "{index} is cut: it has {} bytes, and each of its numbers has 8",
                offsets.len() * 8 + rest.len()
            ));
            return Ok(None);
        }
        let Some(last) = offsets.last().map(|last| u64::from_be_bytes(*last)) else {
            self.fault(&format!("{index} is empty"));
            return Ok(None);
        };
        if !offsets.is_sorted_by_key(|offset| u64::from_be_bytes(*offset)) {
            self.fault(&format!("{index}: its offsets do not rise"));
        }
        if let Some(recorded) = recorded.filter(|recorded| *recorded != last) {
            self.fault(&format!(
                "{index} says that {name} has {last} bytes of text, and @.done.json that it has {recorded}"
            ));
        }
        Ok(Some((last, index)))
    }

    /// A file of statements, if it exists; a fault if it is `needed` and does not.
    fn statements(&mut self, name: &str, schema: &str, needed: bool) -> Option<SqlFile> {
        let Some(entry) = self.files.remove(name) else {
            if needed {
                self.fault(&format!("{name} is missing"));
            }
            return None;
        };
        if entry.bytes == 0 {
            self.fault(&format!(
                "{name} is empty: the Shell begins each with a comment"
            ));
        }
        Some(SqlFile {
            path: entry.path,
            text: None,
            database: Some(schema.to_owned()),
            ends: Ends::Client,
            enters: false,
            session: Vec::new(),
            checksum: None,
        })
    }

    /// A metadata file, if it exists.
    fn json<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, SourceError> {
        let Some(entry) = self.files.remove(name) else {
            return Ok(None);
        };
        let text = folder::read(&entry.path)?;
        folder::metadata(&text)
            .map(Some)
            .map_err(|error| SourceError::Unreadable {
                path: entry.path.display().to_string(),
                reason: format!("this is not metadata of the Shell: {error}"),
            })
    }

    fn fault(&mut self, words: &str) {
        self.layout.faults.push(words.to_owned());
    }
}

/// Why a dump that needs this capability cannot be read; `None` if it can. The Shell, too, refuses
/// capabilities that it does not know (`modules/util/dump/capability.cc`).
fn unsupported(capability: &str) -> Option<String> {
    let what = match capability {
        // A redirected dump was already reported.
        "partition_awareness" | "multifile_schema_ddl" | "dump_dir_redirection" => return None,
        "innodb_vector_store" => "the rows of its vector store are not in its files of rows",
        "dynamic_data_masking" => "what it masks is defined in a form of its own",
        _ => {
            "it is of a later version of the Shell, and may keep rows or definitions where nothing looks for them"
        }
    };
    let shown: String = capability.chars().take(CAPABILITY_SHOWN).collect();
    Some(format!(
        "@.json says that reading the dump needs {shown:?}, which is not known here: {what}"
    ))
}

/// The text format of a table's rows.
fn form(options: &Options) -> Result<DelimitedFile, String> {
    let bytes = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let one = |key: &str, text: &Option<String>| match bytes(text).as_deref() {
        None | Some([]) => Ok(None),
        Some([byte]) => Ok(Some(*byte)),
        Some(_) => Err(format!("{key} is more than one byte")),
    };
    let defaults = Delimited::default();
    let enclosed = one("fieldsEnclosedBy", &options.fields_enclosed_by)?;
    let format = Delimited {
        field_end: bytes(&options.fields_terminated_by).unwrap_or(defaults.field_end),
        enclosed,
        escaped: one("fieldsEscapedBy", &options.fields_escaped_by)?,
        line_start: Vec::new(),
        line_end: bytes(&options.lines_terminated_by).unwrap_or(defaults.line_end),
        null_word: enclosed.map(|_| b"NULL".to_vec()),
    };
    if let Some(fault) = format.fault() {
        return Err(fault.to_owned());
    }
    let charset = options.default_character_set.as_deref();
    let charset = charset
        .or(options.character_set.as_deref())
        .unwrap_or("utf8mb4")
        .to_ascii_lowercase();
    if !charset.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(format!("{charset} is not a character set"));
    }
    let mut fields = Vec::new();
    for column in &options.columns.0 {
        let how = match options.decode_columns.0.get(column).map(String::as_str) {
            None => Decode::Plain,
            Some("UNHEX") => Decode::Hex,
            Some("FROM_BASE64") => Decode::Base64,
            Some(other) => {
                return Err(format!(
                    "column {column} is to be decoded by «{other}»: only UNHEX and FROM_BASE64 are understood"
                ));
            }
        };
        fields.push((column.clone(), how));
    }
    Ok(DelimitedFile {
        format,
        charset,
        skip_lines: 0,
        header: false,
        fields: (!fields.is_empty()).then_some(fields),
        table: None,
        closed: true,
        by_character: false,
        session: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Options {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_form_of_rows_is_what_metadata_says() {
        let file = form(&options(
            r#"{"columns":["a","b"],"decodeColumns":{"b":"FROM_BASE64"},"defaultCharacterSet":"utf8mb4",
            "fieldsTerminatedBy":"\t","fieldsEnclosedBy":"","fieldsEscapedBy":"\\","linesTerminatedBy":"\n"}"#,
        ))
        .unwrap();
        assert!(file.format.is_default());
        assert_eq!(
            file.fields.unwrap(),
            [
                ("a".to_owned(), Decode::Plain),
                ("b".to_owned(), Decode::Base64)
            ]
        );
    }

    #[test]
    fn expressions_in_metadata_are_refused() {
        for hostile in [
            r#"{"columns":["a"],"decodeColumns":{"a":"SLEEP(9)"}}"#,
            r#"{"columns":["a"],"defaultCharacterSet":"utf8mb4) SELECT"}"#,
            r#"{"fieldsEscapedBy":"ab"}"#,
            r#"{"fieldsTerminatedBy":""}"#,
        ] {
            assert!(form(&options(hostile)).is_err(), "{hostile}");
        }
    }
}
