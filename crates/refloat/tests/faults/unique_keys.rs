//! Unique keys under concurrent writers: no row is there twice, none is lost, and no check of the
//! server is switched off for it.

// Hazard of faults: L-96, L-140, L-165 unique keys under 16 writers, a duplicate value, checks that
//   stay on for all (by the general log)

use std::fmt::Write as _;

use refloat_testkit::servers;

use crate::support::{BOTH, Desk, ask, dump, finish, place, shared};

/// Rows of the table that all threads write into.
const ROWS: u64 = 3000;

/// Rows in the order of the primary key, which is not the order of the other keys.
fn scattered(rows: u64) -> String {
    let mut text = String::from(
        "CREATE TABLE `t` (`id` int NOT NULL, `a` int NOT NULL, `b` varchar(40) NOT NULL, PRIMARY KEY (`id`), UNIQUE KEY `a` (`a`), \
         UNIQUE KEY `b` (`b`)) ENGINE=InnoDB;\nINSERT INTO `t` VALUES\n",
    );
    for id in 0..rows {
        let end = if id + 1 == rows { ";\n" } else { ",\n" };
        let _ = write!(
            text,
            "({id},{},'{:032}'){end}",
            id * 7919 % rows,
            id * 6007 % rows
        );
    }
    text
}

#[test]
fn sixteen_writers_into_one_table_with_unique_keys() {
    for kind in BOTH {
        let server = shared(kind);
        let mut desk = Desk::new();
        let file = desk.file("dump.sql", dump(&scattered(ROWS)));
        for path in ["auto", "load-data", "insert"] {
            desk.next();
            let more = [
                "--threads",
                "16",
                "--table-threads",
                "16",
                "--indexes",
                "inline",
                "--chunk-rows",
                "40",
                "--write-path",
                path,
            ];
            desk.load(&file, server, &more)
                .exits(0)
                .says("done and proven");
            for key in ["PRIMARY", "a", "b"] {
                let count = desk.ask(
                    server,
                    &format!("SELECT COUNT(*) FROM @db.t FORCE INDEX (`{key}`)"),
                );
                assert_eq!(count, ROWS.to_string(), "{kind} {path} {key}");
            }
            assert!(
                desk.ask(server, "CHECK TABLE @db.t EXTENDED")
                    .contains("OK")
            );
            desk.ask(server, "DROP DATABASE @db");
        }
    }
}

/// A value that is there twice, far apart, is an error whether or not the key exists while rows are
/// loaded, on every write path.
#[test]
fn a_value_twice_is_never_let_in() {
    for kind in BOTH {
        let server = shared(kind);
        let mut desk = Desk::new();
        let text = dump(
            &scattered(ROWS)
                .replace(";\n", &format!(",\n({ROWS},0,'twice');\n"))
                .replacen(",\n(3000,0,'twice');\nINSERT", ";\nINSERT", 1),
        );
        assert_eq!(text.matches("'twice'").count(), 1);
        let file = desk.file("dump.sql", &text);
        for (indexes, paths) in [
            ("inline", &["auto", "load-data", "insert"][..]),
            ("deferred", &["auto"]),
        ] {
            for path in paths {
                desk.next();
                let run = desk
                    .load(
                        &file,
                        server,
                        &[
                            "--indexes",
                            indexes,
                            "--write-path",
                            path,
                            "--chunk-rows",
                            "500",
                        ],
                    )
                    .exits(1);
                let run = run.says("1062").says("NOT complete");
                assert!(
                    run.stderr.contains(&place(&text, "(3000,0,")) || run.stderr.contains("UNIQUE"),
                    "{}",
                    run.stderr
                );
                desk.ask(server, "DROP DATABASE @db");
            }
        }
    }
}

/// Neither a load nor a dump switches key checks off, globally or for its session, apart from
/// foreign keys in its session. It writes no file for the server to read.
#[test]
fn checks_are_never_switched_off_for_all() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind).option("log_output", "TABLE"));
        let desk = Desk::new();
        desk.load_text(dump(&scattered(50)), &server, &[]).exits(0);
        ask(&server, "SET GLOBAL general_log = 1");
        let out = desk.path("out");
        let mut command = desk.refloat(["dump", "--from", &server.url(), "--out"]);
        command.arg(&out);
        finish(command).exits(0);
        let mut command = desk.refloat(["load"]);
        command.arg(&out).args([
            "--to",
            &server.url(),
            "--replace",
            "--durability",
            "disposable",
        ]);
        finish(command).exits(0);
        ask(&server, "SET GLOBAL general_log = 0");
        let log = ask(
            &server,
            "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type = 'Query'",
        );
        assert!(log.contains("CREATE TABLE"), "the log is empty");
        for line in log.lines().map(str::to_ascii_lowercase) {
            let set = line.trim_start().starts_with("set ");
            let off = line.contains("unique_checks=0") || line.contains("unique_checks = 0");
            assert!(!(set && off), "{kind}: {line}");
            assert!(
                !(set && line.contains("global") && line.contains("_checks")),
                "{kind}: {line}"
            );
        }
    }
}
