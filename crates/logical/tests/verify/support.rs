//! Two servers of a kind, dumps and comparisons.

use std::fmt::Write as _;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use refloat_logical::dump::{DumpOptions, dump};
use refloat_logical::verify::{
    Endpoint, VerifyError, VerifyOptions, VerifyOutcome, VerifyRun, verify,
};
use refloat_run::{Cancel, Events, Progress, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::{oracle, servers};

/// Two servers that one test at a time has for itself.
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
    // A test that failed says nothing about the servers.
    let alone = ALONE[index].lock().unwrap_or_else(PoisonError::into_inner);
    let two = Two {
        first: servers::server(kind),
        second: SECOND[index].get_or_init(|| servers::start(&servers::quick(kind))),
        _alone: alone,
    };
    empty(two.first);
    empty(two.second);
    two
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

/// Feeds a script to the stock client.
pub fn client(server: &Ephemeral, database: &str, script: &[u8]) -> Result<(), String> {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(script).unwrap();
    input.rewind().unwrap();
    let output = server
        .client_command()
        .unwrap()
        .arg(database)
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Dumps a server into a folder.
pub fn take(server: &Ephemeral, out: &Path, adjust: impl Fn(&mut DumpOptions)) {
    let mut options = DumpOptions::new(servers::target(server), out);
    adjust(&mut options);
    let state = tempfile::tempdir().unwrap();
    if let Err(failure) = dump(&options, &run(state.path(), "dump")) {
        panic!("{}", chain(&failure.error));
    }
}

fn run(state: &Path, command: &str) -> VerifyRun {
    VerifyRun {
        dir: RunDir::create(state, command).unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

/// A server as one of the two.
pub fn at(server: &Ephemeral) -> Endpoint {
    Endpoint::Server(Box::new(servers::target(server)))
}

/// A folder as one of the two.
pub fn folder(path: &Path) -> Endpoint {
    Endpoint::Dump(path.to_owned())
}

/// Compares.
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

/// Compares; an error is told with its causes.
pub fn compare(a: Endpoint, b: Endpoint) -> Result<VerifyOutcome, String> {
    compare_with(a, b, |_| {}).map_err(|error| chain(&error))
}

pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let _ = write!(text, ": {source}");
        next = source.source();
    }
    text
}

/// What was found, one thing per line.
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
