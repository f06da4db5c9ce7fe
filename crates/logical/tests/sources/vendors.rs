//! What of one vendor's dump the other vendor's server takes: the table of `docs/matrix.md`, line by line.

use std::fs;

use refloat_sandbox::ServerKind;

use crate::bench::{Adjust, Bench};

/// What becomes of a definition.
enum Becomes {
    /// It is refused with these words.
    Refused(&'static str),
    /// `SHOW CREATE TABLE` then has these words.
    Shown(&'static str),
}
use Becomes::{Refused, Shown};

/// Server, definition, what becomes of it.
const DEFINITIONS: &[(ServerKind, &str, Becomes)] = &[
    (
        ServerKind::MySql97,
        "(u UUID)",
        Refused("error in your SQL syntax"),
    ),
    (
        ServerKind::MySql97,
        "(a INT) WITH SYSTEM VERSIONING",
        Refused("error in your SQL syntax"),
    ),
    (
        ServerKind::MySql97,
        "(a INT) ENGINE=Aria",
        Refused("Unknown storage engine 'Aria'"),
    ),
    (
        ServerKind::MySql97,
        "(a CHAR(9)) COLLATE=utf8mb4_uca1400_ai_ci",
        Refused("Unknown collation: 'utf8mb4_uca1400_ai_ci'"),
    ),
    (
        ServerKind::MySql97,
        "(j LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin CHECK (json_valid(j)))",
        Shown("CHECK (json_valid(`j`))"),
    ),
    (
        ServerKind::MariaDb1011,
        "(a CHAR(9)) COLLATE=utf8mb4_0900_ai_ci",
        Refused("Unknown collation: 'utf8mb4_0900_ai_ci'"),
    ),
    (
        ServerKind::MariaDb118,
        "(a CHAR(9)) COLLATE=utf8mb4_0900_ai_ci",
        Shown("COLLATE=utf8mb4_0900_ai_ci"),
    ),
    (
        ServerKind::MariaDb1011,
        "(v VECTOR(3))",
        Refused("Unknown data type: 'VECTOR'"),
    ),
    (ServerKind::MariaDb118, "(v VECTOR(3))", Shown("vector(3)")),
    (
        ServerKind::MariaDb1011,
        "(j JSON)",
        Shown("CHECK (json_valid(`j`))"),
    ),
    (
        ServerKind::MariaDb118,
        "(a INT, KEY k ((a + 1)))",
        Refused("error in your SQL syntax"),
    ),
];

#[test]
fn definitions_of_the_other_vendor() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        for (_, definition, becomes) in DEFINITIONS.iter().filter(|one| one.0 == kind) {
            match (load(&bench, definition, |_| {}), becomes) {
                (Err(error), Refused(words)) => {
                    assert!(error.contains(words), "{kind}: {definition}: {error}");
                }
                (Ok(shown), Shown(words)) => {
                    assert!(shown.contains(words), "{kind}: {definition}: {shown}");
                }
                (Err(error), Shown(_)) => panic!("{kind}: {definition}: {error}"),
                (Ok(shown), Refused(_)) => panic!("{kind}: {definition} became {shown}"),
            }
        }
    }
}

#[test]
fn a_mapped_collation_is_written() {
    let bench = Bench::new(ServerKind::MySql97);
    let shown = load(
        &bench,
        "(a CHAR(9)) COLLATE=utf8mb4_uca1400_ai_ci",
        |options| {
            options.map_collation.insert(
                "utf8mb4_uca1400_ai_ci".to_owned(),
                "utf8mb4_0900_ai_ci".to_owned(),
            );
        },
    );
    let shown = shown.unwrap();
    assert!(shown.contains("COLLATE=utf8mb4_0900_ai_ci"), "{shown}");
}

/// Loads a dump with one table; what the server then shows of it.
fn load(bench: &Bench, definition: &str, adjust: Adjust) -> Result<String, String> {
    bench.empty();
    bench.fill("");
    let path = bench.path("vendor.sql");
    let dump = format!("SET NAMES utf8mb4;\nCREATE TABLE it.t {definition};\n-- Dump completed\n");
    fs::write(&path, dump).unwrap();
    let outcome = bench.load(&path, adjust)?;
    assert!(outcome.proven, "{definition}: {:?}", outcome.warnings);
    let found = bench.connect().query("SHOW CREATE TABLE it.t").unwrap();
    Ok(found.str(0, 1).unwrap_or_default().to_owned())
}
