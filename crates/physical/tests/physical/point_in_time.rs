//! A backup and the binary logs behind it are the server at any later moment.

use std::fs;
use std::path::Path;
use std::time::Duration;

use refloat_physical::PhysicalError;
use refloat_physical::binlog::{ArchiveOptions, ArchiveOutcome, LogsPlace, PointInTime, archive};
use refloat_physical::restore::plan;
use refloat_repository::Journal;
use refloat_run::Refusal;
use refloat_sandbox::{ServerKind, StartOptions};
use refloat_testkit::servers;

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
USE shop;
INSERT INTO inno (text, at, raw) VALUES ('it''s /*!*/;', NOW(6), CHAR(0, 10, 13, 39, 92, 255)), ('ä€', NOW(6), REPEAT('x', 300));
UPDATE inno SET text = CONCAT(text, '!') WHERE id > 1;
CREATE TABLE made (id INT PRIMARY KEY, text TEXT DEFAULT NULL COMMENT 'a\\n/*!*/;\\nb');
DELIMITER //
CREATE TRIGGER made_on BEFORE INSERT ON made FOR EACH ROW BEGIN SET NEW.text = 'by /* the */ trigger'; END//
CREATE PROCEDURE hello() BEGIN SELECT '# at 4'; SELECT 2; END//
DELIMITER ;
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
        let told = self.ask(status);
        let words: Vec<&str> = told.split_whitespace().collect();
        format!("{}:{}", words[0], words[1])
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
        while clock() == begun {
            std::thread::yield_now();
        }
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
        let mut own = fs::read(folder.join(&file.name)).unwrap();
        // The flag that the file is open.
        own[4 + 17] &= !1;
        assert!(found == own, "{}: {} {}", file.name, found.len(), own.len());
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

/// Of the moments, all are restored in the long form only, and where that is quick.
fn a_server_comes_back_as_of_any_moment(kind: ServerKind) {
    let is_quick = kind == ServerKind::MariaDb1011;
    let is_long = is_quick || std::env::var_os("REFLOAT_KINDS").is_some();
    let mut place = begun(kind);
    place.sql(BEFORE);
    place.sql("FLUSH BINARY LOGS; INSERT INTO shop.inno (text) VALUES ('in the second file')");
    place.back_up("one").unwrap();
    let log = Log {
        place: &place,
        kind,
    };
    let first = log.archive(&log.options()).unwrap();
    assert!(first.bytes > 0 && first.damaged.is_empty(), "{first:?}");
    let early = log.next_second();
    log.next_second();
    place.sql(BEHIND);
    place.sql("FLUSH BINARY LOGS; INSERT INTO shop.other VALUES (5, 'last')");
    if log.is_mariadb() {
        place.sql("SET SESSION gtid_domain_id = 7; INSERT INTO shop.other VALUES (6, 'elsewhere')");
    }
    let (expected, gtids) = (place.snapshot(), log.gtids());
    log.archive(&log.options()).unwrap();
    let again = log.archive(&log.options()).unwrap();
    assert_eq!(again.bytes, 0, "{again:?}");
    let position = log.position();
    let time = log.next_second();
    place.sql("DROP TABLE shop.inno");
    let accident = log.gtid();
    let accident = accident.split(',').next().unwrap().to_owned();
    place.sql("FLUSH BINARY LOGS; CREATE TABLE shop.afterwards (id INT PRIMARY KEY); INSERT INTO shop.afterwards VALUES (1)");
    let (latest, all_gtids) = (place.snapshot(), log.gtids());
    let last = format!("after:{}", log.gtid().split(',').next().unwrap());
    // What no log says, and what needs it.
    place.sql("SET SESSION sql_log_bin = 0; CREATE TABLE shop.ghost (id INT PRIMARY KEY); SET SESSION sql_log_bin = 1; INSERT INTO shop.ghost VALUES (1)");
    let done = log.archive(&log.options()).unwrap();
    assert_eq!(format!("{}:{}", done.file, done.position), log.position());
    let named = done.name.clone();
    let is_mariadb = log.is_mariadb();
    let folder = place.folder.path().join("logs");
    copied(&place.server.datadir(), &folder);
    assert_archived(&place, &named, &folder);
    let programs = programs(&place.server, place.folder.path());
    place.server.stop().unwrap();

    let base = place.restoring("one");
    let restoring = |until: &str, logs: &LogsPlace| {
        let mut options = base.clone();
        options.until = Some(PointInTime {
            until: until.parse().unwrap(),
            logs: logs.clone(),
            programs: Some(programs.clone()),
        });
        options
    };
    let kept = LogsPlace::Archive(None);
    let files = LogsPlace::Folder(folder.clone());
    let refused =
        |until: &str, logs: &LogsPlace| reasons(plan(&restoring(until, logs), &place.repository));
    let beyond = "2100-01-01 00:00:00Z";
    assert!(refused(beyond, &kept).contains("do not reach up to"));
    let text = refused("2001-01-01 00:00:00Z", &files);
    assert!(text.contains("later than"), "{text}");
    let text = refused("binlog.000099:4", &files);
    assert!(text.contains("not in them"), "{text}");
    let (name, at) = position.split_once(':').unwrap();
    let within = format!("{name}:{}", at.parse::<u64>().unwrap() + 1);
    let text = refused(&within, &kept);
    assert!(text.contains("no transaction begins or ends"), "{text}");
    // A file is missing; the logs begin too late; one is damaged, or cut short.
    let gap = place.folder.path().join("gap");
    copied(&folder, &gap);
    let numbered = |number: u32| gap.join(format!("binlog.{number:06}"));
    let backed = fs::read_dir(&gap).unwrap().count() as u32 - 2;
    let kept_file = fs::read(numbered(backed + 1)).unwrap();
    fs::remove_file(numbered(backed + 1)).unwrap();
    let broken = LogsPlace::Folder(gap.clone());
    let text = refused("latest", &broken);
    assert!(text.contains("missing between"), "{text}");
    fs::write(numbered(backed + 1), &kept_file[..kept_file.len() - 100]).unwrap();
    let cut = plan(&restoring("latest", &broken), &place.repository).unwrap_err();
    assert!(cut.to_string().contains("within an event"), "{cut}");
    let mut flipped = kept_file.clone();
    flipped[kept_file.len() / 2] ^= 1;
    fs::write(numbered(backed + 1), &flipped).unwrap();
    let damaged = plan(&restoring("latest", &broken), &place.repository).unwrap_err();
    assert!(matches!(damaged, PhysicalError::Binlog { .. }), "{damaged}");
    // Another file under the name of the one of the backup.
    fs::copy(numbered(backed + 2), numbered(backed)).unwrap();
    let text = refused("latest", &broken);
    assert!(text.contains("where the backup was made"), "{text}");
    fs::remove_file(numbered(backed)).unwrap();
    fs::remove_file(numbered(backed + 1)).unwrap();
    let text = refused("latest", &broken);
    assert!(text.contains("is missing, at byte"), "{text}");

    let mut moments = vec![
        (accident.as_str(), &files, true),
        (position.as_str(), &kept, true),
        (time.as_str(), &kept, true),
        (last.as_str(), &files, false),
    ];
    if !is_long {
        moments.truncate(1);
    }
    for (until, logs, is_before) in moments {
        let options = restoring(until, logs);
        let told = plan(&options, &place.repository).unwrap().replay.unwrap();
        let restored = place.restore(&options).unwrap();
        let replayed = restored.replayed.unwrap();
        assert_eq!(replayed.end, told.end);
        place.server.restart().unwrap();
        let (expected, gtids) = if is_before {
            (&expected, &gtids)
        } else {
            (&latest, &all_gtids)
        };
        place.assert_holds(expected);
        let log = Log {
            place: &place,
            kind,
        };
        if is_mariadb {
            let sorted = |text: &str| {
                let mut words: Vec<String> = text.split(',').map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(
                sorted(&log.ask("SELECT @@GLOBAL.gtid_slave_pos")),
                sorted(gtids)
            );
            assert_eq!(sorted(&log.gtids()), sorted(gtids), "{until}");
        } else {
            assert_eq!(log.gtids(), *gtids, "{until}");
        }
        // Those that come continue them.
        place.sql("CREATE DATABASE IF NOT EXISTS continued");
        assert_ne!(log.gtids(), *gtids);
        place.server.stop().unwrap();
    }
    // What cannot be replayed is named, and nothing has changed.
    let mut options = restoring("latest", &kept);
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
    let stands = if is_long { &latest } else { &expected };
    place.sql("DROP DATABASE IF EXISTS continued");
    place.assert_holds(stands);
    place.server.stop().unwrap();
    // It begins again with the files of the backup, and not as another restore.
    options.until.as_mut().unwrap().until = position.parse().unwrap();
    assert!(reasons(place.restore(&options)).contains("unfinished restore"));
    if is_quick {
        options.until.as_mut().unwrap().until = "latest".parse().unwrap();
        let again = place.restore(&options).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
    }

    let options = restoring(&early, &kept);
    let nothing = plan(&options, &place.repository).unwrap().replay.unwrap();
    assert_eq!(nothing.transactions, 0, "{nothing:?}");

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
