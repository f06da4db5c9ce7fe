//! Two servers of a kind, dumps and comparisons.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use refloat_dump::{DumpOptions, dump};
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::{chain, servers};
use refloat_verify::{Endpoint, VerifyError, VerifyOptions, VerifyOutcome, verify};

/// Two servers that one test at a time has to itself.
pub struct Two {
    pub first: &'static Ephemeral,
    pub second: &'static Ephemeral,
    _alone: MutexGuard<'static, ()>,
}

/// Two empty servers of a kind.
pub fn two(kind: ServerKind) -> Two {
    static SECOND: [OnceLock<Ephemeral>; ServerKind::ALL.len()] =
        [const { OnceLock::new() }; ServerKind::ALL.len()];
    static ALONE: [Mutex<()>; ServerKind::ALL.len()] =
        [const { Mutex::new(()) }; ServerKind::ALL.len()];
    let index = ServerKind::ALL.iter().position(|one| *one == kind).unwrap();
    // A failed test poisons the lock, but says nothing about the servers.
    let alone = ALONE[index].lock().unwrap_or_else(PoisonError::into_inner);
    let two = Two {
        first: servers::server(kind),
        second: SECOND[index].get_or_init(|| servers::start(&servers::quick(kind))),
        _alone: alone,
    };
    servers::empty(two.first);
    servers::empty(two.second);
    two
}

/// Runs a script through the stock client in a new database `d`.
pub fn fill(server: &Ephemeral, script: &str) {
    servers::connect(server)
        .exec("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        .unwrap();
    servers::client(
        server,
        &["d"],
        format!("SET NAMES utf8mb4;\n{script}").as_bytes(),
    )
    .unwrap();
}

/// Dumps a server into a directory.
pub fn take(server: &Ephemeral, out: &Path, adjust: impl Fn(&mut DumpOptions)) {
    let mut options = DumpOptions::new(servers::target(server), out);
    adjust(&mut options);
    let state = tempfile::tempdir().unwrap();
    if let Err(failure) = dump(&options, &run(state.path(), "dump")) {
        panic!("{}", chain(&failure.error));
    }
}

pub fn run(state: &Path, command: &str) -> Run {
    Run {
        dir: RunDir::create(state, command).unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

/// A server as one side of a comparison.
pub fn at(server: &Ephemeral) -> Endpoint {
    Endpoint::Server(Box::new(servers::target(server)))
}

/// A dump directory as one side of a comparison.
pub fn folder(path: &Path) -> Endpoint {
    Endpoint::Dump(path.to_owned())
}

pub fn compare_with(
    a: Endpoint,
    b: Endpoint,
    adjust: impl Fn(&mut VerifyOptions),
) -> Result<VerifyOutcome, VerifyError> {
    let mut options = VerifyOptions::new(a, b);
    adjust(&mut options);
    let state = tempfile::tempdir().unwrap();
    verify(&options, &run(state.path(), "verify")).map_err(|failure| failure.error)
}

/// Compares; an error is returned as text, with its causes.
pub fn compare(a: Endpoint, b: Endpoint) -> Result<VerifyOutcome, String> {
    compare_with(a, b, |_| {}).map_err(|error| chain(&error))
}

/// The findings, one per line.
pub fn found(outcome: &VerifyOutcome) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for one in &outcome.schema_differences.first {
        lines.push(format!("{}: {} / {}", one.about, one.a, one.b));
    }
    for table in &outcome.table_differences.first {
        for row in &table.rows {
            let mut line = format!("rows of {}: {:?}", table.table, row.kind);
            for value in row.key.iter().chain(&row.values) {
                let _ = write!(line, " {}={}", value.column, value.value);
            }
            for one in &row.columns {
                let _ = write!(line, " [{}: {} / {}]", one.column, one.a, one.b);
            }
            if row.times > 1 {
                let _ = write!(line, " x{}", row.times);
            }
            lines.push(line);
        }
        if table.rows.is_empty() || table.more {
            lines.push(format!("rows of {}: more", table.table));
        }
    }
    lines
}
