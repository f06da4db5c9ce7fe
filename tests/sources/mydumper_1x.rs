//! Dump directories of mydumper 1.x with every kind of file that it writes, and of the versions
//! before it.

// Hazard of sources: Views, sequences, triggers, programs, names that are replaced, `ANSI_QUOTES`,
//   parts, streams and counts of mydumper 0.12 and 1.x

use std::fs;
use std::path::Path;

use refloat_sandbox::ServerKind;

use crate::bench::Bench;
use crate::mydumper_writer::{DEFAULT, Files, MODE, Rows, Way, files, stream, write};

/// Two databases, one with a name that is unsuitable for files; names with dots and quotes; values
/// of many kinds; a view on a view that sorts after it, created over a placeholder table as in a
/// load; a view that begins with a string literal.
const SETUP: &str = r#"
SET NAMES utf8mb4; SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v VARCHAR(30) CHARACTER SET latin1, b VARBINARY(10), n DECIMAL(5,2), j JSON, KEY v (v)) DEFAULT CHARSET utf8mb4;
INSERT INTO t VALUES (0, _latin1 0x636166E9, 0x00FF095C, 1.50, '{"a": "é\\"", "b": [1, 2]}'), (1, NULL, NULL, NULL, NULL),
    (2, 'tab\tnl\ncr\rbs\\', '', 0, '[]'), (3, '\\N', 'NULL', -1, '{}'), (4, 'a,b "c" ''d''', 0x1A2C22, 2, '1');
CREATE TABLE `o.dd` (a INT PRIMARY KEY, v TEXT CHARACTER SET utf8mb4); INSERT INTO `o.dd` VALUES (1, 'é'), (2, ''), (7, 'x');
CREATE TABLE gen (a INT PRIMARY KEY, b INT GENERATED ALWAYS AS (a + 1) STORED); INSERT INTO gen (a) VALUES (1), (2), (3);
CREATE TABLE nothing (a INT);
CREATE TABLE zview (v INT, id INT); CREATE VIEW aview AS SELECT * FROM zview; DROP TABLE zview; CREATE VIEW zview AS SELECT v, id FROM t;
CREATE VIEW `v.w` AS SELECT v, a FROM `o.dd`;
CREATE DATABASE `d.b x`;
CREATE TABLE `d.b x`.`q``b"c` (`c"d` INT PRIMARY KEY, `e f` VARCHAR(9)); INSERT INTO `d.b x`.`q``b"c` VALUES (1, 'a'), (2, NULL);
CREATE VIEW `d.b x`.vv AS SELECT * FROM `d.b x`.`q``b"c`;
"#;
/// Stored programs, in the SQL mode that the dump gives them.
const PROGRAMS: &str = r"
DELIMITER //
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.n = 9; SET NEW.v = 'x'; END//
CREATE TRIGGER tr2 AFTER INSERT ON `o.dd` FOR EACH ROW DELETE FROM t//
CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC BEGIN RETURN x + 1; END//
CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 'x; y'; END//
CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2031-01-01 00:00:00' DO BEGIN DELETE FROM t; END//
DELIMITER ;
";
/// Sequences, one of them used by a table that sorts before it.
const SEQUENCES: &str = r"
CREATE SEQUENCE zseq START WITH 100 INCREMENT BY 5 NOCACHE; CREATE SEQUENCE cycling MINVALUE 1 MAXVALUE 3 CYCLE CACHE 2;
CREATE TABLE a0 (i INT PRIMARY KEY, s BIGINT DEFAULT NEXT VALUE FOR zseq); INSERT INTO a0 (i) VALUES (1), (2);
";
const BOTH_NAMES: &[&str] = &["it", "d.b x"];

fn fill(bench: &Bench, programs: bool) {
    bench.empty();
    bench.fill(SETUP);
    if bench.kind.is_mariadb() {
        bench.fill(SEQUENCES);
    }
    if programs {
        let mode = format!(
            "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci; SET SESSION sql_mode = '{MODE}', time_zone = '+00:00';"
        );
        bench.fill(format!("{mode}{PROGRAMS}"));
    }
}

fn comes_back(kind: ServerKind, ways: &[Way]) {
    let bench = Bench::new(kind);
    for way in ways {
        fill(&bench, !way.ansi);
        let wanted = bench.snapshot();
        let folder = write(&bench, *way, BOTH_NAMES);
        bench.loads_as(&folder, &wanted, |_| {});
    }
}

fn ways() -> [Way; 4] {
    let chunked = Way {
        files: Files::Chunks(2),
        ..DEFAULT
    };
    [
        Way {
            triggers_of_tables: true,
            pack: ".gz",
            ..DEFAULT
        },
        Way {
            pack: ".zst",
            ..chunked
        },
        Way {
            rows: Rows::LoadData,
            files: Files::Parts(2),
            ..DEFAULT
        },
        Way {
            rows: Rows::Csv,
            pack: ".zst",
            ..chunked
        },
    ]
}

#[test]
fn every_kind_of_file_comes_back_on_mariadb() {
    comes_back(ServerKind::MariaDb1011, &ways());
}

#[test]
fn every_kind_of_file_comes_back_on_mysql() {
    comes_back(ServerKind::MySql97, &ways());
}

#[test]
fn what_a_server_in_ansi_mode_gives_comes_back() {
    for kind in [ServerKind::MariaDb118, ServerKind::MySql97] {
        let ansi = [Rows::Insert, Rows::LoadData].map(|rows| Way {
            ansi: true,
            rows,
            ..DEFAULT
        });
        comes_back(kind, &ansi);
    }
}

#[test]
fn sequences_that_are_dumped_as_tables_come_back_first() {
    let as_tables = Way {
        sequences_as_tables: true,
        ..DEFAULT
    };
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let bench = Bench::new(kind);
        fill(&bench, false);
        let wanted = bench.snapshot();
        let folder = write(&bench, as_tables, BOTH_NAMES);
        assert!(folder.join("it.zseq-schema.sql").exists());
        bench.loads_as(&folder, &wanted, |_| {});
    }
}

#[test]
fn streams_come_back() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let bench = Bench::new(kind);
        fill(&bench, true);
        let wanted = bench.snapshot();
        let folder = write(&bench, ways()[1], BOTH_NAMES);
        let bytes = stream(&folder);
        let path = bench.path("dump.stream");
        fs::write(&path, &bytes).unwrap();
        bench.loads_as(&path, &wanted, |_| {});
        // Without the last file, a whole table may be missing.
        bench.empty();
        let last = bytes.windows(4).rposition(|at| at == b"\n-- ").unwrap();
        fs::write(&path, &bytes[..last]).unwrap();
        bench.refuses(&path, |_| {}, "metadata is missing");
    }
}

#[test]
fn databases_that_no_file_creates_are_created_or_asked_for() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let bench = Bench::new(kind);
        fill(&bench, true);
        let wanted = bench.snapshot();
        // As with `--regex`.
        let folder = write(&bench, ways()[0], BOTH_NAMES);
        fs::remove_file(folder.join("it-schema-create.sql.gz")).unwrap();
        bench.loads_as(&folder, &wanted, |_| {});
        let nameless = files(&folder)
            .into_iter()
            .find(|path| path.to_str().unwrap().contains("-schema-create.sql"))
            .unwrap();
        let name = nameless.file_name().unwrap().to_str().unwrap();
        let message = format!("{} is missing", name.trim_end_matches(".gz"));
        fs::remove_file(&nameless).unwrap();
        bench.empty();
        bench.is_not_whole(&folder, |_| {}, &message);
    }
}

/// Turns a directory into one of 0.12, which has row counts and checksums in files of their own.
fn of_0_12(folder: &Path) {
    let text = fs::read_to_string(folder.join("metadata")).unwrap();
    for section in text.split("\n[`").skip(1) {
        let (name, keys) = section.split_once("`]").unwrap();
        let Some((database, table)) = name.split_once("`.`") else {
            continue;
        };
        let count = |line: &str| line.strip_prefix("rows = ").map(str::to_owned);
        let rows = keys.lines().find_map(count).unwrap();
        let file = |end: &str, text: &str| {
            fs::write(folder.join(format!("{database}.{table}-{end}")), text).unwrap();
        };
        file("metadata", &rows);
        for end in [
            "checksum",
            "schema-checksum",
            "schema-indexes-checksum",
            "schema-triggers-checksum",
        ] {
            file(end, "4279966034");
        }
        fs::write(
            folder.join(format!("{database}-schema-create-checksum")),
            "FDF2173B",
        )
        .unwrap();
        fs::write(
            folder.join(format!("{database}-schema-post-checksum")),
            "DB11C4DD",
        )
        .unwrap();
    }
    fs::write(
        folder.join("metadata"),
        "Started dump at: 2026-01-01 00:00:00\nSHOW MASTER STATUS:\n\tLog: b\n\tPos: 4\n\tGTID:\n\nFinished dump at: 2026-01-01 00:00:01\n",
    )
    .unwrap();
}

#[test]
fn counts_in_files_of_their_own_are_compared() {
    let bench = Bench::new(ServerKind::MariaDb1011);
    bench.fill("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3);");
    let wanted = bench.snapshot();
    let folder = write(&bench, DEFAULT, &["it"]);
    of_0_12(&folder);
    bench.loads_as(&folder, &wanted, |_| {});
    bench.empty();
    let rows = folder.join("it.t.00000.sql");
    let text = fs::read_to_string(&rows).unwrap();
    fs::write(&rows, text.replace("\n,(3)", "")).unwrap();
    bench.refuses(
        &folder,
        |_| {},
        "table it.t: the source says that it has 3 rows, but its files hold 2",
    );
    bench.empty();
    fs::write(folder.join("it.t-metadata"), "many").unwrap();
    bench.refuses(
        &folder,
        |_| {},
        "it.t-metadata: it does not hold the number of rows",
    );
}
