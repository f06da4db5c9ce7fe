//! `refloat cluster restore` on real nodes: nothing is begun that must not be, and whatever ends the program, the same command goes on.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use refloat_sandbox::{GaleraNode, ServerKind};
use refloat_testkit::cluster::Cluster;
use refloat_testkit::oracle;

use crate::support::{Run, command};

/// Rows of the dump: enough that a load can be caught at work.
const ROWS: u64 = 200_000;

/// A cluster, the state directory that knows its nodes, and a dump.
struct Place {
    cluster: Cluster,
    state: tempfile::TempDir,
    dump: PathBuf,
}

impl Place {
    fn new() -> Self {
        let cluster = Cluster::start(ServerKind::MariaDb1011, 3);
        let state = tempfile::tempdir().expect("a temporary folder can be made");
        // Where the program looks for nodes of the sandbox.
        let instances = cluster.node(0).folder().parent();
        let sandbox = instances.and_then(Path::parent).expect("folders");
        symlink(sandbox, state.path().join("sandbox")).expect("a link can be made");
        let dump = state.path().join("shop.sql");
        fs::write(&dump, text()).expect("the dump can be written");
        Self {
            cluster,
            state,
            dump,
        }
    }

    fn name(&self, at: usize) -> &str {
        self.cluster.node(at).name()
    }

    fn restore_by(&self, file: &Path, args: &[&str]) -> Command {
        let mut command = command(self.state.path());
        command
            .args(["cluster", "restore"])
            .arg(&self.dump)
            .arg("--cluster")
            .arg(file)
            .args(["--no-defaults", "--way", "rebuild"])
            .args(args);
        command
    }

    #[track_caller]
    fn restore(&self, args: &[&str]) -> Run {
        let output = self.restore_by(&self.cluster.toml(), args).output();
        Run::new(output.expect("the program can be started"))
    }

    /// Starts it, and kills it when it has said this.
    #[track_caller]
    fn killed_at(&self, words: &str) {
        let mut child = self
            .restore_by(&self.cluster.toml(), &[])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let said = child.stderr.take().expect("it is a pipe");
        let mut all = String::new();
        for line in BufReader::new(said).lines() {
            let line = line.expect("text");
            let _ = writeln!(all, "{line}");
            if line.contains(words) {
                child.kill().expect("it can be killed");
                let status = child.wait().expect("it ends");
                assert_eq!(status.code(), None, "it ended by itself after {words:?}");
                return;
            }
        }
        panic!("it has ended without {words:?}:\n{all}");
    }

    /// Everything by which somebody could tell that something was touched.
    fn traces(&self) -> Vec<String> {
        let nodes = self.cluster.nodes().iter();
        let mut traces: Vec<String> = nodes
            .map(|node| {
                let mut files: Vec<String> = entries(node.folder());
                files.retain(|name| name != "recover.log");
                let grastate = fs::read_to_string(node.grastate()).unwrap_or_default();
                format!("{:?} {files:?} {grastate}", node.pid().expect("a node"))
            })
            .collect();
        traces.extend(entries(&self.state.path().join("runs")));
        traces
    }

    #[track_caller]
    fn touches_nothing<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.traces();
        let result = work();
        assert_eq!(self.traces(), before);
        result
    }

    /// All nodes are in step, and hold the same.
    #[track_caller]
    fn is_whole(&self) {
        for at in 0..3 {
            self.cluster.wait_synced(at, 3);
        }
        let all: Vec<_> = (0..3)
            .map(|at| {
                let mut conn = self.cluster.connect(at);
                conn.exec("SET SESSION wsrep_sync_wait = 15").expect("SET");
                oracle::Snapshot::take(&mut conn, oracle::Scope::default()).expect("a snapshot")
            })
            .collect();
        for at in 1..3 {
            assert_eq!(oracle::differences(&all[0], &all[at]), []);
        }
        let left = self.cluster.ask(0, "SHOW DATABASES LIKE 'refloat%'");
        assert!(left.is_empty(), "{left}");
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn text() -> String {
    let mut text = "-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB\nCREATE DATABASE shop;\nUSE shop;\n\
         CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, k INT, v VARCHAR(100), KEY k (k)) ENGINE=InnoDB;\n"
        .to_owned();
    for first in (1..=ROWS).step_by(1000) {
        let rows: Vec<String> = (first..first + 1000)
            .map(|id| format!("({id},{},'{:0>80}')", id % 77, id * 31))
            .collect();
        let _ = writeln!(text, "INSERT INTO t VALUES {};", rows.join(","));
    }
    text.push_str("-- Dump completed on 2026-01-01  0:00:00\n");
    text
}

fn uuid(node: &GaleraNode) -> String {
    let text = fs::read_to_string(node.grastate()).expect("the file is there");
    let line = text.lines().find_map(|line| line.strip_prefix("uuid:"));
    line.expect("a history").trim().to_owned()
}

#[test]
fn a_cluster_is_restored_whatever_ends_the_program() {
    let place = Place::new();
    let cluster = &place.cluster;
    cluster.ask(
        0,
        "CREATE DATABASE kept; CREATE TABLE kept.k (id INT PRIMARY KEY); INSERT INTO kept.k VALUES (1), (2)",
    );
    for at in 0..3 {
        cluster.wait_synced(at, 3);
    }
    what_must_not_be_is_refused(&place);
    let old = uuid(cluster.node(0));
    let settings = |at: usize| {
        cluster.ask(at, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('port', 'socket', 'wsrep_on', 'wsrep_provider', 'event_scheduler', \
            'innodb_autoinc_lock_mode', 'innodb_flush_log_at_trx_commit', 'innodb_io_capacity', 'innodb_log_file_size')")
    };
    let before: Vec<String> = (0..3).map(settings).collect();

    let (first, second, third) = (place.name(0), place.name(1), place.name(2));
    let stopped = place.restore(&["--node", first, "--stop-before", "stop"]);
    assert!(
        stopped
            .exits(5)
            .stdout
            .contains("Not ended: stop is the next step")
    );
    let other = command(place.state.path())
        .args(["cluster", "rejoin", second, "--no-defaults", "--cluster"])
        .arg(cluster.toml())
        .output();
    Run::new(other.expect("the program can be started"))
        .exits(3)
        .says("has not ended: stop is its next step");
    for words in [
        "step stop".to_owned(),
        format!("stopping {second}"),
        format!("stopping {first}"),
        format!("starting {first} as a server"),
        "step load".to_owned(),
        "load of ".to_owned(),
        "step bootstrap".to_owned(),
        format!("{first} begins the cluster"),
        "step rejoin".to_owned(),
        format!("the old data of {second}"),
        format!("starting {second}"),
    ] {
        place.killed_at(&words);
    }

    // A joiner that does not start: what runs goes on, and the same command goes on when it is mended.
    let config = fs::read_to_string(cluster.node(2).config()).expect("an option file");
    let broken = format!("{config}\n[mysqld]\nwsrep_provider=/no-such-provider.so\n");
    fs::write(cluster.node(2).config(), broken).expect("it can be written");
    let failed = place.restore(&[]).exits(1);
    assert!(
        failed
            .stderr
            .contains(&format!("{third} is not back: it has ended"))
            && failed.stderr.contains("The same command again goes on"),
        "{}",
        failed.stderr
    );
    assert!(
        failed.stdout.contains("Not ended: rejoin is the next step"),
        "{}",
        failed.stdout
    );
    fs::write(cluster.node(2).config(), config).expect("it can be written");
    place.killed_at(&format!("comparing {second}"));
    place.killed_at(&format!("comparing {third}"));
    let done = place.restore(&["--resume"]).exits(0);
    assert!(
        done.stdout
            .contains("rows in 1 table, the same on all 3 nodes"),
        "{}",
        done.stdout
    );
    place.restore(&["--resume"]).exits(3).says("no restore of");

    place.is_whole();
    assert_eq!(
        cluster.ask(2, "SELECT COUNT(*), SUM(id) FROM shop.t"),
        format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2)
    );
    assert_eq!(cluster.ask(1, "SELECT COUNT(*) FROM kept.k"), "2");
    for (at, before) in before.iter().enumerate() {
        assert_eq!(settings(at), *before);
        let node = cluster.node(at);
        assert_ne!(uuid(node), old, "{}", node.name());
        let aside = entries(node.folder())
            .into_iter()
            .filter(|name| name.starts_with("data.refloat-"))
            .count();
        assert_eq!(aside, usize::from(at > 0), "{}", node.name());
    }
    // It replicates, and a node that is started again joins.
    cluster.ask(2, "INSERT INTO shop.t (k, v) VALUES (1, 'after')");
    cluster.node(1).stop().expect("it stops");
    cluster.node(1).start().expect("it joins");
    place.is_whole();
}

/// Plans, and what stands against one: nothing is touched by either.
fn what_must_not_be_is_refused(place: &Place) {
    let cluster = &place.cluster;
    let (first, third) = (place.name(0), place.name(2));
    let plan = place
        .touches_nothing(|| place.restore(&["--plan"]))
        .exits(0);
    assert!(
        plan.stdout.contains("way       rebuild: it was asked for")
            && plan
                .stdout
                .contains("is stopped, then takes a full copy, its old data go to ")
            && plan.stdout.contains("wsrep-provider=none"),
        "{}",
        plan.stdout
    );
    place
        .touches_nothing(|| place.restore(&["--node", "nobody"]))
        .exits(3)
        .says("no node of the list is called nobody");

    // A node of another cluster at a listed address.
    let stranger = Cluster::start(ServerKind::MariaDb1011, 1);
    let listed = fs::read_to_string(cluster.toml()).expect("a list");
    let (ours, theirs) = (cluster.url(2), stranger.url(0));
    let file = place.state.path().join("mixed.toml");
    let mixed = listed.replace(&ours, &theirs);
    assert_ne!(mixed, listed);
    fs::write(&file, mixed).expect("a list can be written");
    let output = place.touches_nothing(|| place.restore_by(&file, &[]).output());
    Run::new(output.expect("the program can be started"))
        .exits(3)
        .says("the nodes are not of one cluster: by history");
    drop(stranger);

    // All are down, and not at the same place.
    for at in [2, 1, 0] {
        cluster.node(at).stop().expect("it stops");
    }
    let refused = place.touches_nothing(|| place.restore(&[])).exits(3);
    for at in 0..3 {
        let seqno = cluster.node(at).state().expect("a state").position.seqno;
        let words = format!("{} is at {seqno}", place.name(at));
        assert!(
            refused.stderr.contains(&words),
            "{words}: {}",
            refused.stderr
        );
    }
    place
        .touches_nothing(|| place.restore(&["--node", third]))
        .exits(3)
        .says(&format!("{third} does not hold what is newest"));
    place
        .touches_nothing(|| place.restore(&["--node", first, "--plan"]))
        .exits(0);
    // One of them has data of another history.
    let grastate = cluster.node(2).grastate();
    let text = fs::read_to_string(&grastate).expect("a state");
    let other = text.replace(
        &uuid(cluster.node(2)),
        "0b2f7c0a-e706-11f1-bc0a-a7ea195e725e",
    );
    fs::write(&grastate, other).expect("it can be written");
    place
        .touches_nothing(|| place.restore(&["--node", first]))
        .exits(3)
        .says("the nodes are not of one cluster: by history");
    fs::write(&grastate, text).expect("it can be written");
    cluster.start().expect("it starts");
    for at in 0..3 {
        cluster.wait_synced(at, 3);
    }
}
