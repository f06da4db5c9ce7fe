//! A dump's locks behind the work of others: the dump says who is in the way, holds nobody up for
//! long, and continues when it can.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::servers;
use refloat_testkit::wait_until;
use refloat_wire::KillHandle;

use crate::support::{BOTH, Desk, Run, Running, ask, finish};

/// How long a dump with `--lock-wait 1` may take to give up: an attempt, a pause, another attempt.
const GIVES_UP: Duration = Duration::from_secs(20);
/// How long others may be blocked by a lock that a dump waits for, in seconds.
const OTHERS_WAIT: u64 = 10;

/// A statement of another session that runs until it is ended.
struct InTheWay {
    id: u64,
    killer: KillHandle,
    thread: std::thread::JoinHandle<()>,
}

impl InTheWay {
    fn start(server: &Instance, statement: &str) -> Self {
        let mut conn = servers::connect(server);
        let (id, killer) = (conn.server().connection_id, conn.killer());
        let sql = statement.to_owned();
        let thread = std::thread::spawn(move || drop(conn.exec(sql)));
        wait_until("it runs", || {
            let running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO IS NOT NULL AND TIME >= 1 AND ID =";
            ask(server, &format!("{running} {id}")) == "1"
        });
        Self { id, killer, thread }
    }

    fn ends(self) {
        self.killer.kill_query().unwrap();
        self.thread.join().unwrap();
    }
}

/// A dump of this desk's database by some account.
struct Dump<'a> {
    desk: &'a Desk,
    url: String,
    more: Vec<&'static str>,
}

impl Dump<'_> {
    fn command(&self, name: &str, lock_wait: &str) -> (Command, PathBuf) {
        let out = self.desk.path(name);
        let mut command = self.desk.refloat(["dump", "--from", &self.url, "--out"]);
        command.arg(&out).args(["--databases", &self.desk.db]);
        command.args(["--lock-wait", lock_wait, "--no-progress"]);
        command.args(&self.more);
        (command, out)
    }

    fn start(&self, name: &str, lock_wait: &str) -> (Running, PathBuf) {
        let (command, out) = self.command(name, lock_wait);
        (Running::start(command), out)
    }

    /// Asserts that it gives up in time and says who is in the way.
    #[track_caller]
    fn gives_up(&self, because: &[&str]) {
        let (running, out) = self.start("refused", "1");
        let mut run = running.ends_within(GIVES_UP).exits(3);
        for words in because {
            run = run.says(words);
        }
        run.says("no consistent snapshot").says("--lock-wait");
        assert!(!out.exists(), "something was written");
    }

    /// Asserts that it says who is in the way, and continues when that has ended.
    #[track_caller]
    fn goes_on(&self, because: &[&str], end: impl FnOnce()) -> Run {
        let (mut command, out) = self.command("done", "60");
        let file = self.desk.path("stderr");
        let output = || std::fs::read_to_string(&file).unwrap();
        command.stderr(std::fs::File::create(&file).unwrap());
        let mut running = Running::start(command);
        let waits = "the lock of the snapshot is not taken yet";
        wait_until(waits, || output().contains(waits) || running.has_ended());
        assert!(!running.has_ended(), "it did not wait: {}", output());
        end();
        let run = running.ends_within(GIVES_UP);
        let mut run = Run {
            stderr: output(),
            ..run
        }
        .exits(0);
        for words in because {
            run = run.says(words);
        }
        finish(self.desk.refloat(["inspect", out.to_str().unwrap()])).exits(0);
        std::fs::remove_dir_all(&out).unwrap();
        run.says("all rows of one moment")
    }
}

/// Asserts that another session can run this statement soon.
#[track_caller]
fn others_can(server: &Instance, statement: &str) {
    let since = Instant::now();
    let limits = format!(
        "SET SESSION lock_wait_timeout = {OTHERS_WAIT}, innodb_lock_wait_timeout = {OTHERS_WAIT}"
    );
    ask(server, &format!("{limits}; {statement}"));
    assert!(since.elapsed().as_secs() < OTHERS_WAIT);
}

fn tables(server: &Instance, desk: &Desk) {
    ask(
        server,
        &format!(
            "CREATE DATABASE {0}; CREATE DATABASE {0}_other; USE {0}; CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0); \
             CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM; INSERT INTO m VALUES (1)",
            desk.db
        ),
    );
}

#[test]
fn a_backup_stage_is_not_waited_for_in_silence() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        tables(&server, &desk);
        let dump = Dump {
            desk: &desk,
            url: server.url(),
            more: vec!["--consistency", "require"],
        };
        // One gets in the way of the first stage, the other in that of a later one, when the first
        // must be released.
        for (statement, allowed) in [
            (
                "CREATE TABLE @db_other.slow SELECT SLEEP(600) AS s",
                "INSERT INTO @db.m VALUES (2)",
            ),
            (
                "INSERT INTO @db.m SELECT 3 + SLEEP(600)",
                "CREATE TABLE @db_other.quick (i INT)",
            ),
        ] {
            let statement = statement.replace("@db", &desk.db);
            let long = InTheWay::start(&server, &statement);
            let named = [
                &*format!("query {} of root has run for ", long.id),
                &format!(" s: {statement}"),
            ];
            dump.gives_up(&named);
            // Sessions that queued behind the lock continue, and so do later ones.
            others_can(
                &server,
                &format!(
                    "INSERT INTO {0}.t SELECT MAX(id) + 1, 0 FROM {0}.t",
                    desk.db
                ),
            );
            others_can(&server, &allowed.replace("@db", &desk.db));
            dump.goes_on(&named, || long.ends())
                .says("BACKUP STAGE BLOCK_COMMIT");
        }
    }
}

/// An account that may lock tables, but no more.
fn locker(server: &Instance, rights: &str) -> String {
    ask(
        server,
        &format!(
            "CREATE USER locker@'127.0.0.1' IDENTIFIED BY ''; \
             GRANT SELECT, SHOW VIEW, TRIGGER, LOCK TABLES, PROCESS{rights} ON *.* TO locker@'127.0.0.1'"
        ),
    );
    let port = ask(server, "SELECT @@port");
    format!("mysql://locker@127.0.0.1:{}/", port.trim())
}

#[test]
fn locked_tables_are_not_waited_for_in_silence() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        tables(&server, &desk);
        let dump = Dump {
            desk: &desk,
            url: locker(&server, ""),
            more: vec!["--skip", "routines,events", "--consistency", "require"],
        };
        let insert = format!("INSERT INTO {}.t VALUES (5, 0)", desk.db);
        // A statement that has a table open.
        let update = format!("UPDATE {}.t SET v = SLEEP(600)", desk.db);
        let long = InTheWay::start(&server, &update);
        let named = [
            &*format!("query {} of root has run for ", long.id),
            &format!(" s: {update}"),
        ];
        dump.gives_up(&named);
        others_can(&server, &format!("INSERT INTO {}.m VALUES (2)", desk.db));
        dump.goes_on(&named, || long.ends()).says("LOCK TABLES");
        // An idle transaction that has written.
        let mut conn = servers::connect(&server);
        conn.exec("START TRANSACTION").unwrap();
        conn.exec(format!("UPDATE {}.t SET v = 7 WHERE id = 1", desk.db))
            .unwrap();
        let id = conn.server().connection_id;
        let named = [&*format!(
            "connection {id} of root has changed rows in a transaction, and slept for "
        )];
        dump.gives_up(&named);
        others_can(&server, &insert);
        let commit = || drop(conn.exec("COMMIT").unwrap());
        dump.goes_on(&named, commit).says("LOCK TABLES");
        // A query that only reads is not in the way here. It would block the lock that this account
        // may not take.
        let long = InTheWay::start(&server, &format!("SELECT SLEEP(600) FROM {}.t", desk.db));
        std::thread::sleep(Duration::from_secs(2));
        let (running, _) = dump.start("beside", "60");
        let run = running.ends_within(GIVES_UP).exits(0).says("LOCK TABLES");
        run.never_says("not taken yet");
        long.ends();
    }
}

/// DDL that waits for a transaction keeps others from blocking all DDL.
#[test]
fn a_lock_on_definitions_is_not_waited_for_in_silence() {
    let server = servers::start(&servers::quick(ServerKind::MySql97));
    let desk = Desk::new();
    tables(&server, &desk);
    let url = locker(&server, "");
    ask(&server, "GRANT BACKUP_ADMIN ON *.* TO locker@'127.0.0.1'");
    let other = format!("{}_other", desk.db);
    ask(
        &server,
        &format!("CREATE TABLE {other}.t (i INT); INSERT INTO {other}.t VALUES (1)"),
    );
    for consistency in ["require", "none"] {
        let dump = Dump {
            desk: &desk,
            url: url.clone(),
            more: vec!["--skip", "routines,events", "--consistency", consistency],
        };
        let mut conn = servers::connect(&server);
        conn.exec("START TRANSACTION").unwrap();
        conn.query(format!("SELECT * FROM {other}.t")).unwrap();
        let alter = format!("ALTER TABLE {other}.t ADD COLUMN {consistency}_more INT");
        let long = InTheWay::start(&server, &alter);
        let (running, out) = dump.start(consistency, "60");
        let run = running.ends_within(GIVES_UP).exits(0);
        let run = run.says("definitions are not locked: ");
        let run = run.says(&format!("query {} of root has run for ", long.id));
        run.says(&alter).says("is noticed, and fails the dump");
        finish(desk.refloat(["inspect", out.to_str().unwrap()])).exits(0);
        conn.exec("COMMIT").unwrap();
        long.thread.join().unwrap();
        // With nobody in the way, nothing is reported.
        let (running, _) = dump.start(&format!("{consistency}-alone"), "60");
        running
            .ends_within(GIVES_UP)
            .exits(0)
            .never_says("not locked");
    }
}

/// Rows behind DDL that waits for a transaction, and that the lock of the snapshot did not wait
/// for.
#[test]
fn a_locked_table_is_waited_for_no_longer_than_was_asked_for() {
    let server = servers::start(&servers::quick(ServerKind::MariaDb1011));
    let desk = Desk::new();
    tables(&server, &desk);
    let mut conn = servers::connect(&server);
    conn.exec("START TRANSACTION").unwrap();
    conn.query(format!("SELECT * FROM {}.t", desk.db)).unwrap();
    let alter = format!("ALTER TABLE {}.t ADD COLUMN more INT", desk.db);
    let long = InTheWay::start(&server, &alter);
    let dump = Dump {
        desk: &desk,
        url: server.url(),
        more: Vec::new(),
    };
    let (running, _) = dump.start("behind", "1");
    let run = running.ends_within(GIVES_UP).exits(1);
    run.says("Lock wait timeout exceeded").says("--lock-wait");
    conn.exec("COMMIT").unwrap();
    long.thread.join().unwrap();
}
