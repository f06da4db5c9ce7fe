//! Dump directories of MySQL Shell, which is not installed here: written after its source code.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use refloat_sandbox::ServerKind;

use crate::bench::{Bench, run};

const SETUP: &str = r"
SET NAMES utf8mb4; SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1, b BLOB, n DECIMAL(5,2), ts TIMESTAMP NULL, KEY v (v)) DEFAULT CHARSET utf8mb4;
SET SESSION time_zone = '+00:00';
INSERT INTO t VALUES (0, 'café', 0x00FF095C, 1.50, '2024-01-01 10:00:00'), (1, NULL, NULL, NULL, NULL), (2, 'tab\tnl\nbs\\', '', 0, NULL), (3, '\\N', 'NULL', -1, NULL);
CREATE TABLE `o@d` (a INT); CREATE VIEW w AS SELECT id FROM t; CREATE VIEW a AS SELECT * FROM w;
CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC RETURN x + 1;
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.n = 9;
";

/// Definitions by the server's dump tool, which are like those in the Shell's files.
pub fn definitions(bench: &Bench, args: &[&str]) -> String {
    let mut command = bench.server.dump_command().unwrap();
    if !bench.kind.is_mariadb() {
        command.arg("--set-gtid-purged=OFF");
    }
    let output = command
        .args(["--skip-comments", "--compact", "--no-data"])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn folder(bench: &Bench, decode: &str, blob: [&str; 2], pack: &str) -> PathBuf {
    let folder = bench.path("dump");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let head = "-- MySQLShell dump 2.0.1  Distrib Ver 9.2.0 for Linux on x86_64 - for MySQL 9.2.0 (Source distribution), for Linux (x86_64)\n--\n";
    write(
        "@.json",
        r#"{"dumper":"mysqlsh Ver 9.2.0","version":"2.0.1","origin":"dumpSchemas","schemas":["it"],"basenames":{"it":"it"},"defaultCharacterSet":"utf8mb4","tzUtc":true,"consistent":true,"begin":"2026-01-01 00:00:00"}"#,
    );
    write("@.sql", head);
    write("@.post.sql", head);
    let create = bench
        .connect()
        .query("SHOW CREATE DATABASE IF NOT EXISTS it")
        .unwrap();
    let routine = definitions(
        bench,
        &["--routines", "--no-create-info", "--skip-triggers", "it"],
    );
    write(
        "it.sql",
        &format!("{head}{};\n{routine}", create.str(0, 1).unwrap()),
    );
    write(
        "it.json",
        r#"{"schema":"it","includesDdl":true,"includesViewsDdl":true,"includesData":true,"tables":["t","o@d"],"views":["a","w"],"events":[],"functions":["f"],"procedures":[],"basenames":{"t":"it@t","o@d":"it@o%40d","a":"it@a","w":"it@w"}}"#,
    );
    write(
        "it@t.sql",
        &format!(
            "{head}{}",
            definitions(bench, &["--skip-triggers", "it", "t"])
        ),
    );
    write(
        "it@t.triggers.sql",
        &format!(
            "{head}{}",
            definitions(bench, &["--triggers", "--no-create-info", "it", "t"])
        ),
    );
    write(
        "it@o%40d.sql",
        &format!("{head}{}", definitions(bench, &["it", "o@d"])),
    );
    for view in ["a", "w"] {
        write(
            &format!("it@{view}.pre.sql"),
            &format!(
                "/*!50001 DROP VIEW IF EXISTS `{view}`*/;\n/*!50001 CREATE VIEW `{view}` AS SELECT 1 AS `id`*/;\n"
            ),
        );
        let create = bench
            .connect()
            .query(format!("SHOW CREATE VIEW it.{view}"))
            .unwrap();
        write(
            &format!("it@{view}.sql"),
            &format!(
                "/*!50001 DROP VIEW IF EXISTS `{view}`*/;\n{};\n",
                create.str(0, 1).unwrap()
            ),
        );
    }
    let table = |name: &str, columns: &str| {
        format!(
            r#"{{"options":{{"schema":"it","table":"{name}","columns":{columns},{decode}"defaultCharacterSet":"utf8mb4","fieldsTerminatedBy":"\t","fieldsEnclosedBy":"","fieldsOptionallyEnclosed":false,"fieldsEscapedBy":"\\","linesTerminatedBy":"\n"}},"triggers":[],"includesData":true,"includesDdl":true,"extension":"tsv{pack}","chunking":true,"compression":"x","primaryIndex":[],"partitions":[],"basenames":{{}}}}"#
        )
    };
    write("it@t.json", &table("t", r#"["id","v","b","n","ts"]"#));
    write("it@o%40d.json", &table("o@d", r#"["a"]"#));
    let [one, two] = blob;
    write(
        "it@t@0.tsv",
        &format!("0\tcafé\t{one}\t1.50\t2024-01-01 10:00:00\n1\t\\N\t\\N\t\\N\t\\N\n"),
    );
    write(
        "it@t@@1.tsv",
        &format!("2\ttab\\tnl\\nbs\\\\\t\t0.00\t\\N\n3\t\\\\N\t{two}\t-1.00\t\\N\n"),
    );
    write("it@o%40d@@0.tsv", "");
    for name in ["it@t@0.tsv", "it@t@@1.tsv", "it@o%40d@@0.tsv"] {
        let path = folder.join(name);
        match pack {
            ".zst" => {
                let bytes = fs::metadata(&path).unwrap().len();
                run(Command::new("zstd").args(["-q", "--rm"]).arg(&path));
                let index = folder.join(format!("{name}.zst.idx"));
                fs::write(index, bytes.to_be_bytes()).unwrap();
            }
            ".gz" => run(Command::new("gzip").arg(&path)),
            _ => {}
        }
    }
    write(
        "@.done.json",
        r#"{"end":"2026-01-01 00:00:01","dataBytes":1,"tableDataBytes":{},"tableRows":{"it":{"t":4,"o@d":0}},"chunkFileBytes":{}}"#,
    );
    folder
}

#[test]
fn shell_folders_come_back() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        for (decode, blob, pack) in [
            (
                r#""decodeColumns":{"b":"FROM_BASE64"},"#,
                ["AP8JXA==", "TlVMTA=="],
                ".zst",
            ),
            (
                r#""decodeColumns":{"b":"UNHEX"},"#,
                ["00FF095C", "4E554C4C"],
                ".gz",
            ),
            ("", ["\\0x", "NULL"], ""),
        ] {
            bench.empty();
            bench.fill(SETUP);
            if decode.is_empty() {
                bench.fill("UPDATE t SET b = 0x0078 WHERE id = 0;");
            }
            let wanted = bench.snapshot();
            let folder = folder(&bench, decode, blob, pack);
            bench.loads_as(&folder, &wanted, |_| {});
        }
    }
}

#[test]
fn shell_folders_that_are_not_whole_are_refused() {
    let bench = Bench::new(ServerKind::MySql97);
    bench.fill(SETUP);
    let folder = folder(&bench, "", ["x", "y"], "");
    bench.empty();
    let chunk = folder.join("it@t@@1.tsv");
    let text = fs::read(&chunk).unwrap();
    fs::remove_file(&chunk).unwrap();
    bench.refuses(&folder, |_| {}, "it@t@1.tsv is missing");
    fs::write(
        &chunk,
        &text[..=text.iter().position(|byte| *byte == b'\n').unwrap()],
    )
    .unwrap();
    bench.refuses(
        &folder,
        |_| {},
        "the source says that it has 4 rows, but its files hold 3",
    );
    bench.empty();
    fs::write(&chunk, text).unwrap();
    fs::write(folder.join("it@t@7.tsv"), "").unwrap();
    bench.refuses(
        &folder,
        |_| {},
        "it@t@7.tsv: the metadata of the dump does not name",
    );
    fs::remove_file(folder.join("it@t@7.tsv")).unwrap();
    fs::remove_file(folder.join("@.done.json")).unwrap();
    bench.refuses(&folder, |_| {}, "@.done.json is missing");
}
