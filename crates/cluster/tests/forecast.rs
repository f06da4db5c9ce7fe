//! Compares the forecasts of `cluster status` with what happens: how long a node may be away, and
//! what an IST brings, in write-sets (from the joiner's log) and in bytes (from what its donors
//! send).
//!
//! `REFLOAT_FORECAST_ROUNDS` sets the number of rounds; each prints the forecast and the outcome.

#[path = "nodes/looking.rs"]
mod looking;
mod nodes;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use refloat_cluster::{ClusterView, Member, RejoinKind, WantedTables};
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, ServerKind};
use refloat_testkit::servers;
use refloat_testkit::stop::StopOnDrop;

use looking::{look_for, until};
use nodes::{connect, members};

/// Sample time where the rates do not matter.
const BRIEF: Duration = Duration::from_millis(100);
/// Bytes per row of the application.
const ROW: u64 = 20_000;
/// Interval between rows. It is a schedule: a slow moment is made up for, so the rate holds.
const TICK: Duration = Duration::from_millis(20);
/// Ring size of every node: about 16 seconds of writes.
const RING: &str = "16M";
/// Rows that overwrite the ring: 20 seconds of writes if the application keeps to its schedule.
const OVERWRITTEN: u64 = 1000;
/// Rows missed by a node that comes back by IST: 8 seconds of writes.
const MISSED: u64 = 400;
/// Sample time for the forecast of an absence.
const SAMPLE: Duration = Duration::from_secs(4);
/// Limit for waiting on any number of rows.
const PATIENCE: Duration = Duration::from_secs(300);
/// Allowed deviation of the outcome from the forecast, as a fraction.
const TOLERANCE: f64 = 0.2;

/// Index of the node that goes away.
const AWAY: usize = 2;

/// Writes and counts one row per tick until told to stop.
fn application(node: &GaleraNode, written: &AtomicU64, stop: &AtomicBool) {
    let mut conn = connect(node);
    let begun = Instant::now();
    let sql = format!("INSERT INTO app.t (v) VALUES (REPEAT('x', {ROW}))");
    for tick in 1.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        thread::sleep((TICK * tick).saturating_sub(begun.elapsed()));
        conn.exec(&sql).unwrap();
        written.store(u64::from(tick), Ordering::SeqCst);
    }
}

/// Waits until the application has written `rows` rows.
fn until_written(written: &AtomicU64, rows: u64) {
    let begun = Instant::now();
    while written.load(Ordering::SeqCst) < rows {
        assert!(begun.elapsed() < PATIENCE, "{written:?} of {rows} rows");
        thread::sleep(TICK);
    }
}

/// The application's progress since a given moment.
struct Pace<'a> {
    written: &'a AtomicU64,
    before: u64,
    begun: Instant,
}

impl<'a> Pace<'a> {
    fn from_now_on(written: &'a AtomicU64) -> Self {
        Self {
            written,
            before: written.load(Ordering::SeqCst),
            begun: Instant::now(),
        }
    }

    fn rows(&self) -> f64 {
        (self.written.load(Ordering::SeqCst) - self.before) as f64
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn rows_per_second(&self) -> f64 {
        self.rows() / self.seconds()
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

/// Write-sets and bytes of the forecast IST for the node that is away. `None`: IST is not possible.
fn by_ist(view: &ClusterView) -> Option<(u64, f64)> {
    match view.nodes[AWAY].rejoin.as_ref()?.kind {
        RejoinKind::Ist {
            write_sets, bytes, ..
        } => Some((write_sets, bytes? as f64)),
        _ => None,
    }
}

/// Runs `work` while the application writes; `work` sees the row count.
fn while_it_writes(cluster: &EphemeralCluster, work: impl FnOnce(&AtomicU64)) {
    let (written, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| application(cluster.node(1).unwrap(), &written, &stop));
        let _stop = StopOnDrop(&stop);
        work(&written);
    });
}

/// Bytes sent so far by the nodes that stay, for any purpose: each has its own network namespace.
fn sent(cluster: &EphemeralCluster) -> u64 {
    let mut all = 0;
    for node in &cluster.nodes()[..AWAY] {
        let pid = node.pid().unwrap().unwrap();
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
        let links = text.lines().filter_map(|line| line.split_once(':'));
        all += links
            .filter(|(name, _)| name.trim() != "lo")
            .map(|(_, counts)| {
                // Eight receive columns come first.
                let bytes = counts.split_whitespace().nth(8).unwrap();
                bytes.parse::<u64>().unwrap()
            })
            .sum::<u64>();
    }
    all
}

/// Write-sets in the node's last IST, according to its log.
fn received(node: &GaleraNode) -> u64 {
    let log = std::fs::read_to_string(node.error_log()).unwrap();
    let (_, last) = log.rsplit_once("Receiving IST: ").unwrap();
    let (count, _) = last.split_once(" writesets").unwrap();
    count.parse().unwrap()
}

/// A node that comes back in time gets the IST that was forecast.
fn what_an_ist_brings(cluster: &EphemeralCluster, members: &[Member]) {
    let node = cluster.node(AWAY as u32 + 1).unwrap();
    let brief = || look_for(members, BRIEF, WantedTables::Never);
    while_it_writes(cluster, |written| {
        // The ring holds nothing but the application's rows, as it does after a day of writes.
        until_written(written, OVERWRITTEN);
        let missed_from = written.load(Ordering::SeqCst);
        node.stop().unwrap();
        until_written(written, missed_from + MISSED);
    });
    let (write_sets, bytes) = by_ist(&brief()).unwrap();
    let before = sent(cluster);
    node.start().unwrap();
    until("the node is back", brief, |view| view.quorum.synced == 3);
    near(
        "write-sets that came by IST",
        write_sets as f64,
        received(node) as f64,
    );
    near("bytes that came", bytes, (sent(cluster) - before) as f64);
}

/// A node stays away until IST is no longer possible.
fn how_long_it_may_be_away(cluster: &EphemeralCluster, members: &[Member]) {
    let node = cluster.node(AWAY as u32 + 1).unwrap();
    let brief = || look_for(members, BRIEF, WantedTables::Never);
    while_it_writes(cluster, |written| {
        // The rate while the application still connects is not the rate that follows.
        thread::sleep(Duration::from_secs(2));
        let measured = Pace::from_now_on(written);
        let view = look_for(members, SAMPLE, WantedTables::Never);
        let measured = measured.rows_per_second();
        let gcache = &view.nodes[0].state.as_ref().unwrap().gcache;
        let covers = gcache.covers_seconds.unwrap();

        // The absence begins now: a stopping node leaves the cluster before its slower shutdown
        // steps.
        let away = Pace::from_now_on(written);
        node.stop().unwrap();
        let view = until("IST is not possible", brief, |view| {
            by_ist(view).is_none() || away.rows() > 2.0 * covers * measured
        });
        assert!(by_ist(&view).is_none(), "{covers} s: {view:#?}");
        // The forecast assumes the measured rate, which a busy machine does not sustain.
        let foretold = covers * measured / away.rows_per_second();
        near("seconds of absence", foretold, away.seconds());
    });
    node.start().unwrap();
    until("the node is back", brief, |view| view.quorum.synced == 3);
}

#[test]
fn what_is_foretold_of_an_absence_is_what_happens() {
    let rounds = std::env::var("REFLOAT_FORECAST_ROUNDS").map_or(1, |text| text.parse().unwrap());
    let options = GaleraOptions::new(servers::nodes_or(ServerKind::MariaDb118), 3)
        .isolated()
        .provider_option("gcache.size", RING);
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
    // An unlike past, which says nothing about what comes.
    for _ in 0..200 {
        server
            .exec("INSERT INTO app.t (v) VALUES (REPEAT('p', 100000))")
            .unwrap();
    }
    for _ in 0..rounds {
        what_an_ist_brings(&cluster, &members);
        how_long_it_may_be_away(&cluster, &members);
    }
}
