//! Folders of mydumper, 0.10 to 1.x.
//!
//! The file names tell the purpose of each file (mydumper's `common.c`, `mydumper_common.c`,
//! `myloader_process_filename.c`):
//!
//! | File | Content |
//! |---|---|
//! | `metadata` | when the dump started and finished; since 0.14 also the rows of each table. `metadata.partial` while the dump is running |
//! | `metadata.header`, `metadata.partial.N` | in streams, before their `metadata` |
//! | `DB.TABLE-metadata` | number of rows of the table, 0.11 to 0.13 |
//! | `DB.TABLE-checksum`, `-schema-checksum` … | checksums by `CHECKSUM TABLE` and of the catalog, 0.11 to 0.13; later versions put them into `metadata` |
//! | `DB-schema-create.sql` | `CREATE DATABASE` |
//! | `DB.TABLE-schema.sql` | `CREATE TABLE`; for a view, a placeholder table |
//! | `DB.TABLE-schema-view.sql`, `-schema-sequence.sql`, `-schema-triggers.sql` | the view, the sequence, the triggers |
//! | `DB-schema-triggers.sql`, `DB-schema-post.sql` | triggers; routines and events |
//! | `DB.TABLE.sql`, `DB.TABLE.00001.sql`, `DB.TABLE.00001.00002.sql` | rows: `INSERT`, or the `LOAD DATA` of a `.dat` beside it |
//!
//! Names in file names are either not escaped (0.10), or replaced if they would cause trouble
//! (`mydumper_0`). So database and table names come from the statements in the files, and from
//! `metadata`.

mod gaps;
mod metadata;
mod names;
mod place;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use self::metadata::Metadata;
use self::names::{Databases, table_name};
use super::cutter::Ends;
use super::error::SourceError;
use super::folder::Entry;
use super::layout::{Layout, Segment, SourceFormat, SqlFile, TableRows};

/// Statements that start a session if the dump does not give any.
const SESSION: &[&str] = &[
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "SET SESSION foreign_key_checks = 0",
];

/// Whether a folder with these entries was written by mydumper.
pub fn is_here(entries: &[Entry]) -> bool {
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    let schema = entries.iter().any(|entry| {
        entry.plain.ends_with("-schema-create.sql") || entry.plain.ends_with("-schema.sql")
    });
    (has("metadata") || has("metadata.header") || has("metadata.partial"))
        && (schema || entries.iter().any(|entry| entry.has_end(".sql")))
        || (schema && has("metadata.partial.0"))
}

/// The purpose of a file; files are loaded in this order.
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

/// Suffixes of file names, longer ones first.
const ENDS: &[(&str, Role)] = &[
    ("-schema-create.sql", Role::Database),
    ("-schema-sequence.sql", Role::Sequence),
    ("-schema-triggers.sql", Role::Triggers),
    ("-schema-post.sql", Role::Post),
    ("-schema-view.sql", Role::View),
    ("-schema.sql", Role::Table),
    (".sql", Role::Rows),
];

/// Lays out a folder.
///
/// # Errors
/// Files that cannot be read. Missing files are faults of the layout.
pub fn layout(folder: &Path, entries: &[Entry]) -> Result<Layout, SourceError> {
    let mut layout = Layout::new(SourceFormat::Mydumper, folder);
    let mut metadata = Metadata::read(entries, &mut layout)?;
    layout.session = if metadata.session.is_empty() {
        SESSION.iter().map(|text| (*text).to_owned()).collect()
    } else {
        metadata.session.clone()
    };
    let (mut files, data) = sorted(entries, &metadata, &mut layout);
    let listed = metadata.rows.keys().chain(metadata.real.keys());
    let listed = listed.map(|(database, _)| database);
    let databases = Databases::read(&files, listed, metadata.mode())?;
    metadata.add_counts(entries, &databases)?;
    place::sequences_first(&mut files, &metadata)?;
    if !metadata.counts && metadata.rows.is_empty() {
        layout.faults.extend(gaps::missing(&files));
    }
    files.sort_by(|a, b| (a.0, &a.2.name).cmp(&(b.0, &b.2.name)));
    let views = files.iter().filter(|(role, ..)| *role == Role::View);
    let mut parts = Parts {
        views: views.map(|(_, stem, _)| stem.clone()).collect(),
        data,
        ..Parts::default()
    };
    for (role, stem, entry) in files {
        parts.add(role, &stem, &entry, (&metadata, &databases), &mut layout)?;
    }
    for name in parts.data.keys() {
        layout.faults.push(format!(
            "{name}: no LOAD DATA statement beside it says what it is"
        ));
    }
    count(&metadata, &mut parts.tables, &mut layout);
    let known = parts.databases(&databases, &metadata, &mut layout);
    layout.segments = known.into_iter().map(Segment::Database).collect();
    layout.segments.extend(parts.before);
    layout
        .segments
        .push(Segment::Rows(parts.tables.into_values().collect()));
    layout.segments.extend(parts.after);
    Ok(layout)
}

/// The parts of a layout.
#[derive(Default)]
struct Parts {
    before: Vec<Segment>,
    /// By database and table, as spelled in file names.
    tables: BTreeMap<(String, String), TableRows>,
    after: Vec<Segment>,
    /// The databases that files belong to, as spelled in file names.
    prefixes: BTreeSet<String>,
    /// Names of views, as spelled in file names.
    views: BTreeSet<String>,
    /// Data files that no `LOAD DATA` has named so far.
    data: BTreeMap<String, Entry>,
}

impl Parts {
    /// Adds a file; `stem` is its name without the suffix.
    fn add(
        &mut self,
        role: Role,
        stem: &str,
        entry: &Entry,
        (metadata, databases): (&Metadata, &Databases),
        layout: &mut Layout,
    ) -> Result<(), SourceError> {
        let (prefix, rest) = match role {
            Role::Database => (stem.to_owned(), String::new()),
            _ => databases.split(stem),
        };
        self.prefixes.insert(prefix.clone());
        let database = databases.real(&prefix);
        if role == Role::Rows {
            let file = rows::row_file(entry, &mut self.data, metadata, layout)?;
            let key = (prefix, table_name(&rest).to_owned());
            let real = metadata.real.get(&key).unwrap_or(&key.1).clone();
            let table = self.tables.entry(key).or_insert_with(|| TableRows {
                database: Some(database),
                table: real,
                files: Vec::new(),
                rows: None,
            });
            table.files.extend(file);
            return Ok(());
        }
        let mut file = statements(role, entry, &database, metadata);
        if role == Role::Table && self.views.contains(stem) {
            file.text = place::of_view(entry)?;
        }
        let segments = match role {
            Role::Post | Role::View | Role::Triggers => &mut self.after,
            _ => &mut self.before,
        };
        segments.push(Segment::Sql(file));
        Ok(())
    }

    /// The databases that no file creates: mydumper writes no such file for a selection by
    /// `--regex`, nor with `--no-schemas`.
    fn databases(
        &self,
        databases: &Databases,
        metadata: &Metadata,
        layout: &mut Layout,
    ) -> Vec<String> {
        let missing = self.prefixes.iter();
        let missing = missing.filter(|prefix| !databases.is_created(prefix));
        let mut real = Vec::new();
        for prefix in missing {
            if metadata.counts && databases.is_nameless(prefix) {
                layout.faults.push(format!(
                    "{prefix}-schema-create.sql is missing: file names have {prefix} in place of the database's name, and nothing else says what it is; a file so called with its CREATE DATABASE statement does"
                ));
            }
            real.push(databases.real(prefix));
        }
        real
    }
}

/// Files by purpose, and the data files that others load.
type Sorted = (Vec<(Role, String, Entry)>, BTreeMap<String, Entry>);

/// Sorts the files of a folder by purpose. Unknown files become faults.
fn sorted(entries: &[Entry], metadata: &Metadata, layout: &mut Layout) -> Sorted {
    let mut files = Vec::new();
    let mut data = BTreeMap::new();
    for entry in entries {
        if is_passed_over(entry, metadata) {
            layout.passed_over.push(entry.name.clone());
        } else if let Some(reason) = unfinished(entry) {
            layout.faults.push(format!("{}: {reason}", entry.name));
        } else if entry.folder {
            layout
                .faults
                .push(format!("{}: mydumper makes no folders", entry.name));
        } else if entry.has_end(".dat") {
            data.insert(entry.name.clone(), entry.clone());
        } else if let Some((end, role)) = ENDS.iter().find(|(end, _)| entry.plain.ends_with(end)) {
            let stem = entry.plain[..entry.plain.len() - end.len()].to_owned();
            files.push((*role, stem, entry.clone()));
        } else {
            layout
                .faults
                .push(format!("{}: this is not a file of mydumper", entry.name));
        }
    }
    (files, data)
}

/// What a load has to know of a file of definitions, by its role.
fn statements(role: Role, entry: &Entry, database: &str, metadata: &Metadata) -> SqlFile {
    let ends = match role {
        Role::Post | Role::Triggers => Ends::Line,
        _ => Ends::Client,
    };
    let session = match role {
        // The dump does not record the SQL modes of programs: the server's mode is the best guess.
        Role::Post | Role::Triggers | Role::View if metadata.session.is_empty() => {
            vec!["SET SESSION sql_mode = @@GLOBAL.sql_mode".to_owned()]
        }
        _ => Vec::new(),
    };
    SqlFile {
        path: entry.path.clone(),
        text: None,
        database: (role != Role::Database).then(|| database.to_owned()),
        ends,
        enters: false,
        session,
        checksum: None,
    }
}

/// Why a file shows that a dump or a load did not finish; `None` for other files.
fn unfinished(entry: &Entry) -> Option<&'static str> {
    let partial = entry.name.starts_with("metadata.partial") || entry.name == "metadata.header";
    if partial {
        return Some("mydumper was still writing, or has ended early");
    }
    matches!(entry.name.as_str(), "resume" | "resume.partial")
        .then_some("a load of this folder by myloader was interrupted")
}

/// Whether a file loads nothing.
fn is_passed_over(entry: &Entry, metadata: &Metadata) -> bool {
    entry.name == "metadata"
        || (metadata.finished && metadata::is_of_stream(&entry.name))
        || entry.name == "not_updated_tables"
        || entry.name.ends_with("-metadata")
        || entry.plain.ends_with("-checksum")
        || entry.plain == "all-schema-create-tablespace.sql"
}

/// Adds the row counts from `metadata` to the tables, and reports tables whose rows are in no file.
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
