//! Dumps: one moment for all rows, and what happens if that, or anything else, cannot be had.

// Hazard of faults: S-15 secrets of a dump: accounts and their hashes come with `--users` alone,
//   in a file of their own; servers of `CREATE SERVER` and of replication are not in it; a
//   `FEDERATED` table's definition with its `CONNECTION` is, and named; all of it for its owner
//   alone | (`accounts_and_definers`), `whole_server`, `attributes`, `file_modes`

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use refloat_sandbox::{Ephemeral, Instance, ServerKind};
use refloat_source::manifest;
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::servers;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::wait_until;
use serde_json::Value;

use crate::large_dumps::peak_kib;
use crate::support::{
    BOTH, Desk, Run, Running, ask, dump, edit_manifest, fill_wide, finish, kill_sessions, shared,
    table,
};

/// Concurrent writers.
const WRITERS: u64 = 3;
/// Accounts in each of the bank's two tables.
const ACCOUNTS: u64 = 2000;

fn dump_command(desk: &Desk, url: &str, out: &Path, more: &[&str]) -> Command {
    let mut command = desk.refloat(["dump", "--from", url, "--out"]);
    command.arg(out).args(["--databases", &desk.db]).args(more);
    command
}

/// Dumps this desk's database.
fn dump_it(desk: &Desk, server: &Instance, name: &str, more: &[&str]) -> (Run, PathBuf) {
    let out = desk.path(name);
    let run = finish(dump_command(desk, &server.url(), &out, more));
    (run, out)
}

fn read_manifest(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(out.join("manifest.json")).unwrap()).unwrap()
}

/// The entry of a table in a manifest.
fn table_of<'a>(manifest: &'a Value, name: &str) -> &'a Value {
    let tables = manifest["databases"][0]["tables"].as_array().unwrap();
    tables.iter().find(|table| table["name"] == name).unwrap()
}

/// Sum of a column in an uncompressed dump.
fn sum_of(out: &Path, table: &Value, column: usize) -> i64 {
    let mut sum = 0;
    for chunk in table["chunks"].as_array().unwrap() {
        let text = fs::read_to_string(out.join(chunk["path"].as_str().unwrap())).unwrap();
        sum += text
            .lines()
            .map(|line| {
                line.split('\t')
                    .nth(column)
                    .unwrap()
                    .parse::<i64>()
                    .unwrap()
            })
            .sum::<i64>();
    }
    sum
}

/// A server with binary log and GTIDs.
fn logging(kind: ServerKind) -> Ephemeral {
    logging_but(kind, None)
}

/// Like [`logging`], optionally with a database that MariaDB's log ignores.
fn logging_but(kind: ServerKind, left_out: Option<&str>) -> Ephemeral {
    let options = servers::quick(kind);
    let options = if kind.is_mariadb() {
        let options = options.option("log_bin", "binlog").option("server_id", "1");
        match left_out {
            Some(db) => options.option("binlog_ignore_db", db),
            None => options,
        }
    } else {
        options
            .option("gtid_mode", "ON")
            .option("enforce_gtid_consistency", "ON")
    };
    // Below REPEATABLE READ, a consistent snapshot is ignored with a warning: the dump must not
    // inherit that level.
    servers::start(&options.option("transaction_isolation", "READ-COMMITTED"))
}

/// Number of transactions in a GTID position: MySQL's `uuid:1-N`, MariaDB's `0-1-N`.
fn transactions(gtid: &str) -> u64 {
    gtid.rsplit(['-', ':'])
        .next()
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Moves money from one table to another during dumps. No dump may lose any, and its position must
/// be that of its rows.
fn bank(kind: ServerKind, more_tables: &str, method: &str) {
    let (server, desk) = (logging(kind), Desk::new());
    bank_of(&server, &desk, more_tables, None, ("4", method));
}

/// Like [`bank`], on an existing server. If writes are not logged, the writers' transactions start
/// with `unlogged`.
fn bank_of(
    server: &Ephemeral,
    desk: &Desk,
    more_tables: &str,
    unlogged: Option<&str>,
    (threads, method): (&str, &str),
) {
    let kind = server.kind();
    let rows: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id},1000)")).collect();
    ask(
        server,
        &format!(
            "CREATE DATABASE {0}; USE {0}; CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE TABLE b (id INT PRIMARY KEY, v INT); \
             CREATE TABLE log (id BIGINT PRIMARY KEY AUTO_INCREMENT, w INT); {more_tables} \
             INSERT INTO a VALUES {1}; INSERT INTO b VALUES {1}",
            desk.db,
            rows.join(",")
        ),
    );
    // The estimates for a new table would cut it badly, or not at all.
    ask(server, &format!("ANALYZE TABLE {0}.a, {0}.b", desk.db));
    let position = if kind.is_mariadb() {
        "SELECT @@global.gtid_binlog_pos"
    } else {
        "SELECT @@global.gtid_executed"
    };
    let logged = ask(server, position);
    let before = unlogged.is_none().then(|| transactions(&logged));
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (stop, done, db) = (&stop, &done, &desk.db);
            scope.spawn(move || {
                let mut conn = servers::connect(server);
                conn.exec(unlogged.unwrap_or("DO 1")).unwrap();
                conn.exec(format!("USE {db}")).unwrap();
                let mut at = writer;
                while !stop.load(Ordering::Relaxed) {
                    at = (at * 7919 + 1) % ACCOUNTS;
                    // Always in this order, so that writers wait for each other without deadlocks.
                    for statement in [
                        "START TRANSACTION".to_owned(),
                        format!("UPDATE a SET v = v - 7 WHERE id = {at}"),
                        format!("UPDATE b SET v = v + 7 WHERE id = {at}"),
                        format!("INSERT INTO log (w) VALUES ({writer})"),
                        "COMMIT".to_owned(),
                    ] {
                        conn.exec(statement).unwrap();
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        wait_until("the writers write", || done.load(Ordering::Relaxed) > 100);
        for number in 0..5 {
            let (run, out) = dump_it(
                desk,
                server,
                &format!("dump{number}"),
                &[
                    "--threads",
                    threads,
                    "--compress",
                    "none",
                    "--chunk-size",
                    "4K",
                ],
            );
            run.exits(0).says("all rows of one moment").says(method);
            let manifest = read_manifest(&out);
            let (a, b) = (table_of(&manifest, "a"), table_of(&manifest, "b"));
            assert!(
                a["chunks"].as_array().unwrap().len() > 2,
                "it was not cut: {a}"
            );
            let sum = sum_of(&out, a, 1) + sum_of(&out, b, 1);
            assert_eq!(
                sum,
                2 * 1000 * ACCOUNTS.cast_signed(),
                "{kind}: money was lost or made"
            );
            let Some(before) = before else { continue };
            let at = transactions(manifest["snapshot"]["gtid"].as_str().unwrap());
            assert_eq!(
                table_of(&manifest, "log")["rows"].as_u64().unwrap(),
                at - before,
                "{kind}: the position is not the one of the rows"
            );
        }
    });
}

// Hazard of dumps: L-103, L-111, L-112, L-113 one moment, other engines beside, position equal to
//   the rows, isolation of the server
#[test]
fn every_dump_of_a_busy_mariadb_is_of_one_moment() {
    bank(ServerKind::MariaDb118, "", "BACKUP STAGE BLOCK_COMMIT");
}

#[test]
fn one_reader_of_a_busy_mariadb_is_of_one_moment_without_a_lock() {
    let (server, desk) = (logging(ServerKind::MariaDb1011), Desk::new());
    bank_of(&server, &desk, "", None, ("1", "nobody had to wait"));
}

#[test]
fn what_the_log_of_a_busy_mariadb_lacks_is_of_one_moment_too() {
    let desk = Desk::new();
    let locked = ("4", "BACKUP STAGE BLOCK_COMMIT");
    let server = logging_but(ServerKind::MariaDb1011, Some(&desk.db));
    bank_of(&server, &desk, "", Some("DO 1"), locked);
    let (server, desk) = (logging(ServerKind::MariaDb118), Desk::new());
    let without_log = Some("SET SESSION sql_log_bin = 0");
    bank_of(&server, &desk, "", without_log, locked);
}

/// Equal log positions prove nothing: the dump says so, and is refused if proof is required.
#[test]
fn equal_places_in_the_log_are_not_called_one_moment() {
    let server = logging(ServerKind::MariaDb1011);
    let desk = Desk::new();
    desk.load_text(dump(&table("items", 100)), &server, &[])
        .exits(0);
    ask(
        &server,
        &format!("CREATE USER u@'%'; GRANT SELECT ON {}.* TO u@'%'", desk.db),
    );
    let url = server.url().replace("root@", "u@");
    let all = format!("{}.items", desk.db);
    let dump = |name: &str, threads: &str, consistency: &str| {
        let mut command = desk.refloat(["dump", "--from", &url, "--tables", &all]);
        command.args([
            "--skip",
            "views,routines,triggers,events",
            "--threads",
            threads,
        ]);
        command.args(["--consistency", consistency, "--out"]);
        command.arg(desk.path(name));
        finish(command)
    };
    dump("best", "4", "best")
        .exits(0)
        .says("NOT guaranteed to be of one moment")
        .says("sql_log_bin=0")
        .says("--threads 1 sees one moment");
    let snapshot = &read_manifest(&desk.path("best"))["snapshot"];
    assert_eq!(snapshot["consistent"], false);
    assert!(snapshot["binlog_position"].is_u64(), "{snapshot}");
    dump("required", "4", "require").exits(3).says("RELOAD");
    dump("alone", "1", "require")
        .exits(0)
        .says("all rows of one moment")
        .says("nobody had to wait");
}

#[test]
fn nobody_waits_for_one_reader_of_a_mariadb_that_logs() {
    let server = logging(ServerKind::MariaDb1011);
    let desk = Desk::new();
    desk.load_text(dump(&table("items", 100)), &server, &[])
        .exits(0);
    let require = ["--threads", "1", "--consistency", "require"];
    let (run, out) = dump_it(&desk, &server, "out", &require);
    run.exits(0)
        .says("all rows of one moment")
        .says("nobody had to wait");
    let snapshot = &read_manifest(&out)["snapshot"];
    let position = ask(&server, "SHOW MASTER STATUS");
    let at = format!(
        "{}\t{}",
        snapshot["binlog_file"].as_str().unwrap(),
        snapshot["binlog_position"]
    );
    assert!(position.starts_with(&at), "{position}, not {at}");
    assert_eq!(
        ask(&server, "SELECT @@global.gtid_binlog_pos"),
        snapshot["gtid"].as_str().unwrap()
    );
}

#[test]
fn every_dump_of_a_busy_mariadb_with_other_engines_is_of_one_moment() {
    let other =
        "CREATE TABLE other (id INT PRIMARY KEY) ENGINE=MyISAM; INSERT INTO other VALUES (1);";
    bank(ServerKind::MariaDb1011, other, "BACKUP STAGE BLOCK_COMMIT");
}

#[test]
fn every_dump_of_a_busy_mysql_is_of_one_moment() {
    bank(ServerKind::MySql97, "", "FLUSH TABLES WITH READ LOCK");
}

// Hazard of dumps: L-115 a lock behind a long query
#[test]
fn a_long_query_is_not_waited_behind_in_silence() {
    let server = servers::start(&servers::quick(ServerKind::MySql97));
    let desk = Desk::new();
    ask(
        &server,
        &format!(
            "CREATE DATABASE {0}; CREATE TABLE {0}.t (i INT PRIMARY KEY); INSERT INTO {0}.t VALUES (1)",
            desk.db
        ),
    );
    let mut conn = servers::connect(&server);
    let killer = conn.killer();
    let query = format!("SELECT SLEEP(600) FROM {}.t", desk.db);
    let long = std::thread::spawn(move || conn.exec(query));
    std::thread::sleep(Duration::from_secs(4));
    let (run, out) = dump_it(&desk, &server, "out", &["--lock-wait", "1"]);
    run.exits(3)
        .says("SELECT SLEEP(600)")
        .says("no consistent snapshot")
        .says("--lock-wait");
    assert!(!out.exists(), "something was written");
    // No lock is left over that would block anybody.
    ask(&server, &format!("INSERT INTO {}.t VALUES (2)", desk.db));
    killer.kill_query().unwrap();
    let _ = long.join().unwrap();
    dump_it(&desk, &server, "out", &[]).0.exits(0);
}

// Hazard of dumps: L-110 DDL meanwhile; at random, in many dumps (`REFLOAT_DDL_DUMPS`) | ,
//   `faults/concurrent_ddl.rs`
#[test]
fn definitions_that_change_meanwhile_are_noticed_or_cannot_change() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        desk.load_text(
            dump(&format!(
                "{}{}",
                table("first", 30_000),
                table("second", 2000)
            )),
            server,
            &["--durability", "keep"],
        )
        .exits(0);
        let out = desk.path("out");
        let more = ["--threads", "1", "--compress", "none", "--max-rate", "700K"];
        let running = Running::start(dump_command(&desk, &server.url(), &out, &more));
        wait_until("rows are read", || {
            out.join(&desk.db).join("schema.sql").exists()
        });
        let alter = format!(
            "SET SESSION lock_wait_timeout = 60; ALTER TABLE {}.second ADD COLUMN more INT",
            desk.db
        );
        ask(server, &alter);
        let run = running.ends_within(Duration::from_secs(60));
        if kind.is_mariadb() {
            run.exits(1)
                .says(&format!("table {}.second was changed", desk.db))
                .says("no manifest");
            assert!(!out.join("manifest.json").exists());
        } else {
            // The DDL had to wait until the dump was over.
            run.exits(0);
            assert_eq!(
                table_of(&read_manifest(&out), "second")["columns"]
                    .as_array()
                    .unwrap()
                    .len(),
                3
            );
        }
    }
}

// Hazard of dumps: L-116 limits of the server
#[test]
fn limits_of_the_server_do_not_cut_rows_off() {
    for kind in BOTH {
        let limit = if kind.is_mariadb() {
            "max_statement_time"
        } else {
            "max_execution_time"
        };
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        desk.load_text(dump(&table("items", 3000)), &server, &[])
            .exits(0);
        ask(
            &server,
            &format!(
                "SET GLOBAL sql_select_limit = 10, GLOBAL group_concat_max_len = 4, GLOBAL {limit} = 1"
            ),
        );
        let (run, out) = dump_it(&desk, &server, "out", &["--max-rate", "100K"]);
        run.exits(0);
        assert_eq!(
            table_of(&read_manifest(&out), "items")["rows"],
            3000,
            "{kind}"
        );
    }
}

/// A name ending in `.gz` gives a file that gzip reads. Unsupported endings are refused, and
/// nothing is left behind.
#[test]
fn a_dump_is_what_its_name_says() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    desk.load_text(dump(&table("items", 100)), server, &[])
        .exits(0);
    for (name, program) in [
        ("x.sql.gz", "gzip"),
        ("x.sql.zst", "zstd"),
        ("x.sql", "cat"),
    ] {
        let (run, out) = dump_it(&desk, server, name, &["--format", "sql"]);
        run.exits(0);
        let mut unpacked = Command::new(program);
        if program != "cat" {
            unpacked.arg("-dc");
        }
        let unpacked = unpacked.arg(&out).output().expect("the program is there");
        let text = String::from_utf8_lossy(&unpacked.stdout);
        assert!(text.contains("Dump completed"), "{name}");
    }
    for (name, format, says) in [
        ("x.sql.xz", "sql", "does not write"),
        ("x.sql.lz4", "sql", "does not write"),
        ("x.tar.gz", "sql", "one SQL file"),
        ("x.tar", "refloat", "--out - >"),
        ("s.tar.zst", "refloat", "s.tar."),
        ("s.tgz", "refloat", "a dump is a folder"),
        ("s.sql", "refloat", "--format sql"),
        ("s.zst", "refloat", "a dump is a folder"),
    ] {
        let (run, out) = dump_it(&desk, server, name, &["--format", format]);
        run.exits(3)
            .says(&format!("{name} is the name of"))
            .says(says)
            .never_says("Remove it");
        assert!(!out.exists(), "{name}");
    }
    // A database in the URL is the one that is dumped.
    let url = format!("{}{}", server.url(), desk.db);
    let of_url = |name: &str, more: &[&str]| {
        let out = desk.path(name);
        let mut command = desk.refloat(["dump", "--from", &url, "--out"]);
        command.arg(&out).args(more);
        (finish(command), out)
    };
    let (run, out) = of_url("of-url", &[]);
    run.exits(0);
    let manifest = read_manifest(&out);
    let databases = manifest["databases"].as_array().unwrap();
    assert_eq!(databases.len(), 1, "{databases:?}");
    assert_eq!(databases[0]["name"], desk.db.as_str());
    let (run, _) = of_url("of-both", &["--databases", "mysql"]);
    run.exits(2).says("--databases names others");
    // The hint does not ask to remove what was never written.
    let nobody = server.url().replace("root@", "nobody_at_all@");
    let out = desk.path("nobody");
    finish(dump_command(&desk, &nobody, &out, &[]))
        .exits(1)
        .never_says("What was written");
}

/// The usual account of a hosted database can lock its tables and not flush them. A connection that
/// holds such locks reads no view.
#[test]
fn an_account_of_one_database_dumps_its_views_too() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        for sql in [
            "CREATE DATABASE @db",
            "CREATE TABLE @db.m (id INT) ENGINE=MyISAM",
            "INSERT INTO @db.m VALUES (1), (2)",
            "CREATE VIEW @db.v AS SELECT id FROM @db.m",
            "CREATE USER @db@'%'",
            "GRANT ALL ON @db.* TO @db@'%'",
        ] {
            desk.ask(server, sql);
        }
        if kind == ServerKind::MySql97 {
            desk.ask(server, "GRANT SHOW_ROUTINE ON *.* TO @db@'%'");
        }
        let url = server.url().replace("root@", &format!("{}@", desk.db));
        let out = desk.path("out");
        finish(dump_command(&desk, &url, &out, &[])).exits(0);
        desk.ask(server, "DROP DATABASE @db");
        desk.load(&out, server, &[]).exits(0);
        assert_eq!(desk.ask(server, "SELECT COUNT(*) FROM @db.v"), "2");
        desk.ask(server, "DROP USER @db@'%'");
        desk.ask(server, "DROP DATABASE @db");
    }
}

/// The text of index 0 is that of the member.
#[test]
fn index_0_of_an_enum_comes_back_beside_an_empty_member() {
    for kind in BOTH {
        let server = shared(kind);
        for engine in ["InnoDB", "MyISAM"] {
            let desk = Desk::new();
            let mut conn = servers::connect(server);
            for sql in [
                format!("CREATE DATABASE {}", desk.db),
                "SET SESSION sql_mode = ''".to_owned(),
                format!(
                    "CREATE TABLE {}.e (id INT PRIMARY KEY, e ENUM('','a','b')) ENGINE={engine}",
                    desk.db
                ),
                format!(
                    "INSERT INTO {}.e VALUES (1,'a'),(2,0),(3,''),(4,NULL),(5,0)",
                    desk.db
                ),
            ] {
                conn.exec(sql).unwrap();
            }
            let (run, out) = dump_it(&desk, server, "out", &[]);
            run.exits(0);
            desk.ask(server, "DROP DATABASE @db");
            desk.load(&out, server, &[])
                .exits(0)
                .says("done and proven");
            let found = "SELECT GROUP_CONCAT(IFNULL(e + 0, 'NULL') ORDER BY id) FROM @db.e";
            assert_eq!(desk.ask(server, found), "2,0,1,NULL,0", "{kind}, {engine}");
            desk.ask(server, "DROP DATABASE @db");
        }
    }
}

#[test]
fn columns_that_the_account_cannot_see_are_not_left_out_in_silence() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        desk.load_text(dump(&table("items", 100)), server, &[])
            .exits(0);
        ask(
            server,
            &format!(
                "CREATE USER c_{0}@'%'; GRANT TRIGGER, SHOW VIEW, LOCK TABLES ON {0}.* TO c_{0}@'%'; GRANT SELECT (id, name) ON {0}.items TO c_{0}@'%'",
                desk.db
            ),
        );
        let url = server.url().replace("root@", &format!("c_{}@", desk.db));
        let out = desk.path("out");
        let mut command = desk.refloat([
            "dump",
            "--from",
            &url,
            "--tables",
            &format!("{}.items", desk.db),
        ]);
        command
            .arg("--out")
            .arg(&out)
            .args(["--skip", "routines,events"]);
        finish(command)
            .exits(3)
            .says("columns of table")
            .says("are hidden from the account")
            .says("hint: Grant it SELECT");
        assert!(!out.exists());
        ask(server, &format!("DROP USER c_{}@'%'", desk.db));
    }
}

// Hazard of dumps: L-87 what the account cannot see
#[test]
fn what_the_account_cannot_see_is_not_left_out_in_silence() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        desk.load_text(dump(&table("items", 100)), server, &[])
            .exits(0);
        ask(
            server,
            &format!(
                "CREATE TRIGGER {0}.tr BEFORE INSERT ON {0}.items FOR EACH ROW SET NEW.n = 1; CREATE VIEW {0}.v AS SELECT 1 AS a; \
                 CREATE EVENT {0}.e ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1; CREATE PROCEDURE {0}.p() SELECT 1; \
                 CREATE USER u_{0}@'%'",
                desk.db
            ),
        );
        let url = server.url().replace("root@", &format!("u_{}@", desk.db));
        let out = desk.path("out");
        let mut lacking = vec!["SELECT", "TRIGGER", "SHOW VIEW", "EVENT"];
        // MySQL lists nothing of a database that it only names.
        ask(
            server,
            &format!("GRANT SHOW DATABASES ON *.* TO u_{}@'%'", desk.db),
        );
        let mut run = finish(dump_command(&desk, &url, &out, &["--users"])).exits(3);
        for privilege in &lacking {
            run = run.says(&format!("lacks {privilege} on database {}", desk.db));
        }
        run.says("lacks SELECT on database mysql, so accounts cannot be read");
        lacking.reverse();
        ask(
            server,
            &format!("GRANT EXECUTE ON {0}.* TO u_{0}@'%'", desk.db),
        );
        while let Some(privilege) = lacking.pop() {
            finish(dump_command(&desk, &url, &out, &[]))
                .exits(3)
                .says(&format!("lacks {privilege} on database {}", desk.db))
                .says("hint: Grant ");
            ask(
                server,
                &format!("GRANT {privilege} ON {0}.* TO u_{0}@'%'", desk.db),
            );
        }
        let routines = finish(dump_command(&desk, &url, &out, &[]));
        routines
            .exits(3)
            .says("routines of others would be left out")
            .says("--skip routines");
        assert!(!out.exists());
        // It has no privilege to lock anything either.
        let skip = ["--skip", "routines"];
        let require = ["--skip", "routines", "--consistency", "require"];
        finish(dump_command(&desk, &url, &out, &require))
            .exits(3)
            .says("RELOAD");
        let run = finish(dump_command(&desk, &url, &out, &skip)).exits(0);
        run.says("NOT guaranteed to be of one moment");
        assert_eq!(read_manifest(&out)["snapshot"]["consistent"], false);
        // LOCK TABLES is enough for rows of one moment.
        ask(
            server,
            &format!("GRANT LOCK TABLES ON {0}.* TO u_{0}@'%'", desk.db),
        );
        let locked = desk.path("locked");
        finish(dump_command(&desk, &url, &locked, &require))
            .exits(0)
            .says("LOCK TABLES");
        let names = &read_manifest(&locked)["databases"][0];
        assert_eq!(
            (
                &names["triggers"][0],
                &names["events"][0],
                &names["views"][0]
            ),
            (&"tr".into(), &"e".into(), &"v".into())
        );
        ask(
            server,
            &format!("DROP USER u_{0}@'%'; DROP DATABASE {0}", desk.db),
        );
    }
}

// Hazard of dumps: L-114 lost connections
#[test]
fn connections_that_are_lost_end_the_dump() {
    for kind in BOTH {
        // It kills sessions, so the server must not be shared.
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        desk.load_text(
            dump(&table("items", 30_000)),
            &server,
            &["--durability", "keep"],
        )
        .exits(0);
        let out = desk.path("out");
        let more = [
            "--threads",
            "2",
            "--max-rate",
            "300K",
            "--chunk-size",
            "100K",
        ];
        let running = Running::start(dump_command(&desk, &server.url(), &out, &more));
        wait_until("rows are read", || {
            fs::read_dir(out.join(&desk.db)).is_ok_and(|files| files.count() > 2)
        });
        kill_sessions(&server);
        running
            .ends_within(Duration::from_secs(60))
            .exits(1)
            .says("no manifest");
        assert!(!out.join("manifest.json").exists());
    }
}

#[test]
fn ctrl_c_ends_a_dump_and_leaves_no_lock() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        desk.load_text(
            dump(&table("items", 30_000)),
            server,
            &["--durability", "keep"],
        )
        .exits(0);
        for signal in ["INT", "KILL"] {
            let out = desk.path(signal);
            let running = Running::start(dump_command(
                &desk,
                &server.url(),
                &out,
                &["--max-rate", "300K"],
            ));
            wait_until("rows are read", || {
                out.join(&desk.db).join("schema.sql").exists()
            });
            running.signal(signal);
            if signal == "INT" {
                running
                    .stops()
                    .exits(5)
                    .says("interrupted")
                    .says("no manifest");
            } else {
                drop(running);
            }
            assert!(!out.join("manifest.json").exists());
            ask(
                server,
                &format!(
                    "SET SESSION lock_wait_timeout = 20; ALTER TABLE {}.items COMMENT '{signal}'",
                    desk.db
                ),
            );
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_dump_or_its_threads() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    fill_wide(server, &desk);
    let out = desk.path("out");
    let command = dump_command(&desk, &server.url(), &out, &["--threads", "24"]);
    let mut running = Running::start(command);
    let mut peak = 0;
    while !running.has_ended() {
        peak = peak_kib(running.pid()).unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(10));
    }
    running.ends_within(Duration::from_secs(1)).exits(0);
    let table = &read_manifest(&out)["databases"][0]["tables"][0];
    assert!(table["chunks"].as_array().unwrap().len() > 24, "{table}");
    assert!(peak <= 256 << 10, "{} MiB", peak >> 10);
    eprintln!("220 MB by 24 readers: {} MiB", peak >> 10);
    ask(server, &format!("DROP DATABASE {}", desk.db));
}

#[test]
fn a_full_disk_ends_a_dump_with_its_name() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    desk.load_text(
        dump(&table("items", 60_000)),
        server,
        &["--durability", "keep"],
    )
    .exits(0);
    let small = SmallDisk::mount(2);
    let out = small.path().join("out");
    let sql = small.path().join("all.sql");
    let plain = |out: &Path, format: &[&str]| {
        let mut command = dump_command(&desk, &server.url(), out, &["--compress", "none"]);
        command.args(format);
        finish(command)
    };
    ask(server, &format!("ANALYZE TABLE {}.items", desk.db));
    for (out, format) in [(&out, &[][..]), (&sql, &["--format", "sql"])] {
        plain(out, format)
            .exits(3)
            .says("free, and the dump will take about")
            .says("hint: ");
    }
    // With statistics that do not know of the rows, the full disk is noticed only when it happens.
    let db = &desk.db;
    ask(
        server,
        &format!(
            "CREATE TABLE {db}.unseen LIKE {db}.items; ALTER TABLE {db}.unseen STATS_PERSISTENT = 1 STATS_AUTO_RECALC = 0; \
             ANALYZE TABLE {db}.unseen; INSERT INTO {db}.unseen SELECT * FROM {db}.items; DROP TABLE {db}.items"
        ),
    );
    plain(&out, &[]).exits(1).says("out").says("hint: ");
    assert!(!out.join("manifest.json").exists());
    fs::remove_dir_all(&out).unwrap();
    plain(&sql, &["--format", "sql"]).exits(1).says("all.sql");
    assert_eq!(fs::read_dir(small.path()).unwrap().count(), 0);
}

#[test]
fn the_obvious_mistakes_are_reported() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    desk.load_text(dump(&table("items", 10)), server, &[])
        .exits(0);
    dump_it(&desk, server, "out", &["--tables", "itmes"])
        .0
        .exits(3)
        .says("nothing on the server is called itmes");
    // A typo in --exclude is refused too, but an existing table that is not selected may be
    // excluded.
    let other = format!("{}.itmes", desk.db);
    dump_it(&desk, server, "out", &["--exclude", &other])
        .0
        .exits(3)
        .says(&format!("nothing on the server is called {other}"));
    assert!(!desk.path("out").exists());
    let names = ["--tables", "items", "--exclude", "no*,other"];
    ask(
        server,
        &format!("CREATE VIEW {}.other AS SELECT 1", desk.db),
    );
    dump_it(&desk, server, "out", &names)
        .0
        .exits(3)
        .says("nothing on the server is called no*");
    let names = ["--tables", "items", "--exclude", "other"];
    dump_it(&desk, server, "less", &names).0.exits(0);
    ask(server, &format!("DROP VIEW {}.other", desk.db));
    dump_it(&desk, server, "out", &[])
        .0
        .exits(0)
        .says("10 in 1 table of 1 database");
    dump_it(&desk, server, "out", &[])
        .0
        .exits(3)
        .says("already exists and is not empty")
        .says("never overwrites");
    finish(dump_command(
        &desk,
        "mysql://root:pw@127.0.0.1/",
        &desk.path("x"),
        &[],
    ))
    .exits(2)
    .never_says(":pw@");
    finish(dump_command(&desk, "nonsense", &desk.path("x"), &[]))
        .exits(2)
        .says("--from");
    dump_it(&desk, server, "missing/folder", &[])
        .0
        .exits(1)
        .says("making the folder failed");
}

// Hazard of dumps: L-81, L-86 definers and accounts
#[test]
fn accounts_and_definers() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        ask(
            &server,
            &format!(
                "CREATE DATABASE {0}; USE {0}; CREATE TABLE t (i INT PRIMARY KEY); CREATE USER 'o''brien'@'10.%' IDENTIFIED BY 'sandbox-only'; \
                 CREATE ROLE reader; GRANT SELECT ON {0}.* TO reader; GRANT reader TO 'o''brien'@'10.%'; GRANT INSERT ON {0}.t TO 'o''brien'@'10.%'; \
                 {1}; CREATE DEFINER='o''brien'@'10.%' VIEW v AS SELECT i FROM t; CREATE DEFINER='o''brien'@'10.%' PROCEDURE p() SELECT 1",
                desk.db,
                if kind.is_mariadb() {
                    "SET DEFAULT ROLE reader FOR 'o''brien'@'10.%'"
                } else {
                    "SET DEFAULT ROLE reader TO 'o''brien'@'10.%'"
                }
            ),
        );
        let grants = "SHOW GRANTS FOR 'o''brien'@'10.%'";
        let create = "SHOW CREATE USER 'o''brien'@'10.%'";
        let before = (ask(&server, grants), ask(&server, create));
        let (run, out) = dump_it(&desk, &server, "out", &["--users", "--strip-definer"]);
        run.exits(0);
        let programs = fs::read_to_string(out.join("programs.sql")).unwrap();
        assert!(!programs.contains("DEFINER="), "{programs}");
        assert_eq!(
            programs.matches("SQL SECURITY INVOKER").count(),
            2,
            "{programs}"
        );
        ask(&server, "DROP USER 'o''brien'@'10.%'; DROP ROLE reader");
        ask(&server, &fs::read_to_string(out.join("users.sql")).unwrap());
        assert_eq!(
            (ask(&server, grants), ask(&server, create)),
            before,
            "{kind}"
        );
        let (run, out) = dump_it(&desk, &server, "kept", &[]);
        run.exits(0);
        let programs = fs::read_to_string(out.join("programs.sql")).unwrap();
        assert_eq!(
            programs.matches("DEFINER=`o'brien`@`10.%`").count(),
            2,
            "{programs}"
        );
    }
}

/// A dump of two tables, to be damaged.
fn some_dump(desk: &Desk, server: &Instance, name: &str) -> PathBuf {
    let (run, out) = dump_it(desk, server, name, &["--chunk-size", "20K"]);
    run.exits(0);
    out
}

/// Copies the folder of a dump.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

/// Loads the folder of a dump.
fn load_folder(desk: &Desk, server: &Instance, folder: &Path, more: &[&str]) -> Run {
    let mut command = desk.refloat(["load"]);
    command.arg(folder).args(["--to", &server.url()]).args(more);
    finish(command)
}

/// The file of the table `items` with this number.
fn items_chunk(out: &Path, number: usize) -> PathBuf {
    let manifest = read_manifest(out);
    let path = table_of(&manifest, "items")["chunks"][number]["path"]
        .as_str()
        .unwrap()
        .to_owned();
    out.join(path)
}

/// What is done to a dump, then exit code and message of its load.
type Damage<'a> = (&'a str, i32, &'a str, Box<dyn Fn(&Path) + 'a>);

fn damages(desk: &Desk) -> Vec<Damage<'_>> {
    vec![
        (
            "no manifest",
            3,
            "manifest.json",
            Box::new(|out| fs::remove_file(out.join("manifest.json")).unwrap()),
        ),
        (
            "half a manifest",
            3,
            "it is damaged",
            Box::new(|out| {
                let text = fs::read(out.join("manifest.json")).unwrap();
                fs::write(out.join("manifest.json"), &text[..text.len() / 2]).unwrap();
            }),
        ),
        (
            "a later format",
            3,
            "use the version of refloat that made it",
            Box::new(|out| {
                edit_manifest(out, |text| {
                    text.replacen("\"format\": 2", "\"format\": 3", 1)
                });
            }),
        ),
        (
            "a file less",
            3,
            "is missing",
            Box::new(|out| fs::remove_file(items_chunk(out, 1)).unwrap()),
        ),
        (
            "a file more",
            3,
            "is not in the manifest",
            Box::new(|out| fs::write(out.join("other.tsv"), "1\n").unwrap()),
        ),
        (
            "a file cut",
            3,
            "bytes, but had",
            Box::new(|out| {
                let path = items_chunk(out, 0);
                let bytes = fs::read(&path).unwrap();
                fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
            }),
        ),
        (
            "a path that leads out",
            3,
            "is not a file of the folder",
            Box::new(|out| {
                let schema = format!("\"{}/schema.sql\"", desk.db);
                edit_manifest(out, |text| text.replacen(&schema, "\"../schema.sql\"", 1));
            }),
        ),
        (
            "a definition changed",
            1,
            "checksum",
            Box::new(|out| {
                let path = out.join(&desk.db).join("schema.sql");
                let text = fs::read_to_string(&path).unwrap();
                fs::write(path, text.replacen("varchar(80)", "varchar(79)", 1)).unwrap();
            }),
        ),
        (
            "a count changed",
            1,
            "rows",
            Box::new(|out| {
                edit_manifest(out, |text| {
                    text.replacen("\"rows\": 300", "\"rows\": 301", 1)
                });
            }),
        ),
        (
            "a size of text changed",
            1,
            "manifest.json says that it has",
            Box::new(|out| {
                let path = out.join("manifest.json");
                let mut found = manifest::parse(&fs::read(&path).unwrap()).unwrap();
                found.databases[0].tables[0].chunks[0].text_bytes += 1;
                fs::write(path, manifest::write(&found).unwrap()).unwrap();
            }),
        ),
    ]
}

#[test]
fn a_damaged_dump_is_never_loaded_as_whole() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    desk.load_text(
        dump(&format!("{}{}", table("items", 2000), table("more", 300))),
        server,
        &[],
    )
    .exits(0);
    let whole = some_dump(&desk, server, "whole");
    for (what, code, words, damage) in damages(&desk) {
        let out = desk.path(&what.replace(' ', "-"));
        copy(&whole, &out);
        damage(&out);
        let run = load_folder(&desk, server, &out, &["--replace"]);
        assert_eq!(run.code, Some(code), "{what}: {run:?}");
        run.says(words).never_says("done and proven");
    }
    for at in [5, 40, 1000] {
        a_flipped_byte_is_caught(&desk, server, &whole, at);
    }
    the_undamaged_dump_loads(&desk, server, &whole);
}

/// A flipped byte is caught by the frame's checksum, by the file's, or by a row that cannot be
/// right.
fn a_flipped_byte_is_caught(desk: &Desk, server: &Instance, whole: &Path, at: usize) {
    let out = desk.path(&format!("flip-{at}"));
    copy(whole, &out);
    let path = items_chunk(&out, 0);
    let mut bytes = fs::read(&path).unwrap();
    let at = at.min(bytes.len() - 1);
    bytes[at] ^= 0x10;
    fs::write(&path, bytes).unwrap();
    load_folder(desk, server, &out, &["--replace"])
        .exits(1)
        .says("tsv.zst")
        .never_says("done and proven");
}

/// The undamaged dump loads, and so does a part of it.
fn the_undamaged_dump_loads(desk: &Desk, server: &Instance, whole: &Path) {
    ask(server, &format!("DROP DATABASE {}", desk.db));
    load_folder(desk, server, whole, &["--tables", "more"])
        .exits(0)
        .says("done, without what was left out on purpose");
    assert_eq!(
        (desk.rows(server, "more"), desk.rows(server, "items")),
        (Some(300), None)
    );
    load_folder(desk, server, whole, &["--replace"])
        .exits(0)
        .says("done and proven");
    assert_eq!(desk.rows(server, "items"), Some(2000));
}

// Hazard of dumps: Files of rows in each other's place, of one table and of two | ,
//   `no_row_of_a_file_…`
#[test]
fn two_files_of_rows_in_each_others_place_are_found_before_the_load_has_ended() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        // Rows of equal width give files of equal size, which only their names tell apart.
        let rows: Vec<String> = (100_000..104_000)
            .map(|id| format!("({id},'{id:060}')"))
            .collect();
        let text = format!(
            "CREATE TABLE `w` (`id` int NOT NULL, `s` varchar(60));\nINSERT INTO `w` VALUES {};\n",
            rows.join(",")
        );
        desk.load_text(dump(&text), server, &[]).exits(0);
        let more = [
            "--threads",
            "1",
            "--compress",
            "none",
            "--chunk-size",
            "20K",
        ];
        let (run, out) = dump_it(&desk, server, "out", &more);
        run.exits(0);
        let wanted = desk.ask(server, "CHECKSUM TABLE @db.w");
        let manifest = read_manifest(&out);
        let chunks = table_of(&manifest, "w")["chunks"].as_array().unwrap();
        let path = |at: usize| chunks[at]["path"].as_str().unwrap();
        assert!(chunks.len() > 4 && chunks[1]["bytes"] == chunks[2]["bytes"]);
        let (one, other) = (out.join(path(1)), out.join(path(2)));
        let swap = || {
            let aside = out.join("aside");
            fs::rename(&one, &aside).unwrap();
            fs::rename(&other, &one).unwrap();
            fs::rename(&aside, &other).unwrap();
        };
        let name = one.file_name().unwrap().to_str().unwrap();
        for chunk in [&["--chunk-bytes", "16K"], &["--chunk-rows", "100"]] {
            swap();
            desk.ask(server, "DROP DATABASE @db");
            let load = |more: &[&str]| {
                let more = [&chunk[..], more].concat();
                finish(desk.load_command(&out, &server.url(), &more))
            };
            for more in [&[][..], &["--resume"]] {
                load(more)
                    .exits(1)
                    .says(name)
                    .says("checksum")
                    .never_says("done and proven");
            }
            swap();
            // Rows that came from the wrong file are not taken for those of the right one. Whether
            // any did is up to chance.
            let resumed = load(&["--resume"]);
            if resumed.code == Some(0) {
                assert_eq!(desk.ask(server, "CHECKSUM TABLE @db.w"), wanted);
            } else {
                resumed
                    .exits(1)
                    .says("are not those that were here when the load began");
            }
            load(&["--restart", "--replace"])
                .exits(0)
                .says("done and proven");
            assert_eq!(desk.ask(server, "CHECKSUM TABLE @db.w"), wanted);
        }
    }
}

#[test]
fn no_row_of_a_file_in_the_place_of_another_tables_gets_into_a_table() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        // Alike except for their text, so that only a checksum shows whose file it is. The files
        // exceed what may wait in memory, so their first rows would be in before the last ones are
        // read.
        let of = |name: &str, word: char| {
            let rows: Vec<String> = (100_000..130_000)
                .map(|id| format!("({id},'{}')", word.to_string().repeat(900)))
                .collect();
            format!(
                "CREATE TABLE `{name}` (`id` int NOT NULL PRIMARY KEY, `s` varchar(900));\nINSERT INTO `{name}` VALUES {};\n",
                rows.join(",")
            )
        };
        let text = format!("{}{}", of("one", 'a'), of("other", 'b'));
        desk.load_text(dump(&text), server, &[]).exits(0);
        let more = [
            "--threads",
            "1",
            "--compress",
            "zstd",
            "--chunk-size",
            "12M",
        ];
        let (run, out) = dump_it(&desk, server, "out", &more);
        run.exits(0);
        let manifest = read_manifest(&out);
        let second = |name: &str| {
            let chunks = table_of(&manifest, name)["chunks"].as_array().unwrap();
            assert!(chunks.len() > 2);
            let path = out.join(chunks[1]["path"].as_str().unwrap());
            (path, chunks[1]["bytes"].as_u64())
        };
        let ((one, bytes), (other, others)) = (second("one"), second("other"));
        assert_eq!(bytes, others);
        let swap = || {
            let aside = desk.path("aside");
            fs::rename(&one, &aside).unwrap();
            fs::rename(&other, &one).unwrap();
            fs::rename(&aside, &other).unwrap();
        };
        swap();
        desk.ask(server, "DROP DATABASE @db");
        let foreign = "SELECT (SELECT COUNT(*) FROM @db.one WHERE s LIKE 'b%') + (SELECT COUNT(*) FROM @db.other WHERE s LIKE 'a%')";
        let rows = "SELECT (SELECT COUNT(*) FROM @db.one) + (SELECT COUNT(*) FROM @db.other)";
        let little = ["--max-memory", "8M", "--chunk-bytes", "64K"];
        for more in [&little[..], &["--resume"]] {
            desk.load(&out, server, more)
                .exits(1)
                .says("its checksum differs from the one that was recorded")
                .never_says("done and proven");
            assert_eq!(desk.ask(server, foreign), "0", "{kind}: {more:?}");
            assert_ne!(desk.ask(server, rows), "0", "{kind}: nothing was loaded");
        }
        let verified = finish(desk.refloat([
            OsStr::new("verify"),
            out.as_os_str(),
            OsStr::new(&server.url()),
        ]));
        verified.exits(1).says("the checksum is").says("manifest");
        // Listing a folder does not read its files.
        let inspect = |more: &[&str]| {
            let mut command = desk.refloat([OsStr::new("inspect"), out.as_os_str()]);
            command.args(more);
            finish(command)
        };
        inspect(&[]).exits(0).says("--checksums");
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        inspect(&["--checksums"])
            .exits(3)
            .says(&name(&one))
            .says(&name(&other));
        swap();
        inspect(&["--checksums"]).exits(0);
        desk.load(&out, server, &["--resume"])
            .exits(0)
            .says("done and proven");
        assert_eq!(desk.ask(server, foreign), "0");
        assert_eq!(desk.ask(server, rows), "60000");
    }
}

#[test]
fn a_dump_goes_to_the_other_vendor_where_it_can() {
    let (from, to) = (shared(ServerKind::MariaDb1011), shared(ServerKind::MySql97));
    let desk = Desk::new();
    desk.load_text(dump(&table("items", 2000)), from, &[])
        .exits(0);
    let out = some_dump(&desk, from, "out");
    let mut command = desk.refloat(["load"]);
    command.arg(&out).args(["--to", &to.url()]);
    finish(command)
        .exits(0)
        .says("done and proven")
        .says("2,000 rows");
    let sum = format!(
        "SELECT SUM(CRC32(CONCAT_WS('#', id, name, n))) FROM {}.items",
        desk.db
    );
    assert_eq!(ask(from, &sum), ask(to, &sum));
}

#[test]
fn a_dump_as_sql_is_whole_or_is_none() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let db = &desk.db;
        desk.load_text(dump(&table("items", 20_000)), server, &[])
            .exits(0);
        let url = server.url();
        let command = |out: &str| {
            let args = ["dump", "--from", &url, "--databases", db, "--format", "sql"];
            let mut command = desk.refloat(args);
            command.args(["--out", out]);
            command
        };
        let (plain, small) = (desk.path("all.sql"), desk.path("all.sql.zst"));
        let (plain, small) = (plain.to_str().unwrap(), small.to_str().unwrap());
        finish(command(plain)).exits(0).says("20,000");
        finish(command(plain)).exits(3).says("already exists");
        assert_eq!(
            std::fs::metadata(plain).unwrap().permissions().mode() & 0o777,
            0o600
        );
        // A file planted in place of the partial one is not written into.
        let planted = desk.path("other.sql.partial");
        std::os::unix::fs::symlink(desk.path("victim"), &planted).unwrap();
        finish(command(desk.path("other.sql").to_str().unwrap()))
            .exits(3)
            .says("other.sql.partial already exists");
        assert!(!desk.path("victim").exists());
        finish(command(small)).exits(0);
        let piped = finish(command("-")).exits(0).stdout;
        assert!(piped.ends_with("-- Dump completed\n"), "{}", piped.len());
        let text = std::fs::read_to_string(plain).unwrap();
        assert!(text.starts_with("-- refloat dump "));
        for source in [plain, small] {
            ask(server, &format!("DROP DATABASE {db}"));
            finish(desk.refloat(["load", source, "--to", &url]))
                .exits(0)
                .says("20,000 in 1 table");
        }
        // Cut between two statements.
        let cut = text.rfind("\nINSERT INTO ").unwrap();
        let cut = desk.file("cut.sql", &text[..=cut]);
        finish(desk.load_command(&cut, &url, &["--replace"]))
            .exits(1)
            .says("Dump completed");
        let late = desk.path("late.sql");
        let mut slow = command(late.to_str().unwrap());
        slow.args(["--max-rate", "300K"]);
        let running = Running::start(slow);
        wait_until("rows are written", || {
            std::fs::read_dir(desk.path(""))
                .unwrap()
                .any(|entry| entry.unwrap().file_name() == "late.sql.partial")
        });
        running.signal("INT");
        running.ends_within(Duration::from_secs(10)).exits(5);
        assert!(!late.exists() && !desk.path("late.sql.partial").exists());
    }
}
