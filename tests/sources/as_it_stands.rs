//! Files in `LOAD DATA` format: MySQL gets their text unchanged; for MariaDB it is decoded into
//! array-bound values.

use std::fs;
use std::path::{Path, PathBuf};

use refloat_dump::{DumpOptions, dump};
use refloat_load::WritePath;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::ServerKind;
use refloat_testkit::oracle::{Snapshot, differences};
use refloat_testkit::servers;

use crate::bench::{Adjust, Bench, DATABASE};
use crate::tab;

/// The number of rows in the table.
const ROWS: u64 = 8000;
/// Bytes that need an escape, NULL, bytes without a character set, text in another character set
/// than the session's.
const SETUP: &str = r"
SET NAMES utf8mb4; SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v VARCHAR(80) CHARACTER SET utf8mb4, l VARCHAR(20) CHARACTER SET latin1, b VARBINARY(20),
    n DECIMAL(9,2), ts TIMESTAMP NULL, KEY v (v)) DEFAULT CHARSET utf8mb4;
CREATE TEMPORARY TABLE ten (n INT); INSERT INTO ten VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
CREATE TEMPORARY TABLE hundred SELECT n FROM ten; CREATE TEMPORARY TABLE thousand SELECT n FROM ten; CREATE TEMPORARY TABLE more SELECT n FROM ten WHERE n < 8;
INSERT INTO t SELECT a.n + 10*b.n + 100*c.n + 1000*d.n, ELT(1 + a.n, 'tab\tnewline\nback\\slash', NULL, '', '\\N', 'NULL', 'é😀', '\r\n', '\0', '\Z', 'it''s'),
    IF(a.n, 'café', NULL), UNHEX(CONCAT('00FF095C0A27', LPAD(HEX(b.n), 2, '0'))), c.n / 4, IF(a.n, '2024-01-01 10:00:00', NULL)
    FROM ten a, hundred b, thousand c, more d;
";

/// The folder of a new dump, in place of an earlier one.
fn refloat_dump(bench: &Bench) -> PathBuf {
    let out = bench.path("own");
    let _ = fs::remove_dir_all(&out);
    let options = DumpOptions::new(servers::target(bench.server), &out);
    let run = Run {
        dir: RunDir::create(&bench.path("runs"), "dump").unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    };
    assert!(dump(&options, &run).is_ok());
    out
}

/// A directory as mydumper writes it with `LOAD DATA`: the statements, beside the data files of
/// `--tab`.
fn mydumper(bench: &Bench, tab: &Path) -> PathBuf {
    let folder = bench.path("mydumper");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &[u8]| fs::write(folder.join(name), text).unwrap();
    let head = "/*!40101 SET NAMES binary*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n";
    let mut conn = bench.connect();
    for (statement, name) in [
        ("DATABASE IF NOT EXISTS it", "it-schema-create.sql"),
        ("TABLE it.t", "it.t-schema.sql"),
    ] {
        let create = conn.query(format!("SHOW CREATE {statement}")).unwrap();
        let create = create.str(0, 1).unwrap();
        write(name, format!("{head}{create};\n").as_bytes());
    }
    write("it.t.00000.sql", format!("{head}LOAD DATA LOCAL INFILE 'it.t.00000.dat' INTO TABLE `t` CHARACTER SET binary FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '\\\\' LINES STARTING BY '' TERMINATED BY '\\n' (`id`,`v`,`l`,`b`,`n`,`ts`);\n").as_bytes());
    write("it.t.00000.dat", &fs::read(tab.join("t.txt")).unwrap());
    write(
        "metadata",
        b"Started dump at: 2026-01-01 00:00:00\nFinished dump at: 2026-01-01 00:00:01\n",
    );
    folder
}

/// A counter of the whole server, which does nothing else in the meantime.
fn status(bench: &Bench, name: &str) -> u64 {
    let shown = bench
        .connect()
        .query(format!("SHOW GLOBAL STATUS LIKE '{name}'"))
        .unwrap();
    shown.u64(0, 1).unwrap()
}

/// Loads into an empty server on its best path, and compares. `wanted`: the fewest bytes that MySQL
/// must receive, and the snapshot expected afterwards.
#[track_caller]
fn goes_as_it_stands(bench: &Bench, source: &Path, adjust: Adjust, wanted: (u64, &Snapshot)) {
    let (bytes, wanted) = wanted;
    bench.empty();
    let (loads, received) = (status(bench, "Com_load"), status(bench, "Bytes_received"));
    let outcome = bench.load(source, adjust);
    let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let loads = status(bench, "Com_load") - loads;
    let received = status(bench, "Bytes_received") - received;
    let about = format!("{}: {}", bench.kind, source.display());
    assert!(outcome.proven, "{about}: {:?}", outcome.proof);
    if bench.kind.is_mariadb() {
        assert_eq!(outcome.write_paths, [(WritePath::Bulk, ROWS)], "{about}");
        assert_eq!(outcome.as_it_stands_rows, 0, "{about}");
        assert_eq!(loads, 0, "{about}: LOAD DATA was run");
    } else {
        assert_eq!(
            outcome.write_paths,
            [(WritePath::LoadData, ROWS)],
            "{about}"
        );
        assert_eq!(outcome.as_it_stands_rows, ROWS, "{about}");
        assert!(loads > 0, "{about}: no LOAD DATA was run");
        assert!(received >= bytes, "{about}: {received} of {bytes} bytes");
    }
    let found = differences(wanted, &bench.snapshot());
    assert!(found.is_empty(), "{about}: {}", found[0]);
}

#[test]
fn files_of_dump_tools_go_by_the_best_path_of_each_vendor() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let wanted = bench.snapshot();
        let (refloat, tab) = (refloat_dump(&bench), tab::dump(&bench, &[], false));
        let mydumper = mydumper(&bench, &tab);
        let bytes = fs::metadata(tab.join("t.txt")).unwrap().len();
        let names_its_database: Adjust = |_| {};
        let names_none: Adjust = |options| options.database = Some(DATABASE.to_owned());
        for (source, adjust) in [
            (refloat, names_its_database),
            (mydumper, names_its_database),
            (tab, names_none),
        ] {
            goes_as_it_stands(&bench, &source, adjust, (bytes, &wanted));
        }
    }
}

/// Escapes that `LOAD DATA` accepts but does not need show whether the server got the file's own
/// bytes.
#[test]
fn mysql_gets_the_very_bytes_of_a_file() {
    let bench = Bench::new(ServerKind::MySql97);
    bench.fill("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200) CHARACTER SET utf8mb4)");
    // Every letter has an escape that it does not need, so half of the bytes carry nothing.
    let text = |quote: &str| -> String {
        let word = "\\x".repeat(100);
        let row = |id| format!("{id}\t{quote}{word}{quote}\n");
        (0..ROWS).map(row).collect()
    };
    let path = bench.path("rows.txt");
    for (quote, as_it_stands, adjust) in [
        (
            "",
            ROWS,
            (|options| options.delimited.table = Some("it.t".to_owned())) as Adjust,
        ),
        ("\"", 0, |options| {
            options.delimited.table = Some("it.t".to_owned());
            options.delimited.fields_enclosed_by = Some(b"\"".to_vec());
        }),
    ] {
        bench.fill("TRUNCATE t");
        let text = text(quote);
        fs::write(&path, &text).unwrap();
        let received = status(&bench, "Bytes_received");
        let outcome = bench.load(&path, adjust).unwrap();
        let received = status(&bench, "Bytes_received") - received;
        assert!(outcome.proven);
        assert_eq!(outcome.write_paths, [(WritePath::LoadData, ROWS)]);
        assert_eq!(outcome.as_it_stands_rows, as_it_stands);
        let bytes = text.len() as u64;
        if as_it_stands > 0 {
            assert!(received >= bytes, "{received} of {bytes} bytes");
        } else {
            assert!(received < bytes * 2 / 3, "{received} of {bytes} bytes");
        }
        let wrong = bench
            .connect()
            .query_value("SELECT COUNT(*) FROM it.t WHERE v <> REPEAT('x', 100)")
            .unwrap();
        assert_eq!(wrong.as_deref(), Some("0"));
    }
}

/// Every phpMyAdmin dump says `SET NAMES utf8`. It must still use the fastest path of each vendor.
#[test]
fn rows_in_utf8_go_by_the_best_path_of_each_vendor() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        let path = if kind.is_mariadb() {
            WritePath::Bulk
        } else {
            WritePath::LoadData
        };
        let rows: Vec<String> = (0..ROWS).map(|id| format!("({id},'Größe {id}')")).collect();
        let rows = rows.join(",");
        for engine in ["InnoDB", "MyISAM", "MEMORY"] {
            bench.empty();
            let text = format!(
                "SET NAMES utf8;\nCREATE TABLE `t` (`id` int, `v` varchar(40)) ENGINE={engine} DEFAULT CHARSET=utf8;\nINSERT INTO `t` VALUES {rows};\n"
            );
            let file = bench.path("dump.sql");
            fs::write(&file, text).unwrap();
            let adjust: Adjust = |options| options.database = Some(DATABASE.to_owned());
            let outcome = bench.load(&file, adjust).unwrap();
            assert!(outcome.proven, "{kind} {engine}");
            assert_eq!(outcome.write_paths, [(path, ROWS)], "{kind} {engine}");
        }
    }
}
