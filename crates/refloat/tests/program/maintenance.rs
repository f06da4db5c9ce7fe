//! Nodes go away and come back while an application writes, and things are killed, cut off or full:
//! no acknowledged write is lost, no node bootstraps a cluster of its own, and what the others were
//! told is reverted.

// Hazard of clusters: G-07 provider options are as before | , `cluster/maintain.rs`
// Hazard of clusters: `kill -9` of the program, of a joiner, of a holder | , `program/restore.rs`,
//   `cluster/maintain.rs`

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions};
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::wait_until;
use refloat_testkit::{oracle, servers};
use refloat_wire::{ConnectOptions, Connection};

use crate::support::{Run, command, sandbox_in, signal, state_folder};
use crate::time_limits::KillOnDrop;

/// Limit for every wait.
pub const LONG: Duration = Duration::from_secs(120);
/// Ring size of each node: small.
const RING: &str = "8M";

pub struct Place {
    pub cluster: EphemeralCluster,
    pub state: tempfile::TempDir,
}

impl Place {
    pub fn new(isolated: bool) -> Self {
        let state = state_folder();
        let mut options =
            GaleraOptions::new(servers::nodes(), 3).provider_option("gcache.size", RING);
        if isolated {
            options = options.isolated();
        }
        let cluster = sandbox_in(state.path())
            .start_cluster_ephemeral(&options)
            .expect("a cluster starts");
        let place = Self { cluster, state };
        place.ask(0, "CREATE DATABASE app; CREATE TABLE app.t (id BIGINT PRIMARY KEY, v VARCHAR(500)) ENGINE=InnoDB");
        place
    }

    pub fn node(&self, at: usize) -> &GaleraNode {
        &self.cluster.nodes()[at]
    }

    pub fn name(&self, at: usize) -> &str {
        self.node(at).name()
    }

    #[track_caller]
    pub fn ask(&self, at: usize, sql: &str) -> String {
        let node = self.node(at);
        node.query(sql)
            .unwrap_or_else(|error| panic!("{}: {sql}: {error}", node.name()))
    }

    pub fn in_step(&self, at: usize) -> bool {
        let asked = "SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_local_state_comment', 'wsrep_cluster_status')";
        let status = self.node(at).query(asked).unwrap_or_default();
        [
            "wsrep_cluster_size\t3",
            "wsrep_local_state_comment\tSynced",
            "wsrep_cluster_status\tPrimary",
        ]
        .iter()
        .all(|words| status.contains(words))
    }

    #[track_caller]
    pub fn all_are_in_step(&self) {
        wait_until("all nodes are in step", || {
            (0..3).all(|at| self.in_step(at))
        });
    }

    pub fn cluster(&self, words: &[&str], more: &[&str]) -> Command {
        let mut command = command(self.state.path());
        command
            .arg("cluster")
            .args(words)
            .arg("--cluster")
            .arg(self.cluster.toml())
            .arg("--no-defaults")
            .args(more);
        command
    }

    #[track_caller]
    pub fn run(&self, words: &[&str], more: &[&str]) -> Run {
        Run::of(&mut self.cluster(words, more))
    }

    /// The line by which a command that has brought nodes back offers to compare all of them.
    fn comparison(&self, how: &str) -> String {
        let list = self.cluster.toml();
        format!(
            "  compare   refloat cluster verify {how}--cluster {} --no-defaults\n",
            list.display()
        )
    }

    /// Everything that a maintenance changes: what each node keeps by itself or was told to keep.
    pub fn kept(&self) -> Vec<String> {
        (0..3).map(|at| self.kept_by(at)).collect()
    }

    fn kept_by(&self, at: usize) -> String {
        let options = self.ask(at, "SELECT @@wsrep_provider_options");
        let mut kept: Vec<&str> = options
            .split(';')
            .map(str::trim)
            .filter(|one| one.starts_with("gcache."))
            .collect();
        kept.sort_unstable();
        // The donor that it asks first is for one start only.
        let asks = self.ask(at, "SELECT @@wsrep_sst_donor");
        format!("{}; asks '{asks}'", kept.join(";"))
    }

    #[track_caller]
    pub fn all_are_the_same(&self) {
        let all: Vec<oracle::Snapshot> = (0..3)
            .map(|at| {
                let mut conn = servers::connect(self.node(at));
                conn.exec("SET SESSION wsrep_sync_wait = 15")
                    .expect("a setting");
                oracle::Snapshot::take(&mut conn, oracle::Scope::default()).expect("a snapshot")
            })
            .collect();
        for at in 1..3 {
            assert_eq!(oracle::differences(&all[0], &all[at]), []);
        }
    }

    /// Runs `work` beside an application that writes consecutive numbers on the first node, then
    /// asserts that every acknowledged number is on every node.
    pub fn beside_an_application<T>(&self, work: impl FnOnce(&AtomicU64) -> T) -> T {
        let (acknowledged, end) = (AtomicU64::new(0), AtomicBool::new(false));
        self.ask(0, "TRUNCATE TABLE app.t");
        let url = self.node(0).url();
        let result = std::thread::scope(|scope| {
            let application = scope.spawn(|| write(&url, &acknowledged, &end));
            let _end = StopOnDrop(&end);
            let result = work(&acknowledged);
            end.store(true, Ordering::Relaxed);
            application.join().expect("an application");
            result
        });
        self.all_are_in_step();
        let last = acknowledged.load(Ordering::Relaxed);
        assert!(last > 100, "the application has hardly written: {last}");
        for at in 0..3 {
            let sql = format!(
                "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*), MAX(id) FROM app.t WHERE id <= {last}"
            );
            assert_eq!(
                self.ask(at, &sql),
                format!("{last}\t{last}"),
                "{}",
                self.name(at)
            );
        }
        self.all_are_the_same();
        result
    }
}

/// Writes consecutive numbers, and retries failures. A number that turns out to be there on the
/// retry was not acknowledged, but not lost either.
fn write(url: &str, acknowledged: &AtomicU64, end: &AtomicBool) {
    /// `ER_DUP_ENTRY`.
    const THERE: u16 = 1062;
    let mut options = ConnectOptions::from_url(url).expect("a URL");
    options.read_timeout = Some(Duration::from_secs(10));
    let mut conn = None;
    while !end.load(Ordering::Relaxed) {
        let id = acknowledged.load(Ordering::Relaxed) + 1;
        let result = match &mut conn {
            None => match Connection::connect(&options) {
                Ok(opened) => {
                    conn = Some(opened);
                    continue;
                }
                Err(error) => Err(error),
            },
            Some(conn) => conn.exec(format!("INSERT INTO app.t VALUES ({id}, REPEAT('x', 400))")),
        };
        match result {
            Ok(_) => acknowledged.store(id, Ordering::Relaxed),
            Err(error) if error.server_code() == Some(THERE) => {
                acknowledged.store(id, Ordering::Relaxed);
            }
            Err(_) => {
                conn = None;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a node belongs to the primary component. `None`: it does not answer.
fn is_primary(node: &GaleraNode) -> Option<bool> {
    let status = node.query("SHOW STATUS LIKE 'wsrep_cluster_status'").ok()?;
    Some(status.ends_with("\tPrimary"))
}

/// Waits until a node has lost its majority, then declares the others gone, as a person would.
pub fn goes_on_alone(node: &GaleraNode) {
    wait_until("it has no majority", || is_primary(node) == Some(false));
    servers::set_provider_option(node, "pc.bootstrap", "1");
}

/// A running program and what it has printed so far.
pub struct Running {
    child: KillOnDrop,
    output: std::sync::Arc<Mutex<String>>,
    reader: std::thread::JoinHandle<()>,
}

impl Running {
    pub fn start(command: Command) -> Self {
        Self::start_into(command, Stdio::null())
    }

    /// Like `start`, with stdout, for its result, going to `stdout`.
    pub fn start_into(mut command: Command, stdout: Stdio) -> Self {
        let mut child = KillOnDrop::start(command.stdout(stdout).stderr(Stdio::piped()));
        let output = std::sync::Arc::new(Mutex::new(String::new()));
        let pipe = child.stderr.take().expect("it is a pipe");
        let into = std::sync::Arc::clone(&output);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut output = into.lock().unwrap_or_else(PoisonError::into_inner);
                output.push_str(&line);
                output.push('\n');
            }
        });
        Self {
            child,
            output,
            reader,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn stderr(&self) -> String {
        self.output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    #[track_caller]
    pub fn says(&mut self, words: &str) {
        let begun = Instant::now();
        while !self.stderr().contains(words) {
            let ended = self.child.try_wait().expect("a state");
            assert!(
                ended.is_none() && begun.elapsed() < LONG,
                "not {words:?}, {ended:?}:\n{}",
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until something has come about by it.
    #[track_caller]
    pub fn brings(&self, what: &str, condition: impl Fn() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(
                begun.elapsed() < LONG,
                "not within {} s: {what}; it said:\n{}",
                LONG.as_secs(),
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        self.until_read();
    }

    /// Waits until all of its output is read. Its child processes may hold the pipe open.
    #[track_caller]
    fn until_read(&self) {
        wait_until("its output ends", || self.reader.is_finished());
    }

    #[track_caller]
    pub fn ends(self, code: i32) -> String {
        self.ends_within(LONG, code)
    }

    /// Waits up to `patience` for it to end with this code. Returns what it printed.
    #[track_caller]
    pub fn ends_within(mut self, patience: Duration, code: i32) -> String {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("a state") {
                Some(status) => break status,
                None => assert!(
                    begun.elapsed() < patience,
                    "it does not end:\n{}",
                    self.stderr()
                ),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        self.until_read();
        let stderr = self.stderr();
        assert_eq!(status.code(), Some(code), "{stderr}");
        stderr
    }
}

#[test]
fn whatever_is_killed_during_a_maintenance_nothing_is_missing() {
    let place = Place::new(false);
    let before = place.kept();
    let second = place.name(1).to_owned();
    place.beside_an_application(|_| {
        for words in [
            format!("stopping {second}"),
            "is down, and what it misses is kept".to_owned(),
            format!("starting {second}"),
        ] {
            let mut running = Running::start(away(&place, &second, &["--", "sleep", "1"]));
            running.says(&words);
            running.kill();
            // A start or stop that has begun goes on without the program. A stopping node still
            // answers for a moment, and `--end` must cope with that: no pause in that case.
            if !words.starts_with("stopping") {
                std::thread::sleep(Duration::from_millis(300));
            }
            end_when_its_command_has(&place, &second);
            place.all_are_in_step();
            assert_eq!(place.kept(), before, "killed at {words:?}");
        }
        its_command_goes_on(&place, &second);
        killed_while_the_others_are_told(&place, &second, &before);
        killed_while_the_others_are_told_to_let_go(&place, &second, &before);
        a_joiner_is_killed(&place, &second);
        a_hold_runs_out(&place, &second, &before);
        nobody_begins_beside_it(&place, &second);
    });
    assert_eq!(place.kept(), before);
}

/// Ends a maintenance whose program was killed. Its command may run on for a moment.
fn end_when_its_command_has(place: &Place, node: &str) {
    wait_until("its command has ended", || {
        let run = place.run(&["maintain", node], &["--end"]);
        let waits = run.code == 3 && run.stderr.contains("still runs");
        if !waits {
            run.exits(0);
        }
        !waits
    });
}

/// The program is killed while the command still works on the node's files: the node is not started
/// beside it, and status says where things stand.
fn its_command_goes_on(place: &Place, second: &str) {
    let [begun, gate] = ["begun", "gate"].map(|name| place.state.path().join(name));
    fs::write(&gate, "").expect("a file");
    let script = format!(
        // The script outlives the program, whose output is read to its end, so it must not hold the
        // pipe.
        "exec >/dev/null 2>&1; touch {}; while [ -e {} ]; do sleep 0.1; done",
        begun.display(),
        gate.display()
    );
    let running = Running::start(away(place, second, &["--", "sh", "-c", &script]));
    wait_until("its command has begun", || begun.exists());
    let status = |words: &str| {
        let stdout = place.run(&["status"], &["--sample", "0.2"]).stdout;
        assert!(stdout.contains(words), "not {words:?}: {stdout}");
    };
    status("a maintenance of it has not ended");
    status("works on it");
    running.kill();
    let next = format!(
        "refloat cluster maintain {second} --cluster {} --no-defaults --end",
        place.cluster.toml().display()
    );
    status("no longer works on it");
    status(&next);
    place
        .run(&["maintain", second], &["--end"])
        .exits(3)
        .says("still runs: process ");
    // The proposed command works as printed.
    place
        .run(&["maintain", second, "--for", "1s"], &["--", "true"])
        .exits(3)
        .says(&format!(
            "`refloat cluster maintain {second} --end --cluster {} --no-defaults`",
            place.cluster.toml().display()
        ));
    fs::remove_file(&gate).expect("it is there");
    end_when_its_command_has(place, second);
    place.all_are_in_step();
}

/// A maintenance for which the others must be told to keep more than their rings hold.
fn away(place: &Place, node: &str, more: &[&str]) -> Command {
    let words = ["maintain", node, "--for", "1m", "--hold", "64M"];
    place.cluster(&words, &[&["--sample", "0.2s"], more].concat())
}

/// The node was not stopped yet, and is not stopped afterwards.
fn killed_while_the_others_are_told(place: &Place, second: &str, before: &[String]) {
    let running = Running::start(away(place, second, &["--", "sleep", "1"]));
    let process = place.node(1).pid().expect("a state");
    wait_until("one of the others is told", || place.kept() != before);
    running.kill();
    let ended = place.run(&["maintain", second], &["--end"]).exits(0);
    assert!(
        ended.stdout.contains(&format!("{second} was not stopped")),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("compare"), "{}", ended.stdout);
    assert_eq!(place.node(1).pid().expect("a state"), process);
    place.all_are_in_step();
    assert_eq!(place.kept(), before);
}

/// The node is back, and the hold is no longer needed. One holder takes no writes at that moment,
/// so the program is certainly dead before all have let go.
fn killed_while_the_others_are_told_to_let_go(place: &Place, second: &str, before: &[String]) {
    let mut running = Running::start(away(place, second, &["--", "true"]));
    running.says(&format!("starting {second}"));
    wait_until("the node has begun", || {
        place.node(1).pid().is_ok_and(|pid| pid.is_some())
    });
    signal("-STOP", running.id());
    wait_until("the node is back", || place.in_step(1));
    let mut keeper = servers::connect(place.node(2));
    let locked = keeper.exec("FLUSH TABLES WITH READ LOCK");
    locked.expect("it takes no writes");
    signal("-CONT", running.id());
    running.says("the others no longer need to keep write-sets");
    running.kill();
    keeper.exec("UNLOCK TABLES").expect("it takes writes");
    let ended = place.run(&["maintain", second], &["--end"]).exits(0);
    let page = ended.says("taking over from it").stdout;
    assert!(page.ends_with(&place.comparison("--quick ")), "{page}");
    place.all_are_in_step();
    assert_eq!(place.kept(), before);
}

/// The node dies while it comes back: what it misses is kept until it is back.
fn a_joiner_is_killed(place: &Place, second: &str) {
    let mut running = Running::start(away(place, second, &["--", "true"]));
    running.says(&format!("starting {second}"));
    wait_until("the node has begun", || {
        place.node(1).pid().is_ok_and(|pid| pid.is_some())
    });
    let _ = place.node(1).kill();
    running.says("What it misses is still kept");
    let _ = place.node(1).start();
    let stderr = running.ends(0);
    assert!(stderr.contains("still kept"), "{stderr}");
    place.all_are_in_step();
}

/// The node is away for longer than allowed: that is reported, nothing more is kept for it, and it
/// comes back by a full copy. The application keeps running.
// Hazard of clusters: A hold that runs out while an application writes all the time: reported, put
//   back, a full copy, no write missing
fn a_hold_runs_out(place: &Place, second: &str, before: &[String]) {
    const OTHERS: [usize; 2] = [0, 2];
    place.ask(
        0,
        "CREATE TABLE app.large (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB) ENGINE=InnoDB",
    );
    let [go, page] = ["go", "page"].map(|name| place.state.path().join(name));
    let script = format!("while [ ! -e {} ]; do sleep 0.1; done", go.display());
    let limits = ["--limit", "3s", "--allow-sst", "--", "sh", "-c", &script];
    let command = away(place, second, &limits);
    let result = fs::File::create(&page).expect("a file");
    let mut running = Running::start_into(command, result.into());
    running.says("is given 64.0 MiB of memory");
    running.says(&format!(
        "write-sets are no longer kept for {second}: the time for it is over (3 s). It will need a full copy (SST) unless"
    ));
    wait_until("the others are as before", || {
        OTHERS.iter().all(|&at| place.kept_by(at) == before[at])
    });
    let left = place
        .node(1)
        .state()
        .expect("a position")
        .seqno
        .expect("a seqno");
    let oldest = |at: usize| -> u64 {
        let status = place.ask(at, "SHOW STATUS LIKE 'wsrep_local_cached_downto'");
        let (_, seqno) = status.split_once('\t').expect("a status");
        seqno.parse().expect("a number")
    };
    wait_until("nobody has what it misses", || {
        place.ask(
            0,
            "INSERT INTO app.large (v) VALUES (REPEAT(MD5(RAND()), 62500))",
        );
        OTHERS.iter().all(|&at| oldest(at) > left + 1)
    });
    fs::write(&go, "").expect("a file");
    running.ends(4);
    let page = fs::read_to_string(&page).expect("a result");
    assert!(
        page.starts_with(&format!("{second} is back by a FULL COPY (SST): "))
            && page.contains("  not kept  to the end: the time for it is over (3 s)\n")
            && page.ends_with(&place.comparison("--quick ")),
        "{page}"
    );
    place.all_are_in_step();
    assert_eq!(place.kept(), before);
    place.ask(0, "DROP TABLE app.large");
}

/// Nothing else starts beside a maintenance, even with a state directory of its own. No node was
/// told to keep anything here: the mark in the node's data directory is the only sign, and it no
/// longer counts once its process is gone.
fn nobody_begins_beside_it(place: &Place, second: &str) {
    let other = state_folder();
    let nodes = place.state.path().join("sandbox");
    std::os::unix::fs::symlink(nodes, other.path().join("sandbox")).expect("a link");
    let dump = other.path().join("dump.sql");
    fs::write(&dump, "CREATE DATABASE more;\n").expect("a file");
    let elsewhere = |words: &[&str]| {
        let mut command = command(other.path());
        command.arg("cluster").args(words);
        command.args(["--plan", "--ignore-advice", "--no-defaults", "--cluster"]);
        Run::of(command.arg(place.cluster.toml()))
    };
    let rolling = ["rolling", "--for", "1s", "--sample", "0.2s"];
    let restore = ["restore", dump.to_str().expect("a path")];
    let words = ["maintain", second, "--for", "1s", "--sample", "0.2s"];
    let running = Running::start(place.cluster(&words, &["--", "true"]));
    let file = place.node(1).datadir().join("refloat-maintain.json");
    let process = running.id();
    wait_until("it says what it does", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.contains(&format!("\"pid\":{process}"))
    });
    signal("-STOP", process);
    for words in [&rolling[..], &restore] {
        elsewhere(words)
            .exits(3)
            .says(&format!("{second}: process {process} on "))
            .says(" drives a maintenance of it");
    }
    running.kill();
    elsewhere(&rolling).exits(0);
}

#[test]
fn a_partition_during_rolling_maintenance_is_waited_for() {
    let place = Place::new(true);
    let before = place.kept();
    let folder = place.state.path().to_owned();
    let (here, go, page) = (folder.join("here"), folder.join("go"), folder.join("page"));
    let script = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.1; done",
        here.display(),
        go.display()
    );
    place.beside_an_application(|acknowledged| {
        let result = fs::File::create(&page).expect("a file");
        let mut running = Running::start_into(
            place.cluster(&["rolling", "--for", "1m"], &["--", "sh", "-c", &script]),
            result.into(),
        );
        wait_until("a node is down", || here.exists());
        let down = (0..3)
            .find(|&at| place.node(at).pid().is_ok_and(|pid| pid.is_none()))
            .expect("one of them is down");
        // One of the two nodes left is cut off: neither has a majority, and neither may carry on
        // alone.
        let other = (0..3).rfind(|&at| at != down).expect("another");
        place.node(other).cut().expect("it can be cut off");
        let primary = |at: usize| is_primary(place.node(at)) == Some(true);
        let left: Vec<usize> = (0..3).filter(|&at| at != down).collect();
        wait_until("nobody has a majority", || {
            !left.iter().any(|&at| primary(at))
        });
        let stuck = acknowledged.load(Ordering::Relaxed);
        fs::write(&go, "").expect("a file");
        std::thread::sleep(Duration::from_secs(3));
        // Observing the node that was cut off may take until its limit.
        running.says("cannot be seen just now");
        assert!(
            !left.iter().any(|&at| primary(at)),
            "a part has begun a cluster of its own"
        );
        assert!(acknowledged.load(Ordering::Relaxed) <= stuck + 1);
        place.node(other).heal().expect("it can be healed");
        // The missed write-sets were kept throughout, and the other nodes get their turn.
        let stderr = running.ends_within(3 * LONG, 0);
        assert!(stderr.contains("cannot be seen just now"), "{stderr}");
        // The node that the application writes to comes last.
        let order = stderr.lines().find(|line| line.starts_with("Order: "));
        let last = order.and_then(|order| order.rsplit(", ").next());
        assert_eq!(last, Some(place.name(0)), "{stderr}");
        // Once for all nodes. All servers were started again, so nothing but every row will do.
        let page = fs::read_to_string(&page).expect("a result");
        assert!(page.ends_with(&place.comparison("")), "{page}");
        assert_eq!(page.matches("compare").count(), 1, "{page}");
        place.all_are_in_step();
    });
    assert_eq!(place.kept(), before);
}

// Hazard of clusters: A donor that is killed while it sends, a joiner without room: reported, and
//   the next copy is whole; the script of an earlier copy that waits for ever
#[test]
fn a_copy_that_fails_is_reported_and_the_next_one_is_whole() {
    let place = Place::new(false);
    // Large enough to catch a copy at work, and more than any node keeps for those that miss it.
    place.ask(
        0,
        "CREATE TABLE app.large (id INT PRIMARY KEY, v LONGBLOB) ENGINE=InnoDB",
    );
    let before = place.kept();
    place.beside_an_application(|_| {
        a_joiner_has_no_room(&place);
        a_donor_is_killed(&place);
    });
    assert_eq!(place.kept(), before);
}

impl Place {
    /// Writes more than any node keeps while the third node is down.
    fn third_misses_too_much(&self) {
        self.node(2).stop().expect("it stops");
        for _ in 0..4 {
            self.ask(
                0,
                "USE app; SET @n = (SELECT COUNT(*) FROM app.large); INSERT INTO app.large SELECT seq + @n, REPEAT(MD5(RAND()), 31250) FROM seq_1_to_20",
            );
        }
    }

    #[track_caller]
    fn third_comes(&self, more: &[&str]) -> Run {
        self.run(&["rejoin", self.name(2), "--allow-sst"], more)
    }
}

/// The joiner's disk is too small for the copy: that is said before anything starts, and shows when
/// a user insists.
fn a_joiner_has_no_room(place: &Place) {
    place.third_misses_too_much();
    let third = place.node(2);
    let grastate = fs::read(third.grastate()).expect("a position");
    let small = SmallDisk::mount_over(&third.datadir(), 100).expect("a small disk");
    fs::write(third.grastate(), grastate).expect("a position");
    let output = place.third_comes(&[]).exits(3).stderr;
    assert!(
        output.contains("FAILS     ") && output.contains("there is too little space for a copy of"),
        "{output}"
    );
    assert!(third.pid().expect("a node").is_none(), "it was started");
    let output = place.third_comes(&["--ignore-advice"]).exits(1).stderr;
    assert!(
        output.contains("is not back: it has ended while it started"),
        "{output}"
    );
    drop(small);
    let output = place.third_comes(&[]).exits(0).stdout;
    assert!(output.contains("is back by a FULL COPY (SST)"), "{output}");
}

/// The donor dies during a copy: both nodes come back, one after the other.
fn a_donor_is_killed(place: &Place) {
    place.third_misses_too_much();
    let running = Running::start(place.cluster(&["rejoin", place.name(2), "--allow-sst"], &[]));
    let donor = 1;
    let script = || {
        let file = place.node(donor).datadir().join("wsrep_sst.pid");
        let text = fs::read_to_string(file).unwrap_or_default();
        text.trim().parse::<u32>().ok().map(|pid| pid.to_string())
    };
    wait_until("the one that applications do not write to gives", || {
        let asked = "SHOW STATUS LIKE 'wsrep_local_state_comment'";
        let status = place.node(donor).query(asked).unwrap_or_default();
        status.contains("Donor") && script().is_some()
    });
    let script = script().expect("the process of a script");
    // The SST script may wait for its server forever. Stop it, so that it surely does.
    signal("-STOP", &script);
    let _ = place.node(donor).kill();
    let stderr = running.ends(1);
    assert!(
        stderr.contains("is not back: it has ended while it started"),
        "{stderr}"
    );
    // A new start of the donor would wait for the script in vain.
    let name = place.name(donor);
    place.run(&["rejoin", name], &[]).exits(3).says(&format!(
        "{name} would not come back: {name}: an earlier copy still runs (process {script}, "
    ));
    signal("-KILL", &script);
    // Galera occasionally starts an IST beyond what a killed node expects. The node gives up, and
    // the next IST works.
    let first = place.run(&["rejoin", name], &[]);
    if first.code != 0 {
        let first = first.exits(1).says("node restart required");
        first
            .says("its server was ended")
            .says("hint: The same command starts it again.");
        place.run(&["rejoin", name], &[]).exits(0);
    }
    place.third_comes(&[]).exits(0);
}
