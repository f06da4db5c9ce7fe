//! `refloat cluster restore` while nodes die, from a cluster that has crashed.

use std::fs;
use std::time::{Duration, Instant};

use crate::restore::{LONG, Place, ROWS, at_words};

#[test]
fn a_cluster_that_crashed_is_restored_although_nodes_die() {
    let place = Place::new();
    for at in 0..3 {
        // What was committed outlives the crash.
        place.ask(at, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    }
    place.ask(
        0,
        "CREATE DATABASE kept; CREATE TABLE kept.k (id INT PRIMARY KEY); INSERT INTO kept.k VALUES (1), (2)",
    );
    place.all_are_in_step();
    place.cluster.crash().expect("it crashes");
    for at in 0..3 {
        let text = fs::read_to_string(place.node(at).grastate()).expect("a state");
        assert!(text.contains("-1"), "{text}");
    }
    let (first, second) = (place.name(0), place.name(1));
    place
        .restore(&["--node", first, "--stop-before", "rejoin"])
        .exits(5);
    let again = || place.restore_by(&place.cluster.toml(), &[]);

    // The one that gives the copy dies, and then the one that takes it.
    let words = format!("starting {second}");
    for at in [0, 1] {
        let (code, all) = at_words(&mut again(), &words, |_| {
            // It is told before there is a process.
            let begun = Instant::now();
            while place.node(at).pid().expect("a node").is_none() {
                assert!(begun.elapsed() < LONG, "it is not started");
                std::thread::sleep(Duration::from_millis(20));
            }
            place.node(at).kill().expect("it can be killed");
        });
        assert_eq!(code, Some(1), "{all}");
        assert_eq!(
            all.contains(&format!(
                "{first} is down, and the others are to take copies of it"
            )),
            at == 1,
            "{all}"
        );
    }
    // All die that are back by then.
    let (_, all) = at_words(
        &mut again(),
        &format!("{second} is back by a full copy"),
        |child| child.kill().expect("it can be killed"),
    );
    assert!(all.contains(&words), "{all}");
    place.cluster.crash().expect("it crashes");
    place.restore(&[]).exits(0);
    place.is_whole();
    assert_eq!(
        place.ask(2, "SELECT COUNT(*), SUM(id) FROM shop.t"),
        format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2)
    );
    assert_eq!(place.ask(1, "SELECT COUNT(*) FROM kept.k"), "2");
}
