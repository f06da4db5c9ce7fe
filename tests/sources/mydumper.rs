//! Dump directories made by mydumper 0.10.

// Hazard of sources: All objects of a folder; special bytes; several files of one table,
//   compressed by gzip and by zstd | , `by_hand`
// Hazard of sources: L-70, L-71 a dump that has not ended, files that are missing, cut, not of the
//   dump or in the place of another; of mydumper 0.10, which does not count rows, [only what the
//   numbers of files tell](load.md#mydumper) | , `tab`, `shell`, `shell_dumps`; `dumped`
// Hazard of sources: S-04, S-07 Statements in files of rows; names that lead out of the folder
//   (`folders` of the program's tests); expressions in metadata | , unit tests of
//   `source/shell.rs` and `source/infile.rs`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_sandbox::ServerKind;

use crate::bench::{Bench, DATABASE, run};

/// Tables of many kinds, a view on a view, stored programs, keys, and rows for several files.
const SETUP: &str = r#"
SET NAMES utf8mb4;
SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE a (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, t VARCHAR(50), b VARBINARY(50), d DATETIME(3), k INT, KEY (k),
    bits BIT(9), n DECIMAL(10,3), f DOUBLE, g GEOMETRY, l VARCHAR(20) CHARACTER SET latin1) DEFAULT CHARSET utf8mb4;
INSERT INTO a VALUES (0, 'it''s "q" é😀', 0x0001095C27220AFF, '2024-02-29 01:02:03.456', 1, b'101010101', 1.5, 1e300, POINT(1, 2), 'café'),
    (1, NULL, NULL, '0000-00-00', NULL, NULL, NULL, NULL, NULL, NULL), (2, '\\N', '', '2024-01-01', 5, 0, 0, -1.5, NULL, '');
INSERT INTO a (t, b, k) SELECT CONCAT('row; -- ', a.t), a.b, a.k + 1 FROM a, a x, a y, a z, a u, a v, a w;
CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(10));
CREATE TABLE c (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id));
INSERT INTO p VALUES (1, 'a'), (2, 'b'); INSERT INTO c VALUES (1, 1), (2, 2), (3, 1);
CREATE TABLE gen (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED); INSERT INTO gen (a) VALUES (1), (2);
CREATE TABLE empty (a INT);
CREATE VIEW av AS SELECT id, t FROM a; CREATE VIEW z AS SELECT * FROM av;
CREATE TRIGGER tr BEFORE INSERT ON p FOR EACH ROW SET NEW.v = CONCAT(NEW.v, '!');
SET SESSION sql_mode = @@GLOBAL.sql_mode;
DELIMITER //
CREATE PROCEDURE pr() BEGIN SELECT 1; SELECT 'x;y'; END//
CREATE FUNCTION fu(x INT) RETURNS INT DETERMINISTIC BEGIN DECLARE y INT; SET y = x; RETURN y + 1; END//
CREATE EVENT ev ON SCHEDULE EVERY 1 DAY STARTS '2031-01-01 00:00:00' DO BEGIN DELETE FROM c WHERE id < 0; END//
DELIMITER ;
DROP TRIGGER tr;
CREATE TRIGGER tr BEFORE INSERT ON p FOR EACH ROW SET NEW.v = CONCAT(NEW.v, '!');
CREATE VIEW usesfu AS SELECT fu(2) AS n;
"#;

/// Dumps what the server holds.
fn dump(bench: &Bench, args: &[&str]) -> PathBuf {
    let folder = bench.path("dump");
    let _ = fs::remove_dir_all(&folder);
    run(Command::new("mydumper")
        .args(["--user", "root", "--database", DATABASE, "--outputdir"])
        .arg(&folder)
        .arg("--socket")
        .arg(bench.server.socket())
        .args(args));
    folder
}

#[test]
fn all_objects_come_back() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let wanted = bench.snapshot();
        for args in [
            &["--triggers", "--events", "--routines"][..],
            &[
                "--triggers",
                "--events",
                "--routines",
                "--compress",
                "--rows",
                "500",
                "--complete-insert",
            ],
        ] {
            bench.empty();
            bench.fill(SETUP);
            let folder = dump(&bench, args);
            bench.loads_as(&folder, &wanted, |_| {});
        }
    }
}

/// Compresses every file but `metadata`, like a mydumper built with zstd.
fn compress(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "sql") {
            run(Command::new("zstd").args(["-q", "--rm"]).arg(path));
        }
    }
}

#[test]
fn files_compressed_by_zstd_come_back() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let wanted = bench.snapshot();
        let programs = ["--triggers", "--events", "--routines", "--rows", "500"];
        let folder = dump(&bench, &programs);
        compress(&folder);
        let names: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for end in [
            "-schema.sql.zst",
            "-schema-view.sql.zst",
            "-schema-post.sql.zst",
        ] {
            assert!(
                names.iter().any(|name| name.ends_with(end)),
                "{end}: {names:?}"
            );
        }
        bench.loads_as(&folder, &wanted, |_| {});
        // A truncated file is noticed and named.
        bench.empty();
        let rows = folder.join("it.c.sql.zst");
        let whole = fs::read(&rows).unwrap();
        fs::write(&rows, &whole[..whole.len() - 3]).unwrap();
        bench.refuses(&folder, |_| {}, "it.c.sql.zst: truncated: the zstd stream");
    }
}

#[test]
fn special_bytes_survive() {
    let bench = Bench::new(ServerKind::MariaDb1011);
    bench.fill_from_case("special-bytes");
    let wanted = bench.snapshot();
    let folder = dump(&bench, &[]);
    bench.loads_as(&folder, &wanted, |_| {});
}

#[test]
fn a_choice_of_tables_is_loaded() {
    let bench = Bench::new(ServerKind::MariaDb1011);
    bench.fill(SETUP);
    let trigger = "CREATE TRIGGER it.passes AFTER INSERT ON it.p FOR EACH ROW INSERT INTO gen (a) VALUES (NEW.id)";
    bench.connect().exec(trigger).unwrap();
    let folder = dump(&bench, &["--triggers"]);
    bench.empty();
    // The file with the trigger is read before the rows, which are loaded without it.
    let outcome = bench.load(&folder, |options| options.tables = vec!["gen".to_owned()]);
    assert_eq!(outcome.unwrap().rows, 2);
    bench.empty();
    let outcome = bench
        .load(&folder, |options| {
            options.tables = vec!["it.p".to_owned(), "c".to_owned()];
        })
        .unwrap();
    let names: Vec<_> = outcome.tables.iter().map(|table| &table.table).collect();
    assert_eq!(names, ["c", "p"]);
    assert_eq!(outcome.rows, 5);
    bench.empty();
    bench.refuses(
        &folder,
        |options| options.tables = vec!["nothing".to_owned()],
        "no table of the dump is called nothing",
    );
}

#[test]
fn folders_that_are_not_whole_are_refused() {
    let bench = Bench::new(ServerKind::MariaDb1011);
    bench.fill(SETUP);
    let folder = dump(&bench, &[]);
    bench.empty();
    let metadata = fs::read_to_string(folder.join("metadata")).unwrap();
    let untouched = || {
        let mut conn = bench.connect();
        assert!(
            refloat_testkit::oracle::databases(&mut conn)
                .unwrap()
                .is_empty()
        );
    };
    fs::rename(folder.join("metadata"), folder.join("metadata.partial")).unwrap();
    bench.refuses(&folder, |_| {}, "metadata.partial");
    untouched();
    fs::remove_file(folder.join("metadata.partial")).unwrap();
    bench.refuses(&folder, |_| {}, "not a known kind of dump");
    fs::write(folder.join("metadata"), "Started dump at: x\n").unwrap();
    bench.refuses(&folder, |_| {}, "Finished dump at");
    fs::write(folder.join("metadata"), &metadata).unwrap();
    fs::write(folder.join("notes.txt"), "x").unwrap();
    bench.refuses(&folder, |_| {}, "notes.txt: this is not a file of mydumper");
    untouched();
    fs::remove_file(folder.join("notes.txt")).unwrap();
    // A file that ends in the middle of a statement.
    let rows = folder.join("it.a.sql");
    let text = fs::read(&rows).unwrap();
    fs::write(&rows, &text[..text.len() - 40]).unwrap();
    bench.refuses(&folder, |_| {}, "it.a.sql: input ends inside of a \" quote");
    bench.empty();
    // A statement that does not insert rows.
    let mut hostile = text.clone();
    hostile.extend_from_slice(b"DROP TABLE p;\n");
    fs::write(&rows, hostile).unwrap();
    bench.refuses(&folder, |_| {}, "a file of rows may hold only rows");
}

/// The row files of table `a`, sorted by name.
fn files_of_a(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("it.a.")).collect();
    names.sort_unstable();
    names
}

/// Key ranges without rows, which have no files; another table with several files; a name that ends
/// like a file number.
const NUMBERED: &str = "INSERT INTO a (id, t) VALUES (1000000, 'far'); \
    CREATE TABLE n (id INT PRIMARY KEY) SELECT id FROM a; \
    CREATE TABLE `c.00007` (id INT PRIMARY KEY); INSERT INTO `c.00007` VALUES (1);";

#[test]
fn files_that_are_missing_are_named_where_numbers_tell() {
    let bench = Bench::new(ServerKind::MariaDb1011);
    bench.fill(SETUP);
    bench.fill(NUMBERED);
    let wanted = bench.snapshot();
    let by_rows = ["--rows", "500", "--triggers", "--events", "--routines"];
    let by_size = [
        "--chunk-filesize",
        "1",
        "--statement-size",
        "20000",
        "--triggers",
        "--events",
        "--routines",
    ];
    for (args, gaps, gone, words) in [
        (
            &by_rows[..],
            true,
            "it.a.00000.sql",
            "is missing: it.a.00003",
        ),
        (
            &by_size[..],
            false,
            "it.a.00002.sql",
            "(or it.a.00000.sql, of a dump with --rows) is missing: it.a.00003",
        ),
    ] {
        bench.empty();
        bench.fill(SETUP);
        bench.fill(NUMBERED);
        let folder = dump(&bench, args);
        let names = files_of_a(&folder);
        let last = format!("it.a.{:05}.sql", names.len() - usize::from(gaps));
        assert_eq!(*names.last().unwrap() != last, gaps, "{names:?}");
        bench.loads_as(&folder, &wanted, |_| {});
        bench.empty();
        let path = folder.join(gone);
        fs::rename(&path, bench.path("kept.sql")).unwrap();
        bench.refuses(&folder, |_| {}, &format!("{gone} {words}.sql is there"));
        // Nothing counts the rows of the last file.
        fs::rename(bench.path("kept.sql"), &path).unwrap();
        fs::remove_file(folder.join(names.last().unwrap())).unwrap();
        let outcome = bench.load(&folder, |_| {}).unwrap();
        assert!(outcome.proven, "{:?}", outcome.proof);
    }
}

#[test]
fn a_refused_row_is_named_by_its_file_and_line() {
    let bench = Bench::new(ServerKind::MariaDb1011);
    bench.fill(SETUP);
    let folder = dump(&bench, &[]);
    bench.empty();
    let rows = folder.join("it.c.sql");
    let text = fs::read_to_string(&rows).unwrap();
    fs::write(&rows, text.replace("(3,1)", "(2,1)")).unwrap();
    // Rows come in key order: the second (2, …) is on the last line.
    let line = text.lines().count();
    bench.refuses(&folder, |_| {}, &format!("it.c.sql: line {line}, byte "));
}

#[test]
fn compressed_rows_that_are_cut_to_nothing_are_missed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file(
        "metadata",
        "[config]\nquote-character = BACKTICK\n# Finished dump at: 2026-01-01 00:00:00\n",
    );
    file("d-schema-create.sql", "CREATE DATABASE `d`;\n");
    file("d.t-schema.sql", "CREATE TABLE `t` (a INT);\n");
    let faults = || {
        let options = refloat_source::DelimitedOptions::default();
        refloat_source::inspect(folder.path(), None, &options, folder.path(), false)
            .unwrap()
            .faults
    };
    // On request, 1.x writes empty files for tables without rows.
    file("d.t.00000.sql", "");
    assert!(faults().is_empty(), "{:?}", faults());
    fs::remove_file(folder.path().join("d.t.00000.sql")).unwrap();
    file("d.t.00000.sql.gz", "");
    assert_eq!(faults().len(), 1);
    assert!(
        faults()[0].starts_with("d.t.00000.sql.gz: the file is empty"),
        "{:?}",
        faults()
    );
    // 0.10 counts nothing, and writes empty files on request only.
    fs::remove_file(folder.path().join("d.t.00000.sql.gz")).unwrap();
    file(
        "metadata",
        "Started dump at: 2026-01-01 00:00:00\nFinished dump at: 2026-01-01 00:00:01\n",
    );
    file("d.t.sql", "");
    let listed = faults();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(
        listed[0].starts_with("d.t.sql: the file is empty: mydumper 0.10 makes such a file only with --build-empty-files"),
        "{listed:?}"
    );
}
