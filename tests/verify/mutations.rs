//! One thing changes on a copy: `verify` finds and names it, and nothing else.

// Hazard of comparisons: V-2 a pair of equal rows replaced by another pair, in a table without a
//   key; a row missing, a row twice
// Hazard of comparisons: V-3, L-20 FLOAT and DOUBLE that differ in the last bit
// Hazard of comparisons: V-4 `('a#','b')` and `('a','#b')` | , unit tests of `verify::digest`
// Hazard of comparisons: V-5 `A` and `a` in values and keys, trailing space, NULL and the empty
//   text
// Hazard of comparisons: V-6, V-7 length, default, NOT NULL, keys, generated columns, triggers and
//   their order, views, routines and their sql_mode, events, sequences, databases

use std::path::Path;

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;
use refloat_tests::by_hand;
use refloat_verify::RowKind;

use crate::support::{Two, at, compare, compare_with, folder, found, take, two};

/// The data before any change.
const SETUP: &str = "\
CREATE TABLE digits (d INT PRIMARY KEY);
INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(300) NOT NULL, n INT, KEY n (n));
INSERT INTO big SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d, REPEAT(CONCAT('v', a.d, c.d, '-'), 60), b.d
  FROM digits a, digits b, digits c, digits d, digits e WHERE e.d < 6;
CREATE TABLE nokey (x VARCHAR(20), y INT);
INSERT INTO nokey VALUES ('a', 1), ('a', 1), ('b', 2), ('b', 2), ('z', NULL);
CREATE TABLE words (w VARCHAR(20) PRIMARY KEY, t VARCHAR(20), u VARCHAR(20), b VARBINARY(20));
INSERT INTO words VALUES ('one', 'a#', 'b', x'00ff01'), ('two', 'A', 'x', NULL), ('three', NULL, '', '');
CREATE TABLE pairs (k1 INT, k2 VARCHAR(10), v DOUBLE, f FLOAT, PRIMARY KEY (k1, k2));
INSERT INTO pairs VALUES (1, 'a', 1.5, 16777215), (1, 'b', 0.1, 0.1), (2, 'a', -0.0, NULL);
CREATE TABLE defs (a VARCHAR(100), b INT DEFAULT 1, c INT NULL, d INT, g INT AS (d + 1) VIRTUAL, KEY c (c));
INSERT INTO defs (a, b, c, d) VALUES ('x', 1, 2, 3);
CREATE TABLE my (a INT, b TEXT) ENGINE = MyISAM;
INSERT INTO my VALUES (1, 'm'), (2, NULL);
CREATE VIEW v AS SELECT a FROM defs;
CREATE VIEW v2 AS SELECT a FROM v;
CREATE TRIGGER t1 BEFORE INSERT ON defs FOR EACH ROW SET NEW.b = NEW.b + 0;
CREATE TRIGGER t2 BEFORE INSERT ON defs FOR EACH ROW SET NEW.b = NEW.b + 1;
CREATE PROCEDURE p() SELECT 1;
CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2020-01-01 00:00:00' DISABLE DO SET @x = 1;
";

/// A change, the statement that reverts it, and the expected findings, separated by `|`.
struct Mutation {
    change: &'static str,
    back: &'static str,
    found: &'static str,
    /// The findings when the first side is a dump, if they differ.
    of_dump: Option<&'static str>,
}

const fn found_as(change: &'static str, back: &'static str, found: &'static str) -> Mutation {
    Mutation {
        change,
        back,
        found,
        of_dump: None,
    }
}

const MUTATIONS: &[Mutation] = &[
    found_as(
        "UPDATE big SET v = REPLACE(v, 'v54-v54-v54', 'v54-w54-v54') WHERE id = 31415",
        "UPDATE big SET v = REPLACE(v, 'w', 'v') WHERE id = 31415",
        "rows of m.big: Changed id='31415' [v: ",
    ),
    found_as(
        "DELETE FROM big WHERE id = 777",
        "INSERT INTO big VALUES (777, REPEAT('v77-', 60), 7)",
        "rows of m.big: OnlyA id='777' id='777'",
    ),
    found_as(
        "INSERT INTO big VALUES (-5, '', NULL)",
        "DELETE FROM big WHERE id = -5",
        "rows of m.big: OnlyB id='-5' id='-5' v='' n=NULL",
    ),
    // One row is duplicated, and so is another that replaces it: an XOR of hashes would not notice.
    found_as(
        "UPDATE nokey SET x = 'c' WHERE x = 'a'",
        "UPDATE nokey SET x = 'a' WHERE x = 'c'",
        "rows of m.nokey: OnlyA x='a' y='1' x2|rows of m.nokey: OnlyB x='c' y='1' x2",
    ),
    found_as(
        "DELETE FROM nokey WHERE x = 'b' LIMIT 1",
        "INSERT INTO nokey VALUES ('b', 2)",
        "rows of m.nokey: OnlyA x='b' y='2'",
    ),
    found_as(
        "INSERT INTO nokey VALUES ('z', NULL)",
        "DELETE FROM nokey WHERE x = 'z' LIMIT 1",
        "rows of m.nokey: OnlyB x='z' y=NULL",
    ),
    // As text, they are 1.67772e7 and 0.1 both before and after.
    found_as(
        "UPDATE pairs SET f = 16777214 WHERE k1 = 1 AND k2 = 'a'",
        "UPDATE pairs SET f = 16777215 WHERE k1 = 1 AND k2 = 'a'",
        "rows of m.pairs: Changed k1='1' k2='a' [f: '16777215' / '16777214']",
    ),
    found_as(
        "UPDATE pairs SET f = 0.10000001 WHERE k2 = 'b'",
        "UPDATE pairs SET f = 0.1 WHERE k2 = 'b'",
        "rows of m.pairs: Changed k1='1' k2='b' [f: '0.10000000149011612' / '0.10000000894069672']",
    ),
    found_as(
        "UPDATE pairs SET v = 0.10000000000000002 WHERE k2 = 'b'",
        "UPDATE pairs SET v = 0.1 WHERE k2 = 'b'",
        "rows of m.pairs: Changed k1='1' k2='b' [v: '0.1' / '0.10000000000000002']",
    ),
    found_as(
        "UPDATE words SET t = 'a', u = '#b' WHERE w = 'one'",
        "UPDATE words SET t = 'a#', u = 'b' WHERE w = 'one'",
        "rows of m.words: Changed w='one' [t: 'a#' / 'a'] [u: 'b' / '#b']",
    ),
    found_as(
        "UPDATE words SET t = 'a' WHERE w = 'two'",
        "UPDATE words SET t = 'A' WHERE w = 'two'",
        "rows of m.words: Changed w='two' [t: 'A' / 'a']",
    ),
    found_as(
        "UPDATE words SET w = 'TWO' WHERE w = 'two'",
        "UPDATE words SET w = 'two' WHERE w = 'two'",
        "rows of m.words: OnlyA w='two' w='two' t='A' u='x' b=NULL|rows of m.words: OnlyB w='TWO' w='TWO' t='A' u='x' b=NULL",
    ),
    found_as(
        "UPDATE words SET u = 'x ' WHERE w = 'two'",
        "UPDATE words SET u = 'x' WHERE w = 'two'",
        "rows of m.words: Changed w='two' [u: 'x' / 'x ']",
    ),
    found_as(
        "UPDATE words SET t = '' WHERE w = 'three'",
        "UPDATE words SET t = NULL WHERE w = 'three'",
        "rows of m.words: Changed w='three' [t: NULL / '']",
    ),
    found_as(
        "UPDATE words SET b = x'00fe01' WHERE w = 'one'",
        "UPDATE words SET b = x'00ff01' WHERE w = 'one'",
        "rows of m.words: Changed w='one' [b: 0x00FF01 / 0x00FE01]",
    ),
    found_as(
        "UPDATE my SET b = '' WHERE a = 2",
        "UPDATE my SET b = NULL WHERE a = 2",
        "rows of m.my: OnlyA a='2' b=NULL|rows of m.my: OnlyB a='2' b=''",
    ),
    found_as(
        "ALTER TABLE defs MODIFY a VARCHAR(50)",
        "ALTER TABLE defs MODIFY a VARCHAR(100)",
        "table m.defs: column a: ",
    ),
    found_as(
        "ALTER TABLE defs ALTER b SET DEFAULT 2",
        "ALTER TABLE defs ALTER b SET DEFAULT 1",
        "table m.defs: column b: ",
    ),
    found_as(
        "ALTER TABLE defs MODIFY c INT NOT NULL",
        "ALTER TABLE defs MODIFY c INT NULL",
        "table m.defs: column c: ",
    ),
    found_as(
        "ALTER TABLE defs DROP KEY c",
        "ALTER TABLE defs ADD KEY c (c)",
        "table m.defs: key c: KEY `c` (`c`) / missing",
    ),
    // Generated columns follow from the other columns of a dump. Between servers, their values are
    // compared.
    Mutation {
        change: "ALTER TABLE defs MODIFY g INT AS (d + 2) VIRTUAL",
        back: "ALTER TABLE defs MODIFY g INT AS (d + 1) VIRTUAL",
        found: "table m.defs: column g: |rows of m.defs: OnlyA a='x' b='1' c='2' d='3' g='4'|rows of m.defs: OnlyB a='x' b='1' c='2' d='3' g='5'",
        of_dump: Some("table m.defs: column g: "),
    },
    found_as(
        "DROP TRIGGER t2",
        "CREATE TRIGGER t2 BEFORE INSERT ON defs FOR EACH ROW SET NEW.b = NEW.b + 1",
        "trigger m.t2: there / missing",
    ),
    found_as(
        "DROP TRIGGER t1; CREATE TRIGGER t1 BEFORE INSERT ON defs FOR EACH ROW SET NEW.b = NEW.b + 0",
        "DROP TRIGGER t2; CREATE TRIGGER t2 BEFORE INSERT ON defs FOR EACH ROW SET NEW.b = NEW.b + 1",
        "order of triggers: m.t1 first / m.t2 first",
    ),
    found_as(
        "CREATE OR REPLACE VIEW v AS SELECT a, 1 AS one FROM defs",
        "CREATE OR REPLACE VIEW v AS SELECT a FROM defs",
        "view m.v: ",
    ),
    found_as(
        "DROP VIEW v2",
        "CREATE VIEW v2 AS SELECT a FROM v",
        "view m.v2: there / missing",
    ),
    found_as(
        "DROP PROCEDURE p; CREATE PROCEDURE p() SELECT 2",
        "DROP PROCEDURE p; CREATE PROCEDURE p() SELECT 1",
        "procedure m.p: ",
    ),
    found_as(
        "SET sql_mode = 'NO_ZERO_DATE'; DROP PROCEDURE p; CREATE PROCEDURE p() SELECT 1",
        "DROP PROCEDURE p; CREATE PROCEDURE p() SELECT 1",
        "procedure m.p: sql_mode: ",
    ),
    found_as(
        "ALTER EVENT e ON SCHEDULE EVERY 2 DAY STARTS '2020-01-01 00:00:00'",
        "ALTER EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2020-01-01 00:00:00'",
        "event m.e: ",
    ),
    found_as(
        "DROP TABLE my",
        "CREATE TABLE my (a INT, b TEXT) ENGINE = MyISAM; INSERT INTO my VALUES (1, 'm'), (2, NULL)",
        "table m.my: there / missing",
    ),
    found_as(
        "CREATE TABLE more (a INT)",
        "DROP TABLE more",
        "table m.more: missing / there",
    ),
    found_as(
        "ALTER DATABASE m COLLATE utf8mb4_bin",
        "ALTER DATABASE m COLLATE utf8mb4_general_ci",
        "database m: ",
    ),
];

/// Things that only MariaDB has.
const MARIADB_SETUP: &str = "\
CREATE SEQUENCE s;
CREATE TABLE past (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING;
INSERT INTO past VALUES (1, 1), (2, 2);
UPDATE past SET v = 3 WHERE id = 1;
";

const MARIADB_MUTATIONS: &[Mutation] = &[
    found_as(
        "DO SETVAL(s, 5000)",
        "DROP SEQUENCE s; CREATE SEQUENCE s",
        "sequence m.s: next value: 1 / 5001",
    ),
    found_as(
        "DROP SEQUENCE s",
        "CREATE SEQUENCE s",
        "sequence m.s: there / missing",
    ),
    // A dump holds historical rows along with the current ones.
    Mutation {
        change: "ALTER TABLE past DROP SYSTEM VERSIONING",
        back: "DROP TABLE past",
        found: "table m.past: options: ",
        of_dump: Some("table m.past: options: |rows of m.past: OnlyA id='1' id='1' v='1'"),
    },
];

/// Makes one change after the other on one kind of server.
pub fn all(kind: ServerKind) {
    let two = two(kind);
    let scratch = tempfile::tempdir().unwrap();
    servers::connect(two.first)
        .exec("CREATE DATABASE m CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        .unwrap();
    servers::client(two.first, &["m"], SETUP.as_bytes()).unwrap();
    let mut mutations: Vec<&Mutation> = MUTATIONS.iter().collect();
    if kind.is_mariadb() {
        servers::client(two.first, &["m"], MARIADB_SETUP.as_bytes()).unwrap();
        // The last of them cannot be reverted.
        mutations.extend(MARIADB_MUTATIONS);
    }
    let out = scratch.path().join("dump");
    take(two.first, &out, |options| options.chunk_bytes = 2 << 20);
    by_hand::restore(two.second, &out).unwrap();
    let mut failures = Vec::new();
    let mut expect = |label: &str, a, wanted: &str, change: &str| {
        let lines = match compare(a, at(two.second)) {
            Ok(outcome) => {
                assert_eq!(
                    outcome.same,
                    wanted.is_empty() && !outcome.differs(),
                    "{change}"
                );
                found(&outcome)
            }
            Err(error) => vec![error],
        };
        let wanted: Vec<&str> = wanted.split('|').filter(|line| !line.is_empty()).collect();
        let good = lines.len() == wanted.len()
            && wanted
                .iter()
                .all(|wanted| lines.iter().any(|line| line.starts_with(wanted)));
        if !good {
            failures.push(format!(
                "[{label}] {change}\n  wanted {wanted:#?}\n  found {lines:#?}"
            ));
        }
    };
    let mut both = |mutation: Option<&Mutation>, change: &str| {
        let wanted = mutation.map_or("", |mutation| mutation.found);
        let of_dump = mutation
            .and_then(|mutation| mutation.of_dump)
            .unwrap_or(wanted);
        expect("server", at(two.first), wanted, change);
        expect("dump", folder(&out), of_dump, change);
    };
    both(None, "nothing");
    for mutation in mutations {
        servers::client(two.second, &["m"], mutation.change.as_bytes()).unwrap();
        both(Some(mutation), mutation.change);
        servers::client(two.second, &["m"], mutation.back.as_bytes()).unwrap();
    }
    if !kind.is_mariadb() {
        both(None, "everything put back");
    }
    many(&two, &out);
    for failure in &failures {
        eprintln!("{kind}: {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} failures on {kind}, listed above",
        failures.len()
    );
}

/// More rows differ than are shown or fetched. Those shown are changed rows; none is reported as
/// missing.
fn many(two: &Two, out: &Path) {
    servers::client(two.second, &["m"], b"UPDATE big SET n = n + 1").unwrap();
    for a in [at(two.first), folder(out)] {
        let outcome = compare_with(a, at(two.second), |options| {
            options.tables = vec!["big".to_owned()];
        });
        let outcome = outcome.unwrap();
        let big = &outcome.table_differences.first[0];
        assert_eq!((big.rows_a, big.rows_b, big.more), (60_000, 60_000, true));
        assert_eq!(big.rows.len(), 10);
        for row in &big.rows {
            assert_eq!(row.kind, RowKind::Changed, "{row:?}");
            assert_eq!(row.columns.len(), 1, "{row:?}");
        }
    }
}
