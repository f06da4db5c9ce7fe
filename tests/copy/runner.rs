//! Builds the source of each case on one server, copies it to another in several ways, and
//! compares.

use std::path::Path;

use refloat_copy::{CopyOptions, copy};
use refloat_load::WritePath;
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::ServerKind;
use refloat_testkit::oracle::{Scope, Snapshot};
use refloat_testkit::{chain, servers};

use refloat_tests::built::{build, compare};
use refloat_tests::case::Case;

type Way = (&'static str, fn(&mut CopyOptions));

const WAYS: &[Way] = &[
    ("default", |_| {}),
    ("small ranges and chunks, 4 threads, INSERT", |options| {
        options.dump.read.threads = 4;
        options.dump.chunk_bytes = 1000;
        options.load.threads = 4;
        options.load.chunk_bytes = Some(500);
        options.load.defer_min_bytes = 0;
        options.load.write_path = WritePath::Insert;
    }),
    ("LOAD DATA", |options| {
        options.load.write_path = WritePath::LoadData;
    }),
];

/// Runs the source of every case from a server of one kind to one of another.
pub fn all_sources(from: ServerKind, to: ServerKind) {
    // The tests in this file run in parallel, so each uses servers of its own.
    let source = &servers::start(&servers::quick(from));
    let target = &servers::start(&servers::quick(to));
    let state = tempfile::tempdir().unwrap();
    let name = format!("{from} to {to}");
    let (mut run, mut failures) = (0, Vec::new());
    for case in &Case::all() {
        match build(case, from, source) {
            None => continue,
            Some(Ok(())) => run += 1,
            Some(Err(error)) => {
                failures.push(error);
                continue;
            }
        }
        let history = Scope {
            history: from.is_mariadb(),
        };
        let wanted = Snapshot::take(&mut servers::connect(source), history).unwrap();
        let rows: u64 = wanted.rows.values().map(|rows| rows.count).sum();
        for (label, adjust) in WAYS {
            servers::empty(target);
            let name = format!("{} [{label}]", case.name);
            let mut options = CopyOptions::new(servers::target(source), servers::target(target));
            options.load.durability = Some(Durability::Keep);
            adjust(&mut options);
            match copy_it(&options, state.path()) {
                Ok(copied) if copied != rows => {
                    failures.push(format!("{name}: {copied} rows copied, {rows} there"));
                }
                Ok(_) => compare([from, to], target, history, &wanted, &name, &mut failures),
                Err(error) => failures.push(format!("{name}: {error}")),
            }
        }
    }
    eprintln!("{name}: {run} sources copied");
    for failure in &failures {
        eprintln!("{name}: {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} failures from {name}, listed above",
        failures.len()
    );
}

/// Copies, and returns the number of rows.
fn copy_it(options: &CopyOptions, state: &Path) -> Result<u64, String> {
    let run = Run {
        dir: RunDir::create(state, "copy").unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    };
    match copy(options, &run) {
        Ok(outcome) if outcome.load.proven => Ok(outcome.load.rows),
        Ok(outcome) => Err(format!(
            "not proven: {:?}, {:?}",
            outcome.load.proof, outcome.load.warnings
        )),
        Err(failure) => Err(chain(&failure.error)),
    }
}
