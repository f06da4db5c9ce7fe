//! Copies while either side goes away, changes, is slow or is of another vendor: the copy reports
//! it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_sandbox::{Ephemeral, Instance, ServerKind};
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::large_dumps::peak_kib;
use crate::midway_failures::Holder;
use crate::support::{
    BOTH, Desk, Run, Running, ask, assert_same_settings, dump, finish, kill_sessions, settings,
    table,
};

/// Rows of a source that is copied slowly enough to be interrupted midway.
const ROWS: u64 = 40_000;
/// Rows of a chunk, for tests that count them.
const CHUNK: u64 = 500;
/// How long an unhindered copy may take.
const SOON: Duration = Duration::from_secs(60);
/// Reads slowly: the first block arrives after a second and a half, the last after four.
const SLOWLY: &[&str] = &["--max-rate", "700K", "--chunk-rows", "500"];

/// A server of its own, since other tests must not lose one that is killed.
fn start(kind: ServerKind) -> Ephemeral {
    servers::start(&servers::quick(kind))
}

/// A source with rows in this desk's database, and an empty target.
fn pair(desk: &Desk, kind: ServerKind) -> (Ephemeral, Ephemeral) {
    let (source, target) = (start(kind), start(kind));
    let text = format!("{}{}", table("items", ROWS), table("more", 2000));
    desk.load_text(dump(&text), &source, &["--durability", "keep"])
        .exits(0);
    (source, target)
}

fn command(desk: &Desk, source: &Instance, target: &Instance, more: &[&str]) -> Command {
    let urls = (source.url(), target.url());
    let mut command = desk.refloat(["copy", "--from", &urls.0, "--to", &urls.1]);
    command.args(["--databases", &desk.db]).args(more);
    command
}

fn copy(desk: &Desk, source: &Instance, target: &Instance, more: &[&str]) -> Run {
    finish(command(desk, source, target, more))
}

/// Starts a copy and waits until some rows have arrived.
fn midway(desk: &Desk, source: &Instance, target: &Instance) -> Running {
    let running = Running::start(command(desk, source, target, SLOWLY));
    wait_until("rows are copied", || {
        desk.rows(target, "items").unwrap_or(0) > 0
    });
    running
}

/// Asserts that nothing holds a lock on the source any more.
fn no_lock(desk: &Desk, source: &Instance) {
    let alter = format!(
        "SET SESSION lock_wait_timeout = 20; ALTER TABLE {}.items COMMENT 'free'",
        desk.db
    );
    ask(source, &alter);
}

/// Total size of all files below a folder, in bytes.
fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            match entry.metadata().unwrap() {
                meta if meta.is_dir() => bytes_below(&entry.path()),
                meta => meta.len(),
            }
        })
        .sum()
}

#[test]
fn a_copy_is_the_same_and_leaves_nothing_behind() {
    for kind in BOTH {
        let desk = Desk::new();
        let (source, target) = pair(&desk, kind);
        let before = settings(&target);
        copy(&desk, &source, &target, &["--plan"])
            .exits(0)
            .says("the plan; nothing was touched")
            .says(&format!("{}.items", desk.db));
        assert_eq!(desk.tables(&target), 0);
        let had = bytes_below(&desk.state());
        let run = copy(&desk, &source, &target, &["--json"]).exits(0);
        let last: serde_json::Value =
            serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
        let summary = &last["outcome"]["summary"];
        assert_eq!(summary["proven"], true, "{summary}");
        assert_eq!(summary["rows"], ROWS + 2000);
        assert_eq!(summary["snapshot"]["consistent"], true);
        assert!(
            !summary["source_server"].as_str().unwrap().is_empty(),
            "{summary}"
        );
        let left = bytes_below(&desk.state()) - had;
        assert!(left < 100 << 10, "{left} bytes were left behind");
        assert_same_settings(&before, &target);
        let urls = (source.url(), target.url());
        finish(desk.refloat(["verify", &urls.0, &urls.1, "--databases", &desk.db]))
            .exits(0)
            .says("the SAME");
        // Not a second time, unless asked to.
        copy(&desk, &source, &target, &[])
            .exits(3)
            .says("refused before anything was touched");
        copy(&desk, &source, &target, &["--replace"])
            .exits(0)
            .says("done and proven")
            .says("all rows of one moment");
        no_lock(&desk, &source);
    }
}

#[test]
fn every_value_is_compared_with_the_moment_that_was_copied() {
    for kind in BOTH {
        let desk = Desk::new();
        let (source, target) = pair(&desk, kind);
        let by_digest = || {
            let mut command = command(&desk, &source, &target, SLOWLY);
            command.args(["--verify", "digest"]);
            let running = Running::start(command);
            wait_until("rows are copied", || {
                desk.rows(&target, "items").unwrap_or(0) > 0
            });
            running
        };
        // Writes to the source after the snapshot are not part of the copy.
        let running = by_digest();
        desk.ask(
            &source,
            "UPDATE @db.items SET n = n + 1; DELETE FROM @db.more WHERE id < 100",
        );
        running.ends_within(SOON).exits(0).says("the SAME");
        no_lock(&desk, &source);
        // Whatever else the target holds was not copied, and is not compared.
        desk.ask(
            &target,
            "DROP TABLE @db.items, @db.more; CREATE TABLE @db.own (id INT); INSERT INTO @db.own VALUES (1)",
        );
        let similar = format!("{}x", desk.db);
        ask(
            &target,
            &format!("CREATE DATABASE {similar}; CREATE TABLE {similar}.own (id INT)"),
        );
        copy(
            &desk,
            &source,
            &target,
            &["--replace", "--verify", "digest"],
        )
        .exits(0)
        .says("the SAME");
        assert_eq!(desk.rows(&target, "own"), Some(1));
        // One value differs on the target, which no row count shows.
        desk.ask(&target, "DROP DATABASE @db");
        let running = by_digest();
        desk.ask(&target, "UPDATE @db.items SET n = -1 WHERE id = 1");
        running
            .ends_within(SOON)
            .exits(4)
            .never_says("done and proven")
            .says("loaded and counted, but the comparison found DIFFERENCES")
            .says("DIFFERENT")
            .says("-1");
        no_lock(&desk, &source);
    }
}

#[test]
fn a_copy_that_cannot_be_compared_is_there_and_not_proven() {
    let desk = Desk::new();
    let (source, target) = pair(&desk, ServerKind::MariaDb1011);
    let mut command = command(&desk, &source, &target, SLOWLY);
    command.args(["--verify", "digest"]);
    let running = Running::start(command);
    wait_until("rows are copied", || {
        desk.rows(&target, "items").unwrap_or(0) > 0
    });
    // No comparison reads a database with such a table.
    desk.ask(
        &target,
        "CREATE TABLE @db.numbered (id INT, a BIGINT UNSIGNED GENERATED ALWAYS AS ROW START, b BIGINT UNSIGNED GENERATED ALWAYS AS ROW END, \
         PERIOD FOR SYSTEM_TIME (a, b)) WITH SYSTEM VERSIONING",
    );
    running
        .ends_within(SOON)
        .exits(4)
        .says("no server accepts the history of");
    assert_eq!(desk.rows(&target, "items"), Some(ROWS));
}

#[test]
fn ctrl_c_ends_both_sides() {
    for kind in BOTH {
        let desk = Desk::new();
        let (source, target) = pair(&desk, kind);
        let before = settings(&target);
        let running = midway(&desk, &source, &target);
        running.signal("INT");
        running
            .stops()
            .exits(5)
            .says("NOT complete")
            .says("interrupted");
        let rows = desk.rows(&target, "items").unwrap();
        assert!(
            rows > 0 && rows <= ROWS && rows.is_multiple_of(CHUNK),
            "{rows} rows"
        );
        assert_same_settings(&before, &target);
        no_lock(&desk, &source);
        copy(&desk, &source, &target, &["--replace"]).exits(0);
        assert_eq!(desk.rows(&target, "items"), Some(ROWS));
    }
}

#[test]
fn a_source_that_goes_away_is_never_the_end_of_a_table() {
    for kind in BOTH {
        let desk = Desk::new();
        let (mut source, target) = pair(&desk, kind);
        let before = settings(&target);
        let running = midway(&desk, &source, &target);
        source.kill().unwrap();
        running
            .ends_within(SOON)
            .exits(1)
            .says("error: the source, root@")
            .says("NOT complete")
            .says("hint: What is on the target is not complete")
            .never_says("done and proven");
        // All rows may have arrived, with only the end of the result missing.
        assert!(desk.rows(&target, "items").unwrap() <= ROWS);
        assert_same_settings(&before, &target);
        source.restart().unwrap();
        copy(&desk, &source, &target, &["--replace"]).exits(0);
        assert_eq!(desk.rows(&target, "items"), Some(ROWS));
    }
}

#[test]
fn connections_to_the_source_that_are_lost_end_the_copy() {
    let desk = Desk::new();
    let (source, target) = pair(&desk, ServerKind::MySql97);
    let running = midway(&desk, &source, &target);
    kill_sessions(&source);
    running
        .ends_within(SOON)
        .exits(1)
        .says("error: the source, root@")
        .says("NOT complete");
    no_lock(&desk, &source);
}

#[test]
fn a_target_that_goes_away_lets_the_source_go() {
    for kind in BOTH {
        let desk = Desk::new();
        let (source, mut target) = pair(&desk, kind);
        let running = midway(&desk, &source, &target);
        target.kill().unwrap();
        let run = running.ends_within(SOON);
        // Settings of a server that is gone cannot be put back yet.
        assert!(matches!(run.code, Some(1 | 6)), "{run:?}");
        run.says("NOT complete")
            .says("The connection to the server was lost")
            .never_says("error: the source");
        no_lock(&desk, &source);
    }
}

#[test]
fn definitions_that_change_meanwhile_are_noticed_or_cannot_change() {
    for kind in BOTH {
        let desk = Desk::new();
        let (source, target) = pair(&desk, kind);
        let running = Running::start(command(
            &desk,
            &source,
            &target,
            &[SLOWLY, &["--threads", "1"]].concat(),
        ));
        wait_until("rows are copied", || {
            desk.rows(&target, "items").unwrap_or(0) > 0
        });
        ask(
            &source,
            &format!(
                "SET SESSION lock_wait_timeout = 60; ALTER TABLE {}.more ADD COLUMN extra INT",
                desk.db
            ),
        );
        let run = running.ends_within(SOON);
        if kind.is_mariadb() {
            run.exits(1)
                .says(&format!("table {}.more was changed", desk.db))
                .says("NOT complete")
                .says("Copy again when nobody changes definitions");
        } else {
            // The DDL had to wait until all rows were read.
            run.exits(0);
            assert_eq!(desk.rows(&target, "more"), Some(2000));
        }
    }
}

#[test]
fn a_server_is_not_copied_onto_itself() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = start(kind);
        desk.load_text(dump(&table("items", 10)), &server, &[])
            .exits(0);
        // Through another address, and even with --replace.
        let urls = (server.url(), server.socket_url());
        let args = ["copy", "--from", &urls.0, "--to", &urls.1, "--replace"];
        finish(desk.refloat(args))
            .exits(3)
            .says("source and target are the same server");
        finish(desk.refloat(args.iter().chain(&["--plan"])))
            .exits(3)
            .says("source and target are the same server");
        assert_eq!(desk.rows(&server, "items"), Some(10));
        let to = format!("{}{}", urls.0.trim_end_matches('/'), "/elsewhere");
        finish(desk.refloat(["copy", "--from", &urls.1, "--to", &to]))
            .exits(2)
            .says("a copy keeps the names of databases");
    }
}

#[test]
fn from_one_vendor_to_the_other_and_back() {
    let (mariadb, mysql) = (start(ServerKind::MariaDb1011), start(ServerKind::MySql97));
    let desk = Desk::new();
    ask(
        &mysql,
        &format!(
            "CREATE DATABASE {0}; CREATE TABLE {0}.t (id INT PRIMARY KEY, s VARCHAR(40), j JSON, b BIT(9), d DATETIME(3), x VARBINARY(9), \
             u INT UNSIGNED, e ENUM('a','b'), f DOUBLE, KEY s (s)); \
             INSERT INTO {0}.t VALUES (1, 'Größe 日 \\\\ \\t', '{{\"a\": [1, null]}}', b'100000001', '2024-02-29 01:02:03.004', 0x00FF0A09, 4294967295, 'b', 1.5e300), \
             (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            desk.db
        ),
    );
    copy(&desk, &mysql, &mariadb, &[])
        .exits(3)
        .says("--map-collation utf8mb4_0900_ai_ci=");
    let map = [
        "--replace",
        "--map-collation",
        "utf8mb4_0900_ai_ci=utf8mb4_general_ci",
    ];
    let mut map = map.to_vec();
    map.extend(["--verify", "digest"]);
    copy(&desk, &mysql, &mariadb, &map)
        .exits(0)
        .says("done and proven")
        .says("the SAME");
    let all = "SELECT id, s, j, b + 0, d, HEX(x), u, e, f FROM @db.t ORDER BY id";
    let wanted = desk.ask(&mysql, all);
    assert!(wanted.contains("00FF0A09"), "{wanted}");
    assert_eq!(desk.ask(&mariadb, all), wanted);
    // And back, onto an empty server.
    ask(&mysql, &format!("DROP DATABASE {}", desk.db));
    copy(&desk, &mariadb, &mysql, &["--verify", "digest"])
        .exits(0)
        .says("done and proven")
        .says("the SAME");
    assert_eq!(desk.ask(&mysql, all), wanted);
}

// Hazard of dumps: L-10 A collation that the server does not show because it is the default there
#[test]
fn text_keeps_its_collation_where_another_one_is_the_default() {
    // MySQL prints no collation for what uses the default of utf8mb3; MariaDB 11.8 has another
    // default.
    let (mysql, mariadb) = (start(ServerKind::MySql97), start(ServerKind::MariaDb118));
    let desk = Desk::new();
    ask(
        &mysql,
        &format!(
            "CREATE DATABASE {0} CHARACTER SET utf8mb3; CREATE TABLE {0}.t (s VARCHAR(40) PRIMARY KEY, l TEXT CHARACTER SET latin1); \
             INSERT INTO {0}.t VALUES ('straße', 'x')",
            desk.db
        ),
    );
    let shown = desk.ask(&mysql, "SHOW CREATE TABLE @db.t");
    assert!(!shown.contains("utf8mb3_general_ci"), "{shown}");
    copy(&desk, &mysql, &mariadb, &[]).exits(0);
    let dump = desk.path("dump");
    let from = mysql.url();
    let mut command = desk.refloat(["dump", "--from", &from, "--databases", &desk.db]);
    command.arg("--out").arg(&dump);
    finish(command).exits(0);
    let collations = "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '@db' UNION ALL \
                      SELECT TABLE_COLLATION FROM information_schema.TABLES WHERE TABLE_SCHEMA = '@db' UNION ALL \
                      (SELECT COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '@db' ORDER BY ORDINAL_POSITION DESC)";
    for more in ["", "--replace"] {
        if !more.is_empty() {
            desk.load(&dump, &mariadb, &[more]).exits(0);
        }
        let found = desk.ask(&mariadb, collations);
        let mut found: Vec<&str> = found.lines().collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                "latin1_swedish_ci",
                "utf8mb3_general_ci",
                "utf8mb3_general_ci",
                "utf8mb3_general_ci"
            ]
        );
    }
}

#[test]
fn a_slow_target_does_not_fill_the_memory() {
    let (source, target) = (start(ServerKind::MySql97), start(ServerKind::MariaDb1011));
    let desk = Desk::new();
    let definition = format!(
        "CREATE DATABASE {0} CHARACTER SET latin1; CREATE TABLE {0}.wide (id INT PRIMARY KEY, s TEXT) ENGINE=InnoDB",
        desk.db
    );
    ask(&source, &definition);
    ask(&target, &definition);
    ask(
        &source,
        &format!(
            "SET cte_max_recursion_depth = 60000; INSERT INTO {0}.wide WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 60000) \
             SELECT i, REPEAT('some text; ', 500) FROM r; ANALYZE TABLE {0}.wide",
            desk.db
        ),
    );
    // Holds up the rows.
    let insert = format!("INSERT INTO {}.wide VALUES (1, 'x')", desk.db);
    let holder = Holder::start(&target, &desk.db, &insert);
    let more = ["--append", "--threads", "4", "--chunk-rows", "500"];
    let running = Running::start(command(&desk, &source, &target, &more));
    // 330 MB must not all be in memory. After readers have waited for a while, memory does not grow
    // any more.
    let (mut peak, mut since) = (0, Instant::now());
    while peak < 100 << 10 || since.elapsed() < Duration::from_secs(2) {
        let now = peak_kib(running.pid()).unwrap_or(0);
        if now > peak {
            (peak, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    println!(
        "330 MB of rows before a target that waits: {} MiB",
        peak >> 10
    );
    assert!(peak <= 256 << 10, "{} MiB", peak >> 10);
    drop(holder);
    running.ends_within(SOON).exits(0);
    assert_eq!(desk.rows(&target, "wide"), Some(60_000));
}
