//! Builds the source of each case, dumps it in several ways, restores it by hand, and compares.

use std::fs;
use std::path::Path;

use refloat_dump::{DumpFormat, DumpOptions, DumpOutcome, RowCompression, dump};
use refloat_load::{LoadOptions, WritePath, load};
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot};
use refloat_testkit::{chain, servers};
use refloat_verify::{Compared, Endpoint, VerifyOptions, verify};

use refloat_tests::built::{self, compare};
use refloat_tests::by_hand;
use refloat_tests::case::Case;

/// A way of dumping: its label, its options, and two ways to restore the dump.
type Way = (
    &'static str,
    fn(&mut DumpOptions),
    [(&'static str, Restore); 2],
);

const WAYS: &[Way] = &[
    ("default", |_| {}, [BY_LOAD_DATA, BY_HAND]),
    (
        "tiny files, 4 threads, plain",
        |options| {
            options.read.threads = 4;
            options.chunk_bytes = 1000;
            options.compression = RowCompression::None;
        },
        [LOADED, AS_INSERT],
    ),
];

type Restore = fn(&Ephemeral, &Path, &Path) -> Result<(), String>;

const LOADED: (&str, Restore) = ("loaded", |server, out, state| {
    load_it(server, out, state, |_| {})
});
const AS_INSERT: (&str, Restore) = ("loaded as INSERT, in small chunks", |server, out, state| {
    load_it(server, out, state, |options| {
        options.write_path = WritePath::Insert;
        options.chunk_bytes = Some(500);
        options.defer_min_bytes = 0;
        options.threads = 4;
    })
});
const BY_LOAD_DATA: (&str, Restore) = ("loaded by LOAD DATA", |server, out, state| {
    load_it(server, out, state, |options| {
        options.write_path = WritePath::LoadData;
    })
});
const BY_HAND: (&str, Restore) = ("restored by hand", |server, out, _| {
    by_hand::restore(server, out)
});

/// The ways of restoring a dump in SQL format.
const SQL_RESTORES: &[(&str, Restore)] = &[
    ("by the stock client", |server, out, _| {
        servers::client(server, &[], &fs::read(out).unwrap())
    }),
    ("loaded", |server, out, state| {
        load_it(server, out, state, |_| {})
    }),
];

/// Loads a dump with Refloat.
fn load_it(
    server: &Ephemeral,
    out: &Path,
    state: &Path,
    adjust: fn(&mut LoadOptions),
) -> Result<(), String> {
    let mut options = LoadOptions::new(out, servers::target(server));
    options.durability = Some(Durability::Keep);
    adjust(&mut options);
    match load(&options, &run(state, "load")) {
        Ok(outcome) if outcome.proven => Ok(()),
        Ok(outcome) => Err(format!(
            "not proven: {:?}, {:?}",
            outcome.proof, outcome.warnings
        )),
        Err(failure) => Err(chain(&failure.error)),
    }
}

/// Runs the source of every case on one server.
pub fn all_sources(kind: ServerKind) {
    let server = servers::server(kind);
    let folder = tempfile::tempdir().unwrap();
    let (mut run, mut failures) = (0, Vec::new());
    for case in &Case::all() {
        match built::build(case, kind, server) {
            None => continue,
            Some(Ok(())) => run += 1,
            Some(Err(error)) => {
                failures.push(error);
                continue;
            }
        }
        // For system-versioned tables, a dump holds the history too.
        let history = Scope {
            history: kind.is_mariadb(),
        };
        let wanted = Snapshot::take(&mut servers::connect(server), history).unwrap();
        let sql = folder.path().join(format!("{}.sql", case.name));
        let compared = as_sql(server, &sql, folder.path(), &wanted)
            .and_then(|()| compared_by_digest(server, &sql, folder.path()));
        if let Err(error) = compared {
            failures.push(format!("{} [sql]: {error}", case.name));
        }
        let mut dumps = Vec::new();
        for (number, (label, adjust, restores)) in WAYS.iter().enumerate() {
            let out = folder.path().join(format!("{}-{number}", case.name));
            let mut options = DumpOptions::new(servers::target(server), &out);
            adjust(&mut options);
            match take(&options, folder.path()) {
                Ok(outcome) => dumps.push((label, out, outcome, restores)),
                Err(error) => failures.push(format!("{} [{label}]: {error}", case.name)),
            }
        }
        for (label, out, outcome, restores) in dumps {
            servers::empty(server);
            let name = format!("{} [{label}]", case.name);
            let rows: u64 = wanted.rows.values().map(|rows| rows.count).sum();
            if outcome.rows != rows {
                failures.push(format!(
                    "{name}: {} rows dumped, {rows} there",
                    outcome.rows
                ));
            }
            for (how, restore) in restores {
                servers::empty(server);
                let name = format!("{name}, {how}");
                if let Err(error) = restore(server, &out, folder.path()) {
                    failures.push(format!("{name}: {error}"));
                    continue;
                }
                compare([kind; 2], server, history, &wanted, &name, &mut failures);
            }
            fs::remove_dir_all(&out).unwrap();
        }
        for (how, restore) in SQL_RESTORES.iter().filter(|_| sql.exists()) {
            servers::empty(server);
            let name = format!("{} [sql], {how}", case.name);
            match restore(server, &sql, folder.path()) {
                Ok(()) => compare([kind; 2], server, history, &wanted, &name, &mut failures),
                Err(error) => failures.push(format!("{name}: {error}")),
            }
        }
        let _ = fs::remove_file(&sql);
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

/// Dumps the source as one SQL file.
fn as_sql(server: &Ephemeral, out: &Path, state: &Path, wanted: &Snapshot) -> Result<(), String> {
    let mut options = DumpOptions::new(servers::target(server), out);
    options.format = DumpFormat::Sql;
    options.read.threads = 4;
    let rows: u64 = wanted.rows.values().map(|rows| rows.count).sum();
    let outcome = take(&options, state)?;
    let mut definitions = wanted.definitions.values();
    let past = definitions.any(|text| text.contains("SYSTEM VERSIONING"));
    let noted = outcome
        .notes
        .iter()
        .any(|note| note.contains("current rows in system-versioned tables"));
    if past != noted {
        return Err(format!("a past: {past}, noted: {noted}"));
    }
    if outcome.rows == rows {
        return Ok(());
    }
    Err(format!("{} rows dumped, {rows} there", outcome.rows))
}

/// Compares a dump in SQL with the server that it was just made of, as `--verify digest` does.
fn compared_by_digest(server: &Ephemeral, sql: &Path, state: &Path) -> Result<(), String> {
    let with = Endpoint::Server(Box::new(servers::target(server)));
    let mut options = VerifyOptions::new(Endpoint::Dump(sql.to_owned()), with);
    options.compared = Compared::Rows;
    let mut outcome =
        verify(&options, &run(state, "verify")).map_err(|failure| chain(&failure.error))?;
    // Listed in docs/verify.md.
    let past = |reason: &String| reason.ends_with("its rows may be of the past");
    outcome.rows_not_compared.retain(|reason| !past(reason));
    if outcome.rows_not_compared.is_empty() && !outcome.differs() {
        return Ok(());
    }
    Err(format!(
        "not the same by digest: {:?} {:?} {:?}",
        outcome.rows_not_compared, outcome.schema_differences, outcome.table_differences
    ))
}

fn run(state: &Path, of: &str) -> Run {
    Run {
        dir: RunDir::create(state, of).unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

fn take(options: &DumpOptions, state: &Path) -> Result<DumpOutcome, String> {
    dump(options, &run(state, "dump")).map_err(|failure| chain(&failure.error))
}
