//! Replication: a replica built from a dump or a copy continues from the position of its rows, and
//! a copy notices if either end replicates.

// Hazard of dumps: L-113 a replica attached at the position misses nothing and repeats nothing

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_sandbox::{Ephemeral, Instance, ServerKind};
use refloat_testkit::wait_until;
use refloat_testkit::{oracle, servers};
use serde_json::Value;

use crate::support::{BOTH, Desk, ask, finish};

/// Rows of which every transaction of the writer changes one.
const ACCOUNTS: u64 = 200;

/// A server with this `server_id` and a binary log.
fn start(kind: ServerKind, number: u8) -> Ephemeral {
    let options = servers::quick(kind).option("server_id", number.to_string());
    servers::start(&if kind.is_mariadb() {
        options.option("log_bin", "binlog")
    } else {
        options
    })
}

/// The port for TCP connections.
pub fn port(server: &Instance) -> String {
    ask(server, "SELECT @@GLOBAL.port")
}

/// Makes `replica` replicate from `primary`, starting at this position of its binary log.
fn attach(replica: &Instance, primary: &Instance, file: &str, position: u64) {
    let port = port(primary);
    let sql = if replica.kind().is_mariadb() {
        format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', MASTER_LOG_FILE='{file}', \
             MASTER_LOG_POS={position}, MASTER_CONNECT_RETRY=1; START SLAVE"
        )
    } else {
        format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='root', SOURCE_LOG_FILE='{file}', \
             SOURCE_LOG_POS={position}, SOURCE_CONNECT_RETRY=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA"
        )
    };
    ask(replica, &sql);
}

/// The replication status, for a failing test.
fn state(replica: &Instance) -> String {
    let sql = if replica.kind().is_mariadb() {
        "SHOW ALL SLAVES STATUS"
    } else {
        "SHOW REPLICA STATUS"
    };
    ask(replica, sql)
}

/// Stops the writer, even if an assertion fails.
struct Writer<'a> {
    stop: &'a AtomicBool,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while several writers change `primary`: every transaction increments a row and
/// appends one to a log.
pub fn while_written<T>(
    primary: &Instance,
    db: &str,
    writers: usize,
    work: impl FnOnce() -> T,
) -> T {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        for _ in 0..writers {
            scope.spawn(move || {
                let mut conn = servers::connect(primary);
                conn.exec(format!("USE {db}")).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let id = done.fetch_add(1, Ordering::Relaxed) * 7919 % ACCOUNTS;
                    for sql in [
                        "BEGIN".to_owned(),
                        format!("UPDATE counter SET n = n + 1 WHERE id = {id}"),
                        format!("INSERT INTO log (account) VALUES ({id})"),
                        "COMMIT".to_owned(),
                    ] {
                        conn.exec(sql).unwrap();
                    }
                }
            });
        }
        let _writer = Writer { stop };
        wait_until("somebody writes", || done.load(Ordering::Relaxed) > 20);
        let result = work();
        let until = done.load(Ordering::Relaxed) + 20;
        wait_until("somebody has written since", || {
            done.load(Ordering::Relaxed) > until
        });
        result
    })
}

pub fn fill(primary: &Instance, db: &str) {
    let rows: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id},0)")).collect();
    ask(
        primary,
        &format!(
            "CREATE DATABASE {db}; USE {db}; CREATE TABLE counter (id INT PRIMARY KEY, n INT NOT NULL); \
             CREATE TABLE log (id BIGINT PRIMARY KEY AUTO_INCREMENT, account INT NOT NULL); INSERT INTO counter VALUES {}",
            rows.join(",")
        ),
    );
}

/// Attaches the replica, waits until it has caught up, and compares.
#[track_caller]
fn follows(primary: &Instance, replica: &Instance, snapshot: &Value, db: &str) {
    let (file, position) = (
        snapshot["binlog_file"].as_str().expect("the log's file"),
        snapshot["binlog_position"].as_u64().expect("its position"),
    );
    let sum = sum_of(db);
    let (there, here) = (ask(primary, &sum), ask(replica, &sum));
    assert_ne!(there, here, "nothing was written after the snapshot");
    attach(replica, primary, file, position);
    catches_up(primary, replica, db);
}

/// Waits until the replica has caught up with the primary, then compares every row. How much it has
/// to catch up with depends on the machine, so only a replica that stands still has failed.
#[track_caller]
pub fn catches_up(primary: &Instance, replica: &Instance, db: &str) {
    const STANDS_STILL: Duration = Duration::from_secs(60);
    let sum = sum_of(db);
    let there = ask(primary, &sum);
    let (mut here, mut since) = (ask(replica, &sum), Instant::now());
    while here != there {
        assert!(
            since.elapsed() < STANDS_STILL,
            "{here} is not {there}\n{}",
            state(replica)
        );
        std::thread::sleep(Duration::from_millis(100));
        let now = ask(replica, &sum);
        if now != here {
            (here, since) = (now, Instant::now());
        }
    }
    let of = |server| {
        let mut all =
            oracle::Snapshot::take(&mut servers::connect(server), oracle::Scope::default())
                .unwrap();
        all.rows.retain(|name, _| name.contains(db));
        all.rows
    };
    assert_eq!(of(primary).len(), 2);
    assert_eq!(of(primary), of(replica));
}

/// A query whose answer tells how far the writers were.
fn sum_of(db: &str) -> String {
    format!("SELECT COUNT(*), (SELECT SUM(n) FROM {db}.counter) FROM {db}.log")
}

#[test]
fn a_replica_attached_at_the_position_of_a_dump_misses_nothing_and_repeats_nothing() {
    for kind in BOTH {
        let (primary, replica) = (start(kind, 1), start(kind, 2));
        let desk = Desk::new();
        fill(&primary, &desk.db);
        let folder = desk.path("dump");
        while_written(&primary, &desk.db, 1, || {
            let mut dump =
                desk.refloat(["dump", "--from", &primary.url(), "--databases", &desk.db]);
            dump.arg("--out").arg(&folder);
            finish(dump).exits(0);
        });
        desk.load(&folder, &replica, &["--durability", "keep"])
            .exits(0);
        let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        follows(&primary, &replica, &manifest["snapshot"], &desk.db);
    }
}

#[test]
fn a_replica_attached_at_the_position_of_a_copy_does_so_too_and_is_then_no_target() {
    for kind in BOTH {
        let (primary, replica) = (start(kind, 1), start(kind, 2));
        let desk = Desk::new();
        fill(&primary, &desk.db);
        let copy = |from: &Instance, to: &Instance, more: &[&str]| {
            let mut copy = desk.refloat(["copy", "--from", &from.url(), "--to", &to.url()]);
            copy.args(["--databases", &desk.db]).args(more);
            finish(copy)
        };
        let run = while_written(&primary, &desk.db, 1, || {
            copy(&primary, &replica, &["--json"]).exits(0)
        });
        let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
        let snapshot = &last["outcome"]["summary"]["snapshot"];
        follows(&primary, &replica, snapshot, &desk.db);

        for plan in [&["--replace"][..], &["--replace", "--plan"]] {
            copy(&primary, &replica, plan)
                .exits(3)
                .says("is a replica of the source");
            copy(&replica, &primary, plan)
                .exits(3)
                .says("is a replica of the target");
        }
        let stop = if kind.is_mariadb() {
            "STOP SLAVE"
        } else {
            "STOP REPLICA"
        };
        ask(&replica, stop);
        copy(&primary, &replica, &["--replace"]).exits(0);
    }
}
