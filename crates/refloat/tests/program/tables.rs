//! Single tables are taken out of a backup of files, into a running server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::{SOON, servers};

use crate::support::{Run, command, state_folder};

/// How long to wait for what has to come.
const LONG: Duration = Duration::from_secs(120);

/// Columns of all kinds, keys of all kinds, partitions, generated columns, foreign keys in both
/// directions and to itself, triggers, a check, and a name that no file has.
const TABLES: &str = "
CREATE DATABASE shop; CREATE DATABASE other; USE shop;
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) CHARACTER SET utf8mb4);
CREATE TABLE orders (
  id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer INT, parent BIGINT UNSIGNED,
  price DECIMAL(12,4), rate DOUBLE, flag BIT(9), state ENUM('new','done'), tags SET('a','b'),
  made DATETIME(6), seen TIMESTAMP NULL, day DATE, at_ TIME(3), year_ YEAR, note TEXT CHARACTER SET utf8mb4, raw BLOB, doc JSON,
  place POINT NOT NULL, twice DECIMAL(14,4) AS (price * 2) STORED, thrice INT AS (year_ + 3) VIRTUAL,
  KEY (thrice), UNIQUE KEY (customer, made), FULLTEXT KEY (note), SPATIAL KEY (place),
  CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE,
  CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES orders (id),
  CONSTRAINT costs CHECK (price >= 0)
);
CREATE TABLE items (id INT PRIMARY KEY, of_order BIGINT UNSIGNED, CONSTRAINT of_order FOREIGN KEY (of_order) REFERENCES orders (id));
CREATE TABLE parts (id INT, kind INT, text VARCHAR(200), PRIMARY KEY (id, kind)) PARTITION BY RANGE (kind) SUBPARTITION BY HASH (id) SUBPARTITIONS 2
  (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
CREATE TABLE `a b/ä` (id INT PRIMARY KEY);
CREATE TABLE other.more (id INT PRIMARY KEY);
INSERT INTO customers VALUES (1, 'Ä'), (2, 'b'), (3, NULL);
INSERT INTO orders (customer, parent, price, rate, flag, state, tags, made, seen, day, at_, year_, note, raw, doc, place)
  VALUES (1, NULL, 12.5, 0.1, b'101', 'new', 'a,b', '2026-01-01 00:00:00.000001', '2026-01-02', '2026-01-03', '-10:00:00.5', 2026, 'grüße', 0x00ff0a, '{\"a\": 1}', ST_GeomFromText('POINT(1 2)')),
  (2, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ST_GeomFromText('POINT(3 4)'));
INSERT INTO items VALUES (1, 1), (2, 2);
INSERT INTO parts VALUES (1, 1, 'x'), (2, 20, 'y');
INSERT INTO `a b/ä` VALUES (7);
INSERT INTO other.more VALUES (8);
CREATE VIEW seen AS SELECT id FROM orders;
CREATE TRIGGER first_ BEFORE INSERT ON orders FOR EACH ROW SET NEW.note = CONCAT(NEW.note, '!');
CREATE TRIGGER then_ BEFORE INSERT ON orders FOR EACH ROW SET NEW.note = CONCAT(NEW.note, '?');
SET NAMES latin1; CREATE TRIGGER of_old_times BEFORE UPDATE ON orders FOR EACH ROW SET NEW.note = 'grün'; SET NAMES utf8mb4;
";
/// What one vendor alone has.
const OF_MARIADB: &str = "USE shop;
CREATE TABLE myisam (id INT PRIMARY KEY) ENGINE=MyISAM; INSERT INTO myisam VALUES (1), (2);
CREATE TABLE aria (id INT PRIMARY KEY) ENGINE=Aria PAGE_CHECKSUM=1; INSERT INTO aria VALUES (3);
CREATE SEQUENCE numbers; SELECT NEXTVAL(numbers);
CREATE TABLE kept (id INT PRIMARY KEY) WITH SYSTEM VERSIONING; INSERT INTO kept VALUES (1); UPDATE kept SET id = 2;
";
const OF_MYSQL: &str = "INSTALL PLUGIN clone SONAME 'mysql_clone.so'; USE shop;
CREATE TABLESPACE common ADD DATAFILE 'common.ibd'; CREATE TABLE shared (id INT PRIMARY KEY) TABLESPACE common;
INSERT INTO shared VALUES (1);
";

/// A server, a repository with a backup of it, and the flags with which the program restores it.
struct Place {
    server: refloat_sandbox::Ephemeral,
    state: tempfile::TempDir,
    repo: String,
    scratch: PathBuf,
    programs: Vec<String>,
}

impl Place {
    fn new(kind: ServerKind) -> Self {
        let state = state_folder();
        let server = servers::start(&servers::quick(kind));
        let sql = |text: &str| servers::client(&server, &[], text.as_bytes()).unwrap();
        sql(TABLES);
        sql(if kind.is_mariadb() {
            OF_MARIADB
        } else {
            OF_MYSQL
        });
        let program = |name| {
            servers::program(&server, name, state.path())
                .display()
                .to_string()
        };
        let programs = if kind.is_mariadb() {
            let tool = program("mariadb-backup");
            vec![
                "--server".to_owned(),
                program("mariadbd"),
                "--tool".to_owned(),
                tool,
            ]
        } else {
            vec!["--server".to_owned(), program("mysqld")]
        };
        let scratch = server.folder().to_owned();
        let repo = state.path().join("repo").display().to_string();
        let place = Self {
            server,
            state,
            repo,
            scratch,
            programs,
        };
        let url = place.server.socket_url();
        let backup = ["backup", "--from", &url, "--label", "one", "--no-defaults"];
        let tool = &place.programs[2.min(place.programs.len())..];
        place.run(&backup, tool).exits(0);
        place
    }

    fn run(&self, args: &[&str], more: &[String]) -> Run {
        Run::of(self.command(args).args(more))
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = command(self.state.path());
        command.args(args).args(["--repo", &self.repo]);
        command
    }

    /// Restores tables into the server.
    fn restore(&self, tables: &str, more: &[&str]) -> Run {
        let mut command = self.restoring(tables);
        let run = Run::of(command.args(more));
        assert_eq!(private_folders(&self.scratch), 0, "{}", run.stderr);
        run
    }

    fn restoring(&self, tables: &str) -> std::process::Command {
        let (url, scratch) = (self.server.socket_url(), self.scratch.display().to_string());
        let mut command = self.command(&[
            "restore",
            "one",
            "--tables",
            tables,
            "--to",
            &url,
            "--no-defaults",
        ]);
        command.args(["--scratch", &scratch]).args(&self.programs);
        command
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&mut servers::connect(&self.server), Scope { history: true }).unwrap()
    }

    fn assert_holds(&self, expected: &Snapshot) {
        let found = differences(expected, &self.snapshot());
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Folders of private servers.
fn private_folders(scratch: &Path) -> usize {
    let all = fs::read_dir(scratch).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().contains("private"))
        .count()
}

fn tables_come_back(kind: ServerKind) {
    let place = Place::new(kind);
    let sql = |text: &str| servers::client(&place.server, &[], text.as_bytes()).unwrap();
    let expected = place.snapshot();

    // What stands against it is told before anything is fetched or touched.
    place
        .restore("shop.orders,shop.items", &[])
        .says("has shop.items, shop.orders already")
        .says("--replace")
        .exits(3);
    if kind == ServerKind::MariaDb1011 {
        place
            .restore("shop.order", &[])
            .says("backup one has no table shop.order")
            .says("The closest names are shop.orders")
            .exits(3);
        // Only a server tells that it is a view. The target's own is in nobody's way.
        place
            .restore("shop.seen", &["--replace"])
            .says("has no table shop.seen")
            .exits(3);
        place.restore("shop.*", &["--replace", "--plan"]).exits(0);
    } else {
        // The programs in the search path are of another series.
        let url = place.server.socket_url();
        let args = [
            "restore",
            "one",
            "--tables",
            "shop.orders",
            "--to",
            &url,
            "--replace",
            "--no-defaults",
        ];
        place.run(&args, &[]).says("but the backup is of").exits(3);
    }
    // The programs of 11.8 are not in the search path.
    if kind != ServerKind::MariaDb118 {
        only_a_server_of_the_series_will_do(&place, kind);
    }
    place.assert_holds(&expected);

    // Some were damaged, others are new since. They keep what refers to them.
    sql(
        "SET foreign_key_checks = 0; UPDATE shop.orders SET note = 'lost', price = 1; DELETE FROM shop.orders WHERE id = 2; \
         ALTER TABLE shop.orders DROP COLUMN day; DROP TRIGGER shop.then_; DROP TABLE shop.`a b/ä`",
    );
    let done = place
        .restore("shop.orders,a b/*", &["--replace"])
        .exits(0)
        .stdout;
    assert!(
        done.contains("shop.orders: 2 rows; it replaces the one that was there"),
        "{done}"
    );
    assert!(done.contains("shop.a b/ä: 1 row\n"), "{done}");
    place.assert_holds(&expected);

    if kind == ServerKind::MariaDb1011 {
        sql(
            "DROP TABLE other.more; CREATE TABLE other.more (id BIGINT PRIMARY KEY); \
             CREATE TABLE other.refers (c BIGINT, FOREIGN KEY (c) REFERENCES other.more (id))",
        );
        let refers = place.restore("other.more", &["--replace"]).exits(3);
        let why = "nothing was replaced: other.refers refers to column id of other.more, which is bigint(20) there and int(11) in the backup";
        assert!(refers.stderr.contains(why), "{}", refers.stderr);
        sql("DROP TABLE other.refers");
        place.restore("other.more", &["--replace"]).exits(0);
        place.assert_holds(&expected);
    }

    // A whole database, which is gone.
    let others = kind.is_mariadb();
    sql("DROP DATABASE shop");
    let planned = place.restore("shop.*", &["--plan"]).exits(0).stdout;
    assert!(
        planned.contains("shop.items") && planned.contains("shop.parts"),
        "{planned}"
    );
    place
        .restore("shop.*", &[])
        .says("views are not restored: shop.seen")
        .exits(0);
    sql("USE shop; CREATE VIEW seen AS SELECT id FROM orders");
    place.assert_holds(&expected);
    if others {
        sql("INSERT INTO shop.aria VALUES (9)");
    }
    let next = "INSERT INTO shop.orders (customer, place) VALUES (3, ST_GeomFromText('POINT(5 6)')); SELECT MAX(id) FROM shop.orders";
    assert_eq!(place.server.query(next).unwrap().trim(), "3");
    assert!(
        place
            .server
            .query("INSERT INTO shop.items VALUES (9, 99)")
            .is_err()
    );

    if kind == ServerKind::MariaDb1011 {
        backups_are_tried(&place);
        killed_programs_leave_nothing(&place);
    }
}

/// A server starts with a backup of files, and with no dump.
fn backups_are_tried(place: &Place) {
    let url = place.server.socket_url();
    let dump = ["dump", "--from", &url, "--label", "two", "--no-defaults"];
    place.run(&dump, &[]).exits(0);
    let verify = ["backups", "verify", "--restore", "two"];
    place.run(&verify, &[]).says("two is a dump").exits(3);
    let scratch = place.scratch.display().to_string();
    let tried = [&verify[..3], &["--scratch", &scratch]].concat();
    let tried = place
        .run(&tried, &place.programs)
        .says("two is a dump: it was read, and not restored")
        .exits(0)
        .stdout;
    assert!(tried.contains("one: a server runs on it"), "{tried}");
}

/// The server that is installed has to be of the series of the backup; where no tool prepares it
/// (MySQL), also not older.
fn only_a_server_of_the_series_will_do(place: &Place, kind: ServerKind) {
    let folder = place.state.path().join("another");
    fs::create_dir(&folder).unwrap();
    let (name, versions) = if kind.is_mariadb() {
        let versions = [("10.6.99", true), ("11.8.1", true), ("10.11.1", false)];
        (
            "mariadbd",
            versions.map(|(version, refused)| (format!("{version}-MariaDB-log"), refused)),
        )
    } else {
        let versions = [("8.4.9", true), ("9.6.9", true), ("9.7.99", false)];
        (
            "mysqld",
            versions.map(|(version, refused)| (version.to_owned(), refused)),
        )
    };
    let (to, program) = (folder.join("data"), folder.join(name));
    for (version, refused) in versions {
        fs::write(
            &program,
            format!("#!/bin/sh\necho '{name}  Ver {version}'\n"),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let plan = |args: &[&str]| {
            let mut plan = place.command(&["restore", "one", "--plan"]);
            plan.arg("--to").arg(&to).args(args);
            plan.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
            Run::of(&mut plan)
        };
        if refused {
            let number = version.trim_end_matches("-MariaDB-log");
            plan(&[]).says(&format!("{name} is {number} here")).exits(3);
            // Another tool belongs to another server, except where none prepares the files.
            let code = if kind.is_mariadb() { 0 } else { 3 };
            plan(&["--tool", "mariadb-backup"]).exits(code);
        } else {
            plan(&[]).exits(0);
        }
    }
}

/// The private server ends with the program, and the next run removes its files.
fn killed_programs_leave_nothing(place: &Place) {
    let before = place.snapshot();
    let mut command = place.restoring("shop.parts");
    let mut child = command
        .arg("--replace")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    let socket = loop {
        let entries = fs::read_dir(&place.scratch)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut sockets = entries.map(|path| path.join("s"));
        if let Some(socket) = sockets.find(|path| UnixStream::connect(path).is_ok()) {
            break socket;
        }
        assert!(begun.elapsed() < LONG && child.try_wait().unwrap().is_none());
        std::thread::sleep(SOON);
    };
    child.kill().unwrap();
    child.wait().unwrap();
    while UnixStream::connect(&socket).is_ok() {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(SOON);
    }
    assert_eq!(private_folders(&place.scratch), 1);
    let left = before.rows.len() + usize::from(has_arrived(&place.server));
    assert_eq!(place.snapshot().rows.len(), left);
    place.restore("shop.parts", &["--replace"]).exits(0);
    place.assert_holds(&before);
}

fn has_arrived(server: &Instance) -> bool {
    let sql =
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'parts_refloat_new'";
    server.query(sql).unwrap().trim() == "1"
}

#[test]
fn tables_of_mariadb_10_11_come_back() {
    tables_come_back(ServerKind::MariaDb1011);
}

#[test]
fn tables_of_mariadb_11_8_come_back() {
    tables_come_back(ServerKind::MariaDb118);
}

#[test]
fn tables_of_mysql_come_back() {
    tables_come_back(ServerKind::MySql97);
}
