//! Single files of delimited text.

// Hazard of sources: L-139 rows added to others only when asked to

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use refloat_load::ExistingPolicy;
use refloat_sandbox::ServerKind;
use refloat_source::SourceFormat;

use crate::bench::{Adjust, Bench};

const TABLE: &str = "SET NAMES utf8mb4; CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET latin1, note TEXT CHARACTER SET utf8mb4, n DECIMAL(6,2));";

fn made(bench: &Bench, name: &str, text: &[u8]) -> PathBuf {
    let path = bench.path(name);
    fs::write(&path, text).unwrap();
    path
}

/// Loads a file into an empty table, in every way, and compares it with the same rows inserted.
#[track_caller]
fn same(bench: &Bench, text: &[u8], rows: &str, adjust: Adjust) {
    bench.empty();
    bench.fill(format!("{TABLE} INSERT INTO t VALUES {rows};"));
    let wanted = bench.snapshot();
    let path = made(bench, "rows.txt", text);
    bench.empty();
    bench.fill(TABLE);
    let outcome = bench.load(&path, adjust).unwrap();
    assert!(outcome.proven, "{:?}", outcome.proof);
    let found = refloat_testkit::oracle::differences(&wanted, &bench.snapshot());
    assert!(found.is_empty(), "{}", found[0]);
    bench.is_same(&path, adjust);
}

#[test]
fn files_are_read_as_the_options_say() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        let rows = "(1, 'café', 'a,\"b\"\\nc', 1.5), (2, NULL, '', NULL)";
        same(
            &bench,
            "1\tcafé\ta,\"b\"\\nc\t1.50\n2\t\\N\t\t\\N\n".as_bytes(),
            rows,
            |options| options.delimited.table = Some("it.t".to_owned()),
        );
        // As spreadsheets write it: a byte order mark, column names, doubled quotes, no newline at
        // the end.
        same(
            &bench,
            "\u{FEFF}note,id,x,name,n\r\n\"a,\"\"b\"\"\nc\",1,9,café,1.5\r\n\"\",2,9,,".as_bytes(),
            rows,
            |options| {
                options.source_format = Some(SourceFormat::Delimited);
                options.delimited.table = Some("t".to_owned());
                options.database = Some("it".to_owned());
                options.delimited.csv = true;
                options.delimited.skip_lines = 1;
                options.delimited.null = Some(Vec::new());
                options.delimited.columns = Some(
                    ["note", "id", "@x", "name", "n"]
                        .map(str::to_owned)
                        .to_vec(),
                );
            },
        );
        same(
            &bench,
            b"id;name;note;n\n1;caf\xE9;a,\"b\"\\nc;1.50\n2;NULL;;NULL\n",
            rows,
            |options| {
                options.delimited.table = Some("it.t".to_owned());
                options.delimited.fields_terminated_by = Some(b";".to_vec());
                options.delimited.header = true;
                options.delimited.null = Some(b"NULL".to_vec());
                options.delimited.charset = Some("latin1".to_owned());
            },
        );
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(TABLE);
        let adjust: Adjust = |options| options.delimited.table = Some("it.t".to_owned());
        let path = made(&bench, "rows.txt", b"1,a,b,1\n");
        bench.refuses(
            &path,
            adjust,
            "rows.txt: line 1, byte 0: table it.t: the row has 1 fields where 4 are expected",
        );
        let path = made(&bench, "rows.txt", b"id\tname\tnothing\tn\n1\ta\tb\t1\n");
        bench.refuses(
            &path,
            |options| {
                options.delimited.table = Some("it.t".to_owned());
                options.delimited.header = true;
            },
            "it has no column nothing",
        );
        let path = made(&bench, "rows.txt", b"1\ta\tb\t1\n2\ta\tb\t12345678\n");
        bench.refuses(&path, adjust, "rows.txt: line 2, byte 8: ");
        bench.refuses(
            &path,
            |options| options.delimited.table = Some("it.nowhere".to_owned()),
            "it.nowhere",
        );
        bench.refuses(
            &path,
            |options| options.source_format = Some(SourceFormat::Delimited),
            "--table must name",
        );
    }
}

#[test]
fn files_without_a_byte_have_no_rows_unless_they_are_compressed_or_pipes() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(TABLE);
        let adjust: Adjust = |options| options.delimited.table = Some("it.t".to_owned());
        let outcome = bench.load(&made(&bench, "rows.txt", b""), adjust).unwrap();
        assert!(outcome.proven && outcome.rows == 0);
        let lost = "rows.txt.gz: the file is empty, and gzip writes some bytes even of nothing";
        bench.is_not_whole(&made(&bench, "rows.txt.gz", b""), adjust, lost);
        // A pipe has no size.
        let pipe = bench.path("pipe.gz");
        crate::bench::run(Command::new("mkfifo").arg(&pipe));
        // A process, because it can be killed if the load fails before it opens the pipe.
        let mut writer = Command::new("sh")
            .args(["-c", r#"printf '1\ta\tb\t1\n2\ta\tb\t1\n' >"$0""#])
            .arg(&pipe)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let outcome = bench.load(&pipe, adjust);
        writer.kill().unwrap();
        writer.wait().unwrap();
        let outcome = outcome.unwrap();
        assert!(outcome.proven && outcome.rows == 2, "{}", outcome.rows);
    }
}

#[test]
fn rows_are_added_to_others_only_when_asked_to() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(format!("{TABLE} INSERT INTO t VALUES (9, 'x', 'y', 1);"));
        let path = made(&bench, "rows.txt", b"1\ta\tb\t1\n");
        bench.refuses(
            &path,
            |options| options.delimited.table = Some("it.t".to_owned()),
            "already holds rows",
        );
        // To a table that gets no rows, none are added.
        let empty = made(&bench, "none.txt", b"");
        let outcome = bench.load(&empty, |options| {
            options.delimited.table = Some("it.t".to_owned());
        });
        assert_eq!(outcome.unwrap().rows, 0);
        let outcome = bench
            .load(&path, |options| {
                options.delimited.table = Some("it.t".to_owned());
                options.existing = ExistingPolicy::Append;
            })
            .unwrap();
        assert!(outcome.proven);
        assert_eq!(outcome.rows, 1);
    }
}

#[test]
fn numbers_that_the_server_gives_follow_the_rows() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill("CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, v INT);");
        let numbers: Vec<String> = (1..=3000).map(|v| v.to_string()).collect();
        let text = numbers.join("\n");
        let path = made(&bench, "rows.txt", text.as_bytes());
        let outcome = bench
            .load(&path, |options| {
                options.delimited.table = Some("it.s".to_owned());
                options.delimited.columns = Some(vec!["v".to_owned()]);
                options.chunk_rows = Some(100);
            })
            .unwrap();
        assert!(outcome.proven);
        let wrong = bench
            .connect()
            .query_value("SELECT COUNT(*) FROM it.s a JOIN it.s b ON a.id < b.id AND a.v >= b.v")
            .unwrap();
        assert_eq!(wrong.as_deref(), Some("0"));
    }
}
