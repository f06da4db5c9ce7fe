//! Events of a dump may run as soon as they exist, so all rows must be there before.

use std::path::Path;
use std::time::{Duration, Instant};

use refloat_testkit::servers;

use crate::support::{Desk, ask, dump, finish_with_input};

/// Rows of the dump.
const ROWS: u64 = 5;
/// How long nothing follows the events: more than twice their interval.
const PAUSE: Duration = Duration::from_millis(2500);
/// Bytes of comment after the events, which make the program read them before the pause.
const COMMENT: usize = 16 << 20;
/// Longest time an event may take to run once it exists.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn events_do_not_run_before_the_rows_are_in() {
    for &kind in crate::support::kinds() {
        let server = servers::start(&servers::quick(kind).option("event_scheduler", "ON"));
        let desk = Desk::new();
        let db = &desk.db;
        // The event records what it sees in a place that the load does not look at.
        ask(&server, "CREATE DATABASE seen");
        ask(
            &server,
            "CREATE TABLE seen.counts (event VARCHAR(9), n INT)",
        );
        let rows: Vec<String> = (1..=ROWS).map(|id| format!("({id})")).collect();
        let event = |name: &str, more: &str| {
            format!(
                "CREATE EVENT {name} ON SCHEDULE EVERY 1 SECOND STARTS '2020-01-01 00:00:00' {more} DO INSERT INTO seen.counts SELECT '{name}', COUNT(*) FROM {db}.t;\n"
            )
        };
        let text = dump(&format!(
            "CREATE TABLE t (id int NOT NULL PRIMARY KEY) ENGINE=InnoDB;\n{}{}-- HERE\nINSERT INTO t VALUES {};\n",
            event("runs", "ON COMPLETION PRESERVE ENABLE"),
            event("rests", "ON COMPLETION PRESERVE DISABLE"),
            rows.join(","),
        ));
        let (head, tail) = text.split_once("-- HERE\n").expect("the mark is there");
        let command = desk.load_command(Path::new("-"), &server.url(), &[]);
        finish_with_input(command, |stdin| {
            let line = format!("-- {}\n", "x".repeat(60)).repeat(COMMENT / 64);
            let sent = stdin
                .write_all(head.as_bytes())
                .and_then(|()| stdin.write_all(line.as_bytes()))
                .and_then(|()| stdin.flush());
            sent.expect("the program reads");
            std::thread::sleep(PAUSE);
            stdin.write_all(tail.as_bytes()).expect("the program reads");
        })
        .exits(0)
        .says("done and proven");
        let count = |what: &str| {
            ask(
                &server,
                &format!("SELECT COUNT(*) FROM seen.counts WHERE {what}"),
            )
        };
        let started = Instant::now();
        while count("event = 'runs'") == "0" {
            assert!(
                started.elapsed() < PATIENCE,
                "{kind}: the event is not there, or does not run"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        let early = ask(
            &server,
            &format!("SELECT COALESCE(GROUP_CONCAT(n), '') FROM seen.counts WHERE n < {ROWS}"),
        );
        assert_eq!(early, "", "{kind}: it ran before the rows were in");
        assert_eq!(count("event = 'rests'"), "0", "{kind}: it was not enabled");
        let status = "SELECT GROUP_CONCAT(event_name, ' ', status ORDER BY event_name) FROM information_schema.events WHERE event_schema = '@db'";
        assert_eq!(
            desk.ask(&server, status),
            "rests DISABLED,runs ENABLED",
            "{kind}"
        );
    }
}
