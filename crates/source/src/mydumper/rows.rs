//! Row files of mydumper: `INSERT` statements, or a `LOAD DATA` of the data file beside it.

use std::collections::{BTreeMap, BTreeSet};

use refloat_sqltext::{ItemKind, StatementKind, Step};

use super::metadata::Metadata;
use crate::cutter::{Cutter, Ends};
use crate::delimited::DelimitedFile;
use crate::error::SourceError;
use crate::folder::{self, Entry};
use crate::infile;
use crate::layout::{Layout, RowFile, RowForm};

/// How many bytes of a row file are searched for a `LOAD DATA`. Larger files are not searched: a
/// file with that statement holds little else.
const INFILE_HEAD: usize = 1 << 20;

/// The fault of an empty row file in a folder without row counts: rows may have been lost.
fn empty(entry: &Entry) -> String {
    let name = &entry.name;
    if name != &entry.plain {
        return format!("{name}: the file is empty, and compressed files never are");
    }
    format!(
        "{name}: the file is empty: mydumper 0.10 makes such a file only with --build-empty-files, of a table without rows; else its rows are lost. \
         Remove it if the table has none"
    )
}

/// Lays out a row file; for `LOAD DATA` statements, the data files that they name.
pub fn row_file(
    entry: &Entry,
    data: &mut BTreeMap<String, Entry>,
    metadata: &Metadata,
    layout: &mut Layout,
) -> Result<Vec<RowFile>, SourceError> {
    let old = !metadata.counts;
    if entry.bytes == 0 {
        if old || entry.name != entry.plain {
            layout.faults.push(empty(entry));
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
    cutter.set_mode(metadata.mode());
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
                let infile = infile::parse(statement, metadata.mode()).map_err(refused)?;
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
                    layout.faults.push(empty(&named));
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
            // The words are in a row.
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
