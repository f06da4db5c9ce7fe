//! Dumps of other tools: data that they leave open never compare as equal.

use std::fs;
use std::path::Path;

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;
use refloat_verify::{Compared, VerifyError, VerifyOptions, VerifyOutcome};

use crate::support::{Two, at, compare_with, fill, folder, two};

use Verdict::{Different, Same, Untold};

/// The session settings of mysqldump.
const HEAD: &str = "SET NAMES utf8mb4; SET time_zone='+00:00';\n";

/// Compares this dump with a server that holds what `script` has made.
fn compared(
    two: &Two,
    script: &str,
    dump: &str,
    adjust: impl Fn(&mut VerifyOptions),
) -> Result<VerifyOutcome, VerifyError> {
    servers::empty(two.first);
    fill(two.first, script);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("dump.sql");
    fs::write(&path, dump).unwrap();
    compare_with(folder(&path), at(two.first), |options| {
        options.database = Some("d".to_owned());
        options.compared = Compared::Rows;
        adjust(options);
    })
}

/// The outcome of a comparison.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Different,
    /// Not compared, and the outcome says why.
    Untold,
}

fn verdict(outcome: &VerifyOutcome) -> Verdict {
    assert!(!outcome.same || outcome.rows_not_compared.is_empty());
    if outcome.same {
        Verdict::Same
    } else if outcome.differs() {
        Verdict::Different
    } else {
        Verdict::Untold
    }
}

/// The server's side of most cases.
const ONE_ROW: &str = "CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0);";

/// What the server holds, a dump, and what a comparison of the two must say.
const CASES: &[(&str, &str, Verdict)] = &[
    (
        ONE_ROW,
        "CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0);",
        Same,
    ),
    (
        ONE_ROW,
        "CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 1);",
        Different,
    ),
    (ONE_ROW, "INSERT INTO t VALUES (1, 0);", Same),
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); INSERT INTO gone VALUES (1);",
        Different,
    ),
    // Rows that cannot be split into single rows, and statements that change rows.
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); INSERT INTO t SET id = 2;",
        Untold,
    ),
    (ONE_ROW, "INSERT INTO t SET x = 0, id = 1;", Same),
    (ONE_ROW, "INSERT INTO t SET x = 1, id = 1;", Different),
    (ONE_ROW, "INSERT INTO t SET x = 0 + 0, id = 1;", Untold),
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); INSERT INTO t SELECT 2, 2;",
        Untold,
    ),
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); UPDATE t SET x = 1;",
        Untold,
    ),
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); DELETE FROM t;",
        Untold,
    ),
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); RENAME TABLE t TO u;",
        Different,
    ),
    (
        ONE_ROW,
        "CREATE TABLE u (id INT PRIMARY KEY, x INT); INSERT INTO u VALUES (1, 0); RENAME TABLE u TO t;",
        Untold,
    ),
    (
        ONE_ROW,
        "CREATE TABLE u (id INT PRIMARY KEY, x INT); INSERT INTO u VALUES (1, 0); ALTER TABLE u RENAME t;",
        Untold,
    ),
    // What refers to a renamed table, and views.
    (
        "CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0); \
         CREATE TABLE c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id)); \
         CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @x = 1; CREATE VIEW w AS SELECT 1 AS a; \
         CREATE TRIGGER h BEFORE INSERT ON c FOR EACH ROW SET @x = 1; CREATE VIEW z AS SELECT 1 AS a;",
        "CREATE TABLE u (id INT PRIMARY KEY, x INT); INSERT INTO u VALUES (1, 0); \
         CREATE TABLE c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES u (id)); \
         CREATE TRIGGER g BEFORE INSERT ON u FOR EACH ROW SET @x = 1; CREATE VIEW v AS SELECT 1 AS a; \
         CREATE VIEW z AS SELECT 1 AS a; ALTER TABLE u RENAME TO t; RENAME TABLE v TO w; \
         CREATE TRIGGER h BEFORE INSERT ON c FOR EACH ROW SET @x = 1;",
        Untold,
    ),
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); /*!99999 CREATE TABLE u (id INT) */; /*M!999999 CREATE TABLE w (id INT) */;",
        Same,
    ),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, b VARBINARY(9)); INSERT INTO t VALUES (1, 'é');",
        "SET CHARACTER SET latin1; INSERT INTO t VALUES (1, 'é');",
        Untold,
    ),
    (ONE_ROW, "INSERT INTO t VALUES (1, 0); CALL p();", Untold),
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); ALTER TABLE t DROP COLUMN x;",
        Untold,
    ),
    (
        ONE_ROW,
        "INSERT INTO t VALUES (1, 0); ALTER TABLE t ADD KEY x (x);",
        Same,
    ),
    // Rows that are gone in the end.
    (
        ONE_ROW,
        "INSERT INTO t VALUES (9, 9); TRUNCATE t; INSERT INTO t VALUES (1, 0);",
        Same,
    ),
    (
        ONE_ROW,
        "CREATE TABLE t (a INT); INSERT INTO t VALUES (9); DROP TABLE t; \
               CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0);",
        Same,
    ),
    (
        ONE_ROW,
        "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (2, 2); \
               CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0);",
        Different,
    ),
    (
        ONE_ROW,
        "CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0); DROP TEMPORARY TABLE t;",
        Untold,
    ),
    // Columns that only one side has, or that come in another order.
    (
        ONE_ROW,
        "INSERT INTO t (id, x, y) VALUES (1, 0, 5);",
        Untold,
    ),
    (ONE_ROW, "INSERT INTO t (id) VALUES (1);", Untold),
    (
        ONE_ROW,
        "CREATE TABLE t (x INT, id INT PRIMARY KEY); INSERT INTO t VALUES (0, 1);",
        Same,
    ),
    (
        ONE_ROW,
        "CREATE TABLE t (x INT, id INT PRIMARY KEY); INSERT INTO t VALUES (1, 0);",
        Different,
    ),
    // Text that the dump's character set cannot represent.
    (
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9)); INSERT INTO t VALUES (1, '日本');",
        "SET NAMES latin1; INSERT INTO t VALUES (1, '??');",
        Different,
    ),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9) CHARACTER SET latin1); INSERT INTO t VALUES (1, 'é');",
        "INSERT INTO t VALUES (1, 'é');",
        Same,
    ),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9)); INSERT INTO t VALUES (1, 'é'), (2, 'Ã©');",
        "INSERT INTO t VALUES (1, 'é'); SET NAMES latin1; INSERT INTO t VALUES (2, 'é');",
        Untold,
    ),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9)); INSERT INTO t VALUES (1, 'é');",
        "SET NAMES @whatever; INSERT INTO t VALUES (1, 'é');",
        Untold,
    ),
    // Times in two time zones, and in an unknown one.
    (
        "SET time_zone='+00:00'; CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL); \
          INSERT INTO t VALUES (1, '2020-01-01 00:00:00'), (2, '2020-01-01 02:00:00');",
        "INSERT INTO t VALUES (1, '2020-01-01 00:00:00'); SET time_zone='+02:00'; INSERT INTO t VALUES (2, '2020-01-01 02:00:00');",
        Untold,
    ),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL); INSERT INTO t VALUES (1, NULL);",
        "SET time_zone='SYSTEM'; INSERT INTO t VALUES (1, NULL);",
        Untold,
    ),
];

#[test]
fn what_a_dump_does_beside_plain_rows_is_never_called_the_same() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let two = two(kind);
        for (script, dump, wanted) in CASES {
            let outcome = compared(&two, script, &format!("{HEAD}{dump}"), |_| {});
            let outcome = outcome.unwrap_or_else(|error| panic!("{kind}: {dump}: {error}"));
            assert_eq!(verdict(&outcome), *wanted, "{kind}: {dump}: {outcome:#?}");
        }
    }
}

/// The dump is read a second time for its rows, by the same rules.
#[test]
fn rows_are_reported_beside_statements_for_other_servers() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let two = two(kind);
        let dump = format!(
            "{HEAD}/*!999999 DROP TABLE IF EXISTS t */; /*!999999 SET NAMES latin1 */;
            CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 9);"
        );
        let outcome = compared(&two, ONE_ROW, &dump, |_| {}).unwrap();
        let rows = &outcome.table_differences.first[0].rows;
        assert_eq!(rows.len(), 1, "{kind}: {rows:#?}");
        // Changed, rather than on one side only.
        assert_eq!(rows[0].columns.len(), 1, "{kind}: {rows:#?}");
    }
}

#[test]
fn what_is_no_dump_is_refused() {
    let two = two(ServerKind::MariaDb1011);
    let one = "CREATE TABLE t (id INT)";
    for (dump, words) in [
        ("hello world;", "nothing was found in"),
        ("SET NAMES utf8mb4;", "nothing was found in"),
        ("CREATE TABLE mysql.user (a INT);", "nothing was found in"),
        ("INSERT INTO t VALUES ('a", "inside of a"),
    ] {
        let error = compared(&two, one, dump, |_| {}).unwrap_err().to_string();
        assert!(error.contains(words), "{dump}: {error}");
    }
    let cut = "-- MySQL dump 10.13\nINSERT INTO t VALUES (1);\n";
    let error = compared(&two, one, cut, |_| {}).unwrap_err().to_string();
    assert!(error.contains("is not whole"), "{error}");
    let open = compared(
        &two,
        "CREATE TABLE t (id INT); INSERT INTO t VALUES (1)",
        cut,
        |options| {
            options.accept_missing_trailer = true;
        },
    );
    assert!(open.unwrap().same);
}

#[test]
fn two_dumps_of_other_tools_are_compared() {
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let t = "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9)); INSERT INTO t VALUES (1, 'a'), (2, 'b');";
    let first = file("first.sql", t);
    let compare = |a: &Path, b: &Path| compare_with(folder(a), folder(b), |_| {}).unwrap();
    let same = file(
        "same.sql",
        &t.replace("(1, 'a'), (2, 'b')", "(2, 'b'), (01, 'a')"),
    );
    let outcome = compare(&first, &same);
    assert!(outcome.same && outcome.tables == 1, "{outcome:#?}");
    let other = file("other.sql", &t.replace("'b'", "'c'"));
    assert!(compare(&first, &other).differs());
    let more = file("more.sql", &format!("{t} CREATE TABLE u (id INT);"));
    assert!(compare(&first, &more).differs() && compare(&more, &first).differs());
    let altered = file("altered.sql", &t.replace("VARCHAR(9)", "VARCHAR(8)"));
    assert!(compare(&first, &altered).differs());
}
