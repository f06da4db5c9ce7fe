//! `refloat binlog archive` is killed, stopped, and asked to go on where nothing continues.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::maintenance::Running;
use crate::support::{Run, command, signal};

struct Kept {
    server: Ephemeral,
    folder: tempfile::TempDir,
}

impl Kept {
    fn new(kind: ServerKind) -> Self {
        let server = servers::start(&servers::quick(kind).option("log_bin", "binlog"));
        let folder = tempfile::tempdir().expect("a folder");
        Self { server, folder }
    }

    fn sql(&self, text: &str) {
        let mut conn = servers::connect(&self.server);
        conn.exec(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    fn refloat(&self, words: &[&str]) -> Command {
        let mut command = command(&self.folder.path().join("state"));
        command.args(["binlog"]).args(words).arg("--repo");
        command.arg(self.folder.path().join("repo"));
        command
    }

    fn archive(&self, words: &[&str]) -> Command {
        let url = self.server.socket_url();
        let mut command =
            self.refloat(&["archive", "--no-defaults", "--from", &url, "--name", "db1"]);
        command.args(words);
        command
    }

    fn once(&self) -> Run {
        Run::of(&mut self.archive(&["--once"]))
    }

    /// Bytes that are stored.
    fn stored(&self) -> u64 {
        let listed = Run::of(&mut self.refloat(&["list", "--json"]));
        let all: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        all[0]["bytes"].as_u64().unwrap_or(0)
    }

    /// Compares what is kept with the server's own files.
    fn assert_same(&self, to: &Path) -> usize {
        let out = to.to_str().expect("it is text");
        Run::of(&mut self.refloat(&["fetch", "db1", "--out", out])).exits(0);
        let mut count = 0;
        for entry in fs::read_dir(to).expect("a listing") {
            let name = entry.expect("an entry").file_name();
            let kept = fs::read(to.join(&name)).expect("it can be read");
            let mut original = fs::read(self.server.datadir().join(&name)).expect("it can be read");
            // The flag that the file is open.
            original[4 + 17] &= !1;
            assert!(
                kept == original,
                "{}: {} and {}",
                name.display(),
                kept.len(),
                original.len()
            );
            count += 1;
        }
        count
    }
}

fn an_archive_goes_on_however_it_ended(kind: ServerKind) {
    let mut kept = Kept::new(kind);
    kept.sql("CREATE DATABASE shop");
    kept.sql("CREATE TABLE shop.one (id INT PRIMARY KEY AUTO_INCREMENT, text TEXT)");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut conn = servers::connect(&kept.server);
            while !over.load(Ordering::Relaxed) {
                let sql = "INSERT INTO shop.one (text) VALUES (REPEAT('x', 5000))";
                conn.exec(sql).expect("a row");
            }
        });
        for round in 0..4 {
            let before = kept.stored();
            let mut running = Running::start(kept.archive(&["--every", "1"]));
            running.says("begins");
            running.brings("more is stored", || kept.stored() > before);
            if round % 2 == 0 {
                kept.sql("FLUSH BINARY LOGS");
                running.says("is complete");
            }
            // The last time it is asked to end, and stores what it has.
            if round == 3 {
                signal("-TERM", running.id());
                running.ends(0);
            } else {
                running.kill();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    // A server that is started again is followed on.
    let mut running = Running::start(kept.archive(&["--every", "1"]));
    running.says("begins");
    kept.server.restart().expect("it starts");
    let before = kept.stored();
    // As a literal: MariaDB logs the statement, not the row.
    let text = "y".repeat(5000);
    kept.sql(&format!("INSERT INTO shop.one (text) VALUES ('{text}')"));
    running.brings("more is stored", || kept.stored() >= before + 5000);
    signal("-TERM", running.id());
    running.ends(0);
    kept.once().exits(0);
    let added = kept.once().exits(0);
    assert!(added.stdout.contains("added       0 B"), "{}", added.stdout);
    let count = kept.assert_same(&kept.folder.path().join("out"));
    assert!(count >= 3, "{count}");

    // Another server under the same name.
    let other = servers::server(if kind == ServerKind::MariaDb118 {
        ServerKind::MariaDb1011
    } else {
        ServerKind::MariaDb118
    });
    let url = other.socket_url();
    let words = [
        "archive",
        "--no-defaults",
        "--once",
        "--name",
        "db1",
        "--from",
        &url,
    ];
    Run::of(&mut kept.refloat(&words))
        .exits(3)
        .says("belongs to another server");

    // What comes next was removed.
    kept.sql("FLUSH BINARY LOGS");
    kept.sql("INSERT INTO shop.one (text) VALUES ('not kept')");
    kept.sql("FLUSH BINARY LOGS");
    let mut conn = servers::connect(&kept.server);
    let logs = conn.query("SHOW BINARY LOGS").expect("a list");
    let last = logs.str(logs.len() - 1, 0).expect("a name").to_owned();
    // A server keeps a log for as long as it needs it itself.
    wait_until("the others are gone", || {
        kept.sql(&format!("PURGE BINARY LOGS TO '{last}'"));
        let mut conn = servers::connect(&kept.server);
        conn.query("SHOW BINARY LOGS").expect("a list").len() == 1
    });
    kept.once().exits(3).says(&format!(
        "the server has only {last} to {last}: the logs in between are lost"
    ));

    // They begin anew, under the same names.
    let reset = if kind == ServerKind::MySql97 {
        "RESET BINARY LOGS AND GTIDS"
    } else {
        "RESET MASTER"
    };
    kept.sql(reset);
    for _ in 0..logs.len() + 4 {
        kept.sql("FLUSH BINARY LOGS");
    }
    kept.once().exits(3).says("it is another one");
    what_another_history_goes_on_with_is_not_kept(&kept, reset);
}

/// The logs are reset, and the file that comes next in the archive is of the new history.
fn what_another_history_goes_on_with_is_not_kept(kept: &Kept, reset: &str) {
    let archive = kept.folder.path().join("repo/binlogs/db1");
    fs::remove_dir_all(&archive).expect("it is removed");
    kept.sql(reset);
    for _ in 0..3 {
        kept.sql("INSERT INTO shop.one (text) VALUES ('kept')");
    }
    kept.sql("FLUSH BINARY LOGS");
    kept.once().exits(0);
    // As if it was killed between two files.
    fs::remove_dir_all(archive.join("files/binlog.000002")).expect("it is removed");
    kept.sql(reset);
    kept.sql("INSERT INTO shop.one (text) VALUES ('of the other history')");
    kept.sql("FLUSH BINARY LOGS");
    wait_until("the first is gone", || {
        kept.sql("PURGE BINARY LOGS TO 'binlog.000002'");
        let mut conn = servers::connect(&kept.server);
        conn.query("SHOW BINARY LOGS").expect("a list").len() == 1
    });
    kept.sql("INSERT INTO shop.one (text) VALUES ('of the other history')");
    for _ in 0..2 {
        let message = "binlog.000002 on the server belongs to another history than archive db1";
        kept.once().exits(3).says(message);
    }
    assert!(!archive.join("files/binlog.000002").exists());
}

/// Somebody deletes everything, and the server comes back as it was the second before.
#[test]
fn a_server_comes_back_as_it_was_before_a_mistake() {
    let kept = Kept::new(ServerKind::MariaDb1011);
    let mut other = servers::start(&servers::quick(ServerKind::MariaDb1011));
    kept.sql("CREATE DATABASE shop");
    kept.sql("CREATE TABLE shop.one (id INT PRIMARY KEY, text TEXT)");
    kept.sql("INSERT INTO shop.one VALUES (1, 'in the backup')");
    let of_backups = |words: &[&str]| {
        let mut command = command(&kept.folder.path().join("state"));
        command.args(words).arg("--no-defaults").arg("--repo");
        command.arg(kept.folder.path().join("repo"));
        Run::of(&mut command)
    };
    of_backups(&["backup", "--from", &kept.server.socket_url()]).exits(0);
    kept.sql("INSERT INTO shop.one VALUES (2, 'in the logs')");
    let clock = || {
        let now = kept.server.query("SELECT UTC_TIMESTAMP()");
        now.expect("a time").trim().to_owned()
    };
    let before = clock();
    wait_until("the next second", || clock() > before);
    let mistake = format!("{}Z", clock());
    kept.sql("DELETE FROM shop.one");
    let rows = kept.server.query("SELECT COUNT(*) FROM shop.one");
    assert_eq!(rows.expect("a number").trim(), "0");

    other.stop().expect("it stops");
    let to = other.datadir().display().to_string();
    let until = |when: &str, more: &[&str]| {
        let words = ["restore", "latest", "--to", &to, "--replace"];
        of_backups(&[&words[..], &["--until", when], more].concat())
    };
    until("yesterday", &[]).says("yesterday").exits(2);
    until(&mistake, &[]).says("binlog archive").exits(3);
    kept.once().exits(0);
    until(&mistake, &["--binlogs", "archive:db2"])
        .says("db2")
        .exits(3);
    let plan = until(&mistake, &["--plan"]).exits(0).stdout;
    assert!(plan.contains("db1"), "{plan}");
    until(&mistake, &[]).exits(0);
    other.restart().expect("it starts");
    let rows = other.query("SELECT id, text FROM shop.one ORDER BY id");
    assert_eq!(
        rows.expect("rows").trim(),
        "1\tin the backup\n2\tin the logs"
    );
}

#[test]
fn an_archive_of_mariadb_goes_on_however_it_ended() {
    an_archive_goes_on_however_it_ended(ServerKind::MariaDb1011);
}

#[test]
fn an_archive_of_mysql_goes_on_however_it_ended() {
    an_archive_goes_on_however_it_ended(ServerKind::MySql97);
}
