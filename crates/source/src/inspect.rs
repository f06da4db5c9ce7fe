//! Inspects a source without a server: its format, its content, and whether it is complete.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use refloat_sqltext::{ItemKind, ObjectName, StatementKind, shown};
use refloat_store::{Input, InputError, LooksLike, file_checksum, files};
use serde::Serialize;

use super::archive;
use super::cutter::Ends;
use super::detect::open_folder;
use super::error::SourceError;
use super::items::Items;
use super::layout::{Layout, SourceFormat};
use super::options::DelimitedOptions;
use super::script::{CUT, Script};

/// The result of an inspection.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// The file, folder or archive.
    pub source: String,
    /// The kind of source.
    pub format: SourceFormat,
    /// The tool that wrote it, if the source says.
    pub written_by: Option<String>,
    /// Stored size in bytes.
    pub bytes: u64,
    /// Whether the source is complete, as far as that is visible without loading it.
    pub whole: bool,
    /// Whether files were compared with the source's checksums; `None` if it has none.
    pub checksums: Option<bool>,
    /// What is missing or unexpected.
    pub faults: Vec<String>,
    /// Databases that the source names.
    pub databases: Vec<String>,
    /// Tables that it creates or has rows for.
    pub tables: Vec<InspectedTable>,
    /// Number of other objects that it creates, by kind.
    pub objects: BTreeMap<String, u64>,
    /// Files that load nothing.
    pub passed_over: Vec<String>,
    /// What the user should know before loading it.
    pub notes: Vec<String>,
}

/// A table that the source defines or has rows of.
#[derive(Debug, Clone, Default, Serialize)]
pub struct InspectedTable {
    /// Database name, if the source names one.
    pub database: Option<String>,
    /// Name without the database.
    pub table: String,
    /// Number of files with its rows.
    pub files: u64,
    /// Size of its rows in bytes: for a folder the stored size of the files, for a single SQL file
    /// the size of the text.
    pub bytes: u64,
    /// Number of rows, if the source states it or was read to its end.
    pub rows: Option<u64>,
}

/// Inspects a source. For a folder, it lists the files and reads the definitions; a single file is
/// read to its end; an archive is first unpacked into `scratch`.
///
/// With `checksums`, every file with a known checksum is read and compared. Size alone does not
/// reveal that another file has taken its place.
///
/// # Errors
/// A source that no known tool wrote, or files that cannot be read.
pub fn inspect(
    path: &Path,
    format: Option<SourceFormat>,
    options: &DelimitedOptions,
    scratch: &Path,
    checksums: bool,
) -> Result<Inspection, SourceError> {
    if files::is_folder(path) {
        return of_layout(&open_folder(path, format, options)?, checksums);
    }
    if format == Some(SourceFormat::Delimited) || options.table.is_some() {
        return of_layout(&options.layout(path)?, checksums);
    }
    let mut input = Input::open(path)?;
    if archive::is_archive(&mut input)? {
        return of_layout(
            &archive::layout(input, scratch, format, options)?,
            checksums,
        );
    }
    of_file(input)
}

/// Collects what statements create.
#[derive(Default)]
struct Gathered {
    database: Option<String>,
    databases: Vec<String>,
    tables: Vec<InspectedTable>,
    places: BTreeMap<(Option<String>, String), usize>,
    objects: BTreeMap<String, u64>,
}

impl Gathered {
    fn enter(&mut self, database: Option<String>) {
        if let Some(name) = &database
            && !self.databases.contains(name)
        {
            self.databases.push(name.clone());
        }
        self.database = database;
    }

    fn table(&mut self, database: Option<String>, table: String) -> &mut InspectedTable {
        let database = database.or_else(|| self.database.clone());
        let tables = &mut self.tables;
        let at = *self
            .places
            .entry((database.clone(), table.clone()))
            .or_insert_with(|| {
                tables.push(InspectedTable {
                    database,
                    table,
                    ..InspectedTable::default()
                });
                tables.len() - 1
            });
        &mut self.tables[at]
    }

    fn object(&mut self, kind: &str) {
        *self.objects.entry(kind.to_owned()).or_insert(0) += 1;
    }

    fn statement(&mut self, kind: &StatementKind) {
        match kind {
            StatementKind::Use { database } => self.enter(Some(shown(database))),
            StatementKind::CreateDatabase { database, .. } => {
                let name = shown(database);
                if !self.databases.contains(&name) {
                    self.databases.push(name);
                }
            }
            StatementKind::CreateTable {
                table,
                temporary: false,
                ..
            } => {
                let (database, table) = parts(table);
                self.table(database, table);
            }
            StatementKind::CreateView { view } => {
                // A placeholder table may have had the view's name.
                let (database, name) = parts(view);
                let database = database.or_else(|| self.database.clone());
                if let Some(at) = self.places.remove(&(database, name)) {
                    self.tables[at].table.clear();
                }
                self.object("views");
            }
            StatementKind::CreateRoutine { .. } => self.object("routines"),
            StatementKind::CreateTrigger { .. } => self.object("triggers"),
            StatementKind::CreateEvent { .. } => self.object("events"),
            StatementKind::CreateSequence { .. } => self.object("sequences"),
            _ => {}
        }
    }

    fn tables(self) -> Vec<InspectedTable> {
        let mut tables = self.tables;
        tables.retain(|table| !table.table.is_empty());
        tables
    }
}

/// Reads a SQL file to its end.
fn walk(input: &mut Input, ends: Ends, gathered: &mut Gathered) -> Result<Script, String> {
    let mut items = Items::new(input, ends);
    while let Some(item) = items.next_item().map_err(|error| error.to_string())? {
        match &item.kind {
            ItemKind::Statement(kind) => gathered.statement(kind),
            ItemKind::Rows(rows) => {
                let header = &rows.header;
                let table =
                    gathered.table(header.database.as_deref().map(shown), shown(&header.table));
                table.files = 1;
                table.bytes += rows.rows.len() as u64;
                *table.rows.get_or_insert(0) += rows.row_count;
            }
            _ => {}
        }
    }
    Ok(items.into_script())
}

fn of_file(mut input: Input) -> Result<Inspection, SourceError> {
    let content = input.content()?;
    if !matches!(content, LooksLike::Sql | LooksLike::Text) {
        return Err(SourceError::Unknown {
            path: input.name().to_owned(),
            reason: format!("it looks like {content}"),
        });
    }
    let mut gathered = Gathered::default();
    let mut faults = Vec::new();
    let mut written_by = None;
    match walk(&mut input, Ends::Client, &mut gathered) {
        Ok(script) => {
            faults.extend(script.is_cut().then(|| CUT.to_owned()));
            written_by = script.header().map(str::to_owned);
        }
        Err(words) => faults.push(words),
    }
    Ok(Inspection {
        source: input.name().to_owned(),
        format: SourceFormat::Sql,
        written_by,
        bytes: input.total_bytes().unwrap_or(0),
        whole: faults.is_empty(),
        checksums: None,
        faults,
        databases: gathered.databases.clone(),
        objects: gathered.objects.clone(),
        tables: gathered.tables(),
        passed_over: Vec::new(),
        notes: Vec::new(),
    })
}

/// The files with a known checksum, and that checksum.
fn with_checksums(layout: &Layout) -> impl Iterator<Item = (&Path, &str)> {
    let sql = layout.statements().map(|file| (&file.path, &file.checksum));
    let rows = layout.tables().flat_map(|rows| &rows.files);
    let rows = rows.map(|file| (&file.path, &file.checksum));
    sql.chain(rows)
        .filter_map(|(path, checksum)| Some((path.as_path(), checksum.as_deref()?)))
}

/// Compares a file with its checksum. Returns a message if they differ; a missing file is reported
/// elsewhere.
fn differs(path: &Path, expected: &str) -> Result<Option<String>, SourceError> {
    match file_checksum(path, &AtomicBool::new(false)) {
        Ok(found) if found.eq_ignore_ascii_case(expected) => Ok(None),
        Ok(_) => Ok(Some(format!(
            "{}: its checksum differs from the one that was recorded: it was changed or damaged, \
            or is another file",
            path.display()
        ))),
        Err(InputError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn of_layout(layout: &Layout, checksums: bool) -> Result<Inspection, SourceError> {
    let mut gathered = Gathered::default();
    let mut faults = layout.faults.clone();
    for name in layout.databases() {
        gathered.enter(Some(name.clone()));
    }
    for file in layout.statements() {
        gathered.enter(file.database.clone());
        let mut input = match file.open() {
            Ok(input) => input,
            Err(InputError::Empty { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        match walk(&mut input, file.ends, &mut gathered) {
            Ok(script) if script.is_cut_part() => {
                faults.push(format!("{}: {CUT}", file.path.display()));
            }
            Ok(_) => {}
            Err(words) => faults.push(format!("{}: {words}", file.path.display())),
        }
    }
    let has_checksums = with_checksums(layout).next().is_some();
    if checksums {
        for (path, expected) in with_checksums(layout) {
            faults.extend(differs(path, expected)?);
        }
    }
    for rows in layout.tables() {
        gathered.enter(rows.database.clone());
        let known = rows
            .rows
            .or_else(|| rows.files.iter().map(|file| file.rows).sum());
        let table = gathered.table(None, rows.table.clone());
        table.files = rows.files.len() as u64;
        table.bytes = rows.bytes();
        table.rows = known;
    }
    Ok(Inspection {
        source: layout.path.display().to_string(),
        format: layout.format,
        written_by: layout.written_by.clone(),
        bytes: layout.bytes(),
        whole: faults.is_empty(),
        checksums: has_checksums.then_some(checksums),
        faults,
        databases: gathered.databases.clone(),
        objects: gathered.objects.clone(),
        tables: gathered.tables(),
        passed_over: layout.passed_over.clone(),
        notes: layout.notes.clone(),
    })
}

fn parts(name: &ObjectName) -> (Option<String>, String) {
    (name.database.as_deref().map(shown), shown(&name.name))
}
