//! Builds the source of a case on a server, and checks a copy of it.

use std::fmt::Write as _;

use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::servers;

use crate::case::Case;
use crate::lost::lost;
use crate::spelled::spelled;

/// The database that sources are built in.
const DATABASE: &str = "it";
/// How many differences to show per dump.
const SHOWN: usize = 6;
/// Differences that no text form of rows and definitions can avoid, with the reason.
const KNOWN: &[(ServerKind, &str, &str)] = &[(
    ServerKind::MySql97,
    "rows of it.l27",
    "JSON that was built from a DECIMAL is the same text as JSON that was built from a DOUBLE",
)];

/// Builds the source of a case on a server, which then holds nothing else. `None` if the case has
/// no source for this server.
pub fn build(case: &Case, kind: ServerKind, server: &Ephemeral) -> Option<Result<(), String>> {
    if let Some(reason) = lost(&case.name) {
        eprintln!("{kind}: skipped {}: {reason}", case.name);
        return None;
    }
    if case.skipped(kind).is_some() || case.setup(kind).is_empty() {
        return None;
    }
    servers::empty(server);
    servers::connect(server)
        .exec(format!("CREATE DATABASE {DATABASE}"))
        .unwrap();
    let setup = case.setup(kind).join(&b'\n');
    Some(
        servers::client(server, &[DATABASE], &setup)
            .map_err(|error| format!("{}: setup: {error}", case.name)),
    )
}

/// Compares what the server holds with the snapshot of another server, or of its own earlier state.
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
    // Each version has its own columns in the catalog.
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
