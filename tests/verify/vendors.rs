//! Comparisons between vendors, and between ways of storing the same text.

// Hazard of comparisons: FLOAT, JSON and text of two vendors; text in two character sets

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;
use refloat_verify::Compared;

use crate::support::{at, compare_with, fill, folder, found, take, two};

/// The same rows, as each vendor has them.
const ROWS: &str = "\
CREATE TABLE t (id INT PRIMARY KEY, f FLOAT, d DOUBLE, j JSON, s VARCHAR(20), e ENUM('', 'x'), b BLOB, ts TIMESTAMP NULL);
INSERT INTO t VALUES (1, 0.1, 1e22, '{\"b\": 1.10, \"a\": [1, null]}', 'ä€', 'x', x'00ff', '2024-02-03 04:05:06');
INSERT INTO t VALUES (2, 16777215, -1e-300, '[]', 'A', '', '', NULL);
CREATE TABLE k (name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, v TEXT);
INSERT INTO k VALUES ('a', 'x'), ('B', 'y');
CREATE VIEW v AS SELECT id FROM t;
";

#[test]
fn rows_of_two_vendors() {
    let mariadb = two(ServerKind::MariaDb118);
    let mysql = two(ServerKind::MySql97);
    for server in [mariadb.first, mysql.first] {
        fill(server, ROWS);
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("dump");
    take(mariadb.first, &out, |_| {});
    let rows = |a, b| compare_with(a, b, |options| options.compared = Compared::Rows).unwrap();
    for outcome in [
        rows(at(mariadb.first), at(mysql.first)),
        rows(at(mysql.first), at(mariadb.first)),
        rows(folder(&out), at(mysql.first)),
    ] {
        assert!(outcome.same, "{:#?}", found(&outcome));
        assert_eq!(outcome.tables, 2);
    }
    servers::client(mysql.first, &["d"],
        b"UPDATE t SET j = '{\"a\": [1, null], \"b\": 1.2}' WHERE id = 1; UPDATE t SET f = 16777214 WHERE id = 2; UPDATE k SET v = 'Y' WHERE name = 'B'",
    )
    .unwrap();
    for a in [at(mariadb.first), folder(&out)] {
        let lines = found(&rows(a, at(mysql.first)));
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(
            lines[0].starts_with("rows of d.k: Changed name='B' [v: 'y' / 'Y']"),
            "{lines:#?}"
        );
        assert!(
            lines[1].starts_with("rows of d.t: Changed id='1' [j: "),
            "{lines:#?}"
        );
        assert!(
            lines[2].starts_with("rows of d.t: Changed id='2' [f: "),
            "{lines:#?}"
        );
    }
}

#[test]
fn what_does_not_map_is_reported() {
    let mariadb = two(ServerKind::MariaDb1011);
    let mysql = two(ServerKind::MySql97);
    for server in [mariadb.first, mysql.first] {
        fill(server, ROWS);
    }
    let outcome = compare_with(at(mariadb.first), at(mysql.first), |_| {}).unwrap();
    let notes = outcome.not_compared.join("\n");
    assert!(notes.contains("views"), "{notes}");
    // The only difference: JSON is text with a check in one and a type in the other.
    let lines = found(&outcome);
    assert!(
        lines.iter().all(|line| line.contains("table d.t")),
        "{lines:#?}"
    );
}

#[test]
fn text_in_another_character_set_is_the_same_text() {
    let two = two(ServerKind::MariaDb118);
    for (server, charset) in [(two.first, "latin1"), (two.second, "utf8mb4")] {
        let sql = format!(
            "CREATE TABLE t (a VARCHAR(20) CHARACTER SET {charset} PRIMARY KEY, b TEXT CHARACTER SET {charset}); \
             INSERT INTO t VALUES ('ä', 'ö'), ('o', NULL)"
        );
        fill(server, &sql);
    }
    let rows = || {
        compare_with(at(two.first), at(two.second), |options| {
            options.compared = Compared::Rows;
        })
        .unwrap()
    };
    assert!(rows().same, "{:#?}", found(&rows()));
    servers::client(
        two.second,
        &["d"],
        "SET NAMES utf8mb4; UPDATE t SET b = 'O' WHERE a = 'ä'".as_bytes(),
    )
    .unwrap();
    assert_eq!(
        found(&rows()),
        ["rows of d.t: Changed a='ä' [b: 'ö' / 'O']"]
    );
}
