//! A backup and the binary logs behind it are the server at any later moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use refloat_physical::PhysicalError;
use refloat_physical::binlog::{ArchiveOptions, ArchiveOutcome, LogsPlace, PointInTime, archive};
use refloat_physical::restore::{RestoreOptions, plan};
use refloat_repository::Journal;
use refloat_run::Refusal;
use refloat_sandbox::{ServerKind, StartOptions};
use refloat_testkit::oracle::Snapshot;
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::common::{Place, programs};

/// What stands before the backup.
const BEFORE: &str = "\
CREATE DATABASE shop; USE shop;
CREATE TABLE inno (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(200), at DATETIME(6), raw VARBINARY(300));
CREATE TABLE other (id INT PRIMARY KEY, text VARCHAR(200)) CHARACTER SET latin1;
INSERT INTO inno (text) VALUES ('before');
";
/// What the logs bring: rows and statements, definitions, accounts, bytes of every kind, and text
/// that looks like the tool's own.
const BEHIND: &str = "\
CREATE DATABASE later; CREATE TABLE later.kept (id INT PRIMARY KEY);
USE shop;
INSERT INTO inno (text, at, raw) VALUES ('it''s /*!*/;', NOW(6), CHAR(0, 10, 13, 39, 92, 255)), ('ä€', NOW(6), REPEAT('x', 300));
UPDATE inno SET text = CONCAT(text, '!') WHERE id > 1;
CREATE TABLE made (id INT PRIMARY KEY, text TEXT DEFAULT NULL COMMENT 'a\\n/*!*/;\\nb');
DELIMITER //
CREATE TRIGGER made_on BEFORE INSERT ON made FOR EACH ROW BEGIN SET NEW.text = 'by /* the */ trigger'; END//
CREATE PROCEDURE hello() BEGIN SELECT '# at 4'; SELECT 2; END//
CREATE PROCEDURE half() BEGIN DECLARE CONTINUE HANDLER FOR 1062 BEGIN END; INSERT INTO halves VALUES (1), (2), (1), (3); END//
DELIMITER ;
CREATE TABLE halves (id INT PRIMARY KEY) ENGINE=MyISAM;
SET SESSION binlog_format = 'STATEMENT'; CALL half(); SET SESSION binlog_format = DEFAULT;
INSERT INTO made (id) VALUES (1), (2), (3);
CREATE USER later@localhost IDENTIFIED BY 'Secret-1';
GRANT SELECT ON shop.* TO later@localhost;
BEGIN; INSERT INTO other VALUES (1, 'kept'); SAVEPOINT one; INSERT INTO other VALUES (2, 'gone'); ROLLBACK TO one; COMMIT;
BEGIN; INSERT INTO other VALUES (3, 'never'); ROLLBACK;
SET NAMES latin1; INSERT INTO other VALUES (4, CONVERT(0xE4 USING latin1)); SET NAMES utf8mb4;
SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'; CREATE VIEW \"seen\" AS SELECT id, '\\' AS slash FROM inno; SET SESSION sql_mode = DEFAULT;
";

struct Log<'a> {
    place: &'a Place,
    kind: ServerKind,
}

impl Log<'_> {
    fn is_mariadb(&self) -> bool {
        self.kind != ServerKind::MySql97
    }

    fn ask(&self, sql: &str) -> String {
        self.place.server.query(sql).unwrap().trim().to_owned()
    }

    /// Where the log stands, as `FILE:POSITION`.
    fn position(&self) -> String {
        let status = if self.is_mariadb() {
            "SHOW MASTER STATUS"
        } else {
            "SHOW BINARY LOG STATUS"
        };
        let answer = self.ask(status);
        let words: Vec<&str> = answer.split_whitespace().collect();
        format!("{}:{}", words[0], words[1])
    }

    /// Waits until the log stands still. Behind a rotation, MariaDB's background thread writes one
    /// more event, a checkpoint of 40 bytes, when it comes to it.
    fn settles(&self) {
        if !self.is_mariadb() {
            return;
        }
        let file = self.position().split_once(':').unwrap().0.to_owned();
        // NAME POSITION Binlog_checkpoint SERVER END FILE, where FILE is the oldest one needed.
        let is_checkpoint = |line: &str| {
            let words: Vec<&str> = line.split('\t').collect();
            words[2] == "Binlog_checkpoint" && words[5] == file
        };
        wait_until("the checkpoint of the last rotation", || {
            let events = self.ask(&format!("SHOW BINLOG EVENTS IN '{file}'"));
            events.lines().any(is_checkpoint)
        });
    }

    /// All transactions.
    fn gtids(&self) -> String {
        let name = if self.is_mariadb() {
            "gtid_binlog_pos"
        } else {
            "gtid_executed"
        };
        self.ask(&format!("SELECT @@GLOBAL.{name}"))
    }

    /// The last transaction.
    fn gtid(&self) -> String {
        let all = self.gtids();
        match all.rsplit_once(':') {
            None => all,
            Some((uuid, range)) => {
                let last = range.rsplit_once('-').map_or(range, |(_, last)| last);
                format!("{uuid}:{last}")
            }
        }
    }

    /// Waits for the next second of the server's clock, and returns it.
    fn next_second(&self) -> String {
        let clock = || self.ask("SELECT UNIX_TIMESTAMP()").parse::<i64>().unwrap();
        let begun = clock();
        // Each question starts a client.
        wait_until("another second", || clock() != begun);
        refloat_run::moment(begun + 1).unwrap()
    }

    fn options(&self) -> ArchiveOptions {
        ArchiveOptions {
            source: servers::target(&self.place.server),
            name: None,
            once: true,
            interval: Duration::from_secs(5),
        }
    }

    fn archive(&self, options: &ArchiveOptions) -> Result<ArchiveOutcome, PhysicalError> {
        let run = self.place.run("binlog archive");
        archive(options, &self.place.repository, &run).map_err(|(error, _)| error)
    }
}

/// Compares every file of the archive with the server's own.
fn assert_archived(place: &Place, name: &str, folder: &Path) {
    let journal = Journal::new(&place.repository, name).unwrap();
    let files = journal.files().unwrap();
    assert!(files.len() > 2, "{files:?}");
    for file in files {
        let mut found = Vec::new();
        let mut reader = journal.read(&file).unwrap();
        std::io::Read::read_to_end(&mut reader, &mut found).unwrap();
        let mut kept = fs::read(folder.join(&file.name)).unwrap();
        // The flag that the file is open.
        kept[4 + 17] &= !1;
        assert!(
            found == kept,
            "{}: {} {}",
            file.name,
            found.len(),
            kept.len()
        );
    }
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        // MariaDB 11.8 has an index beside each of them.
        if name.starts_with("binlog.0") && !name.ends_with("idx") {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

fn reasons(result: Result<impl std::fmt::Debug, PhysicalError>) -> String {
    match result {
        Err(PhysicalError::Refused(against)) => Refusal::reasons(&against),
        other => panic!("{other:?}"),
    }
}

fn begun(kind: ServerKind) -> Place {
    let mut options: StartOptions = servers::quick(kind).option("log_bin", "binlog");
    if kind == ServerKind::MySql97 {
        options = options
            .option("gtid_mode", "ON")
            .option("enforce_gtid_consistency", "ON");
    }
    let place = Place::with(&options);
    if kind == ServerKind::MySql97 {
        place.sql("INSTALL PLUGIN clone SONAME 'mysql_clone.so'");
    }
    place
}

/// What a server has lived through, and where that stands in its logs.
struct Life {
    /// Before anything of the logs.
    early: String,
    /// Before the accident: all that it holds, and all transactions.
    before: (Snapshot, String),
    position: String,
    time: String,
    accident: String,
    /// Behind the accident.
    behind: (Snapshot, String),
    last: String,
    archive: String,
}

fn live(place: &Place, kind: ServerKind) -> Life {
    place.sql(BEFORE);
    place.sql("FLUSH BINARY LOGS; INSERT INTO shop.inno (text) VALUES ('in the second file')");
    // Rows that are replayed twice, or not, would be noticed.
    place.sql("CREATE TABLE shop.sequence (id INT PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE shop.copy (id INT PRIMARY KEY) ENGINE=InnoDB");
    let (committed, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| place.write_sequence(&[], &committed, &over));
        let done = place.back_up("one");
        over.store(true, Ordering::Relaxed);
        done
    });
    done.unwrap();
    let log = Log { place, kind };
    let first = log.archive(&log.options()).unwrap();
    assert!(first.bytes > 0 && first.damaged.is_empty(), "{first:?}");
    let early = log.next_second();
    log.next_second();
    place.sql(BEHIND);
    place.sql("FLUSH BINARY LOGS; INSERT INTO shop.other VALUES (5, 'last')");
    if log.is_mariadb() {
        place.sql("SET SESSION gtid_domain_id = 7; INSERT INTO shop.other VALUES (6, 'elsewhere')");
    }
    let before = (place.snapshot(), log.gtids());
    log.settles();
    log.archive(&log.options()).unwrap();
    let again = log.archive(&log.options()).unwrap();
    assert_eq!(again.bytes, 0, "{again:?}");
    let position = log.position();
    let time = log.next_second();
    place.sql("DROP TABLE shop.inno");
    let first_domain = || log.gtid().split(',').next().unwrap().to_owned();
    let accident = first_domain();
    place.sql("FLUSH BINARY LOGS; CREATE TABLE shop.afterwards (id INT PRIMARY KEY); INSERT INTO shop.afterwards VALUES (1)");
    let behind = (place.snapshot(), log.gtids());
    let last = format!("after:{}", first_domain());
    // What no log says, and what needs it.
    place.sql("SET SESSION sql_log_bin = 0; CREATE TABLE shop.ghost (id INT PRIMARY KEY); SET SESSION sql_log_bin = 1; INSERT INTO shop.ghost VALUES (1)");
    log.settles();
    let done = log.archive(&log.options()).unwrap();
    assert_eq!(format!("{}:{}", done.file, done.position), log.position());
    Life {
        early,
        before,
        position,
        time,
        accident,
        behind,
        last,
        archive: done.name,
    }
}

/// Restores of the backup.
struct Restores {
    base: RestoreOptions,
    programs: PathBuf,
}

impl Restores {
    fn until(&self, until: &str, logs: &LogsPlace) -> RestoreOptions {
        let mut options = self.base.clone();
        options.until = Some(PointInTime {
            until: until.parse().unwrap(),
            logs: logs.clone(),
            programs: Some(self.programs.clone()),
        });
        options
    }

    fn refused(&self, place: &Place, until: &str, logs: &LogsPlace) -> String {
        reasons(plan(&self.until(until, logs), &place.repository))
    }
}

/// Moments that the logs do not reach or that do not exist, and logs that are not whole.
fn what_does_not_fit_is_refused(place: &Place, restores: &Restores, life: &Life, folder: &Path) {
    let kept = LogsPlace::Archive(None);
    let files = LogsPlace::Folder(folder.to_owned());
    let refused = |until: &str, logs: &LogsPlace| restores.refused(place, until, logs);
    assert!(refused("2100-01-01 00:00:00Z", &kept).contains("do not reach up to"));
    let text = refused("2001-01-01 00:00:00Z", &files);
    assert!(text.contains("was started at"), "{text}");
    let text = refused("binlog.000099:4", &files);
    assert!(text.contains("not in them"), "{text}");
    let (name, at) = life.position.split_once(':').unwrap();
    let within = format!("{name}:{}", at.parse::<u64>().unwrap() + 1);
    let text = refused(&within, &kept);
    assert!(text.contains("no transaction begins or ends"), "{text}");

    // A file is missing; one is cut short, damaged, or another one; they begin too late.
    let broken = place.folder.path().join("broken");
    copied(folder, &broken);
    let numbered = |number: u32| broken.join(format!("binlog.{number:06}"));
    let backed = fs::read_dir(&broken).unwrap().count() as u32 - 2;
    let logs = LogsPlace::Folder(broken.clone());
    let next = fs::read(numbered(backed + 1)).unwrap();
    fs::remove_file(numbered(backed + 1)).unwrap();
    let text = refused("latest", &logs);
    assert!(text.contains("missing between"), "{text}");
    let failed = || plan(&restores.until("latest", &logs), &place.repository).unwrap_err();
    fs::write(numbered(backed + 1), &next[..next.len() - 100]).unwrap();
    let error = failed();
    assert!(
        error.to_string().contains("in the middle of an event"),
        "{error}"
    );
    let mut flipped = next.clone();
    flipped[next.len() / 2] ^= 1;
    fs::write(numbered(backed + 1), &flipped).unwrap();
    let error = failed();
    assert!(matches!(error, PhysicalError::Binlog { .. }), "{error}");
    fs::copy(numbered(backed + 2), numbered(backed)).unwrap();
    let text = refused("latest", &logs);
    assert!(text.contains("the backup was made"), "{text}");
    fs::remove_file(numbered(backed)).unwrap();
    fs::remove_file(numbered(backed + 1)).unwrap();
    let text = refused("latest", &logs);
    assert!(
        text.contains("is missing, and the backup was made at byte"),
        "{text}"
    );
}

/// Restores up to a moment, and compares all that the server holds, and its transactions.
fn comes_back(
    (place, kind): (&mut Place, ServerKind),
    options: &RestoreOptions,
    (expected, gtids): &(Snapshot, String),
) {
    let planned = plan(options, &place.repository).unwrap().replay.unwrap();
    let replayed = place.restore(options).unwrap().replayed.unwrap();
    assert_eq!(replayed.end, planned.end);
    place.server.restart().unwrap();
    place.assert_holds(expected);
    let log = Log { place, kind };
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split(',').map(str::to_owned).collect();
        words.sort();
        words
    };
    assert_eq!(sorted(&log.gtids()), sorted(gtids));
    if log.is_mariadb() {
        let replica = log.ask("SELECT @@GLOBAL.gtid_slave_pos");
        assert_eq!(sorted(&replica), sorted(gtids));
    }
    // Those that come continue them.
    place.sql("CREATE DATABASE continued");
    assert_ne!(log.gtids(), *gtids);
    place.sql("DROP DATABASE continued");
    place.server.stop().unwrap();
}

/// The statement that fails is named, and the data directory is as it was.
fn what_cannot_be_replayed_is_named(
    place: &mut Place,
    restores: &Restores,
    (life, stands, is_quick): (&Life, &Snapshot, bool),
) {
    let mut options = restores.until("latest", &LogsPlace::Archive(None));
    let error = place.restore(&options).unwrap_err();
    let PhysicalError::Replay {
        file, at, source, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(file.starts_with("binlog.0") && *at > 4, "{error}");
    assert!(source.to_string().contains("ghost"), "{source}");
    place.server.restart().unwrap();
    place.assert_holds(stands);
    place.server.stop().unwrap();
    // It begins again with the files of the backup, and not as another restore.
    options.until.as_mut().unwrap().until = life.position.parse().unwrap();
    assert!(reasons(place.restore(&options)).contains("unfinished restore"));
    if is_quick {
        options.until.as_mut().unwrap().until = "latest".parse().unwrap();
        let again = place.restore(&options).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
    }
}

/// All moments are restored in the long form only, and where that is quick.
fn a_server_comes_back_as_of_any_moment(kind: ServerKind) {
    let is_quick = kind == ServerKind::MariaDb1011;
    let is_long = is_quick || std::env::var_os("REFLOAT_KINDS").is_some();
    let mut place = begun(kind);
    let life = live(&place, kind);
    let folder = place.folder.path().join("logs");
    copied(&place.server.datadir(), &folder);
    assert_archived(&place, &life.archive, &folder);
    let restores = Restores {
        programs: programs(&place.server, place.folder.path()),
        base: place.restoring("one"),
    };
    place.server.stop().unwrap();
    what_does_not_fit_is_refused(&place, &restores, &life, &folder);
    let kept = LogsPlace::Archive(None);
    let files = LogsPlace::Folder(folder);
    let mut moments = vec![
        (&life.accident, &files, &life.before),
        (&life.position, &kept, &life.before),
        (&life.time, &kept, &life.before),
        (&life.last, &files, &life.behind),
    ];
    if !is_long {
        moments.truncate(1);
    }
    let stands = &moments[moments.len() - 1].2.0;
    for (until, logs, expected) in &moments {
        let options = restores.until(until, logs);
        comes_back((&mut place, kind), &options, expected);
    }
    what_cannot_be_replayed_is_named(&mut place, &restores, (&life, stands, is_quick));
    let [few, more] = [&life.early, &life.time].map(|until| {
        let options = restores.until(until, &kept);
        plan(&options, &place.repository).unwrap().replay.unwrap()
    });
    // What was committed while the backup was made, after its moment.
    assert!(few.transactions < more.transactions, "{few:?} {more:?}");

    // The restored server has another history: its logs do not continue those that are kept.
    place.server.restart().unwrap();
    let log = Log {
        place: &place,
        kind,
    };
    let text = reasons(log.archive(&log.options()));
    assert!(text.contains("archive"), "{text}");
}

#[test]
fn a_mariadb_10_11_comes_back_as_of_any_moment() {
    a_server_comes_back_as_of_any_moment(ServerKind::MariaDb1011);
}

#[test]
fn a_mariadb_11_8_comes_back_as_of_any_moment() {
    a_server_comes_back_as_of_any_moment(ServerKind::MariaDb118);
}

#[test]
fn a_mysql_comes_back_as_of_any_moment() {
    a_server_comes_back_as_of_any_moment(ServerKind::MySql97);
}
