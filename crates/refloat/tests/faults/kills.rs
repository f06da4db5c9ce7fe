//! Kills at random moments, of the program and of the server. Whatever is killed, and however
//! often, the same command resumes, and in the end nothing is missing and nothing is there twice.
//!
//! `REFLOAT_KILLS` sets the number of kills for each kind of server, `REFLOAT_KILL_SEED` the seed
//! of their moments.

// Hazard of faults: L-98, L-133, L-135 kills of program and server at random moments, with and
//   without keys, with other engines; a commit whose answer is lost; a writer that loses its
//   connection (all three servers) | , `resumed`
// Hazard of faults: L-80, L-82 programs of a killed load are created again; its index builds are
//   ended and done again; statements in doubt are left to people | , `resumed`

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use refloat_sandbox::{Ephemeral, Instance, ServerKind, StartOptions};
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::seeded::{Dice, number};
use crate::source_forms::{Part, Sources, Way};
use crate::support::{BOTH, Desk, Run, Running, ask, dump, finish, shared, table};

/// Default number of kills for each kind of server: MySQL takes several times as long to restart.
fn usual_kills(kind: ServerKind) -> u64 {
    match kind {
        ServerKind::MySql97 => 4,
        _ => 7,
    }
}

/// Upper limit for an undisturbed load.
const LONG: Duration = Duration::from_secs(180);
/// Offset between the first ways that two kinds of servers use.
const FIRST_WAY: usize = 3;
/// Limit for the kills of one load.
const KILLS_EACH: u64 = 4;

/// Something of everything that a load must get right: deferred keys, no keys, foreign keys,
/// engines without transactions, partitions, generated columns, views, programs.
const SCHEMA: &str = "
SET NAMES utf8mb4; CREATE DATABASE shop; USE shop;
CREATE TABLE ten (n INT NOT NULL PRIMARY KEY);
INSERT INTO ten VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
CREATE TABLE numbers (n INT NOT NULL PRIMARY KEY);
INSERT INTO numbers SELECT a.n + 10*b.n + 100*c.n + 1000*d.n + 10000*e.n FROM ten a, ten b, ten c, ten d, ten e WHERE e.n < 5;
CREATE TABLE customers (id INT NOT NULL AUTO_INCREMENT, name VARCHAR(120) NOT NULL, city VARCHAR(40) DEFAULT NULL,
  PRIMARY KEY (id), UNIQUE KEY name (name), KEY city (city)) ENGINE=InnoDB;
INSERT INTO customers SELECT n + 1, CONCAT('customer it''s ', n, REPEAT('x', 80)), CONCAT('city ', n % 97) FROM numbers;
CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, customer INT NOT NULL, total DECIMAL(12,2) NOT NULL, twice DECIMAL(14,2) AS (total * 2) STORED,
  note VARCHAR(200) DEFAULT NULL, KEY customer (customer), KEY total (total),
  CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id)) ENGINE=InnoDB;
INSERT INTO orders (id, customer, total, note) SELECT n * 3, 1 + n % 1000, n / 7, IF(n % 5, CONCAT('note ', n, REPEAT(' y', 40)), NULL) FROM numbers;
CREATE TABLE no_key (a INT, b VARCHAR(60)) ENGINE=InnoDB;
INSERT INTO no_key SELECT n % 10, 'the same words in many rows, which nothing tells apart' FROM numbers;
CREATE TABLE old_engine (id INT NOT NULL PRIMARY KEY, v VARCHAR(60), KEY v (v)) ENGINE=MyISAM;
INSERT INTO old_engine SELECT n, CONCAT('value ', n % 100) FROM numbers WHERE n < 20000;
CREATE TABLE old_no_key (v VARCHAR(60)) ENGINE=MyISAM;
INSERT INTO old_no_key SELECT CONCAT('value ', n % 7) FROM numbers WHERE n < 20000;
CREATE TABLE parts (id INT NOT NULL, day DATE NOT NULL, v VARCHAR(30), PRIMARY KEY (id, day), KEY v (v)) ENGINE=InnoDB
  PARTITION BY RANGE (YEAR(day)) (PARTITION p0 VALUES LESS THAN (2001), PARTITION p1 VALUES LESS THAN (2002), PARTITION p2 VALUES LESS THAN MAXVALUE);
INSERT INTO parts SELECT n, DATE_ADD('2000-01-01', INTERVAL n % 1500 DAY), n FROM numbers WHERE n < 30000;
CREATE TABLE log (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, what VARCHAR(50) NOT NULL) ENGINE=InnoDB;
INSERT INTO log (what) VALUES ('one'), ('two');
CREATE TRIGGER customers_ai AFTER INSERT ON customers FOR EACH ROW INSERT INTO log (what) VALUES ('a customer came');
CREATE TRIGGER old_bi BEFORE INSERT ON old_engine FOR EACH ROW SET NEW.v = CONCAT('! ', NEW.v);
CREATE VIEW rich AS SELECT c.name, SUM(o.total) AS total FROM customers c JOIN orders o ON o.customer = c.id GROUP BY c.name;
CREATE VIEW richest AS SELECT MAX(total) AS total FROM rich;
CREATE FUNCTION doubled (n INT) RETURNS INT DETERMINISTIC NO SQL RETURN n * 2;
CREATE PROCEDURE clean () DELETE FROM log;
CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01 00:00:00' DO DELETE FROM log;
";

/// Small tables, so that some kills fall between tables.
fn small_tables() -> String {
    let mut text = String::new();
    for at in 0..30 {
        let _ = writeln!(
            text,
            "CREATE TABLE small_{at} (id INT NOT NULL PRIMARY KEY, v VARCHAR(20), KEY v (v)) ENGINE=InnoDB; \
                 INSERT INTO small_{at} VALUES (1, 'a'), (2, 'b'), ({}, NULL);",
            at + 10
        );
    }
    text
}

/// Only programs are killed here, never the machine: whatever was written survives, on disk or not.
fn options(kind: ServerKind) -> StartOptions {
    let options = StartOptions::new(kind)
        .option("innodb_flush_log_at_trx_commit", "2")
        .option("sync_binlog", "0");
    match kind {
        // Otherwise functions need a privilege that a dump's definer may lack.
        ServerKind::MySql97 => options.option("log_bin_trust_function_creators", "ON"),
        _ => options,
    }
}

fn sources(desk: &Desk, kind: ServerKind) -> Sources {
    let server = servers::start(&options(kind));
    ask(&server, &format!("{SCHEMA}{}", small_tables()));
    Sources::dump(desk, &server, kind)
}

fn start(desk: &Desk, part: &Part, server: &Instance) -> Running {
    // Small chunks give more distinct moments.
    let mut command = desk.refloat([
        "load",
        "--chunk-bytes",
        "1M",
        "--durability",
        "relaxed",
        "--no-progress",
    ]);
    command.args(&part.args).args(["--to", &server.url()]);
    if let Some(path) = &part.stdin {
        command.stdin(Stdio::from(File::open(path).unwrap()));
    }
    Running::start(command)
}

/// Kills the load or its server after some time. Returns how the load ended, and whether it had
/// already ended by itself.
fn killed(running: Running, server: &mut Ephemeral, victim: u64, after: Duration) -> (Run, bool) {
    let mut running = running;
    let since = Instant::now();
    while since.elapsed() < after && !running.has_ended() {
        std::thread::sleep(Duration::from_millis(2));
    }
    if running.has_ended() {
        return (running.ends_within(LONG), false);
    }
    match victim {
        0 => running.signal("INT"),
        1 | 2 => {
            server.kill().unwrap();
            let run = running.ends_within(LONG);
            server.restart().unwrap();
            return (run, true);
        }
        _ => running.signal("KILL"),
    }
    (running.ends_within(LONG), true)
}

/// What a load and an inspection say about an unfinished dump.
const NOT_WHOLE: &str =
    "no manifest.json (refloat; written last, so a dump that was not finished has none)";

/// A killed dump is refused as incomplete by every reader, or it was complete and only lacked its
/// report. Returns whether it was complete.
#[track_caller]
fn is_whole_or_refused(desk: &Desk, out: &Path, url: &str) -> bool {
    let source = out.to_str().unwrap();
    let inspected = finish(desk.refloat(["inspect", source]));
    if out.join("manifest.json").exists() {
        inspected.exits(0);
        finish(desk.refloat(["verify", source, url])).exits(0);
        return true;
    }
    let loaded = finish(desk.refloat(["load", source, "--to", url, "--replace"]));
    if out.exists() {
        inspected.exits(3).says(NOT_WHOLE);
        loaded.exits(3).says(NOT_WHOLE);
    } else {
        inspected.exits(1).says("no such file");
        loaded.exits(1).says("no such file");
    }
    false
}

#[test]
fn a_dump_that_was_killed_is_refused_as_not_whole() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        desk.load_text(dump(&table("items", 5000)), server, &[])
            .exits(0);
        // A new table is not cut while its estimates know nothing of its rows.
        desk.ask(server, "ANALYZE TABLE @db.items");
        let (url, out) = (server.url(), desk.path("out"));
        let mut command = desk.refloat(["dump", "--from", &url, "--databases", &desk.db]);
        command.args(["--max-rate", "100K", "--chunk-size", "20K", "--out"]);
        command.arg(&out);
        let running = Running::start(command);
        wait_until("rows are written", || {
            let files = std::fs::read_dir(out.join(&desk.db));
            files.is_ok_and(|files| {
                files.flatten().any(|file| {
                    file.path().to_string_lossy().contains(".tsv")
                        && file.metadata().is_ok_and(|it| it.len() > 0)
                })
            })
        });
        running.signal("KILL");
        running.ends_within(LONG);
        assert!(!is_whole_or_refused(&desk, &out, &url), "{kind}");
        // A refused load has touched nothing, even with --replace.
        assert_eq!(desk.rows(server, "items"), Some(5000), "{kind}");
    }
}

/// A killed dump is incomplete, or was already done, and gets in nobody's way; the next one is
/// complete. Returns the number of kills.
fn killed_dump(desk: &Desk, server: &mut Ephemeral, dice: &mut Dice, round: u64) -> u64 {
    let url = server.url();
    let dump = |name: &str| {
        let out = desk.path(&format!("{name}-{round}"));
        let mut command = desk.refloat(["dump", "--from", &url, "--no-progress", "--out"]);
        command.arg(&out);
        (out, Running::start(command))
    };
    let (out, running) = dump("killed");
    let moment = Duration::from_millis(dice.below(1500));
    let victim = dice.below(6);
    let (run, hit) = killed(running, server, victim, moment);
    let kills = u64::from(run.code != Some(0));
    if kills > 0 {
        assert!(hit, "it failed by itself: {run:?}");
        is_whole_or_refused(desk, &out, &url);
    }
    let (out, running) = dump("whole");
    running.ends_within(LONG).exits(0);
    finish(desk.refloat(["verify", out.to_str().unwrap(), &url])).exits(0);
    for name in ["killed", "whole"] {
        let _ = std::fs::remove_dir_all(desk.path(&format!("{name}-{round}")));
    }
    kills
}

/// The statement that a load suggests if MariaDB was killed while it created a partitioned table
/// and has kept some partitions.
fn advised_drop(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("run DROP TABLE ")?;
    let (name, _) = rest.split_once(" on the server")?;
    Some(format!("DROP TABLE {name}"))
}

/// The file unknown to a server that was killed, in the place of a table to create.
fn advised_move(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("Move ")?;
    let (file, _) = rest.split_once(" out of the data folder")?;
    Some(file)
}

#[test]
fn partitions_that_a_killed_server_kept_are_named_with_the_way_to_drop_them() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        let table = "CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2";
        ask(
            &server,
            &format!(
                "CREATE DATABASE {0}; USE {0}; {table}; FLUSH TABLES",
                desk.db
            ),
        );
        // What the server had not yet created when it was killed.
        for name in ["parts.frm", "parts.par"] {
            std::fs::remove_file(server.datadir().join(&desk.db).join(name)).unwrap();
        }
        ask(&server, "FLUSH TABLES");
        let text = dump(&format!(
            "{table};\nINSERT INTO parts VALUES (1),(2),(3);\n"
        ));
        for kept in ["p0", "p1"] {
            let run = desk.load_text(text.clone(), &server, &["--append"]);
            let run = run
                .exits(1)
                .says(&format!("`{}`.`#mysql50#parts#P#{kept}`", desk.db));
            ask(&server, &advised_drop(&run.stderr).unwrap());
        }
        desk.load_text(text, &server, &["--append"]).exits(0);
        assert_eq!(desk.rows(&server, "parts"), Some(3));
    }
}

/// One load, killed several times before it may finish.
struct Killed<'a> {
    desk: &'a Desk,
    part: &'a Part,
    /// Duration of the undisturbed load.
    whole: Duration,
    /// How often it may still be killed.
    left: u64,
    /// Whether the server was killed during an earlier load: what it failed to remove may only now
    /// get in the way.
    crashed: bool,
}

/// How the load went.
#[derive(Default)]
struct Ended {
    kills: u64,
    /// Whether the server was killed, during this load or an earlier one.
    crashed: bool,
    /// Whether it could report that everything was done.
    reported: bool,
    /// What it printed until then.
    text: String,
}

impl Killed<'_> {
    fn until_done(mut self, server: &mut Ephemeral, dice: &mut Dice, story: &mut String) -> Ended {
        let mut ended = Ended {
            crashed: self.crashed,
            ..Ended::default()
        };
        loop {
            let running = start(self.desk, self.part, server);
            let (run, hit) = if self.left == 0 {
                story.push_str("; nothing more");
                (running.ends_within(LONG), false)
            } else {
                self.left -= 1;
                let victim = dice.below(6);
                ended.crashed |= matches!(victim, 1 | 2);
                let moment = self.whole.mul_f64(dice.below(1100) as f64 / 1000.0);
                let _ = write!(story, "; {victim} after {moment:?}");
                killed(running, server, victim, moment)
            };
            if !hit {
                if ended.crashed
                    && let Some(drop) = advised_drop(&run.stderr)
                {
                    ask(server, &drop);
                    continue;
                }
                if ended.crashed
                    && let Some(file) = advised_move(&run.stderr)
                {
                    std::fs::remove_file(server.datadir().join(file)).unwrap();
                    continue;
                }
                assert!(matches!(run.code, Some(0 | 3)), "{story}: {run:?}");
            }
            // It was killed after everything was done but before it could say so, possibly while it
            // removed its own tables. The next load finds and removes those.
            let done = ["shop is not empty", "already holds rows"];
            match run.code {
                Some(0) => {
                    ended.text.push_str(&run.stderr);
                    ended.reported = true;
                    return ended;
                }
                Some(3) if done.iter().any(|words| run.stderr.contains(words)) => return ended,
                // It was killed or stopped, or its server was.
                None | Some(1 | 5 | 6) => {
                    ended.text.push_str(&run.stderr);
                    ended.kills += 1;
                    let _ = write!(story, " -> {:?}", run.code);
                    assert!(
                        run.code.is_none() || !run.stdout.contains("done and proven"),
                        "{story}: {run:?}"
                    );
                    let bad = [
                        "defect",
                        "panicked",
                        "it is not known whether",
                        "are not those that",
                    ];
                    assert!(
                        !bad.iter().any(|words| run.stderr.contains(words)),
                        "{story}\n{}",
                        run.stderr
                    );
                }
                _ => panic!("{story}: {run:?}"),
            }
        }
    }
}

fn kills(kind: ServerKind) {
    let seed = number("REFLOAT_KILL_SEED", u64::from(std::process::id())).max(1);
    eprintln!("{kind}: REFLOAT_KILL_SEED={seed}");
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let desk = Desk::new();
    let sources = sources(&desk, kind);
    let mut server = servers::start(&options(kind));
    let begun = Instant::now();
    start(&desk, &sources.of(Way::Plain).parts[0], &server)
        .ends_within(LONG)
        .exits(0);
    let whole = begun.elapsed();
    ask(&server, "DROP DATABASE shop");
    let wanted = number("REFLOAT_KILLS", usual_kills(kind));
    let (mut done, mut round) = (0, 0);
    // In turn, starting with another one on each kind of server, so that even a few kills cover
    // every way.
    let first = seed as usize + FIRST_WAY * kind as usize;
    while done < wanted {
        let way = Way::ALL[(first + round as usize) % Way::ALL.len()];
        round += 1;
        let given = sources.of(way);
        ask(&server, &given.needs);
        let parts = given.parts.len() as u64;
        let mut story = format!("{kind}, seed {seed}, round {round}, {way:?}");
        let (mut last, mut crashed, mut reported) = (String::new(), false, true);
        for part in &given.parts {
            let load = Killed {
                desk: &desk,
                part,
                whole: whole.div_f64(parts as f64),
                left: 1 + dice.below(KILLS_EACH / parts),
                crashed,
            };
            let ended = load.until_done(&mut server, &mut dice, &mut story);
            done += ended.kills;
            last.push_str(&ended.text);
            crashed |= ended.crashed;
            // What one load could not remove, the next one does.
            reported = ended.reported;
        }
        let left_behind = ask(&server, "SHOW DATABASES LIKE 'refloat%'");
        let tables =
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 'refloat%'";
        let tables = ask(&server, tables);
        // A server killed while it drops a schema may keep an empty one. A load that was done by
        // then reports that the journal of its settings stays, or the empty table that makes their
        // removal durable. The next load removes them.
        let harmless = |table| matches!(table, "settings_journal" | "removal_settled");
        let excused = crashed && tables.lines().all(harmless);
        assert!(
            !reported || left_behind.is_empty() || excused,
            "{story}: left: {left_behind} with {tables}; it said\n{last}"
        );
        for left in left_behind.lines() {
            let drop = format!("DROP DATABASE {left}");
            if crashed && servers::connect(&server).exec(&drop).is_err() {
                // A server killed while it drops a schema may leave a file that it no longer knows.
                let files = std::fs::read_dir(server.datadir().join(left)).unwrap();
                files.for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
            }
            ask(&server, &drop.replace("DATABASE", "DATABASE IF EXISTS"));
        }
        let snapshot = Snapshot::take(&mut servers::connect(&server), Scope::default()).unwrap();
        let found = differences(&given.wanted, &snapshot);
        assert!(found.is_empty(), "{story}\n{}", found[0]);
        eprintln!("{story}: the same");
        if dice.below(3) == 0 {
            done += killed_dump(&desk, &mut server, &mut dice, round);
        }
        ask(&server, "DROP DATABASE shop");
    }
}

#[test]
fn random_kills_on_mariadb_10_11() {
    kills(ServerKind::MariaDb1011);
}

#[test]
#[ignore = "minutes; kills on the other MariaDB and on MySQL run always"]
fn random_kills_on_mariadb_11_8() {
    kills(ServerKind::MariaDb118);
}

#[test]
fn random_kills_on_mysql_9_7() {
    kills(ServerKind::MySql97);
}
