//! Loads into a running Galera cluster: applications carry on beside them, limits hold, and nothing
//! stays on one node unless asked for.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use refloat_sandbox::{GaleraNode, GaleraOptions, HaproxyOptions, NodeStart};
use refloat_testkit::cluster::Cluster;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::{oracle, servers};
use refloat_wire::{ConnectOptions, Connection};
use serde_json::Value;

use crate::restore::LONG;
use crate::support::{Run, command, signal, state_folder};
use crate::time_limits::KillOnDrop;

/// Rows of the large dump, about 16 MB.
const ROWS: u64 = 160_000;
/// How long an application rests after each transaction.
const THINKING: Duration = Duration::from_millis(5);
/// No load here takes a quarter of this.
const TOO_LONG: Duration = Duration::from_secs(240);

/// A cluster with a load balancer, and a place for dumps and runs.
struct Place {
    cluster: Cluster,
    state: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self::with(|options| options)
    }

    fn with(more: impl FnOnce(GaleraOptions) -> GaleraOptions) -> Self {
        let state = state_folder();
        // Flow control sets in early, as on a cluster whose nodes must not lag.
        let options = GaleraOptions::new(servers::nodes(), 3)
            .provider_option("gcs.fc_limit", "4")
            .haproxy(HaproxyOptions::default());
        Self {
            cluster: Cluster::start_with(&more(options)),
            state,
        }
    }

    fn node(&self, at: usize) -> &GaleraNode {
        self.cluster.node(at)
    }

    fn dump(&self, name: &str, text: &str) -> PathBuf {
        let path = self.state.path().join(name);
        fs::write(&path, text).expect("the dump can be written");
        path
    }

    fn load(&self, dump: &Path, url: &str, args: &[&str]) -> Run {
        let mut command = command(self.state.path());
        command
            .arg("load")
            .arg(dump)
            .args(["--no-defaults", "--to", url])
            .args(args);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = StopOnDrop(&over);
            scope.spawn(|| self.shows_what_takes_long(&over));
            Run::of(&mut command)
        })
    }

    /// What the nodes do while a load takes far too long: it says what it waits for.
    fn shows_what_takes_long(&self, over: &AtomicBool) {
        let begun = Instant::now();
        while begun.elapsed() < TOO_LONG {
            if over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(THINKING);
        }
        let shown = [
            "SHOW FULL PROCESSLIST",
            "SELECT * FROM information_schema.INNODB_TRX",
            "SHOW STATUS LIKE 'wsrep_local%'",
        ];
        for (at, sql) in (0..3).flat_map(|at| shown.map(|sql| (at, sql))) {
            eprintln!("node {at}: {sql}\n{:?}", self.node(at).query(sql));
        }
    }

    /// The outcome of a load that must succeed.
    #[track_caller]
    fn loads(&self, dump: &Path, url: &str, args: &[&str]) -> (Value, Run) {
        let run = self.load(dump, url, &[&["--json"], args].concat()).exits(0);
        let last = run.stdout.lines().last().expect("an outcome");
        let record: Value = serde_json::from_str(last).expect("JSON");
        (record["outcome"]["summary"].clone(), run)
    }

    #[track_caller]
    fn ask(&self, at: usize, sql: &str) -> String {
        let node = self.node(at);
        node.query(sql)
            .unwrap_or_else(|error| panic!("{}: {sql}: {error}", node.name()))
    }

    fn on_all(&self, sql: &str) {
        for at in 0..3 {
            self.ask(at, sql);
        }
    }

    #[track_caller]
    fn all_are_the_same(&self) {
        let all: Vec<oracle::Snapshot> = (0..3)
            .map(|at| {
                let mut conn = self.cluster.connect(at);
                conn.exec("SET SESSION wsrep_sync_wait = 15").unwrap();
                oracle::Snapshot::take(&mut conn, oracle::Scope::default()).expect("a snapshot")
            })
            .collect();
        for at in 1..3 {
            assert_eq!(oracle::differences(&all[0], &all[at]), []);
        }
    }

    fn paused(&self, at: usize) -> u64 {
        let status = self.ask(at, "SHOW GLOBAL STATUS LIKE 'wsrep_flow_control_paused_ns'");
        status
            .split('\t')
            .nth(1)
            .and_then(|ns| ns.parse().ok())
            .expect("a number")
    }
}

/// A dump of one database with these tables.
fn dump_of(database: &str, body: &str) -> String {
    format!(
        "-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB\nCREATE DATABASE {database};\nUSE {database};\n{body}-- Dump completed on 2026-01-01  0:00:00\n"
    )
}

fn rows_of(table: &str, rows: u64, per_statement: u64) -> String {
    let mut text = String::new();
    for first in (1..=rows).step_by(usize::try_from(per_statement).unwrap()) {
        let values: Vec<String> = (first..(first + per_statement).min(rows + 1))
            .map(|id| format!("({id},{},'{:0>80}')", id % 77, id * 31))
            .collect();
        let _ = writeln!(text, "INSERT INTO {table} VALUES {};", values.join(","));
    }
    text
}

fn table(name: &str, options: &str) -> String {
    format!(
        "CREATE TABLE {name} (id BIGINT NOT NULL, k INT, v VARCHAR(100), PRIMARY KEY (id), KEY k (k), KEY v (v)) {options};\n"
    )
}

/// Two tables of so many rows each.
fn two_tables(rows: u64) -> String {
    format!(
        "{}{}{}{}",
        table("t", "ENGINE=InnoDB"),
        rows_of("t", rows, 1000),
        table("u", "ENGINE=InnoDB"),
        rows_of("u", rows, 1000)
    )
}

/// What an application has seen on one node.
#[derive(Debug)]
struct Application {
    commits: u64,
    /// Seconds that commits took beyond [`NOTICED`].
    waited: f64,
    longest: f64,
    seconds: f64,
    /// Commits per second in the half second before the work began; `beside` is the rate during it.
    alone: f64,
    beside: f64,
}

/// Seconds after which a person notices a slow commit.
const NOTICED: f64 = 0.25;

/// A connection whose reads time out.
fn connect(url: &str) -> Connection {
    let mut options = ConnectOptions::from_url(url).unwrap();
    options.read_timeout = Some(LONG);
    Connection::connect(&options).unwrap()
}

/// Writes one row per transaction, with consecutive ids, until told to end.
fn application(url: &str, table: &str, (count, end): (&AtomicU64, &AtomicBool)) -> Application {
    let mut conn = connect(url);
    let begun = Instant::now();
    let mut seen = Application {
        commits: 0,
        waited: 0.0,
        longest: 0.0,
        seconds: 0.0,
        alone: 0.0,
        beside: 0.0,
    };
    while !end.load(Ordering::Relaxed) {
        let at = Instant::now();
        let id = seen.commits + 1;
        conn.exec(format!("INSERT INTO app.{table} VALUES ({id})"))
            .unwrap_or_else(|error| panic!("{table} {id}: {error}"));
        let took = at.elapsed().as_secs_f64();
        seen.commits = id;
        count.store(id, Ordering::Relaxed);
        seen.waited += (took - NOTICED).max(0.0);
        seen.longest = seen.longest.max(took);
        std::thread::sleep(THINKING);
    }
    seen.seconds = begun.elapsed().as_secs_f64();
    seen
}

impl Place {
    /// Runs applications on all nodes beside `work`. Also returns what they saw, and each node's
    /// share of time paused by flow control.
    fn beside_applications<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Application>, Vec<f64>) {
        self.ask(0, "CREATE DATABASE IF NOT EXISTS app");
        for at in 0..3 {
            self.ask(
                0,
                &format!("CREATE OR REPLACE TABLE app.a{at} (id BIGINT PRIMARY KEY) ENGINE=InnoDB"),
            );
        }
        for at in 0..3 {
            self.ask(at, "SET SESSION wsrep_sync_wait = 15; SHOW TABLES FROM app");
        }
        let end = AtomicBool::new(false);
        let urls: Vec<String> = (0..3).map(|at| self.cluster.url(at)).collect();
        let counts = [const { AtomicU64::new(0) }; 3];
        let rates = |since: Instant, before: [u64; 3]| {
            let seconds = since.elapsed().as_secs_f64();
            [0, 1, 2].map(|at| (counts[at].load(Ordering::Relaxed) - before[at]) as f64 / seconds)
        };
        let now = || [0, 1, 2].map(|at: usize| counts[at].load(Ordering::Relaxed));
        let (result, seen, paused) = std::thread::scope(|scope| {
            let _end = StopOnDrop(&end);
            let running: Vec<_> = urls
                .iter()
                .enumerate()
                .map(|(at, url)| {
                    let (count, end) = (&counts[at], &end);
                    scope.spawn(move || application(url, &format!("a{at}"), (count, end)))
                })
                .collect();
            let one_has_ended = || running.iter().any(ScopedJoinHandle::is_finished);
            while now().contains(&0) && !one_has_ended() {
                std::thread::sleep(Duration::from_millis(10));
            }
            let (begun, written) = (Instant::now(), now());
            std::thread::sleep(Duration::from_secs(2));
            let alone = rates(begun, written);
            let before: Vec<u64> = (0..3).map(|at| self.paused(at)).collect();
            let (begun, written) = (Instant::now(), now());
            let result = work();
            let time = begun.elapsed().as_nanos() as f64;
            let beside = rates(begun, written);
            let paused = (0..3)
                .map(|at| (self.paused(at) - before[at]) as f64 / time)
                .collect();
            end.store(true, Ordering::Relaxed);
            let seen: Vec<Application> = running
                .into_iter()
                .map(|thread| thread.join().expect("an application"))
                .zip(alone.into_iter().zip(beside))
                .map(|(seen, (alone, beside))| Application {
                    alone,
                    beside,
                    ..seen
                })
                .collect();
            (result, seen, paused)
        });
        for (at, one) in seen.iter().enumerate() {
            // No acknowledged write is missing on any node.
            for node in 0..3 {
                let sql = format!(
                    "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*), MAX(id) FROM app.a{at}"
                );
                assert_eq!(self.ask(node, &sql), format!("{0}\t{0}", one.commits));
            }
        }
        (result, seen, paused)
    }
}

// Hazard of clusters: G-18, G-19 definitions and flow control stop applications for no longer than
//   allowed
#[test]
fn applications_go_on_beside_a_load() {
    let place = Place::new();
    let url = place.cluster.url(0);
    let (paused, shown) = a_load_leaves_them_their_rate(&place, &url);
    a_load_without_limit_stalls_them(&place, &url, &paused, &shown);
    let late = place.dump("late.sql", &dump_of("late", &two_tables(ROWS * 5 / 8)));
    a_load_notices_who_begins_to_write(&place, &url, &late);
    a_load_told_to_replicate_is_not_paced(&place, &url, &late);
}

/// Returns each node's share of time paused by flow control, and all that was measured.
fn a_load_leaves_them_their_rate(place: &Place, url: &str) -> (Vec<f64>, String) {
    let dump = place.dump("shop.sql", &dump_of("shop", &two_tables(ROWS / 4)));
    // Nodes on one busy machine stall now and then for reasons of their own, but not in three runs.
    let mut shown = String::new();
    let mut loads = (0..3).map(|_| {
        let ((outcome, run), seen, paused) =
            place.beside_applications(|| place.loads(&dump, url, &[]));
        place.all_are_the_same();
        let _ = writeln!(shown, "{seen:?} {paused:?} {}", outcome["galera"]);
        let held = paused.iter().all(|share| *share <= 0.05)
            && seen.iter().all(|one| {
                // The application keeps at least a quarter of its rate. (More than half is usual,
                // even beside other tests on two cores.)
                one.waited <= 0.05 * one.seconds && one.beside >= one.alone / 4.0
            });
        if !held {
            place.ask(0, "DROP DATABASE shop");
        }
        held.then_some((outcome, run, paused))
    });
    let kept = loads.find_map(|kept| kept);
    let (outcome, run, paused) = kept.unwrap_or_else(|| panic!("{shown}"));
    let galera = &outcome["galera"];
    assert_eq!(galera["nodes"].as_array().unwrap().len(), 3, "{shown}");
    assert_eq!(galera["stalls"], 0, "{shown}");
    assert!(galera["held_seconds"].as_f64().unwrap() > 0.0, "{shown}");
    assert!(run.stdout.contains("--max-paused 5"), "{}", run.stdout);
    place.ask(0, "DROP DATABASE shop");
    (paused, shown)
}

fn a_load_without_limit_stalls_them(place: &Place, url: &str, paused: &[f64], shown: &str) {
    // Larger, so that indexes are built after the rows.
    let body = two_tables(ROWS * 5 / 8);
    let again = place.dump("fast.sql", &dump_of("fast", &body));
    let most = |shares: &[f64]| shares.iter().copied().fold(0.0, f64::max);
    let mut shown = shown.to_owned();
    // A busy machine may have stopped the applications beside the other load, but not three times
    // more than this one does.
    let mut loads = (0..3).map(|_| {
        let ((fast, _), wild, stopped) =
            place.beside_applications(|| place.loads(&again, url, &["--max-paused", "100"]));
        let _ = writeln!(shown, "{wild:?} {stopped:?} {}", fast["galera"]);
        place.all_are_the_same();
        place.ask(0, "DROP DATABASE fast");
        (most(&stopped) > most(paused)).then_some(fast)
    });
    let fast = loads.find_map(|stopped| stopped);
    let fast = fast.unwrap_or_else(|| panic!("{shown}"));
    assert!(fast["galera"]["stalls"].as_u64().unwrap() > 0, "{shown}");
    // The longest stall is reported with its statement.
    let (seconds, statement) = (
        &fast["galera"]["longest_stall"][0],
        &fast["galera"]["longest_stall"][1],
    );
    assert!(
        seconds.as_f64().is_some_and(|seconds| seconds > 0.0)
            && statement.as_str().is_some_and(|sql| !sql.is_empty()),
        "{shown}"
    );
}

/// While nobody writes, nothing is held back; as soon as somebody does, the rest of the load is.
fn a_load_notices_who_begins_to_write(place: &Place, url: &str, late: &Path) {
    // The second run writes on the load's own node, which also sends the load's write-sets.
    let longer = place.dump("longer.sql", &dump_of("late", &two_tables(ROWS)));
    for (at, dump) in [(1, late), (0, &longer)] {
        let end = AtomicBool::new(false);
        let there = place.cluster.url(at);
        let (outcome, run) = std::thread::scope(|scope| {
            let _end = StopOnDrop(&end);
            let writer = scope.spawn(|| {
                let begun = || place.node(at).query("SHOW TABLES FROM late LIKE 't'");
                while begun().unwrap_or_default() != "t" && !end.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                place.ask(at, "TRUNCATE TABLE app.a1");
                application(&there, "a1", (&AtomicU64::new(0), &end))
            });
            let loaded = place.loads(dump, url, &[]);
            end.store(true, Ordering::Relaxed);
            writer.join().expect("an application");
            loaded
        });
        assert!(
            run.stdout.contains("somebody else writes on node"),
            "{}",
            run.stdout
        );
        assert_eq!(outcome["galera"]["paced"], true, "{outcome}");
        place.all_are_the_same();
        place.ask(0, "DROP DATABASE late");
    }
}

fn a_load_told_to_replicate_is_not_paced(place: &Place, url: &str, late: &Path) {
    let (outcome, _) = place.loads(late, url, &["--galera", "replicate"]);
    assert_eq!(outcome["galera"]["paced"], false, "{outcome}");
    // Restore estimates learn from these.
    assert_eq!(
        outcome["galera"]["cluster"],
        place.ask(0, "SELECT @@wsrep_cluster_name")
    );
    assert!(outcome["bytes"].as_u64() > Some(ROWS * 80), "{outcome}");
    assert!(outcome["seconds"].as_f64() > Some(0.0), "{outcome}");
    assert!(outcome["target"].is_string() && outcome["resumed"].is_null());
    assert!(
        outcome["galera"]["stalls"].as_u64().unwrap() > 0,
        "{outcome}"
    );
    place.all_are_the_same();
}

/// What a load into one node must be told, and what it says.
// Hazard of clusters: G-02 `wsrep_on` off, globally; a node that has left its cluster; `--galera
//   local`
// Hazard of clusters: G-17 engines that are not replicated
#[test]
fn nothing_stays_on_one_node_unasked() {
    // A redo log too small even for these dumps.
    let place = Place::with(|options| {
        options
            .option("innodb_log_file_size", "4M")
            .option("innodb_log_buffer_size", "2M")
    });
    let small = place.dump(
        "small.sql",
        &dump_of(
            "small",
            &format!(
                "{}{}",
                table("t", "ENGINE=InnoDB"),
                rows_of("t", 3000, 1000)
            ),
        ),
    );
    through_a_load_balancer(&place, &small);
    limits_hold(&place);
    statements_that_were_cut_are_known_again(&place);
    goes_on_at_another_node(&place);
    settings_of_all_nodes(&place);
    without_a_key(&place);
    what_would_stay_on_one_node_is_refused(&place, &small);
    engines_that_are_not_replicated(&place);
    a_node_that_has_left_its_cluster(&place, &small);
}

#[track_caller]
fn is_gone(place: &Place) {
    assert!(place.ask(0, "SHOW DATABASES LIKE 'small'").is_empty());
}

fn what_would_stay_on_one_node_is_refused(place: &Place, small: &Path) {
    let url = place.cluster.url(0);
    place
        .load(small, &url, &["--galera", "local"])
        .exits(3)
        .says("Rows that are on this node alone make it differ from the others")
        .says("cluster restore");
    place
        .load(small, &url, &["--durability", "disposable"])
        .exits(3)
        .says("would take it out of the cluster");
    place
        .load(small, &url, &["--binlog", "off"])
        .exits(3)
        .says("not written to the binary log");
    for (setting, back, words) in [
        (
            "wsrep_OSU_method = 'RSU'",
            "wsrep_OSU_method = 'TOI'",
            "on this node alone",
        ),
        ("wsrep_on = OFF", "wsrep_on = ON", "on this node alone"),
        (
            "wsrep_reject_queries = ALL",
            "wsrep_reject_queries = NONE",
            "",
        ),
    ] {
        place.ask(0, &format!("SET GLOBAL {setting}"));
        let run = place.load(small, &url, &[]);
        // A node that rejects all queries rejects those through the socket as well, but not the SET
        // that ends it.
        place.ask(0, &format!("SET GLOBAL {back}"));
        assert_ne!(run.code, 0, "{setting}: {}", run.stderr);
        run.says(words);
    }
    is_gone(place);
}

fn engines_that_are_not_replicated(place: &Place) {
    let url = place.cluster.url(0);
    let local = place.dump(
        "local.sql",
        &dump_of(
            "local",
            &format!(
                "{}{}",
                table("t", "ENGINE=MyISAM"),
                rows_of("t", 3000, 1000)
            ),
        ),
    );
    place
        .load(&local, &url, &[])
        .exits(3)
        .says("table local.t (line 4) has engine MyISAM")
        .says("--local-engines");
    let (outcome, _) = place.loads(&local, &url, &["--local-engines"]);
    assert_eq!(outcome["galera"]["not_replicated"]["first"][0], "local.t");
    assert_eq!(place.ask(0, "SELECT COUNT(*) FROM local.t"), "3000");
    assert_eq!(place.ask(1, "SELECT COUNT(*) FROM local.t"), "0");
    place.ask(0, "DROP DATABASE local");
}

/// A server without a provider is no cluster, and a node that has left its cluster must not be
/// loaded as if it were whole.
fn a_node_that_has_left_its_cluster(place: &Place, small: &Path) {
    place.node(2).stop().unwrap();
    let alone = NodeStart::join().argument("wsrep_on", "OFF");
    place.node(2).start_with(&alone).unwrap();
    let left = place.node(2).url();
    place
        .load(small, &left, &[])
        .exits(3)
        .says("has left its Galera cluster")
        .says("--galera local");
    place
        .load(small, &left, &["--galera", "replicate"])
        .exits(3)
        .says("has left its Galera cluster");
    let plain = servers::server(servers::nodes()).url();
    place
        .load(small, &plain, &["--galera", "replicate"])
        .exits(3)
        .says("is not a node of a Galera cluster");
    place.loads(small, &left, &["--galera", "local"]);
    assert_eq!(place.ask(2, "SELECT COUNT(*) FROM small.t"), "3000");
    is_gone(place);
}

fn through_a_load_balancer(place: &Place, dump: &Path) {
    let proxy = place.cluster.haproxy_url().expect("a proxy");
    let run = place.load(dump, &proxy, &["--json"]).exits(0);
    for words in [
        "is a load balancer before Galera cluster",
        "the slowest way",
        "directly",
    ] {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    // Each node is listed once, at its own address.
    let mut status = command(place.state.path());
    status.args(["cluster", "status", "--json", "--cluster", &proxy]);
    let status = Run::of(&mut status);
    let view: Value = serde_json::from_str(&status.stdout).expect("a view");
    let nodes = view["nodes"].as_array().expect("nodes").iter();
    let names: std::collections::BTreeSet<&str> = nodes
        .filter_map(|node| node["state"]["node_name"].as_str())
        .collect();
    assert_eq!(names.len(), 3, "{view}");
    assert_eq!(view["nodes"].as_array().map(Vec::len), Some(3), "{view}");
    assert_eq!(view["quorum"]["listed"], 3, "{view}");
    assert!(view.to_string().contains("is a load balancer"), "{view}");
    let direct = place.cluster.url(0);
    let ports: Vec<&str> = [0, 1, 2]
        .map(|at| place.cluster.url(at))
        .map(|url| {
            url.rsplit(':')
                .next()
                .unwrap()
                .trim_end_matches('/')
                .to_owned()
        })
        .map(|port| &*Box::leak(port.into_boxed_str()))
        .into();
    let target = run.stdout.lines().last().unwrap().to_owned();
    let record: Value = serde_json::from_str(&target).unwrap();
    let target = record["outcome"]["summary"]["target"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        ports.iter().any(|port| target.ends_with(port)),
        "{target} {direct}"
    );
    place.all_are_the_same();
    place.ask(0, "DROP DATABASE small");
    // A user who insists loads through the proxy, over several nodes at once, and the load sees
    // what it wrote on other nodes.
    for path in ["auto", "insert"] {
        let (outcome, run) = place.loads(
            dump,
            &proxy,
            &["--through-proxy", "--threads", "4", "--write-path", path],
        );
        assert!(
            run.stdout.contains("This is the slowest way"),
            "{}",
            run.stderr
        );
        assert_eq!(outcome["rows"], 3000);
        place.all_are_the_same();
        place.ask(0, "DROP DATABASE small");
    }
}

/// Without any flag, a load cuts the dump's statements into pieces and commits several pieces of
/// one statement per transaction. The next process must recognize them.
fn statements_that_were_cut_are_known_again(place: &Place) {
    let mut body = String::new();
    for name in ["a", "b"] {
        body.push_str(&table(name, "ENGINE=InnoDB"));
        body.push_str(&rows_of(name, 4000, 2000));
    }
    let good = dump_of("cut", &body);
    // The last statement needs a function that does not exist.
    let bad = good.replace("-- Dump completed", "DO cut.f();\n-- Dump completed");
    let dump = place.dump("cut.sql", &bad);
    let url = place.cluster.url(0);
    for args in [
        &["--threads", "2"][..],
        &["--threads", "2", "--max-paused", "5"][..],
    ] {
        place.load(&dump, &url, args).exits(1);
        let on = [args, &["--uncertain-statement", "done"]].concat();
        // Different rows in their place do not count as loaded.
        let other = bad.replacen("(1205,50,'0", "(1205,50,'1", 1);
        assert_ne!(other, bad);
        place.dump("cut.sql", &other);
        place
            .load(&dump, &url, &on)
            .exits(1)
            .says("are not those that were here when the load began");
        place.dump("cut.sql", &bad);
        // The function may have changed rows, so rows are not counted after it.
        place
            .load(&dump, &url, &on)
            .exits(4)
            .says("8000 rows are already loaded");
        assert_eq!(place.ask(0, "SELECT COUNT(*) FROM cut.a"), "4000");
        assert_eq!(place.ask(0, "SELECT COUNT(*) FROM cut.b"), "4000");
        place.all_are_the_same();
        place.ask(0, "DROP DATABASE cut");
    }
}

/// A load that runs in the background.
struct AtWork(KillOnDrop);

impl AtWork {
    /// Starts the load and returns once another node has rows of it.
    fn begin(place: &Place, dump: &Path, args: &[&str], table: &str) -> Self {
        let mut load = command(place.state.path());
        load.arg("load")
            .arg(dump)
            .args(["--no-defaults", "--to", &place.cluster.url(0)])
            .args(["--chunk-rows", "200"])
            .args(args);
        load.stdout(Stdio::null()).stderr(Stdio::null());
        let load = KillOnDrop::start(&mut load);
        let begun = Instant::now();
        let some = || {
            let rows = place.node(1).query(&format!(
                "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*) FROM {table}"
            ));
            rows.is_ok_and(|rows| rows.parse::<u64>().unwrap() > 1000)
        };
        while !some() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(20));
        }
        Self(load)
    }

    fn kill(mut self) {
        signal("-KILL", self.0.id());
        self.0.wait().expect("it ends");
    }
}

/// A dump of a table without keys, where only the marks prevent duplicate rows.
fn keyless(place: &Place, database: &str) -> PathBuf {
    let body = format!(
        "{}{}",
        "CREATE TABLE t (id BIGINT NOT NULL, k INT, v VARCHAR(100)) ENGINE=InnoDB;\n",
        rows_of("t", 60_000, 1000)
    );
    place.dump(&format!("{database}.sql"), &dump_of(database, &body))
}

/// Every node has the marks; a load that still runs on one node is seen from the others.
fn goes_on_at_another_node(place: &Place) {
    let dump = keyless(place, "onward");
    let first = AtWork::begin(place, &dump, &[], "onward.t");
    signal("-STOP", first.0.id());
    let there = place.cluster.url(1);
    let port = place.cluster.url(0);
    let port = port.rsplit(':').next().unwrap().trim_end_matches('/');
    place
        .load(&dump, &there, &["--chunk-rows", "200"])
        .exits(3)
        .says(&format!(
            "is loading this source into node 127.0.0.1:{port}"
        ));
    first.kill();
    let (outcome, _) = place.loads(&dump, &there, &["--chunk-rows", "200"]);
    assert!(
        outcome["resumed"]["rows"].as_u64().unwrap() >= 1000,
        "{outcome}"
    );
    assert_eq!(outcome["rows"], 60_000);
    let sql = "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*), COUNT(DISTINCT id) FROM onward.t";
    assert_eq!(place.ask(2, sql), "60000\t60000");
    place.all_are_the_same();
    place.ask(0, "DROP DATABASE onward");
}

/// Nodes that apply the load get the loading node's settings. They get their own back at the end,
/// after a kill by the load that resumes on another node, or by hand.
fn settings_of_all_nodes(place: &Place) {
    const WATCHED: &str =
        "SELECT @@innodb_log_file_size, @@innodb_io_capacity, @@innodb_io_capacity_max";
    let all = || [0, 1, 2].map(|at| place.ask(at, WATCHED));
    let before = all();
    let relaxed = ["--durability", "relaxed", "--chunk-rows", "200"];
    let differ = || {
        for (at, (was, is)) in before.iter().zip(all()).enumerate() {
            let fields = was.split('\t').zip(is.split('\t'));
            assert_eq!(
                fields.filter(|(was, is)| was != is).count(),
                3,
                "node {at}: {was} {is}"
            );
        }
    };
    let none_left = || {
        assert_eq!(all(), before);
        // The node told last has dropped it; this one may not have applied that yet.
        let left = "SET SESSION wsrep_sync_wait = 15; SHOW DATABASES LIKE 'refloat'";
        assert_eq!(place.ask(0, left), "");
    };
    let settings = |args: &[&str]| {
        let mut command = command(place.state.path());
        command.arg("settings").args(args);
        Run::of(&mut command)
    };

    let dump = keyless(place, "tuned");
    let plan = place.load(
        &dump,
        &place.cluster.url(0),
        &["--plan", "--durability", "relaxed"],
    );
    let node = place.cluster.url(1);
    let node = node.rsplit('@').next().unwrap().trim_end_matches('/');
    let plan = plan.exits(0).stdout;
    let change = format!("{node}: innodb_log_file_size: ");
    assert!(plan.contains(&change), "{plan}");
    none_left();

    AtWork::begin(place, &dump, &relaxed[..2], "tuned.t").kill();
    differ();
    let left = settings(&["list"]).exits(6).stdout;
    assert!(left.contains(node), "{left}");
    let (outcome, run) = place.loads(&dump, &place.cluster.url(1), &relaxed);
    assert_eq!(outcome["rows"], 60_000);
    let changed = outcome["settings_changed"].as_array().unwrap();
    assert_eq!(changed.len(), 9, "{changed:?} {}", run.stderr);
    none_left();
    settings(&["list"]).exits(0);
    place.all_are_the_same();
    place.ask(0, "DROP DATABASE tuned");

    AtWork::begin(place, &dump, &relaxed[..2], "tuned.t").kill();
    differ();
    for at in 0..3 {
        let url = place.cluster.url(at);
        settings(&["revert", "--no-defaults", "--to", &url]).exits(0);
    }
    none_left();
    place.loads(&dump, &place.cluster.url(0), &["--chunk-rows", "200"]);
    place.all_are_the_same();
    place.ask(0, "DROP DATABASE tuned");
}

// Hazard of clusters: G-13 `wsrep_max_ws_size`, `wsrep_max_ws_rows`
fn limits_hold(place: &Place) {
    let body = format!(
        "{}{}",
        table("t", "ENGINE=InnoDB"),
        rows_of("t", 20_000, 20_000)
    );
    let dump = place.dump("wide.sql", &dump_of("wide", &body));
    place.on_all("SET GLOBAL wsrep_max_ws_rows = 700");
    let url = place.cluster.url(0);
    for args in [
        &["--max-paused", "100"][..],
        &["--chunk-rows", "5000"][..],
        &["--write-path", "insert"][..],
    ] {
        let (outcome, _) = place.loads(&dump, &url, args);
        assert_eq!(outcome["rows"], 20_000);
        assert!(outcome["chunk_rows"].as_u64().unwrap() <= 700, "{outcome}");
        assert_eq!(outcome["retries"], 0);
        place.all_are_the_same();
        place.ask(0, "DROP DATABASE wide");
    }
    place.on_all("SET GLOBAL wsrep_max_ws_rows = 0");
    let size = place.ask(0, "SELECT @@wsrep_max_ws_size");
    place.on_all("SET GLOBAL wsrep_max_ws_size = 65536");
    let (outcome, _) = place.loads(&dump, &url, &["--max-paused", "100"]);
    assert_eq!(outcome["rows"], 20_000);
    place.all_are_the_same();
    place.on_all(&format!("SET GLOBAL wsrep_max_ws_size = {size}"));
    place.ask(0, "DROP DATABASE wide");
}

// Hazard of clusters: G-16 tables without a primary key: named, refused where the cluster refuses
//   them
fn without_a_key(place: &Place) {
    let body = "CREATE TABLE bare (a INT, b VARCHAR(20)) ENGINE=InnoDB;\nINSERT INTO bare VALUES (1,'x'),(1,'x'),(2,NULL);\n";
    let dump = place.dump("bare.sql", &dump_of("bare", body));
    let url = place.cluster.url(0);
    let (outcome, run) = place.loads(&dump, &url, &[]);
    assert!(run.stdout.contains("has no primary key"), "{}", run.stdout);
    assert_eq!(
        outcome["galera"]["without_primary_key"]["first"][0],
        "bare.bare"
    );
    place.all_are_the_same();
    place.ask(0, "DROP DATABASE bare");
    // The server uses a unique key over NOT NULL columns as the primary key; no other key will do.
    let body = "CREATE TABLE whole (a INT NOT NULL, b VARCHAR(20) NOT NULL, UNIQUE KEY (b, a)) ENGINE=InnoDB;\nINSERT INTO whole VALUES (1,'x'),(2,'y');\n\
        CREATE TABLE part (a VARCHAR(20) NOT NULL, UNIQUE KEY (a(3))) ENGINE=InnoDB;\nINSERT INTO part VALUES ('x');\n\
        CREATE TABLE open (a INT, UNIQUE KEY (a)) ENGINE=InnoDB;\nINSERT INTO open VALUES (1);\n\
        CREATE TABLE text (a TEXT NOT NULL, UNIQUE KEY (a)) ENGINE=InnoDB;\nINSERT INTO text VALUES ('x');\n";
    let keys = place.dump("keys.sql", &dump_of("bare", body));
    let (outcome, _) = place.loads(&keys, &url, &[]);
    let mut named: Vec<&str> = outcome["galera"]["without_primary_key"]["first"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    named.sort_unstable();
    assert_eq!(named, ["bare.open", "bare.part", "bare.text"]);
    place.all_are_the_same();
    place.ask(0, "DROP DATABASE bare");
    place.on_all("SET GLOBAL wsrep_certify_nonPK = OFF");
    place
        .load(&dump, &url, &[])
        .exits(1)
        .says("table bare.bare has no primary key, and wsrep_certify_nonPK is OFF");
    place.on_all("SET GLOBAL wsrep_certify_nonPK = ON");
    place.ask(0, "DROP DATABASE bare");
}

/// Parallel appliers, and other writers to the load's tables.
// Hazard of clusters: G-14, G-15, G-22 commits that are refused, by every write path, beside
//   writers on two other nodes; a chunk that fails in its middle: no row is lost or duplicated
// Hazard of clusters: G-21 foreign keys over text of several bytes a character, appliers in
//   parallel: all nodes are equal
// Hazard of clusters: G-31 two of three nodes changed alike without write-sets: comparing each with
//   each shows it, with the rows, before a statement makes them vote
#[test]
fn no_row_is_lost_or_twice_when_commits_fail() {
    let place = Place::with(|options| options.option("wsrep_slave_threads", "8"));
    commits_that_fail_are_done_again(&place);
    keys_of_several_bytes(&place);
    what_fails_in_the_middle_goes_on(&place);
    two_nodes_that_are_wrong_alike(&place);
}

/// Rows of the table that others write to as well.
const CONTENDED: u64 = 16_000;
/// Rows that one of them inserts and deletes again per transaction.
const SWEEP: u64 = 1000;

/// Another node's client inserts the load's own keys and deletes them in the same transaction, over
/// and over. Of two transactions with a common key the later one is refused (1213), possibly only
/// at its commit. Returns how many of its own were not.
fn contend(url: &str, end: &AtomicBool) -> u64 {
    let mut conn = connect(url);
    let mut done = 0;
    while !end.load(Ordering::Relaxed) {
        // Keys that are already in would be duplicates.
        let last = conn.query("SELECT GREATEST(COALESCE(MAX(id), 0), 0) FROM both_.t");
        let Ok(last) = last else {
            std::thread::sleep(THINKING);
            continue;
        };
        let last: u64 = last.str(0, 0).unwrap().parse().unwrap();
        let (first, end) = (last + 1 + done % 3 * SWEEP, last + (done % 3 + 1) * SWEEP);
        let statements = [
            "BEGIN".to_owned(),
            format!("INSERT INTO both_.t SELECT seq, 0, 'other' FROM both_.seq_{first}_to_{end}"),
            format!("DELETE FROM both_.t WHERE id BETWEEN {first} AND {end}"),
            "COMMIT".to_owned(),
        ];
        let written = statements
            .iter()
            .try_for_each(|sql| conn.exec(sql).map(drop));
        match written {
            Ok(()) => done += 1,
            Err(_) => drop(conn.exec("ROLLBACK")),
        }
        std::thread::sleep(THINKING);
    }
    done
}

/// A client on a third node inserts rows that stay, with ids below those of the load. Returns how
/// many were acknowledged.
fn keep(url: &str, end: &AtomicBool) -> u64 {
    let mut conn = connect(url);
    let mut kept = 0;
    while !end.load(Ordering::Relaxed) {
        let id = kept + 1;
        match conn.exec(format!("INSERT INTO both_.t VALUES (-{id}, 0, 'kept')")) {
            Ok(_) => kept = id,
            // Refused, or the table does not exist yet.
            Err(_) => std::thread::sleep(THINKING),
        }
    }
    kept
}

/// On every write path. The row count shows that others have written too, so it proves nothing
/// here.
fn commits_that_fail_are_done_again(place: &Place) {
    let body = format!(
        "{}{}",
        table("t", "ENGINE=InnoDB"),
        rows_of("t", CONTENDED, 500)
    );
    let dump = place.dump("both.sql", &dump_of("both_", &body));
    let [url, there, third] = [0, 1, 2].map(|at| place.cluster.url(at));
    let mut retries = 0;
    for path in ["auto", "load-data", "insert"] {
        let end = AtomicBool::new(false);
        let (run, done, kept) = std::thread::scope(|scope| {
            let _end = StopOnDrop(&end);
            let contends = scope.spawn(|| contend(&there, &end));
            let keeps = scope.spawn(|| keep(&third, &end));
            let words = ["--json", "--threads", "4", "--chunk-rows", "2000"];
            let more = ["--max-paused", "100", "--write-path", path];
            let run = place.load(&dump, &url, &[&words[..], &more[..]].concat());
            end.store(true, Ordering::Relaxed);
            (run, contends.join().unwrap(), keeps.join().unwrap())
        });
        let run = run.exits(4);
        let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
        let outcome = &last["outcome"]["summary"];
        let shown = format!("{path}: {done} {kept} {outcome}");
        assert!(done > 0 && kept > 0, "nobody else has written: {shown}");
        retries += outcome["retries"].as_u64().unwrap();
        assert_eq!(outcome["rows"], CONTENDED, "{shown}");
        let differences = &outcome["proof"]["differences"];
        assert_eq!(differences["total"], 1, "{shown}");
        assert_eq!(
            differences["first"][0]["expected"],
            format!("{CONTENDED} rows"),
            "{shown}"
        );
        place.all_are_the_same();
        let sums = "SELECT SUM(id > 0), SUM(IF(id > 0, id, 0)), MAX(id), SUM(id < 0), MIN(id), SUM(v = 'other') FROM both_.t";
        let all = CONTENDED * (CONTENDED + 1) / 2;
        let all = format!("{CONTENDED}\t{all}\t{CONTENDED}\t{kept}\t-{kept}\t0");
        for at in 0..3 {
            let sql = format!("SET SESSION wsrep_sync_wait = 1; {sums}");
            assert_eq!(place.ask(at, &sql), all, "node {at}: {shown}");
        }
        place.ask(0, "DROP DATABASE both_");
    }
    assert!(retries > 0, "no commit was refused");
}

/// Foreign keys over text with multi-byte characters: appliers that mistook the keys for others
/// would apply a child before its parent.
fn keys_of_several_bytes(place: &Place) {
    const PARENTS: u64 = 2000;
    const CHILDREN: u64 = 50_000;
    let name = |id: u64| {
        let letter = char::from_u32(0x0430 + u32::try_from(id % 32).unwrap()).unwrap();
        format!("{letter}é\u{1F600}{id}")
    };
    let mut body = "CREATE TABLE parent (name CHAR(10) NOT NULL, PRIMARY KEY (name)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n\
        CREATE TABLE child (id INT NOT NULL PRIMARY KEY, name CHAR(10) NOT NULL, KEY name (name), CONSTRAINT of_parent FOREIGN KEY (name) \
        REFERENCES parent (name)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n"
        .to_owned();
    let mut insert = |table: &str, rows: u64, row: &dyn Fn(u64) -> String| {
        for first in (0..rows).step_by(200) {
            let values: Vec<String> = (first..first + 200).map(row).collect();
            let _ = writeln!(body, "INSERT INTO {table} VALUES {};", values.join(","));
        }
    };
    insert("parent", PARENTS, &|id| format!("('{}')", name(id)));
    insert("child", CHILDREN, &|id| {
        format!("({id},'{}')", name(id * 7919 % PARENTS))
    });
    let text = format!("SET NAMES utf8mb4;\n{}", dump_of("family", &body));
    let dump = place.dump("family.sql", &text);
    for keys in ["as-dump", "checked"] {
        let args = ["--foreign-keys", keys, "--chunk-rows", "500"];
        let (outcome, _) = place.loads(&dump, &place.cluster.url(0), &args);
        assert_eq!(outcome["rows"], PARENTS + CHILDREN);
        place.all_are_the_same();
        let orphans = "SELECT COUNT(*), COUNT(parent.name), COUNT(DISTINCT child.name) FROM family.child LEFT JOIN family.parent USING (name)";
        for at in 0..3 {
            assert_eq!(
                place.ask(at, orphans),
                format!("{CHILDREN}\t{CHILDREN}\t{PARENTS}")
            );
        }
        place.ask(0, "DROP DATABASE family");
    }
}

/// The server refuses a row in the middle of a chunk, with a key and without: nothing of the chunk
/// stays, and once the row is accepted nothing is missing or duplicated.
fn what_fails_in_the_middle_goes_on(place: &Place) {
    const ALL: u64 = 40_000;
    let tables = ["keyed", "bare"];
    let mut body = String::new();
    for (name, key) in tables.iter().zip([", PRIMARY KEY (id)", ""]) {
        let _ = writeln!(
            body,
            "CREATE TABLE {name} (id BIGINT NOT NULL, k TINYINT, v VARCHAR(100){key}) ENGINE=InnoDB;"
        );
        // The refused row, in the second chunk.
        body.push_str(&rows_of(name, ALL, ALL).replacen("(35000,42,", "(35000,1000,", 1));
    }
    assert_eq!(body.matches("(35000,1000,").count(), 2);
    let dump = place.dump("middle.sql", &dump_of("middle", &body));
    let url = place.cluster.url(0);
    let splitting = place.ask(0, "SHOW VARIABLES LIKE 'wsrep_load_data_splitting'");
    for path in ["load-data", "auto"] {
        let args = ["--write-path", path, "--chunk-rows", "20000"];
        let args = [&args[..], &["--threads", "1"]].concat();
        if !splitting.is_empty() && path == "load-data" {
            place.ask(0, "SET GLOBAL wsrep_load_data_splitting = ON");
            place
                .load(&dump, &url, &args)
                .exits(3)
                .says("would commit every 10,000 rows");
            place.ask(0, "SET GLOBAL wsrep_load_data_splitting = OFF");
        }
        place
            .load(&dump, &url, &args)
            .exits(1)
            .says("Out of range value for column 'k'");
        let mut already = 0;
        for name in tables {
            let sql = format!(
                "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*), IFNULL(MAX(id), 0) FROM middle.{name}"
            );
            let counts = [0, 1, 2].map(|at| place.ask(at, &sql));
            let (rows, last) = counts[0].split_once('\t').unwrap();
            let rows: u64 = rows.parse().unwrap();
            assert!(
                rows.to_string() == last && rows <= 20_000,
                "half a chunk stays: {counts:?}"
            );
            assert_eq!([&counts[1], &counts[2]], [&counts[0]; 2]);
            already += rows;
            place.ask(0, &format!("ALTER TABLE middle.{name} MODIFY k INT"));
        }
        // All rows are in; the only difference is the manual ALTER.
        let run = place.load(&dump, &url, &args).exits(4);
        let run = run.says(&format!("{already} rows are already loaded"));
        for name in tables {
            let words = format!("table middle.{name}: column k: type: expected tinyint");
            assert!(run.stdout.contains(&words), "{}", run.stdout);
        }
        for (at, name) in (0..3).flat_map(|at| tables.map(|name| (at, name))) {
            let sql = format!(
                "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*), COUNT(DISTINCT id), MAX(k), SUM(v = id * 31) FROM middle.{name}"
            );
            let whole = format!("{ALL}\t{ALL}\t1000\t{ALL}");
            assert_eq!(place.ask(at, &sql), whole, "node {at}");
        }
        place.ask(0, "DROP DATABASE middle");
    }
}

/// Two of three nodes were changed alike without write-sets. By majority vote they would be right,
/// and the next statement would evict the third; comparing each pair of nodes shows it first.
fn two_nodes_that_are_wrong_alike(place: &Place) {
    let body = format!(
        "{}{}",
        table("t", "ENGINE=InnoDB"),
        rows_of("t", 3000, 1000)
    );
    let dump = place.dump("alike.sql", &dump_of("alike", &body));
    place.loads(&dump, &place.cluster.url(0), &[]);
    place.all_are_the_same();
    for at in [1, 2] {
        place.ask(
            at,
            "SET SESSION wsrep_on = OFF; UPDATE alike.t SET v = 'wrong' WHERE id = 77; DELETE FROM alike.t WHERE id = 78",
        );
    }
    for (one, other, same) in [(0, 1, false), (0, 2, false), (1, 2, true)] {
        let mut verify = command(place.state.path());
        verify.arg("verify");
        for at in [one, other] {
            verify.arg(place.cluster.url(at));
        }
        verify.args(["--no-defaults", "--databases", "alike"]);
        let run = Run::of(&mut verify).exits(if same { 0 } else { 4 });
        let shown = ["wrong", "id = '77'", "id = '78'"].map(|words| run.stdout.contains(words));
        assert_eq!(shown, [!same; 3], "{}", run.stdout);
    }
    place.ask(0, "DROP DATABASE alike");
}
