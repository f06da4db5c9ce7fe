//! Dumps of a cluster node that lags behind: such a dump has what the others had committed when it
//! began, or says why not.

// Hazard of dumps: G-30 a dump of a node that lags has what the cluster had confirmed, or says that
//   its wait failed

use refloat_sandbox::ServerKind;
use refloat_testkit::cluster::Cluster;
use refloat_testkit::wait_until;
use serde_json::Value;

use crate::support::{Desk, Run, finish};

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
