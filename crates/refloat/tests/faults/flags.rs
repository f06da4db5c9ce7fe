//! Flags that change how a load works but not its result: each must have an effect.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use refloat_sandbox::ServerKind;
use refloat_testkit::wait_until;

use crate::midway_failures::Holder;
use crate::support::{BOTH, Desk, Run, Running, ask, dump, finish, shared, table};

/// Average number of rows that the server stores per transaction.
#[track_caller]
fn rows_of_a_chunk(run: &Run) -> u64 {
    let last = run.stdout.lines().last().unwrap_or_default();
    let last: serde_json::Value = serde_json::from_str(last).expect("the last line is JSON");
    let rows = &last["outcome"]["summary"]["chunk_rows"];
    rows.as_u64().unwrap_or_else(|| panic!("no rows in {last}"))
}

#[test]
fn chunk_bytes_is_the_size_of_a_transaction() {
    let mut desk = Desk::new();
    let text = dump(&table("items", 200_000));
    let bytes_of_a_row = text.len() as u64 / 200_000;
    let file = desk.file("dump.sql", &text);
    for kind in BOTH {
        let server = shared(kind);
        let mut sizes = Vec::new();
        for size in ["128K", "512K"] {
            desk.next();
            let run = desk
                .load(&file, server, &["--json", "--chunk-bytes", size])
                .exits(0);
            sizes.push((rows_of_a_chunk(&run) * bytes_of_a_row) >> 10);
            desk.ask(server, "DROP DATABASE @db");
        }
        // Whole inserts of 500 rows are combined, and the first one is cut in two, so a chunk is a
        // little smaller than requested.
        assert!(
            (64..=128).contains(&sizes[0]) && (384..=512).contains(&sizes[1]),
            "{kind}: chunks of {sizes:?} KiB"
        );
    }
}

#[test]
fn table_threads_is_how_many_write_into_one_table() {
    let mut desk = Desk::new();
    // Rows locked by an open transaction: every writer waits at the first one that it meets.
    let ids: Vec<String> = (1..=40).map(|id| format!("({id})")).collect();
    for kind in BOTH {
        let server = shared(kind);
        for writers in [1, 3] {
            desk.next();
            ask(
                server,
                &format!(
                    "CREATE DATABASE `{0}`; CREATE TABLE `{0}`.`t` (`id` int NOT NULL PRIMARY KEY) ENGINE=InnoDB",
                    desk.db
                ),
            );
            let holder = Holder::start(
                server,
                &desk.db,
                &format!("INSERT INTO `{}`.`t` VALUES {}", desk.db, ids.join(",")),
            );
            let mut text = format!("USE `{}`;\n", desk.db);
            for id in &ids {
                let _ = writeln!(text, "INSERT INTO `t` VALUES {id};");
            }
            let file = desk.file("dump.sql", dump(&text));
            // By the dump's own text: by other paths, all wait for the first rows.
            // Not with -D: MySQL does not let a database be created while another session has a
            // transaction open in it.
            let mut command = desk.refloat(["load", "--to", &server.url(), "--append"]);
            command
                .args(["--threads", "4", "--chunk-rows", "1"])
                .args(["--table-threads", &writers.to_string()])
                .args(["--write-path", "insert"])
                .arg(&file);
            let load = Running::start(command);
            let waiting = || {
                let sql = format!(
                    "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}' AND command <> 'Sleep' AND id <> CONNECTION_ID()",
                    desk.db
                );
                ask(server, &sql)
                    .parse::<u32>()
                    .expect("a count is a number")
            };
            wait_until("all that may write wait for a row", || waiting() >= writers);
            // Time for another writer to arrive, if there were one.
            std::thread::sleep(Duration::from_millis(700));
            assert_eq!(waiting(), writers, "{kind}");
            load.signal("INT");
            load.stops().exits(5);
            drop(holder);
            ask(server, &format!("DROP DATABASE `{}`", desk.db));
        }
    }
}

/// What a load draws on a terminal of its own.
fn screen(desk: &Desk, file: &Path, more: &str) -> String {
    let url = shared(ServerKind::MariaDb1011).url();
    let line = format!(
        "{} load {} --to '{url}' -D {} {more}",
        env!("CARGO_BIN_EXE_refloat"),
        file.display(),
        desk.db
    );
    let output = Command::new("timeout")
        .args(["--foreground", "300", "script"])
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .env("HOME", desk.path(""))
        .env("REFLOAT_STATE_DIR", desk.state())
        .stdin(Stdio::null())
        .output()
        .expect("script makes a terminal");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("done and proven"), "{shown}");
    shown
}

#[test]
fn no_progress_draws_nothing_on_a_terminal() {
    let mut desk = Desk::new();
    // Long enough for something to be drawn.
    let file = desk.file("dump.sql", dump(&table("items", 100_000)));
    let drawn = screen(&desk, &file, "");
    desk.next();
    let quiet = screen(&desk, &file, "--no-progress");
    let moves = |shown: &str| shown.contains('\x1b') || shown.contains("ETA");
    assert!(moves(&drawn), "nothing was drawn: {drawn}");
    assert!(!moves(&quiet), "something was drawn: {quiet}");
}

#[test]
fn a_defaults_extra_file_is_read_besides_the_usual_ones() {
    let desk = Desk::new();
    let server = shared(ServerKind::MariaDb1011);
    let user = format!("x_{}", desk.db);
    ask(
        server,
        &format!(
            "CREATE USER {user}@'%' IDENTIFIED BY 'extra-8823'; GRANT ALL ON {}.* TO {user}@'%'",
            desk.db
        ),
    );
    let file = desk.file("dump.sql", dump(&table("items", 10)));
    let url = server.url().replace("root@", "");
    desk.file(".my.cnf", format!("[client]\nuser={user}\n"));
    let extra = desk.file("extra.cnf", "[client]\nuser=nobody\npassword=extra-8823\n");
    finish(desk.load_command(&file, &url, &[]))
        .exits(1)
        .says("1045");
    // The user's own file is read after it, and wins.
    let flag = format!("--defaults-extra-file={}", extra.display());
    finish(desk.load_command(&file, &url, &[&flag])).exits(0);
    assert_eq!(desk.rows(server, "items"), Some(10));
    ask(server, &format!("DROP USER {user}@'%'"));
}

/// A dump of SQL says its character set itself. An option that nobody reads would change rows in
/// silence.
#[test]
fn a_character_set_for_a_dump_of_sql_is_refused() {
    let desk = Desk::new();
    let server = shared(ServerKind::MariaDb118);
    let file = desk.file("dump.sql", dump(&table("items", 3)));
    desk.load(&file, server, &["--charset", "latin1"])
        .exits(3)
        .says("is SQL, but options for delimited text were given");
    assert_eq!(desk.tables(server), 0);
}
