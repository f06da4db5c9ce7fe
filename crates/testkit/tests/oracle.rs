//! Checks that the oracle sees every kind of change, on every server.

// Hazard of results: V-2 to V-5, V-7 the oracle sees each kind of change

use refloat_sandbox::ServerKind;
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::servers;

const BEFORE: &str = "\
CREATE DATABASE seen CHARACTER SET utf8mb4;
USE seen;
CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, s VARCHAR(20), b VARBINARY(20) DEFAULT 'x', f FLOAT, e ENUM('','a'), KEY k (s));
INSERT INTO t VALUES (1, 'a', 0x00FF, 0.1, 'a'), (2, 'b', '', 0e0 * -1, 'a'), (3, NULL, NULL, 16777215, '');
CREATE TABLE pairs (a INT, b VARCHAR(5));
INSERT INTO pairs VALUES (1, 'x'), (1, 'x'), (2, 'y'), (2, 'y');
CREATE TABLE parts (a VARCHAR(5), b VARCHAR(5));
INSERT INTO parts VALUES ('a#', 'b');
CREATE TRIGGER one BEFORE INSERT ON pairs FOR EACH ROW SET NEW.b = CONCAT(NEW.b, '1');
CREATE TRIGGER two BEFORE INSERT ON pairs FOR EACH ROW SET NEW.b = CONCAT(NEW.b, '2');
CREATE VIEW v AS SELECT id FROM t;
CREATE PROCEDURE p() SELECT 1;
CREATE EVENT ev ON SCHEDULE AT '2037-01-01 00:00:00' ON COMPLETION PRESERVE DISABLE DO SELECT 1";

/// A change, and the difference that the oracle must report.
const MUTATIONS: &[(&str, &str)] = &[
    ("UPDATE t SET b = 0x00FE WHERE id = 1", "rows of seen.t"),
    (
        "UPDATE pairs SET a = 3, b = 'z' WHERE a = 1",
        "rows of seen.pairs",
    ),
    (
        "DELETE FROM pairs WHERE a = 1 LIMIT 1",
        "rows of seen.pairs",
    ),
    ("UPDATE t SET b = '' WHERE id = 3", "rows of seen.t"),
    ("UPDATE t SET s = 'A' WHERE id = 1", "rows of seen.t"),
    ("UPDATE t SET s = 'a ' WHERE id = 1", "rows of seen.t"),
    ("UPDATE t SET f = 16777214 WHERE id = 3", "rows of seen.t"),
    (
        "UPDATE t SET f = 1 WHERE id = 2; UPDATE t SET f = 0e0 WHERE id = 2",
        "rows of seen.t",
    ),
    ("UPDATE parts SET a = 'a', b = '#b'", "rows of seen.parts"),
    ("ALTER TABLE t ALTER b SET DEFAULT 'y'", "table seen.t"),
    ("ALTER TABLE t DROP KEY k", "table seen.t"),
    ("ALTER TABLE t AUTO_INCREMENT = 77", "table seen.t"),
    (
        "ALTER TABLE t MODIFY s VARCHAR(21)",
        "information_schema.COLUMNS of seen",
    ),
    (
        "DROP TRIGGER one; CREATE TRIGGER one BEFORE INSERT ON pairs FOR EACH ROW SET NEW.b = CONCAT(NEW.b, '1')",
        "information_schema.TRIGGERS of seen",
    ),
    ("DROP VIEW v", "view seen.v"),
    (
        "CREATE OR REPLACE DEFINER = 'ghost'@'%' VIEW v AS SELECT id FROM t",
        "view seen.v",
    ),
    (
        "DROP PROCEDURE p; SET sql_mode = 'ANSI_QUOTES'; CREATE PROCEDURE p() SELECT 1; SET sql_mode = ''",
        "procedure seen.p",
    ),
    ("ALTER EVENT ev ENABLE", "event seen.ev"),
    ("ALTER DATABASE seen CHARACTER SET latin1", "database seen"),
    ("CREATE TABLE more (a INT)", "kind of seen.more"),
    ("CREATE DATABASE seen2", "database seen2"),
];

fn every_mutation_is_seen(kind: ServerKind) {
    let server = servers::server(kind);
    let mut conn = servers::connect(server);
    for (mutation, about) in MUTATIONS {
        let run = |conn: &mut refloat_wire::Connection, script: &str| {
            for statement in script.split(';') {
                conn.exec(statement)
                    .unwrap_or_else(|error| panic!("{kind}: {statement}: {error}"));
            }
        };
        run(
            &mut conn,
            "DROP DATABASE IF EXISTS seen; DROP DATABASE IF EXISTS seen2",
        );
        run(&mut conn, BEFORE);
        if mutation.contains("0e0")
            && kind != ServerKind::MySql97
            && !keeps_negative_zero(&mut conn)
        {
            // MariaDB stores 0 for it since 10.11.19 and 11.8.9.
            continue;
        }
        let before = Snapshot::take(&mut conn, Scope::default()).unwrap();
        let again = Snapshot::take(&mut conn, Scope::default()).unwrap();
        assert_eq!(differences(&before, &again), [], "{kind}: nothing changed");
        run(&mut conn, mutation);
        let after = Snapshot::take(&mut conn, Scope::default()).unwrap();
        let found = differences(&before, &after);
        assert!(
            found.iter().any(|one| one.about == *about),
            "{kind}: {mutation}: {about} is not among {found:?}"
        );
    }
    conn.exec("DROP DATABASE IF EXISTS seen").unwrap();
}

/// Whether the server keeps the negative zero of row 2.
fn keeps_negative_zero(conn: &mut refloat_wire::Connection) -> bool {
    let asked = conn.prepare("SELECT f FROM t WHERE id = 2").expect("a row");
    let mut bits = Vec::new();
    conn.query_each_binary(&asked, &mut |row| {
        bits = row.cell(0).unwrap_or_default().to_vec();
        std::ops::ControlFlow::Continue(())
    })
    .expect("a row");
    bits == (-0.0_f32).to_le_bytes()
}

#[test]
fn every_mutation_is_seen_on_mariadb_10_11() {
    every_mutation_is_seen(ServerKind::MariaDb1011);
}

#[test]
fn every_mutation_is_seen_on_mariadb_11_8() {
    every_mutation_is_seen(ServerKind::MariaDb118);
}

#[test]
fn every_mutation_is_seen_on_mysql_9_7() {
    every_mutation_is_seen(ServerKind::MySql97);
}
