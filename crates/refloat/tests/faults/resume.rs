//! Resuming where a load ended: what is kept, what is refused, and what the marks decide.

// Hazard of faults: L-161 a server lost with its redo log off is reported (MySQL)

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use refloat_sandbox::{Ephemeral, Instance, ServerKind, StartOptions};
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::galera;
use crate::held_load::{self, BUILDING, CHUNK, Held, ROWS, reader_of};
use crate::support::{
    BOTH, Desk, Gate, Run, Running, ask, assert_same_settings, dump, finish, finish_with_input,
    settings, shared, table,
};

fn server(kind: ServerKind) -> Ephemeral {
    servers::start(&StartOptions::new(kind))
}

/// Repeats the load that [`Held::start`] began, with its full text.
fn again(desk: &Desk, server: &Instance, more: &[&str]) -> Run {
    let chunk = CHUNK.to_string();
    let mut command = desk.load_command(Path::new("-"), &server.url(), &["--chunk-rows", &chunk]);
    command.args(more);
    let text = held_load::text();
    finish_with_input(command, move |pipe| {
        let _ = pipe.write_all(text.as_bytes());
    })
}

/// Asserts that the table is as after an undisturbed load, and that no marks are left.
#[track_caller]
fn whole(desk: &Desk, server: &Instance) {
    assert_eq!(desk.rows(server, "items"), Some(ROWS));
    let sum = desk.ask(server, "SELECT SUM(id) FROM @db.items");
    assert_eq!(sum, (ROWS * (ROWS + 1) / 2).to_string());
    let keys = desk.ask(
        server,
        "SELECT COUNT(DISTINCT INDEX_NAME) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = '@db'",
    );
    assert_eq!(keys, "3");
    no_marks(server);
}

#[track_caller]
fn no_marks(server: &Instance) {
    assert_eq!(ask(server, "SHOW DATABASES LIKE 'refloat%'"), "");
}

#[test]
fn after_kill_9_another_machine_goes_on() {
    for &kind in crate::support::kinds() {
        let server = server(kind);
        let before = settings(&server);
        let desk = Desk::new();
        let held = Held::start(&desk, &server, &["--durability", "relaxed"]);
        held.running.signal("KILL");
        let _ = held.running.ends_within(Duration::from_secs(10));
        drop(held.stdin);
        // The records of the run were lost with the machine; what is needed is on the target.
        std::fs::remove_dir_all(desk.state()).unwrap();
        let plan = desk.load_command(Path::new("-"), &server.url(), &["--plan"]);
        let text = held_load::text();
        finish_with_input(plan, move |pipe| {
            let _ = pipe.write_all(text.as_bytes());
        })
        .exits(0)
        .says("resumes   ")
        .says("rows are already loaded");
        let run = again(&desk, &server, &["--durability", "relaxed"])
            .exits(0)
            .says("resuming the load that began at")
            .says("of them were already loaded")
            .says("done and proven")
            .says("60,000 in 1 table");
        drop(run);
        whole(&desk, &server);
        assert_same_settings(&before, &server);
    }
}

#[test]
fn other_text_in_the_place_of_the_rows_is_refused() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        let held = Held::start(&desk, &server, &[]);
        wait_until("more rows are committed", || {
            desk.ask(&server, "SELECT COUNT(*) FROM @db.items WHERE id = 1900") == "1"
        });
        held.running.signal("INT");
        held.ends()
            .exits(5)
            .says("the same command resumes from there");
        // A commit in progress may end after the load has.
        wait_until("the load's connections are gone", || {
            desk.ask(
                &server,
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                 WHERE ID <> CONNECTION_ID() AND USER = SUBSTRING_INDEX(USER(), '@', 1)",
            ) == "0"
        });
        // Rows before this one may have been missing, and may be added.
        let from_there = || {
            desk.ask(
                &server,
                "SELECT COUNT(*), SUM(id), GROUP_CONCAT(IF(id = 1900, name, NULL)) FROM @db.items WHERE id >= 1900",
            )
        };
        let there = from_there();
        // Like a dump of the same database, made an hour later.
        let other = held_load::text().replacen("number 1900 --", "number 19e2 --", 1);
        let chunk = CHUNK.to_string();
        let command = desk.load_command(Path::new("-"), &server.url(), &["--chunk-rows", &chunk]);
        finish_with_input(command, move |pipe| {
            let _ = pipe.write_all(other.as_bytes());
        })
        .exits(1)
        .says("are not those that were here when the load began")
        .says("--restart");
        assert_eq!(from_there(), there, "nothing was written from there on");
        again(&desk, &server, &["--resume"]).exits(0);
        whole(&desk, &server);
    }
}

#[test]
fn rows_are_known_again_however_they_are_cut_and_others_are_not() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let values = |first: u32| {
            let rows = (first..first + 1000).map(|id| format!("({id},'{id:060}')"));
            rows.collect::<Vec<_>>().join(",")
        };
        let mut text = "CREATE TABLE `w` (`id` int NOT NULL, `s` varchar(60));\n".to_owned();
        for first in (100_000..104_000).step_by(1000) {
            text += &["INSERT INTO `w` VALUES ", &values(first), ";\n"].concat();
        }
        // A last statement that fails after everything else is in, for lack of a function.
        text.push_str("DO absent_here.f();\n");
        let other = text.replacen("(102500,'0", "(102500,'1", 1);
        assert_ne!(other, text);
        let cuts = [
            ["--chunk-rows", "100"],
            ["--chunk-rows", "370"],
            ["--chunk-bytes", "16K"],
        ];
        for cut in cuts {
            desk.load_text(dump(&other), server, &cut).exits(1);
            for again in cuts {
                let more = [&again[..], &["--resume", "--uncertain-statement", "done"]].concat();
                desk.load_text(dump(&text), server, &more)
                    .exits(1)
                    .says("are not those that were here when the load began")
                    .says("--restart");
            }
            // After such a statement, rows are not counted.
            let more = [&cut[..], &["--resume", "--uncertain-statement", "done"]].concat();
            desk.load_text(dump(&other), server, &more)
                .exits(4)
                .says("4000 rows are already loaded");
            assert_eq!(desk.rows(server, "w"), Some(4000));
            desk.ask(server, "DROP DATABASE @db");
        }
    }
}

#[test]
fn beginning_anew_and_having_to_go_on() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        again(&desk, &server, &["--resume"])
            .exits(3)
            .says("no unfinished load of this source");
        let held = Held::start(&desk, &server, &[]);
        held.running.signal("INT");
        held.ends().exits(5);
        // With other options, rows would go elsewhere: that is another load.
        let other = again(&desk, &server, &["--resume", "--tables", "items"]).exits(3);
        other.says("no unfinished load of this source with these options");
        again(&desk, &server, &["--restart"])
            .exits(3)
            .says("is not empty");
        again(&desk, &server, &["--restart", "--replace"])
            .exits(0)
            .never_says("of them were already loaded");
        whole(&desk, &server);
    }
}

#[test]
fn a_load_that_still_runs_is_not_gone_on_with() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        let held = Held::start(&desk, &server, &[]);
        again(&desk, &server, &[])
            .exits(3)
            .says("is loading this source into this server");
        held.goes_on().exits(0);
        whole(&desk, &server);
    }
}

/// A machine that hangs or is unreachable: its connections stay open.
#[test]
fn what_another_machine_loads_is_taken_over_when_somebody_ends_it() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        let held = Held::start_elsewhere(&desk, &server);
        held.running.signal("STOP");
        let refused = again(&desk, &server, &[])
            .exits(3)
            .says("on elsewhere")
            .says("end its connection with KILL");
        let (_, rest) = refused.stderr.split_once("connection with KILL ").unwrap();
        let id: String = rest.chars().take_while(char::is_ascii_digit).collect();
        ask(&server, &format!("KILL {id}"));
        again(&desk, &server, &[])
            .exits(0)
            .says("of them were already loaded")
            .says("done and proven");
        whole(&desk, &server);
        // It wakes up and has no connection left to write with.
        held.running.signal("CONT");
        let late = held.goes_on();
        assert!(matches!(late.code, Some(1 | 6)), "{late:?}");
        assert_eq!(desk.rows(&server, "items"), Some(ROWS));
        let sum = desk.ask(&server, "SELECT SUM(id) FROM @db.items");
        assert_eq!(sum, (ROWS * (ROWS + 1) / 2).to_string());
    }
}

#[test]
fn tables_that_were_dropped_meanwhile_are_no_reason_to_go_on() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        let held = Held::start(&desk, &server, &[]);
        held.running.signal("INT");
        held.ends().exits(5);
        desk.ask(&server, "DROP DATABASE @db");
        again(&desk, &server, &[])
            .exits(0)
            .says("is forgotten: none of the tables");
        whole(&desk, &server);
    }
}

#[test]
fn index_builds_of_a_killed_load_are_ended_and_done_again() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        let held = Held::start(&desk, &server, &[]);
        let (running, mut reader) = held.waits_with_an_index(&desk, &server);
        running.signal("KILL");
        let _ = running.ends_within(Duration::from_secs(10));
        // The build still waits, unless the server has noticed that its client is gone (MariaDB
        // checks once a second while it waits for a lock).
        let builds = ask(&server, BUILDING);
        assert!(builds == "1" || kind.is_mariadb(), "{kind}: {builds}");
        let releases = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(3));
            reader.exec("ROLLBACK").unwrap();
        });
        again(&desk, &server, &[])
            .exits(0)
            .says("60,000 of them were already loaded");
        releases.join().unwrap();
        whole(&desk, &server);
    }
}

#[test]
fn foreign_keys_of_a_killed_load_are_added_again() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        // So that no index is built before the foreign key.
        let text = galera::family().replace(
            ", KEY parent (parent), CONSTRAINT of_parent FOREIGN KEY (parent)",
            ", CONSTRAINT of_parent FOREIGN KEY (id)",
        );
        let load = || desk.load_command(Path::new("-"), &server.url(), &[]);
        let mut command = load();
        command.stdin(Stdio::piped());
        let (running, mut pipe) = Running::start_with_stdin(command);
        // The rows of the child and half of its parent's.
        let (first, rest) = text.as_bytes().split_at(text.len() * 3 / 4);
        pipe.write_all(first).unwrap();
        wait_until("rows are in", || {
            desk.tables(&server) == 2 && desk.rows(&server, "child").unwrap_or(0) > 0
        });
        let mut reader = reader_of(&desk, &server, "child");
        pipe.write_all(rest).unwrap();
        drop(pipe);
        let adding = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE%ADD CONSTRAINT%'";
        wait_until("a foreign key is being added", || {
            ask(&server, adding) == "1"
        });
        running.signal("KILL");
        let _ = running.ends_within(Duration::from_secs(10));
        let key = "SELECT COUNT(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = '@db'";
        assert_eq!(desk.ask(&server, key), "0");
        let releases = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(3));
            reader.exec("ROLLBACK").unwrap();
        });
        let text = text.into_bytes();
        finish_with_input(load(), move |pipe| {
            let _ = pipe.write_all(&text);
        })
        .exits(0)
        .says("120,000 of them were already loaded");
        releases.join().unwrap();
        assert_eq!(desk.ask(&server, key), "1");
        for table in ["child", "parent"] {
            assert_eq!(desk.rows(&server, table), Some(galera::ROWS));
        }
    }
}

/// A dump whose `UPDATE` waits for a gate, between the rows of two tables.
fn with_update(gate: &str) -> String {
    dump(&format!(
        "{}UPDATE items SET n = n + 1000000 WHERE id <= 10 AND GET_LOCK('{gate}', 60) = 1;\n{}",
        table("items", 2000),
        table("more", 2000)
    ))
}

#[test]
fn a_statement_in_doubt_is_left_to_people() {
    for kind in BOTH {
        let server = shared(kind);
        for (answer, sum) in [("done", 0), ("again", 10)] {
            let desk = Desk::new();
            let file = desk.file("dump.sql", with_update(&desk.db));
            let gate = Gate::closed(server, &desk.db);
            let running = Running::start(desk.load_command(&file, &server.url(), &[]));
            let running_update = format!(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE items%' AND db = '{}'",
                desk.db
            );
            wait_until("the statement runs", || ask(server, &running_update) == "1");
            let id = ask(server, &running_update.replace("COUNT(*)", "id"));
            running.signal("KILL");
            let _ = running.ends_within(Duration::from_secs(10));
            // End it with its connection, unless the server notices by itself that the client is
            // gone.
            let _ = server.query(&format!("KILL {id}"));
            wait_until("it is over", || ask(server, &running_update) == "0");
            gate.opens();
            finish(desk.load_command(&file, &server.url(), &[]))
                .exits(1)
                .says("it is not known whether it took effect: UPDATE items")
                .says("--uncertain-statement done");
            finish(desk.load_command(&file, &server.url(), &["--uncertain-statement", answer]))
                .exits(if answer == "done" { 4 } else { 0 });
            let changed = desk.ask(server, "SELECT COUNT(*) FROM @db.items WHERE n >= 1000000");
            assert_eq!(changed, sum.to_string(), "{answer}");
            assert_eq!(desk.rows(server, "items"), Some(2000));
            assert_eq!(desk.rows(server, "more"), Some(2000));
        }
    }
}

#[test]
fn statements_that_are_done_are_not_run_again() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let text = dump(&format!(
            "{}UPDATE items SET n = n + 1000000;\nALTER TABLE items ADD COLUMN extra INT DEFAULT 7;\nRENAME TABLE items TO things;\n\
             CREATE TABLE items (id INT PRIMARY KEY);\nINSERT INTO items VALUES (1),(2);\n{}{}RENAME TABLE other TO renamed;\n{}DROP TABLE dropped;\n\
             {}ALTER TABLE narrow DROP COLUMN name;\nSELECT 1;\nINSERT INTO more VALUES (1,'twice',0);\n",
            table("items", 2000),
            table("more", 2000),
            table("other", 2000),
            table("dropped", 2000),
            table("narrow", 2000)
        ));
        let file = desk.file("dump.sql", &text);
        // The last row exists already, so the load stops there, with everything before it done.
        finish(desk.load_command(&file, &server.url(), &[]))
            .exits(1)
            .says("Duplicate entry");
        // The source must stay the same, so make room for its row on the server.
        desk.ask(server, "DELETE FROM @db.more WHERE id = 1");
        finish(desk.load_command(&file, &server.url(), &[])).says("of them were already loaded");
        assert_eq!(desk.rows(server, "things"), Some(2000));
        assert_eq!(desk.rows(server, "items"), Some(2));
        assert_eq!(desk.rows(server, "renamed"), Some(2000));
        assert_eq!(desk.rows(server, "other"), None);
        assert_eq!(desk.rows(server, "dropped"), None);
        assert_eq!(desk.rows(server, "narrow"), Some(2000));
        let smallest = desk.ask(
            server,
            "SELECT MIN(n) DIV 1000000, MAX(n) DIV 1000000, MIN(extra) FROM @db.things",
        );
        assert_eq!(smallest, "1\t1\t7");
    }
}

/// One definition takes two statements, and the load ended between them.
#[test]
fn an_account_that_was_left_as_it_is_stays_so() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let (there, fresh) = (format!("{}_there", desk.db), format!("{}_new", desk.db));
        ask(server, &format!("CREATE USER '{there}'@'h'"));
        let account = |name: &str| {
            format!("CREATE USER IF NOT EXISTS '{name}'@'h' WITH MAX_QUERIES_PER_HOUR 7;\n")
        };
        let other_half = |name: &str| format!("ALTER USER '{name}'@'h' ACCOUNT LOCK;\n");
        let text = dump(&format!(
            "{}{}{}INSERT INTO items VALUES (1,'twice',0);\n{}{}",
            table("items", 20),
            account(&there),
            account(&fresh),
            other_half(&there),
            other_half(&fresh)
        ));
        let file = desk.file("dump.sql", &text);
        let load = || finish(desk.load_command(&file, &server.url(), &["--allow", "accounts"]));
        load().exits(1).says("Duplicate entry");
        desk.ask(server, "DELETE FROM @db.items WHERE id = 1");
        load()
            .says("of them were already loaded")
            .says("already existed and was left as it is");
        let shown = |name: &str| ask(server, &format!("SHOW CREATE USER '{name}'@'h'"));
        let (left, made) = (shown(&there), shown(&fresh));
        assert!(!left.contains("ACCOUNT LOCK"), "{kind}: {left}");
        assert!(made.contains("ACCOUNT LOCK"), "{kind}: {made}");
        ask(
            server,
            &format!("DROP USER '{there}'@'h'; DROP USER '{fresh}'@'h'"),
        );
    }
}

/// Statements for which the server stores fewer rows, or counts more, than the text has.
#[test]
fn rows_that_were_left_out_before_are_not_missed() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        // A function makes the server evaluate a row by itself, on the one connection that keeps
        // the order.
        let text = dump(&format!(
            "{}INSERT IGNORE INTO items VALUES (1,'there',0),(1002,UPPER('there'),0),(3001,'new',0);\n\
             REPLACE INTO items VALUES (4001,'new',0),(1003,UPPER('other'),0);\n\
             INSERT INTO items VALUES (1,'there',0),(1004,UPPER('there'),0) ON DUPLICATE KEY UPDATE n = n + 1000000;\n\
             INSERT INTO items VALUES (2,'there',0) ON DUPLICATE KEY UPDATE n = n;\n\
             INSERT IGNORE INTO items VALUES (5,'there',0),(5001,'new',0);\n\
             {}SELECT 1;\nINSERT INTO absent VALUES (1);\n",
            table("items", 2000),
            table("more", 2000)
        ));
        let file = desk.file("dump.sql", &text);
        finish(desk.load_command(&file, &server.url(), &[]))
            .exits(1)
            .says("absent");
        desk.ask(server, "CREATE TABLE @db.absent (id INT PRIMARY KEY)");
        finish(desk.load_command(&file, &server.url(), &[]))
            .exits(0)
            .says("of them were already loaded");
        assert_eq!(desk.rows(server, "items"), Some(2003));
        let added = desk.ask(server, "SELECT SUM(n DIV 1000000) FROM @db.items");
        assert_eq!(added, "2");
        assert_eq!(desk.rows(server, "more"), Some(2000));
    }
}

#[test]
fn a_lost_writer_connects_again_and_the_load_goes_on() {
    for &kind in crate::support::kinds() {
        let server = server(kind);
        let desk = Desk::new();
        let held = Held::start(&desk, &server, &["--threads", "2"]);
        // Writers hold locks 1 and up of their load.
        let run = ask(
            &server,
            "SELECT run FROM refloat_load.steps WHERE kind = 'load'",
        );
        for slot in 1..=2 {
            let id = ask(
                &server,
                &format!("SELECT IS_USED_LOCK('refloat_load.{run}.{slot}')"),
            );
            ask(&server, &format!("KILL {id}"));
        }
        held.goes_on()
            .exits(0)
            .says("a connection was lost while it wrote rows of table")
            .says("done and proven");
        whole(&desk, &server);
    }
}

/// The connection is lost between the rows of two tables, and the next rows need another session.
#[test]
fn a_writer_that_was_lost_while_it_was_idle_connects_again() {
    for &kind in crate::support::kinds() {
        let server = server(kind);
        let desk = Desk::new();
        let command = desk.load_command(Path::new("-"), &server.url(), &["--threads", "1"]);
        let (running, mut pipe) = Running::start_with_stdin(command);
        // The program reads whole blocks of a pipe.
        let blocks = "-- \n".repeat(2 << 20);
        let text = dump(&format!(
            "{}CREATE TABLE next (id INT);\n{blocks}\
             SET time_zone = '+03:00';\nINSERT INTO next VALUES (1), (2);\n",
            table("first", 2000)
        ));
        // The first table is done once the next one begins.
        let (before, after) = text.split_at(text.find("SET time_zone = '+03").unwrap());
        pipe.write_all(before.as_bytes()).unwrap();
        pipe.flush().unwrap();
        wait_until("rows are committed", || {
            desk.rows(&server, "first") == Some(2000)
        });
        let run = ask(
            &server,
            "SELECT run FROM refloat_load.steps WHERE kind = 'load'",
        );
        let lock = format!("SELECT IS_USED_LOCK('refloat_load.{run}.1')");
        let id = ask(&server, &lock);
        ask(&server, &format!("KILL {id}"));
        pipe.write_all(after.as_bytes()).unwrap();
        drop(pipe);
        running
            .ends_within(held_load::SOON)
            .exits(0)
            .says("connecting again")
            .says("done and proven");
        assert_eq!(desk.rows(&server, "next"), Some(2));
    }
}

#[test]
fn rows_that_were_refused_before_are_not_forgotten() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        // The third row has the key of the second.
        let text = held_load::text().replacen("\n(3,", "\n(2,", 1);
        let load = || {
            let more = ["--chunk-rows", "500", "--on-error", "continue"];
            let mut command = desk.load_command(Path::new("-"), &server.url(), &more);
            command.stdin(std::process::Stdio::piped());
            command
        };
        let (running, mut pipe) = Running::start_with_stdin(load());
        let half = text.len() / 2;
        std::io::Write::write_all(&mut pipe, &text.as_bytes()[..half]).unwrap();
        wait_until("the first rows are in", || {
            desk.tables(&server) == 1
                && desk.ask(&server, "SELECT COUNT(*) FROM @db.items WHERE id = 2") == "1"
        });
        running.signal("KILL");
        let _ = running.ends_within(Duration::from_secs(10));
        drop(pipe);
        finish_with_input(load(), |pipe| {
            let _ = pipe.write_all(text.as_bytes());
        })
        .exits(1)
        .says("of them were already loaded")
        .says("1 ");
        assert_eq!(desk.rows(&server, "items"), Some(ROWS - 1));
    }
}

#[test]
fn an_account_that_may_keep_no_marks_loads_with_a_warning() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let db = &desk.db;
        ask(
            server,
            &format!(
                "CREATE DATABASE {db}; CREATE USER u_{db}@'%'; GRANT ALL ON {db}.* TO u_{db}@'%'"
            ),
        );
        let url = server.url().replace("root@", &format!("u_{db}@"));
        let file = desk.file("dump.sql", dump(&table("items", 100)));
        finish(desk.load_command(&file, &url, &[]))
            .exits(0)
            .says("no progress marks are kept");
        assert_eq!(desk.rows(server, "items"), Some(100));
        ask(server, &format!("DROP USER u_{db}@'%'"));
    }
}

#[test]
fn a_server_lost_without_its_redo_log_is_reported() {
    let mut server = server(ServerKind::MySql97);
    let desk = Desk::new();
    let mut held = Held::start(&desk, &server, &["--durability", "disposable"]);
    server.kill().unwrap();
    held.feed_rest();
    drop(held.stdin);
    held.running
        .ends_within(Duration::from_secs(60))
        .says("its redo log was off")
        .says("initialise a new data directory")
        .never_says("resumes from there");
    assert!(
        server.restart().is_err(),
        "a server that lost its redo log starts again"
    );
    again(&desk, &server, &[])
        .says("its redo log was off")
        .says("initialise a new data directory");
}

/// The hint of a load that failed says `--restart --replace`; the load was begun without either.
#[test]
fn starting_over_with_replace_forgets_what_was_begun_without() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        let twice = "CREATE TABLE bad (a INT PRIMARY KEY);\nINSERT INTO bad VALUES (1),(1);\n";
        let file = desk.file("dump.sql", dump(&format!("{}{twice}", table("items", 600))));
        desk.load(&file, &server, &[]).exits(1);
        let kept =
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'refloat_load'";
        assert_ne!(ask(&server, kept), "0", "{kind}: the load can be resumed");
        let over = ["--restart", "--replace", "--on-error", "continue"];
        desk.load(&file, &server, &over)
            .says("is forgotten")
            .says("refused and left out");
        assert_eq!(desk.rows(&server, "items"), Some(600));
        assert_eq!(ask(&server, kept), "0", "{kind}: marks are left");
    }
}
