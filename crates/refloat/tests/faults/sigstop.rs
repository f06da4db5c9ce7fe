//! The program is stopped (`SIGSTOP`) while reading, for longer than the server waits for clients.
//! What it reads afterwards is complete, or it says that it is not.

// Hazard of dumps: L-116 the program is stopped for longer than `net_write_timeout`, while it
//   dumps, copies, compares; its connections are killed meanwhile

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use refloat_sandbox::{Ephemeral, Instance};
use refloat_testkit::servers;
use refloat_wire::Connection;

use crate::support::{BOTH, Desk, Running, ask, finish};

/// How often the rows are doubled: 2^15 kilobytes exceed the buffers of a connection.
const DOUBLED: u32 = 15;
/// How long the program is stopped. The servers wait for one second.
const STOPPED: Duration = Duration::from_secs(4);
/// Upper limit for the rest of the run.
const SOON: Duration = Duration::from_secs(60);
/// Attempts for a copy that was stopped while connecting, or for a comparison that was stopped too
/// late.
const ATTEMPTS: u32 = 5;
/// Timeouts for clients that do not respond.
const IMPATIENT: &str = "SET GLOBAL net_write_timeout = 1; SET GLOBAL net_read_timeout = 1; SET GLOBAL wait_timeout = 1; SET GLOBAL interactive_timeout = 1";

/// What happens while the program is stopped.
#[derive(Clone, Copy, PartialEq)]
enum Meanwhile {
    /// The server waits.
    Nothing,
    /// The server drops the connections that read.
    Killed,
}

fn fill(server: &Instance, db: &str) {
    let double = "INSERT INTO wide (s) SELECT s FROM wide; ".repeat(DOUBLED as usize);
    ask(
        server,
        &format!(
            "CREATE DATABASE {db}; USE {db}; CREATE TABLE wide (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(1000)); \
             INSERT INTO wide (s) VALUES (REPEAT('x', 1000)); {double}"
        ),
    );
}

/// Ids of the connections in which the program reads rows.
fn reading(conn: &mut Connection) -> Vec<String> {
    let list =
        "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT /* refloat %'";
    let ids = conn.query(list).unwrap();
    ids.texts(0).map(str::to_owned).collect()
}

/// Stops the program while it reads from this server, and continues it later. `None` if it had read
/// everything before it was stopped.
fn paused(server: &Instance, command: Command, meanwhile: Meanwhile) -> Option<Running> {
    let mut conn = servers::connect(server);
    // The global value is meant for the other sessions.
    conn.exec("SET SESSION wait_timeout = 3600").unwrap();
    let mut running = Running::start(command);
    while reading(&mut conn).is_empty() {
        if running.has_ended() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    running.signal("STOP");
    std::thread::sleep(STOPPED);
    let waiting = reading(&mut conn);
    if waiting.is_empty() {
        running.signal("CONT");
        running.ends_within(SOON);
        return None;
    }
    if meanwhile == Meanwhile::Killed {
        for id in waiting {
            conn.exec(format!("KILL {id}")).unwrap();
        }
    }
    running.signal("CONT");
    Some(running)
}

/// Two servers with short timeouts, the first one with rows.
fn pair(kind: refloat_sandbox::ServerKind, desk: &Desk) -> [Ephemeral; 2] {
    let both = [0, 1].map(|_| servers::start(&servers::quick(kind)));
    fill(&both[0], &desk.db);
    for server in &both {
        ask(server, IMPATIENT);
    }
    both
}

fn rows(server: &Instance, db: &str) -> String {
    ask(server, &format!("CHECKSUM TABLE {db}.wide"))
}

#[test]
fn a_dump_that_was_stopped_is_whole_or_none() {
    for kind in BOTH {
        let desk = Desk::new();
        let [server, target] = pair(kind, &desk);
        let command = |out: &Path| {
            let mut command =
                desk.refloat(["dump", "--from", &server.url(), "--databases", &desk.db]);
            command.args(["--threads", "2", "--max-rate", "20M", "--out"]);
            command.arg(out);
            command
        };
        let whole = desk.path("whole");
        paused(&server, command(&whole), Meanwhile::Nothing)
            .expect("it reads slowly")
            .ends_within(SOON)
            .exits(0);
        desk.load(&whole, &target, &[]).exits(0);
        assert_eq!(rows(&server, &desk.db), rows(&target, &desk.db));
        let cut = desk.path("cut");
        paused(&server, command(&cut), Meanwhile::Killed)
            .expect("it reads slowly")
            .ends_within(SOON)
            .exits(1)
            .says(&format!("reading the rows of table {}.wide", desk.db))
            .says("no manifest");
        assert!(!cut.join("manifest.json").exists());
        desk.load(&cut, &target, &["--replace"]).exits(3);
    }
}

#[test]
fn a_copy_that_was_stopped_is_whole_or_says_that_it_is_not() {
    for kind in BOTH {
        let desk = Desk::new();
        let [server, target] = pair(kind, &desk);
        let command = || {
            let urls = (server.url(), target.url());
            let mut command = desk.refloat(["copy", "--from", &urls.0, "--to", &urls.1]);
            command.args(["--databases", &desk.db, "--threads", "2", "--replace"]);
            command.args(["--max-rate", "20M"]);
            command
        };
        let copied = |meanwhile| {
            for _ in 0..ATTEMPTS {
                let running = paused(&server, command(), meanwhile).expect("it reads slowly");
                let run = running.ends_within(SOON);
                // It was stopped before its connection to the target was established, and that
                // server gives up soon. No copy is made, and the program says so.
                if run.code == Some(1) && run.stderr.contains("error: connecting ") {
                    run.never_says("done and proven");
                    continue;
                }
                return run;
            }
            panic!("it was stopped while it connected, {ATTEMPTS} times");
        };
        copied(Meanwhile::Nothing).exits(0).says("done and proven");
        assert_eq!(rows(&server, &desk.db), rows(&target, &desk.db));
        copied(Meanwhile::Killed)
            .exits(1)
            .says(&format!("reading the rows of table {}.wide", desk.db))
            .says("not complete")
            .never_says("done and proven");
    }
}

#[test]
fn a_comparison_that_was_stopped_is_whole_or_none() {
    for kind in BOTH {
        let desk = Desk::new();
        let [server, other] = pair(kind, &desk);
        fill(&other, &desk.db);
        let urls = (server.url(), other.url());
        let command = || {
            let mut command = desk.refloat(["verify", &urls.0, &urls.1]);
            command.args(["--databases", &desk.db, "--threads", "2"]);
            command
        };
        let compared = |meanwhile| {
            let mut attempts = (0..ATTEMPTS).map(|_| paused(&server, command(), meanwhile));
            let running = attempts.find_map(|running| running);
            running.expect("stopped in time").ends_within(SOON)
        };
        compared(Meanwhile::Nothing).exits(0).says("the SAME");
        compared(Meanwhile::Killed)
            .exits(1)
            .says(&format!("reading the rows of table {}.wide", desk.db))
            .never_says("the SAME");
        // Nothing is left behind.
        finish(command()).exits(0).says("the SAME");
    }
}
