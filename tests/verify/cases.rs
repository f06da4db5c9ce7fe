//! The source of each case, its dump, and what is restored from the dump by hand compare as equal.

use std::fs;
use std::path::Path;

use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::{chain, servers};
use refloat_tests::by_hand;
use refloat_tests::case::Case;
use refloat_tests::lost::lost;
use refloat_tests::tools::Tool;
use refloat_verify::Compared;

use crate::support::{at, compare, compare_with, folder, found, take, two};

/// The database that sources are built in.
const DATABASE: &str = "it";
/// How many differences to show per comparison.
const SHOWN: usize = 6;
/// Differences that no text form of rows and definitions can avoid, with the reason.
const KNOWN: &[(ServerKind, &str, &str)] = &[(
    ServerKind::MySql97,
    "rows of it.l27: Changed ",
    "JSON that was built from a DECIMAL becomes JSON that was built from a DOUBLE",
)];

/// What dumps of other tools lack: tool, case, words of the reported difference.
const OF_TOOLS: &[(Tool, &str, &str)] = &[
    // A FLOAT as text has six digits.
    (Tool::Stock, "types", "rows of it.l20: Changed "),
    (Tool::Mydumper, "types", "rows of it.l20: Changed "),
    // The values of an INSERT do not include period columns.
    (Tool::Stock, "versioned", "only the second has it"),
    (Tool::Mydumper, "versioned", "only the second has it"),
    (Tool::Stock, "history", "only the second has it"),
    (Tool::Mydumper, "history", "only the second has it"),
    // mydumper leaves out columns that are invisible or have an expression as their default.
    (Tool::Mydumper, "tables", "only the second has it"),
    (Tool::Mydumper, "types", "only the second has it"),
    (Tool::Mydumper, "no-create", "only the second has it"),
    (Tool::Stock, "engines", "it.bh: engine BLACKHOLE keeps"),
    (Tool::Mydumper, "engines", "it.bh: engine BLACKHOLE keeps"),
];

/// Runs the source of every case on two servers of a kind.
pub fn all_sources(kind: ServerKind) {
    let two = two(kind);
    let scratch = tempfile::tempdir().unwrap();
    let (mut run, mut failures, mut others) = (0, Vec::new(), Vec::new());
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
            options.read.threads = 3;
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
        for tool in [Tool::Stock, Tool::Mydumper] {
            // The suite that loads these dumps reports what a tool does not dump.
            let place = scratch.path().join(format!("{}-others", case.name));
            fs::create_dir_all(&place).unwrap();
            let Ok(path) = tool.dump(kind, two.first, &place) else {
                continue;
            };
            let reported = of_other_tool(tool, &path, two.first, &place);
            let known = |line: &str| {
                OF_TOOLS
                    .iter()
                    .any(|known| known.0 == tool && known.1 == case.name && line.contains(known.2))
            };
            others.extend(
                reported
                    .iter()
                    .filter(|line| !known(line))
                    .map(|line| format!("{} [{} and source]: {line}", case.name, tool.word())),
            );
        }
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
    failures.append(&mut others);
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

/// The differences between another tool's dump and its source, and the tables that could not be
/// compared.
fn of_other_tool(tool: Tool, dump: &Path, source: &Ephemeral, scratch: &Path) -> Vec<String> {
    let compared = match tool {
        // mydumper itself loses views and stored programs.
        Tool::Mydumper => Compared::Rows,
        _ => Compared::All,
    };
    let outcome = compare_with(folder(dump), at(source), |options| {
        options.compared = compared;
    });
    let outcome = match outcome {
        Err(error) => return vec![chain(&error)],
        Ok(outcome) => outcome,
    };
    let mut all = found(&outcome);
    assert_eq!(outcome.differs(), !all.is_empty());
    all.extend(outcome.rows_not_compared.iter().cloned());
    assert_eq!(outcome.same, all.is_empty());
    let place = format!("{}/", scratch.display());
    all.iter()
        .map(|line| line.replace(&place, "").replace('\n', " "))
        .collect()
}
