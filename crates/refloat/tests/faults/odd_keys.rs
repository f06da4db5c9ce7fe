//! Found by the random schemas: keys that cannot cut a table, foreign keys printed in a form that
//! cannot be parsed, values that text does not tell apart.

use std::collections::BTreeSet;

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;
use serde_json::Value;

use crate::support::{Desk, ask, finish, shared};

/// Values that sort before and after a blank.
const TEXTS: &str =
    "('a'), (''), ('\\n'), ('\\t_'), ('!'), (' b'), ('\\nz'), ('?'), ('B'), ('\\b')";

/// Dumps the desk's database in ranges of a row or two, loads the dump in its place, and compares.
#[track_caller]
fn goes_around(kind: ServerKind, tables: &[String]) {
    goes_around_with(kind, tables, "SELECT 1");
}

/// Like [`goes_around`]; the `question` must also have the same answer before and after.
#[track_caller]
fn goes_around_with(kind: ServerKind, tables: &[String], question: &str) {
    let desk = Desk::new();
    let server = shared(kind);
    let mut conn = servers::connect(server);
    conn.exec(format!("CREATE DATABASE {}", desk.db)).unwrap();
    conn.exec(format!("USE {}", desk.db)).unwrap();
    for sql in tables {
        conn.exec(sql)
            .unwrap_or_else(|error| panic!("{kind}: {sql}: {error}"));
    }
    let before = desk.ask(server, question);
    let out = desk.path("dump");
    let mut dump = desk.refloat(["dump", "--from", &server.url(), "--out"]);
    dump.arg(&out)
        .args(["--databases", &desk.db, "--chunk-size", "1"]);
    finish(dump).exits(0);
    let mut verify = desk.refloat(["verify"]);
    verify.arg(&out).arg(server.url());
    finish(verify).exits(0);
    ask(server, &format!("DROP DATABASE {}", desk.db));
    let mut load = desk.refloat(["load"]);
    load.arg(&out).args(["--to", &server.url()]);
    finish(load).exits(0);
    assert_eq!(desk.ask(server, question), before, "{kind}");
    let mut verify = desk.refloat(["verify"]);
    verify.arg(&out).arg(server.url());
    finish(verify).exits(0);
    ask(server, &format!("DROP DATABASE {}", desk.db));
}

/// Rows of each table that is cut.
const MANY: u32 = 6000;

/// With every kind of key, several connections read one table; without a key, only one does.
#[test]
fn every_kind_of_key_cuts_its_table() {
    for &kind in crate::support::kinds() {
        let (desk, server) = (Desk::new(), shared(kind));
        let mut conn = servers::connect(server);
        conn.exec(format!("CREATE DATABASE {}", desk.db)).unwrap();
        conn.exec(format!("USE {}", desk.db)).unwrap();
        conn.exec("SET SESSION cte_max_recursion_depth = 1000000")
            .or_else(|_| conn.exec("SET SESSION max_recursive_iterations = 1000000"))
            .unwrap();
        let kinds = [
            ("small", "k INT NOT NULL, PRIMARY KEY (k)", "n"),
            (
                "unsigned",
                "k BIGINT UNSIGNED NOT NULL, PRIMARY KEY (k)",
                "18446744073709551615 - n",
            ),
            (
                "fraction",
                "k DECIMAL(20,4) NOT NULL, PRIMARY KEY (k)",
                "n / 8",
            ),
            (
                "moment",
                "k DATETIME NOT NULL, PRIMARY KEY (k)",
                "'2000-01-01' + INTERVAL n MINUTE",
            ),
            (
                "words",
                "k VARCHAR(40) CHARACTER SET utf8mb4 NOT NULL, PRIMARY KEY (k)",
                "CONCAT(HEX(n * 2654435761 % 4294967291), n)",
            ),
            (
                "raw",
                "k VARBINARY(20) NOT NULL, PRIMARY KEY (k)",
                "UNHEX(LPAD(HEX(n * 2654435761 % 4294967291), 16, 0))",
            ),
            ("downwards", "k INT NOT NULL, PRIMARY KEY (k DESC)", "n"),
            (
                "pair",
                "k INT NOT NULL, m VARCHAR(9) NOT NULL DEFAULT 'm', PRIMARY KEY (m, k)",
                "n",
            ),
            ("only_unique", "k INT NOT NULL, UNIQUE KEY u (k)", "n"),
            ("parts", "k INT NOT NULL, PRIMARY KEY (k)", "n"),
            ("none", "k INT NOT NULL", "n"),
            ("nulls", "k INT, UNIQUE KEY u (k)", "n"),
        ];
        for (name, columns, value) in kinds {
            let parts = if name == "parts" {
                " PARTITION BY HASH (k) PARTITIONS 4"
            } else {
                ""
            };
            for sql in [
                format!(
                    "CREATE TABLE `{name}` ({columns}, pad VARCHAR(200) DEFAULT '{:0>150}') ENGINE=InnoDB{parts}",
                    0
                ),
                format!(
                    "INSERT INTO `{name}` (k) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {MANY}) SELECT {value} FROM s"
                ),
                format!("ANALYZE TABLE `{name}`"),
            ] {
                conn.query(&sql)
                    .unwrap_or_else(|error| panic!("{kind}: {sql}: {error}"));
            }
        }
        let out = desk.path("dump");
        let mut dump = desk.refloat(["dump", "--from", &server.url(), "--out"]);
        // Five readers for twelve tables: whole tables cannot be dealt out evenly.
        dump.arg(&out).args([
            "--databases",
            &desk.db,
            "--threads",
            "5",
            "--chunk-size",
            "64K",
        ]);
        finish(dump).exits(0);
        let manifest = std::fs::read(out.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        for table in manifest["databases"][0]["tables"].as_array().unwrap() {
            let name = table["name"].as_str().unwrap();
            assert_eq!(table["rows"], MANY, "{kind}: {name}");
            // Files of one range have its number before their own.
            let ranges: BTreeSet<&str> = table["chunks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|chunk| {
                    let file = chunk["path"].as_str().unwrap();
                    file.rsplit('.')
                        .find(|part| part.contains('-'))
                        .and_then(|part| part.split('-').next())
                        .unwrap()
                })
                .collect();
            let cut = !["none", "nulls"].contains(&name);
            assert_eq!(ranges.len() > 1, cut, "{kind}: {name}: {ranges:?}");
        }
        ask(server, &format!("DROP DATABASE {}", desk.db));
    }
}

/// MariaDB pads CHAR in its keys, but compares it without padding if the collation says so.
#[test]
fn rows_whose_keys_sort_in_two_ways_are_not_lost() {
    for (kind, collation) in [
        (ServerKind::MariaDb1011, "utf8mb4_nopad_bin"),
        (ServerKind::MariaDb1011, "utf8mb4_uca1400_nopad_as_cs"),
        (ServerKind::MariaDb118, "utf8mb4_0900_as_cs"),
        (ServerKind::MySql97, "utf8mb4_0900_as_cs"),
    ] {
        let mut tables = Vec::new();
        for (name, of, order) in [
            ("c", "CHAR", ""),
            ("v", "VARCHAR", ""),
            ("d", "CHAR", " DESC"),
        ] {
            tables.push(format!(
                "CREATE TABLE {name} (k {of}(6) CHARACTER SET utf8mb4 COLLATE {collation} NOT NULL, PRIMARY KEY (k{order}))"
            ));
            tables.push(format!("INSERT IGNORE INTO {name} VALUES {TEXTS}"));
        }
        goes_around(kind, &tables);
    }
}

/// An index hidden from the optimizer cannot be forced either.
#[test]
fn keys_that_must_not_be_used_are_not() {
    for (kind, hidden) in [
        (ServerKind::MariaDb1011, "IGNORED"),
        (ServerKind::MariaDb118, "IGNORED"),
        (ServerKind::MySql97, "INVISIBLE"),
    ] {
        let tables = [
            format!(
                "CREATE TABLE t (e ENUM('a', 'b', 'c') NOT NULL PRIMARY KEY, k INT NOT NULL, UNIQUE KEY u (k) {hidden})"
            ),
            "INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3)".to_owned(),
        ];
        goes_around(kind, &tables);
    }
}

/// MariaDB 11.8 does not double backticks in the names of a foreign key and its columns.
#[test]
fn foreign_keys_with_backticks_in_their_names() {
    for &kind in crate::support::kinds() {
        let tables = [
            "CREATE TABLE `p``1` (`i``d` INT, `i``e` INT, PRIMARY KEY (`i``d`, `i``e`))",
            "CREATE TABLE c (`a``x` INT, `b````y` INT, KEY (`a``x`, `b````y`), CONSTRAINT `c``c` FOREIGN KEY (`a``x`, `b````y`) \
             REFERENCES `p``1` (`i``d`, `i``e`) ON DELETE CASCADE)",
            "CREATE TABLE e (`a``x` INT, KEY (`a``x`), CONSTRAINT plain FOREIGN KEY (`a``x`) REFERENCES `p``1` (`i``d`))",
            "INSERT INTO `p``1` VALUES (1, 2), (3, 4)",
            "INSERT INTO c VALUES (1, 2), (3, NULL)",
        ];
        // MySQL requires a unique key on the referenced side.
        let tables = tables
            .iter()
            .filter(|sql| kind.is_mariadb() || !sql.contains(" plain "));
        goes_around(
            kind,
            &tables.map(|sql| (*sql).to_owned()).collect::<Vec<_>>(),
        );
    }
}

/// The text of a SET does not show which of two members of the same name it contains.
#[test]
fn members_of_one_name_stay_apart() {
    for &kind in crate::support::kinds() {
        let tables = [
            "SET SESSION sql_mode = ''",
            "CREATE TABLE s (i INT NOT NULL PRIMARY KEY, v SET('a', 'b', 'a', 'c'))",
            "INSERT INTO s VALUES (1, 4), (2, 1), (3, 5), (4, 10), (5, NULL), (6, 0)",
        ];
        goes_around_with(
            kind,
            &tables.map(str::to_owned),
            "SELECT GROUP_CONCAT(COALESCE(v + 0, 'null') ORDER BY i) FROM @db.s",
        );
    }
}
