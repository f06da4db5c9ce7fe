//! Power cuts, as far as programs can simulate them. The file system of the server's data is shut
//! down under it, so that nothing reaches the disk any more, not even what the kernel has cached.
//! Then the server is killed, the file system is mounted again from what its disk holds, and the
//! server is started on that.
//!
//! `REFLOAT_OUTAGES` sets how often each kind of server loses power while rows are loaded,
//! `REFLOAT_OUTAGE_SEED` the seed of the moments.

// Hazard of faults: L-163 the disk below a server is cut off, at the moment a load is done and
//   while rows come, and the server started on what the disk has: nothing that was done is missing,
//   and the resumed load ends with the same rows (all three servers)
// Hazard of faults: What a load altered, renamed and indexed has its files before marks say so, or
//   are gone (all three servers)
// Hazard of faults: A file of rows whose table was dropped, and that a power cut brought back:
//   those of refloat's own tables are harmless or named, and those of others are named (all three
//   servers)

use std::time::{Duration, Instant};

use refloat_sandbox::{Ephemeral, ServerKind, StartOptions};
use refloat_testkit::disk::LossyDisk;
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::seeded::{Dice, number};
use crate::support::{Desk, Gate, Running, ask, assert_same_settings, dump, settings, table};

/// Default number of power cuts for each kind of server while rows are loaded.
const OUTAGES: u64 = 1;
/// Rows of a load: enough that it takes seconds.
const ROWS: u64 = 150_000;
/// Upper limit for everything here.
const LONG: Duration = Duration::from_secs(180);

/// A server with durable settings and a binary log, with its data on a separate disk.
fn on_a_disk(kind: ServerKind) -> (Ephemeral, LossyDisk) {
    let options = StartOptions::new(kind)
        .option("innodb_flush_log_at_trx_commit", "1")
        .option("sync_binlog", "1")
        .option("local_infile", "1")
        .option("server_id", "1")
        .option("log_bin", "binlog");
    let mut server = servers::start(&options);
    server.stop().unwrap();
    let disk = LossyDisk::below(&server.datadir());
    server.restart().unwrap();
    (server, disk)
}

/// Cuts the power, and starts the server again on what its disk has.
fn lose_power(disk: &mut LossyDisk, server: &mut Ephemeral) {
    disk.cut(|| server.kill().unwrap());
    server.restart().unwrap();
}

/// Sums over the rows, read by primary key and by index, which must agree.
fn sums(desk: &Desk, server: &Ephemeral) -> String {
    let sql = "SELECT COUNT(*), SUM(id), SUM(n), SUM(CRC32(name)) FROM @db.items";
    let by_key = desk.ask(server, sql);
    let by_index = desk.ask(server, &sql.replace("items", "items FORCE INDEX (n)"));
    assert_eq!(by_key, by_index);
    by_key
}

#[test]
fn what_is_done_survives_an_outage() {
    for &kind in crate::support::kinds() {
        let (mut server, mut volume) = on_a_disk(kind);
        let mut desk = Desk::new();
        for durability in ["relaxed", "disposable"] {
            desk.next();
            let before = settings(&server);
            desk.load_text(
                dump(&table("items", 20_000)),
                &server,
                &["--durability", durability],
            )
            .exits(0)
            .says("done and proven");
            let there = sums(&desk, &server);
            lose_power(&mut volume, &mut server);
            assert_eq!(sums(&desk, &server), there, "{kind}, {durability}");
            assert_eq!(desk.rows(&server, "items"), Some(20_000));
            assert_same_settings(&before, &server);
        }
    }
}

/// After an outage, MariaDB may have the definition of a dropped table and nothing else of it.
/// Those of Refloat's own tables are removed; one of a table in the dump is removed like any other
/// table, if that is allowed.
#[test]
fn tables_that_come_back_without_rows_are_in_nobodys_way() {
    // Refloat's own tables are recognised by their columns.
    let own_tables = [
        ("refloat", "settings_journal", "run INT, journal INT"),
        (
            "refloat_load",
            "marks",
            "run INT, file INT, begins INT, ends INT, db INT, tbl INT, sent_rows INT, stored_rows INT, ignored_rows INT, refused_rows INT, \
             digest INT, detail INT",
        ),
        (
            "refloat_load",
            "steps",
            "run INT, kind INT, name INT, detail INT",
        ),
    ];
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let quick = servers::quick(kind);
        let server = servers::start(&quick.option("innodb_flush_log_at_trx_commit", "1"));
        let desk = Desk::new();
        let mut tables = own_tables.to_vec();
        tables.push((&desk.db, "items", "id INT"));
        for (database, table, columns) in tables {
            let frm = server
                .datadir()
                .join(database)
                .join(table)
                .with_extension("frm");
            let name = format!("`{database}`.`{table}`");
            ask(
                &server,
                &format!(
                    "CREATE DATABASE IF NOT EXISTS `{database}`; CREATE TABLE {name} ({columns})"
                ),
            );
            let definition = std::fs::read(&frm).unwrap();
            ask(&server, &format!("DROP TABLE {name}"));
            std::fs::write(&frm, definition).unwrap();
            let error = server.query(&format!("SELECT * FROM {name}")).unwrap_err();
            assert!(
                error.to_string().contains("doesn't exist in engine"),
                "{error}"
            );
        }
        let file = desk.file("dump.sql", dump(&table("items", 100)));
        let load = |more: &[&str]| desk.load(&file, &server, more);
        load(&["--durability", "relaxed"])
            .exits(3)
            .says("is not empty");
        load(&["--durability", "relaxed", "--replace"])
            .exits(0)
            .says("done and proven");
        assert_eq!(desk.rows(&server, "items"), Some(100));
        assert_eq!(ask(&server, "SHOW DATABASES LIKE 'refloat%'"), "");
    }
}

#[test]
fn a_file_of_rows_that_the_server_does_not_know_is_explained() {
    for &kind in crate::support::kinds() {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        ask(&server, &format!("CREATE DATABASE `{}`", desk.db));
        let stray = server.datadir().join(&desk.db).join("items.ibd");
        std::fs::write(&stray, vec![0; 65536]).unwrap();
        let file = desk.file("dump.sql", dump(&table("items", 100)));
        desk.load(&file, &server, &[]).exits(1).says(&format!(
            "Move {}/items.ibd out of the data folder",
            desk.db
        ));
        std::fs::remove_file(&stray).unwrap();
        desk.load(&file, &server, &[]).exits(0);
        assert_eq!(desk.rows(&server, "items"), Some(100));
    }
}

/// The files of Refloat's own tables get in nobody's way, or are explained as well. MySQL removes
/// dropped files during recovery.
#[test]
fn files_of_own_tables_that_the_server_does_not_know_are_explained() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let quick = servers::quick(kind);
        let server = servers::start(&quick.option("innodb_flush_log_at_trx_commit", "1"));
        let mut desk = Desk::new();
        let file = desk.file("dump.sql", dump(&table("items", 100)));
        let before = settings(&server);
        for (table, says) in [
            ("refloat/settings_journal", "done and proven"),
            (
                "refloat_load/marks",
                "Move refloat_load/marks.ibd out of the data folder",
            ),
        ] {
            let (database, _) = table.split_once('/').unwrap();
            ask(&server, &format!("CREATE DATABASE {database}"));
            let stray = server.datadir().join(table).with_extension("ibd");
            std::fs::write(&stray, vec![0; 65536]).unwrap();
            desk.next();
            let load = || desk.load(&file, &server, &["--durability", "relaxed"]);
            load().exits(i32::from(database != "refloat")).says(says);
            assert_same_settings(&before, &server);
            std::fs::remove_file(&stray).unwrap();
            desk.next();
            desk.load(&file, &server, &["--durability", "relaxed"])
                .exits(0)
                .says("all put back");
            assert_same_settings(&before, &server);
            ask(&server, &format!("DROP DATABASE IF EXISTS {database}"));
            assert_eq!(ask(&server, "SHOW DATABASES LIKE 'refloat%'"), "", "{kind}");
        }
    }
}

/// MariaDB reports a definition as altered before the new file's name is durable.
#[test]
fn a_load_whose_marks_are_gone_has_its_definitions_on_the_disk() {
    for &kind in crate::support::kinds() {
        let (mut server, mut volume) = on_a_disk(kind);
        let mut desk = Desk::new();
        let file = desk.file("dump.sql", dump(&table("items", ROWS)));
        if kind == ServerKind::MariaDb118 {
            // No other engine may be used.
            ask(&server, "SET GLOBAL enforce_storage_engine = InnoDB");
        }
        let more = ["--durability", "relaxed"];
        desk.load(&file, &server, &more).exits(0);
        let wanted = sums(&desk, &server);
        desk.next();
        let load = Running::start(desk.load_command(&file, &server.url(), &more));
        let mut reader = servers::connect(&server);
        let mut loads = || {
            let loads =
                reader.query_value("SELECT COUNT(*) FROM refloat_load.steps WHERE kind = 'load'");
            loads.ok().flatten().unwrap_or_default()
        };
        wait_until("the load has begun", || loads() == "1");
        // A reader of the marks keeps their table from being dropped, but not the row of the load
        // from being deleted.
        let mut other = servers::connect(&server);
        other.exec("BEGIN").unwrap();
        let marks = "SELECT COUNT(*) FROM refloat_load.marks";
        other.query_value(marks).unwrap();
        wait_until("the load is forgotten", || loads() == "0");
        ask(&server, "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
        lose_power(&mut volume, &mut server);
        let ended = load.ends_within(LONG);
        let definition = desk.ask(&server, "SHOW CREATE TABLE @db.items");
        for key in ["KEY `name`", "KEY `n`"] {
            assert!(definition.contains(key), "{kind}: {definition}");
        }
        assert_eq!(sums(&desk, &server), wanted, "{kind}");
        ended
            .exits(6)
            .says("everything is loaded, but the progress marks of the load could not be removed")
            .says("no difference");
        desk.load(&file, &server, &more)
            .exits(3)
            .says("is not empty");
    }
}

/// In the first seconds of a load, consecutive changes of tables are made durable together. If the
/// server stops before that, none of them counts as done.
#[test]
fn a_load_that_may_have_lost_its_first_changes_begins_anew() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let (mut server, mut volume) = on_a_disk(kind);
        let mut desk = Desk::new();
        let alters = "SELECT GET_LOCK('gate', 60);\nALTER TABLE items ADD KEY late (n);\nALTER TABLE other ADD KEY late (n);\n";
        let tables = ["items", "other"].map(|name| table(name, 500)).concat();
        let file = desk.file("dump.sql", dump(&format!("{tables}{alters}")));
        // With this level, every mark is durable at once.
        let keep = ["--durability", "keep"];
        // Server starts are told apart by their second.
        wait_until("the server is some seconds old", || {
            let up = ask(&server, "SHOW GLOBAL STATUS LIKE 'Uptime'");
            up.split('\t').nth(1).unwrap().parse::<u64>().unwrap() >= 3
        });
        let runs = |server: &Ephemeral, what: &str| {
            let sql = format!(
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '{what}%'"
            );
            ask(server, &sql) == "1"
        };
        // The second change waits while its table is being read. On a busy machine, the load's
        // first seconds may be over by then.
        let begun = (0..10).find_map(|_| {
            desk.next();
            let gate = Gate::closed(&server, "gate");
            let mut load = Running::start(desk.load_command(&file, &server.url(), &keep));
            wait_until("the dump waits", || {
                runs(&server, "SELECT GET\\_LOCK(''gate'', 60)")
            });
            let mut reader = servers::connect(&server);
            reader.exec("BEGIN").unwrap();
            let rows = format!("SELECT COUNT(*) FROM {}.other", desk.db);
            reader.query_value(&rows).unwrap();
            gate.opens();
            wait_until("the second change waits", || {
                load.has_ended() || runs(&server, "ALTER TABLE other ADD KEY")
            });
            let unsettled = "SELECT COUNT(*) FROM refloat_load.steps WHERE kind = 'unsettled'";
            let caught = !load.has_ended() && ask(&server, unsettled) == "1";
            if !caught {
                drop(reader);
                load.ends_within(LONG).exits(0);
                return None;
            }
            Some(load)
        });
        let load =
            begun.unwrap_or_else(|| panic!("{kind}: no load was caught at its second change"));
        lose_power(&mut volume, &mut server);
        let ended = load.ends_within(LONG);
        assert!(matches!(ended.code, Some(1 | 6)), "{ended:?}");
        for more in [&[][..], &["--plan"], &["--resume"]] {
            desk.load(&file, &server, more)
                .exits(3)
                .says("the server stopped in the first seconds of the load")
                .says("--restart");
        }
        desk.load(&file, &server, &["--restart", "--replace"])
            .exits(0)
            .says("done and proven");
        for table in ["items", "other"] {
            let definition = desk.ask(&server, &format!("SHOW CREATE TABLE @db.{table}"));
            assert!(definition.contains("KEY `late`"), "{kind}: {definition}");
        }
    }
}

/// A dump's own ALTER and RENAME statements are not run again, so their results must be durable.
#[test]
fn statements_that_are_noted_as_done_have_their_definitions_on_the_disk() {
    for &kind in crate::support::kinds() {
        let (mut server, mut volume) = on_a_disk(kind);
        let mut desk = Desk::new();
        let (items, other) = (table("items", 1_000), table("other", 1_000));
        let alters = "ALTER TABLE items ADD KEY late (n);\nRENAME TABLE other TO things;\n";
        let waits = "SELECT GET_LOCK('gate', 60);\n";
        let file = desk.file("dump.sql", dump(&format!("{items}{other}{alters}{waits}")));
        let more = ["--durability", "relaxed"];
        desk.load(&file, &server, &more).exits(0);
        let wanted = sums(&desk, &server);
        desk.next();
        let _gate = Gate::closed(&server, "gate");
        let load = Running::start(desk.load_command(&file, &server.url(), &more));
        wait_until("the dump waits", || {
            let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT GET\\_LOCK(''gate'', 60)%'";
            ask(&server, waiting) == "1"
        });
        // As the server does once a second.
        ask(&server, "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
        lose_power(&mut volume, &mut server);
        let ended = load.ends_within(LONG);
        assert!(matches!(ended.code, Some(1 | 6)), "{ended:?}");
        desk.load(&file, &server, &more)
            .exits(0)
            .says("done and proven");
        let definition = desk.ask(&server, "SHOW CREATE TABLE @db.items");
        assert!(definition.contains("KEY `late`"), "{kind}: {definition}");
        assert_eq!(sums(&desk, &server), wanted, "{kind}");
        assert_eq!(desk.rows(&server, "things"), Some(1_000), "{kind}");
    }
}

#[test]
fn loads_go_on_after_outages() {
    let seed = number("REFLOAT_OUTAGE_SEED", u64::from(std::process::id())).max(1);
    let outages = number("REFLOAT_OUTAGES", OUTAGES);
    for &kind in crate::support::kinds() {
        eprintln!("{kind}: REFLOAT_OUTAGE_SEED={seed}");
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (mut server, mut volume) = on_a_disk(kind);
        let mut desk = Desk::new();
        let file = desk.file("dump.sql", dump(&table("items", ROWS)));
        let before = settings(&server);
        let begun = Instant::now();
        let more = ["--durability", "relaxed", "--chunk-bytes", "1M"];
        desk.load(&file, &server, &more).exits(0);
        let (whole, wanted) = (begun.elapsed(), sums(&desk, &server));
        for outage in 0..outages {
            desk.next();
            let moment = whole.mul_f64(dice.below(1000) as f64 / 1000.0);
            let story = format!("{kind}, seed {seed}, outage {outage} after {moment:?}");
            let mut load = Running::start(desk.load_command(&file, &server.url(), &more));
            let since = Instant::now();
            while since.elapsed() < moment && !load.has_ended() {
                std::thread::sleep(Duration::from_millis(2));
            }
            lose_power(&mut volume, &mut server);
            let first = load.ends_within(LONG);
            if first.code != Some(0) {
                let again = desk.load(&file, &server, &more);
                // A load that was done except for its settings cannot be resumed; the second load
                // puts them back first.
                let was_done = first.code == Some(6) && again.code == Some(3);
                assert!(
                    was_done || again.code == Some(0),
                    "{story}: {first:?}\n{again:?}"
                );
            }
            assert_eq!(sums(&desk, &server), wanted, "{story}: {first:?}");
            let own_databases = || ask(&server, "SHOW DATABASES LIKE 'refloat%'");
            if !own_databases().is_empty() && matches!(first.code, Some(0 | 6)) {
                // The load had ended, but the server had not yet synced the folder whose database
                // it had dropped. So the database is back, as with every DROP DATABASE. It gets in
                // nobody's way, and the next load removes it.
                let little = desk.file("little.sql", dump(&table("little", 10)));
                desk.next();
                let mut run = desk.load(&little, &server, &more);
                // If the power fails just as a table is dropped, its data file comes back: the load
                // says so, with what to do.
                if run.code == Some(1) {
                    let stderr = run.says("Move refloat_load/").stderr;
                    let (_, file) = stderr.split_once("Move ").unwrap();
                    let (file, _) = file.split_once(' ').unwrap();
                    std::fs::remove_file(volume.path().join(file)).unwrap();
                    run = desk.load(&little, &server, &more);
                }
                let stderr = run.exits(0).stderr;
                let stray = volume.path().join("refloat/settings_journal.ibd");
                if own_databases() == "refloat" && stray.exists() {
                    assert!(
                        stderr.contains("in which nothing is left"),
                        "{story}: {stderr}"
                    );
                    std::fs::remove_file(stray).unwrap();
                    ask(&server, "DROP DATABASE refloat");
                }
            }
            assert_eq!(own_databases(), "", "{story}: {first:?}");
            assert_same_settings(&before, &server);
        }
    }
}
