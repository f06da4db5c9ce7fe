//! Folders of `refloat dump`, laid out from their manifest. `docs/format.md` describes the format.

use std::collections::BTreeSet;
use std::path::Path;

use refloat_store::files;

use super::cutter::Ends;
use super::delimited::{Decode, Delimited};
use super::error::SourceError;
use super::folder::{self, Entry};
use super::layout::{Layout, RowFile, RowForm, Segment, SourceFormat, SqlFile, TableRows};
use crate::delimited::DelimitedFile;
use crate::manifest::{self, FieldLoad, FileEntry, MANIFEST, Manifest, TableEntry};

/// Statements that start every session, so that values are stored exactly as written.
pub const SESSION: &[&str] = &[
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION foreign_key_checks = 0",
];
/// Lets historical rows keep their period.
pub const HISTORY: &str = "SET SESSION system_versioning_insert_history = 1";

/// Whether a folder is a finished dump of this program: the manifest is written last.
pub fn is_here(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.name == MANIFEST)
}

/// Lays out a folder.
///
/// # Errors
/// A manifest that cannot be read. A file that is missing or has a different size is a fault of the
/// layout.
pub fn layout(path: &Path) -> Result<Layout, SourceError> {
    let manifest = read(path)?;
    let mut layout = Layout::new(SourceFormat::Refloat, path);
    layout.session = SESSION.iter().map(|text| (*text).to_owned()).collect();
    layout.written_by = Some(format!(
        "{}, {} {} on {}, snapshot of {}",
        manifest.made_by,
        manifest.server.vendor,
        manifest.server.version,
        manifest.server.hostname,
        manifest.snapshot.at
    ));
    let mut files = Files {
        root: path,
        known: BTreeSet::from([MANIFEST.to_owned()]),
        faults: Vec::new(),
    };
    let mut rows = Vec::new();
    for database in &manifest.databases {
        layout
            .segments
            .push(Segment::Sql(files.sql(&database.schema)));
        for table in &database.tables {
            rows.push(files.table(&database.name, table));
        }
    }
    layout.segments.push(Segment::Rows(rows));
    if let Some(programs) = &manifest.programs {
        layout.segments.push(Segment::Sql(files.sql(programs)));
    }
    if let Some(users) = &manifest.users {
        files.check(users);
        layout.passed_over.push(format!(
            "{}: accounts and grants are loaded by themselves, with --allow accounts",
            users.path
        ));
    }
    let Files {
        known, mut faults, ..
    } = files;
    unknown(path, &known, &mut faults)?;
    layout.faults = faults;
    Ok(layout)
}

/// The text format of rows. `columns` gives each column and how a load must convert it; `history`
/// says whether historical rows are included.
pub fn form<'a>(
    columns: impl Iterator<Item = (&'a str, Option<FieldLoad>)>,
    history: bool,
) -> DelimitedFile {
    let fields = columns.map(|(name, load)| {
        let decode = match load {
            Some(FieldLoad::Number) => Decode::Number,
            // Writers know which types do not accept bytes.
            Some(FieldLoad::Utf8) | None => Decode::Plain,
        };
        (name.to_owned(), decode)
    });
    DelimitedFile {
        format: Delimited::default(),
        charset: "binary".to_owned(),
        skip_lines: 0,
        header: false,
        fields: Some(fields.collect()),
        table: None,
        closed: true,
        by_character: false,
        session: history.then(|| HISTORY.to_owned()).into_iter().collect(),
    }
}

/// Reads the manifest of a dump.
///
/// # Errors
/// It is missing, damaged, or of a later format version.
pub fn read(path: &Path) -> Result<Manifest, SourceError> {
    let file = path.join(MANIFEST);
    let unreadable = |reason: String| SourceError::Unreadable {
        path: file.display().to_string(),
        reason,
    };
    let text = folder::read(&file)?;
    manifest::parse(&text).map_err(|error| unreadable(error.to_string()))
}

struct Files<'a> {
    root: &'a Path,
    known: BTreeSet<String>,
    faults: Vec<String>,
}

impl Files<'_> {
    /// Reports a file that is missing or whose size has changed.
    fn check(&mut self, file: &FileEntry) {
        let outside = file.path.is_empty()
            || file
                .path
                .split('/')
                .any(|part| part.is_empty() || part == "." || part == "..");
        if outside {
            self.faults
                .push(format!("{:?} is not a file of the folder", file.path));
            return;
        }
        if !self.known.insert(file.path.clone()) {
            self.faults
                .push(format!("{} is named twice in the manifest", file.path));
        }
        match files::stat(&self.root.join(&file.path)) {
            Err(_) => self.faults.push(format!("{} is missing", file.path)),
            Ok(found) if found.bytes != file.bytes => self.faults.push(format!(
                "{} has {} bytes, but had {} when it was written",
                file.path, found.bytes, file.bytes
            )),
            Ok(_) => {}
        }
    }

    fn sql(&mut self, file: &FileEntry) -> SqlFile {
        self.check(file);
        SqlFile {
            path: self.root.join(&file.path),
            text: None,
            database: None,
            ends: Ends::Client,
            enters: true,
            session: Vec::new(),
            checksum: Some(file.checksum.clone()),
        }
    }

    fn table(&mut self, database: &str, table: &TableEntry) -> TableRows {
        let columns = table.columns.iter();
        let columns = columns.map(|column| (column.name.as_str(), column.load));
        let file = form(columns, table.history);
        TableRows {
            database: Some(database.to_owned()),
            table: table.name.clone(),
            rows: Some(table.rows),
            files: table
                .chunks
                .iter()
                .map(|chunk| {
                    self.check(&chunk.file);
                    RowFile {
                        path: self.root.join(&chunk.file.path),
                        bytes: chunk.file.bytes,
                        rows: Some(chunk.rows),
                        text: Some((chunk.text_bytes, MANIFEST.to_owned())),
                        form: RowForm::Delimited(Box::new(file.clone())),
                        checksum: Some(chunk.file.checksum.clone()),
                    }
                })
                .collect(),
        }
    }
}

/// Reports files that the manifest does not name; they may belong to another dump.
fn unknown(
    path: &Path,
    known: &BTreeSet<String>,
    faults: &mut Vec<String>,
) -> Result<(), SourceError> {
    for entry in folder::list(path)? {
        if !entry.folder {
            if !known.contains(&entry.name) {
                faults.push(format!("{} is not in the manifest", entry.name));
            }
            continue;
        }
        for inner in folder::list(&entry.path)? {
            let name = format!("{}/{}", entry.name, inner.name);
            if !known.contains(&name) {
                faults.push(format!("{name} is not in the manifest"));
            }
        }
    }
    Ok(())
}
