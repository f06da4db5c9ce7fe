//! Galera clusters: loads into a node, and dumps of one.

// Hazard of clusters: G-20 foreign keys after the rows on a cluster too

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use refloat_sandbox::{GaleraOptions, Instance, ServerKind};
use refloat_testkit::cluster::Cluster;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::wait_until;
use refloat_testkit::{oracle, servers};
use serde_json::Value;

use crate::rows_through_views;
use crate::support::{Desk, Running, ask, assert_same_settings, dump, finish, settings, shared};

/// Rows of each table: more than 8 MiB of text, from which size on keys are deferred.
pub const ROWS: u64 = 60_000;

/// A child and its parent in name order, as dump tools write them: the child's rows come first.
pub fn family() -> String {
    let mut text = String::new();
    for (name, column, key) in [
        (
            "child",
            ", parent INT NOT NULL",
            ", KEY parent (parent), CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES parent (id)",
        ),
        ("parent", "", ""),
    ] {
        let _ = writeln!(
            text,
            "CREATE TABLE {name} (id INT NOT NULL PRIMARY KEY, pad VARCHAR(200) NOT NULL{column}{key}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;"
        );
        for first in (1..=ROWS).step_by(500) {
            let rows = (first..first + 500).map(|id| {
                let parent = if column.is_empty() {
                    String::new()
                } else {
                    format!(",{}", id * 7919 % ROWS + 1)
                };
                format!("({id},'{:0>160}'{parent})", id * 31)
            });
            let _ = writeln!(
                text,
                "INSERT INTO {name} VALUES {};",
                rows.collect::<Vec<_>>().join(",")
            );
        }
    }
    dump(&text)
}

#[test]
fn a_foreign_key_waits_for_all_rows_on_a_cluster_too() {
    let cluster = Cluster::start(servers::nodes(), 2);
    let (here, there) = (cluster.node(0), cluster.node(1));
    let size = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_cluster_size'";
    assert_eq!(ask(here, size), "2");
    let desk = Desk::new();
    let before = settings(here);
    let key = "SELECT COUNT(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = '@db'";
    let mut command = desk.load_command(
        Path::new("-"),
        &here.url(),
        &["--json", "--threads", "2", "--chunk-rows", "5000"],
    );
    command.stdin(Stdio::piped());
    let (running, mut pipe) = Running::start_with_stdin(command);
    let text = family();
    // The rows of the child and half of its parent's.
    let (first, rest) = text.as_bytes().split_at(text.len() * 3 / 4);
    pipe.write_all(first).unwrap();
    wait_until("rows are in", || {
        desk.tables(here) == 2 && desk.rows(here, "child").unwrap_or(0) >= ROWS / 2
    });
    assert_eq!(desk.ask(here, key), "0", "the key is there before its rows");
    pipe.write_all(rest).unwrap();
    drop(pipe);
    let run = running.ends_within(Duration::from_secs(60)).exits(0);
    let events: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(desk.ask(here, key), "1");
    let summary = &events.last().unwrap()["outcome"]["summary"];
    assert_eq!(summary["proven"], true);
    assert_eq!(summary["rows"], 2 * ROWS);
    // A node does not report that it rolled back an array-bound insert, so none is used.
    let paths = summary["write_paths"].as_array().unwrap();
    assert!(paths.iter().all(|path| path[0] != "bulk"), "{paths:?}");
    desk.load_text(
        dump("CREATE TABLE t (a INT);\n"),
        here,
        &["--write-path", "bulk", "--replace"],
    )
    .exits(3)
    .says("rolls an array-bound insert back")
    .says("--write-path auto");
    assert_same_settings(&before, here);

    // The other node has the same, eventually.
    wait_until("the other node has it all", || {
        desk.tables(there) == 2
            && desk.ask(there, key) == "1"
            && ask(there, "SHOW DATABASES LIKE 'refloat%'").is_empty()
    });
    let of = |node| {
        let mut conn = servers::connect(node);
        oracle::Snapshot::take(&mut conn, oracle::Scope::default()).unwrap()
    };
    assert_eq!(oracle::differences(&of(here), &of(there)), []);

    // On a node, too, rows through a view are counted in their tables.
    let desk = Desk::new();
    desk.load_text(rows_through_views::text("", ""), here, &[])
        .exits(0);
    rows_through_views::all_is_in(&desk, here);
    wait_until("the other node has them", || {
        desk.rows(there, "more") == Some(2000)
            && ask(there, "SHOW DATABASES LIKE 'refloat%'").is_empty()
    });
    rows_through_views::all_is_in(&desk, there);
    // Unless their table may be one whose rows stay on this node.
    let desk = Desk::new();
    let local = "CREATE TABLE here_only (id INT PRIMARY KEY) ENGINE=Aria;\n";
    desk.load_text(rows_through_views::text(local, ""), here, &[])
        .exits(1)
        .says("rows of view")
        .says("here_only, which has engine Aria");
    desk.load_text(
        rows_through_views::text(local, ""),
        here,
        &["--replace", "--restart", "--local-engines"],
    )
    .says("are on this node alone if they end in table");
    rows_through_views::all_is_in(&desk, here);
    old_children_are_dropped(here, there);
}

/// Old children refer to the table that is being written, so their `DROP` may abort transactions of
/// the load itself. `bench/aborted` does this hundreds of times.
fn old_children_are_dropped(here: &Instance, there: &Instance) {
    let mut text = "DROP TABLE IF EXISTS a;\n\
        CREATE TABLE a (id INT NOT NULL, txt VARCHAR(200), KEY id (id)) ENGINE=InnoDB;\n"
        .to_owned();
    for first in (0..20_000).step_by(500) {
        let rows = (first..first + 500).map(|id| format!("({id},'{id:0150}')"));
        let rows = rows.collect::<Vec<_>>().join(",");
        let _ = writeln!(text, "INSERT INTO a VALUES {rows};");
    }
    for child in 1..=4 {
        let rows = (0..500).map(|id| format!("({id},{id})"));
        let rows = rows.collect::<Vec<_>>().join(",");
        let _ = writeln!(
            text,
            "DROP TABLE IF EXISTS b{child};\nCREATE TABLE b{child} (id INT PRIMARY KEY, p INT, \
             KEY p (p), CONSTRAINT f{child} FOREIGN KEY (p) REFERENCES a (id)) ENGINE=InnoDB;\n\
             INSERT INTO b{child} VALUES {rows};"
        );
    }
    let desk = Desk::new();
    let file = desk.file("dump.sql", dump(&text));
    let held = |node| {
        let sums = "SELECT COUNT(*), SUM(CRC32(CONCAT(id, txt))) FROM @db.a".to_owned();
        let sums = (1..=4).fold(sums, |sums, child| {
            format!("{sums} UNION ALL SELECT COUNT(*), SUM(CRC32(CONCAT(id, p))) FROM @db.b{child}")
        });
        desk.ask(node, &format!("SET SESSION wsrep_sync_wait = 15; {sums}"))
    };
    desk.load(&file, here, &[]).exits(0);
    let wanted = held(here);
    assert!(wanted.starts_with("20000\t"), "{wanted}");
    for piped in [false, true] {
        let source = if piped { Path::new("-") } else { &file };
        let more = ["--replace", "--restart", "--threads", "2", "--json"];
        let mut command = desk.load_command(source, &here.url(), &more);
        if piped {
            command.stdin(std::fs::File::open(&file).unwrap());
        }
        let run = finish(command);
        let run = run.exits(0);
        let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
        let summary = &last["outcome"]["summary"];
        assert_eq!(summary["proven"], true, "{summary}");
        // A busy cluster may have one all the same.
        assert!(summary["retries"].as_u64() <= Some(1), "{summary}");
        for node in [here, there] {
            assert_eq!(held(node), wanted, "piped: {piped}");
        }
    }
}

/// The value of a variable or status of a node.
#[track_caller]
fn of_cluster(node: &Instance, name: &str) -> String {
    let table = |table: &str| {
        format!(
            "SELECT VARIABLE_VALUE FROM information_schema.{table} WHERE VARIABLE_NAME = '{name}'"
        )
    };
    ask(
        node,
        &format!(
            "{} UNION ALL {}",
            table("GLOBAL_VARIABLES"),
            table("GLOBAL_STATUS")
        ),
    )
}

// Hazard of dumps: G-19 desync is put back, also after `kill -9`
#[test]
fn a_node_may_fall_behind_while_it_is_dumped() {
    let cluster = Cluster::start(servers::nodes(), 2);
    let (here, there) = (cluster.node(0), cluster.node(1));
    let desk = Desk::new();
    let db = desk.db.clone();
    desk.load_text(family(), here, &[]).exits(0);
    wait_until("the other node has it all", || {
        ask(there, "SHOW DATABASES LIKE 'refloat%'").is_empty() && desk.tables(there) == 2
    });
    let at = |node| {
        format!(
            "{}:{}",
            of_cluster(node, "wsrep_cluster_state_uuid"),
            of_cluster(node, "wsrep_last_committed")
        )
    };
    wait_until("both nodes are at the same place", || at(here) == at(there));
    let place = at(there);
    let dump = |desk: &Desk, name: &str, more: &[&str]| {
        let mut command =
            desk.refloat(["dump", "--from", &there.url(), "--databases", &db, "--out"]);
        command.arg(desk.path(name)).args(more);
        command
    };
    finish(dump(&desk, "plain", &[])).exits(0);
    let manifest = std::fs::read(desk.path("plain").join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["snapshot"]["galera"], place);

    let behind = |name: &str| {
        let running = Running::start(dump(&desk, name, &["--desync", "--max-rate", "1M"]));
        wait_until("the node may fall behind", || {
            of_cluster(there, "wsrep_desync") == "ON"
        });
        running
    };
    let run = finish(dump(&desk, "behind", &["--desync", "--json"])).exits(0);
    for event in ["setting_changed", "setting_reverted"] {
        let reports = |line: &str| line.contains(event) && line.contains("wsrep_desync");
        assert!(run.stdout.lines().any(reports), "{event}: {}", run.stdout);
    }
    assert_eq!(of_cluster(there, "wsrep_desync"), "OFF");
    let last: serde_json::Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
    let cost = &last["outcome"]["summary"]["snapshot_cost"];
    assert!(cost["flow_control"]["sent"].is_u64(), "{cost}");
    assert!(cost["history"]["highest"].is_u64(), "{cost}");
    // Killed midway, it leaves a setting that the journal can put back.
    let running = behind("slow");
    running.signal("KILL");
    let _ = running.ends_within(Duration::from_secs(10));
    assert_eq!(of_cluster(there, "wsrep_desync"), "ON");
    finish(desk.refloat(["settings", "revert", "--to", &there.url()]))
        .exits(0)
        .says("wsrep_desync");
    assert_eq!(of_cluster(there, "wsrep_desync"), "OFF");
    wait_until("the node keeps pace", || {
        of_cluster(there, "wsrep_local_state_comment") == "Synced"
    });

    // So can the next dump of this kind.
    let running = behind("again");
    running.signal("KILL");
    let _ = running.ends_within(Duration::from_secs(10));
    finish(dump(&desk, "after", &["--desync"]))
        .exits(0)
        .says("ended without putting settings back: doing that first");
    assert_eq!(of_cluster(there, "wsrep_desync"), "OFF");

    // Ctrl-C puts it back at once.
    let running = behind("slow2");
    running.signal("INT");
    running.ends_within(Duration::from_secs(10)).exits(5);
    assert_eq!(of_cluster(there, "wsrep_desync"), "OFF");
    backed_up(there, &desk);
}

/// The same for a backup of the node's files.
fn backed_up(node: &Instance, desk: &Desk) {
    let repo = desk.path("repo").display().to_string();
    let tool = servers::program(node, "mariadb-backup", &desk.path(""));
    let backup = |more: &[&str]| {
        let from = ["backup", "--from", &node.url(), "--repo", &repo, "--desync"];
        let mut command = desk.refloat(from);
        command.arg("--tool").arg(&tool).args(more);
        command
    };
    let is = |value: &str| of_cluster(node, "wsrep_desync") == value;
    let seqno = || -> u64 { of_cluster(node, "wsrep_last_committed").parse().unwrap() };
    let before = seqno();
    let run = finish(backup(&["--json"])).exits(0);
    for event in ["setting_changed", "setting_reverted"] {
        let reports = |line: &str| line.contains(event) && line.contains("wsrep_desync");
        assert!(run.stdout.lines().any(reports), "{event}: {}", run.stdout);
    }
    // It keeps pace when the backup ends.
    assert_eq!(of_cluster(node, "wsrep_local_state_comment"), "Synced");
    assert!(is("OFF"));
    // Only the journal of the setting is written meanwhile.
    let listed = desk.refloat(["backups", "list", "--json", "--repo", &repo]);
    let listed = finish(listed).exits(0).json();
    let position = &listed[0]["about"]["galera"];
    assert_eq!(
        position["uuid"],
        of_cluster(node, "wsrep_cluster_state_uuid"),
        "{listed}"
    );
    let at = position["seqno"].as_u64().unwrap();
    assert!((before..seqno()).contains(&at), "{before} {listed}");

    let running = Running::start(backup(&["--max-rate", "8M"]));
    wait_until("the node may fall behind", || is("ON"));
    running.signal("KILL");
    let _ = running.ends_within(Duration::from_secs(10));
    assert!(is("ON"));
    finish(backup(&[]))
        .exits(0)
        .says("ended without putting settings back: doing that first");
    assert!(is("OFF"));

    // Somebody else's is left alone.
    ask(node, "SET GLOBAL wsrep_desync = ON");
    finish(backup(&[]))
        .exits(0)
        .says("wsrep_desync is already ON");
    assert!(is("ON"));
    ask(node, "SET GLOBAL wsrep_desync = OFF");
}

/// Each write-set adds one row, so a dump's seqno determines its number of rows.
// Hazard of clusters: The position of a dump of a node that is written to
#[test]
fn the_seqno_of_a_dump_is_that_of_its_rows() {
    for logged in [false, true] {
        let mut options = GaleraOptions::new(servers::nodes(), 2);
        if logged {
            options = options
                .option("log_bin", "binary-log")
                .option("log_slave_updates", "1");
        }
        let cluster = Cluster::start_with(&options);
        cluster.ask(0, "CREATE DATABASE busy; CREATE TABLE busy.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB");
        let seqno = |at: usize| -> u64 {
            let place = of_cluster(cluster.node(at), "wsrep_last_committed");
            place.parse().expect("a number")
        };
        wait_until("both nodes are at the same place", || seqno(0) == seqno(1));
        let base = seqno(0);
        let (desk, end) = (Desk::new(), AtomicBool::new(false));
        thread::scope(|scope| {
            let _end = StopOnDrop(&end);
            for writer in 0..4 {
                let mut conn = cluster.connect(writer % 2);
                let end = &end;
                scope.spawn(move || {
                    while !end.load(Ordering::Relaxed) {
                        // A failed insert leaves no row and no write-set.
                        let _ = conn.exec("INSERT INTO busy.t (v) VALUES (1)");
                    }
                });
            }
            for round in 0..8 {
                let node = cluster.node(round % 2);
                let out = desk.path(&format!("{logged}-{round}"));
                let mut command =
                    desk.refloat(["dump", "--from", &node.url(), "--databases", "busy"]);
                command
                    .args(["--json", "--threads", "2", "--out"])
                    .arg(&out);
                let run = finish(command).exits(0);
                let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
                let rows = last["outcome"]["summary"]["rows"].as_u64().unwrap();
                let manifest = std::fs::read(out.join("manifest.json")).unwrap();
                let manifest: Value = serde_json::from_slice(&manifest).unwrap();
                let snapshot = &manifest["snapshot"];
                let place = snapshot["galera"].as_str().unwrap();
                let seqno: u64 = place.rsplit(':').next().unwrap().parse().unwrap();
                assert_eq!(
                    rows,
                    seqno - base,
                    "round {round}, logged {logged}: {snapshot}"
                );
                assert!(rows > 0 || round == 0, "nobody writes");
                let took = last["outcome"]["seconds"].as_f64().unwrap();
                assert!(
                    took < 30.0,
                    "round {round}, logged {logged}: {took} s: {snapshot}"
                );
                thread::sleep(Duration::from_millis(50));
            }
        });
    }
}

#[test]
fn a_server_without_a_cluster_cannot_fall_behind_one() {
    let desk = Desk::new();
    let url = shared(ServerKind::MariaDb118).url();
    let mut command = desk.refloat(["dump", "--from", &url, "--desync", "--out"]);
    command.arg(desk.path("dump"));
    finish(command)
        .exits(3)
        .says("not a node of a Galera cluster");
    assert!(!desk.path("dump").exists());
}
