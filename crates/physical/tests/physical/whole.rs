//! What was backed up is what is restored.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use refloat_physical::backup::{backup, plan};
use refloat_physical::rebuild::{self, Listen, RebuildOptions};
use refloat_physical::{RATE_MIN, TargetOptions, restore, verify};
use refloat_repository::LATEST;
use refloat_run::events::Record;
use refloat_run::progress::Phase;
use refloat_run::{CancelReason, Event, EventSink};
use refloat_sandbox::ServerKind;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::{SOON, servers, wait_until};
use refloat_wire::Connection;

use crate::common::{KINDS, Place, TABLES};

/// Owner and mode of the data directory and of what lies in it.
fn kept(place: &Place) -> Vec<(u32, u32, u32)> {
    [
        "",
        "ibdata1",
        "mysql",
        "shop",
        "shop/inno.ibd",
        "shop/myisam.MYD",
    ]
    .map(|name| fs::metadata(place.server.datadir().join(name)).unwrap())
    .map(|found| (found.uid(), found.gid(), found.mode()))
    .to_vec()
}

// Hazard of files: P-15 owner and mode of files
// Hazard of files: P-21 holes of page-compressed tables are restored as holes
#[test]
fn a_server_comes_back_as_it_was() {
    for kind in KINDS {
        let mut place = Place::with(&servers::quick(kind).option("log_bin", "binlog"));
        place.sql(TABLES);
        let expected = place.snapshot();
        let repository = Some(&place.repository);
        let plan = plan(
            &place.options("one"),
            &**place.repository.storage(),
            repository,
        )
        .unwrap();
        assert!(plan.bytes > 10 << 20 && plan.shares.is_empty(), "{plan:?}");
        let taken = |place: &Place| {
            let holes = fs::metadata(place.server.datadir().join("shop/holes.ibd")).unwrap();
            (holes.blocks() * 512, holes.len())
        };
        let had = taken(&place).0;
        let first = place.back_up("one").unwrap();
        assert!(first.added > 0 && first.added < first.bytes, "{first:?}");
        // Small files share a pack.
        let packs = place.repository.storage().list("packs/").unwrap().len() as u64;
        assert!(packs > 0 && packs * 5 < first.files, "{packs} {first:?}");
        let about = first.about.clone().unwrap();
        assert!(about.lsn.end >= about.lsn.checkpoint && about.lsn.checkpoint > 0);
        assert!(about.binlog.unwrap().file.starts_with("binlog."));
        assert!(
            about
                .server
                .version
                .starts_with(if plan.tool.version.0 == 10 {
                    "10.11"
                } else {
                    "11.8"
                })
        );

        // A second one costs what has changed.
        place.sql("UPDATE shop.inno SET text = 'changed' WHERE id = 7");
        let second = place.back_up("two").unwrap();
        // How much the server changes by itself meanwhile (purge, checkpoints) is its own affair.
        let saved = second.known.saturating_sub(first.known);
        assert!(
            saved > 5 << 20 && second.added < first.added,
            "{saved} {second:?}"
        );

        let as_before = kept(&place);
        place.sql("DROP DATABASE shop; CREATE DATABASE other");
        place.server.stop().unwrap();
        let options = place.restoring("one");
        let restored = place.restore(&options).unwrap();
        let (taken, whole) = taken(&place);
        assert!(taken * 2 < whole, "{taken}");
        assert!(taken.abs_diff(had) * 10 <= had, "{taken} {had}");
        let left = (whole - taken) / 2;
        assert!(about.room.is_some_and(|room| room + left < first.bytes));
        let aside = restored.aside.unwrap();
        assert!(aside.join("ibdata1").exists() && aside.join("other").exists());
        place.server.restart().unwrap();
        place.assert_holds(&expected);
        place.assert_sound();
        assert_eq!(kept(&place), as_before);
        place.sql("INSERT INTO shop.inno VALUES (0, 'new')");

        // The newest, with what is there already.
        place.server.stop().unwrap();
        let mut options = place.restoring(LATEST);
        options.target.delta = true;
        let delta = place.restore(&options).unwrap();
        assert_eq!(delta.label, "two");
        assert!(!delta.started);
        assert!(delta.fetched * 2 < delta.bytes, "{delta:?}");
        place.server.restart().unwrap();
        let changed = place
            .server
            .query("SELECT text FROM shop.inno WHERE id = 7")
            .unwrap();
        assert_eq!(changed.trim(), "changed");

        let manifests = place.repository.backups().unwrap();
        let labels: Vec<&str> = manifests.iter().map(|one| one.label.as_str()).collect();
        assert_eq!(labels, ["one", "two"]);
        let read = verify(&place.repository, &manifests, None, 2, &place.run("verify")).unwrap();
        assert_eq!(read.labels, ["one", "two"]);

        // Every block is as it was written, and a table is not.
        let index = place.server.datadir().join("shop/myisam.MYI");
        place.sql("FLUSH TABLES shop.myisam");
        let mut bytes = std::fs::read(&index).unwrap();
        bytes[1500..].fill(7);
        std::fs::write(&index, bytes).unwrap();
        place.back_up("three").unwrap();
        place.repository.forget("two").unwrap();
        let checked = place.check();
        assert_eq!(checked.labels, ["one"], "{checked:?}");
        let why = &checked.damaged["three"];
        assert!(
            why.starts_with("a table is damaged: shop.myisam ("),
            "{why}"
        );
        let tables: Vec<u64> = checked.checked.iter().map(|one| one.tables).collect();
        assert!(tables[0] > 30 && tables[1] == tables[0] - 1, "{checked:?}");
    }
}

/// Tables without transactions.
const PLAIN: [&str; 2] = ["in_aria", "in_myisam"];

/// Rows of one session are a sequence. A backup holds its beginning, at least up to what was
/// committed before it began, whatever happens to tables meanwhile. `REFLOAT_DDL_BACKUPS` sets how
/// many backups of each server are made.
// Hazard of files: P-05, P-22 rows and definitions that change meanwhile (tables created, renamed,
//   rebuilt and dropped; keys and columns added and dropped in place and by copying; partitions
//   added, reorganised, exchanged and dropped), tables without transactions, a log in a table
//   (MariaDB)
#[test]
fn a_backup_is_of_one_moment_while_the_server_works() {
    let backups = std::env::var("REFLOAT_DDL_BACKUPS").map_or(1, |text| text.parse().unwrap());
    for kind in KINDS {
        let options = servers::quick(kind)
            .option("general_log", "ON")
            .option("log_output", "TABLE");
        let mut place = Place::with(&options);
        place.sql(TABLES);
        place.sql(
            "CREATE TABLE shop.sequence (id INT PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE shop.copy (id INT PRIMARY KEY) ENGINE=InnoDB;
            CREATE TABLE shop.altered (id INT PRIMARY KEY, a INT) ENGINE=InnoDB SELECT seq AS id, seq AS a FROM shop.seq_1_to_3000",
        );
        for table in PLAIN {
            let engine = table.trim_start_matches("in_");
            place.sql(&format!(
                "CREATE TABLE shop.{table} (id INT PRIMARY KEY) ENGINE={engine}"
            ));
        }
        for round in 0..backups {
            is_of_one_moment(&mut place, &format!("busy{round}"));
        }
    }
}

/// Changes definitions until it is over.
fn changes_definitions(place: &Place, over: &AtomicBool) {
    let mut conn = servers::connect(&place.server);
    while !over.load(Ordering::Relaxed) {
        for sql in [
            "CREATE TABLE shop.new (id INT PRIMARY KEY) ENGINE=InnoDB SELECT seq AS id FROM shop.seq_1_to_1000",
            "ALTER TABLE shop.altered ADD INDEX i (a), ALGORITHM=INPLACE",
            "RENAME TABLE shop.new TO shop.renamed",
            "ALTER TABLE shop.altered ADD COLUMN b INT DEFAULT 7, ALGORITHM=INSTANT",
            "ALTER TABLE shop.squeezed ENGINE=InnoDB",
            "ALTER TABLE shop.altered DROP COLUMN b, ALGORITHM=INSTANT",
            "DROP TABLE shop.renamed",
            "ALTER TABLE shop.altered DROP INDEX i, ALGORITHM=INPLACE",
            "OPTIMIZE TABLE shop.altered",
            "TRUNCATE TABLE shop.parts",
            "ALTER TABLE shop.altered ADD COLUMN c INT DEFAULT 8, ALGORITHM=COPY",
            "ALTER TABLE shop.ranged ADD PARTITION (PARTITION p3 VALUES LESS THAN (4001))",
            "ALTER TABLE shop.altered DROP COLUMN c, ALGORITHM=COPY",
            "ALTER TABLE shop.ranged REORGANIZE PARTITION p1 INTO (PARTITION p1a VALUES LESS THAN (1501), PARTITION p1b VALUES LESS THAN (2001))",
            "ALTER TABLE shop.ranged EXCHANGE PARTITION p0 WITH TABLE shop.swapped",
            "ALTER TABLE shop.ranged REORGANIZE PARTITION p1a, p1b INTO (PARTITION p1 VALUES LESS THAN (2001))",
            "ALTER TABLE shop.ranged DROP PARTITION p3",
            "ALTER TABLE shop.ranged EXCHANGE PARTITION p0 WITH TABLE shop.swapped",
        ] {
            conn.query(sql).unwrap();
        }
    }
}

fn is_of_one_moment(place: &mut Place, label: &str) {
    for table in ["sequence", "copy"].iter().chain(&PLAIN) {
        place.sql(&format!("TRUNCATE TABLE shop.{table}"));
    }
    place.sql("DROP TABLE IF EXISTS shop.new, shop.renamed; ALTER TABLE shop.altered DROP COLUMN IF EXISTS b, DROP COLUMN IF EXISTS c, DROP INDEX IF EXISTS i");
    // One of three partitions changes places with a table.
    place.sql(
        "CREATE OR REPLACE TABLE shop.swapped (id INT PRIMARY KEY, a INT) ENGINE=InnoDB;
        CREATE OR REPLACE TABLE shop.ranged (id INT PRIMARY KEY, a INT) ENGINE=InnoDB PARTITION BY RANGE (id)
            (PARTITION p0 VALUES LESS THAN (1001), PARTITION p1 VALUES LESS THAN (2001), PARTITION p2 VALUES LESS THAN (3001));
        INSERT INTO shop.ranged SELECT seq, seq FROM shop.seq_1_to_3000",
    );
    let (committed, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (before, after) = std::thread::scope(|scope| {
        let _over = StopOnDrop(&over);
        scope.spawn(|| place.write_sequence(&PLAIN, &committed, &over));
        scope.spawn(|| changes_definitions(place, &over));
        wait_until("20 rows are committed", || {
            committed.load(Ordering::Relaxed) >= 20
        });
        let before = committed.load(Ordering::Relaxed);
        place.back_up(label).unwrap();
        (before, committed.load(Ordering::Relaxed) + 1)
    });
    place.server.stop().unwrap();
    place.restore(&place.restoring(label)).unwrap();
    place.server.restart().unwrap();
    let last = place.assert_of_one_moment(before..=after);
    let later = PLAIN.map(|table| {
        let sql = format!("SELECT MAX(id) - {last} FROM shop.{table}");
        place.server.query(&sql).unwrap()
    });
    assert!(
        later.iter().all(|more| ["0", "1"].contains(&more.trim())),
        "{later:?}"
    );
    for table in [
        "shop.altered",
        "(SELECT a FROM shop.ranged UNION ALL SELECT a FROM shop.swapped) AS every",
    ] {
        let sql = format!("SELECT COUNT(*), SUM(a) FROM {table}");
        let rows = place.server.query(&sql).unwrap();
        assert_eq!(rows.trim(), "3000\t4501500", "{table}");
    }
    let swapped = place.server.query("SELECT COUNT(*) FROM shop.swapped");
    let swapped = swapped.unwrap();
    assert!(["0", "1000"].contains(&swapped.trim()), "{swapped}");
    // The log in a table was written to all the time, too.
    let log = place.server.query("CHECK TABLE mysql.general_log");
    assert!(log.as_ref().unwrap().trim().ends_with("OK"), "{log:?}");
    place.assert_sound();
}

/// What a run has noted.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl EventSink for Notes {
    fn event(&self, record: &Record) {
        if let Event::Note { message } = &record.event {
            self.0.lock().unwrap().push(message.clone());
        }
    }
}

/// A backup takes at least as long as its bytes take at the rate that was asked for, but for what
/// may be made up for in a burst, and for the end, where a tool must not be held up.
#[test]
fn a_backup_keeps_to_a_rate() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let place = Place::new(kind);
        place.sql(if kind.is_mariadb() {
            "CREATE DATABASE shop; USE shop; CREATE TABLE big (id INT PRIMARY KEY, text LONGTEXT); \
             INSERT INTO big SELECT seq, REPEAT('x', 4000000) FROM seq_1_to_6"
        } else {
            "INSTALL PLUGIN clone SONAME 'mysql_clone.so'"
        });
        let whole = place.back_up("whole").unwrap();
        let rate = (whole.bytes / 4).max(RATE_MIN);
        let mut options = place.options("slow");
        options.donor.max_rate = Some(rate);
        let slow = backup(&options, &place.repository, &place.run("backup")).unwrap();
        let least = whole.bytes as f64 / rate as f64 / 2.0;
        assert!(slow.seconds > least, "{kind}: {} s, {least}", slow.seconds);
    }
}

/// A gentle backup slows down while statements pile up on the server, and recovers.
#[test]
fn a_gentle_backup_makes_room() {
    let place = Place::new(ServerKind::MariaDb1011);
    place.sql(
        "CREATE DATABASE shop; USE shop; CREATE TABLE big (id INT PRIMARY KEY, text LONGTEXT); \
         INSERT INTO big SELECT seq, REPEAT('x', 4000000) FROM seq_1_to_40",
    );
    let mut options = place.options("gentle");
    options.donor.gentle = true;
    options.donor.max_rate = Some(16 << 20);
    let run = place.run("backup");
    let notes = Arc::new(Notes::default());
    run.events.add(notes.clone());
    let waits_for = |words: &str, is_over: &dyn Fn() -> bool| {
        while !notes
            .0
            .lock()
            .unwrap()
            .iter()
            .any(|note| note.contains(words))
        {
            assert!(!is_over(), "{words}: {:?}", notes.0.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| backup(&options, &place.repository, &run));
        let is_over = || copy.is_finished();
        while run.progress.snapshot().source_done == 0 {
            assert!(!is_over());
            std::thread::sleep(SOON);
        }
        for _ in 0..30 {
            let mut conn = servers::connect(&place.server);
            scope.spawn(move || drop(conn.query("SELECT SLEEP(60)")));
        }
        waits_for("statements are running): the copy slows down", &is_over);
        let mut conn = servers::connect(&place.server);
        let end = conn.exec(
            "BEGIN NOT ATOMIC FOR one IN (SELECT id FROM information_schema.processlist \
             WHERE info LIKE 'SELECT SLEEP%') DO KILL one.id; END FOR; END",
        );
        end.unwrap();
        waits_for("back at full speed", &is_over);
        run.cancel.cancel(CancelReason::Failed("enough".to_owned()));
        copy.join().unwrap().unwrap_err();
    });
}

/// Everything is encrypted on the server's disk, and in the backup too.
// Hazard of files: P-20 encrypted tablespaces and redo log (MariaDB, keys in a file), and keys that
//   are missing, which is said before anything is fetched, or others
#[test]
fn an_encrypted_server_comes_back_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let keys = folder.path().join("keys");
    fs::write(&keys, format!("1;{}\n", "0123456789abcdef".repeat(4))).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    let with_keys = |kind| {
        servers::quick(kind)
            .option("plugin_load_add", "file_key_management")
            .option("file_key_management_filename", keys.to_str().unwrap())
    };
    // A server may encrypt a single table.
    let place = Place::with(&with_keys(KINDS[0]));
    place.sql("CREATE DATABASE shop; CREATE TABLE shop.one (id INT) ENGINE=InnoDB ENCRYPTED=YES");
    place.back_up("one").unwrap();
    let words = place.try_check().unwrap_err().to_string();
    assert!(
        words.contains("(shop/one), and a private server has no keys"),
        "{words}"
    );
    drop(place);
    for kind in KINDS {
        let options = with_keys(kind)
            .option("innodb_encrypt_tables", "FORCE")
            .option("innodb_encrypt_log", "ON");
        let mut place = Place::with(&options);
        let (row, count) = ("a row that nobody may read ", 2000);
        place.sql(&format!(
            "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, text VARCHAR(99)) ENGINE=InnoDB;
            INSERT INTO shop.t SELECT seq, CONCAT('{row}', seq) FROM shop.seq_1_to_{count}",
        ));
        let expected = place.snapshot();
        place.settle();
        let words = place.fails_with_a_flipped_bit("shop/t.ibd", 4 * (16 << 10) + 50, 0);
        assert!(words.to_ascii_lowercase().contains("corrupt"), "{words}");
        place.back_up("one").unwrap();
        place.sql("UPDATE shop.t SET text = 'gone'");
        // A private server would find damage where there is none.
        let words = place.try_check().unwrap_err().to_string();
        assert!(words.contains("a private server has no keys"), "{words}");
        // A rebuild asks its donor where they are.
        let rebuilding = RebuildOptions {
            donor: place.options("one").donor,
            program: PathBuf::from("refloat"),
            target: TargetOptions {
                datadir: folder.path().join("rebuilt"),
                ..place.restoring("one").target
            },
            replica: None,
            listen: Listen::Near,
            streams: 1,
            chosen: None,
        };
        rebuild::plan(&rebuilding).unwrap();
        let hidden = folder.path().join("hidden");
        fs::rename(&keys, &hidden).unwrap();
        let words = rebuild::plan(&rebuilding).unwrap_err().to_string();
        fs::rename(&hidden, &keys).unwrap();
        let needed = format!("{} here must hold the keys", keys.display());
        assert!(words.contains(&needed), "{words}");
        place.server.stop().unwrap();
        // Without its keys (none, another one, another number) nothing can be prepared, and the old
        // data stay.
        let (away, ibdata) = (
            folder.path().join("away"),
            place.server.datadir().join("ibdata1"),
        );
        let old = fs::metadata(&ibdata).unwrap().modified().unwrap();
        let planned = restore::plan(&place.restoring("one"), &place.repository);
        let building = planned.unwrap().building;
        fs::rename(&keys, &away).unwrap();
        let others = &[None, Some("1;"), Some("2;")];
        let others = if kind == KINDS[0] {
            &others[..]
        } else {
            &others[..1]
        };
        for other in others {
            if let Some(id) = *other {
                fs::write(&keys, format!("{id}{}\n", "fedcba9876543210".repeat(4))).unwrap();
                fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
            }
            let error = place.restore(&place.restoring("one")).unwrap_err();
            let words = refloat_host::chain(&error);
            let needed = format!("{} here must hold the keys", keys.display());
            assert!(words.contains(&needed), "{words}");
            let named = match *other {
                // Before anything is fetched.
                None => "(file_key_management_filename), and cannot be read: No such file",
                Some("1;") => "",
                Some(_) => "encryption key",
            };
            assert!(words.contains(named), "{words}");
            assert_eq!(building.exists(), other.is_some());
            assert_eq!(fs::metadata(&ibdata).unwrap().modified().unwrap(), old);
        }
        fs::rename(&away, &keys).unwrap();
        place.restore(&place.restoring("one")).unwrap();
        let file = fs::read(place.server.datadir().join("shop/t.ibd")).unwrap();
        let is_plain = file.windows(row.len()).any(|bytes| bytes == row.as_bytes());
        assert!(!is_plain);
        place.server.restart().unwrap();
        place.assert_holds(&expected);
    }
}

/// What changes when the server has shrunk an undo tablespace.
fn undo_tablespaces(conn: &mut Connection, kind: ServerKind) -> String {
    // On MySQL, a tablespace that was shrunk has another number.
    let sql = if kind == ServerKind::MySql97 {
        "SELECT GROUP_CONCAT(SPACE ORDER BY NAME) FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'Undo'"
    } else {
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_undo_truncations'"
    };
    let found = conn.query(sql).unwrap();
    found.str(0, 0).unwrap().to_owned()
}

/// Backs the server up. Returns whether it has shrunk an undo tablespace while files were copied.
fn shrinks_during_a_backup(place: &Place, kind: ServerKind, label: &str) -> bool {
    let run = place.run("backup");
    let mut conn = servers::connect(&place.server);
    std::thread::scope(|scope| {
        let backup = scope.spawn(|| backup(&place.options(label), &place.repository, &run));
        let mut seen = BTreeSet::new();
        while !backup.is_finished() {
            let copies = || {
                let now = run.progress.snapshot();
                now.phase == Phase::Data && now.source_done > 0
            };
            if copies() {
                let found = undo_tablespaces(&mut conn, kind);
                if copies() {
                    seen.insert(found);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        backup.join().unwrap().map_err(|(error, _)| error).unwrap();
        seen.len() > 1
    })
}

// Hazard of files: P-07 undo tablespaces that the server shrinks meanwhile
#[test]
fn undo_tablespaces_shrink_meanwhile() {
    for kind in [ServerKind::MariaDb118, ServerKind::MySql97] {
        let options = servers::quick(kind)
            .option("innodb_undo_log_truncate", "ON")
            .option("innodb_max_undo_log_size", "10M")
            .option("innodb_purge_rseg_truncate_frequency", "1");
        let mut place = Place::with(&options);
        if kind == ServerKind::MySql97 {
            place.sql("INSTALL PLUGIN clone SONAME 'mysql_clone.so'");
        }
        place.sql(
            "CREATE DATABASE shop; CREATE TABLE shop.sequence (id INT PRIMARY KEY); CREATE TABLE shop.copy (id INT PRIMARY KEY);
            CREATE TABLE shop.many (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(250)); INSERT INTO shop.many (text) VALUES (REPEAT('x', 250))",
        );
        for _ in 0..16 {
            place.sql("INSERT INTO shop.many (text) SELECT text FROM shop.many");
        }
        let (committed, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let label = std::thread::scope(|scope| {
            let _over = StopOnDrop(&over);
            scope.spawn(|| place.write_sequence(&[], &committed, &over));
            scope.spawn(|| {
                let mut conn = servers::connect(&place.server);
                while !over.load(Ordering::Relaxed) {
                    // About 17 MB of undo.
                    conn.exec("UPDATE shop.many SET text = REVERSE(CONCAT(id, RIGHT(text, 200)))")
                        .unwrap();
                }
            });
            let mut labels = (0..60).map(|attempt| format!("busy{attempt}"));
            labels.find(|label| shrinks_during_a_backup(&place, kind, label))
        });
        let label = label.expect("no undo tablespace was shrunk during a backup");
        let last = committed.load(Ordering::Relaxed) + 1;
        place.server.stop().unwrap();
        place.restore(&place.restoring(&label)).unwrap();
        place.server.restart().unwrap();
        let (numbers, found) = place.numbers(
            "SELECT COUNT(*), MAX(id), (SELECT COUNT(*) FROM shop.copy) FROM shop.sequence",
        );
        let is_one_moment = numbers.iter().all(|number| *number == numbers[0]);
        assert!(is_one_moment && numbers[0] <= last, "{kind}: {found}");
        place.assert_sound();
    }
}
