//! Dumps of a cluster node that lags behind: such a dump has what the others had committed when it
//! began, or says why not.

// Hazard of dumps: G-30 a dump of a node that lags has what the cluster had confirmed, or says that
//   its wait failed

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use refloat_sandbox::ServerKind;
use refloat_testkit::cluster::Cluster;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::wait_until;
use serde_json::Value;

use crate::support::{Desk, Run, Running, finish};

/// Rows of a table without a key. To apply a change of all of them, a node reads half the table for
/// each row, which takes a second or more; the node that made the change read the table once.
const KEYLESS: u64 = 5000;
/// Number of such changes, each followed by a row in another table: the snapshot's lock may have to
/// wait for the first one, but not for all.
const CHANGES: u64 = 3;

/// Two nodes, the second of which can be left behind.
fn cluster() -> Cluster {
    let cluster = Cluster::start(ServerKind::MariaDb1011, 2);
    cluster.ask(
        0,
        &format!(
            "CREATE DATABASE lag; USE lag; CREATE TABLE slow (a INT, b INT) ENGINE=InnoDB; CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB; \
             INSERT INTO slow SELECT seq, 0 FROM seq_1_to_{KEYLESS}"
        ),
    );
    keeps_pace(&cluster);
    cluster
}

fn place(cluster: &Cluster, node: usize) -> String {
    cluster.status_of(node, "last_committed")
}

fn keeps_pace(cluster: &Cluster) {
    wait_until("both nodes are at the same place", || {
        place(cluster, 0) == place(cluster, 1)
    });
}

/// Commits rows on the first node, each after a transaction that keeps the second node busy. The
/// table then has `rows` rows.
#[track_caller]
fn leave_behind(cluster: &Cluster, rows: u64) {
    let had = rows - CHANGES;
    for id in had..rows {
        let change = format!("UPDATE lag.slow SET b = b + 1; INSERT INTO lag.t VALUES ({id})");
        cluster.ask(0, &change);
    }
    let count = cluster.ask(1, "SELECT COUNT(*) FROM lag.t");
    let count: u64 = count.parse().expect("a number");
    assert!(
        count < rows - 1,
        "the node does not lag, so nothing is tested"
    );
}

fn dump(desk: &Desk, cluster: &Cluster, name: &str, more: &[&str]) -> Run {
    let mut command = desk.refloat(["dump", "--from", &cluster.url(1), "--databases", "lag"]);
    command.arg("--out").arg(desk.path(name)).args(more);
    finish(command)
}

/// Number of rows of table `t` in a dump.
fn rows_of(desk: &Desk, name: &str) -> Option<u64> {
    let text = std::fs::read(desk.path(name).join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&text).unwrap();
    let tables = manifest["databases"][0]["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["name"] == "t")?;
    table["rows"].as_u64()
}

#[test]
fn a_dump_of_a_node_that_lags_has_what_the_cluster_had_confirmed() {
    let (cluster, desk) = (cluster(), Desk::new());
    // Other tests may keep the machine busy.
    let patience = "SET GLOBAL wsrep_provider_options = 'repl.causal_read_timeout=PT3M'";
    cluster.ask(1, patience);
    let ways: [&[&str]; 3] = [
        &["--threads", "1"],
        &["--threads", "2"],
        &["--threads", "2", "--consistency", "none"],
    ];
    for (way, more) in (1..).zip(ways) {
        leave_behind(&cluster, way * CHANGES);
        let name = format!("dump{way}");
        dump(&desk, &cluster, &name, more).exits(0);
        assert_eq!(rows_of(&desk, &name), Some(way * CHANGES), "{more:?}");
        keeps_pace(&cluster);
    }
}

#[test]
fn a_dump_of_a_node_that_lags_for_too_long_says_so() {
    let (cluster, desk) = (cluster(), Desk::new());
    let patience = "SET GLOBAL wsrep_provider_options = 'repl.causal_read_timeout=PT1S'";
    cluster.ask(1, patience);
    leave_behind(&cluster, CHANGES);
    dump(&desk, &cluster, "dump", &[])
        .exits(1)
        .says("the node lags behind its cluster")
        .says("repl.causal_read_timeout");
    assert!(!desk.path("dump").exists(), "something was written");
    keeps_pace(&cluster);
    dump(&desk, &cluster, "dump", &[]).exits(0);
    assert_eq!(rows_of(&desk, "dump"), Some(CHANGES));
}

/// How fast a copy was once it had said that it slows down, in MiB per second.
fn pace_when_slowed(stdout: &str) -> f64 {
    let events: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let noted = |words: &str| {
        let says = |event: &Value| {
            event["message"]
                .as_str()
                .is_some_and(|it| it.contains(words))
        };
        events.iter().position(says)
    };
    let slows = noted("write-sets of the cluster are waiting there): the copy slows down");
    let slows = slows.unwrap_or_else(|| panic!("{stdout}"));
    let recovers = noted("back at full speed").unwrap_or(events.len());
    let looks = events[slows..recovers]
        .iter()
        .map(|event| &event["snapshot"]);
    let looks = looks.filter(|snapshot| snapshot["phase"] == "data");
    let looks = looks.map(|snapshot| {
        let number = |name: &str| snapshot[name].as_f64().unwrap();
        (number("elapsed"), number("source_done"))
    });
    let looks: Vec<(f64, f64)> = looks.collect();
    assert!(
        looks.len() > 2,
        "it was slow for too short a time: {stdout}"
    );
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    (last.1 - first.1) / (last.0 - first.0) / f64::from(1 << 20)
}

/// The node applies one change of the table without a key after the other, and many small ones
/// behind each. The cluster waits for it (flow control), so a copy of its files waits, too.
#[test]
fn a_gentle_backup_makes_room_for_the_cluster() {
    let (cluster, desk) = (cluster(), Desk::new());
    let number = |text: String| text.parse::<u64>().unwrap();
    let begun = number(place(&cluster, 1));
    let paused = || number(cluster.status_of(0, "flow_control_paused_ns"));
    let before = paused();
    let repo = desk.path("repo").display().to_string();
    let ends = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        let _end = StopOnDrop(&ends);
        scope.spawn(|| {
            // Not more than the node can apply in the time that is waited for it.
            for id in 0..10 {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let insert = |row| format!("INSERT INTO lag.t VALUES ({});", id * 30 + row);
                let inserts: Vec<_> = (0..30).map(insert).collect();
                let changes = format!("UPDATE lag.slow SET b = b + 1; {}", inserts.concat());
                cluster.ask(0, &changes);
            }
        });
        wait_until("the node lags", || {
            let queue = cluster.status_of(1, "local_recv_queue");
            queue.parse::<u64>().is_ok_and(|queue| queue > 8)
        });
        let mut command = desk.refloat(["backup", "--from", &cluster.url(1), "--repo", &repo]);
        command.args(["--gentle", "--max-rate", "24M", "--json"]);
        Running::start(command).ends_within(Duration::from_secs(120))
    });
    assert!(
        paused() > before,
        "nobody had to wait, so nothing is tested"
    );
    // A busy machine can only make it slower. What was not used of a second may be made up for.
    let pace = pace_when_slowed(&run.exits(0).stdout);
    assert!(pace < 16.0, "{pace} MiB/s, and 24 are allowed");
    let shown = finish(desk.refloat(["backups", "show", "latest", "--json", "--repo", &repo]));
    let position = shown.exits(0).json()["about"]["galera"].clone();
    let uuid = cluster.status_of(1, "cluster_state_uuid");
    assert_eq!(position["uuid"], Value::from(uuid), "{position}");
    let seqno = position["seqno"].as_u64().unwrap();
    assert!(
        begun <= seqno && seqno <= number(place(&cluster, 0)),
        "{begun}: {position}"
    );
}
