//! Dump directories of mydumper 1.x, which is not installed here: written after its source code.

// Hazard of sources: L-70 fewer rows than the dump counts | , `shell`
// Hazard of sources: L-12 escapes, terminators and NULL in delimited rows; L-73 other delimiters
//   than the dump's | , `tab`, `delimited`
// Hazard of sources: L-11, L-131 rows that do not fit: fields, values, keys, each named by file,
//   line and byte | , `delimited`

use std::fs;
use std::path::{Path, PathBuf};

use refloat_load::WritePath;
use refloat_sandbox::ServerKind;

use crate::bench::Bench;

const SETUP: &str = r"
SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1, b VARBINARY(10), n DECIMAL(5,2), KEY v (v)) DEFAULT CHARSET utf8mb4;
INSERT INTO t VALUES (0, _latin1 0x636166E9, 0x00FF095C, 1.50), (1, NULL, NULL, NULL), (2, 'tab\tnl\nbs\\', '', 0), (3, '\\N', 'NULL', -1);
CREATE TABLE `o.dd` (a INT, v TEXT CHARACTER SET utf8mb4); INSERT INTO `o.dd` VALUES (1, 'é'), (2, '');
";

/// A directory of 1.x: `data` are the rows of `t` as written, and `options` belong to its
/// `LOAD DATA`.
fn folder(bench: &Bench, options: &str, data: &[u8], rows: u64) -> PathBuf {
    let folder = bench.path("dump");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &[u8]| fs::write(folder.join(name), text).unwrap();
    let head = "/*!40101 SET NAMES binary*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n";
    let create = bench
        .connect()
        .query("SHOW CREATE DATABASE IF NOT EXISTS it")
        .unwrap()
        .str(0, 1)
        .unwrap()
        .to_owned();
    write(
        "it-schema-create.sql",
        format!("{head}{create};\n").as_bytes(),
    );
    for (file, table) in [("t", "t"), ("mydumper_0", "o.dd")] {
        let create = bench
            .connect()
            .query(format!("SHOW CREATE TABLE it.`{table}`"))
            .unwrap()
            .str(0, 1)
            .unwrap()
            .to_owned();
        write(
            &format!("it.{file}-schema.sql"),
            format!("{head}{create};\n").as_bytes(),
        );
    }
    write(
        "it.t.00000.sql",
        format!("{head}LOAD DATA LOCAL INFILE 'it.t.00000.dat' INTO TABLE `t` {options};\n")
            .as_bytes(),
    );
    write("it.t.00000.dat", data);
    write(
        "it.mydumper_0.00000.sql",
        format!("{head}INSERT INTO `o.dd` VALUES(1,\"é\")\n,(2,\"\")\n;\n").as_bytes(),
    );
    write("metadata", format!("# Started dump at: 2026-01-01 00:00:00\n[config]\nquote-character = BACKTICK\nlocal-infile = 1\n\n[myloader_session_variables]\nSQL_MODE='NO_AUTO_VALUE_ON_ZERO' /*!40101\n\n[`it`.`mydumper_0`]\nreal_table_name=o.dd\nrows = 2\n\n[`it`.`t`]\nreal_table_name=t\nrows = {rows}\n[config]\nmax-statement-size = 5\nnum-sequences = 0\n# Finished dump at: 2026-01-01 00:00:00\n").as_bytes());
    folder
}

const TSV: &str = r"FIELDS TERMINATED BY '\t' ENCLOSED BY '' ESCAPED BY '\\' LINES STARTING BY '' TERMINATED BY '\n' (`id`,`v`,`b`,`n`)";
const ROWS: &[u8] = b"0\tcaf\xE9\t\\0\xFF\\t\\\\\t1.50\n1\t\\N\t\\N\t\\N\n2\ttab\\tnl\\nbs\\\\\t\t0.00\n3\t\\\\N\tNULL\t-1.00\n";

fn gzip(path: &Path) {
    crate::bench::run(std::process::Command::new("gzip").arg(path));
}

/// Compresses all files like `mydumper --compress=ZSTD`, which also puts the compressed names into
/// the statements.
fn zstd(folder: &Path) {
    let statement = folder.join("it.t.00000.sql");
    let text = fs::read_to_string(&statement).unwrap();
    fs::write(&statement, text.replace(".dat'", ".dat.zst'")).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != "metadata" {
            crate::bench::run(
                std::process::Command::new("zstd")
                    .args(["-q", "--rm"])
                    .arg(path),
            );
        }
    }
}

#[test]
fn load_data_files_are_read_as_their_statements_say() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let wanted = bench.snapshot();
        let hex = r"FIELDS TERMINATED BY '\t' ENCLOSED BY '' ESCAPED BY '\\' LINES STARTING BY '' TERMINATED BY '\n' (`id`,`v`,@b,`n`)SET `b`=UNHEX(@b)";
        let hex_rows: &[u8] = b"0\tcaf\xE9\t00FF095C\t1.50\n1\t\\N\t\\N\t\\N\n2\ttab\\tnl\\nbs\\\\\t\t0.00\n3\t\\\\N\t4E554C4C\t-1.00\n";
        let csv = r#"FIELDS TERMINATED BY ',' ENCLOSED BY '"' ESCAPED BY '\\' LINES STARTING BY '' TERMINATED BY '\n' IGNORE 1 LINES (`n`,`b`,`v`,`id`)"#;
        let csv_rows: &[u8] = b"\"n\",\"b\",\"v\",\"id\"\n\"1.50\",\"\\0\xFF\t\\\\\",\"caf\xE9\",0\n\\N,NULL,\\N,1\n\"0.00\",\"\",\"tab\tnl\nbs\\\\\",2\n\"-1.00\",\"NULL\",\"\\\\N\",3\n";
        for (options, rows) in [(TSV, ROWS), (hex, hex_rows), (csv, csv_rows)] {
            bench.empty();
            bench.fill(SETUP);
            let folder = folder(&bench, options, rows, 4);
            bench.loads_as(&folder, &wanted, |_| {});
            gzip(&folder.join("it.t.00000.dat"));
            bench.loads_as(&folder, &wanted, |_| {});
            let folder = self::folder(&bench, options, rows, 4);
            zstd(&folder);
            bench.loads_as(&folder, &wanted, |_| {});
        }
    }
}

#[test]
fn files_in_load_data_form_pass_through_on_mysql() {
    let bench = Bench::new(ServerKind::MySql97);
    bench.fill(SETUP);
    let folder = folder(&bench, TSV, ROWS, 4);
    bench.empty();
    // So few rows go by `INSERT` by default.
    let outcome = bench.load(&folder, |options| {
        options.write_path = WritePath::LoadData;
    });
    let outcome = outcome.unwrap();
    assert!(outcome.proven);
    assert_eq!(outcome.write_paths, [(WritePath::LoadData, 6)]);
}

#[test]
fn rows_that_do_not_fit_are_refused_with_their_place() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let made = |rows: &[u8], count| folder(&bench, TSV, rows, count);
        // Fewer rows than the metadata says.
        let source = made(ROWS, 5);
        bench.empty();
        bench.refuses(
            &source,
            |_| {},
            "table it.t: the source says that it has 5 rows, but its files hold 4",
        );
        for (rows, count, words) in [
            // The number of fields, in the first row and in a later one.
            (
                &b"0\tx\ty\n"[..],
                1,
                "it.t.00000.dat: line 1, byte 0: table it.t: the row has 3 fields where 4 are expected",
            ),
            (
                b"0\tx\ty\t1\n1\tx\\\n\ty\t1\n2\tx\ty\t1\t5\n",
                3,
                "it.t.00000.dat: line 4, byte 18: a row has 5 fields where 4 are expected",
            ),
            (
                b"0\tx\ty\t1\n1\tx\n",
                2,
                "it.t.00000.dat: line 2, byte 8: a row has 2 fields where 4 are expected",
            ),
            // Values that the column does not accept, and a duplicate key.
            (
                b"0\tx\ty\t1\nz\tx\ty\t1\n",
                2,
                "it.t.00000.dat: line 2, byte 8: ",
            ),
            (
                b"0\tx\ty\t1\n0\tx\ty\t1\n",
                2,
                "it.t.00000.dat: line 2, byte 8: ",
            ),
            // Truncated.
            (
                b"0\tx\ty\t1\n1\tx\ty\t1",
                2,
                "the file ends in the middle of a row",
            ),
        ] {
            bench.empty();
            bench.fill(SETUP);
            let source = made(rows, count);
            bench.empty();
            bench.refuses(&source, |_| {}, words);
        }
        bench.empty();
        bench.fill(SETUP);
        let source = made(ROWS, 4);
        bench.empty();
        fs::remove_file(source.join("it.t.00000.dat")).unwrap();
        bench.refuses(&source, |_| {}, "it.t.00000.dat is missing");
    }
}

/// A directory with two tables, with the given rows.
fn two_tables(bench: &Bench, rows: [&str; 2]) -> PathBuf {
    let folder = bench.path("two");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let head = "/*!40101 SET NAMES binary*/;\n";
    write("it-schema-create.sql", "CREATE DATABASE `it`;\n");
    write(
        "it.j-schema.sql",
        &format!("{head}CREATE TABLE `j` (`a` int, `j` json);\n"),
    );
    write(
        "it.k-schema.sql",
        &format!("{head}CREATE TABLE `k` (`a` int, `b` int);\n"),
    );
    write(
        "it.j.00000.sql",
        &format!("{head}INSERT INTO `j` VALUES{};\n", rows[0]),
    );
    write(
        "it.k.00000.sql",
        &format!("{head}INSERT INTO `k` VALUES{};\n", rows[1]),
    );
    write(
        "metadata",
        "# Started dump at: x\n[config]\nquote-character = BACKTICK\n\n[`it`.`j`]\nreal_table_name=j\nrows = 2\n\n[`it`.`k`]\nreal_table_name=k\nrows = 3\n# Finished dump at: x\n",
    );
    folder
}

#[test]
fn json_as_mydumper_writes_it_is_no_reason_to_wait() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        let rows = [
            r#"(1,CONVERT("{\"k\": \"é)\\n\"}" USING UTF8MB4)),(2,NULL)"#,
            "(1,2),(3,4),(5,6)",
        ];
        let outcome = bench.load(&two_tables(&bench, rows), |_| {}).unwrap();
        assert!(outcome.proven);
        let value = bench
            .connect()
            .query_value("SELECT HEX(JSON_UNQUOTE(JSON_EXTRACT(j, '$.k'))) FROM it.j WHERE a = 1")
            .unwrap();
        assert_eq!(value.as_deref(), Some("C3A9290A"));
    }
}

#[test]
fn rows_that_only_one_connection_can_know_wait_for_all_others() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        let rows = [
            "(1,NULL),(2,NULL)",
            "(1,2),(2,(SELECT COUNT(*) FROM j)),(3,1+1)",
        ];
        let outcome = bench.load(&two_tables(&bench, rows), |_| {}).unwrap();
        assert!(outcome.proven);
        assert_eq!(outcome.rows, 5);
    }
}

#[test]
fn a_sql_mode_that_the_server_does_not_know_is_refused_before_anything_is_there() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let folder = folder(&bench, TSV, ROWS, 4);
        let metadata = folder.join("metadata");
        let text = fs::read_to_string(&metadata).unwrap();
        fs::write(
            &metadata,
            text.replace("SQL_MODE='", "SQL_MODE='ELSEWHERE,"),
        )
        .unwrap();
        bench.empty();
        let words = "sessions of the dump: server error 1231 (42000): Variable 'sql_mode' can't be set to the value of 'ELSEWHERE'";
        bench.refuses(&folder, |_| {}, words);
        let made = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'it'";
        let made = bench.connect().query_value(made).unwrap();
        assert_eq!(made.as_deref(), Some("0"), "{kind}");
        // A word that is no text stays one.
        let session = fs::read_to_string(folder.join("it.t-schema.sql")).unwrap();
        let session = format!("SET sql_mode = DEFAULT;\n{session}");
        fs::write(folder.join("it.t-schema.sql"), session).unwrap();
        let outcome = bench.load(&folder, |options| {
            let left_out = ("ELSEWHERE".to_owned(), String::new());
            options.map_sql_mode.extend([left_out]);
        });
        assert!(outcome.unwrap().proven);
    }
}
