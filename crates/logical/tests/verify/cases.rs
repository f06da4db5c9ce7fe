//! Each case's source, its dump, and what was restored from it by hand are the same.

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;

use crate::by_hand;
use crate::case::Case;
use crate::lost::lost;
use crate::support::{at, compare, folder, found, take, two};

/// The database that sources are built in.
const DATABASE: &str = "it";
/// Differences shown of one comparison.
const SHOWN: usize = 6;
/// Differences that no text of rows and definitions can avoid, with the reason.
const KNOWN: &[(ServerKind, &str, &str)] = &[(
    ServerKind::MySql97,
    "rows of it.l27: Changed ",
    "JSON that was built from a DECIMAL becomes JSON that was built from a DOUBLE",
)];

/// Runs the source of every case on two servers of a kind.
pub fn all_sources(kind: ServerKind) {
    let two = two(kind);
    let scratch = tempfile::tempdir().unwrap();
    let (mut run, mut failures) = (0, Vec::new());
    for case in &Case::all() {
        if case.skipped(kind).is_some() || case.setup(kind).is_empty() {
            continue;
        }
        run += 1;
        servers::empty(two.first);
        servers::empty(two.second);
        servers::connect(two.first)
            .exec(format!("CREATE DATABASE {DATABASE}"))
            .unwrap();
        let setup = case.setup(kind).join(&b'\n');
        if let Err(error) = servers::client(two.first, &[DATABASE], &setup) {
            failures.push(format!("{}: setup: {error}", case.name));
            continue;
        }
        let out = scratch.path().join(&case.name);
        take(two.first, &out, |options| {
            options.threads = 3;
            options.chunk_bytes = 100;
        });
        let mut same = |label: &str, a, b| {
            let text = match compare(a, b) {
                Err(error) => error,
                Ok(outcome) if outcome.same => return,
                Ok(outcome) => {
                    let mut all = found(&outcome);
                    all.retain(|line| {
                        let known = KNOWN
                            .iter()
                            .find(|known| known.0 == kind && line.starts_with(known.1));
                        if let Some((_, _, reason)) = known {
                            eprintln!("{kind}: {} [{label}]: {line}: {reason}", case.name);
                        }
                        known.is_none()
                    });
                    if all.is_empty() {
                        return;
                    }
                    let shown = all[..all.len().min(SHOWN)].join("\n  ");
                    format!("{} differences\n  {shown}", all.len())
                }
            };
            failures.push(format!("{} [{label}]: {text}", case.name));
        };
        same("dump and source", folder(&out), at(two.first));
        same("source and dump", at(two.first), folder(&out));
        same("dump and dump", folder(&out), folder(&out));
        if let Some(reason) = lost(&case.name) {
            eprintln!("{kind}: {} is not restored: {reason}", case.name);
            continue;
        }
        match by_hand::restore(two.second, &out) {
            Ok(()) => {
                same("source and copy", at(two.first), at(two.second));
                same("dump and copy", folder(&out), at(two.second));
            }
            Err(error) => failures.push(format!("{}: restoring by hand: {error}", case.name)),
        }
    }
    eprintln!("{kind}: {run} sources compared with their dumps and copies");
    for failure in &failures {
        eprintln!("{kind}: {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} failures on {kind}, listed above",
        failures.len()
    );
}
