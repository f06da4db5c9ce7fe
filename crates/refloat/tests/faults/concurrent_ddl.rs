//! Random DDL while dumps are taken: a dump is consistent, or it says what changed.
//!
//! `REFLOAT_DDL_DUMPS` sets the number of dumps for each kind of server, `REFLOAT_DDL_SEED` the
//! seed of the changes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_sandbox::{Ephemeral, Instance, ServerKind};
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::seeded::{Dice, number};
use crate::support::{BOTH, Desk, Running, ask, dump, finish, kinds, shared, slow, table};

/// Default number of dumps for each kind of server, and of those among the slow tests.
const DUMPS: u64 = 4;
const DUMPS_SLOW: u64 = 10;
/// Rows of each table.
const ROWS: u64 = 1500;

/// The rows of a table as one list of values.
fn rows() -> String {
    let rows: Vec<String> = (1..=ROWS).map(|id| format!("({id},'row {id}')")).collect();
    rows.join(",")
}

fn fill(server: &Instance, db: &str) {
    let rows = rows();
    ask(server, &format!("CREATE DATABASE {db}"));
    for table in ["altered", "renamed", "emptied"] {
        ask(
            server,
            &format!(
                "CREATE TABLE {db}.{table} (id INT PRIMARY KEY, v VARCHAR(40)); INSERT INTO {db}.{table} VALUES {rows}"
            ),
        );
    }
    ask(
        server,
        &format!("CREATE VIEW {db}.seen AS SELECT 1 AS one; CREATE PROCEDURE {db}.done() SELECT 1"),
    );
}

/// Changes one definition after the other until stopped, pausing for less than `pause` in between.
fn change(server: &Instance, db: &str, seed: u64, pause: &AtomicU64, stop: &AtomicBool) {
    let mut dice = Dice(seed | 1);
    let mut conn = servers::connect(server);
    conn.exec(format!("USE {db}")).unwrap();
    let (mut has_column, mut is_renamed, mut has_table, rows) = (false, false, false, rows());
    while !stop.load(Ordering::Relaxed) {
        let statements = match dice.below(6) {
            0 => {
                has_column = !has_column;
                vec![if has_column {
                    format!(
                        "ALTER TABLE altered ADD COLUMN more INT DEFAULT {}",
                        dice.below(9)
                    )
                } else {
                    "ALTER TABLE altered DROP COLUMN more".to_owned()
                }]
            }
            1 => {
                is_renamed = !is_renamed;
                vec![if is_renamed {
                    "RENAME TABLE renamed TO other".to_owned()
                } else {
                    "RENAME TABLE other TO renamed".to_owned()
                }]
            }
            2 => vec![
                "TRUNCATE TABLE emptied".to_owned(),
                format!("INSERT INTO emptied VALUES {rows}"),
            ],
            3 => {
                has_table = !has_table;
                vec![if has_table {
                    "CREATE TABLE passing (id INT PRIMARY KEY) SELECT id FROM altered".to_owned()
                } else {
                    "DROP TABLE passing".to_owned()
                }]
            }
            4 => vec![format!(
                "CREATE OR REPLACE VIEW seen AS SELECT {} AS one",
                dice.below(1000)
            )],
            _ => vec![
                "DROP PROCEDURE done".to_owned(),
                format!("CREATE PROCEDURE done() SELECT {}", dice.below(1000)),
            ],
        };
        for statement in statements {
            conn.exec(&statement).unwrap_or_else(|error| {
                panic!("{}: {error}", &statement[..statement.len().min(80)])
            });
        }
        let most = Duration::from_micros(pause.load(Ordering::Relaxed));
        std::thread::sleep(most.mul_f64(dice.below(100) as f64 / 100.0));
    }
}

/// Stops the other thread, even if an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks what is true at every moment.
#[track_caller]
fn of_one_moment(desk: &Desk, target: &Instance) {
    let rows = ROWS.to_string();
    let has = |table: &str| {
        desk.ask(
            target,
            &format!("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '@db' AND TABLE_NAME = '{table}'"),
        ) == "1"
    };
    let count = |table: &str| desk.ask(target, &format!("SELECT COUNT(*) FROM @db.{table}"));
    assert_eq!(count("altered"), rows);
    assert!(
        has("renamed") != has("other"),
        "a table is there under two names, or none"
    );
    assert_eq!(
        count(if has("renamed") { "renamed" } else { "other" }),
        rows
    );
    let emptied = count("emptied");
    assert!(
        emptied == rows || emptied == "0",
        "emptied has {emptied} rows"
    );
    if has("passing") {
        assert_eq!(count("passing"), rows);
    }
    assert!(has("seen"));
}

fn dumps_among_changes(kind: ServerKind, dumps: u64) {
    let (source, target) = (servers::start(&servers::quick(kind)), shared(kind));
    let desk = Desk::new();
    fill(&source, &desk.db);
    let seed = number("REFLOAT_DDL_SEED", 20_261_122);
    // The pause adapts to the machine, even to one that gets slower during the test, so that some
    // dumps succeed and some do not.
    let dump = |round: u64| {
        let folder = desk.path(&format!("dump{round}"));
        let mut dump = desk.refloat(["dump", "--from", &source.url(), "--databases", &desk.db]);
        dump.arg("--out").arg(&folder);
        (finish(dump), folder)
    };
    let began = Instant::now();
    dump(0).0.exits(0);
    let pause = AtomicU64::new(began.elapsed().as_micros() as u64 / 8);
    let stop = AtomicBool::new(false);
    let mut whole = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| change(&source, &desk.db, seed, &pause, &stop));
        let _stop = Stop(&stop);
        // Success must not depend on luck: each dump that fails makes the changes rarer.
        let mut round = 0;
        while round < dumps || whole == 0 {
            round += 1;
            assert!(round < dumps + 50, "{kind}: no dump is whole");
            let (run, folder) = dump(round);
            let now = pause.load(Ordering::Relaxed);
            if run.code == Some(0) {
                whole += 1;
                pause.store(now * 2 / 3, Ordering::Relaxed);
                desk.load(&folder, target, &["--replace", "--durability", "keep"])
                    .exits(0);
                of_one_moment(&desk, target);
                ask(target, &format!("DROP DATABASE {}", desk.db));
            } else {
                pause.store(now * 3 / 2, Ordering::Relaxed);
                run.exits(1).says(
                    "was changed, exchanged, dropped or created by somebody while it was read",
                );
            }
        }
    });
    eprintln!("{kind}: {whole} dumps are whole, the others say what was changed");
}

#[test]
fn dumps_among_random_changes_of_definitions_are_of_one_moment_or_say_what_was_changed() {
    let dumps = if slow() { DUMPS_SLOW } else { DUMPS };
    for kind in BOTH {
        dumps_among_changes(kind, number("REFLOAT_DDL_DUMPS", dumps));
    }
}

/// A server with a large table, which is read first, and small ones, one of them partitioned, plus
/// others that could take their place. Its account `u` has the privileges for a dump, and `p` has
/// PROCESS as well.
fn exchangeable(kind: ServerKind, desk: &Desk, rows: u64) -> Ephemeral {
    let server = servers::start(&servers::quick(kind));
    let db = &desk.db;
    desk.load_text(dump(&table("first", rows)), &server, &[])
        .exits(0);
    let small = "(id INT PRIMARY KEY, v CHAR(9))";
    let cut = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))";
    ask(
        &server,
        &format!(
            "USE {db}; CREATE TABLE `t-ä` {small}; CREATE TABLE p {small} {cut}; INSERT INTO `t-ä` VALUES (1, 'old'); INSERT INTO p VALUES (1, 'old'); \
             ANALYZE TABLE first"
        ),
    );
    // Creation times have a resolution of one second.
    std::thread::sleep(Duration::from_millis(1100));
    ask(
        &server,
        &format!(
            "USE {db}; CREATE TABLE t_new {small}; CREATE TABLE p_new {small}; INSERT INTO t_new VALUES (1, 'new'); INSERT INTO p_new VALUES (1, 'new'); \
             CREATE USER u@'%', p@'%'; GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, RELOAD ON *.* TO u@'%', p@'%'; \
             GRANT PROCESS ON *.* TO p@'%'"
        ),
    );
    server
}

fn url_of(account: &str, server: &Instance) -> String {
    server.url().replace("root@", &format!("{account}@"))
}

/// Swaps a table for another one; a second time, it swaps them back.
const RENAME: &str = "RENAME TABLE `t-ä` TO t_old, t_new TO `t-ä`, t_old TO t_new";
/// Swaps a table for a partition, and back.
const PARTITION: &str = "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE p_new";

/// Swaps tables that are not read yet for others with the same definition.
fn exchanged(
    desk: &Desk,
    server: &Instance,
    account: &str,
    (number, statement): (usize, &str),
    found: Option<&str>,
) {
    let db = &desk.db;
    let out = desk.path(&format!("out-{number}"));
    let mut command = desk.refloat(["dump", "--from", &url_of(account, server)]);
    command.args(["--databases", db]).arg("--out").arg(&out);
    command.args(["--threads", "1"]);
    command.args(["--max-rate", "400K", "--skip", "routines"]);
    let running = Running::start(command);
    wait_until("rows are read", || out.join(db).join("schema.sql").exists());
    ask(server, &format!("USE {db}; {statement}"));
    let run = running.ends_within(Duration::from_secs(60));
    match found {
        Some(name) => {
            run.exits(1)
                .says(&format!("table {db}.{name} was changed"))
                .says("no manifest");
            assert!(!out.join("manifest.json").exists());
        }
        None => {
            run.exits(0)
                .says("or one of its partitions")
                .says("may not be noticed: the account lacks PROCESS");
        }
    }
}

// Hazard of dumps: L-110 a table or partition exchanged, or altered, between snapshot and reading:
//   of a dump, a copy, a comparison; what an account without `PROCESS` cannot notice is reported
#[test]
fn a_table_that_is_exchanged_for_another_of_the_same_definition_is_noticed() {
    for &kind in kinds() {
        let desk = Desk::new();
        let server = exchangeable(kind, &desk, 12_000);
        exchanged(&desk, &server, "p", (1, RENAME), Some("t-ä"));
        exchanged(&desk, &server, "p", (2, PARTITION), Some("p"));
        // Without the privilege to see a table's identity, its creation time is checked. If there
        // is none either, that is reported.
        exchanged(&desk, &server, "u", (3, RENAME), Some("t-ä"));
        exchanged(&desk, &server, "u", (4, PARTITION), None);
    }
}

#[test]
fn a_table_that_is_exchanged_while_it_is_copied_is_noticed() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = exchangeable(kind, &desk, 12_000);
        let target = servers::start(&servers::quick(kind));
        let db = &desk.db;
        let urls = (url_of("p", &server), target.url());
        for (statement, name) in [(RENAME, "t-ä"), (PARTITION, "p")] {
            let mut command = desk.refloat(["copy", "--from", &urls.0, "--to", &urls.1]);
            command.args(["--databases", db, "--threads", "1"]);
            command.args(["--max-rate", "400K", "--skip", "routines"]);
            let running = Running::start(command);
            // Definitions are copied before the first row is read.
            wait_until("rows are copied", || desk.tables(&target) >= 5);
            ask(&server, &format!("USE {db}; {statement}"));
            running
                .ends_within(Duration::from_secs(60))
                .exits(1)
                .says(&format!("table {db}.{name} was changed"))
                .says("--replace")
                .never_says("done and proven");
            servers::empty(&target);
        }
    }
}

/// Changes a table on one of two servers that are being compared, before it is read.
fn compared(desk: &Desk, both: &[Ephemeral; 2], changed: usize, statement: &str, name: &str) {
    let db = &desk.db;
    let urls = both.each_ref().map(|server| url_of("p", server));
    let verify = || {
        let mut command = desk.refloat(["verify", &urls[0], &urls[1], "--databases", db]);
        command.args(["--threads", "1"]);
        command
    };
    let mut conn = servers::connect(&both[changed]);
    let reading = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT /* refloat verify */%first%'";
    let mut reads = || conn.query(reading).unwrap().u64(0, 0) != Some(0);
    // It may have read everything before it is stopped.
    let mut attempts = (0..5).map(|_| {
        let mut running = Running::start(verify());
        while !reads() && !running.has_ended() {
            std::thread::sleep(Duration::from_millis(2));
        }
        running.signal("STOP");
        reads().then_some(running)
    });
    let running = attempts.find_map(|running| running);
    let running = running.expect("stopped in time");
    ask(&both[changed], &format!("USE {db}; {statement}"));
    running.signal("CONT");
    let side = ["first side", "second side"][changed];
    running
        .ends_within(Duration::from_secs(60))
        .exits(1)
        .says(&format!("table {db}.{name} of the {side} was changed"))
        .says("Compare again")
        .never_says("the SAME");
}

#[test]
fn a_table_that_is_exchanged_or_altered_while_it_is_compared_is_noticed() {
    for kind in BOTH {
        let desk = Desk::new();
        let both = [0, 1].map(|_| exchangeable(kind, &desk, 150_000));
        for (changed, statement, name) in [(0, RENAME, "t-ä"), (1, PARTITION, "p")] {
            compared(&desk, &both, changed, statement, name);
            ask(&both[changed], &format!("USE {}; {statement}", desk.db));
        }
        // The stored rows stay as they are, so InnoDB goes on reading.
        let default = "ALTER TABLE `t-ä` ALTER COLUMN v SET DEFAULT 'none'";
        compared(&desk, &both, 1, default, "t-ä");
    }
}
