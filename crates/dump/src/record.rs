//! Writes everything but rows: definitions first, the manifest last.

use refloat_read::catalog;
use refloat_read::catalog::{DataPolicy, Database, Programs};
use refloat_read::moment::Plan;
use refloat_source::manifest::{
    ColumnEntry, DatabaseEntry, FORMAT, FileEntry, Manifest, ServerInfo, TableEntry,
};
use refloat_source::tsv::RowDigest;
use refloat_store::{Folder, Written};
use refloat_wire::Connection;

use super::error::DumpError;
use super::names::FileNames;
use super::options::DumpOptions;
use super::outcome::DumpOutcome;
use super::work::TableWork;
use super::{accounts, schema};

/// What is written before the rows.
pub struct Definitions {
    pub databases: Vec<DatabaseEntry>,
    /// Number of tables per database.
    pub counts: Vec<usize>,
    pub tables: Vec<TableWork>,
    pub programs: Option<FileEntry>,
    pub users: Option<FileEntry>,
    pub notes: Vec<String>,
}

pub fn write_definitions(
    options: &DumpOptions,
    control: &mut Connection,
    folder: &Folder,
    plan: &Plan,
) -> Result<Definitions, DumpError> {
    let mut names = FileNames::default();
    let mut definitions = Definitions {
        databases: Vec::new(),
        counts: Vec::new(),
        tables: Vec::new(),
        programs: None,
        users: None,
        notes: Vec::new(),
    };
    for (database, tables) in plan.databases.iter().zip(&plan.tables) {
        let dir = names.give(&database.name);
        folder.make(&dir)?;
        let sql = schema::of_database(control, database, tables)?;
        let schema = folder.write(&format!("{dir}/schema.sql"), &sql)?;
        let mut files = FileNames::default();
        definitions
            .databases
            .push(entry_of(database, &plan.programs, schema));
        definitions.counts.push(tables.len());
        definitions.tables.extend(tables.iter().map(|table| {
            let stem = format!("{dir}/{}", files.give(&table.name));
            TableWork::new(table.clone(), stem)
        }));
    }
    if let Some(sql) = schema::of_programs(options, &plan.collations, &plan.programs) {
        definitions.programs = Some(file(folder.write("programs.sql", &sql)?));
    }
    if options.read.accounts {
        let (sql, notes) = accounts::read(control)?;
        definitions.users = Some(file(folder.write("users.sql", &sql)?));
        definitions.notes.extend(notes);
    }
    Ok(definitions)
}

fn file(written: Written) -> FileEntry {
    FileEntry {
        path: written.path,
        bytes: written.bytes,
        checksum: written.checksum,
    }
}

fn entry_of(database: &Database, programs: &Programs, schema: Written) -> DatabaseEntry {
    let of = |list: &[catalog::Program], kinds: bool| -> Vec<String> {
        list.iter()
            .filter(|program| program.database == database.name)
            .map(|program| {
                if kinds {
                    format!("{} {}", program.kind, program.name)
                } else {
                    program.name.clone()
                }
            })
            .collect()
    };
    let views = || {
        programs
            .views
            .iter()
            .filter(|view| view.database == database.name)
    };
    DatabaseEntry {
        name: database.name.clone(),
        schema: file(schema),
        tables: Vec::new(),
        sequences: database.sequences.clone(),
        views: views().map(|view| view.name.clone()).collect(),
        invalid_views: views()
            .filter(|view| view.invalid.is_some())
            .map(|view| view.name.clone())
            .collect(),
        routines: of(&programs.routines, true),
        triggers: of(&programs.triggers, false),
        events: of(&programs.events, false),
    }
}

/// The manifest of a finished dump.
pub fn complete(
    definitions: Definitions,
    tables: Vec<TableWork>,
    snapshot: refloat_source::manifest::SnapshotInfo,
    control: &Connection,
) -> Manifest {
    let mut tables = tables.into_iter();
    let mut databases = definitions.databases;
    for (database, count) in databases.iter_mut().zip(definitions.counts) {
        database.tables = tables.by_ref().take(count).map(table_entry).collect();
    }
    Manifest {
        format: FORMAT,
        made_by: concat!("refloat ", env!("CARGO_PKG_VERSION")).to_owned(),
        server: ServerInfo {
            vendor: control.server().vendor.to_string(),
            version: control.server().version_string.clone(),
            hostname: control.identity().hostname.clone(),
        },
        snapshot,
        databases,
        programs: definitions.programs,
        users: definitions.users,
        notes: definitions.notes,
    }
}

fn table_entry(of: TableWork) -> TableEntry {
    let (table, chunks) = of.into_chunks();
    let mut digest = RowDigest::default();
    for chunk in &chunks {
        digest.merge(RowDigest::from_hex(&chunk.digest, chunk.rows));
    }
    TableEntry {
        data: table.policy != DataPolicy::Elsewhere,
        columns: table
            .columns
            .into_iter()
            .map(|column| ColumnEntry {
                name: column.name,
                load: column.load,
            })
            .collect(),
        key: table.key.into_iter().map(|column| column.name).collect(),
        name: table.name,
        engine: table.engine,
        rows: digest.rows(),
        digest: digest.hex(),
        history: table.history,
        chunks,
    }
}

pub fn count(manifest: &Manifest, outcome: &mut DumpOutcome) {
    outcome.databases = manifest.databases.len() as u64;
    for database in &manifest.databases {
        outcome.tables += database.tables.len() as u64;
        let programs = [
            &database.sequences,
            &database.views,
            &database.routines,
            &database.triggers,
            &database.events,
        ];
        outcome.programs += programs.iter().map(|list| list.len() as u64).sum::<u64>();
        outcome.file_bytes += database.schema.bytes;
        for table in &database.tables {
            outcome.rows += table.rows;
            outcome.files += table.chunks.len() as u64;
            for chunk in &table.chunks {
                outcome.text_bytes += chunk.text_bytes;
                outcome.file_bytes += chunk.file.bytes;
            }
        }
    }
}
