//! The exit code for every dump of the corpus that `tests/against-the-client` compares: 0 where the
//! stock client takes the dump.

use std::fs;
use std::path::Path;

use refloat_testkit::servers;

use crate::support::{Desk, finish, kinds};

/// Dumps that the stock client takes and a load does not (docs/against-the-client.md).
const REFUSED: &[&str] = &[
    // It changes a value to make it fit.
    "utf16-connection-generated",
];

#[test]
fn a_dump_exits_with_zero_if_the_stock_client_takes_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/against-the-client/files");
    let files = fs::read_dir(folder).expect("the corpus is there");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() > 12, "the corpus is not there");
    let mut wrong = Vec::new();
    for &kind in kinds() {
        let server = servers::start(&servers::quick(kind));
        for file in &files {
            let text = fs::read(file).expect("it can be read");
            let words = String::from_utf8_lossy(&text).to_ascii_uppercase();
            let first = words.lines().next().unwrap_or_default();
            if first.starts_with("-- NOT FOR") && first.contains(&kind.to_string().to_uppercase()) {
                continue;
            }
            let creates = ["CREATE DATABASE", "CREATE SCHEMA"];
            let creates = creates.iter().any(|one| words.contains(one));
            let own = words.contains("USE ") && creates;
            let database =
                "CREATE DATABASE it DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci";
            let empty = || {
                servers::empty(&server);
                servers::connect(&server)
                    .exec(database)
                    .expect("it is created");
            };
            empty();
            let stock = servers::client(&server, &["--default-character-set=utf8mb4", "it"], &text);
            empty();
            let desk = Desk::new();
            let mut command = desk.refloat(["load", "--accept-missing-trailer", "--to"]);
            command.arg(server.url()).arg(file);
            if !own {
                command.args(["-D", "it"]);
            }
            let run = finish(command);
            let name = file.file_stem().expect("a name").to_string_lossy();
            let stock = stock.is_ok() && !REFUSED.contains(&name.as_ref());
            let right = (run.code == Some(0)) == stock && run.code.is_some();
            if !right {
                wrong.push(format!(
                    "{kind}: {name}: stock client: {stock}, {:?}: {}",
                    run.code, run.stderr
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
