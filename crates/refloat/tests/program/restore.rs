//! `refloat cluster restore` on real nodes: nothing starts that must not, and whatever ends the
//! program, the same command resumes.

// Hazard of clusters: G-06 nothing of a bootstrap stays in a configuration: the node that
//   bootstrapped the cluster joins it at its next start | , `program/systemd_units.rs`
// Hazard of clusters: G-30 comparisons wait for what was committed elsewhere | : the proof of each
//   node

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, NodeStart, ServerKind};
use refloat_testkit::cluster::Cluster;
use refloat_testkit::ssh::SshServer;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::{oracle, servers};
use refloat_wire::{ConnectOptions, Connection};

use crate::restore_after_crash::some_rows_are_in;
use crate::support::{Run, command, sandbox_in, signal, state_folder};
use crate::time_limits::{KillOnDrop, LIMIT, Lines};

/// Rows of the dump: enough to catch a load at work.
pub const ROWS: u64 = 200_000;
/// Limit for every wait.
pub const LONG: Duration = Duration::from_secs(120);

/// A cluster, the state directory that knows its nodes, and a dump.
pub struct Place {
    pub cluster: EphemeralCluster,
    pub state: tempfile::TempDir,
    pub dump: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        Self::with(&GaleraOptions::new(servers::nodes(), 3))
    }

    pub fn with(options: &GaleraOptions) -> Self {
        let state = state_folder();
        let sandbox = sandbox_in(state.path());
        let cluster = sandbox
            .start_cluster_ephemeral(options)
            .expect("a cluster starts");
        let dump = state.path().join("shop.sql");
        fs::write(&dump, text()).expect("the dump can be written");
        Self {
            cluster,
            state,
            dump,
        }
    }

    pub fn node(&self, at: usize) -> &GaleraNode {
        &self.cluster.nodes()[at]
    }

    #[track_caller]
    pub fn ask(&self, at: usize, sql: &str) -> String {
        let node = self.node(at);
        node.query(sql)
            .unwrap_or_else(|error| panic!("{}: {sql}: {error}", node.name()))
    }

    /// Per node, settings that a restore changes temporarily, and others.
    pub fn settings(&self) -> [String; 3] {
        [0, 1, 2].map(|at| {
            self.ask(at, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'innodb_io_capacity', \
                'innodb_buffer_pool_size', 'innodb_doublewrite', 'sync_binlog', 'wsrep_on', 'wsrep_sst_donor', 'port', 'event_scheduler')")
        })
    }

    #[track_caller]
    pub fn all_are_in_step(&self) {
        let begun = Instant::now();
        let state = |at: usize| {
            let sql = "SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_local_state_comment')";
            self.node(at).query(sql).unwrap_or_default()
        };
        while (0..3).any(|at| {
            state(at) != "wsrep_cluster_size\t3\nwsrep_local_state_comment\tSynced"
                && state(at) != "wsrep_local_state_comment\tSynced\nwsrep_cluster_size\t3"
        }) {
            assert!(begun.elapsed() < LONG, "{:?}", [0, 1, 2].map(state));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn name(&self, at: usize) -> &str {
        self.node(at).name()
    }

    /// The command that restores `dump`, in whichever way `args` say.
    pub fn restore_of(&self, dump: &Path, file: &Path, args: &[&str]) -> Command {
        let mut command = command(self.state.path());
        command
            .args(["cluster", "restore"])
            .arg(dump)
            .arg("--cluster")
            .arg(file)
            .arg("--no-defaults")
            .args(args);
        command
    }

    pub fn restore_by(&self, file: &Path, args: &[&str]) -> Command {
        let args = [&["--way", "rebuild"], args].concat();
        self.restore_of(&self.dump, file, &args)
    }

    #[track_caller]
    pub fn restore(&self, args: &[&str]) -> Run {
        Run::of(&mut self.restore_by(&self.cluster.toml(), args))
    }

    /// Starts a restore, and kills it when it says `words`.
    #[track_caller]
    fn killed_at(&self, words: &str) {
        kills_at(&mut self.restore_by(&self.cluster.toml(), &[]), words);
    }

    /// Everything that would show that something was touched.
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

    /// Asserts that all nodes are in step and hold the same.
    #[track_caller]
    pub fn is_whole(&self) {
        self.all_are_in_step();
        let all: Vec<_> = (0..3)
            .map(|at| {
                let mut conn = servers::connect(self.node(at));
                conn.exec("SET SESSION wsrep_sync_wait = 15").expect("SET");
                oracle::Snapshot::take(&mut conn, oracle::Scope::default()).expect("a snapshot")
            })
            .collect();
        for at in 1..3 {
            assert_eq!(oracle::differences(&all[0], &all[at]), []);
        }
        let left = self.ask(0, "SHOW DATABASES LIKE 'refloat%'");
        assert!(left.is_empty(), "{left}");
    }
}

/// Starts the program, and kills it when it says `words`.
#[track_caller]
fn kills_at(command: &mut Command, words: &str) {
    let (ended, all) = at_words(command, words, |child| {
        child.kill().expect("it can be killed");
    });
    assert!(
        ended.is_none(),
        "it has ended by itself, {ended:?}, looking for {words:?}:\n{all}"
    );
}

/// Starts the program, and runs `work` once when it says `words`. Returns the exit code (`None`:
/// killed by a signal) and all that it said.
#[track_caller]
pub fn at_words(
    command: &mut Command,
    words: &str,
    work: impl FnOnce(&mut std::process::Child),
) -> (Option<i32>, String) {
    let mut child = KillOnDrop::start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let deadline = Instant::now() + LIMIT;
    let mut lines = Lines::of(child.stderr.take().expect("it is a pipe"), deadline);
    let mut work = Some(work);
    for line in lines.by_ref() {
        if line.contains(words)
            && let Some(work) = work.take()
        {
            work(&mut child);
        }
    }
    let status = child.ends_by(deadline);
    let all = lines.text;
    assert!(work.is_none(), "it has not said {words:?}:\n{all}");
    let status = status.unwrap_or_else(|| panic!("it does not end:\n{all}"));
    (status.code(), all)
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
    let mut text = "-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB\nCREATE DATABASE IF NOT EXISTS shop;\nUSE shop;\n\
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
    place.ask(
        0,
        "CREATE DATABASE kept; CREATE TABLE kept.k (id INT PRIMARY KEY); INSERT INTO kept.k VALUES (1), (2)",
    );
    let numbers = Numbers::begin(&place);
    place.all_are_in_step();
    numbers.while_written(&place, || what_must_not_be_is_refused(&place));
    numbers.while_written(&place, || rates_are_measured_before_a_way_is_chosen(&place));
    numbers.are_there(&place, 100);
    let old = uuid(place.node(0));
    let settings = |at: usize| {
        place.ask(at, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('port', 'socket', 'wsrep_on', 'wsrep_provider', 'event_scheduler', \
            'innodb_autoinc_lock_mode', 'innodb_flush_log_at_trx_commit', 'innodb_io_capacity', 'innodb_log_file_size')")
    };
    let before: Vec<String> = (0..3).map(settings).collect();

    numbers.while_written(&place, || restore_is_killed(&place));
    numbers.are_there(&place, 200);

    place.is_whole();
    assert_eq!(
        place.ask(2, "SELECT COUNT(*), SUM(id) FROM shop.t"),
        format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2)
    );
    assert_eq!(place.ask(1, "SELECT COUNT(*) FROM kept.k"), "2");
    for (at, before) in before.iter().enumerate() {
        assert_eq!(settings(at), *before);
        let node = place.node(at);
        assert_ne!(uuid(node), old, "{}", node.name());
        let aside = entries(node.folder())
            .into_iter()
            .filter(|name| name.starts_with("data.refloat-"))
            .count();
        assert_eq!(aside, usize::from(at > 0), "{}", node.name());
    }
    // It replicates, and the node that bootstrapped joins the others at its next start instead of
    // bootstrapping again.
    place.node(0).stop().expect("it stops");
    place.ask(2, "INSERT INTO shop.t (k, v) VALUES (1, 'after')");
    place.node(0).start().expect("it joins");
    place.all_are_in_step();
    for at in 0..3 {
        // Each node has its own next AUTO_INCREMENT value, so count rows.
        let rows = place.ask(at, "SET wsrep_sync_wait = 15; SELECT COUNT(*) FROM shop.t");
        assert_eq!(rows, (ROWS + 1).to_string(), "{}", place.name(at));
    }
}

/// The program is killed at every step of a restore.
// Hazard of clusters: `kill -9` of a restore at every step, Ctrl-C in its load; it is resumed from
//   another machine, and taken over from one that nobody can see | ,
//   `program/restore_after_crash.rs`: `on_two_machines`
fn restore_is_killed(place: &Place) {
    let cluster = &place.cluster;
    let (first, second, third) = (place.name(0), place.name(1), place.name(2));
    let stopped = place.restore(&["--node", first, "--stop-before", "stop"]);
    assert!(
        stopped
            .exits(5)
            .stdout
            .contains("Not ended: stop is the next step")
    );
    let mut other = command(place.state.path());
    other
        .args(["cluster", "rejoin", second, "--no-defaults", "--cluster"])
        .arg(cluster.toml());
    Run::of(&mut other)
        .exits(3)
        .says("has not ended: stop is its next step");
    for words in [
        "step stop".to_owned(),
        format!("stopping {second}"),
        format!("stopping {third}"),
        "step standalone".to_owned(),
        format!("stopping {first}"),
        // It was started already if the program was killed a moment late.
        "as a standalone server".to_owned(),
        "step load".to_owned(),
        "load of ".to_owned(),
        "step bootstrap".to_owned(),
        format!("{first} bootstraps the cluster"),
        format!("the old data of {second}"),
        format!("the old data of {third}"),
        "step rejoin".to_owned(),
    ] {
        match words.as_str() {
            "load of " => a_load_is_stopped(place),
            "step bootstrap" => what_was_loaded_is_not_loaded_again(place),
            _ => {}
        }
        place.killed_at(&words);
    }
    // One node takes its copy at a time.
    let mut third_is_down = false;
    let mut restore = place.restore_by(&cluster.toml(), &[]);
    let (code, all) = at_words(&mut restore, &format!("starting {second}"), |child| {
        third_is_down = place.node(2).pid().expect("a node").is_none();
        child.kill().expect("it can be killed");
    });
    assert!(third_is_down && code.is_none(), "{code:?}: {all}");

    // A joiner does not start: running nodes keep running, and the same command resumes once the
    // joiner is mended.
    let config = fs::read_to_string(place.node(2).config()).expect("an option file");
    let broken = format!("{config}\n[mysqld]\nwsrep_provider=/no-such-provider.so\n");
    fs::write(place.node(2).config(), broken).expect("it can be written");
    let failed = place.restore(&[]).exits(1);
    assert!(
        failed
            .stderr
            .contains(&format!("{third} is not back: it has ended"))
            && failed.stderr.contains("The same command resumes"),
        "{}",
        failed.stderr
    );
    assert!(
        failed.stdout.contains("Not ended: rejoin is the next step"),
        "{}",
        failed.stdout
    );
    let place_of = |words: String| failed.stderr.find(&words);
    let back = place_of(format!("{second} is back by a full copy")).expect("it is back");
    assert!(
        Some(back) < place_of(format!("starting {third}")),
        "{}",
        failed.stderr
    );
    fs::write(place.node(2).config(), config).expect("it can be written");
    place.killed_at(&format!("starting {third}"));
    place.killed_at("step verify");
    place.killed_at(&format!("comparing {second}"));
    nodes_that_differ_are_reported(place);
    place.killed_at(&format!("comparing {third}"));
    // Applications already write, so no two nodes are ever read at the same write-set.
    let done = while_written_to(place, || place.restore(&["--resume"])).exits(0);
    assert!(done.stderr.contains("comparing again"), "{}", done.stderr);
    assert!(
        done.stdout
            .contains("rows in 1 table, the same on all 3 nodes"),
        "{}",
        done.stdout
    );
    place.restore(&["--resume"]).exits(3).says("no restore of");
    let plan = place.restore(&["--plan", "--replace", "--load-rate", "1M"]);
    let plan = plan.exits(0).stdout;
    let rates = plan.lines().find(|line| line.starts_with("  by rates  "));
    let rates = rates.unwrap_or_default();
    // Copies of so little data measure starts, not a rate.
    assert_eq!(
        rates,
        "  by rates  load 1.00 MiB/s (as given), through replication not measured, full copies not measured",
        "{plan}"
    );
}

/// The program is stopped in the middle of a load. The loop of kills continues from there.
fn a_load_is_stopped(place: &Place) {
    let mut restore = place.restore_by(&place.cluster.toml(), &[]);
    let (code, all) = at_words(&mut restore, "load of ", |child| {
        some_rows_are_in(place);
        signal("-INT", child.id());
    });
    assert_eq!(code, Some(5), "{all}");
    assert!(
        all.contains(&format!("loading into {}: interrupted", place.name(0)))
            && all.contains("The same command resumes at this step"),
        "{all}"
    );
}

/// The program is killed when everything is loaded but not yet recorded as such.
// Hazard of clusters: The program ends when all is loaded but not yet recorded: nothing is loaded
//   twice
fn what_was_loaded_is_not_loaded_again(place: &Place) {
    place
        .restore(&["--stop-before", "bootstrap"])
        .exits(5)
        .says(" rows are already loaded");
    // The other nodes hold more of the old history, and must not bootstrap it again.
    let mut shown = command(place.state.path());
    shown
        .args(["cluster", "status", "--no-defaults", "--cluster"])
        .arg(place.cluster.toml());
    let run = Run::of(&mut shown);
    let output = format!("{}{}", run.stdout, run.stderr);
    for words in [
        "a restore of the cluster has not ended",
        "at the step bootstrap",
        " --resume",
    ] {
        assert!(output.contains(words), "not {words:?}: {output}");
    }
    assert!(!output.contains("the one to bootstrap from"), "{output}");
    // Without the run's own files, what it left on the nodes shows it.
    let (runs, away) = ["runs", "away"]
        .map(|name| place.state.path().join(name))
        .into();
    fs::rename(&runs, &away).expect("it can be renamed");
    let elsewhere = |verb: &[&str]| {
        let mut command = command(place.state.path());
        command
            .arg("cluster")
            .args(verb)
            .args(["--no-defaults", "--cluster"]);
        Run::of(command.arg(place.cluster.toml()))
    };
    let shown = elsewhere(&["status"]);
    let output = format!("{}{}", shown.stdout, shown.stderr);
    assert!(
        output.contains("a restore of the cluster has not ended"),
        "{output}"
    );
    elsewhere(&["bootstrap", "--plan"])
        .exits(3)
        .says("a restore of the cluster that it belongs to has not ended, but process ");
    let _ = fs::remove_dir_all(&runs);
    fs::rename(&away, &runs).expect("it can be renamed");
    // The open restore: earlier ones were given up.
    let open = entries(&runs).into_iter().find_map(|run| {
        let path = runs.join(run).join("restore.json");
        let text = fs::read_to_string(&path).ok()?;
        let state: serde_json::Value = serde_json::from_str(&text).ok()?;
        (state["step"] != "ended").then_some((state, path))
    });
    let (mut state, path) = open.expect("a restore that has not ended");
    assert_eq!(state["step"], "bootstrap");
    state["step"] = "load".into();
    state["loaded"] = serde_json::Value::Null;
    state["marks"] = serde_json::Value::Null;
    fs::write(&path, state.to_string()).expect("it can be written");
}

/// The comparison finds a row that only one node has lost, and the restore does not end as done.
// Hazard of clusters: Nodes that differ at the end are named, and nothing is called restored
fn nodes_that_differ_are_reported(place: &Place) {
    place.restore(&["--stop-before", "verify"]).exits(5);
    let alone = |sql: &str| {
        let sql = format!("SET SESSION wsrep_on = OFF; {sql}");
        place.ask(2, &sql);
    };
    alone(
        "CREATE TABLE shop.kept AS SELECT * FROM shop.t WHERE id = 4711; DELETE FROM shop.t WHERE id = 4711",
    );
    let run = place.restore(&[]).exits(4);
    let run = run.says("shop.t").says(place.name(2));
    assert!(
        run.stdout.contains("Not ended: verify is the next step"),
        "{}",
        run.stdout
    );
    alone("INSERT INTO shop.t SELECT * FROM shop.kept; DROP TABLE shop.kept");
}

/// Consecutive numbers, as an application writes them.
// Hazard of clusters: Each write that was acknowledged, while what must not be is refused, and
//   before, during and after a rebuild, is on every node
pub struct Numbers {
    acknowledged: AtomicU64,
}

impl Numbers {
    /// `ER_DUP_ENTRY`: an earlier, unacknowledged attempt was committed.
    const THERE: u16 = 1062;

    /// Creates their table, on a cluster that serves.
    pub fn begin(place: &Place) -> Self {
        place.ask(
            0,
            "CREATE DATABASE app; CREATE TABLE app.t (id BIGINT PRIMARY KEY)",
        );
        Self {
            acknowledged: AtomicU64::new(0),
        }
    }

    /// Runs `work` while they are written through whichever node serves, for as long as one does.
    pub fn while_written(&self, place: &Place, work: impl FnOnce()) {
        let end = AtomicBool::new(false);
        let urls: Vec<String> = (0..3).map(|at| place.node(at).url()).collect();
        std::thread::scope(|scope| {
            let application = scope.spawn(|| self.write(&urls, &end));
            let _end = StopOnDrop(&end);
            work();
            end.store(true, Ordering::Relaxed);
            application.join().expect("an application");
        });
    }

    fn write(&self, urls: &[String], end: &AtomicBool) {
        let acknowledged = &self.acknowledged;
        let (mut conn, mut at) = (None, 0);
        while !end.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
            let Some(open) = &mut conn else {
                at = (at + 1) % urls.len();
                let mut options = ConnectOptions::from_url(&urls[at]).expect("a URL");
                options.read_timeout = Some(Duration::from_secs(10));
                conn = Connection::connect(&options).ok();
                continue;
            };
            let id = acknowledged.load(Ordering::Relaxed) + 1;
            match open.exec(format!("INSERT INTO app.t VALUES ({id})")) {
                Ok(_) => acknowledged.store(id, Ordering::Relaxed),
                Err(error) if error.server_code() == Some(Self::THERE) => {
                    acknowledged.store(id, Ordering::Relaxed);
                }
                Err(_) => conn = None,
            }
        }
    }

    /// Asserts that every acknowledged number is on every node, and that there are more than
    /// `at_least`.
    #[track_caller]
    pub fn are_there(&self, place: &Place, at_least: u64) {
        let last = self.acknowledged.load(Ordering::Relaxed);
        assert!(
            last > at_least,
            "the application has hardly written: {last}"
        );
        for at in 0..3 {
            let sql = format!(
                "SET SESSION wsrep_sync_wait = 15; SELECT COUNT(*), MAX(id) FROM app.t WHERE id <= {last}"
            );
            assert_eq!(
                place.ask(at, &sql),
                format!("{last}\t{last}"),
                "{}",
                place.name(at)
            );
        }
    }
}

/// Runs `work` while rows are written through two nodes.
fn while_written_to<T>(place: &Place, work: impl FnOnce() -> T) -> T {
    place.ask(
        0,
        "CREATE DATABASE busy; CREATE TABLE busy.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT)",
    );
    let end = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        for at in 0..2 {
            let mut conn = servers::connect(place.node(at));
            let end = &end;
            scope.spawn(move || {
                conn.exec("SET SESSION wsrep_sync_wait = 15").expect("SET");
                let mut n = 0;
                while !end.load(Ordering::Relaxed) {
                    n += 1;
                    // A write may lose against one of the other node, and a node may be locked for
                    // a moment.
                    let _ = conn.exec(format!("INSERT INTO busy.t (n) VALUES ({n})"));
                    let _ = conn.exec(format!("UPDATE busy.t SET n = -n WHERE id = {}", n / 2));
                }
            });
        }
        let _end = StopOnDrop(&end);
        work()
    });
    // Each node has its own next AUTO_INCREMENT value, so the nodes would differ.
    place.ask(0, "DROP DATABASE busy");
    result
}

/// The command line of a running node, without the options that bootstrap a cluster.
pub fn as_it_was_started(node: &GaleraNode) -> Vec<String> {
    let pid = node.pid().expect("a node").expect("it runs");
    let words = fs::read(format!("/proc/{pid}/cmdline")).expect("a process");
    let words = String::from_utf8(words).expect("text");
    words
        .split_terminator('\0')
        .filter(|word| !word.starts_with("--wsrep-new-cluster"))
        .map(str::to_owned)
        .collect()
}

/// Shell code that waits until a process is gone, and fails after two minutes.
pub fn gone(pid: &str) -> String {
    format!(
        "tries=0; while readlink /proc/{pid}/exe >/dev/null; do \
         [ $tries -lt 1200 ] || exit 1; tries=$((tries + 1)); sleep 0.1; done"
    )
}

/// A list whose nodes are started and stopped by commands; the machines of the first two are
/// reached by ssh.
fn by_commands(place: &Place) -> PathBuf {
    let mut text = "name = \"by commands\"\n".to_owned();
    let servers = std::env::var("REFLOAT_SERVERS");
    let servers = servers.map_or_else(
        |_| String::new(),
        |folder| format!("REFLOAT_SERVERS={folder} "),
    );
    for (at, node) in place.cluster.nodes().iter().enumerate() {
        let node_command = format!(
            "{servers}REFLOAT_STATE_DIR={} {} sandbox node",
            place.state.path().display(),
            env!("CARGO_BIN_EXE_refloat")
        );
        let machine = if at < 2 {
            format!("ssh = \"machine-{at}\"\n")
        } else {
            String::new()
        };
        let name = node.name();
        let words = as_it_was_started(node);
        let pid_file = words
            .iter()
            .find_map(|word| word.strip_prefix("--pid-file="))
            .expect("a file");
        let _ = write!(
            text,
            "\n[[node]]\nname = \"{name}\"\nurl = \"{}\"\ndatadir = \"{}\"\nlog = \"{}\"\n{machine}[node.control]\nstart = '{node_command} start {name} --no-wait'\n\
             stop = \"\"\"[ ! -e {pid_file} ] || {{ pid=$(cat {pid_file}); kill $pid; {}; }}\"\"\"\n\
             bootstrap = '{node_command} start {name} --no-wait --bootstrap'\n\
             start_standalone = \"\"\"cd /; setsid {} $REFLOAT_SERVER_OPTIONS >/dev/null 2>&1 </dev/null &\"\"\"\n",
            node.url(),
            node.datadir().display(),
            node.error_log().display(),
            gone("$pid"),
            words.join(" ")
        );
    }
    let file = place.state.path().join("commands.toml");
    fs::write(&file, text).expect("a list can be written");
    file
}

// Hazard of clusters: G-01 rows that came without write-sets, and nodes that would join "in sync"
#[test]
fn nobody_joins_with_an_old_position() {
    let options = GaleraOptions::new(servers::nodes(), 3).option("log_bin", "binary-log");
    let place = Place::with(&options);
    let ssh = SshServer::start();
    let path = format!("{}:/usr/bin:/bin", ssh.bin().display());
    let rows = |at: usize| {
        place.ask(
            at,
            "SET wsrep_sync_wait = 15; SELECT COUNT(*), SUM(id) FROM shop.t",
        )
    };
    let all = format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2);
    let at_start = "SELECT @@log_bin, @@innodb_autoinc_lock_mode, @@GLOBAL.wsrep_on";
    assert_eq!(place.ask(0, at_start), "1\t2\t1");
    // First by replication, into the running cluster.
    let file = by_commands(&place);
    let mut restore = command(place.state.path());
    restore
        .env("PATH", &path)
        .args(["cluster", "restore"])
        .arg(&place.dump)
        .arg("--cluster")
        .arg(&file)
        .args(["--no-defaults", "--way", "replicate"]);
    let run = Run::of(&mut restore).exits(0);
    assert!(!run.stdout.contains("history"), "{}", run.stdout);
    for at in 0..3 {
        assert_eq!(rows(at), all);
    }
    place.ask(0, "DROP DATABASE shop");

    // Then through a standalone node, which somebody takes for a member of the cluster.
    let run = |args: &[&str]| Run::of(place.restore_by(&file, args).env("PATH", &path));
    let first = place.name(0);
    let disposable = [
        "--node",
        first,
        "--durability",
        "disposable",
        "--stop-before",
        "bootstrap",
    ];
    another_server_has_the_port(&place, &disposable, &run);
    what_was_written_last_is_not_left_behind(&place, &disposable, &run);
    run(&disposable).exits(5);
    let old = uuid(place.node(1));
    let alone = place.node(0);
    assert!(
        alone.query("SELECT 1").is_err(),
        "applications reach the node that stands alone"
    );
    // Settings that only a start can change, changed for the load alone.
    assert_eq!(by_socket(&alone.datadir(), at_start), ["0", "2", "0"]);
    if servers::nodes() == ServerKind::MariaDb1011 {
        // In later versions it is dynamic, and the load sets it.
        let twice = "SELECT @@innodb_doublewrite";
        assert_eq!(by_socket(&alone.datadir(), twice), ["0"]);
    }
    stop_alone(alone);
    let refused = alone.start_with(&NodeStart::bootstrap());
    assert!(refused.is_err(), "it has begun a cluster by itself");
    something_starts_another_one(&place, &run);
    begun_without_the_program(&place, &file, &path);
    assert_eq!(rows(0), all);
    // A node started with its old data takes a copy anyway: its position is not in the new history.
    let second = place.node(1);
    assert_eq!(uuid(second), old);
    assert!(second.state().is_some_and(|state| state.is_known()));
    second.start().expect("it joins");
    assert_eq!(rows(1), all);
    assert_ne!(uuid(second), old);
    let stopped = run(&["--stop-before", "rejoin"]).exits(5);
    let aside = |at: usize| {
        let names = entries(place.node(at).folder());
        names.iter().any(|name| name.starts_with("data.refloat-"))
    };
    // Its old data are lost, which is reported; the third node's were set aside before anything
    // could start it.
    assert_eq!([1, 2].map(aside), [false, true]);
    let lost = format!("{}  its old data are LOST", place.name(1));
    assert!(
        stopped
            .stderr
            .contains("the full copy that it takes wipes them")
            && stopped.stdout.contains("its old data are LOST"),
        "{}\n{}",
        stopped.stdout,
        stopped.stderr
    );
    let stdout = run(&[]).exits(0).stdout;
    assert!(stdout.contains(&lost), "{stdout}");
    place.is_whole();
    assert_eq!(rows(2), all);
    assert_eq!(place.ask(2, "SELECT COUNT(*) FROM late.t"), "1");
    assert_eq!(place.ask(0, at_start), "1\t2\t1");
    one_comes_back_by_commands(&place, &file, &path);
    files_are_read_by_ssh(&place, &path, &file);
    one_that_is_given_up_leaves_nodes_that_start(&place, &run);
}

/// Nodes that are controlled by commands come back by IST.
fn one_comes_back_by_commands(place: &Place, file: &Path, path: &str) {
    let (first, second) = (place.name(0), place.name(1));
    let cluster = |words: &[&str], more: &[&str]| {
        let mut command = command(place.state.path());
        command.env("PATH", path).arg("cluster").args(words);
        command.arg("--no-defaults").arg("--cluster").arg(file);
        Run::of(command.args(more)).exits(0)
    };
    // The node that bootstrapped the cluster is like any other.
    place.node(0).stop().expect("it stops");
    place.ask(1, "INSERT INTO late.t VALUES (77)");
    let back = cluster(&["rejoin", first], &[]).stdout;
    assert!(back.contains("by IST"), "{back}");
    place.all_are_in_step();
    let back = cluster(&["maintain", second], &["--for", "1m", "--", "true"]).stdout;
    assert!(back.contains("by IST"), "{back}");
    place.all_are_in_step();
    assert_eq!(place.ask(1, "SELECT COUNT(*) FROM late.t"), "2");
    place.ask(0, "DELETE FROM late.t WHERE id = 77");
}

/// The program is killed as the first node is to bootstrap the cluster; the node does so anyway.
fn begun_without_the_program(place: &Place, file: &Path, path: &str) {
    let mut command = place.restore_by(file, &[]);
    kills_at(command.env("PATH", path), "bootstraps the cluster");
    let first = place.node(0);
    if first.pid().expect("a node").is_none() {
        first
            .start_with(&NodeStart::bootstrap())
            .expect("it begins the cluster");
    }
    let begun = Instant::now();
    while first.query("SELECT 1").is_err() {
        assert!(begun.elapsed() < LONG, "it does not answer");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A supervisor restarts a node that has nothing to join. It does not answer.
fn something_starts_another_one(place: &Place, run: &dyn Fn(&[&str]) -> Run) {
    let second = place.node(1);
    let text = fs::read_to_string(second.grastate()).expect("a state");
    second.begin(&NodeStart::join()).expect("it can be started");
    run(&["--stop-before", "rejoin"])
        .exits(1)
        .says(&format!("bootstrap {}: it runs again", second.name()));
    second.kill().expect("it can be killed");
    // A node that starts erases the position in its grastate.dat.
    let state = second.state().expect("a state");
    assert!(!state.is_known(), "{state:?}");
    run(&["--stop-before", "rejoin"])
        .exits(1)
        .says("and its grastate.dat says -1 now");
    fs::write(second.grastate(), text).expect("it can be written");
}

/// A restore that is given up leaves nodes down, and the program knows their positions.
fn one_that_is_given_up_leaves_nodes_that_start(place: &Place, run: &dyn Fn(&[&str]) -> Run) {
    let (first, second) = (place.name(0), place.name(1));
    let before = |step| {
        run(&["--node", first, "--stop-before", step]).exits(5);
    };
    place.ask(0, "DROP DATABASE shop");
    run(&["--give-up"]).exits(3).says("no restore of");
    before("standalone");
    place.ask(0, "INSERT INTO late.t VALUES (2)");
    before("load");
    run(&["--give-up", "--restart"]).exits(2);
    let stdout = run(&["--give-up"]).exits(0).stdout;
    assert!(
        stdout.contains("Given up before the step load")
            && stdout.contains("ran standalone, and may hold a part")
            && stdout.matches("was at").count() == 3,
        "{stdout}"
    );
    let socket = place.node(0).datadir().join("refloat-standalone.sock");
    assert!(
        std::os::unix::net::UnixStream::connect(&socket).is_err(),
        "{first} stands alone still"
    );
    run(&["--give-up"]).exits(3).says("no restore of");
    run(&["--plan"])
        .exits(3)
        .says("all nodes are down at different positions");
    run(&["--plan", "--node", second])
        .exits(3)
        .says(&format!("{second} is not the most advanced node"));
    // The first node holds the newest data: a new restore begins there and completes.
    run(&["--node", first]).exits(0);
    place.is_whole();
    assert_eq!(place.ask(2, "SELECT COUNT(*) FROM late.t"), "2");
}

/// Stops a standalone node.
fn stop_alone(node: &GaleraNode) {
    let pid = fs::read_to_string(node.folder().join("run/server.pid")).expect("it runs");
    let stopped = Command::new("sh")
        .args(["-c", &format!("kill $0; {}", gone("$0"))])
        .arg(pid.trim())
        .status();
    let name = node.name();
    assert!(stopped.expect("a shell").success(), "{name} does not end");
}

/// An application writes once more when the other nodes are already down. A restart does not begin
/// with one of those.
fn what_was_written_last_is_not_left_behind(
    place: &Place,
    args: &[&str],
    run: &dyn Fn(&[&str]) -> Run,
) {
    place.ask(0, "CREATE DATABASE late; CREATE TABLE late.t (id INT PRIMARY KEY); INSERT INTO late.t VALUES (1)");
    let mut load = args.to_vec();
    *load.last_mut().expect("a step") = "load";
    run(&load).exits(5);
    let (first, second) = (place.name(0), place.name(1));
    stop_alone(place.node(0));
    let plan = run(&["--restart", "--plan", "--node", first])
        .exits(0)
        .stdout;
    assert!(plan.contains(&format!("into      {first}")), "{plan}");
    run(&["--restart", "--plan"])
        .exits(3)
        .says("all nodes are down at different positions");
    run(&["--restart", "--plan", "--node", second])
        .exits(3)
        .says(&format!("{second} is not the most advanced node"));
}

/// A similar server listens where the node would stand alone: nothing is loaded into it, and the
/// node keeps running.
fn another_server_has_the_port(place: &Place, args: &[&str], run: &dyn Fn(&[&str]) -> Run) {
    let mut before = args.to_vec();
    *before.last_mut().expect("a step") = "stop";
    run(&before).exits(5);
    let plan = run(&["--plan", "--json"]).exits(0).stdout;
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("JSON");
    let port = plan["plan"]["port"].as_u64().expect("a port");
    let other = servers::start(&servers::quick(ServerKind::MariaDb1011));
    let mut way = Command::new("socat");
    way.arg(format!("TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"))
        .arg(format!("TCP:127.0.0.1:{}", other.port()));
    // socat comes with `scripts/install-servers galera`.
    let way = KillOnDrop::start(&mut way);
    let begun = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", u16::try_from(port).expect("a port"))).is_err()
    {
        assert!(begun.elapsed() < LONG, "socat does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let first = place.name(0);
    let refused = run(args);
    drop(way);
    refused.exits(1).says(&format!(
        "{first}: another server answers where it would run standalone, at port {port}"
    ));
    assert!(
        !other
            .query("SHOW DATABASES")
            .expect("an answer")
            .contains("shop")
    );
    assert!(
        place.node(0).query("SELECT 1").is_ok(),
        "{first} was stopped"
    );
}

/// The single row that a standalone server answers with.
fn by_socket(datadir: &Path, sql: &str) -> Vec<String> {
    let options = ConnectOptions {
        socket: Some(datadir.join("refloat-standalone.sock")),
        user: "root".to_owned(),
        ..ConnectOptions::default()
    };
    let mut conn = Connection::connect(&options).expect("a server that stands alone");
    let answer = conn.query(sql).expect("an answer");
    let columns = sql.matches("@@").count();
    (0..columns)
        .map(|at| answer.str(0, at).unwrap_or_default().to_owned())
        .collect()
}

/// The files of a down node are read by ssh, or the reason why they cannot be is shown.
fn files_are_read_by_ssh(place: &Place, path: &str, file: &Path) {
    let status = |file: &Path| {
        let mut status = command(place.state.path());
        status
            .env("PATH", path)
            .args(["cluster", "status", "--no-defaults", "--json", "--cluster"])
            .arg(file);
        let run = Run::of(&mut status).exits(0);
        let view: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        view["nodes"][1].clone()
    };
    place.node(1).stop().expect("it stops");
    let seqno = place
        .node(1)
        .state()
        .expect("a state")
        .seqno
        .expect("a seqno");
    assert_eq!(status(file)["grastate"]["seqno"], seqno);
    let strange = fs::read_to_string(file).expect("a list");
    let strange = strange.replace("machine-1", SshServer::STRANGER);
    let file = place.state.path().join("strange.toml");
    fs::write(&file, strange).expect("a list can be written");
    let node = status(&file);
    let why = node["files_unreadable"].as_str().unwrap_or_default();
    assert!(why.contains("Host key verification failed"), "{node}");
    assert!(!why.contains('\n'), "{why:?}");
}

/// Unknown rates are measured on the cluster itself, leaving nothing behind; not for a plan, and
/// not for a dump that loads in a moment.
fn rates_are_measured_before_a_way_is_chosen(place: &Place) {
    let large = place.state.path().join("large.sql");
    let mut text =
        "CREATE DATABASE large; USE large; CREATE TABLE t (id INT PRIMARY KEY, v MEDIUMTEXT);\n"
            .to_owned();
    for id in 0..20 {
        let _ = writeln!(
            text,
            "INSERT INTO t VALUES ({id}, '{}');",
            "x".repeat(1 << 20)
        );
    }
    text.push_str("-- Dump completed\n");
    fs::write(&large, text).expect("the dump can be written");
    let run = |dump: &Path, args: &[&str]| {
        Run::of(&mut place.restore_of(dump, &place.cluster.toml(), args))
    };
    let plan = place.touches_nothing(|| run(&large, &["--plan"])).exits(0);
    assert!(
        plan.stdout
            .contains("a restore measures the rates that are not known"),
        "{}",
        plan.stdout
    );
    // Leftovers of a killed measurement do not get in the way; a foreign table does.
    place.ask(
        1,
        "CREATE DATABASE refloat_rates; CREATE TABLE refloat_rates.theirs (id INT PRIMARY KEY)",
    );
    let stop = ["--stop-before", "load"];
    run(&large, &stop)
        .exits(5)
        .says("copies")
        .says("(as measured just now)")
        .says("a database refloat_rates is there, and holds somebody's tables");
    run(&large, &["--give-up"]).exits(0);
    place.ask(1, "DROP TABLE refloat_rates.theirs");
    let plan = run(&large, &stop).exits(5).stderr;
    assert_eq!(plan.matches("(as measured just now)").count(), 3, "{plan}");
    assert!(!plan.contains("it is not known how long"), "{plan}");
    run(&large, &["--give-up"]).exits(0);
    for at in 0..3 {
        assert_eq!(place.ask(at, "SHOW DATABASES LIKE 'refloat%'"), "");
        let files = entries(&place.node(at).folder().join("data"));
        let left = files.iter().find(|name| name.contains("refloat-rate"));
        assert_eq!(left, None);
    }
    let small = place.state.path().join("small.sql");
    fs::write(
        &small,
        "CREATE DATABASE small; CREATE TABLE small.t (id INT PRIMARY KEY);\n-- Dump completed\n",
    )
    .expect("the dump can be written");
    let plan = run(&small, &stop).exits(5).stderr;
    assert!(plan.contains("load not measured"), "{plan}");
    run(&small, &["--give-up"]).exits(0);
}

/// Plans and refusals touch nothing.
// Hazard of clusters: G-03, G-04 a crashed node, positions that differ: all are shown, only the
//   newest may be taken
fn what_must_not_be_is_refused(place: &Place) {
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
    a_node_of_another_cluster_is_listed(place);
    one_is_not_in_step(place);
    for at in [2, 1, 0] {
        place.node(at).stop().expect("it stops");
    }
    all_are_down_at_different_places(place);
    the_newest_has_lost_its_place(place);
    one_holds_data_of_another_history(place);
    place.cluster.start().expect("it starts");
    place.all_are_in_step();
    a_stranger_has_joined_since(place);
}

/// It is at a listed address.
fn a_node_of_another_cluster_is_listed(place: &Place) {
    let (first, third) = (place.name(0), place.name(2));
    let stranger = Cluster::start(servers::nodes(), 1);
    let listed = fs::read_to_string(place.cluster.toml()).expect("a list");
    let (ours, theirs) = (place.node(2).url(), stranger.url(0));
    let file = place.state.path().join("mixed.toml");
    let mixed = listed.replace(&ours, &theirs);
    assert_ne!(mixed, listed);
    fs::write(&file, mixed).expect("a list can be written");
    place
        .touches_nothing(|| Run::of(&mut place.restore_by(&file, &[])))
        .exits(3)
        .says("the nodes are not of one cluster: by history");
    // No other command accepts such a list either.
    let disagree = "the nodes disagree on who belongs to the cluster";
    for (words, more, message) in [
        (&["maintain", first][..], &["--", "true"][..], disagree),
        (&["rolling"], &["--", "true"], disagree),
        (
            &["rejoin", third],
            &[],
            "is in sync with itself, but not with the others",
        ),
    ] {
        let mut other = command(place.state.path());
        other.arg("cluster").args(words);
        other.args(["--no-defaults", "--cluster"]).arg(&file);
        place
            .touches_nothing(|| Run::of(other.args(more)))
            .exits(3)
            .says(message);
    }
}

/// It is desynced, as a donor is.
fn one_is_not_in_step(place: &Place) {
    let third = place.name(2);
    place.ask(2, "SET GLOBAL wsrep_desync = ON");
    place
        .touches_nothing(|| place.restore(&[]))
        .exits(3)
        .says(&format!("{third} is not in sync: it is "));
    place.ask(2, "SET GLOBAL wsrep_desync = OFF");
    place.all_are_in_step();
}

fn all_are_down_at_different_places(place: &Place) {
    let (first, third) = (place.name(0), place.name(2));
    let refused = place.touches_nothing(|| place.restore(&[])).exits(3);
    for at in 0..3 {
        let seqno = place
            .node(at)
            .state()
            .expect("a state")
            .seqno
            .expect("a seqno");
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
        .says(&format!("{third} is not the most advanced node"));
    place
        .touches_nothing(|| place.restore(&["--node", first, "--plan"]))
        .exits(0);
}

/// A start that fails late erases the newest node's position, but its tables still know it.
fn the_newest_has_lost_its_place(place: &Place) {
    let first = place.name(0);
    let grastate = place.node(0).grastate();
    let text = fs::read_to_string(&grastate).expect("a state");
    let seqno = place
        .node(0)
        .state()
        .expect("a state")
        .seqno
        .expect("a seqno");
    let zeroed = text
        .replace(&uuid(place.node(0)), "00000000-0000-0000-0000-000000000000")
        .replace(&seqno.to_string(), "-1");
    fs::write(&grastate, zeroed).expect("it can be written");
    place
        .touches_nothing(|| place.restore(&[]))
        .exits(3)
        .says(&format!("{first} is at "));
    place
        .touches_nothing(|| place.restore(&["--node", place.name(1)]))
        .exits(3)
        .says(&format!("{} is not the most advanced node", place.name(1)));
    let plan = place
        .touches_nothing(|| place.restore(&["--node", first, "--plan"]))
        .exits(0);
    assert!(
        plan.stdout.contains(&format!("into      {first}")),
        "{}",
        plan.stdout
    );
    fs::write(&grastate, text).expect("it can be written");
}

fn one_holds_data_of_another_history(place: &Place) {
    let first = place.name(0);
    let grastate = place.node(2).grastate();
    let text = fs::read_to_string(&grastate).expect("a state");
    let other = text.replace(&uuid(place.node(2)), "0b2f7c0a-e706-11f1-bc0a-a7ea195e725e");
    fs::write(&grastate, other).expect("it can be written");
    place
        .touches_nothing(|| place.restore(&["--node", first]))
        .exits(3)
        .says("the nodes are not of one cluster: by history");
    fs::write(&grastate, text).expect("it can be written");
}

/// An unlisted node would carry on the old history once all others are stopped.
// Hazard of clusters: A node or arbitrator that nobody has listed joins before the others are
//   stopped
fn a_stranger_has_joined_since(place: &Place) {
    let listed = fs::read_to_string(place.cluster.toml()).expect("a list");
    let (two, _) = listed.rsplit_once("[[node]]").expect("three nodes");
    let file = place.state.path().join("two.toml");
    fs::write(&file, two).expect("a list can be written");
    let run = |args: &[&str]| Run::of(&mut place.restore_by(&file, args));
    run(&["--plan"])
        .exits(3)
        .says("sees 3 members, and 2 of them are listed");
    place.node(2).stop().expect("it stops");
    run(&["--stop-before", "stop"]).exits(5);
    place.node(2).start().expect("it joins");
    place.all_are_in_step();
    run(&[])
        .exits(1)
        .says("it sees 3 members, and 2 of them are listed here");
    place.all_are_in_step();
    run(&["--give-up"]).exits(0);
}
