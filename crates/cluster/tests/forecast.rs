//! What `cluster status` foretells, beside what happens: for how long a node may be away, and how many bytes an IST would send.
//!
//! `REFLOAT_FORECAST_ROUNDS` says how often it is tried; each round prints both.

#[path = "nodes/looking.rs"]
mod looking;
mod nodes;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use refloat_cluster::{ClusterView, Member, RejoinKind, WantedTables};
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, ServerKind};
use refloat_testkit::servers;

use looking::{look_for, until};
use nodes::{connect, members};

/// How long rates are measured where they do not matter.
const BRIEF: Duration = Duration::from_millis(100);
/// Bytes of a row of the application.
const ROW: u64 = 20_000;
/// Time from one row to the next: a schedule, so that a slow moment is made up for and the rate stays.
const TICK: Duration = Duration::from_millis(20);
/// The ring of every node: about 16 seconds of the application.
const RING: &str = "16M";
/// By how much what happens may differ from what was foretold.
const TOLERANCE: f64 = 0.2;

/// The node that goes away.
const AWAY: usize = 2;

/// Writes a row at each tick until it is told to stop, and counts them.
fn application(node: &GaleraNode, stop: &AtomicBool, rows: &AtomicU64) {
    let mut conn = connect(node);
    let begun = Instant::now();
    let sql = format!("INSERT INTO app.t (v) VALUES (REPEAT('x', {ROW}))");
    for tick in 1.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        thread::sleep((TICK * tick).saturating_sub(begun.elapsed()));
        conn.exec(&sql).unwrap();
        rows.fetch_add(1, Ordering::SeqCst);
    }
}

fn near(what: &str, foretold: f64, happened: f64) {
    let off = happened / foretold - 1.0;
    println!(
        "{what}: {foretold:.1} foretold, {happened:.1} happened, {:+.1} %",
        off * 100.0
    );
    assert!(
        off.abs() <= TOLERANCE,
        "{what}: {foretold} foretold, {happened} happened"
    );
}

/// The rejoin of the node that is away, where it would be by IST: write-sets and bytes.
fn by_ist(view: &ClusterView) -> Option<(u64, f64)> {
    match view.nodes[AWAY].rejoin.as_ref()?.kind {
        RejoinKind::Ist {
            write_sets, bytes, ..
        } => Some((write_sets, bytes? as f64)),
        _ => None,
    }
}

fn round(cluster: &EphemeralCluster, members: &[Member]) {
    let node = cluster.node(AWAY as u32 + 1).unwrap();
    let brief = || look_for(members, BRIEF, WantedTables::Never);
    let (stop, rows) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let worker = scope.spawn(|| application(cluster.node(1).unwrap(), &stop, &rows));
        // The ring is full of its rows, as it is after a day.
        thread::sleep(Duration::from_secs(20));
        let view = look_for(members, Duration::from_secs(2), WantedTables::Never);
        let gcache = &view.nodes[0].state.as_ref().unwrap().gcache;
        let covers = gcache.covers_seconds.unwrap();

        node.stop().unwrap();
        let (left, before) = (Instant::now(), rows.load(Ordering::SeqCst));
        let mut compared = false;
        loop {
            let view = brief();
            let away = left.elapsed().as_secs_f64();
            let Some((write_sets, bytes)) = by_ist(&view) else {
                near("seconds of absence", covers, away);
                break;
            };
            assert!(away < 2.0 * covers, "{away} s of {covers}: {view:#?}");
            // Half of it is over: what would be sent is what was written since.
            if !compared && away > covers / 2.0 {
                compared = true;
                let written = rows.load(Ordering::SeqCst) - before;
                near("write-sets of an IST", write_sets as f64, written as f64);
                near("bytes of an IST", bytes, (written * ROW) as f64);
            }
        }
        assert!(compared, "it did not last long enough");
        stop.store(true, Ordering::SeqCst);
        worker.join().unwrap();
    });
    node.start().unwrap();
    until("the node is back", brief, |view| view.quorum.synced == 3);
}

#[test]
fn what_is_foretold_of_an_absence_is_what_happens() {
    let rounds = std::env::var("REFLOAT_FORECAST_ROUNDS").map_or(1, |text| text.parse().unwrap());
    let options =
        GaleraOptions::new(ServerKind::MariaDb118, 3).provider_option("gcache.size", RING);
    let cluster = servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap();
    let members = members(&cluster);
    let mut server = connect(cluster.node(1).unwrap());
    for sql in [
        "CREATE DATABASE app",
        "CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY, v MEDIUMTEXT)",
    ] {
        server.exec(sql).unwrap();
    }
    // A past of another kind, which says nothing of what comes.
    for _ in 0..200 {
        server
            .exec("INSERT INTO app.t (v) VALUES (REPEAT('p', 100000))")
            .unwrap();
    }
    for _ in 0..rounds {
        round(&cluster, &members);
    }
}
