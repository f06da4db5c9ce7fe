//! State transfers of a Galera cluster by the program: nodes that join, and all that goes wrong.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_host::GraState;
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, NodeStart, ServerKind};
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::random::Rng;
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::support::{Run, command, sandbox_in, state_folder};

/// How long anything here may take.
const LONG: Duration = Duration::from_secs(120);
/// What a server logs that gives up, and how long it may then take to end.
const ABORTS: &str = "ReplicatorSMM::abort()";
const PATIENCE: Duration = Duration::from_secs(5);
/// Enough to be on its way for a while at the lowest rate, in bytes.
const MANY: u64 = 24 << 20;

const ROWS: &str = "CREATE DATABASE shop; USE shop;
    CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(100)) ENGINE=InnoDB;
    INSERT INTO t (text) SELECT MD5(seq) FROM seq_1_to_20000;
    CREATE TABLE random (id INT PRIMARY KEY AUTO_INCREMENT, r VARBINARY(2000)) ENGINE=InnoDB;";

const ACCOUNT: &str = "CREATE USER copies@localhost IDENTIFIED BY 'its-password';
    GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR ON *.* TO copies@localhost";

/// A cluster whose nodes can copy by the program.
struct Place {
    cluster: EphemeralCluster,
    state: tempfile::TempDir,
}

impl Place {
    /// Its first copies are made by rsync, which is the fastest for empty nodes.
    fn new(kind: ServerKind) -> Self {
        let state = state_folder();
        // The first node serves although the two others are gone.
        let mut options = GaleraOptions::new(kind, 3)
            .provider_option("gcache.size", "8M")
            .node_provider_option(1, "pc.weight", "4");
        // Earlier versions of the other series do not know where the log goes on.
        let has_logs = kind == ServerKind::MariaDb1011;
        for number in (1..=3).filter(|_| has_logs) {
            let folder = state.path().join(format!("logs-{number}"));
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
            options = options.node_option(number, "log_bin", folder.join("bin").to_string_lossy());
        }
        let sandbox = sandbox_in(state.path());
        let cluster = sandbox.start_cluster_ephemeral(&options);
        let place = Self {
            cluster: cluster.expect("a cluster starts"),
            state,
        };
        servers::client(place.node(0), &[], ROWS.as_bytes()).unwrap();
        if kind == ServerKind::MariaDb1011 {
            // Later servers make an account of their own.
            servers::client(place.node(0), &[], ACCOUNT.as_bytes()).unwrap();
            let auth = "wsrep_sst_auth = 'copies:its-password'";
            for node in place.cluster.nodes() {
                node.query(&format!("SET GLOBAL {auth}")).unwrap();
            }
            place.configure(&[0, 1, 2], &format!("[mysqld]\n{auth}"));
        }
        place.install();
        place
    }

    fn node(&self, at: usize) -> &GaleraNode {
        &self.cluster.nodes()[at]
    }

    /// The program lies where the servers' account can run it.
    fn install(&self) {
        let program = self.state.path().join("refloat");
        fs::copy(env!("CARGO_BIN_EXE_refloat"), &program).unwrap();
        let folder = self.node(0).programs();
        let mut install = Command::new(&program);
        install.env_clear().env("PATH", "/usr/bin:/bin");
        install
            .args(["cluster", "install-sst", "--dir"])
            .arg(folder);
        let closed = Permissions::from_mode(0o700);
        fs::set_permissions(&program, closed).unwrap();
        Run::of(&mut install).says("only by some accounts").exits(3);
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let run = Run::of(&mut install).exits(0);
        assert!(
            run.stdout.contains("wsrep_sst_method = refloat"),
            "{}",
            run.stdout
        );
        Run::of(&mut install).exits(0);
        // Beside the scripts of Percona's servers.
        let theirs = self.state.path().join("percona");
        fs::create_dir_all(theirs.join("pxc_extra")).unwrap();
        let mut install = Command::new(&program);
        install
            .args(["cluster", "install-sst", "--dir"])
            .arg(&theirs);
        let run = Run::of(&mut install).exits(0);
        let line = "wsrep_sst_allowed_methods = refloat,xtrabackup-v2";
        assert!(run.stdout.contains(line), "{}", run.stdout);
    }

    /// Adds lines to the option files of these nodes.
    fn configure(&self, nodes: &[usize], lines: &str) {
        for at in nodes {
            let file = OpenOptions::new()
                .append(true)
                .open(self.node(*at).config());
            writeln!(file.unwrap(), "\n{lines}").unwrap();
        }
    }

    /// Starts a node that asks another one for a copy by the program.
    fn begin(&self, at: usize, donor: usize) -> Logs<'_> {
        let logs = Logs::new(self, at, donor);
        let mut start = NodeStart::join()
            .argument("wsrep_sst_method", "refloat")
            .argument("wsrep_sst_donor", self.node(donor).name());
        // As the servers' systemd units do. The sandbox does so after a crash.
        if let Some(state) = self.node(at).state().filter(GraState::is_known) {
            let position = format!("{}:{}", state.uuid, state.seqno.unwrap());
            start = start.argument("wsrep_start_position", position);
        }
        self.node(at).begin(&start).expect("its process starts");
        logs
    }

    /// Starts a node, which joins.
    fn joins(&self, at: usize, donor: usize) -> Logs<'_> {
        let logs = self.begin(at, donor);
        if let Err(error) = self.node(at).wait_ready(LONG) {
            panic!("{error}\n{}", logs.donor());
        }
        let rows = |at: usize| {
            let sql = "SELECT COUNT(*), BIT_XOR(CRC32(text)) FROM shop.t";
            self.node(at).query(sql).unwrap_or_default()
        };
        wait_until("the same rows", || {
            rows(at) == rows(0) && !rows(0).is_empty()
        });
        logs
    }

    /// Writes until nodes that are away cannot come by IST.
    fn write_much(&self) {
        // Larger write-sets would not go through the ring buffer.
        let one = "INSERT INTO shop.random (r) SELECT RANDOM_BYTES(1000) FROM shop.seq_1_to_2000;";
        servers::client(self.node(0), &[], one.repeat(12).as_bytes()).unwrap();
    }

    /// Waits until a copy into a node is on its way.
    fn copies(&self, at: usize) {
        wait_until("a copy on its way", || {
            let text = fs::read_to_string(self.node(at).datadir().join(".refloat-sst"));
            let text = text.unwrap_or_default();
            let bytes = text.lines().find_map(|line| line.strip_prefix("bytes "));
            bytes.is_some_and(|bytes| (2 << 20..MANY).contains(&bytes.parse().unwrap()))
        });
    }

    /// Waits until processes at one end of a copy have begun.
    fn works_on_a_copy(&self, at: usize) {
        wait_until("somebody works on a copy", || {
            !self.node(at).helpers().is_empty()
        });
    }

    /// Waits until a donor has ended its part, and keeps pace again.
    #[track_caller]
    fn is_in_step(&self, at: usize) {
        let (node, begun) = (self.node(at), Instant::now());
        let state = || node.query("SHOW STATUS LIKE 'wsrep_local_state_comment'");
        while !state().is_ok_and(|state| state.contains("Synced")) || !node.helpers().is_empty() {
            let found = (state(), node.helpers());
            assert!(begun.elapsed() < LONG, "{found:?}: {}", log(node));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// How many old binary logs of a node are kept beside its own. Its own is whole, and so are
    /// they.
    #[track_caller]
    fn logs_kept(&self, at: usize) -> usize {
        let folder = self.state.path().join(format!("logs-{}", at + 1));
        let files = |index: &Path| {
            let files = fs::read_to_string(index)
                .unwrap_or_else(|error| panic!("{}: {error}", index.display()));
            let files = files
                .lines()
                .map(|line| PathBuf::from(line).file_name().unwrap().to_owned());
            let files: Vec<PathBuf> = files.map(|name| index.with_file_name(name)).collect();
            assert!(
                !files.is_empty() && files.iter().all(|file| file.exists()),
                "{files:?}"
            );
        };
        files(&folder.join("bin.index"));
        let sql = "SHOW BINARY LOGS";
        assert!(self.node(at).query(sql).unwrap().contains("bin."), "{at}");
        let kept = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let kept = kept
            .filter(|path| path.is_dir())
            .map(|path| files(&path.join("bin.index")));
        kept.count()
    }

    /// What refloat has left in a data directory.
    fn left(&self, at: usize) -> Vec<PathBuf> {
        let listing = fs::read_dir(self.node(at).datadir()).unwrap();
        let names = listing.map(|entry| entry.unwrap().path());
        let is_ours = |path: &PathBuf| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name.starts_with(".refloat-")
        };
        names.filter(is_ours).collect()
    }
}

/// What both ends have logged since the start of a transfer.
struct Logs<'p> {
    nodes: [&'p GaleraNode; 2],
    begins: [usize; 2],
}

impl<'p> Logs<'p> {
    fn new(place: &'p Place, joiner: usize, donor: usize) -> Self {
        let nodes = [place.node(joiner), place.node(donor)];
        let begins = nodes.map(|node| log(node).len());
        Self { nodes, begins }
    }

    fn joiner(&self) -> String {
        log(self.nodes[0]).split_off(self.begins[0])
    }

    fn donor(&self) -> String {
        log(self.nodes[1]).split_off(self.begins[1])
    }

    /// Waits until the joiner has ended, and returns whether it has joined: then it is stopped.
    #[track_caller]
    fn end(&self) -> bool {
        let joiner = self.nodes[0];
        let is_ready = || {
            let ready = joiner.query("SHOW STATUS LIKE 'wsrep_ready'");
            ready.is_ok_and(|ready| ready.contains("ON"))
        };
        wait_until("the end of its helpers", || {
            joiner.helpers().is_empty()
                && (joiner.pid().unwrap().is_none() || self.joiner().contains(ABORTS) || is_ready())
        });
        let has_joined = is_ready();
        if has_joined {
            joiner.stop().unwrap();
        }
        // Two threads of the server may give up at the same moment, and then wait for each other
        // for ever: one because its script has failed, one because the donor says so.
        let begun = Instant::now();
        while joiner.pid().unwrap().is_some() {
            if begun.elapsed() > PATIENCE {
                let _ = joiner.kill();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        has_joined
    }

    /// Both ends fail and say why, and nothing of the joiner is left running.
    #[track_caller]
    fn fail(&self, at_joiner: &str, at_donor: &str) {
        self.end();
        let found = self.joiner();
        assert!(
            found.contains(at_joiner),
            "not {at_joiner:?} at the joiner: {found}"
        );
        wait_until("the donor's words", || self.donor().contains(at_donor));
    }
}

fn log(node: &GaleraNode) -> String {
    fs::read_to_string(node.error_log()).unwrap_or_default()
}

fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
}

/// A node joins empty, by write-sets, with old data that are known, and with others.
fn joins(place: &Place) {
    let node = place.node(2);
    let has_logs = place.state.path().join("logs-3").exists();
    // Each copy begins a new log, and keeps the old one, which lies outside of the data.
    let keeps = |copies: usize| {
        assert!(!has_logs || place.logs_kept(2) == copies, "{copies}");
    };
    node.stop().unwrap();
    clear(&node.datadir());
    let logs = place.joins(2, 1);
    keeps(1);
    assert!(
        logs.joiner().contains("Proceeding with SST"),
        "{}",
        logs.joiner()
    );
    // The donor's command line is in its log.
    let log = logs.donor();
    assert!(
        log.contains("/refloat/1'") && !log.contains("refloat:"),
        "{log}"
    );
    assert!(!log.contains("its-password"), "{log}");
    assert_eq!(place.left(2), Vec::<PathBuf>::new());
    assert_eq!(place.left(1), Vec::<PathBuf>::new());

    node.stop().unwrap();
    place
        .node(0)
        .query("INSERT INTO shop.t (text) VALUES ('new')")
        .unwrap();
    let logs = place.joins(2, 1);
    keeps(1);
    assert!(
        logs.joiner().contains("no copy is needed"),
        "{}",
        logs.joiner()
    );

    node.stop().unwrap();
    place.write_much();
    let logs = place.joins(2, 1);
    let sent = logs.donor();
    let sent = sent
        .lines()
        .find(|line| line.contains("of which the joiner had"));
    let had = |line: &str| {
        line.split("the joiner had ")
            .nth(1)?
            .split(' ')
            .next()?
            .parse()
            .ok()
    };
    let had: f64 = sent
        .and_then(had)
        .unwrap_or_else(|| panic!("{}", logs.joiner()));
    // How many pages stay as they were depends on when the servers write them.
    assert!(had > 2.0, "{sent:?}");
    keeps(2);
    assert_eq!(place.left(2), Vec::<PathBuf>::new());

    // Nobody knows whether the cluster holds these.
    node.stop().unwrap();
    fs::remove_file(node.grastate()).unwrap();
    let logs = place.joins(2, 1);
    assert!(
        logs.joiner().contains("the old data may hold"),
        "{}",
        logs.joiner()
    );
    let kept = place.left(2);
    assert!(
        kept.len() == 1 && kept[0].join("ibdata1").exists(),
        "{kept:?}"
    );
    fs::remove_dir_all(&kept[0]).unwrap();
    keeps(3);
}

// Hazard of clusters: a full copy in which the donor dies, the joiner dies, connections are lost,
//   the disk is full or becomes full: both ends say why, the old data stay, the next start joins
#[test]
fn nodes_join_by_the_program_whatever_goes_wrong() {
    let place = Place::new(ServerKind::MariaDb1011);
    joins(&place);
    place.configure(&[0, 1, 2], "[sst]\nrlimit=8M");
    let node = place.node(2);

    node.stop().unwrap();
    place.write_much();
    let old = fs::metadata(node.datadir().join("ibdata1"))
        .unwrap()
        .modified()
        .unwrap();
    let logs = place.begin(2, 1);
    place.copies(2);
    place.node(1).kill().unwrap();
    // It may be the tool that notices first.
    logs.fail("the other end has failed", "WSREP_SST: [ERROR]");
    let now = fs::metadata(node.datadir().join("ibdata1"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(old, now);
    place.node(1).start().unwrap();

    let logs = place.begin(2, 1);
    place.copies(2);
    node.kill().unwrap();
    logs.fail(
        "has ended",
        "the server that asked for the transfer has ended",
    );
    place.is_in_step(1);

    let logs = place.begin(2, 1);
    place.copies(2);
    nobody_sees_the_password(&place, &[1, 2]);
    let mut status = command(place.state.path());
    status.args(["cluster", "status", "--sample", "0.1", "--cluster"]);
    let shown = Run::of(status.arg(place.cluster.toml())).exits(0).stdout;
    assert!(shown.contains("receives a copy ("), "{shown}");
    let address = node.sst_address();
    let port = address.rsplit(':').next().unwrap();
    let cut = Command::new("ss")
        .args(["-K", "dport", &format!("= :{port}")])
        .output()
        .unwrap();
    let cut = String::from_utf8_lossy(&cut.stdout).lines().count();
    assert!(cut > 1, "no connection was cut");
    node.wait_ready(LONG).unwrap();
    // The limit is 8 MiB/s, and what was not used of a second may be made up for.
    for rate in [
        rate_of(&logs.joiner(), "received "),
        rate_of(&logs.donor(), "read "),
    ] {
        assert!(rate < 24.0, "{rate} MiB/s");
    }

    the_disk_is_full(&place);
    place.configure(&[0, 1, 2], "[sst]\nrlimit=1G");
    place.joins(2, 1);
}

/// The joiner's disk is too small for a copy, or becomes so meanwhile.
fn the_disk_is_full(place: &Place) {
    let node = place.node(2);
    node.stop().unwrap();
    let disk = SmallDisk::mount_over(&node.datadir(), 20).unwrap();
    let logs = place.begin(2, 1);
    // Nothing was copied, and nothing is left.
    logs.fail("make room", "bytes are free in");
    assert_eq!(place.left(2), Vec::<PathBuf>::new());
    disk.grow(1024);
    let logs = place.begin(2, 1);
    place.copies(2);
    disk.leave(1);
    let full = "No space left on device";
    logs.fail(full, full);
    place.is_in_step(1);
}

/// A process of a copy is killed, at either end and at another moment each time: the next start
/// joins, whatever became of this one. `REFLOAT_SST_KILLS` sets how often.
// Hazard of clusters: kill -9 of processes of a full copy, at either end (the slow tests)
#[test]
#[ignore = "minutes of full copies"]
fn whoever_is_killed_during_a_copy_the_next_one_joins() {
    let kills = std::env::var("REFLOAT_SST_KILLS").ok();
    let kills: u64 = kills.map_or(20, |kills| kills.parse().expect("a number"));
    let place = Place::new(ServerKind::MariaDb1011);
    place.configure(&[0, 1, 2], "[sst]\nrlimit=8M");
    let mut rng = moments();
    let killed = (0..kills).filter(|_| a_copy_is_killed(&place, &mut rng));
    let killed = killed.count() as u64;
    assert!(killed >= kills / 2, "only {killed} of {kills} were killed");
}

/// Random moments and processes, the same for the same `REFLOAT_KILL_SEED`.
fn moments() -> Rng {
    let seed = std::env::var("REFLOAT_KILL_SEED").ok();
    let seed = seed.map_or(u64::from(std::process::id()), |seed| {
        seed.parse().expect("a number")
    });
    eprintln!("REFLOAT_KILL_SEED={seed}");
    Rng::new(seed)
}

/// Kills one of the processes of a copy, and has the joiner join all the same. Returns whether one
/// was there.
fn a_copy_is_killed(place: &Place, rng: &mut Rng) -> bool {
    let node = place.node(2);
    node.stop().unwrap();
    // So that copies do not become longer and longer.
    place.node(0).query("TRUNCATE TABLE shop.random").unwrap();
    place.write_much();
    let logs = place.begin(2, 1);
    place.works_on_a_copy(1);
    std::thread::sleep(Duration::from_millis(rng.below(4000) as u64));
    let is_killed = one_is_killed(place, &[2, 1], rng);
    logs.end();
    place.is_in_step(1);
    place.joins(2, 1);
    assert_eq!(place.left(1), Vec::<PathBuf>::new());
    is_killed
}

/// Kills one of the processes that work on a copy at these ends. Returns whether there was one.
fn one_is_killed(place: &Place, ends: &[usize], rng: &mut Rng) -> bool {
    loop {
        let helpers = ends.iter().flat_map(|at| place.node(*at).helpers());
        let helpers: Vec<u32> = helpers.collect();
        if helpers.is_empty() {
            return false;
        }
        let victim = rng.pick(&helpers).to_string();
        let kill = Command::new("kill").args(["-9", &victim]).status();
        // That one may just have ended by itself.
        if kill.unwrap().success() {
            return true;
        }
    }
}

/// Whoever lists the processes of the machine sees neither the password of the copies' account nor
/// the secret of the transfer.
// Hazard of clusters: S-01 passwords in the process list during a full copy
fn nobody_sees_the_password(place: &Place, nodes: &[usize]) {
    for at in nodes {
        let words = place.node(*at).helpers().into_iter().filter_map(|pid| {
            // It may have ended.
            let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some(String::from_utf8_lossy(&words).replace('\0', " "))
        });
        let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
        assert!(!words.is_empty(), "nothing of node {at} runs");
        for words in words {
            let is_said = words.contains("its-password") || words.contains("refloat:");
            assert!(!is_said, "{words}");
        }
    }
}

/// The rate in the last progress line of a log, in MiB/s.
fn rate_of(log: &str, done: &str) -> f64 {
    let mut lines = log.lines().filter(|line| line.contains("[INFO]"));
    let line = lines
        .rfind(|line| line.contains(done) && line.contains(" of about "))
        .unwrap_or_else(|| panic!("no line says {done:?}: {log}"));
    let rate = line.rsplit(", ").next().unwrap_or_default();
    let (number, unit) = rate.split_once(' ').unwrap_or_default();
    let number: f64 = number.parse().unwrap_or_else(|_| panic!("{line}"));
    match unit.trim() {
        "GiB/s" => number * 1024.0,
        "MiB/s" => number,
        _ => number / 1024.0,
    }
}

#[test]
fn nodes_of_a_later_server_join_by_the_program() {
    let place = Place::new(ServerKind::MariaDb118);
    joins(&place);
    only_certificates_of_the_cluster_will_do(&place);
}

/// Nodes prove themselves by certificates; one of another authority gets nothing.
fn only_certificates_of_the_cluster_will_do(place: &Place) {
    let folder = place.state.path();
    for authority in ["ours", "theirs"] {
        certificates(&folder.join(authority));
    }
    let lines = |authority: &str| {
        let at = |name: &str| folder.join(authority).join(name).display().to_string();
        format!(
            "[sst]\nssl-ca={}\nssl-cert={}\nssl-key={}",
            at("ca.pem"),
            at("node.pem"),
            at("node-key.pem")
        )
    };
    place.configure(&[0, 1, 2], &lines("ours"));
    let node = place.node(2);
    node.stop().unwrap();
    let logs = place.joins(2, 1);
    let log = logs.joiner();
    assert!(log.contains("with a certificate of the cluster"), "{log}");

    node.stop().unwrap();
    place.configure(&[1], "[sst]\nssl-ca=\nssl-cert=\nssl-key=");
    let lacking = "but the donor has none";
    place.begin(2, 1).fail(lacking, lacking);
    place.configure(&[1], &lines("ours"));
    place.configure(&[2], &lines("theirs"));
    let refused = "certificate of the other end is not accepted";
    place
        .begin(2, 1)
        .fail("a connection was turned away", refused);
}

/// Creates an authority and a certificate of it.
fn certificates(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for arguments in [
        "req -x509 -newkey rsa:2048 -nodes -days 10 -subj /CN=A -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=node -keyout node-key.pem -out request.pem",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -set_serial 2 -days 10 -out node.pem",
    ] {
        let mut openssl = Command::new("openssl");
        let output = openssl
            .args(arguments.split(' '))
            .current_dir(folder)
            .output();
        assert!(
            output.expect("openssl is needed").status.success(),
            "{arguments}"
        );
    }
    // The servers run as another user.
    let key = folder.join("node-key.pem");
    fs::set_permissions(key, Permissions::from_mode(0o644)).unwrap();
}
