//! Interruptions midway: Ctrl-C, and kill -9 of the program, of the server or of a connection.

// Hazard of faults: L-95, L-143 an index that was not built is named, and can be built from the
//   message | , `disk`
// Hazard of faults: L-133, L-134 a connection or the server killed in the middle (all three
//   servers)
// Hazard of faults: L-136 Ctrl-C and SIGTERM: whole chunks, and the summary says how many (all
//   three servers)
// Hazard of faults: L-160 settings after kill -9, after Ctrl-C in each phase, after a crash of the
//   server | , `early_interrupts`

use std::path::Path;
use std::time::{Duration, Instant};

use refloat_sandbox::{Ephemeral, Instance, ServerKind, StartOptions};
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::held_load::{self, CHUNK, Held, ROWS};
use crate::support::{
    BOTH, Desk, Run, Running, ask, assert_same_settings, dump, finish, finish_with_input,
    kill_sessions, settings, table,
};

/// Asserts that the table holds whole chunks, as many as the summary says.
#[track_caller]
fn whole_chunks(desk: &Desk, server: &Instance, run: &Run) -> u64 {
    let rows = desk.rows(server, "items").unwrap_or(0);
    assert_eq!(rows % CHUNK, 0, "half a chunk: {rows} rows");
    let digits = run.stdout.replace(',', "");
    assert!(
        digits.contains(&format!("items: {rows} row")),
        "{rows} rows are there, the summary says\n{}",
        run.stdout
    );
    rows
}

/// A server with default settings, all of which a load may change.
fn server(kind: ServerKind) -> Ephemeral {
    servers::start(&StartOptions::new(kind))
}

#[test]
fn ctrl_c_and_sigterm_while_rows_are_written() {
    for &kind in crate::support::kinds() {
        let server = server(kind);
        let before = settings(&server);
        let mut desk = Desk::new();
        for (signal, level, error) in [
            ("INT", "relaxed", "refloat: error: interrupted\n"),
            (
                "TERM",
                "disposable",
                "refloat: error: stopped by signal 15\n",
            ),
        ] {
            let held = Held::start(&desk, &server, &["--durability", level]);
            held.running.signal(signal);
            let run = held
                .ends()
                .exits(5)
                .says("stopping")
                .says(error)
                .says("NOT complete")
                .says("hint: ")
                .says("all put back");
            assert!(whole_chunks(&desk, &server, &run) >= CHUNK);
            assert_same_settings(&before, &server);
            finish(desk.refloat(["settings", "list"]))
                .exits(0)
                .never_says("innodb");
            desk.next();
        }
    }
}

#[test]
fn ctrl_c_while_indexes_are_built() {
    for kind in BOTH {
        let server = server(kind);
        let before = settings(&server);
        let desk = Desk::new();
        // Enough rows for the indexes to be deferred.
        let held = Held::start(&desk, &server, &["--durability", "relaxed"]);
        let (running, _reader) = held.waits_with_an_index(&desk, &server);
        running.signal("INT");
        let run = running
            .stops()
            .exits(5)
            .says("missing: ADD KEY `name`")
            .says("ADD KEY `n`")
            .says("60,000")
            .says("all put back");
        assert!(!run.stdout.contains("done and proven"));
        assert_eq!(desk.rows(&server, "items"), Some(ROWS));
        assert_same_settings(&before, &server);
    }
}

#[test]
fn ctrl_c_at_any_moment_leaves_settings_as_they_were() {
    for kind in BOTH {
        let server = server(kind);
        let before = settings(&server);
        let mut desk = Desk::new();
        let file = desk.file("dump.sql", dump(&table("items", 4000)));
        for delay in [60, 150, 240, 330, 450, 700] {
            let running = Running::start(desk.load_command(
                &file,
                &server.url(),
                &["--durability", "disposable"],
            ));
            std::thread::sleep(Duration::from_millis(delay));
            let mut running = running;
            if !running.has_ended() {
                running.signal("INT");
            }
            let run = running.stops();
            assert!(matches!(run.code, Some(0 | 5)), "after {delay} ms: {run:?}");
            assert_same_settings(&before, &server);
            desk.next();
        }
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_settings_can_be_put_back() {
    let server = server(ServerKind::MySql97);
    let before = settings(&server);
    let desk = Desk::new();
    let held = Held::start(&desk, &server, &["--durability", "disposable"]);
    held.running.signal("INT");
    held.running.signal("INT");
    let run = held.ends();
    assert!(matches!(run.code, Some(5 | 6)), "{run:?}");
    if run.code == Some(6) {
        assert!(run.stderr.contains("refloat settings revert"), "{run:?}");
        finish(desk.refloat(["settings", "revert", "--to", &server.url()])).exits(0);
    }
    assert_same_settings(&before, &server);
}

#[test]
fn after_kill_9_settings_are_listed_and_put_back() {
    for kind in BOTH {
        let server = server(kind);
        let before = settings(&server);
        for (level, way) in [
            ("relaxed", "revert"),
            ("disposable", "state folder lost"),
            ("disposable", "next load"),
        ] {
            let mut desk = Desk::new();
            let held = Held::start(&desk, &server, &["--durability", level]);
            held.running.signal("KILL");
            let run = held.ends();
            assert_eq!(run.code, None);
            assert_ne!(
                settings(&server),
                before,
                "nothing was changed, so nothing is tested"
            );
            wait_until("the server let go of the connections", || {
                ask(
                    &server,
                    "SELECT COUNT(*) FROM information_schema.processlist WHERE command IN ('Query','Execute','Bulk_execute') AND info NOT LIKE '%processlist%'",
                ) == "0"
            });
            let rows = desk.rows(&server, "items").unwrap();
            assert_eq!(rows % CHUNK, 0, "half a chunk: {rows}");
            match way {
                "revert" => {
                    finish(desk.refloat(["settings", "list"]))
                        .exits(6)
                        .says("innodb_flush_log_at_trx_commit");
                    let listed = finish(desk.refloat(["settings", "list", "--json"])).exits(6);
                    let listed = listed.json();
                    assert_eq!(listed["open"][0]["alive"], false, "{listed}");
                    let changes = listed["open"][0]["journal"]["changes"].as_array().unwrap();
                    assert!(
                        changes
                            .iter()
                            .any(|one| one["name"] == "innodb_flush_log_at_trx_commit"),
                        "{listed}"
                    );
                    // Without a URL, it names the candidates.
                    finish(desk.refloat(["settings", "revert"]))
                        .exits(6)
                        .says(&server.port().to_string());
                    let done = finish(desk.refloat([
                        "settings",
                        "revert",
                        "--json",
                        "--to",
                        &server.url(),
                    ]));
                    let done = done.exits(0).json();
                    assert_eq!(done["reverted"][0]["complete"], true, "{done}");
                    finish(desk.refloat(["settings", "list"]))
                        .exits(0)
                        .never_says("innodb_flush_log_at_trx_commit");
                    finish(desk.refloat(["settings", "revert"])).exits(0);
                }
                "state folder lost" => {
                    std::fs::remove_dir_all(desk.state()).unwrap();
                    finish(desk.refloat(["settings", "list", "--to", &server.url()]))
                        .exits(6)
                        .says("innodb_flush_log_at_trx_commit");
                    finish(desk.refloat(["settings", "revert", "--to", &server.url()])).exits(0);
                }
                _ => {
                    desk.next();
                    desk.load_text(dump(&table("items", 10)), &server, &[])
                        .exits(0);
                }
            }
            assert_same_settings(&before, &server);
        }
    }
}

#[test]
fn a_server_killed_in_the_middle_is_reported_and_its_settings_stay_known() {
    for &kind in crate::support::kinds() {
        let mut server = server(kind);
        let before = settings(&server);
        let desk = Desk::new();
        let mut held = Held::start(&desk, &server, &["--durability", "relaxed"]);
        server.kill().unwrap();
        held.feed_rest();
        drop(held.stdin);
        // Settings of a server that is gone cannot be put back yet.
        let run = held.running.ends_within(Duration::from_secs(30));
        assert!(matches!(run.code, Some(1 | 6)), "{run:?}");
        run.says("items")
            .says("NOT complete")
            .says("The connection to the server was lost");
        server.restart().unwrap();
        let listed = finish(desk.refloat(["settings", "list", "--to", &server.url()]));
        assert_eq!(
            listed.code,
            Some(6),
            "the journal is open until somebody looked: {listed:?}"
        );
        finish(desk.refloat(["settings", "revert", "--to", &server.url()])).exits(0);
        assert_same_settings(&before, &server);
        finish(desk.refloat(["settings", "list"]))
            .exits(0)
            .never_says("innodb_flush_log_at_trx_commit");
        let rows = desk.rows(&server, "items").unwrap_or(0);
        assert_eq!(rows % CHUNK, 0, "half a chunk: {rows}");
    }
}

/// The server's clock has a resolution of one second, and does not tell apart two starts in quick
/// succession.
#[test]
fn a_server_that_is_back_at_once_is_known_for_another_start() {
    for kind in BOTH {
        let mut server = server(kind);
        let desk = Desk::new();
        let held = Held::start(&desk, &server, &["--threads", "2"]);
        let killed = Instant::now();
        server.kill().unwrap();
        server.restart().unwrap();
        let back = killed.elapsed();
        let run = held.goes_on().exits(1).says("NOT complete");
        // A load does not wait three seconds for a server that refuses connections, and does not
        // learn then that it came back.
        let known = run.stderr.contains("was restarted during the load");
        let lost = run
            .stderr
            .contains("its error log says whether it was restarted");
        assert!(
            known || lost && back > Duration::from_millis(2500),
            "back after {back:?}: {}",
            run.stderr
        );
        // The next run knows which rows are in.
        let text = held_load::text();
        finish_with_input(
            desk.load_command(Path::new("-"), &server.url(), &[]),
            |pipe| {
                let _ = std::io::Write::write_all(pipe, text.as_bytes());
            },
        )
        .exits(0)
        .says("done and proven");
        assert_eq!(desk.rows(&server, "items"), Some(ROWS));
    }
}

#[test]
fn a_killed_connection_stops_the_load_and_says_which_table() {
    for &kind in crate::support::kinds() {
        let server = server(kind);
        let before = settings(&server);
        let desk = Desk::new();
        let mut held = Held::start(&desk, &server, &["--durability", "relaxed"]);
        kill_sessions(&server);
        held.feed_rest();
        drop(held.stdin);
        let run = held
            .running
            .ends_within(Duration::from_secs(120))
            .exits(1)
            .says("items")
            .says("NOT complete");
        let rows = desk.rows(&server, "items").unwrap_or(0);
        assert_eq!(rows % CHUNK, 0, "half a chunk: {rows}\n{}", run.stderr);
        assert_same_settings(&before, &server);
    }
}
