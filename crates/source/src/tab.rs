//! Folders of `mysqldump --tab` and `mariadb-dump --dir`.
//!
//! `TABLE.sql` has the definition, with the triggers after the closing comment. `TABLE.txt` has the
//! rows as `SELECT … INTO OUTFILE` wrote them; a view has only a `.sql` file. `--dir` makes one
//! such folder per database, named after it. The terminators of fields and lines are not recorded:
//! unless options say otherwise, they are the `LOAD DATA` defaults. The rows are in the character
//! set of the dump tool's session, or in `binary` if that is utf8mb4 (`dump_table` in
//! `mysqldump.c`).

use std::collections::BTreeMap;
use std::path::Path;

use refloat_sqltext::{ItemKind, StatementKind, Step};

use super::cutter::{Cutter, Ends};
use super::error::SourceError;
use super::folder::{self, Entry};
use super::layout::{Layout, RowFile, RowForm, Segment, SourceFormat, SqlFile, TableRows};
use super::options::DelimitedOptions;
use crate::delimited::DelimitedFile;

/// Statements that start every session. Tables may refer to others that come later.
const SESSION: &[&str] = &[
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "SET SESSION foreign_key_checks = 0",
];

/// Whether a folder with these entries was written by `--tab`.
pub fn is_tab(entries: &[Entry]) -> bool {
    let pair = |entry: &Entry| {
        entry.plain.strip_suffix(".txt").is_some_and(|stem| {
            let sql = format!("{stem}.sql");
            entries.iter().any(|other| other.plain == sql)
        })
    };
    entries.iter().any(|entry| !entry.folder && pair(entry))
}

/// Whether a folder holds only folders, at least one of them a `--tab` folder.
pub fn is_dir(entries: &[Entry]) -> Result<bool, SourceError> {
    let mut found = false;
    for entry in entries {
        if !entry.folder {
            return Ok(false);
        }
        found |= is_tab(&folder::list(&entry.path)?);
    }
    Ok(found)
}

/// Lays out a folder. For `--dir` the layout includes the databases that the folders are named
/// after.
///
/// # Errors
/// Files that cannot be read. Missing files are faults of the layout.
pub fn layout(
    path: &Path,
    entries: Vec<Entry>,
    options: &DelimitedOptions,
) -> Result<Layout, SourceError> {
    let mut layout = Layout::new(SourceFormat::Tab, path);
    layout.session = SESSION.iter().map(|text| (*text).to_owned()).collect();
    let mut parts = Parts::default();
    if entries.iter().any(|entry| entry.folder) && !is_tab(&entries) {
        for entry in entries {
            if entry.folder {
                let inner = folder::list(&entry.path)?;
                parts.databases.push(entry.name.clone());
                one(Some(&entry.name), inner, options, &mut parts, &mut layout)?;
            } else {
                layout.faults.push(format!(
                    "{}: beside the folders of databases mariadb-dump --dir writes no files",
                    entry.name
                ));
            }
        }
    } else {
        one(None, entries, options, &mut parts, &mut layout)?;
    }
    layout.segments = parts.databases.into_iter().map(Segment::Database).collect();
    layout
        .segments
        .extend(parts.definitions.into_iter().map(Segment::Sql));
    layout.segments.push(Segment::Rows(parts.rows));
    layout
        .segments
        .extend(in_order(parts.views).into_iter().map(Segment::Sql));
    Ok(layout)
}

#[derive(Default)]
struct Parts {
    databases: Vec<String>,
    definitions: Vec<SqlFile>,
    rows: Vec<TableRows>,
    views: Vec<View>,
}

/// A view's file, name and definition.
struct View {
    file: SqlFile,
    name: String,
    text: Vec<u8>,
}

/// What a `.sql` file defines.
#[derive(Default)]
struct Definition {
    table: Option<String>,
    view: Option<String>,
    sequence: bool,
    /// Character set of the session that wrote it.
    charset: Option<String>,
    /// Whether the session that wrote it used UTC.
    utc: bool,
    server: Option<String>,
}

fn define(text: &[u8]) -> Definition {
    let mut found = Definition::default();
    let mut cutter = Cutter::new(Ends::Client);
    let mut at = 0;
    let name =
        |name: &refloat_sqltext::ObjectName| String::from_utf8_lossy(&name.name).into_owned();
    while let Ok(Step::Item(item)) = cutter.next(&text[at..], true) {
        let statement = &text[at..][item.text.clone()];
        match &item.kind {
            ItemKind::Statement(StatementKind::CreateTable { table, .. }) => {
                found.table.get_or_insert_with(|| name(table));
            }
            ItemKind::Statement(StatementKind::CreateView { view }) => {
                found.view = Some(name(view));
            }
            ItemKind::Statement(StatementKind::CreateSequence { .. }) => found.sequence = true,
            ItemKind::Statement(StatementKind::Set) => {
                let words = String::from_utf8_lossy(statement).to_ascii_uppercase();
                if let Some((_, rest)) = words.split_once("SET NAMES ") {
                    let charset: String = rest
                        .chars()
                        .take_while(char::is_ascii_alphanumeric)
                        .collect();
                    found.charset.get_or_insert(charset.to_ascii_lowercase());
                }
                found.utc |= words.contains("SET TIME_ZONE='+00:00'");
            }
            ItemKind::Comment(_) => {
                let line = String::from_utf8_lossy(statement).into_owned();
                if let Some(rest) = line.strip_prefix("-- MariaDB dump ") {
                    found.server = Some(format!("mariadb-dump {rest}"));
                } else if let Some(rest) = line.strip_prefix("-- MySQL dump ") {
                    found.server = Some(format!("mysqldump {rest}"));
                }
            }
            _ => {}
        }
        at += item.len;
    }
    if found.view.is_some() {
        found.table = None;
    }
    found
}

/// Adds the files of one database.
fn one(
    database: Option<&str>,
    entries: Vec<Entry>,
    options: &DelimitedOptions,
    parts: &mut Parts,
    layout: &mut Layout,
) -> Result<(), SourceError> {
    let place = |name: &str| database.map_or_else(|| name.to_owned(), |db| format!("{db}/{name}"));
    let mut data: BTreeMap<String, Entry> = BTreeMap::new();
    let mut sql: Vec<Entry> = Vec::new();
    for entry in entries {
        if entry.folder {
            layout.faults.push(format!(
                "{}: a folder is not expected here",
                place(&entry.name)
            ));
        } else if entry.has_end(".sql") {
            sql.push(entry);
        } else if entry.has_end(".txt") {
            data.insert(entry.plain[..entry.plain.len() - 4].to_owned(), entry);
        } else {
            layout.faults.push(format!(
                "{}: this is neither a definition (.sql) nor rows (.txt)",
                place(&entry.name)
            ));
        }
    }
    let (no_rows, no_definitions) = (data.is_empty(), sql.is_empty());
    for entry in sql {
        if entry.bytes == 0 {
            layout.faults.push(format!(
                "{}: the file is empty, and defines nothing",
                place(&entry.name)
            ));
        }
        let text = folder::read(&entry.path)?;
        let definition = define(&text);
        let stem = &entry.plain[..entry.plain.len() - 4];
        let file = SqlFile {
            path: entry.path.clone(),
            text: None,
            database: database.map(str::to_owned),
            ends: Ends::Client,
            enters: false,
            session: Vec::new(),
            checksum: None,
        };
        if layout.written_by.is_none() {
            layout.written_by.clone_from(&definition.server);
        }
        if let Some(name) = definition.view.clone() {
            parts.views.push(View { file, name, text });
            continue;
        }
        parts.definitions.push(file);
        let rows = data.remove(stem);
        match (definition.table.clone(), rows) {
            (Some(table), Some(rows)) => {
                parts
                    .rows
                    .push(rows_of(database, table, rows, &definition, options));
            }
            (Some(_), None) if !no_rows && !definition.sequence => {
                layout
                    .faults
                    .push(format!("{} is missing", place(&format!("{stem}.txt"))));
            }
            (None, Some(rows)) => layout.faults.push(format!(
                "{}: {} does not define the table of these rows",
                place(&rows.name),
                entry.name
            )),
            _ => {}
        }
    }
    for (stem, rows) in data {
        if no_definitions {
            let definition = Definition::default();
            parts
                .rows
                .push(rows_of(database, stem, rows, &definition, options));
        } else {
            layout
                .faults
                .push(format!("{} is missing", place(&format!("{stem}.sql"))));
        }
    }
    Ok(())
}

fn rows_of(
    database: Option<&str>,
    table: String,
    rows: Entry,
    definition: &Definition,
    options: &DelimitedOptions,
) -> TableRows {
    let charset = match definition.charset.as_deref() {
        None | Some("utf8mb4" | "utf8") => "binary".to_owned(),
        Some(other) => other.to_owned(),
    };
    let mut file = DelimitedFile {
        format: super::delimited::Delimited::default(),
        charset,
        skip_lines: 0,
        header: false,
        fields: None,
        table: None,
        closed: true,
        by_character: true,
        session: if definition.utc {
            vec!["SET SESSION time_zone = '+00:00'".to_owned()]
        } else {
            Vec::new()
        },
    };
    options.apply(&mut file);
    TableRows {
        database: database.map(str::to_owned),
        table,
        rows: None,
        files: vec![RowFile {
            bytes: rows.bytes,
            path: rows.path,
            rows: None,
            text: None,
            form: RowForm::Delimited(Box::new(file)),
            checksum: None,
        }],
    }
}

/// Sorts each view after those that its text names: there are no placeholder tables here.
fn in_order(views: Vec<View>) -> Vec<SqlFile> {
    let mut left: Vec<Option<View>> = views.into_iter().map(Some).collect();
    let mut ordered = Vec::new();
    loop {
        let waits = |view: &View, left: &[Option<View>]| {
            left.iter().flatten().any(|other| {
                other.file.path != view.file.path && {
                    let name = refloat_sqltext::quote_ident(&other.name);
                    memchr::memmem::find(&view.text, name.as_bytes()).is_some()
                }
            })
        };
        let free = left
            .iter()
            .position(|view| view.as_ref().is_some_and(|view| !waits(view, &left)))
            // Names that are also column names can look like a cycle: fall back to order by name.
            .or_else(|| left.iter().position(Option::is_some));
        let Some(view) = free.and_then(|at| left[at].take()) else {
            return ordered;
        };
        ordered.push(view.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, text: &str) -> View {
        View {
            file: SqlFile {
                path: name.into(),
                text: None,
                database: None,
                ends: Ends::Client,
                enters: false,
                session: Vec::new(),
                checksum: None,
            },
            name: name.to_owned(),
            text: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn views_follow_those_that_they_name() {
        let views = vec![
            view("a", "VIEW `a` AS SELECT `b`.`x` FROM `b`"),
            view("b", "VIEW `b` AS SELECT `c`.`x` FROM `c`"),
            view("c", "VIEW `c` AS SELECT 1 AS `x`"),
            view("d", "VIEW `d` AS SELECT `e`"),
            view("e", "VIEW `e` AS SELECT `d`"),
        ];
        let order: Vec<_> = in_order(views)
            .into_iter()
            .map(|file| file.path.display().to_string())
            .collect();
        assert_eq!(order, ["c", "b", "a", "d", "e"]);
    }

    #[test]
    fn the_session_of_a_definition_is_read() {
        let found = define(b"-- MariaDB dump 10.19  Distrib 10.11\n/*!40101 SET NAMES latin1 */;\n/*!40103 SET TIME_ZONE='+00:00' */;\nCREATE TABLE `p;` (a int);\n-- Dump completed\nDELIMITER ;;\nCREATE TRIGGER x BEFORE INSERT ON `p;` FOR EACH ROW SET @a = 1 ;;\n");
        assert_eq!(found.table.as_deref(), Some("p;"));
        assert_eq!(found.charset.as_deref(), Some("latin1"));
        assert!(found.utc && found.view.is_none());
        assert!(found.server.unwrap().starts_with("mariadb-dump 10.19"));
    }
}
