//! Runs the program as a user would, with servers to run it against and dumps to load.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use refloat_sandbox::{Instance, ServerKind};
use refloat_source::manifest;
use refloat_testkit::wait_until;
use refloat_testkit::{memory, servers};
use refloat_wire::Connection;
use tempfile::TempDir;

/// One server of each vendor.
pub const BOTH: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MySql97];
/// How long a load may continue after Ctrl-C: two seconds are promised, and a machine that runs
/// other tests as well may take longer to notice.
const STOP: Duration = Duration::from_secs(5);
/// How long a server may take to put settings back: MariaDB writes out every changed page before it
/// shrinks its redo log again.
const PUT_BACK: Duration = Duration::from_secs(20);
/// What dump tools write before the first table.
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

/// `body` between the header and the trailer of a dump.
pub fn dump(body: &str) -> String {
    format!("{HEAD}{body}{TAIL}")
}

/// The definition of table `name`, with `rows` rows of about 70 bytes.
pub fn table(name: &str, rows: u64) -> String {
    table_with(name, rows, "", "")
}

/// Like [`table`], with rows of about 500 bytes: for loads of many bytes, which take longer the
/// more rows they have.
pub fn wide_table(name: &str, rows: u64) -> String {
    let value = format!(",'{}'", "x".repeat(430));
    table_with(name, rows, "`pad` varchar(500) DEFAULT NULL,\n  ", &value)
}

/// A table with one more column and its value, if they are not empty.
fn table_with(name: &str, rows: u64, column: &str, value: &str) -> String {
    let mut text = format!(
        "DROP TABLE IF EXISTS `{name}`;\nCREATE TABLE `{name}` (\n  `id` int NOT NULL,\n  `name` varchar(80) NOT NULL,\n  `n` int DEFAULT NULL,\n  \
         {column}PRIMARY KEY (`id`),\n  KEY `name` (`name`),\n  KEY `n` (`n`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\nLOCK TABLES `{name}` WRITE;\n"
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
            "{start}({id},'it\\'s; number {id} -- of \\\\ some rows, which are not short',{}{value}){end}",
            id * 7919 % 10_007
        );
    }
    text.push_str("UNLOCK TABLES;\n");
    text
}

/// Line (from 1) and byte offset (from 0) of `needle` in `text`.
pub fn place(text: &str, needle: &str) -> String {
    let at = text.find(needle).expect("the needle is in the text");
    format!("line {}, byte {at}", text[..at].matches('\n').count() + 1)
}

/// The workspace of a test: files, a state folder, and a database name of its own on the shared
/// servers.
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
            folder: tempfile::tempdir_in(memory::folder()).expect("a temporary folder can be made"),
            db,
        }
    }

    /// Switches to another database name.
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

    /// The file, compressed by a program like gzip.
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

    /// `refloat load SOURCE --to URL -D DB`, with more arguments.
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

    /// Like [`Desk::load`], for a dump that is given as text.
    pub fn load_text(&self, text: impl AsRef<[u8]>, server: &Instance, more: &[&str]) -> Run {
        let path = self.file("dump.sql", text);
        self.load(&path, server, more)
    }

    /// Loads a file into a database through standard input, which cannot be scanned in advance.
    pub fn load_stream(&self, file: &Path, server: &Instance, database: &str) -> Run {
        let bytes = std::fs::read(file).expect("the file is there");
        let mut command = self.refloat(["load", "-", "-D", database]);
        command.args(["--to", &server.url()]);
        finish_with_input(command, move |stdin| {
            // A load that has ended reads no more.
            let _ = stdin.write_all(&bytes);
        })
    }

    /// One value from the server; `@db` in the query stands for this desk's database.
    pub fn ask(&self, server: &Instance, sql: &str) -> String {
        ask(server, &sql.replace("@db", &self.db))
    }

    /// Number of rows of a table of this desk; `None` if there is no such table.
    pub fn rows(&self, server: &Instance, table: &str) -> Option<u64> {
        // Tests ask this again and again while they wait. Each start of the stock client takes a
        // core as long as hundreds of answers take.
        let mut conn = servers::connect(server);
        let there = format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{}' AND table_name = '{table}'",
            self.db
        );
        (number(&mut conn, &there) == 1).then(|| {
            let rows = format!("SELECT COUNT(*) FROM `{}`.`{table}`", self.db);
            number(&mut conn, &rows)
        })
    }

    /// Number of tables in this desk's database; 0 if it does not exist.
    pub fn tables(&self, server: &Instance) -> u64 {
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{}'",
            self.db
        );
        number(&mut servers::connect(server), &sql)
    }
}

/// The number that a query returns.
fn number(conn: &mut Connection, sql: &str) -> u64 {
    let value = conn.query_value(sql);
    let value = value.unwrap_or_else(|error| panic!("{sql}: {error}"));
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("{sql}: no number"))
}

/// Runs a query with the server's own client.
pub fn ask(server: &Instance, sql: &str) -> String {
    server
        .query(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Gives the desk's database a table of 240 MB of text, in rows of 6 kB.
pub fn fill_wide(server: &Instance, desk: &Desk) {
    let rows = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 40000) SELECT i, REPEAT('some text; ', 500) FROM r";
    ask(
        server,
        &format!(
            "CREATE DATABASE {0}; CREATE TABLE {0}.wide (id INT PRIMARY KEY, s TEXT); SET max_recursive_iterations = 40000; \
             INSERT INTO {0}.wide {rows}; ANALYZE TABLE {0}.wide",
            desk.db
        ),
    );
}

/// The shared server of this kind.
pub fn shared(kind: ServerKind) -> &'static Instance {
    servers::server(kind)
}

/// Every kind of server for the slow tests (`REFLOAT_KINDS=all`). Otherwise one of each vendor,
/// because the tests of loads, dumps and comparisons cover all of them.
pub fn kinds() -> &'static [ServerKind] {
    if slow() { &ServerKind::ALL } else { &BOTH }
}

/// Whether the slow tests run (`REFLOAT_KINDS=all`), which take more rounds and more ways to the
/// same code.
pub fn slow() -> bool {
    std::env::var_os("REFLOAT_KINDS").is_some()
}

/// All settings of a server that a load could leave changed.
pub fn settings(server: &Instance) -> BTreeMap<String, String> {
    let moving = [
        "gtid",
        "timestamp",
        "innodb_undo_log_truncate_now",
        "innodb_buffer_pool_load",
        "rpl_semi_sync",
        // MariaDB decides it anew with each redo log, by what the file system can do.
        "innodb_log_file_buffering",
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

/// Asserts that the settings are the same as `before`, and names what differs.
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

/// The result of running the program.
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
    /// Asserts the exit code; prints all output if it is another.
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

    /// Asserts that the run printed this, on either stream.
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

    /// Asserts that the message of a run that was interrupted does not say so twice.
    #[track_caller]
    fn says_once_that_it_was_interrupted(self) -> Self {
        let mut lines = self.stderr.lines();
        let error = lines.find_map(|line| line.strip_prefix("refloat: error: "));
        let times = error.map_or(0, |error| error.matches("interrupted").count());
        assert!(times <= 1, "{}", self.stderr);
        self
    }

    /// The content of stdout, as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in\n{}", self.stdout))
    }

    /// Asserts that the run did not print this.
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

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Run {
    command.output().expect("the program can be started").into()
}

/// Runs a command to its end, with these bytes on standard input.
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

/// A program that runs next to the test. It is killed if the test ends first.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(mut command: Command) -> Self {
        Self(Some(command.spawn().expect("the program can be started")))
    }

    /// Like [`Running::start`], with a pipe as standard input.
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

    /// Sends a signal by name. Waits for the program's handler before sending INT or TERM.
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

    /// Kills it at once: no other program is started for that.
    pub fn kill(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
        }
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

    /// Waits for the end of a run that was told to stop: within [`STOP`], plus the time that the
    /// summary gives for putting settings back.
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
        run.says_once_that_it_was_interrupted()
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

/// Changes the manifest of a dump, and gives it a matching checksum.
pub fn edit_manifest(out: &Path, change: impl FnOnce(&str) -> String) {
    let path = out.join("manifest.json");
    let text = std::fs::read(&path).unwrap();
    let (body, _) = manifest::unseal(&text).expect("it ends with its checksum");
    let body = std::str::from_utf8(body).unwrap();
    let changed = change(body);
    assert_ne!(body, changed, "nothing was changed");
    std::fs::write(path, manifest::seal(changed.as_bytes())).unwrap();
}

/// A named lock that statements of a dump wait for: `GET_LOCK('NAME', 60)`.
pub struct Gate {
    holder: Connection,
    name: String,
}

impl Gate {
    /// Takes the lock, so that others wait until the gate opens.
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

/// Ends all sessions of an unshared server, except the one that does this.
pub fn kill_sessions(server: &Instance) {
    let all = "SELECT id FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID() AND command <> 'Daemon'";
    for id in ask(server, all).lines() {
        // It may have ended by itself.
        let _ = server.query(&format!("KILL {id}"));
    }
}
