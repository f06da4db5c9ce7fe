//! Restores a dump without refloat, as `docs/format.md` describes it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_sandbox::Ephemeral;
use refloat_source::manifest::{FieldLoad, Manifest, TableEntry};
use refloat_testkit::oracle::quote;
use refloat_testkit::servers;

/// Session settings under which values are stored exactly as written.
const SESSION: &str = "SET NAMES utf8mb4;\nSET time_zone = '+00:00';\nSET foreign_key_checks = 0;\n\
                       SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n";

/// Restores a dump with nothing but the stock client.
pub fn restore(server: &Ephemeral, folder: &Path) -> Result<(), String> {
    let manifest = read(folder);
    for database in &manifest.databases {
        client(
            server,
            &fs::read(folder.join(&database.schema.path)).unwrap(),
        )
        .map_err(|error| format!("schema of {}: {error}", database.name))?;
    }
    for database in &manifest.databases {
        for table in &database.tables {
            let mut sql = String::from(SESSION);
            if table.history {
                sql.push_str("SET system_versioning_insert_history = 1;\n");
            }
            for chunk in &table.chunks {
                let plain = plain(folder, &chunk.file.path);
                let _ = writeln!(sql, "{};", load_data(&plain, &database.name, table));
            }
            if !table.chunks.is_empty() {
                client(server, sql.as_bytes()).map_err(|error| {
                    format!("rows of {}.{}: {error}", database.name, table.name)
                })?;
            }
        }
    }
    if let Some(programs) = &manifest.programs {
        client(server, &fs::read(folder.join(&programs.path)).unwrap())
            .map_err(|error| format!("programs: {error}"))?;
    }
    Ok(())
}

/// The manifest of a dump, parsed.
pub fn read(folder: &Path) -> Manifest {
    let text = fs::read(folder.join("manifest.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Decompresses a row file, and returns the path of the result.
fn plain(folder: &Path, path: &str) -> PathBuf {
    let packed = folder.join(path);
    let Some(name) = path.strip_suffix(".zst") else {
        return packed;
    };
    let plain = folder.join(name);
    let output = Command::new("zstd")
        .arg("-dqf")
        .arg(&packed)
        .arg("-o")
        .arg(&plain)
        .output()
        .unwrap();
    assert!(output.status.success(), "zstd cannot read {path}");
    plain
}

fn load_data(file: &Path, database: &str, table: &TableEntry) -> String {
    let mut columns = Vec::new();
    let mut sets = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        let name = quote(&column.name);
        let Some(load) = column.load else {
            columns.push(name);
            continue;
        };
        columns.push(format!("@f{index}"));
        sets.push(match load {
            FieldLoad::Utf8 => format!("{name} = CONVERT(@f{index} USING utf8mb4)"),
            FieldLoad::Number => format!("{name} = CAST(@f{index} AS UNSIGNED)"),
        });
    }
    let sets = if sets.is_empty() {
        String::new()
    } else {
        format!(" SET {}", sets.join(", "))
    };
    format!(
        "LOAD DATA LOCAL INFILE '{}' INTO TABLE {}.{} CHARACTER SET binary ({}){sets}",
        file.display(),
        quote(database),
        quote(&table.name),
        columns.join(", ")
    )
}

fn client(server: &Ephemeral, script: &[u8]) -> Result<(), String> {
    servers::client(server, &["--local-infile=1"], script)
}
