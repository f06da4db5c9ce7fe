//! The source of a case, built on a server, and what a copy of it must be.

use std::fmt::Write as _;
use std::io::{Seek as _, Write as _};
use std::process::Stdio;

use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::oracle::{self, Scope, Snapshot, differences};
use refloat_testkit::servers;

use crate::case::Case;

/// The database that sources are built in.
const DATABASE: &str = "it";
/// Differences shown of one dump.
const SHOWN: usize = 6;
/// Cases whose source holds what nobody can create again, with the reason.
const REFUSED: &[(&str, &str)] = &[(
    "invalid-views",
    "the server refuses to create a view that names what is not there",
)];

/// Differences that no text of rows and definitions can avoid, with the reason.
const KNOWN: &[(ServerKind, &str, &str)] = &[(
    ServerKind::MySql97,
    "rows of it.l27",
    "JSON that was built from a DECIMAL is the same text as JSON that was built from a DOUBLE",
)];

/// Builds the source of a case on a server that holds nothing else afterwards; `None` when the case has none there.
pub fn build(case: &Case, kind: ServerKind, server: &Ephemeral) -> Option<Result<(), String>> {
    if let Some((name, reason)) = REFUSED.iter().find(|(name, _)| *name == case.name) {
        eprintln!("{kind}: skipped {name}: {reason}");
        return None;
    }
    if case.skipped(kind).is_some() || case.setup(kind).is_empty() {
        return None;
    }
    empty(server);
    servers::connect(server)
        .exec(format!("CREATE DATABASE {DATABASE}"))
        .unwrap();
    let setup = case.setup(kind).join(&b'\n');
    Some(client(server, &setup).map_err(|error| format!("{}: setup: {error}", case.name)))
}

/// What the server holds, beside what another one, or the same, held.
pub fn compare(
    [from, kind]: [ServerKind; 2],
    server: &Ephemeral,
    scope: Scope,
    wanted: &Snapshot,
    name: &str,
    failures: &mut Vec<String>,
) {
    let found = Snapshot::take(&mut servers::connect(server), scope).unwrap();
    let mut different = differences(&spelled(wanted), &spelled(&found));
    // Each version describes itself in columns of its own.
    different.retain(|one| from == kind || !one.about.starts_with("information_schema"));
    different.retain(|one| {
        let known = KNOWN
            .iter()
            .find(|known| known.0 == kind && known.1 == one.about);
        if let Some((_, about, reason)) = known {
            eprintln!("{kind}: {name}: {about} differ, as they must: {reason}");
        }
        known.is_none()
    });
    if !different.is_empty() {
        let mut text = format!("{name}: {} differences (left: source)", different.len());
        for difference in different.iter().take(SHOWN) {
            let _ = write!(text, "\n  {difference}");
        }
        failures.push(text);
    }
}

/// A snapshot in which definitions are spelled as the server spells them once it has read its own text again.
fn spelled(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for text in snapshot.definitions.values_mut() {
        // Aria shows the default of a table that did not name it, and then calls it named.
        *text = text.replace("page_checksum=1 ", "");
        // MariaDB 11.8 shows this behind the default, older ones before it.
        *text = text.replace(" INVISIBLE DEFAULT 7", " DEFAULT 7 INVISIBLE");
        // MySQL shows the character set of a column where it is not the database's, or was named beside its collation.
        for charset in ["latin1", "utf8mb4"] {
            *text = text.replace(&format!("CHARACTER SET {charset} COLLATE"), "COLLATE");
        }
    }
    snapshot
}

/// An error and its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let _ = write!(text, ": {source}");
        next = source.source();
    }
    text
}

/// Drops every database that is not the server's.
pub fn empty(server: &Ephemeral) {
    let mut conn = servers::connect(server);
    conn.exec("SET SESSION foreign_key_checks = 0").unwrap();
    conn.exec("SET GLOBAL time_zone = 'SYSTEM', GLOBAL sql_mode = DEFAULT")
        .unwrap();
    for database in oracle::databases(&mut conn).unwrap() {
        conn.exec(format!("DROP DATABASE {}", oracle::quote(&database)))
            .unwrap();
    }
}

fn client(server: &Ephemeral, script: &[u8]) -> Result<(), String> {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(script).unwrap();
    input.rewind().unwrap();
    let output = server
        .client_command()
        .unwrap()
        .arg(DATABASE)
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
