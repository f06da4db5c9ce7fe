//! The exit code for every dump of the corpus that `tests/against-the-client` compares, by every
//! write path: 0 where the stock client takes the dump, another documented one where it fails.

use std::fs;
use std::path::{Path, PathBuf};

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::servers;

use crate::support::{Desk, Run, finish, kinds, slow};

/// Dumps that the stock client takes and a load does not (docs/against-the-client.md), and the
/// exit code.
const OTHERWISE: &[(&str, i32)] = &[
    // It changes a value to make it fit.
    ("utf16-connection-generated", 1),
];

/// The write paths of a server that can be asked for.
fn paths(kind: ServerKind) -> &'static [&'static str] {
    if kind.is_mariadb() {
        &["load-data", "insert", "bulk"]
    } else {
        &["load-data", "insert"]
    }
}

/// The dumps that are for this kind of server.
fn corpus(kind: ServerKind) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/against-the-client/files");
    let files = fs::read_dir(folder).expect("the corpus is there");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() > 12, "the corpus is not there");
    files.retain(|file| {
        let text = fs::read(file).expect("it can be read");
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first = String::from_utf8_lossy(first);
        !(first.starts_with("-- not for") && first.contains(&kind.to_string()))
    });
    files
}

/// An empty database `it`, and nothing else.
fn empty(server: &Instance) {
    servers::empty(server);
    let database = "CREATE DATABASE it DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci";
    let created = servers::connect(server).exec(database);
    created.expect("it is created");
}

/// The program's load of a dump by a write path.
fn load(file: &Path, text: &[u8], server: &Instance, path: &str) -> Run {
    let words = String::from_utf8_lossy(text).to_ascii_uppercase();
    let creates = ["CREATE DATABASE", "CREATE SCHEMA"];
    let names_database = words.contains("USE ") && creates.iter().any(|one| words.contains(one));
    let desk = Desk::new();
    let mut command = desk.refloat(["load", "--accept-missing-trailer", "--write-path", path]);
    command.arg("--to").arg(server.url()).arg(file);
    if !names_database {
        command.args(["-D", "it"]);
    }
    finish(command)
}

#[test]
fn a_dump_exits_with_zero_if_the_stock_client_takes_it() {
    let mut wrong = Vec::new();
    for &kind in kinds() {
        let server = servers::start(&servers::quick(kind));
        for (number, file) in corpus(kind).iter().enumerate() {
            let text = fs::read(file).expect("it can be read");
            let name = file.file_stem().expect("a name").to_string_lossy();
            empty(&server);
            let stock = servers::client(&server, &["--default-character-set=utf8mb4", "it"], &text);
            let otherwise = OTHERWISE.iter().find(|(dump, _)| *dump == name);
            let expected = match (&stock, otherwise) {
                (Ok(()), Some((_, code))) => *code,
                (Ok(()), None) => 0,
                // A mode that the server does not know is found before anything is touched.
                (Err(error), _) if error.contains("ERROR 1231") => 3,
                (Err(_), _) => 1,
            };
            // The usual path for what ends otherwise, one path in turn for each other dump, and all
            // of them among the slow tests.
            let all: Vec<_> = ["auto"].iter().chain(paths(kind)).collect();
            let asked = if slow() {
                &all[..]
            } else if expected == 0 {
                &all[number % all.len()..][..1]
            } else {
                &all[..1]
            };
            for path in asked {
                empty(&server);
                let run = load(file, &text, &server, path);
                if run.code != Some(expected) {
                    wrong.push(format!(
                        "{kind}: {name} by {path}: {:?}, not {expected}; stock client: {stock:?}\n{}",
                        run.code, run.stderr
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
