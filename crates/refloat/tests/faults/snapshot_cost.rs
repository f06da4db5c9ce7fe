//! What an open snapshot costs its server: it is reported, and a limit ends it.

// Hazard of dumps: L-119 the history list and flow control are shown, limits end the dump or copy
//   | , `faults/galera.rs`

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use refloat_sandbox::{Ephemeral, Instance, ServerKind};
use refloat_testkit::servers;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::wait_until;
use serde_json::Value;

use crate::support::{BOTH, Desk, Run, ask, dump, finish, table};

/// A server with rows that a dump at `SLOW` reads for about six seconds.
fn filled(kind: ServerKind, desk: &Desk) -> Ephemeral {
    let server = servers::start(&servers::quick(kind));
    desk.load_text(dump(&table("items", 8000)), &server, &[])
        .exits(0);
    ask(
        &server,
        &desk_sql(
            desk,
            "CREATE TABLE @db.busy (id INT PRIMARY KEY, n INT); INSERT INTO @db.busy VALUES (1, 0)",
        ),
    );
    server
}

fn desk_sql(desk: &Desk, sql: &str) -> String {
    sql.replace("@db", &desk.db)
}

/// Runs `work` while a row is changed over and over: each change leaves an old version behind.
fn while_changed<T>(server: &Instance, desk: &Desk, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut conn = servers::connect(server);
            while !stop.load(Ordering::Relaxed) {
                conn.exec(desk_sql(desk, "UPDATE @db.busy SET n = n + 1"))
                    .unwrap();
            }
        });
        let _stop = StopOnDrop(&stop);
        work()
    })
}

fn slow(desk: &Desk, server: &Instance, name: &str, more: &[&str]) -> Run {
    let mut command = desk.refloat(["dump", "--from", &server.url(), "--out", name]);
    command
        .args(["--max-rate", "60K", "--threads", "2"])
        .args(more);
    finish(command)
}

#[test]
fn what_a_snapshot_costs_is_shown_and_limited() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = filled(kind, &desk);
        while_changed(&server, &desk, || {
            let run = slow(&desk, &server, "shown", &["--json"]).exits(0);
            let lines: Vec<Value> = run
                .stdout
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let cost = &lines.last().unwrap()["outcome"]["summary"]["snapshot_cost"];
            let history = |name: &str| cost["history"][name].as_u64().unwrap();
            assert!(
                history("highest") > history("first") + 200,
                "{kind}: {cost}"
            );
            assert!(history("highest") >= history("last"), "{kind}: {cost}");
            assert!(cost["seconds"].as_f64().unwrap() > 2.0, "{kind}: {cost}");
            assert_eq!(cost["flow_control"], Value::Null, "{kind}: no cluster");
            let lengths = lines
                .iter()
                .filter_map(|line| line["snapshot"]["history_length"].as_u64());
            assert!(
                lengths.max().unwrap() > history("first"),
                "{kind}: no progress"
            );

            let started = Instant::now();
            slow(&desk, &server, "long", &["--max-history", "300"])
                .exits(1)
                .says("the snapshot was abandoned: the server's history list has ")
                .says("entries, and the limit is 300")
                .says("--max-history")
                .never_says("interrupted");
            assert!(started.elapsed().as_secs() < 30);
            assert!(!desk.path("long").join("manifest.json").exists(), "{kind}");
            slow(&desk, &server, "old", &["--max-age", "2"])
                .exits(1)
                .says("the snapshot was abandoned: it has been open for ")
                .says("and the limit is 2 s");
            slow(
                &desk,
                &server,
                "neither",
                &["--max-history", "100_000_000", "--max-age", "3600"],
            )
            .exits(0)
            .says("history list");
        });
        // A copy and an SQL dump too.
        let other = servers::start(&servers::quick(kind));
        let mut copy = desk.refloat(["copy", "--from", &server.url(), "--to", &other.url()]);
        copy.args(["--max-rate", "60K", "--max-age", "1"]);
        finish(copy).exits(1).says("the limit is 1 s");
        slow(
            &desk,
            &server,
            "text.sql",
            &["--format", "sql", "--max-age", "1"],
        )
        .exits(1)
        .says("the limit is 1 s");
        assert!(!desk.path("text.sql").exists());
    }
}

/// How long the statements of others take, in seconds.
const BUSY_SECONDS: u64 = 10;

#[test]
fn a_dump_waits_while_many_statements_run() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = filled(kind, &desk);
        let dump = |name: &str, most: &str| {
            let mut command = desk.refloat(["dump", "--from", &server.url(), "--out", name]);
            command.args(["--threads", "2", "--json", "--max-running", most]);
            let run = finish(command).exits(0);
            let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
            last["outcome"]["summary"]["held_seconds"].as_f64().unwrap()
        };
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| ask(&server, &format!("SELECT SLEEP({BUSY_SECONDS})")));
            }
            let sleeping = "SELECT COUNT(*) >= 6 FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'";
            wait_until("they run", || ask(&server, sleeping) == "1");
            assert!(dump("few", "40") < 1.0, "{kind}: nothing was in the way");
            let held = dump("many", "2");
            assert!(held > 1.0, "{kind}: held back for {held} s");
        });
        assert!(dump("quiet", "2") < 1.0, "{kind}: nobody was there");
    }
}

#[test]
fn a_limit_that_cannot_be_watched_is_refused() {
    let desk = Desk::new();
    let server = filled(ServerKind::MySql97, &desk);
    ask(
        &server,
        "CREATE USER reader@'127.0.0.1' IDENTIFIED BY ''; \
         GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES, RELOAD, SHOW_ROUTINE ON *.* TO reader@'127.0.0.1'",
    );
    let url = format!(
        "mysql://reader@127.0.0.1:{}/",
        ask(&server, "SELECT @@port").trim()
    );
    let dump = |name: &str, more: &[&str]| {
        let mut command = desk.refloat(["dump", "--from", &url, "--out", name]);
        command.args(more);
        finish(command)
    };
    dump("refused", &["--max-history", "1000000"])
        .exits(3)
        .says("--max-history: the account may not see the length")
        .says("PROCESS");
    assert!(!desk.path("refused").exists());
    dump("without", &["--max-age", "3600"]).exits(0);
}

/// Bytes per second.
const RATE: f64 = 1_500_000.0;

/// Asserts that reading so many bytes took as long as the rate limit requires. This is a lower
/// bound: a busy machine only takes longer.
#[track_caller]
fn held_to_rate(seconds: f64, bytes: u64, what: &str) {
    let least = bytes as f64 / RATE * 0.8;
    assert!(
        least > 2.0 && seconds >= least,
        "{what}: {bytes} bytes in {seconds} s, and {least} s is the least"
    );
}

// Hazard of dumps: The highest rate (`--max-rate`) holds
#[test]
fn row_text_goes_no_faster_than_the_highest_rate_over_all_connections() {
    let rate = RATE.to_string();
    for kind in BOTH {
        let desk = Desk::new();
        let (server, other) = (
            servers::start(&servers::quick(kind)),
            servers::start(&servers::quick(kind)),
        );
        let text = format!("{}{}", table("items", 40_000), table("more", 40_000));
        desk.load_text(dump(&text), &server, &[]).exits(0);
        let finish = |mut command: std::process::Command, more: &[&str]| {
            command.args(["--json", "--max-rate", &rate]).args(more);
            let run = finish(command).exits(0);
            let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
            last["outcome"]["summary"].clone()
        };
        let seconds = |summary: &Value| summary["seconds"].as_f64().unwrap();
        let ways: [&[&str]; 3] = [
            &["--threads", "1", "--compress", "none"],
            &["--threads", "4", "--compress", "zstd"],
            &["--threads", "2", "--format", "sql"],
        ];
        let mut bytes = 0;
        for (name, more) in ["one", "four", "text.sql"].into_iter().zip(ways) {
            let dump = desk.refloat(["dump", "--from", &server.url(), "--out", name]);
            let summary = finish(dump, more);
            if bytes == 0 {
                bytes = summary["text_bytes"].as_u64().unwrap();
            }
            held_to_rate(seconds(&summary), bytes, name);
        }
        let copy = desk.refloat(["copy", "--from", &server.url(), "--to", &other.url()]);
        held_to_rate(seconds(&finish(copy, &["--threads", "2"])), bytes, "copy");
    }
}
