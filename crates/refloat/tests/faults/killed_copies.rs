//! Kills at random moments of each process that takes part in a backup, a restore or a rebuild:
//! the program, the tool, the shell that it runs in, ssh, the program at the donor's end, and the
//! server that replays logs and what reads them.
//!
//! After each of them there is all of a result or nothing of it, the old data are intact, nothing
//! goes on running, and the same command, given again, completes. `REFLOAT_COPY_KILLS` sets the
//! number of kills, `REFLOAT_KILL_SEED` the seed of their moments.

// Hazard of files: kill -9 of each process of a backup, restore (with binary logs, too) and rebuild
//   of files at random (54 kills, 1,080 in the slow tests), sessions that send files, and the donor
//   itself: all or nothing, old data intact, the same command completes

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_sandbox::{Ephemeral, Instance, ServerKind};
use refloat_testkit::servers;
use refloat_testkit::ssh::SshServer;
use refloat_testkit::wait_until;

use crate::seeded::{Dice, number};
use crate::support::{Desk, Run, Running, ask, finish};

/// Upper limit for one command.
const LONG: Duration = Duration::from_secs(120);
/// Kills of one command, at most, before it may end.
const KILLS_EACH: u64 = 4;
/// All kills, unless another number is set.
pub const USUAL: u64 = 50;
/// Of all kills, those of copies of a `MySQL` server.
const CLONES: u64 = 12;
/// Besides, those of restores that replay logs: each takes seconds.
const REPLAYS: u64 = 4;
/// What a complaint of the program begins with.
const ERROR: &str = "refloat: error: ";
/// The file by which a folder is known that a restore has put in place.
const STATE: &str = ".refloat-restore.json";

/// Names of files below a folder, with what is in them.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

fn tree(folder: &Path) -> Tree {
    let mut all = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with(STATE) {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                all.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    all
}

/// A data directory.
struct Target {
    above: PathBuf,
    data: PathBuf,
    old: Tree,
}

impl Target {
    /// One with old data.
    fn new(desk: &Desk) -> Self {
        let above = desk.path("above");
        let data = above.join("data");
        let mut target = Self {
            above,
            data,
            old: Tree::new(),
        };
        target.begin_anew();
        target.old = tree(&target.data);
        target
    }

    fn begin_anew(&self) {
        let _ = fs::remove_dir_all(&self.above);
        fs::create_dir_all(self.data.join("shop")).unwrap();
        for name in ["ibdata1", "ib_logfile0", "shop/old.ibd"] {
            fs::write(self.data.join(name), format!("old {name}")).unwrap();
        }
    }

    /// Whether it holds new data. The old ones are intact, wherever they are.
    fn is_new(&self, story: &str) -> bool {
        let mut places = Vec::new();
        for entry in fs::read_dir(&self.above).unwrap() {
            let path = entry.unwrap().path();
            if path.join("shop/old.ibd").exists() {
                places.push(path);
            }
        }
        assert_eq!(places.len(), 1, "{story}: the old data are in {places:?}");
        assert!(tree(&places[0]) == self.old, "{story}: old data changed");
        places[0] != self.data
    }
}

/// Processes, by their id and the time of their start, with that of their parent.
fn processes() -> BTreeMap<u32, (u32, u64)> {
    let stat = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name of the program may hold anything.
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        let is_there = fields.next()? != "Z";
        let parent = fields.next()?.parse().ok()?;
        let begun = fields.nth(17)?.parse().ok()?;
        is_there.then_some((pid, (parent, begun)))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(stat).collect()
}

/// The processes that these have started, and they themselves.
fn family(roots: &[u32]) -> Vec<(u32, u64)> {
    let all = processes();
    let belongs = |mut pid: u32| {
        loop {
            if roots.contains(&pid) {
                return true;
            }
            match all.get(&pid) {
                Some((parent, _)) if *parent > 1 => pid = *parent,
                _ => return false,
            }
        }
    };
    let members = all.iter().filter(|(pid, _)| belongs(**pid));
    members.map(|(pid, (_, begun))| (*pid, *begun)).collect()
}

/// What runs at the donor's end of an ssh connection.
fn far(ssh: Option<&SshServer>) -> Vec<u32> {
    let sessions = ssh.map(SshServer::sessions).unwrap_or_default();
    sessions
        .iter()
        .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
        .collect()
}

/// Something that is begun, killed, and begun again.
struct Campaign<'a> {
    /// What is done.
    name: &'static str,
    command: &'a dyn Fn() -> Command,
    stage: &'a Stage,
    /// A server that sends its files itself: one of its sessions may be killed.
    donor: Option<&'a Instance>,
    /// How long it takes undisturbed, at least.
    whole: &'a Cell<Duration>,
    /// Looks at what is there after a kill. Whether that is all of it.
    look: &'a dyn Fn(&str) -> bool,
}

impl Campaign<'_> {
    /// Lets it run, and kills one of its processes. `None`: it had ended before.
    fn strike(&self, dice: &mut Dice, story: &mut String) -> (Run, bool) {
        let mut running = Running::start((self.command)());
        let begun = Instant::now();
        let moment = (self.whole.get()).mul_f64(dice.below(1000) as f64 / 1000.0);
        while begun.elapsed() < moment && !running.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if running.has_ended() {
            self.whole.set(self.whole.get().min(begun.elapsed()));
            return (running.ends_within(LONG), false);
        }
        let mut roots = far(self.stage.ssh.as_ref());
        roots.push(running.pid());
        let mut all = family(&roots);
        if all.is_empty() {
            return (running.ends_within(LONG), false);
        }
        let (victim, _) = all[dice.below(all.len() as u64) as usize];
        let of = |name: &str| fs::read_to_string(format!("/proc/{victim}/{name}"));
        let name = of("comm").unwrap_or_default();
        let _ = write!(story, "; {} after {moment:?}", name.trim());
        let sessions = self.donor.map(sessions).unwrap_or_default();
        match sessions.get(dice.below(2 * sessions.len() as u64) as usize) {
            Some(session) => {
                let _ = write!(story, " (its session {session})");
                let _ = self
                    .donor
                    .map(|donor| donor.query(&format!("KILL {session}")));
            }
            None => kill(victim),
        }
        let run = running.ends_within(LONG);
        all.extend(family(&far(self.stage.ssh.as_ref())));
        wait_until(&format!("{story}: nothing of it runs"), || {
            let now = processes();
            let is_of_it = |(pid, (_, begun)): (&u32, &(u32, u64))| {
                // It may have started more in the moment of its end.
                let inherited = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                let state = self.stage.desk.state();
                let state = state.as_os_str().as_encoded_bytes();
                let mut words = inherited.split(|byte| *byte == 0);
                all.contains(&(*pid, *begun)) || words.any(|word| word.ends_with(state))
            };
            !now.iter().any(is_of_it)
        });
        (run, true)
    }

    /// Kills it several times, and lets it end. Returns the number of kills.
    fn run(&self, left: u64, dice: &mut Dice, story: &mut String) -> u64 {
        let wanted = left.min(1 + dice.below(KILLS_EACH));
        let _ = write!(story, "\n{}", self.name);
        let (mut kills, mut is_whole) = (0, false);
        let begun = Instant::now();
        while kills < wanted && !is_whole {
            let (run, was_hit) = self.strike(dice, story);
            let error = run.stderr.lines().find(|line| line.starts_with(ERROR));
            let _ = write!(story, " -> {:?} {}", run.code, error.unwrap_or_default());
            if self.must_wait(&run, begun) {
                continue;
            }
            kills += u64::from(was_hit);
            is_whole = (self.look)(story);
            match run.code {
                Some(0) => assert!(is_whole, "{story}: {run:?}"),
                Some(code) => {
                    assert!(was_hit && code != 101, "{story}: {run:?}");
                    assert!(error.is_some(), "{story}: {run:?}");
                }
                None => {}
            }
            assert!(!run.stderr.contains("panicked"), "{story}: {run:?}");
        }
        // What is there already need not be made again.
        while !is_whole {
            let run = Running::start((self.command)()).ends_within(LONG);
            if self.must_wait(&run, begun) {
                continue;
            }
            let run = run.exits(0);
            is_whole = (self.look)(story);
            assert!(is_whole, "{story}: {run:?}");
        }
        kills
    }

    /// Whether the donor has not noticed yet that nobody takes its files any more.
    fn must_wait(&self, run: &Run, begun: Instant) -> bool {
        let is_busy = self.donor.is_some()
            && run.code == Some(3)
            && run.stderr.contains("another copy of the server's files");
        if is_busy {
            assert!(begun.elapsed() < LONG, "it does not notice: {run:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
        is_busy
    }
}

/// The connections through which a `MySQL` server sends its files.
fn sessions(donor: &Instance) -> Vec<String> {
    let all = "SELECT ID FROM performance_schema.processlist WHERE COMMAND = 'clone'";
    ask(donor, all).lines().map(str::to_owned).collect()
}

fn kill(pid: u32) {
    let mut command = Command::new("kill");
    // It may have ended by itself.
    let _ = command.args(["-KILL", &pid.to_string()]).output();
}

/// Where backups go, and what opens it.
#[derive(Clone)]
struct Repo {
    url: String,
    /// The file with its key, if it is encrypted.
    key: Option<PathBuf>,
}

impl Repo {
    fn args(&self) -> Vec<&str> {
        let key = self
            .key
            .iter()
            .flat_map(|key| ["--key-file", key.to_str().unwrap()]);
        ["--repo", &self.url].into_iter().chain(key).collect()
    }
}

/// A donor, a repository and a data directory.
struct Stage {
    desk: Desk,
    dice: Dice,
    story: String,
    repo: Repo,
    target: Target,
    /// By which the donor's machine is reached.
    ssh: Option<SshServer>,
}

impl Stage {
    fn new(name: &str) -> Self {
        let seed = number("REFLOAT_KILL_SEED", u64::from(std::process::id())).max(1);
        eprintln!("{name}: REFLOAT_KILL_SEED={seed}");
        let desk = Desk::new();
        Self {
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            story: format!("seed {seed}"),
            repo: Repo {
                url: desk.path("repo").display().to_string(),
                key: None,
            },
            target: Target::new(&desk),
            ssh: None,
            desk,
        }
    }

    /// The program, with an ssh that reaches the donor's machine.
    fn refloat(&self, args: &[&str]) -> Command {
        let mut command = self.desk.refloat(args);
        if let Some(ssh) = &self.ssh {
            command.env(
                "PATH",
                format!("{}:/usr/sbin:/usr/bin:/bin", ssh.bin().display()),
            );
        }
        command
    }

    fn backups(&self, repo: &Repo, args: &[&str]) -> Run {
        finish(self.refloat(&[&["backups"], args, &repo.args()].concat()))
    }

    fn labels(&self, repo: &Repo) -> Vec<String> {
        let listed = self.backups(repo, &["list", "--json"]).exits(0).json();
        let all = listed.as_array().unwrap().iter();
        all.map(|one| one["label"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Whether there is a backup of this label, which is whole then.
    fn is_backed_up(&self, repo: &Repo, label: &str) -> bool {
        let is_there = self.labels(repo).iter().any(|one| one == label);
        if is_there {
            self.backups(repo, &["verify", label]).exits(0);
        }
        is_there
    }

    fn backup(&self, url: &str, repo: &Repo, label: &str) -> Command {
        let args = ["backup", "--no-defaults", "--no-progress", "--from", url];
        self.refloat(&[&args[..], &repo.args(), &["--label", label]].concat())
    }

    fn restore(&self, label: &str, to: &Path) -> Command {
        let to = ["--to", to.to_str().unwrap()];
        let more = ["--replace", "--no-progress"];
        self.refloat(&[&["restore", label], &self.repo.args()[..], &to, &more].concat())
    }

    /// Whether the data directory holds what a restore brings, or what was there before.
    fn is_restored(&self, new: &Tree, story: &str) -> bool {
        let is_new = self.target.is_new(story);
        let is_right = || tree(&self.target.data) == *new;
        assert!(!is_new || is_right(), "{story}: something else is there");
        is_new
    }

    /// The last backup, and all that the logs have behind it.
    fn replay(&self) -> Command {
        let mut command = self.restore("latest", &self.target.data);
        command.args(["--until", "latest"]);
        command
    }

    /// Whether the data directory holds what such a restore brings: then a server works with a copy
    /// of it, and gives these `rows`. That server has ended before, and has afterwards.
    fn is_replayed(&self, server: &mut Ephemeral, rows: &str, story: &str) -> bool {
        let is_new = self.target.is_new(story);
        if is_new {
            let copy = server.datadir();
            fs::remove_dir_all(&copy).unwrap();
            let mut cp = Command::new("cp");
            let copied = cp.arg("-a").args([&self.target.data, &copy]).status();
            assert!(copied.unwrap().success(), "{story}");
            server.restart().unwrap();
            assert_eq!(ask(server, LATER), rows, "{story}");
            server.stop().unwrap();
        }
        is_new
    }

    fn rebuild(&self, url: &str, more: &[&str]) -> Command {
        let to = self.target.data.to_str().unwrap();
        let args = ["rebuild", "--no-defaults", "--no-progress", "--from", url];
        let to = ["--to", to, "--replace"];
        self.refloat(&[&args[..], &to, more].concat())
    }

    /// Runs a command that fills the data directory, and returns what is there then.
    fn filled_by(&self, command: Command) -> (Tree, Cell<Duration>) {
        self.target.begin_anew();
        let begun = Instant::now();
        finish(command).exits(0);
        (tree(&self.target.data), Cell::new(begun.elapsed()))
    }

    /// Whether the data directory holds what a rebuild brings. Where the server is in its own
    /// history differs from copy to copy; tables that nobody writes to do not.
    fn is_rebuilt(&self, new: &Tree, story: &str) -> bool {
        let is_new = self.target.is_new(story);
        if is_new {
            let found = tree(&self.target.data);
            let names = |tree: &Tree| {
                let redo = |name: &Path| name.starts_with("#innodb_redo");
                tree.keys()
                    .filter(|name| !redo(name))
                    .cloned()
                    .collect::<Vec<_>>()
            };
            assert_eq!(names(&found), names(new), "{story}");
            let table = Path::new("shop/t.ibd");
            assert!(found[table] == new[table], "{story}: shop.t is another one");
        }
        is_new
    }
}

/// A donor that is killed in the middle of copies and started again: they end, and nothing of them
/// looks whole.
fn donor_restarts(
    stage: &Stage,
    server: &mut Ephemeral,
    commands: Vec<Command>,
    is_under_way: &dyn Fn(&Instance, u32) -> bool,
) {
    stage.target.begin_anew();
    let all: Vec<Running> = commands.into_iter().map(Running::start).collect();
    for running in &all {
        wait_until("it copies", || is_under_way(server, running.pid()));
    }
    server.kill().unwrap();
    server.restart().unwrap();
    for running in all {
        running.ends_within(LONG).exits(1).says(ERROR);
    }
    assert!(!stage.is_backed_up(&stage.repo, "restarted"));
    assert!(!stage.target.is_new("the donor was killed"));
}

/// Whether a process has started the tool that copies files.
fn has_tool(pid: u32) -> bool {
    family(&[pid]).iter().any(|(pid, _)| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "mariadb-backup")
    })
}

const ROWS: &str = "SELECT COUNT(*), SUM(id), BIT_XOR(CRC32(text)) FROM shop.t";
/// The same of a table that only the logs have.
const LATER: &str = "SELECT COUNT(*), SUM(id), BIT_XOR(CRC32(text)) FROM shop.later";

/// The server goes on behind its last backup, and its logs are archived. Returns what it answers.
fn goes_on(stage: &Stage, server: &Instance) -> String {
    ask(
        server,
        "CREATE TABLE shop.later (id INT PRIMARY KEY, text TEXT); \
         INSERT INTO shop.later SELECT seq, SHA2(seq, 512) FROM shop.seq_1_to_20000; \
         DELETE FROM shop.later WHERE id % 3 = 0; UPDATE shop.later SET text = MD5(text) WHERE id % 2",
    );
    let url = server.socket_url();
    let archive = [
        "binlog",
        "archive",
        "--no-defaults",
        "--once",
        "--from",
        &url,
    ];
    finish(stage.refloat(&[&archive[..], &stage.repo.args()].concat())).exits(0);
    ask(server, LATER)
}

/// Restores that replay logs are killed. What they bring is tried by a server that has ended.
fn replays_are_killed(stage: &mut Stage, server: &mut Ephemeral, rows: &str) {
    let total = number("REFLOAT_COPY_KILLS", USUAL) * REPLAYS / USUAL;
    let (_, whole) = stage.filled_by(stage.replay());
    let server = RefCell::new(server);
    let mut kills = 0;
    while kills < total {
        let (mut dice, mut story) = (Dice(stage.dice.0), stage.story.clone());
        stage.target.begin_anew();
        kills += Campaign {
            name: "restore with logs",
            command: &|| stage.replay(),
            stage,
            donor: None,
            whole: &whole,
            look: &|story| stage.is_replayed(&mut server.borrow_mut(), rows, story),
        }
        .run(total - kills, &mut dice, &mut story);
        (stage.dice, stage.story) = (dice, story);
    }
}

/// A server of MariaDB with a table that is on its disk.
fn with_rows() -> Ephemeral {
    let logging = servers::quick(ServerKind::MariaDb1011).option("log_bin", "binlog");
    let server = servers::start(&logging);
    ask(
        &server,
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, text TEXT) SELECT seq AS id, SHA2(seq, 512) AS text FROM shop.seq_1_to_20000; \
         FLUSH TABLES shop.t FOR EXPORT; UNLOCK TABLES",
    );
    server
}

#[test]
fn killed_copies_of_mariadb_are_whole_or_not_there() {
    let mut stage = Stage::new("MariaDB");
    let mut server = with_rows();
    let rows = ask(&server, ROWS);
    let url = server.socket_url();
    stage.ssh = Some(SshServer::start());
    stage.repo.key = Some(stage.desk.path("key"));
    stage.backups(&stage.repo, &["init"]).exits(0);
    let begun = Instant::now();
    finish(stage.backup(&url, &stage.repo, "first")).exits(0);
    let backup_time = Cell::new(begun.elapsed());
    let (as_restored, restore_time) = stage.filled_by(stage.restore("first", &stage.target.data));
    let program = env!("CARGO_BIN_EXE_refloat");
    let there = ["--host", "donor", "--program", program];
    let from_far = |stage: &Stage, more: &[&str]| stage.rebuild(&url, &[&there, more].concat());
    // The tool runs on the donor's machine, and the repository is there, too.
    let far_repo = Repo {
        url: "ssh://donor/~/repo".to_owned(),
        key: None,
    };
    let into_far = |stage: &Stage, label: &str| {
        let mut command = stage.backup(&url, &far_repo, label);
        command.args(["--host", "donor"]);
        command
    };
    let begun = Instant::now();
    finish(into_far(&stage, "first")).exits(0);
    let far_time = Cell::new(begun.elapsed());
    let through_ssh = ["--listen", "ssh"];
    let (as_rebuilt, rebuild_time) = stage.filled_by(from_far(&stage, &through_ssh));

    let total = number("REFLOAT_COPY_KILLS", USUAL) * (USUAL - CLONES) / USUAL;
    let (mut kills, mut round) = (0, 0);
    while kills < total {
        round += 1;
        let (mut dice, mut story) = (Dice(stage.dice.0), stage.story.clone());
        let left = total - kills;
        stage.target.begin_anew();
        let label = format!("round{round}");
        // The quick ones more often.
        kills += match round % 6 {
            1 | 3 | 4 => Campaign {
                name: "restore",
                command: &|| stage.restore("first", &stage.target.data),
                stage: &stage,
                donor: None,
                whole: &restore_time,
                look: &|story| stage.is_restored(&as_restored, story),
            }
            .run(left, &mut dice, &mut story),
            2 => Campaign {
                name: "backup",
                command: &|| stage.backup(&url, &stage.repo, &label),
                stage: &stage,
                donor: None,
                whole: &backup_time,
                look: &|_| stage.is_backed_up(&stage.repo, &label),
            }
            .run(left, &mut dice, &mut story),
            5 => Campaign {
                name: "backup from another machine, onto another machine",
                command: &|| into_far(&stage, &label),
                stage: &stage,
                donor: None,
                whole: &far_time,
                look: &|_| stage.is_backed_up(&far_repo, &label),
            }
            .run(left, &mut dice, &mut story),
            _ => Campaign {
                name: "rebuild",
                command: &|| from_far(&stage, &through_ssh[..round % 2 * 2]),
                stage: &stage,
                donor: None,
                whole: &rebuild_time,
                look: &|story| stage.is_rebuilt(&as_rebuilt, story),
            }
            .run(left, &mut dice, &mut story),
        };
        (stage.dice, stage.story) = (dice, story);
    }
    let mut slow = [
        stage.backup(&url, &stage.repo, "restarted"),
        stage.rebuild(&url, &[]),
    ];
    for one in &mut slow {
        one.args(["--max-rate", "8M"]);
    }
    let copies = |_: &Instance, pid| has_tool(pid);
    donor_restarts(&stage, &mut server, slow.into(), &copies);
    for repo in [&stage.repo, &far_repo] {
        stage.backups(repo, &["prune", "--keep", "2"]).exits(0);
        stage.backups(repo, &["verify"]).exits(0);
    }
    // And a server works with what is there.
    let later = goes_on(&stage, &server);
    server.stop().unwrap();
    replays_are_killed(&mut stage, &mut server, &later);
    eprintln!("{}", stage.story);
    finish(stage.restore("latest", &server.datadir())).exits(0);
    server.restart().unwrap();
    assert_eq!(ask(&server, ROWS), rows);
}

#[test]
fn killed_copies_of_mysql_are_whole_or_not_there() {
    let mut stage = Stage::new("MySQL");
    let mut server = servers::start(&servers::quick(ServerKind::MySql97));
    ask(
        &server,
        "INSTALL PLUGIN clone SONAME 'mysql_clone.so'; CREATE DATABASE shop; SET SESSION cte_max_recursion_depth = 100000; \
         CREATE TABLE shop.t (id INT PRIMARY KEY, text TEXT) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i AS id, SHA2(i, 512) AS text FROM n; \
         FLUSH TABLES shop.t FOR EXPORT; UNLOCK TABLES",
    );
    let rows = ask(&server, ROWS);
    let url = server.url();
    let begun = Instant::now();
    finish(stage.backup(&url, &stage.repo, "first")).exits(0);
    let backup_time = Cell::new(begun.elapsed());
    let (as_rebuilt, rebuild_time) = stage.filled_by(stage.rebuild(&url, &[]));
    let (as_restored, restore_time) = stage.filled_by(stage.restore("first", &stage.target.data));
    let total = number("REFLOAT_COPY_KILLS", USUAL) * CLONES / USUAL;
    let (mut kills, mut round) = (0, 0);
    while kills < total {
        round += 1;
        let (mut dice, mut story) = (Dice(stage.dice.0), stage.story.clone());
        let left = total - kills;
        stage.target.begin_anew();
        let label = format!("round{round}");
        kills += match round % 3 {
            1 => Campaign {
                name: "backup",
                command: &|| stage.backup(&url, &stage.repo, &label),
                stage: &stage,
                donor: Some(&server),
                whole: &backup_time,
                look: &|_| stage.is_backed_up(&stage.repo, &label),
            }
            .run(left, &mut dice, &mut story),
            2 => Campaign {
                name: "rebuild",
                command: &|| stage.rebuild(&url, &[]),
                stage: &stage,
                donor: Some(&server),
                whole: &rebuild_time,
                look: &|story| stage.is_rebuilt(&as_rebuilt, story),
            }
            .run(left, &mut dice, &mut story),
            _ => Campaign {
                name: "restore",
                command: &|| stage.restore("first", &stage.target.data),
                stage: &stage,
                donor: None,
                whole: &restore_time,
                look: &|story| stage.is_rebuilt(&as_restored, story),
            }
            .run(left, &mut dice, &mut story),
        };
        (stage.dice, stage.story) = (dice, story);
    }
    eprintln!("{}", stage.story);
    let slow = [
        stage.backup(&url, &stage.repo, "restarted"),
        stage.rebuild(&url, &[]),
    ];
    for mut slow in slow {
        slow.args(["--max-rate", "4M"]);
        donor_restarts(&stage, &mut server, vec![slow], &|server, _| {
            !sessions(server).is_empty()
        });
    }
    server.stop().unwrap();
    finish(stage.restore("latest", &server.datadir())).exits(0);
    server.restart().unwrap();
    assert_eq!(ask(&server, ROWS), rows);
}
