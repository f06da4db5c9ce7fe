//! The program as somebody runs it, servers to run it against, and dumps to give to it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use refloat_sandbox::{Instance, ServerKind};
use refloat_source::manifest;
use refloat_testkit::servers;
use refloat_wire::Connection;
use tempfile::TempDir;

/// The two vendors, each by one server.
pub const BOTH: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MySql97];
/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a load may go on for after Ctrl-C: two seconds are promised, and a machine that runs other tests besides may take some
/// more to notice.
const STOP: Duration = Duration::from_secs(5);
/// Time that a server may take for settings that are put back: MariaDB writes out every changed page before it makes its redo log
/// small again.
const PUT_BACK: Duration = Duration::from_secs(20);
/// What the dump tools write before the first table.
const HEAD: &str = "\
-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: localhost    Database: shop
-- ------------------------------------------------------
/*!40101 SET NAMES utf8mb4 */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
";
/// What they write at the end.
const TAIL: &str = "
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
-- Dump completed on 2026-01-01  0:00:00
";

/// `body` between the head and the tail of a dump.
pub fn dump(body: &str) -> String {
    format!("{HEAD}{body}{TAIL}")
}

/// `rows` rows of about 70 bytes for table `name`, with its definition.
pub fn table(name: &str, rows: u64) -> String {
    let mut text = format!(
        "DROP TABLE IF EXISTS `{name}`;\nCREATE TABLE `{name}` (\n  `id` int NOT NULL,\n  `name` varchar(80) NOT NULL,\n  `n` int DEFAULT NULL,\n  \
         PRIMARY KEY (`id`),\n  KEY `name` (`name`),\n  KEY `n` (`n`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\nLOCK TABLES `{name}` WRITE;\n"
    );
    for id in 1..=rows {
        let start = if id % 500 == 1 {
            format!("INSERT INTO `{name}` VALUES\n")
        } else {
            String::new()
        };
        let end = if id % 500 == 0 || id == rows {
            ";\n"
        } else {
            ",\n"
        };
        let _ = write!(
            text,
            "{start}({id},'it\\'s; number {id} -- of \\\\ some rows, which are not short',{}){end}",
            id * 7919 % 10_007
        );
    }
    text.push_str("UNLOCK TABLES;\n");
    text
}

/// Line (from 1) and byte (from 0) at which `needle` begins in `text`.
pub fn place(text: &str, needle: &str) -> String {
    let at = text.find(needle).expect("the needle is in the text");
    format!("line {}, byte {at}", text[..at].matches('\n').count() + 1)
}

/// A desk: files, a state folder, and a database name of its own on shared servers.
pub struct Desk {
    folder: TempDir,
    /// A database that no other test uses.
    pub db: String,
}

impl Desk {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let db = format!("f{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self {
            folder: tempfile::tempdir().expect("a temporary folder can be made"),
            db,
        }
    }

    /// Another database name on the same desk.
    pub fn next(&mut self) -> &str {
        self.db = Self::new().db;
        &self.db
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder in which runs keep their records.
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("the file can be written");
        path
    }

    /// The file as a program like gzip makes it.
    pub fn compressed(program: &str, path: &Path) -> Vec<u8> {
        let output = Command::new(program)
            .arg("-c")
            .arg(path)
            .output()
            .expect("the compressor runs");
        assert!(output.status.success(), "{program} failed");
        output.stdout
    }

    /// The program with these arguments, not started yet.
    pub fn refloat<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("REFLOAT_STATE_DIR", self.state())
            .env("COLUMNS", "100")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `refloat load SOURCE --to URL -D DB`, and more.
    pub fn load_command(&self, source: &Path, url: &str, more: &[&str]) -> Command {
        let mut command = self.refloat([
            OsStr::new("load"),
            source.as_os_str(),
            OsStr::new("--to"),
            OsStr::new(url),
            OsStr::new("-D"),
            OsStr::new(&self.db),
        ]);
        command.args(more);
        command
    }

    pub fn load(&self, source: &Path, server: &Instance, more: &[&str]) -> Run {
        finish(self.load_command(source, &server.url(), more))
    }

    /// [`Desk::load`] of a dump that is given as text.
    pub fn load_text(&self, text: impl AsRef<[u8]>, server: &Instance, more: &[&str]) -> Run {
        let path = self.file("dump.sql", text);
        self.load(&path, server, more)
    }

    /// Loads a file into a database through standard input, which cannot be looked over beforehand.
    pub fn load_stream(&self, file: &Path, server: &Instance, database: &str) -> Run {
        let bytes = std::fs::read(file).expect("the file is there");
        let mut command = self.refloat(["load", "-", "-D", database]);
        command.args(["--to", &server.url()]);
        finish_with_input(command, move |stdin| {
            // A load that has ended reads no more.
            let _ = stdin.write_all(&bytes);
        })
    }

    /// One value from this desk's database on the server.
    pub fn ask(&self, server: &Instance, sql: &str) -> String {
        ask(server, &sql.replace("@db", &self.db))
    }

    /// Rows of a table of this desk; `None` when there is no such table.
    pub fn rows(&self, server: &Instance, table: &str) -> Option<u64> {
        let there = self.ask(server, &format!("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '@db' AND table_name = '{table}'"));
        (there == "1").then(|| {
            self.ask(server, &format!("SELECT COUNT(*) FROM @db.`{table}`"))
                .parse()
                .expect("a count is a number")
        })
    }

    /// Tables in this desk's database; 0 when it does not exist.
    pub fn tables(&self, server: &Instance) -> u64 {
        let count = self.ask(
            server,
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '@db'",
        );
        count.parse().expect("a count is a number")
    }
}

/// Asks the server with its own client.
pub fn ask(server: &Instance, sql: &str) -> String {
    server
        .query(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The server that tests share, by kind.
pub fn shared(kind: ServerKind) -> &'static Instance {
    servers::server(kind)
}

/// Every kind of server for the slow tests (`REFLOAT_KINDS=all`); else one of each vendor, because the tests of loads, dumps and comparisons have all of them.
pub fn kinds() -> &'static [ServerKind] {
    if std::env::var_os("REFLOAT_KINDS").is_some() {
        &ServerKind::ALL
    } else {
        &BOTH
    }
}

/// All settings of a server that a load could leave changed.
pub fn settings(server: &Instance) -> BTreeMap<String, String> {
    let moving = [
        "gtid",
        "timestamp",
        "innodb_undo_log_truncate_now",
        "innodb_buffer_pool_load",
        "rpl_semi_sync",
    ];
    let mut all: BTreeMap<String, String> = ask(server, "SHOW GLOBAL VARIABLES")
        .lines()
        .map(|line| line.split_once('\t').unwrap_or((line, "")))
        .filter(|(name, _)| !moving.iter().any(|one| name.contains(one)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let redo = ask(server, "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'");
    all.insert("status: redo log".to_owned(), redo);
    all
}

/// Asserts that two snapshots of [`settings`] are the same, and names what differs.
#[track_caller]
pub fn assert_same_settings(before: &BTreeMap<String, String>, server: &Instance) {
    let after = settings(server);
    let differing: Vec<_> = before
        .iter()
        .filter(|(name, value)| after.get(*name) != Some(value))
        .map(|(name, value)| (name, value, after.get(name)))
        .collect();
    assert!(
        differing.is_empty(),
        "settings left changed (name, before, after): {differing:?}"
    );
}

/// What a run of the program left behind.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Run {
    /// Asserts the exit code, and shows everything when it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Asserts that the run said this, on either stream.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.stdout.contains(text) || self.stderr.contains(text),
            "«{text}» is missing in\nstdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// What stands on stdout, as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in\n{}", self.stdout))
    }

    /// Asserts that the run did not say this.
    #[track_caller]
    pub fn never_says(self, text: &str) -> Self {
        assert!(
            !self.stdout.contains(text) && !self.stderr.contains(text),
            "«{text}» is in\nstdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

/// Runs to the end.
pub fn finish(mut command: Command) -> Run {
    command.output().expect("the program can be started").into()
}

/// Runs to the end with these bytes on standard input.
pub fn finish_with_input(
    mut command: Command,
    write: impl FnOnce(&mut dyn std::io::Write) + Send,
) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            write(&mut stdin);
            let _ = stdin.flush();
        });
        child.wait_with_output().expect("the program ends").into()
    })
}

/// A program that runs beside the test. It is killed when the test ends before it.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(mut command: Command) -> Self {
        Self(Some(command.spawn().expect("the program can be started")))
    }

    /// [`Running::start`] with a pipe as standard input.
    pub fn start_with_stdin(mut command: Command) -> (Self, ChildStdin) {
        let mut child = command
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let stdin = child.stdin.take().expect("stdin is a pipe");
        (Self(Some(child)), stdin)
    }

    pub fn pid(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    /// Sends a signal by its name; one that asks it to stop only when it listens for that.
    pub fn signal(&self, name: &str) {
        let bit = match name {
            "INT" => 1 << 1,
            "TERM" => 1 << 14,
            _ => 0,
        };
        wait_until("it listens for signals, or has ended", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
            let status = status.expect("it is there until somebody has waited for it");
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(caught.expect("signals").trim(), 16);
            status.contains("State:\tZ") || caught.expect("a mask") & bit == bit
        });
        let status = Command::new("kill")
            .args([format!("-{name}"), self.pid().to_string()])
            .status()
            .expect("kill runs");
        assert!(
            status.success(),
            "the program was gone before signal {name}"
        );
    }

    /// Waits for the end, for at most `limit`.
    #[track_caller]
    pub fn ends_within(mut self, limit: Duration) -> Run {
        let started = Instant::now();
        let mut child = self.0.take().expect("a program is waited for once");
        while child
            .try_wait()
            .expect("the program can be waited for")
            .is_none()
        {
            if started.elapsed() > limit {
                let _ = child.kill();
                let run = Run::from(child.wait_with_output().expect("the program ends"));
                panic!(
                    "still running after {limit:?}\nstdout:\n{}\nstderr:\n{}",
                    run.stdout, run.stderr
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child
            .wait_with_output()
            .expect("the program has ended")
            .into()
    }

    /// Waits for the end of a run that was told to stop: [`STOP`], and what the summary says that the server took for settings.
    #[track_caller]
    pub fn stops(self) -> Run {
        let started = Instant::now();
        let run = self.ends_within(STOP + PUT_BACK);
        let took = started.elapsed();
        let put_back: f64 = run
            .stdout
            .split_once("putting settings back ")
            .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or(0.0);
        assert!(
            took <= STOP + Duration::from_secs_f64(put_back),
            "it stopped only after {took:?}\nstdout:\n{}\nstderr:\n{}",
            run.stdout,
            run.stderr
        );
        run
    }

    pub fn has_ended(&mut self) -> bool {
        self.0
            .as_mut()
            .is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Changes what the manifest of a dump says, and gives it the checksum of what it says now.
pub fn edit_manifest(out: &Path, change: impl FnOnce(&str) -> String) {
    let path = out.join("manifest.json");
    let text = std::fs::read(&path).unwrap();
    let (body, _) = manifest::unseal(&text).expect("it ends with its checksum");
    let body = std::str::from_utf8(body).unwrap();
    let changed = change(body);
    assert_ne!(body, changed, "nothing was changed");
    std::fs::write(path, manifest::seal(changed.as_bytes())).unwrap();
}

/// Waits until something holds.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A lock of a server by name that statements of a dump wait for: `GET_LOCK('NAME', 60)`.
pub struct Gate {
    holder: Connection,
    name: String,
}

impl Gate {
    /// Nobody gets it until it opens.
    pub fn closed(server: &Instance, name: &str) -> Self {
        let mut holder = servers::connect(server);
        let taken = holder.query_value(format!("SELECT GET_LOCK('{name}', 0)"));
        assert_eq!(taken.unwrap().as_deref(), Some("1"), "{name}");
        let name = name.to_owned();
        Self { holder, name }
    }

    pub fn opens(mut self) {
        let released = format!("DO RELEASE_LOCK('{}')", self.name);
        self.holder.exec(released).unwrap();
    }
}

/// Ends all sessions of a server that is nobody else's, but the one that asks.
pub fn kill_sessions(server: &Instance) {
    let all = "SELECT id FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID() AND command <> 'Daemon'";
    for id in ask(server, all).lines() {
        // It may have gone by itself.
        let _ = server.query(&format!("KILL {id}"));
    }
}

/// Tells writers to stop, also when an assertion ends the test.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
