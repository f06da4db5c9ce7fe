//! A MySQL server is copied over connections alone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use refloat_physical::PhysicalError;
use refloat_physical::backup::{BackupOptions, backup, plan};
use refloat_physical::binlog::{LogsPlace, PointInTime};
use refloat_repository::Repository;
use refloat_run::{CancelReason, Refusal};
use refloat_sandbox::{DEFAULT_SERVERS_DIR, ServerKind, StartOptions};
use refloat_store::storage::LocalFolder;
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::{SOON, servers, wait_until};
use refloat_wire::{ConnectOptions, SslMode};

use crate::common::Place;

const PLUGIN: &str = "INSTALL PLUGIN clone SONAME 'mysql_clone.so';";
/// Tables of every shape that files have.
const TABLES: &str = "\
CREATE DATABASE shop; USE shop; SET SESSION cte_max_recursion_depth = 100000;
CREATE TABLE inno (id INT PRIMARY KEY, text VARCHAR(200), KEY (text));
CREATE TABLE parts (id INT PRIMARY KEY, text VARCHAR(200)) PARTITION BY HASH (id) PARTITIONS 3;
CREATE TABLE squeezed (id INT PRIMARY KEY, text TEXT) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4;
CREATE TABLE large (id INT PRIMARY KEY, text TEXT) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=16;
CREATE TABLE holes (id INT PRIMARY KEY, text TEXT) COMPRESSION='zlib';
CREATE TABLE `a b/ä` (id INT PRIMARY KEY);
CREATE TABLESPACE common ADD DATAFILE 'common.ibd';
CREATE TABLE shared (id INT PRIMARY KEY) TABLESPACE common;
CREATE VIEW seen AS SELECT id FROM inno;
CREATE PROCEDURE hello() SELECT 1;
INSERT INTO inno WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) SELECT i, SHA2(i, 224) FROM n;
INSERT INTO parts SELECT * FROM inno WHERE id <= 5000;
INSERT INTO squeezed SELECT id, REPEAT(text, 5) FROM inno WHERE id <= 5000;
INSERT INTO large SELECT * FROM squeezed;
INSERT INTO holes SELECT * FROM squeezed;
INSERT INTO shared SELECT id FROM inno WHERE id <= 500;
INSERT INTO `a b/ä` VALUES (1);
";

fn place() -> Place {
    let options = servers::quick(ServerKind::MySql97).option("log_replica_updates", "OFF");
    filled(&options)
}

fn filled(options: &StartOptions) -> Place {
    let place = Place::with(options);
    place.sql(PLUGIN);
    place.sql(TABLES);
    place
}

#[test]
fn a_mysql_server_comes_back_as_it_was() {
    let mut place = place();
    let expected = place.snapshot();
    // Its file holds all of it then, and is not written to between the backups.
    place.sql("FLUSH TABLES shop.inno FOR EXPORT; UNLOCK TABLES");
    place.sql("CREATE TABLE shop.other (id INT PRIMARY KEY) ENGINE=MyISAM; INSERT INTO shop.other VALUES (1)");
    place.sql("INSERT INTO shop.shared VALUES (1000); DELETE FROM shop.shared WHERE id = 1000");
    let stood = place.server.query("SHOW BINARY LOG STATUS").unwrap();
    let plan = plan(
        &place.options("one"),
        &**place.repository.storage(),
        Some(&place.repository),
    )
    .unwrap();
    assert!(plan.bytes > 10 << 20, "{plan:?}");
    assert!(plan.warnings[0].contains("shop.other (MyISAM)"), "{plan:?}");
    let uuid = |place: &Place| place.server.query("SELECT @@server_uuid").unwrap();
    let old_uuid = uuid(&place);
    let first = place.back_up("one").unwrap();
    assert!(first.added > 0 && first.added < first.bytes, "{first:?}");
    assert!(first.about.as_ref().unwrap().lsn.checkpoint > 0);

    // A second one costs what has changed.
    let second = place.back_up("two").unwrap();
    let saved = second.known.saturating_sub(first.known);
    assert!(saved > 8 << 20, "{saved} {second:?}");
    place.repository.forget("two").unwrap();
    logs_of_a_replica_that_lack_what_it_receives_are_not_replayed(&place);
    let checked = place.check();
    let one = &checked.checked[0];
    assert!(checked.damaged.is_empty() && one.tables > 40, "{checked:?}");
    assert_eq!((one.unchecked.len(), one.left), (0, 0), "{checked:?}");

    place.sql("DROP DATABASE shop; DROP TABLESPACE common; CREATE DATABASE later");
    place.server.stop().unwrap();
    let restored = place.restore(&place.restoring("one")).unwrap();
    assert!(restored.aside.unwrap().join("later").exists());
    place.server.restart().unwrap();
    assert_ne!(uuid(&place), old_uuid, "two servers would be one");
    let other = place
        .server
        .query("SELECT COUNT(*) FROM shop.other")
        .unwrap();
    assert_eq!(other.trim(), "0", "it is there, and empty");
    place.sql("DROP TABLE shop.other");
    let status =
        "SELECT BINLOG_FILE, BINLOG_POSITION, GTID_EXECUTED FROM performance_schema.clone_status";
    let status = place.server.query(status).unwrap();
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&status), words(&stood));
    place.assert_holds(&expected);
    place.assert_sound();
    place.sql("INSERT INTO shop.inno VALUES (0, 'new'); CREATE TABLE shop.more LIKE shop.inno");
}

fn logs_of_a_replica_that_lack_what_it_receives_are_not_replayed(place: &Place) {
    place.sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1");
    place.back_up("replica").unwrap();
    place.sql("RESET REPLICA ALL");
    let mut options = place.restoring("replica");
    options.until = Some(PointInTime {
        until: "latest".parse().unwrap(),
        logs: LogsPlace::Archive(None),
        programs: None,
    });
    let Err(PhysicalError::Refused(against)) =
        refloat_physical::restore::plan(&options, &place.repository)
    else {
        panic!("it is not refused");
    };
    let text = Refusal::reasons(&against);
    assert!(text.contains("lack the changes that it received"), "{text}");
    place.repository.forget("replica").unwrap();
}

/// Rows of one session are a sequence. A backup holds its beginning, at least up to what was
/// committed before it began, whatever happens to tables meanwhile. `REFLOAT_DDL_BACKUPS` sets how
/// many backups are made.
// Hazard of files: P-05, P-07 rows and definitions that change meanwhile (tables created, renamed,
//   rebuilt, truncated and dropped; keys and columns added and dropped in place, columns also
//   INSTANT; partitions added, exchanged and merged; tablespaces and undo tablespaces created,
//   emptied and dropped) (MySQL, by its clone protocol)
#[test]
fn a_copy_is_of_one_moment_while_the_server_works() {
    let backups = std::env::var("REFLOAT_DDL_BACKUPS").map_or(1, |text| text.parse().unwrap());
    // It empties undo tablespaces at the next occasion.
    let options = servers::quick(ServerKind::MySql97)
        .option("log_replica_updates", "OFF")
        .option("innodb_purge_rseg_truncate_frequency", "1");
    let mut place = filled(&options);
    place.sql("CREATE TABLE shop.sequence (id INT PRIMARY KEY); CREATE TABLE shop.copy (id INT PRIMARY KEY)");
    let rounds = AtomicU64::new(0);
    for number in 0..backups {
        is_of_one_moment(&mut place, &format!("busy{number}"), &rounds);
    }
}

fn is_of_one_moment(place: &mut Place, label: &str, rounds: &AtomicU64) {
    place.sql(
        "USE shop; TRUNCATE TABLE sequence; TRUNCATE TABLE copy; DROP TABLE IF EXISTS parts, swapped, altered;
        CREATE TABLE parts (id INT PRIMARY KEY, text VARCHAR(200)) PARTITION BY HASH (id) PARTITIONS 3;
        INSERT INTO parts SELECT * FROM inno WHERE id <= 5000;
        CREATE TABLE swapped (id INT PRIMARY KEY, text VARCHAR(200));
        CREATE TABLE altered (id INT PRIMARY KEY, a INT);
        INSERT INTO altered SELECT id, id FROM inno WHERE id <= 3000",
    );
    let (committed, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (before, after) = std::thread::scope(|scope| {
        let _over = StopOnDrop(&over);
        scope.spawn(|| place.write_sequence(&[], &committed, &over));
        scope.spawn(|| changes_definitions(place, rounds, &over));
        scope.spawn(|| changes_undo_tablespaces(place, label, &over));
        wait_until("20 rows are committed", || {
            committed.load(Ordering::Relaxed) >= 20
        });
        let before = committed.load(Ordering::Relaxed);
        let mut options = place.options(label);
        options.donor.parallel = 4;
        // As long as all these definitions need.
        options.donor.max_rate = Some(64 << 20);
        backup(&options, &place.repository, &place.run("backup")).unwrap();
        (before, committed.load(Ordering::Relaxed) + 1)
    });
    place.server.stop().unwrap();
    place.restore(&place.restoring(label)).unwrap();
    place.server.restart().unwrap();
    place.assert_of_one_moment(before..=after);
    let altered = place
        .server
        .query("SELECT COUNT(*), SUM(a) FROM shop.altered");
    assert_eq!(altered.unwrap().trim(), "3000\t4501500");
    place.assert_sound();
}

/// Changes definitions until it is over. What a backup has kept of earlier rounds has other names.
fn changes_definitions(place: &Place, rounds: &AtomicU64, over: &AtomicBool) {
    let mut conn = servers::connect(&place.server);
    while !over.load(Ordering::Relaxed) {
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        for sql in [
            "CREATE TABLE shop.new{} SELECT id, text FROM shop.inno WHERE id < 2000",
            "ALTER TABLE shop.altered ADD COLUMN b INT DEFAULT 7 FIRST, ALGORITHM=INSTANT",
            "CREATE TABLESPACE made{} ADD DATAFILE 'made{}.ibd'",
            "RENAME TABLE shop.new{} TO shop.renamed{}",
            "ALTER TABLE shop.altered ADD INDEX i (a), ALGORITHM=INPLACE",
            "CREATE TABLE shop.within{} (id INT PRIMARY KEY) TABLESPACE made{} SELECT id FROM shop.renamed{}",
            "ALTER TABLE shop.squeezed FORCE",
            "ALTER TABLE shop.altered DROP COLUMN b, ALGORITHM=INSTANT",
            "ALTER TABLE shop.parts ADD PARTITION PARTITIONS 1",
            "ALTER TABLE shop.altered DROP INDEX i, ALGORITHM=INPLACE",
            "DROP TABLE shop.renamed{}, shop.within{}",
            "OPTIMIZE TABLE shop.altered",
            "ALTER TABLE shop.parts EXCHANGE PARTITION p0 WITH TABLE shop.swapped",
            "DROP TABLESPACE made{}",
            "ALTER TABLE shop.parts COALESCE PARTITION 1",
            "TRUNCATE TABLE shop.parts",
        ] {
            conn.query(sql.replace("{}", &round.to_string())).unwrap();
        }
    }
}

/// Makes undo tablespaces until it is over, and drops them when the server has emptied them.
fn changes_undo_tablespaces(place: &Place, label: &str, over: &AtomicBool) {
    let mut conn = servers::connect(&place.server);
    for round in 0.. {
        let name = format!("{label}_{round}");
        for sql in [
            format!("CREATE UNDO TABLESPACE {name} ADD DATAFILE '{name}.ibu'"),
            format!("ALTER UNDO TABLESPACE {name} SET INACTIVE"),
        ] {
            conn.exec(sql).unwrap();
        }
        let state = format!(
            "SELECT STATE FROM information_schema.INNODB_TABLESPACES WHERE NAME = '{name}'"
        );
        while conn.query_value(&state).unwrap().as_deref() != Some("empty") {
            if over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        conn.exec(format!("DROP UNDO TABLESPACE {name}")).unwrap();
        if over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Carries connections to a server. After so many bytes from there, all of them are cut.
struct Proxy {
    address: SocketAddr,
    cuts: Arc<AtomicU64>,
}

impl Proxy {
    fn start(server: SocketAddr, limits: &[u64]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = Arc::new(AtomicU64::new(0));
        let (passed, open) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let (limits, counted) = (limits.to_vec(), Arc::clone(&cuts));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(server).unwrap();
                let both = [&client, &server].map(|socket| socket.try_clone().unwrap());
                open.lock().unwrap().extend(both);
                let back = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut &client, &mut &server));
                let (limits, cuts) = (limits.clone(), Arc::clone(&counted));
                let (passed, open) = (Arc::clone(&passed), Arc::clone(&open));
                std::thread::spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(count @ 1..) = (&back.1).read(&mut buffer) {
                        let before = passed.fetch_add(count as u64, Ordering::SeqCst);
                        let now = before..before + count as u64;
                        if limits.iter().any(|limit| now.contains(limit)) {
                            cuts.fetch_add(1, Ordering::SeqCst);
                            for socket in open.lock().unwrap().drain(..) {
                                let _ = socket.shutdown(Shutdown::Both);
                            }
                        }
                        if (&back.0).write_all(&buffer[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = back.0.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, cuts }
    }
}

// Hazard of files: connections to a server that sends its files itself are lost
#[test]
fn a_copy_goes_on_when_its_connections_are_lost() {
    let mut place = place();
    let expected = place.snapshot();
    let direct = ConnectOptions::from_url(&place.server.url()).unwrap();
    let port = direct.port.unwrap();
    let limits = [30 << 20, 80 << 20];
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], port)), &limits);
    let mut options = place.options("cut");
    options.donor.parallel = 3;
    options.donor.source = ConnectOptions {
        port: Some(proxy.address.port()),
        ..direct
    };
    let done = backup(&options, &place.repository, &place.run("backup"));
    done.map_err(|(error, _)| refloat_host::chain(&error))
        .unwrap();
    assert_eq!(proxy.cuts.load(Ordering::SeqCst), 2);
    place.server.stop().unwrap();
    place.restore(&place.restoring("cut")).unwrap();
    place.server.restart().unwrap();
    place.assert_holds(&expected);
    place.assert_sound();
}

fn refused(place: &Place, user: &str) -> Vec<Refusal> {
    let mut options = place.options("refused");
    user.clone_into(&mut options.donor.source.user);
    refused_so(place, &options)
}

fn refused_so(place: &Place, options: &BackupOptions) -> Vec<Refusal> {
    match backup(options, &place.repository, &place.run("backup")) {
        Err((PhysicalError::Refused(against), _)) => against,
        other => panic!("{other:?}"),
    }
}

// Hazard of files: P-08 files outside the data directory, another copy in progress, a full
//   repository: named, and the server waits for nobody
#[test]
fn what_stands_against_a_copy_is_named() {
    let elsewhere = tempfile::tempdir_in(servers::cache().parent().unwrap()).unwrap();
    let folder = elsewhere.path().to_str().unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let options = servers::quick(ServerKind::MySql97).option("innodb_directories", folder);
    let place = Place::with(&options);
    place.sql(&format!(
        "CREATE USER poor@localhost; CREATE DATABASE shop; \
         CREATE TABLE shop.away (id INT PRIMARY KEY) DATA DIRECTORY='{folder}'"
    ));
    let text = Refusal::reasons(&refused(&place, "poor"));
    assert!(text.contains("does not have the clone plugin"), "{text}");
    assert!(text.contains("BACKUP_ADMIN"), "{text}");
    place.sql(PLUGIN);
    // What the account may not ask, the server tells when it begins.
    place.sql("GRANT BACKUP_ADMIN ON *.* TO poor@localhost");
    for user in ["root", "poor"] {
        let text = Refusal::reasons(&refused(&place, user));
        let expected = format!("{folder}/shop/away.ibd is outside");
        assert!(text.contains(&expected), "{text}");
    }
    place.sql("DROP TABLE shop.away");

    // One that is under way is not disturbed.
    let run = place.run("backup");
    let mut slow = place.options("slow");
    slow.donor.max_rate = Some(1 << 20);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| backup(&slow, &place.repository, &run));
        while run.progress.snapshot().source_done == 0 {
            assert!(!first.is_finished(), "{:?}", first.join());
            std::thread::sleep(SOON);
        }
        let text = Refusal::reasons(&refused(&place, "root"));
        assert!(text.contains("another copy"), "{text}");
        assert!(text.contains(", by root@"), "{text}");
        run.cancel.cancel(CancelReason::Failed("enough".to_owned()));
        let (error, _) = first.join().unwrap().unwrap_err();
        assert!(matches!(error, PhysicalError::Cancelled(_)), "{error}");
    });
    assert_eq!(place.repository.labels().unwrap(), Vec::<String>::new());
    // The donor does not wait for connections that do not come back.
    assert_free(&place);
    let small = SmallDisk::mount(16);
    let storage = Arc::new(LocalFolder::new(&small.path().join("repository")));
    let full = Repository::init(storage, None).unwrap();
    small.leave(0);
    let done = backup(&place.options("full"), &full, &place.run("backup"));
    let why = refloat_host::chain(&done.unwrap_err().0);
    assert!(why.contains("No space left on device"), "{why}");
    assert_eq!(full.labels().unwrap(), Vec::<String>::new());
    assert_free(&place);
}

/// Waits until a server sends its files to nobody. Those of lost connections it would wait for
/// during five minutes.
fn assert_free(place: &Place) {
    let begun = Instant::now();
    let under_way = "SELECT COUNT(*) FROM performance_schema.processlist WHERE COMMAND = 'clone'";
    while place.server.query(under_way).unwrap().trim() != "0" {
        assert!(begun.elapsed() < Duration::from_secs(60), "it waits");
        std::thread::sleep(Duration::from_millis(50));
    }
}

// Hazard of files: P-16 a page of a MySQL server that is damaged
#[test]
fn a_damaged_page_of_the_donor_makes_no_backup() {
    let mut place = place();
    for (name, page) in [
        ("inno", 16 << 10),
        ("squeezed", 4 << 10),
        ("large", 16 << 10),
        ("holes", 16 << 10),
    ] {
        let words = place.fails_with_a_damaged_page(name, page);
        let file = format!("wrong page checksums in shop/{name}.ibd (page ");
        assert!(words.contains(&file) && words.ends_with(')'), "{words}");
        assert!(place.repository.labels().unwrap().is_empty());
    }
    place.back_up("one").unwrap();
}

/// A server whose component for keys in a file is active. The manifest that names the component
/// must be beside the server's program, and its settings beside its library: so these lie in a
/// folder of their own.
fn with_a_keyring(folder: &Path) -> Place {
    let kind = ServerKind::MySql97;
    let real = Path::new(DEFAULT_SERVERS_DIR).join(kind.name()).join("usr");
    let tree = folder.join(kind.name()).join("usr");
    // Everything in a folder but what is made here.
    let linked = |within: &str, but: &[&str]| {
        fs::create_dir_all(tree.join(within)).unwrap();
        for entry in fs::read_dir(real.join(within)).unwrap() {
            let entry = entry.unwrap();
            if !but.iter().any(|name| entry.file_name() == *name) {
                symlink(entry.path(), tree.join(within).join(entry.file_name())).unwrap();
            }
        }
    };
    linked("", &["lib", "sbin"]);
    linked("lib", &["mysql"]);
    linked("lib/mysql/plugin", &[]);
    linked("sbin", &[]);
    let keys = folder.join("keys");
    let file = keys.join("keyring");
    fs::create_dir(&keys).unwrap();
    // A server makes it while it is still root, and could not write to it later.
    fs::write(&file, "").unwrap();
    for (path, mode) in [(folder, 0o755), (&*keys, 0o777), (&*file, 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let manifest = r#"{"components": "file://component_keyring_file"}"#;
    fs::write(tree.join("sbin/mysqld.my"), manifest).unwrap();
    let settings = format!(r#"{{"path": "{}", "read_only": false}}"#, file.display());
    let library = tree.join("lib/mysql/plugin/component_keyring_file.cnf");
    fs::write(library, settings).unwrap();
    let sandbox = servers::sandbox().with_servers_dir(folder);
    let server = sandbox.start_ephemeral(&servers::quick(kind)).unwrap();
    let scratch = tempfile::tempdir_in(server.folder()).unwrap();
    let storage = Arc::new(LocalFolder::new(&scratch.path().join("repository")));
    Place {
        server,
        folder: scratch,
        repository: Repository::init(storage, None).unwrap(),
        tool: PathBuf::new(),
    }
}

// Hazard of files: P-20 encrypted tablespaces and logs of a MySQL server (keys in a file): named,
//   and refused
#[test]
fn what_a_mysql_server_encrypts_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = with_a_keyring(folder.path());
    place.sql(PLUGIN);
    place.sql(
        "CREATE DATABASE shop; USE shop; CREATE TABLE secret (id INT PRIMARY KEY, text VARCHAR(99)) ENCRYPTION='Y';
        INSERT INTO secret WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i, SHA2(i, 224) FROM n;
        CREATE TABLESPACE hidden ADD DATAFILE 'hidden.ibd' ENCRYPTION='Y';
        CREATE TABLE within (id INT PRIMARY KEY) TABLESPACE hidden ENCRYPTION='Y'; INSERT INTO within SELECT id FROM secret;
        CREATE USER poor@localhost, poor@'127.0.0.1'; GRANT BACKUP_ADMIN ON *.* TO poor@localhost, poor@'127.0.0.1'",
    );
    let why = "is encrypted, and its key would be in the backup";
    let text = Refusal::reasons(&refused(&place, "root"));
    for name in ["shop/secret", "hidden"] {
        assert!(text.contains(&format!("{name} {why}")), "{text}");
    }
    // What the account may not ask, the server tells when it begins. It does so by the keys, and
    // sends these over TLS only.
    let text = Refusal::reasons(&refused(&place, "poor"));
    assert!(text.contains(&format!("of the server {why}")), "{text}");
    let mut options = place.options("refused");
    options.donor.source = ConnectOptions {
        user: "poor".to_owned(),
        ssl_mode: SslMode::Required,
        ..ConnectOptions::from_url(&place.server.url()).unwrap()
    };
    let text = Refusal::reasons(&refused_so(&place, &options));
    assert!(text.contains(&format!(".ibd {why}")), "{text}");
    assert_eq!(place.repository.labels().unwrap(), Vec::<String>::new());
    assert_free(&place);

    // Once they are decrypted, nothing of that is left.
    place.sql("ALTER TABLE shop.secret ENCRYPTION='N'; ALTER TABLESPACE hidden ENCRYPTION='N'");
    let expected = place.snapshot();
    place.back_up("one").unwrap();
    place.sql("DROP DATABASE shop");
    place.server.stop().unwrap();
    place.restore(&place.restoring("one")).unwrap();
    place.server.restart().unwrap();
    place.assert_holds(&expected);
    place.assert_sound();

    let logs = ["innodb_redo_log_encrypt", "innodb_undo_log_encrypt"];
    place.sql(&logs.map(|name| format!("SET GLOBAL {name} = ON;")).concat());
    let text = Refusal::reasons(&refused(&place, "root"));
    for name in logs {
        assert!(
            text.contains(&format!("what {name} writes {why}")),
            "{text}"
        );
    }
    // The redo log keeps its keys. Nothing tells that before it comes.
    place.sql(
        &logs
            .map(|name| format!("SET GLOBAL {name} = OFF;"))
            .concat(),
    );
    let text = Refusal::reasons(&refused(&place, "root"));
    assert!(text.contains(why), "{text}");
    assert_eq!(place.repository.labels().unwrap(), ["one"]);
    assert_free(&place);
}
