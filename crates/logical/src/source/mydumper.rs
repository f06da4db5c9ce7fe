//! Folders of mydumper, 0.10 and 1.x.
//!
//! File names say what a file is for (`common.c`, `mydumper_common.c`, `myloader_process_filename.c` of mydumper):
//!
//! | File | Holds |
//! |---|---|
//! | `metadata` | when the dump began and ended; of 1.x also the rows of each table. `metadata.partial` while it is being written |
//! | `DB-schema-create.sql` | `CREATE DATABASE` |
//! | `DB.TABLE-schema.sql` | `CREATE TABLE`; for a view a table that holds its place |
//! | `DB.TABLE-schema-view.sql`, `-schema-sequence.sql`, `-schema-triggers.sql` | what they say |
//! | `DB-schema-triggers.sql`, `DB-schema-post.sql` | triggers; routines and events |
//! | `DB.TABLE.sql`, `DB.TABLE.00001.sql`, `DB.TABLE.00001.00002.sql` | rows: `INSERT`, or the `LOAD DATA` of a `.dat` beside it |
//!
//! Names are not escaped in file names (0.10), or replaced where they would be trouble (1.x, `mydumper_0`): what a
//! file is about is taken from the statements in it, and from `metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use refloat_sqltext::{ItemKind, LexMode, StatementKind, Step};

use super::cutter::{Cutter, Ends};
use super::error::SourceError;
use super::folder::{self, Entry};
use super::infile;
use super::layout::{
    DelimitedFile, Layout, RowFile, RowForm, Segment, SourceFormat, SqlFile, TableRows,
};

/// Bytes of a file of rows that are looked at for a `LOAD DATA`: the statement is all that such a file has.
const INFILE_HEAD: usize = 1 << 20;
/// What a session begins with when the dump does not say.
const SESSION: &[&str] = &[
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "SET SESSION foreign_key_checks = 0",
];

/// Whether a folder with these files is one of mydumper.
pub fn is_here(entries: &[Entry]) -> bool {
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    let schema = entries.iter().any(|entry| {
        entry.plain.ends_with("-schema-create.sql") || entry.plain.ends_with("-schema.sql")
    });
    (has("metadata") || has("metadata.header") || has("metadata.partial"))
        && (schema || entries.iter().any(|entry| entry.has_end(".sql")))
        || (schema && has("metadata.partial.0"))
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Database,
    Sequence,
    Table,
    Rows,
    Post,
    View,
    Triggers,
}

/// Ends of names, the longer ones first.
const ENDS: &[(&str, Role)] = &[
    ("-schema-create.sql", Role::Database),
    ("-schema-sequence.sql", Role::Sequence),
    ("-schema-triggers.sql", Role::Triggers),
    ("-schema-post.sql", Role::Post),
    ("-schema-view.sql", Role::View),
    ("-schema.sql", Role::Table),
    (".sql", Role::Rows),
];

/// What `metadata` says.
#[derive(Debug, Default)]
struct Metadata {
    finished: bool,
    /// Whether it is of 1.x, which counts rows.
    counts: bool,
    session: Vec<String>,
    /// Rows by the names of database and table in file names; views and sequences have none.
    rows: BTreeMap<(String, String), u64>,
    /// What tables are called whose names are not fit for files.
    real: BTreeMap<(String, String), String>,
}

/// Lays a folder out.
///
/// # Errors
/// What cannot be read. What is missing is a fault of the layout.
pub fn layout(folder: &Path, entries: Vec<Entry>) -> Result<Layout, SourceError> {
    let mut layout = Layout::new(SourceFormat::Mydumper, folder);
    let metadata = read_metadata(&entries, &mut layout)?;
    layout.session = if metadata.session.is_empty() {
        SESSION.iter().map(|text| (*text).to_owned()).collect()
    } else {
        metadata.session.clone()
    };
    let mut files: Vec<(Role, String, Entry)> = Vec::new();
    let mut data: BTreeMap<String, Entry> = BTreeMap::new();
    for entry in entries {
        if let Some(reason) = unfinished(&entry) {
            layout.faults.push(format!("{}: {reason}", entry.name));
        } else if is_passed_over(&entry) {
            layout.passed_over.push(entry.name);
        } else if entry.folder {
            layout
                .faults
                .push(format!("{}: mydumper makes no folders", entry.name));
        } else if entry.has_end(".dat") {
            data.insert(entry.name.clone(), entry);
        } else if let Some((end, role)) = ENDS.iter().find(|(end, _)| entry.plain.ends_with(end)) {
            let stem = entry.plain[..entry.plain.len() - end.len()].to_owned();
            files.push((*role, stem, entry));
        } else {
            layout
                .faults
                .push(format!("{}: this is no file of mydumper", entry.name));
        }
    }
    let databases = Databases::read(&files, &metadata)?;
    files.sort_by(|a, b| (a.0, &a.2.name).cmp(&(b.0, &b.2.name)));
    let mut tables: BTreeMap<(String, String), TableRows> = BTreeMap::new();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (role, stem, entry) in files {
        let (prefix, rest) = databases.split(&stem, role);
        let database = databases.real(&prefix);
        let ends = match role {
            Role::Post | Role::Triggers => Ends::Line,
            _ => Ends::Client,
        };
        let file = SqlFile {
            path: entry.path.clone(),
            text: None,
            database: (role != Role::Database).then(|| database.clone()),
            ends,
            enters: false,
            session: match role {
                // The modes of programs are not in the dump: those of the server are the best guess.
                Role::Post | Role::Triggers | Role::View if metadata.session.is_empty() => {
                    vec!["SET SESSION sql_mode = @@GLOBAL.sql_mode".to_owned()]
                }
                _ => Vec::new(),
            },
            checksum: None,
        };
        match role {
            Role::Database | Role::Sequence | Role::Table => before.push(Segment::Sql(file)),
            Role::Post | Role::View | Role::Triggers => after.push(Segment::Sql(file)),
            Role::Rows => {
                let key = (prefix, table_name(&rest).to_owned());
                let real = metadata.real.get(&key).unwrap_or(&key.1).clone();
                let table = tables.entry(key).or_insert_with(|| TableRows {
                    database: Some(database.clone()),
                    table: real,
                    files: Vec::new(),
                    rows: None,
                });
                let file = row_file(&entry, &mut data, !metadata.counts, &mut layout)?;
                table.files.extend(file);
            }
        }
    }
    for name in data.into_keys() {
        layout.faults.push(format!(
            "{name}: no LOAD DATA statement beside it says what it is"
        ));
    }
    count(&metadata, &mut tables, &mut layout);
    layout.segments = before;
    layout
        .segments
        .push(Segment::Rows(tables.into_values().collect()));
    layout.segments.extend(after);
    Ok(layout)
}

/// Files that say that a dump has not come to its end.
fn unfinished(entry: &Entry) -> Option<&'static str> {
    let partial = entry.name.starts_with("metadata.partial") || entry.name == "metadata.header";
    if partial {
        return Some("mydumper was still writing, or has ended early");
    }
    matches!(entry.name.as_str(), "resume" | "resume.partial")
        .then_some("a load of this folder by myloader was interrupted")
}

/// Files without anything for a database.
fn is_passed_over(entry: &Entry) -> bool {
    entry.name == "metadata"
        || entry.name == "not_updated_tables"
        || entry.name.ends_with("-metadata")
        || entry.plain.ends_with("-checksum")
        || entry.plain == "all-schema-create-tablespace.sql"
}

fn read_metadata(entries: &[Entry], layout: &mut Layout) -> Result<Metadata, SourceError> {
    let Some(entry) = entries.iter().find(|entry| entry.name == "metadata") else {
        layout.faults.push(
            "metadata is missing: mydumper writes it last, so the dump is not whole".to_owned(),
        );
        return Ok(Metadata::default());
    };
    let text = folder::read(&entry.path)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let metadata = parse_metadata(&text);
    if !metadata.finished {
        layout
            .faults
            .push("metadata has no line `Finished dump at`: the dump has ended early".to_owned());
    }
    layout.written_by = Some(
        if metadata.counts {
            "mydumper 0.11 or later"
        } else {
            "mydumper 0.10 or earlier"
        }
        .to_owned(),
    );
    Ok(metadata)
}

/// Reads the lines of `metadata`: of 1.x it is a key file with a section for each table.
fn parse_metadata(text: &str) -> Metadata {
    let mut found = Metadata::default();
    let mut section = String::new();
    let mut view = false;
    let mut rows = None;
    let end_of_section = |section: &str, view: bool, rows: Option<u64>, found: &mut Metadata| {
        if let Some(key) = table_section(section)
            && let Some(rows) = rows
            && !view
        {
            found.rows.insert(key, rows);
        }
    };

    for line in text.lines() {
        let line = line.trim();
        if line
            .trim_start_matches(['#', ' '])
            .starts_with("Finished dump at")
        {
            found.finished = true;
        } else if line.starts_with('[') && line.ends_with(']') {
            end_of_section(&section, view, rows, &mut found);
            (view, rows) = (false, None);
            line[1..line.len() - 1].clone_into(&mut section);
            found.counts = true;
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim(), value.trim());
            match key {
                "rows" => rows = value.parse().ok(),
                "real_table_name" => {
                    if let Some(key) = table_section(&section) {
                        // A newline in a name is written as this character and a zero.
                        found.real.insert(key, value.replace("\u{1000}0", "\n"));
                    }
                }
                "is_view" | "is_sequence" => view |= value == "1",
                "SQL_MODE" if section == "myloader_session_variables" => {
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
    }
    end_of_section(&section, view, rows, &mut found);
    found
}

/// The words of `'A,B' /*!40101`: nothing else that a dump may say here is run.
fn quoted_words(value: &str) -> Option<String> {
    let inner = value.strip_prefix('\'')?;
    let (words, _) = inner.split_once('\'')?;
    words
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b','))
        .then(|| words.to_owned())
}

/// Database and table of a section, as file names have them.
fn table_section(section: &str) -> Option<(String, String)> {
    for quote in ['`', '"'] {
        let inner = section
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some((database, table)) =
            inner.and_then(|inner| inner.split_once(&format!("{quote}.{quote}")))
        {
            return Some((database.to_owned(), table.to_owned()));
        }
    }
    None
}

/// The databases of a folder: how file names begin, and what the databases are called.
struct Databases(BTreeMap<String, String>);

impl Databases {
    fn read(files: &[(Role, String, Entry)], metadata: &Metadata) -> Result<Self, SourceError> {
        let mut names: BTreeMap<String, String> = metadata
            .rows
            .keys()
            .map(|(database, _)| (database.clone(), database.clone()))
            .collect();
        for (_, stem, entry) in files.iter().filter(|file| file.0 == Role::Database) {
            let text = folder::read(&entry.path)?;
            let created = first(&text, |kind| match kind {
                StatementKind::CreateDatabase { database, .. } => {
                    Some(String::from_utf8_lossy(database).into_owned())
                }
                _ => None,
            });
            names.insert(stem.clone(), created.unwrap_or_else(|| stem.clone()));
        }
        Ok(Self(names))
    }

    /// The database's part of a name, and what is behind it.
    fn split(&self, stem: &str, role: Role) -> (String, String) {
        if role == Role::Database || self.0.contains_key(stem) {
            return (stem.to_owned(), String::new());
        }
        let longest = self
            .0
            .keys()
            .filter(|name| {
                stem.strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
            })
            .max_by_key(|name| name.len());
        match longest {
            Some(name) => (name.clone(), stem[name.len() + 1..].to_owned()),
            None => match stem.split_once('.') {
                Some((database, table)) => (database.to_owned(), table.to_owned()),
                None => (stem.to_owned(), String::new()),
            },
        }
    }

    fn real(&self, prefix: &str) -> String {
        self.0
            .get(prefix)
            .cloned()
            .unwrap_or_else(|| prefix.to_owned())
    }
}

/// What `pick` finds first in the statements of a small file.
fn first<T>(text: &[u8], pick: impl Fn(&StatementKind) -> Option<T>) -> Option<T> {
    let mut cutter = Cutter::new(Ends::Client);
    let mut at = 0;
    while let Ok(Step::Item(item)) = cutter.next(&text[at..], true) {
        if let ItemKind::Statement(kind) = &item.kind
            && let Some(found) = pick(kind)
        {
            return Some(found);
        }
        at += item.len;
    }
    None
}

/// The name without the numbers of its parts.
fn table_name(rest: &str) -> &str {
    let mut name = rest;
    for _ in 0..2 {
        match name.rsplit_once('.') {
            Some((head, number))
                if number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                name = head;
            }
            _ => break,
        }
    }
    name
}

/// A file of rows; when it is a `LOAD DATA` statement, the file that it names.
fn row_file(
    entry: &Entry,
    data: &mut BTreeMap<String, Entry>,
    old: bool,
    layout: &mut Layout,
) -> Result<Vec<RowFile>, SourceError> {
    if entry.bytes == 0 {
        if old || entry.name != entry.plain {
            layout.faults.push(format!(
                "{}: the file is empty, and mydumper writes none that is",
                entry.name
            ));
        }
        return Ok(Vec::new());
    }
    let plain = RowFile {
        path: entry.path.clone(),
        bytes: entry.bytes,
        rows: None,
        text: None,
        form: RowForm::Sql,
        checksum: None,
    };
    if entry.bytes > INFILE_HEAD as u64 {
        return Ok(vec![plain]);
    }
    let (text, _) = folder::read_up_to(&entry.path, INFILE_HEAD)?;
    if memchr::memmem::find(&text, b"LOAD DATA ").is_none() {
        return Ok(vec![plain]);
    }
    let mut cutter = Cutter::new(Ends::Client);
    let (mut at, mut session, mut files) = (0, Vec::new(), Vec::new());
    let mut used = BTreeSet::new();
    while let Ok(Step::Item(item)) = cutter.next(&text[at..], true) {
        let statement = &text[at..][item.text.clone()];
        match &item.kind {
            ItemKind::Statement(StatementKind::Set) => {
                session.push(String::from_utf8_lossy(statement).into_owned());
            }
            ItemKind::Statement(StatementKind::Dangerous(refloat_sqltext::Danger::LoadData)) => {
                let refused = |reason| SourceError::Unreadable {
                    path: entry.path.display().to_string(),
                    reason,
                };
                let infile = infile::parse(statement, LexMode::default()).map_err(refused)?;
                let Some(named) = data
                    .get(&infile.file)
                    .or_else(|| data.values().find(|one| one.plain == infile.file))
                    .cloned()
                else {
                    layout.faults.push(format!(
                        "{}: {} is missing, which it loads",
                        entry.name, infile.file
                    ));
                    at += item.len;
                    continue;
                };
                used.insert(named.name.clone());
                if old && named.bytes == 0 {
                    layout.faults.push(format!(
                        "{}: the file is empty, and mydumper writes none that is",
                        named.name
                    ));
                }
                files.push(RowFile {
                    path: named.path,
                    bytes: named.bytes,
                    rows: None,
                    text: None,
                    form: RowForm::Delimited(Box::new(DelimitedFile {
                        format: infile.format,
                        charset: infile.charset.unwrap_or_else(|| "binary".to_owned()),
                        skip_lines: infile.skip_lines,
                        header: false,
                        fields: infile.fields,
                        closed: true,
                        by_character: false,
                        table: Some(infile.table),
                        session: session.clone(),
                    })),
                    checksum: None,
                });
            }
            // A row that has these words in it.
            ItemKind::Rows(_) => return Ok(vec![plain]),
            _ => {}
        }
        at += item.len;
    }
    data.retain(|name, _| !used.contains(name));
    if files.is_empty()
        && !layout
            .faults
            .iter()
            .any(|fault| fault.starts_with(&entry.name))
    {
        return Ok(vec![plain]);
    }
    Ok(files)
}

/// Gives tables the rows that `metadata` counts, and names those whose rows are nowhere.
fn count(
    metadata: &Metadata,
    tables: &mut BTreeMap<(String, String), TableRows>,
    layout: &mut Layout,
) {
    for ((database, table), rows) in &metadata.rows {
        match tables.get_mut(&(database.clone(), table.clone())) {
            Some(found) => found.rows = Some(*rows),
            None if *rows > 0 => layout.faults.push(format!(
                "{database}.{table}: metadata counts {rows} rows, and no file has them"
            )),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
