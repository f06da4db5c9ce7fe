//! The manifest of a dump is trusted only if it is unchanged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_sandbox::{Instance, ServerKind};

use crate::support::{Desk, Run, dump, edit_manifest, finish, shared};

/// A dump of two tables with the same columns: two rows in `t1`, one in `t3`.
fn dump_of(desk: &Desk, server: &Instance) -> PathBuf {
    let tables = "CREATE TABLE t1 (a INT, b INT);\nINSERT INTO t1 VALUES (1,10),(2,20);\nCREATE TABLE t3 (a INT, b INT);\nINSERT INTO t3 VALUES (3,30);\n";
    desk.load_text(dump(tables), server, &[]).exits(0);
    let out = desk.path("dump");
    let mut command = desk.refloat(["dump", "--from", &server.url(), "--databases", &desk.db]);
    command.arg("--out").arg(&out);
    finish(command).exits(0);
    out
}

fn load(desk: &Desk, source: &Path, server: &Instance) -> Run {
    let mut command = desk.refloat(["load"]);
    command.arg(source);
    finish_with(command, &["--to", &server.url(), "--replace"])
}

fn inspect(desk: &Desk, source: &Path) -> Run {
    let mut command = desk.refloat(["inspect", "--checksums"]);
    command.arg(source);
    finish(command)
}

fn verify(desk: &Desk, source: &Path, server: &Instance) -> Run {
    let mut command = desk.refloat(["verify"]);
    command.arg(source).arg(server.url());
    finish(command)
}

fn finish_with(mut command: Command, more: &[&str]) -> Run {
    command.args(more);
    finish(command)
}

#[test]
fn a_manifest_that_was_changed_is_refused_by_every_reader() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let out = dump_of(&desk, server);
    let path = out.join("manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    let tar = desk.path("dump.tar");
    for (from, to) in [
        // Rows would go into another table, or be swapped.
        ("\"name\": \"t1\"", "\"name\": \"t3\""),
        ("\"name\": \"a\"", "\"name\": \"b\""),
        ("\"binlog_position\": ", "\"binlog_position\": 1"),
        ("\"gtid\": ", "\"gtie\": "),
        ("\"checksum\": ", "\"checksun\": "),
    ] {
        let changed = whole.replacen(from, to, 1);
        assert_ne!(whole, changed, "{from}");
        fs::write(&path, changed).unwrap();
        let mut pack = Command::new("tar");
        pack.arg("-cf").arg(&tar).arg("-C").arg(&out).arg(".");
        assert!(pack.status().unwrap().success());
        for source in [&out, &tar] {
            let loaded = load(&desk, source, server).exits(3);
            let parts = ["manifest.json", "damaged", "fetch the dump again"];
            let runs = [
                loaded,
                inspect(&desk, source).exits(3),
                verify(&desk, source, server).exits(1),
            ];
            for run in runs {
                parts.iter().fold(run, |run, words| run.says(words));
            }
        }
    }
    assert_eq!(desk.rows(server, "t1"), Some(2), "no load has touched it");
    fs::write(&path, whole).unwrap();
    load(&desk, &out, server).exits(0).never_says("no checksum");
    inspect(&desk, &out)
        .exits(0)
        .says("every file is the one that was written");
    verify(&desk, &out, server)
        .exits(0)
        .never_says("no checksum");
}

#[test]
fn a_manifest_with_two_tables_of_one_name_is_refused() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let out = dump_of(&desk, server);
    edit_manifest(&out, |text| {
        text.replacen("\"name\": \"t1\"", "\"name\": \"t3\"", 1)
    });
    let message = format!("it names the table {}.t3 twice", desk.db);
    load(&desk, &out, server).exits(3).says(&message);
    inspect(&desk, &out).exits(3).says(&message);
    verify(&desk, &out, server).exits(1).says(&message);
}
