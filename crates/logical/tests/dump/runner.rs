//! Builds the source of each case, dumps it in several ways, restores it by hand, compares.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use refloat_logical::dump::{DumpOptions, DumpOutcome, DumpRun, RowCompression, dump};
use refloat_logical::load::{LoadOptions, LoadRun, WritePath, load};
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::{chain, servers};

use crate::by_hand;
use crate::case::Case;
use crate::spelled::spelled;

/// The database that sources are built in.
const DATABASE: &str = "it";
/// Differences shown of one dump.
const SHOWN: usize = 6;
/// Differences that no text of rows and definitions can avoid, with the reason.
const KNOWN: &[(ServerKind, &str, &str)] = &[(
    ServerKind::MySql97,
    "rows of it.l27",
    "JSON that was built from a DECIMAL is the same text as JSON that was built from a DOUBLE",
)];

type Way = (&'static str, fn(&mut DumpOptions));

/// The ways of dumping.
const WAYS: &[Way] = &[
    ("default", |_| {}),
    ("tiny files, 4 threads, plain", |options| {
        options.threads = 4;
        options.chunk_bytes = 1000;
        options.compression = RowCompression::None;
    }),
];

/// A way of restoring a dump.
type Restore = fn(&Ephemeral, &Path, &Path) -> Result<(), String>;

/// The ways of restoring: the second last leaves the file that the stock client reads beside the dump's.
const RESTORES: &[(&str, Restore)] = &[
    ("loaded", |server, out, state| {
        load_it(server, out, state, |_| {})
    }),
    ("loaded as INSERT, in small chunks", |server, out, state| {
        load_it(server, out, state, |options| {
            options.write_path = WritePath::Insert;
            options.chunk_bytes = Some(500);
            options.defer_min_bytes = 0;
            options.threads = 4;
        })
    }),
    ("loaded by LOAD DATA", |server, out, state| {
        load_it(server, out, state, |options| {
            options.write_path = WritePath::LoadData;
        })
    }),
    ("restored by hand", |server, out, _| {
        by_hand::restore(server, out)
    }),
];

/// Loads a dump with this program.
fn load_it(
    server: &Ephemeral,
    out: &Path,
    state: &Path,
    adjust: fn(&mut LoadOptions),
) -> Result<(), String> {
    let mut options = LoadOptions::new(out, servers::target(server));
    options.durability = Some(Durability::Keep);
    adjust(&mut options);
    let run = LoadRun {
        dir: RunDir::create(state, "load").unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    };
    match load(&options, &run) {
        Ok(outcome) if outcome.proven => Ok(()),
        Ok(outcome) => Err(format!(
            "not proven: {:?}, {:?}",
            outcome.proof, outcome.warnings
        )),
        Err(failure) => Err(chain(&failure.error)),
    }
}

/// What the server holds, beside what it held.
fn compare(
    kind: ServerKind,
    server: &Ephemeral,
    scope: Scope,
    wanted: &Snapshot,
    name: &str,
    failures: &mut Vec<String>,
) {
    let found = Snapshot::take(&mut servers::connect(server), scope).unwrap();
    let mut different = differences(&spelled(wanted), &spelled(&found));
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

/// Runs the source of every case on one server.
pub fn all_sources(kind: ServerKind) {
    let server = servers::server(kind);
    let folder = tempfile::tempdir().unwrap();
    let (mut run, mut failures) = (0, Vec::new());
    for case in &Case::all() {
        if let Some(reason) = by_hand::not_possible(&case.name) {
            eprintln!("{kind}: skipped {}: {reason}", case.name);
            continue;
        }
        if case.skipped(kind).is_some() || case.setup(kind).is_empty() {
            continue;
        }
        run += 1;
        servers::empty(server);
        servers::connect(server)
            .exec(format!("CREATE DATABASE {DATABASE}"))
            .unwrap();
        let setup = case.setup(kind).join(&b'\n');
        if let Err(error) = servers::client(server, &[DATABASE], &setup) {
            failures.push(format!("{}: setup: {error}", case.name));
            continue;
        }
        // Of system-versioned tables a dump holds the past as well.
        let history = Scope {
            history: kind.is_mariadb(),
        };
        let wanted = Snapshot::take(&mut servers::connect(server), history).unwrap();
        let mut dumps = Vec::new();
        for (number, (label, adjust)) in WAYS.iter().enumerate() {
            let out = folder.path().join(format!("{}-{number}", case.name));
            let mut options = DumpOptions::new(servers::target(server), &out);
            adjust(&mut options);
            match take(&options, folder.path()) {
                Ok(outcome) => dumps.push((label, out, outcome)),
                Err(error) => failures.push(format!("{} [{label}]: {error}", case.name)),
            }
        }
        for (label, out, outcome) in dumps {
            servers::empty(server);
            let name = format!("{} [{label}]", case.name);
            let rows: u64 = wanted.rows.values().map(|rows| rows.count).sum();
            if outcome.rows != rows {
                failures.push(format!(
                    "{name}: {} rows dumped, {rows} there",
                    outcome.rows
                ));
            }
            for (how, restore) in RESTORES {
                servers::empty(server);
                let name = format!("{name}, {how}");
                if let Err(error) = restore(server, &out, folder.path()) {
                    failures.push(format!("{name}: {error}"));
                    continue;
                }
                compare(kind, server, history, &wanted, &name, &mut failures);
            }
            fs::remove_dir_all(&out).unwrap();
        }
    }
    eprintln!("{kind}: {run} sources dumped and restored by hand");
    for failure in &failures {
        eprintln!("{kind}: {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} failures on {kind}, listed above",
        failures.len()
    );
}

fn take(options: &DumpOptions, state: &Path) -> Result<DumpOutcome, String> {
    let run = DumpRun {
        dir: RunDir::create(state, "dump").unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    };
    dump(options, &run).map_err(|failure| chain(&failure.error))
}
