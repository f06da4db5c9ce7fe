//! What a server accepts of the other vendor's dumps: the table in `docs/matrix.md`, line by line.
//! `tests/across` does whole cases with their rows.

use std::fs;

use refloat_copy::{CopyOptions, copy};
use refloat_dump::{DumpOptions, dump};
use refloat_load::{OnError, StatementClass};
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::ServerKind;
use refloat_testkit::{chain, servers};

use crate::bench::{Adjust, Bench};

/// What happens to a definition.
enum Becomes {
    /// It is refused, in these words.
    Refused(&'static str),
    /// `SHOW CREATE TABLE` contains these words afterwards, and there is no warning.
    Shown(&'static str),
    /// It is created, and a warning names the table and contains these words.
    Warned(&'static str),
}
use Becomes::{Refused, Shown, Warned};

const MARIADB: &[ServerKind] = &[ServerKind::MariaDb1011, ServerKind::MariaDb118];
const OLD_MARIADB: &[ServerKind] = &[ServerKind::MariaDb1011];
const NEW_MARIADB: &[ServerKind] = &[ServerKind::MariaDb118];
const MYSQL: &[ServerKind] = &[ServerKind::MySql97];

/// Servers, definition, outcome.
const DEFINITIONS: &[(&[ServerKind], &str, Becomes)] = &[
    // MariaDB's, into MySQL.
    (MYSQL, "(u UUID)", Refused("error in your SQL syntax")),
    (MYSQL, "(i INET6)", Refused("error in your SQL syntax")),
    (MYSQL, "(i INET4)", Refused("error in your SQL syntax")),
    (
        MYSQL,
        "(a INT) WITH SYSTEM VERSIONING",
        Refused("error in your SQL syntax"),
    ),
    (
        MYSQL,
        "(a DATE, b DATE, PERIOD FOR p (a, b))",
        Refused("error in your SQL syntax"),
    ),
    (
        MYSQL,
        "(a INT) ENGINE=Aria",
        Refused("Unknown storage engine 'Aria'"),
    ),
    (
        MYSQL,
        "(a CHAR(9)) COLLATE=utf8mb4_uca1400_ai_ci",
        Refused("Unknown collation: 'utf8mb4_uca1400_ai_ci'"),
    ),
    (
        MYSQL,
        "(j LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin CHECK (json_valid(j)))",
        Shown("CHECK (json_valid(`j`))"),
    ),
    (
        MYSQL,
        "(a CHAR(9) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin)",
        Shown("utf8mb3_bin"),
    ),
    (
        MYSQL,
        "(a CHAR(36) DEFAULT uuid())",
        Refused("error in your SQL syntax"),
    ),
    (
        MYSQL,
        "(a TIMESTAMP DEFAULT current_timestamp())",
        Shown("CURRENT_TIMESTAMP"),
    ),
    (MYSQL, "(a INT DEFAULT (1 + 2))", Shown("1 + 2")),
    (
        MYSQL,
        "(a TEXT DEFAULT 'x')",
        Refused("can't have a default value"),
    ),
    (
        MYSQL,
        "(a INT DEFAULT nextval(it.s))",
        Refused("error in your SQL syntax"),
    ),
    (MYSQL, "(a DECIMAL(65,38))", Refused("Maximum is 30")),
    (
        MYSQL,
        "(b BLOB, UNIQUE KEY (b))",
        Refused("without a key length"),
    ),
    (
        MYSQL,
        "(a INT, KEY k (a) IGNORED)",
        Refused("error in your SQL syntax"),
    ),
    (MYSQL, "(a INT, b INT INVISIBLE)", Shown("INVISIBLE")),
    (MYSQL, "(a INT CHECK (a > 0))", Shown("CHECK ((`a` > 0))")),
    (
        MYSQL,
        "(a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)",
        Shown("STORED"),
    ),
    (
        MYSQL,
        "(a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (9) ENGINE = InnoDB)",
        Shown("PARTITION BY RANGE"),
    ),
    (
        MYSQL,
        "(a INT) `PAGE_COMPRESSED`=1",
        Refused("error in your SQL syntax"),
    ),
    (
        MYSQL,
        "(t TEXT /*M!100301 COMPRESSED*/)",
        Warned("column t: /*M!100301 COMPRESSED*/ is for another server"),
    ),
    (
        MYSQL,
        "(v VECTOR(3) NOT NULL, VECTOR KEY (v))",
        Refused("error in your SQL syntax"),
    ),
    // MySQL's, into MariaDB.
    (
        OLD_MARIADB,
        "(a CHAR(9)) COLLATE=utf8mb4_0900_ai_ci",
        Refused("Unknown collation: 'utf8mb4_0900_ai_ci'"),
    ),
    (
        NEW_MARIADB,
        "(a CHAR(9)) COLLATE=utf8mb4_0900_ai_ci",
        Shown("COLLATE=utf8mb4_0900_ai_ci"),
    ),
    (
        MARIADB,
        "(a CHAR(9) COLLATE utf8mb4_ja_0900_as_cs)",
        Refused("Unknown collation: 'utf8mb4_ja_0900_as_cs'"),
    ),
    (
        MARIADB,
        "(a CHAR(9) CHARACTER SET gb18030)",
        Refused("Unknown character set: 'gb18030'"),
    ),
    (
        OLD_MARIADB,
        "(v VECTOR(3))",
        Refused("Unknown data type: 'VECTOR'"),
    ),
    (NEW_MARIADB, "(v VECTOR(3))", Shown("vector(3)")),
    (MARIADB, "(j JSON)", Shown("CHECK (json_valid(`j`))")),
    (
        MARIADB,
        "(a INT, KEY k ((a + 1)))",
        Refused("error in your SQL syntax"),
    ),
    (MARIADB, "(a INT DEFAULT (1 + 2))", Shown("1 + 2")),
    (
        MARIADB,
        "(a INT, b INT GENERATED ALWAYS AS ((a + 1)) STORED)",
        Shown("STORED"),
    ),
    (
        MARIADB,
        "(a INT) COMPRESSION='zlib'",
        Refused("Unknown option 'COMPRESSION'"),
    ),
    (MARIADB, "(c geomcollection)", Shown("geometrycollection")),
    (
        MARIADB,
        "(a INT, b INT DEFAULT NULL /*!80023 INVISIBLE */)",
        Shown("INVISIBLE"),
    ),
    (
        MARIADB,
        "(a INT, b INT NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */, KEY (b))",
        Shown("INVISIBLE"),
    ),
    (
        MARIADB,
        "(a INT, b INT NOT NULL /*!80023 INVISIBLE */)",
        Warned("column b: /*!80023 INVISIBLE */"),
    ),
    (
        MARIADB,
        "(a INT, KEY k (a) /*!80000 INVISIBLE */)",
        Shown("IGNORED"),
    ),
    (
        MARIADB,
        "(a INT, CONSTRAINT c CHECK (a > 0) /*!80016 NOT ENFORCED */)",
        Warned(
            "constraint c: /*!80016 NOT ENFORCED */ is for another server, and this one ignores it: the constraint is enforced here",
        ),
    ),
    (
        MARIADB,
        "(g POINT NOT NULL /*!80003 SRID 4326 */)",
        Warned("column g: /*!80003 SRID 4326 */"),
    ),
    (
        MARIADB,
        "(a INT) /*!80016 ENCRYPTION='Y' */",
        Warned(
            "/*!80016 ENCRYPTION='Y' */ is for another server, and this one ignores it: it is not encrypted here",
        ),
    ),
    (
        MARIADB,
        "(a INT) /*!80016 ENCRYPTION='N' */",
        Shown("InnoDB"),
    ),
    (
        MARIADB,
        "(a INT) /*!80023 AUTOEXTEND_SIZE=4194304 */",
        Warned("/*!80023 AUTOEXTEND_SIZE=4194304 */"),
    ),
    (
        MARIADB,
        "(a INT /*!80021 ENGINE_ATTRIBUTE '{}' */)",
        Warned("column a: /*!80021 ENGINE_ATTRIBUTE '{}' */"),
    ),
    // TiDB's, into both.
    (
        &ServerKind::ALL,
        "(a BIGINT NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */, PRIMARY KEY (a) /*T![clustered_index] CLUSTERED */)",
        Warned("column a: /*T![auto_rand] AUTO_RANDOM(5) */"),
    ),
];

#[test]
fn definitions_of_the_other_vendor() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        for (_, definition, becomes) in DEFINITIONS.iter().filter(|one| one.0.contains(&kind)) {
            match (load(&bench, definition, |_| {}), becomes) {
                (Err(error), Refused(words)) => {
                    assert!(error.contains(words), "{kind}: {definition}: {error}");
                }
                (Ok((shown, warnings)), Shown(words)) => {
                    assert!(shown.contains(words), "{kind}: {definition}: {shown}");
                    assert!(warnings.is_empty(), "{kind}: {definition}: {warnings:?}");
                }
                (Ok((_, warnings)), Warned(words)) => {
                    let named =
                        |one: &String| one.starts_with("table it.t: ") && one.contains(words);
                    assert!(
                        warnings.len() == 1 && warnings.iter().all(named),
                        "{kind}: {definition}: {warnings:?}"
                    );
                }
                (Err(error), _) => panic!("{kind}: {definition}: {error}"),
                (Ok((shown, _)), Refused(_)) => panic!("{kind}: {definition} became {shown}"),
            }
        }
    }
}

#[test]
fn a_mapped_collation_is_written() {
    let bench = Bench::new(ServerKind::MySql97);
    let loaded = load(
        &bench,
        "(a CHAR(9)) COLLATE=utf8mb4_uca1400_ai_ci",
        |options| {
            options.map_collation.insert(
                "utf8mb4_uca1400_ai_ci".to_owned(),
                "utf8mb4_0900_ai_ci".to_owned(),
            );
        },
    );
    let (shown, _) = loaded.unwrap();
    assert!(shown.contains("COLLATE=utf8mb4_0900_ai_ci"), "{shown}");
}

#[test]
fn statements_about_tables_and_databases_are_looked_at_too() {
    let bench = Bench::new(ServerKind::MariaDb118);
    for (statement, words) in [
        (
            "CREATE DATABASE e /*!80016 DEFAULT ENCRYPTION='Y' */",
            "it is not encrypted here",
        ),
        (
            "ALTER TABLE t ADD COLUMN b INT NOT NULL DEFAULT 1, ADD CONSTRAINT c CHECK (b > 0) /*!80016 NOT ENFORCED */",
            "the constraint is enforced here",
        ),
        (
            "CREATE INDEX k ON t (a) /*!80000 INVISIBLE */",
            "it is visible here",
        ),
    ] {
        let warnings = run(
            &bench,
            &format!("CREATE TABLE t (a INT);\n{statement};"),
            |_| {},
        )
        .unwrap();
        assert!(
            warnings.len() == 1 && warnings[0].contains(words),
            "{statement}: {warnings:?}"
        );
    }
}

#[test]
fn a_copy_says_the_same() {
    let (mariadb, mysql) = (
        Bench::new(ServerKind::MariaDb118),
        Bench::new(ServerKind::MySql97),
    );
    mysql.fill(
        "CREATE TABLE t (a INT PRIMARY KEY, b INT INVISIBLE, g POINT NOT NULL SRID 4326, CONSTRAINT c CHECK (b > 0) NOT ENFORCED)",
    );
    let ends = [&mysql, &mariadb].map(|bench| servers::target(bench.server));
    let [from, to] = ends;
    let mut options = CopyOptions::new(from, to);
    options.load.durability = Some(Durability::Keep);
    let copied = copy(&options, &a_run(&mysql, "copy"));
    let outcome = copied.unwrap_or_else(|failure| panic!("{}", chain(&failure.error)));
    let warnings = outcome.load.warnings.first.iter();
    let warnings: Vec<String> = warnings
        .map(|one| format!("{}: {}", one.about, one.message))
        .collect();
    assert!(
        warnings.len() == 2
            && warnings[0].contains("table it.t: line")
            && warnings[0].contains("column g: /*!80003 SRID 4326 */")
            && warnings[1].contains("constraint c: /*!80016 NOT ENFORCED */"),
        "{warnings:?}"
    );
    assert!(!outcome.load.proven);
    let shown = mariadb.connect().query("SHOW CREATE TABLE it.t").unwrap();
    assert!(shown.str(0, 1).unwrap_or_default().contains("INVISIBLE"));
}

#[test]
fn a_copy_goes_on_without_a_table_that_is_refused() {
    let (mariadb, mysql) = (
        Bench::new(ServerKind::MariaDb118),
        Bench::new(ServerKind::MySql97),
    );
    mysql.fill(
        "CREATE TABLE a (a INT) COMPRESSION='zlib'; INSERT INTO a VALUES (1), (2); CREATE TABLE b (a INT); INSERT INTO b VALUES (3);",
    );
    let [from, to] = [&mysql, &mariadb].map(|bench| servers::target(bench.server));
    let mut options = CopyOptions::new(from, to);
    options.load.durability = Some(Durability::Keep);
    options.load.on_error = OnError::Continue;
    let failure = copy(&options, &a_run(&mysql, "copy")).unwrap_err();
    let message = chain(&failure.error);
    assert!(
        message.contains("2 statements or rows were refused"),
        "{message}"
    );
    let listed = failure.outcome.load.failures.first.iter();
    let listed: Vec<&str> = listed.map(|one| one.message.as_str()).collect();
    // A copy lists what each of its parts refused.
    for words in [
        "Unknown option 'COMPRESSION'",
        "no row of this table is loaded, because it was not created",
    ] {
        assert!(listed.iter().any(|one| one.contains(words)), "{listed:?}");
    }
    let rows = mariadb.connect().query("SELECT a FROM it.b").unwrap();
    assert_eq!(rows.texts(0).collect::<Vec<_>>(), ["3"]);
}

#[test]
fn a_program_is_not_created_in_the_session_of_another() {
    // MySQL does not have this mode: it would read and run the text in the previous mode.
    let bench = Bench::new(ServerKind::MySql97);
    bench.empty();
    bench.fill("");
    let path = bench.path("session.sql");
    let dump = "SET sql_mode='ANSI_QUOTES';\nCREATE PROCEDURE it.first() SELECT 1 AS \"a\";\n\
                SET sql_mode='NO_BACKSLASH_ESCAPES,NO_KEY_OPTIONS';\nCREATE PROCEDURE it.second() SELECT 'a\\';\n\
                SET sql_mode='';\nCREATE PROCEDURE it.third() SELECT 'b';\n-- Dump completed\n";
    fs::write(&path, dump).unwrap();
    let failed = bench
        .load(&path, |options| {
            options.on_error = OnError::Continue;
        })
        .unwrap_err();
    assert!(
        failed.contains("2 statements or rows were refused"),
        "{failed}"
    );
    let found = bench
        .connect()
        .query("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'it' ORDER BY 1")
        .unwrap();
    let names: Vec<&str> = found.texts(0).collect();
    assert_eq!(names, ["first", "third"]);
}

#[test]
fn accounts_of_the_other_vendor() {
    for (from, to, create, words) in [
        (
            ServerKind::MySql97,
            ServerKind::MariaDb118,
            "CREATE USER refloat_across IDENTIFIED WITH caching_sha2_password BY 'Pw-1'",
            "caching_sha2_password",
        ),
        (
            ServerKind::MariaDb118,
            ServerKind::MySql97,
            "CREATE USER refloat_across IDENTIFIED BY 'Pw-1'",
            "error in your SQL syntax",
        ),
    ] {
        // Always in this order: each test waits for its turn on a server.
        let (mariadb, mysql) = (
            Bench::new(ServerKind::MariaDb118),
            Bench::new(ServerKind::MySql97),
        );
        let (source, target) = if from == mariadb.kind {
            (&mariadb, &mysql)
        } else {
            (&mysql, &mariadb)
        };
        source.fill("CREATE TABLE t (a INT)");
        let mut conn = source.connect();
        conn.exec("DROP USER IF EXISTS refloat_across").unwrap();
        conn.exec(create).unwrap();
        let out = source.path("accounts");
        let mut options = DumpOptions::new(servers::target(source.server), &out);
        options.read.accounts = true;
        let made = dump(&options, &a_run(source, "dump")).map_err(|failure| chain(&failure.error));
        conn.exec("DROP USER refloat_across").unwrap();
        made.unwrap();
        let refused = target
            .load(&out.join("users.sql"), |options| {
                options.allow = vec![StatementClass::Accounts];
                options.accept_missing_trailer = true;
            })
            .unwrap_err();
        assert!(refused.contains(words), "{from} -> {to}: {refused}");
    }
}

fn a_run(bench: &Bench, command: &str) -> Run {
    Run {
        dir: RunDir::create(&bench.path("."), command).unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

/// Loads a dump with one table. Returns the definition that the server then shows, and the
/// warnings.
fn load(bench: &Bench, definition: &str, adjust: Adjust) -> Result<(String, Vec<String>), String> {
    let warnings = run(bench, &format!("CREATE TABLE it.t {definition};"), adjust)?;
    let found = bench.connect().query("SHOW CREATE TABLE it.t").unwrap();
    Ok((found.str(0, 1).unwrap_or_default().to_owned(), warnings))
}

/// Loads a dump and returns the warnings. It must be proven if there are none, and only then.
fn run(bench: &Bench, statements: &str, adjust: Adjust) -> Result<Vec<String>, String> {
    bench.empty();
    bench.fill("");
    let path = bench.path("vendor.sql");
    let dump = format!("SET NAMES utf8mb4;\nUSE it;\n{statements}\n-- Dump completed\n");
    fs::write(&path, dump).unwrap();
    let outcome = bench.load(&path, adjust)?;
    assert!(
        outcome.proof.differences.is_empty(),
        "{statements}: {:?}",
        outcome.proof.differences
    );
    let warnings = outcome.warnings.first.iter();
    let warnings: Vec<String> = warnings
        .map(|one| format!("{}: {}", one.about, one.message))
        .collect();
    assert_eq!(outcome.proven, warnings.is_empty(), "{statements}");
    Ok(warnings)
}
