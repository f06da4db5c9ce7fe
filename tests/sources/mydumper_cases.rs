//! Dumps the source of each case with mydumper 0.10 and loads it. The result is the same as the
//! source, or the same as mydumper's own loader makes of it where mydumper loses something.

// Hazard of sources: Every case above with a `setup.sql`, dumped by mydumper: the same as the
//   source, or refused, or as little as after its own loader, which is run too

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use refloat_sandbox::ServerKind;
use refloat_testkit::oracle::{Difference, Scope, Snapshot, differences};
use refloat_testkit::servers;
use refloat_tests::case::Case;
use refloat_tests::spelled::spelled;

use crate::bench::Bench;

/// Excludes the server's own databases: `--database` could name only one.
const REGEX: &str = r"^(?!(mysql|sys|performance_schema|information_schema)\.)";
/// The longest that the tool may take for one case, in seconds.
const PATIENCE: &str = "60";
/// How many differences to show per load.
const SHOWN: usize = 6;

const ALL: &[ServerKind] = &ServerKind::ALL;
const MARIADB: &[ServerKind] = &[ServerKind::MariaDb1011, ServerKind::MariaDb118];
const MYSQL: &[ServerKind] = &[ServerKind::MySql97];

/// Servers, case, words of the error, reason.
type Refused = (
    &'static [ServerKind],
    &'static str,
    &'static str,
    &'static str,
);

/// Cases that mydumper cannot dump, or whose dump a load refuses, with the words of the error and
/// the reason. mydumper's own loader must not restore them either.
const REFUSED: &[Refused] = &[
    (
        ALL,
        "charsets",
        "Data truncated for column 'e'",
        "members of ENUM that are not ASCII are compared as other bytes",
    ),
    (
        ALL,
        "database-charset",
        "Data truncated for column 'e'",
        "the same",
    ),
    (
        ALL,
        "database-charsets",
        "Data truncated for column 'e'",
        "the same",
    ),
    (
        ALL,
        "invalid-dates",
        "Invalid default value",
        "definitions come without their SQL mode",
    ),
    (
        ALL,
        "names",
        "Could not create output file",
        "names are not quoted",
    ),
    (
        ALL,
        "names-comments",
        "Could not create output file",
        "the same",
    ),
    (
        MARIADB,
        "programs",
        "error in your SQL syntax",
        "routines come without their SQL mode",
    ),
    // The unknown collations are reported first: `SET collation_connection = latin1`.
    (
        MYSQL,
        "programs",
        "refused before anything was touched",
        "character sets are written for collations, and routines come without their SQL mode",
    ),
    (
        MARIADB,
        "sequences",
        "Table 'it.s' doesn't exist",
        "sequences are left out",
    ),
    (
        MARIADB,
        "types",
        "Incorrect inet4 value",
        "the text of INET4, INET6 and UUID is written as binary",
    ),
];

/// Cases of which mydumper loses something, with the reason. The same things must differ after its
/// own loader.
const LOSES: &[(&[ServerKind], &str, &str)] = &[
    (
        ALL,
        "invalid-views",
        "views that name what is not there are left out",
    ),
    (
        ALL,
        "set-empty-member",
        "the text of a SET does not show the member ''",
    ),
    (ALL, "tables", "values of invisible columns are left out"),
    (
        MYSQL,
        "no-create",
        "columns whose default is an expression are taken for generated ones (L-41)",
    ),
    (MYSQL, "types", "the same, and JSON is text"),
];

#[test]
fn cases_on_mariadb_10_11() {
    all_cases(ServerKind::MariaDb1011);
}

#[test]
fn cases_on_mariadb_11_8() {
    all_cases(ServerKind::MariaDb118);
}

#[test]
fn cases_on_mysql_9_7() {
    all_cases(ServerKind::MySql97);
}

fn all_cases(kind: ServerKind) {
    let bench = Bench::new(kind);
    let (mut run, mut failures) = (0, Vec::new());
    for case in &Case::all() {
        if case.skipped(kind).is_some() || case.setup(kind).is_empty() {
            continue;
        }
        run += 1;
        if let Err(failure) = one_case(&bench, case) {
            failures.push(format!("{}: {failure}", case.name));
        }
    }
    eprintln!("{kind}: {run} sources dumped by mydumper");
    for failure in &failures {
        eprintln!("{kind}: {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} failures on {kind}, listed above",
        failures.len()
    );
}

fn one_case(bench: &Bench, case: &Case) -> Result<(), String> {
    servers::empty(bench.server);
    bench.fill(case.setup(bench.kind).join(&b'\n'));
    let wanted = snapshot(bench);
    let folder = bench.path(&case.name);
    let here = |kinds: &[ServerKind], name: &str| name == case.name && kinds.contains(&bench.kind);
    let refused = REFUSED.iter().find(|(kinds, name, ..)| here(kinds, name));
    let loses = LOSES.iter().find(|(kinds, name, _)| here(kinds, name));
    let loaded = dump(bench, &folder).and_then(|()| load(bench, &folder));
    let mut found = match (loaded, refused) {
        (Ok(()), None) => different(bench, &wanted),
        (Ok(()), Some((.., words, _))) => return Err(format!("it was to be refused: {words}")),
        (Err(error), None) => return Err(error),
        (Err(error), Some((.., words, _))) if error.contains(words) => Vec::new(),
        (Err(error), Some((.., words, _))) => {
            return Err(format!("the error does not say {words:?}: {error}"));
        }
    };
    let reason = refused.map(|(.., reason)| reason);
    if let Some(reason) = reason.or(loses.map(|(.., reason)| reason)) {
        servers::empty(bench.server);
        // Whether it fails does not matter, only what it leaves on the server.
        let outcome = tool("myloader", bench, &folder, &["--directory"]);
        let beside: BTreeSet<String> = different(bench, &wanted)
            .into_iter()
            .map(|one| one.about)
            .collect();
        if beside.is_empty() || (loses.is_some() && found.is_empty()) {
            return Err(format!("nothing is lost after all: {reason}"));
        }
        found.retain(|one| !beside.contains(&one.about));
        eprintln!(
            "{}: {}: {reason}; after myloader, which {}, {} things differ",
            bench.kind,
            case.name,
            outcome.map_or("fails", |()| "succeeds"),
            beside.len()
        );
    }
    fs::remove_dir_all(&folder).unwrap();
    if found.is_empty() {
        return Ok(());
    }
    Err(listed(&found))
}

fn dump(bench: &Bench, folder: &Path) -> Result<(), String> {
    let what = ["--triggers", "--events", "--routines"];
    let args = [&what[..], &["--regex", REGEX, "--outputdir"]].concat();
    tool("mydumper", bench, folder, &args).map_err(|error| format!("mydumper: {error}"))
}

fn load(bench: &Bench, folder: &Path) -> Result<(), String> {
    servers::empty(bench.server);
    let outcome = bench.load(folder, |_| {})?;
    if outcome.proven {
        return Ok(());
    }
    Err(format!(
        "not proven: {:?} {:?}",
        outcome.proof, outcome.warnings
    ))
}

fn different(bench: &Bench, wanted: &Snapshot) -> Vec<Difference> {
    differences(&spelled(wanted), &spelled(&snapshot(bench)))
}

fn snapshot(bench: &Bench) -> Snapshot {
    Snapshot::take(&mut bench.connect(), Scope::default()).unwrap()
}

fn listed(found: &[Difference]) -> String {
    let mut text = format!("{} differences (left: as it was)", found.len());
    for difference in found.iter().take(SHOWN) {
        let _ = write!(text, "\n  {difference}");
    }
    text
}

/// Runs mydumper or its loader on a directory.
fn tool(program: &str, bench: &Bench, folder: &Path, args: &[&str]) -> Result<(), String> {
    let run = || {
        Command::new("timeout")
            .args([PATIENCE, program, "--user", "root", "--socket"])
            .arg(bench.server.socket())
            .args(args)
            .arg(folder)
            .output()
            .unwrap()
    };
    let mut output = run();
    // mydumper can deadlock with itself, so a dump is retried.
    for _ in 0..2 {
        if output.status.code() != Some(124) || program != "mydumper" {
            break;
        }
        let _ = std::fs::remove_dir_all(folder);
        output = run();
    }
    if output.status.code() == Some(124) {
        return Err(format!("{program} is not done after {PATIENCE} s"));
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    // mydumper carries on after most errors, and only sometimes reflects them in its exit status.
    if output.status.success() && !stderr.contains("CRITICAL") {
        return Ok(());
    }
    Err(stderr.trim().to_owned())
}
