//! Replicas of the nodes of a restored cluster: the replica of the node that is loaded into gets
//! the rows, others are named.

// Hazard of clusters: G-27 replicas of nodes of a cluster that is restored: that of the node which
//   is loaded into gets the rows, others are named in the plan

use std::fs;
use std::time::Instant;

use refloat_sandbox::{GaleraOptions, Instance};
use refloat_testkit::servers;

use crate::restore::{LONG, Place};
use crate::support::Run;

const ROWS: u64 = 3000;

fn ask(server: &Instance, sql: &str) -> String {
    let answer = server.query(sql);
    answer.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn a_replica_of_the_chosen_node_gets_the_rows_and_others_are_named() {
    let options = GaleraOptions::new(servers::nodes(), 2)
        .option("log_bin", "binlog")
        .option("log_slave_updates", "ON");
    let place = Place::with(&options);
    let options = servers::quick(servers::nodes()).option("server_id", "99");
    let replicas = [0, 1].map(|_| servers::start(&options));
    for (at, replica) in replicas.iter().enumerate() {
        let log = place.ask(at, "SHOW MASTER STATUS");
        let (file, position) = log.split_once('\t').expect("a place in the log");
        let position = position.split('\t').next().expect("a position");
        let port = place.ask(at, "SELECT @@port");
        ask(
            replica,
            &format!(
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', MASTER_LOG_FILE='{file}', \
                 MASTER_LOG_POS={position}, MASTER_CONNECT_RETRY=1, MASTER_SSL=0; START SLAVE"
            ),
        );
    }
    place.ask(1, "CREATE DATABASE before_it");
    let has = |replica: &Instance, sql: &str, wanted: &str| {
        let begun = Instant::now();
        while replica.query(sql).unwrap_or_default() != wanted {
            let state = || ask(replica, "SHOW ALL SLAVES STATUS");
            assert!(begun.elapsed() < LONG, "{sql}: {}", state());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    for replica in &replicas {
        has(replica, "SHOW DATABASES LIKE 'before_it'", "before_it");
    }

    let rows: Vec<String> = (1..=ROWS).map(|id| format!("({id},'row {id}')")).collect();
    let dump = place.state.path().join("small.sql");
    let text = format!(
        "-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB\nCREATE DATABASE small;\nUSE small;\n\
         CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(100)) ENGINE=InnoDB;\nINSERT INTO t VALUES {};\n\
         -- Dump completed on 2026-01-01  0:00:00\n",
        rows.join(",")
    );
    fs::write(&dump, text).expect("the dump can be written");
    let [first, second] = [0, 1].map(|at| place.name(at).to_owned());
    let way = ["--way", "rebuild", "--node", &first];
    let restore = |args: &[&str]| {
        let args = [&way[..], args].concat();
        let mut command = place.restore_of(&dump, &place.cluster.toml(), &args);
        Run::of(&mut command)
    };
    let plan = restore(&["--plan"]).exits(0).stdout;
    for words in [
        format!("{first}: a replica reads its binary log, and gets the rows from it"),
        format!("{second}: a replica reads its binary log, which is gone once it has taken a copy"),
    ] {
        assert!(plan.contains(&words), "{words}: {plan}");
    }
    restore(&[]).exits(0);
    place.ask(1, "INSERT INTO small.t VALUES (0, 'written since')");
    let count = "SELECT COUNT(*), SUM(id) FROM small.t";
    let wanted = format!("{}\t{}", ROWS + 1, ROWS * (ROWS + 1) / 2);
    has(&replicas[0], count, &wanted);
    // No database of refloat's own is left on the replica, and none has stopped it.
    has(&replicas[0], "SHOW DATABASES LIKE 'refloat%'", "");
    let state = ask(&replicas[0], "SHOW ALL SLAVES STATUS");
    assert!(state.contains("\tYes\tYes\t"), "{state}");
}
